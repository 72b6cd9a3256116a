# SPDX-License-Identifier: Apache-2.0
"""Messages and the readers that wait for them, brought together a turn at a time.

Every message that becomes available is offered to the readers that wait, in
the order they came. To ask them costs steps, as a search does: a thousand
selectors are a thousand questions. When the steps of a turn are used up, the
message stands on its queue and the rest of the readers are asked in later
turns; messages of one queue are offered in their order. A reader that waits
for whole groups is always looked for in a later turn, because that takes a
search of the queue. Without an event loop a turn has no end, and everything
happens at once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from entrepot.engine.entry import AVAILABLE, GONE, QueuedMessage
from entrepot.engine.search import Search, SearchPaused
from entrepot.engine.waiting import Waiter

if TYPE_CHECKING:
    from entrepot.engine.queue import Queue
    from entrepot.engine.queue_manager import QueueManager


class MessageDispatcher:
    """One for each queue manager; under its lock."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._queues: deque[Queue] = deque()
        """Queues with messages that were not offered to all readers yet."""
        self._searching: deque[tuple[Queue, Waiter]] = deque()
        """Readers for whom the queue has to be searched."""
        self.on_work: Callable[[], None] = lambda: None
        """Called when there is something to be done in a later turn."""

    @property
    def has_work(self) -> bool:
        return bool(self._queues or self._searching)

    def reader_for(self, queue: Queue, entry: QueuedMessage) -> Waiter | None:
        """Who takes an entry that is not on its queue yet, if that is known in this turn.

        Raises:
            SearchPaused: It is not known.
        """
        if queue.unoffered:
            raise SearchPaused  # others come before it
        return queue.waiters.first_for(entry.message, self._manager.turn)

    def offer(self, queue: Queue, entry: QueuedMessage) -> None:
        """Let waiting readers have an entry that has become available, or the group that it completes."""
        waiters = queue.waiters
        if waiters.for_groups:
            if self._manager.turn.left == math.inf:
                self._offer_to_all(queue, entry)
                return
            for waiter in waiters.all():
                if waiter.wants_whole_group:
                    self.search_for(queue, waiter)
        if queue.unoffered:
            queue.unoffered.append((entry, 0))
            return
        try:
            self._offer(queue, entry, 0)
        except SearchPaused as paused:
            queue.unoffered.append((entry, paused.waiter_number))
            self._queues.append(queue)
            self.on_work()

    def _offer(self, queue: Queue, entry: QueuedMessage, number: int) -> None:
        waiter = queue.waiters.first_for(entry.message, self._manager.turn, number)
        if waiter is not None and self._manager.is_claimable(queue, entry, waiter.unit):
            self._manager.give(queue, entry, waiter)

    def _offer_to_all(self, queue: Queue, entry: QueuedMessage) -> None:
        for waiter in list(queue.waiters.for_message(entry.message)):
            if waiter.wants_whole_group:
                self._serve_by_search(queue, waiter, None)
            elif entry.state == AVAILABLE and self._manager.is_claimable(queue, entry, waiter.unit):
                self._manager.give(queue, entry, waiter)

    def search_for(self, queue: Queue, waiter: Waiter) -> None:
        """A queue may have something for a reader by now that waits."""
        if self._manager.turn.left == math.inf:
            self._serve_by_search(queue, waiter, None)
        elif waiter.search is None and waiter.criteria is not None:
            waiter.search = Search(self._manager.turn, waiter.criteria)
            self._searching.append((queue, waiter))
            self.on_work()

    def _serve_by_search(self, queue: Queue, waiter: Waiter, search: Search | None) -> None:
        mine = () if waiter.unit is None else waiter.unit.keys_from(queue)
        entry = queue.next(waiter.criteria, mine, search)
        if entry is not None and self._manager.is_claimable(queue, entry, waiter.unit):
            self._manager.give(queue, entry, waiter)

    def go_on(self) -> None:
        """Do what is left, as far as the steps of this turn go; queues have their turn one after the other."""
        turn = self._manager.turn
        while self._queues and turn.left > 0:
            queue = self._queues.popleft()
            self._go_on_with(queue)
            if queue.unoffered:
                self._queues.append(queue)
        while self._searching and turn.left > 0:
            queue, waiter = self._searching.popleft()
            search = waiter.search
            try:
                if waiter.among is queue.waiters and search is not None:
                    self._serve_by_search(queue, waiter, search)
            except SearchPaused:
                self._searching.append((queue, waiter))
                return
            waiter.search = None
            if search is not None:
                search.end()

    def _go_on_with(self, queue: Queue) -> None:
        unoffered = queue.unoffered
        while unoffered:
            entry, number = unoffered[0]
            if entry.state == AVAILABLE:
                try:
                    self._offer(queue, entry, number)
                except SearchPaused as paused:
                    unoffered[0] = (entry, paused.waiter_number)
                    return
            elif entry.state == GONE and queue.run_count:
                # It may have gone to disk.
                for waiter in queue.waiters.all():
                    self.search_for(queue, waiter)
            unoffered.popleft()
