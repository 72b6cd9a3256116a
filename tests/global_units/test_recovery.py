# SPDX-License-Identifier: Apache-2.0
"""What recovery does with each outcome, and that it goes on until nothing is left; no database takes part."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.client.blocking import global_unit
from entrepot.client.blocking.global_unit import GlobalUnitOfWork
from entrepot.engine.databases import recovery
from entrepot.engine.databases.recovery import Recoveries, recover
from entrepot.engine.recovery_log.record import Branch
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import ConnectFailed, ConnectionLost, GlobalUnitInDoubt, UnitBackedOut

UNIT = "entrepot-00-1-7"
BRANCH = f"{UNIT}-0"


class FakeCoordinator:
    """A queue manager that answers what the test has laid out, the last answer for ever."""

    def prefix(self) -> str:
        return "entrepot-00-"

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes_left = list(outcomes)
        self.asked = 0
        self.resolved: list[tuple[str, bool]] = []
        self.finished: list[str] = []

    def outcomes(self, units: list[str]) -> list[str]:
        self.asked += 1
        outcome = self.outcomes_left.pop(0) if len(self.outcomes_left) > 1 else self.outcomes_left[0]
        if isinstance(outcome, Exception):
            raise outcome
        return [outcome[unit] if isinstance(outcome, dict) else outcome for unit in units]

    def unfinished(self, _: str) -> list[Any]:
        return []

    def finish(self, unit: str, _: list[str]) -> None:
        self.finished.append(unit)

    def resolve(self, unit: str, *, commit: bool) -> None:
        self.resolved.append((unit, commit))

    def decide(self, *_: object, **__: object) -> None:
        raise ConnectionLost("mq://there", "it broke")


class FakeResource:
    """A database with some prepared branches."""

    name = "postgresql://db/shop"
    two_phase = True

    def __init__(self, *prepared: str) -> None:
        self.left = list(prepared)
        self.rolled_back: list[str] = []
        self.committed: list[str] = []
        self.checks = 0

    def check(self) -> None:
        self.checks += 1

    def prepared(self, _: str) -> list[str]:
        return list(self.left)

    def roll_back(self, branch_id: str) -> None:
        self.left.remove(branch_id)
        self.rolled_back.append(branch_id)

    def commit(self, branch: Branch) -> str:
        self.left.remove(branch.branch_id)
        self.committed.append(branch.branch_id)
        return "committed"


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_BACKGROUND_S", 0.0)
    monkeypatch.setattr(recovery, "_BACKGROUND_S_MAX", 0.0)
    monkeypatch.setattr(global_unit, "_ASK_AGAIN_S", 0.0)


def ended(recoveries: Recoveries) -> None:
    """Wait for the thread that goes on beside the program."""
    thread = recoveries._thread
    if thread is not None:
        thread.join(30)
        assert not thread.is_alive()


def test_only_what_was_decided_or_never_will_be_is_ended() -> None:
    outcomes = {"entrepot-00-1-1": "active", "entrepot-00-1-2": "in doubt"}
    outcomes |= {"entrepot-00-1-3": "unknown", "entrepot-00-1-4": "committed"}
    resource = FakeResource(*(f"{unit}-0" for unit in outcomes))
    left = recover(resource, FakeCoordinator(outcomes), "entrepot-00-")  # type: ignore[arg-type]
    assert resource.rolled_back == ["entrepot-00-1-3-0"]
    assert resource.committed == ["entrepot-00-1-4-0"]
    assert left == {"entrepot-00-1-1", "entrepot-00-1-2"}


@pytest.mark.usefixtures("at_once")
def test_recovery_goes_on_until_nothing_of_the_unit_is_left() -> None:
    coordinator = FakeCoordinator("active", ConnectionLost("mq://there", "it broke"), "in doubt", "committed")
    resource = FakeResource(BRANCH)
    recoveries = Recoveries(lambda: coordinator)  # type: ignore[arg-type,return-value]
    recoveries.later([resource], UNIT)  # type: ignore[list-item]
    ended(recoveries)
    assert (resource.committed, resource.left, coordinator.asked) == ([BRANCH], [], 4)
    assert recoveries._pending == {}


@pytest.mark.usefixtures("at_once")
def test_a_verdict_is_told_when_the_unit_is_in_doubt_and_not_while_it_is_active() -> None:
    """Its connection has broken, and the queue manager does not know that yet."""
    coordinator = FakeCoordinator("active", "active", "in doubt")
    recoveries = Recoveries(lambda: coordinator)  # type: ignore[arg-type,return-value]
    recoveries.tell_later(UNIT, commit=True)
    ended(recoveries)
    assert (coordinator.asked, coordinator.resolved) == (3, [(UNIT, True)])


def test_a_database_is_looked_after_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = FakeCoordinator("unknown")
    resource = FakeResource(BRANCH)
    recoveries = Recoveries(lambda: coordinator)  # type: ignore[arg-type,return-value]
    recoveries.before_use(resource)  # type: ignore[arg-type]
    assert resource.rolled_back == [BRANCH]
    resource.left = [BRANCH]
    recoveries.before_use(resource)  # type: ignore[arg-type]
    assert resource.left == [BRANCH], "not with every unit"
    monkeypatch.setattr(recovery, "_AGAIN_S", 0.0)
    recoveries.before_use(resource)  # type: ignore[arg-type]
    assert resource.left == []
    assert resource.checks == 1


class FakeRecoveries:
    def __init__(self) -> None:
        self.later_for: list[tuple[list[Any], str]] = []

    def later(self, resources: list[Any], unit: str) -> None:
        self.later_for.append((resources, unit))


class FakeBranch:
    def __init__(self) -> None:
        self.resource = FakeResource(BRANCH)
        self.was_left = False

    def leave(self) -> None:
        self.was_left = True


def unit_whose_connection_breaks(*outcomes: Any) -> tuple[GlobalUnitOfWork, FakeCoordinator, FakeRecoveries]:
    coordinator, recoveries = FakeCoordinator(*outcomes), FakeRecoveries()
    local = SimpleNamespace(remote=SimpleNamespace(number=7, state=UnitState.ACTIVE))
    unit = GlobalUnitOfWork(local, UNIT, coordinator, [], recoveries, lambda _: None)  # type: ignore[arg-type]
    return unit, coordinator, recoveries


@pytest.mark.usefixtures("at_once")
def test_active_is_no_outcome_so_the_queue_manager_is_asked_again() -> None:
    """It has not noticed yet that the connection broke; its decision may be under way."""
    unit, coordinator, _ = unit_whose_connection_breaks("active", "active", "committed")
    unit._decide([], [])
    assert (unit.state, coordinator.asked) == ("committed", 3)

    unit, coordinator, _ = unit_whose_connection_breaks("active", "unknown")
    with pytest.raises(UnitBackedOut):
        unit._decide([], [])
    assert (unit.state, coordinator.asked) == ("backed out", 2)


@pytest.mark.usefixtures("at_once")
def test_a_unit_that_stays_active_or_cannot_be_asked_about_is_left_to_recovery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(global_unit, "_ASK_S", 0.0)
    for outcome in ("active", ConnectFailed("mq://there", "nobody answers")):
        unit, _, recoveries = unit_whose_connection_breaks(outcome)
        branch = FakeBranch()
        with pytest.raises(GlobalUnitInDoubt):
            unit._decide([branch], [])  # type: ignore[list-item]
        assert unit.state == "unknown"
        assert branch.was_left
        assert recoveries.later_for == [([branch.resource], UNIT)]
