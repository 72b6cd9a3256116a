# SPDX-License-Identifier: Apache-2.0
"""When to stop repeating a measurement: ours, and the rule that SonicMQ's document used.

Both yield after every run, so the caller can show progress or stop:

    for runs in until_steady(measure):
        show(runs.interval)
    print(runs.ended)   # `steady`, or `budget` when the runs were used up first

Stopping as soon as two runs agree chooses the runs by their values; it is
here because the document did so, and no headline rests on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from entrepot.workbench.statistics.intervals import ConfidenceInterval, interval

Measure = Callable[[], float]
"""One fresh run; its figure."""
Ended = Literal["", "steady", "budget"]


@dataclass(frozen=True, slots=True)
class Runs:
    """What was measured so far."""

    values: tuple[float, ...]
    interval: ConfidenceInterval
    ended: Ended
    """Why there are no more: what was asked for is reached, or the runs are used up; empty while it goes on."""


def until_steady(
    measure: Measure, *, at_least: int = 5, at_most: int = 15, half_width: float = 0.01, seed: int = 0
) -> Iterator[Runs]:
    """Repeat until half of the 95 % interval is at most this share of the mean, or the runs are used up."""

    def is_steady(values: list[float], found: ConfidenceInterval) -> bool:
        return len(values) >= at_least and found.half_width_relative <= half_width

    # Two, because the interval of a single run has no width and would always be steady.
    _check("at_least", at_least, 2, at_most)
    return _repeat(measure, at_most, is_steady, seed)


def until_alike(measure: Measure, *, within: float = 0.01, at_most: int = 15, seed: int = 0) -> Iterator[Runs]:
    """Repeat until two consecutive runs differ by less than this share of the greater one (SonicMQ's rule)."""

    def is_alike(values: list[float], found: ConfidenceInterval) -> bool:
        del found
        if len(values) < 2:
            return False
        before, last = values[-2:]
        return before == last or abs(last - before) < within * max(abs(before), abs(last))

    _check("at_most", at_most, 2, at_most)
    return _repeat(measure, at_most, is_alike, seed)


def _repeat(
    measure: Measure, at_most: int, is_enough: Callable[[list[float], ConfidenceInterval], bool], seed: int
) -> Iterator[Runs]:
    values: list[float] = []
    while True:
        values.append(measure())
        found = interval(values, seed=seed)
        ended: Ended = "steady" if is_enough(values, found) else "budget" if len(values) >= at_most else ""
        yield Runs(tuple(values), found, ended)
        if ended:
            return


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} has to be between {low} and {high}, not {value}")
