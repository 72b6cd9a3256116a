# SPDX-License-Identifier: Apache-2.0
"""Type mistakes that no message can make right.

A field's type is known only when a message is there, so most types are
unknown here, an empty string, and nothing is said about them.
"""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from entrepot.models.values import Bits, Interval

NUMBERS = frozenset({"INTEGER", "DECIMAL", "FLOAT"})
MOMENTS = frozenset({"DATE", "TIME", "GMTTIME", "TIMESTAMP", "GMTTIMESTAMP"})
STRINGS = frozenset({"CHARACTER", "BLOB", "BIT"})
SCALARS = NUMBERS | MOMENTS | STRINGS | {"BOOLEAN", "INTERVAL"}

_CASTS: dict[str, frozenset[str]] = {
    "BOOLEAN": frozenset({"BOOLEAN", "CHARACTER"}),
    "BIT": STRINGS | {"INTEGER"},
    "BLOB": STRINGS | {"INTEGER"},
    "CHARACTER": SCALARS,
    "INTEGER": NUMBERS | STRINGS | {"INTERVAL"},
    "DECIMAL": NUMBERS | {"CHARACTER", "INTERVAL"},
    "FLOAT": NUMBERS | {"CHARACTER", "INTERVAL"},
    "INTERVAL": NUMBERS | {"CHARACTER", "INTERVAL"},
    "DATE": frozenset({"CHARACTER", "DATE", "TIMESTAMP", "GMTTIMESTAMP"}),
    "TIME": MOMENTS - {"DATE"} | {"CHARACTER"},
    "GMTTIME": MOMENTS - {"DATE"} | {"CHARACTER"},
    "TIMESTAMP": MOMENTS | {"CHARACTER"},
    "GMTTIMESTAMP": MOMENTS | {"CHARACTER"},
}
"""What each type can become: topic ak05680."""


def type_of_value(value: Any) -> str:
    """The ESQL type of a literal; empty for NULL."""
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, datetime):
        return "TIMESTAMP" if value.tzinfo is None else "GMTTIMESTAMP"
    if isinstance(value, time):
        return "TIME" if value.tzinfo is None else "GMTTIME"
    for kind, name in _TYPES:
        if isinstance(value, kind):
            return name
    return ""


_TYPES = (
    (str, "CHARACTER"),
    (int, "INTEGER"),
    (Decimal, "DECIMAL"),
    (float, "FLOAT"),
    (bytes, "BLOB"),
    (Bits, "BIT"),
    (date, "DATE"),
    (Interval, "INTERVAL"),
)


def can_become(source: str, target: str) -> bool:
    """Whether CAST has a way from one type to another; unknown types may have."""
    return source not in _CASTS or target not in SCALARS or target in _CASTS[source]


def sum_type(operator: str, left: str, right: str) -> tuple[str, str]:
    """(type, problem) of left + right and the like; either may be empty."""
    for operand in (left, right):
        if operand in ("BOOLEAN", "BLOB", "BIT"):
            return "", f"{operator} takes numbers, dates and intervals, and this is a {operand}"
    if operator in "*/" and MOMENTS & {left, right}:
        return "", f"{operator} cannot take a {left if left in MOMENTS else right}"
    if operator == "+" and left in MOMENTS and right in MOMENTS:
        return "", f"a {left} and a {right} cannot be added; an INTERVAL can be added to either"
    if left in NUMBERS and right in NUMBERS:
        return next(kind for kind in ("FLOAT", "DECIMAL", "INTEGER") if kind in (left, right)), ""
    if left in MOMENTS and right == "INTERVAL":
        return left, ""
    return "", ""


def comparison_problem(operator: str, left: str, right: str) -> str:
    """Why two types can never be compared; empty when they can or it is not certain."""
    for one, other in ((left, right), (right, left)):
        if one == "BOOLEAN" and other in SCALARS - {"BOOLEAN", "CHARACTER"}:
            return f"a BOOLEAN is never {operator} {_article(other)}"
    if (left in MOMENTS and right in NUMBERS) or (left in NUMBERS and right in MOMENTS):
        return f"{_article(left)} is never {operator} {_article(right)}"
    return ""


def truth_problem(operator: str, type_: str) -> str:
    """Why a value cannot be a condition."""
    if type_ in SCALARS - {"BOOLEAN", "CHARACTER"}:
        return f"{operator} takes a BOOLEAN, and this is {_article(type_)}"
    return ""


def assignment_problem(source: str, target: str) -> str:
    if can_become(source, target):
        return ""
    return f"{_article(source)} cannot become {_article(target)}"


def _article(type_: str) -> str:
    return f"{'an' if type_[0] in 'AEIOU' else 'a'} {type_}"
