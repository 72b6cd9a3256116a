# SPDX-License-Identifier: Apache-2.0
"""Servers under measurement as processes: started on a free port of the loopback, watched, and ended by their own pid.

CPU time and memory are the kernel's (/proc), so they hold for a server in
any language. CPU time comes in ticks of 10 ms; take it over seconds.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

LOOPBACK = "127.0.0.1"
READY_S = 90.0
STOP_S = 30.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ServerFailed(Exception):
    """A server did not start or did not answer; the end of its log is in the message."""


class Server:
    """A child process with its output in a file; it dies with us, however we die."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = log
        # The kernel sends the signal when we are gone, so that a killed trial leaves no server behind.
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if environment is None else {**os.environ, **environment},
                cwd=log.parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Return when `is_ready` says so.

        Raises:
            ServerFailed: The process has ended, or READY_S have passed.
        """
        deadline = time.monotonic() + READY_S
        while not is_ready():
            if self._process.poll() is not None:
                raise ServerFailed(f"ended with {self._process.returncode}:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"not ready after {READY_S:.0f} s:\n{self._log_tail()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ask it to end, and insist when it does not."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]


def free_port() -> int:
    """A port that nobody had just now; the server takes it a moment later."""
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        port: int = found.getsockname()[1]
        return port


def accepts(port: int) -> bool:
    """Whether somebody listens on a port of the loopback."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def script(name: str) -> str:
    """A command that was installed beside the Python that runs us."""
    return str(Path(sys.executable).parent / name)


def cpu_s(pids: Iterable[int]) -> float:
    """User and system time that living processes have used so far, all their threads included."""
    return sum(_ticks(pid) for pid in pids) / _TICKS_PER_S


def _ticks(pid: int) -> int:
    # The name in brackets may hold blanks, so count behind it: utime and stime are the 14th and 15th of all.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def busy_s() -> float:
    """Time that all processors of the machine have spent on anybody, what the hypervisor took included."""
    user, nice, system, _, _, *interrupts = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
    return sum(map(int, (user, nice, system, *interrupts))) / _TICKS_PER_S


class CpuTimes:
    """Who uses the processors while a window lasts: the server, its clients, and others."""

    def __init__(self, servers: Sequence[int], clients: Sequence[int]) -> None:
        self._servers, self._clients = servers, clients
        self._began = time.perf_counter()
        self._before = self._now()

    def _now(self) -> tuple[float, float, float]:
        return cpu_s(self._servers), cpu_s(self._clients), busy_s()

    def stop(self) -> dict[str, float]:
        """CPU time since the beginning, and how much of the machine others had."""
        server_s, client_s, all_s = (after - before for after, before in zip(self._now(), self._before, strict=True))
        offered_s = (time.perf_counter() - self._began) * len(os.sched_getaffinity(0))
        return {
            "server_cpu_s": server_s,
            "client_cpu_s": client_s,
            "others_cpu_percent": max(0.0, all_s - server_s - client_s) / offered_s * 100,
        }


def resident_kib(pids: Iterable[int]) -> int:
    """Memory that processes have in RAM now; what they share is counted for each."""
    total = 0
    for pid in pids:
        found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        total += int(found[1]) if found else 0
    return total


def open_files(pid: int) -> int:
    """Sockets included."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
