# SPDX-License-Identifier: Apache-2.0
"""System objects that an earlier release did not have yet."""

from __future__ import annotations

import logging

from entrepot.engine.queue_manager import QueueManager
from entrepot.errors import LogFull

_LOGGER = logging.getLogger("entrepot")


def define_missing(manager: QueueManager) -> None:
    """Let a queue manager have the system objects of this release; where there is no space, the next start will."""
    try:
        settlements = [*manager.administration.define_missing(), *manager.claims.move_from_queue()]
        if not settlements:
            return
        manager.force()
        error = settlements[-1].error
    except LogFull as full:
        error = full
    if manager.failure is not None:
        manager.log.close()
        raise manager.failure
    if error is not None:
        _LOGGER.warning("%s: system objects are missing: %s", manager.objects.manager.name, error)
