# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.engine.definitions import AliasQueue, LocalQueue, ModelQueue, NameList, Process, RemoteQueue
from entrepot.server.mqsc import Answer, run_script
from entrepot.server.mqsc.display import matches
from folding import for_each

from .in_memory import InMemoryManager


@pytest.fixture
def manager() -> InMemoryManager:
    manager = InMemoryManager(
        LocalQueue(name="ORDERS", depth_max=10, description="Orders", trigger_enabled=True),
        LocalQueue(name="REPLIES", put_enabled=False),
        LocalQueue(name="AMQ.1", dynamic="TEMPORARY"),
        ModelQueue(name="MODEL"),
        AliasQueue(name="O", target="ORDERS"),
        RemoteQueue(name="FAR", remote_queue="NEAR"),
        Process(name="P", application_id="run me"),
        NameList(name="N", names=("ORDERS", "REPLIES")),
    )
    manager.depths["ORDERS"] = 3
    return manager


def only(manager: InMemoryManager, text: str) -> Answer:
    (answer,) = run_script(text, manager)
    assert answer.ok, answer.lines
    return answer


def names(manager: InMemoryManager, text: str) -> list[object]:
    return [row["QUEUE"] for row in only(manager, text).rows]


def test_full_name_shows_everything(manager: InMemoryManager) -> None:
    (row,) = only(manager, "DISPLAY QLOCAL(ORDERS)").rows
    assert row["MAXDEPTH"] == 10
    assert row["DESCR"] == "Orders"
    assert row["TRIGGER"] == "YES"
    assert row["CURDEPTH"] == 3
    assert row["DEFTYPE"] == "PREDEFINED"


def test_pattern_alone_shows_names_and_types(manager: InMemoryManager) -> None:
    assert only(manager, "DIS Q(*)").rows == (
        {"QUEUE": "AMQ.1", "TYPE": "QLOCAL"},
        {"QUEUE": "FAR", "TYPE": "QREMOTE"},
        {"QUEUE": "MODEL", "TYPE": "QMODEL"},
        {"QUEUE": "O", "TYPE": "QALIAS"},
        {"QUEUE": "ORDERS", "TYPE": "QLOCAL"},
        {"QUEUE": "REPLIES", "TYPE": "QLOCAL"},
    )


def test_pattern_with_all_shows_everything(manager: InMemoryManager) -> None:
    (row,) = only(manager, "DIS QL(ORD*) ALL").rows
    assert row["PUT"] == "ENABLED"


def test_keywords_choose_what_is_shown_in_their_order(manager: InMemoryManager) -> None:
    (row,) = only(manager, "DIS QL(ORDERS) MAXDEPTH CURDEPTH").rows
    assert list(row) == ["QUEUE", "TYPE", "MAXDEPTH", "CURDEPTH"]


def test_keyword_is_left_out_of_queues_that_do_not_have_it(manager: InMemoryManager) -> None:
    rows = only(manager, "DIS Q(O*) MAXDEPTH").rows
    assert [row.get("MAXDEPTH") for row in rows] == [None, 10]


def test_synonym_shows_the_keyword_it_stands_for(manager: InMemoryManager) -> None:
    assert only(manager, "DIS QA(O) TARGQ").rows == ({"QUEUE": "O", "TYPE": "QALIAS", "TARGET": "ORDERS"},)


def test_type_selects_one_kind_of_queue(manager: InMemoryManager) -> None:
    assert names(manager, "DIS QUEUE(*) TYPE(QALIAS)") == ["O"]
    assert len(names(manager, "DIS QUEUE(*) TYPE(ALL)")) == 6


@for_each(
    ("condition", "expected"),
    [
        ("CURDEPTH GT 0", ["ORDERS"]),
        ("CURDEPTH LE 0", ["AMQ.1", "REPLIES"]),
        ("MAXDEPTH LT 5000", ["ORDERS"]),
        ("MAXDEPTH NE 5000", ["ORDERS"]),
        ("MAXDEPTH GE 5000", ["AMQ.1", "MODEL", "REPLIES"]),
        ("PUT EQ disabled", ["REPLIES"]),
        ("PUT EQ 'disabled'", ["REPLIES"]),
        ("TRIGGER EQ TRIGGER", ["ORDERS"]),
        ("TRIGGER EQ NOTRIGGER", ["AMQ.1", "MODEL", "REPLIES"]),
        ("DEFTYPE EQ TEMPDYN", ["AMQ.1", "MODEL"]),
        ("DESCR LK 'Ord*'", ["ORDERS"]),
        ("DESCR NE ' '", ["ORDERS"]),
        ("QUEUE NL *R*", ["AMQ.1", "MODEL", "O"]),
        ("TYPE EQ QREMOTE", ["FAR"]),
    ],
)
def test_where_selects_queues(manager: InMemoryManager, condition: str, expected: list[str]) -> None:
    assert names(manager, f"DIS QUEUE(*) WHERE({condition})") == expected


@pytest.mark.parametrize(("condition", "count"), [("CT ORDERS", 1), ("EX ORDERS", 0), ("EX X", 1), ("LK R*", 1)])
def test_where_looks_into_lists(manager: InMemoryManager, condition: str, count: int) -> None:
    assert len(only(manager, f"DIS NL(*) WHERE(NAMES {condition})").rows) == count


def test_lists_are_lists_in_rows(manager: InMemoryManager) -> None:
    assert only(manager, "DIS NL(N) NAMES").rows == ({"NAMELIST": "N", "NAMES": ["ORDERS", "REPLIES"]},)


def test_display_qmgr_shows_the_manager(manager: InMemoryManager) -> None:
    assert only(manager, "DIS QMGR DEADQ").rows == ({"QMNAME": "TEST", "DEADQ": "SYSTEM.DEAD.LETTER.QUEUE"},)
    assert only(manager, "DIS QMGR").rows[0]["MAXUMSGS"] == 10_000


def test_display_of_people_has_two_columns_and_switches_without_parentheses(manager: InMemoryManager) -> None:
    assert only(manager, "DIS QL(ORDERS) TRIGGER HARDENBO BOQNAME").lines == [
        "Local queue ORDERS:",
        "   QUEUE(ORDERS)                           TYPE(QLOCAL)",
        "   TRIGGER                                 HARDENBO",
        "   BOQNAME( )",
    ]


def test_qstatus_shows_what_the_manager_knows_of_local_queues(manager: InMemoryManager) -> None:
    rows = only(manager, "DIS QS(*) WHERE(CURDEPTH GT 0)").rows
    assert rows == (
        {
            "QUEUE": "ORDERS",
            "TYPE": "QUEUE",
            "CURDEPTH": 3,
            "IPPROCS": 0,
            "OPPROCS": 1,
            "MSGAGE": 1.5,
            "LPUTDATE": "",
        },
    )
    assert only(manager, "DIS QSTATUS(ORDERS) TYPE(QUEUE) MSGAGE").rows[0]["MSGAGE"] == 1.5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("DIS QS(*) CURDPTH", "line 1, column 11: CURDPTH is no keyword of QSTATUS (did you mean CURDEPTH?)"),
        ("DIS QS(*) WHERE(AGE GT 1)", "line 1, column 17: AGE is no keyword of QSTATUS"),
        ("DIS QS(*) WHERE(MSGAGE GT old)", "line 1, column 27: MSGAGE is a number, OLD is none"),
    ],
)
def test_wrong_qstatus_is_an_error_with_its_place(manager: InMemoryManager, text: str, problem: str) -> None:
    (answer,) = run_script(text, manager)
    assert answer.error is not None
    assert problem in answer.error.what


def test_queue_that_vanishes_meanwhile_is_left_out(manager: InMemoryManager) -> None:
    manager.vanishing.add("AMQ.1")
    assert names(manager, "DIS QL(*) CURDEPTH") == ["ORDERS", "REPLIES"]
    assert names(manager, "DIS QS(*)") == ["ORDERS", "REPLIES"]


def test_missing_name_is_an_error_and_an_idle_pattern_is_none(manager: InMemoryManager) -> None:
    (answer,) = run_script("DIS QL(NONE)", manager)
    assert answer.error is not None
    assert "column 8: ObjectNotFound [Q13 2085]: there is no QLOCAL NONE" in answer.error.what
    assert only(manager, "DIS QL(NONE*)").lines == [
        "No QLOCAL matches.",
    ]


def test_attribute_without_effect_is_warned_about_and_not_shown(manager: InMemoryManager) -> None:
    answer = only(manager, "DIS QL(ORDERS) SHARE CMDSCOPE(' ') PUT")
    assert answer.warnings == (
        "SHARE: without effect here, so it is not shown",
        "CMDSCOPE: without effect here, so it is not shown",
    )
    assert list(answer.rows[0]) == ["QUEUE", "TYPE", "PUT"]


@given(st.text(alphabet="ab*", max_size=8), st.text(alphabet="ab", max_size=12))
def test_asterisk_stands_for_any_characters_wherever_it_is(pattern: str, text: str) -> None:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    assert matches(pattern, text) == bool(re.fullmatch(expression, text))
