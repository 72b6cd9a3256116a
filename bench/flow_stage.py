# SPDX-License-Identifier: Apache-2.0
"""The stage on which flows are measured: a server, Spark, a database, and queues that are full when the clock starts.

All messages of a trial lie on the input queue before the flow begins, as the
broker document kept messages waiting; the rate is taken between the moments
when a tenth and all of them have come out. So no generator competes with
the flow, and all work of the queue manager is inside of the window.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from entrepot.connection import Connection, connect
from entrepot.spark.live.deployment import ATTEMPTS_MAX, Deployment
from entrepot.spark.live.live_flow import LiveFlow
from entrepot.spark.starting.session import close_session, open_context
from entrepot.workbench.broker.cases import Case
from entrepot.workbench.broker.database import fill
from peers.entrepot_server import QueueManager
from processes import cpu_s

IN, OUT = "BROKER.IN", "BROKER.OUT"
QUEUES = (IN, OUT, "BROKER.OTHER", "BROKER.REQUESTS", "BROKER.REPLIES", "BROKER.LATE", "BROKER.STRANGE")
FIRST_PART = 0.1
PART_SEEN_MIN = 0.6
COUNT_MAX = 100_000
_LOOK_S = 0.02
_TRIAL_S_MAX = 120.0
_ECHO = """
import sys, entrepot
from msgspec.structs import replace
source = sys.argv[2]
with entrepot.connect(sys.argv[1]) as connection, connection.reader(source, read_ahead=200) as reader:
    while True:
        with connection.unit_of_work() as unit:
            request = reader.get(unit, wait_s=60)
            count = 0
            while request is not None:
                reply = replace(request, correlation_id=request.message_id, message_id=b"", backout_count=0)
                connection.host.put(request.reply_to, reply, persistent=request.persistent, unit=unit._unit)
                count += 1
                request = reader.get(unit) if count < 100 else None
"""
_PLAIN = """
import pickle, sys
from entrepot.spark.live.instance import run_instance
deployment, number = pickle.loads(sys.stdin.buffer.read())
run_instance(deployment, number, 0)
"""


class Stage:
    """Everything that trials share; one at a time uses it."""

    def __init__(self, folder: Path, *, master: str = "local[2,4]") -> None:
        self._manager = QueueManager(folder)
        self._folder = folder
        self._master = master
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._manager.start()
        self._stack.callback(self._manager.stop)
        self.context = open_context(self._master, app="bench", light=True, preload=("entrepot.spark.live.instance",))
        self._stack.callback(close_session, self.context)
        self.connection: Connection = self._stack.enter_context(connect(self.url))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        return self._manager.unix_url

    # --- databases ----------------------------------------------------------------------------

    def sqlite(self) -> str:
        path = self._folder / "broker.db"
        url = f"sqlite:///{path}"
        if not path.exists():
            fill(url)
        return url

    def postgresql(self) -> str:
        if not hasattr(self, "_postgres"):
            import shutil
            import tempfile

            from entrepot.testing.postgres import Postgres

            # Its server runs as another user, who may not look into our folders.
            place = Path(tempfile.mkdtemp(prefix="entrepot-bench-postgres-"))
            self._stack.callback(shutil.rmtree, place, ignore_errors=True)
            self._postgres = self._stack.enter_context(Postgres(place))
            fill(self._postgres.url)
        return self._postgres.url

    # --- one trial ----------------------------------------------------------------------------

    def fill(self, case: Case, size: int, count: int, *, persistent: bool) -> None:
        """Empty queues, and an input queue that is full."""
        lines = []
        for queue in QUEUES:
            lines += [f"DEFINE QLOCAL({queue}) MAXDEPTH(999999999) REPLACE", f"CLEAR QLOCAL({queue})"]
        self.connection.mqsc("\n".join(lines))
        message = case.body(size)
        with self.connection.pipeline() as pipeline:
            for _ in range(count):
                pipeline.put(IN, message.body, format=message.format, persistent=persistent)

    @contextlib.contextmanager
    def subscribed(self, case: Case) -> Iterator[str]:
        """Subscribers with a queue each; yields the queue to be watched."""
        if not case.subscribers:
            yield OUT
            return
        names = [f"BROKER.SUB.{number}" for number in range(case.subscribers)]
        content = f" CONTENT('{case.content.replace(chr(39), chr(39) * 2)}')" if case.content else ""
        self.connection.mqsc(
            "\n".join(
                f"DEFINE QLOCAL({name}) MAXDEPTH(999999999)\n"
                f"DEFINE SUB({name}) TOPICSTR('broker/prices') DEST({name}){content}"
                for name in names
            )
        )
        try:
            yield names[-1]
        finally:
            self.connection.mqsc("\n".join(f"DELETE SUB({name})\nDELETE QLOCAL({name}) PURGE" for name in names))

    @contextlib.contextmanager
    def answered(self, case: Case) -> Iterator[None]:
        """Somebody who answers requests, where a case has them."""
        if not case.echo:
            yield
            return
        child = subprocess.Popen([sys.executable, "-c", _ECHO, self.url, case.echo])
        try:
            yield
        finally:
            child.kill()
            child.wait()

    def run(
        self, case: Case, size: int, count: int, *, persistent: bool, databases: dict[str, str] | None = None,
        instances: int = 2, plain: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """One trial: messages per second, and processor time of the instances and of the queue manager.

        Where most messages were through before the clock could be started, there is another one with twice as many.
        """
        while True:
            found = self._run(case, size, count, persistent, databases or {}, instances, plain)
            if found["part_seen"] >= PART_SEEN_MIN or count >= COUNT_MAX:
                return found
            count *= 2

    def _run(
        self,
        case: Case,
        size: int,
        count: int,
        persistent: bool,
        databases: dict[str, str],
        instances: int,
        plain: bool,
    ) -> dict[str, Any]:
        self.fill(case, size, count, persistent=persistent)
        start = self._plain if plain else self._on_spark
        with (
            self.subscribed(case) as watched,
            self.answered(case),
            start(case, databases, instances) as pids,
        ):
            found = self._watch(watched, count, pids)
        return found | {"case": case.name, "size": size, "persistent": persistent, "count": count, "plain": plain}

    def _watch(self, queue: str, count: int, pids: Sequence[int]) -> dict[str, Any]:
        first = int(count * FIRST_PART)
        self._wait_for(queue, first)
        begun, servers, workers = time.perf_counter(), cpu_s([self._manager.pid]), cpu_s(pids)
        done_at_first = self._depth(queue)
        self._wait_for(queue, count)
        elapsed = time.perf_counter() - begun
        messages = max(count - done_at_first, 1)  # none only where the trial was far too short
        server_s, worker_s = cpu_s([self._manager.pid]) - servers, cpu_s(pids) - workers
        return {
            "rate_per_s": messages / elapsed,
            "elapsed_s": elapsed,
            "part_seen": messages / count,
            "server_cpu_ms": server_s / messages * 1000,
            "flow_cpu_ms": worker_s / messages * 1000,
        }

    def _depth(self, queue: str) -> int:
        return int(self.connection.mqsc(f"DISPLAY QSTATUS({queue}) CURDEPTH")[0].rows[0]["CURDEPTH"])

    def _wait_for(self, queue: str, depth: int) -> None:
        deadline = time.monotonic() + _TRIAL_S_MAX
        while self._depth(queue) < depth:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{queue} has {self._depth(queue)} of {depth} after {_TRIAL_S_MAX:.0f} s")
            time.sleep(_LOOK_S)

    @contextlib.contextmanager
    def running(self, case: Case, instances: int) -> Iterator[None]:
        """The case's flow at work, for whoever sends and receives himself."""
        with self._on_spark(case, {}, instances):
            yield

    @contextlib.contextmanager
    def _on_spark(self, case: Case, databases: dict[str, str], instances: int) -> Iterator[list[int]]:
        flows = case.definitions()
        each = 1 if len(flows) > 1 or case.groups > 1 else case.instances or instances
        with contextlib.ExitStack() as stack:
            running = [
                stack.enter_context(
                    LiveFlow(self.context, flow, self.url, instances=each, group=f"g{group}", databases=databases)
                )
                for flow in flows
                for group in range(case.groups)
            ]
            yield [pid for live in running for pid in self._pids(live)]

    def _pids(self, live: LiveFlow) -> list[int]:
        live.wait_until_running()
        while True:
            rows = live.status()
            if all("pid" in row for row in rows):
                return [int(row["pid"]) for row in rows]
            time.sleep(_LOOK_S)

    @contextlib.contextmanager
    def _plain(self, case: Case, databases: dict[str, str], instances: int) -> Iterator[list[int]]:
        """The same instances as processes that Spark knows nothing of."""
        (flow,) = case.definitions()
        deployment = Deployment(flow, self.url, databases=databases, group="plain", instances=instances)
        epoch = self.connection.next_epoch(deployment.claim_prefix)
        deployment = replace(deployment, run=epoch // ATTEMPTS_MAX + 1)
        children = []
        for number in range(instances):
            child = subprocess.Popen([sys.executable, "-c", _PLAIN], stdin=subprocess.PIPE)
            assert child.stdin is not None
            child.stdin.write(pickle.dumps((deployment, number)))
            child.stdin.close()
            children.append(child)
        try:
            yield [child.pid for child in children]
        finally:
            while any(child.poll() is None for child in children):
                self.connection.instruct(deployment.claim_prefix, "stop")
                time.sleep(_LOOK_S)
            for child in children:
                assert child.returncode in (0, -signal.SIGKILL)
