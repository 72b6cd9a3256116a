# SPDX-License-Identifier: Apache-2.0
"""Intervals over runs, by the bootstrap: what the value would be if other runs like these had been made.

The runs are drawn again with replacement, many times, and the middle 95 %
of what comes out is the interval. Runs are drawn, never the messages of a
run: those depend on each other, and thousands of them would make any
interval look narrow. With five runs the interval is rather too narrow than
too wide (it holds the truth in about 85 of 100 cases), so a report names
their number beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

DRAWS = 10_000
"""At random; where there are fewer ways to draw (up to five runs), each of them is taken once."""
SHARE = 0.95
Statistic = Callable[..., Any]
"""Of an array along `axis`: numpy.mean, numpy.median."""


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    value: float
    low: float
    high: float

    @property
    def half_width_relative(self) -> float:
        """Half of the interval's width, as a share of the value; infinite about 0, and 0 for a single run."""
        width = (self.high - self.low) / 2
        if width == 0.0:
            return 0.0
        return width / abs(self.value) if self.value else math.inf


def interval(samples: Sequence[float], statistic: Statistic = numpy.mean, seed: int = 0) -> ConfidenceInterval:
    """A statistic of the runs, and its 95 % percentile interval; one run gives the value itself.

    Raises:
        ValueError: There is no run.
    """
    values = _runs(samples)
    drawn = values[_all_or_random_draws(len(values), numpy.random.default_rng(seed))]
    return _between(float(statistic(values, axis=0)), statistic(drawn, axis=1))


def ratio_interval(
    samples: Sequence[float], others: Sequence[float], *, paired: bool = False, seed: int = 0
) -> ConfidenceInterval:
    """The ratio of the means of two sets of runs, samples / others.

    `paired` is for runs that took turns (A B A B …): run i of both met the
    same machine, so they are drawn together and what slowed both cancels out.

    Raises:
        ValueError: A set is empty, paired sets differ in length, or a mean of `others` is 0.
    """
    values, beside = _runs(samples), _runs(others)
    if paired and len(values) != len(beside):
        raise ValueError(f"runs that took turns come in pairs, and there are {len(values)} and {len(beside)}")
    generator = numpy.random.default_rng(seed)
    draws = (_all_or_random_draws if paired else _draws)(len(values), generator)
    below = beside[draws if paired else _draws(len(beside), generator)].mean(axis=1)
    if not numpy.all(below) or not beside.mean():
        raise ValueError("nothing can be divided by runs whose mean is 0")
    return _between(float(values.mean() / beside.mean()), values[draws].mean(axis=1) / below)


def _runs(samples: Sequence[float]) -> NDArray[numpy.float64]:
    values = numpy.asarray(samples, dtype=numpy.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError("an interval needs at least one run")
    if not numpy.isfinite(values).all():
        raise ValueError("a run without a finite value has no place in an interval")
    return values


def _all_or_random_draws(runs: int, generator: numpy.random.Generator) -> NDArray[numpy.int64]:
    if runs**runs > DRAWS:
        return _draws(runs, generator)
    return numpy.indices((runs,) * runs, dtype=numpy.int64).reshape(runs, -1).T


def _draws(runs: int, generator: numpy.random.Generator) -> NDArray[numpy.int64]:
    return generator.integers(0, runs, size=(DRAWS, runs))


def _between(value: float, drawn: NDArray[numpy.float64]) -> ConfidenceInterval:
    # A value that was drawn and none between two: with few ways to draw, interpolation would make it too narrow.
    low, high = numpy.quantile(drawn, [(1 - SHARE) / 2, (1 + SHARE) / 2], method="inverted_cdf")
    # The value lies inside by definition; of equal runs, rounding could put it beside them.
    return ConfidenceInterval(value, min(float(low), value), max(float(high), value))
