# SPDX-License-Identifier: Apache-2.0
"""When waiting gets have waited long enough: one timer of the loop for all of them.

Nearly every get is served long before its time is up, and a timer of the
loop's own for each would cost more than the get itself.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import Protocol

_TIDY_MIN = 1024


class Expiring(Protocol):
    """Something that waits."""

    @property
    def is_waiting(self) -> bool: ...

    def expire(self) -> None:
        """Its time is up."""


class Deadlines:
    """On the loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, Expiring]] = []
        self._number = 0
        self._tidy_at = _TIDY_MIN
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def after(self, seconds: float, waiting: Expiring) -> None:
        """Let something expire unless it is served before."""
        if len(self._heap) >= self._tidy_at:
            self._heap = [entry for entry in self._heap if entry[2].is_waiting]
            heapq.heapify(self._heap)
            self._tidy_at = max(_TIDY_MIN, 2 * len(self._heap))
        when = self._loop.time() + seconds
        self._number += 1
        heapq.heappush(self._heap, (when, self._number, waiting))
        if self._timer is None or when < self._due:
            self._set(when)

    def _set(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = when
        self._timer = self._loop.call_at(when, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._heap and (self._heap[0][0] <= now or not self._heap[0][2].is_waiting):
            waiting = heapq.heappop(self._heap)[2]
            if waiting.is_waiting:
                waiting.expire()
        if self._heap and self._timer is None:
            self._set(self._heap[0][0])
