# SPDX-License-Identifier: Apache-2.0
"""A thumbnail of every scenario of the broker document, on the one Spark of these tests.

The flows run as instances, the load's clients are threads, and several
scenarios are at work beside each other, each on queues of its own: starting
and ending flows is most of what a thumbnail takes. What comes out is counted
by the load and compared, byte for byte, with what the bare kernel makes of
the same message.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark import SparkContext

from channels.processes import ServerProcess
from entrepot import Connection
from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import MemoryWorld
from entrepot.message import Message
from entrepot.workbench.broker.cases import cases
from entrepot.workbench.broker.database import STOCK_ROWS, TABLES
from entrepot.workbench.broker.deploying import Deployed, DeploymentRequest, definitions, deployed
from entrepot.workbench.catalogue import scenarios
from entrepot.workbench.loads.flows import Flow, FlowLoadPlan, at_work, run_trial
from entrepot.workbench.measuring.effort import EFFORTS
from entrepot.workbench.measuring.record import TrialRecord
from entrepot.workbench.measuring.stage import Stage
from entrepot.workbench.scenario import Scenario
from entrepot.workbench.systems.entrepot_server import EntrepotUnix, QueueManagerProcess

TASKS_MAX = 6
"""So many long-running tasks have a slot in the tests' Spark."""
COUNT = 2
WAIT_S = 30.0


class SharedEngine:
    """Over a Spark that somebody else has opened and closes."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._deployed = Deployed()

    @contextlib.contextmanager
    def deployed(self, wanted: DeploymentRequest) -> Iterator[None]:
        with deployed(self._context, wanted) as self._deployed:
            yield

    @property
    def pids(self) -> list[int]:
        return self._deployed.pids

    def problem(self) -> str:
        return self._deployed.problem()


PUBLISHED = [scenario for scenario in scenarios().values() if scenario.load == "flow"]


class SharedManager(QueueManagerProcess):
    """The queue manager of these tests, as a system's."""

    def __init__(self, server: ServerProcess) -> None:
        super().__init__(server.path.parent)
        self.path = server.path
        self._running = server

    @property
    def pids(self) -> list[int]:
        return [self._running.pid]


class SharedServer(EntrepotUnix):
    """A system that runs already; its clients are threads, since a process with a Spark in it must not be forked."""

    one_process = True

    def __init__(self, folder: Path, scenario: Scenario, server: ServerProcess) -> None:
        point = scenario.thumbnail_point()
        super().__init__(folder, point.quality, point.effective)
        self.manager = SharedManager(server)


class File:
    """A database whose tables are there already."""

    pids = ()

    def __init__(self, url: str) -> None:
        self.url = url


def tasks_of(scenario: Scenario) -> int:
    told = scenario.thumbnail_point().effective
    copies = int(told.get("instances", 1)) * int(told.get("execution_groups", 1))
    return copies + len(cases()[str(told["case"])].flows) - 1


def batches() -> list[list[Scenario]]:
    """All of them, in turns that fit into Spark's slots; what writes to SQLite, one at a time, is spread."""
    found: list[list[Scenario]] = []
    for scenario in sorted(PUBLISHED, key=lambda each: ("database" not in str(each.points[0].parameters["case"]),)):
        is_writer = "database" in str(scenario.points[0].parameters["case"])
        for batch in found:
            fits = sum(map(tasks_of, batch)) + tasks_of(scenario) <= TASKS_MAX
            if fits and not (is_writer and any("database" in str(each.points[0].parameters["case"]) for each in batch)):
                batch.append(scenario)
                break
        else:
            found.append([scenario])
    return found


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("broker") / "broker.db"
    with sqlite3.connect(path) as connection:
        for table in TABLES:
            connection.execute(table)
        connection.executemany("INSERT INTO stock VALUES (?, 0)", [(number,) for number in range(1, STOCK_ROWS + 1)])
    connection.close()
    return f"sqlite:///{path}"


@pytest.mark.parametrize("batch", batches(), ids=lambda batch: batch[0].name)
def test_thumbnails_run_and_give_what_the_bare_kernel_gives(
    batch: list[Scenario], context: SparkContext, server: ServerProcess, tmp_path: Path, database: str
) -> None:
    with ThreadPoolExecutor(len(batch)) as pool:
        asked = [pool.submit(thumbnail, each, context, server, tmp_path, database) for each in batch]
        for scenario, answer in zip(batch, asked, strict=True):
            trial, sent, received, found = answer.result()
            assert trial.status != "failed", f"{scenario.name}: {trial.reason}"
            assert sent and sorted(received) == sorted(sent), scenario.name
            assert found[0] == found[1], scenario.name


Marks = list[tuple[int, int]]


def thumbnail(
    scenario: Scenario, context: SparkContext, server: ServerProcess, folder: Path, database: str
) -> tuple[TrialRecord, Marks, Marks, tuple[list[bytes], list[bytes]]]:
    """The trial, the marks of what was sent and of what came, and bodies beside those that were to be expected."""
    name = scenario.name.partition("/")[2]
    place = folder / name
    place.mkdir()
    stage = Stage(
        SharedServer(place, scenario, server),
        scenario,
        scenario.thumbnail_point(),
        EFFORTS["thumbnail"],
        run="tests",
        host="tests",
        repetition=1,
        results=place,
        scratch=place,
        defaults=Flow.parameters,
    )
    plan = FlowLoadPlan(stage, suffix=f".{name}")
    engine = SharedEngine(context)
    with at_work(stage, plan, engine, File(database) if plan.case.database else None) as servers:
        assert len(servers()) == plan.tasks
        run_trial(stage, plan, engine, servers)
        with server.connect() as connection:
            found = came(connection, plan), expected(plan)
    (trial,) = stage.trials
    return trial, marks(place / trial.trial / "sent.parquet"), marks(place / trial.trial / "received.parquet"), found


def marks(path: Path) -> Marks:
    table = pyarrow.parquet.read_table(path, columns=["sender", "number"]).to_pylist()
    return [(row["sender"], row["number"]) for row in table]


def came(connection: Connection, plan: FlowLoadPlan) -> list[bytes]:
    """What becomes of a few messages, persistent and not, at every place where they should arrive."""
    message = plan.case.body(plan.message_bytes)
    for number in range(COUNT):
        connection.put(plan.source, message.body, format=message.format, persistent=number % 2 == 0)
    if plan.case.echo:
        replies(connection, plan)
    found = []
    for queue in plan.subscriber_queues or [plan.target]:
        messages = [connection.get(queue, wait_s=WAIT_S) for _ in range(COUNT)]
        assert connection.get(queue) is None, queue
        found += [each.body for each in messages if each is not None]
    return found


def replies(connection: Connection, plan: FlowLoadPlan) -> None:
    for _ in range(4 * COUNT):
        request = connection.get(plan.case.echo + plan.suffix, wait_s=WAIT_S)
        assert request is not None
        connection.put(request.reply_to, request.body, correlation_id=request.message_id, persistent=request.persistent)


def expected(plan: FlowLoadPlan) -> list[bytes]:
    message = plan.case.body(plan.message_bytes)
    if plan.case.echo:
        padding = message.body[message.body.index(b"<Padding>") : message.body.index(b"</CSIM>")]
        return [b"<Answer>" + b"<Part>string-00001</Part>" * 4 + padding + b"</Answer>"] * COUNT
    if plan.case.database or plan.subscribers:
        # Database and Publication nodes let the message go on as it came.
        return [message.body] * COUNT * max(plan.subscribers, 1)
    return kernel_makes(plan, message)


KERNELS = threading.Lock()
"""Sets of models are a process's, by name, and those of different message sizes have the same name."""


def kernel_makes(plan: FlowLoadPlan, message: Message) -> list[bytes]:
    (definition,) = definitions(plan.case, plan.message_bytes, plan.suffix)
    stage: Any = MemoryWorld()
    with KERNELS:
        kernel = Kernel(definition)
        for _ in range(COUNT):
            stage.feed(kernel, kernel.points[0], message)
    return [each.body for each in stage.queues[plan.target]]
