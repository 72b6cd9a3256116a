# SPDX-License-Identifier: Apache-2.0
"""The columns of a model: what Arrow calls each of its members, and what a value of the tree is there.

STRING string · INTEGER long · DECIMAL decimal(38, n) · FLOAT double · BOOLEAN boolean · BINARY binary
DATE date · DATETIME timestamp · TIME string · structures structs · what repeats, arrays
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa

from entrepot.models import Element
from entrepot.models.logical import CwfField, Simple, Structure, StructureMember, TdsField, ValueType
from entrepot.spark.tables.rows import TIMESTAMP

_DIGITS_MAX = 38
_WIDE = Context(prec=2 * _DIGITS_MAX)
_DECIMALS_UNSAID = 10
"""Digits behind the point where the model does not say how many."""

_TYPES = {
    ValueType.STRING: pa.string(),
    ValueType.INTEGER: pa.int64(),
    ValueType.FLOAT: pa.float64(),
    ValueType.BOOLEAN: pa.bool_(),
    ValueType.BINARY: pa.binary(),
    ValueType.DATE: pa.date32(),
    ValueType.TIME: pa.string(),
    ValueType.DATETIME: TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class PayloadField:
    """A member of a structure as a field of a struct."""

    key: str
    """What the tree calls it."""
    column: str
    type: pa.DataType
    """Of one occurrence."""
    repeats: bool
    fields: tuple[PayloadField, ...] = ()
    value_type: ValueType | None = None

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(self.type) if self.repeats else self.type


# --- columns ------------------------------------------------------------------------------------------


def fields_of(structure: Structure, format_name: str) -> tuple[PayloadField, ...]:
    """The columns of a structure."""
    found: dict[str, PayloadField] = {}
    for field in _members(structure, format_name, repeated=False):
        # The same name may stand in several branches of a choice; Spark wants each name once, whatever its case.
        found.setdefault(field.column.lower(), field)
    return tuple(found.values())


def _members(structure: Structure, format_name: str, *, repeated: bool) -> list[PayloadField]:
    fields: list[PayloadField] = []
    for member in structure.members:
        repeats = repeated or member.max_occurs != 1
        content = member.content
        if not member.name:
            if isinstance(content, Structure):
                fields += _members(content, format_name, repeated=repeats)
            continue
        column = member.name[member.name.find("}") + 1 :]
        if isinstance(content, Simple):
            kind = _simple_type(content, member, format_name)
            fields.append(PayloadField(member.name, column, kind, repeats, (), content.type))
            continue
        inner = fields_of(content, format_name)
        if inner:
            kind = pa.struct([pa.field(field.column, field.arrow) for field in inner])
            fields.append(PayloadField(member.name, column, kind, repeats, inner))
    return fields


def _simple_type(content: Simple, member: StructureMember, format_name: str) -> pa.DataType:
    if content.type is not ValueType.DECIMAL:
        return _TYPES[content.type]
    physical = member.physical.get(format_name)
    decimals = physical.decimals if isinstance(physical, CwfField | TdsField) and physical.decimals > 0 else None
    return pa.decimal128(_DIGITS_MAX, _DECIMALS_UNSAID if decimals is None else decimals)


# --- values -------------------------------------------------------------------------------------------


def struct_of(element: Element, fields: tuple[PayloadField, ...]) -> dict[str, Any]:
    """The children of an element, by their columns."""
    return {field.column: _content(element, field) for field in fields}


def _content(element: Element, field: PayloadField) -> Any:
    if field.repeats:
        return [one_of(child, field) for child in element.all(field.key)]
    child = element.first(field.key)
    return None if child is None else one_of(child, field)


def one_of(child: Element, field: PayloadField) -> Any:
    """One occurrence of a member."""
    if field.fields:
        return struct_of(child, field.fields)
    return None if child.value is None else cell(child.value, field)


def cell(value: Any, field: PayloadField) -> Any:
    """A value of the tree as its column has it.

    Raises:
        ValueError, ArithmeticError, TypeError: It fits not.
    """
    kind = field.value_type
    if kind is ValueType.DECIMAL:
        return Decimal(value).quantize(Decimal(1).scaleb(-field.type.scale), ROUND_HALF_UP, _WIDE)
    if kind in (ValueType.STRING, ValueType.TIME):
        return value if isinstance(value, str) else str(value)
    if kind is ValueType.DATETIME and isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return value


MISFITS = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError)
"""What Arrow raises for a value that is none of its column's."""


def misfits(values: Sequence[Any], kind: pa.DataType) -> Iterator[tuple[int, Exception]]:
    """The places of values that are none of their column's, and what is wrong with each."""
    for place, value in enumerate(values):
        try:
            pa.array([value], kind)
        except MISFITS as error:
            yield place, error
