# SPDX-License-Identifier: Apache-2.0
"""Timers in virtual time, after IBM's topics on timeout requests: defaults, repetition, missed times, overwriting,
cancelling, and what a message that comes by itself has in LocalEnvironment.TimeoutRequest."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

import pytest

from entrepot.flows.definition import FlowDefinition
from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import MemoryWorld
from entrepot.flows.nodes.timeouts import TimeoutControl, TimeoutNotification
from entrepot.message import Message

NOW = datetime(2026, 9, 11, 12, 0, 0).timestamp()
FIELDS = ("Action", "Identifier", "StartDate", "StartTime", "Interval", "Count", "IgnoreMissed", "AllowOverwrite")
SHOW = f"""
    SET OutputRoot.Properties = InputRoot.Properties;
    SET OutputRoot.XMLNSC.seen.body = InputRoot.XMLNSC.request.body;
    {"".join(f"SET OutputRoot.XMLNSC.seen.{name} = InputLocalEnvironment.TimeoutRequest.{name};" for name in FIELDS)}
    RETURN TRUE;
"""


@cache
def control() -> Kernel:
    """The request is in the message itself."""
    flow = FlowDefinition("control")
    flow.node("MQInput", "In", queue="IN", domain="XMLNSC")
    flow.node("TimeoutControl", "Set", unique_id="T1", request_location="InputRoot.XMLNSC.request")
    flow.node("MQOutput", "Went", queue="WENT")
    flow.link("In", "Set")
    flow.link("Set", "Went")
    return Kernel(flow)


@cache
def notification(mode: str = "controlled", fails: bool = False) -> Kernel:
    flow = FlowDefinition("notification")
    flow.node("TimeoutNotification", "Bring", unique_id="T1", mode=mode, interval_s=10)
    flow.node("Compute", "Show", statements=SHOW)
    flow.node("MQOutput", "Came", queue="CAME")
    flow.link("Bring", "Show")
    flow.link("Show", "Came")
    if fails:
        flow.node("Throw", "Throw", text="no")
        flow.link("Bring", "Throw")
    return Kernel(flow)


def request(body: str = "hello", **fields: Any) -> Message:
    told = {"Action": "SET", "Identifier": "one", **fields}
    inside = "".join(f"<{name}>{value}</{name}>" for name, value in told.items() if value is not None)
    return Message(f"<request>{inside}<body>{body}</body></request>".encode(), persistent=True)


def came(stage: MemoryWorld) -> list[tuple[float, str]]:
    """When messages came, in seconds from the beginning, and what they were."""
    found = []
    for message in stage.queues["CAME"]:
        text = message.body.decode()
        body = text.partition("<body>")[2].partition("</body>")[0]
        found.append((round(message.put_time - NOW, 1), body))
    return found


def leftovers(stage: MemoryWorld) -> list[str]:
    """Stores that still hold something, but for tokens."""
    return [store for store, _ in stage.stores if not store.endswith(".TOKENS")]


def problem_of(stage: MemoryWorld, message: Message) -> str:
    journey = stage.feed(control(), "IN", message)
    return str(journey.failures[0].error) if journey.failures else ""


@pytest.fixture
def stage() -> MemoryWorld:
    return MemoryWorld(now=NOW)


def test_a_request_for_now_comes_at_once_and_the_message_goes_on(stage: MemoryWorld) -> None:
    sent = request()
    stage.feed(control(), "IN", sent)
    assert [message.body for message in stage.queues["WENT"]] == [sent.body]
    stage.pass_time(1, notification())
    assert came(stage) == [(0.0, "hello")]
    assert not leftovers(stage)


def test_a_request_for_later_comes_at_its_time(stage: MemoryWorld) -> None:
    stage.feed(control(), "IN", request(StartTime="12:01:30"))
    stage.pass_time(89, notification())
    assert came(stage) == []
    stage.pass_time(2, notification())
    assert came(stage) == [(90.0, "hello")]


def test_a_request_may_name_a_day(stage: MemoryWorld) -> None:
    stage.feed(control(), "IN", request(StartDate="2026-09-12", StartTime="12:00:00"))
    stage.pass_time(86_000, notification())
    assert came(stage) == []
    stage.pass_time(1000, notification())
    assert [body for _, body in came(stage)] == ["hello"]


def test_count_and_interval_bring_it_again_and_again(stage: MemoryWorld) -> None:
    stage.feed(control(), "IN", request(StartTime="12:00:05", Interval=300, Count=3))
    stage.pass_time(10_000, notification())
    assert came(stage) == [(5.0, "hello"), (305.0, "hello"), (605.0, "hello")]
    assert not leftovers(stage)


def test_a_count_of_minus_one_never_ends(stage: MemoryWorld) -> None:
    stage.feed(control(), "IN", request(Interval=60, Count=-1))
    stage.pass_time(3600, notification())
    assert len(came(stage)) == 61


def test_the_local_environment_tells_the_request(stage: MemoryWorld) -> None:
    stage.feed(control(), "IN", request(StartTime="12:00:05", Interval=7, Count=2, AllowOverwrite="FALSE"))
    stage.pass_time(6, notification())
    expected = (
        "<Action>SET</Action><Identifier>one</Identifier><StartDate>2026-09-11</StartDate>"
        "<StartTime>12:00:05</StartTime><Interval>7</Interval><Count>2</Count>"
        "<IgnoreMissed>true</IgnoreMissed><AllowOverwrite>false</AllowOverwrite>"
    )
    assert expected in stage.queues["CAME"][0].body.decode()


def test_a_cancelled_request_does_not_come(stage: MemoryWorld) -> None:
    stage.feed(control(), "IN", request(StartTime="12:01:00"))
    stage.feed(control(), "IN", request(Action="CANCEL"))
    assert not leftovers(stage)
    stage.pass_time(100, notification())
    assert came(stage) == []


def test_cancelling_works_when_the_next_time_is_already_on_its_way(stage: MemoryWorld) -> None:
    stage.feed(control(), "IN", request(Interval=10, Count=-1))
    stage.pass_time(5, notification())
    stage.pass_time(5.5)
    assert stage.queues["SYSTEM.FLOW.TIMER.T1.DUE"]
    stage.feed(control(), "IN", request(Action="CANCEL"))
    stage.pass_time(100, notification())
    assert came(stage) == [(0.0, "hello")]
    assert not leftovers(stage)


def test_cancelling_what_is_not_there_is_no_error(stage: MemoryWorld) -> None:
    assert problem_of(stage, request(Action="CANCEL", Identifier="nobody")) == ""
    assert "no timeout request 'nobody'" in stage.traces[0][1]


def test_a_later_request_takes_the_place_of_one_that_allows_it(stage: MemoryWorld) -> None:
    stage.feed(control(), "IN", request("old", StartTime="12:00:10", Interval=10, Count=-1))
    stage.pass_time(15, notification())
    stage.feed(control(), "IN", request("new", StartTime="12:01:00"))
    stage.pass_time(200, notification())
    assert came(stage) == [(10.0, "old"), (60.0, "new")]


def test_a_request_that_may_not_be_overwritten_stays(stage: MemoryWorld) -> None:
    stage.feed(control(), "IN", request("first", StartTime="12:00:10", AllowOverwrite="FALSE"))
    told = problem_of(stage, request("second", StartTime="12:00:20"))
    assert "there is a timeout request 'one' already" in told
    stage.pass_time(60, notification())
    assert came(stage) == [(10.0, "first")]


def test_requests_of_different_identifiers_live_side_by_side(stage: MemoryWorld) -> None:
    stage.feed(control(), "IN", request("a", Identifier="a", StartTime="12:00:20"))
    stage.feed(control(), "IN", request("b", Identifier="b", StartTime="12:00:10"))
    stage.pass_time(60, notification())
    assert came(stage) == [(10.0, "b"), (20.0, "a")]


@pytest.mark.parametrize(("ignore", "expected"), [("TRUE", [0.0, 400.0]), ("FALSE", [0.0, 305.0, 305.0, 305.0, 400.0])])
def test_missed_times_are_made_good_only_if_wanted(stage: MemoryWorld, ignore: str, expected: list[float]) -> None:
    """The flow is stopped from second 5 to second 305."""
    stage.feed(control(), "IN", request(Interval=100, Count=-1, IgnoreMissed=ignore))
    stage.pass_time(5, notification())
    stage.pass_time(300)
    stage.run_all(notification())
    stage.pass_time(100, notification())
    assert [at for at, _ in came(stage)] == expected


def test_what_is_a_little_late_is_not_missed(stage: MemoryWorld) -> None:
    stage.feed(control(), "IN", request(StartTime="12:00:10"))
    stage.pass_time(40)
    stage.pass_time(0, notification())
    assert came(stage) == [(40.0, "hello")]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"Action": None}, "Action of the timeout request is missing"),
        ({"Action": "START"}, "it is SET or CANCEL"),
        ({"Identifier": None}, "Identifier of the timeout request is missing"),
        ({"StartDate": "11.9.2026"}, "StartDate of the timeout request is '11.9.2026'"),
        ({"StartDate": "2026-02-30"}, "StartDate"),
        ({"StartTime": "25:00:00"}, "StartTime of the timeout request is '25:00:00'"),
        ({"StartTime": "11:50:00"}, "passed more than 5 minutes ago"),
        ({"Interval": "-1"}, "Interval of the timeout request is -1"),
        ({"Interval": "soon"}, "no whole number"),
        ({"Count": "0"}, "Count of the timeout request is 0"),
        ({"Count": "-1"}, "it would never rest"),
        ({"IgnoreMissed": "MAYBE"}, "it is TRUE or FALSE"),
    ],
)
def test_a_wrong_request_says_which_field_and_sets_nothing(
    stage: MemoryWorld, fields: dict[str, Any], problem: str
) -> None:
    assert problem in problem_of(stage, request(**fields))
    assert not leftovers(stage)


def test_a_start_that_has_just_passed_is_now(stage: MemoryWorld) -> None:
    stage.feed(control(), "IN", request(StartTime="11:56:00"))
    stage.pass_time(1, notification())
    assert came(stage) == [(0.0, "hello")]


def test_a_message_without_a_request_says_where_it_was_looked_for() -> None:
    flow = FlowDefinition("none")
    flow.node("MQInput", "In", queue="IN", domain="XMLNSC")
    flow.node("TimeoutControl", "Set", unique_id="T1")
    flow.link("In", "Set")
    journey = MemoryWorld(now=NOW).feed(Kernel(flow), "IN", request())
    assert "InputLocalEnvironment.TimeoutRequest" in str(journey.failures[0].error)


def test_a_request_in_the_local_environment_may_have_typed_values(stage: MemoryWorld) -> None:
    flow = FlowDefinition("typed")
    flow.node("MQInput", "In", queue="IN", domain="XMLNSC")
    statements = """
        SET OutputRoot = InputRoot;
        SET OutputLocalEnvironment.TimeoutRequest.Action = 'SET';
        SET OutputLocalEnvironment.TimeoutRequest.Identifier = 'typed';
        SET OutputLocalEnvironment.TimeoutRequest.StartDate = DATE '2026-09-11';
        SET OutputLocalEnvironment.TimeoutRequest.StartTime = TIME '12:00:30';
        SET OutputLocalEnvironment.TimeoutRequest.Count = 2;
        SET OutputLocalEnvironment.TimeoutRequest.Interval = 5;
        SET OutputLocalEnvironment.TimeoutRequest.AllowOverwrite = FALSE;
        RETURN TRUE;"""
    flow.node("Compute", "Ask", mode="all", statements=statements)
    flow.node("TimeoutControl", "Set", unique_id="T1", stored_location="InputRoot.XMLNSC.envelope.request")
    flow.link("In", "Ask")
    flow.link("Ask", "Set")
    body = b"<envelope><other/><request><body>a part</body></request></envelope>"
    stage.feed(Kernel(flow), "IN", Message(body))
    stage.pass_time(100, notification())
    assert came(stage) == [(30.0, "a part"), (35.0, "a part")]


def test_an_automatic_timer_brings_an_empty_message_every_interval(stage: MemoryWorld) -> None:
    kernel = notification("automatic")
    stage.prime(kernel)
    stage.pass_time(35, kernel)
    assert [at for at, _ in came(stage)] == [10.0, 20.0, 30.0]
    first = stage.queues["CAME"][0]
    assert not first.persistent
    expected = (
        "<Action>SET</Action><Identifier>T1</Identifier><StartDate>2026-09-11</StartDate>"
        "<StartTime>12:00:10.000000</StartTime><Interval>10</Interval><Count>1</Count>"
        "<IgnoreMissed>true</IgnoreMissed><AllowOverwrite>true</AllowOverwrite>"
    )
    assert expected in first.body.decode()


def test_an_automatic_timer_that_begins_again_does_not_ring_twice(stage: MemoryWorld) -> None:
    kernel = notification("automatic")
    stage.prime(kernel)
    stage.pass_time(12)
    stage.prime(kernel)
    stage.prime(kernel)
    stage.pass_time(30, kernel)
    assert [at for at, _ in came(stage)] == [22.0, 32.0, 42.0]


def test_an_automatic_timer_skips_what_it_missed(stage: MemoryWorld) -> None:
    kernel = notification("automatic")
    stage.prime(kernel)
    stage.pass_time(45)
    stage.run_all(kernel)
    stage.pass_time(20, kernel)
    assert [at for at, _ in came(stage)] == [45.0, 50.0, 60.0]


def test_a_message_that_fails_is_set_aside_and_its_timer_goes_on(stage: MemoryWorld) -> None:
    sent = request(Interval=10, Count=2)
    stage.feed(control(), "IN", sent)
    stage.pass_time(60, notification(fails=True))
    assert [message.body for message in stage.queues["DEAD.LETTERS"]] == [sent.body] * 2
    assert not leftovers(stage)


def test_an_automatic_timer_goes_on_after_an_error(stage: MemoryWorld) -> None:
    kernel = notification("automatic", fails=True)
    stage.prime(kernel)
    stage.pass_time(35, kernel)
    assert kernel.statistics.set_aside == 3
    assert not stage.queues["DEAD.LETTERS"]


class OtherHas(MemoryWorld):
    held = False

    def take(self, store: str, key: bytes) -> Message | None:
        return None if self.held and store == "SYSTEM.FLOW.TIMER.T1" else super().take(store, key)


def test_what_another_instance_has_is_changed_as_soon_as_it_lets_go() -> None:
    stage = OtherHas(now=NOW)
    stage.feed(control(), "IN", request("old", StartTime="12:00:10"))
    stage.held = True
    stage.feed(control(), "IN", request("new", StartTime="12:00:20"))
    stage.pass_time(15, notification())
    assert came(stage) == []
    stage.held = False
    stage.pass_time(30, notification())
    assert [body for _, body in came(stage)] == ["new"]


@pytest.mark.parametrize(("persistence", "expected"), [("automatic", True), ("no", False)])
def test_a_timer_survives_a_restart_as_said(persistence: str, expected: bool) -> None:
    flow = FlowDefinition("control")
    flow.node("MQInput", "In", queue="IN", domain="XMLNSC")
    flow.node("TimeoutControl", "Set", unique_id="T1", request_location="Root.XMLNSC.request", persistence=persistence)
    flow.link("In", "Set")
    stage = MemoryWorld(now=NOW)
    stage.feed(Kernel(flow), "IN", request(StartTime="12:10:00"))
    assert {kept.message.persistent for kept, _ in stage.stores.values()} == {expected}


def test_mistakes_are_told_before_the_flow_runs() -> None:
    flow = FlowDefinition("wrong")
    asks = flow.node("TimeoutControl", "Set", unique_id="T1", request_location="XMLNSC..x")
    brings = flow.node("TimeoutNotification", "Bring", unique_id="T1", interval_s=0)
    assert "request_location" in TimeoutControl.check(asks, flow)[0].problem
    assert "interval_s is 0" in TimeoutNotification.check(brings, flow)[0].problem
