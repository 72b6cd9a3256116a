# SPDX-License-Identifier: Apache-2.0
"""Queues read as tables in a batch job: a look at the messages, which stay where they are.

Many tasks may look at once: each at a stretch of a queue, up to where the
queue ended when the query was planned. Spark may read the same rows again
whenever a task is retried, so a batch job never takes messages off; a stream
does (`stream_source`), and with `trigger(availableNow=True)` it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, InputPartition

from entrepot.client.options import criteria
from entrepot.engine.criteria import Criteria
from entrepot.errors import InvalidArgument
from entrepot.message import Message
from entrepot.spark.tables.options import ReadingOptions
from entrepot.spark.tables.payload import PayloadColumns
from entrepot.spark.tables.places import LaneStretch, extents, messages_within
from entrepot.spark.tables.reaching import reach, surely
from entrepot.spark.tables.rows import cut_for_spark, queue_batch

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Stretch(InputPartition):
    """What one task reads."""

    queue: str
    extent: LaneStretch


def wanted(selector: str) -> Criteria | None:
    return criteria({"selector": selector}) if selector else None


def with_payload(queue: str, messages: list[Message], payload: PayloadColumns | None) -> pa.RecordBatch:
    """Messages as a batch of rows, with the columns of their model if one was named."""
    import pyarrow as pa

    batch = queue_batch(queue, messages)
    if payload is None:
        return batch
    schema = pa.schema([*batch.schema, *payload.columns])
    return pa.RecordBatch.from_arrays([*batch.columns, *payload.arrays(messages)], schema=schema)


class QueueReader(DataSourceReader):
    """One batch read."""

    def __init__(self, options: ReadingOptions, payload: PayloadColumns | None) -> None:
        self.options = options
        self.payload = payload
        if options.consume:
            raise InvalidArgument(
                "option mode", "a batch read may be repeated by Spark, and takes no messages", "browse; or a stream"
            )
        wanted(options.selector)  # refuses a wrong selector before anything starts
        self.names: list[str] | None = None
        """Queues that a filter leaves; None: all."""

    def partitions(self) -> list[InputPartition]:
        options = self.options
        found = surely(options.url, options.names)
        if self.names is not None:
            found = [name for name in found if name in self.names]
        stretches: list[InputPartition] = []
        for name in found:
            whole = surely(options.url, lambda connection, name=name: extents(connection, name))  # type: ignore[misc]
            stretches += [Stretch(name, part) for extent in whole for part in extent.split(options.partitions)]
        return stretches

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        if partition is None:
            return
        connection = reach(self.options.url)
        seen = messages_within(connection, partition.queue, partition.extent, wanted(self.options.selector))
        for piece in cut_for_spark(seen):
            yield with_payload(partition.queue, piece, self.payload)


class FilteringQueueReader(QueueReader):
    """A batch read that is told the query's filters. Spark refuses such a reader where pushing filters is off."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 -- Spark's name
        """Leave out queues that the query does not ask for; all else is Spark's to filter."""
        for each in filters:
            if isinstance(each, EqualTo) and each.attribute == ("queue",):
                self.names = [str(each.value)]
            yield each
