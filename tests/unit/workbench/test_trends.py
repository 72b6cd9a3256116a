# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.workbench.statistics.trends import Trend, binned, swing, theil_sen, trend

SECONDS = numpy.arange(300) / 10


def test_slope_is_the_median_of_all_pairs_by_hand() -> None:
    assert theil_sen([0, 1, 2], [0, 1, 4]) == 2.0


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(-50, 50)), min_size=2, max_size=15))
def test_slope_agrees_with_plain_python(points: list[tuple[int, int]]) -> None:
    slopes = [(d - b) / (c - a) for (a, b), (c, d) in itertools.combinations(points, 2) if a != c]
    expected = statistics.median(slopes) if slopes else 0.0
    assert theil_sen([a for a, _ in points], [b for _, b in points]) == pytest.approx(expected)


def test_pause_does_not_bend_the_slope() -> None:
    depth = numpy.zeros(300)
    depth[200:210] = 5000
    assert theil_sen(SECONDS, depth) == 0.0
    assert theil_sen(SECONDS, depth + 7 * SECONDS) == pytest.approx(7.0, abs=0.01)


def test_line_has_its_slope_and_no_error() -> None:
    found = trend(SECONDS, 3 + 7 * SECONDS)
    assert found.slope == pytest.approx(7)
    assert found.error == pytest.approx(0, abs=1e-9)
    assert found.low == pytest.approx(7)


def test_many_points_become_three_hundred_means_in_the_order_of_time() -> None:
    times = numpy.arange(3001)[::-1]
    middle, means = binned(times, times * 2)
    assert len(middle) == 300
    assert numpy.all(numpy.diff(middle) > 0)
    assert means == pytest.approx(middle * 2)
    assert trend(times, times * 2).slope == pytest.approx(2)


def test_few_points_have_a_slope_without_certainty() -> None:
    found = trend([0, 1, 2], [0, 2, 4])
    assert (found.slope, found.error) == (2.0, math.inf)
    assert found.likely_below(0) == 0.5
    assert trend([], []).slope == 0.0


def test_times_and_values_have_to_match() -> None:
    with pytest.raises(ValueError, match="2 times and 1 values"):
        trend([1, 2], [1])


def test_likelihood_follows_the_normal_distribution() -> None:
    assert Trend(10, 2).likely_below(12) == pytest.approx(0.8413, abs=1e-4)
    assert Trend(10, 0).likely_below(12) == 1.0
    assert Trend(10, 0).likely_below(9) == 0.0
    assert Trend(10, 2).high == pytest.approx(13.506)


def _white(generator: numpy.random.Generator) -> numpy.ndarray:
    return generator.normal(0, 10, 300)


def _walk(generator: numpy.random.Generator) -> numpy.ndarray:
    return numpy.cumsum(generator.normal(0, 3, 300))


def _sluggish(generator: numpy.random.Generator) -> numpy.ndarray:
    noise, values = generator.normal(0, 3, 300), numpy.zeros(300)
    for at in range(1, 300):
        values[at] = 0.97 * values[at - 1] + noise[at]
    return values


@pytest.mark.parametrize("noise", [_white, _walk, _sluggish])
def test_one_sided_bounds_hold_however_the_series_wanders(noise: Callable[..., numpy.ndarray]) -> None:
    generator = numpy.random.default_rng(7)
    found = [trend(SECONDS, noise(generator) + 4 * SECONDS) for _ in range(300)]
    assert sum(one.high >= 4 for one in found) >= 276
    assert sum(one.low <= 4 for one in found) >= 276


def test_bounds_of_a_walk_are_not_wider_than_they_have_to_be() -> None:
    generator = numpy.random.default_rng(8)
    found = [trend(SECONDS, _walk(generator)) for _ in range(300)]
    spread = statistics.stdev(one.slope for one in found)
    assert statistics.mean(one.error for one in found) == pytest.approx(spread, rel=0.2)


def test_swing_is_what_remains_beside_the_trend() -> None:
    sawtooth = numpy.arange(300) % 10
    assert swing(SECONDS, sawtooth + 5 * SECONDS, 5.0) == pytest.approx(9)
    assert swing([], [], 1.0) == 0.0
