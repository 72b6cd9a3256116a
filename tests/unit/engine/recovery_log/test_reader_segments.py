# SPDX-License-Identifier: Apache-2.0
"""The reading end and its segments: groups in all of them, logs of format 2, and what it does to the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.disk import SystemDisk
from entrepot.engine.recovery_log.group import GROUP_BYTES
from entrepot.engine.recovery_log.record import CommitRecord
from entrepot.engine.recovery_log.segment import FOLDER, HEAD_PAGE_BYTES, SegmentHead, head_page, segment_path
from entrepot.errors import LogDamaged
from entrepot.testing import SimulatedDisk
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
from .watching import Noted

OVERHEAD = GROUP_BYTES + framed_bytes(put_record(60_000)) - 60_000


def written(disk: SimulatedDisk) -> list[int]:
    """A log of three segments, the last of which begins with a group; where its groups begin."""
    log = open_log(disk)
    starts = []
    while log.forced_position < PAYLOAD_BYTES:
        starts.append(write(log, put_record(7_000)))
    starts.append(write(log, put_record(2 * PAYLOAD_BYTES - log.forced_position - OVERHEAD)))
    return starts + [write(log, CommitRecord(unit)) for unit in range(3)]


# --- groups -----------------------------------------------------------------------------------


def test_groups_are_found_from_any_position_on_in_all_segments() -> None:
    disk = new_disk()
    starts = written(disk)
    assert {0, 2 * PAYLOAD_BYTES} < set(starts), "they begin with their segments"
    for position in (*starts, *(start + 1 for start in starts)):
        found = [found for found, _ in reader(disk).groups(position)]
        assert found == [start for start in starts if start >= position]


# --- the disk ---------------------------------------------------------------------------------


def opened(disk: SimulatedDisk, noted: Noted) -> list[int]:
    return [noted.opened(path) for path in disk.paths() if "segment-" in path]


def test_each_segment_is_read_once_however_often_it_is_looked_at() -> None:
    disk = new_disk()
    written(disk)
    disk.faults = noted = Noted()
    list(reader(disk).records(0))
    assert opened(disk, noted) == [1, 1, 1]
    disk.faults = noted = Noted()
    list(reader(disk).groups(0))
    assert opened(disk, noted) == [1, 1, 1]


def test_reading_leaves_no_file_open_even_if_a_segment_is_refused(tmp_path: Path) -> None:
    disk = SystemDisk(tmp_path)
    disk.make_folder(FOLDER)
    log = open_log(disk)
    write(log, put_record(PAYLOAD_BYTES))
    log.close()
    assert len(read(disk)) == 1
    (tmp_path / segment_path(1)).write_bytes(bytes(SMALL.segment_bytes))
    with pytest.raises(LogDamaged):
        read(disk)
    assert open_files(tmp_path) == []


def test_a_segment_cut_short_is_not_continued_by_the_next_one() -> None:
    """Not even if that has what is missing."""
    disk = new_disk()
    write(open_log(disk), put_record(PAYLOAD_BYTES))
    first, second = disk.contents(segment_path(0)), disk.contents(segment_path(1))
    disk.put(segment_path(0), first[:-7])
    disk.put(segment_path(1), second[:HEAD_PAGE_BYTES] + first[-7:] + second[HEAD_PAGE_BYTES:])
    assert read(disk) == []


# --- logs of format 2 -------------------------------------------------------------------------


def continued(disk: SimulatedDisk, position: int, number: int = 1) -> None:
    """Leave an empty segment that goes on from a position in the one before."""
    page = head_page(MANAGER_ID, number, SMALL.segment_bytes, SegmentHead(SALT, position))
    disk.put(segment_path(number), page.ljust(SMALL.segment_bytes, b"\0"))


@pytest.mark.parametrize("number", [0, 1])
def test_a_log_of_format_2_is_read_to_its_end(number: int) -> None:
    disk = new_disk()
    end = put_format_2(disk, *commits(1, 2), number=number)
    found = reader(disk)
    start = number * PAYLOAD_BYTES
    assert [item.record for item in found.records(start) if isinstance(item.record, CommitRecord)] == commits(1, 2)
    assert (found.end_position, found.torn) == (end, "")


@pytest.mark.parametrize("number", [0, 1])
def test_a_log_that_has_left_format_2_goes_on_with_the_next_segment(number: int) -> None:
    disk = new_disk()
    end = put_format_2(disk, *commits(1, 2), number=number)
    continued(disk, end, number + 1)
    for start, units in ((number * PAYLOAD_BYTES, [1, 2]), (end, [])):
        found = reader(disk)
        assert [item.record for item in found.records(start) if isinstance(item.record, CommitRecord)] == commits(
            *units
        )
        assert (found.end_position, found.torn) == ((number + 1) * PAYLOAD_BYTES, "")


def test_what_format_2_left_behind_the_place_where_it_was_left_is_not_read() -> None:
    disk = new_disk()
    end = put_format_2(disk, CommitRecord(1))
    assert put_format_2(disk, *commits(1, 2)) > end
    continued(disk, end)
    assert read(disk) == commits(1)


def test_segments_of_format_2_are_one_stream() -> None:
    disk = new_disk()
    records = [CommitRecord(1), put_record(2 * PAYLOAD_BYTES), CommitRecord(2)]
    end = put_format_2(disk, *records)
    assert read(disk) == records
    continued(disk, end, 3)
    write(open_log(disk, position=end, incarnation=2), CommitRecord(3))
    assert read(disk) == [*records, CommitRecord(3)]
