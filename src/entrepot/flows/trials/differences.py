# SPDX-License-Identifier: Apache-2.0
"""What differs between a message and what was expected of it, each with the path to it.

    order/item[2]/@price: expected '3.5', found '4'

Messages are compared by what they mean: XML without white space between
elements and whatever the order of attributes, JSON whatever the order of
names, trees by the paths that were asked for. No lines are no difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from lxml import etree

from entrepot.models.tree import Element
from entrepot.models.value_text import xml_text

_SHOWN_CHARACTERS = 200
_LINES_MAX = 50
_STEP = re.compile(r"((?:\{[^}]*\})?[^.\[\]{}]+)(?:\[(\d*)\])?(?:\.|$)")
_ABSENT = object()


def of_bytes(expected: bytes, found: bytes) -> list[str]:
    """Where two bodies part."""
    if expected == found:
        return []
    at = next(
        (index for index, (one, other) in enumerate(zip(expected, found, strict=False)) if one != other),
        min(len(expected), len(found)),
    )
    lengths = f" ({len(expected)} and {len(found)} bytes)" if len(expected) != len(found) else ""
    return [
        f"from byte {at} on{lengths}: expected {shown(expected[at : at + 60])}, found {shown(found[at : at + 60])}",
        f"expected all in all: {shown(expected)}",
        f"found all in all:    {shown(found)}",
    ]


def shown(value: Any) -> str:
    """A value for people: bytes that are text as text, and nothing endless."""
    if isinstance(value, bytes):
        try:
            text = repr(value.decode())
        except UnicodeDecodeError:
            text = f"X'{value.hex()}'"
    else:
        text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


# --- XML ------------------------------------------------------------------------------------------------


def of_xml(expected: bytes | str, found: bytes) -> list[str]:
    """How two documents differ in what they mean."""
    wanted = expected.encode() if isinstance(expected, str) else expected
    try:
        one = _document(wanted)
    except etree.XMLSyntaxError as error:
        return [f"what is expected is no XML: {error}"]
    try:
        other = _document(found)
    except etree.XMLSyntaxError as error:
        return [f"what was found is no XML ({error}): {shown(found)}"]
    lines: list[str] = []
    _compare_elements(one, other, _name(other), lines)
    return lines


def _document(body: bytes) -> Any:
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True, load_dtd=False
    )
    return etree.fromstring(body, parser)


def _name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _compare_elements(one: Any, other: Any, path: str, lines: list[str]) -> None:
    if len(lines) >= _LINES_MAX:
        return
    if one.tag != other.tag:
        lines.append(f"{path}: expected the element {one.tag}, found {other.tag}")
        return
    for name in sorted({*one.attrib, *other.attrib}):
        _compare_values(one.get(name, _ABSENT), other.get(name, _ABSENT), f"{path}/@{name}", lines)
    for index, (wanted, there) in enumerate(zip(_texts(one), _texts(other), strict=False)):
        if wanted != there:
            where = path if not index else f"{path}, behind child {index}"
            lines.append(f"{where}: expected {shown(wanted)}, found {shown(there)}")
    _compare_children(list(one), list(other), path, lines)


def _texts(element: Any) -> list[str]:
    """The text before the first child, and behind each; white space alone is layout where there are children."""
    texts = [element.text or "", *((child.tail or "") for child in element)]
    return [text.strip() if len(texts) > 1 else text for text in texts]


def _compare_children(wanted: list[Any], there: list[Any], path: str, lines: list[str]) -> None:
    for index in range(max(len(wanted), len(there))):
        if index >= len(there):
            lines.append(f"{path}: the element {_name(wanted[index])} is missing{_tail(wanted[index])}")
        elif index >= len(wanted):
            lines.append(f"{path}: the element {_name(there[index])} is too much{_tail(there[index])}")
        else:
            child = there[index]
            twins = [each for each in there if each.tag == child.tag]
            number = f"[{twins.index(child) + 1}]" if len(twins) > 1 else ""
            _compare_elements(wanted[index], child, f"{path}/{_name(child)}{number}", lines)


def _tail(element: Any) -> str:
    text = (element.text or "").strip()
    return f": {shown(text)}" if text else ""


# --- JSON -----------------------------------------------------------------------------------------------


def of_json(expected: Any, found: bytes) -> list[str]:
    """How a body differs from a JSON value."""
    try:
        there = json.loads(found)
    except ValueError as error:
        return [f"what was found is no JSON ({error}): {shown(found)}"]
    lines: list[str] = []
    _compare_json(expected, there, "$", lines)
    return lines


def _compare_json(expected: Any, found: Any, path: str, lines: list[str]) -> None:
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in dict.fromkeys([*expected, *found]):
            _compare_json(expected.get(key, _ABSENT), found.get(key, _ABSENT), f"{path}.{key}", lines)
    elif isinstance(expected, list) and isinstance(found, list):
        for index in range(max(len(expected), len(found))):
            wanted = expected[index] if index < len(expected) else _ABSENT
            there = found[index] if index < len(found) else _ABSENT
            _compare_json(wanted, there, f"{path}[{index}]", lines)
    elif isinstance(expected, bool) is not isinstance(found, bool) or expected != found:
        _compare_values(expected, found, path, lines, differ=True)


def _compare_values(expected: Any, found: Any, path: str, lines: list[str], *, differ: bool = False) -> None:
    if len(lines) >= _LINES_MAX or (not differ and expected == found):
        return
    if found is _ABSENT:
        lines.append(f"{path}: expected {shown(expected)}, and it is missing")
    elif expected is _ABSENT:
        lines.append(f"{path}: it is too much: {shown(found)}")
    else:
        lines.append(f"{path}: expected {shown(expected)}, found {shown(found)}")


# --- trees ------------------------------------------------------------------------------------------------


def of_tree(expected: Mapping[str, Any], root: Element) -> list[str]:
    """Which paths have other values than expected.

    A path is XMLNSC.order.item[2].price, with {namespace}name where there is a namespace; one that ends with []
    asks how many there are. None expects that nothing is there, or NULL.
    """
    lines: list[str] = []
    for path, wanted in expected.items():
        if path.endswith("[]"):
            _compare_values(wanted, len(elements_at(root, path[:-2])), path, lines)
            continue
        found = elements_at(root, path)
        value = found[0].value if found else _ABSENT
        if wanted is None and value in (_ABSENT, None):
            continue
        if value is _ABSENT or not is_same(wanted, value):
            _compare_values(wanted, _text_below(found[0]) if found else _ABSENT, path, lines, differ=True)
    return lines


def _text_below(element: Element) -> Any:
    if element.value is None and element.children:
        return f"({', '.join(dict.fromkeys(child.name for child in element.children))})"
    return element.value


def elements_at(root: Element, path: str) -> list[Element]:
    """The elements that a path leads to, all of them where its last step has no number.

    Raises:
        ValueError: That is no path.
    """
    found = [root]
    for name, number in steps_of(path):
        below = [child for element in found[:1] for child in element.children if name in (child.key, child.name)]
        found = below if number is None else below[number - 1 : number]
        if not found:
            return []
    return found


def steps_of(path: str) -> Iterable[tuple[str, int | None]]:
    """Names and numbers of a path.

    Raises:
        ValueError: That is no path.
    """
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or (step.group(2) is not None and not step.group(2)):
            raise ValueError(f"{path!r} is no path such as XMLNSC.order.item[2].price")
        yield step.group(1).removeprefix("@"), int(step.group(2)) if step.group(2) else None
        at = step.end()


def is_same(expected: Any, found: Any) -> bool:
    """Whether a value is what a test says, though a message has only text where a test has a number."""
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found or (
            isinstance(expected, bool) and found in (("true", "1") if expected else ("false", "0"))
        )
    if isinstance(expected, bytes) or isinstance(found, bytes):
        return _hex(expected) == _hex(found)
    if isinstance(expected, int | float | Decimal):
        try:
            return Decimal(str(expected)) == Decimal(xml_text(found) if not isinstance(found, float) else str(found))
        except InvalidOperation:
            return False
    return bool(expected == found) or str(expected) == (xml_text(found) if found is not None else None)


def _hex(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value).lower().removeprefix("0x")
