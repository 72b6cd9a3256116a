# SPDX-License-Identifier: Apache-2.0
"""Queue servers of known capacity in virtual time, which the search for the sustainable rate has to find out.

Each gives, for the times at which messages are sent, the times at which
they are through. `Bench` sends on an open-loop schedule and turns both into
the rows and the evidence of a real trial, so that simulation and reality
share everything after the clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy
from numpy.typing import NDArray

from entrepot.workbench.search.evidence import Evidence
from entrepot.workbench.search.observing import Rows, evidence_from

Seconds = NDArray[numpy.float64]


def served(arrivals_s: Seconds, services_s: Seconds) -> Seconds:
    """When each of one server's customers is done (Lindley's recursion without its loop)."""
    worked = numpy.cumsum(services_s)
    return worked + numpy.maximum.accumulate(arrivals_s - (worked - services_s))


class Server(ABC):
    """`capacity_per_s` is what it serves in the long run with all that it does besides."""

    def __init__(self, capacity_per_s: float, seed: int = 0) -> None:
        self.capacity_per_s = capacity_per_s
        self.generator = numpy.random.default_rng(seed)

    @abstractmethod
    def serve(self, arrivals_s: Seconds) -> Seconds:
        """When messages that arrive at these times are through; an empty server each time."""

    def copies(self, count: int) -> NDArray[numpy.int64]:
        """How often each message comes: once."""
        return numpy.ones(count, dtype=numpy.int64)


class Steady(Server):
    """Every message takes as long as every other."""

    def serve(self, arrivals_s: Seconds) -> Seconds:
        return served(arrivals_s, numpy.full(len(arrivals_s), 1 / self.capacity_per_s))


class Exponential(Server):
    """Service times without memory: the noisiest that a queue's textbook has."""

    def serve(self, arrivals_s: Seconds) -> Seconds:
        return served(arrivals_s, self.generator.exponential(1 / self.capacity_per_s, len(arrivals_s)))


class GroupCommit(Server):
    """A log that is forced for as many messages as wait, up to a full group; during a force the next one gathers."""

    group = 50

    def serve(self, arrivals_s: Seconds) -> Seconds:
        force_s = self.group / self.capacity_per_s
        done_s = numpy.empty(len(arrivals_s))
        first, free_s = 0, 0.0
        while first < len(arrivals_s):
            begun_s = max(free_s, float(arrivals_s[first]))
            waiting = int(numpy.searchsorted(arrivals_s, begun_s, side="right"))
            last = min(max(waiting, first + 1), first + self.group)
            # Forces of a real disk take about, not exactly, as long as each other.
            free_s = begun_s + force_s * float(self.generator.uniform(0.8, 1.2))
            done_s[first:last] = free_s
            first = last
        return done_s


class Pausing(Server):
    """A collector stops it now and then; the capacity is what remains in the long run."""

    pause_s = 0.03
    share = 0.015

    def serve(self, arrivals_s: Seconds) -> Seconds:
        count = len(arrivals_s)
        services_s = numpy.full(count, (1 - self.share) / self.capacity_per_s)
        # A pause is work that one message has to wait for, so it takes its share of busy time.
        every = self.pause_s / self.share * self.capacity_per_s
        gaps = self.generator.uniform(0.7, 1.3, int(count / every) + 3) * every
        places = (numpy.cumsum(gaps) - gaps[0] * self.generator.uniform()).astype(numpy.int64)
        services_s[places[places < count]] += self.pause_s
        return served(arrivals_s, services_s)


class Collapsing(Server):
    """Past a depth it thrashes and stays slow until it is empty again (CSIRO, section 6: 40,000 messages)."""

    depth_max = 40_000
    slowed = 0.6

    def serve(self, arrivals_s: Seconds) -> Seconds:
        done_s = served(arrivals_s, numpy.full(len(arrivals_s), 1 / self.capacity_per_s))
        depth = numpy.arange(1, len(arrivals_s) + 1) - numpy.searchsorted(done_s, arrivals_s)
        over = numpy.flatnonzero(depth > self.depth_max)
        if not len(over):
            return done_s
        # From the message that is being served when the depth is exceeded; these probes never empty it again.
        first = int(numpy.searchsorted(done_s, arrivals_s[over[0]]))
        services_s = numpy.full(len(arrivals_s), 1 / self.capacity_per_s)
        services_s[first:] /= self.slowed
        return served(arrivals_s, services_s)


class WarmingUp(Server):
    """Begins at a third of its speed and has all of it after its first messages (a JVM compiles what it runs often)."""

    warm_s = 1.5

    def serve(self, arrivals_s: Seconds) -> Seconds:
        count = len(arrivals_s)
        warm = self.warm_s * self.capacity_per_s
        speed = numpy.interp(numpy.arange(count), [0, warm], [1 / 3, 1.0]) * self.capacity_per_s
        return served(arrivals_s, self.generator.uniform(0.5, 1.5, count) / speed)


class Wandering(Server):
    """A machine with neighbours: from probe to probe its speed strays by up to a tenth, and stays there for a while."""

    spread = 0.05
    memory = 0.7

    def __init__(self, capacity_per_s: float, seed: int = 0) -> None:
        super().__init__(capacity_per_s, seed)
        self.astray = self.spread * float(self.generator.standard_normal())

    def serve(self, arrivals_s: Seconds) -> Seconds:
        fresh = self.spread * float(self.generator.standard_normal())
        self.astray = self.memory * self.astray + (1 - self.memory**2) ** 0.5 * fresh
        speed = self.capacity_per_s * (1 + min(max(self.astray, -0.1), 0.1))
        return served(arrivals_s, self.generator.uniform(0.5, 1.5, len(arrivals_s)) / speed)


class Stalling(Server):
    """A machine that stands still for a tenth of a second about every two seconds; the capacity is what remains."""

    stall_s = 0.1
    every_s = 2.0

    def serve(self, arrivals_s: Seconds) -> Seconds:
        # Stalls happen by the clock, busy or not, so the server has the time between them.
        busy_share = 1 - self.stall_s / self.every_s
        end_s = float(arrivals_s[-1]) * 3 + 10
        gaps = self.generator.exponential(self.every_s - self.stall_s, int(end_s / self.every_s * 2) + 20)
        begun_s = numpy.cumsum(gaps) + self.stall_s * numpy.arange(len(gaps))
        worked_at = numpy.cumsum(gaps)
        own_s = numpy.interp(
            arrivals_s, numpy.sort(numpy.concatenate((begun_s, begun_s + self.stall_s))), numpy.repeat(worked_at, 2)
        )
        own_s = numpy.where(arrivals_s < begun_s[0], arrivals_s, own_s)
        done_s = served(own_s, numpy.full(len(own_s), busy_share / self.capacity_per_s))
        return done_s + self.stall_s * numpy.searchsorted(worked_at, done_s)


class Lossy(Steady):
    """Loses one message in so many, and is fast otherwise."""

    one_in = 1000

    def copies(self, count: int) -> NDArray[numpy.int64]:
        kept = super().copies(count)
        kept[self.generator.random(count) < 1 / self.one_in] = 0
        return kept


class Repeating(Steady):
    """Brings one message in a thousand twice."""

    def copies(self, count: int) -> NDArray[numpy.int64]:
        return super().copies(count) + (self.generator.random(count) < 0.001)


@dataclass
class Bench:
    """Offers load to a simulated server and keeps what a trial would have noted."""

    server: Server
    generator_per_s: float | None = None
    """The most that the generator can send; more makes it late."""
    is_held_back: bool = False
    """Whether the server makes its senders wait in their calls, with a place for so few messages."""
    room: int = 200
    poisson: bool = False
    spoil: Callable[[Rows, Rows], tuple[Rows, Rows]] = lambda sent, received: (sent, received)
    """A planted mistake in how the rows are taken down."""
    spent_s: float = field(default=0.0, init=False)

    def probe(self, rate_per_s: float, seconds: float) -> Evidence:
        self.spent_s += seconds
        sent, received = self.spoil(*self.rows(rate_per_s, seconds))
        busy = None if self.generator_per_s is None else min(rate_per_s / self.generator_per_s, 1.0)
        return evidence_from(
            sent,
            received,
            offered_per_s=rate_per_s,
            begun_ns=BEGUN_NS,
            ended_ns=BEGUN_NS + round(seconds * 1e9),
            generator_cpu_share=busy,
        )

    def rows(self, rate_per_s: float, seconds: float) -> tuple[Rows, Rows]:
        intended_s = self._schedule(rate_per_s, seconds)
        sent_s = intended_s
        if self.generator_per_s is not None:
            sent_s = served(intended_s, numpy.full(len(intended_s), 1 / self.generator_per_s))
            sent_s = sent_s[sent_s < seconds]
        done_s = self.server.serve(sent_s)
        acknowledged_s = numpy.zeros(len(sent_s))
        if self.is_held_back:
            sent_s, acknowledged_s, done_s = self._held_back(intended_s, seconds)
        count = len(sent_s)
        numbers = numpy.arange(count)
        sent = numpy.zeros((count, 6), dtype=numpy.int64)
        sent[:, 1] = numbers
        sent[:, 2] = 64
        sent[:, 3] = _ns(intended_s[:count])
        sent[:, 4] = _ns(sent_s)
        sent[:, 5] = numpy.where(acknowledged_s > 0, _ns(acknowledged_s), 0)
        comings = numpy.repeat(numbers, self.server.copies(count))
        received = numpy.zeros((len(comings), 5), dtype=numpy.int64)
        received[:, 2] = comings
        received[:, 3] = _ns(done_s)[comings]
        return sent, received

    def _schedule(self, rate_per_s: float, seconds: float) -> Seconds:
        if not self.poisson:
            return numpy.arange(int(rate_per_s * seconds)) / rate_per_s
        gaps = self.server.generator.exponential(1 / rate_per_s, int(rate_per_s * seconds * 1.2) + 50)
        times_s = numpy.cumsum(gaps)
        return times_s[times_s < seconds]

    def _held_back(self, intended_s: Seconds, seconds: float) -> tuple[Seconds, Seconds, Seconds]:
        """One sender whose call returns when there is room: message i when i − room is through."""
        service_s = 1 / self.server.capacity_per_s
        done_s = served(intended_s, numpy.full(len(intended_s), service_s))
        freed_s = numpy.concatenate((numpy.zeros(self.room), done_s))[: len(done_s)]
        acknowledged_s = numpy.maximum.accumulate(numpy.maximum(intended_s, freed_s)) + 1e-6
        sent_s = numpy.maximum(intended_s, numpy.concatenate(([0.0], acknowledged_s[:-1])))
        made = sent_s < seconds
        return sent_s[made], acknowledged_s[made], done_s[made]


BEGUN_NS = 5_000_000_000


def _ns(times_s: Seconds) -> NDArray[numpy.int64]:
    return BEGUN_NS + numpy.rint(times_s * 1e9).astype(numpy.int64)
