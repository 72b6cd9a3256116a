# SPDX-License-Identifier: Apache-2.0
"""The set that `make bench` runs: every document, every load and every system, within half an hour on two cores.

A quick run of everything on all systems would take hours, so the set says
for each scenario which systems and points it takes. Systems that are
named in the command are not narrowed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from entrepot.workbench.catalogue import find_scenarios
from entrepot.workbench.scenario import Parameter, Scenario
from entrepot.workbench.systems import ALL, ANSWERED, ENTREPOT, PEERS, is_answered

REPRESENTATIVE = "representative"
_SOME = ("rabbitmq", "postgresql")
_AT_BEST = tuple(name for name in PEERS if not is_answered(name))
"""Both forms of each are in the first table; elsewhere the better one is enough."""
Points = Mapping[str, tuple[Parameter, ...]]
_SET: tuple[tuple[str, tuple[str, ...], Points], ...] = (
    ("nstl/1", (ENTREPOT, f"entrepot-unix{ANSWERED}", *PEERS), {}),
    ("nstl/2", (ENTREPOT, *_SOME), {}),
    ("nstl/3", (ENTREPOT, *PEERS), {"threads": (1,)}),
    ("nstl/5", (ENTREPOT, *_SOME), {"threads": (1,)}),
    ("nstl/7", (ENTREPOT,), {}),
    ("wbimb/10.1", (ENTREPOT,), {}),
    ("wbimb/10.3.1", (ENTREPOT,), {"quality": ("express",)}),
    ("wbimb/10.5", (ENTREPOT,), {"quality": ("express",)}),
    ("wbimb/10.8.5", (ENTREPOT,), {"quality": ("express",)}),
    ("wmq/1", (ENTREPOT,), {}),
    ("wmq/1", PEERS, {"apps": (20,)}),
    ("wmq/4", (ENTREPOT,), {"apps": (20, 64)}),
    ("wmq/4", _SOME, {"apps": (20,)}),
    ("wmq/7", (ENTREPOT,), {"apps": (15,)}),
    ("wmq/15", (ENTREPOT,), {"apps": (60,)}),
    ("wmq/16", (ENTREPOT,), {"apps": (6000,)}),
    ("wmq/figure-17", (ENTREPOT,), {"message_bytes": (50, 2048, 262144)}),
    ("wmq/figure-19", (ENTREPOT,), {"message_bytes": (50, 2048, 262144)}),
    ("csiro/2", (ENTREPOT, "rabbitmq"), {"message_bytes": (64,), "receivers": (1,)}),
    ("csiro/4", (ENTREPOT,), {}),
    ("csiro/figure-3", (ENTREPOT,), {}),
    ("csiro/figure-4", (ENTREPOT,), {}),
    ("sonicmq/one-to-many-pubsub", (ENTREPOT, *_AT_BEST), {"quality": ("express",)}),
    ("sonicmq/one-to-many-pubsub", (ENTREPOT, "rabbitmq"), {"quality": ("recoverable",)}),
    ("sonicmq/limit-1mb", (ENTREPOT, "rabbitmq"), {}),
)


def chosen(names: Sequence[str], systems: Sequence[str]) -> list[tuple[Scenario, tuple[str, ...]]]:
    """The scenarios of these names and patterns, each with the systems to measure it on.

    Raises:
        ScenarioUnknown: No scenario has this name; the error has near ones.
    """
    found: list[tuple[Scenario, tuple[str, ...]]] = []
    for name in names:
        if name == REPRESENTATIVE:
            found += [(_narrowed(scenario, points), _of(systems, theirs)) for scenario, theirs, points in _scenarios()]
        else:
            found += [(scenario, tuple(systems)) for scenario in find_scenarios([name])]
    return found


def _scenarios() -> list[tuple[Scenario, tuple[str, ...], Points]]:
    return [(find_scenarios([name])[0], theirs, points) for name, theirs, points in _SET]


def _narrowed(scenario: Scenario, points: Points) -> Scenario:
    return dataclasses.replace(scenario, quick={**scenario.quick, **points})


def _of(asked: Sequence[str], theirs: tuple[str, ...]) -> tuple[str, ...]:
    return theirs if ALL in asked else tuple(system for system in asked if system in theirs or system not in PEERS)
