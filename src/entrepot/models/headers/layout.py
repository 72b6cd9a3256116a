# SPDX-License-Identifier: Apache-2.0
"""Fixed structures as MQ lays them out: integers of four bytes, blank-padded text, bytes, dates.

A `Layout` is compiled once for each byte order. Text keeps its padding, as
programs see it in the tree; what follows a null byte counts as blanks. A date
or time that is none stays text, and bytes that are already there are never
guessed at: what does not fit is an error with its offset.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

from entrepot.errors import MessageUnreadable, MessageUnwritable
from entrepot.models.code_pages import decode, encode
from entrepot.models.encodings import struct_order

INTEGER, TEXT, BYTES, DATE, TIME = range(5)


class Field(NamedTuple):
    name: str
    kind: int
    size: int = 4
    default: Any = 0


def text_field(name: str, size: int) -> Field:
    return Field(name, TEXT, size, "")


class Layout:
    """One structure: its identifier, then its fields."""

    def __init__(self, domain: str, identifier: str, fields: tuple[Field, ...]) -> None:
        self.domain = domain
        self.identifier = identifier
        self.fields = fields
        codes = "4s" + "".join("i" if field.kind == INTEGER else f"{field.size}s" for field in fields)
        self._structs = {order: struct.Struct(order + codes) for order in "<>"}
        self._identifiers: dict[int, bytes] = {}
        """How the identifier is written in the code pages that were met; only known ones get here."""
        self.size = self._structs["<"].size
        self._offsets = [4 + sum(field.size for field in fields[:place]) for place in range(len(fields))]

    def read(self, data: bytes, offset: int, encoding: int, ccsid: int) -> dict[str, Any]:
        """The values of a structure by name, in the order of the bytes.

        Raises:
            MessageUnreadable: Too few bytes, another identifier, or text that the code page has not.
            CodePageUnknown
        """
        values = self.unpack(data, offset, encoding, ccsid)
        read: dict[str, Any] = {}
        for field, value, place in zip(self.fields, values[1:], self._offsets, strict=True):
            kind = field.kind
            if kind in (INTEGER, BYTES):
                read[field.name] = value
                continue
            text = self.text(value, ccsid, field.name, offset + place, field.size)
            read[field.name] = text if kind == TEXT else read_date(text) if kind == DATE else read_time(text)
        return read

    def unpack(self, data: bytes, offset: int, encoding: int, ccsid: int) -> tuple[Any, ...]:
        """Identifier and fields with their text still as bytes, when the bytes are such a structure at all."""
        if offset < 0 or len(data) - offset < self.size:
            found = max(0, len(data) - offset)
            raise MessageUnreadable(self.domain, self.domain, len(data), f"{found} bytes instead of {self.size}")
        values = self._structs[struct_order(encoding, self.domain, offset)].unpack_from(data, offset)
        identifier = self._identifiers.get(ccsid)
        if identifier is None:
            identifier = self._identifiers[ccsid] = encode(self.identifier, ccsid, "StrucId", domain=self.domain)
        if values[0] != identifier:
            problem = f"X'{values[0].hex()}' is not {self.identifier!r} in code page {ccsid}"
            raise MessageUnreadable(self.domain, "StrucId", offset, problem)
        return values

    def text(self, value: bytes, ccsid: int, name: str, offset: int, size: int) -> str:
        end = value.find(b"\0")
        if end < 0:
            return decode(value, ccsid, name, offset, domain=self.domain)
        # As many blanks as bytes are left; a character before them may have more than one.
        return decode(value[:end], ccsid, name, offset, domain=self.domain) + " " * (size - end)

    def write(self, values: Mapping[str, Any], encoding: int, ccsid: int) -> bytes:
        """The bytes of a structure; a field that is missing or NULL has its default.

        Raises:
            MessageUnwritable: A value that is of another type, or does not fit its field.
            CodePageUnknown
        """
        domain = self.domain
        # A blank is X'20' or X'40' and fills what text leaves free.
        blank = encode(" ", ccsid, domain=domain)
        if len(blank) != 1:
            raise MessageUnwritable(domain, domain, f"a header cannot be written in code page {ccsid}")
        packed: list[Any] = [encode(self.identifier, ccsid, "StrucId", domain=domain)]
        for field in self.fields:
            value = values.get(field.name)
            if value is None:
                value = field.default
            path = f"{domain}.{field.name}"
            if field.kind == INTEGER:
                packed.append(as_integer(value, domain, path))
                continue
            if field.kind == BYTES:
                raw = as_bytes(value or b"", domain, path).ljust(field.size, b"\0")
            else:
                text = as_text(value or "", domain, path)
                raw = encode(text, ccsid, path, domain=domain)
                if len(raw) > field.size:
                    raw = encode(text.rstrip(" "), ccsid, path, domain=domain)
                raw = raw.ljust(field.size, blank)
            if len(raw) != field.size:
                raise MessageUnwritable(domain, path, f"{len(raw)} bytes do not fit into {field.size}")
            packed.append(raw)
        try:
            order = struct_order(encoding, domain)
        except MessageUnreadable as error:
            raise MessageUnwritable(domain, "Encoding", error.problem) from None
        return self._structs[order].pack(*packed)


# --- values ------------------------------------------------------------------------------------


def read_date(text: str) -> date | str:
    """A date from YYYYMMDD; the text itself when it is none."""
    if len(text) == 8 and text.isascii() and text.isdecimal():
        try:
            return date(int(text[:4]), int(text[4:6]), int(text[6:]))
        except ValueError:
            pass
    return text


def read_time(text: str) -> time | str:
    """A time of day in UTC from HHMMSSTH, the last two being hundredths; the text itself when it is none."""
    if len(text) == 8 and text.isascii() and text.isdecimal():
        try:
            return time(int(text[:2]), int(text[2:4]), int(text[4:6]), int(text[6:]) * 10_000, UTC)
        except ValueError:
            pass
    return text


def as_integer(value: Any, domain: str, path: str) -> int:
    """What a program put into a field for a whole number of 32 bits."""
    number: int | None = None
    if type(value) is int:
        number = value
    elif isinstance(value, bool | int):
        number = int(value)
    elif isinstance(value, Decimal | float):
        try:
            # Compared first: the digits of 1E+999999 would fill the memory.
            number = int(value) if -(1 << 40) < value < 1 << 40 and value == int(value) else None
        except (ValueError, OverflowError, ArithmeticError):
            number = None
    elif isinstance(value, str) and len(value) <= 40 and "_" not in value:
        try:
            number = int(value)
        except ValueError:
            number = None
    if number is None:
        raise MessageUnwritable(domain, path, f"{_shown(value)} is no whole number")
    if not -0x8000_0000 <= number <= 0x7FFF_FFFF:
        raise MessageUnwritable(domain, path, "a number of more than 32 bits")
    return number


def as_text(value: Any, domain: str, path: str) -> str:
    """What a program put into a field for text, a date or a time."""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return value.strftime("%Y%m%d") if "Date" in path else _time_text(value.time())
    if isinstance(value, date):
        return f"{value.year:04}{value.month:02}{value.day:02}"
    if isinstance(value, time):
        return _time_text(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and -(1 << 64) < value < 1 << 64:
        return str(value)
    raise MessageUnwritable(domain, path, f"{_shown(value)} is no text")


def _time_text(value: time) -> str:
    return f"{value.hour:02}{value.minute:02}{value.second:02}{value.microsecond // 10_000:02}"


def as_bytes(value: Any, domain: str, path: str) -> bytes:
    """What a program put into a field for bytes; text is taken for hexadecimal digits, as CAST does."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return bytes.fromhex(value)
        except ValueError:
            pass
    raise MessageUnwritable(domain, path, f"{_shown(value)} is no BLOB")


def _shown(value: object) -> str:
    shown = type(value).__name__ if isinstance(value, int) else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
