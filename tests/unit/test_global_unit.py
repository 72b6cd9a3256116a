# SPDX-License-Identifier: Apache-2.0
"""Who is told what, and in which order, when a global unit of work ends; all others are stand-ins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine

from entrepot.client.blocking import global_unit
from entrepot.client.blocking.global_unit import Databases
from entrepot.engine.databases import points
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import (
    ConnectFailed,
    ConnectionLost,
    DatabaseWorkEnded,
    DiskFailed,
    EntrepotError,
    Fenced,
    GlobalUnitInDoubt,
    InvalidArgument,
    LimitExceeded,
    LogFull,
    OnePhaseTwice,
    PrepareFailed,
    UnitBackedOut,
    UnitFinished,
)
from entrepot.limits import BRANCHES_MAX
from unit.engine.databases.stand_in import two_phase
from unit.engine.databases.world import BACKED_OUT, UNIT, World, fail_at, lost, refused


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the unit would have slept; its clock goes on only then."""
    slept: list[float] = []
    time = SimpleNamespace(sleep=slept.append, monotonic=lambda: sum(slept))
    monkeypatch.setattr(global_unit, "time", time)
    monkeypatch.setattr(global_unit, "sleep", slept.append)
    return slept


# --- all goes well -------------------------------------------------------------------------------


def test_all_prepare_then_the_queue_manager_decides_then_all_commit() -> None:
    world = World()
    with world.begin() as unit:
        pass
    assert world.events == [
        *("open 0", "open 1", "require open 0", "require open 1", "prepare 0", "prepare 1"),
        f"decide: ['{UNIT}-0', '{UNIT}-1'] counted True",
        *("commit 0", "commit 1", f"finish: ['{UNIT}-0', '{UNIT}-1']"),
    ]
    assert (unit.state, unit.unfinished, world.connections_told) == ("committed", [], 1)


def test_a_last_agent_commits_between_the_two_phases_of_the_others() -> None:
    world = World(last=True)
    with world.begin() as unit:
        pass
    assert world.since("open 2") == [
        *("require open 0", "require open 1", "require open 2", "prepare 0", "prepare 1", "prepare 2"),
        f"leave to last: ['{UNIT}-0', '{UNIT}-1', ''] counted True",
        *("commit 2", "resolve: True", "told 2", "commit 0", "commit 1", f"finish: ['{UNIT}-0', '{UNIT}-1']"),
    ]
    assert (unit.state, world.connections_told) == ("committed", 1)


@pytest.mark.parametrize(
    ("world", "expected"), [(World(), points.ALL), (World(last=True, two_phase=0), points.LAST_AGENT)]
)
def test_a_crash_can_be_tried_at_every_point(
    world: World, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[str] = []
    monkeypatch.setattr(points, "reached", reached.append)
    world.begin().commit()
    assert reached == list(expected)


def test_a_unit_that_touches_no_database_is_a_local_one() -> None:
    world = World()
    with world.unit as unit:
        pass
    assert (world.events, unit.state) == (["local commit: counted True"], "committed")


@pytest.mark.parametrize("counted", [True, False])
def test_whether_messages_are_counted_is_said_to_whoever_may_give_them_back(counted: bool) -> None:
    world, last, plain, refusing = World(), World(last=True), World(), World()
    world.begin().commit(counted=counted)
    last.begin().commit(counted=counted)
    plain.unit.commit(counted=counted)
    refusing.faults["prepare 0"] = [refused()]
    with pytest.raises(PrepareFailed):
        refusing.begin().commit(counted=counted)
    for each in (world, last, plain, refusing):
        assert [event for event in each.events if event.endswith(f"counted {counted}")] != []
    backed_out = World()
    backed_out.unit.back_out(counted=counted)
    assert backed_out.events == [f"local back-out: counted {counted}"]


def test_a_database_takes_part_once_and_under_its_place() -> None:
    world = World()
    assert world.unit.database("engine 1") == world.unit.database("engine 1") == "connection 1"  # type: ignore[arg-type,comparison-overlap]
    world.unit.commit()
    assert f"decide: ['{UNIT}-1'] counted True" in world.events
    with pytest.raises(UnitFinished):
        world.unit.database("engine 0")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        World().unit.database("engine 9")  # type: ignore[arg-type]


@pytest.mark.parametrize("end", ["commit", "back_out"])
def test_a_unit_ends_once(end: str) -> None:
    world = World()
    with world.begin() as unit:
        getattr(unit, end)()
        happened = list(world.events)
        for verb in (unit.commit, unit.back_out):
            with pytest.raises(UnitFinished):
                verb()
    assert world.events == happened


def test_backing_out_tells_everybody() -> None:
    world = World()
    with pytest.raises(ZeroDivisionError), world.begin():
        raise ZeroDivisionError
    assert world.since("open 1") == BACKED_OUT


def test_databases_are_rolled_back_although_the_queue_manager_cannot_be_told() -> None:
    world = World()
    world.faults["local back-out"] = [lost()]
    with pytest.raises(ConnectionLost):
        world.begin().back_out()
    assert world.since("open 1") == BACKED_OUT


@pytest.mark.parametrize("state", [UnitState.BACKED_OUT, UnitState.ACTIVE])
def test_a_database_that_cannot_be_rolled_back_is_left_to_recovery(state: UnitState) -> None:
    world = World()
    world.faults["roll back 0"] = [refused()]
    with pytest.raises(ZeroDivisionError), world.begin():
        world.own.state = state
        raise ZeroDivisionError
    assert world.events[-3:] == ["roll back 0", "later: ['0']", "roll back 1"]


def test_a_unit_that_a_broken_connection_has_backed_out_leaves_nothing_at_databases() -> None:
    world = World()
    with world.begin():
        world.own.state = UnitState.BACKED_OUT
    assert world.since("open 1") == ["roll back 0", "roll back 1"]


@pytest.mark.parametrize("state", [UnitState.UNKNOWN, UnitState.PREPARED, UnitState.COMMITTED])
def test_what_may_have_been_decided_is_left_and_then_recovered(state: UnitState) -> None:
    world = World()
    with world.begin():
        world.own.state = state
    assert world.since("open 1") == ["leave 0", "later: ['0']", "leave 1", "later: ['1']"]


# --- before the decision -------------------------------------------------------------------------


def test_a_database_that_does_not_prepare_is_left_before_recovery_looks_and_all_back_out() -> None:
    world = World()
    world.faults["prepare 1"] = [refused()]
    with pytest.raises(PrepareFailed, match="it does not") as failed:
        world.begin().commit()
    assert failed.value.resource == "1"
    assert world.since("prepare 1") == ["leave 1", "later: ['1']", *BACKED_OUT]


def test_an_error_that_is_no_databases_backs_out_all() -> None:
    for error in (DatabaseWorkEnded("0"), KeyboardInterrupt()):
        world = World()
        world.faults["require open 0"] = [error]
        with pytest.raises(type(error)):
            world.begin().commit()
        assert world.since("require open 0") == BACKED_OUT


def test_an_interrupt_before_anything_is_prepared_backs_out_all(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    fail_at(monkeypatch, points.BEFORE_PREPARE, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), world.begin():
        pass
    assert world.since("open 1") == BACKED_OUT


# --- the decision --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (LogFull(0), UnitBackedOut),
        (ConnectFailed("mq://there", "nobody answers"), UnitBackedOut),
        (Fenced("flow/1", 1, 2), Fenced),
    ],
    ids=repr,
)
def test_a_queue_manager_that_does_not_decide_backs_out_all(error: EntrepotError, raised: type[Exception]) -> None:
    world = World()
    world.faults["decide"] = [error]
    with pytest.raises(raised):
        world.begin().commit()
    assert world.events[-3:] == BACKED_OUT
    assert world.unit.state == "backed out"


def test_a_queue_manager_that_may_have_decided_leaves_all_in_doubt() -> None:
    world = World()
    world.faults["decide"] = [DiskFailed("log", "it broke")]
    with pytest.raises(GlobalUnitInDoubt), world.begin() as unit:
        pass
    assert world.events[-3:] == ["leave 0", "leave 1", "later: ['0', '1']"]
    assert (unit.state, world.connections_told) == ("unknown", 1)


def test_an_interrupted_decision_is_for_recovery_to_find_out() -> None:
    world = World()
    world.faults["decide"] = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt), world.begin() as unit:
        pass
    assert world.events[-3:] == ["leave 0", "leave 1", "later: ['0', '1']"]
    assert unit.state == "unknown"


@pytest.mark.parametrize("known", [UnitState.ACTIVE, UnitState.UNKNOWN])
@pytest.mark.parametrize("outcome", ["unknown", "in doubt"])
def test_a_lost_decision_that_was_not_made_rolls_back(known: UnitState, outcome: str) -> None:
    world = World()
    world.on["decide"] = lambda: setattr(world.own, "state", known)
    world.faults["decide"] = [lost()]
    world.outcomes = [outcome]
    with pytest.raises(UnitBackedOut):
        world.begin().commit()
    assert world.since("ask") == ["roll back 0", "roll back 1"]
    assert (world.unit.state, world.connections_told) == ("backed out", 1)


def test_a_lost_decision_that_was_made_is_carried_out(pauses: list[float]) -> None:
    world = World()
    world.faults["decide"] = [lost()]
    world.outcomes = ["active", lost(), "committed"]
    with world.begin() as unit:
        pass
    assert world.events.count("ask") == 3
    assert world.events[-3:] == ["commit 0", "commit 1", f"finish: ['{UNIT}-0', '{UNIT}-1']"]
    assert (unit.state, pauses) == ("committed", [0.05, 0.05])


@pytest.mark.parametrize("answer", ["active", lost(), ConnectFailed("mq://there", "nobody answers")], ids=repr)
def test_a_lost_decision_that_cannot_be_asked_for_is_left_in_doubt(answer: Any, pauses: list[float]) -> None:
    world = World()
    world.faults["decide"] = [lost()]
    world.outcomes = [answer]
    with pytest.raises(GlobalUnitInDoubt), world.begin() as unit:
        pass
    assert world.events[-4:] == ["ask", "leave 0", "leave 1", "later: ['0', '1']"]
    assert unit.state == "unknown"
    patience_s = 0.0 if isinstance(answer, ConnectFailed) else 30.0
    assert sum(pauses) == pytest.approx(patience_s, abs=0.1)


# --- the databases of a connection ---------------------------------------------------------------


class Recoveries:
    def __init__(self) -> None:
        self.used: list[str] = []

    def before_use(self, resource: Any) -> None:
        self.used.append(resource.name)


@pytest.fixture
def databases() -> Databases:
    databases = Databases(None)  # type: ignore[arg-type]
    databases.recoveries = Recoveries()  # type: ignore[assignment]
    return databases


def test_a_database_is_looked_after_before_each_use_and_known_by_its_engine(databases: Databases) -> None:
    engines = [two_phase("/a"), two_phase("/b")]
    found = databases.of(engines)
    assert [resource.name for resource in found] == ["twophase:///a", "twophase:///b"]
    assert databases.of([engines[1], engines[1]]) == [found[1]]
    assert databases.recoveries.used == ["twophase:///a", "twophase:///b", "twophase:///b"]  # type: ignore[attr-defined]


def test_a_unit_has_so_many_databases_and_no_more(databases: Databases) -> None:
    engines = [two_phase(f"/{number}") for number in range(BRANCHES_MAX)]
    assert len(databases.of(engines)) == BRANCHES_MAX
    with pytest.raises(LimitExceeded):
        databases.of([*engines, two_phase("/more")])


def test_a_unit_has_one_last_agent(databases: Databases) -> None:
    engines = [create_engine("sqlite://"), create_engine("sqlite://"), two_phase()]
    assert len(databases.of(engines[1:])) == 2
    databases.recoveries.used.clear()  # type: ignore[attr-defined]
    with pytest.raises(OnePhaseTwice):
        databases.of(engines)
    assert databases.recoveries.used == []  # type: ignore[attr-defined]
