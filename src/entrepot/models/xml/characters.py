# SPDX-License-Identifier: Apache-2.0
"""Which characters and names XML 1.0 can have, and how the others are escaped."""

from __future__ import annotations

import re

from entrepot.limits import KIB

LARGE = 64 * KIB
LONG = 200
"""Shorter texts are searched with one pattern; longer ones are quicker as bytes."""

_START = (
    r"A-Z_a-z\xC0-\xD6\xD8-\xF6\xF8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C\u200D\u2070-\u218F\u2C00-\u2FEF"
    r"\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFFFD\U00010000-\U000EFFFF"
)
_PART = _START + r"\-.0-9\xB7\u0300-\u036F\u203F\u2040"

UNPREFIXED_NAME = re.compile(f"[{_START}][{_PART}]*")
PREFIXED_NAME = re.compile(f"[:{_START}][:{_PART}]*")

_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_PLAIN = re.compile("[^\t\n\x20-%'-;=?-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_PLAIN_BYTES = bytes([*range(9), *range(11, 32), *b"&<>"])
_NOT_PLAIN_HERE = re.compile("[^\x20!#-%(-;=?-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class NotXml(ValueError):
    """Text that cannot be written as XML."""


def require_characters(text: str) -> None:
    wrong = _NO_CHARACTER.search(text)
    if wrong is not None:
        raise NotXml(f"character {wrong.start() + 1} is U+{ord(wrong[0]):04X}, which XML cannot have")


def is_plain(text: str) -> bool:
    """Nothing in it needs to be escaped, or cannot be. Large texts never are: the writer looks at each of them."""
    if len(text) < LONG:
        return _NOT_PLAIN.search(text) is None
    if len(text) > LARGE:
        return False
    if not text.isascii():
        return _NOT_PLAIN.search(text) is None
    raw = text.encode()
    return len(raw.translate(None, _NOT_PLAIN_BYTES)) == len(raw)


def content_text(text: str) -> str:
    """Text between tags."""
    if is_plain(text):
        return text
    require_characters(text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def attribute_text(text: str, quote: str = '"') -> str:
    """An attribute's value with its quotes. White space is escaped, since parsers make blanks of it."""
    if _NOT_PLAIN_HERE.search(text) is None:
        return quote + text + quote
    text = content_text(text).replace("\t", "&#9;").replace("\n", "&#10;")
    text = text.replace('"', "&quot;") if quote == '"' else text.replace("'", "&apos;")
    return quote + text + quote


def cdata_text(text: str) -> str:
    """A CDATA section; more than one where the text has a section's end or a carriage return."""
    if not text:
        return ""
    require_characters(text)
    text = text.replace("]]>", "]]]]><![CDATA[>").replace("\r", "]]>&#13;<![CDATA[")
    return f"<![CDATA[{text}]]>"
