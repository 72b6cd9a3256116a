# SPDX-License-Identifier: Apache-2.0
"""What it costs to choose by content: subscribers who want half of the publications, by topic, selector or XPath.

All publications are alike in all three cases: 1 KiB of XML, two properties,
on one of two topics in turn. Half of the subscribers want the even ones and
half the odd ones. By topic they subscribe to one of both; otherwise to both,
with a condition. No two conditions are written alike, so the server has to
ask each of them: it would ask equal ones once ("alike", measured as well).
The publisher pauses while too much is under way, so that nobody is judged by
how it bears a backlog; server, gate and processes are the workbench's.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from pathlib import Path
from typing import Any

import numpy
import uvloop

import entrepot
import entrepot.aio
import neighbours
import trial
from entrepot.workbench.generators.applications import Applications
from entrepot.workbench.generators.client import Client
from entrepot.workbench.generators.gate import StartGate, sleep_until
from entrepot.workbench.measuring.observations import NONE_NS, RECEIVED
from entrepot.workbench.quality import Quality
from entrepot.workbench.statistics.counting import account
from entrepot.workbench.systems.entrepot_server import EntrepotUnix
from entrepot.workbench.systems.processes import CpuTimes, resident_kib
from figures import MEMORY_ONLY, Figure, Outcome, at_most

SUBSCRIBERS = (10, 100)
PROCESSES = 2
"""That the subscribers are spread over; those of a process share a connection and an event loop."""
BODY_BYTES = 1024
AT_ONCE_MAX = 100
UNDER_WAY_MAX = 1000
DELIVERIES_UNDER_WAY_MAX = 20_000
PAUSE_S = 0.0005
POLL_S = 0.05
DRAIN_S = 60.0
SIDES = 2
WAYS = ("topic", "selector", "content", "selector, alike", "content, alike")
_START = "<order><number>"
_BEFORE_LINES = "</number><side>{side}</side><customer><name>Miller</name><region>EU</region></customer><lines>"
_LINE = "<line><item>bolt</item><count>12</count><price>1.25</price></line>"
_END = "</lines></order>"


def body(number: int) -> bytes:
    """An order of about 1 KiB; the same length whatever its number."""
    text = f"{_START}{number:012d}{_BEFORE_LINES.format(side=number % SIDES)}"
    return (text + _LINE * ((BODY_BYTES - len(text) - len(_END)) // len(_LINE)) + _END).encode()


def number_of(found: bytes) -> int:
    return int(found[len(_START) : len(_START) + 12])


def wanted(way: str, number: int) -> dict[str, str]:
    """The arguments of `subscribe` for a subscriber who wants its side of the publications."""
    side = number % SIDES
    # True of every number, and written differently for every subscriber.
    least = 0 if way.endswith("alike") else -number
    if way.startswith("selector"):
        return {"topic": "orders/+", "selector": f"side = {side} AND number >= {least}"}
    if way.startswith("content"):
        return {"topic": "orders/+", "content": f"xpath:/order[side = {side} and number >= {least}]"}
    return {"topic": f"orders/{side}"}


def visit(way: str, subscribers: int, warm_up_s: float, window_s: float, folder: str) -> dict[str, Any]:
    """Deliveries per second, CPU time, memory, and what is missing."""
    gate = StartGate()
    with (
        EntrepotUnix(Path(folder), Quality.EXPRESS) as system,
        Applications(gate, one_process=False) as applications,
    ):
        clients = [Client("subscriber", number, number, system, gate, Path(folder)) for number in range(PROCESSES)]
        applications.start(clients, _subscribe, system.url, way, subscribers)
        # Only then the publisher: what is published to nobody is gone.
        applications.gather()
        applications.start(
            [Client("publisher", 0, PROCESSES, system, gate, Path(folder))], _publish, system.url, subscribers
        )
        applications.gather()
        gate.open(warm_up_s + window_s)
        counted_from_ns = gate.begun_ns + int(warm_up_s * 1e9)
        sleep_until(counted_from_ns)
        times = CpuTimes(system.pids, applications.pids())
        sleep_until(gate.ended_ns)
        used = times.stop()
        memory_mib = resident_kib(system.pids) / 1024
        applications.join("publisher")
        sent = gate.counted(range(PROCESSES, PROCESSES + 1))
        _drain(gate, sent * subscribers // SIDES)
        applications.join("subscriber")
    rows = _received(Path(folder))
    times_ns = rows[:, RECEIVED.index("received_ns")]
    seen = int(numpy.count_nonzero((times_ns >= counted_from_ns) & (times_ns < gate.ended_ns)))
    if not seen:
        raise trial.TrialFailed("not one delivery within the window")
    return {
        "seen_per_s": seen / window_s,
        "server_cpu_us": used["server_cpu_s"] / seen * 1e6,
        "client_cpu_us": used["client_cpu_s"] / seen * 1e6,
        "others_cpu_percent": used["others_cpu_percent"],
        "server_memory_mib": memory_mib,
        **_faults(rows, sent, subscribers),
    }


def _drain(gate: StartGate, deliveries: int) -> None:
    """Wait for what is still under way, and a moment longer, for what comes twice; then all go home."""
    deadline = time.monotonic() + DRAIN_S
    while gate.counted(range(PROCESSES)) < deliveries and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    gate.finish()


def _received(folder: Path) -> Any:
    raw = sorted(folder.glob("*.received.raw"))
    parts = [numpy.fromfile(path, dtype=numpy.int64).reshape(-1, len(RECEIVED)) for path in raw]
    return numpy.concatenate(parts) if parts else numpy.empty((0, len(RECEIVED)), dtype=numpy.int64)


def _faults(rows: Any, sent: int, subscribers: int) -> dict[str, int]:
    """What each side lacks or has too much of: each subscriber is to get all of its side, in order."""
    found = {"missing_or_twice": 0, "out_of_order": 0}
    receiver, sender, number = (rows[:, RECEIVED.index(name)] for name in ("receiver", "sender", "number"))
    for side in range(SIDES):
        numbers, mine = range(side, sent, SIDES), receiver % SIDES == side
        told = account(
            numpy.zeros(len(numbers)),
            numbers,
            receiver[mine],
            sender[mine],
            number[mine],
            all_receive=range(side, subscribers, SIDES),
        )
        found["missing_or_twice"] += told.lost + told.duplicated + told.strays
        found["out_of_order"] += told.reordered
    return found


def _subscribe(client: Client, url: str, way: str, subscribers: int) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_consume(client, url, way, range(client.number, subscribers, PROCESSES)))


async def _consume(client: Client, url: str, way: str, numbers: range) -> None:
    """Open a subscription for each number, and note what comes until the gate says that all is over."""
    connection = await entrepot.aio.connect(url)
    note, clock, gate, seen = client.received.add, time.monotonic_ns, client.gate, 0

    async def take(messages: Any, me: int) -> None:
        nonlocal seen
        async for message in messages:
            note((me, 0, number_of(message.body), clock(), NONE_NS))
            seen += 1
            client.count(seen)

    async def until_finished() -> None:
        while not gate.is_finished:
            await asyncio.sleep(POLL_S)

    opened = [await (await connection.subscribe(**wanted(way, number))).consume() for number in numbers]
    takers = [asyncio.create_task(take(each, number)) for each, number in zip(opened, numbers, strict=True)]
    gate.arrive()
    ended, _ = await asyncio.wait([*takers, asyncio.create_task(until_finished())], return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        await task  # one that takes ends only by an error
    for task in takers:
        task.cancel()


def _publish(client: Client, url: str, subscribers: int) -> None:
    gate, number = client.gate, 0
    window = max(2, min(UNDER_WAY_MAX, DELIVERIES_UNDER_WAY_MAX // subscribers))
    at_once = min(AT_ONCE_MAX, window // 2)
    with entrepot.connect(url) as connection:
        gate.wait()
        while time.monotonic_ns() < gate.ended_ns:
            # A publication reaches the subscribers of its side.
            if number + at_once - gate.counted(range(PROCESSES)) * SIDES // subscribers > window:
                time.sleep(PAUSE_S)
                continue
            with connection.pipeline() as pipeline:
                for each in range(number, number + at_once):
                    side = each % SIDES
                    properties = {"side": side, "number": each}
                    pipeline.publish(f"orders/{side}", body(each), persistent=False, properties=properties)
            number += at_once
            client.count(number)


def measure(*, quick: bool) -> Outcome:
    repetitions, warm_up_s, window_s = (1, 0.5, 1.0) if quick else (5, 1.0, 4.0)
    trials: list[dict[str, Any]] = []
    keys = list(itertools.product(WAYS[:3] if quick else WAYS, SUBSCRIBERS))
    order = random.Random(2002)
    for repetition in range(repetitions):
        for way, subscribers in order.sample(keys, len(keys)):
            with trial.scratch_folder() as folder:
                found = trial.run(
                    "conditions:visit",
                    way=way,
                    subscribers=subscribers,
                    warm_up_s=warm_up_s,
                    window_s=window_s,
                    folder=str(folder),
                )
            trials.append({"repetition": repetition, "way": way, "subscribers": subscribers} | found)
    figures = [*neighbours.figures(trials), *_rows(keys, trials)]
    for fault, title in (("missing_or_twice", "missing or twice"), ("out_of_order", "out of order")):
        figures.append(Figure(f"{title}: messages", [float(found[fault]) for found in trials], "", at_most(0)))
    settings = {
        "repetitions": repetitions,
        "warm_up_s": warm_up_s,
        "window_s": window_s,
        "body_bytes": len(body(0)),
        "conditions": {way: wanted(way, 1) for way in WAYS},
    }
    return Outcome("conditions", "half of the publications, by topic and by content", figures, settings, trials)


def _rows(keys: list[tuple[str, int]], trials: list[dict[str, Any]]) -> list[Figure]:
    figures = []
    warning = neighbours.warning(trials)

    def mine(way: str, subscribers: int) -> list[dict[str, Any]]:
        return [found for found in trials if (found["way"], found["subscribers"]) == (way, subscribers)]

    for way, subscribers in keys:
        found = mine(way, subscribers)
        title = f"by {way}, {subscribers} subscribers"
        publications = [one["seen_per_s"] / subscribers * SIDES for one in found]
        figures.append(Figure(f"{title}: publications_per_s", publications, MEMORY_ONLY, note=_note(found)))
        figures.append(Figure(f"{title}: deliveries_per_s", [one["seen_per_s"] for one in found], MEMORY_ONLY))
    for way, subscribers in keys:
        if way == "topic":
            continue
        pairs = zip(mine(way, subscribers), mine("topic", subscribers), strict=True)
        ratios = [content["seen_per_s"] / topic["seen_per_s"] for content, topic in pairs]
        title = f"by {way} to by topic, {subscribers} subscribers: ratio"
        figures.append(Figure(title, ratios, MEMORY_ONLY, note=warning))
    return figures


def _note(trials: list[dict[str, Any]]) -> str:
    server, client, memory = (
        max(found[field] for found in trials) for field in ("server_cpu_us", "client_cpu_us", "server_memory_mib")
    )
    return (
        f"CPU µs per delivery: server {server:.1f}, clients {client:.1f}; server {memory:,.0f} MiB"
        " (worst of all repetitions)"
    )
