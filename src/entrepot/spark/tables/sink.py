# SPDX-License-Identifier: Apache-2.0
"""Rows written as messages, each exactly once: to a queue, a topic, or wherever its column `destination` says.

A task puts its rows into units of work and prepares them; the driver lets
them happen all together (`ledger`). So a task that is tried again, a driver
that dies and a queue manager that is killed leave no row out and none twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from entrepot.client.blocking import Connection, UnitOfWork
from entrepot.client.options import PutOptions
from entrepot.errors import InvalidArgument
from entrepot.message import Message, MessageType
from entrepot.spark.tables.ledger import SinkLedger, finish_single_writes, unit_name
from entrepot.spark.tables.options import WritingOptions
from entrepot.spark.tables.reaching import reach, surely
from entrepot.spark.tables.rows import MESSAGE_COLUMNS, check_columns, messages_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_TOPIC = "topic://"
_UNIT_BYTES_MAX = 32 << 20
DESTINATION = "destination"
FILLED_BY_QUEUE_MANAGER = frozenset(
    {"queue", "put_time", "user", "application", "backout_count", "target_queue", "target_manager", "topic", "retained"}
)
"""Columns that tables of messages have and that only a queue manager fills; they are passed over."""
PASSED_OVER = FILLED_BY_QUEUE_MANAGER | {"source_message_id", "node", "error", "payload", "payload_error"}


@dataclass
class Prepared(WriterCommitMessage):
    """What a task tells the driver."""

    writer: str
    batch: int
    units: list[str] = field(default_factory=list)
    rows: int = 0


class _Putting:
    """One task's rows on their way into units of work."""

    def __init__(self, options: WritingOptions, writer: str, batch: int, partition: int) -> None:
        self._options = options
        self._connection: Connection = reach(options.url)
        self._partition = partition
        self._unit: UnitOfWork | None = None
        self._in_unit = 0
        self._unit_bytes = 0
        self.prepared = Prepared(writer, batch)

    def put_all(self, batches: Iterator[pa.RecordBatch]) -> Prepared:
        try:
            for batch in batches:
                self._put_batch(batch)
            self._prepare()
        except BaseException:
            if self._unit is not None and self._unit.state == "active":
                self._unit.back_out()
            raise
        return self.prepared

    def _put_batch(self, batch: pa.RecordBatch) -> None:
        names = set(batch.schema.names)
        columns = tuple(name for name in _PUT_COLUMNS if name in names)
        messages = messages_of(batch)
        count = len(messages)
        destinations = batch.column(DESTINATION).to_pylist() if DESTINATION in names else [None] * count
        decided = batch.column("persistent").to_pylist() if "persistent" in names else [None] * count
        ranks = batch.column("priority").to_pylist() if "priority" in names else [None] * count
        for message, destination, persistent, priority in zip(messages, destinations, decided, ranks, strict=True):
            options = _put_options(message, columns)
            chosen = self._options.persistent if persistent is None else persistent
            if chosen is not None:
                options["persistent"] = chosen
            if priority is not None:
                options["priority"] = priority
            self._put(destination or self._options.destination, message.body, options)

    def _put(self, destination: str, body: bytes, options: PutOptions) -> None:
        if not destination:
            raise InvalidArgument(
                "row", "it does not say where it goes", "a column destination, or option queue or topic"
            )
        if self._unit is None:
            self._unit = self._connection.unit_of_work()
        if destination.startswith(_TOPIC):
            self._unit.publish(destination.removeprefix(_TOPIC), body, **options)
        else:
            self._unit.put(destination, body, **options)
        self._in_unit += 1
        self._unit_bytes += len(body)
        if self._in_unit >= self._options.unit_messages or self._unit_bytes >= _UNIT_BYTES_MAX:
            self._prepare()

    def _prepare(self) -> None:
        if self._unit is None:
            return
        prepared = self.prepared
        name = unit_name(prepared.writer, self._options.sink, prepared.batch, self._partition)
        self._unit.prepare(name)
        prepared.units.append(name.decode())
        prepared.rows += self._in_unit
        self._unit, self._in_unit, self._unit_bytes = None, 0, 0


_PUT_COLUMNS = tuple(
    name for name in PutOptions.__annotations__ if name in MESSAGE_COLUMNS and name not in ("persistent", "priority")
)


def _put_options(message: Message, columns: Sequence[str]) -> PutOptions:
    options: dict[str, Any] = {}
    for name in columns:
        value = getattr(message, name)
        if value is None or value in (b"", ""):
            continue
        options[name] = MessageType(value) if name == "type" else value
    return options  # type: ignore[return-value]


def check_rows(schema: StructType, options: WritingOptions, *, overwrite: bool) -> None:
    """Refuse rows that could not be put, before any is.

    Raises:
        InvalidArgument: Says which column or option.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    if overwrite:
        raise InvalidArgument("mode", "a queue cannot be overwritten", "append")
    arrow = to_arrow_schema(schema, timezone="UTC")
    check_columns(arrow)
    known = {*MESSAGE_COLUMNS, DESTINATION, *PASSED_OVER}
    strange = [name for name in arrow.names if name not in known]
    if strange:
        expected = ", ".join([DESTINATION, *(name for name in MESSAGE_COLUMNS if name not in FILLED_BY_QUEUE_MANAGER)])
        raise InvalidArgument("rows", f"no message has {', '.join(strange)}", f"only these columns: {expected}")
    if not options.destination and DESTINATION not in arrow.names:
        raise InvalidArgument("option queue", "nothing says where rows go", "queue, topic, or a column destination")


def _units(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    """What tasks have prepared; a task that failed has told nothing."""
    return [name for message in messages if isinstance(message, Prepared) for name in message.units]


class BatchWriter(DataSourceArrowWriter):
    """`df.write`: all rows, or none."""

    def __init__(self, options: WritingOptions) -> None:
        self.options = options
        self.writer = secrets.token_hex(16)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Prepared:
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        return _Putting(self.options, self.writer, -1, partition).put_all(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        units = _units(messages)

        def decide(connection: Connection) -> None:
            ledger = SinkLedger(connection, self.writer, self.options.sink)
            written = ledger.written()
            ledger.commit(-1, units if written is None else written.units)
            ledger.forget()

        if units:
            surely(self.options.url, finish_single_writes)
            surely(self.options.url, decide)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        surely(
            self.options.url,
            lambda connection: SinkLedger(connection, self.writer, self.options.sink).abort(-1, _units(messages)),
        )


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`: each batch once, whatever happens to it on the way."""

    def __init__(self, options: WritingOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Prepared:
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        if context is None or not query:
            raise InvalidArgument("query", "Spark does not tell its id to the task", "a streaming query of Spark 4")
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        return _Putting(self.options, query, batch, context.partitionId()).put_all(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 -- Spark's name
        self._end(messages, lambda ledger, units: ledger.commit(batchId, units))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 -- Spark's name
        self._end(messages, lambda ledger, units: ledger.abort(batchId, units))

    def _end(self, messages: Sequence[WriterCommitMessage | None], verb: Any) -> None:
        # A batch of no partitions has no tasks, and so nothing to decide.
        query = next((message.writer for message in messages if isinstance(message, Prepared)), None)
        if query is not None:
            units = _units(messages)
            surely(self.options.url, lambda connection: verb(SinkLedger(connection, query, self.options.sink), units))
