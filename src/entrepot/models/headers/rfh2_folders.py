# SPDX-License-Identifier: Apache-2.0
"""The folders of an MQRFH2: small pieces of XML such as `<usr><Count dt="i4">5</Count></usr>`.

`dt` gives a value its type, and stays in the tree as an attribute, so that
`i2` is not written back as `i4`. Prefixes such as `xsi:` are used without
being declared, which is why namespaces are not looked at here. There is no
DOCTYPE in a piece of XML, hence no entity that could grow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from xml.parsers import expat

from entrepot.errors import MessageTooComplex, MessageUnreadable, MessageUnwritable
from entrepot.models.code_pages import decode, encode
from entrepot.models.element_types import NAME_VALUE, VALUE, XMLNSC_ATTRIBUTE
from entrepot.models.tree import Element
from entrepot.models.tree_state import DEPTH_MAX

DOMAIN = "MQRFH2"

UNTYPED = frozenset({"mcd", "jms", "psc", "pscr", "mqps"})
"""Folders whose readers know the types and expect no dt."""

_WRAPPER = b"<r>"
_NAME = re.compile(r"[A-Za-z_\u0080-\U0010FFFF][\w.\-:\u0080-\U0010FFFF]*\Z")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_ATTRIBUTE_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}
)


def _boolean(text: str) -> bool:
    return {"1": True, "0": False, "true": True, "false": False}[text.strip().lower()]


def _integer(bits: int) -> Callable[[str], int]:
    limit = 1 << bits - 1

    def read(text: str) -> int:
        number = int(text) if len(text) <= 40 and "_" not in text else limit
        if not -limit <= number < limit:
            raise ValueError
        return number

    return read


_READERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "boolean": _boolean,
    "bin.hex": bytes.fromhex,
    "i1": _integer(8),
    "i2": _integer(16),
    "i4": _integer(32),
    "i8": _integer(64),
    "int": _integer(64),
    "r4": float,
    "r8": float,
}
_TYPES: dict[str, type] = {
    "string": str,
    "boolean": bool,
    "bin.hex": bytes,
    "i1": int,
    "i2": int,
    "i4": int,
    "i8": int,
    "int": int,
    "r4": float,
    "r8": float,
}


class _FolderBuilder:
    """Makes elements of what the XML parser tells."""

    def __init__(self, where: Callable[[], int]) -> None:
        self.folders: list[Element] = []
        self._where = where
        self._stack: list[tuple[Element, list[str]]] = []
        self.depth = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth == 1:
            return
        if self.depth > DEPTH_MAX:
            raise MessageTooComplex(DOMAIN, name, self._where(), f"more than {DEPTH_MAX} elements inside each other")
        element = Element(name)
        if attributes:
            element.fill(Element(key, value, XMLNSC_ATTRIBUTE) for key, value in attributes.items())
        if self._stack:
            parent = self._stack[-1][0]
            element.parent = parent
            parent.children.append(element)
        else:
            self.folders.append(element)
        self._stack.append((element, []))

    def end(self, name: str) -> None:
        self.depth -= 1
        if self.depth == 0:
            return
        element, texts = self._stack.pop()
        text = "".join(texts)
        inner = [child for child in element.children if child.kind != XMLNSC_ATTRIBUTE]
        if inner:
            if text.strip():
                loose = Element("", text, VALUE)
                loose.parent = element
                element.children.append(loose)
            return
        if not self._stack and not text.strip():
            return  # A folder without anything in it is no empty text.
        element.kind = NAME_VALUE
        element.value = self._value(element, text, name)

    def _value(self, element: Element, text: str, name: str) -> Any:
        for attribute in element.children:
            key = attribute.key
            if key == "xsi:nil" and attribute.value in ("true", "1"):
                return None
            if key == "dt" or key.endswith(":dt"):
                read = _READERS.get(attribute.value)
                if read is None:
                    problem = f"there is no type {attribute.value[:20]!r}"
                    raise MessageUnreadable(DOMAIN, name, self._where(), problem)
                try:
                    return read(text)
                except (ValueError, KeyError, OverflowError):
                    problem = f"{text[:40]!r} is no {attribute.value}"
                    raise MessageUnreadable(DOMAIN, name, self._where(), problem) from None
        return text

    def text(self, text: str) -> None:
        if self._stack:
            self._stack[-1][1].append(text)
        elif text.strip(" \t\r\n"):
            raise MessageUnreadable(DOMAIN, "NameValueData", self._where(), f"{text[:20]!r} is in no folder")


def read_folders(data: bytes, ccsid: int, encoding: int, offset: int) -> list[Element]:
    """The folders in one NameValueData, mostly one; `offset` says where it begins.

    Raises:
        MessageUnreadable: It is no XML. Says where.
        MessageTooComplex
        CodePageUnknown
    """
    if ccsid in (1208, 1209):
        plain = data
    else:
        plain = decode(data, ccsid, "NameValueData", offset, domain=DOMAIN, encoding=encoding).encode()
    # The standard wants blanks as padding; some write null bytes.
    plain = plain.rstrip(b" \0")

    def where() -> int:
        # What is never closed is found wrong in the tag that we have added behind it.
        index = min(max(0, parser.CurrentByteIndex - len(_WRAPPER)), len(plain))
        if plain is data or ccsid in (1208, 1209):
            return offset + index
        before = plain[:index].decode(errors="ignore")
        return offset + len(encode(before, ccsid, domain=DOMAIN, encoding=encoding))

    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    reader = _FolderBuilder(where)
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(_WRAPPER, False)
        parser.Parse(plain, False)
        if reader.depth != 1:
            problem = "an element has no end" if reader.depth else "an element ends that never began"
            raise MessageUnreadable(DOMAIN, "NameValueData", offset + len(data), problem)
        parser.Parse(b"</r>", True)
    except expat.ExpatError as error:
        problem = f"this is no XML: {expat.errors.messages.get(error.code, 'unknown error')}"
        raise MessageUnreadable(DOMAIN, "NameValueData", where(), problem) from None
    return reader.folders


def write_folder(element: Element) -> str:
    """The text of one folder.

    Raises:
        MessageUnwritable: A name or a value that cannot be written as XML.
    """
    pieces: list[str] = []
    _write(element, pieces, element.key not in UNTYPED, f"{DOMAIN}.{element.key}", 1)
    return "".join(pieces)


def _write(element: Element, pieces: list[str], typed: bool, path: str, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise MessageUnwritable(DOMAIN, path[:200], f"more than {DEPTH_MAX} elements inside each other")
    name = element.key
    if not _NAME.match(name):
        raise MessageUnwritable(DOMAIN, path, f"{name[:60]!r} is no name that an MQRFH2 can have")
    attributes: dict[str, str] = {}
    inner: list[Element] = []
    for child in element.children:
        if child.kind == XMLNSC_ATTRIBUTE:
            attributes[child.key] = text_of(child.value, path)
        else:
            inner.append(child)
    value = element.value
    if not inner:
        _give_type(attributes, value, typed, depth, path)
    pieces.append(f"<{name}")
    for key, text in attributes.items():
        if not _NAME.match(key):
            raise MessageUnwritable(DOMAIN, path, f"{key[:60]!r} is no name that an attribute can have")
        pieces.append(f' {key}="{_checked(text, path).translate(_ATTRIBUTE_ESCAPES)}"')
    pieces.append(">")
    if value is not None:
        pieces.append(_checked(text_of(value, path), path).translate(_ESCAPES))
    for child in inner:
        if child.kind == VALUE and not child.key:
            pieces.append(_checked(text_of(child.value, path), path).translate(_ESCAPES))
        else:
            _write(child, pieces, typed, f"{path}.{child.key}", depth + 1)
    pieces.append(f"</{name}>")


def _give_type(attributes: dict[str, str], value: Any, typed: bool, depth: int, path: str) -> None:
    """Make dt say what the value is, and leave one that says so already."""
    key = next((key for key in attributes if key == "dt" or key.endswith(":dt")), None)
    if value is None:
        if key is not None:
            del attributes[key]
        if depth > 1:
            attributes["xsi:nil"] = "true"
        return
    attributes.pop("xsi:nil", None)
    if key is not None and type(value) is _TYPES.get(attributes[key]):
        if type(value) is int:
            try:
                _READERS[attributes[key]](str(value))
            except ValueError:
                attributes[key] = _type_of(value, path)
        return
    if key is not None:
        del attributes[key]
    kind = _type_of(value, path)
    if kind and (typed or key is not None):
        attributes[key or "dt"] = kind


def _type_of(value: Any, path: str) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise MessageUnwritable(DOMAIN, path, "a whole number of more than 64 bits")
        return "i4" if -(1 << 31) <= value < 1 << 31 else "i8"
    if isinstance(value, float):
        return "r8"
    return "bin.hex" if isinstance(value, bytes) else ""


def text_of(value: Any, path: str) -> str:
    """How a value is written."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63):
        return repr(value)
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() and abs(value.adjusted()) < 100 else str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if value is None:
        return ""
    raise MessageUnwritable(DOMAIN, path, f"it has no text for a {type(value).__name__}")


def _checked(text: str, path: str) -> str:
    found = _FORBIDDEN.search(text)
    if found:
        raise MessageUnwritable(DOMAIN, path, f"XML has no character {found.group()!a}")
    return text


def simple(element: Element) -> bool:
    """No elements inside, attributes aside."""
    return all(child.kind == XMLNSC_ATTRIBUTE for child in element.children)
