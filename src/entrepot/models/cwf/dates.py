# SPDX-License-Identifier: Apache-2.0
"""Dates and times in fields: as text, as packed or zoned digits, or counted from 1970 in binary."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from entrepot.models.cwf.byte_orders import Endian
from entrepot.models.cwf.logical_values import as_moment
from entrepot.models.cwf.numbers import Read, Write, packed_digits
from entrepot.models.dates.iso import Moment
from entrepot.models.dates.patterns import DatePattern, compile_pattern
from entrepot.models.logical import DATE_FORMATS, ValueType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def date_pattern(wanted: ValueType, *formats: str) -> DatePattern:
    """The pattern of a field: the first that says something.

    Raises:
        ValueError: The pattern means nothing.
    """
    return compile_pattern(next((pattern for pattern in formats if pattern), DATE_FORMATS[wanted]))


def parser_of(pattern: DatePattern, wanted: ValueType) -> Callable[[str], Moment]:
    if wanted is ValueType.DATE:
        return pattern.parse_date
    return pattern.parse_time if wanted is ValueType.TIME else pattern.parse_datetime


def date_text_reader(read_text: Read, pattern: DatePattern, wanted: ValueType) -> Read:
    parse = parser_of(pattern, wanted)
    return lambda raw: parse(read_text(raw))


def date_text_writer(write_text: Write, pattern: DatePattern, wanted: ValueType) -> Write:
    render = pattern.render
    plain = date if wanted is ValueType.DATE else None
    return lambda value: write_text(render(value if value.__class__ is plain else as_moment(value, wanted)))


def packed_date_reader(endian: Endian, pattern: DatePattern, wanted: ValueType) -> Read:
    parse = parser_of(pattern, wanted)
    width = pattern.width

    def read(raw: bytes) -> Moment:
        digits = packed_digits(raw, endian)
        # Packed digits come in odd numbers, so an even pattern has a zero in front.
        if digits[:-width].strip("0"):
            raise ValueError(f"{digits} has more digits than {pattern.pattern}")
        return parse(digits[-width:])

    return read


def packed_date_writer(length: int, endian: Endian, pattern: DatePattern, wanted: ValueType) -> Write:
    def write(value: Any) -> bytes:
        digits = pattern.render(as_moment(value, wanted))
        raw = bytes.fromhex(digits.zfill(2 * length - 1) + "c")
        return raw[::-1] if endian == "little" else raw

    return write


def check_packed(pattern: DatePattern, length: int) -> None:
    """
    Raises:
        ValueError: The pattern writes more than digits, or more than there is room for.
    """
    if not pattern.numeric or not pattern.width:
        raise ValueError(f"{pattern.pattern} cannot be packed: it is not a fixed number of digits")
    if pattern.width > 2 * length - 1:
        raise ValueError(f"{pattern.pattern} has {pattern.width} digits, and {length} bytes have room for fewer")


def counted_reader(endian: Endian, length: int) -> Read:
    """Seconds since 1970 in 4 bytes, milliseconds in 8."""
    unit = timedelta(seconds=1) if length == 4 else timedelta(milliseconds=1)

    def read(raw: bytes) -> datetime:
        try:
            return _EPOCH + int.from_bytes(raw, endian, signed=True) * unit
        except OverflowError:
            raise ValueError(f"X'{raw.hex().upper()}' is beyond the years 1 to 9999") from None

    return read


def counted_writer(endian: Endian, length: int) -> Write:
    unit = timedelta(seconds=1) if length == 4 else timedelta(milliseconds=1)

    def write(value: Any) -> bytes:
        moment = as_moment(value, ValueType.DATETIME)
        if not isinstance(moment, datetime):
            raise ValueError(f"{moment} has no time")
        count = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // unit
        try:
            return count.to_bytes(length, endian, signed=True)
        except OverflowError:
            raise ValueError(f"{moment} is too far from 1970 for {length} bytes") from None

    return write
