# SPDX-License-Identifier: Apache-2.0
"""Systems that are held back by one thing each, for real trials; a program with VisitPlans as JSON on its input.

Messages go through a socket pair from senders to receivers. What holds a
system back is waiting wherever it can be, so that a busy machine changes
nothing. Their disk is a few counters that the sampler reads instead of
/proc/diskstats, where everybody else's forces would be seen, too, and the
processor time of the client that has too much to do is the clock.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from entrepot.workbench.generators.gate import fork
from entrepot.workbench.measuring import sampler, visit
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems import find_system
from entrepot.workbench.systems.system import System, SystemReceiver, SystemSender

MEGABYTE = 1_000_000


class Disk:
    """What a log would have done to it; one sender counts at a time."""

    def __init__(self) -> None:
        self.flushes = fork.RawValue("d", 0)
        self.flush_ms = fork.RawValue("d", 0)
        self.write_bytes = fork.RawValue("d", 0)

    def force(self, seconds: float, written: int) -> None:
        begun = time.monotonic()
        time.sleep(seconds)
        self.flushes.value += 1
        self.flush_ms.value += (time.monotonic() - begun) * 1000
        self.write_bytes.value += written

    def read(self, _device: str) -> dict[str, float]:
        return {
            "disk_flushes": self.flushes.value,
            "disk_flush_ms": self.flush_ms.value,
            "disk_write_bytes": self.write_bytes.value,
        }


DISK = Disk()


class Limited(System):
    """Nothing holds it back; those below add something to a step."""

    title = "A limited system"
    abilities = frozenset({"queues"})
    contracts: ClassVar[Mapping[Quality, str]] = dict.fromkeys(Quality, "none")

    def start(self) -> None:
        self.near, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sent, self.taken = fork.RawValue("q", 0), fork.RawValue("q", 0)

    def stop(self) -> None:
        self.near.close()
        self.far.close()

    @property
    def pids(self) -> list[int]:
        return []

    def version(self) -> str:
        return "1"

    def create_queues(self, names: Sequence[str]) -> None:
        pass

    def depth(self, queue: str) -> int | None:
        return int(self.sent.value - self.taken.value)

    def sender(self, queue: str) -> SystemSender:
        return LimitedSender(self)

    def receiver(self, queue: str) -> SystemReceiver:
        return LimitedReceiver(self)

    def before_send(self) -> None:
        time.sleep(0.001)

    def before_receive(self) -> None:
        pass

    def commit(self) -> None:
        pass


class LimitedSender:
    def __init__(self, system: Limited) -> None:
        self.system = system

    def send(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self.system.before_send()
            self.system.sent.value += 1
            self.system.near.send(body)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class LimitedReceiver:
    def __init__(self, system: Limited) -> None:
        self.system = system
        system.far.settimeout(0.1)

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        with contextlib.suppress(TimeoutError):
            body = self.system.far.recv(65536)
            self.system.before_receive()
            self.system.taken.value += 1
            return [body]
        return []

    def commit(self) -> None:
        self.system.commit()

    def close(self) -> None:
        pass


class BusyClient(Limited):
    """Its client library is never done; by the clock, because on a full machine it would get too little to show."""

    name = "busy-client"

    def start(self) -> None:
        super().start()
        vars(sampler)["process_cpu_s"] = lambda pid: time.monotonic()

    def stop(self) -> None:
        vars(sampler)["process_cpu_s"] = PROCESS_CPU_S
        super().stop()


PROCESS_CPU_S = sampler.process_cpu_s


class BusyServer(Limited):
    name = "busy-server"

    def start(self) -> None:
        super().start()
        self._server = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def stop(self) -> None:
        self._server.kill()
        self._server.wait()
        super().stop()

    @property
    def pids(self) -> list[int]:
        return [self._server.pid]


class SlowForces(Limited):
    name = "slow-forces"

    def before_send(self) -> None:
        # Long against what a busy machine puts between two of them.
        DISK.force(0.02, written=4096)


class LargeWrites(Limited):
    name = "large-writes"

    def before_send(self) -> None:
        DISK.force(0.005, written=MEGABYTE)


class OneAtATime(Limited):
    """A lock that every sender waits for."""

    name = "one-at-a-time"

    def before_send(self) -> None:
        time.sleep(0.005)


class Withholding(Limited):
    """Messages are there, and it takes its time to hand them out."""

    name = "withholding"

    def before_receive(self) -> None:
        time.sleep(0.02)


class SlowGetter(Limited):
    """Messages are at hand, and who takes them is long about each; every fifth is forced."""

    name = "slow-getter"

    def commit(self) -> None:
        time.sleep(0.02)
        if self.taken.value % 5 == 0:
            DISK.force(0.0, written=4096)


KINDS: dict[str, type[System]] = {
    kind.name: kind for kind in (BusyClient, BusyServer, SlowForces, LargeWrites, OneAtATime, Withholding, SlowGetter)
}


def main() -> None:
    vars(visit)["find_system"] = lambda name: KINDS[name] if name in KINDS else find_system(name)
    vars(sampler)["_disk"] = DISK.read
    for plan in msgspec.json.decode(sys.stdin.buffer.read(), type=list[visit.VisitPlan]):
        visit.visit(plan)


if __name__ == "__main__":
    main()
