# SPDX-License-Identifier: Apache-2.0
"""2 KB persistent messages in units of one put: how the rate grows with committers, and against whom.

A trial is a fresh process and a fresh folder: the committers start, warm
up, and are counted over a window while they all run (so neither start nor
end blurs the rate). All contenders at all numbers of committers run once in
a repetition, in random order; ratios are taken within a repetition. Load is
a closed loop without think time. Right before and after each trial the
device itself is probed, because a neighbour's writes can slow it tenfold
within a minute: where the probes vary too much, the verdicts say so. An untimed run of each contender under
strace says how often it really forces (see system_calls.py).
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import entrepot.aio
import neighbours
import system_calls
import trial
from contenders import BODY_BYTES, CONTENDERS, Contender, Entrepot, EntrepotAsync
from device import zeroed_file
from figures import FORCED, Figure, Outcome, at_least, percentile

Key = tuple[str, int]
PROBE_S = 0.1


def throughput(contender: str, committers: int, warm_up_s: float, window_s: float, folder: str) -> dict[str, Any]:
    """Rate and latency of so many threads that each put in a loop."""
    before = device_rate_per_s(folder)
    subject = CONTENDERS[contender](Path(folder))
    ends: list[list[float]] = [[] for _ in range(committers)]
    stopped = False
    errors: list[BaseException] = []
    ready = threading.Barrier(committers + 1)

    def commit(mine: list[float]) -> None:
        try:
            put = subject.committer()
            ready.wait()
            while not stopped:
                put()
                mine.append(time.perf_counter())
        except BaseException as error:
            errors.append(error)
            ready.abort()

    threads = [threading.Thread(target=commit, args=(mine,)) for mine in ends]
    with _counted_forces() as forces:
        for thread in threads:
            thread.start()
        ready.wait()
        time.sleep(warm_up_s)
        begun, forces_begun = time.perf_counter(), forces()
        time.sleep(window_s)
        ended, forces_ended = time.perf_counter(), forces()
        stopped = True
        for thread in threads:
            thread.join()
    subject.close()
    if errors:
        raise errors[0]
    summary = _summary(ends, begun, ended, forces_ended - forces_begun)
    return summary | {"device_rates_per_s": [before, device_rate_per_s(folder)]}


def device_rate_per_s(folder: str) -> float:
    """How often the device takes 2 KB and a force just now."""
    path = Path(folder) / "probe"
    descriptor, body, writes = zeroed_file(path, 1024 * 1024), bytes(BODY_BYTES), 0
    begun = time.perf_counter()
    while (elapsed_s := time.perf_counter() - begun) < PROBE_S:
        os.pwrite(descriptor, body, writes * BODY_BYTES % (1024 * 1024))
        os.fdatasync(descriptor)
        writes += 1
    os.close(descriptor)
    path.unlink()
    return writes / elapsed_s


def throughput_of_tasks(
    contender: str, committers: int, warm_up_s: float, window_s: float, folder: str
) -> dict[str, Any]:
    """The same with asyncio tasks on one thread."""
    assert contender == EntrepotAsync.__name__
    before = device_rate_per_s(folder)
    summary = asyncio.run(_tasks(committers, warm_up_s, window_s, folder))
    return summary | {"device_rates_per_s": [before, device_rate_per_s(folder)]}


async def _tasks(committers: int, warm_up_s: float, window_s: float, folder: str) -> dict[str, Any]:
    connection = await entrepot.aio.connect(f"embedded:{Path(folder) / 'manager'}")
    ends: list[list[float]] = [[] for _ in range(committers)]
    stopped = False
    body = bytes(BODY_BYTES)

    async def commit(mine: list[float]) -> None:
        while not stopped:
            async with connection.unit_of_work() as unit:
                await unit.put("Q", body, persistent=True)
            mine.append(time.perf_counter())

    async with connection:
        await connection.mqsc("DEFINE QLOCAL(Q) MAXDEPTH(999999999)")
        with _counted_forces() as forces:
            tasks = [asyncio.create_task(commit(mine)) for mine in ends]
            await asyncio.sleep(warm_up_s)
            begun, forces_begun = time.perf_counter(), forces()
            await asyncio.sleep(window_s)
            ended, forces_ended = time.perf_counter(), forces()
            stopped = True
            await asyncio.gather(*tasks)
    return _summary(ends, begun, ended, forces_ended - forces_begun)


def _summary(ends: list[list[float]], begun: float, ended: float, forces: int) -> dict[str, Any]:
    counted, latencies_ms = 0, []
    for mine in ends:
        for before, after in pairwise(mine):
            if begun <= after < ended:
                counted += 1
                latencies_ms.append((after - before) * 1000)
    return {
        "rate_per_s": counted / (ended - begun),
        "latency_ms_median": percentile(latencies_ms, 50) if latencies_ms else None,
        "latency_ms_p99": percentile(latencies_ms, 99) if latencies_ms else None,
        "puts": counted,
        "python_forces": forces,
    }


class _counted_forces:  # noqa: N801 - reads as the function it stands for
    """Counts os.fdatasync, by which entrepot forces; a library that forces in C does not pass here."""

    def __init__(self) -> None:
        self._count = 0
        self._force = os.fdatasync
        self._patch = mock.patch.object(os, "fdatasync", self._counted)

    def _counted(self, descriptor: int) -> None:
        self._count += 1
        self._force(descriptor)

    def __enter__(self) -> Callable[[], int]:
        self._patch.start()
        return lambda: self._count

    def __exit__(self, *_: object) -> None:
        self._patch.stop()


def traced(contender: str, puts: int, folder: str) -> dict[str, Any]:
    """Put on one thread with a marker after each, for strace to see."""
    subject = CONTENDERS[contender](Path(folder))
    put = subject.committer()
    for _ in range(puts + 1):
        put()
        system_calls.mark()
    subject.close()
    return {}


def measure(*, quick: bool) -> Outcome:
    repetitions, warm_up_s, window_s = (2, 0.1, 0.3) if quick else (5, 0.3, 1.0)
    keys = _keys(quick=quick)
    trials: list[dict[str, Any]] = []
    rates: dict[Key, list[float]] = {key: [] for key in keys}
    order = random.Random(2002)
    for repetition in range(repetitions):
        for name, committers in order.sample(keys, len(keys)):
            function = "throughput_of_tasks" if name == EntrepotAsync.__name__ else "throughput"
            with trial.scratch_folder() as folder:
                found = trial.run(
                    f"persistent:{function}",
                    contender=name,
                    committers=committers,
                    warm_up_s=warm_up_s,
                    window_s=window_s,
                    folder=str(folder),
                )
            rates[name, committers].append(found["rate_per_s"])
            trials.append({"repetition": repetition, "contender": name, "committers": committers} | found)
    contracts = _contracts(40 if quick else 200)
    settings = {"repetitions": repetitions, "warm_up_s": warm_up_s, "window_s": window_s, "body_bytes": BODY_BYTES}
    figures = [
        *neighbours.figures(trials),
        *_rows(rates, trials, contracts),
        *_verdicts(rates, neighbours.warning(trials)),
    ]
    return Outcome("persistent", "2 KB persistent, units of one put", figures, settings, trials)


def _keys(*, quick: bool) -> list[Key]:
    keys = []
    for name, kind in CONTENDERS.items():
        committers = kind.committers
        if quick:
            committers = (1, 8, 64) if 2 in committers else committers[:2]
        keys += [(name, count) for count in committers]
    return keys


def _contracts(puts: int) -> dict[str, tuple[str, bool]]:
    """What each contender promises, with what strace saw, and whether it saw a force before every return."""
    contracts = {}
    for name, kind in CONTENDERS.items():
        if kind is EntrepotAsync or shutil.which("strace") is None:
            contracts[name] = (f"{kind.contract} (not traced)", kind.contract == FORCED)
            continue
        with trial.scratch_folder() as folder:
            output = folder / "system_calls"
            trial.run(
                "persistent:traced", prefix=system_calls.tracing(output), contender=name, puts=puts, folder=str(folder)
            )
            forces = system_calls.read(output)
        seen = f"{forces.forced_puts} of {forces.puts} seen, {forces.per_put:.2f} syncs per put"
        contracts[name] = (f"{kind.contract}: {seen}", forces.forced_puts == forces.puts)
    return contracts


def _rows(
    rates: dict[Key, list[float]], trials: list[dict[str, Any]], contracts: dict[str, tuple[str, bool]]
) -> list[Figure]:
    figures = []
    for (name, committers), samples in rates.items():
        kind: type[Contender] = CONTENDERS[name]
        mine = [found for found in trials if (found["contender"], found["committers"]) == (name, committers)]
        latency = max(found["latency_ms_p99"] or 0.0 for found in mine)
        note = f"p99 {latency:.1f} ms"
        forces = sum(found["python_forces"] for found in mine)
        if forces and kind in (Entrepot, EntrepotAsync):
            note += f", {sum(found['puts'] for found in mine) / forces:.1f} messages per force"
        contract, verified = contracts[name]
        if kind.contract == FORCED and not verified:
            contract = "NOT AS PROMISED: " + contract
        figures.append(Figure(f"{kind.title}, {committers} committers: rate_per_s", samples, contract, note=note))
    return figures


def _to_one_thread(kind: type[Contender], most: list[float], one: list[float], warning: str) -> list[Figure]:
    """One task pays for a thread switch that one thread does not; so compare with the faster of the two as well."""
    if kind is Entrepot:
        return []
    ratios = [many / few for many, few in zip(most, one, strict=True)]
    return [Figure(f"{kind.title}: most committers to one thread: ratio", ratios, FORCED, at_least(5), warning)]


def _verdicts(rates: dict[Key, list[float]], warning: str) -> list[Figure]:
    repetitions = range(len(next(iter(rates.values()))))
    rivals = [key for key in rates if CONTENDERS[key[0]].rival]
    figures = []
    for kind in (Entrepot, EntrepotAsync):
        levels = sorted(committers for name, committers in rates if name == kind.__name__)
        mine = {committers: rates[kind.__name__, committers] for committers in levels}
        steps = list(pairwise(levels))
        growth = [min(mine[more][i] / mine[fewer][i] for fewer, more in steps) for i in repetitions]
        most = levels[-1]
        speed_up = [mine[most][i] / mine[levels[0]][i] for i in repetitions]
        best = [max(rates[key][i] for key in rivals) for i in repetitions]
        names = {max(rivals, key=lambda key: rates[key][i]) for i in repetitions}
        beaten = ", ".join(sorted(f"{CONTENDERS[name].title} with {committers}" for name, committers in names))
        advantage = [mine[most][i] / best[i] for i in repetitions]
        figures += [
            Figure(
                f"{kind.title}: smallest growth from one level to the next: ratio", growth, FORCED, at_least(1), warning
            ),
            Figure(f"{kind.title}: {most} committers to {levels[0]}: ratio", speed_up, FORCED, at_least(5), warning),
            *_to_one_thread(kind, mine[most], rates[Entrepot.__name__, 1], warning),
            Figure(
                f"{kind.title}: {most} committers to the best rival: ratio",
                advantage,
                FORCED,
                at_least(4),
                note=f"{warning}best: {beaten}",
            ),
        ]
    return figures
