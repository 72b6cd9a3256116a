# SPDX-License-Identifier: Apache-2.0
"""Instances in processes of this machine: no Spark, no Java, and the same guarantees.

    with LocalFlow(flow, "unix:./qm1", instances=2) as live:
        live.wait_until_running()

For development, and where one machine is enough. Each instance is a process
of its own, told by a pipe what to run, so that neither it nor its memory is
shared; one that dies is started again, under a higher epoch.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, Unpack

from entrepot.flows.definition import FlowDefinition
from entrepot.flows.live.deployment import Deployment
from entrepot.flows.live.supervision import FlowOptions, InstancesFailed, SupervisedFlow

_ATTEMPTS = 4
"""As many as Spark gives a task; then the flow is begun again after a pause."""
_PROGRAM = (sys.executable, "-m", "entrepot.flows.live.instance_process")


class LocalFlow(SupervisedFlow):
    """A flow in processes of this machine, from start to stop."""

    def __init__(self, flow: FlowDefinition, url: str, **options: Unpack[FlowOptions]) -> None:
        """Options are those of `FlowOptions`.

        Raises:
            FlowInvalid, InvalidSetting: The flow, or what it is to run with, is wrong.
        """
        super().__init__(LocalProcesses(), flow, url, **options)


class LocalProcesses:
    """Runs instances as processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._cancelled = 0
        """The last run that was cancelled: none of its instances is started again."""

    def require_room(self, instances: int) -> None:
        """Processes may be as many as memory holds."""

    def new_thread(self, work: Callable[[], None], name: str) -> threading.Thread:
        return threading.Thread(target=work, name=name, daemon=True)

    def run(self, deployment: Deployment) -> list[dict[str, Any]]:
        """
        Raises:
            InstancesFailed: One has raised an error, or has died too often.
        """
        with ThreadPoolExecutor(deployment.instances, f"flow {deployment.flow.name}") as pool:
            kept = [pool.submit(self._keep, deployment, number) for number in range(deployment.instances)]
            done, _ = wait(kept, return_when=FIRST_EXCEPTION)
            failed = next((instance for instance in done if instance.exception() is not None), None)
            if failed is not None:
                self.cancel(deployment)
        return [instance.result() for instance in ([failed] if failed is not None else kept)]

    def cancel(self, deployment: Deployment) -> None:
        with self._lock:
            self._cancelled = max(self._cancelled, deployment.run)
            for process in self._processes:
                process.kill()

    def _keep(self, deployment: Deployment, number: int) -> dict[str, Any]:
        """Run an instance, and again when its process dies."""
        status = 0
        for attempt in range(_ATTEMPTS):
            status, answer = self._attempt(deployment, number, attempt)
            if answer:
                break
        else:
            raise InstancesFailed(f"the process of instance {number} has ended with {status}, {_ATTEMPTS} times")
        told = pickle.loads(answer)  # noqa: S301 - by our own process, through a pipe that nobody else has
        if isinstance(told, InstancesFailed):
            raise told
        result: dict[str, Any] = told
        return result

    def _attempt(self, deployment: Deployment, number: int, attempt: int) -> tuple[int, bytes]:
        process = self._start(deployment)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            # A process that dies while it is told what to do has its end seen below.
            with contextlib.suppress(BrokenPipeError), process.stdin as told:
                told.write(pickle.dumps(sys.path))
                told.write(pickle.dumps((deployment, number, attempt, os.getpid())))
            answer = process.stdout.read()
            return process.wait(), answer
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            with self._lock:
                self._processes.discard(process)

    def _start(self, deployment: Deployment) -> subprocess.Popen[bytes]:
        with self._lock:
            if deployment.run <= self._cancelled:
                raise InstancesFailed("it was cancelled")
            # In a session of its own: Ctrl-C is for the program that runs the flow, which stops it in good order.
            process = subprocess.Popen(  # noqa: S603 - our own program
                _PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
            self._processes.add(process)
            return process
