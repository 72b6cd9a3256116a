# SPDX-License-Identifier: Apache-2.0
"""What it costs to choose by content: subscribers who want half of the publications, by topic, selector or XPath.

All publications are alike in all three cases: 1 KiB of XML, two properties,
on one of two topics in turn. Half of the subscribers want the even ones and
half the odd ones. By topic they subscribe to one of both; otherwise to both,
with a condition. No two conditions are written alike, so the server has to
ask each of them: it would ask equal ones once ("alike", measured as well).
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import neighbours
import trial
from figures import MEMORY_ONLY, Figure, Outcome
from load import Applications, Gate
from peers.entrepot_server import QueueManager
from peers.entrepot_topics import consume, run
from tallies import Tallies, faults, note, observe
from topics import Shape, at_once, shares

SUBSCRIBERS = (10, 100)
BODY_BYTES = 1024
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


def decode(found: bytes) -> tuple[int, int]:
    return 0, int(found[len(_START) : len(_START) + 12])


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
    gate, tallies = Gate(warm_up_s, window_s), Tallies(1, subscribers, stride=SIDES)
    window = Shape(subscribers, BODY_BYTES).window
    with QueueManager(Path(folder)) as manager, Applications(gate) as applications:
        for numbers in shares(subscribers):
            applications.start(_subscribe, manager.unix_url, tallies, way, numbers)
        applications.gather()
        applications.start(_publish, manager.unix_url, tallies, subscribers, window)
        applications.gather()
        found = observe(tallies, gate, applications, [manager.pid], _publish)
        return found | tallies.drain([range(subscribers)])


def _subscribe(url: str, tallies: Tallies, way: str, numbers: range, gate: Gate) -> None:
    conditions = {number: wanted(way, number) for number in numbers}
    run(consume(url, conditions, lambda number: tallies.see(number, decode), gate.arrive, apart=False))


def _publish(url: str, tallies: Tallies, subscribers: int, window: int, gate: Gate) -> None:
    import entrepot

    connection = entrepot.connect(url)

    def send(numbers: range) -> None:
        with connection.pipeline() as pipeline:
            for number in numbers:
                side = number % SIDES
                properties = {"side": side, "number": number}
                pipeline.publish(f"orders/{side}", body(number), persistent=False, properties=properties)

    gate.wait()
    tallies.produce(0, range(subscribers), send, at_once=at_once(window), window=window)


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
    figures = [*neighbours.figures(trials), *_rows(keys, trials), *faults(trials)]
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
        figures.append(Figure(f"{title}: publications_per_s", publications, MEMORY_ONLY, note=note(found)))
        figures.append(Figure(f"{title}: deliveries_per_s", [one["seen_per_s"] for one in found], MEMORY_ONLY))
    for way, subscribers in keys:
        if way == "topic":
            continue
        pairs = zip(mine(way, subscribers), mine("topic", subscribers), strict=True)
        ratios = [content["seen_per_s"] / topic["seen_per_s"] for content, topic in pairs]
        title = f"by {way} to by topic, {subscribers} subscribers: ratio"
        figures.append(Figure(title, ratios, MEMORY_ONLY, note=warning))
    return figures
