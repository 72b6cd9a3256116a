# SPDX-License-Identifier: Apache-2.0
"""Fields in the tree: the text as it came, and its parts on first access.

    F98A  ':SETT//20240103'
      ├ Qualifier  'SETT'
      └ Date       '20240103'

Most programs look into a few of a message's two hundred fields, so the parts
are made only when children are asked for. When a field with parts is
written, the parts count, not the text; setting the text of a field that was
read throws the parts away.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from entrepot.models.element_types import NAME, NAME_VALUE
from entrepot.models.swift.field_formats import FieldFormat
from entrepot.models.swift.format_notation import FormatUnit
from entrepot.models.swift.rules import field_formats
from entrepot.models.tree import Element, Folder


class FieldElement(Element):
    """A field of block 4 as it was read."""

    __slots__ = ()

    def __init__(self, key: str, value: Any = None, parent: Element | None = None) -> None:
        self.key = key
        self.value = value
        self.kind = NAME_VALUE
        self.parent = parent
        self._children = None
        self._index = None
        self._has_changed = False

    def is_leaf(self) -> bool:
        return not self.children

    def load(self) -> list[Element]:
        """The parts; none when the text does not have the field's shape."""
        form = field_formats().get(self.key[1:])
        parts = form.split(self.value) if form is not None and isinstance(self.value, str) else None
        return self.fill([Element(name, text, NAME_VALUE) for name, text in parts or ()])

    def set_value(self, value: Any) -> None:
        self._children = None
        self._index = None
        super().set_value(value)

    def copy(self) -> Element:
        return self._twin() if self._children is None else super().copy()

    def _twin(self) -> FieldElement:
        return FieldElement(self.key, self.value)


class TextBlock(Element):
    """Block 4 as it was read: it leaves as its text while nothing in it has changed."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__("Block4", None, NAME)
        self.text = text

    def as_it_came(self, message: Element) -> bool:
        """Whether nothing has changed here since the message was read."""
        if self._has_changed or self.value is not None or self.parent is not message or type(message) is not Folder:
            return False
        touched = message.touched
        # Each of them leads up to its block; of many, asking costs more than writing.
        return not touched or (len(touched) <= _TOUCHED_MAX and not any(self._has(element) for element in touched))

    def _has(self, element: Element) -> bool:
        above: Element | None = element
        while above is not None and above is not self:
            above = above.parent
        return above is self


_TOUCHED_MAX = 20


def field_text(field: Element, form: FieldFormat) -> str:
    """What is written for a field: its parts where it has any, else its text.

    Raises:
        ValueError: It has neither, or parts that do not fit together; says what.
    """
    children = field._children
    if children is None and type(field) is not FieldElement:
        children = field.children
    if children:
        units = form.units
        return form.join((part.key, part_text(part.value, part.key, units.get(part.key))) for part in children)
    value = field.value
    if value.__class__ is str:
        return value
    if value is None:
        raise ValueError("it has neither a text nor parts")
    if len(form.parts) == 1:
        return part_text(value, form.parts[0], form.units[form.parts[0]])
    raise ValueError(f"its text is {type(value).__name__}, not characters; set its parts instead")


def part_text(value: Any, name: str, unit: FormatUnit | None) -> str:
    """Numbers, days and times as SWIFT writes them; characters stay.

    Raises:
        ValueError: It cannot be said in this part.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and unit is not None:
        number = Decimal(value)
        if not number.is_finite() or number < 0:
            raise ValueError(f"{name} {value} is not a number from 0 on; SWIFT writes the sign as a part of its own")
        if unit.charset == "d":
            whole, _, fraction = format(number, "f").partition(".")
            return f"{whole},{fraction}"
        if number == int(number):
            return str(int(number)).zfill(unit.length if unit.exact and unit.charset == "n" else 0)
    if isinstance(value, datetime.date) and unit is not None and unit.whole.startswith("date"):
        return value.strftime({"date8": "%Y%m%d", "date6": "%y%m%d", "date4": "%m%d"}[unit.whole])
    if isinstance(value, datetime.time) and unit is not None and unit.whole.startswith("time"):
        return value.strftime("%H%M%S" if unit.whole == "time6" else "%H%M")
    raise ValueError(f"{name} cannot be {value!r}")
