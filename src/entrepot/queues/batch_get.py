# SPDX-License-Identifier: Apache-2.0
"""Many messages of a queue in one go, for readers who take many: most messages need no look of their own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from entrepot.message import Message
from entrepot.queues.unit_of_work import Take, Unit

if TYPE_CHECKING:
    from entrepot.queues.criteria import Criteria
    from entrepot.queues.queue_manager import QueueManager


def get_up_to(
    manager: QueueManager,
    name: str,
    criteria: Criteria | None,
    unit: Unit,
    limit: int,
    body_bytes: float = math.inf,
) -> list[Message]:
    """What as many gets under a unit would bring; the last message may exceed `body_bytes`."""
    found: list[Message] = []
    while len(found) < limit and body_bytes > 0:
        some = [] if criteria is not None else _get_plain(manager, name, unit, limit - len(found), body_bytes)
        if not some:
            message, _ = manager.get(name, criteria, unit)
            if message is None:
                break
            some = [message]
        body_bytes -= sum([len(message.body) for message in some])
        found += some
    return found


def _get_plain(manager: QueueManager, name: str, unit: Unit, limit: int, body_bytes: float) -> list[Message]:
    """The next ones, up to one that is special in any way, which `QueueManager.get` has to see to."""
    queue = manager.readable(name)
    unit.require_active()
    manager.timers.tick()
    entries = queue.lock_some(min(limit, unit.limit - len(unit.puts) - len(unit.takes)), body_bytes)
    unit.takes += [Take(queue, entry) for entry in entries]
    messages = [entry.message for entry in entries]
    if any(message.report for message in messages):
        unit.consequential = True
    if unit.counted:
        for entry in entries:
            manager.backout_counts.count(queue, entry)
    return messages
