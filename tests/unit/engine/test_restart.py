# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot import limits
from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.quotas import UNCOMMITTED_BYTES
from entrepot.engine.recovery_log.record import (
    CommitRecord,
    DeleteRecord,
    ForgetRecord,
    HeuristicRecord,
    PutRecord,
    TakenRecord,
)
from entrepot.engine.restart import restart
from entrepot.message import Message

from .simulated import Simulated


def test_a_unit_that_a_torn_group_left_does_not_come_back_with_a_later_starts_unit() -> None:
    """Each start numbers its units from 1, so the commit of a later start must not serve an earlier one's puts."""
    world = Simulated()
    unit = world.manager.begin()
    for body in (b"never committed", b"nor this"):
        world.manager.put("Q", Message(body), persistent=True, unit=unit)
    world.manager.commit(unit)
    group = world.manager.group_commit.begin()
    assert group is not None
    world.manager.log.write_group(group, force=False)
    records = [logged for logged in world.reader().records(0) if logged.position > group.start]
    assert [type(logged.record) for logged in records] == [PutRecord, PutRecord, CommitRecord]
    torn_at = records[-1].position
    world.overwrite(torn_at, bytes(group.end - torn_at))

    assert world.kill_and_start().torn
    assert world.bodies() == []
    again = world.manager.begin()
    assert again.number == unit.number
    for body in (b"committed", b"with it"):
        world.manager.put("Q", Message(body), persistent=True, unit=again)
    world.manager.commit(again)
    world.manager.force()
    assert world.bodies() == [b"committed", b"with it"]
    world.kill_and_start()
    assert world.bodies() == [b"committed", b"with it"]


def test_a_unit_whose_records_lie_in_two_groups_of_a_start_is_whole() -> None:
    world = Simulated()
    key = world.manager.key_next
    queue = world.manager.objects.queues["Q"]
    (number,) = (each for each, found in world.manager.objects.queues_by_number.items() if found is queue)
    log = world.manager.log
    for record in (PutRecord(9, [(number, key)], Message(b"in two groups", persistent=True)), CommitRecord(9)):
        log.append([record])
        world.manager.force()
    world.kill_and_start()
    assert world.bodies() == [b"in two groups"]


def test_what_the_checkpoint_has_seen_is_not_forgotten_again() -> None:
    """A FORGET before the checkpoint was about something else than what stands in the checkpoint now."""
    world = Simulated()
    log = world.manager.log
    heuristic = HeuristicRecord(b"tx", "", "", "committed")
    log.append([ForgetRecord(b"tx", [])])
    world.manager.force()
    log.append([heuristic])
    world.manager.force()
    world.kill_and_start()
    assert world.manager.global_units.heuristics == {(b"tx", ""): heuristic}
    # The checkpoint of that start has the outcome, and the next one reads both records once more.
    world.kill_and_start()
    assert world.manager.global_units.heuristics == {(b"tx", ""): heuristic}
    log = world.manager.log
    log.append([ForgetRecord(b"tx", [])])
    world.manager.force()
    world.kill_and_start()
    assert world.manager.global_units.heuristics == {}


# --- prepared units ------------------------------------------------------------------------------


def prepared(world: Simulated) -> None:
    """A unit that has got one message and put two, one of them on two queues."""
    world.manager.administration.define(LocalQueue(name="R"), replace_existing=False)
    for body in (b"got", b"stays"):
        world.put(body)
    unit = world.manager.begin()
    world.manager.get("Q", unit=unit)
    world.manager.put("Q", Message(b"one"), persistent=True, unit=unit)
    world.manager.put(("Q", "R"), Message(b"two" * 100), persistent=True, unit=unit)
    world.manager.in_doubt.prepare(unit, b"tx", user="alice")
    world.manager.force()


def depths(world: Simulated) -> tuple[int, int, int]:
    """Messages on Q, on R, and places on Q that are kept."""
    queues = world.manager.objects.queues
    return queues["Q"].depth, queues["R"].depth, queues["Q"].reserved


OVER = pytest.mark.parametrize("checkpoints", [0, 1, 3])


@OVER
@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_unit_is_resolved_after_restarts_as_it_would_have_been_before(
    checkpoints: int, commit: bool
) -> None:
    world = Simulated()
    prepared(world)
    for _ in range(2):
        for _ in range(checkpoints):
            world.restarted.checkpoints.take()
        world.kill_and_start()
        assert world.bodies() == [b"stays"]
        assert depths(world) == (2, 0, 2)
    world.manager.in_doubt.resolve(b"tx", commit=commit)
    world.manager.force()
    for _ in range(2):
        assert world.bodies() == ([b"stays", b"one", b"two" * 100] if commit else [b"got", b"stays"])
        assert depths(world) == ((3, 1, 0) if commit else (2, 0, 0))
        world.kill_and_start()


@OVER
def test_what_a_prepared_unit_holds_is_counted_for_its_user_until_it_ends(checkpoints: int) -> None:
    world = Simulated()
    prepared(world)
    for _ in range(checkpoints):
        world.restarted.checkpoints.take()
    world.kill_and_start()
    assert world.manager.quotas.held(UNCOMMITTED_BYTES, "alice") > 0
    world.manager.in_doubt.resolve(b"tx", commit=True)
    world.manager.force()
    assert world.manager.quotas.held(UNCOMMITTED_BYTES, "alice") == 0


@OVER
def test_a_prepared_unit_over_a_queue_that_was_deleted_keeps_its_other_parts(checkpoints: int) -> None:
    world = Simulated()
    prepared(world)
    log = world.manager.log
    log.append([DeleteRecord("QLOCAL", "R")])
    world.manager.force()
    world.kill_and_start()
    for _ in range(checkpoints):
        world.restarted.checkpoints.take()
    world.kill_and_start()
    world.manager.in_doubt.resolve(b"tx", commit=True)
    world.manager.force()
    assert world.bodies() == [b"stays", b"one", b"two" * 100]


# --- runs ------------------------------------------------------------------------------------------


def test_a_run_goes_when_its_last_message_is_got_after_a_restart() -> None:
    world = Simulated()
    for number in range(10):
        world.put(b"%d" % number)
    for _ in range(2):
        world.restarted.checkpoints.take()
    for _ in range(9):
        world.manager.get("Q")
    world.manager.force()
    world.restarted.checkpoints.take()
    world.kill_and_start()
    assert world.bodies() == [b"9"]
    world.manager.get("Q")
    world.manager.force()
    for _ in range(2):
        world.restarted.checkpoints.take()
    assert world.disk.names("runs") == []


def test_a_message_that_is_got_after_a_checkpoint_does_not_come_back_from_its_run() -> None:
    world = Simulated()
    for number in range(20):
        world.put(b"%d" % number)
    for _ in range(2):
        world.restarted.checkpoints.take()
    for left in (17, 8, 1):
        while len(world.bodies()) > left:
            world.manager.get("Q")
            world.manager.force()
        world.kill_and_start()
        assert world.bodies() == [b"%d" % number for number in range(20 - left, 20)]


def memory(world: Simulated, *names: str) -> list[int]:
    """What MEMORY of DISPLAY QSTATUS says."""
    return [world.manager.objects.queues[name].memory_bytes for name in names]


@pytest.mark.parametrize("checkpoints", [0, 1, 3])
def test_a_body_that_two_queues_have_counts_as_much_after_a_restart_as_before(checkpoints: int) -> None:
    world = Simulated()
    world.manager.administration.define(LocalQueue(name="R"), replace_existing=False)
    world.manager.force()
    world.manager.put(("Q", "R"), Message(b"shared" * 1000), persistent=True)
    world.put(b"its own")
    before = memory(world, "Q", "R")
    for _ in range(checkpoints):
        world.restarted.checkpoints.take()
    world.kill_and_start()
    assert memory(world, "Q", "R") == before


def test_what_no_checkpoint_names_is_removed_and_its_number_is_not_used_again() -> None:
    world = Simulated()
    world.disk.put("runs/00000077.run", b"unfinished")
    world.disk.put("runs/00000078.bodies", b"unfinished")
    world.kill_and_start()
    assert world.disk.names("runs") == []
    world.put(b"old")
    for _ in range(2):
        world.restarted.checkpoints.take()
    assert world.disk.names("runs") == ["00000079.run"]


def resting(monkeypatch: pytest.MonkeyPatch, count: int = 24) -> Simulated:
    """A queue that has outgrown its memory, and lies in several runs that a checkpoint names."""
    monkeypatch.setattr(limits, "RUN_BYTES", 4096)
    world = Simulated()
    world.manager.administration.alter(LocalQueue(name="Q", buffer_bytes=4096))
    for number in range(count):
        world.put(b"%02d" % number + b"x" * 1000)
    for _ in range(2):
        world.restarted.checkpoints.take()
    assert len(world.disk.names("runs")) > 3
    return world


def numbers(world: Simulated) -> list[int]:
    return [int(body[:2]) for body in world.bodies()]


def test_a_deep_queue_is_as_deep_and_in_the_same_order_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    world = resting(monkeypatch)
    for _ in range(2):
        world.kill_and_start()
        assert memory(world, "Q")[0] < 16_000
        assert numbers(world) == list(range(24))
        assert world.manager.objects.queues["Q"].depth == 24
    got = [world.manager.get("Q")[0] for _ in range(24)]
    assert [int(message.body[:2]) for message in got if message] == list(range(24))


@pytest.mark.parametrize("index", [0, 9, 15, 23])
def test_a_message_got_from_the_middle_of_a_deep_queue_stays_gone(monkeypatch: pytest.MonkeyPatch, index: int) -> None:
    world = resting(monkeypatch)
    wanted = world.messages()[index].message_id
    world.manager.get("Q", Criteria(message_id=wanted))
    world.manager.force()
    left = [number for number in range(24) if number != index]
    for _ in range(2):
        world.kill_and_start()
        assert numbers(world) == left
        assert world.manager.objects.queues["Q"].depth == 23


@pytest.mark.parametrize("index", [0, 9, 15, 23])
@pytest.mark.parametrize("forgiven", [True, False])
def test_a_try_of_a_message_deep_in_a_queue_is_counted_once(
    monkeypatch: pytest.MonkeyPatch, index: int, forgiven: bool
) -> None:
    world = resting(monkeypatch)
    for tries in (1, 2):
        unit = world.manager.begin()
        world.manager.get("Q", Criteria(message_id=world.messages()[index].message_id), unit)
        world.manager.back_out(unit, counted=not forgiven)
        for _ in range(2):
            world.kill_and_start()
            counts = [message.backout_count for message in world.messages()]
            assert counts == [0 if forgiven or number != index else tries for number in range(24)]
        assert numbers(world) == list(range(24))


@pytest.mark.parametrize("index", [0, 9, 15, 23])
def test_a_prepared_unit_holds_a_message_deep_in_a_queue(monkeypatch: pytest.MonkeyPatch, index: int) -> None:
    world = resting(monkeypatch)
    unit = world.manager.begin()
    world.manager.get("Q", Criteria(message_id=world.messages()[index].message_id), unit)
    world.manager.in_doubt.prepare(unit, b"tx")
    world.manager.force()
    for _ in range(2):
        world.kill_and_start()
        assert numbers(world) == [number for number in range(24) if number != index]
    world.manager.in_doubt.resolve(b"tx", commit=False)
    world.manager.force()
    assert numbers(world) == list(range(24))


# --- what restart reports ----------------------------------------------------------------------


def test_progress_is_told_every_ten_thousand_records() -> None:
    world = Simulated()
    before = world.kill_and_start().replayed_records
    world.manager.log.append([TakenRecord([])] * 10_050)
    world.manager.force()
    told: list[float] = []
    world.disk.kill()
    found = restart(world.disk, world.clock, world.settings, progress=told.append)
    assert found.replayed_records == before + 1 + 10_050
    assert len(told) == 1


# --- backout counts ------------------------------------------------------------------------------


@pytest.mark.parametrize("checkpoints", [0, 3])
def test_tries_are_counted_before_others_are_forgiven_and_never_below_none(checkpoints: int) -> None:
    """Of a record that tells of both: who has tried a message and given it back has not tried it."""
    world = Simulated()
    world.put(b"tried")
    (key,) = world.manager.young
    for _ in range(checkpoints):
        world.restarted.checkpoints.take()
    for record, count in (
        (TakenRecord([key], [key]), 0),
        (TakenRecord([], [key]), 0),
        (TakenRecord([key]), 1),
        (TakenRecord([key, key], [key]), 2),
    ):
        world.manager.log.append([record])
        world.manager.force()
        for _ in range(2):
            world.kill_and_start()
            assert [message.backout_count for message in world.messages()] == [count], record
