# SPDX-License-Identifier: Apache-2.0
"""What becomes due: the end of a delay, the end of a message's use or of a subscription."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial

from entrepot.engine.entry import GONE, NO_BODY, QueuedMessage
from entrepot.engine.queue import Queue

Action = Callable[[Queue, QueuedMessage], None]

# Below this number, timers of messages that have gone are not worth tidying up.
_TIDY_MIN = 1024
_AT_ONCE = 200
_NO_ENTRY = QueuedMessage(0, 0, NO_BODY)


class Timers:
    """Actions on messages, each at its time, which is steady time; nothing happens but in `tick`."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._waiting: list[tuple[float, int, Callable[[], None], QueuedMessage]] = []
        self._number = 0
        self._tidy_at = _TIDY_MIN

    def at(self, when: float, action: Action, queue: Queue, entry: QueuedMessage) -> None:
        if len(self._waiting) >= self._tidy_at:
            # Most messages are got long before they expire; their timers would stay until then.
            self._waiting = [timer for timer in self._waiting if timer[3].state != GONE]
            heapq.heapify(self._waiting)
            self._tidy_at = max(_TIDY_MIN, 2 * len(self._waiting))
        self._push(when, partial(action, queue, entry), entry)

    def call_at(self, when: float, action: Callable[[], None]) -> None:
        """The same for what has to do with no message."""
        self._push(when, action, _NO_ENTRY)

    def _push(self, when: float, action: Callable[[], None], entry: QueuedMessage) -> None:
        self._number += 1
        heapq.heappush(self._waiting, (when, self._number, action, entry))

    def tick(self) -> None:
        """Do what is due, or the oldest part of it: a hundred thousand messages may expire in the same second."""
        if not self._waiting:
            return
        now = self._now()
        for _ in range(_AT_ONCE):
            if not self._waiting or self._waiting[0][0] > now:
                return
            heapq.heappop(self._waiting)[2]()

    @property
    def next_due(self) -> float | None:
        """When `tick` will have something to do, in steady time."""
        return self._waiting[0][0] if self._waiting else None
