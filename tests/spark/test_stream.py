# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import random
import runpy
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from channels.processes import ServerProcess
from conftest import MEMORY, SMALL_LOG, let_tester_in
from entrepot.engine.folder import create
from entrepot.errors import EntrepotError
from entrepot.flows.definition import FlowDefinition
from entrepot.message import Message
from entrepot.spark.replaying.transform import transform
from entrepot.spark.tables.data_source import register
from entrepot.spark.tables.stream_source import Page, decode_pages, encode_pages, mark_of, remove

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

NewQueue = Callable[..., str]
DRIVER = Path(__file__).with_name("stream_driver.py")
PATIENCE_S = 120.0
FEED_S = 3.0
"""How long a stream that has had its messages is waited for, before it gets more."""


@pytest.fixture(autouse=True)
def _registered(request: pytest.FixtureRequest) -> None:
    if "spark" in request.fixturenames:
        register(request.getfixturevalue("spark"))


def stream(spark: SparkSession, server: ServerProcess, queue: str, **options: Any) -> DataFrame:
    return spark.readStream.format("entrepot").options(url=server.unix_url, queue=queue, **options).load()


def to_queue(table: DataFrame, server: ServerProcess, checkpoint: Path, **options: Any) -> StreamingQuery:
    """Write all that is there now, and end."""
    writer = table.writeStream.format("entrepot").options(url=server.unix_url, **options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)
    return query


def bodies(server: ServerProcess, queue: str) -> list[bytes]:
    with server.connect() as connection:
        return [message.body for message in connection.browse(queue)]


def put(server: ServerProcess, queue: str, numbers: range, **options: Any) -> None:
    with server.connect() as connection, connection.pipeline() as pipeline:
        for number in numbers:
            pipeline.put(queue, b"<n>%d</n>" % number, priority=number % 3, persistent=True, **options)


def flow() -> FlowDefinition:
    made = FlowDefinition("halves")
    made.node("MQInput", "In", queue="IN", domain="XMLNSC")
    made.node(
        "Compute",
        "Check",
        statements="SET OutputRoot = InputRoot; IF InputRoot.XMLNSC.n = '7' THEN THROW USER EXCEPTION; END IF;",
    )
    made.node("MQOutput", "Out", queue="set below")
    made.link("In", "Check")
    made.link("Check", "Out")
    return made


def test_a_flow_over_a_stream_takes_each_message_once_over_restarts(
    spark: SparkSession, server: ServerProcess, new_queue: NewQueue, tmp_path: Path
) -> None:
    source, target, bad = new_queue(), new_queue(), new_queue()
    halves = flow()
    halves.nodes["Out"].properties["queue"] = target
    limited = {"mode": "consume", "maxMessagesPerTrigger": 60, "partitions": 1}
    for numbers in (range(100), range(100, 130)):
        put(server, source, numbers)
        done = transform(halves, stream(spark, server, source, **limited), dead_letters=bad)
        query = to_queue(done, server, tmp_path / "checkpoint")
        if numbers.start == 0:
            assert [progress["numInputRows"] for progress in query.recentProgress] == [60, 40]
        assert bodies(server, source) == [], "what was written has left its queue"
    assert sorted(bodies(server, target) + bodies(server, bad)) == sorted(
        b"<n>%d</n>" % number for number in range(130)
    )
    assert bodies(server, bad) == [b"<n>7</n>"]


def test_a_stream_that_browses_leaves_messages_and_sees_each_once(
    spark: SparkSession, server: ServerProcess, new_queue: NewQueue, tmp_path: Path
) -> None:
    source, target = new_queue(), new_queue()
    for numbers in (range(30), range(30, 45)):
        put(server, source, numbers)
        to_queue(stream(spark, server, source, partitions=1), server, tmp_path / "checkpoint", queue=target)
    assert sorted(bodies(server, target)) == sorted(bodies(server, source))
    assert len(bodies(server, source)) == 45


def test_offsets_are_small_and_come_back_as_they_were() -> None:
    messages = [(b"\x01" * 16 + number.to_bytes(8, "big"), number * 7919 % 2**32) for number in range(10_000)]
    pages = [Page("Q", (-3, 7), (-3, 10_007), messages)]
    text = encode_pages(pages)
    assert decode_pages(text) == pages
    assert len(text) < 12 * len(messages)


def test_removing_a_batch_again_spares_a_new_message_under_an_old_id(
    server: ServerProcess, new_queue: NewQueue
) -> None:
    queue = new_queue()
    with server.connect() as connection:
        for body in (b"old", b"other"):
            connection.put(queue, body, message_id=b"made up " + body[:1])
        items = [(message.message_id, mark_of(message)) for message in connection.browse(queue)]
        remove(connection, queue, items)
        assert list(connection.browse(queue)) == []
        connection.put(queue, b"new", message_id=b"made up o")
        remove(connection, queue, items)
        assert [message.body for message in connection.browse(queue)] == [b"new"]


def test_the_mark_tells_messages_of_one_id_apart() -> None:
    first = Message(b"x", put_time=1.0)
    assert mark_of(first) == mark_of(Message(b"x", put_time=1.0))
    assert len({mark_of(first), mark_of(Message(b"y", put_time=1.0)), mark_of(Message(b"x", put_time=1.5))}) == 3


# --- killing ------------------------------------------------------------------------------------------


class Campaign:
    """A stream in a process of its own, killed again and again, and a queue manager that is started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        create(folder / "QM1", log=SMALL_LOG)
        let_tester_in(folder / "QM1")
        self.server = ServerProcess(folder / "QM1")
        self._driver: subprocess.Popen[bytes] | None = None
        self._successor: SparkSession | None = None
        self._query: StreamingQuery | None = None
        self._put = 0
        self.kills: Counter[str] = Counter()

    def start(self) -> None:
        self._start_manager()
        with self.server.connect() as connection:
            connection.mqsc("DEFINE QLOCAL(IN) MAXDEPTH(100000)\nDEFINE QLOCAL(OUT) MAXDEPTH(100000)")

    def _start_manager(self) -> None:
        self.server.start()
        (self.folder / "manager.pids").write_text(str(self.server.pid))

    def tend(self) -> None:
        """Start again who was killed, as an operator's machine would."""
        assert self.server._process is not None
        if self.server._process.poll() is not None:
            self.server.kill()
            self._start_manager()
        if self._successor is not None:
            self._tend_query(self._successor)
        elif self._driver is None or self._driver.poll() is not None:
            command = [sys.executable, str(DRIVER), str(self.folder), self.server.unix_url, "IN", "OUT"]
            with (self.folder / "driver.log").open("ab") as log:
                self._driver = subprocess.Popen(command, stdout=log, stderr=log)

    def take_over(self, spark: SparkSession) -> None:
        """Let a session of ours go on with the stream of the driver that was killed; it starts sooner than another."""
        assert self._driver is not None
        self._driver.wait()
        self._successor = spark

    def _tend_query(self, spark: SparkSession) -> None:
        if self._query is not None and self._query.isActive:
            return
        if self._query is not None:
            with (self.folder / "driver.log").open("a") as log:
                log.write(f"{self._query.exception()}\n")
        begin = runpy.run_path(str(DRIVER), run_name="stream_driver")["begin"]
        self._query = begin(spark, str(self.folder), self.server.unix_url, "IN", "OUT")

    def _put_some(self) -> None:
        self.tend()
        with self.server.connect() as connection, connection.unit_of_work() as unit:
            for number in range(self._put, self._put + 20):
                unit.put("IN", b"%d" % number, persistent=True, priority=number % 3)
        self._put += 20

    def kill_at(self, point: str, victim: str) -> None:
        """Have somebody killed, and wait until it has happened."""
        flag, held = self.folder / f"{point}.{victim}", self.folder / "held"
        held.touch()
        while held.exists():
            # Nobody is killed while we put, so that there is no doubt about what was put.
            self._put_some()
            held.rename(flag)
            self._until(lambda: not flag.exists(), f"{point}.{victim}", within_s=FEED_S)
            with contextlib.suppress(FileNotFoundError):
                flag.rename(held)
        if victim == "manager":
            assert self.server._process is not None
            self.server._process.wait()
        self.kills[victim] += 1

    def written(self) -> Counter[int]:
        try:
            with self.server.connect() as connection:
                return Counter(int(message.body) for message in connection.browse("OUT"))
        except EntrepotError:
            return Counter()  # it is being started

    def finish(self) -> Counter[int]:
        self._put_some()
        self._until(lambda: len(self.written()) >= self._put, "all messages")
        self._put_some()  # the batch behind the last one tidies up what attempts have left
        self._until(lambda: len(self.written()) >= self._put, "the last messages")
        return self.written()

    def _until(self, reached: Callable[[], bool], what: str, within_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + within_s
        while not reached():
            self.tend()
            is_late = time.monotonic() > deadline
            if is_late and within_s < PATIENCE_S:
                return
            log = self.folder / "driver.log"
            assert not is_late, f"{what}\n{log.read_text()[-3000:] if log.exists() else ''}"
            time.sleep(0.05)

    def close(self) -> None:
        (self.folder / "stop").touch()
        if self._query is not None:
            self._query.stop()
        if self._driver is not None:
            try:
                self._driver.wait(20)
            except subprocess.TimeoutExpired:
                self._driver.kill()
                self._driver.wait()
        if self.server._process is not None:
            self.server.kill()


@pytest.fixture
def campaign() -> Iterator[Campaign]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        running = Campaign(Path(folder))
        running.start()
        try:
            yield running
        finally:
            running.close()


# One of each victim, and the queue manager wherever its answer decides what Spark does next.
KILLS = [
    ("commit_decided", "driver"),
    ("write_prepared", "self"),
    ("write_prepared", "manager"),
    ("commit_decided", "manager"),
    ("commit_done", "manager"),
    ("source_removed", "manager"),
]
TORTURE = [
    *KILLS,
    ("write_begun", "self"),
    ("write_begun", "manager"),
    ("commit_begun", "manager"),
    ("commit_done", "driver"),
    ("commit_begun", "self"),
    ("commit_decided", "self"),
    ("commit_done", "self"),
    ("source_removed", "self"),
    ("write_begun", "driver"),
    ("write_prepared", "driver"),
    ("commit_begun", "driver"),
    ("source_removed", "driver"),
]


def test_every_row_is_written_once_whoever_is_killed(campaign: Campaign, spark: SparkSession) -> None:
    driver, *others = KILLS
    campaign.kill_at(*driver)
    campaign.take_over(spark)
    for point, victim in others:
        campaign.kill_at(point, victim)
    require_each_once(campaign)


@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(4))
def test_every_row_is_written_once_whoever_is_killed_in_any_order(campaign: Campaign, seed: int) -> None:
    for point, victim in [*TORTURE, *random.Random(seed).choices(TORTURE, k=16)]:
        campaign.kill_at(point, victim)
    require_each_once(campaign)


def require_each_once(campaign: Campaign) -> None:
    written = campaign.finish()
    assert {number: count for number, count in written.items() if count != 1} == {}
    assert sorted(written) == list(range(campaign._put))
    with campaign.server.connect() as connection:
        assert connection.in_doubt() == []
