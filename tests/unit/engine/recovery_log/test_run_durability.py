# SPDX-License-Identifier: Apache-2.0
"""Runs whose writes come later, fail or are forced late: what is on disk in the end, and by which operations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from entrepot.disk import Disk
from entrepot.engine.recovery_log.record import Entry
from entrepot.engine.recovery_log.run import FOLDER, UNWRITTEN_MAX, RunStore, StoredRun, run_path
from entrepot.errors import RunDamaged
from entrepot.message import Message
from entrepot.testing import FaultyDisk, SimulatedDisk
from folding import for_each
from open_files import open_files

from .logs import MANAGER_ID
from .watching import Noted, refusing


class Late(Future[None]):
    """A call that is made when its outcome is asked for."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__()
        self._call = call

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self.done():
            try:
                self.set_result(self._call())
            except OSError as error:
                self.set_exception(error)
        return super().exception(timeout)


class Later(Executor):
    """A background thread that does nothing before somebody waits for it."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **options: Any) -> Late:
        return Late(partial(call, *arguments, **options))


def new_disk(seed: int = 1) -> SimulatedDisk:
    disk = SimulatedDisk(Random(seed))
    disk.make_folder(FOLDER)
    disk.force_folder(".")
    return disk


def late_store(disk: Disk) -> RunStore:
    return RunStore(disk, MANAGER_ID, background=Later())


ENTRIES = [Entry(key, 3, 0, key * 100, Message(Random(key).randbytes(100))) for key in range(1, 61)]
BODY_BYTES = 60 * 100
FOLDER_FORCED = ("force_folder", FOLDER)


def write(store: RunStore, *, force: bool = False, at_once: bool = False) -> StoredRun:
    return store.write(ENTRIES, body_bytes=BODY_BYTES, force=force, at_once=at_once)


def on_disk(disk: SimulatedDisk, number: int = 1) -> list[Entry]:
    """What another process would read."""
    return RunStore(disk, MANAGER_ID).read(number)[1]


# --- forced late ------------------------------------------------------------------------------


@for_each("seed", range(20))
def test_a_run_forced_before_its_background_write_survives_a_power_cut(seed: int) -> None:
    disk = new_disk(seed)
    store = late_store(disk)
    write(store)
    store.force(1)
    disk.power_cut()
    assert on_disk(disk) == ENTRIES


@for_each("seed", range(20))
def test_a_run_whose_force_was_refused_is_durable_after_the_next_force(seed: int) -> None:
    """Linux forgets what it could not write: a second force alone would succeed and change nothing."""
    disk = new_disk(seed)
    store = RunStore(disk, MANAGER_ID)
    write(store)
    disk.faults = refusing("force")
    with pytest.raises(OSError, match="No space"):
        store.force(1)
    store.force(1)
    disk.power_cut()
    assert on_disk(disk) == ENTRIES


def test_a_run_that_is_no_longer_whole_after_a_refused_force_is_never_called_durable() -> None:
    disk = new_disk()
    store = RunStore(disk, MANAGER_ID)
    write(store)
    disk.faults = refusing("force")
    with pytest.raises(OSError, match="No space"):
        store.force(1)
    disk.flip_bit(run_path(1), 2_000, 0)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            store.force(1)


def test_a_run_is_forced_without_being_written_again() -> None:
    disk = new_disk()
    store = RunStore(disk, MANAGER_ID)
    write(store)
    write(store)
    store.force(1)
    disk.faults = noted = Noted()
    for number in (1, 2):
        store.force(number)
    assert noted.operations == [
        step for number in (1, 2) for step in (("open", run_path(number)), ("force", run_path(number)), FOLDER_FORCED)
    ]


# --- written in the background ----------------------------------------------------------------


def test_a_run_that_waits_for_the_background_has_its_space_and_nothing_else() -> None:
    disk = new_disk()
    disk.faults = noted = Noted()
    write(late_store(disk))
    assert noted.operations == [("create", run_path(1)), ("allocate", run_path(1))]


@for_each("operation", ["create", "allocate"])
def test_a_run_for_which_there_is_no_space_is_refused_at_once_and_leaves_nothing(operation: str) -> None:
    disk = new_disk()
    store = late_store(disk)
    disk.faults = refusing(operation)
    with pytest.raises(OSError, match="No space"):
        write(store)
    assert store.numbers() == []
    assert write(store).number == 2
    assert store.read(2)[1] == ENTRIES


def test_runs_gather_up_to_a_bound_and_then_the_oldest_is_written() -> None:
    disk = new_disk()
    store = late_store(disk)
    disk.faults = noted = Noted()
    for _ in range(UNWRITTEN_MAX):
        write(store)
    assert noted.count("write") == 0
    write(store)
    assert [path for operation, path in noted.operations if operation == "write"] == [run_path(1)]


def test_a_run_to_be_written_at_once_is_on_disk_but_not_forced() -> None:
    disk = new_disk()
    disk.faults = noted = Noted()
    write(late_store(disk), at_once=True)
    assert on_disk(disk) == ENTRIES
    assert noted.count("force", "force_folder") == 0


def test_writing_in_the_background_forces_nothing_even_after_a_failed_write() -> None:
    disk = new_disk()
    store = late_store(disk)
    disk.faults = noted = Noted(refusing("write"))
    for _ in range(2 * UNWRITTEN_MAX):
        write(store)
    assert on_disk(disk, 1) == ENTRIES
    assert noted.count("force", "force_folder") == 0


def test_forcing_a_run_whose_write_failed_writes_it_again_and_forces_it_once() -> None:
    disk = new_disk()
    store = late_store(disk)
    write(store)
    disk.faults = noted = Noted(refusing("write"))
    store.force(1)
    assert on_disk(disk) == ENTRIES
    assert noted.count("force") == noted.count("force_folder") == 1


def test_a_run_is_read_from_memory_only_until_it_is_on_disk() -> None:
    disk = new_disk()
    store = late_store(disk)
    for _ in range(UNWRITTEN_MAX + 1):
        write(store)
    store.force(2)
    disk.faults = noted = Noted()
    for number in range(1, UNWRITTEN_MAX + 2):
        assert store.read(number)[1] == ENTRIES
    assert [path for operation, path in noted.operations if operation == "read"] == [run_path(1), run_path(2)]


def test_a_run_that_is_removed_before_it_was_written_is_gone() -> None:
    disk = new_disk()
    store = late_store(disk)
    write(store)
    store.remove(1)
    assert disk.names(FOLDER) == []


# --- files ------------------------------------------------------------------------------------


@for_each("operation", ["create", "allocate", "open", "write", "force", "read", "force_folder"])
def test_no_file_stays_open_whatever_the_disk_refuses(operation: str, tmp_path: Path) -> None:
    folder = tmp_path / operation
    (folder / FOLDER).mkdir(parents=True)
    disk = FaultyDisk(folder, refusing(operation))
    with contextlib.suppress(OSError, RunDamaged):
        use_everything(disk)
    use_everything(disk)
    assert open_files(folder) == []


def use_everything(disk: Disk) -> None:
    store = late_store(disk)
    store = RunStore(disk, MANAGER_ID, number_next=max(store.numbers(), default=0) + 1, background=Later())
    late, forced = write(store), write(store, force=True)
    store.force(late.number)
    store.read(forced.number)
