# SPDX-License-Identifier: Apache-2.0
"""CAST: topics ak05610, ak05680 and ak05720."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors.esql import CastFailed, EsqlRunError
from entrepot.esql.runtime.casting import cast, cast_parts, caster, to_character
from entrepot.esql.runtime.dates import use_clock, use_zone
from entrepot.models.values import Bits, Interval
from folding import for_each

NOW = datetime(2003, 12, 24, 23, 30, 15, 250000, tzinfo=UTC)


@pytest.fixture(autouse=True)
def one_hour_east_on_christmas_eve() -> Iterator[None]:
    use_zone(timezone(timedelta(hours=1)))
    use_clock(lambda: NOW)
    yield
    use_zone(None)
    use_clock(None)


PLAIN = [
    # to CHARACTER
    ("abc", "CHARACTER", "abc"),
    (42, "CHARACTER", "42"),
    (-42, "CHARACTER", "-42"),
    (Decimal("0.480"), "CHARACTER", "0.480"),
    (Decimal("-12.50"), "CHARACTER", "-12.50"),
    (Decimal("1E+3"), "CHARACTER", "1000"),
    (44.72, "CHARACTER", "4.472E+1"),
    (1.0, "CHARACTER", "1E+0"),
    (0.0, "CHARACTER", "0E+0"),
    (-0.00025, "CHARACTER", "-2.5E-4"),
    (100.0, "CHARACTER", "1E+2"),
    (0.1 + 0.2, "CHARACTER", "3E-1"),
    (True, "CHARACTER", "TRUE"),
    (False, "CHARACTER", "FALSE"),
    (b"\x01\xab", "CHARACTER", "X'01ab'"),
    (b"", "CHARACTER", "X''"),
    (Bits("0101"), "CHARACTER", "B'0101'"),
    (date(2002, 10, 5), "CHARACTER", "DATE '2002-10-05'"),
    (time(9, 24, 15), "CHARACTER", "TIME '09:24:15'"),
    (time(9, 24, 15, tzinfo=UTC), "CHARACTER", "GMTTIME '09:24:15'"),
    (datetime(2002, 10, 5, 9, 24, 15), "CHARACTER", "TIMESTAMP '2002-10-05 09:24:15'"),
    (datetime(2002, 10, 5, 9, 24, 15, 500000), "CHARACTER", "TIMESTAMP '2002-10-05 09:24:15.500'"),
    (datetime(2002, 10, 5, 9, 24, 15, 123456), "CHARACTER", "TIMESTAMP '2002-10-05 09:24:15.123456'"),
    (datetime(2002, 10, 5, 9, 24, 15, tzinfo=UTC), "CHARACTER", "GMTTIMESTAMP '2002-10-05 09:24:15'"),
    (date(12, 1, 2), "CHARACTER", "DATE '0012-01-02'"),
    (Interval("YEAR", months=48), "CHARACTER", "INTERVAL '4' YEAR"),
    (Interval("YEAR TO MONTH", months=18), "CHARACTER", "INTERVAL '1-06' YEAR TO MONTH"),
    # to INTEGER
    ("42", "INTEGER", 42),
    (" -42 ", "INTEGER", -42),
    ("+7", "INTEGER", 7),
    ("007", "INTEGER", 7),
    ("0x1F", "INTEGER", 31),
    ("0xffffffffffffffff", "INTEGER", -1),
    ("9223372036854775807", "INTEGER", 2**63 - 1),
    ("-9223372036854775808", "INTEGER", -(2**63)),
    (Decimal("3.99"), "INTEGER", 3),
    (Decimal("-3.99"), "INTEGER", -3),
    (3.99, "INTEGER", 3),
    (-3.99, "INTEGER", -3),
    (b"\x01\x00", "INTEGER", 256),
    (b"\xff", "INTEGER", 255),
    (b"\xff" * 8, "INTEGER", -1),
    (Bits("101"), "INTEGER", 5),
    (Bits("1" * 64), "INTEGER", -1),
    (Interval("SECOND", seconds=Decimal("90")), "INTEGER", 90),
    (Interval("DAY", seconds=Decimal(3 * 86400)), "INTEGER", 3),
    (Interval("YEAR", months=-24), "INTEGER", -2),
    # to DECIMAL
    ("12.50", "DECIMAL", Decimal("12.50")),
    ("-0.001", "DECIMAL", Decimal("-0.001")),
    (".5", "DECIMAL", Decimal("0.5")),
    ("5.", "DECIMAL", Decimal("5")),
    ("1.5e3", "DECIMAL", Decimal("1.5E+3")),
    (" 12 ", "DECIMAL", Decimal("12")),
    ("INF", "DECIMAL", Decimal("Infinity")),
    (42, "DECIMAL", Decimal("42")),
    (44.72, "DECIMAL", Decimal("44.72")),
    (0.1 + 0.2, "DECIMAL", Decimal("0.3")),
    (Interval("SECOND", seconds=Decimal("1.5")), "DECIMAL", Decimal("1.5")),
    # to FLOAT
    ("4.472E+1", "FLOAT", 44.72),
    ("10", "FLOAT", 10.0),
    (10, "FLOAT", 10.0),
    (Decimal("0.25"), "FLOAT", 0.25),
    (Interval("HOUR", seconds=Decimal(7200)), "FLOAT", 2.0),
    # to BOOLEAN
    ("TRUE", "BOOLEAN", True),
    ("false", "BOOLEAN", False),
    (" True ", "BOOLEAN", True),
    (True, "BOOLEAN", True),
    # to BLOB and BIT
    ("X'01aB'", "BLOB", b"\x01\xab"),
    ("01ab", "BLOB", b"\x01\xab"),
    ("", "BLOB", b""),
    (1, "BLOB", b"\0\0\0\0\0\0\0\x01"),
    (-1, "BLOB", b"\xff" * 8),
    (Bits("00000001" + "10101011"), "BLOB", b"\x01\xab"),
    ("B'0101'", "BIT", Bits("0101")),
    ("0101", "BIT", Bits("0101")),
    (b"\x05", "BIT", Bits("00000101")),
    (1, "BIT", Bits("0" * 63 + "1")),
    # to dates and times
    ("2002-10-05", "DATE", date(2002, 10, 5)),
    ("DATE '2002-10-05'", "DATE", date(2002, 10, 5)),
    ("date'2002-10-05'", "DATE", date(2002, 10, 5)),
    (datetime(2002, 10, 5, 9, 24), "DATE", date(2002, 10, 5)),
    ("09:24:15", "TIME", time(9, 24, 15)),
    ("TIME '09:24:15.25'", "TIME", time(9, 24, 15, 250000)),
    ("GMTTIME '09:24:15'", "GMTTIME", time(9, 24, 15, tzinfo=UTC)),
    ("09:24:15", "GMTTIME", time(9, 24, 15, tzinfo=UTC)),
    ("2002-10-05 09:24:15", "TIMESTAMP", datetime(2002, 10, 5, 9, 24, 15)),
    ("TIMESTAMP '2002-10-05 09:24:15.123456'", "TIMESTAMP", datetime(2002, 10, 5, 9, 24, 15, 123456)),
    ("2002-10-05 09:24:15", "GMTTIMESTAMP", datetime(2002, 10, 5, 9, 24, 15, tzinfo=UTC)),
    (datetime(2002, 10, 5, 9, 24), "TIME", time(9, 24)),
    (datetime(2002, 10, 5, 23, 24, tzinfo=UTC), "TIME", time(0, 24)),
    (datetime(2002, 10, 5, 23, 24, tzinfo=UTC), "TIMESTAMP", datetime(2002, 10, 6, 0, 24)),
    (datetime(2002, 10, 6, 0, 24), "GMTTIMESTAMP", datetime(2002, 10, 5, 23, 24, tzinfo=UTC)),
    (datetime(2002, 10, 6, 0, 24), "GMTTIME", time(23, 24, tzinfo=UTC)),
    (time(0, 30), "GMTTIME", time(23, 30, tzinfo=UTC)),
    (time(23, 30, tzinfo=UTC), "TIME", time(0, 30)),
    (date(2002, 10, 5), "TIMESTAMP", datetime(2002, 10, 5, 0, 30, 15, 250000)),
    (date(2002, 10, 5), "GMTTIMESTAMP", datetime(2002, 10, 5, 23, 30, 15, 250000, tzinfo=UTC)),
    (time(9, 0), "TIMESTAMP", datetime(2003, 12, 25, 9, 0)),
    (time(9, 0, tzinfo=UTC), "GMTTIMESTAMP", datetime(2003, 12, 24, 9, 0, tzinfo=UTC)),
    (time(9, 0, tzinfo=UTC), "TIMESTAMP", datetime(2003, 12, 24, 10, 0)),
    (time(9, 0), "GMTTIMESTAMP", datetime(2003, 12, 25, 8, 0, tzinfo=UTC)),
]


@for_each(("value", "target", "expected"), PLAIN, ids=lambda value: str(value)[:40])
def test_a_plain_cast(value: Any, target: str, expected: Any) -> None:
    result = cast(value, target)
    assert type(result) is type(expected)
    assert result == expected
    assert str(result) == str(expected)
    assert caster(target)(value) == expected


TARGETS = [
    "CHARACTER",
    "BLOB",
    "BIT",
    "INTEGER",
    "DECIMAL",
    "FLOAT",
    "BOOLEAN",
    "DATE",
    "TIME",
    "GMTTIME",
    "TIMESTAMP",
    "GMTTIMESTAMP",
]


@for_each("target", TARGETS)
def test_null_stays_null(target: str) -> None:
    assert cast(None, target) is None
    assert caster(target)(None) is None
    assert cast(None, target, ccsid=1208, format="x") is None


def test_unknown_as_text_is_unknown() -> None:
    assert cast("UNKNOWN", "BOOLEAN") is None


UNREADABLE = [
    ("", "INTEGER"),
    ("abc", "INTEGER"),
    ("1.5", "INTEGER"),
    ("1_000", "INTEGER"),
    ("١٢", "INTEGER"),
    ("9223372036854775808", "INTEGER"),
    ("9" * 5000, "INTEGER"),
    (1e30, "INTEGER"),
    (float("inf"), "INTEGER"),
    (float("nan"), "INTEGER"),
    (Decimal("1E+30"), "INTEGER"),
    (Decimal("NaN"), "INTEGER"),
    (b"", "INTEGER"),
    (b"\0" * 9, "INTEGER"),
    (Bits("0" * 65), "INTEGER"),
    ("1,5", "DECIMAL"),
    ("1E+9999999999", "DECIMAL"),
    ("1e999", "FLOAT"),
    ("yes", "BOOLEAN"),
    ("X'1'", "BLOB"),
    ("xyz", "BLOB"),
    ("B'2'", "BIT"),
    (Bits("1"), "BLOB"),
    ("2002-13-05", "DATE"),
    ("2002-02-30", "DATE"),
    ("20021005", "DATE"),
    ("2002-10-05T09:24:15", "TIMESTAMP"),
    ("25:00:00", "TIME"),
    ("TIME '09:24:15'", "GMTTIME"),
    ("2002-10-05", "TIMESTAMP"),
]


@for_each(("value", "target"), UNREADABLE, ids=lambda value: str(value)[:30])
def test_what_cannot_become_the_target_fails_and_says_so(value: Any, target: str) -> None:
    with pytest.raises(CastFailed) as caught:
        cast(value, target)
    assert caught.value.number == 2595
    assert len(caught.value.problem) < 400


UNSUPPORTED = [
    (True, "INTEGER"),
    (1, "BOOLEAN"),
    (1, "DATE"),
    (date(2000, 1, 1), "INTEGER"),
    (date(2000, 1, 1), "TIME"),
    (time(1), "DATE"),
    (b"\x01", "FLOAT"),
    (Decimal(1), "BLOB"),
    (1.5, "BIT"),
    (True, "BLOB"),
    (date(2000, 1, 1), "BLOB"),
]


@for_each(("value", "target"), UNSUPPORTED, ids=str)
def test_a_cast_that_the_table_has_not_names_both_types(value: Any, target: str) -> None:
    with pytest.raises(CastFailed, match=f"cannot become {target}"):
        cast(value, target)


def test_there_are_types_that_nothing_can_be_cast_to() -> None:
    with pytest.raises(EsqlRunError, match="nothing can be cast to ROW"):
        cast(1, "ROW")


@for_each(
    ("value", "precision", "scale", "expected"),
    [
        ("12.345", 5, 2, "12.34"),
        ("12.355", 5, 2, "12.36"),
        ("12.345", 5, 0, "12"),
        ("12.5", 5, None, "12"),
        ("13.5", 5, None, "14"),
        ("1", 5, 2, "1.00"),
        (Decimal("-999.995"), 6, 2, "-1000.00"),
        (1.005, 4, 2, "1.00"),
        (7, 10, 4, "7.0000"),
        ("0", 1, 1, "0.0"),
    ],
)
def test_decimal_with_precision_and_scale_rounds_half_to_even(
    value: Any, precision: int, scale: int | None, expected: str
) -> None:
    assert str(cast(value, "DECIMAL", precision, scale)) == expected


@pytest.mark.parametrize(
    ("value", "precision", "scale"), [("1000", 5, 2), ("999.995", 5, 2), ("1", 1, 1), ("INF", 5, 2)]
)
def test_decimal_with_too_many_digits_before_the_point_fails(value: str, precision: int, scale: int) -> None:
    with pytest.raises(CastFailed) as caught:
        cast(value, "DECIMAL", precision, scale)
    assert caught.value.sqlstate == "S22003"


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (35, 0), (5, 6), (5, -1)])
def test_there_is_no_such_decimal(precision: int, scale: int) -> None:
    with pytest.raises(EsqlRunError, match="there is no DECIMAL"):
        cast("1", "DECIMAL", precision, scale)


@for_each(
    ("value", "qualifier", "expected"),
    [
        (90, "SECOND", Interval("SECOND", seconds=Decimal(90))),
        (3, "YEAR", Interval("YEAR", months=36)),
        (Decimal("1.5"), "SECOND", Interval("SECOND", seconds=Decimal("1.5"))),
        (2.0, "DAY", Interval("DAY", seconds=Decimal(172800))),
        ("1-06", "YEAR TO MONTH", Interval("YEAR TO MONTH", months=18)),
        ("INTERVAL '1-06' YEAR TO MONTH", "YEAR TO MONTH", Interval("YEAR TO MONTH", months=18)),
        (Interval("MINUTE", seconds=Decimal(5400)), "HOUR", Interval("HOUR", seconds=Decimal(3600))),
        (Interval("HOUR", seconds=Decimal(3600)), "MINUTE", Interval("MINUTE", seconds=Decimal(3600))),
    ],
)
def test_casts_to_an_interval(value: Any, qualifier: str, expected: Interval) -> None:
    assert cast(value, "INTERVAL", qualifier=qualifier) == expected


@pytest.mark.parametrize(
    ("value", "qualifier"),
    [
        (1, "DAY TO SECOND"),
        ("1-06", "DAY"),
        ("INTERVAL '1-06' YEAR TO MONTH", "MONTH"),
        (Interval("MONTH", months=1), "DAY"),
        (True, "DAY"),
    ],
)
def test_what_is_no_such_interval_fails(value: Any, qualifier: str) -> None:
    with pytest.raises(CastFailed):
        cast(value, "INTERVAL", qualifier=qualifier)


def test_an_interval_of_several_fields_is_no_number() -> None:
    with pytest.raises(CastFailed, match="more than one field"):
        cast(Interval("DAY TO HOUR", seconds=Decimal(3600)), "INTEGER")


CLAUSES = [
    pytest.param(b"\xe2\x84\xa2", "CHARACTER", {"ccsid": 1208}, "\u2122", id="trade-mark-in-utf-8"),
    pytest.param("\u2122", "BLOB", {"ccsid": 1208}, b"\xe2\x84\xa2", id="and-back"),
    pytest.param(b"\xc1\xc2", "CHARACTER", {"ccsid": 500}, "AB", id="ebcdic"),
    pytest.param("AB", "BLOB", {"ccsid": 500}, b"\xc1\xc2", id="to-ebcdic"),
    pytest.param("A", "BLOB", {"ccsid": 1200, "encoding": 273}, b"\x00A", id="utf-16-big-endian"),
    pytest.param("A", "BLOB", {"ccsid": 1200, "encoding": 546}, b"A\x00", id="utf-16-little-endian"),
    pytest.param(b"A\x00", "CHARACTER", {"ccsid": 1200, "encoding": 546}, "A", id="from-utf-16"),
    pytest.param(Bits("01000001"), "CHARACTER", {"ccsid": 819}, "A", id="bits-to-text"),
    pytest.param("A", "BIT", {"ccsid": 819}, Bits("01000001"), id="text-to-bits"),
    pytest.param(b"A", "CHARACTER", {"encoding": 546}, "A", id="encoding-alone-makes-it-text"),
    pytest.param(b"\x41", "BLOB", {"ccsid": 500}, b"\x41", id="bytes-stay-bytes"),
    pytest.param(b"12.5", "DECIMAL", {"ccsid": 1208}, Decimal("12.5"), id="number-in-bytes"),
    pytest.param(b"\xf1\xf2", "DECIMAL", {"ccsid": 500, "format": "#0"}, Decimal("12"), id="format-in-ebcdic"),
    pytest.param(12, "BLOB", {"ccsid": 500, "format": "#0"}, b"\xf1\xf2", id="formatted-in-ebcdic"),
    pytest.param(12, "CHARACTER", {"ccsid": 1208}, "12", id="ccsid-without-effect"),
    pytest.param(b"\x00\x01", "INTEGER", {"encoding": 546}, 1, id="encoding-is-for-strings-only"),
    pytest.param(Decimal("1234.5"), "CHARACTER", {"format": "#,##0.00"}, "1,234.50", id="number-format"),
    pytest.param("1,234.50", "DECIMAL", {"format": "#,##0.00"}, Decimal("1234.50"), id="number-from-format"),
    pytest.param("1,234", "INTEGER", {"format": "#,##0"}, 1234, id="integer-from-format"),
    pytest.param(
        "9,223,372,036,854,775,807", "INTEGER", {"format": "#,##0"}, 2**63 - 1, id="integer-from-format-exact"
    ),
    pytest.param("$5", "FLOAT", {"format": "$0"}, 5.0, id="float-from-format"),
    pytest.param(date(2003, 12, 24), "CHARACTER", {"format": "yyyyMMdd"}, "20031224", id="date-format"),
    pytest.param("20031224", "DATE", {"format": "yyyyMMdd"}, date(2003, 12, 24), id="date-from-format"),
    pytest.param(date(2003, 12, 24), "BLOB", {"format": "yyyy"}, b"2003", id="date-format-as-bytes"),
    pytest.param(b"20031224", "DATE", {"format": "yyyyMMdd"}, date(2003, 12, 24), id="date-from-bytes"),
    pytest.param("x", "CHARACTER", {"format": "#0"}, "x", id="format-without-effect"),
]


@for_each(("value", "target", "clauses", "expected"), CLAUSES)
def test_a_cast_with_clauses(value: Any, target: str, clauses: dict[str, Any], expected: Any) -> None:
    result = cast(value, target, **clauses)
    assert type(result) is type(expected)
    assert result == expected


@pytest.mark.parametrize(
    ("value", "target", "clauses"),
    [
        (b"\xff\xfe\xfa", "CHARACTER", {"ccsid": 1208}),
        ("\u2122", "BLOB", {"ccsid": 819}),
        (b"A", "CHARACTER", {"ccsid": 99999}),
        ("A", "BLOB", {"ccsid": -7}),
        ("2003", "DATE", {"format": "yyyyMMdd"}),
        (1, "CHARACTER", {"format": "abc"}),
        ("1", "INTEGER", {"format": "'open"}),
    ],
)
def test_a_clause_that_does_not_fit_fails(value: Any, target: str, clauses: dict[str, Any]) -> None:
    with pytest.raises(CastFailed):
        cast(value, target, **clauses)


@pytest.mark.parametrize("clauses", [{"ccsid": "1208"}, {"encoding": 1.5}, {"format": 5}])
def test_a_clause_of_the_wrong_type_is_an_error(clauses: dict[str, Any]) -> None:
    with pytest.raises(EsqlRunError, match="takes"):
        cast("1", "BLOB", **clauses)


PARTS = [
    ((2003, 12, 24), "DATE", "", date(2003, 12, 24)),
    ((9, 24, 15), "TIME", "", time(9, 24, 15)),
    ((9, 24, Decimal("15.25")), "TIME", "", time(9, 24, 15, 250000)),
    ((9, 24, 15), "GMTTIME", "", time(9, 24, 15, tzinfo=UTC)),
    ((2003, 12, 24, 9, 24, 15), "TIMESTAMP", "", datetime(2003, 12, 24, 9, 24, 15)),
    ((2003, 12, 24, 9, 24, 15.5), "GMTTIMESTAMP", "", datetime(2003, 12, 24, 9, 24, 15, 500000, tzinfo=UTC)),
    ((date(2003, 12, 24), time(9, 24)), "TIMESTAMP", "", datetime(2003, 12, 24, 9, 24)),
    ((date(2003, 12, 24), time(9, 24, tzinfo=UTC)), "GMTTIMESTAMP", "", datetime(2003, 12, 24, 9, 24, tzinfo=UTC)),
    ((1, 6), "INTERVAL", "YEAR TO MONTH", Interval("YEAR TO MONTH", months=18)),
    ((7, 30), "INTERVAL", "HOUR TO MINUTE", Interval("HOUR TO MINUTE", seconds=Decimal(27000))),
    ((1, 2, 3, 4), "INTERVAL", "DAY TO SECOND", Interval("DAY TO SECOND", seconds=Decimal(93784))),
    ((2003, None, 24), "DATE", "", None),
]


@for_each(("values", "target", "qualifier", "expected"), PARTS)
def test_several_values_make_one(values: tuple[Any, ...], target: str, qualifier: str, expected: Any) -> None:
    assert cast_parts(values, target, qualifier) == expected


@for_each(
    ("values", "target", "qualifier"),
    [
        ((2003, 2, 30), "DATE", ""),
        ((2003, 12), "DATE", ""),
        ((25, 0, 0), "TIME", ""),
        (("2003", 12, 24), "DATE", ""),
        ((10**30, 1, 1), "DATE", ""),
        ((date(2003, 12, 24), time(9, tzinfo=UTC)), "TIMESTAMP", ""),
        ((1, 2), "CHARACTER", ""),
        ((1, 2, 3), "INTERVAL", "YEAR TO MONTH"),
    ],
)
def test_parts_that_make_nothing_fail(values: tuple[Any, ...], target: str, qualifier: str) -> None:
    with pytest.raises(CastFailed):
        cast_parts(values, target, qualifier)


# --- round trips ------------------------------------------------------------------------------------------

MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1))
SCALARS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(lambda value: (value, "INTEGER", "")),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=6).map(
        lambda value: (value, "DECIMAL", "")
    ),
    st.binary(max_size=20).map(lambda value: (value, "BLOB", "")),
    st.text("01", max_size=20).map(lambda value: (Bits(value), "BIT", "")),
    st.booleans().map(lambda value: (value, "BOOLEAN", "")),
    st.dates().map(lambda value: (value, "DATE", "")),
    st.times().map(lambda value: (value, "TIME", "")),
    st.times(timezones=st.just(UTC)).map(lambda value: (value, "GMTTIME", "")),
    MOMENTS.map(lambda value: (value, "TIMESTAMP", "")),
    MOMENTS.map(lambda value: (value.replace(tzinfo=UTC), "GMTTIMESTAMP", "")),
    st.integers(-5000, 5000).map(lambda value: (Interval("YEAR TO MONTH", months=value), "INTERVAL", "YEAR TO MONTH")),
    st.decimals(-(10**7), 10**7, places=3).map(
        lambda value: (Interval("DAY TO SECOND", seconds=value), "INTERVAL", "DAY TO SECOND")
    ),
)


@given(SCALARS)
@settings(max_examples=200)
def test_a_value_comes_back_from_its_own_text(case: tuple[Any, str, str]) -> None:
    value, target, qualifier = case
    assert cast(to_character(value), target, qualifier=qualifier) == value


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
@settings(max_examples=100)
def test_a_float_of_few_digits_comes_back_from_its_text(value: float) -> None:
    assert cast(to_character(value), "FLOAT") == pytest.approx(value, rel=1e-14)


@given(MOMENTS)
@settings(max_examples=50)
def test_local_and_gmt_are_each_others_inverse(value: datetime) -> None:
    assert cast(cast(value, "GMTTIMESTAMP"), "TIMESTAMP") == value


@given(st.text(max_size=30), st.sampled_from([t for t in TARGETS if t != "CHARACTER"]))
@settings(max_examples=200)
def test_any_text_casts_or_fails_and_nothing_else(text: str, target: str) -> None:
    try:
        cast(text, target)
    except CastFailed as failure:
        assert failure.number == 2595
