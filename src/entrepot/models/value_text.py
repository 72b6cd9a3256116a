# SPDX-License-Identifier: Apache-2.0
"""How a value of the tree is written as text, when the format has nothing but text.

Numbers, dates and times look as ESQL's CAST to CHARACTER writes them, except
that a timestamp has XML's T between its date and its time: 44.72 as FLOAT is
4.472E+1, DECIMAL keeps its scale, BLOB is hexadecimal.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from entrepot.models.values import MONTHS_IN, SECONDS_IN, Bits, Interval

PLAIN_DIGITS_MAX = 1000
"""A DECIMAL whose plain form would be longer is written with an exponent."""

_MARKS = {"MONTH": "-", "HOUR": " ", "MINUTE": ":", "SECOND": ":"}


def float_text(value: float) -> str:
    """FLOAT in ESQL's form: one digit, the others behind a point, and the exponent with its sign."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "INF" if value > 0 else "-INF"
    if value == 0:
        return "0E+0"
    written = repr(value)
    if "e" in written:
        return f"{Decimal(written).normalize():E}"
    # The shortest digits that mean this number, as repr has them, with the point behind the first.
    sign = "-" if value < 0 else ""
    whole, _, fraction = written.lstrip("-").partition(".")
    if whole != "0":
        digits, exponent = (whole + fraction).rstrip("0"), len(whole) - 1
    else:
        digits = fraction.lstrip("0")
        exponent = len(digits) - len(fraction) - 1
        digits = digits.rstrip("0")
    point = "." if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{point}{digits[1:]}E{exponent:+d}"


def decimal_text(value: Decimal) -> str:
    """DECIMAL with all its digits and no exponent."""
    if not value.is_finite():
        return "NaN" if value.is_nan() else "INF" if value > 0 else "-INF"
    if abs(value.adjusted()) > PLAIN_DIGITS_MAX:
        return str(value)
    return format(value, "f")


def time_text(value: datetime.time) -> str:
    text = f"{value.hour:02}:{value.minute:02}:{value.second:02}"
    if value.microsecond:
        text += f".{value.microsecond:06}"
    return text if value.tzinfo is None else text + "Z"


def datetime_text(value: datetime.datetime, mark: str = "T") -> str:
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC)
    text = f"{value.year:04}-{value.month:02}-{value.day:02}{mark}{value.hour:02}:{value.minute:02}:{value.second:02}"
    if value.microsecond:
        text += f".{value.microsecond:06}"
    return text if value.tzinfo is None else text + "Z"


def interval_text(value: Interval) -> str:
    """What stands between the quotes of the INTERVAL literal: 1-06 for YEAR TO MONTH, 2 03:04 for DAY TO MINUTE."""
    first, _, last = value.qualifier.partition(" TO ")
    sizes = MONTHS_IN if first in MONTHS_IN else SECONDS_IN
    rest = Decimal(value.months) if sizes is MONTHS_IN else value.seconds
    text = "-" if rest < 0 else ""
    rest = abs(rest)
    names = list(sizes)
    fields = names[names.index(first) : names.index(last or first) + 1]
    for position, name in enumerate(fields):
        count, rest = divmod(rest, sizes[name])
        digits = format(count, "f")
        if name == "SECOND" and rest:
            digits = format((count + rest).normalize(), "f")
        if position:
            whole, point, fraction = digits.partition(".")
            digits = _MARKS[name] + whole.zfill(2) + point + fraction
        text += digits
    return text


TEXTS: dict[type, Callable[[Any], str]] = {
    str: str,
    int: str,
    bool: lambda value: "true" if value else "false",
    Decimal: decimal_text,
    float: float_text,
    bytes: lambda value: value.hex().upper(),
    datetime.datetime: datetime_text,
    datetime.date: datetime.date.isoformat,
    datetime.time: time_text,
    Bits: lambda value: value.digits,
    Interval: interval_text,
    type(None): lambda _: "",
}
"""The exact type of a value, and the function that writes it."""


def xml_text(value: Any) -> str:
    """The characters of a value in XML; nothing for NULL.

    Raises:
        TypeError: The value is of no type that a tree can hold.
    """
    if value.__class__ is str:
        return value
    write = TEXTS.get(value.__class__)
    if write is None:
        for ancestor in value.__class__.__mro__:
            if ancestor in TEXTS:
                return TEXTS[ancestor](value)
        raise TypeError(f"{type(value).__name__} is no type of a value")
    return write(value)
