# SPDX-License-Identifier: Apache-2.0
"""What a run is going to do: which scenarios, at which points, on which systems, how often, in which order.

Systems take turns within a repetition, in an order that is shuffled with a
fixed seed, so that a slow hour of the machine does not fall on one of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from entrepot.errors import LoadUnsuitable, SystemAbsent
from entrepot.workbench.loads import find_load
from entrepot.workbench.measuring.effort import Effort
from entrepot.workbench.measuring.stage import visit_name
from entrepot.workbench.measuring.visit import VisitPlan
from entrepot.workbench.scenario import Point, Scenario
from entrepot.workbench.systems import ALL, ANSWERED, ENTREPOT, NAMES, PEERS, absent_reason, find_system

SEED = 2002
OVERHEAD_S = 1.2
"""Of a visit beyond starting the system and the load: processes, queues, Parquet."""


@dataclass(frozen=True, slots=True)
class PlannedVisit:
    """One planned visit, and about how long it takes."""

    plan: VisitPlan
    estimate_s: float

    @property
    def name(self) -> str:
        return visit_name(self.plan.run, self.plan.subject(), self.plan.point(), self.plan.system, self.plan.repetition)


def systems_for(scenario: Scenario, asked: Sequence[str]) -> list[str]:
    """The systems to visit: `entrepot` is the binding the scenario names, `all` that and all peers, in both forms."""
    found: list[str] = []
    for name in asked:
        if name in (ENTREPOT, ALL):
            found += [f"entrepot-{binding}" for binding in scenario.entrepot]
        if name == ALL:
            found += [form for each in found if (form := f"{each}{ANSWERED}") in NAMES]
            found += PEERS
        elif name != ENTREPOT:
            found.append(name)
    return list(dict.fromkeys(found))


def points_of(scenario: Scenario, scale: str) -> Sequence[Point]:
    if scale == "thumbnail":
        return (scenario.thumbnail_point(),)
    return scenario.quick_points() if scale == "quick" else scenario.points


def unsuitable(scenario: Scenario, point: Point, system: str) -> str:
    """Why a system cannot be measured here; empty when it can. An absent system is not unsuitable."""
    kind, load = find_system(system), find_load(scenario.load)
    if point.quality not in kind.contracts:
        return f"it does not offer the quality {point.quality}"
    return load.unsuitable(kind, point.effective)


def planned(
    chosen: Sequence[tuple[Scenario, Sequence[str]]],
    effort: Effort,
    *,
    run: str,
    host: str,
    folder: Path,
    strict: bool,
) -> tuple[list[PlannedVisit], dict[str, str]]:
    """All visits of these scenarios on these systems, in order; and the systems that are not installed.

    Raises:
        SystemUnknown: No system has this name.
        SystemAbsent: `strict`, and a system that was named is not installed.
        LoadUnsuitable: Nothing at all would be measured.
    """
    absent: dict[str, str] = {}
    refused: tuple[str, str, str] | None = None
    cases: list[tuple[Scenario, Point, str]] = []
    seen: set[tuple[str, str, str]] = set()
    for scenario, systems in chosen:
        for system in systems_for(scenario, systems):
            reason = absent.get(system) or absent_reason(system)
            if reason:
                absent[system] = reason
                if strict and system in systems:
                    raise SystemAbsent(system, reason)
                continue
            for point in points_of(scenario, effort.scale):
                if problem := unsuitable(scenario, point, system):
                    refused = (system, scenario.load, problem)
                elif (case := (scenario.name, point.key, system)) not in seen:
                    seen.add(case)
                    cases.append((scenario, point, system))
    if not cases:
        if refused:
            raise LoadUnsuitable(*refused)
        name, reason = next(iter(absent.items()))
        raise SystemAbsent(name, reason)
    return list(_ordered(cases, effort, run, host, folder)), absent


def _ordered(
    cases: list[tuple[Scenario, Point, str]], effort: Effort, run: str, host: str, folder: Path
) -> Iterator[PlannedVisit]:
    order = random.Random(SEED)  # noqa: S311 - an order, no secret
    for repetition in range(effort.repetitions):
        for scenario, point, system in order.sample(cases, len(cases)):
            if repetition and not find_load(scenario.load).repeats and effort.scale != "full":
                continue
            plan = VisitPlan(
                run=run,
                host=host,
                scenario=scenario.name,
                load=scenario.load,
                parameters=dict(point.parameters),
                effective=dict(point.effective),
                reduced=point.reduced,
                system=system,
                repetition=repetition,
                effort=effort,
                results=str(folder / "trials"),
                scratch=str(folder / "s"),
            )
            yield PlannedVisit(plan, estimate_s(plan))


def estimate_s(plan: VisitPlan) -> float:
    kind, load = find_system(plan.system), find_load(plan.load)
    warm_up_s = kind.warm_up_s if plan.effort.system_warm_up else 0.0
    return kind.start_s + load.duration_s(plan.effort.seconds + warm_up_s, plan.effective) + OVERHEAD_S
