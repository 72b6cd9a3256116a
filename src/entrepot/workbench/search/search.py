# SPDX-License-Identifier: Apache-2.0
"""The search for the maximum sustainable throughput: bracket, refine, confirm.

*Bracket* doubles the rate until it is not sustained, or halves it until it
is. *Refine* narrows the edge by short probes first and longer ones last
(edge.py). *Confirm* steps a little below the edge and probes there and 5 %
above, in turns and for long, until the lower rate is surely sustained and
the upper one surely is not. The rate that is published is one that was
sustained, not one that was estimated.

Probes have to begin with empty queues, so the probing function drains or
recreates them; a system past its capacity may need long to recover. Start
low: an overload of one doubling leaves less behind than one of a hundred.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from entrepot.errors import RateNotSustainable
from entrepot.workbench.search.edge import Edge
from entrepot.workbench.search.evidence import Criteria, Evidence, Verdict, combined, judge

Phase = Literal["bracket", "refine", "confirm"]
ABOVE = 1.05
"""The rate that must not be sustained, beside the one that is."""
STEP_DOWN = 0.99
"""From the edge to the rate to confirm, and again when that is refuted: as far as the criteria's tolerance, twice."""
_ROUNDS_MIN, _ROUNDS_MAX = 2, 5
"""Long probes at each of the two rates: one could be a fluke, and after five more of them will not help."""
_SLACK = 1.1
"""How far beside its bracket the edge is looked for."""
_PATIENCE = 0.1
"""By how much of the way from short to long each undecided probe lengthens the next."""
_RATE_SPAN = 4096
"""How far below the start the search goes before it says that nothing is sustained."""


@dataclass(frozen=True, slots=True)
class SearchEffort:
    seconds_short: float = 5.0
    seconds_long: float = 30.0
    messages_short: int = 0
    messages_long: int = 0
    """A probe lasts until so many messages were offered, if that takes longer: slow servers need more time."""
    probes_max: int = 30
    seconds_max: float = math.inf
    """Of all probes together, without what lies between them."""
    precision: float = 0.015
    """The width of the edge, as a share of the rate, at which refining ends."""

    def seconds(self, rate_per_s: float, share_long: float) -> float:
        """How long a probe lasts: short for a share of 0, long for 1, and evenly between in its logarithm."""
        short = max(self.seconds_short, self.messages_short / rate_per_s)
        long = max(self.seconds_long, self.messages_long / rate_per_s, short)
        return float(short * (long / short) ** min(max(share_long, 0.0), 1.0))


@dataclass(frozen=True, slots=True)
class Probe:
    """One rate that was tried."""

    number: int
    """From 1."""
    phase: Phase
    rate_per_s: float
    seconds: float
    evidence: Evidence
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Sustained:
    rate_per_s: float
    """The highest rate that was sustained in long probes."""
    low: float
    """What is sustained for certain: that rate, less what the backlog may have grown by unnoticed."""
    high: float
    """The lowest rate that was refuted in long probes; infinite when none was."""
    verdict: str
    """The evidence in a sentence."""
    is_confirmed: bool
    """False when the budget ended before both rates were sure; then it is an estimate and has to be called one."""
    probes: tuple[Probe, ...]


Probing = Callable[[float, float], Evidence]
"""(rate_per_s, seconds) → what was seen."""


class _BudgetSpent(Exception):
    """There are no probes left; stays within this module."""


def search(
    probe: Probing,
    *,
    start_per_s: float,
    criteria: Criteria | None = None,
    effort: SearchEffort | None = None,
    progress: Callable[[Probe], None] = lambda _: None,
) -> Sustained:
    """Find the highest rate that a system sustains.

    Raises:
        RateNotSustainable: Nothing was sustained, or the generator was the limit, so that nobody knows what the
            system would have done; the text names the numbers.
    """
    if start_per_s <= 0:
        raise ValueError("a search starts at a rate above 0")
    searching = _Search(probe, criteria or Criteria(), effort or SearchEffort(), progress)
    try:
        return searching.confirm(searching.find_edge(start_per_s))
    except _BudgetSpent:
        return searching.estimate()


class _Search:
    def __init__(
        self, probing: Probing, criteria: Criteria, effort: SearchEffort, progress: Callable[[Probe], None]
    ) -> None:
        self._probing, self._criteria, self._effort, self._progress = probing, criteria, effort, progress
        self.probes: list[Probe] = []
        self._refuted: dict[float, Verdict] = {}

    def find_edge(self, start_per_s: float) -> float:
        """Where sustained ends; bracketed anew when it turns out to lie outside of the bracket."""
        while True:
            low, high = self.bracket(start_per_s)
            edge_per_s = self.refine(low, high)
            if low <= edge_per_s <= high or self._is_saving():
                self._require_saturated()
                return edge_per_s
            start_per_s = edge_per_s

    # --- bracket

    def bracket(self, start_per_s: float) -> tuple[float, float]:
        """A rate that was sustained, and one above it that was not."""
        rate_per_s, low, high = start_per_s, 0.0, math.inf
        while not (low and high < math.inf):
            probe = self._decided("bracket", rate_per_s)
            if _likely(probe) > 0.5:
                low = rate_per_s
                rate_per_s *= 2
            else:
                high = rate_per_s
                # What came through is a better guess than half, unless the system broke down altogether.
                through = probe.evidence.delivered_per_s
                rate_per_s = min(rate_per_s / 2, through) if through > rate_per_s / 64 else rate_per_s / 2
                if rate_per_s < start_per_s / _RATE_SPAN:
                    raise RateNotSustainable(f"not even {_told(probe)}")
        return low, high

    def _decided(self, phase: Phase, rate_per_s: float) -> Probe:
        """A short probe, and a longer one when that could not tell."""
        probe = self._try(phase, rate_per_s, 0.0)
        return self._try(phase, rate_per_s, 0.5) if probe.verdict.answer == "unsteady" else probe

    # --- refine

    def refine(self, low_per_s: float, high_per_s: float) -> float:
        """Where the edge is."""
        # The bracket's own answers came from short probes and may be wrong, so they are learnt like any other.
        edge = Edge(low_per_s / _SLACK, high_per_s * _SLACK, self._hint(high_per_s))
        for probe in self.probes:
            edge.learn(probe.rate_per_s, _likely(probe))
        wide = max(edge.width, self._effort.precision * 2)
        patience = 0.0
        while edge.width > self._effort.precision and not self._is_saving():
            narrowed = math.log(wide / edge.width) / math.log(wide / self._effort.precision)
            probe = self._try("refine", edge.median_per_s, max(narrowed, patience))
            edge.learn(probe.rate_per_s, _likely(probe))
            # Nothing is gained by asking again in the same way.
            patience += _PATIENCE if probe.verdict.answer == "unsteady" else 0.0
        return edge.median_per_s

    def _hint(self, overloaded_per_s: float) -> float:
        """What came through when too much was offered."""
        return max(one.evidence.delivered_per_s for one in self.probes if one.rate_per_s == overloaded_per_s)

    def _require_saturated(self) -> None:
        """The system itself must have been at its limit somewhere; the generator's limit is nobody's figure."""
        answers = {probe.verdict.answer for probe in self.probes}
        if "generator_limited" in answers and "not_sustained" not in answers:
            limited = min((one for one in self.probes if one.verdict.answer == "generator_limited"), key=_rate_of)
            sustained = max(
                (one for one in self.probes if one.verdict.answer == "sustained"), key=_rate_of, default=None
            )
            up_to = f"; up to {_rate(sustained.rate_per_s)} the system sustained everything" if sustained else ""
            raise RateNotSustainable(f"the generator was the limit, not the system: {_told(limited)}{up_to}")

    # --- confirm

    def confirm(self, edge_per_s: float) -> Sustained:
        """Step down from the edge until a rate is surely sustained and 5 % more surely is not."""
        rate_per_s = edge_per_s * STEP_DOWN
        above_per_s = rate_per_s * ABOVE
        while True:
            lower, upper = self._both(rate_per_s, above_per_s)
            if lower.answer != "sustained":
                rate_per_s *= STEP_DOWN
                continue
            if upper.answer == "generator_limited":
                problem = f"{_rate(rate_per_s)} was sustained, and at {_rate(above_per_s)} the generator was the limit"
                raise RateNotSustainable(f"{problem}: {'; '.join(upper.reasons)}")
            if upper.answer == "not_sustained":
                return self._found(rate_per_s, lower, is_confirmed=True)
            # Sustained as well, so the edge lies higher; or too uncertain, so the interval has to become wider.
            rate_per_s = above_per_s if upper.answer == "sustained" else rate_per_s
            above_per_s *= ABOVE

    def _both(self, rate_per_s: float, above_per_s: float) -> tuple[Verdict, Verdict]:
        """Long probes at both rates, in turns (A B B A …), so that what passes over the machine meets both."""
        lower, upper = self._long(rate_per_s), self._long(above_per_s)
        for turn in range(_ROUNDS_MAX):
            if min(len(lower), len(upper)) >= _ROUNDS_MIN and self._is_settled(lower) and self._is_settled(upper):
                break
            pair = [(rate_per_s, lower), (above_per_s, upper)]
            for rate, seen in pair if turn % 2 == 0 else pair[::-1]:
                if len(seen) < _ROUNDS_MIN or not self._is_settled(seen):
                    seen.append(self._try("confirm", rate, 1.0).evidence)
        verdicts = self._judged(lower), self._judged(upper)
        for rate, verdict in zip((rate_per_s, above_per_s), verdicts, strict=True):
            if verdict.answer == "not_sustained":
                self._refuted[rate] = verdict
        return verdicts

    def _long(self, rate_per_s: float) -> list[Evidence]:
        return [one.evidence for one in self.probes if one.phase == "confirm" and one.rate_per_s == rate_per_s]

    def _is_settled(self, seen: list[Evidence]) -> bool:
        return self._judged(seen).answer != "unsteady"

    def _judged(self, seen: list[Evidence]) -> Verdict:
        return judge(combined(seen), self._criteria)

    # --- answers

    def _found(self, rate_per_s: float, verdict: Verdict, *, is_confirmed: bool) -> Sustained:
        grown_per_s = max(combined(self._long(rate_per_s)).depth.high, 0.0)
        higher = {rate: reason for rate, reason in self._refuted.items() if rate > rate_per_s}
        high = min(higher, default=math.inf)
        not_more = f"; {_rate(high)} was not sustained: {'; '.join(higher[high].reasons)}" if higher else ""
        told = f"{_rate(rate_per_s)} was sustained: {'; '.join(verdict.reasons)}{not_more}"
        return Sustained(rate_per_s, rate_per_s - grown_per_s, high, told, is_confirmed, tuple(self.probes))

    def estimate(self) -> Sustained:
        """The best that can be said when the budget is spent.

        Raises:
            RateNotSustainable: No probe was sustained, or only the generator's limit was met.
        """
        self._require_saturated()
        leaking = [one for one in self.probes if self._is_leaking(one)]
        if leaking:
            raise RateNotSustainable(f"even without overload, {_told(min(leaking, key=_rate_of))}")
        refuted = sorted((one for one in self.probes if one.verdict.answer == "not_sustained"), key=_rate_of)
        sustained = [one for one in self.probes if one.verdict.answer == "sustained" and not self._is_doubtful(one)]
        if not sustained:
            last = f"; the lowest: {_told(min(self.probes, key=_rate_of))}" if self.probes else ""
            raise RateNotSustainable(
                f"{len(self.probes)} probes, which is all that were allowed, sustained nothing{last}"
            )
        best = max(sustained, key=_rate_of)
        higher = [one for one in refuted if one.rate_per_s > best.rate_per_s]
        if not higher:
            raise RateNotSustainable(
                f"{_rate(best.rate_per_s)} was sustained, and the budget ended before a higher rate was refuted"
            )
        told = f"the budget ended before it was confirmed; {_told(best)}; {_told(higher[0])}"
        low = best.rate_per_s - max(best.evidence.depth.high, 0.0)
        return Sustained(best.rate_per_s, low, higher[0].rate_per_s, told, False, tuple(self.probes))

    def _is_leaking(self, probe: Probe) -> bool:
        """Whether nothing but a loss or a repetition was wrong: then it is no matter of the rate, and none is safe."""
        if probe.verdict.answer != "not_sustained":
            return False
        return judge(replace(probe.evidence, lost=0, duplicated=0), self._criteria).answer == "sustained"

    def _is_doubtful(self, probe: Probe) -> bool:
        """Whether a probe that was as long, at the same rate or below, says the opposite."""
        return any(
            one.verdict.answer == "not_sustained"
            and one.rate_per_s <= probe.rate_per_s
            and one.evidence.messages >= probe.evidence.messages
            for one in self.probes
        )

    # --- probes

    def _is_saving(self) -> bool:
        """Whether what is left of the probes is needed to confirm."""
        return self._probes_left() <= 2 * _ROUNDS_MIN

    def _probes_left(self) -> int:
        return self._effort.probes_max - len(self.probes)

    def _try(self, phase: Phase, rate_per_s: float, share_long: float) -> Probe:
        seconds = self._effort.seconds(rate_per_s, share_long)
        spent_s = sum(probe.seconds for probe in self.probes)
        if self._probes_left() <= 0 or spent_s + seconds > self._effort.seconds_max:
            raise _BudgetSpent
        evidence = self._probing(rate_per_s, seconds)
        made = Probe(len(self.probes) + 1, phase, rate_per_s, seconds, evidence, judge(evidence, self._criteria))
        self.probes.append(made)
        self._progress(made)
        return made


def _likely(probe: Probe) -> float:
    """How probably the rate can be had; where the generator was the limit it cannot, whoever is to blame."""
    return 0.0 if probe.verdict.answer == "generator_limited" else probe.verdict.likely_sustained


def _rate_of(probe: Probe) -> float:
    return probe.rate_per_s


def _told(probe: Probe) -> str:
    return f"{_rate(probe.rate_per_s)} was {probe.verdict}"


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}/s" if per_s >= 100 else f"{per_s:,.3g}/s"
