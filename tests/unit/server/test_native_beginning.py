# SPDX-License-Identifier: Apache-2.0
"""The first frames of a connection, and who does not get beyond them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from entrepot.errors import (
    ForeignProtocol,
    FrameTooLong,
    FrameUnreadable,
    HandshakeTimedOut,
    InvalidArgument,
    UnknownVerb,
    VersionUnsupported,
    WrongManager,
)
from entrepot.server import password_checks
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import encode
from entrepot.server.wire.frame import HANDSHAKE_FRAME_BYTES_MAX
from entrepot.server.wire.verbs import Verb

from .guests import SAMPLES, House, Work, greeting, put

Inside = Callable[[Work], None]


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


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x03\x01\x00\x00", b"\x16\x03\x01\x02", bytes(64)])
def test_who_speaks_something_else_is_told_and_closed(inside: Inside, data: bytes) -> None:
    async def work(house: House) -> None:
        guest = house.guest()
        guest.say_bytes(data)
        assert isinstance(await guest.farewell(), ForeignProtocol if any(data) else FrameUnreadable)

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
        for verb, payload in ((Verb.DONE, verbs.DonePayload([[]] * 1000)), (Verb.ALIVE, verbs.Empty())):
            guest = await house.admitted()
            guest.say(verb, 1, payload)
            assert isinstance(await guest.farewell(), UnknownVerb)

    inside(work)


def test_a_channel_between_queue_managers_needs_somebody_to_receive_it(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(password_checks, "FAILURE_DELAY_S", 0.0)

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
    monkeypatch.setattr(password_checks, "FAILURE_DELAY_S", 0.01)

    async def work(house: House) -> None:
        guest = house.guest(uid=None)
        hello = encode(Verb.HELLO, 1, greeting(channel="APP", user="ann", password="wrong"))
        guest.say_bytes(hello + encode(Verb.PUT, 2, put("Q")) + encode(Verb.MQSC, 3, verbs.Mqsc("DELETE QLOCAL(Q)")))
        await guest.farewell()
        assert [(verb, number) for verb, number, _ in guest.frames()] == [(Verb.FAILED, 1)]
        assert house.depth("Q") == 0

    inside(work)


def test_a_stranger_gets_little_memory(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_checks, "FAILURE_DELAY_S", 0.05)

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
            await house.until(lambda: house.admission.instances("APP") == 0)
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
        assert len(house.registry.links) == 2
        first.wire.lose()
        assert not house.guest().wire.closing
        second.wire.lose()

    inside(work)


def test_who_is_gone_before_he_has_an_address_leaves_the_gate_too(inside: Inside) -> None:
    async def work(house: House) -> None:
        for _ in range(3):
            house.guest(uid=None, address="").wire.lose()
        assert house.gate.connections == 0
        assert house.registry.links == set()

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
