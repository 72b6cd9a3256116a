# SPDX-License-Identifier: Apache-2.0
"""Units and records in the engine: what the log gets, what a power cut leaves, and what is given back."""

from __future__ import annotations

import pytest

from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.quotas import UNCOMMITTED_BYTES
from entrepot.engine.recovery_log.record import CommitRecord, PutRecord, RemoveRecord
from entrepot.engine.unit_of_work import UnitOwner, UnitState
from entrepot.engine.waiting import Waiter
from entrepot.errors import DiskFull, LogFull, UnitBackedOut, UnitFinished
from entrepot.limits import KIB
from entrepot.message import Message

from .simulated import Simulated


@pytest.fixture
def simulated() -> Simulated:
    return Simulated()


@pytest.fixture
def manager(simulated: Simulated) -> QueueManager:
    return simulated.manager


def records(simulated: Simulated, begin: int) -> list[str]:
    """The kinds of records behind a position, as far as they are about messages."""
    kinds = (PutRecord, RemoveRecord, CommitRecord)
    return [
        type(found.record).__name__ for found in simulated.reader().records(begin) if isinstance(found.record, kinds)
    ]


def reserved(manager: QueueManager) -> int:
    return manager.objects.queues["Q"].reserved


def test_one_record_stands_for_itself_and_several_end_with_a_commit(simulated: Simulated) -> None:
    manager = simulated.manager
    begin = manager.log.appended_position
    simulated.put(b"alone")
    assert records(simulated, begin) == ["PutRecord"]
    begin = manager.log.appended_position
    unit = manager.begin()
    for body in (b"1", b"2"):
        manager.put("Q", Message(body), persistent=True, unit=unit)
    manager.get("Q", None, unit)
    manager.commit(unit)
    manager.force()
    assert records(simulated, begin) == ["PutRecord", "PutRecord", "RemoveRecord", "CommitRecord"]


def test_nonpersistent_messages_leave_nothing_in_the_log(simulated: Simulated) -> None:
    manager = simulated.manager
    begin = manager.log.appended_position
    unit = manager.begin()
    manager.put("Q", Message(b"1"), unit=unit)
    assert manager.commit(unit) is None
    unit = manager.begin()
    manager.get("Q", None, unit)
    assert manager.commit(unit) is None
    assert (unit.state, manager.log.appended_position) == (UnitState.COMMITTED, begin)


def test_a_unit_is_seen_when_it_is_forced_and_not_before(simulated: Simulated) -> None:
    manager = simulated.manager
    simulated.put(b"there")
    unit = manager.begin()
    manager.get("Q", None, unit)
    manager.put("Q", Message(b"new"), persistent=True, unit=unit)
    settlement = manager.commit(unit)
    assert settlement is not None
    assert (unit.state, simulated.bodies(), reserved(manager)) == (UnitState.ENDING, [], 1)
    with pytest.raises(UnitFinished):
        manager.commit(unit)
    with pytest.raises(UnitFinished):
        manager.back_out(unit)
    manager.force()
    assert (unit.state, simulated.bodies(), reserved(manager)) == (UnitState.COMMITTED, [b"new"], 0)
    simulated.power_cut_and_start()
    assert simulated.bodies() == [b"new"]


def test_a_commit_that_met_a_full_log_can_be_repeated(manager: QueueManager, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = manager.begin()
    manager.put("Q", Message(b"body"), persistent=True, unit=unit)

    def refuse(size: int, *, reserved: bool) -> None:
        raise LogFull(0)

    with monkeypatch.context() as full:
        full.setattr(manager.log, "require_room", refuse)
        with pytest.raises(LogFull):
            manager.commit(unit)
    assert (unit.state, len(unit.puts), unit.body_bytes, reserved(manager)) == (UnitState.ACTIVE, 1, 4, 1)
    manager.commit(unit)
    manager.force()
    assert manager.objects.queues["Q"].depth == 1


def test_a_unit_that_the_disk_did_not_take_is_backed_out(simulated: Simulated) -> None:
    manager = simulated.manager
    simulated.put(b"stays")
    unit = manager.begin()
    manager.get("Q", None, unit)
    manager.put("Q", Message(b"never"), persistent=True, unit=unit)
    settlement = manager.commit(unit)
    assert settlement is not None
    settlement.fail(DiskFull("log"))
    assert isinstance(settlement.error, UnitBackedOut)
    assert (unit.state, simulated.bodies(), reserved(manager)) == (UnitState.BACKED_OUT, [b"stays"], 0)


def test_a_put_alone_that_the_disk_did_not_take_has_never_been(simulated: Simulated) -> None:
    _, settlement = simulated.manager.put("Q", Message(b"never"), persistent=True)
    assert settlement is not None
    settlement.fail(DiskFull("log"))
    assert isinstance(settlement.error, DiskFull), "it was no unit of the caller's"
    assert (simulated.bodies(), reserved(simulated.manager)) == ([], 0)


@pytest.mark.parametrize("commit", [False, True])
def test_a_unit_that_has_ended_takes_nothing_of_its_user(manager: QueueManager, commit: bool) -> None:
    unit = manager.begin()
    unit.holder = UnitOwner(manager.quotas, "ann", limited=True)
    manager.put("Q", Message(b"body"), unit=unit)
    assert manager.quotas.held(UNCOMMITTED_BYTES, "ann") == 64 * KIB
    if commit:
        manager.commit(unit)
    else:
        manager.back_out(unit)
    assert manager.quotas.held(UNCOMMITTED_BYTES, "ann") == 0


def test_units_and_messages_have_numbers_of_their_own(simulated: Simulated) -> None:
    numbers, ids = set(), set()
    for _ in range(3):
        manager = simulated.manager
        numbers |= {manager.begin().number for _ in range(3)}
        ids |= {manager.new_message_id() for _ in range(3)}
        ids |= {manager.message_id_head(number) for number in (0, 1, 0x7FFF_FFFF)}
        assert {len(manager.new_message_id()), len(manager.message_id_head(7))} == {24, 20}
        simulated.put(b"")
        simulated.kill_and_start()
    assert len(ids) == 3 * 6
    assert 0 not in numbers


def test_ids_that_others_hand_out_are_never_ours(manager: QueueManager) -> None:
    heads = {manager.message_id_head(number) for number in range(100)}
    assert len(heads) == 100
    assert all(manager.new_message_id()[:20] not in heads for _ in range(100))


@pytest.mark.parametrize("counted", [False, True])
def test_a_reader_that_waits_for_what_is_backed_out_sees_how_often_it_was_tried(
    manager: QueueManager, counted: bool
) -> None:
    manager.put("Q", Message(b""))
    unit = manager.begin()
    manager.get("Q", None, unit)
    waiter = Waiter(None, None, lambda: None)
    manager.wait("Q", waiter)
    manager.back_out(unit, counted=counted)
    assert waiter.message is not None
    assert waiter.message.backout_count == int(counted)


def test_the_rest_of_a_group_goes_to_a_reader_that_waits_when_its_first_message_has_left(manager: QueueManager) -> None:
    for sequence in (1, 2):
        manager.put("Q", Message(b"%d" % sequence, group_id=b"g", sequence=sequence, last_in_group=sequence == 2))
    unit = manager.begin()
    manager.get("Q", None, unit)
    waiter = Waiter(Criteria(whole_group=True), None, lambda: None)
    manager.wait("Q", waiter)
    assert waiter.message is None
    manager.commit(unit)
    assert waiter.message is not None
    assert waiter.message.body == b"2"


def test_a_message_that_is_given_back_counts_the_rest_of_its_time_from_now(simulated: Simulated) -> None:
    manager = simulated.manager
    manager.put("Q", Message(b"", expiry_s=10))
    simulated.clock.advance(4)
    message, _ = manager.get("Q")
    assert message is not None
    simulated.clock.advance(3)
    manager.give_back("Q", message)
    simulated.clock.advance(5)
    assert [left.expiry_s for left in simulated.messages()] == [1]
    simulated.clock.advance(1)
    assert simulated.messages() == []


def test_what_a_queue_without_room_refuses_has_left_no_trace(manager: QueueManager) -> None:
    manager.administration.alter(LocalQueue(name="Q", depth_max=2))
    manager.force()
    unit = manager.begin()
    manager.put("Q", Message(b""), unit=unit)
    manager.put("Q", Message(b""))
    for verb in (lambda: manager.put("Q", Message(b""), unit=unit), lambda: manager.put("Q", Message(b""))):
        with pytest.raises(Exception, match="maximum"):
            verb()
    manager.back_out(unit)
    manager.put("Q", Message(b""))
    assert (manager.objects.queues["Q"].depth, reserved(manager)) == (2, 0)
