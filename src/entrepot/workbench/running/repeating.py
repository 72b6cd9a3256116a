# SPDX-License-Identifier: Apache-2.0
"""When a case was measured often enough, beyond the repetitions that a scale has.

`fixed` is the scale's number. `steady` goes on until half of the 95 %
interval is at most 1 % of the mean. `alike` is SonicMQ's rule: until two
consecutive runs differ by less than 1 %; it is here for fidelity, since it
chooses runs by their values. Both end at RUNS_MAX, and fresh visits they
are, one case after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from entrepot.workbench.measuring.glance import glance
from entrepot.workbench.measuring.record import TrialRecord
from entrepot.workbench.running.plan import PlannedVisit
from entrepot.workbench.statistics.repeating import Runs, until_alike, until_steady

RULES = ("fixed", "steady", "alike")
RUNS_MAX = 15
RUNS_MIN = 5


class Watcher(Protocol):
    """What shows progress."""

    def visit_begins(self, number: int, total: int, visit: PlannedVisit, left_s: float) -> None: ...

    def visit_says(self, text: str) -> None: ...

    def visit_ended(self, trials: Sequence[TrialRecord]) -> None: ...


class Making(Protocol):
    """What this needs of a run."""

    folder: Path
    visits: Sequence[PlannedVisit]

    @property
    def rule(self) -> str: ...

    def make(self, visit: PlannedVisit, watcher: Watcher) -> list[TrialRecord]: ...


def repeat(run: Making, watcher: Watcher) -> list[TrialRecord]:
    """Go on with each case until its rule is content; what was measured in addition."""
    found: list[TrialRecord] = []
    for first in [visit for visit in run.visits if visit.plan.repetition == 0]:
        for _ in _until(run.rule, _Figures(run, first, watcher, found)):
            pass
    return found


def _until(rule: str, figures: _Figures) -> Iterator[Runs]:
    if rule == "alike":
        return until_alike(figures, at_most=RUNS_MAX)
    return until_steady(figures, at_least=RUNS_MIN, at_most=RUNS_MAX)


class _Figures:
    """The rates of one case, run by run; those that were made before come first."""

    def __init__(self, run: Making, first: PlannedVisit, watcher: Watcher, found: list[TrialRecord]) -> None:
        self._run, self._first, self._watcher, self._found = run, first, watcher, found
        self._repetition = 0

    def __call__(self) -> float:
        plan = msgspec.structs.replace(self._first.plan, repetition=self._repetition)
        visit = PlannedVisit(plan, self._first.estimate_s)
        planned = {other.name for other in self._run.visits}
        if visit.name not in planned:
            self._watcher.visit_begins(self._repetition + 1, RUNS_MAX, visit, visit.estimate_s)
        trials = self._run.make(visit, self._watcher)
        if visit.name not in planned:
            self._found += trials
        self._repetition += 1
        return _rate(self._run.folder, trials)


def _rate(folder: Path, trials: Sequence[TrialRecord]) -> float:
    """What the rule looks at: a first look at the rate. A trial that failed counts as 0, which is like no other."""
    for trial in trials:
        if "mst" in trial.facts:
            return trial.facts["mst"]
        found = glance(folder / "trials" / trial.trial, trial)
        if found is not None:
            return found.per_s
    return 0.0
