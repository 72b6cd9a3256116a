# SPDX-License-Identifier: Apache-2.0
"""Fan-out and fan-in, in virtual time. What IBM documents is the answer: the folder ComIbmAggregateReplyBody below
Root with one folder for each request, unknown replies, partial answers when the time is over."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from entrepot.errors import AggregationFailed
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import MemoryWorld
from entrepot.flows.states import queue_name
from entrepot.message import Message

STORE = "SYSTEM.FLOW.AGGREGATE.TRIP"
FOLDERS = ("TAXI", "HOTEL", "FLIGHT")


@cache
def fan_out(
    folders: tuple[str, ...] = FOLDERS, *, timeout_s: float = 30, new_ids: bool = True, statements: str = ""
) -> Kernel:
    """One message becomes one request for each folder."""
    flow = FlowDefinition("fan_out")
    flow.node("MQInput", "In", queue="IN", domain="XMLNSC")
    flow.node("AggregateControl", "Control", aggregate_name="TRIP", timeout_s=timeout_s)
    sends = "".join(f"PROPAGATE TO TERMINAL 'out{number}' DELETE NONE;" for number, _ in enumerate(folders, 1))
    flow.node("Compute", "Split", statements=f"SET OutputRoot = InputRoot; {statements} {sends} RETURN FALSE;")
    flow.link("In", "Control")
    flow.link("Control", "Split")
    for number, folder in enumerate(folders, 1):
        flow.node("MQOutput", f"Put {number}", queue=f"ASK.{number}", new_message_id=new_ids)
        flow.node("AggregateRequest", f"Request {number}", folder=folder)
        flow.link("Split", f"Put {number}", terminal=f"out{number}")
        flow.link(f"Put {number}", f"Request {number}")
    return Kernel(flow)


@cache
def fan_in(*, unknown_timeout_s: float = 0, terminals: tuple[str, ...] = ("out", "timeout", "unknown")) -> Kernel:
    """Everything that leaves AggregateReply is written as XML to a queue called after its terminal."""
    flow = FlowDefinition("fan_in")
    flow.node("MQInput", "In", queue="REPLIES", domain="XMLNSC")
    flow.node("AggregateReply", "Reply", aggregate_name="TRIP", unknown_timeout_s=unknown_timeout_s)
    flow.link("In", "Reply")
    for terminal in terminals:
        flow.node("Compute", f"Show {terminal}", statements=SHOW)
        flow.node("MQOutput", f"To {terminal}", queue=terminal.upper())
        flow.link("Reply", f"Show {terminal}", terminal=terminal)
        flow.link(f"Show {terminal}", f"To {terminal}")
    return Kernel(flow)


SHOW = """
    DECLARE I INTEGER 1;
    DECLARE COUNT INTEGER CARDINALITY(InputRoot.ComIbmAggregateReplyBody.*[]);
    CREATE FIELD OutputRoot.XMLNSC.seen;
    WHILE I <= COUNT DO
        CREATE LASTCHILD OF OutputRoot.XMLNSC.seen NAME FIELDNAME(InputRoot.ComIbmAggregateReplyBody.*[I])
            VALUE InputRoot.ComIbmAggregateReplyBody.*[I].XMLNSC.reply;
        SET I = I + 1;
    END WHILE;
    IF COUNT = 0 AND InputRoot.XMLNSC.reply IS NOT NULL THEN
        SET OutputRoot.XMLNSC.seen.alone = InputRoot.XMLNSC.reply;
    END IF;
    RETURN TRUE;
"""


def reply_to(request: Message, text: str, **more: Any) -> Message:
    return Message(f"<reply>{text}</reply>".encode(), correlation_id=request.message_id, **more)


def requests(stage: MemoryWorld, count: int = 3) -> list[Message]:
    return [stage.queues[f"ASK.{number}"].pop(0) for number in range(1, count + 1)]


def bodies(stage: MemoryWorld, queue: str) -> list[str]:
    return [message.body.decode() for message in stage.queues[queue]]


@pytest.fixture
def stage() -> Iterator[MemoryWorld]:
    yield MemoryWorld(now=1_000_000.0)


def test_all_replies_become_one_message_in_the_order_of_the_requests(stage: MemoryWorld) -> None:
    stage.feed(fan_out(), "IN", Message(b"<order/>", persistent=True))
    sent = requests(stage)
    back = fan_in()
    for request, text in reversed(list(zip(sent, ("a car", "a room", "a seat"), strict=True))):
        assert bodies(stage, "OUT") == []
        stage.feed(back, "REPLIES", reply_to(request, text))
    assert bodies(stage, "OUT") == ["<seen><TAXI>a car</TAXI><HOTEL>a room</HOTEL><FLIGHT>a seat</FLIGHT></seen>"]
    assert stage.stores == {}


def test_each_reply_has_its_own_headers_without_an_expiry(stage: MemoryWorld) -> None:
    flow = FlowDefinition("headers")
    flow.node("MQInput", "In", queue="REPLIES", domain="XMLNSC")
    flow.node("AggregateReply", "Reply", aggregate_name="TRIP")
    statements = """
        SET OutputRoot.XMLNSC.seen.id = InputRoot.ComIbmAggregateReplyBody.TAXI.MQMD.MsgId;
        SET OutputRoot.XMLNSC.seen.expiry = InputRoot.ComIbmAggregateReplyBody.TAXI.MQMD.Expiry;
        SET OutputRoot.XMLNSC.seen.correlation = InputRoot.ComIbmAggregateReplyBody.TAXI.Properties.ReplyIdentifier;
        RETURN TRUE;"""
    flow.node("Compute", "Show", statements=statements)
    flow.node("MQOutput", "Done", queue="OUT")
    flow.link("In", "Reply")
    flow.link("Reply", "Show")
    flow.link("Show", "Done")
    stage.feed(fan_out(("TAXI",)), "IN", Message(b"<order/>"))
    (request,) = requests(stage, 1)
    reply = reply_to(request, "a car", message_id=b"R" * 24, expiry_s=60.0)
    stage.feed(Kernel(flow), "REPLIES", reply)
    told = f"<id>{(b'R' * 24).hex()}</id>"
    expected = f"<seen>{told}<expiry>-1</expiry><correlation>{request.message_id.hex().upper()}</correlation></seen>"
    assert bodies(stage, "OUT") == [expected]


def test_replies_of_two_aggregates_do_not_mix(stage: MemoryWorld) -> None:
    out, back = fan_out(("A", "B")), fan_in()
    stage.feed(out, "IN", Message(b"<order/>"))
    first = requests(stage, 2)
    stage.feed(out, "IN", Message(b"<order/>"))
    second = requests(stage, 2)
    for request, text in ((first[0], "1a"), (second[0], "2a"), (second[1], "2b"), (first[1], "1b")):
        stage.feed(back, "REPLIES", reply_to(request, text))
    assert bodies(stage, "OUT") == ["<seen><A>2a</A><B>2b</B></seen>", "<seen><A>1a</A><B>1b</B></seen>"]


def test_a_folder_may_have_several_replies(stage: MemoryWorld) -> None:
    stage.feed(fan_out(("TAXI", "TAXI")), "IN", Message(b"<order/>"))
    for request, text in zip(requests(stage, 2), ("one", "two"), strict=True):
        stage.feed(fan_in(), "REPLIES", reply_to(request, text))
    assert bodies(stage, "OUT") == ["<seen><TAXI>one</TAXI><TAXI>two</TAXI></seen>"]


def test_what_has_come_in_time_goes_to_the_timeout_terminal(stage: MemoryWorld) -> None:
    back = fan_in()
    stage.feed(fan_out(timeout_s=30), "IN", Message(b"<order/>"))
    taxi, hotel, flight = requests(stage)
    stage.feed(back, "REPLIES", reply_to(hotel, "a room"))
    stage.pass_time(20, back)
    stage.feed(back, "REPLIES", reply_to(taxi, "a car"))
    stage.pass_time(9.9, back)
    assert bodies(stage, "TIMEOUT") == []
    stage.pass_time(0.2, back)
    assert bodies(stage, "TIMEOUT") == ["<seen><TAXI>a car</TAXI><HOTEL>a room</HOTEL></seen>"]
    stage.feed(back, "REPLIES", reply_to(flight, "too late"))
    assert bodies(stage, "UNKNOWN") == ["<seen><alone>too late</alone></seen>"]
    assert stage.stores == {}


def test_without_any_reply_the_timeout_terminal_has_an_empty_body(stage: MemoryWorld) -> None:
    back = fan_in()
    stage.feed(fan_out(), "IN", Message(b"<order/>"))
    stage.pass_time(31, back)
    assert bodies(stage, "TIMEOUT") == ["<seen/>"]


def test_without_a_timeout_replies_are_waited_for_for_ever(stage: MemoryWorld) -> None:
    back = fan_in()
    stage.feed(fan_out(("TAXI",), timeout_s=0), "IN", Message(b"<order/>"))
    stage.pass_time(1e8, back)
    (request,) = requests(stage, 1)
    stage.feed(back, "REPLIES", reply_to(request, "at last"))
    assert bodies(stage, "OUT") == ["<seen><TAXI>at last</TAXI></seen>"]


def test_a_message_may_say_its_own_timeout(stage: MemoryWorld) -> None:
    flow = FlowDefinition("own")
    flow.node("MQInput", "In", queue="IN")
    said = "SET OutputRoot = InputRoot; SET OutputLocalEnvironment.Aggregation.Timeout = 5; RETURN TRUE;"
    flow.node("Compute", "Say", mode="all", statements=said)
    flow.node("AggregateControl", "Control", aggregate_name="TRIP", timeout_s=1000)
    flow.node("MQOutput", "Put", queue="ASK.1", new_message_id=True)
    flow.node("AggregateRequest", "Request", folder="TAXI")
    for source, target in (("In", "Say"), ("Say", "Control"), ("Control", "Put"), ("Put", "Request")):
        flow.link(source, target)
    back = fan_in()
    stage.feed(Kernel(flow), "IN", Message(b"x"))
    stage.pass_time(5.1, back)
    assert bodies(stage, "TIMEOUT") == ["<seen/>"]


def test_a_second_reply_to_a_request_is_unknown_and_changes_nothing(stage: MemoryWorld) -> None:
    back = fan_in()
    stage.feed(fan_out(("A", "B")), "IN", Message(b"<order/>"))
    first, second = requests(stage, 2)
    for request, text in ((first, "good"), (first, "again"), (second, "last")):
        stage.feed(back, "REPLIES", reply_to(request, text))
    assert bodies(stage, "UNKNOWN") == ["<seen><alone>again</alone></seen>"]
    assert bodies(stage, "OUT") == ["<seen><A>good</A><B>last</B></seen>"]


def test_an_unknown_reply_that_nobody_wants_is_dropped_with_a_trace_line(stage: MemoryWorld) -> None:
    stage.feed(fan_in(terminals=("out",)), "REPLIES", Message(b"<reply>?</reply>", correlation_id=b"N" * 24))
    assert [text for _, text in stage.traces] == [
        f"Reply: a reply to {(b'N' * 24).hex()} is dropped: no aggregate waits for it"
    ]


def test_a_reply_that_comes_before_its_aggregate_waits_for_it(stage: MemoryWorld) -> None:
    """Requests that are sent outside of the unit of work can be answered before the aggregate is known."""
    back = fan_in(unknown_timeout_s=10)
    early = MemoryWorld(now=1_000_000.0)
    early.feed(fan_out(("TAXI",)), "IN", Message(b"<order/>"))
    (request,) = requests(early, 1)
    stage.feed(back, "REPLIES", reply_to(request, "early", persistent=True))
    stage.pass_time(3, back)
    stage.stores.update(early.stores)
    assert bodies(stage, "OUT") == bodies(stage, "UNKNOWN") == []
    stage.pass_time(7.1, back)
    assert bodies(stage, "OUT") == ["<seen><TAXI>early</TAXI></seen>"]
    assert stage.stores == {}


def test_a_reply_nobody_claims_is_unknown_after_its_time(stage: MemoryWorld) -> None:
    back = fan_in(unknown_timeout_s=10)
    stage.feed(back, "REPLIES", Message(b"<reply>?</reply>", correlation_id=b"N" * 24))
    stage.pass_time(9.9, back)
    assert bodies(stage, "UNKNOWN") == []
    stage.pass_time(0.2, back)
    assert bodies(stage, "UNKNOWN") == ["<seen><alone>?</alone></seen>"]


class OtherHas(MemoryWorld):
    """Another instance has some states at the moment."""

    held: frozenset[str] = frozenset()

    def take(self, store: str, key: bytes) -> Message | None:
        return None if store in self.held else super().take(store, key)


def test_a_reply_whose_aggregate_another_instance_has_comes_again() -> None:
    stage, back = OtherHas(now=1_000_000.0), fan_in()
    stage.feed(fan_out(("TAXI",)), "IN", Message(b"<order/>"))
    (request,) = requests(stage, 1)
    stage.held = frozenset({STORE})
    stage.feed(back, "REPLIES", reply_to(request, "a car"))
    stage.pass_time(1, back)
    assert bodies(stage, "OUT") == bodies(stage, "UNKNOWN") == []
    stage.held = frozenset()
    stage.pass_time(1, back)
    assert bodies(stage, "OUT") == ["<seen><TAXI>a car</TAXI></seen>"]


@pytest.mark.parametrize("same", [False, True])
def test_requests_with_ids_of_the_program_find_their_aggregate(stage: MemoryWorld, same: bool) -> None:
    ids = f"SET OutputRoot.MQMD.MsgId = X'{'AB' * 24}';"
    folders = ("A", "B") if same else ("A",)
    back = fan_in()
    stage.feed(fan_out(folders, new_ids=False, statements=ids), "IN", Message(b"<order/>"))
    for request, text in zip(requests(stage, len(folders)), ("one", "two"), strict=False):
        assert request.message_id == b"\xab" * 24
        stage.feed(back, "REPLIES", reply_to(request, text))
    assert bodies(stage, "OUT") == ["<seen><A>one</A><B>two</B></seen>" if same else "<seen><A>one</A></seen>"]
    assert stage.stores == {}


def test_a_pointed_to_aggregate_that_is_away_is_found_again() -> None:
    stage, back = OtherHas(now=1_000_000.0), fan_in()
    ids = "SET OutputRoot.MQMD.MsgId = X'" + "AB" * 24 + "';"
    stage.feed(fan_out(("A",), new_ids=False, statements=ids), "IN", Message(b"<order/>"))
    (request,) = requests(stage, 1)
    stage.held = frozenset({STORE})
    stage.feed(back, "REPLIES", reply_to(request, "one"))
    stage.held = frozenset()
    stage.pass_time(1, back)
    assert bodies(stage, "OUT") == ["<seen><A>one</A></seen>"]
    assert stage.stores == {}


def test_a_message_without_an_id_gets_one_that_names_its_aggregate(stage: MemoryWorld) -> None:
    none = "SET OutputRoot.MQMD.MsgId = X'" + "00" * 24 + "';"
    stage.feed(fan_out(("A",), new_ids=False, statements=none), "IN", Message(b"<order/>"))
    (request,) = requests(stage, 1)
    stage.feed(fan_in(), "REPLIES", reply_to(request, "one"))
    assert bodies(stage, "OUT") == ["<seen><A>one</A></seen>"]


@pytest.mark.parametrize(
    ("order", "reply", "expected"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_a_state_survives_a_restart_if_a_message_in_it_would(
    stage: MemoryWorld, order: bool, reply: bool, expected: bool
) -> None:
    stage.feed(fan_out(("A", "B")), "IN", Message(b"<order/>", persistent=order))
    first, _ = requests(stage, 2)
    stage.feed(fan_in(), "REPLIES", reply_to(first, "one", persistent=reply))
    (kept,) = stage.stores.values()
    assert kept[0].message.persistent is (order or reply)
    assert kept[0].then == STORE + ".TIMEOUT"


def test_an_error_behind_out_leaves_the_aggregate_as_it_was(stage: MemoryWorld) -> None:
    flow = FlowDefinition("fails")
    flow.node("MQInput", "In", queue="REPLIES", domain="XMLNSC")
    flow.node("AggregateReply", "Reply", aggregate_name="TRIP")
    flow.node("Throw", "Throw", text="no")
    flow.link("In", "Reply")
    flow.link("Reply", "Throw")
    stage.feed(fan_out(("A",)), "IN", Message(b"<order/>", persistent=True))
    (request,) = requests(stage, 1)
    before = dict(stage.stores)
    stage.feed(Kernel(flow), "REPLIES", reply_to(request, "one", persistent=True))
    assert bodies(stage, "DEAD.LETTERS") == ["<reply>one</reply>"]
    assert stage.stores == before
    stage.feed(fan_in(), "REPLIES", reply_to(request, "again"))
    assert bodies(stage, "OUT") == ["<seen><A>again</A></seen>"]


def test_catch_has_the_answer_that_could_not_go_on(stage: MemoryWorld) -> None:
    flow = FlowDefinition("caught")
    flow.node("MQInput", "In", queue="REPLIES", domain="XMLNSC")
    flow.node("AggregateReply", "Reply", aggregate_name="TRIP")
    flow.node("Throw", "Throw", text="no")
    flow.node("Compute", "Show", statements=SHOW)
    flow.node("MQOutput", "Caught", queue="CAUGHT")
    flow.link("In", "Reply")
    flow.link("Reply", "Throw")
    flow.link("Reply", "Throw", terminal="timeout")
    flow.link("Reply", "Show", terminal="catch")
    flow.link("Show", "Caught")
    kernel = Kernel(flow)
    out = fan_out(("A",))
    stage.feed(out, "IN", Message(b"<order/>"))
    stage.feed(kernel, "REPLIES", reply_to(*requests(stage, 1), "one"))
    stage.feed(out, "IN", Message(b"<order/>"))
    stage.pass_time(31, kernel)
    assert bodies(stage, "CAUGHT") == ["<seen><A>one</A></seen>", "<seen/>"]


def test_replies_of_a_timeout_that_fails_are_set_aside_as_they_came(stage: MemoryWorld) -> None:
    flow = FlowDefinition("fails")
    flow.node("MQInput", "In", queue="REPLIES", domain="XMLNSC")
    flow.node("AggregateReply", "Reply", aggregate_name="TRIP")
    flow.node("Throw", "Throw", text="no")
    flow.link("In", "Reply")
    flow.link("Reply", "Throw", terminal="timeout")
    kernel = Kernel(flow)
    stage.feed(fan_out(("A", "B", "C")), "IN", Message(b"<order/>"))
    first, second, _ = requests(stage)
    stage.feed(kernel, "REPLIES", reply_to(first, "one"))
    stage.feed(kernel, "REPLIES", reply_to(second, "two"))
    stage.pass_time(31, kernel)
    assert bodies(stage, "DEAD.LETTERS") == ["<reply>one</reply>", "<reply>two</reply>"]
    assert stage.queues["DEAD.LETTERS"][0].properties["entrepot_flow"] == "fails"


def test_an_aggregate_without_requests_ends_by_its_timeout_alone(stage: MemoryWorld) -> None:
    back = fan_in()
    stage.feed(fan_out(()), "IN", Message(b"<order/>"))
    stage.pass_time(31, back)
    assert bodies(stage, "TIMEOUT") == ["<seen/>"]
    stage.feed(fan_out((), timeout_s=0), "IN", Message(b"<order/>"))
    assert stage.stores == {}
    assert "has no requests and no timeout" in stage.traces[-1][1]


def test_control_messages_of_old_flows_do_no_harm(stage: MemoryWorld) -> None:
    flow = FlowDefinition("old")
    flow.node("MQInput", "In", queue="IN", domain="XMLNSC")
    flow.node("AggregateControl", "Control", aggregate_name="TRIP", timeout_s=30)
    flow.node("MQOutput", "Put", queue="ASK.1", new_message_id=True)
    flow.node("AggregateRequest", "Request", folder="A")
    said = (
        "SET OutputRoot.XMLNSC.Data.Name = InputLocalEnvironment.ComIbmAggregateControlNode.AggregateName; RETURN TRUE;"
    )
    flow.node("Compute", "Tell", statements=said)
    flow.node("MQOutput", "PutControl", queue="CONTROL")
    flow.node("MQInput", "InControl", queue="CONTROL", domain="XMLNSC")
    flow.node("MQInput", "Replies", queue="REPLIES", domain="XMLNSC")
    flow.node("AggregateReply", "Reply", aggregate_name="TRIP")
    flow.node("Compute", "Show", statements=SHOW)
    flow.node("MQOutput", "Done", queue="OUT")
    flow.link("In", "Control")
    flow.link("Control", "Put")
    flow.link("Put", "Request")
    flow.link("Control", "Tell", terminal="control")
    flow.link("Tell", "PutControl")
    flow.link("InControl", "Reply", input="control")
    flow.link("Replies", "Reply")
    flow.link("Reply", "Show")
    flow.link("Show", "Done")
    kernel = Kernel(flow)
    stage.feed(kernel, "IN", Message(b"<order/>"))
    assert bodies(stage, "CONTROL") == ["<Data><Name>TRIP</Name></Data>"]
    stage.run_all(kernel)
    stage.feed(kernel, "REPLIES", reply_to(*requests(stage, 1), "one"))
    assert bodies(stage, "OUT") == ["<seen><A>one</A></seen>"]


@pytest.mark.parametrize(
    ("links", "problem"),
    [
        ((("In", "Request"),), "not come through an AggregateControl"),
        ((("In", "Control"), ("Control", "Request")), "tells of no message that was sent"),
    ],
)
def test_a_request_that_is_none_says_why(links: tuple[tuple[str, str], ...], problem: str) -> None:
    flow = FlowDefinition("wrong")
    flow.node("MQInput", "In", queue="IN", domain="XMLNSC")
    flow.node("AggregateControl", "Control", aggregate_name="TRIP")
    flow.node("AggregateRequest", "Request", folder="A")
    for source, target in links:
        flow.link(source, target)
    stage = MemoryWorld()
    journey = stage.feed(Kernel(flow), "IN", Message(b"<order/>", persistent=True))
    assert isinstance(journey.failures[0].error, AggregationFailed)
    assert problem in str(journey.failures[0].error)


def test_a_reply_without_a_correlation_id_says_so(stage: MemoryWorld) -> None:
    journey = stage.feed(fan_in(), "REPLIES", Message(b"<reply/>", persistent=True))
    assert "no correlation id" in str(journey.failures[0].error)


def test_names_that_are_no_queue_names_are_shortened_and_told_apart() -> None:
    long = queue_name("AGGREGATE", "The travel agency of Mr. O'Hara and sons", ".TIMEOUT")
    other = queue_name("AGGREGATE", "The travel agency of Mr. O'Hara and son", ".TIMEOUT")
    assert long != other
    assert len(long) <= 48
    assert long == queue_name("AGGREGATE", "The travel agency of Mr. O'Hara and sons", ".TIMEOUT")
    assert queue_name("AGGREGATE", "TRIP", ".RETRY") == "SYSTEM.FLOW.AGGREGATE.TRIP.RETRY"


def test_a_stranger_on_a_queue_of_the_flow_is_set_aside(stage: MemoryWorld) -> None:
    kernel = fan_in()
    stage.feed(kernel, STORE + ".TIMEOUT", replace(Message(b"hello"), persistent=True))
    assert bodies(stage, "DEAD.LETTERS") == ["hello"]
    assert "no state that a flow has kept" in str(stage.queues["DEAD.LETTERS"][0].properties["entrepot_error"])
