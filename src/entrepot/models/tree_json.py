# SPDX-License-Identifier: Apache-2.0
"""A message tree as JSON that keeps the ESQL types, and as text like a trace node's.

    {"name": "order", "children": [
        {"name": "id", "type": "CHARACTER", "value": "x"},
        {"name": "price", "type": "DECIMAL", "value": "9.90"}]}

An element without "type" has no value (NULL). DECIMAL, BLOB, BIT and all dates
and times are strings, so that nothing is lost. A folder also has its "domain".
"kind" is left out for plain names and name-values: what has a type then is
read as a NAME_VALUE, and everything else as a NAME.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from entrepot.errors import InvalidArgument
from entrepot.models.domains import find_domain
from entrepot.models.element_types import NAME, NAME_VALUE
from entrepot.models.tree import Element, Folder, Root
from entrepot.models.tree_state import DEPTH_MAX
from entrepot.models.value_text import datetime_text, interval_text, xml_text
from entrepot.models.values import Bits, Interval

_PLAIN_KINDS = (NAME, NAME_VALUE)
_KEYS = ("name", "type", "value", "kind", "domain", "children")


def type_name(value: object) -> str:
    """The ESQL type of a value: CHARACTER, INTEGER, ...; NULL for none.

    Raises:
        InvalidArgument: No element can have such a value.
    """
    for python_type, name in _TYPE_NAMES:
        if isinstance(value, python_type):
            if python_type in (datetime, time) and value.tzinfo is not None:  # type: ignore[attr-defined]
                return f"GMT{name}"
            return name
    raise InvalidArgument("value of an element", repr(value), "a value that ESQL has a type for")


# bool is an int and datetime a date, so the order matters.
_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (type(None), "NULL"),
    (str, "CHARACTER"),
    (bool, "BOOLEAN"),
    (int, "INTEGER"),
    (Decimal, "DECIMAL"),
    (float, "FLOAT"),
    (bytes, "BLOB"),
    (datetime, "TIMESTAMP"),
    (date, "DATE"),
    (time, "TIME"),
    (Bits, "BIT"),
    (Interval, "INTERVAL"),
)


# --- to JSON ------------------------------------------------------------------------------------


def tree_to_json(element: Element, *, exact: bool = False) -> dict[str, Any]:
    """The element and all below it, as JSON can say it; folders are parsed for it.

    Args:
        exact: Write the kind wherever `tree_from_json` would not find the same one by itself; for trees in
            which a NAME with a value is something else than a NAME_VALUE (attributes of the XML domain).
    """
    out: dict[str, Any] = {"name": element.key}
    if isinstance(element, Folder):
        out["domain"] = element.domain.name
    value = element.value
    if value is not None:
        out["type"] = type_name(value)
        out["value"] = _value_to_json(value)
    kind = element.kind
    if kind not in _PLAIN_KINDS or (exact and kind != (NAME if value is None else NAME_VALUE)):
        out["kind"] = f"0x{kind:08X}"
    children = element.children
    if children:
        out["children"] = [tree_to_json(child, exact=exact) for child in children]
    return out


def _value_to_json(value: Any) -> Any:
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, Bits):
        return value.digits
    if isinstance(value, Interval):
        return {"qualifier": value.qualifier, "months": value.months, "seconds": str(value.seconds)}
    return value.isoformat()


# --- from JSON ----------------------------------------------------------------------------------


def tree_from_json(tree: object) -> Element:
    """The element that `tree_to_json` wrote, or that a person did.

    One with folders below it becomes a Root, as if it had been received.

    Raises:
        InvalidArgument: Says the path in the tree, what stands there and what may.
    """
    return _element(tree, "", 1)


def _element(tree: object, above: str, depth: int) -> Element:
    if depth > DEPTH_MAX:
        raise InvalidArgument("tree", above, f"a tree of at most {DEPTH_MAX} levels")
    if not isinstance(tree, dict):
        raise InvalidArgument(f"element below {above or 'nothing'}", repr(tree)[:80], 'an object like {"name": ...}')
    name = tree.get("name")
    if not isinstance(name, str) or (name[:1] == "{" and "}" not in name):
        raise InvalidArgument(f"name below {above or 'nothing'}", repr(name)[:80], "a text, or {namespace}text")
    path = f"{above}.{name}" if above else name
    for key in tree:
        if key not in _KEYS:
            raise InvalidArgument(f"key of {path}", str(key)[:80], f"one of {', '.join(_KEYS)}")
    children = tree.get("children", [])
    if not isinstance(children, list):
        raise InvalidArgument(f"children of {path}", repr(children)[:80], "a list of elements")
    below = [_element(child, path, depth + 1) for child in children]
    value = _value(tree, path)
    element = _made(tree, name, path, any(isinstance(child, Folder) for child in below))
    element.kind = _kind(tree, path, NAME if value is None else NAME_VALUE)
    element.value = value
    if below:
        element.fill(below)
    return element


def _made(tree: dict[str, Any], name: str, path: str, is_root: bool) -> Element:
    domain_name = tree.get("domain")
    if domain_name is None:
        return Root(name) if is_root else Element(name)
    domain = find_domain(domain_name) if isinstance(domain_name, str) else None
    if domain is None:
        raise InvalidArgument(f"domain of {path}", str(domain_name)[:80], "a domain such as XMLNSC, JSON or MRM")
    return Folder(domain, key=name)


def _kind(tree: dict[str, Any], path: str, without: int) -> int:
    kind = tree.get("kind")
    if kind is None:
        return without
    try:
        number = int(kind, 16) if isinstance(kind, str) else -1
    except ValueError:
        number = -1
    if not 0 <= number <= 0xFFFFFFFF:
        raise InvalidArgument(f"kind of {path}", str(kind)[:80], "a hexadecimal number such as 0x03000100")
    return number


def _value(tree: dict[str, Any], path: str) -> Any:
    written = tree.get("value")
    type_written = tree.get("type")
    if type_written is None:
        if written is not None:
            raise InvalidArgument(f"type of {path}", "nothing", f"the type of its value: {', '.join(_READERS)}")
        return None
    reader = _READERS.get(type_written) if isinstance(type_written, str) else None
    if reader is None:
        raise InvalidArgument(f"type of {path}", str(type_written)[:80], f"one of {', '.join(_READERS)}")
    if written is None and type_written == "NULL":
        return None
    try:
        return reader(written)
    except (ValueError, TypeError, KeyError, AttributeError, InvalidOperation):
        raise InvalidArgument(f"value of {path}", repr(written)[:80], f"a value of type {type_written}") from None


def _exactly(python_type: type) -> Callable[[Any], Any]:
    def read(written: Any) -> Any:
        if type(written) is not python_type:
            raise TypeError
        return written

    return read


def _decimal(written: Any) -> Decimal:
    return Decimal(written if isinstance(written, str) else _exactly(int)(written))


def _float(written: Any) -> float:
    if isinstance(written, bool):
        raise TypeError
    return float(written)


def _bits(written: Any) -> Bits:
    if not re.fullmatch("[01]*", written):
        raise ValueError
    return Bits(written)


def _time(zoned: bool) -> Callable[[Any], time]:
    def read(written: Any) -> time:
        found = time.fromisoformat(written)
        if (found.tzinfo is not None) != zoned:
            raise ValueError
        return found

    return read


def _datetime(zoned: bool) -> Callable[[Any], datetime]:
    def read(written: Any) -> datetime:
        found = datetime.fromisoformat(written)
        if (found.tzinfo is not None) != zoned:
            raise ValueError
        return found

    return read


def _interval(written: Any) -> Interval:
    qualifier = _exactly(str)(written["qualifier"])
    return Interval(qualifier, _exactly(int)(written.get("months", 0)), _decimal(written.get("seconds", "0")))


def _null(written: Any) -> None:
    raise ValueError(written)


_READERS: dict[str, Callable[[Any], Any]] = {
    "CHARACTER": _exactly(str),
    "INTEGER": _exactly(int),
    "DECIMAL": _decimal,
    "FLOAT": _float,
    "BOOLEAN": _exactly(bool),
    "BLOB": lambda written: bytes.fromhex(written),
    "BIT": _bits,
    "DATE": lambda written: date.fromisoformat(written),
    "TIME": _time(False),
    "GMTTIME": _time(True),
    "TIMESTAMP": _datetime(False),
    "GMTTIMESTAMP": _datetime(True),
    "INTERVAL": _interval,
    "NULL": _null,
}


# --- as text --------------------------------------------------------------------------------------

_KIND_WORDS = {
    "XML": {NAME: "Element", NAME_VALUE: "Attribute", 0x02000000: "Content"},
    "XMLNSC": {NAME: "Folder", NAME_VALUE: "Field", 0x03000100: "Attribute", 0x03000103: "NamespaceDecl"},
    "JSON": {NAME: "Object", NAME_VALUE: "NameValue", 0x01001000: "Array"},
    "MRM": {NAME: "Name", NAME_VALUE: "NameValue", 0x03000100: "Attribute"},
}
_KIND_WORDS["XMLNS"] = _KIND_WORDS["XML"]
_KIND_WORDS["SOAP"] = _KIND_WORDS[""] = _KIND_WORDS["XMLNSC"]
_FAMILIES = {1: "Name", 2: "Value", 3: "NameValue"}


def tree_text(element: Element) -> str:
    """The element and all below it as a trace would print it, one element to a line.

    (0x01000000:Folder):order = (
      (0x03000000:Field):id = 'x' (CHARACTER)
    )
    """
    lines: list[str] = []
    _write(element, element.domain_name(), "", lines)
    return "\n".join(lines)


def _write(element: Element, domain: str, indent: str, lines: list[str]) -> None:
    if isinstance(element, Folder):
        domain = element.domain.name
    kind, value, children = element.kind, element.value, element.children
    word = _KIND_WORDS.get(domain, _FAMILIES).get(kind) or _FAMILIES.get(kind >> 24, "Other")
    head = f"{indent}(0x{kind:08X}:{word}):{element.key}"
    value_shown = f"{value_text(value)} ({type_name(value)})" if value is not None else ""
    if not children:
        if value_shown:
            lines.append(f"{head} = {value_shown}")
        else:
            lines.append(f"{head} = NULL" if kind == NAME_VALUE else head)
        return
    lines.append(f"{head} = {value_shown} (" if value_shown else f"{head} = (")
    for child in children:
        _write(child, domain, indent + "  ", lines)
    lines.append(f"{indent})")


def value_text(value: Any) -> str:
    """A value as an ESQL program would write it: 'it''s', X'00FF', 4.472E+1, DATE '2026-01-31'."""
    name = type_name(value)
    if name == "NULL":
        return "NULL"
    if name == "CHARACTER":
        return "'{}'".format(value.replace("'", "''"))
    if name == "BLOB":
        return f"X'{value.hex().upper()}'"
    if name == "BIT":
        return f"B'{value.digits}'"
    if name == "BOOLEAN":
        return "TRUE" if value else "FALSE"
    if name == "INTERVAL":
        return f"INTERVAL '{interval_text(value)}' {value.qualifier}"
    if isinstance(value, datetime):
        return f"{name} '{datetime_text(value, ' ').removesuffix('Z')}'"
    text = xml_text(value)
    return text if name in ("INTEGER", "DECIMAL", "FLOAT") else f"{name} '{text.removesuffix('Z')}'"
