# SPDX-License-Identifier: Apache-2.0
"""Servers under measurement as processes: started on a free port of the loopback, watched, and ended by their own pid.

CPU time and memory are the kernel's (/proc), so they hold for a server in
any language. CPU time comes in ticks of 10 ms; take it over seconds.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from entrepot.errors import PortTaken, SystemFailed

LOOPBACK = "127.0.0.1"
READY_S = 90.0
STOP_S = 30.0
_LOG_TAIL_CHARACTERS = 2000
_LISTENING = "0A"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_held_ports: list[socket.socket] = []


class ServerProcess:
    """A child process with its output in a file; it dies with us, however we die.

    To the kernel, "us" is the thread that made it: let a thread start servers
    only if it lives as long as they should.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        name: str = "",
        user: str = "",
    ) -> None:
        """`name` is for errors; with `user` it runs as that user and in that user's groups, which takes root."""
        self.name = name or Path(command[0]).name
        self._log = log
        # The kernel sends the signal when we are gone, so that a killed trial leaves no server behind. It forgets the
        # wish when a process changes its user, so setpriv does both, in the right order.
        become = ["--reuid", user, "--regid", user, "--init-groups"] if user else []
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["setpriv", *become, "--pdeathsig", "KILL", *command],
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
            SystemFailed: The process has ended, or READY_S have passed.
        """
        deadline = time.monotonic() + READY_S
        while not is_ready():
            self._require_running()
            if time.monotonic() > deadline:
                raise SystemFailed(self.name, f"was not ready after {READY_S:.0f} s:\n{self._log_tail()}")
            time.sleep(0.05)

    def wait_until_listening(self, port: int) -> None:
        """Return when this process itself accepts connections on a port of the loopback.

        Raises:
            PortTaken: Another process does; a trial would measure that server.
            SystemFailed: The process has ended, or READY_S have passed.
        """
        try:
            self.wait_until(lambda: accepts(port))
        except SystemFailed as error:
            if accepts(port):
                raise PortTaken(self.name, port) from error
            raise
        if not listens(self.pid, port):
            self._require_running()
            raise PortTaken(self.name, port)

    def _require_running(self) -> None:
        if self._process.poll() is not None:
            ended = f"ended with status {self._process.returncode} before it was ready"
            raise SystemFailed(self.name, f"{ended}:\n{self._log_tail()}")

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
        return self._log.read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:]


def free_port() -> int:
    """A port for a server of ours, now and whenever it is started again while this process lives."""
    held = socket.socket()
    held.bind((LOOPBACK, 0))
    # Bound and not listening, it keeps the kernel from giving the port to another process, while a server, which names
    # the port and sets the same option, can have it. A port that was only looked up may be gone before a JVM is up.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _held_ports.append(held)
    port: int = held.getsockname()[1]
    return port


def chosen_port(system: str, options: Mapping[str, Any]) -> int:
    """The port that the option `port` names, or a free one.

    Raises:
        PortTaken: The named one is in use.
    """
    port = int(options.get("port") or 0)
    if port == 0:
        return free_port()
    with socket.socket() as tried:
        # As servers do: connections of one that has just ended do not count.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((LOOPBACK, port))
        except OSError as error:
            raise PortTaken(system, port) from error
    return port


def accepts(port: int) -> bool:
    """Whether a process listens on a port of the loopback."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def listens(pid: int, port: int) -> bool:
    """Whether it is this process that listens on a port, on whatever address."""
    sockets = set()
    for table in Path("/proc/net").glob("tcp*"):
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                sockets.add(f"socket:[{fields[9]}]")
    with contextlib.suppress(OSError):  # it has ended
        return any(_link(entry) in sockets for entry in Path(f"/proc/{pid}/fd").iterdir())
    return False


def _link(entry: Path) -> str:
    try:
        return str(entry.readlink())
    except OSError:  # closed meanwhile
        return ""


def script(name: str) -> str:
    """A command that was installed beside the Python that runs us."""
    return str(Path(sys.executable).parent / name)


def cpu_s(pids: Iterable[int]) -> float:
    """User and system time that living processes have used so far, all their threads included."""
    return sum(process_cpu_s(pid) for pid in pids)


def process_cpu_s(pid: int) -> float:
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def stat_fields(pid: int) -> list[str]:
    """Of /proc/PID/stat from the state on: then the parent; utime, stime, cutime and cstime are the 12th to 15th."""
    # The name in brackets before them may hold blanks.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def descendants(pid: int) -> list[int]:
    """A process and all that it or its children have started, as far as they still run."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                children.setdefault(int(stat_fields(int(path.name))[1]), []).append(int(path.name))
    found = [pid]
    for each in found:
        found += children.get(each, ())
    return found


def busy_s() -> float:
    """Time that all processors of the machine have spent, what the hypervisor took included."""
    user, nice, system, _, _, *interrupts = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
    return sum(map(int, (user, nice, system, *interrupts))) / _TICKS_PER_S


class CpuTimes:
    """What uses the processors while a window lasts: the server, its clients, and others."""

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
