# SPDX-License-Identifier: Apache-2.0
"""What the kernel and the system tell while a trial lasts: processors, run queue, memory, writes, forces, depths.

A thread of the leader reads /proc at a fixed cadence. A figure that this
machine does not offer (no such device in /proc/diskstats, no depth) is left
out, never guessed. CPU time of generators that have ended is not lost: it is
kept at its last reading.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from entrepot.workbench.measuring.quiet import others_cpu_s
from entrepot.workbench.systems.processes import busy_s, process_cpu_s
from entrepot.workbench.systems.system import System

Sample = tuple[int, str, str, float]
"""Time in ns, measure, subject, value."""
_SECTOR_BYTES = 512


class Sampler:
    """Samples until its block ends; `samples` is what it has read."""

    def __init__(
        self,
        system: System,
        generators: Callable[[], Sequence[int]],
        *,
        servers: Callable[[], Sequence[int]],
        getters: Callable[[], Sequence[int]],
        waits_s: Callable[[], Sequence[float]],
        queues: Sequence[str],
        every_s: float,
    ) -> None:
        """`getters` are those of the generators' processes that take messages; `waits_s` is what each getter has told
        of its waiting, threads of a process by themselves."""
        self.samples: list[Sample] = []
        self._system = system
        self._generators, self._servers = generators, servers
        self._getters, self._waits_s = getters, waits_s
        self._queues = queues
        self._every_s = every_s
        self._device = device_of(system.folder)
        self._last_ticks: dict[int, float] = {}
        self._first_ticks: dict[int, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="sampler")

    def __enter__(self) -> Sampler:
        self._read()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(10.0)
        self._read()

    def read_others(self) -> None:
        """What processes outside of the trial have used; rarely, as to look at all of a machine takes milliseconds."""
        self.samples.append((time.monotonic_ns(), "cpu_s", "others", others_cpu_s()))

    def _run(self) -> None:
        due = time.monotonic() + self._every_s
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            self._read()
            # A reading that took longer than the cadence is not made up for by several at once.
            due = max(due + self._every_s, time.monotonic())

    def _read(self) -> None:
        now = time.monotonic_ns()
        add = self.samples.append
        add((now, "cpu_busy_s", "machine", busy_s()))
        add((now, "run_queue", "machine", float(_run_queue())))
        servers, generators = self._servers(), self._generators()
        add((now, "cpu_s", "server", self._cpu_s("server", servers)))
        add((now, "cpu_s", "generators", self._cpu_s("generators", generators)))
        used_s = {pid: self._since_first_cpu_s(pid) for pid in generators}
        add((now, "cpu_s", "busiest generator", max(used_s.values(), default=0.0)))
        if getting_s := [used_s[pid] for pid in self._getters() if pid in used_s]:
            add((now, "cpu_s", "busiest getter", max(getting_s)))
        if waits_s := self._waits_s():
            add((now, "getters", "getters", float(len(waits_s))))
            add((now, "getter_wait_s", "getters", sum(waits_s)))
        add((now, "resident_bytes", "server", float(_resident_bytes(servers))))
        for measure, value in _writes(servers).items():
            add((now, measure, "server", value))
        for measure, value in _disk(self._device).items():
            add((now, measure, self._device, value))
        add((now, "network_bytes", "machine", _loopback_bytes()))
        for queue in self._queues:
            # A server under load may take its time to answer, so the depth has a time of its own.
            depth = self._depth(queue)
            if depth is not None:
                add((time.monotonic_ns(), "depth", queue, float(depth)))

    def _depth(self, queue: str) -> int | None:
        with contextlib.suppress(Exception):
            return self._system.depth(queue)
        return None

    def _process_cpu_s(self, pid: int) -> float:
        with contextlib.suppress(OSError, IndexError, ValueError):
            self._last_ticks[pid] = process_cpu_s(pid)
        return self._last_ticks.get(pid, 0.0)

    def _since_first_cpu_s(self, pid: int) -> float:
        used_s = self._process_cpu_s(pid)
        return used_s - self._first_ticks.setdefault(pid, used_s)

    def _cpu_s(self, subject: str, pids: Iterable[int]) -> float:
        known = self.__dict__.setdefault(f"_pids_{subject}", set())
        known.update(pids)
        return sum(self._process_cpu_s(pid) for pid in known)


def device_of(folder: Path) -> str:
    """The block device that a folder lies on, as /proc/diskstats names it; empty when there is none (tmpfs)."""
    number = folder.stat().st_dev
    found = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return found.resolve().name if found.exists() else ""


def _run_queue() -> int:
    found = re.search(r"^procs_running (\d+)", Path("/proc/stat").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def _resident_bytes(pids: Iterable[int]) -> int:
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _writes(pids: Iterable[int]) -> dict[str, float]:
    found = {"write_bytes": 0.0, "write_calls": 0.0}
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
            found["write_bytes"] += float(fields["write_bytes"])
            found["write_calls"] += float(fields["syscw"])
    return found


def _disk(device: str) -> dict[str, float]:
    """Of the whole device, so of all that write to it."""
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if fields[2] == device and len(fields) >= 20:
            return {
                "disk_writes": float(fields[7]),
                "disk_write_bytes": float(fields[9]) * _SECTOR_BYTES,
                "disk_busy_ms": float(fields[12]),
                "disk_flushes": float(fields[18]),
                "disk_flush_ms": float(fields[19]),
            }
    return {}


def _loopback_bytes() -> float:
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return float(counts.split()[0])
    return 0.0
