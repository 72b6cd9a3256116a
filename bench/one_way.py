# SPDX-License-Identifier: Apache-2.0
"""1 KB nonpersistent messages one way: one producer, one consumer, a server between them.

The rate is counted at the consumer, over a window while both run. So that
no system is judged by how it bears a backlog, the producer pauses while
10,000 messages are under way; the two processes share their counts for
that, past the system under measurement. Every message carries its number:
none may be missing, none come twice, none overtake another.
"""

from __future__ import annotations

import mmap
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import neighbours
import peers
import trial
from figures import Figure, Outcome, at_most
from load import Applications, Gate, sleep_until
from peers.system import System
from processes import CpuTimes

BODY_BYTES = 1024
AT_ONCE = 100
UNDER_WAY_MAX = 10_000
PAUSE_S = 0.0005
DRAIN_S = 15.0


class Tally:
    """What the producer has sent and the consumer has seen, in memory that both share."""

    _SENT, _SEEN, _OUT_OF_ORDER, _STOPPED = range(4)

    def __init__(self) -> None:
        # Anonymous and shared: a child that is forked writes into the same page.
        self._counts = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")

    @property
    def sent(self) -> int:
        return self._counts[self._SENT]

    @property
    def seen(self) -> int:
        return self._counts[self._SEEN]

    @property
    def out_of_order(self) -> int:
        return self._counts[self._OUT_OF_ORDER]

    def stop(self) -> None:
        self._counts[self._STOPPED] = 1

    def produce(self, send: Callable[[list[bytes]], None], body_bytes: int, at_once: int) -> None:
        """Send numbered bodies in batches until `stop`."""
        counts, tail = self._counts, os.urandom(body_bytes - 8)
        number = 0
        while not counts[self._STOPPED]:
            if number - counts[self._SEEN] >= UNDER_WAY_MAX:
                time.sleep(PAUSE_S)
                continue
            send([count.to_bytes(8, "big") + tail for count in range(number, number + at_once)])
            number += at_once
            counts[self._SENT] = number

    def see(self) -> Callable[[bytes], None]:
        """A function for the consumer to call with each body."""
        counts = self._counts
        seen = 0

        def see(body: bytes) -> None:
            nonlocal seen
            if int.from_bytes(body[:8], "big") != seen:
                counts[self._OUT_OF_ORDER] += 1
            seen += 1
            counts[self._SEEN] = seen

        return see

    def measured(self, gate: Gate) -> float:
        """The rate at the consumer over the window; the producer has stopped afterwards."""
        sleep_until(gate.begun)
        begun, before = time.perf_counter(), self.seen
        sleep_until(gate.ended)
        rate_per_s = (self.seen - before) / (time.perf_counter() - begun)
        self.stop()
        return rate_per_s

    def drain(self) -> dict[str, int]:
        """Wait for what is still under way, and tell what is missing."""
        deadline = time.monotonic() + DRAIN_S
        while self.seen < self.sent and time.monotonic() < deadline:
            time.sleep(0.01)
        return {"sent": self.sent, "seen": self.seen, "out_of_order": self.out_of_order}


def visit(system: str, warm_up_s: float | None, window_s: float, folder: str) -> dict[str, Any]:
    """One system: rate at the consumer, CPU time, and what is missing."""
    kind: type[System] = peers.find(system)
    gate, tally = Gate(kind.warm_up_s if warm_up_s is None else warm_up_s, window_s), Tally()
    with kind(Path(folder)) as running, Applications(gate) as applications:
        applications.start(_consume, running, tally)
        # First, because what NATS sends to nobody is gone.
        applications.gather()
        applications.start(_produce, running, tally)
        applications.gather()
        gate.open()
        sleep_until(gate.begun)
        times, before = CpuTimes(running.pids, applications.pids), tally.seen
        rate_per_s = tally.measured(gate)
        used, counted = times.stop(), max(tally.seen - before, 1)
        applications.answers(_produce)
        return {
            "rate_per_s": rate_per_s,
            "server_cpu_us": used["server_cpu_s"] / counted * 1e6,
            "client_cpu_us": used["client_cpu_s"] / counted * 1e6,
            "others_cpu_percent": used["others_cpu_percent"],
            "version": running.version(),
            **tally.drain(),
        }


def _consume(system: System, tally: Tally, gate: Gate) -> None:
    system.consume(tally.see(), gate.arrive)


def _produce(system: System, tally: Tally, gate: Gate) -> None:
    producer = system.producer()
    gate.wait()
    tally.produce(producer.send, BODY_BYTES, AT_ONCE)
    producer.flush()


def measure(*, quick: bool) -> Outcome:
    repetitions, warm_up_s, window_s = (1, 0.3, 1.0) if quick else (5, None, 4.0)
    absent = peers.absent()
    names = [name for name in peers.NAMES if name not in absent]
    trials: list[dict[str, Any]] = []
    rates: dict[str, list[float]] = {name: [] for name in names}
    order = random.Random(2002)
    for repetition in range(repetitions):
        for name in order.sample(names, len(names)):
            with trial.scratch_folder() as folder:
                found = trial.run(
                    "one_way:visit", system=name, warm_up_s=warm_up_s, window_s=window_s, folder=str(folder)
                )
            rates[name].append(found["rate_per_s"])
            trials.append({"repetition": repetition, "system": name} | found)
    settings = {
        "repetitions": repetitions,
        "warm_up_s": "what each system needs" if warm_up_s is None else warm_up_s,
        "window_s": window_s,
        "body_bytes": BODY_BYTES,
        "at_once": AT_ONCE,
        "under_way_max": UNDER_WAY_MAX,
        "absent": absent,
    }
    warning = neighbours.warning(trials) + peers.warning(absent)
    figures = [*neighbours.figures(trials), *_rows(rates, trials), *_ratios(rates, warning), *faults(trials)]
    return Outcome("one_way", "1 KB nonpersistent, one producer to one consumer", figures, settings, trials)


def _rows(rates: dict[str, list[float]], trials: list[dict[str, Any]]) -> list[Figure]:
    figures = []
    for name, samples in rates.items():
        kind: type[System] = peers.find(name)
        mine = [found for found in trials if found["system"] == name]
        server, client = (max(found[field] for found in mine) for field in ("server_cpu_us", "client_cpu_us"))
        note = f"CPU µs per message: server {server:.1f}, both clients {client:.1f} (worst of all repetitions)"
        figures.append(Figure(f"{kind.title}: rate_per_s", samples, kind.nonpersistent_contract, note=note))
    return figures


def _ratios(rates: dict[str, list[float]], warning: str) -> list[Figure]:
    rivals = [name for name in rates if name not in peers.OURS]
    if not rivals:
        return []
    figures = []
    for name in (name for name in rates if name in peers.OURS):
        best = [max(rivals, key=lambda rival: rates[rival][i]) for i in range(len(rates[name]))]
        ratios = [mine / rates[best[i]][i] for i, mine in enumerate(rates[name])]
        note = warning + f"best: {', '.join(dict.fromkeys(best))}"
        kind: type[System] = peers.find(name)
        figures.append(Figure(f"{kind.title} to the best peer: ratio", ratios, kind.nonpersistent_contract, note=note))
    return figures


def faults(trials: list[dict[str, Any]]) -> list[Figure]:
    missing = [float(abs(found["sent"] - found["seen"])) for found in trials]
    out_of_order = [float(found["out_of_order"]) for found in trials]
    return [
        Figure("missing or twice: messages", missing, "", at_most(0)),
        Figure("out of order: messages", out_of_order, "", at_most(0)),
    ]
