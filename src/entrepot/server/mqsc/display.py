# SPDX-License-Identifier: Apache-2.0
"""What DISPLAY selects and how people see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from entrepot.server.mqsc.forms import InvalidValue, RowValue, Switch
from entrepot.server.mqsc.object_kind import ObjectKind
from entrepot.server.mqsc.syntax import Position

Row = dict[str, RowValue]

_COLUMN_CHARACTERS = 40


def matches(pattern: str, text: str) -> bool:
    """Whether the text fits the pattern, in which `*` stands for any characters, or none."""
    head, *parts = pattern.split("*")
    if not parts:
        return text == pattern
    *middle, tail = parts
    # Part by part from the left is enough for `*`, and takes no time that grows with their number.
    if not text.startswith(head):
        return False
    place = len(head)
    for part in middle:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return len(text) - place >= len(tail) and text.endswith(tail)


_POSITIVE: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": lambda value, operand: value == operand,
    "LT": lambda value, operand: value < operand,
    "GT": lambda value, operand: value > operand,
    "LE": lambda value, operand: value <= operand,
    "GE": lambda value, operand: value >= operand,
    "LK": lambda value, operand: matches(operand, str(value)),
    "CT": lambda value, operand: value == operand,
}
_NEGATIONS = {"NE": "EQ", "NL": "LK", "EX": "CT"}
OPERATORS = (*_POSITIVE, *_NEGATIONS)
"""CT and EX ask whether a list contains a value or not; the others ask it of some member."""


@dataclass(frozen=True, slots=True)
class Condition:
    """WHERE(keyword operator operand)."""

    keyword: str
    operator: str
    operand: str
    keyword_at: Position
    operand_at: Position
    mixed: bool = False
    """Whether the keyword has words for some values and numbers for others, which never compare."""

    def holds(self, row: Mapping[str, RowValue]) -> bool:
        """Whether the row has the keyword and its value compares so.

        Raises:
            Unfit: The value is a number and the operand is none.
        """
        if self.keyword not in row:
            return False
        value = row[self.keyword]
        members = value if isinstance(value, list) else [value]
        compares = _POSITIVE[_NEGATIONS.get(self.operator, self.operator)]
        if self.mixed:
            members = [member for member in members if isinstance(member, str) != self.operand.isdecimal()]
        some = any(compares(member, self._operand_for(member)) for member in members)
        return some != (self.operator in _NEGATIONS)

    def _operand_for(self, value: str | int | float) -> str | float:
        if isinstance(value, str) or self.operator in ("LK", "NL"):
            return self.operand
        try:
            return float(self.operand)
        except ValueError:
            raise InvalidValue from None


def lines_of(label: str, name: RowValue, row: Row, kind: ObjectKind | None = None) -> list[str]:
    """A row in MQ's manner: KEYWORD(value), two to a line."""
    lines = [f"{label.capitalize()} {name}".rstrip() + ":"]
    cells = [_cell(kind, keyword, value) for keyword, value in row.items()]
    half = ""
    for cell in cells:
        if half and len(half) < _COLUMN_CHARACTERS and len(cell) < _COLUMN_CHARACTERS:
            lines.append(f"   {half:<{_COLUMN_CHARACTERS}}{cell}")
            half = ""
        else:
            if half:
                lines.append(f"   {half}")
            half = cell
    return [*lines, f"   {half}"] if half else lines


def _cell(kind: ObjectKind | None, keyword: str, value: RowValue) -> str:
    attribute = kind.attribute(keyword) if kind else None
    if attribute and isinstance(attribute.form, Switch) and keyword == attribute.keyword:
        return attribute.form.on if value == "YES" else attribute.form.off
    text = ",".join(value) if isinstance(value, list) else str(value)
    return f"{keyword}({text or ' '})"
