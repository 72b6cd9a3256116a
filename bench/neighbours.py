# SPDX-License-Identifier: Apache-2.0
"""What else went on while we measured: a busy machine or a slow disk makes a false number, so a run says so itself."""

from __future__ import annotations

from typing import Any

from figures import Figure, percentile

OTHERS_CPU_PERCENT_MAX = 10.0
"""Beyond it a visit tells of the neighbours as much as of the system."""
DEVICE_VARIATION_MAX = 2.0
"""Between the fastest and the slowest tenth of the probes."""


def figures(trials: list[dict[str, Any]]) -> list[Figure]:
    """How much of the processors others had, and how fast the device was beside the trials."""
    return [_device(trials), _processors(trials)] if _probes(trials) else [_processors(trials)]


def warning(trials: list[dict[str, Any]]) -> str:
    """For the notes of ratios; empty on a quiet machine."""
    return "".join(figure.note for figure in figures(trials))


def _processors(trials: list[dict[str, Any]]) -> Figure:
    shares = [found["others_cpu_percent"] for found in trials]
    busy = percentile(shares, 90) > OTHERS_CPU_PERCENT_MAX
    note = f"DO NOT QUOTE: others took up to {max(shares):.0f} % of the processors. " if busy else ""
    return Figure("processors used by others: percent", shares, "", note=note)


def _device(trials: list[dict[str, Any]]) -> Figure:
    probes = _probes(trials)
    slow, fast = percentile(probes, 10), percentile(probes, 90)
    varied = fast > slow * DEVICE_VARIATION_MAX
    note = f"DO NOT QUOTE: the device itself varied from {slow:,.0f} to {fast:,.0f} forces/s. " if varied else ""
    return Figure("the device beside all visits: rate_per_s", probes, "fdatasync after each write", note=note)


def _probes(trials: list[dict[str, Any]]) -> list[float]:
    return [rate for found in trials for rate in found.get("device_rates_per_s", ())]
