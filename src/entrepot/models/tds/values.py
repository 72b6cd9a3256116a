# SPDX-License-Identifier: Apache-2.0
"""Text to typed values and back: numbers, dates, booleans, and the padding around them.

`value_text` compiles one element's rules into two functions, so that nothing
is looked up while a message is read. Both raise ValueError with a reason that
can stand behind the element's path.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any

from entrepot.models.dates.patterns import compile_pattern
from entrepot.models.logical import DATE_FORMATS, NUMBERS, Simple, TdsField, TdsFormat, ValueType
from entrepot.models.tds.mnemonics import spell
from entrepot.models.value_text import TEXTS

DIGITS_MAX = 1000
"""A number with more digits than this is refused: reading it would cost more than linear."""

Read = Callable[[str], Any]
Write = Callable[[Any], str]

_INTEGER = re.compile(rf"[+-]?[0-9]{{1,{DIGITS_MAX}}}")
_DECIMAL = re.compile(rf"[+-]?(?:[0-9]{{1,{DIGITS_MAX}}}(?:\.[0-9]{{0,{DIGITS_MAX}}})?|\.[0-9]{{1,{DIGITS_MAX}}})")
_FLOAT = re.compile(_DECIMAL.pattern + r"(?:[eE][+-]?[0-9]{1,4})?")
# Rounding needs as many digits as the number has; the usual 28 may be too few.
_WIDE = Context(prec=2 * DIGITS_MAX + 100)
_FORMAT = re.compile(r"([#,]*)([0,]*)(?:(\.)(0*)(#*))?")


@dataclass(frozen=True, slots=True)
class ValueText:
    read: Read
    """The value of the characters between delimiters, or of a fixed length."""
    write: Write
    """The characters of a value, not padded yet."""
    digits_only: bool
    """What is written has nothing but digits, signs, points and letters of numbers."""


def excerpt(text: str) -> str:
    """A short quotation for error messages."""
    return f"'{spell(text[:32])}'" + ("…" if len(text) > 32 else "")


def value_text(simple: Simple, field: TdsField, tds: TdsFormat, *, fixed: bool) -> ValueText:
    """How one element's text is read and written; `fixed` when its length is given, so that it has padding.

    Raises:
        ValueError: The model's pattern means nothing.
    """
    kind = simple.type
    if kind is ValueType.STRING:
        return ValueText(_string_reader(field, tds) if fixed else str, _write_string, False)
    if kind in NUMBERS:
        read, write = _number(kind, field, tds)
    elif kind is ValueType.BOOLEAN:
        read, write = _boolean(tds)
    elif kind is ValueType.BINARY:
        read, write = _read_binary, _write_binary
    else:
        read, write = _moment(kind, field.format or simple.format or DATE_FORMATS[kind])
    if kind not in NUMBERS or not tds.strict_numbers or fixed:
        read = _stripped(read, field, kind)
    return ValueText(read, write, kind in NUMBERS)


def _stripped(read: Read, field: TdsField, kind: ValueType) -> Read:
    padding = field.padding
    if padding in ("", " ") or (padding.isalnum() and kind is not ValueType.BOOLEAN):
        # A zero in front of a number belongs to it; one in front of a date may, too.
        return lambda text: read(text.strip(" "))
    characters = padding + " "
    return lambda text: read(text.strip(characters))


# --- strings ----------------------------------------------------------------------------------------


def _string_reader(field: TdsField, tds: TdsFormat) -> Read:
    padding = field.padding or " "
    side = tds.trim
    if side == "right" and field.justify == "right":
        # Padding is where the text is not justified to, whatever the format says of the others.
        side = "left"
    if side == "none":
        return str
    if side == "left":
        return lambda text: text.lstrip(padding)
    if side == "right":
        return lambda text: text.rstrip(padding)
    return lambda text: text.strip(padding)


def _write_string(value: Any) -> str:
    if value.__class__ is str:
        return value
    write = TEXTS.get(value.__class__)
    if write is None:
        raise ValueError(f"a {type(value).__name__} cannot be text")
    return write(value)


# --- numbers ----------------------------------------------------------------------------------------


def _number(kind: ValueType, field: TdsField, tds: TdsFormat) -> tuple[Read, Write]:
    point = tds.decimal_point or "."
    if kind is ValueType.INTEGER:
        read: Read = _read_integer
        write: Write = _write_integer
    else:
        read, write = _fractional(kind, field.decimals, point)
    if not field.format:
        return read, write
    return _formatted(read, field, point)


def _read_integer(text: str) -> int:
    if _INTEGER.fullmatch(text):
        return int(text)
    raise ValueError(f"{excerpt(text)} is no INTEGER")


def _write_integer(value: Any) -> str:
    if value.__class__ is int:
        return str(value)
    number = _exact(value)
    if number != number.to_integral_value():
        raise ValueError(f"{value} is no INTEGER")
    return format(number.to_integral_value(), "f")


def _exact(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError(f"{excerpt(str(value))} is no number")
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise ValueError(f"{excerpt(str(value))} is no number") from None
    if not number.is_finite() or abs(number.adjusted()) > DIGITS_MAX:
        raise ValueError(f"{excerpt(str(value))} cannot be written in digits")
    return number


def _fractional(kind: ValueType, decimals: int, point: str) -> tuple[Read, Write]:
    name = kind.name
    expression = _FLOAT if kind is ValueType.FLOAT else _DECIMAL
    make: Callable[[Any], Any] = float if kind is ValueType.FLOAT else Decimal

    def read(text: str) -> Any:
        plain = text if point == "." else text.replace(".", "\x00").replace(point, ".")
        if expression.fullmatch(plain):
            value = make(plain)
            if make is Decimal or math.isfinite(value):
                return value
        raise ValueError(f"{excerpt(text)} is no {name}" + (f" with {point!r} for its point" if point != "." else ""))

    def write(value: Any) -> str:
        if value.__class__ is float and make is float:
            if not math.isfinite(value):
                raise ValueError(f"{value} cannot be written in digits")
            text = repr(value).upper()
        else:
            text = format(_exact(value), "f")
        return text if point == "." else text.replace(".", point)

    if not decimals:
        return read, write

    def read_virtual(text: str) -> Any:
        if not _INTEGER.fullmatch(text):
            raise ValueError(f"{excerpt(text)} has something else than digits, but a virtual decimal point")
        return make(Decimal(int(text)).scaleb(-decimals))

    def write_virtual(value: Any) -> str:
        number = _exact(value).scaleb(decimals)
        if number != number.to_integral_value():
            raise ValueError(f"{value} has more than {decimals} decimals")
        return format(number.to_integral_value(), "f")

    return read_virtual, write_virtual


def _formatted(read: Read, field: TdsField, point: str) -> tuple[Read, Write]:
    """000.00 and #,##0.##: how many digits are written at least, and behind the point at most."""
    parts = _FORMAT.fullmatch(field.format)
    if parts is None or not (set(field.format) & {"0", "#"}):
        raise ValueError(f"{field.format!r} is no pattern of a number: it has 0, #, one point and commas only")
    optional, needed, dot, zeros, more = parts.groups()
    whole = needed.count("0")
    least, most = len(zeros or ""), len(zeros or "") + len(more or "")
    groups = "," in optional or "," in needed
    separator = "." if point == "," else ","
    virtual = field.decimals
    step = Decimal(1).scaleb(-most)

    def read_formatted(text: str) -> Any:
        return read(text.replace(separator, "") if groups else text)

    def write_formatted(value: Any) -> str:
        number = _exact(value)
        if virtual:
            number = number.scaleb(virtual)
        rounded = number.quantize(step, ROUND_HALF_EVEN, _WIDE)
        digits = format(abs(rounded), "f")
        front, _, behind = digits.partition(".")
        behind = behind[:least] + behind[least:].rstrip("0")
        front = (front.lstrip("0") if whole == 0 and behind else front).zfill(whole)
        if groups:
            front = f"{int(front):,}".replace(",", separator) if len(front.lstrip("0")) == len(front) else front
        sign = "-" if rounded < 0 else ""
        return sign + front + (point if dot and behind else "") + behind

    return read_formatted, write_formatted


# --- the others -------------------------------------------------------------------------------------


def _boolean(tds: TdsFormat) -> tuple[Read, Write]:
    yes, no = tds.boolean_true, tds.boolean_false

    def read(text: str) -> bool:
        if text == yes:
            return True
        if text == no:
            return False
        raise ValueError(f"{excerpt(text)} is no BOOLEAN: neither {excerpt(yes)} nor {excerpt(no)}")

    def write(value: Any) -> str:
        if isinstance(value, bool) or value in (0, 1):
            return yes if value else no
        if isinstance(value, str) and value in (yes, no):
            return value
        raise ValueError(f"{excerpt(str(value))} is no BOOLEAN")

    return read, write


def _read_binary(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"{excerpt(text)} is not hexadecimal") from None


def _write_binary(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex().upper()
    raise ValueError(f"a {type(value).__name__} is no BLOB")


def _moment(kind: ValueType, pattern: str) -> tuple[Read, Write]:
    compiled = compile_pattern(pattern)
    parse: Read
    types: type | tuple[type, ...]
    if kind is ValueType.DATE:
        parse, types = compiled.parse_date, date
    elif kind is ValueType.TIME:
        parse, types = compiled.parse_time, (time, datetime)
    else:
        parse, types = compiled.parse_datetime, date
    render = compiled.render
    name = kind.name

    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise ValueError(f"{excerpt(text)} is no {name} by the pattern {pattern}: {error}") from None

    def write(value: Any) -> str:
        if isinstance(value, str):
            # A program may have set the text itself; it is written only if it can be read again.
            read(value)
            return value
        if not isinstance(value, types):
            raise ValueError(f"{excerpt(str(value))} is no {name}")
        return render(value)

    return read, write
