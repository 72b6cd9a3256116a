# SPDX-License-Identifier: Apache-2.0
"""The JSON domain: an object or an array below `Data`, each level made on first access.

    {"id": 7, "lines": [{"sku": "A"}, null]}

    JSON ─ Data ─┬ id 7
                 └ lines (array) ─┬ Item ─ sku 'A'
                                  └ Item NULL

Whole numbers are INTEGER, others FLOAT. A name that an object has twice stays
there twice, in order, and is written so. What each type becomes is IBM's
mapping: BLOB is hexadecimal, dates and times are ESQL's text, a slash is escaped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from entrepot.errors.flows import MessageTooComplex, MessageUnreadable, MessageUnwritable
from entrepot.limits import BODY_BYTES_MAX, KIB
from entrepot.models.domains import WholeOnly
from entrepot.models.element_types import JSON_ARRAY, JSON_OBJECT, JSON_VALUE
from entrepot.models.tree import Element, Folder
from entrepot.models.tree_state import DEPTH_MAX
from entrepot.models.value_text import decimal_text, float_text, interval_text
from entrepot.models.values import Bits, Interval

_MARKS = (
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xfe\xff", "utf-16-be"),
    (b"\xff\xfe", "utf-16-le"),
)
_UTF = frozenset({0, 1200, 1201, 1202, 1203, 1204, 1205, 1208, 1209, 1232, 1233, 1234, 1235, 1236, 1237, 13488, 17584})


class AsRead(Element):
    """A name that was read is written as it is; in trees from other domains {uri} before a name is its namespace."""

    __slots__ = ()


class JsonElement(AsRead):
    """An object or array that was read and not yet looked into."""

    __slots__ = ("source",)

    def __init__(self, key: str, source: tuple[Any, ...] | list[Any], parent: Element) -> None:
        Element.__init__(self, key, None, JSON_OBJECT if source.__class__ is tuple else JSON_ARRAY)
        self.source = source
        self.parent = parent

    def is_leaf(self) -> bool:
        return not (self.source if self._children is None else self._children)

    def load(self) -> list[Element]:
        pairs = self.source if self.source.__class__ is tuple else [("Item", value) for value in self.source]
        children: list[Element] = []
        for key, value in pairs:
            if value.__class__ is tuple or value.__class__ is list:
                children.append(JsonElement(key, value, self))
            else:
                child = (Element if key[:1] != "{" else AsRead)(key, value, JSON_VALUE)
                child.parent = self
                children.append(child)
        self.source = ()
        self._children = children
        return children


class JsonDomain(WholeOnly):
    name = "JSON"

    def parse(self, folder: Folder) -> None:
        """Read the body; the elements below Data follow when they are asked for.

        Raises:
            MessageUnreadable: It is no JSON, or neither an object nor an array.
            MessageTooComplex: It is nested deeper than DEPTH_MAX.
        """
        text = _text(folder)
        try:
            document = _DECODER.decode(text)
        except json.JSONDecodeError as error:
            raise _unreadable(folder, text, error.pos, error.msg) from None
        except RecursionError:
            raise MessageTooComplex("JSON", folder.path(), 0, f"deeper than {DEPTH_MAX} levels") from None
        except ValueError as error:
            # Python refuses integers of more than 4,300 digits, because reading them takes quadratic time.
            raise _unreadable(folder, text, 0, str(error)) from None
        if document.__class__ is not tuple and document.__class__ is not list:
            raise _unreadable(folder, text, 0, "it is neither an object nor an array")
        if text.count("[") + text.count("{") > DEPTH_MAX:
            _require_depth(folder, document)
        if "\\" in text and "\\u" in text:
            _require_characters(folder, document)
        folder._children = [JsonElement("Data", document, folder)]

    def render(self, folder: Folder) -> bytes:
        """The tree below Data as JSON in the folder's code page.

        Raises:
            MessageUnwritable: There is no Data, it is neither object nor array, or a number is none of JSON's.
        """
        data = folder.children
        if len(data) != 1 or data[0].key != "Data":
            raise MessageUnwritable("JSON", folder.path(), "it has one child, named Data, and nothing else")
        if data[0].value is not None:
            raise MessageUnwritable("JSON", data[0].path(), "at the top there is an object or an array")
        out = _Pieces()
        _write(data[0], out, 1)
        text = "".join(out)
        encoding = _codec(folder)
        try:
            return text.encode(encoding)
        except UnicodeEncodeError:
            # Whatever the code page lacks can be written with JSON's own escapes.
            return _NOT_ASCII.sub(_escaped, text).encode(encoding)


# --- reading -----------------------------------------------------------------------------------------


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits[:40]} is too large for FLOAT")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=tuple, parse_float=_finite, parse_constant=_refuse_constant)


def _codec(folder: Folder) -> str:
    if folder.ccsid in (1208, 0):
        return "utf-8"
    from entrepot.models.code_pages import codec_of

    return codec_of(folder.ccsid, folder.encoding)


def _text(folder: Folder) -> str:
    body = folder.body
    assert body is not None
    encoding = "utf-8" if folder.ccsid == 1208 else _encoding(folder, body)
    for mark, marked in _MARKS:
        if body.startswith(mark) and folder.ccsid in _UTF:
            body, encoding = body[len(mark) :], marked
            break
    try:
        return body.decode(encoding)
    except UnicodeDecodeError as error:
        problem = f"not in {encoding}: {error.reason}"
        raise MessageUnreadable("JSON", folder.path(), error.start, problem) from None


def _encoding(folder: Folder, body: bytes) -> str:
    """The code page, or what RFC 4627 says about the zeros in the first four bytes when there is none."""
    if folder.ccsid:
        return _codec(folder)
    zeros = tuple(byte == 0 for byte in body[:4])
    if zeros == (True, True, True, False):
        return "utf-32-be"
    if zeros == (False, True, True, True):
        return "utf-32-le"
    if zeros[:2] == (True, False):
        return "utf-16-be"
    return "utf-16-le" if zeros[:2] == (False, True) else "utf-8"


def _unreadable(folder: Folder, text: str, position: int, problem: str) -> MessageUnreadable:
    encoding = "utf-8" if folder.ccsid == 1208 else _encoding(folder, folder.body or b"")
    return MessageUnreadable("JSON", folder.path(), len(text[:position].encode(encoding, "replace")), problem)


def _require_depth(folder: Folder, document: Any) -> None:
    level = [document]
    for _ in range(DEPTH_MAX):
        deeper: list[Any] = []
        for container in level:
            values = container if container.__class__ is list else [value for _, value in container]
            deeper += [value for value in values if value.__class__ is list or value.__class__ is tuple]
        if not deeper:
            return
        level = deeper
    raise MessageTooComplex("JSON", folder.path(), 0, f"deeper than {DEPTH_MAX} levels")


def _require_characters(folder: Folder, document: Any) -> None:
    """Refuse half of a surrogate pair, which JSON's grammar allows and no code page can write."""
    places: list[tuple[str, Any]] = [("Data", document)]
    while places:
        path, value = places.pop()
        if value.__class__ is tuple:
            places += [(f"{path}.{key}", child) for key, child in value]
            places += [(path, key) for key, _ in value]
        elif value.__class__ is list:
            places += [(f"{path}.Item[{number}]", child) for number, child in enumerate(value, 1)]
        elif value.__class__ is str and not value.isascii() and _HALF.search(value):
            raise MessageUnreadable("JSON", f"{folder.path()}.{path[:200]}", 0, "half of a surrogate pair stands alone")


# --- writing -----------------------------------------------------------------------------------------

_HALF = re.compile("[\ud800-\udfff]")
_SPECIAL = re.compile('["\\\\/\x00-\x1f\ud800-\udfff]')
_NOT_ASCII = re.compile("[^\x00-\x7f]")
_SHORT = {
    '"': '\\"',
    "\\": "\\\\",
    "/": "\\/",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    short = _SHORT.get(character)
    if short is not None:
        return short
    number = ord(character)
    if number > 0xFFFF:
        number -= 0x10000
        return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"
    return f"\\u{number:04x}"


def _string(text: str) -> str:
    return f'"{text if _SPECIAL.search(text) is None else _SPECIAL.sub(_escaped, text)}"'


def _float(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{float_text(value)} is no number of JSON")
    if value == 0:
        return f"{value:.1f}E+0"  # with its sign, which ESQL's text leaves out
    mantissa, _, exponent = float_text(value).partition("E")
    return f"{mantissa}E{exponent}" if "." in mantissa else f"{mantissa}.0E{exponent}"


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"{decimal_text(value)} is no number of JSON")
    text = decimal_text(value)
    return text if "." in text or "E" in text else text + ".0"


def _timestamp(value: datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(UTC)
    return f'"{value:%Y-%m-%d %H:%M:%S.%f}"' if value.year > 999 else f'"{value.year:04}{value:-%m-%d %H:%M:%S.%f}"'


_TEXTS: dict[type, Callable[[Any], str]] = {
    str: _string,
    int: str,
    bool: lambda value: "true" if value else "false",
    float: _float,
    Decimal: _decimal,
    bytes: lambda value: f'"{value.hex().upper()}"',
    Bits: lambda value: f'"{value.digits}"',
    date: lambda value: f'"{value.isoformat()}"',
    time: lambda value: f'"{value:%H:%M:%S.%f}"',
    datetime: _timestamp,
    Interval: lambda value: f'"{interval_text(value)}"',
    type(None): lambda _: "null",
}


NAMES_MAX = 20_000
NAME_KEPT = 256
LARGE = 64 * KIB
_names: dict[str, str] = {}
"""Names as they are written; bounded, because messages can make up names."""


def _member(key: str) -> str:
    """A name with its quotes and its colon."""
    text = _names.get(key)
    if text is None:
        text = _string(key) + ":"
        if len(_names) < NAMES_MAX and len(key) < NAME_KEPT:
            _names[key] = text
    return text


class _Pieces(list[str]):
    """What is written so far. Elements may share a large text, so that a small tree can be a huge message."""

    large = 0

    def require_room(self, length: int) -> None:
        self.large += length
        if self.large > BODY_BYTES_MAX:
            raise ValueError(f"with it the message is longer than {BODY_BYTES_MAX} bytes")


def _write(element: Element, out: _Pieces, depth: int) -> None:
    """One object or array."""
    if depth > DEPTH_MAX:
        raise MessageUnwritable("JSON", "Data", f"the tree is deeper than {DEPTH_MAX} levels")
    is_array = element.kind == JSON_ARRAY
    mark, end = ("[", "]") if is_array else ("{", "}")
    children = element.children
    if not children:
        out.append(mark + end)
        return
    for child in children:
        if is_array:
            name = ""
        else:
            key = child.key
            name = _member(child.name if key[:1] == "{" and not isinstance(child, AsRead) else key)
        value = child.value
        inside = child._children
        if inside is None and child.__class__ is not Element:
            inside = child.load()
        if inside or (value is None and child.kind in _CONTAINERS):
            if value is not None:
                raise MessageUnwritable("JSON", child.path(), "it has a value and children, and JSON cannot have both")
            out.append(mark + name)
            _write(child, out, depth + 1)
        else:
            try:
                text = _TEXTS[value.__class__](value)
                if len(text) > LARGE:
                    out.require_room(len(text))
                out.append(mark + name + text)
            except (KeyError, ValueError) as error:
                is_type = isinstance(error, KeyError)
                problem = f"{type(value).__name__} is no type of a value" if is_type else str(error)
                raise MessageUnwritable("JSON", child.path(), problem) from None
        mark = ","
    out.append(end)


_CONTAINERS = (JSON_OBJECT, JSON_ARRAY)

JSON = JsonDomain()
