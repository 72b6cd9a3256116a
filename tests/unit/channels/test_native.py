# SPDX-License-Identifier: Apache-2.0
"""Partners that do not keep to the protocol, and what a connection owes to those who do."""

from __future__ import annotations

import asyncio
import gc
import math
import socket
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from entrepot.channels import admission, link, native
from entrepot.errors import (
    ConnectionLost,
    EntrepotError,
    FrameTooLong,
    FrameUnreadable,
    HandshakeTimedOut,
    InvalidArgument,
    LimitExceeded,
    NotAuthorized,
    QueueFull,
    QueueNotFound,
    RequestTimedOut,
    UnitFinished,
    UnknownVerb,
    VersionUnsupported,
    WrongManager,
)
from entrepot.message import Message
from entrepot.queues.criteria import Criteria
from entrepot.wire import verbs
from entrepot.wire.codec import encode
from entrepot.wire.frame import HANDSHAKE_FRAME_BYTES_MAX, HEAD
from entrepot.wire.verbs import PAYLOADS, Verb

from .guests import House, Work, greeting, put

Inside = Callable[[Work], None]

SAMPLES: dict[Verb, Any] = {
    Verb.HELLO: greeting(),
    Verb.PUT: put("Q"),
    Verb.GET: verbs.Get("Q"),
    Verb.REQUEST: verbs.Request("Q", "R", 1.0, None, None, Message(b"")),
    Verb.GET_MANY: verbs.GetMany("Q", 1, 5),
    Verb.GET_GROUP: verbs.GetGroup("Q", 1),
    Verb.BROWSE: verbs.Browse("Q", None, 5),
    Verb.COMMIT: verbs.OfUnit(1),
    Verb.BACK_OUT: verbs.OfUnit(1),
    Verb.PREPARE: verbs.Prepare(1, b"x"),
    Verb.RESOLVE: verbs.Resolve(b"x", True),
    Verb.IN_DOUBT: verbs.Empty(),
    Verb.CONSUME: verbs.Consume("Q", 1, 1),
    Verb.CREDIT: verbs.Credit(1, 0, 1),
    Verb.STOP_CONSUMING: verbs.OfConsumer(1),
    Verb.ACKNOWLEDGE: verbs.OfNumber(1),
    Verb.CANCEL: verbs.OfNumber(1),
    Verb.SYNCHRONIZE: verbs.Empty(),
    Verb.MQSC: verbs.Mqsc("DISPLAY QMGR"),
    Verb.DYNAMIC: verbs.Dynamic("SYSTEM.DEFAULT.MODEL.QUEUE", "X.*"),
    Verb.HEARTBEAT: verbs.Empty(),
    Verb.GOODBYE: verbs.Empty(),
    Verb.MANAGE: verbs.Manage("status"),
    Verb.CHANNEL_HELLO: verbs.ChannelHello(
        "ENTREPOT", 1, "IN", "QM2", "", "", "", 0, b"", 0, b"", 50, 30.0, True, 999_999_999
    ),
    Verb.CHANNEL_MESSAGE: verbs.ChannelMessage(1, Message(b"")),
    Verb.CHANNEL_END_OF_BATCH: verbs.ChannelEndOfBatch(b"x" * 16, 1),
    Verb.CHANNEL_PING: verbs.Empty(),
}
"""A frame of every verb that a partner can say; fuzzing begins with them, too."""


def test_there_is_a_sample_of_every_verb() -> None:
    assert SAMPLES.keys() == {verb for verb in PAYLOADS if verb < 64}


# --- the beginning -------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [verb for verb in SAMPLES if verb not in (Verb.HELLO, Verb.CHANNEL_HELLO)])
def test_the_first_frame_must_be_hello(inside: Inside, verb: Verb) -> None:
    async def work(house: House) -> None:
        guest = house.guest()
        guest.say(verb, 1, SAMPLES[verb])
        farewell = await guest.farewell()
        assert isinstance(farewell, FrameUnreadable)
        assert verb.name in farewell.problem
        assert house.depth("Q") == 0

    inside(work)


def test_another_protocol_or_version_ends_before_anybody_is_asked_for_a_password(inside: Inside) -> None:
    async def work(house: House) -> None:
        for hello, kind in (
            (greeting(magic="AMQP", user="ann", password="x"), FrameUnreadable),
            (greeting(version=2, user="ann", password="x"), VersionUnsupported),
            (greeting(version=-1), VersionUnsupported),
        ):
            guest = house.guest(uid=None)
            guest.say(Verb.HELLO, 1, hello)
            assert isinstance(await guest.farewell(), kind)
        assert house.audit == []

    inside(work)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x03\x01\x00\x00", b"\x16\x03\x01\x02\x00\x01", bytes(64)])
def test_who_speaks_something_else_is_told_and_closed(inside: Inside, data: bytes) -> None:
    async def work(house: House) -> None:
        guest = house.guest()
        guest.say_bytes(data)
        assert isinstance(await guest.farewell(), FrameUnreadable | FrameTooLong)

    inside(work)


def test_another_queue_manager_than_the_one_wanted_says_so(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = house.guest()
        with pytest.raises(WrongManager):
            await guest.ask(Verb.HELLO, 1, greeting(manager="QM9"))
        assert await guest.farewell() is None
        await house.admitted(manager="QM1")

    inside(work)


def test_an_application_with_a_name_too_long_is_refused(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = house.guest()
        with pytest.raises(InvalidArgument):
            await guest.ask(Verb.HELLO, 1, greeting(application="x" * 1025))
        assert await guest.farewell() is None

    inside(work)


@pytest.mark.parametrize("verb", [Verb.HELLO, Verb.CHANNEL_HELLO, Verb.CHANNEL_MESSAGE, Verb.CHANNEL_PING])
def test_a_verb_out_of_state_ends_the_connection(inside: Inside, verb: Verb) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.say(verb, 1, SAMPLES[verb])
        assert isinstance(await guest.farewell(), UnknownVerb)

    inside(work)


def test_answers_from_a_client_end_the_connection(inside: Inside) -> None:
    async def work(house: House) -> None:
        for verb, payload in ((Verb.DONE, verbs.Done([[]] * 1000)), (Verb.ALIVE, verbs.Empty())):
            guest = await house.admitted()
            guest.say(verb, 1, payload)
            assert isinstance(await guest.farewell(), UnknownVerb)

    inside(work)


def test_a_channel_between_queue_managers_needs_somebody_to_receive_it(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "_FAILURE_DELAY_S", 0.0)

    async def work(house: House) -> None:
        guest = house.guest()
        guest.say(Verb.CHANNEL_HELLO, 0, SAMPLES[Verb.CHANNEL_HELLO])
        assert await guest.farewell() is None
        assert [verb for verb, _, _ in guest.frames()] == [Verb.FAILED]

    inside(work)


def test_frames_that_follow_hello_at_once_wait_for_it(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = house.guest()
        frames = [encode(Verb.HELLO, 1, greeting())]
        frames += [encode(Verb.PUT, 0, put("Q", bytes([number]))) for number in range(5)]
        guest.say_bytes(b"".join([*frames, encode(Verb.SYNCHRONIZE, 2, verbs.Empty())]))
        await guest.answer(2)
        assert [message.body[0] for message in house.host.browse("Q", None, None, 9)[0]] == [0, 1, 2, 3, 4]

    inside(work)


def test_frames_behind_a_refused_hello_are_not_carried_out(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_FAILURE_DELAY_S", 0.01)

    async def work(house: House) -> None:
        guest = house.guest(uid=None)
        hello = encode(Verb.HELLO, 1, greeting(channel="APP", user="ann", password="wrong"))
        guest.say_bytes(hello + encode(Verb.PUT, 2, put("Q")) + encode(Verb.MQSC, 3, verbs.Mqsc("DELETE QLOCAL(Q)")))
        await guest.farewell()
        assert [(verb, number) for verb, number, _ in guest.frames()] == [(Verb.FAILED, 1)]
        assert house.depth("Q") == 0

    inside(work)


def test_a_stranger_gets_little_memory(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_FAILURE_DELAY_S", 0.05)

    async def work(house: House) -> None:
        guest = house.guest(uid=None)
        nothing = encode(Verb.HEARTBEAT, 0, verbs.Empty())
        guest.say_bytes(encode(Verb.HELLO, 1, greeting(user="ann", password="wrong")) + nothing * 20_000)
        assert not guest.wire.reading
        assert len(guest.link._held or ()) * len(nothing) <= HANDSHAKE_FRAME_BYTES_MAX
        assert guest.unsent_bytes > 200_000
        await guest.farewell()
        long = house.guest(uid=None)
        long.say(Verb.HELLO, 1, greeting(application="x" * HANDSHAKE_FRAME_BYTES_MAX))
        assert isinstance(await long.farewell(), FrameTooLong)

    inside(work)


def test_who_says_nothing_or_too_little_is_closed_in_time(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.handshake_s = 0.03
        silent, slow = house.guest(), house.guest()
        hello = encode(Verb.HELLO, 1, greeting())
        for byte in hello:
            slow.say_bytes(bytes([byte]))
            await asyncio.sleep(0.002)
            if slow.wire.closing:
                break
        assert isinstance(await silent.farewell(), HandshakeTimedOut)
        assert isinstance(await slow.farewell(), HandshakeTimedOut)
        house.handshake_s = 10.0

    inside(work)


def test_the_time_for_the_handshake_ends_with_it(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.handshake_s = 0.03
        guest = await house.admitted()
        await asyncio.sleep(0.06)
        await guest.ask(Verb.HEARTBEAT, 5, verbs.Empty())

    inside(work)


def test_who_goes_while_his_password_is_looked_at_leaves_nothing(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER CHANNEL(APP) CHLTYPE(SVRCONN) MAXINST(1)")
        for goes in (lambda guest: guest.wire.lose(), lambda guest: guest.link.close()):
            guest = house.guest(uid=None)
            guest.say(Verb.HELLO, 1, greeting(channel="APP", user="ann", password="ann's password"))
            await asyncio.sleep(0)
            goes(guest)
            await guest.until(lambda: any(event == "connected" for event, _ in house.audit))
            await asyncio.sleep(0.01)
            assert house.admission.instances("APP") == 0
            house.audit.clear()
        await house.admitted("ann")

    inside(work)


def test_a_full_gate_closes_without_a_word(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.gate._per_address_max = 2
        first, second = house.guest(), house.guest()
        third = house.guest()
        await third.until(lambda: third.wire.lost)
        assert third.wire.written == []
        assert len(house.desk.links) == 2
        first.wire.lose()
        assert not house.guest().wire.closing
        second.wire.lose()

    inside(work)


def test_who_is_gone_before_he_has_an_address_leaves_the_gate_too(inside: Inside) -> None:
    async def work(house: House) -> None:
        for _ in range(3):
            house.guest(uid=None, address="").wire.lose()
        assert house.gate.connections == 0
        assert house.desk.links == set()

    inside(work)


def test_a_mistake_of_ours_at_the_door_closes_the_connection(inside: Inside) -> None:
    async def work(house: House) -> None:
        async def admit(*_: Any, **__: Any) -> None:
            raise ZeroDivisionError

        house.admission.admit = admit  # type: ignore[assignment, method-assign]
        guest = house.guest()
        guest.say(Verb.HELLO, 1, greeting())
        assert await guest.farewell() is None
        assert [type(context["exception"]) for context in house.escaped] == [ZeroDivisionError]
        house.escaped.clear()

    inside(work)


# --- frames --------------------------------------------------------------------------------------


def test_every_verb_has_an_answer_or_none_and_the_connection_goes_on(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        for number, (verb, payload) in enumerate(SAMPLES.items(), 10):
            if verb.name.startswith(("HELLO", "CHANNEL", "GOODBYE")):
                continue
            guest.say(verb, number, payload)
            await guest.answer(number)
        assert (await guest.ask(Verb.GOODBYE, 5, verbs.Empty())).value is None
        assert await guest.farewell() is None

    inside(work)


@pytest.mark.parametrize("length", [0, 7, 2**31, 2**32 - 1])
def test_a_length_that_is_none_ends_the_connection(inside: Inside, length: int) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.say_bytes(HEAD.pack(length, Verb.HEARTBEAT, 1) + b"\x90")
        assert isinstance(await guest.farewell(), FrameUnreadable | FrameTooLong)

    inside(work)


def test_what_came_before_a_bad_frame_is_carried_out_and_nothing_behind_it(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        bad = HEAD.pack(9, 250, 1) + b"\x90"
        guest.say_bytes(encode(Verb.PUT, 0, put("Q", b"1")) + bad + encode(Verb.PUT, 0, put("Q", b"2")))
        assert isinstance(await guest.farewell(), UnknownVerb)
        assert [message.body for message in house.host.browse("Q", None, None, 9)[0]] == [b"1"]

    inside(work)


def test_nothing_that_comes_behind_the_end_is_carried_out(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.link.close()
        frame = encode(Verb.PUT, 0, put("Q"))
        guest.link.get_buffer(-1)[: len(frame)] = frame
        guest.link.buffer_updated(len(frame))  # as an encrypted connection does
        assert house.depth("Q") == 0

    inside(work)


def test_frames_may_come_in_any_pieces(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        frames = b"".join(encode(Verb.PUT, 0, put("Q", bytes([number]) * number)) for number in range(100))
        for at_a_time in (1, 7, 1000):
            guest.say_bytes(frames, at_a_time=at_a_time)
        await guest.ask(Verb.SYNCHRONIZE, 5, verbs.Empty())
        assert house.depth("Q") == 300

    inside(work)


# --- numbers and limits --------------------------------------------------------------------------


def test_what_gets_a_message_must_have_a_number_that_is_free(inside: Inside) -> None:
    async def work(house: House) -> None:
        waiting = verbs.Get("Q", 0, 60.0)
        for frames in (
            [(Verb.GET, 0, verbs.Get("Q"))],
            [(Verb.REQUEST, 0, SAMPLES[Verb.REQUEST])],
            [(Verb.GET_GROUP, 0, SAMPLES[Verb.GET_GROUP])],
            [(Verb.GET, 7, waiting), (Verb.GET, 7, waiting)],
            [(Verb.GET, 7, waiting), (Verb.REQUEST, 7, SAMPLES[Verb.REQUEST])],
            [(Verb.GET, 7, waiting), (Verb.GET_MANY, 7, SAMPLES[Verb.GET_MANY])],
            [(Verb.GET_GROUP, 7, verbs.GetGroup("Q", 1, 60.0)), (Verb.GET, 7, waiting)],
        ):
            guest = await house.admitted()
            for frame in frames:
                guest.say(*frame)
            assert isinstance(await guest.farewell(), FrameUnreadable)
        assert house.depth("Q") == 0  # no request was put

    inside(work)


def test_two_requests_with_one_number_end_the_connection_and_nobody_elses(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest, other = await house.admitted(), await house.admitted()
        request = verbs.Request("Q", "R", 60.0, True, None, Message(b""))
        guest.say_bytes(encode(Verb.REQUEST, 7, request) + encode(Verb.REQUEST, 7, request))
        assert isinstance(await guest.farewell(), FrameUnreadable)
        await other.put("Q", persistent=True)

    inside(work)


def test_one_connection_waits_for_so_many_messages_and_no_more(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "WAITING_PER_CONNECTION_MAX", 3)

    async def work(house: House) -> None:
        guest = await house.admitted()
        for number in range(10, 13):
            guest.say(Verb.GET, number, verbs.Get("Q", 0, math.inf))
        await guest.ask(Verb.HEARTBEAT, 5, verbs.Empty())
        guest.say(Verb.GET, 13, verbs.Get("Q", 0, math.inf))
        assert isinstance(await guest.farewell(), FrameUnreadable)

    inside(work)


def test_who_never_acknowledges_does_not_get_all_messages(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "WAITING_PER_CONNECTION_MAX", 3)

    async def work(house: House) -> None:
        guest, sender = await house.admitted(), await house.admitted()
        for _ in range(5):
            await sender.put("Q", persistent=True)
        for number in range(10, 13):
            assert (await guest.ask(Verb.GET, number, verbs.Get("Q"))).leased
        guest.say(Verb.GET, 13, verbs.Get("Q"))
        assert isinstance(await guest.farewell(), FrameUnreadable)
        await guest.until(lambda: house.held("Q") == 0)
        assert house.depth("Q") == 5

    inside(work)


def test_one_connection_has_so_many_units_and_no_more(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "UNITS_PER_CONNECTION_MAX", 3)

    async def work(house: House) -> None:
        guest = await house.admitted()
        for unit in range(1, 4):
            await guest.put("Q", unit=unit)
        await guest.commit(1)
        await guest.put("Q", unit=4)
        guest.say(Verb.PUT, 0, put("Q", unit=5))
        assert isinstance(await guest.farewell(), FrameUnreadable)
        assert house.depth("Q") == 1

    inside(work)


def test_errors_nobody_waited_for_are_kept_but_not_without_end(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "UNITS_PER_CONNECTION_MAX", 3)

    async def work(house: House) -> None:
        guest = await house.admitted()
        for unit in range(4):
            guest.say(Verb.PUT, 0, put("NOWHERE" * 20, unit=unit))
        await guest.ask(Verb.HEARTBEAT, 5, verbs.Empty())
        guest.say(Verb.PUT, 0, put("NOWHERE" * 20, unit=9))
        # To forget one of them would let its unit commit.
        assert isinstance(await guest.farewell(), FrameUnreadable)

    inside(work)


def test_an_error_that_is_kept_does_not_keep_its_message(inside: Inside) -> None:
    class Body(bytes):
        """Bytes that can be watched."""

    async def work(house: House) -> None:
        guest = await house.admitted()
        for unit, queue in ((1, "NOWHERE"), (2, "X" * 200)):
            body = Body(10_000)
            watched = weakref.ref(body)
            frame = put(queue, unit=unit)
            frame.message = Message(body)
            guest.link.on_frame(Verb.PUT, 0, frame)
            del body, frame
            gc.collect()
            assert unit in guest.link._errors
            assert watched() is None, queue

    inside(work)


def test_waiting_for_groups_is_limited_as_it_costs_time(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        for number in range(10, 110):
            guest.say(Verb.GET_GROUP, number, verbs.GetGroup("Q", 1, math.inf))
        with pytest.raises(LimitExceeded):
            await guest.ask(Verb.GET_GROUP, 110, verbs.GetGroup("Q", 1, math.inf))
        await guest.ask(Verb.CANCEL, 5, verbs.OfNumber(10))
        assert (await guest.answer(10))[1].messages == []
        assert len(guest.link.session.waiting) == 99

    inside(work)


def test_consumers_and_their_credit_are_limited(inside: Inside) -> None:
    async def work(house: House) -> None:
        for frames in (
            [(Verb.CONSUME, verbs.Consume("Q", 1, 1)), (Verb.CONSUME, verbs.Consume("Q", 1, 1))],
            [(Verb.CONSUME, verbs.Consume("Q", 1, 60_000)), (Verb.CREDIT, verbs.Credit(1, 0, 60_000))],
        ):
            guest = await house.admitted()
            for verb, payload in frames:
                guest.say(verb, 0, payload)
            assert isinstance(await guest.farewell(), FrameUnreadable)
        guest = await house.admitted()
        for credit in (-1, 100_001, 2**63):
            with pytest.raises(InvalidArgument):
                await guest.ask(Verb.CONSUME, 9, verbs.Consume("Q", 1, credit))
        await guest.ask(Verb.CONSUME, 9, verbs.Consume("Q", 1, 5))
        for more in (-1, 2**63):
            with pytest.raises(InvalidArgument):
                await guest.ask(Verb.CREDIT, 9, verbs.Credit(1, 0, more))

    inside(work)


def test_queues_made_by_one_connection_are_limited(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.channels.session._TEMPORARY_MAX", 3)

    async def work(house: House) -> None:
        guest = await house.admitted()
        for _ in range(3):
            await guest.ask(Verb.DYNAMIC, 9, SAMPLES[Verb.DYNAMIC])
        with pytest.raises(LimitExceeded):
            await guest.ask(Verb.DYNAMIC, 9, SAMPLES[Verb.DYNAMIC])

    inside(work)


@pytest.mark.parametrize(
    ("verb", "payload"),
    [
        (Verb.PUT, put("Q", priority=10)),
        (Verb.PUT, put("Q", priority=-1)),
        (Verb.PUT, put("Q", wait_s=-1.0)),
        (Verb.PUT, put("Q", wait_s=math.nan)),
        (Verb.PUT, put("Q", message_id=b"x" * 129)),
        (Verb.PUT, put("Q", properties={"a": []})),
        (Verb.PUT, put("Q" * 98)),
        (Verb.PUT, put([])),
        (Verb.PUT, put(["Q"] * 10_001)),
        (Verb.PUT, put("")),
        (Verb.PUT, put("@")),
        (Verb.PUT, put("Q@")),
        (Verb.PUT, put("q\0q")),
        (Verb.PUT, put("Q Q")),
        (Verb.PUT, put("ÖL")),
        (Verb.PUT, put("Q" * 49)),
        (Verb.GET, verbs.Get("Q", 0, -1.0)),
        (Verb.GET, verbs.Get("Q", 0, math.nan)),
        (Verb.GET, verbs.Get("Q" * 98)),
        (Verb.GET, verbs.Get("NOWHERE")),
        (Verb.GET, verbs.Get("Q", 0, 0.0, verbs.Wanted(message_id=b""))),
        (Verb.GET, verbs.Get("Q", 0, 0.0, verbs.Wanted(correlation_id=b"x" * 129))),
        (Verb.GET, verbs.Get("Q", 0, 0.0, verbs.Wanted(selector="("))),
        (Verb.GET, verbs.Get("Q", 0, 0.0, verbs.Wanted(selector="x" * 10_241))),
        (Verb.REQUEST, verbs.Request("Q", "R", 0.0, None, None, Message(b""))),
        (Verb.REQUEST, verbs.Request("Q", "R", math.inf, None, None, Message(b""))),
        (Verb.REQUEST, verbs.Request("Q", "R", 1.0, None, 10, Message(b""))),
        (Verb.REQUEST, verbs.Request("NOWHERE", "R", 1.0, None, None, Message(b""))),
        (Verb.REQUEST, verbs.Request("Q", "NOWHERE", 1.0, None, None, Message(b""))),
        (Verb.GET_MANY, verbs.GetMany("Q", 1, 0)),
        (Verb.GET_MANY, verbs.GetMany("Q", 1, 100_001)),
        (Verb.GET_GROUP, verbs.GetGroup("NOWHERE", 1)),
        (Verb.GET_GROUP, verbs.GetGroup("Q", 1, -1.0)),
        (Verb.BROWSE, verbs.Browse("Q", None, 0)),
        (Verb.BROWSE, verbs.Browse("NOWHERE", None, 1)),
        (Verb.PREPARE, verbs.Prepare(0, b"x")),
        (Verb.PREPARE, verbs.Prepare(1, b"")),
        (Verb.PREPARE, verbs.Prepare(1, b"x" * 141)),
        (Verb.RESOLVE, verbs.Resolve(b"unknown", True)),
        (Verb.CONSUME, verbs.Consume("NOWHERE", 1, 1)),
        (Verb.DYNAMIC, verbs.Dynamic("NOWHERE", "X")),
        (Verb.DYNAMIC, verbs.Dynamic("SYSTEM.DEFAULT.MODEL.QUEUE", "../x y")),
    ],
    ids=lambda value: value.name if isinstance(value, Verb) else None,
)
def test_what_is_wrong_with_a_verb_is_answered_and_the_connection_goes_on(
    inside: Inside, verb: Verb, payload: Any
) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        with pytest.raises(EntrepotError) as refused:
            await guest.ask(verb, 9, payload)
        assert refused.value.outcome == "not_done"
        assert len(str(refused.value)) < 20_000
        await guest.ask(Verb.HEARTBEAT, 5, verbs.Empty())
        assert house.depth("Q") == (1 if verb == Verb.REQUEST and payload.reply_queue == "NOWHERE" else 0)

    inside(work)


@pytest.mark.parametrize("place", [(0, 0), (-1, -1), (2**63, 2**63), (-(2**63), 5), (9, -(2**63))])
def test_a_browse_may_begin_anywhere(inside: Inside, place: tuple[int, int]) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        await guest.put("Q", b"x")
        found = await guest.ask(Verb.BROWSE, 9, verbs.Browse("Q", place, 5))
        assert len(found.messages) <= 1

    inside(work)


def test_cancelling_or_acknowledging_nothing_is_no_error(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        for verb in (Verb.CANCEL, Verb.ACKNOWLEDGE):
            for asked in (0, 5, -1, 2**63):
                assert (await guest.ask(verb, 9, verbs.OfNumber(asked))).value is None
                guest.say(verb, 0, verbs.OfNumber(asked))
        assert (await guest.ask(Verb.CREDIT, 9, verbs.Credit(77, 5, 5))).value is None
        assert (await guest.ask(Verb.STOP_CONSUMING, 9, verbs.OfConsumer(77))).value is None

    inside(work)


def test_a_cancelled_get_answers_and_takes_nothing_later(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.say(Verb.GET, 9, verbs.Get("Q", 0, math.inf))
        await guest.ask(Verb.CANCEL, 10, verbs.OfNumber(9))
        assert (await guest.answer(9))[1].message is None
        await guest.put("Q", b"x")
        assert house.depth("Q") == 1
        guest.say(Verb.REQUEST, 9, verbs.Request("Q", "R", 60.0, None, None, Message(b"")))
        await guest.ask(Verb.CANCEL, 10, verbs.OfNumber(9))
        with pytest.raises(RequestTimedOut):
            await guest.ask(Verb.CANCEL, 9, verbs.OfNumber(0))

    inside(work)


# --- identity ------------------------------------------------------------------------------------


def test_the_server_stamps_who_put_a_message(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("SET AUTHREC PROFILE('*') OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT, GET)")
        guest = await house.admitted("ann", application="orders")
        forged: dict[str, Any] = {
            "user": "root",
            "application": "payroll",
            "backout_count": 9,
            "put_time": 1.0,
            "target_queue": "X",
            "target_manager": "Y",
        }
        await guest.put("Q", **forged)
        guest.say(Verb.REQUEST, 9, verbs.Request("Q", "R", 60.0, None, None, Message(b"", **forged)))
        await guest.put(["Q", "R"], **forged)
        await guest.put("Q", unit=1, **forged)
        await guest.commit(1)
        found = house.host.browse("Q", None, None, 9)[0]
        assert len(found) == 4
        for message in found:
            assert (message.user, message.application) == ("ann", "orders")
            assert (message.backout_count, message.target_queue, message.target_manager) == (0, "", "")
            assert message.put_time > 1e9

    inside(work)


AUTHORITIES: list[tuple[Verb, Any, str]] = [
    (Verb.PUT, put("Q"), "PUT"),
    (Verb.PUT, put("Q@QM1"), "PUT"),
    (Verb.PUT, put(["Q", "Q"]), "PUT"),
    (Verb.PUT, put("Q", unit=1), "PUT"),
    (Verb.GET, verbs.Get("Q"), "GET"),
    (Verb.GET, verbs.Get("Q", 1), "GET"),
    (Verb.GET, verbs.Get("Q", 0, 0.01), "GET"),
    (Verb.GET_MANY, verbs.GetMany("Q", 1, 5), "GET"),
    (Verb.GET_GROUP, verbs.GetGroup("Q", 1), "GET"),
    (Verb.CONSUME, verbs.Consume("Q", 1, 5), "GET"),
    (Verb.BROWSE, verbs.Browse("Q", None, 5), "BROWSE"),
]


@pytest.mark.parametrize(("verb", "payload", "word"), AUTHORITIES)
def test_every_verb_on_a_queue_needs_its_authority(inside: Inside, verb: Verb, payload: Any, word: str) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted("ann")
        words = {"PUT", "GET", "BROWSE"}
        for authorities in ((), tuple(words - {word})):
            if authorities:
                house.mqsc(f"SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD({', '.join(authorities)})")
            with pytest.raises(NotAuthorized) as refused:
                await guest.ask(verb, 9, payload)
            assert (refused.value.object, refused.value.authority) == ("Q", word)
        house.mqsc(f"SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD({word})")
        await guest.ask(verb, 9, payload)
        house.mqsc(f"SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHRMV({word})")
        with pytest.raises(NotAuthorized):
            await guest.ask(verb, 10, payload if verb != Verb.CONSUME else verbs.Consume("Q", 2, 5))

    inside(work)


def test_a_refusal_does_not_tell_whether_there_is_such_a_queue(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted("ann")
        said = []
        for queue in ("Q", "NOSUCH"):
            with pytest.raises(NotAuthorized) as refused:
                await guest.ask(Verb.PUT, 9, put(queue))
            said.append(str(refused.value).replace(queue, "-"))
        assert said[0] == said[1]

    inside(work)


def test_a_distribution_list_needs_authority_for_each_queue(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)")
        guest = await house.admitted("ann")
        with pytest.raises(NotAuthorized):
            await guest.put(["Q", "R"])
        assert house.depth("Q") == 0

    inside(work)


def test_a_request_needs_authority_for_both_queues(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted("ann")
        request = verbs.Request("Q", "R", 0.01, None, None, Message(b""))
        for grants in ("", "PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)"):
            if grants:
                house.mqsc(f"SET AUTHREC {grants}")
            with pytest.raises(NotAuthorized):
                await guest.ask(Verb.REQUEST, 9, request)
        assert house.depth("Q") == 0
        house.mqsc("SET AUTHREC PROFILE(R) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(GET)")
        with pytest.raises(RequestTimedOut):
            await guest.ask(Verb.REQUEST, 9, request)

    inside(work)


def test_units_in_doubt_are_for_who_may_look_at_or_decide_them(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted("ann")
        for verb in (Verb.IN_DOUBT, Verb.RESOLVE):
            with pytest.raises(NotAuthorized):
                await guest.ask(verb, 9, SAMPLES[verb])
        house.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(INQ)")
        assert (await guest.ask(Verb.IN_DOUBT, 9, verbs.Empty())).value == []

    inside(work)


def test_a_queue_of_ones_own_making_is_open_to_its_maker_only_while_it_is_that_queue(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted("ann")
        with pytest.raises(NotAuthorized):
            await guest.ask(Verb.DYNAMIC, 9, verbs.Dynamic("SYSTEM.DEFAULT.MODEL.QUEUE", "MINE.*"))
        house.mqsc("SET AUTHREC PROFILE(SYSTEM.DEFAULT.MODEL.QUEUE) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(GET)")
        name = (await guest.ask(Verb.DYNAMIC, 9, verbs.Dynamic("SYSTEM.DEFAULT.MODEL.QUEUE", "MINE.*"))).value
        await guest.put(name, b"x")
        assert (await guest.get(name)) is not None
        guest.link.session.drop_temporary(name)
        house.host.define(type(house.host.find("QLOCAL", "Q"))(name=name), replace=False)  # type: ignore[call-arg]
        with pytest.raises(NotAuthorized):
            await guest.put(name, b"x")

    inside(work)


def test_refusals_are_told_to_the_audit_log(inside: Inside) -> None:
    async def work(house: House) -> None:
        told: list[tuple[str, str, str]] = []
        house.desk.refused = lambda identity, error: told.append((identity.user, error.object, error.authority))
        guest = await house.admitted("ann")
        for verb, payload in ((Verb.PUT, put("Q")), (Verb.MANAGE, verbs.Manage("stop"))):
            with pytest.raises(NotAuthorized):
                await guest.ask(verb, 9, payload)
        assert told == [("ann", "Q", "PUT"), ("ann", "QM1", "administrator")]

    inside(work)


# --- units of work -------------------------------------------------------------------------------


def test_a_put_that_was_refused_is_told_with_the_commit_and_nothing_of_the_unit_happens(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        for end, payload in ((Verb.COMMIT, verbs.OfUnit(1)), (Verb.PREPARE, verbs.Prepare(1, b"x"))):
            guest.say(Verb.PUT, 0, put("Q", unit=1))
            guest.say(Verb.PUT, 0, put("NOWHERE", unit=1))
            guest.say(Verb.PUT, 0, put("ELSEWHERE", unit=1))
            with pytest.raises(QueueNotFound, match="NOWHERE"):
                await guest.ask(end, 9, payload)
            assert (house.depth("Q"), house.held("Q")) == (0, 0)
            await guest.commit(1)  # there is nothing left of it

    inside(work)


def test_a_unit_all_of_whose_puts_were_refused_does_not_commit(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.say(Verb.PUT, 0, put("Q", unit=1, priority=10))
        with pytest.raises(InvalidArgument):
            await guest.commit(1)
        guest.say(Verb.PUT, 0, put("Q", unit=1, priority=10))
        await guest.ask(Verb.BACK_OUT, 9, verbs.OfUnit(1))
        await guest.commit(1)

    inside(work)


def test_synchronize_tells_the_first_refusal_since_the_last_one(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        for queue in ("Q", "NOWHERE", "ELSEWHERE", "Q"):
            guest.say(Verb.PUT, 0, put(queue, persistent=True))
        with pytest.raises(QueueNotFound, match="NOWHERE"):
            await guest.ask(Verb.SYNCHRONIZE, 9, verbs.Empty())
        assert house.depth("Q") == 2
        await guest.ask(Verb.SYNCHRONIZE, 9, verbs.Empty())

    inside(work)


@pytest.mark.parametrize("end", [Verb.COMMIT, Verb.BACK_OUT])
def test_gets_that_wait_in_a_unit_end_with_it(inside: Inside, end: Verb) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.say(Verb.GET, 10, verbs.Get("Q", 5, math.inf))
        guest.say(Verb.GET_MANY, 11, verbs.GetMany("Q", 5, 3, math.inf))
        guest.say(Verb.GET_GROUP, 12, verbs.GetGroup("Q", 5, math.inf))
        guest.say(Verb.GET, 13, verbs.Get("Q", 0, math.inf))
        await guest.ask(end, 9, verbs.OfUnit(5))
        assert (await guest.answer(10))[1].message is None
        assert (await guest.answer(11))[1].messages == []
        assert (await guest.answer(12))[1].messages == []
        # What comes now is not lost under a unit that has ended.
        await guest.put("Q", b"1", persistent=True)
        assert (await guest.answer(13))[1].message.body == b"1"
        await guest.put("Q", b"2", persistent=True)
        assert (await guest.get("Q")).body == b"2"  # type: ignore[union-attr]

    inside(work)


def test_get_many_and_get_group_want_a_unit(inside: Inside) -> None:
    async def work(house: House) -> None:
        for verb, payload in ((Verb.GET_MANY, verbs.GetMany("Q", 0, 5)), (Verb.GET_GROUP, verbs.GetGroup("Q", 0))):
            guest = await house.admitted()
            guest.say(verb, 9, payload)
            assert isinstance(await guest.farewell(), FrameUnreadable)

    inside(work)


def test_a_unit_that_ends_twice_ends_once(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        await guest.put("Q", unit=1, persistent=True)
        guest.say_bytes(encode(Verb.COMMIT, 10, verbs.OfUnit(1)) + encode(Verb.COMMIT, 11, verbs.OfUnit(1)))
        await guest.answer(10)
        await guest.answer(11)
        assert house.depth("Q") == 1
        await guest.ask(Verb.PREPARE, 9, verbs.Prepare(2, b"x"))
        with pytest.raises(EntrepotError):
            await guest.ask(Verb.PREPARE, 9, verbs.Prepare(3, b"x"))
        await guest.ask(Verb.RESOLVE, 9, verbs.Resolve(b"x", False))

    inside(work)


def test_a_group_can_no_longer_be_got_in_a_unit_that_has_ended(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        session = guest.link.session
        unit = session.begin()
        session.back_out(unit)
        told: list[EntrepotError | None] = []
        session.get_group("Q", Criteria(whole_group=True), unit, 5.0, lambda _, error: told.append(error))
        assert isinstance(told[0], UnitFinished)

    inside(work)


# --- long answers, slow partners -----------------------------------------------------------------


def test_answers_with_many_messages_stay_short(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER QLOCAL(Q) MAXMSGL(4194304)")
        guest = await house.admitted()
        for number in range(20):
            long: dict[str, Any] = {"properties": {"a": "x" * 200_000}} if number % 2 else {"body": bytes(200_000)}
            await guest.put("Q", **long)
        browsed, place = 0, None
        while True:
            guest.say(Verb.BROWSE, 9, verbs.Browse("Q", place, 1000))
            before = sum(map(len, guest.wire.written))
            _, found = await guest.answer(9)
            assert sum(map(len, guest.wire.written)) - before < 1_000_000
            if not found.messages:
                break
            browsed, place = browsed + len(found.messages), found.place
        assert browsed == 20
        got = 0
        while got < 20:
            found = await guest.ask(Verb.GET_MANY, 9, verbs.GetMany("Q", 1, 100))
            assert 1 <= len(found.messages) <= 5
            got += len(found.messages)

    inside(work)


def test_a_browse_of_long_messages_does_not_exceed_the_longest_frame(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER QLOCAL(Q) MAXMSGL(4194304)")
        guest = await house.admitted()
        for _ in range(3):
            await guest.put("Q", bytes(4 * 1024 * 1024))
        found = await guest.ask(Verb.BROWSE, 9, verbs.Browse("Q", None, 50))
        assert len(found.messages) == 1

    inside(work)


def test_one_who_looks_through_a_queue_does_not_keep_others_waiting(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        wanted = verbs.Wanted(selector="colour = 'none'")
        looks = [encode(Verb.BROWSE, number, verbs.Browse("Q", None, 5, wanted)) for number in range(100, 120)]
        looks += [encode(Verb.GET, number, verbs.Get("Q", 0, 0.0, wanted)) for number in range(120, 140)]
        guest.say_bytes(b"".join(looks))
        assert len([number for _, number, _ in guest.frames() if number >= 100]) == 1
        for number in range(100, 140):
            await guest.answer(number)
        assert [number for _, number, _ in guest.frames() if number >= 100] == []

    inside(work)


def test_who_does_not_read_is_not_read_from_and_gets_no_more(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest, sender = await house.admitted(), await house.admitted()
        guest.wire.partner_reads = False
        await guest.ask(Verb.CONSUME, 9, verbs.Consume("Q", 1, 1000))
        for _ in range(200):
            await sender.put("Q", bytes(10_000))
        # One mebibyte, and what came with it.
        assert 1_000_000 < guest.wire.unread_bytes < 2_500_000
        unread = guest.wire.unread_bytes
        guest.say(Verb.HEARTBEAT, 10, verbs.Empty())
        assert not guest.wire.reading
        for _ in range(200):
            await sender.put("Q", bytes(10_000))
        assert guest.wire.unread_bytes == unread
        assert house.depth("Q") == 400
        guest.wire.read_all()
        await guest.answer(10)
        await guest.until(lambda: len(guest.deliveries()) == 400)

    inside(work)


def test_frames_that_came_while_nobody_listened_are_carried_out_in_their_order(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.link.hold()
        assert not guest.wire.reading
        guest.wire.reading = True  # what the kernel had handed over before
        for number in range(5):
            guest.say(Verb.PUT, 0, put("Q", bytes([number])))
        guest.wire.reading = False
        assert house.depth("Q") == 0
        guest.link.resume()
        assert guest.wire.reading
        found = house.host.browse("Q", None, None, 9)[0]
        assert [message.body[0] for message in found] == [0, 1, 2, 3, 4]

    inside(work)


def test_a_bad_frame_among_those_that_waited_ends_the_connection(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.link.hold()
        guest.wire.reading = True
        frames = [encode(Verb.PUT, 0, put("Q", b"1")), HEAD.pack(9, 8, 1) + b"\xc1", encode(Verb.PUT, 0, put("Q"))]
        guest.say_bytes(b"".join(frames))
        guest.link.resume()
        assert isinstance(await guest.farewell(), FrameUnreadable)
        assert house.depth("Q") == 1

    inside(work)


def test_a_crowded_log_lets_nobody_say_more_until_it_has_written(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.link._engine.crowded = True
        guest.say(Verb.PUT, 9, put("Q"))
        assert not guest.wire.reading
        guest.say(Verb.PUT, 10, put("Q"))
        await guest.answer(10)
        assert guest.wire.reading

    inside(work)


def test_who_does_not_read_his_farewell_is_cut_off(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_FAREWELL_S", 0.02)

    async def work(house: House) -> None:
        guest = await house.admitted()
        await guest.put("Q", unit=1)
        guest.wire.partner_reads = False
        guest.say(Verb.HEARTBEAT, 9, verbs.Empty())
        assert guest.wire.unread_bytes
        guest.link.close()
        assert not guest.wire.lost
        await guest.until(lambda: guest.wire.lost)
        assert house.held("Q") == 0

    inside(work)


def test_silence_does_not_count_while_we_do_not_listen(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        assert guest.link.heartbeat_s == 30
        guest.link.hold()
        assert guest.link.heartbeat_s == 0
        guest.link.heard -= 1000
        guest.link.resume()
        assert guest.link.heartbeat_s == 30
        assert house.loop.time() - guest.link.heard < 1

    inside(work)


def test_a_partner_that_goes_while_we_do_not_listen_is_noticed(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            extra = guest.wire.get_extra_info
            guest.wire.get_extra_info = lambda name, default=None: ours if name == "socket" else extra(name)  # type: ignore[method-assign]
            assert not guest.link.has_hung_up()
            guest.link.hold()
            theirs.send(b"unread")
            assert not guest.link.has_hung_up()
            theirs.close()
            assert guest.link.has_hung_up()

    inside(work)


# --- those who go --------------------------------------------------------------------------------


def test_answers_that_come_too_late_go_nowhere(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        for number in range(10, 20):
            guest.say(Verb.PUT, number, put("Q", persistent=True))
        guest.say(Verb.MQSC, 20, verbs.Mqsc("DISPLAY QUEUE(*)"))
        guest.say(Verb.GET, 21, verbs.Get("R", 0, 60.0))
        guest.wire.lose()
        await guest.until(lambda: house.depth("Q") == 10)
        await asyncio.sleep(0.05)
        assert house.escaped == []

    inside(work)


def test_the_reply_to_one_who_has_gone_stays_where_it_is(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest, other = await house.admitted(), await house.admitted()
        await other.put("R", b"reply", correlation_id=b"abc", persistent=True)
        guest.say(Verb.REQUEST, 7, verbs.Request("Q", "R", 5.0, True, None, Message(b"", message_id=b"abc")))
        guest.wire.lose()
        await other.until(lambda: house.depth("Q") == 1)
        await asyncio.sleep(0.02)
        assert house.held("R") == 0
        assert (await other.get("R")).body == b"reply"  # type: ignore[union-attr]

    inside(work)


def test_a_partner_in_the_middle_of_everything_may_go_at_any_time(inside: Inside) -> None:
    async def work(house: House) -> None:
        sender = await house.admitted()
        for _ in range(10):
            await sender.put("Q", persistent=True)
        for goes in (
            lambda guest: guest.wire.lose(),
            lambda guest: guest.link.close(),
            lambda guest: guest.say_bytes(b"\xff" * 20),
        ):
            guest = await house.admitted()
            guest.say(Verb.GET, 10, verbs.Get("Q"))
            guest.say(Verb.GET, 11, verbs.Get("Q", 1))
            guest.say(Verb.PUT, 12, put("R", unit=1, persistent=True))
            guest.say(Verb.CONSUME, 13, verbs.Consume("Q", 1, 3))
            guest.say(Verb.GET, 14, verbs.Get("R", 0, 60.0))
            guest.say(Verb.GET_GROUP, 15, verbs.GetGroup("R", 1, 60.0))
            guest.say(Verb.DYNAMIC, 16, SAMPLES[Verb.DYNAMIC])
            guest.say(Verb.PUT, 17, put("Q", persistent=True))
            guest.say(Verb.MQSC, 18, verbs.Mqsc("DISPLAY QUEUE(*)"))
            goes(guest)
            await sender.until(lambda guest=guest: guest.wire.lost)  # type: ignore[misc]
            await asyncio.sleep(0.02)
            assert house.held("Q") == house.held("R") == 0
        assert house.depth("R") == 0

    inside(work)


# --- administration ------------------------------------------------------------------------------


def test_frames_behind_a_command_wait_for_it(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.say_bytes(
            encode(Verb.MQSC, 9, verbs.Mqsc("DEFINE QLOCAL(NEW)")) + encode(Verb.PUT, 10, put("NEW", b"x"))
        )
        await guest.answer(9)
        assert (await guest.answer(10))[0] == Verb.DONE

    inside(work)


def test_an_unforeseen_error_in_a_command_is_answered_and_the_connection_goes_on(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.desk.managed = lambda *_: 1 / 0
        guest = await house.admitted()
        with pytest.raises(ConnectionLost) as unknown:
            await guest.ask(Verb.MANAGE, 9, verbs.Manage("status"))
        assert unknown.value.outcome == "unknown"
        await guest.ask(Verb.HEARTBEAT, 10, verbs.Empty())
        assert [type(context["exception"]) for context in house.escaped] == [ZeroDivisionError]
        house.escaped.clear()

    inside(work)


def test_only_administrators_manage(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.desk.managed = lambda *_: pytest.fail("it was done")
        guest = await house.admitted("ann")
        for what in ("status", "checkpoint", "backup", "stop", "dump", "x" * 1000):
            with pytest.raises(NotAuthorized):
                await guest.ask(Verb.MANAGE, 9, verbs.Manage(what, {"destination": "/tmp/x"}))

    inside(work)


def test_a_put_that_nobody_waits_for_keeps_its_place_before_those_behind_it(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
        guest, other = await house.admitted(), await house.admitted()
        await guest.put("Q", b"0")
        guest.say(Verb.PUT, 0, put("Q", b"1", wait_s=60.0))
        guest.say(Verb.PUT, 0, put("R", b"2"))
        guest.say(Verb.HEARTBEAT, 9, verbs.Empty())
        await asyncio.sleep(0.03)
        assert house.depth("R") == 0
        assert not guest.frames()
        assert (await other.get("Q")).body == b"0"  # type: ignore[union-attr]
        await guest.answer(9)
        assert (house.depth("Q"), house.depth("R")) == (1, 1)

    inside(work)


def test_a_put_that_somebody_waits_for_does_not_keep_back_the_get_that_makes_room(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
        guest = await house.admitted()
        await guest.put("Q", b"0")
        guest.say(Verb.PUT, 9, put("Q", b"1", wait_s=60.0))
        assert (await guest.get("Q")).body == b"0"  # type: ignore[union-attr]
        assert (await guest.answer(9))[0] == Verb.DONE
        guest.say(Verb.PUT, 9, put("Q", b"2", wait_s=0.02))
        with pytest.raises(QueueFull):
            await guest.ask(Verb.PUT, 10, put("Q", b"2"))
        assert (await guest.answer(9))[0] == Verb.FAILED

    inside(work)


def test_puts_that_wait_for_room_are_few_at_a_time(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.channels.session._ASIDE_MAX", 3)

    async def work(house: House) -> None:
        house.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
        guest, other = await house.admitted(), await house.admitted()
        await guest.put("Q", b"0")
        for number in range(10, 16):
            guest.say(Verb.PUT, number, put("Q", bytes([number]), wait_s=60.0))
        guest.say(Verb.HEARTBEAT, 9, verbs.Empty())
        await asyncio.sleep(0.02)
        assert not guest.frames()  # it waits behind the fourth
        got = []
        while len(got) < 7:
            message = await other.get("Q")
            got += [] if message is None else [message.body]
        assert len(set(got)) == 7
        await guest.answer(9)

    inside(work)
