# SPDX-License-Identifier: Apache-2.0
"""Values of MRM XML: what a model's type reads from text, and how it writes a value.

Text is read as XML Schema has it: numbers without blanks inside, true, false,
1 and 0, hexadecimal, dates by a pattern or in ISO 8601. Writing takes values
of other types too, as long as they mean the same: '12' for an INTEGER.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from entrepot.models.dates.patterns import compile_pattern
from entrepot.models.logical import ValueType
from entrepot.models.value_text import datetime_text, decimal_text, float_text, time_text, xml_text

_BLANKS = " \t\r\n"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_is_decimal = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)").fullmatch
_is_float = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch
_SPECIAL_FLOATS = {"INF": float("inf"), "+INF": float("inf"), "-INF": float("-inf"), "NaN": float("nan")}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_DIGITS_MAX = 4000
"""Python refuses to read integers much longer than this, for good reason."""

Read = Callable[[str], Any]
Write = Callable[[Any], str]

PYTHON_TYPES: dict[ValueType, type] = {
    ValueType.STRING: str,
    ValueType.INTEGER: int,
    ValueType.DECIMAL: Decimal,
    ValueType.FLOAT: float,
    ValueType.BOOLEAN: bool,
    ValueType.BINARY: bytes,
    ValueType.DATE: date,
    ValueType.TIME: time,
    ValueType.DATETIME: datetime,
}


def reader(value_type: ValueType, pattern: str) -> Read:
    """What turns text into a value; it raises ValueError with a reason.

    Raises:
        ValueError: The pattern of dates is none.
    """
    if value_type in _DATES:
        compiled = compile_pattern(pattern or _ISO[value_type])
        read: Callable[[str], Any] = getattr(compiled, _DATES[value_type])
        return lambda text: read(text.strip(_BLANKS))
    return _READERS[value_type]


def writer(value_type: ValueType, pattern: str) -> Write:
    """What turns a value into text that is not yet escaped; it raises ValueError with a reason.

    Raises:
        ValueError: The pattern of dates is none.
    """
    expected = PYTHON_TYPES[value_type]
    plain = _writer(value_type, pattern)
    read = reader(value_type, pattern)

    def write(value: Any) -> str:
        if value.__class__ is expected:
            return plain(value)
        return plain(_coerced(value, value_type, read))

    return write


_DATES = {ValueType.DATE: "parse_date", ValueType.TIME: "parse_time", ValueType.DATETIME: "parse_datetime"}
_ISO = {ValueType.DATE: "I", ValueType.TIME: "T", ValueType.DATETIME: "I"}


def _integer(text: str) -> int:
    if text.isdigit() and text.isascii() and len(text) <= _DIGITS_MAX:
        return int(text)
    text = text.strip(_BLANKS)
    if _INTEGER.fullmatch(text) is None or len(text) > _DIGITS_MAX:
        raise ValueError("it is no whole number")
    return int(text)


def _decimal(text: str) -> Decimal:
    if _is_decimal(text) is None:
        text = text.strip(_BLANKS)
        if _is_decimal(text) is None:
            raise ValueError("it is no decimal number")
    return Decimal(text)


def _float(text: str) -> float:
    if _is_float(text) is None:
        text = text.strip(_BLANKS)
        if text in _SPECIAL_FLOATS:
            return _SPECIAL_FLOATS[text]
        if _is_float(text) is None:
            raise ValueError("it is no number")
    return float(text)


def _boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.strip(_BLANKS)]
    except KeyError:
        raise ValueError("it is none of true, false, 1 and 0") from None


def _binary(text: str) -> bytes:
    text = text.strip(_BLANKS)
    # bytes.fromhex would allow blanks in between.
    if re.fullmatch("(?:[0-9A-Fa-f]{2})*", text) is None:
        raise ValueError("it is not hexadecimal")
    return bytes.fromhex(text)


_READERS: dict[ValueType, Read] = {
    ValueType.STRING: str,
    ValueType.INTEGER: _integer,
    ValueType.DECIMAL: _decimal,
    ValueType.FLOAT: _float,
    ValueType.BOOLEAN: _boolean,
    ValueType.BINARY: _binary,
}


def _decimal_text(value: Decimal) -> str:
    text = str(value)
    # Most need no more than that; exponents, infinities and NaN have letters.
    return decimal_text(value) if "E" in text or "N" in text or "I" in text else text


_WRITERS: dict[ValueType, Write] = {
    ValueType.STRING: str,
    ValueType.INTEGER: str,
    ValueType.DECIMAL: _decimal_text,
    ValueType.FLOAT: float_text,
    ValueType.DATE: date.isoformat,
    ValueType.TIME: time_text,
    ValueType.DATETIME: datetime_text,
    ValueType.BOOLEAN: lambda value: "true" if value else "false",
    ValueType.BINARY: lambda value: value.hex().upper(),
}


def _writer(value_type: ValueType, pattern: str) -> Write:
    if value_type in _DATES and pattern:
        return compile_pattern(pattern).render
    return _WRITERS[value_type]


def _coerced(value: Any, value_type: ValueType, read: Read) -> Any:
    """The same value in the type that the model has for it."""
    if value_type is ValueType.STRING:
        return xml_text(value)
    if value.__class__ is str:
        return read(value)
    try:
        return _COERCIONS[value_type](value)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidOperation, OverflowError):
        raise ValueError(f"{xml_text(value)[:60]!r} is no {value_type.value}") from None


def _to_integer(value: Any) -> int:
    if isinstance(value, bool | bytes) or value != int(value):
        raise ValueError
    return int(value)


def _to_decimal(value: Any) -> Decimal:
    if isinstance(value, bool):
        raise ValueError
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _to_float(value: Any) -> float:
    if isinstance(value, bool | bytes):
        raise ValueError
    return float(value)


def _to_boolean(value: Any) -> bool:
    if value.__class__ is int and value in (0, 1):
        return bool(value)
    raise ValueError


_COERCIONS: dict[ValueType, Callable[[Any], Any]] = {
    ValueType.INTEGER: _to_integer,
    ValueType.DECIMAL: _to_decimal,
    ValueType.FLOAT: _to_float,
    ValueType.BOOLEAN: _to_boolean,
    ValueType.DATE: lambda value: value.date(),
    ValueType.TIME: lambda value: value.timetz(),
    ValueType.DATETIME: lambda value: datetime(value.year, value.month, value.day),
}
