# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from entrepot.disk import Disk
from entrepot.testing import Fault, FaultyDisk, KillingDisk, PlannedFaults

WRITES = frozenset({"write"})


def scenario(disk: Disk) -> None:
    """Eight calls that change the disk, one of each kind and a second write."""
    file = disk.open("draft", create=True)
    file.write(0, [b"0123", b"4567"])
    file.force()
    file.truncate(6)
    disk.rename("draft", "file")
    disk.force_folder("")
    other = disk.open("file", create=True)
    other.write(6, [b"ab"])
    disk.remove("file")


STATES: list[dict[str, bytes]] = [
    {},
    {"draft": b""},
    {"draft": b"01234567"},
    {"draft": b"01234567"},
    {"draft": b"012345"},
    {"file": b"012345"},
    {"file": b"012345"},
    {"file": b"012345ab"},
    {},
]
"""What the folder holds after so many calls."""


def end_of_child(work: Callable[[], None]) -> int:
    """Do the work in a child process; its exit code, or minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def files(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.iterdir()}


def test_dry_run_counts_the_points_to_kill_at(tmp_path: Path) -> None:
    disk = KillingDisk(tmp_path, 0)
    scenario(disk)
    assert disk.count == 8


@pytest.mark.parametrize("at", range(1, 9))
def test_process_dies_right_after_its_call(tmp_path: Path, at: int) -> None:
    assert end_of_child(lambda: scenario(KillingDisk(tmp_path, at))) == -signal.SIGKILL
    assert files(tmp_path) == STATES[at]


@pytest.mark.parametrize("at", range(1, 9))
def test_process_dies_right_before_its_call(tmp_path: Path, at: int) -> None:
    assert end_of_child(lambda: scenario(KillingDisk(tmp_path, at, part=0.0))) == -signal.SIGKILL
    assert files(tmp_path) == STATES[at - 1]


@pytest.mark.parametrize(("at", "expected"), [(2, {"draft": b"01234"}), (7, {"file": b"012345a"})])
def test_process_dies_with_a_write_done_in_part(tmp_path: Path, at: int, expected: dict[str, bytes]) -> None:
    assert end_of_child(lambda: scenario(KillingDisk(tmp_path, at, part=0.7))) == -signal.SIGKILL
    assert files(tmp_path) == expected


@pytest.mark.parametrize("at", [1, 3, 4, 5, 6, 8])
def test_call_that_cannot_be_torn_is_not_made(tmp_path: Path, at: int) -> None:
    assert end_of_child(lambda: scenario(KillingDisk(tmp_path, at, part=0.7))) == -signal.SIGKILL
    assert files(tmp_path) == STATES[at - 1]


def test_process_lives_when_the_call_is_never_reached(tmp_path: Path) -> None:
    assert end_of_child(lambda: scenario(KillingDisk(tmp_path, 9))) == 0
    assert files(tmp_path) == {}


def test_part_beyond_the_whole_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        KillingDisk(tmp_path, 1, part=1.5)


@pytest.mark.parametrize("error_number", [errno.EIO, errno.ENOSPC])
def test_write_fails_once_with_the_planned_error(tmp_path: Path, error_number: int) -> None:
    disk = FaultyDisk(tmp_path, PlannedFaults(Fault(2, error_number, WRITES)))
    file = disk.open("a", create=True)
    file.write(0, [b"one"])
    with pytest.raises(OSError, match="a") as caught:
        file.write(3, [b"two"])
    assert (caught.value.errno, caught.value.filename) == (error_number, "a")
    file.write(3, [b"six"])
    assert file.read(0, 9) == b"onesix"


def test_short_write_is_carried_on_behind_what_it_did(tmp_path: Path) -> None:
    faults = PlannedFaults(Fault(1, None, WRITES, for_ever=True, part=0.4))
    file = FaultyDisk(tmp_path, faults).open("a", create=True)
    file.write(0, [b"0123", b"", b"4567", b"89"])
    assert file.read(0, 20) == b"0123456789"
    assert faults.count > 4


def test_disk_that_fills_up_leaves_a_write_in_part(tmp_path: Path) -> None:
    full = Fault(2, errno.ENOSPC, WRITES, for_ever=True)
    file = FaultyDisk(tmp_path, PlannedFaults(Fault(1, None, WRITES), full)).open("a", create=True)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            file.write(0, [b"0123", b"4567"])
    assert file.read(0, 20) == b"0123"


@pytest.mark.parametrize("operation", ["create", "force", "truncate", "rename", "force_folder", "open", "remove"])
def test_each_kind_of_call_can_fail(tmp_path: Path, operation: str) -> None:
    with pytest.raises(OSError, match="Input/output"):
        scenario(FaultyDisk(tmp_path, PlannedFaults(Fault(1, operations=frozenset({operation})))))


def test_read_and_make_folder_can_fail(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path, PlannedFaults(Fault(1, operations=frozenset({"read", "make_folder"}), for_ever=True)))
    with pytest.raises(OSError, match="Input/output"):
        disk.make_folder("p")
    with pytest.raises(OSError, match="Input/output"):
        disk.open("a", create=True).read(0, 1)
    assert not disk.exists("p")
