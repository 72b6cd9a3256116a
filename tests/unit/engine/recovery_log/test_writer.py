# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from entrepot.engine.recovery_log.group import GROUP_BYTES, Group
from entrepot.engine.recovery_log.record import CommitRecord
from entrepot.engine.recovery_log.segment import FOLDER, segment_numbers
from entrepot.errors import DiskFailed, DiskFull
from entrepot.testing import Fault, PlannedFaults, SimulatedDisk
from folding import for_each

from .logs import (
    PAYLOAD_BYTES,
    SMALL,
    commits,
    framed_bytes,
    new_disk,
    open_log,
    put_record,
    read,
    reader,
    stream,
    write,
)
from .watching import Noted, Written, refusing

WRITES = frozenset({"write"})


# --- positions --------------------------------------------------------------------------------


def test_records_stand_behind_their_group_and_positions_are_their_bytes() -> None:
    disk = new_disk()
    log = open_log(disk)
    end = log.append(commits(1, 2))
    assert end == log.appended_position == GROUP_BYTES + 2 * framed_bytes(CommitRecord(1))
    assert log.gathered_bytes == end
    assert (log.written_position, log.forced_position) == (0, 0)
    group = log.take()
    assert (group.start, group.end, log.written_position, log.gathered_bytes) == (0, end, end, 0)
    log.write_group(group, force=True)
    assert log.forced_position == 0, "only `forced` says so"
    log.forced(group)
    assert log.forced_position == end
    assert read(disk) == commits(1, 2)


def test_records_that_come_while_a_group_is_written_belong_to_the_next() -> None:
    disk = new_disk()
    log = open_log(disk)
    log.append(commits(1))
    first = log.take()
    log.append(commits(2))
    log.append(commits(3))
    log.write_group(first, force=True)
    log.forced(first)
    assert read(disk) == commits(1)
    second = log.take()
    assert second.start == first.end
    log.write_group(second, force=True)
    groups = [logged.record for logged in reader(disk).records(0) if isinstance(logged.record, Group)]
    assert [group.forced_position for group in groups] == [0, first.end]
    assert groups[1].body_bytes == second.end - second.start - GROUP_BYTES
    assert read(disk) == commits(1, 2, 3)


def test_an_empty_group_only_tells_how_far_the_log_was_forced() -> None:
    disk = new_disk()
    log = open_log(disk)
    end = write(log, CommitRecord(1)) + log.forced_position
    log.write_group(log.take(), force=False)
    assert log.appended_position == end + GROUP_BYTES
    last = list(reader(disk).records(0))[-1].record
    assert isinstance(last, Group)
    assert (last.body_bytes, last.forced_position) == (0, end)


@for_each("left", [*range(1, GROUP_BYTES + 30), 100, 1000])
def test_a_group_may_cross_into_the_next_segment_at_any_byte(left: int) -> None:
    disk = new_disk()
    start = PAYLOAD_BYTES - left
    log = open_log(disk, position=start)
    # As if the log had been written up to here: reading begins at the group.
    assert write(log, CommitRecord(1), put_record(50)) == start
    write(log, CommitRecord(2))
    assert read(disk, start) == [CommitRecord(1), put_record(50), CommitRecord(2)]


def test_a_group_that_ends_with_its_segment_leaves_the_next_one_unmade() -> None:
    disk = new_disk()
    size = framed_bytes(CommitRecord(1)) + GROUP_BYTES
    log = open_log(disk, position=PAYLOAD_BYTES - size)
    write(log, CommitRecord(1))
    assert log.forced_position == PAYLOAD_BYTES
    assert segment_numbers(disk) == [0]
    write(log, CommitRecord(2))
    assert segment_numbers(disk) == [0, 1]
    assert read(disk, PAYLOAD_BYTES - size) == commits(1, 2)
    assert read(disk, PAYLOAD_BYTES) == commits(2)


@pytest.mark.parametrize("segments", [1, 2, 3])
def test_a_record_larger_than_a_segment_lies_in_several(segments: int) -> None:
    disk = new_disk()
    log = open_log(disk)
    huge = put_record(segments * PAYLOAD_BYTES + 777)
    write(log, CommitRecord(1), huge, CommitRecord(2))
    write(log, CommitRecord(3))
    assert segment_numbers(disk) == list(range(segments + 1))
    assert read(disk) == [CommitRecord(1), huge, *commits(2, 3)]
    disk.power_cut()
    assert read(disk) == [CommitRecord(1), huge, *commits(2, 3)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 40_000), min_size=1, max_size=4), min_size=1, max_size=8))
def test_whatever_is_written_is_read_at_the_positions_that_append_told(sizes: list[list[int]]) -> None:
    disk = new_disk()
    log = open_log(disk, settings=replace(SMALL, secondary=60))
    written, ends = [], []
    for group in sizes:
        records = [put_record(size) for size in group]
        ends.append(log.append(records))
        taken = log.take()
        log.write_group(taken, force=True)
        log.forced(taken)
        written += records
    disk.power_cut()
    found = reader(disk)
    assert [item.record for item in found.records(0) if not isinstance(item.record, Group)] == written
    assert found.end_position == ends[-1]
    assert found.torn == ""


@for_each("seed", range(60))
def test_after_a_power_cut_there_is_what_was_forced_and_perhaps_some_of_the_next_group(seed: int) -> None:
    disk = new_disk(seed)
    random = Random(seed)
    log = open_log(disk)
    records = [put_record(random.choice((10, 600, 5_000)), key) for key in range(30)]
    for record in records[:20]:
        write(log, record)
    write(log, *records[20:], force=False)
    disk.power_cut()
    found = read(disk)
    assert len(found) >= 20
    assert found == records[: len(found)]


# --- writes without force, discard, give up ------------------------------------------------------------------


def test_what_was_written_without_force_survives_a_kill_and_counts_as_unforced() -> None:
    disk = new_disk()
    log = open_log(disk)
    write(log, CommitRecord(1), force=False)
    assert log.forced_position == 0
    assert not log.has_gathered
    disk.kill()
    assert read(disk) == commits(1)


@for_each("seed", range(20))
def test_a_later_force_covers_what_was_written_before(seed: int) -> None:
    disk = new_disk(seed)
    log = open_log(disk)
    write(log, CommitRecord(1), force=False)
    write(log, CommitRecord(2))
    disk.power_cut()
    assert read(disk) == commits(1, 2)


def test_what_is_discarded_was_never_there() -> None:
    disk = new_disk()
    log = open_log(disk)
    end = write(log, CommitRecord(1)) + log.forced_position
    log.append(commits(2))
    assert log.has_gathered
    log.discard_gathered()
    assert (log.has_gathered, log.appended_position) == (False, end)
    write(log, CommitRecord(3))
    assert read(disk) == commits(1, 3)


@for_each("size", [100, 5_000, PAYLOAD_BYTES, 2 * PAYLOAD_BYTES])
@for_each("at", [1, 2])
def test_a_group_given_up_on_does_not_come_back(size: int, at: int) -> None:
    disk = new_disk()
    log = open_log(disk)
    log.require_room(3 * PAYLOAD_BYTES, reserved=True)
    write(log, CommitRecord(1))
    log.append([put_record(size)])
    group = log.take()
    log.append(commits(2))
    disk.faults = PlannedFaults(Fault(at=min(at, len(group.files)), error_number=None, operations=WRITES, part=0.7))
    with pytest.raises(DiskFull):
        log.write_group(group, force=True)
    disk.faults = None
    log.give_up(group)
    assert log.appended_position == log.written_position == group.start
    assert read(disk) == commits(1)
    write(log, CommitRecord(3))
    disk.power_cut()
    assert read(disk) == commits(1, 3)


@for_each("seed", range(20))
def test_a_whole_group_that_was_given_up_on_does_not_come_back(seed: int) -> None:
    """The disk may have taken all of it before it said no."""
    disk = new_disk(seed)
    log = open_log(disk)
    write(log, CommitRecord(1))
    log.append([put_record(3_000), *commits(2, 3)])
    group = log.take()
    log.write_group(group, force=True)
    log.give_up(group)
    disk.power_cut()
    assert read(disk) == commits(1)
    again = open_log(disk, position=group.start, incarnation=2)
    write(again, CommitRecord(4))
    assert read(disk) == commits(1, 4)


@pytest.mark.parametrize("left", [1, 3, 19, 20, 51])
def test_a_group_at_the_end_of_a_segment_can_be_given_up_on(left: int) -> None:
    disk = new_disk()
    start = PAYLOAD_BYTES - left
    log = open_log(disk, position=start)
    log.append(commits(1))
    group = log.take()
    log.write_group(group, force=True)
    log.give_up(group)
    assert read(disk, start) == []
    write(log, CommitRecord(2))
    assert read(disk, start) == commits(2)


@for_each("seed", range(10))
@for_each("size", [0, 3_000, PAYLOAD_BYTES - 1_000, PAYLOAD_BYTES, 2 * PAYLOAD_BYTES])
def test_the_next_force_covers_what_was_written_before_a_force_that_met_a_full_disk(size: int, seed: int) -> None:
    """The kernel may hold what it could not write as if it had."""
    disk = new_disk(seed)
    log = open_log(disk)
    write(log, CommitRecord(1))
    write(log, put_record(size), force=False)
    log.append(commits(2))
    group = log.take()
    disk.faults = refusing("force")
    with pytest.raises(DiskFull):
        log.write_group(group, force=True)
    log.give_up(group)
    write(log, CommitRecord(3))
    write(log, CommitRecord(4))
    disk.power_cut()
    assert read(disk) == [CommitRecord(1), put_record(size), *commits(3, 4)]


def test_all_that_was_written_since_the_last_force_is_written_again_with_a_group_given_up_on() -> None:
    disk = new_disk()
    log = open_log(disk)
    write(log, CommitRecord(1))
    write(log, put_record(2 * PAYLOAD_BYTES), force=False)
    group = log.take()
    disk.faults = written = Written()
    log.give_up(group)
    assert written.bytes == group.end - log.forced_position


def test_a_group_given_up_on_behind_a_force_costs_one_write_and_one_force() -> None:
    disk = new_disk()
    log = open_log(disk)
    write(log, CommitRecord(1))
    log.append(commits(2))
    group = log.take()
    disk.faults = noted = Noted()
    log.give_up(group)
    assert [operation for operation, _ in noted.operations] == ["write", "force"]


def serials(disk: SimulatedDisk) -> list[int]:
    return [logged.record.serial for logged in reader(disk).records(0) if isinstance(logged.record, Group)]


def test_the_groups_of_a_start_are_counted_and_no_number_is_used_twice() -> None:
    disk = new_disk()
    log = open_log(disk)
    write(log, CommitRecord(1))
    log.write_group(log.take(), force=False)
    assert serials(disk) == [1, 2]
    log.append(commits(2))
    log.give_up(log.take())
    write(log, CommitRecord(3))
    assert serials(disk) == [1, 2, 4]


def test_a_group_that_cannot_be_made_invalid_is_fatal() -> None:
    disk = new_disk()
    log = open_log(disk)
    log.append(commits(1))
    group = log.take()
    disk.faults = PlannedFaults(Fault(at=1, error_number=errno.ENOSPC, operations=WRITES, for_ever=True))
    with pytest.raises(DiskFull):
        log.write_group(group, force=True)
    with pytest.raises(DiskFailed) as failed:
        log.give_up(group)
    assert failed.value.outcome == "unknown"


@pytest.mark.parametrize("operation", ["write", "force"])
def test_an_input_output_error_is_told_as_such(operation: str) -> None:
    disk = new_disk()
    log = open_log(disk)
    log.append(commits(1))
    group = log.take()
    disk.faults = PlannedFaults(Fault(at=1, error_number=errno.EIO, operations=frozenset({operation})))
    with pytest.raises(DiskFailed, match=FOLDER):
        log.write_group(group, force=True)


# --- what is on disk --------------------------------------------------------------------------


def test_the_stream_in_a_segment_is_what_was_framed() -> None:
    disk = new_disk()
    log = open_log(disk)
    log.append(commits(9))
    group = log.take()
    expected = b"".join(map(bytes, group.buffers))
    log.write_group(group, force=True)
    assert stream(disk, group.start, group.end) == expected


def test_a_force_also_forces_what_was_written_into_the_segment_before() -> None:
    for seed in range(20):
        disk = new_disk(seed)
        log = open_log(disk)
        write(log, put_record(PAYLOAD_BYTES - 2000))
        write(log, put_record(3000, 2), force=False)
        assert log.written_position > PAYLOAD_BYTES, "it crosses into the next segment"
        write(log, CommitRecord(3))
        disk.power_cut()
        assert len(read(disk)) == 3
