# SPDX-License-Identifier: Apache-2.0
"""Searches of a queue that stop after so many steps and go on later, so that no reader keeps the others waiting.

A verb that is given a `Search` raises `SearchPaused` when the steps of its
turn are used up. The caller runs the same verb again, with the same search,
in a later turn; it goes on where it stopped. What is guaranteed although the
queue changes in between:

- a message that stands on the queue from the first step to the last, and is
  wanted, is found, and the first of these in the order of delivery;
- a message that arrives or returns meanwhile is found too, if nothing else
  was; before or behind the others, as if it had come a moment earlier or later.

So a search that ends with nothing has looked at everything that is there,
and its reader can begin to wait.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from entrepot.engine.entry import AVAILABLE, QueuedMessage

if TYPE_CHECKING:
    from entrepot.engine.criteria import Criteria
    from entrepot.engine.lane import Lane
    from entrepot.engine.queue import Queue
    from entrepot.engine.recovery_log.record import Entry

STEPS_PER_TURN = 10_000
"""About two milliseconds: a step is a condition of a selector, or a character that LIKE looks at."""
STEPS_PER_MESSAGE = 4
"""To come to a message costs about as much as so many conditions."""
STEPS_PER_RUN = STEPS_PER_TURN
"""To read a run of some thousand messages from disk is a turn of its own."""
_LATECOMERS_MAX = 10_000


class SearchPaused(Exception):
    """The turn's steps are used up; run the verb again later, with the same search."""

    waiter_number = 0
    """Among readers that wait: the first that was not asked."""


class SearchBudget:
    """The steps that all searches together may still take before everything else has its turn."""

    __slots__ = ("left", "run_entries", "run_number")

    def __init__(self) -> None:
        self.left: float = math.inf
        """Without an event loop to keep free there is no limit."""
        self.run_number = -1
        self.run_entries: list[Entry] = []
        """The run that was read last: the next step often goes on in it."""

    def spend(self, steps: int) -> None:
        """Take these steps, at least for the first time in a turn.

        Raises:
            SearchPaused: There are none left; nothing was taken.
        """
        if self.left <= 0:
            raise SearchPaused
        self.left -= steps


class Search:
    """One reader's way through a queue, for one set of criteria."""

    __slots__ = ("_lanes", "_latecomers", "_queue", "asked", "criteria", "found", "group_id", "interrupted", "turn")

    def __init__(self, turn: SearchBudget, criteria: Criteria) -> None:
        self.turn = turn
        self.criteria = criteria
        self.asked: dict[tuple[int, int | None], int] = {}
        """How many entries of a run were looked at, by the run's number and the mark that was wanted."""
        self.found: dict[Lane, QueuedMessage] = {}
        """The first wanted entry in memory that was met, for each lane."""
        self.group_id = b""
        """The whole group that it has found, some of which is still on disk."""
        self.interrupted = False
        """Whether a verb that had found something stopped because the turn was over."""
        self._queue: Queue | None = None
        self._lanes: dict[Lane, int] = {}
        """The last key that was looked at, for each lane."""
        self._latecomers: deque[QueuedMessage] = deque()
        """What came to stand before that."""

    def on(self, queue: Queue) -> None:
        """The queue that is searched; another one than before, under the same name, is searched from its beginning."""
        if self._queue is not queue:
            self.end()
            self._queue = queue

    def end(self) -> None:
        """Forget everything."""
        for lane in self._lanes:
            lane.searches.discard(self)
        self._queue = None
        self._lanes.clear()
        self._latecomers.clear()
        self.asked.clear()
        self.found.clear()
        self.group_id = b""

    def passed(self, lane: Lane) -> int:
        """The last key that was looked at in memory, or -1."""
        return self._lanes.get(lane, -1)

    def pass_by(self, lane: Lane, key: int) -> None:
        """Everything in memory up to this key is not wanted."""
        if lane not in self._lanes:
            lane.searches.add(self)
        self._lanes[lane] = key

    def came(self, lane: Lane, entry: QueuedMessage) -> None:
        """An entry stands in memory from now on, perhaps before the place where the search is."""
        if entry.key > self._lanes[lane]:
            return
        if len(self._latecomers) >= _LATECOMERS_MAX:
            self.end()  # cheaper than to remember them
        else:
            self._latecomers.append(entry)

    def latecomer(self) -> QueuedMessage | None:
        """A wanted message among those that came to stand before the place where the search is."""
        while self._latecomers:
            entry = self._latecomers[0]
            if entry.state == AVAILABLE:
                self.spend_for(entry)
                if self.criteria.matches(entry.message):
                    return entry
            self._latecomers.popleft()
        return None

    def steps_for(self, entry: QueuedMessage) -> int:
        """What looking at a message costs."""
        return STEPS_PER_MESSAGE + self.criteria.steps_for(entry.message)

    def spend_for(self, entry: QueuedMessage) -> None:
        """Take the steps to look at a message.

        Raises:
            SearchPaused: There are none left.
        """
        self.turn.spend(self.steps_for(entry))
