# SPDX-License-Identifier: Apache-2.0
"""Looking at messages and leaving them where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.errors import DiskFailed
from entrepot.message import Message
from entrepot.queues.criteria import Criteria
from entrepot.queues.expiry import has_expired
from entrepot.queues.queue import Queue

if TYPE_CHECKING:
    from entrepot.queues.queue_manager import QueueManager


def browse(
    manager: QueueManager, queue: Queue, criteria: Criteria | None, place: tuple[int, int] | None, limit: int
) -> tuple[list[Message], tuple[int, int] | None]:
    """See `QueueManager.browse`."""
    found: list[Message] = []
    now = manager.clock.now()
    while len(found) < limit:
        try:
            entries = queue.after(place, limit)
        except OSError as error:
            raise manager.fail(DiskFailed(manager.disk.describe("runs"), str(error))) from error
        if not entries:
            break
        place = queue.place_of(entries[-1])
        for entry in entries:
            message = entry.message
            if has_expired(message, now) or not (criteria is None or criteria.matches(message)):
                continue
            found.append(manager.present(entry, now))
    return found, place
