# SPDX-License-Identifier: Apache-2.0
"""Messages that are of use for a while only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.errors import EntrepotError
from entrepot.message import Feedback, Message, Report
from entrepot.queues.entry import AVAILABLE, QueuedMessage
from entrepot.queues.queue import Queue
from entrepot.queues.unit_of_work import Take

if TYPE_CHECKING:
    from entrepot.queues.queue_manager import QueueManager

_RETRY_S = 1.0


def has_expired(message: Message, now: float) -> bool:
    """Whether a message on a queue is of no more use."""
    return message.expiry_s is not None and message.put_time + message.expiry_s <= now


class Expiry:
    """Discards messages when their time has come, with a report if their sender wants one."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager

    def watch(self, queue: Queue, entry: QueuedMessage) -> None:
        """Discard an entry when it expires, unless somebody has it then."""
        expires_at = entry.message.expires_at()
        assert expires_at is not None
        self._manager.timers.at(expires_at, self._expire_when_due, queue, entry)

    def _expire_when_due(self, queue: Queue, entry: QueuedMessage) -> None:
        manager = self._manager
        try:
            self.expire(queue, entry)
        except EntrepotError:
            # The log is full. Whoever gets on this queue must not hear of it.
            manager.timers.at(manager.clock.now() + _RETRY_S, self._expire_when_due, queue, entry)

    def expire(self, queue: Queue, entry: QueuedMessage) -> None:
        """Discard an entry that nobody has and that has expired."""
        manager = self._manager
        if entry.state != AVAILABLE or not entry.resident or not has_expired(entry.message, manager.clock.now()):
            return
        own = manager.internal_unit()
        if entry.message.report & Report.EXPIRATION:
            manager.consequences.plan_report(own, entry.message, Feedback.EXPIRATION)
        queue.lock_unread(entry)
        own.takes.append(Take(queue, entry))
        # Nobody waits for this: if it is lost, the message expires again after the restart.
        manager.commit_or_undo(own, delivered=False)
