# SPDX-License-Identifier: Apache-2.0
"""Arithmetic, concatenation and NOT: topics ak01037, ak01038, ak05710 and ak17820."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors.esql import EsqlRunError
from entrepot.esql.runtime.operators import (
    add,
    concat,
    divide,
    interval_of,
    multiply,
    negate,
    not_,
    positive,
    subtract,
)
from entrepot.models.values import Bits, Interval
from folding import for_each

BIG = 2**63 - 1
SMALL = -(2**63)


def same(result: Any, expected: Any) -> bool:
    """Equal in type, in value, and in the scale of a DECIMAL."""
    return type(result) is type(expected) and str(result) == str(expected)


@for_each(
    ("operation", "a", "b", "expected"),
    [
        pytest.param(add, 1, 2, 3, id="integers-add"),
        pytest.param(add, BIG - 1, 1, BIG, id="up-to-the-largest"),
        pytest.param(subtract, SMALL + 1, 1, SMALL, id="down-to-the-smallest"),
        pytest.param(subtract, 2, 5, -3, id="integers-subtract"),
        pytest.param(multiply, -3, 4, -12, id="integers-multiply"),
        pytest.param(divide, 7, 2, 3, id="integers-divide"),
        pytest.param(divide, -7, 2, -3, id="division-cuts-toward-zero"),
        pytest.param(divide, 7, -2, -3, id="division-cuts-toward-zero-too"),
        pytest.param(divide, -7, -2, 3, id="two-minus-signs"),
        pytest.param(divide, 0, -5, 0, id="nothing-divided"),
        pytest.param(divide, 6, 3, 2, id="even-division"),
        pytest.param(divide, SMALL, 1, SMALL, id="smallest-by-one"),
        pytest.param(add, 1, Decimal("2.50"), Decimal("3.50"), id="ak05710-integer-decimal"),
        pytest.param(add, Decimal("2.50"), 1, Decimal("3.50"), id="ak05710-decimal-integer"),
        pytest.param(add, 1, 2.5, 3.5, id="ak05710-integer-float"),
        pytest.param(multiply, 2.5, 2, 5.0, id="ak05710-float-integer"),
        pytest.param(subtract, Decimal("1.5"), 0.5, 1.0, id="ak05710-decimal-float"),
        pytest.param(divide, 1.0, Decimal("4"), 0.25, id="ak05710-float-decimal"),
        pytest.param(add, 0.5, 0.25, 0.75, id="floats"),
        pytest.param(multiply, Decimal("0.30"), Decimal("1.6"), Decimal("0.480"), id="invoice-0.480"),
        pytest.param(multiply, Decimal("0.20"), Decimal("1.6"), Decimal("0.320"), id="invoice-0.320"),
        pytest.param(multiply, Decimal("22.34"), Decimal("1.6"), Decimal("35.744"), id="invoice-35.744"),
        pytest.param(multiply, Decimal("36.20"), Decimal("1.6"), Decimal("57.920"), id="invoice-57.920"),
        pytest.param(add, Decimal("1.1"), Decimal("2.25"), Decimal("3.35"), id="ak17820-larger-scale"),
        pytest.param(add, Decimal("1.10"), Decimal("2.9"), Decimal("4.00"), id="ak17820-scale-stays"),
        pytest.param(subtract, Decimal("5"), Decimal("0.010"), Decimal("4.990"), id="ak17820-subtract-scale"),
        pytest.param(divide, Decimal("1"), Decimal("4"), Decimal("0.25"), id="ak17820-exact-division"),
        pytest.param(divide, Decimal("10"), Decimal("3"), Decimal("3." + "3" * 33), id="ak17820-34-digits"),
        pytest.param(divide, Decimal("2"), 3, Decimal("0." + "6" * 33 + "7"), id="ak17820-last-digit-rounded"),
        pytest.param(divide, Decimal("2.40"), 2, Decimal("1.20"), id="division-keeps-the-scale-it-can"),
        pytest.param(multiply, Decimal("9" * 34), 10, Decimal("9" * 34 + "0"), id="rounded-to-34"),
        pytest.param(add, Decimal("1" * 34), Decimal("0.5"), Decimal("1" * 33 + "2"), id="half-even-up"),
        pytest.param(add, Decimal("1" * 33 + "2"), Decimal("0.5"), Decimal("1" * 33 + "2"), id="half-even-down"),
    ],
)
def test_numbers_meet_in_the_wider_type(operation: Callable[[Any, Any], Any], a: Any, b: Any, expected: Any) -> None:
    result = operation(a, b)
    if isinstance(expected, Decimal) and len(expected.as_tuple().digits) > 30:
        assert type(result) is Decimal
        assert result == expected
    else:
        assert same(result, expected)


@for_each(
    ("operation", "a", "b"),
    [
        (add, BIG, 1),
        (subtract, SMALL, 1),
        (subtract, 0, SMALL),
        (multiply, 2**32, 2**31),
        (multiply, SMALL, -1),
        (divide, SMALL, -1),
        (multiply, 1e308, 10),
        (add, Decimal("1E+999"), 1.0),
        (add, Decimal("9E+999999999"), Decimal("9E+999999999")),
        (multiply, Decimal("1E+999999999"), Decimal("10")),
    ],
)
def test_what_does_not_fit_is_an_error_with_sqlstate_s22003(
    operation: Callable[[Any, Any], Any], a: Any, b: Any
) -> None:
    with pytest.raises(EsqlRunError, match="too large") as caught:
        operation(a, b)
    assert caught.value.sqlstate == "S22003"


@pytest.mark.parametrize(("a", "b"), [(1, 0), (0, 0), (Decimal(1), Decimal(0)), (Decimal(0), 0), (1.5, 0), (0.0, 0.0)])
def test_division_by_zero_is_an_error_with_sqlstate_s22012(a: Any, b: Any) -> None:
    with pytest.raises(EsqlRunError, match="division by zero") as caught:
        divide(a, b)
    assert caught.value.sqlstate == "S22012"


@for_each("operation", [add, subtract, multiply, divide, concat])
@for_each("value", [None, 1, "a", Decimal(1), date(2000, 1, 1)])
def test_null_in_gives_null_out(operation: Callable[[Any, Any], Any], value: Any) -> None:
    assert operation(None, value) is None
    assert operation(value, None) is None


@for_each(
    ("operation", "a", "b"),
    [
        (add, "1", 1),
        (add, 1, "1"),
        (add, True, 1),
        (multiply, "2", "3"),
        (add, b"1", b"2"),
        (add, date(2000, 1, 1), 1),
        (subtract, 1, Interval("DAY", seconds=Decimal(86400))),
        (divide, 2, Interval("DAY", seconds=Decimal(86400))),
        (add, date(2000, 1, 1), date(2000, 1, 1)),
        (concat, "a", 1),
        (concat, "a", b"a"),
        (concat, 1, 2),
    ],
)
def test_types_that_do_not_go_together_are_named(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> None:
    with pytest.raises(EsqlRunError, match="does not work on") as caught:
        operation(a, b)
    assert caught.value.number == 2420


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("ab", "cd", "abcd"),
        ("", "x", "x"),
        (b"\x01", b"\x02", b"\x01\x02"),
        (Bits("01"), Bits("1"), Bits("011")),
    ],
)
def test_strings_of_one_type_are_concatenated(a: Any, b: Any, expected: Any) -> None:
    assert concat(a, b) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, -5),
        (Decimal("1.50"), Decimal("-1.50")),
        (Decimal("0.00"), Decimal("0.00")),
        (2.5, -2.5),
        (Interval("MONTH", months=3), Interval("MONTH", months=-3)),
        (Interval("DAY", seconds=Decimal(86400)), Interval("DAY", seconds=Decimal(-86400))),
        (None, None),
    ],
)
def test_unary_minus(value: Any, expected: Any) -> None:
    assert negate(value) == expected
    assert positive(value) == value


def test_the_smallest_integer_has_no_opposite() -> None:
    with pytest.raises(EsqlRunError, match="too large"):
        negate(SMALL)


@pytest.mark.parametrize("value", ["1", True, date(2000, 1, 1)])
def test_signs_stand_before_numbers_and_intervals_only(value: Any) -> None:
    with pytest.raises(EsqlRunError, match="does not work on"):
        negate(value)
    with pytest.raises(EsqlRunError, match="does not work on"):
        positive(value)


def test_not_is_three_valued() -> None:
    assert not_(True) is False
    assert not_(False) is True
    assert not_(None) is None
    with pytest.raises(EsqlRunError, match="NOT does not work on INTEGER"):
        not_(1)


DAYS_3 = Interval("DAY", seconds=Decimal(3 * 86400))
HOURS_2 = Interval("HOUR", seconds=Decimal(7200))


@for_each(
    ("operation", "a", "b", "expected"),
    [
        pytest.param(add, date(2000, 2, 27), DAYS_3, date(2000, 3, 1), id="date-plus-days"),
        pytest.param(add, DAYS_3, date(2000, 2, 27), date(2000, 3, 1), id="days-plus-date"),
        pytest.param(subtract, date(2000, 3, 1), DAYS_3, date(2000, 2, 27), id="date-minus-days"),
        pytest.param(add, time(23, 30), HOURS_2, time(1, 30), id="a-clock-goes-round"),
        pytest.param(subtract, time(1, 30), HOURS_2, time(23, 30), id="and-back"),
        pytest.param(add, time(23, 30, tzinfo=UTC), HOURS_2, time(1, 30, tzinfo=UTC), id="gmttime"),
        pytest.param(add, datetime(1999, 12, 31, 23), HOURS_2, datetime(2000, 1, 1, 1), id="timestamp"),
        pytest.param(
            add, datetime(2000, 1, 1, tzinfo=UTC), DAYS_3, datetime(2000, 1, 4, tzinfo=UTC), id="gmttimestamp"
        ),
        pytest.param(add, date(2001, 11, 30), Interval("MONTH", months=14), date(2003, 1, 30), id="months"),
        pytest.param(subtract, date(2001, 1, 30), Interval("YEAR", months=12), date(2000, 1, 30), id="years"),
        pytest.param(
            add, datetime(2000, 2, 29, 6), Interval("YEAR", months=48), datetime(2004, 2, 29, 6), id="leap-to-leap"
        ),
        pytest.param(add, DAYS_3, DAYS_3, Interval("DAY", seconds=Decimal(6 * 86400)), id="intervals-add"),
        pytest.param(
            add, DAYS_3, HOURS_2, Interval("DAY TO HOUR", seconds=Decimal(266400)), id="qualifiers-are-joined"
        ),
        pytest.param(subtract, HOURS_2, HOURS_2, Interval("HOUR", seconds=Decimal(0)), id="intervals-subtract"),
        pytest.param(multiply, HOURS_2, 3, Interval("HOUR", seconds=Decimal(21600)), id="interval-times-integer"),
        pytest.param(multiply, 3, HOURS_2, Interval("HOUR", seconds=Decimal(21600)), id="integer-times-interval"),
        pytest.param(multiply, HOURS_2, 1.5, Interval("HOUR", seconds=Decimal(10800)), id="interval-times-float"),
        pytest.param(divide, HOURS_2, Decimal("2"), Interval("HOUR", seconds=Decimal(3600)), id="interval-by-decimal"),
        pytest.param(divide, HOURS_2, 4, Interval("HOUR", seconds=Decimal(0)), id="less-than-its-last-field"),
        pytest.param(multiply, Interval("YEAR TO MONTH", months=18), 2, Interval("YEAR TO MONTH", months=36), id="ym"),
    ],
)
def test_dates_and_intervals(operation: Callable[[Any, Any], Any], a: Any, b: Any, expected: Any) -> None:
    assert operation(a, b) == expected


def test_the_seconds_since_1970() -> None:
    moment = datetime(2022, 6, 27, 17, 10, 37, tzinfo=UTC)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert interval_of(moment, epoch, "SECOND") == Interval("SECOND", seconds=Decimal(1656349837))


def test_an_interval_divided_by_zero_is_an_error() -> None:
    with pytest.raises(EsqlRunError, match="division by zero"):
        divide(DAYS_3, 0)


class Text(str):
    """What an XML library might leave in a tree."""


def test_a_subclass_counts_as_what_it_derives_from() -> None:
    result = concat(Text("a"), "b")
    assert result == "ab"
    assert type(result) is str


INTEGERS = st.integers(SMALL, BIG)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=4)


@given(INTEGERS, INTEGERS)
@settings(max_examples=80)
def test_addition_and_multiplication_commute(a: int, b: int) -> None:
    for operation in (add, multiply):
        try:
            expected = operation(a, b)
        except EsqlRunError:
            with pytest.raises(EsqlRunError):
                operation(b, a)
        else:
            assert operation(b, a) == expected


@given(DECIMALS, DECIMALS)
@settings(max_examples=80)
def test_decimals_count_as_fractions_do(a: Decimal, b: Decimal) -> None:
    assert Fraction(add(a, b)) == Fraction(a) + Fraction(b)
    assert Fraction(subtract(a, b)) == Fraction(a) - Fraction(b)
    # 16 digits times 16 digits fit in 34, so nothing is rounded.
    assert Fraction(multiply(a, b)) == Fraction(a) * Fraction(b)
    if b:
        exact = Fraction(a) / Fraction(b)
        assert abs(Fraction(divide(a, b)) - exact) <= abs(exact) * Fraction(1, 10**33)


@given(INTEGERS, INTEGERS.filter(bool))
@settings(max_examples=80)
def test_quotient_and_rest_make_the_dividend(a: int, b: int) -> None:
    if (a, b) == (SMALL, -1):
        return
    rest = a - divide(a, b) * b
    assert abs(rest) < abs(b)
    assert rest == 0 or (rest < 0) == (a < 0)
