# SPDX-License-Identifier: Apache-2.0
"""A lane by itself: a buffer of two messages, and runs of five."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from entrepot import limits
from entrepot.disk import SystemDisk
from entrepot.errors import RunDamaged
from entrepot.message import Message
from entrepot.queues.entry import AVAILABLE, GONE, LOCKED, OVERHEAD_BYTES, QueuedMessage, RestingRun
from entrepot.queues.lane import Lane
from entrepot.recovery_log.record import Entry
from entrepot.recovery_log.run import RunStore, StoredRun, run_path


class Store(RunStore):
    """Counts what is read, and refuses when a test says so."""

    def __init__(self, folder: Path) -> None:
        (folder / "runs").mkdir()
        super().__init__(SystemDisk(folder), b"manager id")
        self.folder = folder
        self.reads: list[int] = []
        self.refuses = False

    def write(self, entries: list[Entry], *, body_bytes: int, force: bool, at_once: bool = False) -> StoredRun:
        if self.refuses:
            raise OSError(28, "No space left on device")
        return super().write(entries, body_bytes=body_bytes, force=force, at_once=at_once)

    def read(self, number: int, gone: bytes | bytearray = b"") -> tuple[StoredRun, list[Entry]]:
        self.reads.append(number)
        return super().read(number, gone)


class Owner:
    number = 1

    def __init__(self) -> None:
        self.useless_runs: list[int] = []

    def spilled(self, run: RestingRun, entries: list[QueuedMessage]) -> None: ...

    def loaded(self, entries: list[QueuedMessage]) -> None: ...

    def backouts(self, stored: Entry) -> int:
        return stored.backouts

    def useless(self, run: RestingRun) -> None:
        self.useless_runs.append(run.stored.number)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(limits, "RUN_BYTES", 5 * (OVERHEAD_BYTES + 1))
    return Store(tmp_path)


@pytest.fixture
def lane(store: Store) -> Lane:
    return Lane(Owner(), store)


def entry_of(key: int, *, persistent: bool = False) -> QueuedMessage:
    position = key if persistent else -1
    return QueuedMessage(key, 1, Message(b"x", message_id=b"%d" % key, persistent=persistent), 0, position)


def add(lane: Lane, *keys: int, room: int = 2 * (OVERHEAD_BYTES + 1), persistent: bool = False) -> list[QueuedMessage]:
    entries = [entry_of(key, persistent=persistent) for key in keys]
    for entry in entries:
        lane.add(entry, room_bytes=room - lane.memory_bytes)
    return entries


def take(lane: Lane) -> int | None:
    entry = lane.first()
    if entry is None:
        return None
    lane.pop(entry)
    entry.state = GONE
    return entry.key


def take_all(lane: Lane) -> list[int]:
    return list(iter(lambda: take(lane), None))


def test_empty_lane_has_nothing(lane: Lane) -> None:
    assert lane.first() is None
    assert list(lane.all()) == []
    assert not lane


def test_entries_leave_in_order_through_memory_and_disk(lane: Lane, store: Store) -> None:
    add(lane, *range(20))
    assert len(lane.runs) == 3
    assert [entry.key for entry in lane.all()] == list(range(20))
    assert [entry.key for entry in lane.all(after=7)] == list(range(8, 20))
    assert [entry.key for entry in lane.in_memory()] == [0, 1, 17, 18, 19]
    assert take_all(lane) == list(range(20))
    assert lane.memory_bytes == 0
    assert not lane.runs


def test_late_entry_takes_its_place_by_its_key(lane: Lane) -> None:
    add(lane, 1, 3, 5, 7, 9, 11, 13, 15)
    add(lane, 4, 12, 0)
    assert [entry.key for entry in lane.all()] == [0, 1, 3, 4, 5, 7, 9, 11, 12, 13, 15]
    assert take_all(lane) == [0, 1, 3, 4, 5, 7, 9, 11, 12, 13, 15]


def test_locked_entry_stays_in_memory_when_its_neighbours_go_to_disk(lane: Lane) -> None:
    entries = add(lane, *range(6))
    entries[4].state = LOCKED
    lane.leave(entries[4])
    add(lane, *range(6, 12))
    assert lane.runs
    assert [entry.key for entry in lane.all()] == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    entries[4].state = AVAILABLE
    lane.come_back(entries[4])
    assert take_all(lane) == list(range(12))


def test_runs_that_overlap_are_merged(lane: Lane, store: Store) -> None:
    """A checkpoint's run may hold neighbours from before and behind another run; restart leaves both on disk."""
    for keys in ((1, 2, 9, 10), (3, 4, 11), (5, 6, 7, 8)):
        stored = [Entry(key, 1, 0, key, Message(b"x", persistent=True)) for key in keys]
        run = store.write(stored, body_bytes=len(keys), force=True)
        lane.rest(RestingRun(run, array("Q", keys), queue=1, persistent=True, durable=True))
    assert [entry.key for entry in lane.all()] == list(range(1, 12))
    assert [entry.key for entry in lane.all(after=4)] == list(range(5, 12))
    assert take_all(lane) == list(range(1, 12))


def test_looking_at_the_front_reads_no_run(lane: Lane, store: Store) -> None:
    add(lane, *range(20))
    looked = lane.all()
    assert [next(looked).key for _ in range(2)] == [0, 1]
    assert store.reads == []


def test_fetch_brings_the_first_wanted_and_its_like(lane: Lane, store: Store) -> None:
    add(lane, *range(20))
    wanted = lane.fetch(lambda entry: entry.key % 2 == 0, question="even")
    assert wanted is not None
    assert wanted.key == 2
    assert store.reads == [1]
    assert [entry.key for entry in lane.in_memory()] == [0, 1, 2, 4, 6, 17, 18, 19]
    assert lane.fetch(lambda entry: entry.key % 2 == 0, before=7, question="even") is None
    assert store.reads == [1], "a question is put to a run once"
    assert take_all(lane) == list(range(20))


def test_fetch_by_a_mark_reads_only_runs_that_may_have_it(lane: Lane, store: Store) -> None:
    add(lane, *range(20))
    assert lane.fetch(lambda _: True, mark=hash(b"nobody")) is None
    store.reads.clear()
    found = lane.fetch(lambda entry: entry.key == 13, mark=hash(b"13"))
    assert found is not None
    assert found.key == 13
    assert store.reads == [3]


def test_run_of_which_everything_was_fetched_is_useless(lane: Lane, store: Store) -> None:
    add(lane, *range(12))
    assert lane.fetch(lambda entry: entry.key < 7) is not None
    owner = lane._owner
    assert take_all(lane) == list(range(12))
    assert owner.useless_runs == [1, 2]  # type: ignore[attr-defined]


def test_run_with_persistent_entries_is_kept_until_they_have_gone(lane: Lane) -> None:
    add(lane, *range(8), persistent=True)
    run = lane.runs[0]
    assert run.persistent
    assert take_all(lane) == list(range(8))
    assert run.live == 5
    assert lane._owner.useless_runs == []  # type: ignore[attr-defined]


def test_disk_that_refuses_leaves_everything_in_memory(lane: Lane, store: Store) -> None:
    store.refuses = True
    add(lane, *range(6))
    with pytest.raises(OSError, match="No space"):
        add(lane, 6)
    store.refuses = False
    add(lane, 7)
    assert len(lane.runs) == 1
    assert take_all(lane) == list(range(8))


def test_run_that_cannot_be_read_is_not_passed_over(lane: Lane, store: Store) -> None:
    add(lane, *range(12))
    path = store.folder / run_path(1)
    kept = path.read_bytes()
    path.write_bytes(kept[:-1])
    assert [take(lane), take(lane)] == [0, 1]
    for _ in range(2):
        with pytest.raises(RunDamaged):
            lane.first()
    path.write_bytes(kept)
    assert take_all(lane) == list(range(2, 12))


def test_tombstones_are_tidied_up_wherever_they_are(lane: Lane) -> None:
    entries = add(lane, *range(300), room=10**9)
    for entry in entries[1:]:
        entry.state = GONE
        lane.leave(entry)
    assert len(lane._front) < 150
    late = add(lane, *(key + 0 for key in range(-300, -1)), room=10**9)
    for entry in late[1:]:
        entry.state = GONE
        lane.leave(entry)
    assert len(lane._returned) < 150
    assert take_all(lane) == [-300, 0]
