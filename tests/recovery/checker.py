# SPDX-License-Identifier: Apache-2.0
"""Decides whether what was found on the queues can be explained by what was done to them.

An operation is a unit of work, or one verb outside of any: what it put and
what it got. It ended `ok`, it failed, or nobody knows (`unknown`: the
process died while its commit was under way). A history is sound when the
unknown outcomes can be decided so that every message is exactly where the
operations left it. Then lost, unexpected, duplicated, torn, aborted reads,
reordered and hash mismatches are all empty.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Literal, NamedTuple

Outcome = Literal["ok", "fail", "unknown"]


class Stamp(NamedTuple):
    """Who a message is: the `k`-th of `n` that its unit puts."""

    producer: str
    sequence: int
    unit: str
    k: int
    n: int


class Standing(NamedTuple):
    """A message on a queue. Moved to another queue it is another one of these."""

    queue: str
    stamp: Stamp


def stamped(stamp: Stamp, filler: bytes) -> bytes:
    """A body that proves itself: the stamp, and a SHA-256 over everything else."""
    head = " ".join(map(str, stamp)).encode()
    digest = hashlib.sha256(head + filler).hexdigest().encode()
    return head + b" " + digest + b"\n" + filler


def read_stamp(body: bytes) -> Stamp | None:
    """Whose body this is, or None when it is not what was put."""
    head, _, filler = body.partition(b"\n")
    told, _, digest = head.rpartition(b" ")
    if hashlib.sha256(told + filler).hexdigest().encode() != digest:
        return None
    producer, sequence, unit, k, n = told.decode().split(" ")
    return Stamp(producer, int(sequence), unit, int(k), int(n))


@dataclass
class Operation:
    """What one unit of work, or one verb outside of any, meant to do, and how it ended."""

    actor: str
    puts: list[Standing] = field(default_factory=list)
    gets: list[Standing] = field(default_factory=list)
    outcome: Outcome = "unknown"
    takes_from: str = ""
    """The queue of a get outside of any unit of which nobody knows what it took, if anything."""

    @property
    def effects(self) -> int:
        return len(self.puts) + len(self.gets)


@dataclass
class Verdict:
    """Everything that no decision about the unknown outcomes explains; empty when all is well."""

    lost: list[Standing] = field(default_factory=list)
    unexpected: list[Standing] = field(default_factory=list)
    duplicated: list[Standing] = field(default_factory=list)
    aborted_read: list[Standing] = field(default_factory=list)
    torn_unit: list[Operation] = field(default_factory=list)
    reordered: list[tuple[Standing, Standing]] = field(default_factory=list)
    hash_mismatch: list[str] = field(default_factory=list)

    def problems(self) -> dict[str, int]:
        return {kind: len(found) for kind, found in vars(self).items() if found}


def check(
    operations: Sequence[Operation],
    drained: Sequence[Standing],
    damaged: Iterable[str] = (),
    ordered: Iterable[str] = (),
) -> Verdict:
    """Judge a history; `drained` is what was left on the queues in the end, in the order it was got.

    From the queues in `ordered` a single reader must get everything in its
    producer's order, also after back-outs and broken connections.
    """
    return _Judge(operations, drained, frozenset(ordered)).verdict(damaged)


class _Judge:
    def __init__(self, operations: Sequence[Operation], drained: Sequence[Standing], ordered: frozenset[str]) -> None:
        self._operations = operations
        self._ordered = ordered
        self._order = drained
        self._drained = Counter(drained)
        self._creators: dict[Standing, list[int]] = defaultdict(list)
        self._removers: dict[Standing, list[int]] = defaultdict(list)
        for number, operation in enumerate(operations):
            for standing in operation.puts:
                self._creators[standing].append(number)
            for standing in operation.gets:
                self._removers[standing].append(number)
        self._happened = {n: o.outcome == "ok" for n, o in enumerate(operations) if o.outcome != "unknown"}
        self._takes = Counter(o.takes_from for o in operations if o.outcome == "unknown" and o.takes_from)
        self._taken: set[Standing] = set()
        """Missing, but a get that died may have taken it."""

    def verdict(self, damaged: Iterable[str]) -> Verdict:
        for component in self._components():
            self._decide(component)
        verdict = Verdict(hash_mismatch=list(damaged))
        for standing in {*self._creators, *self._removers, *self._drained}:
            problem = self._problem(standing)
            if problem:
                getattr(verdict, problem).append(standing)
        self._forgive_unknown_takes(verdict)
        verdict.torn_unit += [o for n, o in enumerate(self._operations) if self._is_torn(n, o)]
        verdict.reordered += self._reordered()
        return verdict

    # --- unknown outcomes ---------------------------------------------------------------------

    def _components(self) -> Iterator[list[int]]:
        """Unknown operations that touch the same messages have to be decided together."""
        unknown = [n for n, o in enumerate(self._operations) if o.outcome == "unknown" and not o.takes_from]
        touching: dict[Standing, list[int]] = defaultdict(list)
        for number in unknown:
            for standing in self._touched(number):
                touching[standing].append(number)
        seen: set[int] = set()
        for first in unknown:
            if first in seen:
                continue
            component, waiting = [], [first]
            while waiting:
                number = waiting.pop()
                if number not in seen:
                    seen.add(number)
                    component.append(number)
                    waiting += [other for standing in self._touched(number) for other in touching[standing]]
            yield component

    def _touched(self, number: int) -> list[Standing]:
        return [*self._operations[number].puts, *self._operations[number].gets]

    def _decide(self, component: list[int]) -> None:
        """Let those outcomes stand that leave the least to explain."""
        assert len(component) < 18, "trying all outcomes of so many operations would take for ever"
        standings = {standing for number in component for standing in self._touched(number)}
        best: tuple[float, tuple[bool, ...]] | None = None
        for outcomes in product((True, False), repeat=len(component)):
            self._happened.update(zip(component, outcomes, strict=True))
            wrong = sum(map(self._weight, standings))
            if best is None or wrong < best[0]:
                best = wrong, outcomes
        assert best is not None
        self._happened.update(zip(component, best[1], strict=True))

    def _weight(self, standing: Standing) -> float:
        problem = self._problem(standing)
        # A get that died may explain a missing message, so prefer decisions that leave this to explain.
        return 0.5 if problem == "lost" and self._takes[standing.queue] else float(problem != "")

    def _count(self, numbers: list[int]) -> int:
        return sum(self._happened.get(number, False) for number in numbers)

    def _problem(self, standing: Standing) -> str:
        created = self._count(self._creators.get(standing, []))
        gone = self._count(self._removers.get(standing, []))
        left = self._drained[standing]
        if created == 0:
            # Even a get that was backed out has read it.
            if left or self._removers.get(standing):
                return "aborted_read" if self._creators.get(standing) else "unexpected"
            return ""
        if created > 1 or gone + left > created:
            return "duplicated"
        return "lost" if gone + left < created else ""

    def _forgive_unknown_takes(self, verdict: Verdict) -> None:
        """A get outside of any unit that died may have taken one message from its queue, whichever was next."""
        left = self._takes.copy()
        for standing in verdict.lost:
            if left[standing.queue]:
                left[standing.queue] -= 1
                self._taken.add(standing)
        verdict.lost = [standing for standing in verdict.lost if standing not in self._taken]

    # --- units and order ----------------------------------------------------------------------

    def _is_torn(self, number: int, operation: Operation) -> bool:
        """Whether some of a unit's effects are there and others are not."""
        if operation.outcome == "fail" or operation.effects < 2:
            return False
        puts = {self._has_come(standing, number) for standing in operation.puts}
        gets = {self._has_left(standing, number) for standing in operation.gets}
        return len(puts | gets) > 1

    def _has_come(self, standing: Standing, number: int) -> bool:
        seen = self._drained[standing] or self._removers.get(standing) or standing in self._taken
        others = [other for other in self._creators[standing] if other != number]
        return bool(seen) and not self._count(others)

    def _has_left(self, standing: Standing, number: int) -> bool:
        if standing in self._taken:
            return self._happened[number]
        others = [other for other in self._removers[standing] if other != number]
        return not self._drained[standing] and not self._count(others)

    def _reordered(self) -> Iterator[tuple[Standing, Standing]]:
        """Neighbours of one producer that came in the wrong order, where MQ promises the right one."""
        got: dict[str, list[Standing]] = defaultdict(list)
        readers: dict[str, set[str]] = defaultdict(set)
        backed_out = set()
        for operation in self._operations:
            for standing in operation.gets:
                readers[standing.queue].add(operation.actor)
                if operation.outcome == "ok":
                    got[standing.queue].append(standing)
                elif operation.outcome == "fail":
                    backed_out.add(standing.queue)
        left: dict[str, list[Standing]] = defaultdict(list)
        for standing in self._order:
            left[standing.queue].append(standing)
        for queue in {*got, *left}:
            # One reader, no back-out. The drain is a second reader, but only after the first has died.
            alone = len(readers[queue]) <= 1 and queue not in backed_out
            found = [*got[queue], *left[queue]] if alone or queue in self._ordered else left[queue]
            yield from self._disorder(filter(self._is_known_put, found) if self._ordered else found)

    def _is_known_put(self, standing: Standing) -> bool:
        """A server that stood still may find a put of unknown outcome after later ones."""
        return any(self._operations[number].outcome == "ok" for number in self._creators.get(standing, []))

    def _disorder(self, standings: Iterable[Standing]) -> Iterator[tuple[Standing, Standing]]:
        by_producer: dict[str, list[Standing]] = defaultdict(list)
        for standing in standings:
            makers = {self._operations[number].actor for number in self._creators.get(standing, [])}
            # What a mover has put is in the order of its moves, not in its producer's.
            if makers == {standing.stamp.producer}:
                by_producer[standing.stamp.producer].append(standing)
        for ours in by_producer.values():
            yield from ((a, b) for a, b in pairwise(ours) if a.stamp.sequence > b.stamp.sequence)
