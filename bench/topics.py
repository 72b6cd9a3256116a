# SPDX-License-Identifier: Apache-2.0
"""One publisher, 1 to 1,000 subscribers, a server between them: deliveries per second of publish and subscribe.

Every subscriber has to get every publication once and in order; that is
verified for each. Subscribers are spread over two processes, each on one
event loop: all of a process on one connection, and, for 100 of them, each on
a connection of its own as well ("apart"). The publisher pauses while the
slowest subscriber lies a window behind (see tallies.py); the window shrinks
with subscribers and size, and is the same for all systems. Ratios are taken
within a repetition. They are of server and Python client together, and a
client often costs more than its server: the notes have the CPU time of both.

    python bench/topics.py entrepot-topics --subscribers 10 1000     some visits, to look at
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import neighbours
import peers
import trial
from figures import Figure, Outcome, at_least, readable
from load import Applications, Gate
from peers.system import TopicSystem
from tallies import HEAD, Tallies, faults, note, observe

PROCESSES = 2
SUBSCRIBERS = (1, 10, 100, 1000)
APART = 100
BODY_BYTES = (1024, 64 * 1024)
AT_ONCE_MAX = 100
UNDER_WAY_MAX = 1000
DELIVERIES_UNDER_WAY_MAX = 20_000
BYTES_UNDER_WAY_MAX = 128 * 1024 * 1024
ENOUGH_PUBLICATIONS = 10
"""A window lasts longer until so many have reached everybody."""
FEW, MANY = 10, 1000
RATIO_MANY_TO_FEW = 0.5


class Shape(NamedTuple):
    """What is the same for all systems of a comparison."""

    subscribers: int
    body_bytes: int
    apart: bool = False

    def __str__(self) -> str:
        people = "1 subscriber" if self.subscribers == 1 else f"{self.subscribers:,} subscribers"
        return f"{people}{', apart' if self.apart else ''}, {self.body_bytes // 1024} KiB"

    @property
    def window(self) -> int:
        """How many publications may be under way; two at least, so that somebody always has something to do."""
        by_bytes = BYTES_UNDER_WAY_MAX // (self.body_bytes * self.subscribers)
        return max(2, min(UNDER_WAY_MAX, DELIVERIES_UNDER_WAY_MAX // self.subscribers, by_bytes))


def shares(count: int, processes: int = PROCESSES) -> list[range]:
    """Numbers for each process, none of them idle."""
    return [range(first, count, processes) for first in range(min(processes, count))]


def at_once(window: int) -> int:
    """Two batches fit into a window, so that one is on its way while the other is consumed."""
    return max(1, min(AT_ONCE_MAX, window // 2))


def visit(
    system: str, persistent: bool, shape: Sequence[Any], warm_up_s: float | None, window_s: float, folder: str
) -> dict[str, Any]:
    """One system with so many subscribers: rates, CPU time, memory, and what is missing."""
    kind: type[TopicSystem] = peers.find(system)
    wanted = Shape(*shape)
    gate = Gate(kind.warm_up_s if warm_up_s is None else warm_up_s, window_s)
    tallies = Tallies(1, wanted.subscribers)
    with kind(Path(folder), persistent=persistent) as running, Applications(gate) as applications:
        for numbers in shares(wanted.subscribers):
            applications.start(_subscribe, running, tallies, numbers, wanted.apart)
        # Only then the publisher: what is published to nobody is gone.
        applications.gather()
        applications.start(_publish, running, tallies, wanted)
        applications.gather()
        enough = ENOUGH_PUBLICATIONS * wanted.subscribers
        found = observe(tallies, gate, applications, running.pids, _publish, enough=enough)
        found |= tallies.drain([range(wanted.subscribers)])
        return found | {"version": running.version(), "settings": running.settings(), "under_way_max": wanted.window}


def _subscribe(system: TopicSystem, tallies: Tallies, numbers: range, apart: bool, gate: Gate) -> None:
    system.subscribe(numbers, tallies.see, gate.arrive, apart=apart)


def _publish(system: TopicSystem, tallies: Tallies, shape: Shape, gate: Gate) -> None:
    publisher = system.publisher()
    tail = os.urandom(shape.body_bytes - HEAD.size)

    def send(numbers: range) -> None:
        publisher.send([HEAD.pack(0, number) + tail for number in numbers])

    gate.wait()
    tallies.produce(
        0,
        range(shape.subscribers),
        send,
        at_once=at_once(shape.window),
        window=shape.window,
        pause=publisher.pause,
    )
    publisher.flush()


def measure(*, quick: bool) -> Outcome:
    return compare(peers.TOPICS, persistent=False, quick=quick)


def measure_persistent(*, quick: bool) -> Outcome:
    return compare(peers.TOPICS_PERSISTENT, persistent=True, quick=quick)


def compare(names: Sequence[str], *, persistent: bool, quick: bool) -> Outcome:
    """Visit these systems in all shapes, and set ours against the others."""
    repetitions, warm_up_s, window_s = (1, 0.5, 1.0) if quick else (3, None, 4.0)
    shapes = [Shape(*both) for both in itertools.product(SUBSCRIBERS, BODY_BYTES)]
    shapes += [Shape(APART, size, apart=True) for size in BODY_BYTES]
    if quick:
        shapes = [Shape(FEW, BODY_BYTES[0]), Shape(MANY, BODY_BYTES[0]), Shape(APART, BODY_BYTES[1], apart=True)]
    absent = peers.absent(names)
    names = [name for name in names if name not in absent]
    trials: list[dict[str, Any]] = []
    keys = list(itertools.product(names, shapes))
    order = random.Random(2002)
    for repetition in range(repetitions):
        for name, shape in order.sample(keys, len(keys)):
            found = probed_visit(name, shape, persistent, warm_up_s, window_s)
            trials.append({"repetition": repetition, "system": name, "shape": shape} | found)
    warning = neighbours.warning(trials) + peers.warning(absent)
    figures = [
        *neighbours.figures(trials),
        *_rows(keys, trials, persistent=persistent),
        *_scaling(names, trials, warning, persistent=persistent),
        *_ratios(names, shapes, trials, warning, persistent=persistent),
        *faults(trials),
    ]
    kind = "persistent" if persistent else "nonpersistent"
    settings = {
        "repetitions": repetitions,
        "warm_up_s": "what each system needs" if warm_up_s is None else warm_up_s,
        "window_s": window_s,
        "subscriber_processes": PROCESSES,
        "load": "closed loop: one publisher, throttled by the slowest subscriber",
        "absent": absent,
    }
    return Outcome(f"topics_{kind}", f"{kind} publications to many subscribers", figures, settings, trials)


def probed_visit(name: str, shape: Shape, persistent: bool, warm_up_s: float | None, window_s: float) -> dict[str, Any]:
    """A visit, with the speed of a processor right before and after."""
    before = neighbours.processor_rate_per_s()
    with trial.scratch_folder() as folder:
        found = trial.run(
            "topics:visit",
            system=name,
            persistent=persistent,
            shape=shape,
            warm_up_s=warm_up_s,
            window_s=window_s,
            folder=str(folder),
        )
    return found | {"processor_rates_per_s": [before, neighbours.processor_rate_per_s()]}


def _mine(trials: list[dict[str, Any]], name: str, shape: Shape) -> list[dict[str, Any]]:
    """One of each repetition."""
    return [found for found in trials if (found["system"], found["shape"]) == (name, shape)]


def _rates(trials: list[dict[str, Any]], name: str, shape: Shape) -> list[float]:
    return [found["seen_per_s"] for found in _mine(trials, name, shape)]


def _rows(keys: Sequence[tuple[str, Shape]], trials: list[dict[str, Any]], *, persistent: bool) -> list[Figure]:
    figures = []
    for name, shape in keys:
        kind: type[TopicSystem] = peers.find(name)
        mine, contract = _mine(trials, name, shape), kind.contract(persistent=persistent)
        title = f"{kind.title}, {shape}"
        deliveries = [found["seen_per_s"] for found in mine]
        # Of those that all subscribers have got: what is confirmed in whole batches is too coarse for a short window.
        publications = [rate / shape.subscribers for rate in deliveries]
        figures.append(Figure(f"{title}: deliveries_per_s", deliveries, contract, note=note(mine)))
        figures.append(Figure(f"{title}: publications_per_s", publications, contract))
    return figures


def _scaling(names: Sequence[str], trials: list[dict[str, Any]], warning: str, *, persistent: bool) -> list[Figure]:
    """Whether a delivery costs the same, however many subscribers there are."""
    figures = []
    for name, size in itertools.product(names, BODY_BYTES):
        kind: type[TopicSystem] = peers.find(name)
        many, few = (_rates(trials, name, Shape(count, size)) for count in (MANY, FEW))
        if not many or not few:
            continue
        figures.append(
            Figure(
                f"{kind.title}, {size // 1024} KiB, deliveries/s with {MANY:,} to {FEW} subscribers: ratio",
                [with_many / with_few for with_many, with_few in zip(many, few, strict=True)],
                kind.contract(persistent=persistent),
                at_least(RATIO_MANY_TO_FEW) if name == names[0] else None,
                warning,
            )
        )
    return figures


def _ratios(
    names: Sequence[str], shapes: Sequence[Shape], trials: list[dict[str, Any]], warning: str, *, persistent: bool
) -> list[Figure]:
    figures = []
    ours: type[TopicSystem] = peers.find(names[0])
    for shape, rival in itertools.product(shapes, names[1:]):
        pairs = zip(_rates(trials, names[0], shape), _rates(trials, rival, shape), strict=True)
        kind: type[TopicSystem] = peers.find(rival)
        figures.append(
            Figure(
                f"{ours.title} to {kind.title}, {shape}: ratio",
                [mine / theirs for mine, theirs in pairs],
                f"ours: {ours.contract(persistent=persistent)}; theirs: {kind.contract(persistent=persistent)}",
                note=warning,
            )
        )
    return figures


def main() -> None:
    every = tuple(dict.fromkeys((*peers.TOPICS, *peers.TOPICS_PERSISTENT)))
    parser = argparse.ArgumentParser(description="Visit some systems once each and print what was found.")
    parser.add_argument("systems", nargs="+", choices=every, metavar="system", help=", ".join(every))
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--subscribers", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--bytes", type=int, default=BODY_BYTES[0])
    parser.add_argument("--apart", action="store_true", help="each subscriber on a connection of its own")
    parser.add_argument("--window", type=float, default=4.0, metavar="SECONDS")
    arguments = parser.parse_args()
    for name, subscribers in itertools.product(arguments.systems, arguments.subscribers):
        shape = Shape(subscribers, arguments.bytes, arguments.apart)
        found = probed_visit(name, shape, arguments.persistent, None, arguments.window)
        shown = (f"{key} {readable(value)}" for key, value in found.items() if isinstance(value, (int, float)))
        print(f"{name}, {shape}:", ", ".join(shown), flush=True)


if __name__ == "__main__":
    main()
