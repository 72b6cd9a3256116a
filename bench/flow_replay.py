# SPDX-License-Identifier: Apache-2.0
"""Replay of an archive on Spark local[2], and what Spark adds to the bare kernel in replay and in a stream.

Complex compute, 4 KB. The archive is Parquet on the repository's file system;
each message has its own number, so that nothing is folded into a constant.
The bare kernel is the same flow in a loop of one process, on one of the
archive's messages, before and after.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from entrepot.flows.definition import FlowDefinition
from entrepot.flows.flow_world import QueueFacts
from entrepot.flows.kernel import Kernel
from entrepot.message import Message
from entrepot.models import collect_seldom
from entrepot.spark.replaying.replay import replay
from entrepot.spark.replaying.transform import KernelTime, transform
from entrepot.spark.starting.session import spark_session
from entrepot.spark.tables.rows import queue_batch
from entrepot.workbench.broker.cases import cases
from entrepot.workbench.systems.entrepot_server import QueueManagerProcess
from figures import MEMORY_ONLY, Figure, Outcome
from trial import scratch_folder

CASE = "compute_complex"
MESSAGES, QUICK_MESSAGES = 1_000_000, 4_000
AT_ONCE = 10_000
SLOTS = 2
STREAM_MESSAGES, STREAM_AT_ONCE = 60_000, 20_000
KERNEL_LOOPS = 2_000


class _Nobody:
    """A `FlowWorld` for flows that ask nothing."""

    careful = False
    own_time = False
    database: Any = None

    def facts(self, _: str) -> QueueFacts:
        return QueueFacts()

    def database_used(self) -> bool:
        return False


def measure(*, quick: bool = False) -> Outcome:
    count = QUICK_MESSAGES if quick else MESSAGES
    (flow,) = cases()[CASE].definitions()
    with scratch_folder() as folder:
        archive = folder / "archive"
        write_archive(archive, count)
        before = kernel_us(flow, quick)
        with spark_session(f"local[{SLOTS},4]", app="bench") as spark:
            replay(spark, flow, archive, limit=2_000)  # the workers compile the flow once
            report = replay(spark, flow, archive)
            stream = _stream(spark, flow, folder, QUICK_MESSAGES if quick else STREAM_MESSAGES)
        after = kernel_us(flow, quick)
    kernel = [before, after]
    rate = report.messages / report.elapsed_s
    share = report.kernel_s / (report.elapsed_s * SLOTS)
    slot_us = SLOTS * 1e6 / rate
    contract = "Parquet in, rows counted; nothing is stored"
    figures = [
        Figure("bare kernel, one process, µs/message", kernel, MEMORY_ONLY),
        Figure(f"replay of {count:,} messages of 4 KB, msg/s", [rate], contract),
        Figure("share of the slots' time that is spent in the kernel", [share], contract),
        Figure(
            "replay: Spark's µs/message beside the kernel's",
            [slot_us - report.kernel_s / report.messages * 1e6],
            contract,
            None,
            f"of these {(report.python_s - report.kernel_s) / report.messages * 1e6:.1f} µs are rows to messages and "
            "back in Python, the rest is Parquet, Arrow, and waiting for the JVM",
        ),
        *stream,
    ]
    trial = report.as_data() | {"kernel_us": kernel, "rate_per_s": rate}
    return Outcome("flow_replay", "an archive through complex compute on Spark local[2]", figures, {}, [trial])


def write_archive(folder: Path, count: int) -> None:
    """Messages with a number each."""
    folder.mkdir()
    template = cases()[CASE].body(4096).body
    for first in range(0, count, AT_ONCE * 10):
        last = min(first + AT_ONCE * 10, count)
        batches = [_batch(template, at, min(at + AT_ONCE, last)) for at in range(first, last, AT_ONCE)]
        pq.write_table(pa.Table.from_batches(batches), folder / f"part-{first:08d}.parquet", row_group_size=AT_ONCE)


def _batch(template: bytes, first: int, last: int) -> pa.RecordBatch:
    messages = [
        Message(template.replace(b"component-001", b"component-%d" % number, 1), message_id=number.to_bytes(24, "big"))
        for number in range(first, last)
    ]
    return queue_batch("BROKER.IN", messages)


def kernel_us(flow: FlowDefinition, quick: bool) -> float:
    """What the kernel alone takes for a message."""
    collect_seldom()
    kernel = Kernel(flow)
    point, message, world = kernel.points[0], cases()[CASE].body(4096), _Nobody()
    loops = 200 if quick else KERNEL_LOOPS
    began = time.perf_counter()
    for _ in range(loops):
        kernel.process(point, message, world)  # type: ignore[arg-type]
    return (time.perf_counter() - began) / loops * 1e6


def _stream(spark: Any, flow: FlowDefinition, folder: Path, count: int) -> list[Figure]:
    """From a queue through the flow to a queue, in micro-batches, exactly once."""
    from entrepot.spark.tables.data_source import register

    register(spark)
    manager = QueueManagerProcess(folder)
    manager.start()
    try:
        manager.mqsc(*(f"DEFINE QLOCAL({name}) MAXDEPTH(999999999)" for name in ("BROKER.IN", "BROKER.OUT")))
        from entrepot.client.blocking import connect

        body = cases()[CASE].body(4096).body
        with connect(manager.unix_url) as connection, connection.pipeline() as pipeline:
            for _ in range(count):
                pipeline.put("BROKER.IN", body, persistent=True)
        clock = KernelTime(spark.sparkContext)
        rows = (
            spark.readStream.format("entrepot")
            .option("url", manager.unix_url)
            .option("queue", "BROKER.IN")
            .option("mode", "consume")
            .option("maxMessagesPerTrigger", STREAM_AT_ONCE)
            .load()
        )
        began = time.perf_counter()
        query = (
            transform(flow, rows, kernel_time=clock)
            .writeStream.format("entrepot")
            .option("url", manager.unix_url)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        elapsed = time.perf_counter() - began
    finally:
        manager.stop()
    rate = count / elapsed
    contract = "persistent; exactly once by prepared units and a ledger"
    return [
        Figure(f"stream, batches of {STREAM_AT_ONCE:,}, msg/s", [rate], contract),
        Figure(
            "stream: µs/message beside the kernel's, of both slots",
            [SLOTS * 1e6 / rate - clock.kernel_s / max(clock.messages, 1) * 1e6],
            contract,
            None,
            "reading and preparing units at the queue manager, Arrow, Spark's planning and checkpoints",
        ),
    ]
