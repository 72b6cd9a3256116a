# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

import pytest

from entrepot.engine.recovery_log.group import GROUP_BYTES, Group
from entrepot.engine.recovery_log.record import CommitRecord
from entrepot.errors import DiskFull, EntrepotError, LogDamaged
from entrepot.message import Message
from entrepot.testing import Fault, PlannedFaults

from .simulated import Simulated


def groups(world: Simulated) -> list[tuple[int, Group]]:
    return [
        (logged.position, logged.record) for logged in world.reader().records(0) if isinstance(logged.record, Group)
    ]


def test_a_quiet_log_is_closed_by_one_mark_that_says_how_far_it_was_forced() -> None:
    world = Simulated()
    world.put(b"the last")
    end = world.manager.log.forced_position
    for _ in range(3):
        world.manager.group_commit.mark()
    position, mark = groups(world)[-1]
    assert (position, mark.forced_position, mark.body_bytes) == (end, end, 0)
    assert world.manager.log.appended_position == end + GROUP_BYTES, "one mark is enough"


def test_damage_to_the_last_group_is_known_by_the_mark_behind_it() -> None:
    world = Simulated()
    start = world.manager.log.appended_position
    world.put(b"acknowledged")
    unmarked = world.disk.copy()
    world.manager.group_commit.mark()
    for disk, is_known in ((unmarked, False), (world.disk, True)):
        world.disk = disk
        world.overwrite(start + GROUP_BYTES + 30, b"?")
        disk.kill()
        if is_known:
            with pytest.raises(LogDamaged):
                world.start()
        else:
            assert world.start().torn, "without the mark it looks like a torn write"


def test_no_mark_is_written_while_records_gather_or_are_forced() -> None:
    world = Simulated()
    commit = world.manager.group_commit
    commit.mark()
    world.manager.put("Q", Message(b"gathered"), persistent=True)
    appended = world.manager.log.appended_position
    commit.mark()
    group = commit.begin()
    assert group is not None
    commit.mark()
    assert world.manager.log.appended_position == appended


def test_what_a_full_disk_refuses_is_undone_newest_first() -> None:
    """Each undo finds the state that its own work left."""
    world = Simulated()
    undone: list[int] = []

    def undo(number: int, error: EntrepotError) -> EntrepotError:
        undone.append(number)
        return error

    settlements = [
        world.manager.group_commit.promise(
            [CommitRecord(number)], lambda: None, lambda error, number=number: undo(number, error)
        )  # type: ignore[misc]
        for number in range(4)
    ]
    world.disk.faults = PlannedFaults(Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"write"})))
    world.manager.force()
    assert undone == [3, 2, 1, 0]
    assert all(isinstance(settlement.error, DiskFull) for settlement in settlements)
