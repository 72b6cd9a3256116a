# SPDX-License-Identifier: Apache-2.0
"""Links to topics, frame by frame: what foreign clients never do, or cannot be made to do at the right moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cproton_ffi", reason="python-qpid-proton, of the extra amqp, is not installed")

from entrepot.message import Message
from entrepot.server.amqp.codec import Described, Symbol, Symbols, UByte, UInt, ULong
from entrepot.server.amqp.mapping import encode_message

from .peer import Peer, Place, attach_sender, begin, credit, disposition, frame, queue_manager, transfer

PATIENCE_S = 60.0
ACCEPTED = Described(ULong(0x24), [])
MESSAGE = encode_message(Message(b"body", persistent=True), "Q")


def run(path: Path, work: Callable[[Place], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with queue_manager(path) as place:
            await work(place)

    asyncio.run(whole())


def subscribe(
    name: str = "sub", handle: int = 1, *, durable: bool = True, words: tuple[str, ...] = ("topic",), topic: str = "t"
) -> bytes:
    fields = [topic, UInt(2), Symbol("never")] if durable else [topic, None, None]
    source = Described(ULong(0x28), [*fields, None, None, None, Symbol("copy"), None, None, None, Symbols(words)])
    return frame("attach", [name, UInt(handle), True, UByte(0), None, source, Described(ULong(0x29), [])])


def look_up(name: str = "sub", handle: int = 1) -> bytes:
    return frame("attach", [name, UInt(handle), True, UByte(0), None, None, Described(ULong(0x29), [])])


def detach(handle: int = 1, *, closed: bool = True) -> bytes:
    return frame("detach", [UInt(handle), closed])


async def heard(peer: Peer, name: str, times: int = 1) -> list[list[Any]]:
    """What is said until a performative has come so often; the log may take its time."""
    found: list[tuple[str, list[Any]]] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found += await peer.hear()
        if sum(each == name for each, _ in found) >= times:
            return [fields for each, fields in found if each == name]
        await asyncio.sleep(0.005)
    raise AssertionError(f"{times} {name} expected in {found}")


def condition(fields: list[Any], at: int = 2) -> str | None:
    return str(fields[at].value[0]) if len(fields) > at and fields[at] is not None else None


def names(place: Place) -> list[str]:
    return [each.name for each in place.host.definitions() if each.kind == "SUB"]


async def left(place: Place, *readers: dict[str, int]) -> None:
    """Wait until these are the subscriptions, with so many readers; where several will do, any of them."""
    found: dict[str, int] = {}
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with place.host.lock:
            by_name = place.registry.engine.manager.objects.subscribers.by_name
            found = {name: each.readers for name, each in by_name.items()}
        if found in readers:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{found} is none of {readers}")


def test_words_behind_a_durable_attach_wait_for_it(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        # Everything at once: the second link shares what the first is about to make.
        peer.say(
            subscribe("sub|1", 1, words=("topic", "shared")),
            subscribe("sub|2", 2, words=("topic", "shared")),
            detach(1),
            detach(2),
        )
        assert [condition(fields) for fields in await heard(peer, "detach", 2)] == ["amqp:resource-locked", None]
        await left(place, {})
        peer.lose()

    run(tmp_path, work)


@pytest.mark.parametrize("closed", [True, False])
def test_link_that_comes_again_before_it_has_gone_harms_nobody(tmp_path: Path, closed: bool) -> None:
    async def work(place: Place) -> None:
        peer, other = place.connect(), place.connect()
        await peer.open()
        await other.open()
        peer.say(subscribe())
        await heard(peer, "attach")
        peer.say(detach(closed=closed), subscribe(handle=2), credit(5, 2))
        await asyncio.sleep(0.05)
        other.say(attach_sender("topic://t"), transfer(0, MESSAGE))
        assert await heard(other, "disposition")
        peer.lose()
        other.lose()
        await asyncio.sleep(0.05)
        await left(place, {}, {"tests:sub": 0})

    run(tmp_path, work)


@pytest.mark.parametrize("said", [(), (detach(),), (detach(closed=False),), (frame("end", []),), (frame("close", []),)])
def test_connection_that_breaks_at_once_leaves_nobody_reading(tmp_path: Path, said: tuple[bytes, ...]) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        peer.say(subscribe(), subscribe("fleeting", 2, durable=False), *said)
        peer.lose()
        await asyncio.sleep(0.05)
        await left(place, {}, {"tests:sub": 0})
        again = place.connect()
        await again.open()
        again.say(subscribe())
        assert (await heard(again, "attach"))[0][5] is not None
        again.lose()
        await left(place, {"tests:sub": 0})

    run(tmp_path, work)


def test_close_in_the_same_packet_as_the_detach_of_a_durable_subscription_is_answered(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        for said in (
            (detach(), frame("close", [])),
            (detach(), frame("end", []), frame("close", [])),
            (detach(closed=False), frame("end", [])),
            (detach(), begin(1)),
        ):
            peer = place.connect()
            await peer.open()
            peer.say(subscribe())
            await heard(peer, "attach")
            peer.say(*said)
            answer = {b"\x18": "close", b"\x17": "end", b"\x11": "begin"}[said[-1][10:11]]
            assert await heard(peer, answer)
            peer.lose()
            await left(place, {}, {"tests:sub": 0})

    run(tmp_path, work)


def test_ended_session_leaves_a_durable_subscription(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        peer.say(subscribe())
        await heard(peer, "attach")
        peer.say(frame("end", []))
        await heard(peer, "end")
        await left(place, {"tests:sub": 0})
        peer.say(begin(), subscribe())
        await heard(peer, "attach")
        await left(place, {"tests:sub": 1})
        peer.lose()

    run(tmp_path, work)


def test_accepted_messages_do_not_keep_a_subscription_from_ending(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        peer.say(subscribe(), credit(100))
        await heard(peer, "attach")
        for _ in range(10):
            place.host.put("topic:t", Message(b"x"), persistent=True)
        await heard(peer, "transfer", 10)
        peer.say(disposition(0, 4, ACCEPTED), detach())
        assert condition((await heard(peer, "detach"))[0]) is None
        await left(place, {})
        peer.lose()

    run(tmp_path, work)


def test_messages_in_a_transaction_keep_a_subscription_from_ending(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        coordinator = Described(ULong(0x30), [])
        source = Described(ULong(0x28), [])
        peer.say(frame("attach", ["c", UInt(0), False, UByte(0), None, source, coordinator, None, None, UInt(0)]))
        peer.say(transfer(0, b"\x00\x53\x77\x00\x53\x31\x45"), subscribe(), credit(1))
        await heard(peer, "attach", 2)
        place.host.put("topic:t", Message(b"x"), persistent=True)
        await heard(peer, "transfer")
        state = Described(ULong(0x34), [b"\x00\x00\x00\x01", ACCEPTED])
        peer.say(disposition(0, 0, state, settled=False), detach())
        assert condition((await heard(peer, "detach"))[0]) == "amqp:precondition-failed"
        await left(place, {"tests:sub": 0})
        peer.say(transfer(1, b"\x00\x53\x77\x00\x53\x32\xc0\x08\x02\xa0\x04\x00\x00\x00\x01\x42"))
        await heard(peer, "disposition")
        peer.say(look_up(handle=2), detach(2))
        assert condition((await heard(peer, "detach"))[0]) is None
        await left(place, {})
        peer.lose()

    run(tmp_path, work)


def test_our_detach_does_not_end_a_durable_subscription(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        source = Described(ULong(0x28), ["topic://t", UInt(1), Symbol("never")])
        rest = [None, None, None, ULong(10)]  # which takes messages of at most 10 bytes
        peer.say(frame("attach", ["sub", UInt(1), True, UByte(0), None, source, Described(ULong(0x29), []), *rest]))
        await heard(peer, "attach")
        peer.say(credit(1))
        place.host.put("topic:t", Message(b"x" * 100), persistent=True)
        assert condition((await heard(peer, "detach"))[0]) == "amqp:link:message-size-exceeded"
        peer.say(detach())  # the partner's answer to ours
        await peer.hear()
        await left(place, {"tests:sub": 0})
        peer.say(look_up(handle=2), credit(1, 2))
        assert await heard(peer, "transfer")
        peer.lose()

    run(tmp_path, work)


def test_link_without_a_source_finds_a_name_with_a_bar(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        peer.say(subscribe("a|b", 1), subscribe("s|global2", 2, words=("topic", "shared", "global")))
        await heard(peer, "attach", 2)
        assert names(place) == ["tests:a|b", "s"]
        peer.say(detach(1, closed=False), detach(2, closed=False))
        await heard(peer, "detach", 2)
        peer.say(look_up("a|b", 1), look_up("s|global", 2), look_up("x|global", 3), look_up("s", 4))
        attached = await heard(peer, "attach", 4)
        found = [fields[5].value[0] if fields[5] is not None else None for fields in attached]
        assert found == ["topic://t", "topic://t", None, None]
        peer.lose()

    run(tmp_path, work)


def test_capabilities_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        peer = place.connect()
        await peer.open()
        deep: Any = None
        for _ in range(40):
            deep = [deep]
        source = Described(ULong(0x28), ["t", *[None] * 9, deep])
        peer.say(frame("attach", ["r", UInt(1), True, UByte(0), None, source, Described(ULong(0x29), [])]))
        for _ in range(3):
            await peer.hear()
        peer.lose()
        assert names(place) == []

    run(tmp_path, work)
