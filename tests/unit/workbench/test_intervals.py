# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math

import numpy
import pytest

from entrepot.workbench.statistics.intervals import ConfidenceInterval, interval, ratio_interval

RUNS = [98.0, 103.0, 100.0, 110.0, 95.0]


def test_agrees_with_all_resamples_there_are() -> None:
    means = [sum(drawn) / 5 for drawn in itertools.product(RUNS, repeat=5)]
    low, high = numpy.quantile(means, [0.025, 0.975])
    found = interval(RUNS)
    assert found.value == pytest.approx(101.2)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_median_agrees_with_all_resamples_there_are() -> None:
    medians = [sorted(drawn)[2] for drawn in itertools.product(RUNS, repeat=5)]
    low, high = numpy.quantile(medians, [0.025, 0.975])
    assert interval(RUNS, numpy.median) == ConfidenceInterval(100.0, low, high)


def test_one_run_is_its_own_interval() -> None:
    found = interval([7.5])
    assert found == ConfidenceInterval(7.5, 7.5, 7.5)
    assert found.half_width_relative == 0.0


def test_same_seed_gives_the_same_interval_and_another_nearly_so() -> None:
    runs = [*RUNS, 101.0, 97.0, 104.0]
    assert interval(runs, seed=3) == interval(runs, seed=3)
    assert interval(runs, seed=4).low == pytest.approx(interval(runs, seed=3).low, abs=0.3)


def test_six_runs_drawn_at_random_agree_with_all_resamples_there_are() -> None:
    runs = [*RUNS, 101.0]
    means = [sum(drawn) / 6 for drawn in itertools.product(runs, repeat=6)]
    low, high = numpy.quantile(means, [0.025, 0.975])
    found = interval(runs)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.5)


def test_half_width_is_a_share_of_the_value() -> None:
    assert ConfidenceInterval(200.0, 190.0, 214.0).half_width_relative == pytest.approx(0.06)
    assert ConfidenceInterval(0.0, -1.0, 1.0).half_width_relative == math.inf


def test_covers_the_true_mean_of_twenty_runs_nearly_as_often_as_it_says() -> None:
    generator = numpy.random.default_rng(5)
    covered = 0
    for _ in range(100):
        found = interval(generator.normal(50, 4, 20))
        covered += found.low <= 50 <= found.high
    assert 87 <= covered <= 99


def test_pairs_cancel_what_slowed_both() -> None:
    others = [100.0, 50.0, 80.0, 120.0, 60.0]
    samples = [2 * value for value in others]
    paired = ratio_interval(samples, others, paired=True)
    assert (paired.value, paired.low, paired.high) == pytest.approx((2.0, 2.0, 2.0))
    unpaired = ratio_interval(samples, others)
    assert unpaired.low < 1.7 < 2.4 < unpaired.high


def test_unpaired_ratio_agrees_with_all_resamples_there_are() -> None:
    left, right = [10.0, 12.0, 11.0], [5.0, 6.0, 4.0]
    ratios = [
        sum(above) / sum(below)
        for above in itertools.product(left, repeat=3)
        for below in itertools.product(right, repeat=3)
    ]
    low, high = numpy.quantile(ratios, [0.025, 0.975])
    found = ratio_interval(left, right)
    assert (found.low, found.high) == pytest.approx((low, high), rel=0.01)


@pytest.mark.parametrize(
    ("samples", "others", "paired", "told"),
    [
        ([], [1.0], False, "at least one run"),
        ([1.0], [1.0, 2.0], True, "there are 1 and 2"),
        ([1.0], [0.0], False, "mean is 0"),
        ([math.nan], [1.0], False, "finite"),
    ],
)
def test_what_has_no_ratio_is_refused(samples: list[float], others: list[float], paired: bool, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        ratio_interval(samples, others, paired=paired)
