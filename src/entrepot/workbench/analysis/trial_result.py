# SPDX-License-Identifier: Apache-2.0
"""What one trial tells, once all of its observations were read: a few numbers, typed, small enough to be sent home."""

from __future__ import annotations

import msgspec

from entrepot.workbench.statistics.counting import TrialAccount


class Second(msgspec.Struct, frozen=True):
    """One second of the trial, counted from the opening of the gate."""

    second: int
    sent_per_s: float
    received_per_s: float
    depth: float | None
    latency_p50_s: float | None
    server_cpu_percent: float | None


class JudgedProbe(msgspec.Struct, frozen=True):
    """One rate of a search, judged again from the raw observations."""

    answer: str
    offered_per_s: float
    delivered_per_s: float
    depth_slope_per_s: float | None
    latency_p99_s: float
    lost: int
    evidence: str


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    trial: str
    status: str = "measured"
    problem: str = ""
    """Why it gives no figure; its status then says whether it failed or is invalid."""
    metrics: dict[str, float] = {}
    """By their names in metric.py; empty when it gives no figure."""
    account: TrialAccount | None = None
    seconds: list[Second] = []
    probe: JudgedProbe | None = None
    verdict: tuple[str, str] | None = None
    """What held it back, and the numbers that say so; None when nothing was sampled."""
