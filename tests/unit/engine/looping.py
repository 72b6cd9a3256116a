# SPDX-License-Identifier: Apache-2.0
"""A queue manager whose engine runs on an event loop, for tests of what happens there and when."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from entrepot.engine import host as host_module
from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.folder import create
from entrepot.engine.loop_host import LoopHost
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.unit_of_work import Unit
from entrepot.engine.waiting import Waiter
from entrepot.message import Message
from entrepot.testing import FaultyDisk, VirtualClock
from hosted import Host

PATIENCE_S = 60.0


class FullDisk:
    """Has no space for the next group of the log if a test says so."""

    full = False

    def before(self, operation: str, path: str, size: int) -> int | None:
        if self.full and operation == "force" and path.startswith("log/"):
            self.full = False
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return None


class Bench:
    """A queue manager with the queue Q, whose clock stands."""

    def __init__(self, path: Path) -> None:
        self.clock, self.disk = VirtualClock(), FullDisk()
        create(path, name="QM", log=LogSettings(segment_bytes=64 * 1024, primary=3, secondary=2), clock=self.clock)
        self.host = Host(path, disk=FaultyDisk(path, self.disk), clock=self.clock)
        self.host.define(LocalQueue(name="Q"), replace=False)
        self.host.force_s = 0.0  # so that the loop forces itself
        self.notes: list[object] = []

    def on_loop(self, work: Callable[[LoopHost], Awaitable[None]]) -> None:
        async def main() -> None:
            await asyncio.wait_for(work(LoopHost(self.host)), PATIENCE_S)
            for waiter in self.host.manager.objects.queues["Q"].waiters.all():
                waiter.leave()  # the loop ends before the queue manager

        asyncio.run(main())

    def put(self, engine: LoopHost, body: bytes = b"", *, persistent: bool = False, unit: Unit | None = None) -> None:
        engine.put("Q", Message(body), persistent, None, unit, lambda _, error: self.notes.append(error))

    def waiter(self, engine: LoopHost, criteria: Criteria | None = None, unit: Unit | None = None) -> Waiter:
        waiter = Waiter(criteria, unit, lambda: None)
        waiter.wake = engine.waker(lambda: self.notes.append(waiter.message and waiter.message.body))
        return waiter

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.host.browse("Q", None, None, 100)[0]]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(host_module, "_HOUSEKEEPING_S", 3600.0)  # nobody else forces or ends delays
    bench = Bench(tmp_path / "QM")
    yield bench
    bench.disk.full = False
    bench.host.close()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)
