# SPDX-License-Identifier: Apache-2.0
"""How often messages were tried in vain: what their backout counts say, also after a restart.

A try is counted when a unit of work takes the message, not when the unit is
backed out: so a reader that takes the whole process down with it has been
counted too. A reader that gives messages back unharmed has it forgiven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.engine.entry import QueuedMessage
from entrepot.engine.queue import Queue
from entrepot.engine.recovery_log.record import TakenRecord
from entrepot.engine.unit_of_work import Unit

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager

_NOTE_BYTES = 256
_KEY_BYTES = 9


class BackoutCounts:
    """Raises and lowers the counts of a queue manager's messages, and notes that in its log."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager

    def count(self, queue: Queue, entry: QueuedMessage) -> None:
        """Somebody tries a message."""
        entry.backouts += 1
        if self._is_hardened(queue, entry):
            self._manager.group_commit.note(TakenRecord([entry.key]))

    def count_tries(self, unit: Unit) -> None:
        """Readers have failed with what an uncounted unit holds."""
        for queue, entry in unit.takes:
            self.count(queue, entry)

    def forgive(self, unit: Unit) -> None:
        """What a unit has counted is given back as it was got."""
        if not unit.counted:
            return
        noted = []
        for queue, entry in unit.takes:
            entry.backouts = max(entry.backouts - 1, 0)
            if self._is_hardened(queue, entry):
                noted.append(entry.key)
        if noted:
            self._manager.group_commit.note(TakenRecord([], noted), _NOTE_BYTES + _KEY_BYTES * len(noted))

    def _is_hardened(self, queue: Queue, entry: QueuedMessage) -> bool:
        """Whether a restart has to know the count; a run that has the message has an older one."""
        if entry.log_position < 0 or not queue.definition.backout_hardened:
            return False
        if entry.run is not None:
            self._manager.recounted[entry.key] = entry.backouts
        return True
