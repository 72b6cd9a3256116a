# SPDX-License-Identifier: Apache-2.0
"""The published figures as a Spark table, each with the scenario and the point that measure it again."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from entrepot.workbench.catalogue import place_of
from entrepot.workbench.published import PublishedRow, published_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW = "published"
SCHEMA = """source string, table string, system string, test string, qos string, transaction string, binding string,
message_bytes int, threads int, senders int, receivers int, apps int, rate_per_app_hour int, channel_pairs int,
subscribers int, destinations int, instances int, execution_groups int, input_format string, output_format string,
metric string, value double, unit string, scenario string, point string"""
"""The columns of documents/published.csv, where `test` is `scenario`, and behind them our place for the row."""


def published(spark: SparkSession) -> DataFrame:
    """All 1,135 rows; also as the view `published`, for SQL."""
    frame = spark.createDataFrame([(*_values(row), *place) for row, place in placed_rows()], SCHEMA)
    frame.createOrReplaceTempView(VIEW)
    return frame


@cache
def placed_rows() -> tuple[tuple[PublishedRow, tuple[str, str]], ...]:
    """Each published row and its place."""
    return tuple((row, place_of(row)) for row in published_rows())


def _values(row: PublishedRow) -> list[object]:
    # A column that does not concern a row is null, so that SQL's aggregates pass over it.
    values = (getattr(row, name) for name in PublishedRow.__dataclass_fields__)
    return [None if value == "" else value for value in values]
