# SPDX-License-Identifier: Apache-2.0
"""Lanes: the messages of one queue and one priority, in order of arrival.

    returned ┐
    front ───┴─▶ readers      runs (on disk)      back ◀── arrivals

While everything fits into the queue's buffer, messages enter and leave at
the front. Past the buffer, arrivals gather at the back and go to disk a
run at a time; they come back a run at a time when the front is used up.
So a deep backlog costs one large write and one large read per few thousand
messages, and memory stays bounded. Messages that return out of order (from
a backed out unit of work, or after a delay) wait in a small heap.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain, islice
from typing import Protocol

from entrepot import limits
from entrepot.engine.entry import AVAILABLE, GONE, LOCKED, NO_BODY, QueuedMessage, RestingRun
from entrepot.engine.recovery_log.record import Entry
from entrepot.engine.recovery_log.run import RunStore
from entrepot.engine.search import STEPS_PER_RUN, STEPS_PER_TURN, Search
from entrepot.message import Message

# Tombstones below this number are not worth tidying up.
_TIDY_MIN = 64
# Remembered per run; more only cost reading the run again.
_QUESTIONS_MAX = 256


class LaneOwner(Protocol):
    """Who wants to know when messages leave memory and come back: the queue."""

    number: int

    def spilled(self, run: RestingRun, entries: list[QueuedMessage]) -> None: ...

    def loaded(self, entries: list[QueuedMessage]) -> None: ...

    def backouts(self, entry: Entry) -> int:
        """The backout count of a stored entry, which may have changed since it was stored."""

    def useless(self, run: RestingRun) -> None:
        """The run's file has no more use."""


class Lane:
    def __init__(self, owner: LaneOwner, store: RunStore) -> None:
        self._owner = owner
        self._store = store
        self._front: deque[QueuedMessage] = deque()
        self._back: deque[QueuedMessage] = deque()
        self._returned: list[tuple[int, QueuedMessage]] = []
        self._back_bytes = 0
        self._tombstones = 0
        self._key_last = -1
        self.runs: deque[RestingRun] = deque()
        self.memory_bytes = 0
        self.searches: set[Search] = set()
        """Those that are on their way through this lane, and want to know what comes to stand behind them."""

    def __bool__(self) -> bool:
        """Whether anything stands here, available or not."""
        return bool(self._front or self.runs or self._back or self._returned)

    # --- arriving -------------------------------------------------------------------------

    def add(self, entry: QueuedMessage, *, room_bytes: int) -> None:
        """Let an entry stand here; past `room_bytes` of memory, arrivals go to disk.

        Raises:
            OSError: The disk did not take the run. The entry stands here all the same.
        """
        entry.resident = True
        size = entry.memory_bytes
        self.memory_bytes += size
        if entry.key < self._key_last:
            heapq.heappush(self._returned, (entry.key, entry))
            self._tell_searches([entry])
            return
        self._key_last = entry.key
        if not self.runs and not self._back and size <= room_bytes:
            self._front.append(entry)
            return
        self._back.append(entry)
        self._back_bytes += size
        if self._back_bytes >= limits.RUN_BYTES:
            self._spill()

    def _spill(self) -> None:
        entries = [entry for entry in self._back if entry.state == AVAILABLE]
        # What a unit of work has stays in memory; if it comes back, it finds its place by its key.
        others = [entry for entry in self._back if entry.state == LOCKED]
        if entries:
            self.runs.append(self._write(entries))
        self._back.clear()
        self._back_bytes = 0
        for entry in others:
            heapq.heappush(self._returned, (entry.key, entry))

    def _write(self, entries: list[QueuedMessage]) -> RestingRun:
        # One comprehension after the other: this is what a deep backlog costs each message.
        body_bytes = sum([entry.body_bytes for entry in entries])
        records = [Entry(e.key, e.queue, e.backouts, e.log_position, e.recorded) for e in entries]
        shares = [entry.shared for entry in entries]
        loan = self._store.lend(records, shares) if any(shares) else None
        try:
            # What an older run has may not be promised to a new one that the disk then refuses.
            moved = any(entry.run is not None for entry in entries)
            stored = self._store.write(records, body_bytes=body_bytes, force=False, at_once=moved)
        except OSError:
            if loan is not None:
                self._store.take_back(loan)
            raise
        run = RestingRun(
            stored,
            array("Q", [entry.key for entry in entries]),
            queue=self._owner.number,
            persistent=any(entry.log_position >= 0 for entry in entries),
            durable=False,
            log_position=min((entry.log_position for entry in entries if entry.log_position >= 0), default=-1),
        )
        if loan is not None:
            run.borrowed = loan.files
        self._owner.spilled(run, entries)
        self.memory_bytes -= sum([entry.memory_bytes for entry in entries])
        for entry in entries:
            if entry.run is not None:
                entry.run.set_gone(entry.index)  # true on disk from the checkpoint on that names the new run
            # The object may still be known to a timer or to `young`; the message itself goes.
            entry.state = GONE
            entry.message = NO_BODY
            entry.shared = None
        return run

    # --- leaving --------------------------------------------------------------------------

    def first(self) -> QueuedMessage | None:
        """The entry that is next, left where it is."""
        while True:
            front = self._front  # a refill may exchange it
            while front and front[0].state != AVAILABLE:
                self._drop(front.popleft())
            while self._returned and self._returned[0][1].state != AVAILABLE:
                self._drop(heapq.heappop(self._returned)[1])
            if front:
                if self._returned and self._returned[0][0] < front[0].key:
                    return self._returned[0][1]
                return front[0]
            # What returned may belong before what rests on disk.
            if self._returned and not (self.runs and self.runs[0].keys[0] < self._returned[0][0]):
                if not self.runs and self._back and self._back[0].key < self._returned[0][0]:
                    self._refill()
                    continue
                return self._returned[0][1]
            if not self.runs and not self._back:
                return None
            self._refill()

    def pop(self, entry: QueuedMessage) -> None:
        """Take out what `first` returned."""
        if self._front and self._front[0] is entry:
            self._front.popleft()
        else:
            heapq.heappop(self._returned)
        entry.resident = False
        self.memory_bytes -= entry.memory_bytes

    def pop_some(self, most: int, body_bytes: float) -> list[QueuedMessage]:
        """Take out and lock the next ones, while each is in memory, has no time limit and was never tried.

        None of them when something stands before: `first` knows. The last may exceed `body_bytes`.
        """
        taken: list[QueuedMessage] = []
        front = self._front
        if self._returned:
            return taken
        memory_bytes = 0
        while front and len(taken) < most and body_bytes > 0:
            entry = front[0]
            message = entry.message
            if entry.state != AVAILABLE or entry.backouts or message.expiry_s is not None:
                break
            front.popleft()
            entry.resident = False
            entry.state = LOCKED
            memory_bytes += entry.memory_bytes
            body_bytes -= len(message.body)
            taken.append(entry)
        self.memory_bytes -= memory_bytes
        return taken

    def _drop(self, entry: QueuedMessage) -> None:
        entry.resident = False
        self._tombstones = max(self._tombstones - 1, 0)

    def leave(self, entry: QueuedMessage) -> None:
        """An entry somewhere in the lane is no longer available; it stays as a tombstone for a while."""
        self.memory_bytes -= entry.memory_bytes
        self._tombstones += 1
        standing = len(self._front) + len(self._back) + len(self._returned)
        if self._tombstones > _TIDY_MIN and self._tombstones * 2 > standing:
            self._tidy()

    def come_back(self, entry: QueuedMessage) -> None:
        """An entry that had left is available again, at its old place."""
        self.memory_bytes += entry.memory_bytes
        if entry.resident:
            self._tombstones -= 1
        else:
            entry.resident = True
            heapq.heappush(self._returned, (entry.key, entry))
        self._tell_searches([entry])

    def _tell_searches(self, entries: list[QueuedMessage]) -> None:
        if self.searches:
            for search in list(self.searches):
                for entry in entries:
                    if search in self.searches:  # it may have enough
                        search.came(self, entry)

    def _tidy(self) -> None:
        for lane in (self._front, self._back):
            kept = [entry for entry in lane if entry.state == AVAILABLE]
            for entry in lane:
                if entry.state != AVAILABLE:
                    entry.resident = False
            lane.clear()
            lane.extend(kept)
        for _, entry in self._returned:
            if entry.state != AVAILABLE:
                entry.resident = False
        self._returned = [item for item in self._returned if item[1].state == AVAILABLE]
        heapq.heapify(self._returned)
        self._back_bytes = sum(entry.memory_bytes for entry in self._back)
        self._tombstones = 0

    def _refill(self) -> None:
        if not self.runs:
            self._front, self._back = self._back, self._front
            self._back_bytes = 0
            return
        run = self.runs[0]
        entries = self._entries(run)  # a run that cannot be read stays, so that its messages are not passed over
        self.runs.popleft()
        for entry in entries:
            entry.resident = True
        self.memory_bytes += sum([entry.memory_bytes for entry in entries])
        # A checkpoint may have put neighbours of what a later run has into this one.
        later = self.runs[0].keys[0] if self.runs else None
        if later is not None and run.keys[-1] > later:
            self._front.extend(entry for entry in entries if entry.key < later)
            for entry in entries:
                if entry.key > later:
                    heapq.heappush(self._returned, (entry.key, entry))
        else:
            self._front.extend(entries)
        self._owner.loaded(entries)
        self._tell_searches(entries)
        if run.persistent:
            for entry in entries:
                self._bring_in(run, entry)
        else:
            # All of it is in memory now and dies with the queue manager anyway.
            self._owner.useless(run)

    def _entries(self, run: RestingRun) -> list[QueuedMessage]:
        if not run.live:
            return []  # all of it was fetched one by one, and its file may be gone
        _, stored = self._store.read(run.stored.number, run.gone)
        if run.persistent or run.borrowed or any(run.taken):
            return [self._entry(run, index, entry) for index, entry in enumerate(stored) if not run.is_taken(index)]
        return [QueuedMessage(e.key, e.queue, e.message, e.backouts, -1, None, i) for i, e in enumerate(stored)]

    def _bring_in(self, run: RestingRun, entry: QueuedMessage) -> None:
        run.set_taken(entry.index)
        if entry.run is None:
            run.set_gone(entry.index)  # nonpersistent: the file need not keep it any longer

    def _entry(self, run: RestingRun, index: int, stored: Entry) -> QueuedMessage:
        position = stored.log_position if stored.message.persistent else -1
        keep = run if stored.message.persistent else None
        backouts = self._owner.backouts(stored)
        shared = self._store.bodies.share_of(stored) if stored.body_file else None
        return QueuedMessage(stored.key, stored.queue, stored.message, backouts, position, keep, index, shared=shared)

    # --- looking --------------------------------------------------------------------------

    def is_next(self, entry: QueuedMessage) -> bool:
        """Whether `pop` would find it without looking further."""
        return bool((self._front and self._front[0] is entry) or (self._returned and self._returned[0][1] is entry))

    def in_memory(self, after: int = -1) -> Iterator[QueuedMessage]:
        """The available entries in memory behind a key, in order; the lane must not change meanwhile."""
        return self._in_order(chain(_behind(self._front, after), _behind(self._back, after)), after)

    def all(self, after: int = -1) -> Iterator[QueuedMessage]:
        """The available entries behind a key, in order, those on disk too; the lane must not change meanwhile.

        An entry on disk is shown as it is there: `fetch` brings it here.
        """
        entries = chain(_behind(self._front, after), self._resting(after), _behind(self._back, after))
        return self._in_order(entries, after)

    def _resting(self, after: int) -> Iterator[QueuedMessage]:
        """The entries of the runs, in order though runs may overlap; reads a run only when it is its turn."""
        runs = [run for run in self.runs if run.keys[-1] > after]
        ahead: list[tuple[int, QueuedMessage]] = []
        for place, run in enumerate(runs):
            for entry in self._entries(run):
                heapq.heappush(ahead, (entry.key, entry))
            later = runs[place + 1].keys[0] if place + 1 < len(runs) else None
            while ahead and (later is None or ahead[0][0] < later):
                yield heapq.heappop(ahead)[1]

    def _in_order(self, entries: Iterable[QueuedMessage], after: int) -> Iterator[QueuedMessage]:
        if self._returned:
            self._returned.sort()  # which is a heap, too, and quickly sorted the next time
            entries = heapq.merge(entries, [entry for _, entry in self._returned], key=_key)
        return (entry for entry in entries if entry.state == AVAILABLE and entry.key > after)

    def fetch(
        self,
        wanted: Callable[[QueuedMessage], bool],
        *,
        mark: int | None = None,
        before: int | None = None,
        question: Hashable = None,
        search: Search | None = None,
    ) -> QueuedMessage | None:
        """Bring the first wanted entry from disk into the lane's memory, and all others of its run.

        `mark` is the hash of an id it must have; runs without it are not read.
        What has come `before` a key is enough. A `question` that was put to a run
        once is not put again: everything it wants of that run is in memory by now.

        Raises:
            SearchPaused: The `search` has to go on later. What was found in memory is there.
        """
        first: QueuedMessage | None = None
        for run in self.runs:
            if before is not None and run.keys[0] >= before:
                break
            if question is not None and question in run.answered:
                continue
            if mark is not None and not self._has_mark(run, mark, search):
                continue
            if search is None:
                found = [entry for entry in self._entries(run) if wanted(entry)]
            else:
                found = self._search(run, wanted, search, mark)
            for entry in found:
                self._bring_in(run, entry)
                self._owner.loaded([entry])
                self.come_back(entry)
            if question is not None and search is None:
                if len(run.answered) >= _QUESTIONS_MAX:
                    run.answered.clear()
                run.answered.add(question)
            if found:
                first = min(found, key=_key) if first is None else min(first, *found, key=_key)
                before = first.key if before is None else min(before, first.key)
        return first

    def _search(
        self, run: RestingRun, wanted: Callable[[QueuedMessage], bool], search: Search, mark: int | None
    ) -> list[QueuedMessage]:
        """The next wanted entry of a run behind those that were looked at before, if there is any."""
        asked = (run.stored.number, mark)
        if not run.live or search.asked.get(asked, 0) >= run.stored.entries:
            return []
        # Who has just read the run may look at as much of it as a turn allows: another search may be about to read
        # another run, and both would read for ever.
        prepaid = 0 if search.turn.run_number == run.stored.number else STEPS_PER_TURN
        stored = self._stored(run, search)
        for index in range(search.asked.get(asked, 0), len(stored)):
            if not run.is_taken(index):
                entry = self._entry(run, index, stored[index])
                if prepaid > 0:
                    prepaid -= search.steps_for(entry)
                else:
                    search.turn.spend(search.steps_for(entry))
                search.asked[asked] = index + 1
                if wanted(entry):
                    return [entry]
        search.asked[asked] = len(stored)
        return []

    def _stored(self, run: RestingRun, search: Search) -> list[Entry]:
        turn = search.turn
        if turn.run_number != run.stored.number:
            turn.spend(STEPS_PER_RUN)
            _, turn.run_entries = self._store.read(run.stored.number, run.gone)
            turn.run_number = run.stored.number
        return turn.run_entries

    def _has_mark(self, run: RestingRun, mark: int, search: Search | None) -> bool:
        if run.marks is None:
            # Only now: most queues are never asked for an id, and hashing costs every message that spills.
            if search is not None and run.live:
                run.marks = marks_of([entry.message for entry in self._stored(run, search)])
            else:
                run.marks = marks_of([entry.message for entry in self._entries(run)])
        return _contains(run.marks, mark)

    def rest(self, run: RestingRun) -> None:
        """Restart leaves a run on disk that follows everything that stands here."""
        for entry in self._back:
            heapq.heappush(self._returned, (entry.key, entry))  # between the runs there is no other place
        self._back.clear()
        self._back_bytes = 0
        self.runs.append(run)
        self._key_last = max(self._key_last, run.keys[-1])


def marks_of(messages: Iterable[Message]) -> array[int]:
    """Sorted hashes of all ids by which somebody may ask for one of these messages."""
    marks = []
    for message in messages:
        marks.append(hash(message.message_id))
        if message.correlation_id:
            marks.append(hash(message.correlation_id))
        if message.group_id:
            marks.append(hash(message.group_id))
    marks.sort()
    return array("q", marks)


def _behind(entries: deque[QueuedMessage], after: int) -> Iterator[QueuedMessage]:
    return islice(entries, bisect_right(entries, after, key=_key), None) if after >= 0 else iter(entries)


def _key(entry: QueuedMessage) -> int:
    return entry.key


def _contains(marks: array[int], mark: int) -> bool:
    place = bisect_left(marks, mark)
    return place < len(marks) and marks[place] == mark
