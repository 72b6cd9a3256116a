# SPDX-License-Identifier: Apache-2.0
"""What held a system back: the question that a throughput leaves open.

The verdict comes from what was sampled beside the load. A resource that is
used almost all of its time is the bottleneck; of several, the one that is
used most. When nothing is busy and there was more to do, messages wait for
each other: a lock, or a queue that serves one at a time. What was not
sampled is not guessed: too few facts give `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

Name = Literal[
    "generator",
    "cpu",
    "log latency",
    "log bandwidth",
    "lock or queue",
    "network",
    "getter shortage",
    "none",
    "unknown",
]
GENERATOR_SHARE = 0.85
"""Of its core: above that, a Python process has no time left to offer more."""
LATENESS_P99_S = 0.1
"""A schedule that is missed by more was not the load that was programmed."""
MACHINE_SHARE = 0.92
"""Of all cores: the sampler and the kernel need some of the rest."""
SERVER_SHARE = 0.92
"""Of the cores that a server's threads can use: what is missing goes to switching between them."""
RUN_QUEUE_PER_CORE = 1.5
"""More runnable threads than that and each waits for its turn, whatever the share says."""
FLUSHING_SHARE = 0.75
"""Of the time: a log that forces one after the other has the rest of its time to gather the next group."""
FORCES_PER_MESSAGE = 0.9
"""As many, and hardly a message shared its force with another: the clients wait for one force after the other."""
BANDWIDTH_SHARE = 0.7
"""Of what the disk was measured to write in a row; a log's writes are smaller."""
NETWORK_SHARE = 0.8
GROWTH_SHARE = 0.005
"""Of the rate: as the search for the sustainable rate has it."""
DELIVERED_SHARE = 0.995
TURNS_TOLERANCE = 0.2
"""Of a core; the machine does other things, too."""
GETTER_WAIT_SHARE = 0.5
"""Getters that ask for messages less of their time than that are busy with those that they have. Those that ask more
while messages are there wait for the system, and more of them would wait with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a trial; None is what was not sampled. Shares are of 1."""

    is_rated: bool = False
    """Whether a rate was programmed, so that keeping it is all that could be done."""
    is_persistent: bool = False
    rate_per_s: float | None = None
    delivered_share: float | None = None
    """Of what was offered."""
    generator_lateness_p99_s: float | None = None
    generator_cpu_share: float | None = None
    """Of one core, of the busiest generator process; None where the system runs inside it."""
    machine_busy_share: float | None = None
    cores: int | None = None
    run_queue: float | None = None
    """Runnable threads, on the mean."""
    server_cpu_cores: float | None = None
    server_threads: int | None = None
    """Cores that it can use at the same time, 1 for a server of one thread; None for as many as there are."""
    flushes_per_s: float | None = None
    flush_ms: float | None = None
    """Mean of one."""
    write_bytes_per_s: float | None = None
    write_bandwidth_bytes_per_s: float | None = None
    """As measured on this disk, in a row."""
    network_bytes_per_s: float | None = None
    network_limit_bytes_per_s: float | None = None
    """As measured over loopback, in a row."""
    depth_slope_per_s: float | None = None
    getters: int | None = None
    getter_wait_share: float | None = None
    """Of a getter's time, on the mean: in calls that ask for messages."""
    getter_cpu_share: float | None = None
    """Of one core, of the busiest getter process; getters are generators, too."""


class Bottleneck(NamedTuple):
    name: Name
    evidence: str


class _Busy(NamedTuple):
    name: Name
    use: float
    """How near to its limit: 1 is as much as can be told from the limit."""
    evidence: str


def verdict(facts: Facts) -> Bottleneck:
    """The bottleneck, and the numbers that say so; the runners-up are named after it."""
    if late := _late_generator(facts):
        return Bottleneck("generator", late)
    if kept := _kept_rate(facts):
        return Bottleneck("none", kept)
    if facts.getters == 0 and _grows(facts):
        return Bottleneck("getter shortage", f"{_growing(facts)} and nothing was getting")
    busy = sorted(_busy(facts), key=lambda one: -one.use)
    if busy:
        others = f" (also {'; '.join(f'{one.name}: {one.evidence}' for one in busy[1:])})" if busy[1:] else ""
        return Bottleneck(busy[0].name, busy[0].evidence + others)
    return _nothing_busy(facts)


def _late_generator(facts: Facts) -> str:
    late_s = facts.generator_lateness_p99_s
    if late_s is None or late_s <= LATENESS_P99_S or _share(facts.generator_cpu_share) < GENERATOR_SHARE:
        return ""
    return f"it was {late_s * 1000:,.0f} ms late (p99) and used {facts.generator_cpu_share:.0%} of a core"


def _kept_rate(facts: Facts) -> str:
    if not facts.is_rated or facts.delivered_share is None or facts.delivered_share < DELIVERED_SHARE:
        return ""
    if _grows(facts):
        return ""
    rate = "" if facts.rate_per_s is None else f" of {facts.rate_per_s:,.0f}/s"
    return f"{facts.delivered_share:.1%}{rate} were delivered as programmed"


def _grows(facts: Facts) -> bool:
    return (facts.depth_slope_per_s or 0.0) > GROWTH_SHARE * (facts.rate_per_s or 0.0)


def _growing(facts: Facts) -> str:
    return f"depth grew by {facts.depth_slope_per_s:,.0f}/s"


def _is_machine_full(facts: Facts) -> bool:
    return _share(facts.machine_busy_share) >= MACHINE_SHARE


def _busy(facts: Facts) -> Iterator[_Busy]:
    """Every resource that is at its limit."""
    yield from _busy_processors(facts)
    yield from _busy_log(facts)
    if facts.network_bytes_per_s is not None and facts.network_limit_bytes_per_s:
        share = facts.network_bytes_per_s / facts.network_limit_bytes_per_s
        if share >= NETWORK_SHARE:
            sent, limit = facts.network_bytes_per_s / 1e6, facts.network_limit_bytes_per_s / 1e6
            yield _Busy("network", share / NETWORK_SHARE, f"{sent:,.0f} MB/s of {limit:,.0f} MB/s")


def _busy_processors(facts: Facts) -> Iterator[_Busy]:
    generator = _share(facts.generator_cpu_share)
    getter = _share(facts.getter_cpu_share) if _grows(facts) else 0.0
    # On a full machine another generator would only take from the server, so the machine is the limit.
    if max(generator, getter) >= GENERATOR_SHARE and not _is_machine_full(facts):
        if getter >= generator:
            used = f"{_growing(facts)} while the busiest getter used {getter:.0%} of a core"
            yield _Busy("getter shortage", getter / GENERATOR_SHARE, used)
        else:
            yield _Busy("generator", generator / GENERATOR_SHARE, f"its busiest process used {generator:.0%} of a core")
    limits: list[_Busy] = []
    threads = facts.server_threads or facts.cores
    if facts.server_cpu_cores is not None and threads:
        share = facts.server_cpu_cores / threads
        if share >= SERVER_SHARE:
            used = f"the server used {facts.server_cpu_cores:.2f} of the {threads} cores that it can use"
            limits.append(_Busy("cpu", share / SERVER_SHARE, used))
    if _is_machine_full(facts):
        share = _share(facts.machine_busy_share)
        limits.append(
            _Busy("cpu", share / MACHINE_SHARE, f"the machine was busy {share:.0%} of the time{_queued(facts)}")
        )
    elif _queued(facts):
        limits.append(_Busy("cpu", 1.0, _queued(facts).removeprefix(", ")))
    if limits:
        yield max(limits, key=lambda one: one.use)


def _queued(facts: Facts) -> str:
    if facts.run_queue is None or not facts.cores or facts.run_queue < RUN_QUEUE_PER_CORE * facts.cores:
        return ""
    return f", with {facts.run_queue:.1f} runnable threads on {facts.cores} cores"


def _busy_log(facts: Facts) -> Iterator[_Busy]:
    """Bandwidth before latency: a disk that writes as much as it can is also always flushing."""
    written, bandwidth = facts.write_bytes_per_s, facts.write_bandwidth_bytes_per_s
    if written is not None and bandwidth and written / bandwidth >= BANDWIDTH_SHARE:
        share = written / bandwidth
        yield _Busy(
            "log bandwidth", share / BANDWIDTH_SHARE, f"{written / 1e6:,.0f} MB/s of {bandwidth / 1e6:,.0f} MB/s"
        )
        return
    if facts.flushes_per_s is not None and facts.flush_ms is not None:
        share = facts.flushes_per_s * facts.flush_ms / 1000
        if share >= FLUSHING_SHARE:
            each = f"{facts.flushes_per_s:,.0f} flushes/s of {facts.flush_ms:.2f} ms"
            # Flushes that overlap add up to more than the time there is, which is not busier than always.
            yield _Busy("log latency", min(share, 1.0) / FLUSHING_SHARE, f"{each} took {share:.0%} of the time")


def _nothing_busy(facts: Facts) -> Bottleneck:
    missing = [
        reason
        for reason, value in (
            ("how busy the machine was", facts.machine_busy_share),
            ("what the server used", facts.server_cpu_cores),
            ("what the log did", facts.flushes_per_s if facts.is_persistent else 0.0),
        )
        if value is None
    ]
    if missing:
        return Bottleneck("unknown", f"nothing that was sampled was busy, and it is not known {', nor '.join(missing)}")
    forces, rate = facts.flushes_per_s, facts.rate_per_s
    if facts.is_persistent and forces and rate and forces / rate >= FORCES_PER_MESSAGE:
        reason = f"nothing was busy, and {forces:,.0f} flushes/s for {rate:,.0f} messages/s"
        return Bottleneck("log latency", f"{reason}: each waited for a force of its own")
    waited = facts.getter_wait_share
    if waited is not None and waited < GETTER_WAIT_SHARE and _grows(facts):
        reason = (
            f"{_growing(facts)} and nothing was busy, while getters waited for messages only {waited:.0%} of their time"
        )
        return Bottleneck("getter shortage", reason)
    waiting = "" if waited is None or not _grows(facts) else f", and getters waited {waited:.0%} of their time"
    log = f", the log flushed {facts.flushes_per_s:,.0f} times/s" if facts.flushes_per_s else ""
    return Bottleneck(
        "lock or queue",
        f"there was more to do and nothing was busy: the machine {_share(facts.machine_busy_share):.0%}, "
        f"the server {facts.server_cpu_cores:.2f} cores{log}{waiting}{_turns(facts)}",
    )


def _turns(facts: Facts) -> str:
    """A lone caller that waits for each answer: neither it nor the server is busy, and one of them always works."""
    used = _share(facts.machine_busy_share) * (facts.cores or 0)
    is_about_one = (facts.cores or 0) > 1 and abs(used - 1.0) <= TURNS_TOLERANCE
    return "; about one core in all, as when a caller and the server take turns" if is_about_one else ""


def _share(value: float | None) -> float:
    return value or 0.0
