# SPDX-License-Identifier: Apache-2.0
"""The data source `entrepot`: queues as tables and streams, rows as messages.

    register(spark)  # where `pyspark_entrepot` is importable, Spark does so by itself
    orders = spark.read.format("entrepot").option("url", "unix:./qm1").option("queue", "ORDERS").load()
    rows.write.format("entrepot").option("url", "unix:./qm1").option("queue", "DONE").mode("append").save()

docs/SPARK.md has all options and what they promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema

from entrepot.spark.tables.options import ReadingOptions, WritingOptions
from entrepot.spark.tables.payload import PayloadColumns
from entrepot.spark.tables.rows import QUEUE_SCHEMA
from entrepot.spark.tables.sink import BatchWriter, StreamWriter, check_rows
from entrepot.spark.tables.source import FilteringQueueReader, QueueReader
from entrepot.spark.tables.stream_source import BrowsingReader, ConsumingReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAME = "entrepot"
_PUSHES_FILTERS = "spark.sql.python.filterPushdown.enabled"


class EntrepotDataSource(DataSource):
    """What Spark asks for by `format("entrepot")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def _reading(self) -> tuple[ReadingOptions, PayloadColumns | None]:
        options = ReadingOptions.read(self.options)
        payload = (
            PayloadColumns.load(options.model, options.message_type, options.message_format) if options.model else None
        )
        return options, payload

    def schema(self) -> StructType:
        _, payload = self._reading()
        fields = [*QUEUE_SCHEMA, *(payload.columns if payload is not None else ())]
        return from_arrow_schema(pa.schema(fields))

    def reader(self, schema: StructType) -> QueueReader:
        del schema
        return QueueReader(*self._reading())

    def streamReader(self, schema: StructType) -> ConsumingReader | BrowsingReader:  # noqa: N802 -- Spark's name
        del schema
        options, payload = self._reading()
        return ConsumingReader(options, payload) if options.consume else BrowsingReader(options, payload)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        options = WritingOptions.read(self.options)
        check_rows(schema, options, overwrite=overwrite)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 -- Spark's name
        options = WritingOptions.read(self.options)
        check_rows(schema, options, overwrite=overwrite)
        return StreamWriter(options)


class FilteringDataSource(EntrepotDataSource):
    """The same for sessions that hand filters on to data sources."""

    def reader(self, schema: StructType) -> FilteringQueueReader:
        del schema
        return FilteringQueueReader(*self._reading())


def register(spark: SparkSession) -> None:
    """Let any session know the data source, and hand filters on to it; doing it again does no harm."""
    spark.conf.set(_PUSHES_FILTERS, "true")
    spark.dataSource.register(FilteringDataSource)
