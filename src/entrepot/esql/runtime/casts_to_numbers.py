# SPDX-License-Identifier: Apache-2.0
"""CAST to INTEGER, DECIMAL, FLOAT and BOOLEAN.

Text is read as the literal of the type, blanks around it do not count. A
FLOAT or DECIMAL that becomes an INTEGER loses its fraction; a FLOAT that
becomes a DECIMAL keeps fifteen digits; DECIMAL(p, s) rounds half to even and
refuses what has too many digits before the point. Topic ak05680 has the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation, Overflow
from typing import Any

from entrepot.errors.esql import CastFailed, EsqlRunError
from entrepot.esql.runtime.intervals import interval_number
from entrepot.esql.runtime.operators import DECIMAL_DIGITS, DECIMALS
from entrepot.esql.runtime.type_names import INTEGER_MAX, INTEGER_MIN, type_name_of
from entrepot.models.values import Bits, Interval

Casts = dict[type, Callable[[Any], Any]]
"""For each type of a source, what makes the target of it."""

_INTEGER = re.compile(r"\s*[+-]?\d{1,40}\s*", re.ASCII)
_HEXADECIMAL = re.compile(r"\s*0x([0-9a-f]{1,16})\s*", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,10})?)\s*", re.ASCII)
_SPECIAL = re.compile(r"\s*([+-]?)(INF|INFINITY|NAN)\s*", re.ASCII | re.IGNORECASE)
_BOOLEANS = {"TRUE": True, "FALSE": False, "UNKNOWN": None}


def cast_failed(value: Any, target: str, sqlstate: str = "S22018") -> CastFailed:
    """The error for a value that cannot become `target`."""
    shown = repr(value if not isinstance(value, str) else value[:100])[:120]
    name = type_name_of(value)
    return CastFailed(f"{name} {shown} cannot become {target}", sqlstate=sqlstate, number=2595, inserts=(shown, target))


# --- INTEGER -----------------------------------------------------------------------------------------


def _integer_from_text(text: str) -> int:
    if _INTEGER.fullmatch(text):
        return _in_range(int(text), text)
    found = _HEXADECIMAL.fullmatch(text)
    if found is None:
        raise cast_failed(text, "INTEGER")
    # Sixteen hexadecimal digits are the 64 bits themselves, sign included.
    number = int(found[1], 16)
    return number - 2**64 if number > INTEGER_MAX else number


def _in_range(number: int, source: Any) -> int:
    if INTEGER_MIN <= number <= INTEGER_MAX:
        return number
    raise cast_failed(source, "INTEGER", "S22003")


def integer_from_decimal(value: Decimal) -> int:
    """The number without its fraction."""
    if not value.is_finite() or value.adjusted() > 20:
        raise cast_failed(value, "INTEGER", "S22003")
    return _in_range(int(value), value)


def _integer_from_float(value: float) -> int:
    if not -1e19 < value < 1e19:
        raise cast_failed(value, "INTEGER", "S22003")
    return _in_range(int(value), value)


def _integer_from_bytes(value: bytes) -> int:
    # Fewer bytes than eight are the last ones of the number, and never its sign.
    if not 1 <= len(value) <= 8:
        raise CastFailed(f"an INTEGER has 1 to 8 bytes, not {len(value)}", sqlstate="S22018", number=2595)
    return int.from_bytes(value, "big", signed=len(value) == 8)


def _integer_from_bits(value: Bits) -> int:
    count = len(value.digits)
    if not 1 <= count <= 64:
        raise CastFailed(f"an INTEGER has 1 to 64 bits, not {count}", sqlstate="S22018", number=2595)
    number = int(value.digits, 2)
    return number - 2**64 if number > INTEGER_MAX else number


TO_INTEGER: Casts = {
    int: lambda value: value,
    str: _integer_from_text,
    Decimal: integer_from_decimal,
    float: _integer_from_float,
    bytes: _integer_from_bytes,
    Bits: _integer_from_bits,
    Interval: lambda value: integer_from_decimal(interval_number(value, "INTEGER")),
}


# --- DECIMAL and FLOAT ---------------------------------------------------------------------------------


def _special(text: str, target: str) -> str:
    found = _SPECIAL.fullmatch(text)
    if found is None:
        raise cast_failed(text, target)
    return "NaN" if found[2].upper() == "NAN" else found[1] + "Infinity"


def _decimal_from_text(text: str) -> Decimal:
    found = _NUMBER.fullmatch(text)
    try:
        return DECIMALS.create_decimal(_special(text, "DECIMAL") if found is None else found[1])
    except (InvalidOperation, Overflow) as failure:
        raise cast_failed(text, "DECIMAL", "S22003") from failure


def decimal_from_float(value: float) -> Decimal:
    """The nearest DECIMAL of fifteen digits."""
    return Decimal(f"{value:.15g}")


TO_DECIMAL: Casts = {
    Decimal: lambda value: value,
    str: _decimal_from_text,
    int: Decimal,
    float: decimal_from_float,
    Interval: lambda value: interval_number(value, "DECIMAL"),
}


def decimal_fitter(precision: int | None, scale: int | None) -> Callable[[Decimal], Decimal]:
    """What makes any DECIMAL a DECIMAL(precision, scale); a missing scale is 0, as in SQL.

    Raises:
        EsqlRunError: There is no such DECIMAL.
    """
    if precision is None:
        return lambda value: value
    places = 0 if scale is None else scale
    if not 1 <= precision <= DECIMAL_DIGITS or not 0 <= places <= precision:
        raise EsqlRunError(f"there is no DECIMAL({precision}, {places})", number=2420)
    target = f"DECIMAL({precision}, {places})"
    unit = Decimal(1).scaleb(-places)

    def fit(value: Decimal) -> Decimal:
        try:
            fitted = DECIMALS.quantize(value, unit)
        except InvalidOperation as failure:
            raise cast_failed(value, target, "S22003") from failure
        if fitted and fitted.adjusted() + 1 > precision - places:
            raise cast_failed(value, target, "S22003")
        return fitted

    return fit


def _float_from_text(text: str) -> float:
    found = _NUMBER.fullmatch(text)
    if found is None:
        return float(_special(text, "FLOAT"))
    number = float(found[1])
    if number in (float("inf"), float("-inf")):
        raise cast_failed(text, "FLOAT", "S22003")
    return number


def _float_from_decimal(value: Decimal) -> float:
    number = float(value)
    if number in (float("inf"), float("-inf")) and value.is_finite():
        raise cast_failed(value, "FLOAT", "S22003")
    return number


TO_FLOAT: Casts = {
    float: lambda value: value,
    str: _float_from_text,
    int: float,
    Decimal: _float_from_decimal,
    Interval: lambda value: float(interval_number(value, "FLOAT")),
}


# --- BOOLEAN -------------------------------------------------------------------------------------------


def _boolean_from_text(text: str) -> bool | None:
    try:
        return _BOOLEANS[text.strip(" ").upper()]
    except KeyError:
        raise cast_failed(text, "BOOLEAN") from None


TO_BOOLEAN: Casts = {bool: lambda value: value, str: _boolean_from_text}
