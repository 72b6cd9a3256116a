# SPDX-License-Identifier: Apache-2.0
"""What recovery does at a database and tells the queue manager, round by round; neither of them is real here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from entrepot.engine.databases import recovery
from entrepot.engine.databases.recovery import Recoveries, recover, sweep
from entrepot.engine.databases.resource import OnePhase, Resource
from entrepot.engine.databases.sqlite import SQLite
from entrepot.engine.global_units import UnfinishedDecision
from entrepot.engine.recovery_log.record import Branch
from entrepot.errors import ConnectionClosed, ConnectionLost, DatabaseUnavailable, HeuristicOutcome, UnitNotInDoubt
from unit.engine.databases.by_hand import Threads

PREFIX = "entrepot-00-"
UNIT = f"{PREFIX}1-7"
BRANCH = f"{UNIT}-0"


class FakeCoordinator:
    """A queue manager that knows some outcomes; all others are unknown to it."""

    def prefix(self) -> str:
        return PREFIX

    def __init__(self, **outcomes: str) -> None:
        self.known = {f"{PREFIX}1-{name.removeprefix('u')}": outcome for name, outcome in outcomes.items()}
        self.decided: list[Branch] = []
        self.waiting: list[tuple[str, int]] = []
        self.told: list[tuple[Any, ...]] = []
        """What recovery has told it."""
        self.errors: list[Exception] = []
        """What the next questions for outcomes, and the next tellings, meet."""

    def _meet(self) -> None:
        if self.errors:
            raise self.errors.pop(0)

    def outcomes(self, units: list[str]) -> list[str]:
        self._meet()
        return [self.known.get(unit, "unknown") for unit in units]

    def unfinished(self, resource: str) -> list[UnfinishedDecision]:
        return [UnfinishedDecision(b"", branch, "") for branch in self.decided if branch.resource == resource]

    def undecided(self, _: str) -> list[tuple[str, int]]:
        return self.waiting

    def finish(self, unit: str, branch_ids: list[str]) -> None:
        self.told.append(("finish", unit, *branch_ids))

    def met_otherwise(self, unit: str, branch_id: str, outcome: str) -> None:
        self.told.append(("met", unit, branch_id, outcome))

    def resolve(self, unit: str, *, commit: bool) -> None:
        self._meet()
        self.told.append(("resolve", unit, commit))


class TwoPhase(Resource):
    """A database with some prepared branches."""

    def __init__(self, *prepared: str, end: str = "committed") -> None:
        self.name = "postgresql://db/shop"
        self.left = list(prepared)
        self.end = end
        self.done: list[tuple[Any, ...]] = []
        self.errors: list[Exception] = []

    def check(self) -> None:
        self.done.append(("check",))
        if self.errors:
            raise self.errors.pop(0)

    def prepared(self, prefix: str) -> list[str]:
        if self.errors:
            raise self.errors.pop(0)
        return [name for name in self.left if name.startswith(prefix)]

    def roll_back(self, branch_id: str) -> None:
        self.left.remove(branch_id)
        self.done.append(("roll back", branch_id))

    def commit(self, branch: Branch) -> Any:
        self.left.remove(branch.branch_id)
        self.done.append(("commit", branch))
        return self.end

    def ended(self, branch: Branch) -> Any:
        self.done.append(("ended", branch))
        return self.end


class Remembering(SQLite):
    """A database with one phase that has committed some units."""

    def __init__(self, *committed: str) -> None:
        self.name = "sqlite:////rows.db"
        self.committed = set(committed)
        self.rows = list(committed)
        self.done: list[tuple[Any, ...]] = []

    def check(self) -> None:
        self.done.append(("check",))

    def identity(self) -> int:
        return 4711

    def settle(self, transaction_ids: Any) -> dict[str, bool]:
        self.done.append(("settle", *transaction_ids))
        return {unit: unit in self.committed for unit in transaction_ids}

    def told(self, transaction_id: str) -> None:
        self.done.append(("told", transaction_id))

    def remembered(self, prefix: str) -> list[str]:
        return [row for row in self.rows if row.startswith(prefix)]

    def forget(self, transaction_ids: Any) -> None:
        self.rows = [row for row in self.rows if row not in set(transaction_ids)]


class Forgetful(OnePhase):
    def __init__(self) -> None:
        self.name = "mssql://db/shop"

    def check(self) -> None:
        pass


def recovered(resource: Resource, coordinator: FakeCoordinator) -> set[str]:
    return recover(resource, coordinator, PREFIX)  # type: ignore[arg-type]


def broken() -> OperationalError:
    return OperationalError("SELECT", {}, Exception("the server is gone"))


# --- one look at a database ----------------------------------------------------------------------


def test_each_prepared_branch_follows_its_unit() -> None:
    coordinator = FakeCoordinator(u1="active", u2="in doubt", u4="committed")
    resource = TwoPhase(*(f"{PREFIX}1-{number}-0" for number in (1, 2, 3, 4)))
    assert recovered(resource, coordinator) == {f"{PREFIX}1-1", f"{PREFIX}1-2"}
    assert resource.left == [f"{PREFIX}1-1-0", f"{PREFIX}1-2-0"]
    committed = Branch(resource.name, f"{PREFIX}1-4-0")
    assert resource.done == [("roll back", f"{PREFIX}1-3-0"), ("commit", committed)]
    assert coordinator.told == [("finish", f"{PREFIX}1-4", f"{PREFIX}1-4-0")]


def test_a_decided_branch_is_committed_with_the_number_that_the_decision_has() -> None:
    coordinator = FakeCoordinator(u7="committed")
    coordinator.decided = [Branch(TwoPhase().name, BRANCH, 700)]
    resource = TwoPhase(BRANCH)
    recovered(resource, coordinator)
    assert resource.done == [("commit", coordinator.decided[0])], "and not asked for besides"


@pytest.mark.parametrize(("end", "told"), [("committed", "finish"), ("backed out", "met"), ("unknown", "met")])
@pytest.mark.parametrize("is_prepared", [True, False])
def test_the_queue_manager_learns_how_a_decided_branch_has_ended(end: str, told: str, is_prepared: bool) -> None:
    coordinator = FakeCoordinator(u7="committed")
    coordinator.decided = [Branch(TwoPhase().name, BRANCH, 700)]
    resource = TwoPhase(*[BRANCH] * is_prepared, end=end)
    assert recovered(resource, coordinator) == set()
    assert resource.done == [("commit" if is_prepared else "ended", coordinator.decided[0])]
    assert coordinator.told == [(told, UNIT, BRANCH, *[end] * (told == "met"))]


@pytest.mark.parametrize("resource", [TwoPhase(BRANCH), Remembering(*(f"{PREFIX}1-{n}" for n in range(200)))])
def test_answers_that_do_not_fit_the_question_end_nothing(resource: Any) -> None:
    coordinator = FakeCoordinator()
    coordinator.outcomes = lambda units: ["unknown"] * (len(units) + 1)  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="longer"):
        recovered(resource, coordinator) if resource.two_phase else sweep(resource, coordinator, PREFIX)  # type: ignore[arg-type]
    assert resource.done == []


def test_a_database_that_remembers_nothing_is_not_asked() -> None:
    assert recovered(Forgetful(), FakeCoordinator()) == set()


# --- a last agent is asked -----------------------------------------------------------------------


def test_a_last_agent_decides_the_units_that_wait_for_it() -> None:
    coordinator = FakeCoordinator()
    coordinator.waiting = [(f"{PREFIX}1-1", 4711), (f"{PREFIX}1-2", 4711), (f"{PREFIX}1-3", 1)]
    resource = Remembering(f"{PREFIX}1-1", f"{PREFIX}1-3")
    assert recovered(resource, coordinator) == set()
    assert coordinator.told == [("resolve", f"{PREFIX}1-1", True), ("resolve", f"{PREFIX}1-2", False)]
    assert resource.done == [
        ("settle", f"{PREFIX}1-1", f"{PREFIX}1-2"),
        ("told", f"{PREFIX}1-1"),
        ("told", f"{PREFIX}1-2"),
    ]


@pytest.mark.parametrize("waiting", [[], [(UNIT, 1)]])
def test_a_last_agent_for_which_no_unit_waits_is_left_alone(waiting: list[tuple[str, int]]) -> None:
    """To settle takes the write lock."""
    coordinator = FakeCoordinator()
    coordinator.waiting = waiting
    resource = Remembering()
    recovered(resource, coordinator)
    assert (resource.done, coordinator.told) == ([], [])


@pytest.mark.parametrize("error", [UnitNotInDoubt("00"), HeuristicOutcome("00", "committed", "backed out")])
def test_a_unit_that_somebody_else_has_ended_is_passed_over(error: Exception) -> None:
    coordinator = FakeCoordinator()
    coordinator.waiting = [(f"{PREFIX}1-1", 4711), (f"{PREFIX}1-2", 4711)]
    coordinator.errors = [error]
    resource = Remembering()
    recovered(resource, coordinator)
    assert coordinator.told == [("resolve", f"{PREFIX}1-2", False)]
    assert ("told", f"{PREFIX}1-1") not in resource.done


def test_a_queue_manager_that_cannot_be_told_is_told_the_next_time() -> None:
    coordinator = FakeCoordinator()
    coordinator.waiting = [(UNIT, 4711)]
    coordinator.errors = [ConnectionLost("mq://there", "it broke")]
    resource = Remembering(UNIT)
    with pytest.raises(ConnectionLost):
        recovered(resource, coordinator)
    assert ("told", UNIT) not in resource.done
    recovered(resource, coordinator)
    assert coordinator.told == [("resolve", UNIT, True)]


def test_many_rows_of_units_that_have_ended_are_swept() -> None:
    coordinator = FakeCoordinator(u0="active", u1="in doubt", u2="committed")
    resource = Remembering(*(f"{PREFIX}1-{number}" for number in range(101)), "entrepot-01-1-1")
    sweep(resource, coordinator, PREFIX)  # type: ignore[arg-type]
    assert resource.rows == [f"{PREFIX}1-0", f"{PREFIX}1-1", "entrepot-01-1-1"]


def test_few_rows_do_no_harm() -> None:
    resource = Remembering(*(f"{PREFIX}1-{number}" for number in range(100)))
    sweep(resource, FakeCoordinator(), PREFIX)  # type: ignore[arg-type]
    assert len(resource.rows) == 100


# --- before use ----------------------------------------------------------------------------------


def recoveries_of(coordinator: FakeCoordinator) -> Recoveries:
    return Recoveries(lambda: coordinator)  # type: ignore[arg-type,return-value]


def test_a_database_is_checked_once_and_looked_after_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(recovery, "time", SimpleNamespace(monotonic=lambda: now[0]))
    resource, recoveries = TwoPhase(BRANCH), recoveries_of(FakeCoordinator())
    recoveries.before_use(resource)
    assert resource.done == [("check",), ("roll back", BRANCH)]
    resource.left = [BRANCH]
    now[0] += 4.9
    recoveries.before_use(resource)
    assert resource.left == [BRANCH]
    now[0] += 0.2
    recoveries.before_use(resource)
    assert resource.left == []
    assert resource.done.count(("check",)) == 1


def test_rows_are_swept_at_the_first_use_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_AGAIN_S", 0.0)
    resource, recoveries = Remembering(*(f"{PREFIX}1-{n}" for n in range(101))), recoveries_of(FakeCoordinator())
    recoveries.before_use(resource)
    assert resource.rows == []
    resource.rows = [f"{PREFIX}1-{n}" for n in range(101)]
    recoveries.before_use(resource)
    assert len(resource.rows) == 101


def test_a_database_that_cannot_take_part_is_told_every_time() -> None:
    resource, recoveries = TwoPhase(), recoveries_of(FakeCoordinator())
    for _ in range(2):
        resource.errors = [DatabaseUnavailable(resource.name, "it is down")]
        with pytest.raises(DatabaseUnavailable):
            recoveries.before_use(resource)
    assert resource.done == [("check",), ("check",)]


def test_a_database_that_was_of_use_already_need_not_be_looked_after_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_AGAIN_S", 0.0)
    resource, recoveries = TwoPhase(), recoveries_of(FakeCoordinator())
    recoveries.before_use(resource)
    resource.errors = [DatabaseUnavailable(resource.name, "it is down")]
    recoveries.before_use(resource)
    recoveries.before_use(resource)
    assert resource.done == [("check",), ("check",)], "after a failure it is checked anew"


def test_what_cannot_be_ended_now_keeps_nobody_from_a_unit(caplog: pytest.LogCaptureFixture) -> None:
    resource, recoveries = TwoPhase(), recoveries_of(FakeCoordinator())
    resource.prepared = lambda prefix: _fail()  # type: ignore[method-assign]
    recoveries.before_use(resource)
    assert "not ended yet: the server is gone" in caplog.text


def _fail() -> list[str]:
    raise broken()


# --- beside the program --------------------------------------------------------------------------


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    threads = Threads()
    monkeypatch.setattr(recovery, "threading", threads.module())
    return threads


def test_recovery_goes_on_until_the_unit_has_ended_everywhere(threads: Threads) -> None:
    coordinator = FakeCoordinator(u7="active")
    steps = iter(["active", "in doubt", "committed", "committed"])
    threads.in_pause = lambda: coordinator.known.update({UNIT: next(steps)})
    resource, recoveries = TwoPhase(BRANCH), recoveries_of(coordinator)
    recoveries.later([resource], UNIT)
    threads.run()
    assert (resource.left, len(threads.pauses)) == ([], 3)
    recoveries.later([resource], UNIT)
    assert len(threads.started) == 1, "another one, for what comes later"


def test_recovery_survives_errors_and_is_no_hurry(threads: Threads) -> None:
    coordinator = FakeCoordinator(u7="committed")
    coordinator.errors = [ConnectionLost("mq://there", "it broke")] * 8
    resource, recoveries = TwoPhase(BRANCH), recoveries_of(coordinator)
    resource.errors = [broken()]
    recoveries.later([resource], UNIT)
    threads.run()
    assert resource.left == []
    assert threads.pauses[:3] == [0.5, 0.75, 1.125]
    assert (len(threads.pauses), threads.pauses[-1]) == (10, 5.0)


def test_one_thread_does_everything_and_keeps_no_process_alive(threads: Threads) -> None:
    first, second = TwoPhase(BRANCH), TwoPhase(f"{UNIT}-1")
    recoveries = recoveries_of(FakeCoordinator(u8="in doubt"))
    recoveries.later([first], UNIT)
    recoveries.later([second], UNIT)
    recoveries.tell_later(f"{PREFIX}1-8", commit=True)
    assert [thread.daemon for thread in threads.started] == [True]
    threads.run()
    assert (first.left, second.left) == ([], [])


def test_a_last_agent_that_remembers_is_asked_beside_the_program(threads: Threads) -> None:
    coordinator = FakeCoordinator()
    coordinator.waiting = [(UNIT, 4711)]
    recoveries = recoveries_of(coordinator)
    recoveries.later([Remembering(UNIT)], UNIT)
    threads.run()
    assert coordinator.told == [("resolve", UNIT, True)]


def test_for_a_database_that_remembers_nothing_no_thread_is_started(threads: Threads) -> None:
    recoveries_of(FakeCoordinator()).later([Forgetful()], UNIT)
    assert threads.started == []


@pytest.mark.parametrize("commit", [True, False])
def test_a_verdict_waits_until_the_unit_is_in_doubt(threads: Threads, commit: bool) -> None:
    coordinator = FakeCoordinator(u7="active")
    steps = iter(["active", "active", "in doubt"])
    threads.in_pause = lambda: coordinator.known.update({UNIT: next(steps)})
    recoveries_of(coordinator).tell_later(UNIT, commit=commit)
    threads.run()
    assert (coordinator.told, len(threads.pauses)) == ([("resolve", UNIT, commit)], 3)


@pytest.mark.parametrize("outcome", ["committed", "unknown"])
def test_a_verdict_about_a_unit_that_has_ended_is_dropped(threads: Threads, outcome: str) -> None:
    coordinator = FakeCoordinator(u7=outcome)
    recoveries_of(coordinator).tell_later(UNIT, commit=True)
    threads.run()
    assert (coordinator.told, len(threads.pauses)) == ([], 1)


def test_a_closed_connection_ends_recovery_for_good(threads: Threads) -> None:
    coordinator = FakeCoordinator(u7="committed")
    coordinator.errors = [ConnectionClosed()]
    recoveries = recoveries_of(coordinator)
    recoveries.later([TwoPhase(BRANCH)], UNIT)
    threads.run()
    recoveries.tell_later(UNIT, commit=True)
    assert (threads.started, len(threads.pauses)) == ([], 1)


def test_close_wakes_the_thread_and_lets_none_begin(threads: Threads) -> None:
    recoveries = recoveries_of(FakeCoordinator(u7="active"))
    recoveries.later([TwoPhase(BRANCH)], UNIT)
    recoveries.close()
    threads.run()
    assert threads.pauses == []
    recoveries.later([TwoPhase(BRANCH)], UNIT)
    assert threads.started == []
