# SPDX-License-Identifier: Apache-2.0
"""Requests and replies of 2 KB through a server: the scenario of "WebSphere MQ for Windows V5.3 performance".

So many driving applications each put a request on one common queue and wait
for the reply to it; a server application of four workers gets the requests
and replies with the same bytes. Every driver and worker is a process with a
connection of its own and the client that users of the system use; load is a
closed loop without think time. A visit starts a fresh server and fresh
processes; all systems at all numbers of drivers are visited once in a
repetition, in random order, and ratios are taken within a repetition.

What favours the peers: each of their drivers has a reply queue of its own,
because they cannot get by correlation id, while the document and our
persistent drivers share one. `settings` of each system says what else.

    python bench/round_trips.py nats redis --drivers 1 20     some visits, to look at
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import neighbours
import peers
import trial
from figures import Figure, Outcome, at_least, at_most, percentile, readable
from forces import ForceCount, is_traceable
from load import ApplicationFailed, Applications, Gate, sleep_until
from peers.system import System, Trips
from processes import CpuTimes

BODY_BYTES = 2048
WORKERS = 4
NONPERSISTENT_DRIVERS = (1, 2, 5, 10, 20)
PERSISTENT_DRIVERS = (1, 10, 40, 120)
WARM_UP_TRIPS = 20
RATIO_NONPERSISTENT = 3.0
RATIO_PERSISTENT = 2.0
NOTED = ("latency_ms_median", "latency_ms_p99", "server_cpu_us", "client_cpu_us")
Key = tuple[str, int]


def visit(
    system: str,
    persistent: bool,
    drivers: int,
    warm_up_s: float | None,
    window_s: float,
    folder: str,
    traced: bool = False,
) -> dict[str, Any]:
    """One system under so many drivers: rate, latencies, CPU time, and what went wrong."""
    kind: type[System] = peers.find(system)
    gate = Gate(kind.warm_up_s if warm_up_s is None else warm_up_s, window_s)
    with kind(Path(folder), persistent=persistent) as running, Applications(gate) as applications:
        for _ in range(WORKERS):
            applications.start(_work, running)
        # Only then the drivers, whose first requests would find nobody otherwise.
        applications.gather()
        for number in range(drivers):
            applications.start(_drive, running, number)
        applications.gather()
        forces = ForceCount(running.pids, Path(folder) / "forces") if traced else None
        gate.open()
        sleep_until(gate.begun)
        times = CpuTimes(running.pids, applications.pids)
        sleep_until(gate.ended)
        used = times.stop()
        found = {"forces": forces.stop(gate.begun, gate.ended)} if forces else {}
        found |= _summary(applications.answers(_drive), window_s, used)
        return found | {"version": running.version(), "settings": running.settings()}


def _work(system: System, gate: Gate) -> None:
    system.work(gate.arrive)


def _drive(system: System, number: int, gate: Gate) -> dict[str, Any]:
    found: dict[str, Any] = {"latencies_s": array("d"), "lost": 0, "wrong": 0}
    found["unexpected"] = system.drive(number, _trips(number, gate, found))
    return found


def _trips(number: int, gate: Gate, found: dict[str, Any]) -> Trips:
    """Warm up, wait for the others, and note what happens until the window ends."""
    tail = os.urandom(BODY_BYTES - 16)
    bodies = (b"%08d%08d" % (number, count) + tail for count in itertools.count())
    for body in itertools.islice(bodies, WARM_UP_TRIPS):
        if (yield body) != body:
            raise ApplicationFailed("a reply of the warm-up is missing or wrong")
    gate.wait()
    begun, ended, clock, note = gate.begun, gate.ended, time.perf_counter, found["latencies_s"].append
    before = clock()
    while before < ended:
        body = next(bodies)
        reply = yield body
        after = clock()
        if reply != body:
            found["lost" if reply is None else "wrong"] += 1
        elif begun <= after < ended:
            note(after - before)
        before = after


def _summary(answers: list[dict[str, Any]], window_s: float, used: dict[str, float]) -> dict[str, Any]:
    latencies_ms = [latency * 1000 for answer in answers for latency in answer["latencies_s"]]
    if not latencies_ms:
        raise ApplicationFailed("not one round trip within the window")
    trips = len(latencies_ms)
    return {
        "rate_per_s": trips / window_s,
        "latency_ms_median": percentile(latencies_ms, 50),
        "latency_ms_p99": percentile(latencies_ms, 99),
        "latency_ms_max": max(latencies_ms),
        "round_trips": trips,
        "server_cpu_us": used["server_cpu_s"] / trips * 1e6,
        "client_cpu_us": used["client_cpu_s"] / trips * 1e6,
        "others_cpu_percent": used["others_cpu_percent"],
        "lost": sum(answer["lost"] for answer in answers),
        "wrong": sum(answer["wrong"] for answer in answers),
        "unexpected": sum(answer["unexpected"] for answer in answers),
        "drivers_apart": [_of_one(answer["latencies_s"]) for answer in answers],
    }


def _of_one(latencies_s: Sequence[float]) -> dict[str, float]:
    """What one driver saw; they need not have been treated alike."""
    if not latencies_s:
        return {"round_trips": 0}
    return {
        "round_trips": len(latencies_s),
        "latency_ms_median": round(percentile(latencies_s, 50) * 1000, 3),
        "latency_ms_p99": round(percentile(latencies_s, 99) * 1000, 3),
    }


def measure(*, quick: bool) -> Outcome:
    return compare(peers.NAMES, persistent=False, quick=quick)


def measure_persistent(*, quick: bool) -> Outcome:
    return compare(peers.PERSISTENT, persistent=True, quick=quick)


def compare(names: Sequence[str], *, persistent: bool, quick: bool) -> Outcome:
    """Visit these systems at all numbers of drivers, and set ours against the others."""
    levels: Sequence[int] = PERSISTENT_DRIVERS if persistent else NONPERSISTENT_DRIVERS
    repetitions, warm_up_s, window_s = (1, 0.3, 1.0) if quick else (3, None, 4.0)
    if quick:
        levels = (levels[0], levels[-1])
    absent = peers.absent(names)
    names = [name for name in names if name not in absent]
    trials: list[dict[str, Any]] = []
    keys = list(itertools.product(names, levels))
    order = random.Random(2002)
    for repetition in range(repetitions):
        for name, drivers in order.sample(keys, len(keys)):
            found = _probed_visit(name, drivers, persistent, warm_up_s, window_s)
            trials.append({"repetition": repetition, "system": name, "drivers": drivers} | found)
    figures = [
        *neighbours.figures(trials),
        *_rows(keys, trials, persistent=persistent),
        *(_forces(names, levels, window_s) if persistent else []),
        *_ratios(names, levels, trials, neighbours.warning(trials) + peers.warning(absent), persistent=persistent),
        _faults(trials),
    ]
    kind = "persistent" if persistent else "nonpersistent"
    settings = {
        "repetitions": repetitions,
        "warm_up_s": "what each system needs" if warm_up_s is None else warm_up_s,
        "window_s": window_s,
        "body_bytes": BODY_BYTES,
        "workers": WORKERS,
        "absent": absent,
    }
    return Outcome(f"round_trips_{kind}", f"2 KB {kind} round trips through a server", figures, settings, trials)


def _probed_visit(
    name: str, drivers: int, persistent: bool, warm_up_s: float | None, window_s: float
) -> dict[str, Any]:
    """A visit, with the speed of processors and device right before and after."""
    # Only here: it imports the package, which a visit to a peer must not do.
    from persistent import device_rate_per_s

    with trial.scratch_folder() as folder:

        def probe() -> tuple[float, list[float]]:
            return neighbours.processor_rate_per_s(), [device_rate_per_s(str(folder))] if persistent else []

        before = probe()
        found = _visit(name, drivers, persistent, warm_up_s, window_s, folder)
        after = probe()
    return found | {"processor_rates_per_s": [before[0], after[0]], "device_rates_per_s": before[1] + after[1]}


def _visit(
    name: str,
    drivers: int,
    persistent: bool,
    warm_up_s: float | None,
    window_s: float,
    folder: Path,
    traced: bool = False,
) -> dict[str, Any]:
    return trial.run(
        "round_trips:visit",
        system=name,
        persistent=persistent,
        drivers=drivers,
        warm_up_s=warm_up_s,
        window_s=window_s,
        folder=str(folder),
        traced=traced,
    )


def _forces(names: Sequence[str], levels: Sequence[int], window_s: float) -> list[Figure]:
    """How often each server really forces: with one driver, and with the most."""
    figures = []
    for name, drivers in itertools.product(names, (levels[0], levels[-1])):
        if not is_traceable():
            continue
        with trial.scratch_folder() as folder:
            found = _visit(name, drivers, True, 1.0, window_s, folder, traced=True)
        kind = peers.find(name)
        per_trip = found["forces"] / found["round_trips"]
        note = f"{found['forces']} forces in {found['round_trips']} round trips under strace"
        row = f"{kind.title}, {_drivers(drivers)}: forces_per_round_trip"
        figures.append(Figure(row, [per_trip], kind.persistent_contract, note=note))
    return figures


def _drivers(count: int) -> str:
    return f"{count} driver" if count == 1 else f"{count} drivers"


def _rates(trials: list[dict[str, Any]], name: str, drivers: int) -> list[float]:
    """One of each repetition."""
    return [found["rate_per_s"] for found in trials if (found["system"], found["drivers"]) == (name, drivers)]


def _rows(keys: Sequence[Key], trials: list[dict[str, Any]], *, persistent: bool) -> list[Figure]:
    figures = []
    for name, drivers in keys:
        mine = [found for found in trials if (found["system"], found["drivers"]) == (name, drivers)]
        worst = {field: max(found[field] for found in mine) for field in NOTED}
        note = (
            f"median {worst['latency_ms_median']:.2f} ms, p99 {worst['latency_ms_p99']:.2f} ms; CPU µs per round trip:"
            f" server {worst['server_cpu_us']:.0f}, clients {worst['client_cpu_us']:.0f} (worst of all repetitions)"
        )
        kind: type[System] = peers.find(name)
        title = f"{kind.title}, {_drivers(drivers)}: round_trips_per_s"
        figures.append(Figure(title, _rates(trials, name, drivers), kind.contract(persistent=persistent), note=note))
    return figures


def _ratios(
    names: Sequence[str], levels: Sequence[int], trials: list[dict[str, Any]], warning: str, *, persistent: bool
) -> list[Figure]:
    """Ours to the best peer at each number of drivers; persistent, to each of them."""
    rivals = [name for name in names if name not in peers.OURS]
    against = [[rival] for rival in rivals] if persistent else [rivals] if rivals else []
    ours = [name for name in names if name in peers.OURS]
    figures = []
    for name, drivers, others in itertools.product(ours, levels, against):
        # For each repetition the best of the others, and its name.
        samples = zip(*(_rates(trials, other, drivers) for other in others), strict=True)
        best = [max(zip(rates, others, strict=True)) for rates in samples]
        mine = _rates(trials, name, drivers)
        ratios = [rate / peer_rate for rate, (peer_rate, _) in zip(mine, best, strict=True)]
        kind: type[System] = peers.find(name)
        words = f"to {peers.find(others[0]).title}" if persistent else "to the best peer"
        note = warning
        if not persistent:
            note += f"best: {', '.join(dict.fromkeys(peer for _, peer in best))}"
        figures.append(
            Figure(
                f"{kind.title} {words}, {_drivers(drivers)}: ratio",
                ratios,
                kind.contract(persistent=persistent),
                at_least(RATIO_PERSISTENT if persistent else RATIO_NONPERSISTENT),
                note,
            )
        )
    return figures


def _faults(trials: list[dict[str, Any]]) -> Figure:
    faults = [float(found["lost"] + found["wrong"] + found["unexpected"]) for found in trials]
    return Figure("lost, wrong or unexpected replies: messages", faults, "", at_most(0))


def main() -> None:
    parser = argparse.ArgumentParser(description="Visit some systems once each and print what was found.")
    parser.add_argument("systems", nargs="+", choices=peers.NAMES, metavar="system", help=", ".join(peers.NAMES))
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--drivers", type=int, nargs="+", default=[1, 20])
    parser.add_argument("--window", type=float, default=4.0, metavar="SECONDS")
    parser.add_argument("--traced", action="store_true", help="count forces; the rate is then worth nothing")
    arguments = parser.parse_args()
    for name, drivers in itertools.product(arguments.systems, arguments.drivers):
        with trial.scratch_folder() as folder:
            found = _visit(name, drivers, arguments.persistent, None, arguments.window, folder, traced=arguments.traced)
        shown = (f"{key} {readable(value)}" for key, value in found.items() if isinstance(value, (int, float)))
        print(f"{name}, {_drivers(drivers)}:", ", ".join(shown), flush=True)


if __name__ == "__main__":
    main()
