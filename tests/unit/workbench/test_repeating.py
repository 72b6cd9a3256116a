# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.workbench.statistics.repeating import until_alike, until_steady


def measure(*values: float) -> Callable[[], float]:
    remaining = iter(values)
    return lambda: next(remaining)


def test_five_equal_runs_are_steady_and_four_are_not_enough() -> None:
    runs = list(until_steady(measure(100, 100, 100, 100, 100)))
    assert [one.ended for one in runs] == ["", "", "", "", "steady"]
    assert runs[-1].interval.value == 100


def test_wild_runs_use_up_the_budget_and_say_so() -> None:
    runs = list(until_steady(measure(*[80, 120] * 4), at_most=8))
    assert len(runs) == 8
    assert runs[-1].ended == "budget"
    assert runs[-1].interval.half_width_relative > 0.01


def test_runs_go_on_until_the_interval_is_narrow_enough() -> None:
    runs = list(until_steady(measure(90, *[100, 101] * 30), at_most=60, half_width=0.01))
    assert 5 < len(runs) < 60
    assert runs[-1].ended == "steady"
    assert runs[-1].interval.half_width_relative <= 0.01 < runs[-2].interval.half_width_relative


def test_sonic_rule_ends_with_the_first_two_that_agree() -> None:
    runs = list(until_alike(measure(100, 110, 110.5, 100)))
    assert [one.ended for one in runs] == ["", "", "steady"]
    assert runs[-1].values == (100, 110, 110.5)


def test_a_difference_of_exactly_one_percent_is_not_less_than_one() -> None:
    assert [one.ended for one in until_alike(measure(100, 99, 100), at_most=3)] == ["", "", "budget"]
    assert [one.ended for one in until_alike(measure(0, 0))] == ["", "steady"]


def test_nothing_is_measured_before_somebody_asks() -> None:
    counted: list[int] = []

    def count() -> float:
        counted.append(1)
        return 1.0

    runs = until_steady(count)
    assert counted == []
    next(runs)
    assert len(counted) == 1


@pytest.mark.parametrize("numbers", [{"at_least": 1}, {"at_least": 6, "at_most": 5}])
def test_impossible_numbers_of_runs_are_refused(numbers: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at_least has to be between"):
        until_steady(measure(1), **numbers)
