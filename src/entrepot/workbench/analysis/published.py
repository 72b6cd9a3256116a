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


def published(spark: SparkSession) -> DataFrame:
    """All 1,135 rows, with the columns of documents/published.csv; also as the view `published`, for SQL.

    The file's own `scenario` is `test` here, as `scenario` and `point` are our place for the row. A column that
    does not concern a row is null, so that SQL's aggregates pass over it.
    """
    import pyarrow

    types = {"int | None": pyarrow.int32(), "float": pyarrow.float64(), "str": pyarrow.string()}
    columns = {}
    for name, kind in PublishedRow.__annotations__.items():
        values = [getattr(row, name) for row, _ in placed_rows()]
        filled = [None if value == "" else value for value in values]
        columns["test" if name == "scenario" else name] = pyarrow.array(filled, type=types[kind])
    columns["scenario"] = pyarrow.array([scenario for _, (scenario, _) in placed_rows()])
    columns["point"] = pyarrow.array([point for _, (_, point) in placed_rows()])
    frame = spark.createDataFrame(pyarrow.table(columns))
    frame.createOrReplaceTempView(VIEW)
    return frame


@cache
def placed_rows() -> tuple[tuple[PublishedRow, tuple[str, str]], ...]:
    """Each published row and its place."""
    return tuple((row, place_of(row)) for row in published_rows())
