# SPDX-License-Identifier: Apache-2.0
"""Columns of records, as numpy has read them, as Arrow arrays with the types of the payload's fields.

Nothing is copied where Arrow can take numpy's buffers; padding of texts is
taken off by Arrow. What fits no column is named, and read again with the rest
of its record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entrepot.models.cwf.cells import Array, BlobCells, Cells, Mask, NumberCells, TextCells, ValueCells
from entrepot.models.cwf.columns import ColumnBatch, MemberColumn, RepeatedColumn, StructColumns, either
from entrepot.models.logical import ValueType
from entrepot.spark.tables.payload_fields import MISFITS, PayloadField, cell

_DECIMAL_LIMBS = 2


def payload_array(batch: ColumnBatch, fields: Sequence[PayloadField], kind: pa.DataType) -> tuple[pa.StructArray, Mask]:
    """A batch as an array of structs, and which of its records are to be read one by one."""
    arrays = _Arrays(batch)
    made = arrays.struct(batch.columns, fields, kind, len(batch.apart), None)
    return made, arrays.apart


class _Arrays:
    """Makes the arrays of one batch."""

    def __init__(self, batch: ColumnBatch) -> None:
        self.apart = batch.apart.copy()

    def struct(
        self, columns: StructColumns, fields: Sequence[PayloadField], kind: pa.DataType, items: int, absent: Mask | None
    ) -> pa.Array:
        made = [self.array(columns.members[field.key], field, items) for field in fields]
        return pa.Array.from_buffers(kind, items, [_valid(absent)], children=made)

    def array(self, column: MemberColumn, field: PayloadField, items: int) -> pa.Array:
        content, absent = column.content, column.absent
        if isinstance(content, RepeatedColumn):
            return self._lists(content, field, items, absent)
        if isinstance(content, StructColumns):
            return self.struct(content, field.fields, field.type, items, absent)
        nulls = either(content.nulls, absent)
        return self._cells(content, field, items, nulls)

    def _lists(self, repeats: RepeatedColumn, field: PayloadField, items: int, absent: Mask | None) -> pa.Array:
        count = repeats.count
        column = repeats.column
        if isinstance(column.content, StructColumns):
            values = self.struct(column.content, field.fields, field.type, items * count, column.absent)
        else:
            values = self.array(column, field, items * count)
        sizes = np.full(items, count, np.int32)
        if absent is not None and absent.any():
            # What is not there has no elements in the tree, so its list is empty and not null.
            sizes[absent] = 0
            values = values.filter(pa.array(np.repeat(~absent, count)))
        offsets = np.zeros(items + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), values)

    def _cells(self, cells: Cells, field: PayloadField, items: int, nulls: Mask | None) -> pa.Array:
        if isinstance(cells, TextCells):
            return _texts(cells, items, nulls)
        if isinstance(cells, BlobCells):
            return pa.Array.from_buffers(
                pa.binary(), items, [_valid(nulls), *_same_sizes(cells.width, cells.data, items)]
            )
        if isinstance(cells, NumberCells):
            if field.value_type is ValueType.DECIMAL:
                return _decimals(cells.values, cells.scale, field.type, nulls)
            if field.value_type is ValueType.BOOLEAN:
                return pa.array(cells.values, field.type, mask=nulls)
            return pa.Array.from_buffers(field.type, items, [_valid(nulls), pa.py_buffer(cells.values)])
        assert isinstance(cells, ValueCells)
        return self._values(cells.values, replace(field, repeats=False), nulls)

    def _values(self, values: list[Any], field: PayloadField, nulls: Mask | None) -> pa.Array:
        if nulls is not None:
            values = [None if null else value for value, null in zip(values, nulls.tolist(), strict=True)]
        made, misfitting = values_array(values, field)
        for place in misfitting:
            # A record may have several of the values.
            self.apart[place // (len(values) // len(self.apart))] = True
        return made


def values_array(values: Sequence[Any], field: PayloadField) -> tuple[pa.Array, list[int]]:
    """Values of the tree as an array of their column; and the places of those that fit not, and are null.

    Of a field that is a structure or repeats, `one_of` was asked before.
    """
    single = not field.repeats and not field.fields
    try:
        made = [None if value is None else cell(value, field) for value in values] if single else list(values)
        return pa.array(made, field.arrow), []
    except (*MISFITS, ValueError, ArithmeticError, TypeError):
        pass
    made, misfitting = [], []
    for place, value in enumerate(values):
        try:
            one = cell(value, field) if single and value is not None else value
            pa.array([one], field.arrow)
        except (*MISFITS, ValueError, ArithmeticError, TypeError):
            one = None
            misfitting.append(place)
        made.append(one)
    return pa.array(made, field.arrow), misfitting


def _valid(nulls: Mask | None) -> pa.Buffer | None:
    return None if nulls is None else pa.array(~nulls).buffers()[1]


def _same_sizes(width: int, data: Array, items: int) -> tuple[pa.Buffer, pa.Buffer]:
    """Offsets and data of texts or BLOBs that are all as long."""
    return pa.py_buffer(np.arange(items + 1, dtype=np.int32) * np.int32(width)), pa.py_buffer(data)


def _texts(cells: TextCells, items: int, nulls: Mask | None) -> pa.Array:
    offsets, data = _same_sizes(cells.width, cells.data, items)
    found = pa.StringArray.from_buffers(items, offsets, data, _valid(nulls))
    if cells.padding and _padded(cells, items):
        trimming = "ascii_rtrim" if cells.left else "ascii_ltrim"
        found = pc.call_function(trimming, [found], pc.TrimOptions(cells.padding))
    if cells.others:
        others = np.zeros(items, np.bool_)
        others[list(cells.others)] = True
        if nulls is not None:
            others &= ~nulls
        texts = [text for place, text in cells.others.items() if others[place]]
        found = pc.replace_with_mask(found, pa.array(others), pa.array(texts, pa.string()))
    return found


def _padded(cells: TextCells, items: int) -> bool:
    """Whether there is anything to take off: of long texts that fill their field a copy would cost most of all."""
    outermost = cells.data.reshape(items, cells.width)[:, -1 if cells.left else 0]
    return bool((outermost == ord(cells.padding)).any())


def _decimals(values: Array, scale: int, kind: pa.DataType, nulls: Mask | None) -> pa.Array:
    """Arrow's decimals are integers of 128 bits; those of 64 are their lower half, and their sign the upper one."""
    halves = np.empty((len(values), _DECIMAL_LIMBS), "<i8")
    halves[:, 0] = values
    halves[:, 1] = values >> 63
    stored = pa.decimal128(kind.precision, scale)
    made = pa.Array.from_buffers(stored, len(values), [_valid(nulls), pa.py_buffer(halves)])
    return made if stored == kind else made.cast(kind)
