# SPDX-License-Identifier: Apache-2.0
"""Dates and times with intervals: topics ak01040 and ak05710."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors.esql import EsqlRunError
from entrepot.esql.runtime.dates import add_interval, difference, local_offset, to_gmt, to_local, use_clock, use_zone
from entrepot.models.values import Interval
from folding import for_each


@pytest.fixture(autouse=True)
def one_hour_east() -> Iterator[None]:
    use_zone(timezone(timedelta(hours=1)))
    yield
    use_zone(None)
    use_clock(None)


DIFFERENCES = [
    (date(2005, 3, 31), date(1947, 10, 24), "YEAR TO MONTH", 57 * 12 + 5, "0"),
    (date(2005, 3, 23), date(1947, 10, 24), "YEAR TO MONTH", 57 * 12 + 4, "0"),
    (date(1947, 10, 24), date(2005, 3, 31), "YEAR TO MONTH", -(57 * 12 + 5), "0"),
    (date(2005, 3, 31), date(1947, 10, 24), "YEAR", 57 * 12, "0"),
    (date(2000, 3, 1), date(2000, 2, 28), "DAY", 0, "172800"),
    (date(2000, 2, 28), date(2000, 3, 1), "DAY", 0, "-172800"),
    (datetime(2000, 1, 2, 12), datetime(2000, 1, 1), "DAY", 0, "86400"),
    (datetime(2000, 1, 2, 12, 30, 15), datetime(2000, 1, 1), "DAY TO SECOND", 0, "131415"),
    (datetime(2000, 1, 1, 0, 0, 1, 500000), datetime(2000, 1, 1), "SECOND", 0, "1.5"),
    (datetime(2000, 1, 1, 0, 0, 1, 500000), datetime(2000, 1, 1), "MINUTE", 0, "0"),
    (time(12, 30), time(9, 0), "HOUR TO MINUTE", 0, "12600"),
    (time(9, 0), time(12, 30), "HOUR TO MINUTE", 0, "-12600"),
    (time(12, 0), time(11, 0, tzinfo=UTC), "MINUTE", 0, "0"),
    (time(11, 0, tzinfo=UTC), time(13, 0), "MINUTE", 0, "-3600"),
    (datetime(2000, 1, 1, 1), datetime(2000, 1, 1, tzinfo=UTC), "SECOND", 0, "0"),
    (datetime(2000, 1, 1, tzinfo=UTC), datetime(2000, 1, 1), "HOUR", 0, "3600"),
    (datetime(2000, 2, 1, 9), datetime(2000, 1, 1, 10), "MONTH", 0, "0"),
    (datetime(2000, 2, 1, 10), datetime(2000, 1, 1, 10), "MONTH", 1, "0"),
]


@for_each(("left", "right", "qualifier", "months", "seconds"), DIFFERENCES)
def test_a_difference(left: Any, right: Any, qualifier: str, months: int, seconds: str) -> None:
    assert difference(left, right, qualifier) == Interval(qualifier, months, Decimal(seconds))


def test_a_difference_with_null_is_null() -> None:
    assert difference(None, date(2000, 1, 1), "DAY") is None
    assert difference(date(2000, 1, 1), None, "DAY") is None


@pytest.mark.parametrize(
    ("left", "right", "qualifier"),
    [
        (time(1), time(2), "DAY"),
        (time(1), time(2), "MONTH"),
        (date(2000, 1, 1), datetime(2000, 1, 1), "DAY"),
        (1, 2, "DAY"),
        ("2000-01-01", date(2000, 1, 1), "DAY"),
        (date(2000, 1, 1), date(2000, 1, 1), "FORTNIGHT"),
    ],
)
def test_a_difference_that_makes_no_sense_is_an_error(left: Any, right: Any, qualifier: str) -> None:
    with pytest.raises(EsqlRunError):
        difference(left, right, qualifier)


@for_each(
    ("value", "interval"),
    [
        (date(2000, 1, 31), Interval("MONTH", 1)),
        (date(2000, 2, 29), Interval("YEAR", 12)),
        (date(9999, 12, 31), Interval("DAY", seconds=Decimal(86400))),
        (date(9999, 12, 31), Interval("MONTH", 1)),
        (datetime(9999, 12, 31, 23), Interval("HOUR", seconds=Decimal(7200))),
        (date(2000, 1, 1), Interval("DAY", seconds=Decimal(86400) * 10**9)),
        (date(2000, 1, 1), Interval("SECOND", seconds=Decimal(10**17))),
        (date(2000, 1, 1), Interval("HOUR", seconds=Decimal(3600))),
        (time(1), Interval("MONTH", 1)),
        (time(1), Interval("SECOND", seconds=Decimal(10**17))),
    ],
)
def test_a_day_that_the_calendar_has_not_is_an_error(value: Any, interval: Interval) -> None:
    with pytest.raises(EsqlRunError):
        add_interval(value, interval)


def test_the_offset_is_the_one_of_now() -> None:
    use_zone(ZoneInfo("Europe/Berlin"))
    use_clock(lambda: datetime(2003, 7, 1, tzinfo=UTC))
    assert local_offset() == timedelta(hours=2)
    assert to_local(datetime(2003, 1, 1, tzinfo=UTC)) == datetime(2003, 1, 1, 2)
    use_clock(lambda: datetime(2003, 1, 1, tzinfo=UTC))
    assert to_gmt(datetime(2003, 7, 1, 12)) == datetime(2003, 7, 1, 11, tzinfo=UTC)


def test_the_end_of_the_calendar_is_an_error_when_zones_change() -> None:
    with pytest.raises(EsqlRunError, match="outside the years"):
        to_local(datetime(9999, 12, 31, 23, 30, tzinfo=UTC))
    with pytest.raises(EsqlRunError, match="outside the years"):
        to_gmt(datetime(1, 1, 1))


@given(st.dates(date(2, 1, 1), date(9990, 1, 1)), st.integers(-300, 300))
@settings(max_examples=80)
def test_days_added_are_the_difference(day: date, days: int) -> None:
    moved = add_interval(day, Interval("DAY", seconds=Decimal(days * 86400)))
    assert difference(moved, day, "DAY") == Interval("DAY", seconds=Decimal(days * 86400))


@given(st.dates(date(100, 1, 1), date(9000, 1, 1)).filter(lambda day: day.day <= 28), st.integers(-500, 500))
@settings(max_examples=80)
def test_months_added_are_the_difference(day: date, months: int) -> None:
    moved = add_interval(day, Interval("MONTH", months))
    assert difference(moved, day, "MONTH") == Interval("MONTH", months)
    assert add_interval(moved, Interval("MONTH", months), -1) == day
