# SPDX-License-Identifier: Apache-2.0
"""Text of TDS values: numbers, dates, booleans, binary and padding, each with its text by hand."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from entrepot.errors import MessageUnreadable, MessageUnwritable, ModelInvalid
from folding import for_each
from unit.models.tds_models import ALL, FIXED, agree, codec, read, simple, write

BOTH: list[tuple[str, dict[str, Any], str, Any]] = [
    ("string", {}, "a b", "a b"),
    ("integer", {}, "-12", -12),
    ("integer", {"format": "0000"}, "0042", 42),
    ("decimal", {}, "1.50", Decimal("1.50")),
    ("decimal", {}, "-0.001", Decimal("-0.001")),
    ("decimal", {"decimals": 2}, "12345", Decimal("123.45")),
    ("decimal", {"decimals": 2}, "-5", Decimal("-0.05")),
    ("decimal", {"format": "000.00"}, "012.50", Decimal("12.50")),
    ("decimal", {"format": "000.00"}, "-012.50", Decimal("-12.50")),
    ("decimal", {"format": "#,##0.00"}, "1,234,567.80", Decimal("1234567.80")),
    ("decimal", {"format": "0.##"}, "3.1", Decimal("3.1")),
    ("decimal", {"format": "0.##"}, "3", Decimal("3")),
    ("float", {}, "44.72", 44.72),
    ("float", {}, "1E+22", 1e22),
    ("boolean", {}, "1", True),
    ("boolean", {}, "0", False),
    ("binary", {}, "00FF1D", b"\x00\xff\x1d"),
    ("date", {}, "2004-02-29", date(2004, 2, 29)),
    ("date", {"format": "yyyyMMdd"}, "20040229", date(2004, 2, 29)),
    ("date", {"format": "yyyyDDD"}, "2004060", date(2004, 2, 29)),
    ("date", {"format": "MM/dd/yyyy"}, "02/29/2004", date(2004, 2, 29)),
    ("time", {"format": "HHmm"}, "2359", time(23, 59)),
    ("datetime", {"format": "yyyyMMddHHmmss"}, "20031116012345", datetime(2003, 11, 16, 1, 23, 45)),
]


@for_each(("kind", "said", "text", "value"), BOTH)
def test_text_and_value_are_each_other(kind: str, said: dict[str, Any], text: str, value: Any) -> None:
    agree(codec(simple("V", kind, **said), simple("Z"), separation=ALL, delimiter=";"), text + ";z",
          [("V", value), ("Z", "z")])  # fmt: skip


@for_each(
    ("kind", "said", "text", "value"),
    [
        ("string", {"length": 5}, "ab   ", "ab"),
        ("string", {"length": 5, "justify": "right"}, "   ab", "ab"),
        ("string", {"length": 5, "padding": "_"}, "ab___", "ab"),
        ("string", {"length": 3}, "   ", ""),
        ("integer", {"length": 5, "justify": "right", "padding": "0"}, "00042", 42),
        ("integer", {"length": 5, "justify": "right", "padding": "0"}, "-0042", -42),
        ("integer", {"length": 5, "justify": "right"}, "   42", 42),
        ("integer", {"length": 5}, "42   ", 42),
        ("integer", {"length": 4, "padding": "_"}, "42__", 42),
        ("integer", {"length": 4}, "    ", None),
        ("decimal", {"length": 6, "decimals": 2, "justify": "right", "padding": "0"}, "012345", Decimal("123.45")),
        ("date", {"length": 8, "format": "yyyyMMdd"}, "20040229", date(2004, 2, 29)),
        ("date", {"length": 8, "format": "yyyyMMdd"}, "        ", None),
        ("boolean", {"length": 3}, "1  ", True),
        ("string", {"length": 4, "null_policy": "literal", "null_value": "----"}, "----", None),
        ("integer", {"length": 4, "null_policy": "literal", "null_value": "9999"}, "9999", None),
    ],
)
def test_padding_is_put_on_and_taken_off(kind: str, said: dict[str, Any], text: str, value: Any) -> None:
    compiled = codec(simple("V", kind, **said), simple("Z", length=1), separation=FIXED)
    agree(compiled, text + "z", [("V", value), ("Z", "z")])


@pytest.mark.parametrize(("trim", "read_as"), [("none", " ab "), ("left", "ab "), ("right", " ab"), ("both", "ab")])
def test_format_says_which_padding_is_taken_off(trim: str, read_as: str) -> None:
    compiled = codec(simple("V", length=4), separation=FIXED, tds={"trim": trim})
    assert read(compiled, " ab ") == [("V", read_as)]


def test_booleans_are_what_the_format_says() -> None:
    compiled = codec(simple("V", "boolean"), separation=ALL, delimiter=";",
                     tds={"boolean_true": "yes", "boolean_false": "no"})  # fmt: skip
    agree(compiled, "yes", [("V", True)])
    agree(compiled, "no", [("V", False)])


@for_each(
    ("kind", "said", "text"),
    [
        ("integer", {}, "12x"),
        ("integer", {}, "1_000"),
        ("integer", {}, "١٢"),
        ("integer", {}, "--1"),
        ("integer", {}, "9" * 5000),
        ("decimal", {}, "1,5"),
        ("decimal", {}, "1e5"),
        ("decimal", {}, "NaN"),
        ("decimal", {"decimals": 2}, "1.5"),
        ("float", {}, "1E9999"),
        ("float", {}, "inf"),
        ("boolean", {}, "true"),
        ("binary", {}, "0G"),
        ("date", {"format": "yyyyMMdd"}, "20040230"),
        ("date", {"format": "yyyyMMdd"}, "2004"),
        ("time", {}, "25:00:00"),
    ],
)
def test_text_that_is_no_value_says_what_it_is_not(kind: str, said: dict[str, Any], text: str) -> None:
    compiled = codec(simple("A"), simple("V", kind, **said), separation=ALL, delimiter=";")
    with pytest.raises(MessageUnreadable) as caught:
        read(compiled, "a;" + text)
    assert caught.value.path == "M.V"
    assert caught.value.offset == 2


def test_strict_numbers_have_no_blanks_around_them() -> None:
    lenient = codec(simple("V", "integer"), separation=ALL, delimiter=";")
    assert read(lenient, " 7 ") == [("V", 7)]
    strict = codec(simple("V", "integer"), separation=ALL, delimiter=";", tds={"strict_numbers": True})
    with pytest.raises(MessageUnreadable, match="is no INTEGER"):
        read(strict, " 7 ")


@for_each(
    ("kind", "said", "value", "text"),
    [
        ("integer", {}, Decimal("7"), b"7"),
        ("integer", {}, "7", b"7"),
        ("decimal", {}, 7, b"7"),
        ("decimal", {"format": "0.00"}, Decimal("1.005"), b"1.00"),
        ("decimal", {"format": "0.00"}, Decimal("1.015"), b"1.02"),
        ("string", {}, 7, b"7"),
        ("string", {}, Decimal("1.50"), b"1.50"),
        ("date", {"format": "yyyyMMdd"}, "20040229", b"20040229"),
    ],
)
def test_values_of_other_types_are_written_when_they_fit(
    kind: str, said: dict[str, Any], value: Any, text: bytes
) -> None:
    assert write(codec(simple("V", kind, **said), separation=ALL, delimiter=";"), [("V", value)]) == text


@for_each(
    ("kind", "said", "value"),
    [
        ("integer", {}, Decimal("7.5")),
        ("integer", {}, "seven"),
        ("integer", {}, True),
        ("decimal", {"decimals": 2}, Decimal("1.005")),
        ("decimal", {}, Decimal("1E+99999")),
        ("float", {}, float("nan")),
        ("boolean", {}, "maybe"),
        ("binary", {}, "00"),
        ("date", {}, 20040229),
        ("date", {"format": "yyyyMMdd"}, "yesterday"),
        ("integer", {"null_policy": "none"}, None),
    ],
)
def test_values_that_do_not_fit_say_where_they_are(kind: str, said: dict[str, Any], value: Any) -> None:
    with pytest.raises(MessageUnwritable) as caught:
        write(codec(simple("V", kind, **said), separation=ALL, delimiter=";"), [("V", value)])
    assert caught.value.path == "M.V"


@pytest.mark.parametrize(
    ("kind", "pattern"), [("integer", "abc"), ("decimal", "0.0.0"), ("date", "qqqq"), ("date", "'x")]
)
def test_pattern_that_means_nothing_is_refused_with_the_model(kind: str, pattern: str) -> None:
    with pytest.raises(ModelInvalid, match=r"M\.V"):
        codec(simple("V", kind, format=pattern), separation=ALL, delimiter=";")
