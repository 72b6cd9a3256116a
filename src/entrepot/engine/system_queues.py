# SPDX-License-Identifier: Apache-2.0
"""The queue manager's own queues: which names they have, and which of them it alone writes to.

What lies on an internal queue is believed: a trigger message starts a
program, a channel's state decides what is sent once more after a restart.
So no application puts there, on no way and with no authority, and no
administrator either (docs/decisions/0026-one-question-before-every-put.md).
"""

from __future__ import annotations

from entrepot.engine.definitions import (
    CHANNEL_INITIATION_QUEUE,
    CLAIMS_QUEUE,
    INITIATION_QUEUE,
    MODEL_QUEUE,
    PERFORMANCE_EVENT_QUEUE,
    RETAINED_QUEUE,
    SYNCHRONIZATION_QUEUE,
)

PREFIX = "SYSTEM."

STATE_QUEUES = frozenset({CLAIMS_QUEUE, RETAINED_QUEUE, SYNCHRONIZATION_QUEUE})
"""What a restart reads. The first is that of earlier releases, and is read once."""

INTERNAL_QUEUES = STATE_QUEUES | {CHANNEL_INITIATION_QUEUE, INITIATION_QUEUE, PERFORMANCE_EVENT_QUEUE}
"""Only the queue manager puts there; so it is with every queue that is the INITQ of another one."""

OPEN_QUEUES = frozenset({MODEL_QUEUE})
"""System queues that authority profiles for all queues reach, too: a model holds no messages."""


def is_system(name: str) -> bool:
    return name.startswith(PREFIX)


def is_closed(name: str) -> bool:
    """Whether a profile has to name the system's queues to grant anything on this one."""
    return name.startswith(PREFIX) and name not in OPEN_QUEUES
