# SPDX-License-Identifier: Apache-2.0
"""Instances of flows at work on a real queue manager, in threads of this process and without Spark.

stage.queue("BOTHRESH(3)")                      a queue of one's own
with stage.running(flow) as instances: ...      until the block ends; errors of an instance are raised then
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from entrepot.client.blocking import Connection, connect
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.live.deployment import ATTEMPTS_MAX, Deployment
from entrepot.flows.live.instance import STOP, Instance
from entrepot.message import Message

PATIENCE_S = 60.0
_numbers = itertools.count(1)


def node(type_name: str, **properties: Any) -> tuple[str, dict[str, Any]]:
    return type_name, properties


def reads(queue: str, domain: str = "XMLNSC", **properties: Any) -> tuple[str, dict[str, Any]]:
    return node("MQInput", queue=queue, domain=domain, **properties)


def writes(queue: str, **properties: Any) -> tuple[str, dict[str, Any]]:
    return node("MQOutput", queue=queue, **properties)


def compute(statements: str, **properties: Any) -> tuple[str, dict[str, Any]]:
    return node("Compute", statements=f"SET OutputRoot = InputRoot; {statements}", **properties)


def drawn(*lines: str, coordinated: bool = False, **nodes: tuple[str, dict[str, Any]]) -> FlowDefinition:
    """A flow from lines like `In -> Work -> Out` and `Work.failure -> Bad`, and what each node is."""
    flow = FlowDefinition(f"flow{next(_numbers)}", coordinated=coordinated)
    for name, (kind, properties) in nodes.items():
        flow.node(kind, name, **properties)
    for line in lines:
        for source, target in pairwise(line.split(" -> ")):
            name, _, terminal = source.partition(".")
            flow.link(name, target.partition(".")[0], terminal=terminal or "out")
    return flow


def until(reached: Callable[[], object], what: Callable[[], str], within_s: float = PATIENCE_S) -> None:
    """Return when something is so."""
    deadline = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < deadline, what()
        time.sleep(0.005)


class Running:
    """Instances of one flow."""

    def __init__(self, deployment: Deployment, numbers: range) -> None:
        self.deployment = deployment
        self.instances: list[Instance] = []
        self.results: list[dict[str, Any]] = []
        self.errors: list[BaseException] = []
        self.threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in numbers]

    def _run(self, number: int) -> None:
        try:
            instance = Instance(self.deployment, number)
            self.instances.append(instance)
            self.results.append(instance.run())
        except BaseException as error:
            self.errors.append(error)

    @property
    def problem(self) -> str:
        return "; ".join(str(each.status()["problem"]) for each in self.instances)

    def count(self, what: str) -> int:
        return sum(int(each.status()[what]) for each in self.instances)

    def until(self, reached: Callable[[], object], what: str) -> None:
        """Return when something is so, or raise what has ended an instance before."""
        until(lambda: self.errors or reached(), lambda: f"{what}; {self.problem}")
        if self.errors:
            raise self.errors[0]

    @property
    def is_alive(self) -> bool:
        return any(thread.is_alive() for thread in self.threads)


class Stage:
    """A queue manager with a server, and what tests do there."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection: Connection = connect(url, application="tests")

    def queue(self, attributes: str = "", *, name: str = "") -> str:
        name = name or f"T{next(_numbers)}"
        self.connection.mqsc(f"DEFINE QLOCAL({name}) {attributes}")
        return name

    def put(self, queue: str, *bodies: str | bytes, **options: Any) -> None:
        """Put messages so that all are there at once."""
        with self.connection.unit_of_work() as unit:
            for body in bodies:
                encoded = body.encode() if isinstance(body, str) else body
                unit.put(queue, encoded, **{"persistent": True, **options})

    def bodies(self, queue: str) -> list[str]:
        return [message.body.decode() for message in self.connection.browse(queue)]

    def messages(self, queue: str) -> list[Message]:
        return list(self.connection.browse(queue))

    def depth(self, queue: str) -> int:
        return int(str(self.connection.mqsc(f"DISPLAY QSTATUS({queue}) CURDEPTH")[0].rows[0]["CURDEPTH"]))

    def drained(self, *queues: str) -> bool:
        """Whether nobody has anything left to do there."""
        for queue in queues:
            row = self.connection.mqsc(f"DISPLAY QSTATUS({queue}) CURDEPTH UNCOM")[0].rows[0]
            if int(str(row["CURDEPTH"])) or int(str(row["UNCOM"] or 0)):
                return False
        return True

    @contextlib.contextmanager
    def running(
        self, flow: FlowDefinition, *, count: int = 1, databases: Mapping[str, str] | None = None, **options: Any
    ) -> Iterator[Running]:
        """Instances at work, which finish their units when the block ends."""
        prefix = Deployment(flow, self.url).claim_prefix
        run = self.connection.next_epoch(prefix) // ATTEMPTS_MAX + 1
        # A batch may take as long as it likes: a busy machine must not decide what is in it.
        told: dict[str, Any] = {"batch_s": 60.0, "databases": dict(databases or {}), "run": run, **options}
        running = Running(Deployment(flow, self.url, **told), range(count))
        for thread in running.threads:
            thread.start()
        try:
            until(lambda: len(running.instances) == count or running.errors, lambda: "all have begun")
            yield running
        finally:
            deadline = time.monotonic() + PATIENCE_S
            while running.is_alive and time.monotonic() < deadline:
                self.connection.instruct(prefix, STOP)
                time.sleep(0.005)
            for thread in running.threads:
                thread.join(PATIENCE_S)
        assert not running.is_alive, "an instance does not end"
        if running.errors:
            raise running.errors[0]
