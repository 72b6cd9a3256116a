# SPDX-License-Identifier: Apache-2.0
"""The writing end and its segments: which are kept, reused and closed, and where a start goes on."""

from __future__ import annotations

import errno
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from entrepot.disk import SystemDisk
from entrepot.engine.recovery_log.group import GROUP_BYTES, Group
from entrepot.engine.recovery_log.record import CommitRecord
from entrepot.engine.recovery_log.segment import (
    FOLDER,
    SegmentHead,
    head_page,
    read_head_page,
    segment_numbers,
    segment_path,
)
from entrepot.engine.recovery_log.writer import RecoveryLog
from entrepot.errors import DiskFailed, DiskFull, LogDamaged
from entrepot.testing import Fault, PlannedFaults, SimulatedDisk, VirtualClock
from folding import for_each
from open_files import open_files

from .logs import (
    MANAGER_ID,
    PAYLOAD_BYTES,
    SALT,
    SMALL,
    commits,
    framed_bytes,
    new_disk,
    open_log,
    put_format_2,
    put_record,
    read,
    reader,
    write,
)
from .watching import refusing


def names(disk: SimulatedDisk, kind: str) -> int:
    return sum(name.startswith(kind) for name in disk.names(FOLDER))


# --- reuse ------------------------------------------------------------------------------------


def fill(disk: SimulatedDisk, segments: int) -> int:
    """Write so many segments' worth; the position reached."""
    log = open_log(disk)
    while log.forced_position < segments * PAYLOAD_BYTES:
        write(log, put_record(10_000))
    return log.forced_position


def test_released_segments_become_spares_up_to_the_primaries_and_are_removed_beyond() -> None:
    disk = new_disk()
    position = fill(disk, 4)
    log = open_log(disk, position=position)
    log.release(4 * PAYLOAD_BYTES)
    assert log.needed_position == 4 * PAYLOAD_BYTES
    assert segment_numbers(disk) == [4]
    assert names(disk, "spare-") == SMALL.primary - 1
    log.release(position)
    assert segment_numbers(disk) == [4]


def test_a_released_spare_serves_again_and_its_old_records_are_not_read() -> None:
    disk = new_disk()
    position = fill(disk, 4)
    log = open_log(disk, position=position)
    log.release(4 * PAYLOAD_BYTES)
    disk.faults = PlannedFaults(Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"create"}), for_ever=True))
    start = log.forced_position
    while log.forced_position < 5 * PAYLOAD_BYTES + 100:
        write(log, CommitRecord(1), put_record(9_000))
    disk.faults = None
    assert segment_numbers(disk) == [4, 5]
    found = reader(disk)
    records = [item.record for item in found.records(start) if not isinstance(item.record, Group)]
    assert records == [CommitRecord(1), put_record(9_000)] * (len(records) // 2)
    assert found.end_position == log.forced_position


def test_a_log_goes_around_for_ever_within_its_segments() -> None:
    disk = new_disk()
    log = open_log(disk)
    log.make_primaries()
    for _ in range(100):
        log.require_room(20_500, reserved=False)
        start = write(log, put_record(20_000))
        log.release(start)
        assert names(disk, "segment-") + names(disk, "spare-") <= SMALL.segments_max
    assert log.forced_position > 30 * PAYLOAD_BYTES
    assert read(disk, start) == [put_record(20_000)]


def test_a_linear_log_keeps_what_is_released() -> None:
    disk = new_disk()
    position = fill(disk, 3)
    log = open_log(disk, settings=replace(SMALL, kind="linear"), position=position)
    log.release(position)
    assert segment_numbers(disk) == [0, 1, 2, 3]


def test_segments_that_a_kill_kept_from_being_released_are_released_after_the_restart() -> None:
    """The checkpoint was written, the process died before the segments were taken back."""
    disk = new_disk()
    position = fill(disk, 3)
    log = open_log(disk, position=position, needed_position=position, incarnation=2)
    log.release(position)
    assert segment_numbers(disk) == [3]


@for_each("seed", range(20))
def test_what_was_released_stays_released_after_a_power_cut(seed: int) -> None:
    disk = new_disk(seed)
    position = fill(disk, 4)
    log = open_log(disk, position=position)
    log.release(4 * PAYLOAD_BYTES)
    disk.power_cut()
    assert segment_numbers(disk) == [4]
    assert names(disk, "spare-") == SMALL.primary - 1


@for_each("at", [1, 2, 3, 4])
def test_a_release_that_the_disk_refused_half_way_can_be_tried_again(at: int) -> None:
    disk = new_disk()
    position = fill(disk, 4)
    log = open_log(disk, position=position)
    disk.faults = PlannedFaults(Fault(at=at, operations=frozenset({"rename", "remove"})))
    with pytest.raises(OSError, match="Input/output"):
        log.release(4 * PAYLOAD_BYTES)
    log.release(4 * PAYLOAD_BYTES)
    assert segment_numbers(disk) == [4]


# --- groups that a restart may begin with -----------------------------------------------------


def test_a_restart_may_begin_with_the_last_group_up_to_a_position() -> None:
    log = open_log(new_disk())
    starts = [write(log, put_record(5_000)) for _ in range(20)]
    for earlier, later in pairwise(starts):
        assert log.group_start_before(later - 1) == earlier
        assert log.group_start_before(later) == later


def test_about_sixteen_groups_for_each_segment_are_remembered() -> None:
    log = open_log(new_disk())
    near = 100 + PAYLOAD_BYTES // 16
    for position in (100, near - 1, near):
        log.note_group_start(position)
    assert log.group_start_before(near - 1) == 100
    assert log.group_start_before(near) == near


def test_a_restart_begins_with_no_group_that_was_released() -> None:
    log = open_log(new_disk())
    starts = [write(log, put_record(5_000)) for _ in range(20)]
    log.release(starts[15])
    assert log.group_start_before(starts[15] - 1) == log.group_start_before(starts[15]) == starts[15]


# --- open files -------------------------------------------------------------------------------


def folder_disk(folder: Path) -> SystemDisk:
    disk = SystemDisk(folder)
    disk.make_folder(FOLDER)
    return disk


def test_only_the_segment_that_is_written_is_open_and_none_once_the_log_is_closed(tmp_path: Path) -> None:
    log = open_log(folder_disk(tmp_path))
    for size, number in ((100, 0), (PAYLOAD_BYTES, 1), (2 * PAYLOAD_BYTES, 3)):
        write(log, put_record(size))
        assert open_files(tmp_path) == [Path(segment_path(number)).name]
    log.close()
    assert open_files(tmp_path) == []


def test_a_segment_that_was_full_to_its_last_byte_is_closed_when_it_is_released(tmp_path: Path) -> None:
    log = open_log(folder_disk(tmp_path), position=PAYLOAD_BYTES - framed_bytes(CommitRecord(1)) - GROUP_BYTES)
    write(log, CommitRecord(1))
    assert log.forced_position == PAYLOAD_BYTES
    log.release(PAYLOAD_BYTES)
    assert open_files(tmp_path) == []


def test_a_start_opens_no_segment_before_it_writes(tmp_path: Path) -> None:
    disk = folder_disk(tmp_path)
    log = open_log(disk)
    write(log, put_record(PAYLOAD_BYTES))
    log.close()
    open_log(disk, position=100, incarnation=2)
    assert open_files(tmp_path) == []


def test_a_log_remembers_the_heads_of_segments_that_it_will_write_only() -> None:
    log = open_log(new_disk(), settings=replace(SMALL, secondary=20))
    for _ in range(10):
        write(log, put_record(PAYLOAD_BYTES))
    assert len(log._heads) <= 2


def test_a_closed_log_may_be_closed_again(tmp_path: Path) -> None:
    log = open_log(folder_disk(tmp_path))
    write(log, CommitRecord(1))
    log.close()
    log.close()


# --- opening ----------------------------------------------------------------------------------


def test_a_later_start_goes_on_where_the_log_ends() -> None:
    disk = new_disk()
    log = open_log(disk)
    write(log, CommitRecord(1))
    end = log.forced_position
    disk.kill()
    again = open_log(disk, position=end, incarnation=2)
    assert (again.appended_position, again.written_position, again.forced_position) == (end, end, end)
    write(again, CommitRecord(2))
    found = reader(disk)
    assert [item.record for item in found.records(0) if isinstance(item.record, CommitRecord)] == commits(1, 2)
    assert found.incarnation == 2


def test_a_log_that_was_not_opened_is_empty_and_can_get_its_primaries() -> None:
    disk = new_disk()
    log = RecoveryLog(disk, VirtualClock(), SMALL, MANAGER_ID)
    assert (log.appended_position, log.written_position, log.forced_position, log.needed_position) == (0, 0, 0, 0)
    log.make_primaries()
    assert names(disk, "spare-") == SMALL.primary


def test_a_start_uses_the_spares_that_it_finds() -> None:
    disk = new_disk()
    open_log(disk).make_primaries()
    again = open_log(disk, incarnation=2)
    disk.faults = refusing("create")
    write(again, put_record(PAYLOAD_BYTES))
    assert (names(disk, "segment-"), names(disk, "spare-")) == (2, 0)


# --- logs of format 2 -------------------------------------------------------------------------


def head_of(disk: SimulatedDisk, number: int) -> SegmentHead:
    path = segment_path(number)
    return read_head_page(disk, path, disk.open(path), MANAGER_ID, number, SMALL.segment_bytes)


@for_each("seed", range(10))
def test_a_log_of_format_2_goes_on_in_a_new_segment_that_has_a_salt(seed: int) -> None:
    disk = new_disk(seed)
    end = put_format_2(disk, *commits(1, 2))
    log = open_log(disk, position=end, incarnation=2)
    assert log.appended_position == log.written_position == log.forced_position == PAYLOAD_BYTES
    disk.power_cut()
    assert segment_numbers(disk) == [0, 1]
    assert head_of(disk, 1).salt
    assert head_of(disk, 1).continues == end


def test_what_follows_format_2_is_read_behind_it() -> None:
    disk = new_disk()
    log = open_log(disk, position=put_format_2(disk, *commits(1, 2)), incarnation=2)
    write(log, CommitRecord(3))
    assert read(disk) == commits(1, 2, 3)
    again = open_log(disk, position=log.forced_position, incarnation=3)
    write(again, CommitRecord(4))
    assert read(disk) == commits(1, 2, 3, 4)


def test_a_start_killed_right_after_it_left_format_2_is_gone_on_with() -> None:
    disk = new_disk()
    end = put_format_2(disk, CommitRecord(1))
    open_log(disk, position=end, incarnation=2)
    head = head_of(disk, 1)
    log = open_log(disk, position=end, incarnation=2)
    assert (log.appended_position, head_of(disk, 1)) == (PAYLOAD_BYTES, head)
    write(log, CommitRecord(2))
    assert read(disk) == commits(1, 2)


def test_a_segment_that_does_not_continue_format_2_is_refused() -> None:
    disk = new_disk()
    end = put_format_2(disk, CommitRecord(1))
    for continues in (end - 1, end + 1, PAYLOAD_BYTES):
        page = head_page(MANAGER_ID, 1, SMALL.segment_bytes, SegmentHead(SALT, continues))
        disk.put(segment_path(1), page.ljust(SMALL.segment_bytes, b"\0"))
        with pytest.raises(LogDamaged, match="does not continue"):
            open_log(disk, position=end)
    put_format_2(disk, CommitRecord(2), number=1)
    with pytest.raises(LogDamaged, match="does not continue"):
        open_log(disk, position=end)


@for_each(("number", "error"), [(errno.ENOSPC, DiskFull), (errno.EIO, DiskFailed)])
def test_format_2_is_not_left_without_a_new_segment(number: int, error: type[Exception]) -> None:
    disk = new_disk()
    end = put_format_2(disk, CommitRecord(1))
    disk.faults = refusing("create", number)
    with pytest.raises(error):
        open_log(disk, position=end)
    assert segment_numbers(disk) == [0]
