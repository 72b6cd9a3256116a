# SPDX-License-Identifier: Apache-2.0
"""Messages as rows of a table, and back: one Arrow schema for the data source, archives and transforms.

A row has a column for every field of the descriptor, under its own name.
Properties are two maps: `properties` has each value as text, as a person
would write it (true, 42, 2.5, bytes as hex digits), and `property_types`
says bool, int, float or bytes for those that are no text. So nothing is lost
between put, table and put. No pyspark here: pyarrow alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import msgspec
import pyarrow as pa

from entrepot.errors import InvalidArgument
from entrepot.message import Message, MessageType, PropertyValue

TEXT_MAP = pa.map_(pa.string(), pa.string())
TIMESTAMP = pa.timestamp("us", tz="UTC")

DESCRIPTOR: dict[str, pa.DataType] = {
    "body": pa.binary(),
    "message_id": pa.binary(),
    "correlation_id": pa.binary(),
    "persistent": pa.bool_(),
    "priority": pa.int32(),
    "type": pa.int32(),
    "put_time": TIMESTAMP,
    "expiry_s": pa.float64(),
    "delay_s": pa.float64(),
    "reply_to": pa.string(),
    "reply_to_manager": pa.string(),
    "group_id": pa.binary(),
    "sequence": pa.int32(),
    "last_in_group": pa.bool_(),
    "report": pa.int32(),
    "feedback": pa.int32(),
    "format": pa.string(),
    "ccsid": pa.int32(),
    "encoding": pa.int32(),
    "user": pa.string(),
    "application": pa.string(),
    "properties": TEXT_MAP,
    "backout_count": pa.int32(),
    "target_queue": pa.string(),
    "target_manager": pa.string(),
    "topic": pa.string(),
    "retained": pa.bool_(),
}
"""The columns of a message, in the order of `Message`'s fields, so that a row is made from one without a loop."""

TYPES = "property_types"
MESSAGE_COLUMNS: dict[str, pa.DataType] = {**DESCRIPTOR, TYPES: TEXT_MAP}
QUEUE_SCHEMA = pa.schema([("queue", pa.string()), *MESSAGE_COLUMNS.items()])
"""What the data source gives, and what archives are made of."""

_DEFAULTS: dict[str, Any] = dict(zip(Message.__struct_fields__, msgspec.structs.astuple(Message(b"")), strict=True))
_TYPES_BY_NUMBER = {int(kind): kind for kind in MessageType}
_NO_PROPERTIES: dict[str, PropertyValue] = {}

# Whose authority counts is a queue manager's matter: no table shows it, and none can say it.
assert (*DESCRIPTOR, "authorized_as") == Message.__struct_fields__, "rows are made from fields in this order"


# --- properties ---------------------------------------------------------------------------------------


def property_text(value: PropertyValue) -> str:
    """A property's value as its column has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.hex() if isinstance(value, bytes) else repr(value)


def property_type(value: PropertyValue) -> str:
    """The name of its type, empty for text."""
    return "" if isinstance(value, str) else type(value).__name__


def property_value(text: str, kind: str) -> PropertyValue:
    """
    Raises:
        InvalidArgument: The text is none of that type.
    """
    read = _READERS.get(kind)
    try:
        if read is not None:
            return read(text)
    except ValueError:
        pass
    expected = f"one of {', '.join(filter(None, _READERS))}, and a value of it; true and false; bytes as hex digits"
    raise InvalidArgument("property_types", f"{text!r} is no {kind}", expected)


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


_READERS: dict[str, Callable[[str], PropertyValue]] = {
    "": str,
    "bool": _flag,
    "int": int,
    "float": float,
    "bytes": bytes.fromhex,
}


# --- messages to rows ---------------------------------------------------------------------------------


def message_arrays(messages: Sequence[Message]) -> list[pa.Array]:
    """The columns of MESSAGE_COLUMNS for some messages."""
    columns = list(zip(*map(msgspec.structs.astuple, messages), strict=True))[: len(DESCRIPTOR)]
    columns = columns or [()] * len(DESCRIPTOR)
    arrays = [_array(name, values, kind) for (name, kind), values in zip(DESCRIPTOR.items(), columns, strict=True)]
    arrays.append(_types_array(columns[_PROPERTIES]))
    return arrays


_PROPERTIES = list(DESCRIPTOR).index("properties")


def queue_batch(queue: str, messages: Sequence[Message]) -> pa.RecordBatch:
    """Messages of a queue as a batch of QUEUE_SCHEMA."""
    names = pa.array([queue], pa.string()).take(pa.array([0] * len(messages), pa.int32()))
    return pa.RecordBatch.from_arrays([names, *message_arrays(messages)], schema=QUEUE_SCHEMA)


def _array(name: str, values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    if name == "properties":
        return _maps([[(key, property_text(value)) for key, value in each.items()] for each in values])
    if name == "put_time":
        return pa.array([round(value * 1_000_000) if value else None for value in values], pa.int64()).cast(kind)
    return pa.array(values, kind)


def _types_array(properties: Sequence[Mapping[str, PropertyValue]]) -> pa.Array:
    return _maps(
        [[(key, kind) for key, value in each.items() if (kind := property_type(value))] for each in properties]
    )


def _maps(pairs: list[list[tuple[str, str]]]) -> pa.Array:
    return pa.array(pairs, TEXT_MAP)


# --- rows to messages ---------------------------------------------------------------------------------


def check_columns(schema: pa.Schema) -> None:
    """Refuse rows that cannot be messages; columns that are none of a message's are left alone.

    Raises:
        InvalidArgument: There is no body, or a column has a type that it cannot have. Says which.
    """
    if "body" not in schema.names:
        raise InvalidArgument("rows", f"they have no column body, only {', '.join(schema.names)}", "a column body")
    for field in schema:
        if field.name in MESSAGE_COLUMNS and not _fits(field.type, MESSAGE_COLUMNS[field.name]):
            expected = str(MESSAGE_COLUMNS[field.name]) + (" or string" if field.name == "body" else "")
            raise InvalidArgument(f"column {field.name}", f"it is {field.type}", expected)


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    if pa.types.is_null(kind) or kind == wanted:
        return True
    if types.is_binary(wanted) or types.is_string(wanted):
        # Text stands for its UTF-8, in a body and in ids.
        texts = types.is_string(kind) or types.is_large_string(kind)
        return bool(texts or (types.is_binary(wanted) and (types.is_large_binary(kind) or types.is_binary(kind))))
    if types.is_map(wanted):
        return bool(types.is_map(kind) and _fits(kind.key_type, pa.string()) and _fits(kind.item_type, pa.string()))
    if types.is_timestamp(wanted):
        return bool(types.is_timestamp(kind))
    if types.is_floating(wanted):
        return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind))
    return bool(types.is_integer(wanted) and types.is_integer(kind))


def messages_of(batch: pa.RecordBatch | pa.Table) -> list[Message]:
    """The messages that some rows say; what a row leaves out or has null is as a new message has it."""
    count = batch.num_rows
    names = set(batch.schema.names)
    columns: list[Any] = []
    for name in DESCRIPTOR:
        if name not in names:
            columns.append(repeat(_DEFAULTS[name], count))
        elif name == "properties":
            kinds = batch.column(TYPES) if TYPES in names else None
            columns.append(_properties(batch.column(name), kinds, count))
        else:
            columns.append(_values(name, batch.column(name)))
    return list(map(Message, *columns))


def _values(name: str, column: pa.Array | pa.ChunkedArray) -> Any:
    kind, default = DESCRIPTOR[name], _DEFAULTS[name]
    if column.null_count == len(column):
        return repeat(default, len(column))
    if column.type != kind:
        column = column.cast(kind)
    if name == "put_time":
        return [_seconds(value) for value in column.cast(pa.int64()).to_pylist()]
    values = column.to_pylist()
    if name == "type":
        return [_TYPES_BY_NUMBER.get(value, value) if value is not None else default for value in values]
    if column.null_count and default is not None:
        return [default if value is None else value for value in values]
    return values


def _seconds(microseconds: int | None) -> float:
    return 0.0 if microseconds is None else microseconds / 1_000_000


def _properties(values: Any, kinds: Any, count: int) -> Iterator[Mapping[str, PropertyValue]]:
    if _is_empty(values):
        return repeat(_NO_PROPERTIES, count)
    kind_maps = repeat(None, count) if kinds is None or _is_empty(kinds) else kinds.to_pylist()
    return map(_one_set_of_properties, values.to_pylist(), kind_maps)


def _is_empty(column: pa.Array | pa.ChunkedArray) -> bool:
    if column.null_count == len(column):
        return True
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    # Most messages have no properties; looking at the maps one by one would cost more than all other columns.
    return all(chunk.offsets[-1].as_py() == chunk.offsets[0].as_py() for chunk in chunks)


def _one_set_of_properties(
    texts: list[tuple[str, str]] | None, kinds: list[tuple[str, str]] | None
) -> Mapping[str, PropertyValue]:
    if not texts:
        return _NO_PROPERTIES
    named = dict(kinds) if kinds else {}
    return {name: property_value(text or "", named.get(name) or "") for name, text in texts}


# --- pieces -------------------------------------------------------------------------------------------


def cut(messages: Iterator[Message], bytes_max: int, rows_max: int) -> Iterator[list[Message]]:
    """Messages in pieces that are small enough for a batch each."""
    piece: list[Message] = []
    size = 0
    for message in messages:
        piece.append(message)
        size += len(message.body)
        if size >= bytes_max or len(piece) >= rows_max:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


cut_for_spark = partial(cut, bytes_max=1 << 20, rows_max=10_000)
"""As large as Spark's own batches."""
