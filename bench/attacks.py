# SPDX-License-Identifier: Apache-2.0
"""How long an honest client waits while others ask for as much work as a verb can.

A server as a process of its own holds a deep queue and some messages with a
property of 900 KB. Two attackers, each a process, ask for searches that find
nothing, again and again; an honest client puts and gets a message two hundred
times a second. Its round trips count: what the attackers keep the event loop
from shows there. First without an attack, then with one kind after the other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trial
from figures import MEMORY_ONLY, Figure, Outcome, at_most, percentile

DEPTH = 60_000
PROPERTY_BYTES = 900_000
ATTACKERS = 2
PAUSE_S = 0.005
P99_MS_MAX = 50.0


def _deep_selector(connection: Any, number: int) -> None:
    connection.get("DEEP", selector=f"a = -{number}" + " OR a = -1" * 500)


def _gapped_like(connection: Any, number: int) -> None:
    connection.get("LONG", selector=" OR ".join([f"p LIKE '%a_b%{number % 7}'"] * 16))


def _browse(connection: Any, number: int) -> None:
    list(connection.browse("DEEP", selector=f"a = -{number} OR a < -1"))


def _arrivals(connection: Any, number: int) -> None:
    """Messages that arrive where two hundred readers wait with long selectors, and none of them wants it."""
    if number == 1:
        waiting = " OR a = -1" * 400
        connection.readers = [connection.consume("WAITED", selector=f"a = -{n}{waiting}") for n in range(200)]
    connection.put("WAITED", b"", properties={"a": number})


ATTACKS: dict[str, Callable[[Any, int], None]] = {
    "deep selector": _deep_selector,
    "gapped LIKE": _gapped_like,
    "browse": _browse,
    "arrivals": _arrivals,
}


def attack(path: str, kind: str) -> None:
    """Until the process is ended."""
    import entrepot

    with entrepot.connect(f"unix:{path}") as connection:
        number = 0
        while True:
            number += 1
            ATTACKS[kind](connection, number)
            if number == 1:
                print("began", flush=True)


def visit(seconds: float, folder: str) -> dict[str, Any]:
    import entrepot
    from entrepot.cli.serving import start_server, stop_server
    from entrepot.engine.folder import create

    path = Path(folder) / "qm"
    create(path)
    start_server(path)
    try:
        with entrepot.connect(f"unix:{path}") as connection:
            _fill(connection)
            found = {"none": _round_trips_ms(connection, seconds)}
            for kind in ATTACKS:
                command = [sys.executable, str(trial.HERE / "trial.py"), "attacks:attack"]
                command.append(json.dumps({"path": str(path), "kind": kind}))
                attackers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(ATTACKERS)]
                try:
                    for attacker in attackers:
                        assert attacker.stdout is not None
                        if not attacker.stdout.readline():
                            raise trial.TrialFailed(f"the attack {kind} ended by itself")
                    found[kind] = _round_trips_ms(connection, seconds)
                finally:
                    for attacker in attackers:
                        attacker.kill()
                        attacker.wait()
        return found
    finally:
        stop_server(path, immediate=True)


def _fill(connection: Any) -> None:
    connection.mqsc(
        "DEFINE QLOCAL(DEEP) MAXDEPTH(1000000)\nDEFINE QLOCAL(LONG)\n"
        "DEFINE QLOCAL(WAITED) MAXDEPTH(1000000)\nDEFINE QLOCAL(HONEST)"
    )
    with connection.pipeline() as pipeline:
        for number in range(DEPTH):
            pipeline.put("DEEP", b"x", properties={"a": number})
    for _ in range(3):
        connection.put("LONG", b"x", properties={"p": "a" * PROPERTY_BYTES})


def _round_trips_ms(connection: Any, seconds: float) -> list[float]:
    times_ms, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.perf_counter()
        connection.put("HONEST", b"x")
        if connection.get("HONEST") is None:
            raise trial.TrialFailed("the honest client's message is not there")
        times_ms.append((time.perf_counter() - begun) * 1000)
        time.sleep(PAUSE_S)
    return times_ms


def measure(*, quick: bool) -> Outcome:
    repetitions, seconds = (1, 3.0) if quick else (3, 15.0)
    trials = []
    for _ in range(repetitions):
        with trial.scratch_folder() as folder:
            trials.append(trial.run("attacks:visit", seconds=seconds, folder=str(folder)))
    figures = []
    for kind in ("none", *ATTACKS):
        samples = [percentile(found[kind], 99) for found in trials]
        worst = max(max(found[kind]) for found in trials)
        target = None if kind == "none" else at_most(P99_MS_MAX)
        figures.append(
            Figure(f"attack {kind}: round_trip_ms_p99", samples, MEMORY_ONLY, target, f"worst {worst:.0f} ms")
        )
    settings = {"repetitions": repetitions, "seconds": seconds, "depth": DEPTH, "attackers": ATTACKERS}
    return Outcome("attacks", "an honest client beside attackers", figures, settings, trials)
