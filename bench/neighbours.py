# SPDX-License-Identifier: Apache-2.0
"""What else went on while we measured: a busy machine or a slow disk makes a false number, so a run says so itself."""

from __future__ import annotations

import time
from typing import Any

from figures import Figure, percentile

OTHERS_CPU_PERCENT_MAX = 10.0
"""Beyond it a visit tells of the neighbours as much as of the system."""
DEVICE_VARIATION_MAX = 2.0
"""Between the fastest and the slowest tenth of the probes."""

PROCESSOR_VARIATION_MAX = 1.3
PROBE_S = 0.05


def processor_rate_per_s() -> float:
    """How often a processor does a small piece of Python, per second of its own time.

    It tells what the share of others cannot: a processor that is slow just
    now because another machine is busy on the other half of its core.
    """
    pieces, begun = 0, time.process_time()
    while (used_s := time.process_time() - begun) < PROBE_S:
        sum(number * number for number in range(100))
        pieces += 1
    return pieces / used_s


def figures(trials: list[dict[str, Any]]) -> list[Figure]:
    """How much of the processors others had, and how fast processors and device were beside the trials that tell."""
    found = [_processors(trials)] if all("others_cpu_percent" in each for each in trials) else []
    if processors := _probes(trials, "processor_rates_per_s"):
        title = "a processor beside all visits: pieces_per_s"
        found.append(_probed(title, processors, "", PROCESSOR_VARIATION_MAX))
    if device := _probes(trials, "device_rates_per_s"):
        title = "the device beside all visits: forces_per_s"
        found.append(_probed(title, device, "fdatasync after each write", DEVICE_VARIATION_MAX))
    return found


def warning(trials: list[dict[str, Any]]) -> str:
    """For the notes of ratios; empty on a quiet machine."""
    return "".join(figure.note for figure in figures(trials))


def _processors(trials: list[dict[str, Any]]) -> Figure:
    shares = [found["others_cpu_percent"] for found in trials]
    busy = percentile(shares, 90) > OTHERS_CPU_PERCENT_MAX
    note = f"DO NOT QUOTE: others took up to {max(shares):.0f} % of the processors. " if busy else ""
    return Figure("processors used by others: percent", shares, "", note=note)


def _probed(title: str, probes: list[float], contract: str, variation_max: float) -> Figure:
    slow, fast = percentile(probes, 10), percentile(probes, 90)
    varied = fast > slow * variation_max
    what, _, unit = title.partition(" beside all visits: ")
    note = f"DO NOT QUOTE: {what} itself varied from {slow:,.0f} to {fast:,.0f} {unit}. " if varied else ""
    return Figure(title, probes, contract, note=note)


def _probes(trials: list[dict[str, Any]], field: str) -> list[float]:
    return [rate for found in trials for rate in found.get(field, ())]
