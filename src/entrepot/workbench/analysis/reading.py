# SPDX-License-Identifier: Apache-2.0
"""The raw observations of any number of runs as Spark tables, with the schemas of measuring/observations.py.

Only trials that came to an end count: a folder without trial.json is what an
interruption left. The records (one small file a trial) are read here, where a
broken one can be named; the observations, of which there may be billions of
rows, stay in their files until an executor wants them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from entrepot.errors import RunNotFound
from entrepot.workbench.measuring.observations import CALLS, RECEIVED, SAMPLES, SENT
from entrepot.workbench.measuring.record import RunRecord, TrialRecord, read_run, read_trials

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS = {"sent": SENT, "received": RECEIVED, "calls": CALLS, "samples": SAMPLES}
_SQL_TYPES = {"measure": "string", "subject": "string", "value": "double", "trial": "string"}
"""Of the columns that are not nanoseconds or numbers."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The observations as tables, and the records as they were read."""

    sent: DataFrame
    received: DataFrame
    """With `arrival`, the row's place in its file: receivers note in the order in which messages came."""
    calls: DataFrame
    samples: DataFrame
    records: Mapping[str, TrialRecord]
    run_records: tuple[RunRecord, ...]


def read(spark: SparkSession, runs: Sequence[Path]) -> Tables:
    """Tables over the runs' folders, which all of Spark's processes have to see under the same path.

    Raises:
        RunNotFound: A folder is no run, a file in it cannot be read, or a trial is in two of them.
    """
    folders = list(dict.fromkeys(folder.resolve() for folder in runs))
    run_records = tuple(read_run(folder) for folder in folders)
    records: dict[str, TrialRecord] = {}
    files: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    for folder in folders:
        for name, record in read_trials(folder).items():
            if record.trial in records:
                raise RunNotFound(str(folder), f"its trial {record.trial} is in another of these runs, too")
            records[record.trial] = record
            for kind, found in files.items():
                path = folder / "trials" / name / f"{kind}.parquet"
                if path.exists():
                    _require_readable(folder, path, KINDS[kind])
                    found.append(path)
    with _listing_here(spark):
        observations = {kind: _table(spark, files, kind) for kind in KINDS}
    return Tables(
        **observations,
        records=records,
        run_records=run_records,
    )


@contextlib.contextmanager
def naming_broken_files() -> Iterator[None]:
    """Turn Spark's complaint about a file whose rows cannot be read into ours, which names it."""
    try:
        yield
    except Exception as error:  # of Java, of Spark or of Py4J, by how far it has come
        found = re.search(r"file:/*(/[^\n]+?/trials/[^/\n]+/\w+\.parquet)", str(error))
        if found is None:
            raise
        path = Path(found[1])
        raise RunNotFound(str(path.parent.parent.parent), f"{path.parent.name}/{path.name} cannot be read") from error


def _table(spark: SparkSession, files: Mapping[str, list[Path]], kind: str) -> DataFrame:
    columns = ("trial", *KINDS[kind])
    schema = ", ".join(f"{name} {_SQL_TYPES.get(name, 'bigint')}" for name in columns)
    if not files[kind]:
        return spark.createDataFrame([], schema + (", arrival bigint" if kind == "received" else ""))
    # Without recursiveFileLookup, a folder whose name has a `=` would be taken for a column.
    reader = spark.read.schema(schema).option("recursiveFileLookup", "true")
    found = reader.parquet(*(_literal(path) for path in files[kind]))
    return found.selectExpr("*", "_metadata.row_index AS arrival") if kind == "received" else found


def _literal(path: Path) -> str:
    """As Hadoop wants it: not encoded, and with a backslash before what would be a pattern."""
    return "file://" + re.sub(r"([\\{}\[\]*?,])", r"\\\1", str(path))


@contextlib.contextmanager
def _listing_here(spark: SparkSession) -> Iterator[None]:
    """Let Spark look at the files from here, one after the other: a job that does it takes longer than it saves."""
    key = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    before = spark.conf.get(key)
    spark.conf.set(key, "1000000")
    try:
        yield
    finally:
        spark.conf.set(key, str(before))


def _require_readable(folder: Path, path: Path, columns: Sequence[str]) -> None:
    """Its end, where Parquet keeps what is in it; rows that are broken show only when they are read."""
    import pyarrow
    import pyarrow.parquet

    try:
        names = pyarrow.parquet.read_schema(path).names
    except (OSError, pyarrow.ArrowException) as error:
        raise RunNotFound(str(folder), f"{path.parent.name}/{path.name} cannot be read: {error}") from error
    missing = [column for column in ("trial", *columns) if column not in names]
    if missing:
        raise RunNotFound(str(folder), f"{path.parent.name}/{path.name} has no column {', '.join(missing)}")
