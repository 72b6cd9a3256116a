# SPDX-License-Identifier: Apache-2.0
"""Single branches of the compiled lane, compared with the general way; see test_lane.py for scripts at random."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import encode
from entrepot.server.wire.verbs import Verb

from .guests import put
from .twins import IS_COMPILED, WHY_NOT, Twins, live_twice

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason=WHY_NOT)

Alike = Callable[[Callable[[Twins], Awaitable[None]]], None]


@pytest.fixture
def alike(tmp_path: Path) -> Alike:
    """Run a test's coroutine with both houses, and see that they end alike."""
    return lambda work: live_twice(tmp_path, work)


def many(queue: str, *bodies: bytes, unit: int = 0, persistent: bool | None = False, **fields: Any) -> verbs.PutMany:
    """A frame of puts, each with an id of its own."""
    return verbs.PutMany(
        unit, [(queue, persistent, None, Message(body, message_id=b"id " + body[:20], **fields)) for body in bodies]
    )


def request(queue: str = "Q", body: bytes = b"ask", *, timeout_s: float = 1000.0, **fields: Any) -> verbs.Request:
    return verbs.Request(queue, "R", timeout_s, False, None, Message(body, **fields))


def kinds(heard: list[Any]) -> list[Verb]:
    return [Verb(frame[0]) for frame in heard]


COMMIT = (Verb.COMMIT, verbs.Commit(1))
SYNC = (Verb.SYNCHRONIZE, verbs.Empty())


# --- requests -----------------------------------------------------------------------------------


def test_units_end_while_a_request_waits(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q", "R")
        await twins.tell(0, (Verb.REQUEST, request()))
        await twins.tell(0, (Verb.REQUEST, request()), lane=True)
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"in unit", unit=1)))
        assert kinds(await twins.tell(0, COMMIT)) == [Verb.DONE]
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"another", unit=2)))
        assert kinds(await twins.tell(0, (Verb.BACK_OUT, verbs.BackOut(2)))) == [Verb.DONE]
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"a third", unit=3, persistent=True)))
        assert kinds(await twins.tell(0, (Verb.PREPARE, verbs.Prepare(3, b"x")))) == [Verb.DONE]
        assert kinds(await twins.tell(0, (Verb.RESOLVE, verbs.Resolve(b"x", True)))) == [Verb.DONE]

    alike(work)


# --- units of work ------------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [False, True])
def test_a_unit_takes_no_more_places_of_a_queue_than_there_are_by_two_names(alike: Alike, persistent: bool) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "SMALL", "ALIAS")
        puts = [(name, persistent, None, Message(b"x")) for name in ("SMALL", "SMALL", "ALIAS", "ALIAS")]
        heard = await twins.tell(0, (Verb.PUT_MANY, verbs.PutMany(1, puts)))
        assert kinds(heard) == [Verb.FAILED]
        await twins.tell(0, COMMIT)

    alike(work)


# --- frames that nobody should say --------------------------------------------------------------


@pytest.mark.parametrize("unit", [0, 1])
def test_a_long_frame_of_puts_is_refused(alike: Alike, unit: int) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q", "R")
        await twins.tell(0, (Verb.PUT, put("Q", b"before", persistent=False)), lane=True)
        heard = await twins.tell(0, (Verb.PUT_MANY, many("Q", b"a" * 40_000, b"b" * 40_000, unit=unit), False))
        assert kinds(heard) == [Verb.CLOSING]
        assert [message.body for message in twins.slow.messages()["Q"]] == [b"before"]

    alike(work)


def test_nothing_is_heard_behind_what_breaks_the_protocol(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q", "R")
        await twins.tell(0, (Verb.PUT, put("Q", b"before", persistent=False)), lane=True)
        broken = bytearray(encode(Verb.PUT_MANY, 0, many("Q", b"one", b"two")))
        broken[-1] = 0xC1  # no value of MessagePack
        behind = encode(Verb.PUT, 0, put("R", b"behind", persistent=False))
        for twin in twins.twins:
            (await twin.guest(0)).say_bytes(bytes(broken) + behind)
        await twins.quiet()
        assert kinds(twins.compare_heard(in_order=True)[0]) == [Verb.CLOSING]
        assert twins.slow.messages()["R"] == []

    alike(work)
