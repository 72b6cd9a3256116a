# SPDX-License-Identifier: Apache-2.0
"""What the analysis brings home: plain rows, which the report and the command line show.

`Findings` holds no DataFrame, so showing it needs no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric of one system at one point, over all of its repetitions."""

    host: str
    scenario: str
    point: str
    parameters: Mapping[str, str]
    system: str
    title: str
    quality: str
    contract: str
    metric: str
    """As the published figures name it (throughput, cpu, round_trips, response_time, mst, …), or one of ours:
    latency_p50, latency_p90, latency_p99, latency_max, lateness_p99, server_cpu_per_message, lost, duplicated,
    reordered … (metrics.py has them all)."""
    unit: str
    value: float
    """The mean over repetitions."""
    low: float
    high: float
    """95 % bootstrap interval over repetitions; the value itself when there is only one."""
    repetitions: int
    reduced: str
    bottleneck: str
    """generator, cpu, log latency, log bandwidth, lock or queue, network, getter shortage, none, unknown."""
    evidence: str
    load: str = ""
    offered_per_s: float | None = None
    """The programmed rate, of an open or rated loop."""
    busy: str = ""
    """That others used the processors while it was measured, in the words of quiet.py; empty when none did."""
    samples: tuple[float, ...] = ()
    """What each repetition gave, in their order."""


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """One published figure beside ours, or one peer's beside ours (`other` says which); never across hosts."""

    host: str
    scenario: str
    point: str
    metric: str
    unit: str
    system: str
    other: str
    """`published: MQSeries V5.2`, or the name of a peer."""
    value: float
    other_value: float
    ratio: float
    """system / other; of throughputs and of times alike, so below 1 is better for times."""
    low: float
    high: float
    reduced: str


@dataclass(frozen=True, slots=True)
class TrialSecond:
    """One second of one trial: what is drawn against time."""

    trial: str
    scenario: str
    point: str
    system: str
    repetition: int
    second: int
    sent_per_s: float
    received_per_s: float
    depth: float | None
    latency_p50_s: float | None
    server_cpu_percent: float | None
    host: str = ""


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """One rate that a search tried."""

    trial: str
    scenario: str
    point: str
    system: str
    repetition: int
    probe: int
    offered_per_s: float
    delivered_per_s: float
    depth_slope_per_s: float | None
    latency_p99_s: float
    lost: int
    sustained: bool
    evidence: str
    host: str = ""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a message costs, and what a rate would need."""

    host: str
    scenario: str
    point: str
    system: str
    cpu_ms_per_message: float
    """Server only; the load generators' is apart."""
    service_ms: float
    """Mean service time behind the waiting-time model."""
    service_variation: float
    """Squared coefficient of variation of it."""
    rate_max_per_s: float
    cores: int
    scalability: tuple[float, float, float] | None
    """λ, α, β of the universal scalability law over this scenario's numbers of clients, when enough points lie below
    a hard cap; None otherwise."""
    scalability_note: str


@dataclass(frozen=True, slots=True)
class UnusableTrial:
    """A trial that gives no figure, and why."""

    trial: str
    scenario: str
    point: str
    system: str
    status: str
    reason: str
    host: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    """One row of the five documents, and the point of a scenario that it belongs to."""

    scenario: str
    point: str
    system: str
    metric: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class SystemSeen:
    """A system that was measured, as it was: one for each version and quality."""

    host: str
    system: str
    title: str
    version: str
    quality: str
    contract: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Accounting:
    """Where all messages of the trials that gave figures have gone."""

    trials: int = 0
    sent: int = 0
    received: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    strays: int = 0
    """Received, and never sent in that trial."""


@dataclass(frozen=True, slots=True)
class Findings:
    runs: tuple[str, ...]
    environments: Mapping[str, Mapping[str, str]]
    """Host → what its figures depend on."""
    scales: Mapping[str, str]
    """Run → scale."""
    figures: tuple[Figure, ...]
    comparisons: tuple[FigureComparison, ...]
    moments: tuple[TrialSecond, ...]
    probes: tuple[ProbeFinding, ...]
    capacities: tuple[Capacity, ...]
    marks: tuple[UnusableTrial, ...]
    published: tuple[Published, ...]
    absent: Mapping[str, str]
    """Systems that were asked for and were not installed."""
    systems: tuple[SystemSeen, ...] = ()
    accounting: Accounting = Accounting()
    loads: Mapping[str, int] = field(default_factory=dict)
    """Load shape → how many trials of it gave figures."""
    begun: Mapping[str, str] = field(default_factory=dict)
    """Run → when it began, ISO 8601, UTC."""
