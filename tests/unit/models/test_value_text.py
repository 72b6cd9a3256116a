# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
import enum
from decimal import Decimal
from typing import Any

import pytest

from entrepot.models.value_text import xml_text
from entrepot.models.values import Bits, Interval
from folding import for_each

UTC = datetime.UTC
TOKYO = datetime.timezone(datetime.timedelta(hours=9))


class Colour(enum.IntEnum):
    RED = 4


@for_each(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, ""),
        (0, "0"),
        (-12345678901234567890, "-12345678901234567890"),
        (True, "true"),
        (False, "false"),
        (Colour.RED, "4"),
        (Decimal("0.480"), "0.480"),
        (Decimal("35.744"), "35.744"),
        (Decimal("1E+3"), "1000"),
        (Decimal("-0.0000001"), "-0.0000001"),
        (Decimal("NaN"), "NaN"),
        (Decimal("-Infinity"), "-INF"),
        (Decimal("1E+100000"), "1E+100000"),
        (44.72, "4.472E+1"),
        (0.0, "0E+0"),
        (-0.0, "0E+0"),
        (1.0, "1E+0"),
        (-1500.0, "-1.5E+3"),
        (1e-7, "1E-7"),
        (5e-324, "5E-324"),
        (1e300, "1E+300"),
        (0.1, "1E-1"),
        (float("inf"), "INF"),
        (float("-inf"), "-INF"),
        (float("nan"), "NaN"),
        (b"", ""),
        (b"\x00\xab\xff", "00ABFF"),
        (datetime.date(2003, 12, 24), "2003-12-24"),
        (datetime.date(33, 4, 3), "0033-04-03"),
        (datetime.time(10, 0), "10:00:00"),
        (datetime.time(10, 0, 1, 50), "10:00:01.000050"),
        (datetime.time(10, 0, tzinfo=UTC), "10:00:00Z"),
        (datetime.datetime(2003, 12, 24, 10), "2003-12-24T10:00:00"),
        (datetime.datetime(2003, 12, 24, 10, 0, 0, 123456), "2003-12-24T10:00:00.123456"),
        (datetime.datetime(2003, 12, 24, 10, tzinfo=UTC), "2003-12-24T10:00:00Z"),
        (datetime.datetime(2003, 12, 24, 10, tzinfo=TOKYO), "2003-12-24T01:00:00Z"),
        (Bits("0011"), "0011"),
        (Interval("YEAR TO MONTH", months=18), "1-06"),
        (Interval("YEAR", months=24), "2"),
        (Interval("MONTH", months=18), "18"),
        (Interval("DAY TO MINUTE", seconds=Decimal(2 * 86400 + 3 * 3600 + 4 * 60)), "2 03:04"),
        (Interval("HOUR TO SECOND", seconds=Decimal("-3661.5")), "-1:01:01.5"),
        (Interval("MINUTE", seconds=Decimal(5400)), "90"),
        (Interval("SECOND", seconds=Decimal("10.25")), "10.25"),
    ],
)
def test_a_value_is_written_as_esql_writes_it(value: Any, text: str) -> None:
    assert xml_text(value) == text


def test_something_that_is_no_value_is_refused() -> None:
    with pytest.raises(TypeError, match="list is no type"):
        xml_text([1])
