# SPDX-License-Identifier: Apache-2.0
"""Rows and lists: what SELECT, ROW, LIST and the functions over lists work with."""

from __future__ import annotations

from typing import Any

from entrepot.errors import EsqlRunError
from entrepot.esql.runtime.comparing import equal
from entrepot.esql.runtime.fields import assign, make, take
from entrepot.models.element_types import NAME
from entrepot.models.tree import Element, Root


def at_most_one(element: Element | None) -> list[Element]:
    """A field as a list."""
    return [] if element is None else [element]


def last_child(element: Element) -> Element | None:
    """InputBody: the last folder of a message."""
    children = element.children
    return children[-1] if children else None


def cardinality(values: Any) -> int:
    if type(values) is list:
        return len(values)
    return 0 if values is None else 1


def the(values: Any) -> Any:
    """THE(list): the first of it; NULL of an empty one."""
    if type(values) is list:
        return values[0] if values else None
    return values


def new_row() -> Element:
    """A row that is not in a tree yet, so that adding to it notifies no folder."""
    row = Element("")
    row._children = []
    return row


def add_value(row: Element, key: str, value: Any, kind: int = NAME) -> None:
    """A value into a new row that has no such name; NULL leaves no element."""
    if value is not None:
        child = Element(key, value, kind)
        child.parent = row
        row._children.append(child)  # type: ignore[union-attr]


def add_tree(row: Element, key: str, source: Element | None) -> None:
    """A field likewise, with all that is below it."""
    if source is not None:
        child = Element(key, source.value)
        child.parent = row
        row._children.append(child)  # type: ignore[union-attr]
        if not source.is_leaf():
            take(child, source)


def put_value(row: Element, keys: tuple[str, ...], value: Any) -> None:
    """A value into a row; NULL leaves no element."""
    if value is not None:
        make(row, keys).value = value


def put_tree(row: Element, keys: tuple[str, ...], source: Element | None) -> None:
    """A field into a row, with all that is below it."""
    if source is not None:
        target = make(row, keys)
        if source.is_leaf():
            target.value = source.value
        else:
            take(target, source)


def put_any(row: Element, keys: tuple[str, ...], value: Any) -> None:
    """A value, a row or a list into a row."""
    if value is not None and value != []:
        assign(make(row, keys), value)


def put_named(row: Element, source: Element | None) -> None:
    """A field into a row under its own name."""
    if source is not None:
        row.append(source.copy())


def put_children(row: Element, source: Element | None) -> None:
    """SELECT *: all children of a source."""
    if source is not None:
        for child in source.children:
            row.append(child.copy())


def same(left: Any, right: Any) -> bool | None:
    """Rows and lists with =: as many parts, and each of the same name and equal to its counterpart."""
    if type(left) is list or type(right) is list:
        return _all_same(left if type(left) is list else [left], right if type(right) is list else [right])
    if isinstance(left, Element) and isinstance(right, Element) and not (left.is_leaf() and right.is_leaf()):
        children = left.children, right.children
        if [child.key for child in children[0]] != [child.key for child in children[1]]:
            return False
        return _all_same(*children)
    return equal(
        left.value if isinstance(left, Element) else left, right.value if isinstance(right, Element) else right
    )


def _all_same(left: list[Any], right: list[Any]) -> bool | None:
    if len(left) != len(right):
        return False
    answer: bool | None = True
    for one, other in zip(left, right, strict=True):
        answer = and_(answer, same(one, other))
        if answer is False:
            break
    return answer


def row_of(value: Any, name: str) -> Element:
    """A ROW parameter: the tree that was given, or an empty one."""
    if isinstance(value, Element):
        return value
    row = Root(name)
    if value is not None:
        assign(row, value)
    return row


def presence(element: Any) -> Any:
    """What IS NULL looks at: the value, or the element itself when it is a folder."""
    if not isinstance(element, Element):
        return element
    return element.value if element.value is not None else (element if element.children else None)


def truth(value: Any) -> bool | None:
    """A field used as a condition."""
    if value is None or value is True or value is False:
        return value
    if type(value) is str:
        word = value.strip().upper()
        if word in ("TRUE", "FALSE", "UNKNOWN"):
            return {"TRUE": True, "FALSE": False, "UNKNOWN": None}[word]
    raise EsqlRunError(f"a condition is BOOLEAN, not {value!r}", number=2328)


def and_(left: bool | None, right: bool | None) -> bool | None:
    """AND after its left side was found not to be FALSE."""
    if right is False:
        return False
    return None if left is None or right is None else True


def or_(left: bool | None, right: bool | None) -> bool | None:
    """OR after its left side was found not to be TRUE."""
    if right is True:
        return True
    return None if left is None or right is None else False
