# SPDX-License-Identifier: Apache-2.0
"""Text in the message's code page: padded, trimmed, and cut where the model says.

Padding is taken off the bytes before they are decoded wherever one byte is one
character (and in UTF-8, whose ASCII bytes are no part of others); elsewhere it
is taken off the text.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Any

from entrepot.models.code_pages import codec_of
from entrepot.models.cwf.logical_values import as_text, shown
from entrepot.models.cwf.numbers import Read, Write

_VARYING = frozenset(("utf-8", "cp932", "euc_jp", "cp949", "euc_kr", "cp950", "gb2312", "gbk", "gb18030"))
_HEX = re.compile(r"0x((?:[0-9a-fA-F]{2})+)")


@dataclass(frozen=True, slots=True)
class CodePage:
    """A code page, and what fields need to know of it."""

    ccsid: int
    codec: str
    unit: int
    """Bytes of a character; 0 where that differs from character to character."""
    ebcdic: bool
    ascii: bool
    """Digits and signs are ASCII's. Neither this nor EBCDIC: UTF-16 and the like."""

    def encode(self, text: str) -> bytes:
        """
        Raises:
            ValueError: The page lacks a character.
        """
        try:
            return text.encode(self.codec)
        except UnicodeEncodeError as error:
            raise ValueError(
                f"code page {self.ccsid} has no {text[error.start]!r} (character {error.start + 1})"
            ) from None

    def decode(self, raw: bytes) -> str:
        """Raises UnicodeDecodeError, whose place becomes the offset of what is reported."""
        return raw.decode(self.codec)


def code_page(ccsid: int, encoding: int) -> CodePage:
    """
    Raises:
        CodePageUnknown
    """
    codec = codec_of(ccsid, encoding)
    # A byte order mark in front of every field would be absurd, so these two are read as big-endian.
    codec = {"utf-16": "utf-16-be", "utf-32": "utf-32-be"}.get(codec, codec)
    unit = 2 if codec.startswith("utf-16") else 4 if codec.startswith("utf-32") else 0 if codec in _VARYING else 1
    zero = "0".encode(codec)
    return CodePage(ccsid, codec, unit, zero == b"\xf0", zero == b"0")


def pad_bytes(padding: str, page: CodePage) -> bytes:
    """One padding character in the code page; 0x40 is that byte itself, and nothing is a space.

    Raises:
        ValueError: It is more than a character.
    """
    found = _HEX.fullmatch(padding)
    if found is not None:
        return bytes.fromhex(found[1])
    if len(padding) > 1:
        raise ValueError(f"padding {padding!r} is more than one character")
    return page.encode(padding or " ")


def literal_bytes(text: str, page: CodePage) -> bytes:
    """A text in the code page; 0xC1C2 is those bytes themselves."""
    found = _HEX.fullmatch(text)
    return page.encode(text) if found is None else bytes.fromhex(found[1])


def fill(pad: bytes, length: int) -> bytes:
    """So many bytes of padding; NUL behind the last whole character."""
    return (pad * (length // len(pad))).ljust(length, b"\0")


def text_reader(page: CodePage, pad: bytes, justify: str) -> Read:
    codec = page.codec
    if justify == "none":
        return page.decode
    left = justify == "left"
    if len(pad) == 1 and (page.unit == 1 or codec == "utf-8"):
        if left:
            return lambda raw: raw.rstrip(pad).decode(codec)

        def read_right(raw: bytes) -> str:
            stripped = raw.lstrip(pad)
            try:
                return stripped.decode(codec)
            except UnicodeDecodeError:
                # Decoding all of it again puts the error where it is in the field, not in what was left of it.
                raw.decode(codec)
                raise

        return read_right
    character = pad.decode(codec, "replace")
    if left:
        return lambda raw: raw.decode(codec).rstrip(character)
    return lambda raw: raw.decode(codec).lstrip(character)


def text_writer(page: CodePage, length: int, pad: bytes, justify: str) -> Write:
    codec = page.codec
    left = justify != "right"

    def write(value: Any) -> bytes:
        raw: bytes = (value if value.__class__ is str else as_text(value)).encode(codec)
        size = len(raw)
        if size == length:
            return raw
        if size > length:
            raise ValueError(f"{shown(value)} has {size} bytes, and there is room for {length}")
        if len(pad) == 1:
            return raw.ljust(length, pad) if left else raw.rjust(length, pad)
        padding = fill(pad, length - size)
        return raw + padding if left else padding + raw

    return write


def count_bytes(body: bytes, offset: int, characters: int, page: CodePage) -> int:
    """How many bytes so many characters take, in a page whose characters differ in size.

    Raises:
        ValueError: The bytes end before, or are no text; UnicodeDecodeError's `start` counts from `offset`.
    """
    decoder = codecs.getincrementaldecoder(page.codec)()
    found = 0
    position = offset
    while found < characters:
        if position >= len(body):
            raise ValueError(f"{characters} characters are expected, and the message ends after {found}")
        try:
            found += len(decoder.decode(body[position : position + 1]))
        except UnicodeDecodeError as error:
            raise UnicodeDecodeError(
                page.codec, body[offset : position + 1], position - offset, position - offset + 1, error.reason
            ) from None
        position += 1
    return position - offset
