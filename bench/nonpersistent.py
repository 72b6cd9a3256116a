# SPDX-License-Identifier: Apache-2.0
"""2 KB nonpersistent put+get pairs on one thread, through the public connection of an embedded queue manager.

Each repetition is a fresh process in which blocks of pairs alternate with
blocks of append+popleft on a bare deque of the same bytes, so that both see
the same machine. The deque has no names, ids, locks or promises: the ratio
says what these cost.
"""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Any

import trial
from figures import MEMORY_ONLY, Figure, Outcome, at_least

BODY_BYTES = 2048


def pairs(folder: str, blocks: int, pairs_per_block: int) -> dict[str, Any]:
    """Rates of our pairs and of the deque's, one each per block."""
    import entrepot

    body = bytes(BODY_BYTES)
    ours: list[float] = []
    bare: list[float] = []
    queue: deque[bytes] = deque()
    with entrepot.connect(f"embedded:{Path(folder) / 'manager'}") as connection:
        connection.mqsc("DEFINE QLOCAL(Q)")
        put, get = connection.put, connection.get
        # The first block warms up and is not counted.
        for block in range(blocks + 1):
            begun = time.perf_counter()
            for _ in range(pairs_per_block):
                put("Q", body, persistent=False)
                get("Q")
            between = time.perf_counter()
            for _ in range(pairs_per_block):
                queue.append(body)
                queue.popleft()
            ended = time.perf_counter()
            if block:
                ours.append(pairs_per_block / (between - begun))
                bare.append(pairs_per_block / (ended - between))
    return {"ours_per_s": ours, "deque_per_s": bare}


def measure(*, quick: bool) -> Outcome:
    repetitions, blocks, pairs_per_block = (3, 3, 10_000) if quick else (5, 10, 20_000)
    trials = []
    for _ in range(repetitions):
        with trial.scratch_folder() as folder:
            found = trial.run("nonpersistent:pairs", folder=str(folder), blocks=blocks, pairs_per_block=pairs_per_block)
            trials.append(found)
    ours = [_overall(found["ours_per_s"]) for found in trials]
    bare = [_overall(found["deque_per_s"]) for found in trials]
    ratios = [mine / other for mine, other in zip(ours, bare, strict=True)]
    figures = [
        Figure("put+get pairs: rate_per_s", ours, MEMORY_ONLY, at_least(60_000)),
        Figure("bare deque: rate_per_s", bare, MEMORY_ONLY),
        Figure("pairs to bare deque: ratio", ratios, MEMORY_ONLY),
    ]
    settings = {"repetitions": repetitions, "blocks": blocks, "pairs_per_block": pairs_per_block, "body": BODY_BYTES}
    return Outcome("nonpersistent", "2 KB nonpersistent put+get pairs, one thread", figures, settings, trials)


def _overall(rates_per_s: list[float]) -> float:
    """The rate over all blocks together, which have the same number of pairs."""
    return len(rates_per_s) / sum(1 / rate for rate in rates_per_s)
