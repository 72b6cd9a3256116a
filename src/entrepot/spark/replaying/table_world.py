# SPDX-License-Identifier: Apache-2.0
"""Where a kernel stands in a Spark worker: compiled once for all tasks of the process, with databases to read.

`TableWorld` is the world outside of a flow over a table: there are no queues
to get from and no states to keep, so all it has to do is to be quick. Message
ids come from the message that gave rise to them, so that a task which is tried
again makes the same ones.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import time
from collections.abc import Mapping, Sequence
from typing import Any

from entrepot.errors import DatabaseFailed, FlowNotStreamable, InvalidArgument
from entrepot.esql import Database
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.flow_world import Output, QueueFacts
from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import NoDatabase
from entrepot.flows.nodes.input_node import EntryPoint
from entrepot.flows.subflows import expand
from entrepot.message import Message
from entrepot.models import collect_seldom

DEAD_LETTERS = "SYSTEM.DEAD.LETTER.QUEUE"
_KERNELS_MAX = 8

STATES = {
    "AggregateControl": "which waits for replies",
    "AggregateRequest": "which waits for replies",
    "AggregateReply": "which waits for replies",
    "Collector": "which waits for more messages",
    "TimeoutControl": "which sets timers",
    "TimeoutNotification": "which waits for timers",
}
"""Node types that keep something from one message to the next."""
ELSEWHERE = {
    "FileInput": "which reads files by itself",
    "FileOutput": "which writes files, once for every try",
    "HTTPInput": "which waits for requests",
    "HTTPReply": "which answers requests",
    "MQGet": "which takes messages off a queue",
}
"""Node types that want more of the world than a row."""


class ReadOnlyDatabase:
    """A flow's data sources, for reading: a task may be tried again, and must change nothing meanwhile."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        from sqlalchemy import create_engine

        from entrepot.esql.sql_database import SqlDatabase

        self._connections = {name: create_engine(url).raw_connection() for name, url in urls.items()}
        self._database = SqlDatabase({name: each.driver_connection for name, each in self._connections.items()})

    def query(self, source: str, text: str, values: Sequence[Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return self._database.query(source, text, values)

    def execute(self, source: str, *_: Any, **__: Any) -> int:
        raise _read_only(source)

    def call(self, source: str, *_: Any, **__: Any) -> Any:
        raise _read_only(source)

    def finish(self, source: str, commit: bool) -> None:
        """There is nothing to commit."""

    def let_go(self) -> None:
        """End what was begun for reading, so that the next batch sees what others have changed."""
        for connection in self._connections.values():
            connection.rollback()


def _read_only(source: str) -> DatabaseFailed:
    named = f"the data source {source!r}" if source else "the data source"
    problem = f"{named} is only read when a flow runs over a table, since Spark may run it again"
    return DatabaseFailed(problem, sqlstate="25006")


class TableWorld:
    """A `FlowWorld` for one message after another."""

    careful = False

    def __init__(self, database: Database, dead_letters: str, *, own_time: bool) -> None:
        self.database = database
        self.own_time = own_time
        self._facts = QueueFacts(dead_letter_queue=dead_letters)
        self.message: Message | None = None
        """The one that is on its way."""
        self.put_at_once: list[Output] = []
        """What nodes have sent outside of the unit of work."""
        self._ids_of: Message | None = None
        self._ids_head = b""
        self._ids_made = 0

    def now(self) -> float:
        message = self.message
        return message.put_time if self.own_time and message is not None and message.put_time else time.time()

    def steady_now(self) -> float:
        return self.now()

    def new_message_id(self) -> bytes:
        message = self.message
        if message is not self._ids_of or message is None:
            self._ids_of, self._ids_made = message, 0
            seed = os.urandom(16) if message is None else message.message_id or message.body
            self._ids_head = hashlib.blake2b(seed, digest_size=20).digest()
        self._ids_made += 1
        return self._ids_head + self._ids_made.to_bytes(4, "big")

    def facts(self, queue: str) -> QueueFacts:
        del queue
        return self._facts

    def put(self, output: Output) -> None:
        raise AssertionError(f"outputs are collected by the journey, and not put: {output.destination}")

    def put_now(self, output: Output) -> None:
        """Outside of a unit of work is the same as inside, where the rows of a batch come all together."""
        self.put_at_once.append(output)

    def get(self, *_: Any, **__: Any) -> Message | None:
        return None

    def take(self, *_: Any, **__: Any) -> Message | None:
        return None

    def is_kept(self, *_: Any, **__: Any) -> bool:
        return False

    def database_used(self) -> bool:
        # It was only read, so a message that fails has nothing to undo.
        return False

    def finish_database(self, source: str) -> None:
        self.database.finish(source, True)

    def allow_time(self, seconds: float) -> None:
        """Nothing here has limits of time."""

    def trace(self, destination: str, text: str) -> None:
        """A user trace of a million rows is of no use."""


def require_streamable(flow: FlowDefinition) -> None:
    """Refuse flows that cannot run over a table.

    Raises:
        FlowNotStreamable: Names the first node that does not fit.
    """
    refused = {**ELSEWHERE, **STATES}
    for node in expand(flow).nodes.values():
        if node.type in refused:
            raise FlowNotStreamable(flow.name, node.name, node.type, refused[node.type])


def points_by_queue(kernel: Kernel, name: str, *, rows_say: bool) -> dict[str, EntryPoint]:
    """Where messages enter, by the queue that they come from; the empty one stands for all.

    `rows_say`: each row tells its queue, so that a flow with several input nodes gets what each of them would.

    Raises:
        InvalidArgument: There is no such input node, or several and nothing says which.
    """
    points = [point for point in kernel.points if not point.internal]
    names = ", ".join(point.node.name for point in points) or "none"
    if name:
        for point in points:
            if name in (point.node.name, point.queue):
                return {"": point}
        raise InvalidArgument("point", f"the flow {kernel.flow.name} has no input node {name!r}", f"one of {names}")
    if len(points) == 1:
        return {"": points[0]}
    queues = {point.queue: point for point in points if point.queue}
    if rows_say and queues:
        return queues
    raise InvalidArgument("point", f"the flow {kernel.flow.name} has {len(points)} input nodes", f"one of {names}")


class ReplayWorker:
    """A kernel and its databases in one process."""

    def __init__(self, flow: FlowDefinition, databases: Mapping[str, str]) -> None:
        collect_seldom()
        self.kernel = Kernel(flow)
        self.database: ReadOnlyDatabase | NoDatabase = ReadOnlyDatabase(databases) if databases else NoDatabase()


_workers: dict[tuple[int, bytes], ReplayWorker] = {}


def worker_for(pickled: bytes) -> ReplayWorker:
    """The kernel of a pickled (flow, databases), compiled when this process first needs it."""
    key = (os.getpid(), hashlib.blake2b(pickled, digest_size=16).digest())
    found = _workers.get(key)
    if found is None:
        while len(_workers) >= _KERNELS_MAX:
            del _workers[next(iter(_workers))]
        flow, databases = pickle.loads(pickled)  # noqa: S301 -- our own driver has pickled it
        found = _workers[key] = ReplayWorker(flow, databases)
    return found
