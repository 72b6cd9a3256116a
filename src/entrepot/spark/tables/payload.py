# SPDX-License-Identifier: Apache-2.0
"""Modelled payloads as typed columns: a struct `payload` as the message's model has it, and `payload_error`.

A body that its model cannot read leaves `payload` null and says why, with
path and offset, in `payload_error`; the rows beside it know nothing of that.

    STRING string · INTEGER long · DECIMAL decimal(38, n) · FLOAT double · BOOLEAN boolean · BINARY binary
    DATE date · DATETIME timestamp · TIME string · structures structs · what repeats, arrays
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa

from entrepot.errors import EntrepotError, InvalidArgument, MessageUnreadable, ModelNotFound
from entrepot.message import Message
from entrepot.models import MRM, Element, MessageFormat, MessageSet, find_set, load_set, register_set
from entrepot.models.assembling import parse_message
from entrepot.models.logical import CwfField, Simple, Structure, StructureMember, TdsField, ValueType
from entrepot.spark.tables.rows import TIMESTAMP

COLUMN = "payload"
ERROR = "payload_error"
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


class PayloadColumns:
    """One message of a set in one format, as columns."""

    def __init__(self, model: MessageFormat) -> None:
        self.model = model
        MRM.codec(model)  # tells now if there is no such message or format
        self.fields = _fields(model.set.messages[model.message].structure, model.format)
        self.columns: list[pa.Field] = [
            pa.field(COLUMN, pa.struct([pa.field(field.column, field.arrow) for field in self.fields])),
            pa.field(ERROR, pa.string()),
        ]

    @classmethod
    def load(cls, model: str, message_type: str, message_format: str) -> PayloadColumns:
        """From the options of a data source: a file, or the name of a registered set.

        Raises:
            ModelInvalid, ModelNotFound, InvalidArgument: Says what is wrong with the model or its names.
        """
        found = load_set(model) if "." in model else find_set(model)
        return cls(MessageFormat(found, *_chosen(found, message_type, message_format)))

    def arrays(self, messages: Sequence[Message]) -> list[pa.Array]:
        """The two columns for some messages."""
        values, errors = [], []
        for message in messages:
            value, error = self.read(message)
            values.append(value)
            errors.append(error)
        kind = self.columns[0].type
        return [_array(values, errors, kind), pa.array(errors, pa.string())]

    def read(self, message: Message) -> tuple[dict[str, Any] | None, str | None]:
        """The fields of a message, or why there are none."""
        model = self.model
        register_set(model.set)  # where this was unpickled, the set is not registered yet
        try:
            assembly = parse_message(
                message,
                domain="MRM",
                message_set=model.set.name,
                message_type=model.message,
                message_format=model.format,
            )
            body = assembly.root.children[-1]
            return _struct(body, self.fields), None
        except (MessageUnreadable, ModelNotFound) as error:
            return None, error.what
        except EntrepotError as error:
            return None, str(error)
        except (ValueError, ArithmeticError, TypeError) as error:
            return None, f"a value fits no column: {error}"


def _array(values: list[Any], errors: list[str | None], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        pass
    # Some value is none of its column's; find whose it is, and let the others be.
    for index, value in enumerate(values):
        try:
            pa.array([value], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            values[index], errors[index] = None, f"a value fits no column: {error}"
    return pa.array(values, kind)


def _chosen(found: MessageSet, message_type: str, message_format: str) -> tuple[str, str]:
    if not message_type and len(found.messages) != 1:
        names = " or ".join(found.messages)
        raise InvalidArgument("option messageType", f"{found.name} has {len(found.messages)} messages", names)
    # Of several formats the first is what the model's file is about; a copybook also has an XML one.
    return message_type or next(iter(found.messages)), message_format or next(iter(found.formats))


# --- columns ------------------------------------------------------------------------------------------


def _fields(structure: Structure, format_name: str) -> tuple[PayloadField, ...]:
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
        inner = _fields(content, format_name)
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


def _struct(element: Element, fields: tuple[PayloadField, ...]) -> dict[str, Any]:
    return {field.column: _content(element, field) for field in fields}


def _content(element: Element, field: PayloadField) -> Any:
    if field.repeats:
        return [_one(child, field) for child in element.all(field.key)]
    child = element.first(field.key)
    return None if child is None else _one(child, field)


def _one(child: Element, field: PayloadField) -> Any:
    if field.fields:
        return _struct(child, field.fields)
    value = child.value
    if value is None:
        return None
    kind = field.value_type
    if kind is ValueType.DECIMAL:
        return Decimal(value).quantize(Decimal(1).scaleb(-field.type.scale), ROUND_HALF_UP, _WIDE)
    if kind in (ValueType.STRING, ValueType.TIME):
        return value if isinstance(value, str) else str(value)
    if kind is ValueType.DATETIME and isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return value
