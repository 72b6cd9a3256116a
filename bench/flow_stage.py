# SPDX-License-Identifier: Apache-2.0
"""The stage on which the cost of flows is measured: a server, Spark, and a queue that is full when the clock starts.

All messages of a trial lie on the input queue before the flow begins; the
rate is taken between the moments when a tenth and all of them have come out.
So no generator competes with the flow, and the same instances can be
compared as Spark's tasks and as plain processes. (The broker document's own
figures, with a sender that keeps messages waiting, are the workbench's.)
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

from entrepot.client.blocking import Connection, connect
from entrepot.flows.live.deployment import ATTEMPTS_MAX, Deployment
from entrepot.spark.starting.session import close_session, open_context
from entrepot.workbench.broker.cases import BrokerCase
from entrepot.workbench.broker.deploying import DeploymentRequest, deployed, queues_of
from entrepot.workbench.loads.flows import IN, OUT
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.entrepot_server import EntrepotUnix
from entrepot.workbench.systems.entrepot_system import depth_of
from entrepot.workbench.systems.processes import cpu_s

FIRST_PART = 0.1
PART_SEEN_MIN = 0.6
COUNT_MAX = 100_000
_LOOK_S = 0.02
_TRIAL_S_MAX = 120.0
_PLAIN = """
import pickle, sys
from entrepot.flows.live.instance import run_instance
deployment, number = pickle.loads(sys.stdin.buffer.read())
run_instance(deployment, number, 0)
"""


class Stage:
    """Everything that trials share; one at a time uses it."""

    def __init__(self, folder: Path, *, master: str = "local[2,4]") -> None:
        self._system = EntrepotUnix(folder, Quality.EXPRESS)
        self._master = master
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self._system)
        self._context = open_context(self._master, app="bench", light=True, preload=("entrepot.flows.live.instance",))
        self._stack.callback(close_session, self._context)
        self.connection: Connection = self._stack.enter_context(connect(self.url))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        return self._system.url

    def fill(self, case: BrokerCase, size: int, count: int) -> None:
        """Empty queues, and an input queue that is full of nonpersistent messages."""
        self._system.create_queues(queues_of(case))
        message = case.body(size)
        with self.connection.pipeline() as pipeline:
            for _ in range(count):
                pipeline.put(IN, message.body, format=message.format, persistent=False)

    # --- one trial ----------------------------------------------------------------------------

    def run(
        self, case: BrokerCase, size: int, count: int, *, instances: int = 2, plain: bool = False
    ) -> dict[str, Any]:
        """One trial: messages per second, and processor time of the instances and of the queue manager.

        Where most messages were through before the clock could be started, there is another one with twice as many.
        """
        while True:
            found = self._run(case, size, count, instances, plain)
            if found["part_seen"] >= PART_SEEN_MIN or count >= COUNT_MAX:
                return found
            count *= 2

    def _run(self, case: BrokerCase, size: int, count: int, instances: int, plain: bool) -> dict[str, Any]:
        self.fill(case, size, count)
        start = self._plain if plain else self.on_spark
        with start(case, size, instances) as pids:
            found = self._watch(count, pids)
        return found | {"case": case.name, "size": size, "count": count, "instances": instances, "plain": plain}

    def _watch(self, count: int, pids: Sequence[int]) -> dict[str, Any]:
        self._wait_for(int(count * FIRST_PART))
        begun, servers, workers = time.perf_counter(), cpu_s(self._system.pids), cpu_s(pids)
        done_at_first = self._depth()
        self._wait_for(count)
        elapsed = time.perf_counter() - begun
        messages = max(count - done_at_first, 1)  # none only where the trial was far too short
        server_s, worker_s = cpu_s(self._system.pids) - servers, cpu_s(pids) - workers
        return {
            "rate_per_s": messages / elapsed,
            "elapsed_s": elapsed,
            "part_seen": messages / count,
            "server_cpu_ms": server_s / messages * 1000,
            "flow_cpu_ms": worker_s / messages * 1000,
        }

    def _depth(self) -> int:
        # Not the system's own question, which would make a connection every time.
        return depth_of(self.connection.mqsc(f"DISPLAY QSTATUS({OUT}) CURDEPTH"))

    def _wait_for(self, depth: int) -> None:
        deadline = time.monotonic() + _TRIAL_S_MAX
        while self._depth() < depth:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{OUT} has {self._depth()} of {depth} after {_TRIAL_S_MAX:.0f} s")
            time.sleep(_LOOK_S)

    # --- the flow at work ---------------------------------------------------------------------

    @contextlib.contextmanager
    def on_spark(self, case: BrokerCase, size: int, instances: int) -> Iterator[list[int]]:
        """Its instances as Spark's tasks; yields their processes."""
        wanted = DeploymentRequest(case=case.name, url=self.url, message_bytes=size, instances=instances)
        with deployed(self._context, wanted) as running:
            yield running.pids

    @contextlib.contextmanager
    def _plain(self, case: BrokerCase, size: int, instances: int) -> Iterator[list[int]]:
        """The same instances as processes that Spark knows nothing of."""
        (flow,) = case.definitions(size)
        deployment = Deployment(flow, self.url, group="plain", instances=instances)
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
