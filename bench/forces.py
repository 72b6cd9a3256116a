# SPDX-License-Identifier: Apache-2.0
"""How often servers really force the disk for messages that are recoverable, as the kernel sees it.

strace is attached to a system of the workbench while senders fill a queue.
That slows it down, so nothing is timed; forces are set against messages.
A server that forces less often than it acknowledges either shares a force
among many senders or promises less than it seems to: with one sender there
is nobody to share with.
"""

from __future__ import annotations

import itertools
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trial
from entrepot.workbench.broker.engine import descendants
from entrepot.workbench.generators.applications import Applications
from entrepot.workbench.generators.client import Client
from entrepot.workbench.generators.gate import StartGate
from entrepot.workbench.loads.sending import QUEUE, send
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems import PEERS, absent_reason, find_system
from figures import Figure, Outcome, at_least

SYSTEMS = ("entrepot-unix", *PEERS)
QUICK = ("entrepot-unix", "redis-streams")
SENDERS = (1, 16)
BODY_BYTES = 2048
MESSAGES_MAX = 20_000
ATTACH_S = 1.0
SYNCS = "fsync,fdatasync,msync,sync_file_range,sync"
_LINE = re.compile(r"^\d+\s+(\d+\.\d+) (?:<\.\.\. )?(\w+)(.*)$", re.MULTILINE)


class ForceCount:
    """Watches processes from now until `stop`."""

    def __init__(self, pids: Sequence[int], output: Path) -> None:
        self._output = output
        command = ["strace", "-f", "-qq", "-ttt", "-o", str(output), "-e", f"trace={SYNCS},pwritev2"]
        for pid in pids:
            command += ["-p", str(pid)]
        self._tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(ATTACH_S)

    def stop(self, begun_ns: int, ended_ns: int) -> int:
        """Stop watching; returns the forces that ended between two readings of the monotonic clock."""
        self._tracer.send_signal(signal.SIGINT)
        self._tracer.wait()
        offset_s = time.time() - time.monotonic()
        return sum(
            begun_ns / 1e9 + offset_s <= float(when) < ended_ns / 1e9 + offset_s
            for when, name, rest in _LINE.findall(self._output.read_text(errors="replace"))
            if _is_force(name, rest)
        )


def _is_force(name: str, rest: str) -> bool:
    """Whether a line of strace tells that a force has ended; a call cut in two has two lines."""
    if "unfinished" in rest:
        return False
    return name in SYNCS.split(",") or "DSYNC" in rest


def visit(system: str, senders: int, window_s: float, folder: str) -> dict[str, Any]:
    """Messages that were acknowledged, and forces of the server meanwhile."""
    gate, place = StartGate(), Path(folder)
    with (
        find_system(system)(place, Quality.RECOVERABLE) as running,
        Applications(gate, one_process=False) as applications,
    ):
        running.create_queues([QUEUE])
        clients = [Client("sender", number, number, running, gate, place) for number in range(senders)]
        applications.start(clients, send, QUEUE, BODY_BYTES, 1, MESSAGES_MAX)
        applications.gather()
        family = [pid for head in running.pids for pid in descendants(head)]
        count = ForceCount(sorted(set(family)), place / "forces")
        gate.open(window_s)
        applications.join("sender")
        forces = count.stop(gate.begun_ns, time.monotonic_ns())
        return {
            "messages": gate.counted(range(senders)),
            "forces": forces,
            "version": running.version(),
            "settings": running.settings(),
        }


def measure(*, quick: bool) -> Outcome:
    window_s = 1.0 if quick else 4.0
    names = [name for name in (QUICK if quick else SYSTEMS) if not absent_reason(name)]
    names = [name for name in names if Quality.RECOVERABLE in find_system(name).contracts]
    title = "forces of the disk for recoverable messages, by strace"
    if shutil.which("strace") is None:
        return Outcome("forces", f"{title}: not measured, strace is not installed", [])
    trials, figures = [], []
    for name, senders in itertools.product(names, SENDERS):
        with trial.scratch_folder() as folder:
            found = trial.run("forces:visit", system=name, senders=senders, window_s=window_s, folder=str(folder))
        trials.append({"system": name, "senders": senders} | found)
        kind = find_system(name)
        row = f"{kind.title}, {senders} {'sender' if senders == 1 else 'senders'}: forces_per_message"
        figures.append(
            Figure(
                row,
                [found["forces"] / max(found["messages"], 1)],
                kind.contracts[Quality.RECOVERABLE],
                # Ours promises that a put returns after its force, and one sender shares its forces with nobody.
                at_least(1) if (name, senders) == ("entrepot-unix", 1) else None,
                f"{found['forces']} forces for {found['messages']} messages under strace",
            )
        )
    settings = {"window_s": window_s, "body_bytes": BODY_BYTES}
    return Outcome("forces", title, figures, settings, trials)
