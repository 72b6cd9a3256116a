# SPDX-License-Identifier: Apache-2.0
"""One Spark session and one queue manager's server for all tests here; both are too slow to start for each.

The scheduler of tests/conftest.py keeps this folder in one process, so that there is one session and not one in each.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from channels.processes import ServerProcess
from conftest import MEMORY, SMALL_LOG, let_tester_in
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.spark import local_master, spark_session
from entrepot.testing.spark_cluster import SparkCluster

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LARGE_LOG = LogSettings(segment_bytes=1024 * 1024, primary=3, secondary=20)
QUEUES = "DEFINE QLOCAL(IN) MAXDEPTH(1000000)\nDEFINE QLOCAL(OUT) MAXDEPTH(1000000)"
LONG_TASKS = 6
"""So many tasks of flows that do not end may run at a time, with slots left for the tests' own jobs."""


# Of the package, not of the session: this process may have other tests after these, which start without a session.
@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """The only session of this process. A test leaves it as it was: settings, views, streams, running jobs."""
    # Tables of a few rows: what is spread over more partitions, or compiled better, only takes longer.
    settings = {"spark.sql.shuffle.partitions": "2"}
    with spark_session(local_master(LONG_TASKS), app="tests", settings=settings, light=True) as session:
        yield session


@pytest.fixture
def context(spark: SparkSession) -> Iterator[SparkContext]:
    """The session's context, for jobs of Python tasks; those that a test leaves running are cancelled."""
    yield spark.sparkContext
    spark.sparkContext.cancelAllJobs()


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    """A queue manager QM1 with a process of its own, at `server.unix_url`."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        path = Path(folder) / "QM1"
        create(path, log=SMALL_LOG)
        let_tester_in(path)
        with ServerProcess(path) as process:
            yield process


@pytest.fixture(scope="session")
def cluster() -> Iterator[SparkCluster]:
    """A cluster of two workers, for sessions in processes of their own; executors may be killed, and come again."""
    with SparkCluster(workers=2) as running:
        yield running


_numbers = itertools.count(1)


@pytest.fixture
def new_queue(server: ServerProcess) -> Callable[..., str]:
    """`new_queue("MAXDEPTH(10)")` defines a queue that no other test knows, and returns its name."""

    def define(attributes: str = "") -> str:
        name = f"TEST.{next(_numbers)}"
        with server.connect() as connection:
            connection.mqsc(f"DEFINE QLOCAL({name}) {attributes}")
        return name

    return define


@pytest.fixture
def killable() -> Iterator[ServerProcess]:
    """A server of one's own, to be killed."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        path = Path(folder) / "QM1"
        create(path, log=LARGE_LOG)
        let_tester_in(path)
        with ServerProcess(path) as server:
            with server.connect() as connection:
                connection.mqsc(QUEUES)
            yield server
