# SPDX-License-Identifier: Apache-2.0
"""A server and clients as processes of their own, to be stopped, frozen, killed and weighed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from conftest import TESTER
from entrepot import Connection
from entrepot.client.blocking import connect
from entrepot.errors import EntrepotError

PATIENCE_S = 60.0


def until(reached: Callable[[], object], what: str, within_s: float = PATIENCE_S) -> None:
    """Return when something is so."""
    deadline = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


class StallWatch(threading.Thread):
    """Measures for how long this process was not let run: the longest time that a short sleep took."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest_s = 0.0
        self._is_over = threading.Event()

    def run(self) -> None:
        before = time.monotonic()
        while not self._is_over.wait(0.02):
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - before)
            before = now

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()


def without_stalls(work: Callable[[], None], stall_s: float = 0.8, times: int = 5) -> None:
    """Do what only a machine can do that lets us run: a heartbeat that it kept back is no mistake of ours.

    A failure counts unless the machine was seen to stand still meanwhile; only then the work is done once more.
    """
    for left in reversed(range(times)):
        with StallWatch() as watch:
            try:
                work()
                return
            except (AssertionError, EntrepotError) as error:
                error.add_note(f"the longest time that the machine did not let us run: {watch.longest_s:.2f} s")
                if not left or watch.longest_s < stall_s:
                    raise


# What `entrepot qm start` does, without the command line, which takes longer to import than the server to start.
_START = "import sys, pathlib, entrepot.cli.serving as cli; cli.start(pathlib.Path(sys.argv[1]), json=True)"


class ServerProcess:
    """`entrepot qm start` on a folder; may be killed and started as often as you like."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unix_url = f"unix:{path}"
        self.port = 0
        """Another one after each start, unless the listener says which."""
        self.tcp_url = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        command = [sys.executable, "-c", _START, str(self.path)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdout is not None
        told = self._process.stdout.readline()
        assert told, "it tells when it runs"
        (self.port,) = (listener["PORT"] for listener in json.loads(told)["listeners"])
        self.tcp_url = f"mq://{TESTER}@127.0.0.1:{self.port}/QM1"

    def kill(self) -> None:
        """As a power cut would, but for what the kernel has in memory."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def stop(self) -> int:
        """Ask it to stop, and wait for its end; returns its exit code."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code

    def restart(self) -> None:
        self.kill()
        self.start()

    def connect(self, **options: float) -> Connection:
        return connect(self.unix_url, application="tests", **options)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self.kill()


class Program:
    """A client that runs a few lines of Python with `connection`, and prints what `said` reads."""

    def __init__(self, url: str, lines: str) -> None:
        whole = f"import sys, time, entrepot\nconnection = entrepot.connect({url!r})\n" + textwrap.dedent(lines)
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-c", whole], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def said(self) -> str:
        """Its next line."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def tell(self, line: str = "") -> None:
        """Let it go on, if it waits for a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def finish(self) -> None:
        assert self._process.wait(PATIENCE_S) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stdin):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def memory_bytes(pid: int, what: str = "VmRSS") -> int:
    """What a process holds, by the kernel's word; VmHWM is its peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == what:
            return int(value.split()[0]) * 1024
    raise AssertionError(f"no {what} of {pid}")


def forget_peak(pid: int) -> None:
    """Let the peak begin at what is held now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
