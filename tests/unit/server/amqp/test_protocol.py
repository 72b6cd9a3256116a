# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cproton_ffi", reason="python-qpid-proton, of the extra amqp, is not installed")

from entrepot.engine.definitions import Channel
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import QueueManagerQuiescing
from entrepot.message import Message
from entrepot.server.amqp.codec import Described, UInt, ULong
from entrepot.server.amqp.handshake import AMQP_HEADER, SASL_HEADER, Outcome, outcome
from entrepot.server.amqp.incoming import CREDIT, IncomingLink
from entrepot.server.amqp.mapping import encode_message
from entrepot.server.amqp.sending_link import UNSENT_BYTES_MAX
from entrepot.server.connection_limiter import ConnectionLimiter

from .peer import (
    AmqpProtocol,
    Peer,
    Place,
    attach_receiver,
    attach_sender,
    credit,
    disposition,
    frame,
    init,
    queue_manager,
    transfer,
)

ACCEPTED = Described(ULong(0x24), [])
MESSAGE = encode_message(Message(b"body", priority=4), "Q")


def run(path: Path, work: Callable[[Place], Awaitable[None]], channel: Channel | None = None) -> None:
    async def whole() -> None:
        async with queue_manager(path, channel) as place:
            await work(place)

    asyncio.run(whole())


def errors(heard: list[tuple[str, list[Any]]]) -> list[str]:
    """The conditions with which links or the connection were ended."""
    found = []
    for name, fields in heard:
        error = {"detach": 2, "close": 0, "end": 0}.get(name)
        if error is not None and len(fields) > error and fields[error] is not None:
            found.append(fields[error].value[0])
    return found


# --- the beginning ------------------------------------------------------------------------------


def test_password_and_open(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        peer.say(SASL_HEADER)
        assert [name for name, _ in await peer.hear()] == ["header", "mechanisms"]
        peer.say(init("PLAIN", b"\x00app\x00right"))
        assert await peer.hear() == [("outcome", [0])]
        peer.say(AMQP_HEADER, frame("open", ["order-service"]))
        heard = dict(await peer.hear())
        assert heard["open"][0] == "QM1"
        assert peer.protocol.session is not None
        assert (peer.protocol.session.identity.user, peer.protocol.session.application) == ("app", "order-service")
        peer.say(frame("close", []))
        assert [name for name, _ in await peer.hear()] == ["close"]
        assert peer.transport.closing
        peer.lose()
        assert (place.admission.inside, place.registry.sessions, place.registry.links) == (0, {}, set())

    run(tmp_path, work)


def test_wrong_password(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        peer.say(SASL_HEADER, init("PLAIN", b"\x00app\x00wrong"))
        await peer.hear()
        assert peer.transport.written.endswith(outcome(Outcome.AUTH))
        assert peer.transport.closing
        peer.lose()
        assert place.admission.inside == 0

    run(tmp_path, work)


def test_other_protocols_are_answered_and_closed(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        peer.say(b"GET / HTTP/1.1\r\n")
        assert peer.transport.written == SASL_HEADER
        assert peer.transport.closing

    run(tmp_path, work)


@pytest.mark.parametrize("said", [b"", b"AMQ", SASL_HEADER, AMQP_HEADER])
def test_who_is_silent_is_closed(tmp_path: Path, said: bytes) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        peer.say(said)
        await peer.hear()
        assert not peer.transport.closing
        peer.protocol._too_slow()  # which the loop calls after handshake_s
        assert peer.transport.closing

    run(tmp_path, work)


def test_full_gate_turns_away(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        gate = ConnectionLimiter(1, 1)
        first = Peer(AmqpProtocol(place.registry, place.admission, place.listener, gate))
        second = Peer(AmqpProtocol(place.registry, place.admission, place.listener, gate))
        assert (first.transport.closing, second.transport.closing) == (False, True)
        second.lose()
        first.lose()
        assert gate.connections == 0

    run(tmp_path, work)


def test_heartbeat_is_the_channels(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        peer.say(AMQP_HEADER)
        await peer.hear()
        peer.say(frame("open", ["x", None, None, None, UInt(50)]))
        heard = dict(await peer.hear())
        assert heard["open"][4] == 7000
        assert peer.protocol.heartbeat_s == 7
        conversation = peer.protocol._conversation
        assert conversation is not None
        now = int(place.registry.loop.time() * 1000)
        conversation.tick(now)
        conversation.tick(now + 30)
        peer.protocol._flush()
        assert ("empty", []) in await peer.hear()
        conversation.tick(now + 15_000)
        assert errors(await peer.hear()) == []
        peer.protocol._flush()
        assert errors(await peer.hear()) == ["amqp:resource-limit-exceeded"]
        assert peer.transport.closing

    run(tmp_path, work, Channel(name="APP", heartbeat_s=7))


# --- messages -----------------------------------------------------------------------------------


def test_message_is_accepted_when_the_log_has_it(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        peer.say(attach_sender())
        heard = dict(await peer.hear())
        assert heard["flow"][6] == CREDIT
        durable = encode_message(Message(b"body", persistent=True, priority=4), "Q")
        peer.say(transfer(0, durable))
        assert peer.transport.written.count(b"\x00\x53\x15") == 0
        while not (answers := await peer.hear()):
            await asyncio.sleep(0.001)
        assert answers[0][0] == "disposition"
        assert answers[0][1][4].descriptor == 0x24
        assert place.depth() == 1
        peer.lose()

    run(tmp_path, work)


def test_full_log_makes_senders_wait_and_loses_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        small = LogSettings(segment_bytes=64 * 1024, primary=2, secondary=1)
        async with queue_manager(tmp_path, log=small) as place:
            peer = place.connect()
            await peer.open()
            peer.say(attach_sender())
            await peer.hear()
            durable = encode_message(Message(b"x" * 20_000, persistent=True, priority=4), "Q")
            held = False
            for number in range(60):
                peer.say(transfer(number, durable))
                held = held or not peer.transport.reading
            settled: set[int] = set()
            while len(settled) < 60:
                await asyncio.sleep(0.002)
                for name, fields in await peer.hear():
                    if name == "disposition":
                        assert fields[4].descriptor == 0x24, fields
                        settled |= set(range(fields[1], (fields[2] or fields[1]) + 1))
            assert held
            assert peer.transport.reading
            assert place.depth() == 60
            peer.lose()

    asyncio.run(work())


def test_sender_without_credit_is_detached(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        peer.say(attach_sender("NO.SUCH"))
        assert errors(await peer.hear()) == ["amqp:not-found"]
        peer.say(attach_sender(handle=3, name="good"))
        await peer.hear()
        link = next(iter(peer.protocol._conversation.links.values()))  # type: ignore[union-attr]
        assert not link.is_open
        good = [each for each in peer.protocol._conversation.links.values() if each.is_open]  # type: ignore[union-attr]
        assert isinstance(good[0], IncomingLink)
        good[0]._credit = 2
        peer.say(*(transfer(number, MESSAGE, 3) for number in range(4)))
        assert errors(await peer.hear()) == ["amqp:link:transfer-limit-exceeded"]
        assert place.depth() == 2
        peer.lose()

    run(tmp_path, work)


def test_half_messages_are_limited(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        peer.say(*(attach_sender("Q", number, str(number)) for number in range(6)))
        await peer.hear()
        for handle in range(6):
            for _ in range(20):
                part = b"\x00\x53\x75\xb0\x00\x30\x00\x00" + b"x" * 60_000
                peer.say(transfer(handle, part, handle, more=True))
        assert errors(await peer.hear()) == ["amqp:resource-limit-exceeded"]
        assert peer.transport.closing
        peer.lose()

    run(tmp_path, work, Channel(name="APP", body_bytes_max=500_000))


def test_aborted_message_is_forgotten(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        peer.say(attach_sender())
        await peer.hear()
        aborted = frame("transfer", [UInt(0), UInt(0), b"0", UInt(0), False, False, None, None, False, True])
        peer.say(transfer(0, MESSAGE[:5], more=True), aborted, transfer(1, MESSAGE))
        heard = await peer.hear()
        assert [fields[1] for name, fields in heard if name == "disposition"] == [1]
        assert place.depth() == 1
        assert peer.protocol._conversation.pieces_bytes == 0  # type: ignore[union-attr]
        peer.lose()

    run(tmp_path, work)


def test_range_of_dispositions_is_one_commit(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        for _ in range(50):
            place.host.put("Q", Message(b"x"), persistent=True)
        peer = place.connect()
        await peer.open()
        peer.say(attach_receiver(), credit(50))
        await peer.hear()
        before = place.host.manager.log.appended_position
        peer.say(disposition(0, 49, ACCEPTED))
        async with asyncio.timeout(60):
            while place.depth():
                await asyncio.sleep(0.002)
        assert place.host.manager.log.appended_position - before < 50 * 20
        peer.lose()

    run(tmp_path, work)


def test_partner_that_does_not_read_stops_its_consumers(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        for _ in range(200):
            place.host.put("Q", Message(b"x" * 100_000))
        peer = place.connect()
        await peer.open()
        peer.protocol.pause_writing()
        peer.say(attach_receiver(mode=1), credit(200))
        await peer.hear()
        assert place.depth() >= 200 - 2 * UNSENT_BYTES_MAX / 100_000
        peer.protocol.resume_writing()
        for _ in range(500):
            await peer.hear()
            if place.depth() == 0:
                break
        assert place.depth() == 0
        peer.lose()

    run(tmp_path, work)


def test_session_window_of_the_partner_stops_its_consumers(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        for _ in range(200):
            place.host.put("Q", Message(b"x" * 50_000))
        peer = place.connect()
        peer.say(AMQP_HEADER)
        await peer.hear()
        narrow = frame("begin", [None, UInt(0), UInt(1), UInt(1000)])
        peer.say(frame("open", ["tests"]), narrow, attach_receiver(mode=1), credit(200, window=1))
        await peer.hear()
        assert place.depth() > 150
        peer.lose()

    run(tmp_path, work)


def test_drain_gives_back_what_finds_nothing(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        for _ in range(3):
            place.host.put("Q", Message(b"x"))
        peer = place.connect()
        await peer.open()
        peer.say(attach_receiver(), credit(10, drain=True))
        heard = await peer.hear()
        flows = [fields for name, fields in heard if name == "flow" and len(fields) > 6]
        assert [name for name, _ in heard].count("transfer") == 3
        assert (flows[-1][5], flows[-1][6]) == (10, 0)
        place.host.put("Q", Message(b"late"))
        assert "transfer" not in [name for name, _ in await peer.hear()]
        assert place.depth() == 4
        peer.lose()

    run(tmp_path, work)


def test_released_message_comes_before_its_successor(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        for body in (b"first", b"second"):
            place.host.put("Q", Message(body))
        peer = place.connect()
        await peer.open()
        peer.say(attach_receiver(), credit(1))
        await peer.hear()
        seen = peer.transport.written
        peer.say(disposition(0, 0, Described(ULong(0x26), [])) + credit(1, delivery_count=1))
        await peer.hear()
        again = peer.transport.written[len(seen) :]
        assert b"first" in again
        assert b"second" not in again
        peer.lose()

    run(tmp_path, work)


def test_detached_receiver_gives_back_its_messages(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        for _ in range(3):
            place.host.put("Q", Message(b"x"))
        peer = place.connect()
        await peer.open()
        peer.say(attach_receiver(), credit(2))
        await peer.hear()
        peer.say(frame("detach", [UInt(1), True]))
        assert [name for name, _ in await peer.hear()][-1] == "detach"
        assert [message.backout_count for message in place.host.browse("Q", None, None, 10)[0]] == [1, 1, 0]
        peer.say(disposition(0, 1, ACCEPTED), frame("end", []))
        assert [name for name, _ in await peer.hear()] == ["end"]
        assert place.depth() == 3
        peer.lose()

    run(tmp_path, work)


def test_ended_session_takes_its_links_along(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        place.host.put("Q", Message(b"x"))
        peer = place.connect()
        await peer.open()
        peer.say(attach_receiver(), credit(2), attach_sender(), transfer(0, MESSAGE), frame("end", []))
        heard = [name for name, _ in await peer.hear()]
        assert heard[-1] == "end"
        assert peer.protocol._conversation.links == {}  # type: ignore[union-attr]
        assert place.depth() == 2
        peer.lose()

    run(tmp_path, work)


# --- the end ------------------------------------------------------------------------------------


def test_server_that_stops_says_so(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        peer.protocol.close(QueueManagerQuiescing("QM1", "it stops"))
        assert errors(await peer.hear()) == ["amqp:connection:forced"]
        assert peer.transport.closing
        peer.lose()

    run(tmp_path, work)


def test_our_own_mistake_costs_one_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(place: Place) -> None:
        first, second = place.connect(), place.connect()
        await first.open()
        await second.open()
        first.say(attach_sender())
        second.say(attach_sender())
        await first.hear()
        await second.hear()

        def broken(*_: Any) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setattr(IncomingLink, "on_message", broken)
            first.say(transfer(0, MESSAGE))
        assert first.transport.closing
        first.lose()
        second.say(transfer(0, MESSAGE))
        assert [name for name, _ in await second.hear()] == ["disposition"]
        assert place.depth() == 1
        second.lose()
        assert place.registry.sessions == {}

    with caplog.at_level(logging.CRITICAL, "entrepot"):
        run(tmp_path, work)


def test_mistake_while_delivering_does_not_reach_the_sender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        peer.say(attach_receiver(), credit(2))
        await peer.hear()
        with monkeypatch.context() as patch:
            patch.setattr("entrepot.server.amqp.sending_link.encode_message", lambda *_: 1 / 0)
            place.host.put("Q", Message(b"x"))
            async with asyncio.timeout(60):
                while not peer.transport.closing:
                    await asyncio.sleep(0.001)
            await peer.hear()
        peer.lose()
        assert place.depth() == 1

    with caplog.at_level(logging.CRITICAL, "entrepot"):
        run(tmp_path, work)


def test_ten_thousand_connections_leave_nothing_behind(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        place.host.put("Q", Message(b"x"))

        async def one() -> None:
            peer = place.connect()
            peer.say(AMQP_HEADER)
            await asyncio.sleep(0)
            peer.say(
                frame("open", ["x"]),
                frame("begin", [None, UInt(0), UInt(1000), UInt(1000)]),
                attach_receiver(),
                credit(1),
                attach_sender(),
                transfer(0, MESSAGE, settled=False),
                transfer(1, MESSAGE[:9], more=True),
            )
            peer.lose()

        for _ in range(2000):
            await one()
        gc.collect()
        before = _resident_bytes()
        for _ in range(8000):
            await one()
        gc.collect()
        place.host.clear("Q")
        assert _resident_bytes() - before < 24 * 1024 * 1024
        assert (place.registry.sessions, place.registry.links, place.admission.inside) == ({}, set(), 0)

    run(tmp_path, work)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
