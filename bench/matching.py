# SPDX-License-Identifier: Apache-2.0
"""Whether the time of a publication depends on how many subscriptions it does not match.

So many subscriptions lie on distinct topics, all to one queue, inside this
process; a thousand publications then match one of them each. Cold: each
topic is published on for the first time since anybody subscribed. Warm: the
same topics again. Each publication is timed by itself, and the median of a
pass is what counts. Memory is what the process has gained per subscription,
the objects on the side of the application included.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from typing import Any

import neighbours
import trial
from entrepot.workbench.systems.processes import CpuTimes
from figures import MEMORY_ONLY, Figure, Outcome, at_most, percentile

SUBSCRIPTIONS = (1_000, 10_000, 100_000)
TOPICS = 1_000
WARM_PASSES = 5
BODY_BYTES = 1024
QUEUE = "ALL"
GROWTH_MAX = 1.5
"""Allowed from the fewest to the most: more memory means more misses of the processor's caches."""


def topic(number: int) -> str:
    """Of 100,000 and more that have their first level in common, and a thousand at most the second."""
    return f"sites/{number // 1000}/devices/{number % 1000}/state"


def visit(subscriptions: int, warm_passes: int, folder: str) -> dict[str, Any]:
    import entrepot

    with entrepot.connect(f"embedded:{folder}/qm") as connection:
        connection.mqsc(f"DEFINE QLOCAL({QUEUE}) MAXDEPTH(999999999)")
        gc.collect()
        memory_mib, begun = trial.resident_mib(), time.perf_counter()
        opened = [connection.subscribe(topic(number), queue=QUEUE) for number in range(subscriptions)]
        subscribe_s = time.perf_counter() - begun
        gc.collect()
        memory_mib = trial.resident_mib() - memory_mib
        step = subscriptions // TOPICS
        topics = [topic(number) for number in range(0, subscriptions, step)]
        # Not the topics that are timed, only the verb itself, on a topic that nobody wants.
        for _ in range(200):
            connection.publish("warm/up", b"", persistent=False)
        times = CpuTimes([], [os.getpid()])
        cold_us = _pass(connection, topics)
        warm_us = [_pass(connection, topics) for _ in range(warm_passes)]
        others_cpu_percent = times.stop()["others_cpu_percent"]
        return {
            "subscriptions": len(opened),
            "subscriptions_per_s": subscriptions / subscribe_s,
            "memory_bytes": memory_mib * 1024 * 1024 / subscriptions,
            "cold_us": statistics.median(cold_us),
            "cold_us_p99": percentile(cold_us, 99),
            "warm_us": statistics.median(map(statistics.median, warm_us)),
            "warm_us_p99": percentile([one for once in warm_us for one in once], 99),
            "others_cpu_percent": others_cpu_percent,
        }


def _pass(connection: Any, topics: list[str]) -> list[float]:
    """The time of each publication; each has to be on the queue once, in order."""
    body, clock, publish = os.urandom(BODY_BYTES), time.perf_counter, connection.publish
    times_us = []
    for name in topics:
        before = clock()
        publish(name, body, persistent=False)
        times_us.append((clock() - before) * 1e6)
    arrived = []
    while (message := connection.get(QUEUE)) is not None:
        arrived.append(message.topic)
    if arrived != topics:
        raise trial.TrialFailed(f"{len(topics)} publications, but {len(arrived)} arrived, or in another order")
    return times_us


def measure(*, quick: bool) -> Outcome:
    repetitions, warm_passes = (1, 2) if quick else (5, WARM_PASSES)
    levels = SUBSCRIPTIONS[:2] if quick else SUBSCRIPTIONS
    trials: list[dict[str, Any]] = []
    for repetition in range(repetitions):
        for subscriptions in levels:
            before = neighbours.processor_rate_per_s()
            with trial.scratch_folder() as folder:
                found = trial.run(
                    "matching:visit", subscriptions=subscriptions, warm_passes=warm_passes, folder=str(folder)
                )
            speeds = [before, neighbours.processor_rate_per_s()]
            trials.append({"repetition": repetition, "processor_rates_per_s": speeds} | found)
    figures, warning = neighbours.figures(trials), neighbours.warning(trials)

    def samples(subscriptions: int, field: str) -> list[float]:
        return [found[field] for found in trials if found["subscriptions"] == subscriptions]

    for subscriptions in levels:
        title = f"{subscriptions:,} subscriptions"
        for state in ("cold", "warm"):
            note = f"p99 {max(samples(subscriptions, f'{state}_us_p99')):.0f} µs (worst of all repetitions)"
            figures.append(
                Figure(f"{title}, {state}: publish_us", samples(subscriptions, f"{state}_us"), MEMORY_ONLY, note=note)
            )
        figures.append(Figure(f"{title}: bytes_per_subscription", samples(subscriptions, "memory_bytes"), MEMORY_ONLY))
        rates = samples(subscriptions, "subscriptions_per_s")
        figures.append(Figure(f"{title}: subscriptions_per_s", rates, MEMORY_ONLY))
    few, many = levels[0], levels[-1]
    for state in ("cold", "warm"):
        pairs = zip(samples(many, f"{state}_us"), samples(few, f"{state}_us"), strict=True)
        title = f"{state}, {many:,} to {few:,} subscriptions: ratio"
        ratios = [slow / fast for slow, fast in pairs]
        figures.append(Figure(title, ratios, MEMORY_ONLY, at_most(GROWTH_MAX), warning))
    settings = {
        "repetitions": repetitions,
        "topics": TOPICS,
        "warm_passes": warm_passes,
        "body_bytes": BODY_BYTES,
        "binding": "embedded",
    }
    return Outcome("matching", "one publication among many subscriptions", figures, settings, trials)
