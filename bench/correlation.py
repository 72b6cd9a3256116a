# SPDX-License-Identifier: Apache-2.0
"""Get by correlation id from 100 and from 100,000 queued 1 KB messages: does depth cost anything?

Both queues stand in one queue manager in a fresh process, and rounds of gets
alternate between them. Ids are random, the wanted message is any of them,
and after each get (timed alone) the same message goes back, so the depth
stays. By message id and by selector (a scan; no index can answer it) for
information.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from pathlib import Path
from typing import Any

import trial
from figures import MEMORY_ONLY, Figure, Outcome, at_most

BODY_BYTES = 1024
ROUNDS = 20


def gets(folder: str, depths: list[int], gets_per_round: int, selections: int) -> dict[str, Any]:
    """Cost of single gets in µs, by criterion and depth."""
    import entrepot

    order = random.Random(2002)
    body = bytes(BODY_BYTES)
    costs_us: dict[str, dict[str, list[float]]] = {
        kind: {str(depth): [] for depth in depths} for kind in ("correlation_id", "message_id", "selector")
    }
    ids: dict[int, list[bytes]] = {}
    with entrepot.connect(f"embedded:{Path(folder) / 'manager'}") as connection:

        def put(depth: int, index: int) -> None:
            mine = ids[depth][index]
            connection.put(
                f"D{depth}",
                body,
                persistent=False,
                message_id=mine,
                correlation_id=mine[::-1],
                properties={"number": index},
            )

        def get(depth: int, kind: str) -> None:
            index = order.randrange(depth)
            mine = ids[depth][index]
            criterion: Any = {"correlation_id": mine[::-1], "message_id": mine, "selector": f"number = {index}"}[kind]
            wanted = {kind: criterion}
            begun = time.perf_counter()
            message = connection.get(f"D{depth}", **wanted)
            costs_us[kind][str(depth)].append((time.perf_counter() - begun) * 1e6)
            assert message is not None
            assert message.message_id == mine
            put(depth, index)

        for depth in depths:
            connection.mqsc(f"DEFINE QLOCAL(D{depth}) MAXDEPTH(999999999)")
            ids[depth] = [os.urandom(24) for _ in range(depth)]
            for index in range(depth):
                put(depth, index)
        connection.get(f"D{depths[0]}", selector="number < 0")  # the parser of selectors is built once
        for _ in range(ROUNDS):
            for kind in ("correlation_id", "message_id"):
                for depth in depths:
                    for _ in range(gets_per_round):
                        get(depth, kind)
        for _ in range(selections):
            for depth in depths:
                get(depth, "selector")
    summary = {
        kind: {
            depth: {"median_us": statistics.median(costs), "mean_us": statistics.mean(costs), "gets": len(costs)}
            for depth, costs in by_depth.items()
        }
        for kind, by_depth in costs_us.items()
    }
    return {"costs": summary}


def measure(*, quick: bool) -> Outcome:
    repetitions, depths, gets_per_round, selections = (
        (2, [100, 10_000], 50, 3) if quick else (5, [100, 100_000], 200, 5)
    )
    trials = []
    for _ in range(repetitions):
        with trial.scratch_folder() as folder:
            found = trial.run(
                "correlation:gets",
                folder=str(folder),
                depths=depths,
                gets_per_round=gets_per_round,
                selections=selections,
            )
            trials.append(found)
    shallow, deep = depths
    figures = []
    for kind, label in (("correlation_id", "correlation id"), ("message_id", "message id"), ("selector", "selector")):
        costs = {depth: [found["costs"][kind][str(depth)] for found in trials] for depth in depths}
        for statistic in ("median_us", "mean_us"):
            figures += [
                Figure(
                    f"by {label} from {depth:,}: {statistic}", [cost[statistic] for cost in costs[depth]], MEMORY_ONLY
                )
                for depth in depths
            ]
            ratios = [far[statistic] / near[statistic] for near, far in zip(costs[shallow], costs[deep], strict=True)]
            target = at_most(1.5) if (kind, statistic) == ("correlation_id", "median_us") else None
            name = f"by {label}, {deep:,} to {shallow:,}, {statistic.removesuffix('_us')}: ratio"
            figures.append(Figure(name, ratios, MEMORY_ONLY, target))
    settings = {
        "repetitions": repetitions,
        "rounds": ROUNDS,
        "gets_per_round": gets_per_round,
        "selections": selections,
    }
    return Outcome("correlation", "Get by id and selector, by queue depth", figures, settings, trials)
