# SPDX-License-Identifier: Apache-2.0
"""The same for a unit that one database with one phase decides, and for all that comes behind a decision."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.client.blocking import global_unit
from entrepot.engine.databases import points
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import ConnectFailed, GlobalUnitInDoubt, LogFull, PrepareFailed, UnitBackedOut, UnitNotInDoubt
from unit.engine.databases.world import BACKED_OUT, UNIT, World, fail_at, lost, refused


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the unit would have slept; its clock goes on only then."""
    slept: list[float] = []
    time = SimpleNamespace(sleep=slept.append, monotonic=lambda: sum(slept))
    monkeypatch.setattr(global_unit, "time", time)
    monkeypatch.setattr(global_unit, "sleep", slept.append)
    return slept


# --- the last agent ------------------------------------------------------------------------------


def test_a_queue_manager_that_does_not_prepare_backs_out_all() -> None:
    world = World(last=True)
    world.faults["leave to last"] = [LogFull(0)]
    with pytest.raises(UnitBackedOut):
        world.begin().commit()
    assert world.events[-4:] == [*BACKED_OUT, "roll back 2"]
    assert "tell later: False" not in world.events
    assert world.unit.state == "backed out"


def test_a_queue_manager_that_may_have_prepared_is_told_to_back_out() -> None:
    world = World(last=True)
    world.on["leave to last"] = lambda: setattr(world.own, "state", UnitState.UNKNOWN)
    world.faults["leave to last"] = [lost()]
    with pytest.raises(UnitBackedOut):
        world.begin().commit()
    assert world.events[-4:] == ["tell later: False", "roll back 0", "roll back 1", "roll back 2"]
    assert (world.unit.state, world.connections_told) == ("backed out", 1)


def test_a_last_agent_that_refuses_has_everything_rolled_back_before_messages_return() -> None:
    world = World(last=True)
    world.faults["commit 2"] = [refused()]
    with pytest.raises(PrepareFailed, match="it does not") as failed, world.begin() as unit:
        pass
    assert failed.value.resource == "2"
    assert world.since("commit 2") == ["leave 2", "roll back 0", "roll back 1", "roll back 2", "resolve: False"]
    assert (unit.state, world.connections_told) == ("backed out", 1)


@pytest.mark.parametrize(("can_be_asked", "later"), [(True, ["0", "1", "2"]), (False, ["0", "1"])])
def test_a_last_agent_whose_answer_is_lost_leaves_all_in_doubt(can_be_asked: bool, later: list[str]) -> None:
    for error in (refused(), KeyboardInterrupt()):
        world = World(last=True)
        world.can_be_asked, world.is_unknown = can_be_asked, True
        world.faults["commit 2"] = [error]
        with pytest.raises((GlobalUnitInDoubt, KeyboardInterrupt)), world.begin() as unit:
            pass
        assert world.since("commit 2") == ["leave 2", *(f"leave {each}" for each in later), f"later: {later}"]
        assert unit.state == "unknown"


def test_a_last_agent_that_was_never_asked_is_left_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(last=True)
    fail_at(monkeypatch, points.LEFT_TO_LAST, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), world.begin() as unit:
        pass
    assert "commit 2" not in world.events
    assert world.events[-1] == "later: ['0', '1', '2']"
    assert unit.state == "unknown"


def test_a_queue_manager_that_cannot_be_told_of_the_last_agents_commit_is_told_later() -> None:
    world = World(last=True)
    world.faults["resolve"] = [ConnectFailed("mq://there", "nobody answers")]
    with pytest.raises(GlobalUnitInDoubt), world.begin() as unit:
        pass
    assert world.since("commit 2") == [
        *("resolve: True", "tell later: True", "leave 0", "leave 1", "later: ['0', '1']")
    ]
    assert unit.state == "unknown"


@pytest.mark.parametrize(
    ("outcomes", "tries"), [([lost(), "committed"], 1), (["unknown"], 1), (["in doubt", "committed"], 2)], ids=repr
)
def test_a_lost_telling_is_asked_for_and_repeated(outcomes: list[Any], tries: int) -> None:
    world = World(last=True)
    world.faults["resolve"] = [lost(), lost()]
    world.outcomes = outcomes
    with world.begin() as unit:
        pass
    assert world.events.count("resolve: True") == tries
    assert (unit.state, world.events[-1]) == ("committed", f"finish: ['{UNIT}-0', '{UNIT}-1']")


@pytest.mark.parametrize(
    ("outcomes", "tries"), [(["in doubt"], 3), ([ConnectFailed("mq://there", "nobody answers")], 1)], ids=repr
)
def test_a_telling_that_is_always_lost_is_left_to_recovery(outcomes: list[Any], tries: int) -> None:
    world = World(last=True)
    world.faults["resolve"] = [lost()] * 9
    world.outcomes = outcomes
    with pytest.raises(GlobalUnitInDoubt), world.begin():
        pass
    assert world.events.count("resolve: True") == tries
    assert world.events[-4:] == ["tell later: True", "leave 0", "leave 1", "later: ['0', '1']"]


def test_a_unit_that_recovery_has_resolved_meanwhile_is_committed() -> None:
    world = World(last=True)
    world.faults["resolve"] = [UnitNotInDoubt("00")]
    with world.begin() as unit:
        pass
    assert "told 2" not in world.events, "its row belongs to whoever was faster"
    assert (unit.state, world.events[-1]) == ("committed", f"finish: ['{UNIT}-0', '{UNIT}-1']")


def test_an_interrupt_behind_the_last_agents_commit_undoes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(last=True)
    fail_at(monkeypatch, points.LAST_COMMITTED, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), world.begin() as unit:
        pass
    assert world.since("commit 2") == ["leave 0", "leave 1", "later: ['0', '1']"]
    assert unit.state == "unknown"


# --- behind the decision -------------------------------------------------------------------------


def test_a_branch_whose_connection_broke_is_committed_by_another() -> None:
    world = World()
    world.faults["commit 0"] = [refused()]
    with world.begin() as unit:
        pass
    assert world.since("commit 0") == [*("leave 0", "recommit 0", "commit 1", f"finish: ['{UNIT}-0', '{UNIT}-1']")]
    assert unit.unfinished == []


def test_a_branch_that_cannot_be_committed_now_is_tried_thrice_and_left_to_recovery(pauses: list[float]) -> None:
    world = World()
    world.faults["commit 0"] = [refused()]
    world.faults["recommit 0"] = [refused(), ConnectFailed("db", "no"), ConnectFailed("db", "nobody answers")]
    with world.begin() as unit:
        pass
    assert world.since("leave 0") == [
        *["recommit 0"] * 3,
        *("commit 1", f"finish: ['{UNIT}-1']", "later: ['0']"),
    ]
    ((resource, branch_id, problem),) = [(each.resource, each.branch_id, each.problem) for each in unit.unfinished]
    assert (resource, branch_id) == ("0", f"{UNIT}-0")
    assert "nobody answers" in problem
    assert (unit.state, pauses) == ("committed", [0.3] * 3)


def test_a_branch_that_has_ended_otherwise_is_unfinished() -> None:
    world = World(two_phase=1)
    world.faults["commit 0"] = [refused()]
    world.ends["0"] = "backed out"
    with world.begin() as unit:
        pass
    assert [each.problem for each in unit.unfinished] == ["it is backed out there"]
    assert world.events[-2:] == ["recommit 0", "later: ['0']"], "and nothing is finished"


def test_a_queue_manager_that_does_not_hear_of_the_end_hears_it_from_recovery() -> None:
    world = World()
    world.faults["finish"] = [lost()]
    with world.begin() as unit:
        pass
    assert unit.state == "committed"


def test_an_interrupt_between_commits_undoes_nothing() -> None:
    world = World()
    world.faults["commit 0"] = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        world.begin().commit()
    assert world.since("commit 0") == ["leave 0", "later: ['0']", "leave 1", "later: ['1']"]
    assert world.unit.state == "committed"
