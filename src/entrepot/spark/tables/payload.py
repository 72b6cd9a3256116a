# SPDX-License-Identifier: Apache-2.0
"""Modelled payloads as typed columns: a struct `payload` as the message's model has it, and `payload_error`.

A body that its model cannot read leaves `payload` null and says why, with
path and offset, in `payload_error`; the rows beside it know nothing of that.

    records of fixed length (CWF) ─▶ all at once, by numpy         record_arrays
    all other bodies              ─▶ one by one, by their codec
    what neither can tell         ─▶ as a flow would read it       PayloadColumns.read

The first two give what the third would give, or leave a message to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from entrepot.errors import EntrepotError, InvalidArgument, MessageUnreadable, ModelNotFound
from entrepot.message import Message
from entrepot.models import MRM, Element, MessageFormat, MessageSet, find_set, load_set, register_set
from entrepot.models.assembling import announces_header, parse_message
from entrepot.models.cwf import CwfCodec
from entrepot.spark.tables.payload_fields import MISFITS, PayloadField, fields_of, misfits, one_of, struct_of
from entrepot.spark.tables.record_arrays import payload_array, values_array

COLUMN = "payload"
ERROR = "payload_error"

RECORDS_MIN = 16
"""Fewer records than this are read faster one by one."""
BATCH_BYTES_MAX = 1 << 26
"""Records that are read at once; several arrays of their size are made of them."""

_FAILURES = (EntrepotError, ValueError, ArithmeticError, TypeError)
"""What reading a body and making values of it may raise."""


class PayloadColumns:
    """One message of a set in one format, as columns."""

    def __init__(self, model: MessageFormat) -> None:
        self.model = model
        MRM.codec(model)  # tells now if there is no such message or format
        self.fields = fields_of(model.set.messages[model.message].structure, model.format)
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
        return _PayloadReading(self, messages).arrays()

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
            return struct_of(body, self.fields), None
        except _FAILURES as error:
            return None, _reason(error)


def _reason(error: Exception) -> str:
    if isinstance(error, MessageUnreadable | ModelNotFound):
        return error.what
    return str(error) if isinstance(error, EntrepotError) else f"a value fits no column: {error}"


def _array(values: list[Any], errors: list[str | None], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except MISFITS:
        pass
    # Some value is none of its column's; find whose it is, and let the others be.
    for index, error in misfits(values, kind):
        values[index], errors[index] = None, f"a value fits no column: {error}"
    return pa.array(values, kind)


def _chosen(found: MessageSet, message_type: str, message_format: str) -> tuple[str, str]:
    if not message_type and len(found.messages) != 1:
        names = " or ".join(found.messages)
        raise InvalidArgument("option messageType", f"{found.name} has {len(found.messages)} messages", names)
    # Of several formats the first is what the model's file is about; a copybook also has an XML one.
    return message_type or next(iter(found.messages)), message_format or next(iter(found.formats))


class _PayloadReading:
    """Makes the columns of some messages, in pieces whose rows are put into order at the end."""

    def __init__(self, payload: PayloadColumns, messages: Sequence[Message]) -> None:
        self._payload = payload
        self._messages = messages
        self._kind = payload.columns[0].type
        self._codec = MRM.codec(payload.model)
        self._pieces: list[pa.Array] = []
        self._rows = 0
        self._row_of = np.zeros(len(messages), np.int64)
        """Where in the pieces the row of each message is."""
        self._errors: list[str | None] = [None] * len(messages)

    def arrays(self) -> list[pa.Array]:
        alike: dict[tuple[int, int, str], list[int]] = {}
        for place, message in enumerate(self._messages):
            key = (message.ccsid, message.encoding, message.format)
            held = alike.get(key)
            if held is None:
                alike[key] = [place]
            else:
                held.append(place)
        single: list[int] = []
        apart: list[int] = []
        for (ccsid, encoding, message_format), places in alike.items():
            if announces_header(message_format):
                apart += places
            else:
                left, failed = self._read_records(places, ccsid, encoding)
                single += left
                apart += failed
        apart += self._read_each(single)
        self._read_as_flow(apart)
        return [self._in_order(), pa.array(self._errors, pa.string())]

    def _read_records(self, places: list[int], ccsid: int, encoding: int) -> tuple[list[int], list[int]]:
        """All that can be read at once; gives back which messages are none of it, and which have failed."""
        codec = self._codec
        columns = codec.columns(ccsid, encoding) if isinstance(codec, CwfCodec) and len(places) >= RECORDS_MIN else None
        if columns is None:
            return places, []
        messages, size = self._messages, columns.size
        records = [place for place in places if len(messages[place].body) == size]
        if len(records) < RECORDS_MIN:
            return places, []
        failed: list[int] = []
        step = max(BATCH_BYTES_MAX // size, 1)
        for first in range(0, len(records), step):
            part = records[first : first + step]
            batch = columns.read([messages[place].body for place in part])
            made, wrong = payload_array(batch, self._payload.fields, self._kind)
            self._add(made, part)
            failed += [part[index] for index in np.flatnonzero(wrong).tolist()]
        if len(records) == len(places):
            return [], failed
        return [place for place in places if len(messages[place].body) != size], failed

    def _read_each(self, places: list[int]) -> list[int]:
        """One by one by the codec, straight into columns; gives back which have values that fit no column."""
        if not places:
            return []
        fields, parse, messages = self._payload.fields, self._codec.parse, self._messages
        keys = None if any(field.repeats for field in fields) else [field.key for field in fields]
        nothing = [None] * len(fields)
        rows: list[list[Any]] = []
        unreadable = np.zeros(len(places), np.bool_)
        for index, place in enumerate(places):
            message = messages[place]
            try:
                elements = parse(message.body, message.ccsid, message.encoding)
                in_order = keys is not None and [element.key for element in elements] == keys
                found = elements if in_order else _ordered(elements, fields)
                rows.append([_content(one, field) for one, field in zip(found, fields, strict=True)])
            except _FAILURES as error:
                self._errors[place] = _reason(error)
                unreadable[index] = True
                rows.append(nothing)
        misfitting: set[int] = set()
        made: list[pa.Array] = []
        for field, values in zip(fields, zip(*rows, strict=True), strict=True):
            array, misfits = values_array(values, field)
            made.append(array)
            misfitting.update(misfits)
        self._add(pa.StructArray.from_arrays(made, fields=list(self._kind), mask=pa.array(unreadable)), places)
        return [places[index] for index in sorted(misfitting)]

    def _read_as_flow(self, places: list[int]) -> None:
        if not places:
            return
        values: list[Any] = []
        errors: list[str | None] = []
        for place in places:
            value, error = self._payload.read(self._messages[place])
            values.append(value)
            errors.append(error)
        self._add(_array(values, errors, self._kind), places)
        for place, error in zip(places, errors, strict=True):
            self._errors[place] = error

    def _add(self, piece: pa.Array, places: Sequence[int]) -> None:
        """A piece has the rows of messages at these places, in this order; what an earlier one has of them is void."""
        self._row_of[places] = np.arange(self._rows, self._rows + len(places))
        self._pieces.append(piece)
        self._rows += len(piece)

    def _in_order(self) -> pa.Array:
        if not self._pieces:
            return pa.array([], self._kind)
        whole = self._pieces[0] if len(self._pieces) == 1 else pa.concat_arrays(self._pieces)
        if len(whole) == len(self._row_of) and (np.diff(self._row_of) == 1).all():
            return whole
        return whole.take(pa.array(self._row_of))


def _ordered(elements: Sequence[Element], fields: Sequence[PayloadField]) -> list[Element | list[Element] | None]:
    """The element of each field, or all of them where it repeats."""
    named: dict[str, list[Element]] = {}
    for element in elements:
        named.setdefault(element.key, []).append(element)
    return [named.get(field.key, []) if field.repeats else named.get(field.key, [None])[0] for field in fields]


def _content(found: Element | list[Element] | None, field: PayloadField) -> Any:
    if found is None:
        return None
    if isinstance(found, list):
        return [one_of(element, field) for element in found]
    # Values alone are made fit for their column later, all at once.
    return one_of(found, field) if field.fields else found.value
