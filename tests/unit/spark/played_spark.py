# SPDX-License-Identifier: Apache-2.0
"""Live flows step by step: Spark is a context that runs nothing; the queue manager and its claims are real."""

from __future__ import annotations

from typing import Any

from entrepot.flows.definition import FlowDefinition
from entrepot.flows.live.instance import STOP
from entrepot.spark.live.live_flow import LiveFlow
from unit.flows.live.staged import Stage, drawn, reads, writes
from unit.flows.live.stepped import Stepped

KILLED = RuntimeError("Job aborted: most recent failure: Lost task 0: Python worker exited unexpectedly\n\tat java")
FOREIGN = RuntimeError("thrown:\nTraceback (most recent call last):\n  File 1\nModuleNotFoundError: orders\n")
ENDED: list[dict[str, Any]] = [{"messages": 1, "order": STOP}]


class Spark:
    """What a `LiveFlow` asks of a SparkContext; each job ends as the test says."""

    master = "local[4]"
    defaultParallelism = 4

    def __init__(self) -> None:
        self.jobs: list[Any] = []
        self.groups: list[tuple[str, bool]] = []
        self.cancelled: list[str] = []
        self._jsc: Any = self
        self.is_stopped = False

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool = False) -> None:
        self.groups.append((group, interruptOnCancel))

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)

    def parallelize(self, numbers: range, slices: int) -> Spark:
        assert len(numbers) == slices, "a task for each instance"
        return self

    def mapPartitions(self, task: object) -> Spark:
        return self

    def collect(self) -> Any:
        job = self.jobs.pop(0)
        if isinstance(job, Exception):
            raise job
        return job() if callable(job) else job

    def sc(self) -> Spark:
        return self

    def isStopped(self) -> bool:
        return self.is_stopped


def flow_of(stage: Stage) -> FlowDefinition:
    return drawn("In -> Out", In=reads(stage.queue()), Out=writes(stage.queue()))


def claim_of(live: LiveFlow, number: int = 0) -> str:
    return f"flow/{live.name}/default/{number}"


def epochs(stage: Stage, live: LiveFlow) -> list[int]:
    return [claim.epoch for claim in stage.connection.claims(f"flow/{live.name}/")]


def run(live: LiveFlow, threads: Stepped) -> None:
    """All jobs, one after another, until the flow has ended."""
    live.start()
    threads.threads[-1].run()
