# SPDX-License-Identifier: Apache-2.0
"""Restart with 1 GiB of log to replay, after a SIGKILL.

A process fills the log with 2 KB persistent messages, four threads on four
queues in units of ten puts, each followed by a unit that gets five of them
back; the log is laid out so that no checkpoint shortens it, and the process
kills itself. Each repetition opens its own copy of that folder in a fresh
process (a restart writes a checkpoint, so a second one would be another
measurement), once with a warm page cache and once with a cold one.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import trial
from figures import Figure, Outcome, at_most

MIB = 1024 * 1024
BODY_BYTES = 2048
THREADS = 4
CONTRACT = "every committed unit back; log damage detected"


def fill(folder: str, log_bytes: int) -> dict[str, Any]:
    """Fill the log, print what must come back, and die."""
    from entrepot.client.blocking.connecting import connected_to
    from entrepot.client.embedded import EmbeddedHost
    from entrepot.engine.folder import create
    from entrepot.engine.recovery_log.settings import LogSettings

    segments = log_bytes // (64 * MIB) + 2
    # Wide enough that a checkpoint is due only behind the end of the fill.
    log = LogSettings(
        segment_bytes=64 * MIB, primary=segments, secondary=segments * 3, checkpoint_bytes=log_bytes * 5 // 4
    )
    create(folder, name="RESTART", log=log)
    host = EmbeddedHost(folder)
    connection = connected_to(host)
    begun = time.perf_counter()
    kept = [0] * THREADS

    def work(index: int) -> None:
        queue, body = f"Q{index}", bytearray(os.urandom(BODY_BYTES))
        while int(host.status()["log_position"]) < log_bytes:
            with connection.unit_of_work() as unit:
                for _ in range(10):
                    # A body of its own each time: the log has one that is put several times in a unit only once.
                    unit.put(queue, bytes(body), persistent=True)
            with connection.unit_of_work() as unit:
                for _ in range(5):
                    assert unit.get(queue) is not None
            kept[index] += 5

    for index in range(THREADS):
        connection.mqsc(f"DEFINE QLOCAL(Q{index}) MAXDEPTH(999999999)")
    threads = [threading.Thread(target=work, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Our own count, not the queue manager's: it is what must come back.
    trial.answer({"log": host.status(), "messages": sum(kept), "fill_s": time.perf_counter() - begun})
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def reopen(folder: str) -> dict[str, Any]:
    """Time the start, and die before the queue manager can change more than a restart does."""
    from entrepot.engine.host import Host

    begun, cpu_begun = time.perf_counter(), time.process_time()
    host = Host(folder)
    elapsed_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu_begun
    trial.answer(
        {
            "elapsed_s": elapsed_s,
            "cpu_s": cpu_s,
            "messages": host.status()["messages"],
            "replayed_bytes": host.restarted.replayed_bytes,
            "replayed_records": host.restarted.replayed_records,
            "torn": host.restarted.torn,
            "memory_mib_max": trial.resident_mib("VmHWM"),
        }
    )
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def copy_forced(source: Path, target: Path) -> None:
    """A copy that the device has, so that the restart does not pay for writing it."""
    shutil.copytree(source, target)
    target.chmod(0o700)
    os.sync()


def drop_caches() -> bool:
    """Empty the page cache; False when we may not."""
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        return False
    return True


def measure(*, quick: bool) -> Outcome:
    repetitions, log_bytes = (1, 64 * MIB) if quick else (3, 1024 * MIB)
    trials: list[dict[str, Any]] = []
    with trial.scratch_folder() as folder:
        filled = trial.run("restart:fill", ends_by_kill=True, folder=str(folder / "manager"), log_bytes=log_bytes)
        for repetition in range(repetitions):
            for cache in ("warm", "cold"):
                copy = folder / "copy"
                copy_forced(folder / "manager", copy)
                if cache == "cold" and not drop_caches():
                    shutil.rmtree(copy)
                    continue
                found = trial.run("restart:reopen", ends_by_kill=True, folder=str(copy))
                found["lost_or_twice"] = abs(found["messages"] - filled["messages"])
                trials.append({"repetition": repetition, "cache": cache} | found)
                shutil.rmtree(copy)
    figures = []
    for cache in ("warm", "cold"):
        mine = [found for found in trials if found["cache"] == cache]
        if not mine:
            continue
        rates = [found["replayed_bytes"] / 1e6 / found["elapsed_s"] for found in mine]
        records = [found["replayed_records"] / found["elapsed_s"] for found in mine]
        figures += [
            Figure(f"restart, {cache} cache: elapsed_s", [found["elapsed_s"] for found in mine], CONTRACT, at_most(10)),
            Figure(f"restart, {cache} cache: cpu_s", [found["cpu_s"] for found in mine], CONTRACT),
            Figure(f"restart, {cache} cache: rate_mb_per_s", rates, CONTRACT),
            Figure(f"restart, {cache} cache: records_per_s", records, CONTRACT),
        ]
    figures += [
        Figure("replayed: log_mib", [found["replayed_bytes"] / MIB for found in trials], ""),
        Figure("lost or twice: messages", [found["lost_or_twice"] for found in trials], "", at_most(0)),
        Figure("memory: rss_mib_max", [found["memory_mib_max"] for found in trials], ""),
    ]
    settings = {"repetitions": repetitions, "log_bytes": log_bytes, "body_bytes": BODY_BYTES, "filled": filled}
    return Outcome("restart", f"Restart with {log_bytes // MIB:,} MiB of log", figures, settings, trials)
