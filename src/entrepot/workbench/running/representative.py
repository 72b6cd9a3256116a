# SPDX-License-Identifier: Apache-2.0
"""The set that `make bench` runs: every document and every load, within half an hour on two cores.

Where comparing with all peers would take the time of many other scenarios
(searches, flows, which no peer has), it is measured on ours alone, or on
some peers.
"""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.workbench.catalogue import find_scenarios
from entrepot.workbench.scenario import Scenario
from entrepot.workbench.systems import ALL, ENTREPOT, PEERS

REPRESENTATIVE = "representative"
_ALL_PEERS = (
    "nstl/1",
    "nstl/2",
    "nstl/3",
    "nstl/5",
    "wmq/1",
    "wmq/4",
    "sonicmq/one-to-many-pubsub",
)
_SOME_PEERS = {
    "csiro/2": ("rabbitmq",),
    "sonicmq/limit-1mb": ("rabbitmq",),
}
_OURS = (
    "nstl/7",
    "wmq/7",
    "wmq/15",
    "wmq/16",
    "wmq/figure-17",
    "wmq/figure-19",
    "csiro/4",
    "csiro/figure-3",
    "csiro/figure-4",
    "wbimb/10.1",
    "wbimb/10.3.1",
    "wbimb/10.5",
    "wbimb/10.8.2.1",
    "wbimb/10.8.5",
)


def chosen(names: Sequence[str], systems: Sequence[str]) -> list[tuple[Scenario, tuple[str, ...]]]:
    """The scenarios of these names and patterns, each with the systems to measure it on.

    Raises:
        ScenarioUnknown: No scenario has this name; the error has near ones.
    """
    found: dict[str, tuple[Scenario, tuple[str, ...]]] = {}
    for name in names:
        if name == REPRESENTATIVE:
            scenarios = find_scenarios([*_ALL_PEERS, *_SOME_PEERS, *_OURS])
            found |= {scenario.name: (scenario, _narrowed(scenario.name, systems)) for scenario in scenarios}
        else:
            found |= {scenario.name: (scenario, tuple(systems)) for scenario in find_scenarios([name])}
    return list(found.values())


def _narrowed(name: str, systems: Sequence[str]) -> tuple[str, ...]:
    """Only `all` is narrowed; whoever names a peer gets it."""
    if ALL not in systems or name in _ALL_PEERS:
        return tuple(systems)
    return (ENTREPOT, *_SOME_PEERS.get(name, ()), *(system for system in systems if system in PEERS))
