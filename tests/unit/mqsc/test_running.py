# SPDX-License-Identifier: Apache-2.0
"""Commands that act on what runs, and what DISPLAY says of it."""

from __future__ import annotations

import pytest

from entrepot.errors import MqscCommandFailed
from entrepot.mqsc import Answer, run_script
from entrepot.mqsc.running import RUNNING
from entrepot.queues.definitions import Channel, Listener

from .in_memory import InMemoryManager


@pytest.fixture
def manager() -> InMemoryManager:
    manager = InMemoryManager(
        Channel(name="TO.B", channel_type="SDR", connection_name="b", transmission_queue="B"),
        Channel(name="FROM.B", channel_type="RCVR"),
        Channel(name="APP"),
        Listener(name="L"),
    )
    manager.rows = {
        "CHSTATUS": [
            {"CHANNEL": "TO.B", "CHLTYPE": "SDR", "STATUS": "RUNNING", "MSGS": 7, "OURS": 1},
            {"CHANNEL": "APP", "CHLTYPE": "SVRCONN", "STATUS": "RUNNING", "MSGS": 2, "CONNAME": "10.0.0.1"},
            {"CHANNEL": "APP", "CHLTYPE": "SVRCONN", "STATUS": "STOPPING", "MSGS": 0, "CONNAME": "10.0.0.2"},
        ],
        "LSSTATUS": [{"LISTENER": "L", "STATUS": "RUNNING", "PORT": 1414, "CONNS": 2}],
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


@pytest.mark.parametrize(
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
    only(InMemoryManager(), f"DISPLAY {noun}(*) {' '.join(sorted(RUNNING[noun].keywords))}")
