# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import errno
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.disk import Disk
from entrepot.engine.recovery_log.checkpoint import PATH, read_checkpoint, write_checkpoint
from entrepot.engine.recovery_log.record import (
    FORMAT_VERSION,
    CheckpointRecord,
    CommitRecord,
    CountsRecord,
    EndRecord,
    Record,
    Run,
    frame,
)
from entrepot.errors import CheckpointDamaged, FormatUnsupported
from entrepot.testing import Fault, Faults, FaultyDisk, PlannedFaults, SimulatedDisk
from folding import for_each
from open_files import open_files

from .logs import MANAGER_ID, put_record
from .watching import Noted

ROOM_BYTES_MIN = 128 * 1024


def head(number: int, *, version: int = FORMAT_VERSION) -> CheckpointRecord:
    return CheckpointRecord(version, MANAGER_ID, number * 100, number * 200, number, 1, 1, 1, 1.7e9)


def contents(number: int) -> list[Record]:
    """What checkpoint `number` says: of another length than the ones before and after it."""
    return [put_record(400 * (number % 5), key=number), Run(number, 8, b"\1"), *[CommitRecord(number)] * (number % 7)]


def write(disk: Disk, number: int) -> None:
    write_checkpoint(disk, head(number), contents(number))


def framed(*records: Record) -> bytes:
    data = b""
    for record in records:
        data += b"".join(frame(record, len(data)))
    return data


def damaged(data: bytes) -> CheckpointDamaged:
    disk = SimulatedDisk(Random(1))
    disk.put(PATH, data)
    with pytest.raises(CheckpointDamaged) as refused:
        read_checkpoint(disk)
    assert refused.value.file.endswith(PATH)
    return refused.value


def test_a_checkpoint_is_read_as_it_was_written() -> None:
    disk = SimulatedDisk(Random(1))
    write(disk, 3)
    assert read_checkpoint(disk) == (head(3), contents(3))
    assert disk.paths() == [PATH]


def test_a_checkpoint_of_nothing_is_one() -> None:
    disk = SimulatedDisk(Random(1))
    write_checkpoint(disk, head(1), [])
    assert read_checkpoint(disk) == (head(1), [])


@pytest.mark.parametrize("order", [(1, 6), (6, 1)], ids=["longer", "shorter"])
def test_a_new_checkpoint_replaces_a_longer_or_shorter_one_wholly(order: tuple[int, int]) -> None:
    disk = SimulatedDisk(Random(1))
    for number in order:
        write(disk, number)
    disk.power_cut()
    assert read_checkpoint(disk) == (head(order[1]), contents(order[1]))


class PowerCut(Exception):
    pass


class PowerCutAt:
    """The power fails before the n-th operation."""

    def __init__(self, operations: int) -> None:
        self._left = operations

    def before(self, operation: str, path: str, size: int) -> int | None:
        self._left -= 1
        if self._left < 0:
            raise PowerCut
        return None


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 12), st.integers(1, 40))
def test_a_power_cut_at_any_operation_leaves_the_old_checkpoint_or_the_new(seed: int, cut: int, number: int) -> None:
    disk = SimulatedDisk(Random(seed))
    write(disk, number)
    disk.faults = PowerCutAt(cut)
    written = False
    try:
        write(disk, number + 1)
        written = True
    except PowerCut:
        pass
    disk.faults = None
    disk.power_cut()
    found = read_checkpoint(disk)
    new = (head(number + 1), contents(number + 1))
    assert found == new if written else found in ((head(number), contents(number)), new)
    # What was left lying about does not spoil the next one.
    write(disk, number + 2)
    disk.power_cut()
    assert read_checkpoint(disk) == (head(number + 2), contents(number + 2))


def interrupted(disk: SimulatedDisk, number: int, faults: Faults) -> None:
    """Begin a checkpoint that may not be finished."""
    disk.faults = faults
    with contextlib.suppress(PowerCut, OSError):
        write(disk, number)
    disk.faults = None


@for_each("operations", range(9))
@for_each("seed", range(10))
def test_what_is_read_after_a_kill_at_any_operation_is_still_there_after_a_power_cut(
    seed: int, operations: int
) -> None:
    """A restart removes what only an older checkpoint needs."""
    disk = SimulatedDisk(Random(seed))
    write(disk, 1)
    interrupted(disk, 2, PowerCutAt(operations))
    disk.kill()
    found = read_checkpoint(disk)
    disk.power_cut()
    assert read_checkpoint(disk) == found


@for_each("second", range(9))
@for_each("first", range(4, 8))
@for_each("seed", range(4))
def test_a_checkpoint_after_an_interrupted_one_spoils_none_before_it(seed: int, first: int, second: int) -> None:
    disk = SimulatedDisk(Random(seed))
    write(disk, 1)
    interrupted(disk, 2, PowerCutAt(first))
    interrupted(disk, 3, PowerCutAt(second))
    disk.power_cut()
    assert read_checkpoint(disk) in [(head(number), contents(number)) for number in (1, 2, 3)]


def test_after_a_refused_rename_the_next_checkpoint_gives_the_old_one_its_name_again() -> None:
    """A backup copies it by its name."""
    disk = SimulatedDisk(Random(1))
    write(disk, 1)
    old = disk.contents(PATH)
    interrupted(disk, 2, PlannedFaults(Fault(at=2, error_number=errno.ENOSPC, operations=frozenset({"rename"}))))
    assert not disk.exists(PATH)
    interrupted(disk, 3, PlannedFaults(Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"write"}))))
    assert disk.contents(PATH) == old


def test_neither_writing_nor_reading_leaves_a_file_open(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path, PlannedFaults(Fault(at=3, operations=frozenset({"write"}))))
    write(disk, 1)
    with pytest.raises(OSError, match="Input/output"):
        write(disk, 2)
    assert read_checkpoint(disk)[0] == head(1)
    assert open_files(tmp_path) == []


# --- space ------------------------------------------------------------------------------------


@for_each("seed", range(10))
def test_a_checkpoint_has_room_for_a_larger_one_also_after_a_power_cut(seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    small, large = 10, 60_000
    for size, room in ((small, ROOM_BYTES_MIN), (large, 4 * large), (small, ROOM_BYTES_MIN), (small, 4 * large)):
        write_checkpoint(disk, head(1), [put_record(size)])
        disk.power_cut()
        assert room <= len(disk.contents(PATH)) < room + 1_000


class Copying:
    """A disk with so many bytes left, of which every write takes some, as file systems do that copy on write."""

    def __init__(self, space: int) -> None:
        self._space = space

    def before(self, operation: str, path: str, size: int) -> int | None:
        if operation == "write":
            if size > self._space:
                raise OSError(errno.ENOSPC, "No space left on device", path)
            self._space -= size
        return None


NEEDED = len(framed(head(1), *contents(1), EndRecord(1 + len(contents(1)))))


@for_each("space", [NEEDED, ROOM_BYTES_MIN // 2, ROOM_BYTES_MIN])
def test_a_checkpoint_comes_before_room_for_larger_ones_and_needs_no_byte_more(space: int) -> None:
    disk = SimulatedDisk(Random(1))
    disk.faults = Copying(space)
    write(disk, 1)
    assert read_checkpoint(disk) == (head(1), contents(1))


def test_a_disk_that_fails_while_room_is_made_is_reported() -> None:
    disk = SimulatedDisk(Random(1))
    disk.faults = PlannedFaults(Fault(at=2, error_number=errno.EIO, operations=frozenset({"write"})))
    with pytest.raises(OSError, match="Input/output"):
        write(disk, 1)


def test_room_that_is_there_is_not_written_again() -> None:
    disk = SimulatedDisk(Random(1))
    write(disk, 1)
    write(disk, 1)
    disk.faults = noted = Noted()
    write(disk, 1)
    assert noted.count("write") == 1


def test_a_checkpoint_needs_no_space_that_it_does_not_have() -> None:
    disk = SimulatedDisk(Random(1))
    write(disk, 1)
    write(disk, 2)
    sizes = {path: len(disk.contents(path)) for path in disk.paths()}
    for number in range(3, 9):
        disk.faults = Tight(sizes)
        write(disk, number)
        disk.faults = None
        disk.power_cut()
        assert read_checkpoint(disk) == (head(number), contents(number))
    assert len(disk.paths()) == 2


class Tight:
    """A disk that has no space but what its files have already."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self._size = min(sizes.values())

    def before(self, operation: str, path: str, size: int) -> int | None:
        if operation in ("create", "allocate") or (operation == "write" and size > self._size):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return None


@for_each("number", [errno.ENOSPC, errno.EIO])
@for_each("at", range(1, 5))
def test_when_the_disk_refuses_the_old_checkpoint_stands(number: int, at: int) -> None:
    disk = SimulatedDisk(Random(1))
    write(disk, 1)
    write(disk, 1)  # there are two files from now on, and both have more room than they need
    changing = frozenset({"create", "truncate", "write", "force", "rename"})
    disk.faults = PlannedFaults(Fault(at=at, error_number=number, operations=changing))
    with pytest.raises(OSError, match=PATH):
        write(disk, 2)
    disk.faults = None
    disk.power_cut()
    assert read_checkpoint(disk) == (head(1), contents(1))
    write(disk, 3)
    assert read_checkpoint(disk) == (head(3), contents(3))


def test_a_checkpoint_cut_at_any_byte_is_damaged() -> None:
    whole = framed(head(1), CommitRecord(1), EndRecord(2))
    for cut in range(len(whole)):
        damaged(whole[:cut])


def test_bytes_behind_the_end_are_damage() -> None:
    assert "number of records" in damaged(framed(head(1), EndRecord(1)) + b"\0\1").problem


def test_a_wrong_number_of_records_is_damage() -> None:
    assert "number of records" in damaged(framed(head(1), CommitRecord(1), EndRecord(1))).problem


def test_a_checkpoint_that_begins_otherwise_is_none() -> None:
    assert "does not begin as a checkpoint" in damaged(framed(CommitRecord(1), EndRecord(1))).problem
    assert "does not begin as a checkpoint" in damaged(framed(EndRecord(0))).problem


def test_where_there_is_no_checkpoint_its_name_is_what_is_missed() -> None:
    with pytest.raises(FileNotFoundError) as missing:
        read_checkpoint(SimulatedDisk(Random(1)))
    assert missing.value.filename == PATH


def test_damage_is_named_by_the_offset_of_its_record() -> None:
    begin = len(framed(head(1)))
    data = bytearray(framed(head(1), CountsRecord({1: 2}), EndRecord(2)))
    data[begin + 22] ^= 1
    assert damaged(bytes(data)).offset == begin


def test_another_version_is_refused_as_such() -> None:
    disk = SimulatedDisk(Random(1))
    write_checkpoint(disk, head(1, version=FORMAT_VERSION + 1), [])
    with pytest.raises(FormatUnsupported) as refused:
        read_checkpoint(disk)
    assert refused.value.version == FORMAT_VERSION + 1
