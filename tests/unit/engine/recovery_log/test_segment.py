# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
from pathlib import Path

import pytest

from entrepot.disk import Disk
from entrepot.engine.recovery_log.record import FORMAT_VERSION
from entrepot.engine.recovery_log.segment import (
    FOLDER,
    HEAD_PAGE_BYTES,
    SegmentHead,
    SparePool,
    cut_log,
    head_page,
    read_head_page,
    segment_numbers,
    segment_path,
)
from entrepot.errors import FormatUnsupported, LogDamaged, RecoveryError
from entrepot.testing import FaultyDisk, PlannedFaults, SimulatedDisk
from folding import for_each
from open_files import open_files

from .logs import MANAGER_ID, PAYLOAD_BYTES, SALT, SMALL, new_disk, own_head_page
from .watching import Written, refusing

SIZE = SMALL.segment_bytes
UNSALTED = SegmentHead(b"", 7 * PAYLOAD_BYTES)


def pool(disk: Disk) -> SparePool:
    spares = SparePool(disk, MANAGER_ID, SIZE)
    spares.find()
    return spares


def head(number: int) -> SegmentHead:
    return SegmentHead(SALT, number * PAYLOAD_BYTES)


def examine(page: bytes, *, number: int = 7) -> SegmentHead:
    disk = new_disk()
    disk.put(segment_path(7), page)
    return read_head_page(disk, segment_path(7), disk.open(segment_path(7)), MANAGER_ID, number, SIZE)


# --- head pages -------------------------------------------------------------------------------


def test_the_bytes_of_a_head_page_never_change() -> None:
    """If this fails the format has changed: docs/RECOVERY_LOG.md says what to do."""
    page = own_head_page(7)
    assert len(page) == HEAD_PAGE_BYTES
    assert page[:40].hex(" ", -4) == (
        "454e5452 45504f54 03000000 00010203 04050607 08090a0b 07000000 00000000 00000100 00000000"
    )
    assert page[40:80] == SALT + (7 * PAYLOAD_BYTES).to_bytes(8, "little")
    assert not any(page[80:-4])
    assert page[-4:].hex() == "f2965739"


def test_a_head_page_of_format_2_is_read_as_it_was_written() -> None:
    page = head_page(MANAGER_ID, 7, 65_536, UNSALTED, version=2)
    assert page[:40].hex(" ", -4) == (
        "454e5452 45504f54 02000000 00010203 04050607 08090a0b 07000000 00000000 00000100 00000000"
    )
    assert not any(page[40:-4])
    assert page[-4:].hex() == "ab21dff8"
    assert examine(page) == UNSALTED


def test_its_own_head_page_is_accepted() -> None:
    assert examine(own_head_page(7)) == SegmentHead(SALT, 7 * PAYLOAD_BYTES)


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (own_head_page(8), "says number 8"),
        (own_head_page(7, manager_id=bytes(12)), "belongs to another queue manager"),
        (own_head_page(7)[:-1] + b"?", "head page is damaged"),
        (own_head_page(7)[:100], "head page is damaged"),
        (bytes(HEAD_PAGE_BYTES), "head page is damaged"),
        (b"", "head page is damaged"),
    ],
    ids=["another number", "another owner", "a bad CRC", "too short", "zeros", "empty"],
)
def test_another_head_page_is_refused_and_told_why(page: bytes, problem: str) -> None:
    with pytest.raises(LogDamaged, match=problem) as refused:
        examine(page)
    assert refused.value.segment.endswith(segment_path(7))
    assert refused.value.offset == 0


def test_another_segment_size_is_refused() -> None:
    with pytest.raises(RecoveryError):
        examine(own_head_page(7, segment_bytes=SIZE * 2))


def test_another_version_is_refused_as_such() -> None:
    page = head_page(MANAGER_ID, 7, SIZE, SegmentHead(SALT, 0), version=99)
    with pytest.raises(FormatUnsupported) as refused:
        examine(page)
    assert (refused.value.version, refused.value.supported) == (99, FORMAT_VERSION)


def test_segments_are_found_by_number_and_spares_are_none() -> None:
    disk = new_disk()
    for name in ("segment-00000010.log", "segment-00000002.log", "spare-00000001.log", "making-00000003.log"):
        disk.put(f"{FOLDER}/{name}", b"")
    assert segment_numbers(disk) == [2, 10]


# --- spares -----------------------------------------------------------------------------------


@for_each("seed", range(20))
def test_a_spare_is_made_of_zeros_and_survives_a_power_cut(seed: int) -> None:
    disk = new_disk(seed)
    spares = pool(disk)
    spares.make()
    assert len(spares) == 1
    disk.power_cut()
    assert disk.paths() == ["log/spare-00000000.log"]
    assert disk.contents("log/spare-00000000.log") == bytes(SIZE)


@for_each("seed", range(40))
def test_a_power_cut_at_any_operation_leaves_no_spare_that_is_not_whole(seed: int) -> None:
    disk = new_disk(seed)

    class Cut(Exception):
        pass

    class PowerCut:
        left = seed % 6 + 1

        def before(self, operation: str, path: str, size: int) -> int | None:
            self.left -= 1
            if self.left == 0:
                raise Cut
            return None

    disk.faults = PowerCut()
    with pytest.raises(Cut):
        pool(disk).make()
        pool(disk).make()
    disk.faults = None
    disk.power_cut()
    for path in disk.paths():
        assert path.startswith("log/making-") or len(disk.contents(path)) == SIZE
    pool(disk)
    assert not any(path.startswith("log/making-") for path in disk.paths())


def test_every_byte_of_a_spare_is_written_whatever_its_size() -> None:
    """A hole would make later forces write the file's metadata too."""
    for size in (SIZE, 1024 * 1024, 2 * 1024 * 1024 + HEAD_PAGE_BYTES):
        disk = new_disk()
        disk.faults = written = Written()
        SparePool(disk, MANAGER_ID, size).make()
        assert disk.contents("log/spare-00000000.log") == bytes(size)
        assert written.bytes == size


@for_each("operation", ["create", "write", "force", "rename", "force_folder"])
def test_a_disk_that_is_full_leaves_nothing_of_a_spare(operation: str) -> None:
    disk = new_disk()
    spares = pool(disk)
    disk.faults = refusing(operation)
    with pytest.raises(OSError, match="No space"):
        spares.make()
    assert disk.paths() == []
    assert len(spares) == 0
    spares.make()
    assert len(spares) == len(disk.paths()) == 1


def folder_disk(folder: Path) -> FaultyDisk:
    disk = FaultyDisk(folder, PlannedFaults())
    disk.make_folder(FOLDER)
    return disk


def test_a_spare_is_closed_whether_the_disk_takes_it_or_not(tmp_path: Path) -> None:
    disk = folder_disk(tmp_path)
    spares = pool(disk)
    spares.make()
    disk.faults = refusing("force")
    with pytest.raises(OSError, match="No space"):
        spares.make()
    assert open_files(tmp_path) == []


def test_a_segment_that_the_disk_refuses_is_closed_and_can_be_tried_again(tmp_path: Path) -> None:
    disk = folder_disk(tmp_path)
    spares = pool(disk)
    for operation in ("write", "force", "rename", "force_folder"):
        spares.make()
        disk.faults = refusing(operation)
        with pytest.raises(OSError, match="No space"):
            spares.use(3, head(3))
        assert open_files(tmp_path) == []
    assert len(spares) == 3, "only the last one has its new name"
    spares.use(3, head(3)).close()
    assert (tmp_path / segment_path(3)).read_bytes()[:HEAD_PAGE_BYTES] == own_head_page(3)


@for_each("seed", range(20))
def test_a_used_spare_is_a_segment_with_its_head_page_even_after_a_power_cut(seed: int) -> None:
    disk = new_disk(seed)
    spares = pool(disk)
    spares.make()
    spares.use(5, head(5)).close()
    disk.power_cut()
    assert disk.paths() == [segment_path(5)]
    assert disk.contents(segment_path(5))[:HEAD_PAGE_BYTES] == own_head_page(5)
    assert len(spares) == 0


@for_each("seed", range(40))
def test_a_file_named_segment_is_one_whenever_the_power_is_cut(seed: int) -> None:
    disk = new_disk(seed)
    spares = pool(disk)
    spares.make()

    class Cut(Exception):
        pass

    class PowerCut:
        left = seed % 5 + 1

        def before(self, operation: str, path: str, size: int) -> int | None:
            self.left -= 1
            if self.left == 0:
                raise Cut
            return None

    disk.faults = PowerCut()
    with pytest.raises(Cut):
        spares.use(3, head(3))
        spares.make()
    disk.faults = None
    disk.power_cut()
    for number in segment_numbers(disk):
        file = disk.open(segment_path(number))
        read_head_page(disk, segment_path(number), file, MANAGER_ID, number, SIZE)


def test_a_segment_taken_back_is_a_spare_again_under_a_new_name() -> None:
    disk = new_disk()
    spares = pool(disk)
    spares.make()
    spares.use(0, head(0)).close()
    spares.take_back(0, keep=True)
    assert disk.paths() == ["log/spare-00000001.log"]
    assert len(spares) == 1
    spares.use(1, head(1)).close()
    assert segment_numbers(disk) == [1]


def test_a_segment_that_is_not_kept_is_removed() -> None:
    disk = new_disk()
    spares = pool(disk)
    spares.make()
    spares.use(0, head(0)).close()
    spares.take_back(0, keep=False)
    assert disk.paths() == []
    assert len(spares) == 0


def test_taking_stock_finds_spares_and_continues_their_numbers() -> None:
    disk = new_disk()
    first = pool(disk)
    first.make()
    first.make()
    disk.put("log/making-00000009.log", b"interrupted")
    second = pool(disk)
    assert len(second) == 2
    assert not disk.exists("log/making-00000009.log")
    second.make()
    assert disk.names(FOLDER) == [f"spare-0000000{number}.log" for number in range(3)]


# --- cutting the log --------------------------------------------------------------------------


def full_segment(number: int) -> bytes:
    return own_head_page(number).ljust(SIZE, b"x")


def full_log(disk: SimulatedDisk, segments: int = 4) -> None:
    for number in range(segments):
        disk.put(segment_path(number), full_segment(number))


@for_each("seed", range(20))
@for_each("offset", [0, 1, 5_000, PAYLOAD_BYTES - 1])
def test_a_log_that_was_cut_ends_there_also_after_a_power_cut(seed: int, offset: int) -> None:
    disk = new_disk(seed)
    full_log(disk)
    cut_log(disk, SIZE, PAYLOAD_BYTES + offset)
    disk.power_cut()
    assert segment_numbers(disk) == [0, 1]
    assert disk.contents(segment_path(0)) == full_segment(0)
    assert disk.contents(segment_path(1)) == full_segment(1)[: HEAD_PAGE_BYTES + offset].ljust(SIZE, b"\0")


def test_a_log_that_ends_where_it_is_cut_stays_as_it_is() -> None:
    disk = new_disk()
    full_log(disk, segments=2)
    cut_log(disk, SIZE, 2 * PAYLOAD_BYTES)
    assert [disk.contents(path) for path in disk.paths()] == [full_segment(0), full_segment(1)]


def test_cutting_the_log_leaves_no_file_open_even_if_the_disk_fails(tmp_path: Path) -> None:
    disk = folder_disk(tmp_path)
    for number in (0, 1):
        (tmp_path / segment_path(number)).write_bytes(full_segment(number))
    disk.faults = refusing("force")
    with pytest.raises(OSError, match="No space"):
        cut_log(disk, SIZE, 100)
    cut_log(disk, SIZE, 100)
    assert open_files(tmp_path) == []


def test_a_log_that_could_not_be_cut_keeps_its_later_segments() -> None:
    disk = new_disk()
    full_log(disk)
    disk.faults = refusing("force", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        cut_log(disk, SIZE, PAYLOAD_BYTES)
    assert segment_numbers(disk) == [0, 1, 2, 3]
