# SPDX-License-Identifier: Apache-2.0
"""The functions on numbers: topics ak05300 to ak05400."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors.esql import EsqlRunError
from entrepot.esql.runtime import numbers
from folding import for_each

CALLS = [
    (numbers.absolute, (-3,), 3),
    (numbers.absolute, (Decimal("-3.70"),), Decimal("3.70")),
    (numbers.absolute, (-3.7,), 3.7),
    (numbers.absolute, (3.7,), 3.7),
    (numbers.absolute, (1024,), 1024),
    (numbers.sign, (27.75,), 1.0),
    (numbers.sign, (0.0,), 0.0),
    (numbers.sign, (-27.75,), -1.0),
    (numbers.sign, (-5,), -1),
    (numbers.sign, (Decimal("-0.5"),), Decimal("-1")),
    (numbers.ceiling, (1,), 1),
    (numbers.ceiling, (1.2,), 2.0),
    (numbers.ceiling, (-1.2,), -1.0),
    (numbers.ceiling, (Decimal("1.2"),), Decimal("2")),
    (numbers.floor, (1,), 1),
    (numbers.floor, (1.2,), 1.0),
    (numbers.floor, (-1.2,), -2.0),
    (numbers.floor, (Decimal("-1.2"),), Decimal("-2")),
    (numbers.round_, (27.75, 2), 27.75),
    (numbers.round_, (27.75, 1), 27.8),
    (numbers.round_, (27.75, 0), 28.0),
    (numbers.round_, (27.75, -1), 30.0),
    (numbers.round_, (Decimal("27.75"), 1), Decimal("27.8")),
    (numbers.round_, (Decimal("27.65"), 1), Decimal("27.6")),
    (numbers.round_, (Decimal("27.75"), 0), Decimal("28")),
    (numbers.round_, (Decimal("27.75"), -1), Decimal("30")),
    (numbers.round_, (Decimal("27.75"), 5), Decimal("27.75")),
    (numbers.round_, (Decimal("27.75"), -5), Decimal("0")),
    (numbers.round_, (25, -1), 20),
    (numbers.round_, (35, -1), 40),
    (numbers.round_, (35, 2), 35),
    (numbers.round_, (35, -30), 0),
    (numbers.truncate, (27.75, 2), 27.75),
    (numbers.truncate, (27.75, 1), 27.7),
    (numbers.truncate, (27.75, 0), 27.0),
    (numbers.truncate, (27.75, -1), 20.0),
    (numbers.truncate, (Decimal("-27.79"), 1), Decimal("-27.7")),
    (numbers.truncate, (-27, -1), -20),
    (numbers.mod, (7, 3), 1),
    (numbers.mod, (-7, 3), -1),
    (numbers.mod, (7, -3), 1),
    (numbers.mod, (6, 3), 0),
    (numbers.mod, (Decimal("7.5"), 2), Decimal("1.5")),
    (numbers.bit_and, (12, 7), 4),
    (numbers.bit_and, (12, 7, 4), 4),
    (numbers.bit_or, (12, 7), 15),
    (numbers.bit_or, (1, 2, 4, 8), 15),
    (numbers.bit_xor, (12, 7), 11),
    (numbers.bit_not, (7,), -8),
    (numbers.power, (2, 8), 256.0),
    (numbers.power, (4, 0.5), 2.0),
    (numbers.power, (2, -1), 0.5),
    (numbers.sqrt, (4,), 2.0),
    (numbers.sqrt, (Decimal("2.25"),), 1.5),
    (numbers.exp, (0,), 1.0),
    (numbers.exp, (2,), math.e**2),
    (numbers.ln, (1,), 0.0),
    (numbers.log10, (10,), 1.0),
    (numbers.log10, (1000,), 3.0),
    (numbers.degrees, (math.pi,), 180.0),
    (numbers.radians, (180,), math.pi),
    (numbers.sin, (math.pi / 2,), 1.0),
    (numbers.cos, (0,), 1.0),
    (numbers.tan, (0,), 0.0),
    (numbers.cot, (math.pi / 4,), 1.0),
    (numbers.asin, (1,), math.pi / 2),
    (numbers.acos, (1,), 0.0),
    (numbers.atan, (1,), math.pi / 4),
    (numbers.atan2, (1, -1), 3 * math.pi / 4),
    (numbers.sinh, (0,), 0.0),
    (numbers.cosh, (0,), 1.0),
    (numbers.tanh, (0,), 0.0),
]


@for_each(("function", "arguments", "expected"), CALLS)
def test_a_call(function: Any, arguments: tuple[Any, ...], expected: Any) -> None:
    result = function(*arguments)
    assert type(result) is type(expected)
    if isinstance(expected, float):
        assert result == pytest.approx(expected, rel=1e-12)
    else:
        assert str(result) == str(expected)


MODES = [
    "ROUND_UP",
    "ROUND_DOWN",
    "ROUND_CEILING",
    "ROUND_FLOOR",
    "ROUND_HALF_UP",
    "ROUND_HALF_DOWN",
    "ROUND_HALF_EVEN",
]
TABLE = {
    "5.5": (6, 5, 6, 5, 6, 5, 6),
    "2.5": (3, 2, 3, 2, 3, 2, 2),
    "1.6": (2, 1, 2, 1, 2, 2, 2),
    "1.1": (2, 1, 2, 1, 1, 1, 1),
    "1.0": (1, 1, 1, 1, 1, 1, 1),
    "-1.0": (-1, -1, -1, -1, -1, -1, -1),
    "-1.1": (-2, -1, -1, -2, -1, -1, -1),
    "-1.6": (-2, -1, -1, -2, -2, -2, -2),
    "-2.5": (-3, -2, -2, -3, -3, -2, -2),
    "-5.5": (-6, -5, -5, -6, -6, -5, -6),
}


@for_each("number", TABLE)
def test_the_rounding_modes_of_ak05380(number: str) -> None:
    for mode, expected in zip(MODES, TABLE[number], strict=True):
        assert numbers.round_(Decimal(number), 0, mode, form="MODE") == expected, mode
        assert numbers.round_(float(number), 0, mode.lower(), form="MODE") == float(expected), mode


@for_each(
    "function",
    [
        numbers.absolute,
        numbers.sign,
        numbers.ceiling,
        numbers.floor,
        numbers.bit_not,
        numbers.sqrt,
        numbers.sin,
        numbers.ln,
    ],
)
def test_null_gives_null(function: Any) -> None:
    assert function(None) is None


def test_null_among_several_arguments_gives_null() -> None:
    for function in (numbers.mod, numbers.power, numbers.bit_and, numbers.round_, numbers.truncate, numbers.atan2):
        assert function(None, 1) is None
        assert function(1, None) is None


@for_each(
    ("function", "arguments"),
    [
        (numbers.absolute, ("1",)),
        (numbers.absolute, (-(2**63),)),
        (numbers.absolute, (True,)),
        (numbers.mod, (1, 0)),
        (numbers.mod, (1.5, 1)),
        (numbers.mod, ("7", 3)),
        (numbers.sqrt, (-1,)),
        (numbers.ln, (0,)),
        (numbers.log10, (-1,)),
        (numbers.acos, (2,)),
        (numbers.cot, (0,)),
        (numbers.power, (0, -1)),
        (numbers.power, (-8, 0.5)),
        (numbers.exp, (1000,)),
        (numbers.sqrt, (Decimal("1E+999"),)),
        (numbers.round_, (1.5, "1")),
        (numbers.round_, ("1.5", 1)),
        (numbers.truncate, (1.5, 1.5)),
        (numbers.bit_and, (1, 1.5)),
        (numbers.bit_not, ("1",)),
    ],
)
def test_an_argument_without_a_value_is_an_error(function: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(EsqlRunError):
        function(*arguments)


@pytest.mark.parametrize(
    ("value", "places", "mode"),
    [(35, -30, "ROUND_UP"), (2**63 - 1, -1, "ROUND_UP"), (Decimal("1.5"), -50, "ROUND_CEILING")],
)
def test_rounding_up_out_of_range_is_an_error(value: Any, places: int, mode: str) -> None:
    with pytest.raises(EsqlRunError, match="too large"):
        numbers.round_(value, places, mode, form="MODE")


def test_there_is_no_other_mode() -> None:
    with pytest.raises(EsqlRunError, match="no mode"):
        numbers.round_(1.5, 0, "ROUND_SOMEHOW", form="MODE")


def test_absurd_places_do_no_harm() -> None:
    for places in (10**18, -(10**18)):
        assert numbers.truncate(Decimal("27.75"), places) in (Decimal("27.75"), Decimal(0))
        assert numbers.truncate(27, places) in (27, 0)
        assert numbers.truncate(27.75, places) in (27.75, 0.0)


def test_rand_begins_again_with_its_seed() -> None:
    run = SimpleNamespace(random=random.Random(1))
    first = [numbers.rand(run, 7), numbers.rand(run)]
    assert [numbers.rand(run, 7), numbers.rand(run)] == first
    assert all(0.0 <= number < 1.0 for number in first)
    assert first[0] != first[1]


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1).filter(bool))
@settings(max_examples=80)
def test_the_rest_has_the_sign_of_the_dividend_and_is_smaller_than_the_divisor(a: int, b: int) -> None:
    rest = numbers.mod(a, b)
    assert abs(rest) < abs(b)
    assert rest == 0 or (rest < 0) == (a < 0)
    assert (a - rest) % b == 0


@given(st.decimals(-(10**9), 10**9, places=5), st.integers(-3, 5))
@settings(max_examples=100)
def test_rounding_moves_a_number_by_half_a_unit_at_most(value: Decimal, places: int) -> None:
    unit = Decimal(10) ** -places
    rounded = numbers.round_(value, places)
    assert abs(rounded - value) <= unit / 2
    assert rounded % unit == 0
    cut = numbers.truncate(value, places)
    assert abs(cut) <= abs(value)
    assert abs(value - cut) < unit
