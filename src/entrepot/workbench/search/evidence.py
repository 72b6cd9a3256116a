# SPDX-License-Identifier: Apache-2.0
"""What a probe saw, and whether the rate it offered can be sustained.

Sustained is what can go on for ever: the backlog does not grow, what is
offered is delivered, the slowest percent of messages do not become slower,
and nothing is lost or comes twice (the CSIRO document's saturation point,
with numbers for its words). A probe whose generator could not keep its own
schedule says nothing about the system, and one that wandered too much to
tell is called unsteady rather than either.

A machine with neighbours stands still for a tenth of a second now and then,
and no line through a backlog with such peaks is sure of its slope. But a
backlog that comes down again to where it was needs no line: whatever was
due until then had been done. That is what decides first, peaks and all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from entrepot.workbench.statistics.trends import Trend

Answer = Literal["sustained", "not_sustained", "generator_limited", "unsteady"]
MESSAGES_MIN = 20
"""A rate is not judged by fewer messages."""
IN_CALLS_SHARE = 0.9
"""Senders that are late and spend this share of their time in the system's calls are held back by the system."""
_CAUGHT_UP = 0.9
"""How probable it is that what was caught up once would be again."""
_COLD = 0.25
"""What is not sustained while it warms up might be later; until then it rather is not."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen of one probe after its warm-up."""

    offered_per_s: float
    """As programmed."""
    sent_per_s: float
    delivered_per_s: float
    duration_s: float
    depth: Trend
    """Of everything that was sent and has not come, wherever it waits; messages per second."""
    depth_swing: float
    """From the lowest to the highest backlog, beside its trend."""
    left_per_s: tuple[float, ...]
    """What was not caught up, for each probe: from the lowest backlog of its first quarter to that of its last, per
    second between them. Messages wait from when they are due, also before they are sent."""
    latency: Trend
    """Of the 99th percentile, from the intended time; seconds per second."""
    latency_p99_s: float
    lost: int | None
    """None when the queues were not drained, so that it is unknown."""
    duplicated: int
    lateness_p99_s: float
    """How late messages were sent, by the schedule."""
    behind_share: float
    """By how much the senders fell behind their schedule, as a share of the time: 0.1 when a tenth was never sent."""
    in_calls_share: float | None = None
    """Of the time in which senders were behind; None when they never were, or when their calls were not timed."""
    call_p99_s: float | None = None
    generator_cpu_share: float | None = None
    """Of the busiest generator process, 1 for a whole core; None where it is not known, or where the system under
    measurement runs inside the generators (embedded), so that their processor time is its own."""
    is_warm: bool = True
    """Whether its speed had come to rest before half of the time was over."""

    @property
    def delivered_share(self) -> float:
        return self.delivered_per_s / self.offered_per_s

    @property
    def messages(self) -> float:
        return self.sent_per_s * self.duration_s


@dataclass(frozen=True, slots=True)
class SustainCriteria:
    """What sustained means, in numbers."""

    growth_share_max: float = 0.005
    """By how much of the offered rate the backlog may grow each second. Not 0: no measured slope is."""
    delivered_share_min: float = 0.995
    latency_growth_max: float = 0.005
    """Seconds by which the 99th percentile may grow each second: a backlog that grows by 0.5 % costs as much."""
    lost_max: int = 0
    duplicated_max: int = 0
    behind_share_max: float = 0.005
    lateness_p99_s_max: float = 0.1
    generator_cpu_share_max: float = 0.85
    """A Python process that uses more of its core has no time left to keep a schedule."""


@dataclass(frozen=True, slots=True)
class Verdict:
    answer: Answer
    reasons: tuple[str, ...]
    likely_sustained: float
    """How probable it is that the rate can be sustained, 0 to 1; what an unsteady probe still tells."""

    def __str__(self) -> str:
        return f"{self.answer.replace('_', ' ')}: {'; '.join(self.reasons)}"


def judge(evidence: Evidence, criteria: SustainCriteria) -> Verdict:
    """Whether the offered rate can be sustained, and which numbers say so."""
    if evidence.messages < MESSAGES_MIN:
        return Verdict("unsteady", (f"only {evidence.messages:.0f} messages were sent",), 0.5)
    limited = _generator_limits(evidence, criteria)
    # What a late generator sent in a bunch was more of a burden, so a system that caught up with it bears the rate.
    if limited and not all(_caught_up(evidence, criteria)):
        return Verdict("generator_limited", limited, 0.5)
    likely = evidence.depth.likely_below(criteria.growth_share_max * evidence.offered_per_s)
    if all(_caught_up(evidence, criteria)):
        likely = max(likely, _CAUGHT_UP)
    refuted = _refutations(evidence, criteria)
    if refuted and not evidence.is_warm:
        return Verdict("unsteady", ("it was still warming up when the probe ended", *refuted), _COLD)
    if refuted:
        return Verdict("not_sustained", refuted, min(likely, 0.05))
    if doubts := _doubts(evidence, criteria):
        return Verdict("unsteady", doubts, likely)
    return Verdict("sustained", _grounds(evidence, criteria), likely)


def combined(evidences: Sequence[Evidence]) -> Evidence:
    """Several probes at one rate as if they were one long one: means of rates, sums of losses, else the worst."""
    total_s = sum(one.duration_s for one in evidences)

    def mean(values: Sequence[float]) -> float:
        return sum(value * one.duration_s for value, one in zip(values, evidences, strict=True)) / total_s

    def worst(values: Sequence[float | None]) -> float | None:
        return max((value for value in values if value is not None), default=None)

    losses = [one.lost for one in evidences]
    return replace(
        evidences[0],
        sent_per_s=mean([one.sent_per_s for one in evidences]),
        delivered_per_s=mean([one.delivered_per_s for one in evidences]),
        duration_s=total_s,
        depth=_mean_trend([one.depth for one in evidences]),
        # Each probe begins and ends within its swing, so their differences add up.
        depth_swing=sum(one.depth_swing for one in evidences),
        left_per_s=tuple(left for one in evidences for left in one.left_per_s),
        latency=_mean_trend([one.latency for one in evidences]),
        latency_p99_s=max(one.latency_p99_s for one in evidences),
        lost=None if None in losses else sum(loss for loss in losses if loss is not None),
        duplicated=sum(one.duplicated for one in evidences),
        lateness_p99_s=max(one.lateness_p99_s for one in evidences),
        behind_share=mean([one.behind_share for one in evidences]),
        in_calls_share=worst([one.in_calls_share for one in evidences]),
        call_p99_s=worst([one.call_p99_s for one in evidences]),
        generator_cpu_share=worst([one.generator_cpu_share for one in evidences]),
        # A system that was warm once has warmed up; what looked like it in another probe was the machine.
        is_warm=any(one.is_warm for one in evidences),
    )


def _mean_trend(trends: Sequence[Trend]) -> Trend:
    count = len(trends)
    error = math.sqrt(sum(trend.error**2 for trend in trends)) / count
    return Trend(sum(trend.slope for trend in trends) / count, error)


def _caught_up(evidence: Evidence, criteria: SustainCriteria) -> list[bool]:
    """Of each probe, whether its backlog came back to where it had been."""
    return [left <= criteria.growth_share_max * evidence.offered_per_s for left in evidence.left_per_s]


def _generator_limits(evidence: Evidence, criteria: SustainCriteria) -> tuple[str, ...]:
    """Why the generator was the limit; nothing when it kept its schedule, or when the system kept it from doing so."""
    is_behind = evidence.behind_share > criteria.behind_share_max
    is_late = evidence.lateness_p99_s > criteria.lateness_p99_s_max
    is_busy = (evidence.generator_cpu_share or 0.0) > criteria.generator_cpu_share_max
    if not (is_behind or is_late) or (_is_held_back(evidence) and not is_busy):
        return ()
    # Late now and then, all was sent nevertheless, and the system fell behind what it was sent.
    if not is_behind and not is_busy and evidence.depth.low > criteria.growth_share_max * evidence.offered_per_s:
        return ()
    reasons = []
    if is_behind:
        sent, offered = _rate(evidence.sent_per_s), _rate(evidence.offered_per_s)
        reasons.append(f"the generator fell behind its schedule and sent {sent} of {offered}")
    if is_late:
        late_ms, limit_ms = evidence.lateness_p99_s * 1000, criteria.lateness_p99_s_max * 1000
        reasons.append(
            f"one message in a hundred was sent {late_ms:,.0f} ms late or later, more than {limit_ms:,.0f} ms"
        )
    if is_busy:
        reasons.append(f"its busiest process used {evidence.generator_cpu_share or 0:.0%} of a core")
    return tuple(reasons)


def _is_held_back(evidence: Evidence) -> bool:
    """A sender that waits in a call is late for the next one: that is the system's doing, and shows in its latency."""
    is_always_in_calls = (evidence.in_calls_share or 0.0) >= IN_CALLS_SHARE
    return is_always_in_calls or (evidence.call_p99_s or 0.0) >= evidence.lateness_p99_s / 2


def _refutations(evidence: Evidence, criteria: SustainCriteria) -> tuple[str, ...]:
    reasons = []
    growth_max_per_s = criteria.growth_share_max * evidence.offered_per_s
    if evidence.lost is not None and evidence.lost > criteria.lost_max:
        reasons.append(f"{evidence.lost:,} of {evidence.messages:,.0f} messages were lost")
    if evidence.duplicated > criteria.duplicated_max:
        reasons.append(f"{evidence.duplicated:,} of {evidence.messages:,.0f} messages came more than once")
    # A sender that was late at the end and had caught up shortly before did not fall behind.
    if evidence.behind_share > criteria.behind_share_max and not all(_caught_up(evidence, criteria)):
        reasons.append(
            f"senders were held back in their calls ({evidence.in_calls_share or 0:.0%} of the time) and sent "
            f"{_rate(evidence.sent_per_s)} of {_rate(evidence.offered_per_s)}"
        )
    if evidence.depth.low > growth_max_per_s:
        reasons.append(
            f"depth grew by {_rate(evidence.depth.slope)}, more than {criteria.growth_share_max:.1%} of "
            f"{_rate(evidence.offered_per_s)}"
        )
    left = evidence.left_per_s
    # One that happens to end in a peak has not caught up either; two in a row, and it is no peak.
    if len(left) > 1 and not any(_caught_up(evidence, criteria)):
        least, most = _rate(min(left)), _rate(max(left))
        reasons.append(f"none of {len(left)} probes caught up: their lowest backlogs grew by {least} to {most}")
    # What a backlog that only swings may hold at the end of a probe is not missing.
    if _missing(evidence, criteria) > evidence.depth_swing and evidence.depth.low > 0:
        reasons.append(_undelivered(evidence))
    if evidence.latency.low > criteria.latency_growth_max:
        reasons.append(
            f"the 99th percentile of the latency grew by {evidence.latency.slope * 1000:.1f} ms each second, "
            f"more than {criteria.latency_growth_max * 1000:.1f} ms"
        )
    return tuple(reasons)


def _doubts(evidence: Evidence, criteria: SustainCriteria) -> tuple[str, ...]:
    reasons = []
    growth_max_per_s = criteria.growth_share_max * evidence.offered_per_s
    if evidence.lost is None:
        reasons.append("the queues were not drained, so it is unknown whether anything was lost")
    caught_up = _caught_up(evidence, criteria)
    if not all(caught_up):
        which = (
            "the backlog was not caught up"
            if len(caught_up) == 1
            else f"{sum(caught_up)} of {len(caught_up)} probes caught up"
        )
        low, high = evidence.depth.low, evidence.depth.high
        reasons.append(
            f"{which}; depth changed by {low:+,.3g} to {high:+,.3g}/s, and {_rate(growth_max_per_s)} lies between"
        )
    return tuple(reasons)


def _missing(evidence: Evidence, criteria: SustainCriteria) -> float:
    """Messages that ought to have been delivered within the probe and were not."""
    undelivered = (evidence.sent_per_s - evidence.delivered_per_s) * evidence.duration_s
    return undelivered - (1 - criteria.delivered_share_min) * evidence.messages


def _undelivered(evidence: Evidence) -> str:
    delivered, sent = _rate(evidence.delivered_per_s), _rate(evidence.sent_per_s)
    return f"{delivered} were delivered of {sent} sent, {evidence.delivered_share:.1%} of what was offered"


def _grounds(evidence: Evidence, criteria: SustainCriteria) -> tuple[str, ...]:
    at_a_peak = " when it ended, at a peak of the backlog" if _missing(evidence, criteria) > 0 else ""
    return (
        f"depth, at its lowest, grew by at most {_rate(max(*evidence.left_per_s, 0.0))}",
        f"{evidence.delivered_share:.2%} of {_rate(evidence.offered_per_s)} were delivered{at_a_peak}",
        f"the 99th percentile of the latency was {evidence.latency_p99_s * 1000:,.3g} ms and did not grow",
        "nothing was lost or came twice",
    )


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}/s" if abs(per_s) >= 100 else f"{per_s:,.3g}/s"
