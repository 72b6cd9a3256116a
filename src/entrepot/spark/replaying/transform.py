# SPDX-License-Identifier: Apache-2.0
"""A flow over a table: rows in, rows out, for streams and for batch jobs.

    done = transform(load_flow("orders.yaml"), spark.readStream.format("entrepot")....load())

A row becomes a message by its columns (`rows`); `body` is all it needs. What
leaves the flow is a row with its destination, the node that sent it, the id of
the message it comes from, and `error` for a message that was set aside. One
bad message is one such row, and its neighbours never notice.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import repeat
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec.structs import replace

from entrepot.errors import EntrepotError
from entrepot.errors.describing import error_text
from entrepot.esql.user_functions import watching_interrupts
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.flow_world import Output
from entrepot.flows.kernel import Kernel
from entrepot.flows.nodes.input_node import EntryPoint
from entrepot.message import Message
from entrepot.spark.replaying.table_world import (
    DEAD_LETTERS,
    ReadOnlyDatabase,
    TableWorld,
    points_by_queue,
    require_streamable,
    worker_for,
)
from entrepot.spark.tables.rows import MESSAGE_COLUMNS, check_columns, message_arrays, messages_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame

OUTPUT_SCHEMA = pa.schema(
    [
        ("source_message_id", pa.binary()),
        ("node", pa.string()),
        ("destination", pa.string()),
        ("error", pa.string()),
        *MESSAGE_COLUMNS.items(),
    ]
)
"""What leaves a flow; the sink of the data source takes it as it is."""


class KernelTime:
    """What the tasks of a query have spent inside of the kernel, and altogether; complete when the query has ended."""

    def __init__(self, context: SparkContext) -> None:
        self._messages: Accumulator[int] = context.accumulator(0)
        self._kernel_ns: Accumulator[int] = context.accumulator(0)
        self._python_ns: Accumulator[int] = context.accumulator(0)

    def add(self, messages: int, kernel_ns: int, python_ns: int) -> None:
        self._messages.add(messages)
        self._kernel_ns.add(kernel_ns)
        self._python_ns.add(python_ns)

    @property
    def messages(self) -> int:
        return self._messages.value

    @property
    def kernel_s(self) -> float:
        """In the kernel, summed over all tasks."""
        return self._kernel_ns.value / 1e9

    @property
    def python_s(self) -> float:
        """In our code, with making messages of rows and rows of messages, but without waiting for Spark."""
        return self._python_ns.value / 1e9


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """What tasks are told; the flow travels pickled, so that they find its kernel by the same bytes."""

    pickled: bytes
    point: str
    rows_say_queue: bool
    dead_letters: str
    own_time: bool

    @classmethod
    def of(
        cls,
        flow: FlowDefinition,
        *,
        point: str = "",
        rows_say_queue: bool = False,
        databases: Mapping[str, str] | None = None,
        dead_letters: str = DEAD_LETTERS,
        time_of_message: bool = False,
    ) -> TaskSettings:
        """
        Raises:
            FlowInvalid, FlowNotStreamable, InvalidArgument: Nothing was started.
        """
        require_streamable(flow)
        # All that is wrong with the flow is told here, not by a task.
        points_by_queue(Kernel(flow), point, rows_say=rows_say_queue)
        pickled = pickle.dumps((flow, dict(databases or {})))
        return cls(pickled, point, rows_say_queue, dead_letters, time_of_message)


class Runner:
    """One task's view of a flow: messages in, (source id, error, output) out."""

    def __init__(self, settings: TaskSettings) -> None:
        worker = worker_for(settings.pickled)
        self._kernel = worker.kernel
        self._database = worker.database
        self._world = TableWorld(worker.database, settings.dead_letters, own_time=settings.own_time)
        self._points = points_by_queue(worker.kernel, settings.point, rows_say=settings.rows_say_queue)
        self._point: EntryPoint | None = self._points.get("")
        self._dead_letters = settings.dead_letters

    def outputs_of(self, message: Message, queue: str = "") -> tuple[list[Output], str | None]:
        """What a message brings about, and the error if it was set aside."""
        point = self._point or self._points.get(queue)
        if point is None:
            known = ", ".join(self._points)
            return [Output(self._dead_letters, message)], f"the flow reads {known}, and not the queue {queue!r}"
        world, statistics = self._world, self._kernel.statistics
        world.message = message
        before = statistics.set_aside
        try:
            journey = self._kernel.process(point, message, world)
        except Exception as error:  # what no node and no queue takes care of is the row's, not the task's
            world.put_at_once.clear()
            return [Output(self._dead_letters, message, point.node.name)], _problem(error)
        outputs = journey.outputs
        if world.put_at_once:
            outputs = [*world.put_at_once, *outputs]
            world.put_at_once.clear()
        if statistics.set_aside == before:
            return outputs, None
        properties = outputs[-1].message.properties if outputs else {}
        return outputs, str(properties.get("entrepot_error") or "set aside by the failure terminal")

    def run(self, messages: Sequence[Message], queues: Iterable[str], collected: OutputBatch) -> None:
        """Take messages through the flow one after the other."""
        outputs_of = self.outputs_of
        add = collected.add
        with watching_interrupts():
            for message, queue in zip(messages, queues, strict=False):
                outputs, error = outputs_of(message, queue)
                for output in outputs:
                    add(message.message_id, output, error)

    def end_batch(self) -> None:
        if isinstance(self._database, ReadOnlyDatabase):
            self._database.let_go()


class OutputBatch:
    """Outputs that gather until they make a batch of rows."""

    def __init__(self) -> None:
        self.sources: list[bytes] = []
        self.nodes: list[str] = []
        self.destinations: list[str] = []
        self.errors: list[str | None] = []
        self.messages: list[Message] = []

    def add(self, source: bytes, output: Output, error: str | None) -> None:
        self.sources.append(source)
        self.nodes.append(output.node)
        self.destinations.append(output.destination)
        self.errors.append(error)
        self.messages.append(output.message)

    def batch(self) -> pa.RecordBatch:
        arrays = [
            pa.array(self.sources, pa.binary()),
            pa.array(self.nodes, pa.string()),
            pa.array(self.destinations, pa.string()),
            pa.array(self.errors, pa.string()),
            *message_arrays(self.messages),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=OUTPUT_SCHEMA)


def _problem(error: BaseException) -> str:
    return error.what if isinstance(error, EntrepotError) else f"{type(error).__name__}: {error_text(error)}"


def rows_in(batch: pa.RecordBatch) -> tuple[list[Message], Iterable[str]]:
    """The messages of some rows, each with an id that is the same whenever its row is read, and their queues."""
    messages = [message if message.message_id else _with_id(message) for message in messages_of(batch)]
    if "queue" in batch.schema.names:
        return messages, [queue or "" for queue in batch.column("queue").to_pylist()]
    return messages, repeat("")


def _with_id(message: Message) -> Message:
    return replace(message, message_id=blake2b(message.body, digest_size=24).digest())


def transform(
    flow: FlowDefinition,
    dataframe: DataFrame,
    *,
    point: str = "",
    databases: Mapping[str, str] | None = None,
    dead_letters: str = DEAD_LETTERS,
    time_of_message: bool = False,
    kernel_time: KernelTime | None = None,
) -> DataFrame:
    """Run a flow over a table of messages, in as many tasks as Spark has; the rows of OUTPUT_SCHEMA come out.

    Args:
        point: The input node, by its name or its queue, where there are several.
        databases: SQLAlchemy URLs by data source; they are read and never changed, as Spark may run a task again.
        dead_letters: The destination of unhandled messages.
        time_of_message: CURRENT_TIMESTAMP is when the message was put, so that a replay gives the same every time.
        kernel_time: Counts the time spent in the kernel.

    Raises:
        FlowInvalid: Everything that is wrong with the flow.
        FlowNotStreamable: It keeps states from one message to the next, or wants more than rows.
        InvalidArgument: There is no such point, or the rows cannot be messages.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    settings = TaskSettings.of(
        flow,
        point=point,
        rows_say_queue="queue" in dataframe.columns,
        databases=databases,
        dead_letters=dead_letters,
        time_of_message=time_of_message,
    )
    work = _task(settings, kernel_time)
    return message_rows(dataframe).mapInArrow(work, from_arrow_schema(OUTPUT_SCHEMA))


def message_rows(dataframe: DataFrame) -> DataFrame:
    """The columns of a table that tell about messages; the others stay in Spark."""
    from pyspark.sql.pandas.types import to_arrow_schema

    check_columns(to_arrow_schema(dataframe.schema, timezone="UTC"))
    return dataframe.select(*[name for name in dataframe.columns if name == "queue" or name in MESSAGE_COLUMNS])


def _task(
    settings: TaskSettings, kernel_time: KernelTime | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        runner = Runner(settings)
        clock = time.perf_counter_ns
        counts = [0, 0, 0]
        for batch in batches:
            began = clock()
            messages, queues = rows_in(batch)
            collected = OutputBatch()
            entered = clock()
            runner.run(messages, queues, collected)
            left = clock()
            runner.end_batch()
            made = collected.batch()
            counts[0] += len(messages)
            counts[1] += left - entered
            counts[2] += clock() - began
            yield made
        if kernel_time is not None:
            kernel_time.add(*counts)

    return run
