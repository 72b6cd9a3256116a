# SPDX-License-Identifier: Apache-2.0
"""Many puts of a unit of work in one go: all of them are in the unit, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from entrepot.errors import EntrepotError
from entrepot.message import PutInUnit
from entrepot.queues.unit_of_work import Unit

if TYPE_CHECKING:
    from entrepot.queues.queue_manager import QueueManager


def put_all(manager: QueueManager, unit: Unit, puts: Sequence[PutInUnit]) -> list[bytes]:
    """Put messages in a unit of work; their ids.

    Raises:
        EntrepotError: The first refusal. The unit is as it was before.
    """
    planned, body_bytes = len(unit.puts), unit.body_bytes
    try:
        return [
            manager.put(name, message, persistent=persistent, priority=priority, unit=unit)[0]
            for name, persistent, priority, message in puts
        ]
    except EntrepotError:
        manager.forget_puts(unit, planned)
        unit.body_bytes = body_bytes
        raise
