# SPDX-License-Identifier: Apache-2.0
"""INTERVAL: topic ak05950 and its literals."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors.esql import CastFailed, EsqlRunError
from entrepot.esql.runtime.intervals import (
    add_intervals,
    compare_intervals,
    fields_of,
    interval_literal,
    interval_text,
    join_qualifiers,
    of_seconds,
    read_interval,
    scale_interval,
)
from entrepot.models.values import Interval
from folding import for_each


@for_each(
    ("qualifier", "fields"),
    [
        ("YEAR", ("YEAR",)),
        ("YEARS", ("YEAR",)),
        ("YEAR TO MONTH", ("YEAR", "MONTH")),
        ("MONTH", ("MONTH",)),
        ("DAY TO SECOND", ("DAY", "HOUR", "MINUTE", "SECOND")),
        ("day to hour", ("DAY", "HOUR")),
        ("DAY TO MINUTE", ("DAY", "HOUR", "MINUTE")),
        ("HOUR TO SECOND", ("HOUR", "MINUTE", "SECOND")),
        ("MINUTE TO SECOND", ("MINUTE", "SECOND")),
        ("SECOND", ("SECOND",)),
        ("DAY(3) TO SECOND(2)", ("DAY", "HOUR", "MINUTE", "SECOND")),
    ],
)
def test_a_qualifier_has_the_fields_from_first_to_last(qualifier: str, fields: tuple[str, ...]) -> None:
    assert fields_of(qualifier) == fields


@pytest.mark.parametrize(
    "qualifier", ["", "WEEK", "MONTH TO DAY", "SECOND TO DAY", "YEAR TO SECOND", "DAY HOUR MINUTE"]
)
def test_there_is_no_such_qualifier(qualifier: str) -> None:
    with pytest.raises(EsqlRunError, match="there is no interval"):
        fields_of(qualifier)


READ = [
    ("4", "YEAR", 48, "0"),
    ("1-06", "YEAR TO MONTH", 18, "0"),
    ("1-6", "YEAR TO MONTH", 18, "0"),
    ("-1-06", "YEAR TO MONTH", -18, "0"),
    ("200", "MONTH", 200, "0"),
    ("10", "DAY", 0, "864000"),
    ("90", "SECOND", 0, "90"),
    ("1.5", "SECOND", 0, "1.5"),
    ("72:20", "HOUR TO MINUTE", 0, "260400"),
    ("1 12:30", "DAY TO MINUTE", 0, "131400"),
    ("2 12:30:00.5", "DAY TO SECOND", 0, "217800.5"),
    ("-1:30", "MINUTE TO SECOND", 0, "-90"),
    ("INTERVAL '4' YEAR", "YEAR", 48, "0"),
    ("INTERVAL -'4' YEAR", "YEAR", -48, "0"),
    ("interval '1:30' minute to second", "MINUTE TO SECOND", 0, "90"),
]


@for_each(("text", "qualifier", "months", "seconds"), READ)
def test_an_interval_is_read(text: str, qualifier: str, months: int, seconds: str) -> None:
    assert read_interval(text, qualifier) == Interval(qualifier, months, Decimal(seconds))


@for_each(
    ("text", "qualifier"),
    [
        ("", "YEAR"),
        ("x", "YEAR"),
        ("1-12", "YEAR TO MONTH"),
        ("1 24:00", "DAY TO MINUTE"),
        ("1:60", "HOUR TO MINUTE"),
        ("1:2:3", "HOUR TO MINUTE"),
        ("1.5", "MINUTE"),
        ("9" * 18, "YEAR"),
        ("9" * 18, "DAY"),
        ("9" * 100, "SECOND"),
        ("INTERVAL '4' MONTH", "YEAR"),
    ],
)
def test_text_that_is_no_such_interval_fails(text: str, qualifier: str) -> None:
    with pytest.raises(EsqlRunError):
        read_interval(text, qualifier)


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval("YEAR", 48), "4"),
        (Interval("YEAR TO MONTH", 18), "1-06"),
        (Interval("YEAR TO MONTH", -18), "-1-06"),
        (Interval("DAY TO SECOND", seconds=Decimal("217800.5")), "2 12:30:00.5"),
        (Interval("HOUR TO MINUTE", seconds=Decimal(260400)), "72:20"),
        (Interval("MINUTE TO SECOND", seconds=Decimal(65)), "1:05"),
        (Interval("SECOND", seconds=Decimal("0")), "0"),
    ],
)
def test_an_interval_is_written(interval: Interval, text: str) -> None:
    assert interval_text(interval) == text
    assert interval_literal(interval) == f"INTERVAL '{text}' {interval.qualifier}"


@pytest.mark.parametrize(
    ("left", "right", "joined"),
    [
        ("DAY", "DAY", "DAY"),
        ("DAY", "SECOND", "DAY TO SECOND"),
        ("HOUR TO MINUTE", "DAY", "DAY TO MINUTE"),
        ("YEAR", "MONTH", "YEAR TO MONTH"),
    ],
)
def test_a_sum_has_the_fields_of_both(left: str, right: str, joined: str) -> None:
    assert join_qualifiers(left, right) == joined


def test_months_and_days_do_not_mix() -> None:
    month, day = Interval("MONTH", 1), Interval("DAY", seconds=Decimal(86400))
    with pytest.raises(EsqlRunError, match="does not work on"):
        add_intervals(month, day)
    with pytest.raises(EsqlRunError, match="does not work on"):
        compare_intervals(month, day)


@pytest.mark.parametrize("number", [float("inf"), float("nan"), Decimal("NaN"), 1e300, Decimal("1E+9999999")])
def test_an_absurd_factor_is_an_error(number: float) -> None:
    for interval in (Interval("DAY", seconds=Decimal(86400)), Interval("YEAR", 12)):
        with pytest.raises(EsqlRunError, match="too wide"):
            scale_interval(interval, number)


def test_what_is_smaller_than_the_last_field_is_cut_off() -> None:
    assert of_seconds("HOUR", 5399).seconds == 3600
    assert of_seconds("HOUR", -5399).seconds == -3600
    assert of_seconds("SECOND", Decimal("1.50")).seconds == Decimal("1.5")


def test_a_wrong_interval_is_a_failed_cast() -> None:
    with pytest.raises(CastFailed) as caught:
        read_interval("x", "DAY")
    assert caught.value.sqlstate == "S22007"


@given(st.decimals(-(10**9), 10**9, places=3), st.sampled_from(["DAY TO SECOND", "HOUR TO SECOND", "SECOND"]))
@settings(max_examples=100)
def test_text_and_back(seconds: Decimal, qualifier: str) -> None:
    interval = of_seconds(qualifier, seconds)
    assert read_interval(interval_text(interval), qualifier) == interval
    assert read_interval(interval_literal(interval), qualifier) == interval


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
@settings(max_examples=50)
def test_sum_and_difference_undo_each_other(a: int, b: int) -> None:
    first, second = Interval("MONTH", a), Interval("MONTH", b)
    assert add_intervals(add_intervals(first, second), second, -1) == first
