# SPDX-License-Identifier: Apache-2.0
"""What a run is going to do: systems, points, order, and what it may cost."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from entrepot.errors import LoadUnsuitable, ScenarioUnknown
from entrepot.workbench.catalogue import find_scenarios
from entrepot.workbench.measuring.effort import EFFORTS
from entrepot.workbench.running.plan import PlannedVisit, planned, systems_for
from entrepot.workbench.running.representative import REPRESENTATIVE, chosen
from entrepot.workbench.systems import PEERS

QUICK = EFFORTS["quick"]


def visits(names: list[str], systems: list[str], **changes: object) -> list[PlannedVisit]:
    effort = msgspec.structs.replace(QUICK, **changes)
    found, _ = planned(chosen(names, systems), effort, run="R", host="H", folder=Path("F"), strict=False)
    return found


def test_entrepot_stands_for_the_binding_that_the_scenario_names() -> None:
    [local], [client] = find_scenarios(["wmq/1"]), find_scenarios(["wmq/3"])
    assert systems_for(local, ["entrepot"]) == ["entrepot-unix"]
    assert systems_for(client, ["entrepot"]) == ["entrepot-tcp"]
    with_peers = ["entrepot-unix", "entrepot-unix-answered", *PEERS, "entrepot-tcp"]
    assert systems_for(local, ["all", "entrepot-tcp"]) == with_peers


def test_both_forms_are_measured_where_they_differ() -> None:
    forms = {visit.plan.system for visit in visits(["nstl/1"], ["all"], repetitions=1)}
    assert {"redis-lists", "redis-lists-answered", "entrepot-unix", "entrepot-unix-answered"} <= forms
    # A receiver has no answers to wait for, and recoverable messages are always answered for.
    for scenario in ("nstl/2", "nstl/3", "wmq/1"):
        assert not any(visit.plan.system.endswith("-answered") for visit in visits([scenario], ["all"]))


def test_a_quick_run_has_few_points_and_a_full_one_has_all() -> None:
    assert len(visits(["nstl/1"], ["entrepot"], repetitions=1)) == 1
    assert len(visits(["nstl/1"], ["entrepot"], repetitions=1, scale="full")) == 4


def test_each_repetition_visits_everything_once_in_another_order() -> None:
    found = visits(["nstl/1", "nstl/2", "nstl/3", "nstl/4"], ["entrepot"], repetitions=3, scale="full")
    by_repetition = [[visit for visit in found if visit.plan.repetition == number] for number in range(3)]
    cases = [[(visit.plan.scenario, visit.plan.point().key) for visit in each] for each in by_repetition]
    assert sorted(cases[0]) == sorted(cases[1]) == sorted(cases[2])
    assert cases[0] != cases[1]


def test_the_same_plan_is_made_again() -> None:
    assert visits(["nstl/*"], ["entrepot"]) == visits(["nstl/*"], ["entrepot"])


def test_names_of_visits_are_unique() -> None:
    names = [visit.name for visit in visits(["*"], ["entrepot"], scale="full")]
    assert len(names) == len(set(names))


def test_a_system_that_lacks_what_a_load_needs_is_told() -> None:
    with pytest.raises(LoadUnsuitable, match="postgresql cannot be put under the load publish"):
        visits(["sonicmq/one-to-many-pubsub"], ["postgresql"])


def test_the_representative_set_has_every_document_and_load() -> None:
    scenarios = [scenario for scenario, _ in chosen([REPRESENTATIVE], ["all"])]
    assert {scenario.document for scenario in scenarios} == {s.document for s in find_scenarios(["*"])}
    assert {scenario.load for scenario in scenarios} == {s.load for s in find_scenarios(["*"])}


def test_the_representative_set_takes_less_than_half_an_hour() -> None:
    found, _ = planned(chosen([REPRESENTATIVE], ["all"]), QUICK, run="R", host="H", folder=Path("F"), strict=False)
    # An estimate of 26 minutes took 23, the report included.
    assert sum(visit.estimate_s for visit in found) < 29 * 60


def test_an_unknown_name_beside_known_ones_is_refused() -> None:
    with pytest.raises(ScenarioUnknown, match="wmq/99"):
        chosen(["wmq/1", "wmq/99"], ["entrepot"])
