# SPDX-License-Identifier: Apache-2.0
"""Where load generators gather, start together, and learn that the time is over.

All of it lies in shared memory that is made before the generators are
forked, so asking costs a generator no system call.
"""

from __future__ import annotations

import multiprocessing
import time

HEAD_START_NS = 200_000_000
"""From the opening to the common start, so that all have woken up."""
CLIENTS_MAX = 4096
fork = multiprocessing.get_context("fork")


class StartGate:
    """Opened once a trial. Times are of the monotonic clock, in ns."""

    def __init__(self) -> None:
        self._begun = fork.RawValue("q", 0)
        self._ended = fork.RawValue("q", 0)
        self._finished = fork.RawValue("b", 0)
        self._arrived = fork.Semaphore(0)
        self._opened = fork.Event()
        self._counts = fork.RawArray("q", CLIENTS_MAX)
        self._waits_ns = fork.RawArray("q", CLIENTS_MAX)

    def arrive(self) -> None:
        """Tell the leader that this client is connected."""
        self._arrived.release()

    def wait(self) -> int:
        """Arrive, and return at the common start with its time."""
        self.arrive()
        self._opened.wait()
        begun: int = self._begun.value
        sleep_until(begun)
        return begun

    def one_arrives(self, timeout_s: float) -> bool:
        return bool(self._arrived.acquire(timeout=timeout_s))

    def open(self, seconds: float) -> None:
        self._begun.value = time.monotonic_ns() + HEAD_START_NS
        self._ended.value = self._begun.value + int(seconds * 1e9)
        self._opened.set()

    @property
    def begun_ns(self) -> int:
        return int(self._begun.value)

    @property
    def ended_ns(self) -> int:
        """When senders stop; `close_now` brings it forward."""
        return int(self._ended.value)

    def close_now(self) -> None:
        self._ended.value = min(self._ended.value, time.monotonic_ns())

    def finish(self) -> None:
        """Everything has arrived, or never will: receivers may go home."""
        self._finished.value = 1

    @property
    def is_finished(self) -> bool:
        return bool(self._finished.value)

    def count(self, client: int, total: int) -> None:
        """What a client has sent or seen so far; the leader adds them up."""
        self._counts[client] = total

    def counted(self, clients: range) -> int:
        return sum(self._counts[clients.start : clients.stop])

    def wait_told(self, client: int, total_ns: int) -> None:
        """How long a getter has been waiting for messages so far."""
        self._waits_ns[client] = total_ns

    def waits_s(self, clients: range) -> list[float]:
        """Of those that have reported; clients that take no messages never do."""
        return [waited_ns / 1e9 for waited_ns in self._waits_ns[clients.start : clients.stop] if waited_ns]


def sleep_until(moment_ns: int) -> None:
    left_ns = moment_ns - time.monotonic_ns()
    if left_ns > 0:
        time.sleep(left_ns / 1e9)
