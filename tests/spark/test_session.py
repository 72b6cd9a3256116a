# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import InheritableThread, SparkContext, TaskContext
from pyspark.sql import SparkSession

import entrepot
from channels.processes import ServerProcess, is_running, until
from entrepot.errors import InvalidSetting, SparkMasterUnreachable, SparkSessionOpen
from entrepot.spark import open_session, session_log
from spark.loopback import addresses_listening


def test_workers_run_our_interpreter_and_our_package(context: SparkContext) -> None:
    def tell(_: int, __: Iterable[int]) -> list[tuple[str, str, int]]:
        return [(sys.executable, entrepot.__file__, os.getpid())]

    ((interpreter, package, pid),) = context.parallelize(range(1), 1).mapPartitionsWithIndex(tell).collect()
    assert (interpreter, package) == (sys.executable, entrepot.__file__)
    assert pid != os.getpid()


def test_workers_take_compiled_pyspark_and_not_the_zip(context: SparkContext) -> None:
    def tell(_: int, __: Iterable[int]) -> list[str]:
        return [sys.modules["pyspark"].__file__ or ""]

    (place,) = context.parallelize(range(1), 1).mapPartitionsWithIndex(tell).collect()
    assert place == sys.modules["pyspark"].__file__


def test_arrow_batches_go_through_python_and_back(spark: SparkSession) -> None:
    def doubled(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            column = pa.array([2 * value for value in batch["id"].to_pylist()], pa.int64())
            yield pa.RecordBatch.from_arrays([column], names=["id"])

    rows = spark.range(0, 100, numPartitions=2).mapInArrow(doubled, "id long").selectExpr("sum(id) AS total").collect()
    assert rows[0].total == 9900


def test_settings_are_those_that_we_chose(spark: SparkSession) -> None:
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.python.task.killTimeout"] == "50ms"
    assert settings["spark.authenticate"] == "true"
    assert spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch") == "1MB"
    assert spark.sparkContext.uiWebUrl is None


def test_spark_listens_at_the_loopback_interface_alone(spark: SparkSession) -> None:
    java = _java_pid()
    listening = addresses_listening(java)
    assert listening
    assert [str(address) for address in listening if not address.is_loopback] == []


def test_sockets_to_workers_are_nobody_elses(context: SparkContext) -> None:
    folder = Path(context.getConf().get("spark.python.unix.domain.socket.dir") or "")
    assert list(folder.glob(".*.sock"))
    assert folder.stat().st_mode & 0o077 == 0


def test_program_keeps_its_own_answer_to_an_interrupt(spark: SparkSession) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_children_of_the_program_do_not_find_the_way_to_its_spark(spark: SparkSession) -> None:
    assert [name for name in os.environ if name.startswith("PYSPARK_GATEWAY")] == []


def test_command_line_of_java_has_no_secret(spark: SparkSession) -> None:
    assert b"secret" not in Path(f"/proc/{_java_pid()}/cmdline").read_bytes()


def test_log_has_no_warnings(spark: SparkSession) -> None:
    log = session_log()
    assert log is not None
    assert " WARN " not in log.read_text()


def test_second_session_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SparkSessionOpen, match=r"already, at local\["):
        open_session(app="second")


def test_master_that_is_not_there_is_found_out_at_once() -> None:
    with pytest.raises(SparkMasterUnreachable, match=r"spark://127\.0\.0\.1:1: .*refused"):
        open_session("spark://127.0.0.1:1", app="nowhere")


def test_master_of_no_known_kind_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="master cannot be mesos://here"):
        open_session("mesos://here", app="nowhere")


def test_killed_workers_task_comes_again_as_the_next_attempt(context: SparkContext, tmp_path: Path) -> None:
    def attempt(_: int, __: Iterable[int]) -> list[int]:
        task = TaskContext.get()
        assert task is not None
        (tmp_path / str(task.attemptNumber())).write_text(str(os.getpid()))
        deadline = time.monotonic() + 60
        while task.attemptNumber() == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        return [task.attemptNumber()]

    ended: list[list[int]] = []

    def run() -> None:
        ended.append(context.parallelize(range(1), 1).mapPartitionsWithIndex(attempt).collect())

    thread = InheritableThread(target=run)
    thread.start()
    first = tmp_path / "0"
    until(lambda: first.exists() and first.read_text(), "the first attempt runs")
    os.kill(int(first.read_text()), signal.SIGKILL)
    thread.join(200)
    assert ended == [[1]]


def test_cancelled_tasks_worker_is_gone_within_seconds(context: SparkContext, tmp_path: Path) -> None:
    def stay(_: int, __: Iterable[int]) -> list[int]:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(60)
        return []

    failures: list[str] = []

    def run() -> None:
        context.setJobGroup("cancelled", "to be cancelled", interruptOnCancel=True)
        try:
            context.parallelize(range(1), 1).mapPartitionsWithIndex(stay).collect()
        except Exception as error:
            failures.append(str(error))

    thread = InheritableThread(target=run)
    thread.start()
    file = tmp_path / "pid"
    until(lambda: file.exists() and file.read_text(), "the task runs")
    context.cancelJobGroup("cancelled")
    thread.join(200)
    assert "cancelled" in failures[0]
    until(lambda: not is_running(int(file.read_text())), "its worker is killed", within_s=60)


def test_task_that_always_fails_is_tried_four_times(context: SparkContext, tmp_path: Path) -> None:
    def fail(_: int, __: Iterable[int]) -> list[int]:
        task = TaskContext.get()
        assert task is not None
        (tmp_path / str(task.attemptNumber())).touch()
        raise ValueError("no good")

    with pytest.raises(Exception, match="no good"):
        context.parallelize(range(1), 1).mapPartitionsWithIndex(fail).count()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3"]


def test_task_talks_to_the_queue_managers_server(
    context: SparkContext, server: ServerProcess, new_queue: Callable[..., str]
) -> None:
    url, queue = server.unix_url, new_queue()

    def put(index: int, _: Iterable[int]) -> list[int]:
        with entrepot.connect(url) as connection:
            connection.put(queue, f"from task {index}".encode())
        return [index]

    assert context.parallelize(range(2), 2).mapPartitionsWithIndex(put).count() == 2
    with server.connect() as connection:
        bodies = {connection.get(queue).body for _ in range(2)}  # type: ignore[union-attr]
    assert bodies == {b"from task 0", b"from task 1"}


def _java_pid() -> int:
    from entrepot.spark.starting import session

    assert session._driver is not None
    return session._driver.process.pid
