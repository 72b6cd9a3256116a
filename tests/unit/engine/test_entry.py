# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from array import array

from entrepot.engine.entry import OVERHEAD_BYTES, QueuedMessage, RestingRun
from entrepot.engine.recovery_log.run import StoredRun
from entrepot.message import Message


def test_run_knows_what_has_left_it() -> None:
    run = RestingRun(StoredRun(1, 10), array("Q", range(10)), queue=1, persistent=True, durable=False)
    assert run.live == 10
    run.set_taken(3)
    assert (run.is_taken(3), run.is_gone(3), run.live) == (True, False, 10)
    for _ in range(2):
        run.set_gone(9)
    assert (run.is_taken(9), run.is_gone(9), run.live) == (True, True, 9)
    assert not run.is_taken(8)


def test_entries_are_told_apart_by_identity() -> None:
    one, two = (QueuedMessage(1, 1, Message(b"xyz")) for _ in range(2))
    assert one != two
    assert one.memory_bytes == 3 + OVERHEAD_BYTES
