# SPDX-License-Identifier: Apache-2.0
"""Compiled persistent puts: their records are those of record.py, and a disk that fails finds them as the others."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.compiled import compiled
from entrepot.engine.recovery_log.record import PutRecord, frame
from entrepot.errors import LogFull
from entrepot.message import Message, MessageType
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb
from entrepot.testing.faults import Fault, PlannedFaults
from unit.server.guests import put
from unit.server.twins import WHY_NOT, Twins, live_twice

durable = compiled("durable")
pytestmark = pytest.mark.skipif(durable is None, reason=WHY_NOT)

# Around the places where MessagePack begins to need one more byte.
numbers = st.one_of(
    st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 0x10000, 0xFFFFFFFF, 0x100000000, 2**63 - 1]),
    st.integers(0, 2**63 - 1),
)
texts = st.text(max_size=20)
ids = st.binary(max_size=16) | st.just(bytes(128))
SIZES = [bytes(255), bytes(256), bytes(65535), bytes(65536)]
messages = st.builds(
    Message,
    st.integers(0, 3).flatmap(lambda kind: st.sampled_from(SIZES) if not kind else st.binary(max_size=40)),
    message_id=ids,
    correlation_id=ids,
    persistent=st.booleans(),
    priority=st.integers(0, 9),
    type=st.sampled_from(MessageType),
    put_time=st.floats(0, 1e12),
    expiry_s=st.none() | st.floats(0.1, 1e9),
    reply_to=texts,
    user=texts,
    application=texts,
    properties=st.dictionaries(texts, st.integers(-(2**40), 2**40), max_size=3),
)


@settings(max_examples=100, deadline=None)
@given(messages, numbers, numbers, numbers, numbers, st.integers(0, 2**32 - 1))
def test_a_record_is_the_same_to_the_byte(
    message: Message, unit: int, queue: int, key: int, position: int, seed: int
) -> None:
    raw = msgspec.msgpack.encode(message)
    made = durable.put_record(unit, queue, key, raw, position, seed)
    assert made == b"".join(frame(PutRecord(unit, [(queue, key)], message), position, seed))


# --- disks --------------------------------------------------------------------------------------


Alike = Callable[[Callable[[Twins], Awaitable[None]]], None]
FULL, BROKEN = errno.ENOSPC, errno.EIO


@pytest.fixture
def alike(tmp_path: Path) -> Alike:
    return lambda work: live_twice(tmp_path, work)


def many(queue: str, *bodies: bytes, unit: int, persistent: bool = True) -> tuple[Verb, Any]:
    puts = [(queue, persistent, None, Message(body, message_id=b"id " + body)) for body in bodies]
    return Verb.PUT_MANY, verbs.PutMany(unit, puts)


def fail_next(twins: Twins, operation: str, error_number: int) -> None:
    """Let the next write or force fail, in both houses."""
    for twin in twins.twins:
        twin.disk.faults = PlannedFaults(Fault(1, error_number, frozenset({operation})))


PUT = (Verb.PUT, put("Q", b"alone", persistent=True, correlation_id=b"c"))
COMMIT = (Verb.COMMIT, verbs.Commit(1))
SYNC = (Verb.SYNCHRONIZE, verbs.Empty())
ENDED = [
    pytest.param([PUT], id="put"),
    pytest.param([PUT, PUT, PUT], id="puts"),
    pytest.param([(*PUT, False), SYNC], id="unanswered put"),
    pytest.param([COMMIT], id="unit"),
    pytest.param([(*COMMIT, False)], id="unanswered unit"),
    pytest.param([PUT, COMMIT, PUT], id="puts and a unit"),
    pytest.param([(*many("Q", b"1", b"2", unit=0), False), SYNC], id="joined puts"),
]


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize(("operation", "error_number"), [("write", FULL), ("write", BROKEN), ("force", BROKEN)])
@pytest.mark.parametrize("frames", ENDED)
def test_a_disk_that_takes_no_more_is_told_alike(
    alike: Alike, frames: list[Any], operation: str, error_number: int, reads: bool
) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q", "FIFO")
        await twins.tell(0, PUT, lane=True)
        await twins.tell(
            0, many("Q", b"one", b"two", unit=1), many("FIFO", b"three", unit=1, persistent=False), lane=True
        )
        if reads:
            await twins.tell(1, (Verb.CONSUME, verbs.Consume("Q", 1, 100)))
        before = len(twins.fast.general)
        fail_next(twins, operation, error_number)
        await twins.tell(0, *frames)
        assert twins.fast.general[before:] == [Verb.SYNCHRONIZE] * (SYNC in frames)
        assert (twins.slow.manager.failure is not None) == (error_number == BROKEN)
        # And afterwards, as far as it goes on.
        for later in (PUT, (Verb.PUT, put("Q", b"more", persistent=False)), many("Q", b"last", unit=2), SYNC):
            await twins.tell(0, later)
        await twins.tell(0, (Verb.COMMIT, verbs.Commit(2)))
        assert error_number == BROKEN or twins.slow.manager.objects.queues["Q"].reserved in (0, 2)

    alike(work)


@pytest.mark.parametrize("asked", [PUT, COMMIT])
def test_a_full_log_is_for_the_general_way(alike: Alike, asked: Any) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(0, many("Q", b"one", b"two", unit=1), lane=True)
        for twin in twins.twins:
            _fill(twin)
        await twins.tell(0, asked, lane=False)
        for twin in twins.twins:
            del twin.manager.log.require_room
        await twins.tell(0, PUT, lane=True)
        await twins.tell(0, COMMIT)

    alike(work)


def _fill(twin: Any) -> None:
    def full(size: int, *, reserved: bool) -> None:
        raise LogFull(size)

    twin.manager.log.require_room = full
