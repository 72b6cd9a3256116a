# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.disk import Disk, SystemDisk
from entrepot.engine.recovery_log import run as run_module
from entrepot.engine.recovery_log.record import (
    FORMAT_VERSION,
    CommitRecord,
    EndRecord,
    EntriesRecord,
    Entry,
    Record,
    RunHead,
    frame,
    parse,
)
from entrepot.engine.recovery_log.run import CHUNK_BYTES, FOLDER, RunStore, StoredRun, run_path
from entrepot.errors import FormatUnsupported, RunDamaged
from entrepot.message import Message
from entrepot.testing import Fault, FaultyDisk, PlannedFaults, SimulatedDisk
from folding import for_each

from .logs import MANAGER_ID


def new_disk(seed: int = 1) -> SimulatedDisk:
    disk = SimulatedDisk(Random(seed))
    disk.make_folder(FOLDER)
    disk.force_folder(".")
    return disk


def entries(count: int, body_bytes: int = 20) -> list[Entry]:
    random = Random(count)
    return [Entry(key, 3, key % 4, key * 100, Message(random.randbytes(body_bytes))) for key in range(1, count + 1)]


def write(store: RunStore, stored: list[Entry], *, force: bool = True) -> StoredRun:
    return store.write(stored, body_bytes=sum(len(entry.message.body) for entry in stored), force=force)


def store_on(disk: Disk) -> RunStore:
    return RunStore(disk, MANAGER_ID)


# --- writing and reading ----------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.integers(0, 3_000))
def test_a_run_is_read_as_it_was_written(count: int, body_bytes: int) -> None:
    store = store_on(new_disk())
    stored = entries(count, body_bytes)
    run = write(store, stored)
    assert run == StoredRun(1, count)
    assert store.read(1) == (run, stored)


def test_a_run_lies_in_chunks_so_that_one_crc_covers_no_more_than_some() -> None:
    disk = new_disk()
    write(store_on(disk), entries(100, 5_000))
    chunks = disk.contents(run_path(1)).count(bytes([37, 0, 0, 0]))
    assert chunks >= 100 * 5_000 // CHUNK_BYTES


def chunks(disk: SimulatedDisk, number: int = 1) -> list[int]:
    """How many entries each chunk of a run has."""
    content = memoryview(disk.contents(run_path(number)))
    position, sizes = 0, []
    while position < len(content):
        record, position = parse(content, position)
        sizes += [len(record.entries)] if isinstance(record, EntriesRecord) else []
    return sizes


@for_each("shared", [False, True])
def test_a_chunk_has_no_more_entries_than_fit_and_at_least_one(shared: bool) -> None:
    disk = new_disk()
    store = store_on(disk)
    for number, (size, expected) in enumerate([(CHUNK_BYTES, [1] * 5), (CHUNK_BYTES // 2, [1, 1, 1, 1, 1])], 1):
        store.write(entries(5, size), body_bytes=5 * size, force=True, shared=shared)
        assert chunks(disk, number) == expected
    store.write(entries(5, CHUNK_BYTES // 3), body_bytes=5 * (CHUNK_BYTES // 3), force=True, shared=shared)
    assert chunks(disk, 3) == [3, 2]


def test_entries_without_bodies_share_a_chunk() -> None:
    disk = new_disk()
    write(store_on(disk), entries(50, 0))
    assert chunks(disk) == [50]


def test_a_body_that_neighbours_share_is_stored_once_even_where_a_chunk_is_full() -> None:
    disk = new_disk()
    first, second = (Random(number).randbytes(CHUNK_BYTES) for number in range(2))
    stored = [Entry(key, 3, 0, key, Message(first, message_id=bytes([key]))) for key in range(5)]
    stored += [Entry(key, 3, 0, key, Message(second, message_id=bytes([key]))) for key in range(5, 8)]
    run = store_on(disk).write(stored, body_bytes=2 * CHUNK_BYTES, force=True, shared=True)
    assert store_on(disk).read(1) == (run, stored)
    content = disk.contents(run_path(1))
    assert (content.count(first), content.count(second)) == (1, 1)
    assert len(chunks(disk)) == 2


def test_a_message_on_several_queues_is_stored_once_and_one_with_another_body_wholly() -> None:
    disk = new_disk()
    twin = Message(b"shared body", user="a user of all")
    alike = Message(twin.body, user="another user")
    stored = [Entry(key, key, 0, key, message) for key, message in enumerate([twin, alike, twin, Message(b"own")])]
    store_on(disk).write(stored, body_bytes=14, force=True, shared=True)
    assert store_on(disk).read(1)[1] == stored
    content = disk.contents(run_path(1))
    counts = [content.count(text) for text in (b"shared body", b"a user of all", b"another user", b"own")]
    assert counts == [1, 1, 1, 1]


def test_runs_are_numbered_and_found() -> None:
    store = RunStore(new_disk(), MANAGER_ID, number_next=12)
    assert [write(store, entries(1)).number for _ in range(3)] == [12, 13, 14]
    assert store.numbers() == [12, 13, 14]
    store.remove(13)
    assert store.numbers() == [12, 14]


def test_two_threads_that_write_runs_get_different_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint writes runs while another thread spills a queue."""
    (tmp_path / FOLDER).mkdir()
    store = store_on(SystemDisk(tmp_path))
    encode = RunStore._encode
    both = threading.Barrier(2)

    def together(self: RunStore, *arguments: object, **options: object) -> object:
        both.wait(60)
        return encode(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(RunStore, "_encode", together)
    with ThreadPoolExecutor(2) as threads:
        runs = list(threads.map(lambda count: write(store, entries(count)), (5, 7)))
    assert {run.number for run in runs} == {1, 2}
    assert sorted(len(store.read(number)[1]) for number in (1, 2)) == [5, 7]


# --- durability -------------------------------------------------------------------------------


@for_each("seed", range(30))
def test_a_forced_run_survives_a_power_cut(seed: int) -> None:
    disk = new_disk(seed)
    store = store_on(disk)
    stored = entries(60, 100)
    write(store, stored)
    disk.power_cut()
    assert store_on(disk).read(1)[1] == stored


@for_each("seed", range(30))
def test_a_run_forced_later_survives_a_power_cut(seed: int) -> None:
    disk = new_disk(seed)
    store = store_on(disk)
    stored = entries(60, 100)
    write(store, stored, force=False)
    store.force(1)
    disk.power_cut()
    assert store_on(disk).read(1)[1] == stored


def test_an_unforced_run_may_be_lost_but_is_never_read_wrong() -> None:
    stored = entries(60, 100)
    lost = 0
    for seed in range(60):
        disk = new_disk(seed)
        write(store_on(disk), stored, force=False)
        disk.power_cut()
        try:
            assert store_on(disk).read(1)[1] == stored
        except RunDamaged:
            lost += 1
    assert 0 < lost < 60


@for_each("number", [errno.ENOSPC, errno.EIO])
@for_each("operation", ["create", "write", "force", "force_folder"])
def test_when_the_disk_refuses_nothing_of_the_run_remains(operation: str, number: int) -> None:
    disk = new_disk()
    store = store_on(disk)
    disk.faults = PlannedFaults(Fault(at=1, error_number=number, operations=frozenset({operation})))
    with pytest.raises(OSError, match=FOLDER):
        write(store, entries(5))
    assert store.numbers() == []
    assert write(store, entries(5)).number == 2


# --- damage -----------------------------------------------------------------------------------


def refuse(content: bytes) -> RunDamaged:
    """A run with this content is damaged, and named."""
    disk = new_disk()
    disk.put(run_path(1), content)
    with pytest.raises(RunDamaged) as refused:
        store_on(disk).read(1)
    assert refused.value.file.endswith(run_path(1))
    return refused.value


def framed(*records: Record) -> bytes:
    data = b""
    for record in records:
        data += b"".join(frame(record, len(data)))
    return data


def sound() -> bytes:
    disk = new_disk()
    write(store_on(disk), entries(5))
    return disk.contents(run_path(1))


def test_a_run_cut_at_any_byte_is_damaged() -> None:
    whole = sound()
    for cut in range(len(whole)):
        refuse(whole[:cut])


def test_a_run_with_any_byte_changed_is_damaged() -> None:
    whole = sound()
    for offset in range(len(whole)):
        refuse(whole[:offset] + bytes([whole[offset] ^ 0x10]) + whole[offset + 1 :])


def test_a_run_that_is_gone_is_damaged() -> None:
    with pytest.raises(RunDamaged, match="cannot be read"):
        store_on(new_disk()).read(9)


def test_a_run_under_another_name_is_not_the_run_that_its_name_says() -> None:
    disk = new_disk()
    write(store_on(disk), entries(5))
    disk.rename(run_path(1), run_path(2))
    with pytest.raises(RunDamaged, match="not the run that its name says"):
        store_on(disk).read(2)


def test_a_run_of_another_queue_manager_is_refused() -> None:
    disk = new_disk()
    write(RunStore(disk, bytes(12)), entries(5))
    with pytest.raises(RunDamaged, match="not the run that its name says"):
        store_on(disk).read(1)


HEAD = RunHead(FORMAT_VERSION, MANAGER_ID, 1)
SOME = EntriesRecord(entries(2))


@for_each("head", [CommitRecord(1), SOME])
def test_a_file_that_begins_otherwise_is_no_run(head: Record) -> None:
    assert "not the run that its name says" in refuse(framed(head, EndRecord(0))).problem


@for_each("records", [[EndRecord(0)], [EndRecord(2)], [CommitRecord(1), EndRecord(2)], [HEAD, EndRecord(2)]])
def test_a_record_that_does_not_belong_into_a_run_is_damage(records: list[Record]) -> None:
    damage = refuse(framed(HEAD, SOME, *records))
    assert "does not belong into a run" in damage.problem
    assert damage.offset == len(framed(HEAD, SOME))


def test_another_version_is_refused_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = new_disk()
    monkeypatch.setattr(run_module, "FORMAT_VERSION", 99)
    write(store_on(disk), entries(5))
    monkeypatch.undo()
    with pytest.raises(FormatUnsupported):
        store_on(disk).read(1)


# --- in the background ------------------------------------------------------------------------


class Gate:
    """Writes of runs stop until the test lets them go on; then they may fail."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.error_number: int | None = None

    def before(self, operation: str, path: str, size: int) -> int | None:
        if operation == "write":
            assert self.open.wait(60)
            if self.error_number is not None:
                raise OSError(self.error_number, "planted", path)
        return None


class Behind:
    """A store that writes on another thread, behind a gate."""

    def __init__(self, path: Path) -> None:
        (path / FOLDER).mkdir()
        self.gate = Gate()
        self.thread = ThreadPoolExecutor(1)
        self.store = RunStore(FaultyDisk(path, self.gate), MANAGER_ID, background=self.thread)
        self.on_disk = store_on(SystemDisk(path))

    def settle(self) -> None:
        """Return when the thread has nothing left to do."""
        self.gate.open.set()
        self.thread.submit(lambda: None).result(60)


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Behind]:
    behind = Behind(tmp_path)
    yield behind
    behind.gate.open.set()
    behind.thread.shutdown()


def test_a_run_is_read_from_memory_until_it_is_on_disk(behind: Behind) -> None:
    write(behind.store, entries(9), force=False)
    assert behind.store.read(1)[1] == entries(9)
    behind.settle()
    assert behind.store.read(1)[1] == entries(9)
    assert behind.on_disk.read(1)[1] == entries(9)


def test_so_many_runs_wait_and_then_the_writer_waits_too(behind: Behind) -> None:
    for count in range(1, run_module.UNWRITTEN_MAX + 1):
        write(behind.store, entries(count), force=False)
    late = threading.Thread(target=lambda: write(behind.store, entries(9), force=False), daemon=True)
    late.start()
    late.join(0.1)
    assert late.is_alive()
    behind.gate.open.set()
    late.join(60)
    assert not late.is_alive()
    behind.settle()
    assert [len(behind.on_disk.read(number)[1]) for number in behind.on_disk.numbers()] == [1, 2, 3, 9]


def test_a_run_whose_write_failed_is_kept_and_written_with_the_next(behind: Behind) -> None:
    behind.gate.error_number = errno.ENOSPC
    write(behind.store, entries(4), force=False)
    behind.settle()
    assert behind.on_disk.numbers() == []
    assert behind.store.read(1)[1] == entries(4)
    with pytest.raises(OSError, match="planted"):
        write(behind.store, entries(5), force=False)
    behind.gate.error_number = None
    write(behind.store, entries(6), force=False)
    behind.settle()
    assert behind.on_disk.read(1)[1] == entries(4)


def test_forcing_a_run_waits_for_its_write_and_mends_one_that_failed(behind: Behind) -> None:
    behind.gate.error_number = errno.ENOSPC
    write(behind.store, entries(4), force=False)
    behind.settle()
    with pytest.raises(OSError, match="planted"):
        behind.store.force(1)
    behind.gate.error_number = None
    behind.store.force(1)
    assert behind.on_disk.read(1)[1] == entries(4)


def test_a_run_may_be_removed_before_it_was_written_or_after_it_failed(behind: Behind) -> None:
    write(behind.store, entries(4), force=False)
    behind.gate.open.set()
    behind.store.remove(1)
    assert behind.on_disk.numbers() == []
    behind.gate.error_number = errno.ENOSPC
    write(behind.store, entries(4), force=False)
    behind.settle()
    behind.store.remove(2)
    assert behind.on_disk.numbers() == []
