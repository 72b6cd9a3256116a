# SPDX-License-Identifier: Apache-2.0
"""Space that is kept for checkpoints on a full disk: how much of it, and that it is there when it is needed."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from entrepot.disk import Disk
from entrepot.engine.recovery_log.reserve import Reserve
from entrepot.engine.recovery_log.run import FOLDER
from entrepot.testing import Fault, FaultyDisk, PlannedFaults, SimulatedDisk
from open_files import open_files

USUAL = 4096


def new_disk(seed: int = 1) -> SimulatedDisk:
    disk = SimulatedDisk(Random(seed))
    disk.make_folder(FOLDER)
    disk.force_folder(".")
    return disk


def stocked(disk: Disk) -> Reserve:
    reserve = Reserve(disk, FOLDER, USUAL)
    reserve.restock()
    return reserve


def lay(disk: Disk, name: str, size: int) -> str:
    path = f"{FOLDER}/{name}"
    file = disk.open(path, create=True)
    file.write(0, [b"x" * size])
    file.close()
    return path


def test_the_usual_space_is_made_once() -> None:
    disk = new_disk()
    reserve = stocked(disk)
    assert list(reserve.sizes().values()) == [USUAL]
    reserve.restock()
    assert disk.names(FOLDER) == ["reserve-00000001"]


def test_space_that_was_made_survives_a_power_cut() -> None:
    for seed in range(20):
        disk = new_disk(seed)
        stocked(disk)
        disk.force_folder(FOLDER)
        disk.power_cut()
        assert Reserve(disk, FOLDER, USUAL).sizes() == {f"{FOLDER}/reserve-00000001": USUAL}, seed


def test_where_there_is_no_space_nothing_is_left_behind() -> None:
    disk = new_disk()
    disk.faults = PlannedFaults(Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"write"})))
    assert stocked(disk).sizes() == {}
    assert disk.names(FOLDER) == []


def test_a_disk_that_fails_is_told_of() -> None:
    disk = new_disk()
    disk.faults = PlannedFaults(Fault(at=1, error_number=errno.EIO, operations=frozenset({"write"})))
    with pytest.raises(OSError, match="Input/output"):
        stocked(disk)


def test_no_file_stays_open(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    disk = FaultyDisk(tmp_path, PlannedFaults(Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"write"}))))
    assert stocked(disk).sizes() == {}
    reserve = stocked(disk)
    reserve.want(USUAL)
    assert reserve.keep(lay(disk, "first", USUAL))
    assert len(Reserve(disk, FOLDER, USUAL).sizes()) == 2
    assert open_files(tmp_path) == []


def test_files_that_are_wanted_no_more_are_kept_up_to_what_is_wanted() -> None:
    disk = new_disk()
    reserve = stocked(disk)
    assert not reserve.keep(lay(disk, "first", USUAL)), "there is enough"
    reserve.want(USUAL + 1)
    assert not reserve.keep(lay(disk, "small", USUAL // 2 - 1)), "not worth a name"
    assert reserve.keep(lay(disk, "second", USUAL))
    assert reserve.keep(lay(disk, "third", USUAL // 2))
    assert sum(reserve.sizes().values()) == 2 * USUAL + USUAL // 2
    assert not reserve.keep(lay(disk, "fourth", USUAL)), "that is more than was wanted"
    assert sorted(disk.names(FOLDER)) == [
        "first",
        "fourth",
        "reserve-00000001",
        "reserve-00000002",
        "reserve-00000003",
        "small",
    ]
    assert Reserve(disk, FOLDER, USUAL).sizes() == reserve.sizes(), "the largest first, also for the next process"


def test_what_is_wanted_no_more_is_let_go() -> None:
    disk = new_disk()
    reserve = stocked(disk)
    reserve.want(2 * USUAL)
    assert reserve.keep(lay(disk, "first", 2 * USUAL))
    reserve.restock()
    assert len(reserve.sizes()) == 2, "all of it is wanted"
    reserve.want(0)
    reserve.restock()
    assert list(reserve.sizes().values()) == [USUAL]
    assert disk.names(FOLDER) == ["reserve-00000001"]


def test_without_a_reserve_nothing_is_ever_kept() -> None:
    disk = new_disk()
    reserve = Reserve(disk, FOLDER, 0)
    reserve.want(USUAL)
    reserve.restock()
    assert not reserve.keep(lay(disk, "first", USUAL))
    assert reserve.sizes() == {}


def test_numbers_go_on_where_the_process_before_left_them() -> None:
    disk = new_disk()
    reserve = stocked(disk)
    reserve.want(9 * USUAL)
    reserve.keep(lay(disk, "first", USUAL))
    reserve = Reserve(disk, FOLDER, USUAL)
    reserve.want(9 * USUAL)
    reserve.keep(lay(disk, "second", USUAL))
    assert sorted(disk.names(FOLDER)) == ["reserve-00000001", "reserve-00000002", "reserve-00000003"]
