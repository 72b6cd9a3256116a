# SPDX-License-Identifier: Apache-2.0
"""A clock that moves when a test says so."""

from __future__ import annotations


class VirtualClock:
    """Time for tests: it stands still until advanced."""

    __slots__ = ("_now",)

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass; a negative number sets the clock back, as a time server may."""
        self._now += seconds
