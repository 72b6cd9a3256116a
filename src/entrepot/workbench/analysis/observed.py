# SPDX-License-Identifier: Apache-2.0
"""One trial as arrays: its record, its messages, its samples and calls, and the window in which it was steady.

The Spark jobs hand each trial to plain NumPy as an `Observed`; nothing here
knows Spark, so every figure can be computed without it, too. Times are
nanoseconds; a time that is missing is NONE_NS.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy
from numpy.typing import NDArray

from entrepot.workbench.measuring.observations import NONE_NS
from entrepot.workbench.measuring.record import TrialRecord
from entrepot.workbench.statistics.warm_up import BATCH, BATCHES_MIN, standard_errors_squared, truncation

Numbers = NDArray[numpy.int64]
Reals = NDArray[numpy.float64]

BINS = 300
"""MSER-5 calls one steady trial in eight unsteady when it has 100 observations, and one in thirty with 300."""
BIN_NS_MIN = 5_000_000
"""Finer than this, a bin shows the scheduler's time slices and not the system."""
SETTLED_SHARE = {"full": 0.05}
SETTLED_SHARE_QUICK = 0.2
SETTLED_ERRORS = 3.0
"""The last quarter of a trial may differ from the second by so much, or by so many standard errors, and pass for chance
even where MSER-5 would rather begin in the second half. A few seconds of a shared machine wander more than twenty, and
quick figures are not to be quoted."""
EVENTS_MIN = 100
"""Fewer events than this, or fewer bins than MSER-5 wants, cannot tell a warm-up from chance: all of such a trial is
its window. Only thumbnails are so short."""
TAIL_NS = 100_000_000
"""The leader notices within this time that nothing is left to do; what it waited is no part of the window."""
REPLY_LOADS = frozenset({"round-trip", "sessions", "connected"})
"""What is received is the reply, so a client is busy until it has come."""
UNSTEADY_LOADS = frozenset({"open-loop", "sustained", "calls"})
"""Of the first two the rate is programmed, and whether the system keeps up is the question: a window that leaves
out how it fell behind would hide the answer, and a late one is no fault of the trial. Timed calls have no rate."""
_NOTHING = numpy.empty(0, dtype=numpy.int64)


def _no_numbers() -> Numbers:
    return _NOTHING


@dataclass(frozen=True)
class Sent:
    """One entry per message, ordered by sender and number."""

    sender: Numbers = field(default_factory=_no_numbers)
    number: Numbers = field(default_factory=_no_numbers)
    bytes: Numbers = field(default_factory=_no_numbers)
    intended_ns: Numbers = field(default_factory=_no_numbers)
    sent_ns: Numbers = field(default_factory=_no_numbers)
    acknowledged_ns: Numbers = field(default_factory=_no_numbers)


@dataclass(frozen=True)
class Received:
    """One entry per reception, with the times of the message that it brought (NONE_NS for a stray)."""

    receiver: Numbers = field(default_factory=_no_numbers)
    sender: Numbers = field(default_factory=_no_numbers)
    number: Numbers = field(default_factory=_no_numbers)
    received_ns: Numbers = field(default_factory=_no_numbers)
    committed_ns: Numbers = field(default_factory=_no_numbers)
    arrival: Numbers = field(default_factory=_no_numbers)
    intended_ns: Numbers = field(default_factory=_no_numbers)
    sent_ns: Numbers = field(default_factory=_no_numbers)


@dataclass(frozen=True)
class ObservedCalls:
    call: Numbers = field(default_factory=_no_numbers)
    bytes: Numbers = field(default_factory=_no_numbers)
    begun_ns: Numbers = field(default_factory=_no_numbers)
    ended_ns: Numbers = field(default_factory=_no_numbers)


@dataclass(frozen=True)
class SteadyWindow:
    """From when to when a trial was steady."""

    begun_ns: int
    ended_ns: int
    problem: str = ""
    """Why there is none."""

    @property
    def seconds(self) -> float:
        return (self.ended_ns - self.begun_ns) / 1e9

    def holds(self, times_ns: Numbers) -> NDArray[numpy.bool_]:
        return (times_ns >= self.begun_ns) & (times_ns < self.ended_ns)

    def count(self, times_ns: Numbers) -> int:
        return int(numpy.count_nonzero(self.holds(times_ns)))


@dataclass(frozen=True)
class Observed:
    record: TrialRecord
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of the run (measuring/environment.py)."""
    sent: Sent = field(default_factory=Sent)
    received: Received = field(default_factory=Received)
    calls: ObservedCalls = field(default_factory=ObservedCalls)
    samples: Mapping[tuple[str, str], tuple[Numbers, Reals]] = field(default_factory=dict)
    """(measure, subject) → times and values, in the order of time."""

    @property
    def cores(self) -> int:
        """Of the machine."""
        return int(self.environment.get("cores", "1"))

    @property
    def is_programmed(self) -> bool:
        """An open or a rated loop: a schedule says when to send."""
        return self.record.offered_per_s is not None

    @cached_property
    def completed_ns(self) -> Numbers:
        """When each piece of work was done, as its load understands it; sorted."""
        done = self.received.received_ns
        if self.record.load == "send":
            acknowledged = self.sent.acknowledged_ns != NONE_NS
            done = numpy.where(acknowledged, self.sent.acknowledged_ns, self.sent.sent_ns)
        elif self.record.load == "calls":
            done = self.calls.ended_ns
        return numpy.sort(done)

    @cached_property
    def window(self) -> SteadyWindow:
        """From the end of the warm-up, as MSER-5 finds it in the rate of completions, to the end of the load."""
        begun, ended = self.record.begun_ns, self._ended_ns
        whole = SteadyWindow(begun, ended)
        if ended <= begun or whole.count(self.completed_ns) < EVENTS_MIN:
            return whole
        bin_ns = max(BIN_NS_MIN, -(-(ended - begun) // BINS))
        bins = (ended - begun) // bin_ns
        if bins < BATCH * BATCHES_MIN:
            return whole
        counts, _ = numpy.histogram(self.completed_ns, bins=begun + bin_ns * numpy.arange(bins + 1))
        cut, is_steady = _warm_up(counts.astype(numpy.float64))
        problem = (
            ""
            if is_steady or self.record.load in UNSTEADY_LOADS
            else _unsettled(counts / bin_ns * 1e9, self.record.scale)
        )
        return SteadyWindow(begun if problem else begun + cut * bin_ns, ended, problem)

    @property
    def _ended_ns(self) -> int:
        """The end of the load; the last completion where the load ran out of work just before."""
        ended = self.record.ended_ns
        if self.record.load in ("send", "receive") and len(self.completed_ns):
            last = int(self.completed_ns[-1]) + 1
            return last if ended - TAIL_NS <= last < ended else ended
        return ended

    # --- samples --------------------------------------------------------------------------------------

    @cached_property
    def sampled(self) -> SteadyWindow:
        """The part of the steady window that the samples cover."""
        times, _ = self.series("cpu_busy_s", "machine")
        if len(times) < 2:
            return SteadyWindow(0, 0)
        return SteadyWindow(max(self.window.begun_ns, int(times[0])), min(self.window.ended_ns, int(times[-1])))

    def series(self, measure: str, subject: str) -> tuple[Numbers, Reals]:
        return self.samples.get((measure, subject), (_NOTHING, numpy.empty(0)))

    def subjects(self, measure: str) -> list[str]:
        return sorted(subject for name, subject in self.samples if name == measure)

    def grown(self, measure: str, subject: str, window: SteadyWindow | None = None) -> float | None:
        """By how much a cumulative measure grew in the sampled window; None when it was not sampled."""
        window = window or self.sampled
        times, values = self.series(measure, subject)
        if len(times) < 2 or window.ended_ns <= window.begun_ns:
            return None
        first, last = numpy.interp([window.begun_ns, window.ended_ns], times, values)
        return float(last - first)

    def per_second(self, measure: str, subject: str) -> float | None:
        """The mean rate of a cumulative measure: of CPU seconds, the cores in use."""
        grown = self.grown(measure, subject)
        return None if grown is None else grown / self.sampled.seconds

    def mean(self, measure: str, subject: str) -> float | None:
        times, values = self.series(measure, subject)
        inside = values[self.window.holds(times)]
        return float(inside.mean()) if len(inside) else None

    @cached_property
    def depth(self) -> tuple[Numbers, Reals]:
        """What waited in all queues of the trial together; interpolated, as each queue is read at its own moment."""
        all_series = [self.series("depth", queue) for queue in self.subjects("depth")]
        if not all_series:
            return _NOTHING, numpy.empty(0)
        times = all_series[0][0]
        return times, numpy.sum([numpy.interp(times, at, values) for at, values in all_series], axis=0)

    # --- lateness -------------------------------------------------------------------------------------

    @cached_property
    def lateness_ns(self) -> Numbers:
        """How much later than intended each message in the window was sent, for whatever reason."""
        inside = self.window.holds(self.sent.intended_ns)
        return (self.sent.sent_ns - self.sent.intended_ns)[inside]

    @cached_property
    def own_lateness_ns(self) -> Numbers:
        """The part of the lateness that is not the system's: what a sender would not have had that wastes no time.

        A sender that a call kept busy beyond the intended time (it was not
        acknowledged, the reply had not come) is late because of that call,
        and latency from the intended time says so. Of calls that took long
        because the generator's own processor was busy, its CPU time tells.
        """
        late = numpy.zeros(len(self.sent.sender), dtype=numpy.int64)
        freed = self.sent.acknowledged_ns
        if self.record.load in REPLY_LOADS:
            freed = numpy.maximum(freed, self._replied_ns)
        edges = numpy.flatnonzero(numpy.diff(self.sent.sender)) + 1
        for begin, end in itertools.pairwise([0, *edges.tolist(), len(late)]):
            mine = slice(begin, end)
            late[mine] = _own_lateness(self.sent.intended_ns[mine], self.sent.sent_ns[mine], freed[mine])
        return late[self.window.holds(self.sent.intended_ns)]

    @cached_property
    def _replied_ns(self) -> Numbers:
        """For each message sent, when its first reply came; NONE_NS without one."""
        replied = numpy.full(len(self.sent.sender), NONE_NS, dtype=numpy.int64)
        order = numpy.argsort(-self.received.received_ns)
        sent_key = message_keys(self.sent.sender, self.sent.number)
        received_key = message_keys(self.received.sender, self.received.number)[order]
        places = numpy.searchsorted(sent_key, received_key)
        known = places < len(sent_key)
        known[known] = sent_key[places[known]] == received_key[known]
        replied[places[known]] = self.received.received_ns[order][known]
        return replied


def message_keys(senders: Numbers, numbers: Numbers) -> Numbers:
    """As in the messages' first bytes: sorted when the messages are ordered by sender and number."""
    return senders << 48 | numbers


def _own_lateness(intended_ns: Numbers, sent_ns: Numbers, freed_ns: Numbers) -> Numbers:
    """Of one sender's messages, against a sender that makes the same calls, each as soon as it may."""
    if not len(sent_ns):
        return sent_ns
    # Messages that were sent in one call have its time in common.
    at_ns, first, call = numpy.unique(sent_ns, return_index=True, return_inverse=True)
    due_ns = numpy.minimum.reduceat(intended_ns[numpy.argsort(call, kind="stable")], _starts(call))
    took_ns = freed_ns[first] - at_ns
    # A call whose end came after the next one began, or never, did not keep the sender from anything.
    waited = (freed_ns[first] != NONE_NS) & (freed_ns[first] <= numpy.append(at_ns[1:], numpy.iinfo(numpy.int64).max))
    busy_ns = numpy.concatenate(([0], numpy.cumsum(numpy.where(waited, took_ns, 0))))
    # Begin of call i: when it is due, or when the call before ends; that chain in closed form.
    begun_ns = busy_ns[:-1] + numpy.maximum.accumulate(due_ns - busy_ns[:-1])
    late_ns: Numbers = numpy.maximum(at_ns - begun_ns, 0)[call]
    return late_ns


def _starts(call: Numbers) -> Numbers:
    """Where each call begins among the messages ordered by call."""
    return numpy.concatenate(([0], numpy.cumsum(numpy.bincount(call))[:-1]))


def _warm_up(counts: Reals) -> tuple[int, bool]:
    """How many bins to leave out, and whether MSER-5 found its minimum in the first half."""
    # A pause of the collector is part of the speed and no warm-up, so it must not be the greatest deviation.
    clipped = numpy.clip(counts, *numpy.quantile(counts, [0.05, 0.95]))
    cut = truncation(clipped)
    if cut is not None:
        return cut, True
    means = clipped[: len(clipped) // BATCH * BATCH].reshape(-1, BATCH).mean(axis=1)
    return int(standard_errors_squared(means)[: len(means) // 2 + 1].argmin()) * BATCH, False


def _unsettled(rates: Reals, scale: str) -> str:
    """Of a series whose minimum came late: whether that was more than chance, and what it looked like."""
    second, last = (part for index, part in enumerate(numpy.array_split(rates, 4)) if index in (1, 3))
    errors = [part.reshape(-1, BATCH).mean(axis=1).std(ddof=1) for part in map(_in_batches, (second, last))]
    error = float(numpy.hypot(*errors)) / (len(last) // BATCH) ** 0.5
    change = float(last.mean() - second.mean())
    share = SETTLED_SHARE.get(scale, SETTLED_SHARE_QUICK)
    if abs(change) <= max(share * float(second.mean()), SETTLED_ERRORS * error):
        return ""
    return (
        f"its rate had not settled: {second.mean():,.0f}/s in the second quarter and {last.mean():,.0f}/s in the last; "
        "measure longer, with --seconds"
    )


def _in_batches(values: Reals) -> Reals:
    return values[: len(values) // BATCH * BATCH]
