# SPDX-License-Identifier: Apache-2.0
"""How much may be under way: senders pause while a window is full, so that no system is judged by its backlog."""

from __future__ import annotations

from entrepot.workbench.generators.gate import StartGate

PAUSE_S = 0.001
LOOK_MAX = 100
OVERSHOOT_SHARE = 0.1


class Window:
    """One sender's view of what all senders have counted and all receivers have not; a size of 0 is never full."""

    def __init__(self, gate: StartGate, size: int, sending: range, taking: range, copies: int = 1) -> None:
        """`copies` is how much a message of a sender counts, as a publication counts for each subscriber."""
        self._gate, self._size, self._sending, self._taking = gate, size, sending, taking
        self._every = look_every(size, len(sending) * copies)
        self._look = 0

    def is_full(self, sent: int) -> bool:
        """Whether a sender of so many messages has to pause before the next."""
        if not self._size or sent < self._look:
            return False
        if self._gate.counted(self._sending) - self._gate.counted(self._taking) >= self._size:
            return True
        self._look = sent + self._every
        return False


def look_every(window: int, senders: int) -> int:
    """How many messages a sender may send between two looks at what is under way.

    So few that all of them together go beyond the window by a tenth at most.
    """
    return max(1, min(LOOK_MAX, int(window * OVERSHOOT_SHARE / senders)))
