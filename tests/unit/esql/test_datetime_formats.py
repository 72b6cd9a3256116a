# SPDX-License-Identifier: Apache-2.0
"""CAST's FORMAT for dates and times: topic ak05616. The patterns themselves are tested with the models."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import pytest

from entrepot.errors.esql import CastFailed
from entrepot.esql.runtime.dates import use_zone
from entrepot.esql.runtime.datetime_formats import format_datetime, parse_datetime
from folding import for_each


@pytest.fixture(autouse=True)
def one_hour_east() -> Iterator[None]:
    use_zone(timezone(timedelta(hours=1)))
    yield
    use_zone(None)


LOCAL = datetime(2006, 10, 7, 12, 6, 56, 568000)
GMT = datetime(2006, 10, 7, 12, 6, 56, 568000, tzinfo=UTC)


@for_each(
    ("value", "pattern", "expected"),
    [
        (LOCAL, "yyyy-MM-dd HH:mm:ss", "2006-10-07 12:06:56"),
        (LOCAL, "yyyyMMddHHmmssSSS", "20061007120656568"),
        (LOCAL, "dd MMM yyyy", "07 Oct 2006"),
        (LOCAL, "EEEE", "Saturday"),
        (LOCAL, "hh:mm a", "12:06 PM"),
        (LOCAL, "yyyy-MM-dd'T'HH:mm:ss", "2006-10-07T12:06:56"),
        (LOCAL, "I", "2006-10-07T12:06:56.568+01:00"),
        (GMT, "IU", "2006-10-07T12:06:56.568Z"),
        (LOCAL, "yyyy-MM-dd HH:mm:ss ZZZ", "2006-10-07 12:06:56 +01:00"),
        (GMT, "HH:mm ZZZ", "12:06 +00:00"),
        (GMT, "HH:mm ZZZU", "12:06 Z"),
        (date(2004, 2, 29), "yyyyDDD", "2004060"),
        (date(2003, 1, 5), "d/M/yy", "5/1/03"),
        (time(9, 5, 3), "HHmmss", "090503"),
    ],
)
def test_a_moment_by_a_pattern(value: Any, pattern: str, expected: str) -> None:
    assert format_datetime(value, pattern) == expected


@for_each(
    ("text", "pattern", "target", "expected"),
    [
        ("20061007", "yyyyMMdd", "DATE", date(2006, 10, 7)),
        ("2006-10-07T12:06:56.568+01:00", "I", "TIMESTAMP", LOCAL),
        ("2006-10-07T12:06:56.568+01:00", "I", "GMTTIMESTAMP", datetime(2006, 10, 7, 11, 6, 56, 568000, tzinfo=UTC)),
        ("2006-10-07T12:06:56.568Z", "IU", "GMTTIMESTAMP", GMT),
        ("2006-10-07T12:06:56.568Z", "IU", "TIMESTAMP", datetime(2006, 10, 7, 13, 6, 56, 568000)),
        ("2006-10-07 12:06:56", "yyyy-MM-dd HH:mm:ss", "GMTTIMESTAMP", datetime(2006, 10, 7, 12, 6, 56, tzinfo=UTC)),
        ("2006-10-07 12:06:56", "yyyy-MM-dd HH:mm:ss", "TIMESTAMP", datetime(2006, 10, 7, 12, 6, 56)),
        ("120656", "HHmmss", "TIME", time(12, 6, 56)),
        ("120656", "HHmmss", "GMTTIME", time(12, 6, 56, tzinfo=UTC)),
        ("12:06:56+02:00", "T", "TIME", time(11, 6, 56)),
        ("12:06:56+02:00", "T", "GMTTIME", time(10, 6, 56, tzinfo=UTC)),
        ("2006-10-07 12:06", "yyyy-MM-dd HH:mm", "DATE", date(2006, 10, 7)),
        ("07 Oct 2006", "dd MMM yyyy", "DATE", date(2006, 10, 7)),
    ],
)
def test_a_moment_from_text_by_a_pattern(text: str, pattern: str, target: str, expected: Any) -> None:
    result = parse_datetime(text, pattern, target)
    assert type(result) is type(expected)
    assert result == expected
    assert getattr(result, "tzinfo", None) == getattr(expected, "tzinfo", None)


@pytest.mark.parametrize(
    ("text", "pattern", "target"),
    [
        ("2006", "yyyyMMdd", "DATE"),
        ("20061350", "yyyyMMdd", "DATE"),
        ("", "yyyyMMdd", "DATE"),
        ("20061007", "yyyy'open", "DATE"),
        ("20061007", "qqq", "DATE"),
        ("nonsense", "I", "TIMESTAMP"),
        ("9999-12-31T23:59:59-05:00", "I", "GMTTIMESTAMP"),
    ],
)
def test_text_or_pattern_that_is_wrong_fails(text: str, pattern: str, target: str) -> None:
    with pytest.raises(Exception, match=r"\S") as caught:
        parse_datetime(text, pattern, target)
    assert caught.value.sqlstate in ("S22007", "S22008")  # type: ignore[attr-defined]


def test_a_pattern_that_makes_no_sense_fails_to_write_too() -> None:
    with pytest.raises(CastFailed, match="FORMAT"):
        format_datetime(LOCAL, "yyyy'open")
