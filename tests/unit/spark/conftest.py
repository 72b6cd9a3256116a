# SPDX-License-Identifier: Apache-2.0
"""A queue manager with a server for the instances of a module, and live flows that go on step by step."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.client.blocking import Connection, connect
from entrepot.queues.folder import create
from entrepot.recovery_log.settings import LogSettings
from entrepot.spark.live import instance as instances
from entrepot.spark.live import live_flow as living
from entrepot.spark.live.live_flow import LiveFlow
from entrepot.testing.servers import ServerThread

from .played_spark import Spark, flow_of
from .staged import Stage
from .stepped import Stepped, SteppedTime

LOG = LogSettings(segment_bytes=1024 * 1024, primary=3, secondary=4)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    path = tmp_path_factory.mktemp("instance") / "QM1"
    create(path, log=LOG)
    with ServerThread(path) as server:
        stage = Stage(server.unix_url)
        stage.connection.mqsc("DEFINE QLOCAL(DEAD) REPLACE\nALTER QMGR DEADQ(DEAD)")
        yield stage
        stage.connection.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances that hear orders at once."""
    monkeypatch.setattr(instances, "BEAT_S", 0.02)


@pytest.fixture
def spark() -> Spark:
    return Spark()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppedTime:
    clock = SteppedTime()
    monkeypatch.setattr(living, "time", clock)
    return clock


@pytest.fixture
def threads(clock: SteppedTime, monkeypatch: pytest.MonkeyPatch) -> Stepped:
    threads = Stepped(clock)
    monkeypatch.setattr(living, "threading", threads)
    monkeypatch.setattr("pyspark.InheritableThread", threads.Thread)
    return threads


@pytest.fixture
def live(stage: Stage, spark: Spark, threads: Stepped) -> Iterator[LiveFlow]:
    context: Any = spark
    live = LiveFlow(context, flow_of(stage), stage.url, instances=2)
    yield live
    for thread in threads.threads:
        thread.end()
    live.close()


@pytest.fixture
def worker(stage: Stage) -> Iterator[Connection]:
    """The connection of an instance."""
    with connect(stage.url) as worker:
        yield worker


@pytest.fixture
def instance_clock(monkeypatch: pytest.MonkeyPatch) -> SteppedTime:
    """The time of instances, who rest for as long as they may."""
    clock = SteppedTime()
    monkeypatch.setattr(instances, "time", clock)
    monkeypatch.setattr(instances, "random", SimpleNamespace(uniform=lambda low, high: high))
    return clock
