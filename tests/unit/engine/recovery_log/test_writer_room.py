# SPDX-License-Identifier: Apache-2.0
"""Room in the log: made beforehand, limited, and partly kept for gets."""

from __future__ import annotations

import errno

import pytest
from msgspec.structs import replace

from entrepot.engine.recovery_log.group import GROUP_BYTES
from entrepot.engine.recovery_log.record import CommitRecord
from entrepot.engine.recovery_log.segment import FOLDER
from entrepot.errors import DiskFailed, LogFull
from entrepot.testing import Fault, PlannedFaults, SimulatedDisk

from .logs import PAYLOAD_BYTES, SMALL, framed_bytes, new_disk, open_log, put_record, write

WRITES = frozenset({"write"})


def names(disk: SimulatedDisk, kind: str) -> int:
    return sum(name.startswith(kind) for name in disk.names(FOLDER))


def test_a_new_log_has_its_primaries() -> None:
    disk = new_disk()
    log = open_log(disk)
    log.make_primaries()
    assert names(disk, "spare-") == SMALL.primary
    log.make_primaries()
    assert names(disk, "spare-") == SMALL.primary


def test_room_is_made_beforehand_so_that_a_write_never_needs_space() -> None:
    disk = new_disk()
    log = open_log(disk)
    log.make_primaries()
    log.require_room(3 * PAYLOAD_BYTES, reserved=False)
    disk.faults = PlannedFaults(Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"create"}), for_ever=True))
    write(log, put_record(3 * PAYLOAD_BYTES))
    assert names(disk, "segment-") == 4


def test_room_is_made_for_the_frames_of_groups_too() -> None:
    """Records that just fit into the segment, but not with the frames of their groups."""
    record = put_record(5_000)
    for groups in range(1, 5):
        disk = new_disk()
        size = framed_bytes(record) + (groups - 1) * framed_bytes(CommitRecord(1))
        log = open_log(disk, position=PAYLOAD_BYTES + 1 - size - groups * GROUP_BYTES)
        log.require_room(size, reserved=True)
        disk.faults = PlannedFaults(
            Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"create"}), for_ever=True)
        )
        for _ in range(groups - 1):
            write(log, CommitRecord(1))
        write(log, record)


@pytest.mark.parametrize("reserved", [True, False])
def test_no_more_room_is_made_than_is_needed(reserved: bool) -> None:
    """The frames of four groups come on top, and for all but gets the part that is kept for gets."""
    disk = new_disk()
    log = open_log(disk)
    write(log, CommitRecord(1))
    fitting = PAYLOAD_BYTES - 1 - log.appended_position - 4 * GROUP_BYTES - (0 if reserved else log.reserve_bytes)
    log.require_room(fitting, reserved=reserved)
    assert names(disk, "spare-") == 0
    log.require_room(fitting + 1, reserved=reserved)
    assert names(disk, "spare-") == 1
    log.require_room(fitting + 1 + PAYLOAD_BYTES, reserved=reserved)
    assert names(disk, "spare-") == 2


def test_a_circular_log_has_room_up_to_its_last_byte() -> None:
    log = open_log(new_disk())
    room = SMALL.segments_max * PAYLOAD_BYTES - 4 * GROUP_BYTES
    log.require_room(room - 1, reserved=True)
    with pytest.raises(LogFull):
        log.require_room(room, reserved=True)


def test_half_a_segment_is_kept_for_gets_and_no_more_than_a_mebibyte() -> None:
    assert open_log(new_disk()).reserve_bytes == PAYLOAD_BYTES // 2
    large = replace(SMALL, segment_bytes=8 * 1024 * 1024)
    assert open_log(new_disk(), settings=large).reserve_bytes == 1024 * 1024


def test_the_reserve_is_touched_once_a_quarter_of_it_is_used() -> None:
    disk = new_disk()
    log = open_log(disk)
    log.make_primaries()
    edge = SMALL.primary * PAYLOAD_BYTES - log.reserve_bytes * 3 // 4
    assert not open_log(disk, position=edge).is_reserve_touched
    assert open_log(disk, position=edge + 1).is_reserve_touched


def test_a_circular_log_has_so_many_segments_and_no_more() -> None:
    disk = new_disk()
    log = open_log(disk)
    with pytest.raises(LogFull) as full:
        for count in range(100):  # noqa: B007 - how many there were
            log.require_room(20_500, reserved=False)
            write(log, put_record(20_000))
    assert full.value.used_bytes == log.appended_position
    assert names(disk, "segment-") + names(disk, "spare-") <= SMALL.segments_max
    assert count * 20_000 > (SMALL.segments_max - 1) * PAYLOAD_BYTES


def test_the_last_part_of_a_full_log_is_kept_for_gets() -> None:
    disk = new_disk()
    log = open_log(disk)
    with pytest.raises(LogFull):
        for _ in range(100):
            log.require_room(5_000, reserved=False)
            write(log, put_record(4_500))
    for unit in range(20):
        log.require_room(100, reserved=True)
        write(log, CommitRecord(unit))
    with pytest.raises(LogFull):
        log.require_room(PAYLOAD_BYTES, reserved=True)


def test_a_disk_that_is_full_makes_the_log_full() -> None:
    disk = new_disk()
    log = open_log(disk)
    disk.faults = PlannedFaults(Fault(at=1, error_number=errno.ENOSPC, operations=WRITES, for_ever=True))
    with pytest.raises(LogFull):
        log.require_room(100, reserved=True)
    disk.faults = None
    log.require_room(100, reserved=True)


def test_a_disk_that_fails_is_no_full_log() -> None:
    disk = new_disk()
    log = open_log(disk)
    disk.faults = PlannedFaults(Fault(at=1, error_number=errno.EIO, operations=WRITES))
    with pytest.raises(DiskFailed):
        log.require_room(100, reserved=True)


def test_a_linear_log_grows_as_long_as_the_disk_lets_it() -> None:
    disk = new_disk()
    linear = replace(SMALL, kind="linear")
    log = open_log(disk, settings=linear)
    for _ in range(4 * SMALL.segments_max):
        log.require_room(20_500, reserved=False)
        write(log, put_record(20_000))
    assert names(disk, "segment-") > SMALL.segments_max
