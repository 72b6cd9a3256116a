# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.workbench.statistics.warm_up import truncation


def by_definition(values: list[float]) -> int | None:
    """White's MSER-5 as it is written down: no running sums, no arrays."""
    means = [sum(values[at : at + 5]) / 5 for at in range(0, len(values) - 4, 5)]
    errors = []
    for left_out in range(len(means) - 4):
        rest = means[left_out:]
        centre = sum(rest) / len(rest)
        errors.append(sum((mean - centre) ** 2 for mean in rest) / len(rest) ** 2)
    best = errors.index(min(errors))
    return None if best > len(means) / 2 else best * 5


def test_one_slow_batch_is_left_out() -> None:
    assert truncation([10.0] * 5 + [100.0] * 45) == 5


def test_ramp_is_left_out_and_the_plateau_is_kept() -> None:
    plateau = [100.0, 101.0] * 80
    assert truncation([*numpy.linspace(20, 90, 40), *plateau]) == 40


def test_constant_series_needs_nothing_left_out() -> None:
    assert truncation([0.1] * 200) == 0
    assert truncation([1e12 + 0.1] * 200) == 0


def test_change_in_the_second_half_says_that_it_never_became_steady() -> None:
    assert truncation([10.0] * 70 + [100.0] * 30) is None
    assert truncation(list(range(100))) is None


def test_fifty_observations_are_the_least() -> None:
    assert truncation([1.0] * 49) is None
    assert truncation([1.0] * 50) == 0
    assert truncation([]) is None


@settings(max_examples=50)
@given(st.lists(st.integers(0, 1000), min_size=50, max_size=160))
def test_agrees_with_the_definition(values: list[int]) -> None:
    assert truncation(values) == by_definition([float(value) for value in values])


def test_noise_about_one_level_is_kept_for_the_most_part() -> None:
    generator = numpy.random.default_rng(1)
    found = [truncation(generator.normal(100, 5, 300)) for _ in range(200)]
    assert sum(one is not None and one <= 75 for one in found) >= 170
