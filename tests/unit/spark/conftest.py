# SPDX-License-Identifier: Apache-2.0
"""Live flows that go on step by step, on the queue manager of the tests of instances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from entrepot.flows.live import supervision as living
from entrepot.spark.live.live_flow import LiveFlow
from unit.flows.live.conftest import instance_clock, quick, stage, worker
from unit.flows.live.staged import Stage
from unit.flows.live.stepped import Stepped, SteppedTime

from .played_spark import Spark, flow_of

__all__ = ["instance_clock", "quick", "stage", "worker"]


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
