# SPDX-License-Identifier: Apache-2.0
"""Many messages of a queue in one go, for readers who take many: most messages need no look of their own.

A batch that has got something never raises. What its unit holds would
leave with the next commit, and its reader would never have seen it. So an
error ends the batch, and the next call meets it with nothing in hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from entrepot.engine.search import Search, SearchPaused
from entrepot.engine.unit_of_work import Take, Unit
from entrepot.errors import EntrepotError
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.engine.criteria import Criteria
    from entrepot.engine.queue_manager import QueueManager


def get_up_to(
    manager: QueueManager,
    name: str,
    criteria: Criteria | None,
    unit: Unit,
    limit: int,
    body_bytes: float = math.inf,
    search: Search | None = None,
    *,
    got: Sequence[Message] = (),
) -> list[Message]:
    """What as many gets under a unit would bring; the last message may exceed `body_bytes`.

    `got` is what the batch has already, and is part of the result and of its limit.

    Raises:
        EntrepotError: Nothing was got and nothing is locked. An error behind the first message ends the batch.
        SearchPaused: The search has found nothing yet. Once it has found something, `search.interrupted` tells.
    """
    if search is not None:
        search.interrupted = False
    found = list(got)
    while len(found) < limit and body_bytes > 0:
        try:
            some = [] if criteria is not None else _get_plain(manager, name, unit, limit - len(found), body_bytes)
            if not some:
                message, _ = manager.get(name, criteria, unit, search)
                if message is None:
                    break
                some = [message]
        except SearchPaused:
            if not found or search is None:
                raise
            search.interrupted = True
            break
        except EntrepotError:
            if not found:
                raise
            break
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
