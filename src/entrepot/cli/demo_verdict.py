# SPDX-License-Identifier: Apache-2.0
"""What the demo claims, checked: every order exactly once, and nothing of what was acknowledged gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """All empty or zero when the queue manager has kept its promises."""

    lost: list[int]
    """Orders that are nowhere."""
    twice: list[int]
    """Orders that are somewhere more than once."""
    unknown: list[int]
    """Orders that nobody has ever put."""
    left: list[int]
    """Orders that were never processed."""
    misplaced: list[int]
    """The poison order anywhere but on the backout queue, or another one there."""
    taken_back: list[int]
    """Orders whose commit was acknowledged before the kill and which the restart did not find."""
    invented: int
    """Orders shipped without an acknowledgement, beyond the units that were in flight."""

    @property
    def holds(self) -> bool:
        return not any(msgspec.structs.astuple(self))


def judge(
    orders: int,
    poison: int,
    *,
    acknowledged: set[int],
    in_flight_max: int,
    after_restart: Mapping[str, list[int]],
    at_the_end: Mapping[str, list[int]],
) -> Verdict:
    """Compare what was promised with what is there; queues are called orders, shipped and backout."""
    count = Counter(number for numbers in at_the_end.values() for number in numbers)
    crash_count = Counter(number for numbers in after_restart.values() for number in numbers)
    expected = set(range(1, orders + 1))
    backout = at_the_end["backout"]
    shipped_then = set(after_restart["shipped"])
    return Verdict(
        lost=sorted((expected - count.keys()) | (expected - crash_count.keys())),
        twice=sorted(number for number in expected if count[number] > 1 or crash_count[number] > 1),
        unknown=sorted((count.keys() | crash_count.keys()) - expected),
        left=sorted(at_the_end["orders"]),
        misplaced=sorted(set(backout) ^ {poison}),
        taken_back=sorted(acknowledged - shipped_then),
        invented=max(len(shipped_then - acknowledged) - in_flight_max, 0),
    )


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in ascending order, neighbours as a range: 1–12, 14, 16–20."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{low}–{high}" if low < high else str(low) for low, high in spans) or "none"
