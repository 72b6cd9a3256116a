# SPDX-License-Identifier: Apache-2.0
"""Replays: an archive through a flow once more, and what comes out beside what came out before.

    report = replay(spark, flow, "orders.parquet", against=load_flow("orders-new.yaml"))
    report.is_same, report.destinations, report.fields, report.samples

Against another flow both kernels run in the same task, message by message.
Against recorded outputs the two tables are brought together by the message
that they come from. Times are those of the messages, so that a replay gives
the same whenever it is run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from entrepot.errors import ArchiveUnreadable, InvalidArgument
from entrepot.esql.user_functions import watching_interrupts
from entrepot.flows.definition import FlowDefinition
from entrepot.spark.replaying.archive import read_archive, spread
from entrepot.spark.replaying.differences import EVERYTHING, GUESS, Difference, Model, SentMessage, compare
from entrepot.spark.replaying.table_world import DEAD_LETTERS
from entrepot.spark.replaying.transform import KernelTime, Runner, TaskSettings, message_rows, rows_in, transform
from entrepot.spark.tables.rows import MESSAGE_COLUMNS, messages_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MATCHED_BY = ("source_message_id", "message_id", "correlation_id")
_SAMPLES_MAX = 20
_FIELDS_MAX = 200
_ROWS_AT_A_TIME = 5_000

COMPARED_SCHEMA = pa.schema(
    [
        ("source_message_id", pa.binary()),
        ("destination", pa.string()),
        ("path", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("messages_before", pa.int64()),
        ("messages_after", pa.int64()),
        ("errors", pa.int64()),
    ]
)
"""Differences; and rows without a path that count what went where."""


@dataclass(slots=True)
class Destination:
    """How many messages went somewhere."""

    name: str
    before: int | None
    """None where there was nothing to compare with."""
    after: int
    errors: int


@dataclass(slots=True)
class DifferingField:
    """A field that differs, whatever its place among others of its name."""

    destination: str
    path: str
    messages: int


@dataclass(slots=True)
class ReplayReport:
    """What a replay has found."""

    flow: str
    against: str
    messages: int = 0
    outputs: int = 0
    errors: int = 0
    differing: int = 0
    """Messages whose outputs differ."""
    destinations: list[Destination] = field(default_factory=list)
    fields: list[DifferingField] = field(default_factory=list)
    """The most frequent first."""
    samples: list[dict[str, str]] = field(default_factory=list)
    elapsed_s: float = 0.0
    kernel_s: float = 0.0
    """In the kernel, summed over all tasks; of both kernels when two flows are compared."""
    python_s: float = 0.0
    differences: Any = None
    """All of them, as a DataFrame of COMPARED_SCHEMA; None when nothing was compared."""

    @property
    def is_same(self) -> bool:
        return not self.differing

    def as_data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "flow": self.flow,
            "against": self.against,
            "messages": self.messages,
            "outputs": self.outputs,
            "errors": self.errors,
            "differing_messages": self.differing,
            "same": self.is_same,
            "elapsed_s": round(self.elapsed_s, 3),
            "kernel_s": round(self.kernel_s, 3),
            "python_s": round(self.python_s, 3),
            "destinations": [
                {"destination": each.name, "before": each.before, "after": each.after, "errors": each.errors}
                for each in self.destinations
            ],
            "fields": [
                {"destination": each.destination, "path": each.path, "messages": each.messages} for each in self.fields
            ],
            "samples": self.samples,
        }


@dataclass(frozen=True, slots=True)
class Replay:
    """What is replayed, and how."""

    flow: FlowDefinition
    point: str = ""
    databases: Mapping[str, str] | None = None
    dead_letters: str = DEAD_LETTERS
    model: Model = GUESS

    def settings(self, flow: FlowDefinition, *, rows_say_queue: bool) -> TaskSettings:
        return TaskSettings.of(
            flow,
            point=self.point,
            rows_say_queue=rows_say_queue,
            databases=self.databases,
            dead_letters=self.dead_letters,
            time_of_message=True,
        )


def replay(
    spark: SparkSession,
    flow: FlowDefinition,
    archive: str | Path | DataFrame,
    *,
    against: FlowDefinition | None = None,
    recorded: str | Path | DataFrame | None = None,
    match_by: str = "",
    point: str = "",
    out: str | Path | None = None,
    databases: Mapping[str, str] | None = None,
    limit: int | None = None,
    model: Model = GUESS,
    on_progress: Callable[[str], None] = lambda _: None,
) -> ReplayReport:
    """Run an archive through a flow, and compare what comes out.

    Args:
        against: Another version of the flow, which gets the same messages; what it does counts as before.
        recorded: Outputs that were kept: Parquet with the columns of a queue, or what an earlier replay has written.
        match_by: By which column recorded outputs belong to messages: source_message_id, message_id or
            correlation_id; the first of these that it has when left out.
        out: A folder for outputs, differences and the report; nothing is written when left out.
        limit: So many messages at most.
        model: How bodies are read to be compared; guessed from their first bytes when left out.

    Raises:
        FlowInvalid, FlowNotStreamable, ArchiveUnreadable, InvalidArgument: Nothing was run.
    """
    if against is not None and recorded is not None:
        raise InvalidArgument("recorded", "there is another flow to compare with already", "against or recorded")
    wanted = Replay(flow, point, databases, model=model)
    folder = None if out is None else Path(out)
    inputs = archive if not isinstance(archive, str | Path) else read_archive(spark, archive)
    if limit is not None:
        inputs = inputs.limit(limit)
    inputs = spread(inputs)
    clock = KernelTime(spark.sparkContext)
    report = ReplayReport(flow.name, _name(against, recorded))
    began = time.monotonic()
    if against is not None:
        compared = _against_flow(inputs, wanted, against, clock)
        if folder is not None:
            on_progress("writing outputs")
            _outputs(inputs, wanted, None).write.mode("overwrite").parquet(str(folder / "outputs"))
        on_progress("comparing")
        _read_report(compared, report, folder)
    else:
        outputs = _outputs(inputs, wanted, clock)
        if folder is not None:
            on_progress("writing outputs")
            outputs.write.mode("overwrite").parquet(str(folder / "outputs"))
            outputs = spark.read.parquet(str(folder / "outputs"))
        if recorded is None:
            on_progress("counting")
            _count(outputs, report)
        else:
            on_progress("comparing")
            kept = recorded if not isinstance(recorded, str | Path) else _recorded(spark, recorded)
            _read_report(_against_table(outputs, kept, match_by, model), report, folder)
    report.elapsed_s = time.monotonic() - began
    report.messages, report.kernel_s, report.python_s = clock.messages, clock.kernel_s, clock.python_s
    if folder is not None:
        _write_report(report, folder)
    return report


def _name(against: FlowDefinition | None, recorded: object) -> str:
    if against is not None:
        return against.name
    return "" if recorded is None else str(recorded) if isinstance(recorded, str | Path) else "a table"


def _outputs(inputs: DataFrame, wanted: Replay, clock: KernelTime | None) -> DataFrame:
    return transform(
        wanted.flow,
        inputs,
        point=wanted.point,
        databases=wanted.databases,
        dead_letters=wanted.dead_letters,
        time_of_message=True,
        kernel_time=clock,
    )


def _recorded(spark: SparkSession, path: str | Path) -> DataFrame:
    place = Path(path)
    # What an earlier replay has written has its outputs in a folder of their own.
    inner = place / "outputs"
    return read_archive(spark, inner if inner.is_dir() else place)


# --- comparing ----------------------------------------------------------------------------------------


class _Found:
    """Differences and counts that gather in a task."""

    def __init__(self) -> None:
        self._rows: list[tuple[bytes, Difference]] = []
        self._counts: dict[str, list[int]] = {}

    def add(self, source: bytes, found: Iterable[Difference]) -> None:
        self._rows += [(source, each) for each in found]

    def count(self, destination: str, side: int, number: int = 1) -> None:
        self._counts.setdefault(destination, [0, 0, 0])[side] += number

    @property
    def is_full(self) -> bool:
        return len(self._rows) >= _ROWS_AT_A_TIME

    def differences(self) -> pa.RecordBatch:
        rows = [
            (source, each.destination, each.path, each.before, each.after, None, None, None)
            for source, each in self._rows
        ]
        self._rows = []
        return _batch(rows)

    def counts(self) -> pa.RecordBatch:
        return _batch([(None, name, None, None, None, *numbers) for name, numbers in self._counts.items()])


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(COMPARED_SCHEMA)
    arrays = [pa.array(values, kind.type) for values, kind in zip(columns, COMPARED_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=COMPARED_SCHEMA)


def _against_flow(inputs: DataFrame, wanted: Replay, against: FlowDefinition, clock: KernelTime) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    rows_say = "queue" in inputs.columns
    new, old = (wanted.settings(flow, rows_say_queue=rows_say) for flow in (wanted.flow, against))
    model = wanted.model

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        before, after = Runner(old), Runner(new)
        found = _Found()
        messages_run = kernel_ns = python_ns = 0
        tick = time.perf_counter_ns
        for batch in batches:
            began = tick()
            messages, queues = rows_in(batch)
            for message, queue in zip(messages, queues, strict=False):
                entered = tick()
                with watching_interrupts():
                    was, error_before = before.outputs_of(message, queue)
                    now, error = after.outputs_of(message, queue)
                kernel_ns += tick() - entered
                pair = ([SentMessage(each.destination, each.message) for each in side] for side in (was, now))
                differing = compare(*pair, source_id=message.message_id, model=model)
                for side, outputs in enumerate((was, now)):
                    for each in outputs:
                        found.count(each.destination, side)
                if error is not None:
                    found.count(now[-1].destination if now else wanted.dead_letters, 2)
                if (error or "") != (error_before or ""):
                    place = (now or was)[-1].destination if now or was else wanted.dead_letters
                    differing.append(Difference(place, "error", error_before or "", error or ""))
                found.add(message.message_id, differing)
            messages_run += len(messages)
            before.end_batch()
            after.end_batch()
            python_ns += tick() - began
            if found.is_full:
                yield found.differences()
        yield found.differences()
        yield found.counts()
        clock.add(messages_run, kernel_ns, python_ns)

    return message_rows(inputs).mapInArrow(run, from_arrow_schema(COMPARED_SCHEMA))


def _against_table(outputs: DataFrame, recorded: DataFrame, match_by: str, model: Model) -> DataFrame:
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_schema

    key = _key(recorded, match_by)
    where = next((name for name in ("destination", "queue") if name in recorded.columns), None)
    if where is None:
        raise ArchiveUnreadable("recorded outputs", "they do not say where they went: no destination, no queue")
    columns = [name for name in MESSAGE_COLUMNS if name in recorded.columns]
    known = frozenset(columns) & EVERYTHING
    sides = []
    for side, table, place in ((0, recorded, where), (1, outputs, "destination")):
        error = functions.col("error") if "error" in table.columns else functions.lit(None).cast("string")
        sides.append(
            table.select(
                functions.col(key).alias("_key"),
                functions.lit(side).alias("_side"),
                functions.monotonically_increasing_id().alias("_order"),
                functions.col(place).alias("_destination"),
                error.alias("_error"),
                *columns,
            )
        )
    parts = _parts(outputs)
    both = sides[0].unionByName(sides[1]).repartition(parts, "_key").sortWithinPartitions("_key", "_side", "_order")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = _Found()
        for source, rows in groupby(_pairs(batches), key=lambda row: row[0]):
            before, after = _sides(rows, found)
            found.add(source, compare(before, after, source_id=source, model=model, known=known))
            if found.is_full:
                yield found.differences()
        yield found.differences()
        yield found.counts()

    return both.mapInArrow(run, from_arrow_schema(COMPARED_SCHEMA))


def _key(recorded: DataFrame, match_by: str) -> str:
    if match_by and match_by not in MATCHED_BY:
        raise InvalidArgument("match_by", repr(match_by), " or ".join(MATCHED_BY))
    found = [name for name in ([match_by] if match_by else MATCHED_BY) if name in recorded.columns]
    if not found:
        raise ArchiveUnreadable("recorded outputs", f"they have no column {match_by or ', '.join(MATCHED_BY)}")
    return found[0]


Row = tuple[bytes, int, SentMessage, str | None]


def _pairs(batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        messages = messages_of(batch)
        columns = (batch.column(name).to_pylist() for name in ("_key", "_side", "_destination", "_error"))
        for key, side, destination, error, message in zip(*columns, messages, strict=True):
            yield key or b"", side, SentMessage(destination or "", message), error


def _sides(rows: Iterable[Row], found: _Found) -> tuple[list[SentMessage], list[SentMessage]]:
    sides: tuple[list[SentMessage], list[SentMessage]] = ([], [])
    for _, side, sent, error in rows:
        sides[side].append(sent)
        found.count(sent.destination, side)
        if side and error:
            found.count(sent.destination, 2)
    return sides


# --- reporting ----------------------------------------------------------------------------------------


def _parts(table: DataFrame) -> int:
    """As many as there are tasks at a time: Spark's own two hundred cost more than the work in them."""
    return max(2, table.sparkSession.sparkContext.defaultParallelism)


def _count(outputs: DataFrame, report: ReplayReport) -> None:
    from pyspark.sql import functions

    rows = (
        outputs.select("destination", functions.col("error").isNotNull().cast("int").alias("failed"))
        .repartition(_parts(outputs), "destination")
        .groupBy("destination")
        .agg(functions.count("*").alias("messages"), functions.sum("failed").alias("errors"))
        .orderBy("destination")
        .collect()
    )
    report.destinations = [Destination(row["destination"], None, row["messages"], row["errors"]) for row in rows]
    report.outputs = sum(each.after for each in report.destinations)
    report.errors = sum(each.errors for each in report.destinations)


def _read_report(compared: DataFrame, report: ReplayReport, folder: Path | None) -> None:
    from pyspark.sql import functions

    if folder is not None:
        compared.write.mode("overwrite").parquet(str(folder / "differences"))
        compared = compared.sparkSession.read.parquet(str(folder / "differences"))
    else:
        compared = compared.persist()
    sums: dict[str, list[int]] = {}
    for row in compared.where("path IS NULL").collect():
        numbers = sums.setdefault(row["destination"], [0, 0, 0])
        for at, name in enumerate(("messages_before", "messages_after", "errors")):
            numbers[at] += row[name]
    report.destinations = [
        Destination(name, before, after, errors) for name, (before, after, errors) in sorted(sums.items())
    ]
    report.outputs = sum(each.after for each in report.destinations)
    report.errors = sum(each.errors for each in report.destinations)
    differences = compared.where("path IS NOT NULL")
    parts = _parts(compared)
    sources = differences.select("source_message_id").repartition(parts, "source_message_id")
    report.differing = sources.distinct().count()
    pattern = functions.regexp_replace("path", r"\[\d+\]", "[]")
    by_field = (
        differences.select("source_message_id", "destination", pattern.alias("path"))
        .repartition(parts, "destination", "path")
        .distinct()
        .groupBy("destination", "path")
        .agg(functions.count("*").alias("messages"))
        .orderBy(functions.desc("messages"), "destination", "path")
        .limit(_FIELDS_MAX)
    )
    report.fields = [DifferingField(row["destination"], row["path"], row["messages"]) for row in by_field.collect()]
    shown = differences.orderBy("source_message_id", "destination", "path").limit(_SAMPLES_MAX)
    report.samples = [
        {
            "source_message_id": bytes(row["source_message_id"] or b"").hex(),
            "destination": row["destination"],
            "path": row["path"],
            "before": row["before"],
            "after": row["after"],
        }
        for row in shown.collect()
    ]
    report.differences = differences


def _write_report(report: ReplayReport, folder: Path) -> None:
    import json

    (folder / "report.json").write_text(json.dumps(report.as_data(), indent=2) + "\n")
