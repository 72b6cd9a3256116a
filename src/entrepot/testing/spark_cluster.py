# SPDX-License-Identifier: Apache-2.0
"""A real Spark cluster on this machine, for tests: a master and workers, each a JVM of its own, killable."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from entrepot.spark.starting.java import find_java
from entrepot.spark.starting.launching import MASTER, WORKER, java_command, last_words, spark_environment

_START_S = 90.0
_END_S = 10.0
_LOOK_S = 0.05
_HOST = "127.0.0.1"


class SparkCluster:
    """`with SparkCluster(workers=2) as cluster: open_session(cluster.url, app="test", settings=cluster.settings)`."""

    def __init__(self, workers: int = 2, *, cores: int = 1, executor_memory_mb: int = 512) -> None:
        self._count = workers
        self._cores = cores
        self._executor_memory_mb = executor_memory_mb
        self._folder = tempfile.TemporaryDirectory(prefix="entrepot-cluster-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        self._java = find_java()
        self._environment = spark_environment(self._java) | {
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        self._port, self._page_port = _free_ports(2)
        self._master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """The master's address."""
        return f"spark://{_HOST}:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """What a session needs to run small executors, one on each worker."""
        return {
            "spark.executor.memory": f"{self._executor_memory_mb}m",
            "spark.executor.cores": str(self._cores),
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }

    def executor_pids(self) -> list[int]:
        """The executors that run now: the workers' children."""
        parents = {worker.pid for worker in self.workers}
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _parent(pid) in parents]

    def start(self) -> None:
        """Start all processes, and return when the master knows its workers.

        Raises:
            RuntimeError: One of them ended, or it took too long; with its last words.
        """
        address = ["--host", _HOST]
        page = ["--webui-port", str(self._page_port)]
        self._master = self._started("master", MASTER, [*address, "--port", str(self._port), *page])
        for number in range(self._count):
            # An executor needs more than its heap, and Spark counts the heap only.
            room = ["--cores", str(self._cores), "--memory", f"{self._executor_memory_mb}m"]
            work = ["--work-dir", str(self.folder / f"work-{number}"), "--webui-port", "0"]
            self.workers.append(self._started(f"worker-{number}", WORKER, [*address, *room, *work, self.url]))
        self._wait()

    def _started(self, name: str, main: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        command = java_command(self._java, self._environment, main, arguments)
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603
                command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        while self._registered() < self._count:
            ended = [process for process in self._processes() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                words = {path.name: last_words(path.read_text(errors="replace")) for path in self.folder.glob("*.log")}
                raise RuntimeError(f"the Spark cluster did not start: {words}")
            time.sleep(_LOOK_S)

    def _registered(self) -> int:
        """How many workers the master counts, by its own page."""
        try:
            with urllib.request.urlopen(f"http://{_HOST}:{self._page_port}/json/", timeout=5) as answer:
                state: dict[str, Any] = json.load(answer)
        except (OSError, json.JSONDecodeError):
            # Not there yet; or there, but without its pages: until they are all in place it answers in HTML.
            return 0
        return int(state["aliveworkers"])

    def _processes(self) -> list[subprocess.Popen[bytes]]:
        return [*([self._master] if self._master else []), *self.workers]

    def stop(self) -> None:
        """End all processes, the executors too."""
        executors = self.executor_pids()
        for process in self._processes():
            process.terminate()
        deadline = time.monotonic() + _END_S
        for process in self._processes():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in executors:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._folder.cleanup()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((_HOST, 0))
        return [probe.getsockname()[1] for probe in probes]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0
