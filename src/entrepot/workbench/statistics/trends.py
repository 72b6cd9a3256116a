# SPDX-License-Identifier: Apache-2.0
"""Whether something grows while it is watched: the slope of Theil and Sen, and how far it can be trusted.

The slope is the median of the slopes between all pairs of points, so a
pause of the collector or a burst does not bend it. How far to trust it is
the harder question, because a queue near its capacity wanders: what it
gained by chance it keeps for a while, and a bound for independent errors
would call half of those walks a trend. So the error is that of a random
walk which wanders as much as the series does between one sixteenth of its
time and the next; for anything that wanders less it is too large, which
costs time and never truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy
from numpy.typing import ArrayLike, NDArray

POINTS_MAX = 300
"""There are n²/2 pairs: 45,000 of them take a millisecond."""
BLOCKS = 16
ONE_SIDED_95 = 1.753
"""Errors from the slope to its one-sided 95 % bound: Student's, for an error that comes from 15 differences."""
_WALK_BY_MEANS = 1.5
"""Means of neighbouring blocks of a random walk differ by 2/3 of its variance per block."""
_SLOPE_OF_WALK = 1.2
"""The variance of a line's slope through a random walk, in units of its variance per second over the time (6/5)."""
Floats = NDArray[numpy.float64]


@dataclass(frozen=True, slots=True)
class Trend:
    slope: float
    """Per second."""
    error: float
    """One standard error of the slope; infinite when too little was seen to tell."""

    @property
    def low(self) -> float:
        """With 95 % certainty the slope is not lower."""
        return self.slope - ONE_SIDED_95 * self.error

    @property
    def high(self) -> float:
        """With 95 % certainty the slope is not higher."""
        return self.slope + ONE_SIDED_95 * self.error

    def likely_below(self, limit: float) -> float:
        """How probable it is that the slope is below a limit."""
        if self.error == 0.0:
            return 1.0 if self.slope <= limit else 0.0
        if math.isinf(self.error):
            return 0.5
        return 0.5 * (1 + math.erf((limit - self.slope) / self.error / math.sqrt(2)))


def trend(times_s: ArrayLike, values: ArrayLike) -> Trend:
    """The slope of a series in time, and its error; fewer than 16 points have a slope without any certainty."""
    times, series = binned(times_s, values)
    slope = theil_sen(times, series)
    return Trend(slope, _walking_error(times, series - slope * times))


def theil_sen(times_s: ArrayLike, values: ArrayLike) -> float:
    """The median of the slopes between all pairs of points; 0 when no two points have different times."""
    times, series = numpy.asarray(times_s, dtype=numpy.float64), numpy.asarray(values, dtype=numpy.float64)
    first, second = _pairs(len(times))
    apart = times[second] - times[first]
    usable = apart != 0
    if not usable.any():
        return 0.0
    return float(numpy.median((series[second] - series[first])[usable] / apart[usable]))


def binned(times_s: ArrayLike, values: ArrayLike, points_max: int = POINTS_MAX) -> tuple[Floats, Floats]:
    """A series in the order of its times, as the means of at most so many runs of neighbouring points."""
    times, series = numpy.asarray(times_s, dtype=numpy.float64), numpy.asarray(values, dtype=numpy.float64)
    if len(times) != len(series):
        raise ValueError(f"{len(times)} times and {len(series)} values do not make a series")
    order = numpy.argsort(times, kind="stable")
    times, series = times[order], series[order]
    if len(times) <= points_max:
        return times, series
    starts = numpy.arange(points_max) * len(times) // points_max
    sizes = numpy.diff(numpy.append(starts, len(times)))
    return numpy.add.reduceat(times, starts) / sizes, numpy.add.reduceat(series, starts) / sizes


def swing(times_s: ArrayLike, values: ArrayLike, slope: float) -> float:
    """How far a series goes up and down beside a trend of this slope, from its lowest to its highest point."""
    times, series = numpy.asarray(times_s, dtype=numpy.float64), numpy.asarray(values, dtype=numpy.float64)
    return float(numpy.ptp(series - slope * times)) if len(times) else 0.0


def _walking_error(times: Floats, residuals: Floats) -> float:
    duration_s = float(times[-1] - times[0]) if len(times) else 0.0
    if len(times) < BLOCKS or duration_s <= 0:
        return math.inf
    means = numpy.array([block.mean() for block in numpy.array_split(residuals, BLOCKS)])
    block_s = duration_s / BLOCKS
    variance_per_s = _WALK_BY_MEANS * float(numpy.mean(numpy.diff(means) ** 2)) / block_s
    return math.sqrt(_SLOPE_OF_WALK * variance_per_s / duration_s)


@lru_cache(maxsize=16)
def _pairs(points: int) -> tuple[NDArray[numpy.intp], NDArray[numpy.intp]]:
    return numpy.triu_indices(points, k=1)
