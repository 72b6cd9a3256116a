# SPDX-License-Identifier: Apache-2.0
"""Decisions in the engine: what is counted for their users, what a refused one leaves behind, who is told of which."""

from __future__ import annotations

import pytest

from entrepot.engine.recovery_log.record import Branch
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import (
    DiskFailed,
    DiskFull,
    LimitExceeded,
    LogFull,
    NotCoordinated,
    QueueManagerFailed,
    UnitBackedOut,
    UnitFinished,
    UserLimitReached,
)
from entrepot.limits import BRANCHES_MAX
from entrepot.message import Feedback, Message, Report
from unit.engine.coordinating import ROWS, SHOP, Coordinating, branches, ids


@pytest.fixture
def world() -> Coordinating:
    return Coordinating()


def decided(world: Coordinating, unit: Unit | None = None, user: str = "ann", count: int = 2) -> Unit:
    unit = unit or world.begun()
    world.settled(world.units.decide(unit, branches(unit, count), user))
    return unit


def left_to_last(world: Coordinating, user: str = "ann", number: int = 4711) -> Unit:
    """A unit with a branch of two phases, and one whose database decides."""
    unit = world.begun()
    world.settled(world.units.prepare(unit, [*branches(unit, 1), Branch(ROWS, "", number)], user))
    return unit


def resolve(world: Coordinating, unit: Unit, *, commit: bool, heuristic: bool = False) -> None:
    world.settled(world.in_doubt.resolve(unit.transaction_id, commit=commit, heuristic=heuristic))


# --- what is counted -----------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
def test_a_decision_counts_for_its_user_until_every_branch_knows_it(world: Coordinating, restarted: bool) -> None:
    unit = decided(world)
    if restarted:
        world.kill_and_start()
    assert (world.held(), world.units.owner(unit.transaction_id)) == (1, "ann")
    world.units.finish(unit.transaction_id, ids(unit, 0))
    assert world.held() == 1
    world.units.finish(unit.transaction_id, ids(unit, 1))
    assert (world.held(), world.units.owner(unit.transaction_id)) == (0, None)


def test_a_user_has_so_many_decisions_and_no_more(world: Coordinating) -> None:
    world.limit_users_to(1)
    decided(world)
    unit = world.begun(b"more")
    with pytest.raises(UserLimitReached):
        world.units.decide(unit, branches(unit), "ann", limited=True)
    assert world.held() == 1
    world.settled(world.units.decide(unit, branches(unit), "bob", limited=True))
    assert world.held("bob") == 1


def test_a_decision_counts_before_the_log_has_it(world: Coordinating) -> None:
    world.limit_users_to(1)
    first, second = world.begun(), world.begun()
    world.units.decide(first, branches(first), "ann", limited=True)
    with pytest.raises(UserLimitReached):
        world.units.decide(second, branches(second), "ann", limited=True)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_decided_counts_whatever_the_limit_is_now(world: Coordinating, restarted: bool) -> None:
    unit = left_to_last(world)
    world.limit_users_to(0)
    resolve(world, unit, commit=True)
    if restarted:
        world.kill_and_start()
    assert (world.held(), len(list(world.units.unfinished()))) == (1, 1)


@pytest.mark.parametrize("count", [0, 1])
def test_what_was_prepared_counts_after_a_restart_whatever_the_limit_is_now(world: Coordinating, count: int) -> None:
    unit = world.begun()
    world.settled(world.units.prepare(unit, branches(unit, count), "ann"))
    world.limit_users_to(0)
    world.restarted.checkpoints.take()  # where the limit stands before the unit
    world.kill_and_start()
    assert (world.held(), world.units.owner(unit.transaction_id)) == (1, "ann")


def test_a_decision_that_no_branch_waits_for_does_not_count(world: Coordinating) -> None:
    unit = world.begun()
    world.settled(world.units.decide(unit, [Branch(ROWS, "", 4711)], "ann"))
    assert (world.held(), world.units.outcome(unit.transaction_id)) == (0, "unknown")


def test_a_decision_that_is_forgotten_does_not_count(world: Coordinating) -> None:
    unit = decided(world)
    world.units.forget(unit.transaction_id)
    assert world.held() == 0
    world.kill_and_start()
    assert (world.held(), list(world.units.unfinished())) == (0, [])


def test_units_without_a_user_count_for_none(world: Coordinating) -> None:
    decided(world, user="")
    assert (world.held(""), world.held()) == (0, 0)


# --- what is refused -----------------------------------------------------------------------------


def test_a_decision_that_does_not_fit_is_refused_and_not_counted(world: Coordinating) -> None:
    unit = world.begun()
    wrong = [
        [Branch(SHOP, "somebody else's")],
        [Branch(SHOP, unit.transaction_id.decode())],
        branches(unit, 1) * 2,
        [Branch(ROWS, ""), Branch(ROWS, "")],
    ]
    for each in wrong:
        with pytest.raises(NotCoordinated):
            world.units.decide(unit, each, "ann")
        with pytest.raises(NotCoordinated):
            world.units.prepare(unit, each, "ann")
    for verb in (world.units.decide, world.units.prepare):
        with pytest.raises(LimitExceeded):
            verb(unit, branches(unit, BRANCHES_MAX + 1), "ann")
    assert (world.held(), unit.state.value) == (0, "active")


def test_a_unit_has_as_many_branches_as_may_be(world: Coordinating) -> None:
    unit = decided(world, count=BRANCHES_MAX)
    world.kill_and_start()
    assert [each.branch for each in world.units.unfinished()] == branches(unit, BRANCHES_MAX)


def test_only_a_global_unit_that_is_active_is_decided(world: Coordinating) -> None:
    local, ended = world.manager.begin(), decided(world)
    with pytest.raises(NotCoordinated, match="not global"):
        world.units.decide(local, branches(local))
    with pytest.raises(UnitFinished):
        world.units.decide(ended, branches(ended))


@pytest.mark.parametrize("error", [DiskFull("log"), DiskFailed("log", "it broke")], ids=repr)
def test_a_disk_that_has_no_room_backs_the_unit_out(
    world: Coordinating, monkeypatch: pytest.MonkeyPatch, error: DiskFull | DiskFailed
) -> None:
    unit = world.begun()
    world.refuse_room(monkeypatch, error)
    with pytest.raises(UnitBackedOut):
        world.units.decide(unit, branches(unit), "ann")
    assert (world.held(), unit.state.value) == (0, "backed out")


def test_a_disk_that_does_not_take_a_decision_backs_the_unit_out(world: Coordinating) -> None:
    world.put(b"got")
    unit = world.took()
    settlement = world.units.decide(unit, branches(unit), "ann")
    world.fill_disk()
    with pytest.raises(UnitBackedOut):
        world.settled(settlement)
    assert (world.held(), world.bodies()) == (0, [b"got"])
    assert world.units.outcome(unit.transaction_id) == "unknown"


def test_a_full_log_leaves_the_unit_active_and_as_it_was(world: Coordinating, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = world.begun(b"copied", queue="S")
    mend = world.refuse_room(monkeypatch, LogFull(0))
    for _ in range(2):
        with pytest.raises(LogFull):
            world.units.decide(unit, branches(unit), "ann")
        assert world.held() == 0
    mend()
    decided(world, unit)
    assert [message.body for message in world.on("C")] == [b"copied"], "once"


def test_room_is_asked_for_all_records_and_for_the_texts_of_each_branch(
    world: Coordinating, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit, empty = world.begun(b"12345"), world.units.begin()
    asked = world.asks_for_room(monkeypatch)
    world.units.decide(unit, branches(unit, 3))
    world.units.decide(empty, branches(empty, 3))
    # A message, the Decision, three branches; puts do not get at the last part of the log.
    (with_message, without) = asked
    record_bytes = without[0] // 4
    assert record_bytes >= 512
    assert without == (record_bytes * 4, True)
    assert with_message == (5 + record_bytes * 5, False)


def test_copies_and_reports_happen_with_the_decision(world: Coordinating) -> None:
    world.put_with_report(Report.DELIVERY)
    unit = world.took()
    world.manager.put("S", Message(b"copied"), persistent=True, unit=unit)
    decided(world, unit)
    assert [message.body for message in world.on("C")] == [b"copied"]
    assert [report.feedback for report in world.on("R")] == [Feedback.DELIVERY]


# --- outcomes ------------------------------------------------------------------------------------


def test_a_unit_is_active_until_the_log_has_its_end(world: Coordinating) -> None:
    deciding, preparing, ended = world.begun(), world.begun(), world.begun()
    names = [unit.transaction_id for unit in (deciding, preparing, ended)]
    settlements = [
        world.units.decide(deciding, branches(deciding)),
        world.units.prepare(preparing, branches(preparing)),
    ]
    world.manager.back_out(ended)
    assert [world.units.outcome(name) for name in names] == ["active", "active", "unknown"]
    world.manager.force()
    assert all(settlement is not None and settlement.done for settlement in settlements)
    assert [world.units.outcome(name) for name in names] == ["committed", "in doubt", "unknown"]


def test_a_queue_manager_that_has_failed_tells_and_takes_nothing(world: Coordinating) -> None:
    unit = decided(world)
    world.manager.fail(DiskFailed("log", "it broke"))
    name = unit.transaction_id
    for verb in (
        lambda: world.units.outcome(name),
        lambda: world.units.finish(name, ids(unit, 0)),
        lambda: world.units.met_otherwise(name, ids(unit, 0)[0], "backed out"),
        lambda: world.units.forget(name),
    ):
        with pytest.raises(QueueManagerFailed):
            verb()
    assert len(list(world.units.unfinished())) == 2


def test_users_and_resources_are_told_apart(world: Coordinating) -> None:
    anns, bobs = decided(world, user="ann"), decided(world, user="bob", count=1)
    found = {(each.transaction_id, each.user) for each in world.units.unfinished(SHOP)}
    assert found == {(anns.transaction_id, "ann"), (bobs.transaction_id, "bob")}
    assert {each.transaction_id for each in world.units.unfinished(user="ann")} == {anns.transaction_id}
    assert {each.transaction_id for each in world.units.unfinished(SHOP, "bob")} == {bobs.transaction_id}
    assert list(world.units.unfinished(ROWS)) == list(world.units.unfinished(user="")) == []


def test_units_that_wait_for_a_last_agent_are_told_apart_too(world: Coordinating) -> None:
    anns, bobs, lost = left_to_last(world), left_to_last(world, "bob", 1), left_to_last(world, number=0)
    both = [(anns.transaction_id, 4711), (bobs.transaction_id, 1)]
    assert list(world.units.undecided(ROWS)) == both
    assert list(world.units.undecided(ROWS, "ann")) == both[:1]
    assert list(world.units.undecided(ROWS, "bob")) == both[1:]
    assert list(world.units.undecided(SHOP)) == []
    assert world.units.owner(lost.transaction_id) == "ann"
    resolve(world, anns, commit=False)
    assert list(world.units.undecided(ROWS)) == both[1:]


@pytest.mark.parametrize("commit", [True, False])
def test_a_resolved_unit_is_forgotten_for_good_once_its_branches_know(world: Coordinating, commit: bool) -> None:
    """A restart reads of it in the log, where the checkpoint says nothing of it any more."""
    unit = left_to_last(world)
    resolve(world, unit, commit=commit)
    world.units.finish(unit.transaction_id, ids(unit, 0))
    world.restarted.checkpoints.take()
    world.kill_and_start()
    assert (world.held(), world.units.owner(unit.transaction_id)) == (0, None)
    assert world.units.outcome(unit.transaction_id) == "unknown"
    assert (world.units.since, list(world.in_doubt.units)) == ({}, [])
    assert world.bodies() == [b"x"] * commit


# --- what ended otherwise ------------------------------------------------------------------------


def test_a_branch_that_ended_otherwise_is_remembered_when_the_log_has_it(world: Coordinating) -> None:
    unit = decided(world)
    first, second = ids(unit, 0, 1)
    settlement = world.units.met_otherwise(unit.transaction_id, first, "backed out")
    assert world.units.heuristics_of(unit.transaction_id) == []
    world.settled(settlement)
    world.power_cut_and_start()
    assert [each.branch_id for each in world.units.heuristics_of(unit.transaction_id)] == [first]
    assert [each.branch.branch_id for each in world.units.unfinished()] == [second]
    world.settled(world.units.met_otherwise(unit.transaction_id, second, "unknown"))
    assert (list(world.units.unfinished()), world.held()) == ([], 0)


def test_what_ended_otherwise_gets_the_last_part_of_the_log_or_is_refused(
    world: Coordinating, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = decided(world)
    asked = world.asks_for_room(monkeypatch)
    world.settled(world.units.met_otherwise(unit.transaction_id, ids(unit, 0)[0], "backed out"))
    assert [reserved for _, reserved in asked] == [True]
    world.refuse_room(monkeypatch, LogFull(0))
    with pytest.raises(LogFull):
        world.units.met_otherwise(unit.transaction_id, ids(unit, 1)[0], "backed out")
    assert len(list(world.units.unfinished())) == 1


def test_a_disk_that_does_not_take_it_leaves_the_branch_unfinished(world: Coordinating) -> None:
    unit = decided(world)
    settlement = world.units.met_otherwise(unit.transaction_id, ids(unit, 0)[0], "backed out")
    world.fill_disk()
    with pytest.raises(DiskFull):
        world.settled(settlement)
    assert len(list(world.units.unfinished())) == 2


def test_only_what_was_decided_can_end_otherwise(world: Coordinating) -> None:
    unit = decided(world)
    for name, branch_id in ((unit.transaction_id, "another"), (b"another", ids(unit, 0)[0])):
        with pytest.raises(NotCoordinated):
            world.units.met_otherwise(name, branch_id, "backed out")


def test_to_forget_one_unit_leaves_the_others(world: Coordinating) -> None:
    first, second = decided(world), decided(world)
    for unit in (first, second):
        for branch_id in ids(unit, 0, 1):
            world.settled(world.units.met_otherwise(unit.transaction_id, branch_id, "backed out"))
    world.units.forget(first.transaction_id)
    with pytest.raises(NotCoordinated):
        world.units.forget(first.transaction_id)
    for _ in range(2):
        assert {name for name, _ in world.units.heuristics} == {second.transaction_id}
        assert len(world.units.heuristics_of(second.transaction_id)) == 2
        world.kill_and_start()


def test_a_coordinator_that_agrees_with_an_operator_leaves_what_the_branches_wait_for(world: Coordinating) -> None:
    unit = left_to_last(world)
    resolve(world, unit, commit=True, heuristic=True)
    assert world.in_doubt.resolve(unit.transaction_id, commit=True) is None
    assert world.units.outcome(unit.transaction_id) == "committed"
    world.units.finish(unit.transaction_id, ids(unit, 0))
    assert world.in_doubt.resolve(unit.transaction_id, commit=True) is None
    assert world.units.heuristics == {}
