# SPDX-License-Identifier: Apache-2.0
"""Refusals that come by the thousand are counted instead of written, so that nobody fills the disk with them."""

from __future__ import annotations

from dataclasses import dataclass

PER_ADDRESS_MAX = 100
"""Lines a second for the same refusal of one address."""
TOGETHER_MAX = 1000
"""Lines a second for all refusals, so that many addresses cannot do what one cannot."""
MANY = "many addresses"


@dataclass(frozen=True, slots=True)
class RefusalCount:
    """Refusals of one second that were not written one by one."""

    event: str
    address: str
    count: int


class RefusalCounter:
    """Counts refusals within a second of the clock."""

    def __init__(self) -> None:
        self._second = 0
        self._written: dict[tuple[str, str], int] = {}
        self._together = 0
        self._left_out: dict[tuple[str, str], int] = {}

    def admits(self, event: str, address: str) -> bool:
        """Whether to write this one; if not, it has been counted.

        What was refused and to whom does not matter here: whoever tries one
        name after another must not have a line for each.
        """
        key = (event, address)
        written = self._written.get(key, 0)
        if written < PER_ADDRESS_MAX and self._together < TOGETHER_MAX:
            self._written[key] = written + 1
            self._together += 1
            return True
        if key not in self._left_out and len(self._left_out) >= TOGETHER_MAX:
            key = (event, MANY)
        self._left_out[key] = self._left_out.get(key, 0) + 1
        return False

    def ended(self, now: float) -> list[RefusalCount]:
        """What was counted in a second that is over, to be written now."""
        second = int(now)
        if second == self._second:
            return []
        counted = self.all()
        self._second = second
        self._written = {}
        self._together = 0
        return counted

    def all(self) -> list[RefusalCount]:
        """What was counted so far, to be written now."""
        counted = [RefusalCount(event, address, count) for (event, address), count in self._left_out.items()]
        self._left_out = {}
        return counted
