# SPDX-License-Identifier: Apache-2.0
"""How often Python's cycle collector runs in a process that handles messages.

An element knows its parent and its parent knows it, so a finished tree waits
for the collector. By default that runs after every 700 new objects, which is
in the middle of a large message, and then keeps what the message still needs
for its costlier rounds.
"""

from __future__ import annotations

import gc

OBJECTS_BETWEEN = 10_000
"""Some hundreds of small messages, or a few large ones; more would keep too many bodies in memory."""


def collect_seldom() -> None:
    """Let the collector run after `OBJECTS_BETWEEN` objects. For programs whose work is messages, not for libraries."""
    _, older, oldest = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN, older, oldest)
