# SPDX-License-Identifier: Apache-2.0
"""Runs that refer to bodies in a file of their own, which several queues share."""

from __future__ import annotations

from random import Random

import pytest

from entrepot.engine.recovery_log.bodies import BodyReferences, SharedBody
from entrepot.engine.recovery_log.record import Entry
from entrepot.engine.recovery_log.run import FOLDER, RunStore, bodies_path
from entrepot.errors import RunDamaged
from entrepot.message import Message
from entrepot.testing import SimulatedDisk
from folding import for_each

from .logs import MANAGER_ID
from .watching import Noted, refusing

COUNT = 20
BODIES = [Random(number).randbytes(400) for number in range(COUNT)]


def new_disk(seed: int = 1) -> SimulatedDisk:
    disk = SimulatedDisk(Random(seed))
    disk.make_folder(FOLDER)
    disk.force_folder(".")
    return disk


def store_on(disk: SimulatedDisk) -> RunStore:
    return RunStore(disk, MANAGER_ID)


def new_shares() -> list[SharedBody]:
    return [SharedBody(body, 2) for body in BODIES]


def entries(*, persistent: bool = True) -> list[Entry]:
    return [Entry(key, 3, 0, key, Message(body, persistent=persistent)) for key, body in enumerate(BODIES)]


def spill(store: RunStore, shares: list[SharedBody], stored: list[Entry] | None = None) -> tuple[int, BodyReferences]:
    """Write a run whose bodies are shared; its number, and what it borrows."""
    stored = stored or entries()
    loan = store.lend(stored, list(shares))
    return store.write(stored, body_bytes=0, force=True).number, loan


def bodies_of(store: RunStore, number: int, gone: bytes = b"", *, persistent_only: bool = False) -> list[bytes]:
    return [entry.message.body for entry in store.read(number, gone, persistent_only=persistent_only)[1]]


# --- writing and reading ----------------------------------------------------------------------


def test_several_runs_have_the_bodies_that_are_stored_once() -> None:
    disk = new_disk()
    store, shares = store_on(disk), new_shares()
    numbers = [spill(store, shares)[0] for _ in range(3)]
    stored = b"".join(disk.contents(path) for path in disk.paths())
    assert [stored.count(body) for body in BODIES] == [1] * COUNT
    assert store.body_numbers() == [1]
    assert store.numbers() == numbers
    for number in numbers:
        assert bodies_of(store_on(disk), number) == BODIES


def test_entries_that_share_nothing_leave_no_file_of_bodies() -> None:
    disk = new_disk()
    store = store_on(disk)
    assert store.lend(entries(), [None] * COUNT).new == []
    assert disk.names(FOLDER) == []


def test_a_file_of_bodies_is_read_once_for_all_entries_of_a_run() -> None:
    disk = new_disk()
    number, loan = spill(store_on(disk), new_shares())
    disk.faults = noted = Noted()
    assert bodies_of(store_on(disk), number) == BODIES
    assert noted.opened(bodies_path(loan.own.number)) == 1


def test_bodies_in_memory_are_not_read_again() -> None:
    disk = new_disk()
    store, shares = store_on(disk), new_shares()
    number, loan = spill(store, shares)
    disk.faults = noted = Noted()
    assert bodies_of(store, number) == BODIES
    assert noted.opened(bodies_path(loan.own.number)) == 0


def test_entries_that_have_gone_need_no_body_and_all_others_do() -> None:
    disk = new_disk()
    number, loan = spill(store_on(disk), new_shares())
    for index in range(COUNT):
        gone = (1 << index).to_bytes(3, "little")
        assert bodies_of(store_on(disk), number, gone) == [*BODIES[:index], b"", *BODIES[index + 1 :]]
    disk.remove(bodies_path(loan.own.number))
    assert bodies_of(store_on(disk), number, b"\xff\xff\x0f") == [b""] * COUNT
    with pytest.raises(RunDamaged, match="cannot be read"):
        store_on(disk).read(number, b"\xff\xff\x07")


def test_after_a_crash_only_persistent_messages_need_their_bodies() -> None:
    disk = new_disk()
    mixed = entries()
    mixed[1:] = entries(persistent=False)[1:]
    number, loan = spill(store_on(disk), new_shares(), mixed)
    assert bodies_of(store_on(disk), number, persistent_only=True) == [BODIES[0]] + [b""] * (COUNT - 1)
    assert bodies_of(store_on(disk), number) == BODIES
    disk.remove(bodies_path(loan.own.number))
    with pytest.raises(RunDamaged, match="cannot be read"):
        store_on(disk).read(number, persistent_only=True)


def test_a_body_that_its_file_does_not_have_is_damage() -> None:
    disk = new_disk()
    store = store_on(disk)
    _, loan = spill(store, new_shares())
    referring = Entry(1, 3, 0, 100, Message(b""), body_file=loan.own.number, body_index=COUNT)
    number = store.write([referring], body_bytes=0, force=True).number
    with pytest.raises(RunDamaged, match=f"it has no body {COUNT}") as refused:
        store.read(number)
    assert refused.value.file.endswith(bodies_path(loan.own.number))


# --- durability -------------------------------------------------------------------------------


@for_each("seed", range(20))
def test_bodies_of_persistent_messages_survive_a_power_cut_once_they_are_forced(seed: int) -> None:
    disk = new_disk(seed)
    store = store_on(disk)
    number, _ = spill(store, new_shares())
    store.force_bodies()
    disk.power_cut()
    assert bodies_of(store_on(disk), number) == BODIES


@for_each("seed", range(20))
def test_bodies_whose_force_was_refused_are_durable_after_the_next(seed: int) -> None:
    disk = new_disk(seed)
    store = store_on(disk)
    number, _ = spill(store, new_shares())
    disk.faults = refusing("force")
    with pytest.raises(OSError, match="No space"):
        store.force_bodies()
    store.force_bodies()
    disk.power_cut()
    assert bodies_of(store_on(disk), number) == BODIES


def test_bodies_are_forced_once_when_they_are_needed_and_not_while_they_are_written() -> None:
    disk = new_disk()
    store = store_on(disk)
    disk.faults = noted = Noted()
    store.lend(entries(), list(new_shares()))
    assert noted.count("force", "force_folder") == 0
    for _ in range(2):
        store.force_bodies()
    assert [path for operation, path in noted.operations if operation == "force"] == [bodies_path(1)]


def test_bodies_that_only_nonpersistent_messages_have_are_not_forced() -> None:
    disk = new_disk()
    store = store_on(disk)
    store.lend(entries(persistent=False), list(new_shares()))
    disk.faults = noted = Noted()
    store.force_bodies()
    assert noted.operations == []


# --- taken back -------------------------------------------------------------------------------


@for_each("operation", ["create", "write"])
def test_when_the_disk_refuses_the_bodies_nothing_remains_and_the_next_run_stores_them(operation: str) -> None:
    disk = new_disk()
    store, shares = store_on(disk), new_shares()
    disk.faults = refusing(operation)
    with pytest.raises(OSError, match="No space"):
        store.lend(entries(), list(shares))
    assert disk.names(FOLDER) == []
    store.force_bodies()  # of which there are none
    number, _ = spill(store, shares)
    assert bodies_of(store_on(disk), number) == BODIES


def test_bodies_of_a_run_that_was_not_written_are_removed_and_stored_with_the_next() -> None:
    disk = new_disk()
    store, shares = store_on(disk), new_shares()
    store.take_back(store.lend(entries(), list(shares)))
    assert disk.names(FOLDER) == []
    store.force_bodies()  # of which there are none
    number, _ = spill(store, shares)
    assert bodies_of(store_on(disk), number) == BODIES


def test_taking_back_leaves_the_bodies_that_another_run_has() -> None:
    disk = new_disk()
    store, shares = store_on(disk), new_shares()
    number, _ = spill(store, shares)
    store.take_back(store.lend(entries(), list(shares)))
    assert bodies_of(store_on(disk), number) == BODIES


def test_a_disk_that_does_not_remove_the_bodies_is_no_reason_to_fail() -> None:
    disk = new_disk()
    store = store_on(disk)
    loan = store.lend(entries(), list(new_shares()))
    disk.faults = refusing("remove")
    store.take_back(loan)
    assert store.body_numbers() == [loan.own.number]


# --- wanted no more ---------------------------------------------------------------------------


@for_each(("references", "persistent", "stays"), [(0, False, False), (1, False, True), (0, True, True)])
def test_a_file_is_dropped_when_neither_a_run_nor_a_restart_needs_it(
    references: int, persistent: bool, stays: bool
) -> None:
    disk = new_disk()
    store, shares = store_on(disk), new_shares()
    file = store.lend(entries(persistent=persistent), list(shares)).own
    file.references = references
    for _ in range(2):
        store.drop_bodies(file)
    assert store.body_numbers() == [1] * stays
    number, _ = spill(store, shares)
    assert bodies_of(store_on(disk), number) == BODIES


def test_a_file_that_has_left_the_shelf_is_removed_by_whoever_took_it() -> None:
    disk = new_disk()
    store = store_on(disk)
    file = store.lend(entries(persistent=False), list(new_shares())).own
    file.references = 0
    assert store.bodies.unwanted() == [file]
    store.drop_bodies(file)
    assert store.body_numbers() == [1]
    store.remove_bodies(file)
    assert store.body_numbers() == []
