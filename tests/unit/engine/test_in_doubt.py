# SPDX-License-Identifier: Apache-2.0
"""Prepared units: who may prepare under which id, what is counted and kept, and that every end is final."""

from __future__ import annotations

import pytest

from entrepot.engine.unit_of_work import Unit
from entrepot.errors import (
    DiskFailed,
    DiskFull,
    HeuristicOutcome,
    LimitExceeded,
    LogFull,
    QueueManagerFailed,
    TransactionIdInUse,
    UnitBackedOut,
    UnitFinished,
    UnitNotInDoubt,
    UserLimitReached,
)
from entrepot.limits import TRANSACTION_ID_BYTES_MAX
from entrepot.message import Feedback, Message, Report
from unit.engine.coordinating import Coordinating, branches

ID = b"foreign"


@pytest.fixture
def world() -> Coordinating:
    return Coordinating()


def prepared(world: Coordinating, unit: Unit | None = None, transaction_id: bytes = ID, user: str = "ann") -> Unit:
    unit = unit or world.begun()
    world.settled(world.in_doubt.prepare(unit, transaction_id, user=user))
    return unit


def resolve(world: Coordinating, *, commit: bool, heuristic: bool = False) -> None:
    world.settled(world.in_doubt.resolve(ID, commit=commit, heuristic=heuristic))


# --- ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, TRANSACTION_ID_BYTES_MAX + 1])
def test_an_id_that_is_empty_or_too_long_is_refused(world: Coordinating, size: int) -> None:
    with pytest.raises(LimitExceeded):
        world.in_doubt.prepare(world.begun(), b"x" * size)


@pytest.mark.parametrize("size", [1, TRANSACTION_ID_BYTES_MAX])
def test_the_shortest_and_the_longest_id_will_do(world: Coordinating, size: int) -> None:
    prepared(world, transaction_id=b"x" * size)
    world.kill_and_start()
    assert list(world.in_doubt.units) == [b"x" * size]


def test_an_id_serves_one_unit_at_a_time(world: Coordinating) -> None:
    settlement = world.in_doubt.prepare(world.begun(), ID)
    with pytest.raises(TransactionIdInUse):
        world.in_doubt.prepare(world.begun(), ID)
    world.settled(settlement)
    with pytest.raises(TransactionIdInUse):
        world.in_doubt.prepare(world.begun(), ID)
    resolve(world, commit=True)
    prepared(world)


def test_an_id_of_a_global_unit_is_for_that_unit_only(world: Coordinating) -> None:
    unit, other = world.begun(), world.begun()
    for wrong in (unit.transaction_id, world.units.prefix):
        with pytest.raises(TransactionIdInUse):
            world.in_doubt.prepare(other, wrong)
        with pytest.raises(TransactionIdInUse):
            world.in_doubt.prepare(world.manager.begin(), wrong)
    prepared(world, unit, unit.transaction_id)
    assert unit.transaction_id in world.in_doubt.units


def test_a_unit_that_has_ended_cannot_be_prepared(world: Coordinating) -> None:
    unit = world.begun()
    world.manager.back_out(unit)
    with pytest.raises(UnitFinished):
        world.in_doubt.prepare(unit, ID)


# --- preparing -----------------------------------------------------------------------------------


def test_a_prepared_unit_counts_for_its_user_until_it_is_resolved(world: Coordinating) -> None:
    prepared(world)
    assert (world.held(), world.units.owner(ID)) == (1, "ann")
    world.kill_and_start()
    assert (world.held(), world.units.owner(ID)) == (1, "ann")
    resolve(world, commit=False)
    assert (world.held(), world.units.owner(ID), ID in world.units.since) == (0, None, False)


def test_a_user_has_so_many_prepared_units_and_no_more(world: Coordinating) -> None:
    world.limit_users_to(1)
    prepared(world)
    unit = world.begun(b"more")
    with pytest.raises(UserLimitReached):
        world.in_doubt.prepare(unit, b"other", user="ann", limited=True)
    world.settled(world.in_doubt.prepare(unit, b"other", user="bob", limited=True))
    assert (world.held("ann"), world.held("bob")) == (1, 1)


def test_what_was_prepared_counts_after_a_restart_whatever_the_limit_is_now(world: Coordinating) -> None:
    prepared(world)
    world.limit_users_to(0)
    world.kill_and_start()
    assert world.held() == 1


def test_copies_and_reports_happen_when_the_unit_is_resolved(world: Coordinating) -> None:
    world.put_with_report(Report.DELIVERY)
    unit = world.took()
    world.manager.put("S", Message(b"copied"), persistent=True, unit=unit)
    prepared(world, unit)
    assert (world.on("C"), world.on("R")) == ([], [])
    resolve(world, commit=True)
    assert [message.body for message in world.on("C")] == [b"copied"]
    assert [report.feedback for report in world.on("R")] == [Feedback.DELIVERY]


def test_room_is_asked_for_all_records_and_for_the_texts_of_each_branch(
    world: Coordinating, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit, empty = world.begun(b"12345"), world.units.begin()
    asked = world.asks_for_room(monkeypatch)
    world.units.prepare(unit, branches(unit, 3))
    world.units.prepare(empty, branches(empty, 3))
    # A message, the Prepare, three branches; puts do not get at the last part of the log.
    (first, second) = asked
    assert first == (5 + _record_bytes(second[0]) * 5, False)
    assert second[1] is True


def _record_bytes(size: int) -> int:
    """Of a unit with nothing but a Prepare and three branches."""
    each, rest = divmod(size, 4)
    assert rest == 0
    assert each >= 512
    return each


def test_a_full_log_leaves_the_unit_active_and_as_it_was(world: Coordinating, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = world.begun(b"copied", queue="S")
    mend = world.refuse_room(monkeypatch, LogFull(0))
    for _ in range(2):
        with pytest.raises(LogFull):
            world.in_doubt.prepare(unit, ID, user="ann")
        assert world.held() == 0
    mend()
    prepared(world, unit)
    resolve(world, commit=True)
    assert [message.body for message in world.on("C")] == [b"copied"], "once"


@pytest.mark.parametrize("error", [DiskFull("log"), DiskFailed("log", "it broke")], ids=repr)
def test_a_disk_that_has_no_room_backs_the_unit_out(
    world: Coordinating, monkeypatch: pytest.MonkeyPatch, error: DiskFull | DiskFailed
) -> None:
    world.put(b"got")
    unit = world.took()
    world.refuse_room(monkeypatch, error)
    with pytest.raises(UnitBackedOut):
        world.in_doubt.prepare(unit, ID, user="ann")
    assert (world.held(), unit.state.value) == (0, "backed out")


def test_a_disk_that_does_not_take_it_backs_the_unit_out(world: Coordinating) -> None:
    world.put(b"got")
    unit = world.took()
    settlement = world.in_doubt.prepare(unit, ID, user="ann")
    world.fill_disk()
    with pytest.raises(UnitBackedOut):
        world.settled(settlement)
    assert (world.held(), world.bodies(), list(world.in_doubt.units)) == (0, [b"got"], [])
    prepared(world)  # the id is free again


# --- resolving -----------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize(("commit", "bodies"), [(True, [b"x"]), (False, [b"got"])])
def test_a_resolved_unit_has_happened_or_not(
    world: Coordinating, commit: bool, bodies: list[bytes], restarted: bool
) -> None:
    world.put(b"got")
    unit = world.took()
    world.manager.put("Q", Message(b"x"), persistent=True, unit=unit)
    prepared(world, unit)
    if restarted:
        world.kill_and_start()
    assert world.bodies() == []
    resolve(world, commit=commit)
    assert world.bodies() == bodies
    world.power_cut_and_start()
    assert (world.bodies(), list(world.in_doubt.units)) == (bodies, [])


def test_a_unit_is_resolved_once(world: Coordinating) -> None:
    with pytest.raises(UnitNotInDoubt):
        world.in_doubt.resolve(ID, commit=True)
    early = world.in_doubt.prepare(world.begun(), ID)
    with pytest.raises(UnitNotInDoubt):
        world.in_doubt.resolve(ID, commit=True)
    world.settled(early)
    settlement = world.in_doubt.resolve(ID, commit=True)
    for heuristic in (False, True):
        with pytest.raises(UnitNotInDoubt):
            world.in_doubt.resolve(ID, commit=False, heuristic=heuristic)
    world.settled(settlement)
    with pytest.raises(UnitNotInDoubt):
        world.in_doubt.resolve(ID, commit=True)


def test_a_disk_that_does_not_take_the_decision_leaves_the_unit_in_doubt(world: Coordinating) -> None:
    prepared(world)
    settlement = world.in_doubt.resolve(ID, commit=True)
    world.fill_disk()
    with pytest.raises(DiskFull):
        world.settled(settlement)
    assert (world.bodies(), list(world.in_doubt.units)) == ([], [ID])
    resolve(world, commit=True)
    assert world.bodies() == [b"x"]


def test_a_decision_gets_the_last_part_of_the_log_or_is_refused(
    world: Coordinating, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(world)
    asked = world.asks_for_room(monkeypatch)
    settlement = world.in_doubt.resolve(ID, commit=True)
    assert [reserved for _, reserved in asked] == [True]
    world.settled(settlement)
    prepared(world)
    world.refuse_room(monkeypatch, LogFull(0))
    with pytest.raises(LogFull):
        world.in_doubt.resolve(ID, commit=True)
    assert list(world.in_doubt.units) == [ID]


def test_an_operators_word_stands(world: Coordinating) -> None:
    prepared(world)
    resolve(world, commit=True, heuristic=True)
    with pytest.raises(HeuristicOutcome):
        world.in_doubt.resolve(ID, commit=False)
    with pytest.raises(UnitNotInDoubt):
        world.in_doubt.resolve(ID, commit=True, heuristic=True)
    assert world.in_doubt.resolve(ID, commit=True) is None


def test_a_queue_manager_that_has_failed_resolves_nothing(world: Coordinating) -> None:
    prepared(world)
    world.manager.fail(DiskFailed("log", "it broke"))
    with pytest.raises(QueueManagerFailed):
        world.in_doubt.resolve(ID, commit=True)


@pytest.mark.parametrize("checkpoints_before", [0, 1])
def test_what_is_resolved_while_a_checkpoint_is_taken_survives(world: Coordinating, checkpoints_before: int) -> None:
    """Only the log before the checkpoint has its message, or only the checkpoint before that."""
    prepared(world)
    for _ in range(checkpoints_before):
        world.restarted.checkpoints.take()
        world.restarted.checkpoints.take()
    world.kill_and_start()
    world.restarted.checkpoints.take()
    checkpoints = world.restarted.checkpoints
    plan = checkpoints.begin()
    plan.write_runs()
    resolve(world, commit=True)
    plan.install()
    plan.write()
    checkpoints.finish(plan)
    world.kill_and_start()
    assert world.bodies() == [b"x"]
    world.restarted.checkpoints.take()
    world.kill_and_start()
    assert world.bodies() == [b"x"]
