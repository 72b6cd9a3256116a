# SPDX-License-Identifier: Apache-2.0
"""A lane by itself: a buffer of two messages, and runs of five."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from entrepot import limits
from entrepot.disk import SystemDisk
from entrepot.engine.entry import AVAILABLE, GONE, LOCKED, OVERHEAD_BYTES, QueuedMessage, RestingRun
from entrepot.engine.lane import Lane
from entrepot.engine.recovery_log.record import Entry
from entrepot.engine.recovery_log.run import RunStore, StoredRun, run_path
from entrepot.errors import RunDamaged
from entrepot.message import Message


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


def rest(lane: Lane, store: Store, keys: Sequence[int]) -> RestingRun:
    """Leave a run with these keys on disk, as a restart does."""
    stored = [Entry(key, 1, 0, key, Message(b"x", message_id=b"%d" % key, persistent=True)) for key in keys]
    written = store.write(stored, body_bytes=len(keys), force=True)
    run = RestingRun(written, array("Q", keys), queue=1, persistent=True, durable=True)
    lane.rest(run)
    return run


@pytest.mark.parametrize("seed", range(12))
def test_runs_are_in_order_however_they_overlap(store: Store, seed: int) -> None:
    chance = Random(seed)
    lane = Lane(Owner(), store)
    parts: list[list[int]] = [[] for _ in range(4)]
    for key in range(1, 30):
        chance.choice(parts).append(key)
    for part in sorted(filter(None, parts)):
        rest(lane, store, part)
    for after in range(-1, 31):
        assert [entry.key for entry in lane.all(after)] == [key for key in range(1, 30) if key > after]
    assert take_all(lane) == list(range(1, 30))


def test_a_run_is_read_only_when_it_is_its_turn(lane: Lane, store: Store) -> None:
    for keys in ((1, 2, 6), (3, 4, 5), (7, 8)):
        rest(lane, store, keys)
    looked, reads = lane.all(), []
    for key in range(1, 9):
        assert next(looked).key == key
        reads.append(len(store.reads))
    assert reads == [1, 1, 2, 2, 2, 2, 3, 3]


def test_messages_that_came_before_a_run_of_a_restart_stay_before_it(lane: Lane, store: Store) -> None:
    rest(lane, store, (1, 2))
    add(lane, 3, 4)
    rest(lane, store, (5, 6))
    add(lane, 7)
    assert [entry.key for entry in lane.all()] == [1, 2, 3, 4, 5, 6, 7]
    assert take_all(lane) == [1, 2, 3, 4, 5, 6, 7]


def test_looking_behind_a_key_leaves_that_key_out_wherever_it_is(lane: Lane) -> None:
    entries = add(lane, *range(10))
    for entry in entries[:2]:
        entry.state = LOCKED
        lane.leave(entry)
    lane.pop(lane.first())  # type: ignore[arg-type]
    for entry in entries[:2]:
        entry.state = AVAILABLE
        lane.come_back(entry)
    expected = [entry.key for entry in lane.all()]
    in_memory = [entry.key for entry in lane.in_memory()]
    for after in range(-1, 10):
        assert [entry.key for entry in lane.all(after)] == [key for key in expected if key > after]
        assert [entry.key for entry in lane.in_memory(after)] == [key for key in in_memory if key > after]


@pytest.mark.parametrize("missing", [0, 1])
def test_a_run_is_written_when_it_is_full_and_not_a_byte_sooner(
    lane: Lane, store: Store, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    monkeypatch.setattr(limits, "RUN_BYTES", 5 * (OVERHEAD_BYTES + 1) + missing)
    for _ in range(2):
        begin = lane._key_last + 1
        for key in range(begin, begin + 3 * (5 + missing) + 2):
            add(lane, key)
            assert len(lane.runs) == max(key - begin - 1, 0) // (5 + missing)
        assert len(take_all(lane)) == 3 * (5 + missing) + 2
        assert lane.memory_bytes == 0


def test_what_left_the_back_counts_for_no_run_once_it_is_tidied_up(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RUN_BYTES", 100 * (OVERHEAD_BYTES + 1))
    for entry in add(lane, *range(80), room=0)[:65]:
        entry.state = GONE
        lane.leave(entry)
    add(lane, *range(100, 184))
    assert not lane.runs
    add(lane, 184)
    assert [run.stored.entries for run in lane.runs] == [100]
    assert take_all(lane) == [*range(65, 80), *range(100, 185)]


def test_an_entry_that_just_fits_stays_at_the_front(lane: Lane) -> None:
    size = OVERHEAD_BYTES + 1
    for key, room in ((0, size), (1, size - 1)):
        lane.add(entry_of(key), room_bytes=room)
    for key in range(2, 6):
        lane.add(entry_of(key), room_bytes=10**9)  # what has begun to gather goes on
    assert len(lane.runs) == 1
    assert [entry.key for entry in lane.in_memory()] == [0]


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


def lock(lane: Lane, entry: QueuedMessage) -> None:
    """Take an entry out as a queue does for a unit of work."""
    entry.state = LOCKED
    if lane.is_next(entry):
        lane.pop(entry)
    else:
        lane.leave(entry)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_memory_is_counted_once_whatever_leaves_and_returns(lane: Lane, order: tuple[int, ...]) -> None:
    entries = add(lane, 0, 1, 2, room=10**9)
    size = entries[0].memory_bytes
    for count, place in enumerate(order, 1):
        lock(lane, entries[place])
        assert lane.memory_bytes == (3 - count) * size
    for count, place in enumerate(order, 1):
        entries[place].state = AVAILABLE
        lane.come_back(entries[place])
        assert lane.memory_bytes == count * size
    assert take_all(lane) == [0, 1, 2]
    assert (lane.memory_bytes, bool(lane)) == (0, False)


def test_only_the_next_entry_is_next(lane: Lane) -> None:
    entries = add(lane, 5, 6, 3, room=10**9)
    assert [lane.is_next(entry) for entry in entries] == [True, False, True]
    lock(lane, entries[2])
    assert [lane.is_next(entry) for entry in entries[:2]] == [True, False]


def test_some_are_taken_in_order_up_to_a_number_and_to_bytes(lane: Lane) -> None:
    entries = add(lane, *range(10), room=10**9)
    assert [entry.key for entry in lane.pop_some(3, 100)] == [0, 1, 2]
    assert [entry.key for entry in lane.pop_some(100, 2)] == [3, 4]
    assert lane.pop_some(0, 100) == lane.pop_some(1, 0) == []
    assert [entry.state for entry in entries] == [LOCKED] * 5 + [AVAILABLE] * 5
    assert lane.memory_bytes == 5 * entries[0].memory_bytes
    assert take_all(lane) == [5, 6, 7, 8, 9]


def test_some_are_taken_only_as_far_as_none_needs_a_closer_look(lane: Lane) -> None:
    entries = add(lane, *range(4), room=10**9)
    entries[2].backouts = 1
    assert [entry.key for entry in lane.pop_some(9, 100)] == [0, 1]
    assert lane.pop_some(9, 100) == []
    entries[0].state = AVAILABLE
    lane.come_back(entries[0])
    entries[2].backouts = 0
    assert lane.pop_some(9, 100) == [], "what returned stands before"
    assert take_all(lane) == [0, 2, 3]


def test_fetch_finds_what_comes_before_a_key_only(lane: Lane, store: Store) -> None:
    add(lane, *range(20))
    assert [run.keys[0] for run in lane.runs] == [2, 7, 12]
    assert lane.fetch(lambda _: True, before=2) is None
    assert store.reads == []
    found = lane.fetch(lambda entry: entry.key in (4, 8), before=7)
    assert found is not None
    assert (found.key, store.reads) == (4, [1])
    found = lane.fetch(lambda entry: entry.key in (8, 13))
    assert found is not None
    assert (found.key, store.reads) == (8, [1, 1, 2])
    assert take_all(lane) == list(range(20))


def test_fetch_finds_the_first_though_runs_overlap(lane: Lane, store: Store) -> None:
    for keys in ((1, 9), (3, 5), (7, 8)):
        rest(lane, store, keys)
    found = lane.fetch(lambda entry: entry.key in (9, 5, 8))
    assert found is not None
    assert found.key == 5
    assert take_all(lane) == [1, 3, 5, 7, 8, 9]


def test_a_question_that_was_forgotten_is_put_again(lane: Lane, store: Store) -> None:
    add(lane, *range(8))
    for question in range(256):
        assert lane.fetch(lambda _: False, question=question) is None
    assert len(store.reads) == 256
    assert lane.fetch(lambda _: False, question=0) is None
    assert len(store.reads) == 256
    assert lane.fetch(lambda _: False, question="one too many") is None
    assert lane.fetch(lambda _: False, question=0) is None
    assert len(store.reads) == 258


def test_what_returned_before_a_run_is_next_and_the_run_is_not_read(lane: Lane, store: Store) -> None:
    entries = add(lane, *range(12))
    for entry in entries[:2]:
        lock(lane, entry)
    for entry in entries[:2]:
        entry.state = AVAILABLE
        lane.come_back(entry)
    assert (take(lane), take(lane), store.reads) == (0, 1, [])
    assert (take(lane), store.reads) == (2, [1])


def test_what_returned_behind_a_run_waits_for_it(lane: Lane, store: Store) -> None:
    add(lane, *range(12))
    found = lane.fetch(lambda entry: entry.key == 9)
    assert found is not None
    assert [take(lane) for _ in range(12)] == list(range(12))
    assert store.reads == [1, 2, 1, 2], "each is read to find it, and when it is its turn"


def test_what_returned_takes_its_place_before_and_behind_what_gathers(lane: Lane) -> None:
    entries = add(lane, *range(6))
    assert not lane.runs
    for entry in (entries[0], entries[1], entries[4]):
        lock(lane, entry)
    for entry in (entries[4], entries[1], entries[0]):
        entry.state = AVAILABLE
        lane.come_back(entry)
    assert take_all(lane) == [0, 1, 2, 3, 4, 5]
    assert lane.memory_bytes == 0
