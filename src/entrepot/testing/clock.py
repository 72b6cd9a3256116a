# SPDX-License-Identifier: Apache-2.0
"""A clock that moves when a test says so."""

from __future__ import annotations


class VirtualClock:
    """Time for tests: it stands still until advanced."""

    __slots__ = ("_elapsed", "_now")

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._elapsed = 0.0

    def now(self) -> float:
        return self._now

    def elapsed(self) -> float:
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds >= 0, "time does not go back; see jump"
        self._now += seconds
        self._elapsed += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward, or back with a negative number, as a time server or an operator may."""
        self._now += seconds
