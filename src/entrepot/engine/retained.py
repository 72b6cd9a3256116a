# SPDX-License-Identifier: Apache-2.0
"""Retained publications: the newest of each topic, for subscribers to come.

They are messages on SYSTEM.RETAINED.PUB.QUEUE, so they survive a restart
when they are persistent, and their bodies are stored once with those of
their subscribers. A newer one takes the place of the older when it arrives;
should a crash come between the two, restart keeps the newer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from entrepot.engine.definitions import RETAINED_QUEUE
from entrepot.engine.entry import AVAILABLE, GONE, QueuedMessage
from entrepot.engine.queue import Queue
from entrepot.engine.settlement import Settlement
from entrepot.engine.topics import TopicIndex, TopicPattern
from entrepot.engine.unit_of_work import Take
from entrepot.errors import EntrepotError
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager

_TIDY_MIN = 1000


class Retained:
    """The newest retained publication of each topic."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._entries: TopicIndex[QueuedMessage] = TopicIndex()

    @property
    def queue(self) -> Queue:
        """Where they rest.

        Raises:
            QueueNotFound: Somebody has deleted it; the next start makes it again.
        """
        return self._manager.objects.route(RETAINED_QUEUE).queue

    def arrived(self, queue: Queue, entry: QueuedMessage) -> None:
        """A retained publication is there; it takes the place of an older one."""
        topic = entry.message.topic
        if not topic or entry.state != AVAILABLE:
            return  # somebody has put a message there that is no publication, or reads them
        before = self._entries.get(topic)
        if before is not None and before.key > entry.key and before.state == AVAILABLE:
            before, entry = entry, before
        self._entries.set(topic, entry)
        if len(self._entries) > 2 * queue.depth + _TIDY_MIN:
            self._tidy()
        if before is not None and before is not entry and before.state == AVAILABLE:
            # Should the log be full, the older one stays behind until the next restart, where nobody finds it.
            with suppress(EntrepotError):
                self._discard(queue, before)

    def _tidy(self) -> None:
        """Forget the topics whose publications have expired or were got."""
        for topic, entry in list(self._entries):
            if entry.state == GONE:
                self._entries.remove(topic)

    def _discard(self, queue: Queue, entry: QueuedMessage) -> Settlement | None:
        own = self._manager.internal_unit()
        queue.lock_unread(entry)
        own.takes.append(Take(queue, entry))
        return self._manager.commit_or_undo(own, delivered=False)

    def recover(self) -> None:
        """Restart: find what there is."""
        queue = self._manager.objects.queues.get(RETAINED_QUEUE)
        if queue is not None:
            for entry in list(queue.after(None)):
                self.arrived(queue, entry)

    def find(self, pattern: TopicPattern) -> Iterator[Message]:
        """What is retained on topics that match."""
        for _, entry in sorted(self._entries.find(pattern), key=lambda found: found[1].key):
            if entry.state == AVAILABLE and not self._manager.expiry.has_expired(entry):
                yield entry.message

    def newest(self, topic: str) -> Message | None:
        entry = self._entries.get(topic)
        return entry.message if entry is not None and entry.state == AVAILABLE else None

    def topics(self) -> list[str]:
        return [topic for topic, entry in self._entries if entry.state == AVAILABLE]

    def clear(self, topic: str) -> tuple[int, Settlement | None]:
        """Retain nothing on a topic any more.

        Raises:
            LogFull: It is still retained.
        """
        entry = self._entries.get(topic)
        if entry is None or entry.state != AVAILABLE:
            return 0, None
        settlement = self._discard(self.queue, entry)
        self._entries.remove(topic)
        return 1, settlement
