# SPDX-License-Identifier: Apache-2.0
"""Frames, numbers and limits: partners that do not keep to the protocol."""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable
from typing import Any

import pytest

from entrepot.errors import (
    EntrepotError,
    FrameTooLong,
    FrameUnreadable,
    InvalidArgument,
    LimitExceeded,
    RequestTimedOut,
    UnknownVerb,
)
from entrepot.message import Message
from entrepot.server import conversation
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import encode
from entrepot.server.wire.frame import HEAD
from entrepot.server.wire.verbs import PAYLOADS, Verb

from .guests import SAMPLES, House, Work, put

Inside = Callable[[Work], None]


def test_there_is_a_sample_of_every_verb() -> None:
    assert SAMPLES.keys() == {verb for verb in PAYLOADS if verb < 64}


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
        guest.wire.protocol.get_buffer(-1)[: len(frame)] = frame
        guest.wire.protocol.buffer_updated(len(frame))  # as an encrypted connection does
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
    monkeypatch.setattr(conversation, "WAITING_PER_CONNECTION_MAX", 3)

    async def work(house: House) -> None:
        guest = await house.admitted()
        for number in range(10, 13):
            guest.say(Verb.GET, number, verbs.Get("Q", 0, math.inf))
        await guest.ask(Verb.HEARTBEAT, 5, verbs.Empty())
        guest.say(Verb.GET, 13, verbs.Get("Q", 0, math.inf))
        assert isinstance(await guest.farewell(), FrameUnreadable)

    inside(work)


def test_who_never_acknowledges_does_not_get_all_messages(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "WAITING_PER_CONNECTION_MAX", 3)

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
    monkeypatch.setattr(conversation, "UNITS_PER_CONNECTION_MAX", 3)

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
    monkeypatch.setattr(conversation, "UNITS_PER_CONNECTION_MAX", 3)

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
    async def work(house: House) -> None:
        guest = await house.admitted()
        for unit, queue in ((1, "NOWHERE"), (2, "X" * 200)):
            body = bytes(10_000)
            before = sys.getrefcount(body)
            guest.link.on_frame(Verb.PUT, 0, put(queue, body, unit=unit))
            gc.collect()
            assert unit in guest.link.conversation._errors
            assert sys.getrefcount(body) == before, queue

    inside(work)


def test_waiting_for_groups_is_limited_as_it_costs_time(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        for number in range(10, 110):
            guest.say(Verb.GET_GROUP, number, verbs.GetGroup("Q", 1, math.inf))
        with pytest.raises(LimitExceeded):
            await guest.ask(Verb.GET_GROUP, 110, verbs.GetGroup("Q", 1, math.inf))
        await guest.ask(Verb.CANCEL, 5, verbs.NumberPayload(10))
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
    monkeypatch.setattr("entrepot.server.session._TEMPORARY_MAX", 3)

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
        (Verb.BROWSE, verbs.BrowsePayload("Q", None, 0)),
        (Verb.BROWSE, verbs.BrowsePayload("NOWHERE", None, 1)),
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
        assert house.depth("Q") == 0

    inside(work)


@pytest.mark.parametrize("place", [(0, 0), (-1, -1), (2**63, 2**63), (-(2**63), 5), (9, -(2**63))])
def test_a_browse_may_begin_anywhere(inside: Inside, place: tuple[int, int]) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        await guest.put("Q", b"x")
        found = await guest.ask(Verb.BROWSE, 9, verbs.BrowsePayload("Q", place, 5))
        assert len(found.messages) <= 1

    inside(work)


def test_cancelling_or_acknowledging_nothing_is_no_error(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        for verb in (Verb.CANCEL, Verb.ACKNOWLEDGE):
            for asked in (0, 5, -1, 2**63):
                assert (await guest.ask(verb, 9, verbs.NumberPayload(asked))).value is None
                guest.say(verb, 0, verbs.NumberPayload(asked))
        assert (await guest.ask(Verb.CREDIT, 9, verbs.Credit(77, 5, 5))).value is None
        assert (await guest.ask(Verb.STOP_CONSUMING, 9, verbs.ConsumerPayload(77))).value is None

    inside(work)


def test_a_cancelled_get_answers_and_takes_nothing_later(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.say(Verb.GET, 9, verbs.Get("Q", 0, math.inf))
        await guest.ask(Verb.CANCEL, 10, verbs.NumberPayload(9))
        assert (await guest.answer(9))[1].message is None
        await guest.put("Q", b"x")
        assert house.depth("Q") == 1
        guest.say(Verb.REQUEST, 9, verbs.Request("Q", "R", 60.0, None, None, Message(b"")))
        await guest.ask(Verb.CANCEL, 10, verbs.NumberPayload(9))
        with pytest.raises(RequestTimedOut):
            await guest.ask(Verb.CANCEL, 9, verbs.NumberPayload(0))

    inside(work)
