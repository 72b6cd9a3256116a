# SPDX-License-Identifier: Apache-2.0
"""The search for the maximum sustainable throughput: bracket, refine, confirm.

*Bracket* doubles the rate until it is not sustained, or halves it until it
is. *Refine* narrows the edge by short probes first and longer ones last
(edge.py). *Confirm* steps a little below the edge and probes there and 5 %
above, in turns and for long, until all long probes sustained the lower rate
and none the upper one. Where probes contradict each other the machine itself
wanders, and the two rates move apart by growing steps: the interval is as
wide as what was seen. The rate that is published is one that was sustained,
not one that was estimated.

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
from entrepot.workbench.search.evidence import Evidence, SustainCriteria, Verdict, combined, judge

Phase = Literal["bracket", "refine", "confirm"]
ABOVE = 1.05
"""The rate that must not be sustained, beside the one that is."""
STEP_DOWN = 0.99
"""From the edge to the rate to confirm, and again when that is refuted: as far as the criteria's tolerance, twice."""
WANDERED = 1.08
"""An interval wider than that is the machine's doing, and the verdict says so."""
_ROUNDS = 2
"""Long probes at each of the two rates: one could be a fluke."""
_ANSWERS = 5
"""That speak for each rate: five throws of a coin fall alike once in 32, so the rate is not above what the machine
does half of the time. A system that bears more bears this rate, and one that fails with less fails with that."""
_STEPS_SMALL = 2
"""After so many small steps in one direction each goes twice as far as the last: the machine wanders more than that."""
_STRIDE = 1.2
"""As far as a step goes at most."""
_WEIGHTY_SHARE = 0.4
"""Of a long probe's time: what is shorter may not contradict it."""
_CONFIRMING_SHARE = 0.5
"""Of all probes, kept to confirm."""
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
    """There are no probes left, or more of them would not help; stays within this module."""


def search(
    probe: Probing,
    *,
    start_per_s: float,
    criteria: SustainCriteria | None = None,
    effort: SearchEffort | None = None,
    progress: Callable[[Probe], None] = lambda _: None,
) -> Sustained:
    """Find the highest rate that a system sustains.

    Raises:
        RateNotSustainable: Nothing was sustained, or the generator was the limit, so that it is unknown what the
            system would have done; the text names the numbers.
    """
    if start_per_s <= 0:
        raise ValueError("a search starts at a rate above 0")
    searching = _Search(probe, criteria or SustainCriteria(), effort or SearchEffort(), progress)
    try:
        return searching.confirm(searching.find_edge(start_per_s))
    except _BudgetSpent:
        return searching.estimate()


class _Search:
    def __init__(
        self, probing: Probing, criteria: SustainCriteria, effort: SearchEffort, progress: Callable[[Probe], None]
    ) -> None:
        self._probing, self._criteria, self._effort, self._progress = probing, criteria, effort, progress
        self.probes: list[Probe] = []

    def find_edge(self, start_per_s: float) -> Edge:
        """Where sustained ends; bracketed anew when it turns out to lie outside of the bracket."""
        while True:
            low, high = self.bracket(start_per_s)
            edge = self.refine(low, high)
            if low <= edge.median_per_s <= high or self._is_saving():
                self._require_saturated()
                return edge
            start_per_s = edge.median_per_s

    # --- bracket

    def bracket(self, start_per_s: float) -> tuple[float, float]:
        """A rate that was sustained, and one above it that was not."""
        rate_per_s, low, high = start_per_s, 0.0, math.inf
        while not (low and high < math.inf):
            probe = self._decided("bracket", rate_per_s)
            if _likely(probe) > 0.5:
                # In greater steps from the third on: the start was a guess, and sometimes a bad one.
                low, rate_per_s = rate_per_s, rate_per_s * (4 if low > start_per_s else 2)
            else:
                high = rate_per_s
                # What came through is a better guess than half, unless the system broke down altogether.
                through = probe.evidence.delivered_per_s
                rate_per_s = min(rate_per_s / 2, through) if through > rate_per_s / 64 else rate_per_s / 2
                if rate_per_s < start_per_s / _RATE_SPAN:
                    raise RateNotSustainable(f"not even {_outcome_text(probe)}")
        return low, high

    def _decided(self, phase: Phase, rate_per_s: float) -> Probe:
        """A short probe, and a longer one when that could not tell."""
        probe = self._try(phase, rate_per_s, 0.0)
        return self._try(phase, rate_per_s, 0.5) if probe.verdict.answer == "unsteady" else probe

    # --- refine

    def refine(self, low_per_s: float, high_per_s: float) -> Edge:
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
        return edge

    def _hint(self, overloaded_per_s: float) -> float:
        """What came through when too much was offered."""
        return max(one.evidence.delivered_per_s for one in self.probes if one.rate_per_s == overloaded_per_s)

    def _require_saturated(self) -> None:
        """The system itself must have been at its limit somewhere; the generator's limit is no figure."""
        answers = {probe.verdict.answer for probe in self.probes}
        if "generator_limited" in answers and "not_sustained" not in answers:
            limited = min((one for one in self.probes if one.verdict.answer == "generator_limited"), key=_rate_of)
            sustained = max(
                (one for one in self.probes if one.verdict.answer == "sustained"), key=_rate_of, default=None
            )
            up_to = f"; up to {_rate(sustained.rate_per_s)} the system sustained everything" if sustained else ""
            raise RateNotSustainable(f"the generator was the limit, not the system: {_outcome_text(limited)}{up_to}")

    # --- confirm

    def confirm(self, edge: Edge) -> Sustained:
        """Step away from the edge until both rates are sure: nothing contradicts them, and enough speaks for them."""
        rate_per_s = min([edge.median_per_s * STEP_DOWN, *self._failed()])
        above_per_s = max([rate_per_s * ABOVE, *self._borne()])
        steps_down = steps_up = 0
        while True:
            if any(rate < rate_per_s for rate in self._failed()):
                rate_per_s *= _step(STEP_DOWN, steps_down)
                steps_down += 1
                if rate_per_s < edge.median_per_s / 2:
                    # Whatever is wrong, it is no matter of the rate.
                    raise _BudgetSpent
            elif any(rate >= above_per_s for rate in self._borne()):
                if len(self._long(above_per_s)) == 1 and above_per_s < min(self._failed(), default=math.inf):
                    self._try("confirm", above_per_s, 1.0)
                    continue
                if above_per_s < min(self._failed(), default=math.inf):
                    rate_per_s = above_per_s
                above_per_s *= _step(ABOVE, steps_up)
                steps_up += 1
            elif open_per_s := self._open(rate_per_s, above_per_s):
                self._try("confirm", open_per_s, 1.0)
            else:
                return self._found(rate_per_s, above_per_s)

    def _open(self, rate_per_s: float, above_per_s: float) -> float | None:
        """Which of the two rates needs another probe; in turns (A B B A), so that what passes over both is shared."""
        tried = {rate: len(self._long(rate)) for rate in (rate_per_s, above_per_s)}
        # Where the generator is the limit there will never be enough answers, and the tries have to end all the same.
        answers = {
            rate_per_s: sum(rate >= rate_per_s for rate in self._borne()),
            above_per_s: max(self._refutations(above_per_s), tried[above_per_s]),
        }
        wanting = [rate for rate in tried if tried[rate] < _ROUNDS or answers[rate] < _ANSWERS]
        last_per_s = self.probes[-1].rate_per_s
        return min(wanting, key=lambda rate: (tried[rate], rate != last_per_s), default=None)

    def _refutations(self, above_per_s: float) -> int:
        """How many probes say of the system, and not of the generator, that it cannot do as much."""
        fell_short = [one for one in self._fell_short() if one.verdict.answer != "generator_limited"]
        return sum(_through(one) <= above_per_s for one in fell_short)

    def _failed(self) -> list[float]:
        return [_through(one) for one in self._fell_short()]

    def _fell_short(self) -> list[Probe]:
        return [
            one
            for one in self._weighty()
            if _likely(one) < 0.5 or (one.phase == "confirm" and one.verdict.answer != "sustained")
        ]

    def _borne(self) -> list[float]:
        return [one.rate_per_s for one in self._weighty() if one.verdict.answer == "sustained"]

    def _weighty(self) -> list[Probe]:
        """Long probes, and those that may contradict them: almost as long, and on a warm system."""
        return [
            one
            for one in self.probes
            if one.phase != "bracket"
            and one.seconds >= _WEIGHTY_SHARE * self._effort.seconds(one.rate_per_s, 1.0)
            and (one.phase == "confirm" or one.evidence.is_warm or one.verdict.answer == "sustained")
        ]

    def _long(self, rate_per_s: float) -> list[Evidence]:
        return [one.evidence for one in self.probes if one.phase == "confirm" and one.rate_per_s == rate_per_s]

    # --- answers

    def _found(self, rate_per_s: float, above_per_s: float) -> Sustained:
        lower, upper = combined(self._long(rate_per_s)), combined(self._telling(above_per_s))
        sustained, refuted = judge(lower, self._criteria), judge(upper, self._criteria)
        if refuted.answer == "generator_limited" or self._refutations(above_per_s) < _ANSWERS:
            problem = f"{_rate(rate_per_s)} was sustained, and at {_rate(above_per_s)} the generator was the limit"
            raise RateNotSustainable(f"{problem}: {'; '.join(refuted.reasons)}")
        if (sustained.answer, refuted.answer) != ("sustained", "not_sustained"):
            # Together they say something else than each of them did, so this is sure of nothing.
            raise _BudgetSpent
        reason = (
            f"{_rate(rate_per_s)} was sustained: {'; '.join(sustained.reasons)}; "
            f"{_rate(above_per_s)} was not sustained: {'; '.join(refuted.reasons)}"
        )
        if above_per_s > rate_per_s * WANDERED:
            reason += "; between them some probes were sustained and some not: the machine wandered"
        low = rate_per_s - max(*lower.left_per_s, lower.depth.high, 0.0)
        return Sustained(rate_per_s, low, above_per_s, reason, True, tuple(self.probes))

    def _telling(self, rate_per_s: float) -> list[Evidence]:
        """Long probes at a rate, without those whose generator was the limit when there are enough answers without."""
        long = self._long(rate_per_s)
        telling = [one for one in long if judge(one, self._criteria).answer != "generator_limited"]
        return telling if len(telling) >= _ROUNDS and self._refutations(rate_per_s) >= _ANSWERS else long

    def estimate(self) -> Sustained:
        """The best that can be said when the budget is spent.

        Raises:
            RateNotSustainable: No probe was sustained, or only the generator's limit was met.
        """
        self._require_saturated()
        leaking = [one for one in self.probes if self._is_leaking(one)]
        if leaking:
            raise RateNotSustainable(f"even without overload, {_outcome_text(min(leaking, key=_rate_of))}")
        failed = sorted((one for one in self.probes if _likely(one) < 0.5), key=_rate_of)
        borne = [one for one in self.probes if one.verdict.answer == "sustained"]
        sustained = [one for one in borne if not failed or one.rate_per_s < failed[0].rate_per_s]
        if not sustained:
            last = f"; the lowest: {_outcome_text(min(self.probes, key=_rate_of))}" if self.probes else ""
            raise RateNotSustainable(f"{len(self.probes)} probes sustained nothing for certain{last}")
        best = max(sustained, key=_rate_of)
        refuted = [one for one in failed if one.verdict.answer == "not_sustained"]
        higher = [one for one in refuted if one.rate_per_s > best.rate_per_s]
        if not higher:
            raise RateNotSustainable(
                f"{_rate(best.rate_per_s)} was sustained, and the budget ended before a higher rate was refuted"
            )
        reason = f"the budget ended before it was confirmed; {_outcome_text(best)}; {_outcome_text(higher[0])}"
        low = best.rate_per_s - max(*best.evidence.left_per_s, best.evidence.depth.high, 0.0)
        most = max(borne, key=_rate_of)
        above = [one.rate_per_s for one in higher if one.rate_per_s > most.rate_per_s]
        if most is not best:
            reason += f"; and yet {_outcome_text(most)}: the machine wandered"
        return Sustained(best.rate_per_s, low, min(above, default=math.inf), reason, False, tuple(self.probes))

    def _is_leaking(self, probe: Probe) -> bool:
        """Whether nothing but a loss or a repetition was wrong: then it is no matter of the rate, and none is safe."""
        if probe.verdict.answer != "not_sustained":
            return False
        return judge(replace(probe.evidence, lost=0, duplicated=0), self._criteria).answer == "sustained"

    # --- probes

    def _is_saving(self) -> bool:
        """Whether what is left of the probes is needed to confirm."""
        return self._probes_left() <= max(2 * _ROUNDS, self._effort.probes_max * _CONFIRMING_SHARE)

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


def _step(step: float, made: int) -> float:
    return float(min(max(step ** (2 ** max(made - _STEPS_SMALL + 1, 0)), 1 / _STRIDE), _STRIDE))


def _through(probe: Probe) -> float:
    """What came through where more was offered; a tenth less at most, since overload itself slows some systems."""
    return max(probe.rate_per_s - max(probe.evidence.left_per_s), probe.rate_per_s / _SLACK)


def _likely(probe: Probe) -> float:
    """How probably the rate can be had; where the generator was the limit it cannot, whatever the cause."""
    return 0.0 if probe.verdict.answer == "generator_limited" else probe.verdict.likely_sustained


def _rate_of(probe: Probe) -> float:
    return probe.rate_per_s


def _outcome_text(probe: Probe) -> str:
    return f"{_rate(probe.rate_per_s)} was {probe.verdict}"


def _rate(per_s: float) -> str:
    return f"{per_s:,.0f}/s" if per_s >= 100 else f"{per_s:,.3g}/s"
