# SPDX-License-Identifier: Apache-2.0
"""CAST to the string types: CHARACTER, BLOB and BIT.

Without a code page a value becomes its own literal: X'01ff', B'0101',
DATE '2003-12-24'. With a code page, bytes are the characters they stand for.
Topic ak05680 has the table.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from entrepot.errors.esql import CastFailed
from entrepot.errors.flows import ModelError
from entrepot.esql.runtime.casts_to_numbers import Casts, cast_failed
from entrepot.esql.runtime.dates import datetime_literal
from entrepot.esql.runtime.intervals import interval_literal
from entrepot.esql.runtime.large import LARGE, require_room
from entrepot.models.code_pages import decode, encode
from entrepot.models.value_text import decimal_text, float_text
from entrepot.models.values import Bits, Interval

CCSID_DEFAULT = 1208
ENCODING_DEFAULT = 546

_HEX = re.compile(r"\s*(?:X\s*'([0-9A-F]*)'|([0-9A-F]*))\s*", re.ASCII | re.IGNORECASE)
_BITS = re.compile(r"\s*(?:B\s*'([01]*)'|([01]*))\s*", re.ASCII | re.IGNORECASE)


def float_as_character(value: float) -> str:
    """4.472E+1; FLOAT has at most fifteen digits that can be trusted, and so has its text."""
    return float_text(float(f"{value:.15g}"))


def _hexadecimal(data: bytes) -> str:
    require_room("CAST", 2 * len(data) + 3)
    return f"X'{data.hex()}'"


TO_CHARACTER: Casts = {
    str: str,
    int: str,
    Decimal: decimal_text,
    float: float_as_character,
    bool: lambda value: "TRUE" if value else "FALSE",
    bytes: _hexadecimal,
    Bits: lambda value: f"B'{value.digits}'",
    date: datetime_literal,
    time: datetime_literal,
    datetime: datetime_literal,
    Interval: interval_literal,
}


def character_of_bytes(data: bytes, ccsid: int | None, encoding: int | None) -> str:
    """The text of some bytes in a code page.

    Raises:
        CastFailed: There is no such code page, or the bytes are none of its characters.
    """
    try:
        return decode(
            data,
            CCSID_DEFAULT if ccsid is None else ccsid,
            encoding=ENCODING_DEFAULT if encoding is None else encoding,
        )
    except ModelError as failure:
        raise CastFailed(f"a BLOB cannot become CHARACTER: {failure.what}", sqlstate="S22018", number=2595) from failure


def bytes_of_character(text: str, ccsid: int | None, encoding: int | None) -> bytes:
    """The bytes of a text in a code page; raises CastFailed as `character_of_bytes` does."""
    try:
        data = encode(
            text,
            CCSID_DEFAULT if ccsid is None else ccsid,
            encoding=ENCODING_DEFAULT if encoding is None else encoding,
        )
    except ModelError as failure:
        raise CastFailed(f"CHARACTER cannot become a BLOB: {failure.what}", sqlstate="S22018", number=2595) from failure
    if len(data) > LARGE:
        require_room("CAST", len(data))
    return data


def _blob_from_text(text: str) -> bytes:
    found = _HEX.fullmatch(text)
    digits = "" if found is None else found[1] or found[2] or ""
    if found is None or len(digits) % 2:
        raise cast_failed(text, "BLOB")
    return bytes.fromhex(digits)


def bytes_of_bits(bits: Bits) -> bytes:
    """The bytes of as many bits as fill them."""
    digits = bits.digits
    if len(digits) % 8:
        raise CastFailed(f"{len(digits)} bits fill no bytes", sqlstate="S22018", number=2595)
    return int(digits, 2).to_bytes(len(digits) // 8, "big") if digits else b""


def bits_of_bytes(data: bytes) -> Bits:
    require_room("CAST", 8 * len(data))
    return Bits(f"{int.from_bytes(data, 'big'):0{len(data) * 8}b}" if data else "")


def _bits_from_text(text: str) -> Bits:
    found = _BITS.fullmatch(text)
    if found is None:
        raise cast_failed(text, "BIT")
    return Bits(found[1] or found[2] or "")


def integer_bytes(value: int) -> bytes:
    """An INTEGER as its eight bytes, the first one first."""
    return value.to_bytes(8, "big", signed=True)


TO_BLOB: Casts = {str: _blob_from_text, bytes: bytes, Bits: bytes_of_bits, int: integer_bytes}

TO_BIT: Casts = {
    str: _bits_from_text,
    bytes: bits_of_bytes,
    Bits: lambda value: value,
    int: lambda value: bits_of_bytes(integer_bytes(value)),
}


def as_text(value: Any, ccsid: int | None, encoding: int | None) -> str:
    """The characters of any of the string types, for a cast by FORMAT."""
    if isinstance(value, Bits):
        value = bytes_of_bits(value)
    if isinstance(value, bytes):
        return character_of_bytes(value, ccsid, encoding)
    return str(value)


def from_text(text: str, target: str, ccsid: int | None, encoding: int | None) -> Any:
    """Formatted text as the string type that was asked for."""
    if target == "CHARACTER":
        return text
    data = bytes_of_character(text, ccsid, encoding)
    return data if target == "BLOB" else bits_of_bytes(data)
