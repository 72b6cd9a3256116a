# SPDX-License-Identifier: Apache-2.0
"""Between the tree's values and what a field of the model holds.

A program may have put '5' or 5.00 where the model has an integer; that is taken
as long as it means the same. Everything else is refused with a ValueError that
says why: a number that would lose digits is not rounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from entrepot.models.cwf.numbers import Digits, Finish
from entrepot.models.dates.iso import Moment
from entrepot.models.dates.patterns import parse_date, parse_datetime, parse_time
from entrepot.models.logical import ValueType
from entrepot.models.value_text import xml_text

DIGITS_MAX = 100
"""More than any field holds; keeps 1E+999999 from being written out."""

_HEXADECIMAL = re.compile(r"(?:0x)?((?:[0-9a-fA-F]{2})*)")


def shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str | bytes) else str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def as_text(value: Any) -> str:
    """A value as a string field takes it."""
    if isinstance(value, str):
        return value
    if value is None:
        raise ValueError("it is NULL, and the model has no null value for it")
    try:
        return xml_text(value)
    except TypeError as error:
        raise ValueError(str(error)) from None


def as_decimal(value: Any) -> Decimal:
    """A value as an exact number."""
    if isinstance(value, Decimal):
        number = value
    elif isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(not_a(value, "a number"))
    elif isinstance(value, int):
        return Decimal(value)
    else:
        text = value.strip() if isinstance(value, str) else repr(value)
        try:
            number = Decimal(text)
        except InvalidOperation:
            raise ValueError(not_a(value, "a number")) from None
    if not number.is_finite():
        raise ValueError(not_a(value, "a number"))
    return number


def not_a(value: Any, wanted: str) -> str:
    if value is None:
        return "it is NULL, and the model has no null value for it"
    return f"{shown(value)} is not {wanted}"


def as_float(value: Any) -> float:
    if isinstance(value, str):
        value = as_decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(not_a(value, "a number"))
    try:
        return float(value)
    except OverflowError:
        raise ValueError("it is too large for a float") from None


def as_whole(value: Any) -> int:
    """A value as an integer, for counts and lengths."""
    if type(value) is int:
        return value
    number = as_decimal(value)
    if number.adjusted() > DIGITS_MAX or number != number.to_integral_value():
        raise ValueError(not_a(value, "a whole number"))
    return int(number)


def as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    raise ValueError(not_a(value, "a BLOB"))


def as_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false", "1", "0"):
        return value.strip().lower() in ("true", "1")
    raise ValueError(not_a(value, "a BOOLEAN"))


def as_moment(value: Any, wanted: ValueType) -> Moment:
    """A date, time or datetime that a pattern can write."""
    if isinstance(value, str):
        text = value.strip()
        if wanted is ValueType.DATE:
            return parse_date(text)
        return parse_time(text) if wanted is ValueType.TIME else parse_datetime(text)
    if wanted is ValueType.TIME and isinstance(value, time | datetime):
        return value
    if wanted is not ValueType.TIME and isinstance(value, date):
        return value
    raise ValueError(not_a(value, f"a {wanted.name}"))


def logical_value(text: str, wanted: ValueType) -> Any:
    """What a model means by a text: a default, a null value or one of an enumeration."""
    if wanted is ValueType.STRING:
        return text
    if wanted is ValueType.INTEGER:
        return as_whole(text)
    if wanted is ValueType.DECIMAL:
        return as_decimal(text)
    if wanted is ValueType.FLOAT:
        return as_float(text)
    if wanted is ValueType.BOOLEAN:
        return as_boolean(text)
    if wanted is ValueType.BINARY:
        found = _HEXADECIMAL.fullmatch(text)
        if found is None:
            raise ValueError(f"{shown(text)} is not hexadecimal")
        return bytes.fromhex(found[1])
    return as_moment(text, wanted)


# --- digits with a virtual decimal point ------------------------------------------------------------------------


def finisher(wanted: ValueType, decimals: int) -> Finish:
    """From sign and digits to a value of the wanted type."""
    zeros = "0" * -decimals
    suffix = f"E-{decimals}" if decimals > 0 else zeros

    def integer(negative: bool, digits: str) -> int:
        number = int(digits + zeros)
        return -number if negative else number

    def decimal(negative: bool, digits: str) -> Decimal:
        number = Decimal(digits + suffix)
        # Minus zero is a number like zero, so it is shown like it; copy_negate does not round as - would.
        return number.copy_negate() if negative and number else number

    def floating(negative: bool, digits: str) -> float:
        number = float(digits + suffix)
        return -number if negative else number

    if wanted is ValueType.INTEGER:
        return integer
    return decimal if wanted is ValueType.DECIMAL else floating


def digits_of(decimals: int) -> Digits:
    """From a value to its sign and its digits, with as many decimals as the model says."""
    places = max(decimals, 0)
    zeros = "0" * places

    def digits(value: Any) -> tuple[bool, str]:
        if value.__class__ is int and decimals >= 0:
            text = str(abs(value)) + zeros
            return value < 0, text.lstrip("0")
        number = as_decimal(value)
        if number.adjusted() > DIGITS_MAX:
            raise ValueError(f"{shown(value)} has too many digits")
        text = f"{number:.{places}f}"
        if Decimal(text) != number:
            raise ValueError(f"{shown(value)} has more than {places} decimals")
        text = text.replace(".", "").lstrip("-0")
        if decimals < 0 and text:
            if text[decimals:].strip("0") or len(text) <= -decimals:
                raise ValueError(f"{shown(value)} is not a multiple of {10**-decimals}")
            text = text[:decimals]
        return number < 0, text

    return digits


def scaler(wanted: ValueType, decimals: int) -> Callable[[int], Any]:
    """From the number that is stored in binary to the value it stands for."""
    if wanted is ValueType.INTEGER:
        power = 10 ** max(-decimals, 0)
        return lambda number: number * power
    suffix = f"E{-decimals}" if decimals > 0 else "0" * -decimals
    if wanted is ValueType.DECIMAL:
        return lambda number: Decimal(f"{number}{suffix}")
    return lambda number: float(f"{number}{suffix}")


def unscaler(decimals: int) -> Callable[[Any], int]:
    digits = digits_of(decimals)

    def unscaled(value: Any) -> int:
        negative, text = digits(value)
        number = int(text or "0")
        return -number if negative else number

    return unscaled
