# SPDX-License-Identifier: Apache-2.0
"""What a measurement hands over: figures with their samples, their target and what was promised to get them.

A figure is the median over repetitions, and it always shows its range. The
durability contract stands beside every number, because a rate says nothing
without it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

MEMORY_ONLY = "memory; dies with the process"
FORCED = "fdatasync before each put returns"

Direction = Literal["at least", "at most"]


@dataclass(frozen=True, slots=True)
class Target:
    direction: Direction
    value: float

    def is_met(self, value: float) -> bool:
        return value >= self.value if self.direction == "at least" else value <= self.value

    def __str__(self) -> str:
        return f"{'≥' if self.direction == 'at least' else '≤'} {readable(self.value)}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: the name ends in its unit, the samples are one per repetition."""

    name: str
    samples: Sequence[float]
    contract: str = ""
    target: Target | None = None
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def verdict(self) -> str:
        """Of the median; a range that crosses the target is said to."""
        if self.target is None:
            return ""
        met = self.target.is_met(self.median)
        unanimous = all(self.target.is_met(sample) is met for sample in self.samples)
        return ("met" if met else "MISSED") + ("" if unanimous else ", not in every repetition")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one measurement found."""

    name: str
    title: str
    figures: list[Figure]
    settings: dict[str, Any] = field(default_factory=dict)
    trials: list[dict[str, Any]] = field(default_factory=list)
    """Raw results, one per trial, in the order in which they ran."""

    def as_json(self) -> dict[str, Any]:
        figures = [
            {
                "name": figure.name,
                "median": figure.median,
                "low": min(figure.samples),
                "high": max(figure.samples),
                "samples": list(figure.samples),
                "target": None if figure.target is None else asdict(figure.target),
                "verdict": figure.verdict,
                "contract": figure.contract,
                "note": figure.note,
            }
            for figure in self.figures
        ]
        return {
            "name": self.name,
            "title": self.title,
            "settings": self.settings,
            "figures": figures,
            "trials": self.trials,
        }


def at_least(value: float) -> Target:
    return Target("at least", value)


def at_most(value: float) -> Target:
    return Target("at most", value)


def readable(value: float) -> str:
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest rank; no interpolation invents a value that was never seen."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
