# SPDX-License-Identifier: Apache-2.0
"""EXTRACT, CURRENT_DATE and its like: topics ak05180 and ak05187."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors.esql import EsqlRunError
from entrepot.esql.runtime import date_functions
from entrepot.models.values import Interval
from folding import for_each

RUN = SimpleNamespace(now=datetime(2003, 7, 1, 23, 30, 15, 250000, tzinfo=UTC), local_zone=ZoneInfo("Europe/Berlin"))
MOMENT = datetime(2000, 2, 29, 13, 45, 10, 500000)


def test_what_is_current_is_the_moment_of_the_run() -> None:
    assert date_functions.current_date(RUN) == date(2003, 7, 2)
    assert date_functions.current_time(RUN) == time(1, 30, 15, 250000)
    assert date_functions.current_timestamp(RUN) == datetime(2003, 7, 2, 1, 30, 15, 250000)
    assert date_functions.current_gmtdate(RUN) == date(2003, 7, 1)
    assert date_functions.current_gmttime(RUN) == time(23, 30, 15, 250000, tzinfo=UTC)
    assert date_functions.current_gmttimestamp(RUN) == RUN.now


def test_local_values_know_no_zone_and_gmt_values_do() -> None:
    assert date_functions.current_time(RUN).tzinfo is None
    assert date_functions.current_timestamp(RUN).tzinfo is None
    assert date_functions.current_gmttime(RUN).tzinfo is UTC
    assert date_functions.current_gmttimestamp(RUN).tzinfo is UTC


@pytest.mark.parametrize(
    ("zone", "seconds"), [("Europe/Berlin", 7200), ("UTC", 0), ("America/New_York", -14400), ("Asia/Kolkata", 19800)]
)
def test_the_local_time_zone_is_an_interval(zone: str, seconds: int) -> None:
    run = SimpleNamespace(now=RUN.now, local_zone=ZoneInfo(zone))
    assert date_functions.local_timezone(run) == Interval("HOUR TO MINUTE", seconds=Decimal(seconds))


EXTRACTED = [
    ("YEAR", MOMENT, 2000),
    ("MONTH", MOMENT, 2),
    ("DAY", MOMENT, 29),
    ("HOUR", MOMENT, 13),
    ("MINUTE", MOMENT, 45),
    ("SECOND", MOMENT, 10.5),
    ("DAYS", date(2000, 2, 29), 730179),
    ("DAYS", date(1, 1, 1), 1),
    ("DAYOFYEAR", date(2000, 2, 29), 60),
    ("DAYOFYEAR", date(2003, 12, 31), 365),
    ("DAYOFWEEK", date(2000, 2, 29), 3),
    ("DAYOFWEEK", date(2000, 2, 27), 1),
    ("DAYOFWEEK", date(2000, 3, 4), 7),
    ("MONTHS", date(1, 1, 1), 1),
    ("MONTHS", date(2000, 2, 29), 1999 * 12 + 2),
    ("QUARTEROFYEAR", date(2000, 2, 29), 1),
    ("QUARTEROFYEAR", date(2000, 12, 1), 4),
    ("QUARTERS", date(2, 4, 1), 6),
    ("WEEKS", date(1, 1, 8), 2),
    ("WEEKOFYEAR", date(2000, 1, 1), 1),
    ("WEEKOFYEAR", date(2000, 1, 2), 2),
    ("WEEKOFYEAR", date(2000, 12, 31), 54),
    ("WEEKOFMONTH", date(2000, 2, 29), 5),
    ("WEEKOFMONTH", date(2000, 2, 5), 1),
    ("ISLEAPYEAR", date(2000, 1, 1), True),
    ("ISLEAPYEAR", date(1900, 1, 1), False),
    ("HOUR", time(9, 24), 9),
    ("YEAR", datetime(2003, 1, 1, tzinfo=UTC), 2003),
    ("YEAR", Interval("YEAR TO MONTH", 18), 1),
    ("MONTH", Interval("YEAR TO MONTH", 18), 6),
    ("HOUR", Interval("DAY TO SECOND", seconds=Decimal("217800.5")), 12),
    ("SECOND", Interval("MINUTE TO SECOND", seconds=Decimal("-90.5")), -30.5),
    ("year", MOMENT, 2000),
    ("YEAR", None, None),
]


@for_each(("field", "source", "expected"), EXTRACTED)
def test_extract(field: str, source: Any, expected: Any) -> None:
    result = date_functions.extract(field, source)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("field", "source"),
    [
        ("HOUR", date(2000, 1, 1)),
        ("YEAR", time(1)),
        ("CENTURY", date(2000, 1, 1)),
        ("DAY", Interval("YEAR", 12)),
        ("YEAR", "2000-01-01"),
        ("YEAR", 2000),
    ],
)
def test_what_a_source_has_not_cannot_be_extracted(field: str, source: Any) -> None:
    with pytest.raises(EsqlRunError):
        date_functions.extract(field, source)


@given(st.dates(date(1, 1, 1), date(9999, 12, 30)))
@settings(max_examples=80)
def test_a_week_changes_on_sunday_only(day: date) -> None:
    following = date.fromordinal(day.toordinal() + 1)
    if following.month == day.month:
        step = 1 if date_functions.extract("DAYOFWEEK", following) == 1 else 0
        for field in ("WEEKOFYEAR", "WEEKOFMONTH"):
            assert date_functions.extract(field, following) - date_functions.extract(field, day) == step
