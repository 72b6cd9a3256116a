# SPDX-License-Identifier: Apache-2.0
"""CAST's FORMAT for numbers: topic ak05615."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors.esql import CastFailed
from entrepot.esql.runtime.number_formats import compile_format, format_number, parse_number
from folding import for_each

FORMATTED = [
    (1234.5, "#,##0.00", "1,234.50"),
    (Decimal("1234567.891"), "#,##0.00", "1,234,567.89"),
    (0, "#,##0.00", "0.00"),
    (Decimal("0.5"), "#,##0.00", "0.50"),
    (12, "#,##0", "12"),
    (123456789, "#,##,##0", "12,34,56,789"),
    (5, "000", "005"),
    (-5, "000", "-005"),
    (12345, "000", "12345"),
    (5, "#", "5"),
    (0, "#", "0"),
    (Decimal("0.25"), "#.##", ".25"),
    (Decimal("0.25"), "0.##", "0.25"),
    (Decimal("2.50"), "0.##", "2.5"),
    (Decimal("2"), "0.##", "2"),
    (Decimal("2.005"), "0.00", "2.00"),
    (Decimal("2.015"), "0.00", "2.02"),
    (Decimal("2.5"), "0", "2"),
    (Decimal("3.5"), "0", "4"),
    (Decimal("-0.001"), "0.00", "0.00"),
    (Decimal("-1234.5"), "#,##0.00;(#,##0.00)", "(1,234.50)"),
    (Decimal("1234.5"), "#,##0.00;(#,##0.00)", "1,234.50"),
    (Decimal("1234.5"), "$#,##0.00", "$1,234.50"),
    (Decimal("-1234.5"), "$#,##0.00", "-$1,234.50"),
    (Decimal("1234.5"), "#,##0.00 EUR", "1,234.50 EUR"),
    (Decimal("1234.5"), "#,##0.00:groupsep=.:decsep=,", "1.234,50"),
    (Decimal("1234.5"), "#,##0.00:decsep=,:groupsep=.", "1.234,50"),
    (Decimal("1234.5"), "#,##0.00:groupsep=", "1234.50"),
    (Decimal("1234.5"), "0.0:decsep=','", "1234,5"),
    (5, "+0", "+5"),
    (-5, "+0", "-5"),
    (5, "-0", "5"),
    (-5, "-0", "-5"),
    (-5, "0-", "5-"),
    (5, "'#'0", "#5"),
    (5, "0''", "5'"),
    (5, "'a;b'0", "a;b5"),
    (12345, "0.###E0", "1.234E4"),
    (12345, "0.####E+00", "1.2345E+04"),
    (Decimal("0.00012"), "0.0E0", "1.2E-4"),
    (Decimal("9.996"), "0.00E0", "1.00E1"),
    (12345, "00.0E0", "12.3E3"),
    (12345, "##0.##E0", "12.3E3"),
    (0, "0.0E0", "0.0E0"),
    (42, "*x#,##0", "xxx42"),
    (42, "$*x#,##0", "$xxx42"),
    (123456, "*x#,##0", "123,456"),
    (44.72, "0.000", "44.720"),
    (2**63 - 1, "#,##0", "9,223,372,036,854,775,807"),
]


@for_each(("value", "pattern", "expected"), FORMATTED)
def test_a_number_by_a_pattern(value: Any, pattern: str, expected: str) -> None:
    assert format_number(value, pattern) == expected


PARSED = [
    ("1,234.50", "#,##0.00", "1234.50"),
    ("-1,234.50", "#,##0.00", "-1234.50"),
    ("(1,234.50)", "#,##0.00;(#,##0.00)", "-1234.50"),
    ("1.234,50", "#,##0.00:groupsep=.:decsep=,", "1234.50"),
    ("$5", "$0", "5"),
    ("-$5", "$0", "-5"),
    ("5-", "0-", "-5"),
    ("5", "0-", "5"),
    ("+5", "+0", "5"),
    ("-5", "+0", "-5"),
    ("xxx42", "*x#,##0", "42"),
    ("$xxx42", "$*x#,##0", "42"),
    ("1.5E3", "0.0E0", "1.5E+3"),
    ("005", "000", "5"),
    (" 42 ", "#0", "42"),
    (".5", "#.##", "0.5"),
]


@for_each(("text", "pattern", "expected"), PARSED)
def test_a_number_from_text_by_a_pattern(text: str, pattern: str, expected: str) -> None:
    assert parse_number(text, pattern, "DECIMAL") == Decimal(expected)


@for_each(
    ("text", "pattern"),
    [
        ("abc", "#0"),
        ("", "#0"),
        ("5", "$0"),
        ("1.5E3", "0.0"),
        ("1.234.5", "#,##0.0"),
        ("1.5", "0.0:decsep=,"),
        ("--5", "0"),
        ("9" * 1000, "0"),
        ("1_0", "0"),
    ],
)
def test_text_that_does_not_fit_fails(text: str, pattern: str) -> None:
    with pytest.raises(CastFailed):
        parse_number(text, pattern, "DECIMAL")


@for_each("pattern", ["", "abc", "'#0", "0#.0", "0.#0", "0;0;0", "0 0", "*", "0.0.0", "0.0:decsep=", "#" * 1000])
def test_a_pattern_that_makes_no_sense_fails(pattern: str) -> None:
    with pytest.raises(CastFailed, match="FORMAT"):
        compile_format(pattern)


@pytest.mark.parametrize("value", [Decimal("NaN"), float("inf"), Decimal("1E+9999")])
def test_what_is_no_finite_number_of_fair_length_fails(value: Any) -> None:
    with pytest.raises(CastFailed):
        format_number(value, "0.00")


@given(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**15), max_value=10**15, places=2),
    st.sampled_from(
        ["#,##0.00", "$#,##0.00;($#,##0.00)", "0.00:decsep=,", "#,##0.00:groupsep=.:decsep=,", "+0.00", "*x#,##0.00"]
    ),
)
@settings(max_examples=200)
def test_a_number_comes_back_from_its_text(value: Decimal, pattern: str) -> None:
    assert parse_number(format_number(value, pattern), pattern, "DECIMAL") == value


@given(st.integers(1, 10**18), st.integers(0, 6))
@settings(max_examples=100)
def test_an_exponent_keeps_the_number_to_its_digits(value: int, places: int) -> None:
    pattern = f"0.{'0' * places}E0" if places else "0E0"
    back = parse_number(format_number(value, pattern), pattern, "DECIMAL")
    assert abs(back - value) <= Decimal(value) * Decimal(10) ** -places
