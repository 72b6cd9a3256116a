# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

import pytest

from entrepot.engine.checkpointing import CheckpointTaker
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.recovery_log.bodies import BodyFile
from entrepot.engine.recovery_log.run import bodies_path
from entrepot.engine.restart import restart
from entrepot.errors import DiskFull
from entrepot.message import Message
from entrepot.testing import Fault, PlannedFaults

from .simulated import Simulated, checkpoint_during_which


def test_runs_that_a_failed_checkpoint_did_not_remove_go_with_the_next() -> None:
    """The old checkpoint names them, so they must stay with it; and they must not stay for ever."""
    world = Simulated()
    world.put(b"old")
    for _ in range(3):
        world.restarted.checkpoints.take()
    before = world.disk.names("runs")
    assert before != []
    world.manager.get("Q")
    world.manager.force()
    world.disk.faults = PlannedFaults(Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"write"})))
    with pytest.raises(DiskFull):
        world.restarted.checkpoints.take()
    assert world.disk.names("runs") == before
    copy = world.disk.copy()
    world.restarted.checkpoints.take()
    world.restarted.checkpoints.take()
    assert world.disk.names("runs") == []
    # A kill right after the failed checkpoint finds the run that the old one names.
    world.disk = copy
    world.kill_and_start()
    assert world.bodies() == []


def test_files_of_bodies_that_a_failed_checkpoint_did_not_remove_go_with_the_next() -> None:
    world = Simulated()
    file = BodyFile(77, durable=True)
    world.disk.put(bodies_path(77), b"")
    world.manager.useless_bodies = [file]
    world.disk.faults = PlannedFaults(Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"write"})))
    with pytest.raises(DiskFull):
        world.restarted.checkpoints.take()
    assert world.disk.exists(bodies_path(77))
    world.restarted.checkpoints.take()
    assert not world.disk.exists(bodies_path(77))


def test_a_message_that_the_log_still_has_is_not_moved_to_a_run() -> None:
    """It was put at the very place where restart begins to read."""
    world = Simulated()
    world.restarted.checkpoints.take()
    world.put(b"at the start position")
    world.restarted.checkpoints.take()
    assert world.disk.names("runs") == []
    world.restarted.checkpoints.take()
    assert len(world.disk.names("runs")) == 1
    world.power_cut_and_start()
    assert world.bodies() == [b"at the start position"]


def test_a_body_that_two_queues_have_is_moved_to_a_run_once() -> None:
    world = Simulated()
    world.manager.administration.define(LocalQueue(name="R"), replace_existing=False)
    world.manager.force()
    world.manager.put(("Q", "R"), Message(b"x" * 20_000), persistent=True)
    world.manager.force()
    for _ in range(2):
        world.restarted.checkpoints.take()
    (name,) = world.disk.names("runs")
    assert 20_000 < len(world.disk.contents(f"runs/{name}")) < 21_000
    world.power_cut_and_start()
    assert world.bodies() == [b"x" * 20_000]


def prepared(world: Simulated, body: bytes) -> None:
    unit = world.manager.begin()
    world.manager.put("Q", Message(body), persistent=True, unit=unit)
    world.manager.in_doubt.prepare(unit, b"tx")
    world.manager.force()


def test_an_old_message_that_is_committed_during_a_checkpoint_outlives_the_log_that_had_it() -> None:
    world = Simulated()
    prepared(world, b"late")
    for _ in range(2):
        world.restarted.checkpoints.take()
    checkpoint_during_which(world, lambda: world.manager.in_doubt.resolve(b"tx", commit=True))
    world.power_cut_and_start()
    assert world.bodies() == [b"late"]


def test_a_message_that_is_committed_during_a_checkpoint_stays_in_the_log_that_is_kept() -> None:
    world = Simulated()
    world.restarted.checkpoints.take()
    prepared(world, b"not that old")
    checkpoint_during_which(world, lambda: world.manager.in_doubt.resolve(b"tx", commit=True))
    assert world.disk.names("runs") == []
    world.power_cut_and_start()
    assert world.bodies() == [b"not that old"]


def test_an_old_message_that_is_committed_and_got_during_a_checkpoint_needs_no_run() -> None:
    world = Simulated()
    prepared(world, b"late")
    for _ in range(2):
        world.restarted.checkpoints.take()

    def commit_and_get() -> None:
        world.manager.in_doubt.resolve(b"tx", commit=True)
        world.manager.force()
        world.manager.get("Q")

    checkpoint_during_which(world, commit_and_get)
    assert world.disk.names("runs") == []
    world.power_cut_and_start()
    assert world.bodies() == []


def test_a_message_that_is_got_while_its_run_is_written_does_not_come_back() -> None:
    world = Simulated()
    for body in (b"got", b"stays"):
        world.put(body)
    world.restarted.checkpoints.take()
    checkpoint_during_which(world, lambda: world.manager.get("Q"))
    world.restarted.checkpoints.take()
    world.power_cut_and_start()
    assert world.bodies() == [b"stays"]
    world.manager.get("Q")
    world.manager.force()
    for _ in range(2):
        world.restarted.checkpoints.take()
    assert world.disk.names("runs") == []


def test_a_checkpoint_has_made_room_only_if_it_let_go_of_log_or_runs() -> None:
    """The host waits a while before it takes the next one when one was short and made none."""
    world = Simulated()
    world.put(b"old")
    for _ in range(3):
        world.restarted.checkpoints.take()
    assert not checkpoint_during_which(world, lambda: None).made_room
    world.manager.get("Q")
    world.manager.force()
    assert checkpoint_during_which(world, lambda: None).made_room  # the run
    assert checkpoint_during_which(world, lambda: None).made_room  # the log before the get
    assert not checkpoint_during_which(world, lambda: None).made_room


def test_a_try_that_a_checkpoint_has_seen_is_not_counted_again() -> None:
    """It is in the log, though not forced, when the checkpoint is taken; a kill leaves both."""
    world = Simulated()
    world.put(b"tried")
    for _ in range(2):
        world.restarted.checkpoints.take()
    unit = world.manager.begin()
    world.manager.get("Q", unit=unit)
    assert world.manager.log.appended_position > world.manager.log.forced_position
    world.restarted.checkpoints.take()
    world.kill_and_start()
    assert [message.backout_count for message in world.messages()] == [1]


def test_a_try_while_a_message_is_moved_to_a_run_is_counted() -> None:
    world = Simulated()
    world.put(b"tried")
    world.restarted.checkpoints.take()
    unit = world.manager.begin()
    checkpoint_during_which(world, lambda: world.manager.get("Q", unit=unit))
    world.kill_and_start()
    assert [message.backout_count for message in world.messages()] == [1]


def test_a_checkpoint_of_a_quiet_queue_manager_writes_no_log() -> None:
    world = Simulated()
    world.put(b"old")
    before = world.manager.log.appended_position
    for _ in range(3):
        world.restarted.checkpoints.take()
    assert world.manager.log.appended_position == before


def test_a_checkpoint_is_due_when_the_log_has_grown_by_the_interval() -> None:
    world = Simulated()
    begin = world.manager.log.appended_position
    world.put(b"some")
    grown = world.manager.log.appended_position - begin
    for interval_bytes, due in ((grown - 1, True), (grown, True), (grown + 1, False)):
        taker = CheckpointTaker(world.manager, applied_position=begin, interval_bytes=interval_bytes)
        assert taker.is_due is due, interval_bytes


# --- space that is kept for a full disk --------------------------------------------------------------

USUAL_BYTES = 16 * 1024


def reserved_bytes(world: Simulated) -> int:
    names = [name for name in world.disk.names("runs") if name.startswith("reserve-")]
    return sum(len(world.disk.contents(f"runs/{name}")) for name in names)


def test_space_is_kept_for_what_may_have_to_move_and_no_longer() -> None:
    world = Simulated()
    world.disk.kill()
    world.restarted = restart(world.disk, world.clock, world.settings, reserve_bytes=USUAL_BYTES)
    assert reserved_bytes(world) == USUAL_BYTES
    world.put(b"a" * 20_000)
    for _ in range(2):
        world.restarted.checkpoints.take()
    world.manager.get("Q")
    world.put(b"b" * 30_000)
    world.restarted.checkpoints.take()
    assert reserved_bytes(world) > USUAL_BYTES + 20_000  # the run that is wanted no more
    world.manager.get("Q")
    world.manager.force()
    world.restarted.checkpoints.take()
    assert reserved_bytes(world) == USUAL_BYTES
