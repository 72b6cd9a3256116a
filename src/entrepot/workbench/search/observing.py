# SPDX-License-Identifier: Apache-2.0
"""From the rows of a trial to the evidence of a probe, in NumPy.

The rows are those of measuring/observations.py, so that a real load and the
simulated servers of the tests are judged by the same code. The backlog is
counted from the rows themselves (sent and not yet come), which covers every
place where a message can wait; what the sampler read of a queue's depth
counts beside it when it grew faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from entrepot.workbench.measuring.observations import NONE_NS, RECEIVED, SENT
from entrepot.workbench.search.evidence import Evidence
from entrepot.workbench.statistics.counting import account
from entrepot.workbench.statistics.trends import BLOCKS, Trend, swing, trend
from entrepot.workbench.statistics.warm_up import truncation

Rows = NDArray[numpy.int64]
"""One row a message, with the columns of SENT or of RECEIVED."""
_INSTANTS = 3000
"""At which the backlog is counted; ten to each point of the trend, so that a sawtooth does not become one."""
_STEPS = 300
"""In which what came is counted to find the warm-up."""
_STEP_MESSAGES = 5
"""As many messages a step at least, or the steps would show single messages and not a speed."""
_PERCENTILE_MESSAGES = 100
"""As many messages to a 99th percentile at least."""
_PERCENTILE_STEPS = 60
_WARMING_SHARE = 0.02
"""A system is still warming up when its last quarter is faster than its second by this share."""
_LATE_NS = 1_000_000
"""Later than sleeping and spinning make a sender that keeps its schedule."""
_FILLING_SHARE = 1 / 16
"""Of a probe, in which empty pipes fill: their lowest backlog is that of no load."""
_ENDS_SHARE = 0.05
"""The first and the last part of a probe, by which falling behind is measured."""


def evidence_from(
    sent: Rows,
    received: Rows,
    *,
    offered_per_s: float,
    begun_ns: int,
    ended_ns: int,
    copies: int = 1,
    depths: Sequence[tuple[int, float]] = (),
    is_drained: bool = True,
    generator_cpu_share: float | None = None,
    all_receive: Sequence[int] | None = None,
    warm_up_s: float = 0.0,
) -> Evidence:
    """What a probe between two times of the monotonic clock has shown.

    `received` holds what came until the queues were empty (`is_drained`), so
    that what is missing is lost. `copies` is how many receivers get each
    message; for publish/subscribe `all_receive` names them. `depths` are
    samples (t_ns, messages) summed over all queues. At least `warm_up_s` are
    left out, and more when MSER-5 says so.
    """
    if ended_ns <= begun_ns or offered_per_s <= 0:
        raise ValueError("a probe lasts for some time and offers some messages")
    copies = copies if all_receive is None else len(set(all_receive))
    sent_ns = numpy.sort(_column(sent, SENT, "sent_ns"))
    done_ns = numpy.sort(_done(received))
    from_ns, is_warm = _steady_from(done_ns, begun_ns + round(warm_up_s * 1e9), ended_ns)
    duration_s = (ended_ns - from_ns) / 1e9
    backlog, backlog_swing = _backlog(sent_ns, done_ns, copies, from_ns, ended_ns)
    latency, latency_p99_s = _latency(sent, received, from_ns, ended_ns)
    lateness_p99_s, behind_share = _lateness(sent, from_ns, ended_ns)
    in_calls_share, call_p99_s = _calls(sent, from_ns, ended_ns)
    counted = account(
        _column(sent, SENT, "sender"),
        _column(sent, SENT, "number"),
        _column(received, RECEIVED, "receiver"),
        _column(received, RECEIVED, "sender"),
        _column(received, RECEIVED, "number"),
        all_receive=all_receive,
    )
    return Evidence(
        offered_per_s=offered_per_s,
        sent_per_s=_count_between(sent_ns, from_ns, ended_ns) / duration_s,
        delivered_per_s=_count_between(done_ns, from_ns, ended_ns) / copies / duration_s,
        duration_s=duration_s,
        depth=max(backlog, _sampled(depths, from_ns, ended_ns), key=lambda one: one.slope),
        depth_swing=backlog_swing,
        left_per_s=(_left(numpy.sort(_column(sent, SENT, "intended_ns")), done_ns, copies, from_ns, ended_ns),),
        latency=latency,
        latency_p99_s=latency_p99_s,
        lost=counted.lost if is_drained else None,
        duplicated=counted.duplicated,
        lateness_p99_s=lateness_p99_s,
        behind_share=behind_share,
        in_calls_share=in_calls_share,
        call_p99_s=call_p99_s,
        generator_cpu_share=generator_cpu_share,
        is_warm=is_warm,
    )


def _column(rows: Rows, columns: tuple[str, ...], name: str) -> Rows:
    return rows[:, columns.index(name)]


def _done(received: Rows) -> Rows:
    """When a message was through: committed where receivers commit, received where they do not."""
    committed_ns = _column(received, RECEIVED, "committed_ns")
    return numpy.where(committed_ns != NONE_NS, committed_ns, _column(received, RECEIVED, "received_ns"))


def _count_between(sorted_ns: Rows, from_ns: int, until_ns: int) -> int:
    first, last = numpy.searchsorted(sorted_ns, [from_ns, until_ns])
    return int(last - first)


def _steady_from(done_ns: Rows, begun_ns: int, ended_ns: int) -> tuple[int, bool]:
    """From when on the system delivered at a speed of its own; and whether it came to that in time."""
    steps = min(_STEPS, _count_between(done_ns, begun_ns, ended_ns) // _STEP_MESSAGES)
    if steps < 4:
        return begun_ns, True
    edges = numpy.linspace(begun_ns, ended_ns, steps + 1)
    delivered = numpy.diff(numpy.searchsorted(done_ns, edges)).astype(numpy.float64)
    # A pause of the collector is part of the speed and no warm-up, so it must not be the greatest deviation.
    low, high = numpy.quantile(delivered, [0.05, 0.95])
    left_out = truncation(numpy.clip(delivered, low, high))
    if left_out is not None:
        return int(edges[left_out]), True
    quarters = [float(part.mean()) for part in numpy.array_split(delivered, 4)]
    return begun_ns, quarters[3] <= quarters[1] * (1 + _WARMING_SHARE)


def _backlog(sent_ns: Rows, done_ns: Rows, copies: int, from_ns: int, ended_ns: int) -> tuple[Trend, float]:
    instants = numpy.linspace(from_ns, ended_ns, _INSTANTS)
    waiting = numpy.searchsorted(sent_ns, instants) - numpy.searchsorted(done_ns, instants) / copies
    seconds = (instants - from_ns) / 1e9
    grown = trend(seconds, waiting)
    return grown, swing(seconds, waiting, grown.slope)


def _left(intended_ns: Rows, done_ns: Rows, copies: int, from_ns: int, ended_ns: int) -> float:
    """By how much the lowest backlog grew from the first quarter to the last, per second between them."""
    if not len(intended_ns):
        return math.inf
    # What senders gave up sending is in no row, so nothing is told of the time after their last message.
    instants = numpy.linspace(from_ns, min(ended_ns, int(intended_ns[-1])), _INSTANTS)
    waiting = numpy.searchsorted(intended_ns, instants) - numpy.searchsorted(done_ns, instants) / copies
    first = round(_INSTANTS * _FILLING_SHARE) + int(
        numpy.argmin(waiting[round(_INSTANTS * _FILLING_SHARE) : _INSTANTS // 4])
    )
    last = _INSTANTS * 3 // 4 + int(numpy.argmin(waiting[_INSTANTS * 3 // 4 :]))
    apart_s = float(instants[last] - instants[first]) / 1e9
    return float(waiting[last] - waiting[first]) / apart_s if apart_s > 0 else math.inf


def _sampled(depths: Sequence[tuple[int, float]], from_ns: int, ended_ns: int) -> Trend:
    inside = [((t_ns - from_ns) / 1e9, depth) for t_ns, depth in depths if from_ns <= t_ns <= ended_ns]
    if len(inside) < BLOCKS:
        return Trend(-math.inf, math.inf)
    seconds, values = zip(*inside, strict=True)
    return trend(seconds, values)


def _latency(sent: Rows, received: Rows, from_ns: int, ended_ns: int) -> tuple[Trend, float]:
    """How the 99th percentile went on, by intended time; and the percentile over all."""
    intended_ns, latency_ns = _latencies(sent, received)
    inside = (intended_ns >= from_ns) & (intended_ns < ended_ns)
    intended_ns, latency_ns = intended_ns[inside], latency_ns[inside]
    if not len(latency_ns):
        return Trend(0.0, math.inf), math.inf
    p99_s = float(numpy.quantile(latency_ns, 0.99)) / 1e9
    steps = min(_PERCENTILE_STEPS, len(latency_ns) // _PERCENTILE_MESSAGES)
    if steps < BLOCKS:
        return Trend(0.0, math.inf), p99_s
    order = numpy.argsort(intended_ns, kind="stable")
    seconds = [float(part.mean()) for part in numpy.array_split((intended_ns[order] - from_ns) / 1e9, steps)]
    slowest = [float(numpy.quantile(part, 0.99)) / 1e9 for part in numpy.array_split(latency_ns[order], steps)]
    return trend(seconds, slowest), p99_s


def _latencies(sent: Rows, received: Rows) -> tuple[Rows, Rows]:
    """Of all that came: when they were to be sent, and how long after that they came."""
    sent_keys = _column(sent, SENT, "sender") << 48 | _column(sent, SENT, "number")
    came_keys = _column(received, RECEIVED, "sender") << 48 | _column(received, RECEIVED, "number")
    intended_ns, received_ns = _column(sent, SENT, "intended_ns"), _column(received, RECEIVED, "received_ns")
    if not len(sent_keys):
        return intended_ns, intended_ns
    if numpy.any(sent_keys[1:] < sent_keys[:-1]):
        order = numpy.argsort(sent_keys, kind="stable")
        sent_keys, intended_ns = sent_keys[order], intended_ns[order]
    places = numpy.minimum(numpy.searchsorted(sent_keys, came_keys), len(sent_keys) - 1)
    is_ours = sent_keys[places] == came_keys
    return intended_ns[places[is_ours]], received_ns[is_ours] - intended_ns[places[is_ours]]


def _lateness(sent: Rows, from_ns: int, ended_ns: int) -> tuple[float, float]:
    """How late one in a hundred was sent, in seconds; and by how much lateness grew in the time, as a share of it."""
    inside = sent[(_column(sent, SENT, "sent_ns") >= from_ns) & (_column(sent, SENT, "sent_ns") < ended_ns)]
    if not len(inside):
        return math.inf, 1.0
    sent_ns = _column(inside, SENT, "sent_ns")
    late_s = (sent_ns - _column(inside, SENT, "intended_ns")) / 1e9
    span_ns = ended_ns - from_ns
    first = late_s[sent_ns < from_ns + _ENDS_SHARE * span_ns]
    last = late_s[sent_ns >= ended_ns - _ENDS_SHARE * span_ns]
    # A sender that sent nothing in the last part fell behind by all of it at least.
    grown_s = (float(numpy.median(last)) if len(last) else float(late_s.max()) + _ENDS_SHARE * span_ns / 1e9) - (
        float(numpy.median(first)) if len(first) else 0.0
    )
    behind_share = grown_s / ((1 - _ENDS_SHARE) * span_ns / 1e9)
    return max(float(numpy.quantile(late_s, 0.99)), 0.0), max(behind_share, 0.0)


def _calls(sent: Rows, from_ns: int, ended_ns: int) -> tuple[float | None, float | None]:
    """The share that calls had of the time in which senders were behind, and their 99th percentile in seconds."""
    sent_ns, acknowledged_ns = _column(sent, SENT, "sent_ns"), _column(sent, SENT, "acknowledged_ns")
    inside = (sent_ns >= from_ns) & (sent_ns < ended_ns) & (acknowledged_ns != NONE_NS)
    if not inside.any():
        return None, None
    by = _column(sent, SENT, "sender")[inside]
    order = numpy.lexsort((sent_ns[inside], by))
    by, begun_ns, until_ns = by[order], sent_ns[inside][order], acknowledged_ns[inside][order]
    late_ns = begun_ns - _column(sent, SENT, "intended_ns")[inside][order]
    # A message that is sent late follows its sender's last one as soon as it can: what lies between was spent in the
    # call, or else by the generator itself. Messages of one call have its times in common and count once.
    hurried = (by[1:] == by[:-1]) & (late_ns[1:] > _LATE_NS)
    between_ns = (begun_ns[1:] - begun_ns[:-1])[hurried]
    in_call_ns = (numpy.minimum(until_ns[:-1], begun_ns[1:]) - begun_ns[:-1])[hurried]
    share = float(in_call_ns.sum() / between_ns.sum()) if between_ns.sum() else None
    return share, float(numpy.quantile(until_ns - begun_ns, 0.99)) / 1e9
