# SPDX-License-Identifier: Apache-2.0
"""Messages that are of use for a while only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.engine.entry import AVAILABLE, QueuedMessage
from entrepot.engine.queue import Queue
from entrepot.engine.unit_of_work import Take, UnitState, give_up_places
from entrepot.errors import EntrepotError
from entrepot.message import Feedback, Report

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager

_RETRY_S = 1.0


class Expiry:
    """Discards messages when their time has come, with a report if their sender wants one."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager

    def watch(self, queue: Queue, entry: QueuedMessage) -> None:
        """Discard an entry when it expires, unless somebody has it then."""
        expiry_s = entry.message.expiry_s
        assert expiry_s is not None
        self._manager.timers.at(self._manager.steady.of(entry) + expiry_s, self._expire_when_due, queue, entry)

    def has_expired(self, entry: QueuedMessage) -> bool:
        """Whether a message on a queue is to be discarded."""
        expiry_s = entry.message.expiry_s
        return expiry_s is not None and self.left_s(entry) <= 0

    def left_s(self, entry: QueuedMessage) -> float:
        """How long until a message that has an expiry is discarded."""
        steady, message = self._manager.steady, entry.message
        assert message.expiry_s is not None
        return steady.of(entry) + message.expiry_s - steady.now()

    def _expire_when_due(self, queue: Queue, entry: QueuedMessage) -> None:
        manager = self._manager
        try:
            self.expire(queue, entry)
        except EntrepotError:
            # The log is full. Whoever gets on this queue must not hear of it.
            manager.timers.at(manager.steady.now() + _RETRY_S, self._expire_when_due, queue, entry)

    def expire(self, queue: Queue, entry: QueuedMessage) -> None:
        """Discard an entry that nobody has and that has expired."""
        manager = self._manager
        if entry.state != AVAILABLE or not entry.resident or not self.has_expired(entry):
            return
        own = manager.internal_unit()
        if entry.message.report & Report.EXPIRATION:
            manager.consequences.plan_report(own, entry.message, Feedback.EXPIRATION)
        queue.lock_unread(entry)
        own.takes.append(Take(queue, entry))
        # Nobody waits for this: if it is lost, the message expires again after the restart.
        try:
            manager.commit(own, delivered=False)
        except EntrepotError:
            if own.state is UnitState.ACTIVE:
                # Not put back as a unit would: that sets a timer that is due at once, for as long as the log is full.
                give_up_places(own.puts)
                queue.unlock(entry)
            raise
