# SPDX-License-Identifier: Apache-2.0
"""Memory that a waiting 1 KB message takes in a server: after the put, and after a restart that has read the log.

The messages are put through the server's socket, nonpersistent ones in a
pipeline and persistent ones in units of a hundred. Memory is what the kernel
says that the server's process has, less what it had with empty queues,
shared by the number of messages; so it has all that comes with them, also
what the allocator wastes. The server is killed before the restart.
"""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import trial
from figures import Figure, Outcome, at_most

BODY_BYTES = 1024
UNIT = 100
MIB = 1024 * 1024
SETTLE_S = 1.0
GOAL_BYTES = 1600


def visit(folder: str, messages: int, persistent: bool) -> dict[str, Any]:
    import entrepot
    from entrepot.cli.serving import start_server, stop_server
    from entrepot.engine.folder import create
    from entrepot.engine.recovery_log.settings import LogSettings

    path = Path(folder) / "qm"
    # No checkpoint comes in between, so the messages are in the log and in memory.
    create(path, log=LogSettings(segment_bytes=64 * MIB, primary=16, secondary=4))
    process = start_server(path)
    with entrepot.connect(f"unix:{path}") as connection:
        connection.mqsc("DEFINE QLOCAL(W) MAXDEPTH(999999999)")
        _put(connection, 10 * UNIT, persistent=persistent)
        while connection.get("W") is not None:
            pass
        empty = _memory_bytes(process)
        _put(connection, messages, persistent=persistent)
        put = (_memory_bytes(process) - empty) / messages
    if not persistent:
        stop_server(path, immediate=True)
        return {"put_bytes": put}
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    process = start_server(path)
    with entrepot.connect(f"unix:{path}") as connection:
        restarted = (_memory_bytes(process) - empty) / messages
        depth = int(connection.administration.status()["messages"])
    stop_server(path, immediate=True)
    return {"put_bytes": put, "restarted_bytes": restarted, "lost_or_twice": abs(depth - messages)}


def _put(connection: Any, messages: int, *, persistent: bool) -> None:
    bodies = (os.urandom(8) + bytes(BODY_BYTES - 8) for _ in range(messages))
    if not persistent:
        with connection.pipeline() as pipeline:
            for body in bodies:
                pipeline.put("W", body, persistent=False)
        return
    for _ in range(messages // UNIT):
        with connection.unit_of_work() as unit:
            for _ in range(UNIT):
                unit.put("W", next(bodies), persistent=True)


def _memory_bytes(process: int) -> int:
    time.sleep(SETTLE_S)
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def measure(*, quick: bool) -> Outcome:
    repetitions, messages = (1, 10_000) if quick else (3, 100_000)
    trials: list[dict[str, Any]] = []
    for repetition in range(repetitions):
        for persistent in (False, True):
            with trial.scratch_folder() as folder:
                found = trial.run("waiting_memory:visit", folder=str(folder), messages=messages, persistent=persistent)
            trials.append({"repetition": repetition, "persistent": persistent} | found)
    nonpersistent, durable = ([one for one in trials if one["persistent"] is kind] for kind in (False, True))
    goal = at_most(GOAL_BYTES)
    figures = [
        Figure("nonpersistent, put: bytes", [found["put_bytes"] for found in nonpersistent], "", goal),
        Figure("persistent, put: bytes", [found["put_bytes"] for found in durable], "", goal),
        Figure("persistent, restarted: bytes", [found["restarted_bytes"] for found in durable], "", goal),
        Figure("lost or twice: messages", [found["lost_or_twice"] for found in durable], "", at_most(0)),
    ]
    settings = {"repetitions": repetitions, "messages": messages, "body_bytes": BODY_BYTES}
    return Outcome("waiting_memory", "Memory of a waiting 1 KB message", figures, settings, trials)
