# SPDX-License-Identifier: Apache-2.0
"""Commands that act on what runs, and what DISPLAY says of it."""

from __future__ import annotations

import pytest

from entrepot.engine.definitions import Channel, Listener, SubscriptionDefinition
from entrepot.errors import MqscCommandFailed
from entrepot.server.mqsc import Answer, run_script
from entrepot.server.mqsc.running import RUNNING
from folding import for_each

from .in_memory import InMemoryManager


@pytest.fixture
def manager() -> InMemoryManager:
    manager = InMemoryManager(
        Channel(name="TO.B", channel_type="SDR", connection_name="b", transmission_queue="B"),
        Channel(name="FROM.B", channel_type="RCVR"),
        Channel(name="APP"),
        Listener(name="L"),
        SubscriptionDefinition(name="idle one", topic="x", managed=True),
    )
    manager.rows = {
        "CHSTATUS": [
            {"CHANNEL": "TO.B", "CHLTYPE": "SDR", "STATUS": "RUNNING", "MSGS": 7, "OURS": 1},
            {"CHANNEL": "APP", "CHLTYPE": "SVRCONN", "STATUS": "RUNNING", "MSGS": 2, "CONNAME": "10.0.0.1"},
            {"CHANNEL": "APP", "CHLTYPE": "SVRCONN", "STATUS": "STOPPING", "MSGS": 0, "CONNAME": "10.0.0.2"},
        ],
        "LSSTATUS": [{"LISTENER": "L", "STATUS": "RUNNING", "PORT": 1414, "CONNS": 2}],
        "TPSTATUS": [
            {"TOPICSTR": "", "ADMIN": "SYSTEM.BASE.TOPIC", "RETAINED": "NO", "SUBCOUNT": 0},
            {"TOPICSTR": "price/gold", "ADMIN": "", "RETAINED": "YES", "SUBCOUNT": 2},
            {"TOPICSTR": "price/silver", "ADMIN": "", "RETAINED": "NO", "SUBCOUNT": 0},
            {"TOPICSTR": "price/gold/old", "ADMIN": "", "RETAINED": "NO", "SUBCOUNT": 1},
        ],
        "SBSTATUS": [
            {"SUB": "gold", "TOPICSTR": "price/gold", "DURABLE": "YES", "SUBTYPE": "ADMIN", "NUMMSGS": 3},
            {"SUB": "Gold", "TOPICSTR": "price/#", "DURABLE": "NO", "SUBTYPE": "API", "NUMMSGS": 0},
        ],
        "PUBSUB": [
            {"TYPE": "PARENT", "QMNAME": "ABOVE", "STATUS": "STARTING"},
            {"TYPE": "LOCAL", "QMNAME": "TEST", "STATUS": "ACTIVE"},
        ],
        "CONN": [{"CONN": "00ab", "CHANNEL": "APP", "USERID": "ann"}, {"CONN": "00cd", "CHANNEL": "APP"}],
    }
    return manager


def only(manager: InMemoryManager, text: str) -> Answer:
    (answer,) = run_script(text, manager)
    assert answer.ok, answer.lines
    return answer


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("START CHANNEL(TO.B)", ("start", "CHANNEL", "TO.B")),
        ("STA CHL(APP)", ("start", "CHANNEL", "APP")),
        ("START LISTENER(L)", ("start", "LISTENER", "L")),
        ("STOP CHANNEL(TO.B)", ("stop", "CHANNEL", "TO.B", False, False)),
        ("STOP CHANNEL(TO.B) MODE(QUIESCE) STATUS(STOPPED)", ("stop", "CHANNEL", "TO.B", False, False)),
        ("STOP CHANNEL(TO.B) STATUS(INACTIVE) MODE(FORCE)", ("stop", "CHANNEL", "TO.B", True, True)),
        ("STOP LISTENER(L)", ("stop", "LISTENER", "L", False, False)),
        ("STOP CONN(00AB)", ("stop", "CONN", "00ab", False, False)),
        ("STOP CONN('10.0.0.1:99')", ("stop", "CONN", "10.0.0.1:99", False, False)),
        ("RESET CHANNEL(FROM.B) SEQNUM(12)", ("reset", "FROM.B", 12)),
        ("RESET CHANNEL(TO.B)", ("reset", "TO.B", 1)),
        ("RESOLVE CHANNEL(TO.B) ACTION(COMMIT)", ("resolve", "TO.B", True)),
        ("RESOLVE CHANNEL(TO.B) ACTION(BACKOUT)", ("resolve", "TO.B", False)),
    ],
)
def test_command_reaches_the_manager(manager: InMemoryManager, text: str, done: tuple[object, ...]) -> None:
    answer = only(manager, text)
    assert manager.done == [done]
    assert answer.lines[0].endswith("accepted.")


def test_ping_tells_what_it_found(manager: InMemoryManager) -> None:
    assert only(manager, "PING CHANNEL(TO.B)").lines == ["TO.B answers in 1 ms."]


@for_each(
    ("text", "column", "problem"),
    [
        ("START CHANNEL(NONE)", 15, "there is no CHANNEL NONE"),
        ("STOP LISTENER(NONE)", 15, "there is no LISTENER NONE"),
        ("PING CHANNEL(APP)", 14, "PING goes with CHLTYPE SDR, APP has SVRCONN"),
        ("RESET CHANNEL(APP)", 15, "RESET goes with CHLTYPE SDR or RCVR, APP has SVRCONN"),
        ("RESOLVE CHANNEL(FROM.B) ACTION(COMMIT)", 17, "RESOLVE goes with CHLTYPE SDR, FROM.B has RCVR"),
        ("DISPLAY CHSTATUS(NONE)", 18, "there is no CHANNEL NONE"),
        ("DISPLAY CHSTATUS(*) MSG", 21, "MSG is no keyword of CHSTATUS (did you mean MSGS?)"),
        ("DISPLAY CONN(*) WHERE(MSGS GT 1)", 23, "MSGS is no keyword of CONN"),
        ("DISPLAY CHSTATUS(*) WHERE(MSGS GT many)", 35, "MSGS is a number, MANY is none"),
        ("DISPLAY SBSTATUS('none')", 18, "there is no SUB none"),
        ("DISPLAY SBSTATUS('')", 18, "'' is no valid name for a subscription. It has 1 to 1024 characters"),
        ("DISPLAY SBSTATUS(*) SUBTYPE(NONE)", 21, "SUBTYPE of SBSTATUS takes ADMIN, API, PROXY or ALL"),
        ("DISPLAY TPSTATUS", 9, "TPSTATUS needs a name in parentheses"),
        ("DISPLAY TPSTATUS('a\tb')", 18, "TPSTATUS, column 2: a topic cannot have the character U+0009"),
        ("DISPLAY TPSTATUS('#') SUBCONT", 23, "SUBCONT is no keyword of TPSTATUS (did you mean SUBCOUNT?)"),
        ("DISPLAY PUBSUB(QM1)", 9, "PUBSUB takes no name: it shows all queue managers"),
        ("DISPLAY PUBSUB TYPE(OTHER)", 16, "TYPE of PUBSUB takes LOCAL, PARENT, CHILD or ALL"),
        ("CLEAR TOPICSTR('a')", 1, "CLEAR TOPICSTR needs CLRTYPE: RETAINED"),
        ("CLEAR TOPICSTR('a') CLRTYPE(ALL)", 29, "CLRTYPE takes RETAINED, not ALL"),
        ("CLEAR TOPICSTR('a/#') CLRTYPE(RETAINED)", 16, "TOPICSTR, column 3: # alone as a level is a wildcard"),
        ("CLEAR TOPICSTR(' ') CLRTYPE(RETAINED)", 16, "TOPICSTR takes a topic without wildcards"),
        ("CLEAR QLOCAL(Q) CLRTYPE(RETAINED)", 17, "CLRTYPE does not go with CLEAR QLOCAL"),
    ],
)
def test_what_cannot_be_done_is_told_with_its_place(
    manager: InMemoryManager, text: str, column: int, problem: str
) -> None:
    (answer,) = run_script(text, manager)
    assert answer.error is not None
    assert f"line 1, column {column}: " in answer.error.what
    assert problem in answer.error.what
    assert manager.done == []


def test_command_that_fails_is_not_mistaken_for_a_mistake_in_the_script(manager: InMemoryManager) -> None:
    (answer,) = run_script("PING CHANNEL(APP)", manager)
    assert isinstance(answer.error, MqscCommandFailed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DISPLAY CHSTATUS(*) STATUS", [("APP", "RUNNING"), ("APP", "STOPPING"), ("TO.B", "RUNNING")]),
        ("DIS CHS(TO*) ALL", [("TO.B", "RUNNING")]),
        ("DISPLAY CHSTATUS(APP) STATUS WHERE(STATUS EQ RUNNING)", [("APP", "RUNNING")]),
        ("DISPLAY CHSTATUS(*) STATUS WHERE(MSGS GT 5)", [("TO.B", "RUNNING")]),
        ("DISPLAY CHSTATUS(*) STATUS WHERE(OURS EQ 1)", [("TO.B", "RUNNING")]),
    ],
)
def test_status_of_channels_is_selected(manager: InMemoryManager, text: str, expected: list[tuple[str, str]]) -> None:
    assert [(row["CHANNEL"], row["STATUS"]) for row in only(manager, text).rows] == expected


def test_status_shows_all_that_is_known_unless_keywords_choose(manager: InMemoryManager) -> None:
    assert only(manager, "DIS CHSTATUS(TO.B)").rows == tuple(manager.rows["CHSTATUS"][:1])
    assert only(manager, "DIS LSSTATUS(*) CONNS PID").rows == ({"LISTENER": "L", "CONNS": 2},)


def test_channel_that_does_not_run_has_no_status(manager: InMemoryManager) -> None:
    assert only(manager, "DISPLAY CHSTATUS(FROM.B)").lines == ["No CHSTATUS matches."]


def test_connections_are_found_whatever_the_case_of_their_ids(manager: InMemoryManager) -> None:
    assert [row["CONN"] for row in only(manager, "DISPLAY CONN(*)").rows] == ["00ab", "00cd"]
    assert [row["CONN"] for row in only(manager, "DISPLAY CONN(00ab) USERID").rows] == ["00ab"]
    assert only(manager, "DISPLAY CONN(77)").lines == ["No CONN matches."]


def test_people_see_status_as_they_see_objects(manager: InMemoryManager) -> None:
    assert only(manager, "DISPLAY LSSTATUS(L) STATUS PORT").lines == [
        "Status of listener L:",
        "   LISTENER(L)                             STATUS(RUNNING)",
        "   PORT(1414)",
    ]


@pytest.mark.parametrize("noun", RUNNING)
def test_every_keyword_of_a_status_is_accepted_whether_or_not_there_is_a_row(noun: str) -> None:
    name = "(*)" if RUNNING[noun].selected_by else ""
    only(InMemoryManager(), f"DISPLAY {noun}{name} {' '.join(sorted(RUNNING[noun].keywords))}")


# --- publish/subscribe -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("DISPLAY TPSTATUS('#')", ["", "price/gold", "price/gold/old", "price/silver"]),
        ("DIS TPS(*) SUBCOUNT", ["", "price/gold", "price/gold/old", "price/silver"]),
        ("DISPLAY TPSTATUS('')", [""]),
        ("DISPLAY TPSTATUS('price/+')", ["price/gold", "price/silver"]),
        ("DISPLAY TPSTATUS('price/gold/#')", ["price/gold", "price/gold/old"]),
        ("DISPLAY TPSTATUS('price/gold')", ["price/gold"]),
        ("DISPLAY TPSTATUS(price/gold)", []),
        ("DISPLAY TPSTATUS('#') WHERE(SUBCOUNT GT 1)", ["price/gold"]),
        ("DISPLAY TPSTATUS('#') RETAINED WHERE(RETAINED EQ YES)", ["price/gold"]),
    ],
)
def test_status_of_topics_is_selected_by_topics(manager: InMemoryManager, text: str, topics: list[str]) -> None:
    assert [row["TOPICSTR"] for row in only(manager, text).rows] == topics


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("DISPLAY SBSTATUS(*)", ["Gold", "gold"]),
        ("DISPLAY SBSTATUS('gold') NUMMSGS", ["gold"]),
        ("DISPLAY SBSTATUS('g*')", ["gold"]),
        ("DISPLAY SBSTATUS(*) DURABLE(NO)", ["Gold"]),
        ("DISPLAY SBSTATUS(*) SUBTYPE(ADMIN) DURABLE(ALL)", ["gold"]),
        ("DISPLAY SBSTATUS('idle one')", []),
    ],
)
def test_status_of_subscriptions_is_selected(manager: InMemoryManager, text: str, names: list[str]) -> None:
    assert [row["SUB"] for row in only(manager, text).rows] == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("DISPLAY PUBSUB", ["ABOVE", "TEST"]),
        ("DIS PUBSUB ALL", ["ABOVE", "TEST"]),
        ("DISPLAY PUBSUB TYPE(ALL) STATUS", ["ABOVE", "TEST"]),
        ("DISPLAY PUBSUB TYPE(PARENT)", ["ABOVE"]),
        ("DISPLAY PUBSUB WHERE(STATUS EQ ACTIVE)", ["TEST"]),
    ],
)
def test_queue_managers_that_publications_are_exchanged_with(
    manager: InMemoryManager, text: str, names: list[str]
) -> None:
    assert [row["QMNAME"] for row in only(manager, text).rows] == names


@pytest.mark.parametrize(("count", "said"), [(0, "0 retained publications"), (1, "1 retained publication")])
def test_clear_forgets_what_is_retained(manager: InMemoryManager, count: int, said: str) -> None:
    manager.depths["price/gold"] = count
    assert only(manager, "CLEAR TOPICSTR('price/gold') CLRTYPE(RETAINED)").lines == [
        f"Topic price/gold cleared of {said}."
    ]
    assert manager.done == [("clear", "price/gold")]
