# SPDX-License-Identifier: Apache-2.0
"""Looking at messages and leaving them where they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from entrepot.engine.criteria import Criteria
from entrepot.engine.search import STEPS_PER_MESSAGE, SearchBudget
from entrepot.errors import DiskFailed
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager

Place = tuple[int, int] | None


def browse(
    manager: QueueManager,
    name: str,
    criteria: Criteria | None,
    place: Place,
    limit: int,
    *,
    bytes_max: float = math.inf,
    turn: SearchBudget | None = None,
) -> tuple[list[Message], Place, bool]:
    """See `QueueManager.browse`. True: there may be more, but for the limit, the bytes or the end of the turn."""
    queue = manager.readable(name)
    found: list[Message] = []
    try:
        for entry in queue.after(place):
            if turn is not None:
                if turn.left <= 0:
                    return found, place, True
                turn.left -= STEPS_PER_MESSAGE + (0 if criteria is None else criteria.steps_for(entry.message))
            message = entry.message
            place = queue.place_of(entry)
            if manager.expiry.has_expired(entry) or not (criteria is None or criteria.matches(message)):
                continue
            found.append(manager.present(entry))
            bytes_max -= message.about_bytes()
            if len(found) >= limit or bytes_max <= 0:
                return found, place, True
    except OSError as error:
        raise manager.fail(DiskFailed(manager.disk.describe("runs"), str(error))) from error
    return found, place, False
