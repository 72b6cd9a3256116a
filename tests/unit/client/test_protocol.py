# SPDX-License-Identifier: Apache-2.0
"""The client's half of the protocol by itself: frames go out, answers come in, and nothing is sent."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from entrepot.client import protocol
from entrepot.client.protocol import ClientCore, is_repeatable, waited_for
from entrepot.client.read_ahead import ended_with
from entrepot.client.requests import queue_name, queue_names
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import (
    ConnectFailed,
    ConnectionLost,
    EntrepotError,
    Fenced,
    FrameUnreadable,
    InvalidArgument,
    InvalidName,
    InvalidTopic,
    LimitExceeded,
    MessageTooLong,
    QueueNotFound,
    UnitBackedOut,
    UnitFinished,
)
from entrepot.limits import DISTRIBUTION_MAX
from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import LONG_BODY_BYTES
from entrepot.server.wire.error_form import to_wire
from entrepot.server.wire.verbs import Verb
from folding import for_each

from .cores import Slot, new_core, said, welcome


@pytest.fixture
def core() -> ClientCore:
    return new_core()


# --- frames --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "is_copied"), [(LONG_BODY_BYTES - 1, True), (LONG_BODY_BYTES, False)])
def test_a_long_body_is_sent_without_being_copied(core: ClientCore, size: int, is_copied: bool) -> None:
    body = b"x" * size
    _, frame = core.put("Q", Message(body), None, None, 0, 0.0)
    core.tell(Verb.PUT, frame)
    assert all(part is not body for part in core.out) == is_copied
    assert core.out_bytes == sum(map(len, core.out))
    assert said(core)[0][2].message.body == body
    assert (core.out, core.out_bytes) == ([], 0)


def _put_of(core: ClientCore, body: bytes, **fields: Any) -> verbs.Put:
    return core.put("Q", Message(body, **fields), None, None, 0, 0.0)[1]


@pytest.fixture
def joining(core: ClientCore) -> ClientCore:
    core.begin_connection(replace(welcome(), joins_puts=True))
    return core


def test_puts_without_answers_share_a_frame_that_goes_before_the_next_verb(joining: ClientCore) -> None:
    for body in (b"1", b"2", b"3"):
        joining.join(_put_of(joining, body))
    joining.ask(Verb.SYNCHRONIZE, verbs.Empty(), Slot())
    joining.join(_put_of(joining, b"4"))
    (many, number, puts), synchronize, (_, _, last) = said(joining)
    assert (many, number, puts.unit, [put[3].body for put in puts.puts]) == (Verb.PUT_MANY, 0, 0, [b"1", b"2", b"3"])
    assert synchronize[0] == Verb.SYNCHRONIZE
    assert [put[3].body for put in last.puts] == [b"4"]
    assert said(joining) == []


def test_what_is_long_or_special_has_a_frame_of_its_own_in_its_place(joining: ClientCore) -> None:
    special = [{"properties": {"a": 1}}, {}]
    bodies = [b"x", b"x" * protocol.PUT_MANY_BYTES]
    for body, fields in zip(bodies, special, strict=True):
        joining.join(_put_of(joining, b"before"))
        joining.join(_put_of(joining, body, **fields))
    assert [verb for verb, _, _ in said(joining)] == [Verb.PUT_MANY, Verb.PUT, Verb.PUT_MANY, Verb.PUT]


def test_a_frame_of_joined_puts_is_no_longer_than_a_server_takes(joining: ClientCore) -> None:
    for _ in range(500):
        joining.join(_put_of(joining, b"x" * 1000, correlation_id=b"c" * 128, reply_to="R" * 48))
    frames = joining.take()
    assert 1 < len(frames) < 50
    assert all(len(frame) <= 64 * 1024 for frame in frames)


def test_an_older_server_gets_every_put_by_itself(core: ClientCore) -> None:
    for body in (b"1", b"2"):
        core.join(_put_of(core, body))
    assert [(verb, frame.message.body) for verb, _, frame in said(core)] == [(Verb.PUT, b"1"), (Verb.PUT, b"2")]


def test_every_question_has_a_number_of_its_own_and_what_wants_no_answer_has_none(core: ClientCore) -> None:
    for _ in range(3):
        core.ask(Verb.HEARTBEAT, verbs.Empty(), Slot())
    core.tell(Verb.HEARTBEAT, verbs.Empty())
    assert [number for _, number, _ in said(core)] == [1, 2, 3, 0]


def test_numbers_begin_again_behind_the_largest_and_are_never_0(core: ClientCore) -> None:
    core._number = core._unit_next = 2**32 - 2
    asked = [core.ask(Verb.HEARTBEAT, verbs.Empty(), Slot()) for _ in range(2)]
    assert asked == [2**32 - 1, 1]
    assert [core.begin_unit().number for _ in range(2)] == [2**32 - 1, 1]


def test_who_connects_again_names_the_session_before(core: ClientCore) -> None:
    fresh = ClientCore("unix:qm1")
    for each in (fresh, core):
        each.hello(Slot(), channel="C", user="u", password="p", application="a", manager="M")
    hellos = [said(each)[0][2] for each in (fresh, core)]
    assert [hello.before for hello in hellos] == [b"", b"token"]
    named = [(hello.channel, hello.user, hello.password, hello.application, hello.manager) for hello in hellos]
    assert named == [("C", "u", "p", "a", "M")] * 2


# --- names ---------------------------------------------------------------------------------------


@for_each("name", ["Q", "Q@QM2", "a.b/c%d_1", "topic:prices/ibm"])
def test_a_name_that_can_be_one_is_sent_as_it_is(name: str) -> None:
    assert queue_name(name) == name
    assert queue_names([name]) == [name]


@for_each("name", ["", "@QM2", "Q Q", "Q@two words", "Q@" + "M" * 49, "Q" * 49, 7, None, b"Q"])
def test_a_name_that_can_be_none_is_not_sent(name: Any) -> None:
    with pytest.raises(InvalidName):
        queue_name(name)


def test_a_topic_is_checked_before_it_is_sent() -> None:
    with pytest.raises(InvalidTopic):
        queue_name("topic:prices/#")


@for_each(
    ("names", "error"),
    [
        ([], InvalidArgument),
        (b"Q", InvalidArgument),
        ({"Q": 1}, InvalidArgument),
        (7, InvalidArgument),
        (["Q", "two words"], InvalidName),
        (["Q"] * (DISTRIBUTION_MAX + 1), LimitExceeded),
    ],
)
def test_a_list_that_names_no_queues_is_not_sent(names: Any, error: type[EntrepotError]) -> None:
    with pytest.raises(error):
        queue_names(names)


def test_a_distribution_list_may_have_as_many_names_as_the_limit_says() -> None:
    assert len(queue_names(["Q"] * DISTRIBUTION_MAX)) == DISTRIBUTION_MAX


@for_each(
    ("verb", "payload", "repeatable"),
    [
        (Verb.BROWSE, None, True),
        (Verb.IN_DOUBT, None, True),
        (Verb.CLAIM, None, True),
        (Verb.SUBSCRIBE, None, True),
        (Verb.MQSC, verbs.Mqsc("DISPLAY QMGR"), True),
        (Verb.MANAGE, verbs.Manage("status"), True),
        (Verb.MQSC, verbs.Mqsc("DEFINE QLOCAL(X)"), False),
        (Verb.MANAGE, verbs.Manage("backup"), False),
        (Verb.PUT, None, False),
        (Verb.COMMIT, None, False),
        (Verb.DYNAMIC, None, False),
        (Verb.REQUEST, None, False),
        (Verb.RESOLVE, None, False),
    ],
)
def test_only_what_does_nothing_twice_may_be_asked_again(verb: Verb, payload: Any, repeatable: bool) -> None:
    assert is_repeatable(verb, payload) == repeatable


# --- puts ----------------------------------------------------------------------------------------


def test_message_ids_are_made_of_the_connections_head_and_a_count(core: ClientCore) -> None:
    ids = [core.put("Q", Message(b""), None, None, 0, 0.0)[0] for _ in range(2)]
    core.begin_connection(welcome(b"next"))
    ids.append(core.put("Q", Message(b""), None, None, 0, 0.0)[0])
    assert ids == [b"head\0\0\0\1", b"head\0\0\0\2", b"next\0\0\0\3"]
    assert core.put("Q", Message(b"", message_id=b"mine"), None, None, 0, 0.0)[0] == b"mine"


def test_a_body_that_the_channel_does_not_take_is_not_sent(core: ClientCore) -> None:
    core.begin_connection(welcome(body_bytes_max=10))
    core.put("Q", Message(b"x" * 10), None, None, 0, 0.0)
    for puts in ([Message(b"x" * 11)], [Message(b""), Message(b"x" * 11)]):
        with pytest.raises(MessageTooLong):
            core.put_many(1, [("Q", None, None, message) for message in puts], None)
    with pytest.raises(MessageTooLong):
        core.put("Q", Message(b"x" * 11), None, None, 0, 0.0)
    assert core.out == []


def test_short_messages_share_frames_up_to_their_limit_and_keep_their_order(core: ClientCore) -> None:
    fitting = protocol.PUT_MANY_BYTES - protocol._PUT_BYTES
    sizes = [1, fitting - protocol._PUT_BYTES - 1, 2, fitting, fitting + 1, 3]
    puts: Any = [("Q", True, 4, Message(b"x" * size)) for size in sizes]
    ids = core.put_many(7, puts, None)
    frames = said(core)
    shared = [[len(put[3].body) for put in frame.puts] for verb, _, frame in frames if verb == Verb.PUT_MANY]
    alone = [len(frame.message.body) for verb, _, frame in frames if verb == Verb.PUT]
    assert (shared, alone) == ([sizes[:2], [2], [fitting], [3]], [fitting + 1])
    assert [verb for verb, _, _ in frames] == [Verb.PUT_MANY] * 3 + [Verb.PUT] + [Verb.PUT_MANY]
    assert len(set(ids)) == len(sizes)
    assert {frame.unit for _, _, frame in frames} == {7}


def test_many_puts_are_checked_for_their_names(core: ClientCore) -> None:
    with pytest.raises(InvalidName):
        core.put_many(1, [("two words", None, None, Message(b""))], None)


# --- units ---------------------------------------------------------------------------------------


def test_a_unit_that_did_nothing_moves_to_the_next_connection_and_another_does_not(core: ClientCore) -> None:
    idle, used = core.begin_unit(), core.begin_unit()
    assert core.require_unit(used) == used.number
    core.begin_connection(welcome())
    assert core.require_unit(idle) == idle.number
    with pytest.raises(UnitBackedOut):
        core.require_unit(used)
    assert (idle.state, used.state) == (UnitState.ACTIVE, UnitState.BACKED_OUT)
    core.require_active(idle)
    with pytest.raises(UnitFinished):
        core.require_active(used)


def test_without_a_connection_a_unit_is_backed_out_if_something_was_done_in_it(core: ClientCore) -> None:
    failed, fenced = ConnectFailed("p", "x"), Fenced("n", 1, 2)
    states = []
    for was_used, error in ((False, failed), (True, failed), (False, fenced)):
        unit = core.begin_unit()
        unit.used = was_used
        core.is_out_of_reach(unit, error)
        states.append(unit.state)
    assert states == [UnitState.ACTIVE, UnitState.BACKED_OUT, UnitState.BACKED_OUT]


def test_a_unit_whose_end_failed_is_unknown_backed_out_or_still_there(core: ClientCore) -> None:
    states = []
    for error, active in ((ConnectionLost("p", "x"), False), (QueueNotFound("Q"), False), (QueueNotFound("Q"), True)):
        ended_with(unit := core.begin_unit(), error, unit_active=active)
        states.append(unit.state)
    assert states == [UnitState.UNKNOWN, UnitState.BACKED_OUT, UnitState.ACTIVE]


# --- answers -------------------------------------------------------------------------------------


def test_answers_find_who_asked_and_nobody_else(core: ClientCore) -> None:
    slots = [Slot() for _ in range(3)]
    first, second, third = (core.ask(Verb.HEARTBEAT, verbs.Empty(), slot) for slot in slots)
    core.handle(Verb.DONE, second, verbs.DonePayload(b"value"))
    core.handle(Verb.FAILED, first, verbs.Failed(to_wire(QueueNotFound("Q")), unit_active=True))
    core.handle(Verb.MESSAGES, third, answer := verbs.MessagesAnswer([]))
    assert (slots[1].value, slots[2].value) == (b"value", answer)
    assert isinstance(slots[0].error, QueueNotFound) and slots[0].unit_active
    for number in (first, 0, 99):
        with pytest.raises(FrameUnreadable):
            core.handle(Verb.DONE, number, verbs.DonePayload(None))


@pytest.mark.parametrize("leased", [True, False])
def test_a_leased_message_is_acknowledged_at_once(core: ClientCore, leased: bool) -> None:
    number = core.ask(Verb.GET, verbs.Get("Q"), slot := Slot())
    core.take()
    core.handle(Verb.MESSAGE, number, verbs.MessageAnswer(leased, Message(b"x")))
    assert slot.value.body == b"x"
    assert core.urgent == leased
    acknowledged = [payload.asked for verb, _, payload in said(core) if verb == Verb.ACKNOWLEDGE]
    assert acknowledged == ([number] if leased else [])
    assert not core.urgent


def test_a_heartbeat_that_was_asked_for_is_an_answer_and_another_is_none(core: ClientCore) -> None:
    number = core.ask(Verb.HEARTBEAT, verbs.Empty(), slot := Slot())
    core.handle(Verb.ALIVE, 0, verbs.Empty())
    assert slot.value is None
    core.handle(Verb.ALIVE, number, verbs.Empty())
    assert slot.value == verbs.Empty()


def test_a_broken_connection_fails_all_who_wait_with_the_servers_last_words(core: ClientCore) -> None:
    slots = [Slot(), Slot()]
    for slot in slots:
        core.ask(Verb.HEARTBEAT, verbs.Empty(), slot)
    ahead = core.consume("Q", None, 10, Slot())
    core.handle(Verb.CLOSING, 0, verbs.Closing(to_wire(FrameUnreadable("nonsense"))))
    core.lose("broken pipe")
    assert all(isinstance(slot.error, ConnectionLost) and "nonsense" in slot.error.problem for slot in slots)
    assert ahead.is_lost and isinstance(ahead.error, ConnectionLost)
    assert (core.pending, core.consumers, core.out) == ({}, {}, [])


def test_a_single_verb_that_was_not_understood_has_failed_for_certain(core: ClientCore) -> None:
    core.ask(Verb.HEARTBEAT, verbs.Empty(), slot := Slot())
    core.handle(Verb.CLOSING, 0, verbs.Closing(to_wire(FrameUnreadable("nonsense"))))
    core.lose("broken pipe")
    assert isinstance(slot.error, FrameUnreadable)


def test_who_was_fenced_does_nothing_more(core: ClientCore) -> None:
    core.require_unfenced()
    core.handle(Verb.CLOSING, 0, verbs.Closing(to_wire(Fenced("flow/1", 1, 2))))
    with pytest.raises(Fenced) as fenced:
        core.require_unfenced()
    assert (fenced.value.name, fenced.value.epoch, fenced.value.current) == ("flow/1", 1, 2)


def test_claims_are_made_again_and_another_claimant_is_the_end(core: ClientCore) -> None:
    core.claimed = {"a": 1, "b": 2}
    assert len(core.begin_again(Slot)) == 2
    claims = [(frame.name, frame.epoch, frame.token) for _, _, frame in said(core)]
    assert claims == [("a", 1, core.claim("a", 1).token), ("b", 2, core.claim("b", 2).token)]
    assert core.refused(QueueNotFound("Q")) and core.fenced is None
    assert core.refused(Fenced("a", 1, 2)) is core.fenced


def test_who_waited_for_a_connection_is_told_how_long() -> None:
    assert "tried for 5 s" in str(waited_for(ConnectFailed("p", "nobody there"), 5.0))
    other = QueueNotFound("Q")
    assert waited_for(other, 5.0) is other
