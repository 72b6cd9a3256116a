# SPDX-License-Identifier: Apache-2.0
"""What all message trees of a process share: their limits, a count of changes, and what copies are charged to."""

from __future__ import annotations

import threading
from collections.abc import Callable

INDEX_FROM = 8
"""From so many children on, names are looked up in a dictionary."""

DEPTH_MAX = 400
"""How deep a tree may be. Real messages stay below 50; what walks a tree may recurse to this depth."""

LEVELS_MAX = 2 * DEPTH_MAX
"""How deep a program may build a tree that belongs to no folder: each change there walks up to the root."""

STRUCTURE = [0]
"""Counts what may change where a path of first children leads: removals, insertions, new names. Appending does not.
Compiled programs keep the end of a path until this changes."""

COPIES_AT_A_TIME = 10_000


class Copies(threading.local):
    """Counts the elements that this thread copies: a few copies of a tree into itself would fill all memory."""

    left = COPIES_AT_A_TIME
    charge: Callable[[int], None] | None = None
    """What copies are charged to: the budget of the program that runs. It raises when that is spent."""

    def spent(self) -> None:
        made, self.left = COPIES_AT_A_TIME - self.left, COPIES_AT_A_TIME
        if self.charge is not None:
            self.charge(made)


COPIES = Copies()
