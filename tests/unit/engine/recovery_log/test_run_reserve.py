# SPDX-License-Identifier: Apache-2.0
"""Runs in the space that is kept for checkpoints on a full disk."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path
from random import Random

from entrepot.engine.recovery_log.record import Entry
from entrepot.engine.recovery_log.run import FOLDER, RunStore, run_path
from entrepot.message import Message
from entrepot.testing import FaultyDisk, PlannedFaults, SimulatedDisk
from folding import for_each
from open_files import open_files

from .logs import MANAGER_ID
from .watching import refusing

USUAL = 4096


def new_disk(seed: int = 1) -> SimulatedDisk:
    disk = SimulatedDisk(Random(seed))
    disk.make_folder(FOLDER)
    disk.force_folder(".")
    return disk


def test_a_run_that_was_written_into_the_reserve_survives_a_power_cut() -> None:
    entries = [Entry(key, 3, 0, key * 100, Message(bytes([key]) * 500)) for key in range(1, 20)]
    for seed in range(20):
        disk = new_disk(seed)
        store = RunStore(disk, MANAGER_ID, reserve_bytes=USUAL)
        store.reserve.restock()
        disk.force_folder(FOLDER)
        run = store.write_into_reserve(entries)
        assert run is not None
        assert 5 <= run.entries < len(entries), "as many as there is space for"
        assert store.reserve.sizes() == {}
        assert store.write_into_reserve(entries) is None
        disk.power_cut()
        assert disk.names(FOLDER) == [run_path(run.number).removeprefix(f"{FOLDER}/")], seed
        assert RunStore(disk, MANAGER_ID).read(run.number) == (run, entries[: run.entries]), seed


def stored_in_reserve(entries: list[Entry], reserve_bytes: int) -> int:
    """How many of the entries a reserve of this size takes."""
    disk = new_disk()
    store = RunStore(disk, MANAGER_ID, reserve_bytes=reserve_bytes)
    store.reserve.restock()
    run = store.write_into_reserve(entries)
    if run is None:
        return 0
    assert RunStore(disk, MANAGER_ID).read(run.number) == (run, entries[: run.entries])
    return run.entries


def test_a_reserve_takes_a_run_that_fits_exactly_and_of_one_that_does_not_all_but_an_eighth() -> None:
    entries = [Entry(key, 3, 0, key * 100, Message(Random(key).randbytes(500))) for key in range(16)]
    disk = new_disk()
    RunStore(disk, MANAGER_ID).write(entries, body_bytes=16 * 500, force=True, shared=True)
    size = len(disk.contents(run_path(1)))
    assert [stored_in_reserve(entries, size - less) for less in (0, 1)] == [16, 14]
    assert stored_in_reserve(entries, 400) == 0


def test_a_body_that_neighbours_share_takes_space_in_the_reserve_once() -> None:
    body = Random(1).randbytes(512)
    entries = [Entry(key, 3, 0, key * 100, Message(body, message_id=bytes([key]))) for key in range(8)]
    assert stored_in_reserve(entries, 8 * 512) == 8


def test_a_run_that_is_wanted_no_more_becomes_a_reserve_while_space_is_short() -> None:
    disk = new_disk()
    store = RunStore(disk, MANAGER_ID, reserve_bytes=USUAL)
    entries = [Entry(1, 3, 0, 100, Message(bytes(USUAL)))]
    for _ in range(2):
        store.write(entries, body_bytes=USUAL, force=True)
    store.remove(1)
    store.remove(2)
    assert disk.names(FOLDER) == ["reserve-00000001"]


def test_the_largest_reserve_that_has_space_is_used_first() -> None:
    disk = new_disk()
    disk.put(f"{FOLDER}/reserve-00000001", bytes(100))
    disk.put(f"{FOLDER}/reserve-00000002", bytes(2_000))
    disk.put(f"{FOLDER}/reserve-00000003", bytes(1_000))
    store = RunStore(disk, MANAGER_ID, reserve_bytes=USUAL)
    assert store.write_into_reserve([Entry(1, 3, 0, 100, Message(bytes(500)))]) is not None
    assert sorted(store.reserve.sizes().values()) == [100, 1_000]


@for_each("operation", ["write", "force", "force_folder"])
def test_no_file_stays_open_even_when_the_disk_fails(operation: str, tmp_path: Path) -> None:
    folder = tmp_path / operation
    (folder / FOLDER).mkdir(parents=True)
    entries = [Entry(1, 3, 0, 100, Message(b"x"))]
    disk = FaultyDisk(folder, PlannedFaults())
    for faults in (PlannedFaults(), refusing(operation, errno.EIO)):
        store = RunStore(disk, MANAGER_ID, number_next=len(disk.names(FOLDER)) + 1, reserve_bytes=USUAL)
        store.reserve.restock()
        disk.faults = faults
        with contextlib.suppress(OSError):
            store.write_into_reserve(entries)
    assert len(store.numbers()) == 2
    assert open_files(folder) == []
