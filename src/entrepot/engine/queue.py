# SPDX-License-Identifier: Apache-2.0
"""A local queue: lanes by priority, indexes by id, and the readers who wait."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Protocol

from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import RETAINED_QUEUE, LocalQueue
from entrepot.engine.entry import AVAILABLE, GONE, LOCKED, NO_BODY, QueuedMessage, RestingRun
from entrepot.engine.groups import Groups
from entrepot.engine.lane import Lane, marks_of
from entrepot.engine.recovery_log.record import Entry
from entrepot.engine.recovery_log.run import RunStore
from entrepot.engine.search import STEPS_PER_MESSAGE, STEPS_PER_RUN, Search
from entrepot.engine.waiting import Waiters

_CANDIDATES_AT_ONCE = 16
"""Messages of one id that a selector is asked about in one go."""

Index = dict[bytes, deque[QueuedMessage]]


class QueueOwner(Protocol):
    """Who keeps account of what is only in the log and of the runs there are: the queue manager."""

    young: dict[int, QueuedMessage]
    recounted: dict[int, int]
    runs: dict[int, RestingRun]

    def useless(self, run: RestingRun) -> None: ...

    def watch_expiry(self, queue: Queue, entry: QueuedMessage) -> None: ...


class Queue:
    """Holds entries; decides which is next. Knows nothing of units, logs and time."""

    def __init__(self, number: int, definition: LocalQueue, keeper: QueueOwner, store: RunStore) -> None:
        self.number = number
        self.redefine(definition)
        self._keeper = keeper
        self._store = store
        self._lanes: dict[int, Lane] = {}
        self._order: list[Lane] = []
        """Lanes from the highest priority to the lowest."""
        self._by_message_id: Index | None = None
        """Built when it is first asked for: most queues are never read by message id."""
        self._unindexed: dict[Lane, int] = {}
        """While that is being made: lanes with messages that are not in it, and the last key that is."""
        self._by_correlation_id: Index = {}
        self._groups = Groups()
        self._unlearned: list[RestingRun] = []
        """Runs of a restart that nobody has searched for groups yet."""
        self.waiters = Waiters()
        self.unoffered: deque[tuple[QueuedMessage, int]] = deque()
        """Messages that not all waiting readers were asked about, and the number of the next one to ask."""
        self.depth = 0
        """Messages that are here, those that units of work have got included."""
        self.reserved = 0
        """Places kept for puts that are not committed yet."""
        self.uncommitted_gets = 0
        self.sleeping: dict[int, QueuedMessage] = {}
        """Messages whose delay is not over, by key."""
        self.high_reached = False
        self.full_told = False
        self.trigger_time = 0.0

    def redefine(self, definition: LocalQueue) -> None:
        """Live by a new definition from now on."""
        self.definition = definition
        self.is_retaining = definition.name == RETAINED_QUEUE
        """Whether only the newest message of each topic stays here."""
        self.watched = (
            self.is_retaining
            or definition.trigger_enabled
            or definition.depth_high_event
            or definition.depth_low_event
            or definition.depth_full_event
        )
        """Whether coming and going messages may cause triggers, events or replacements."""

    # --- what changes when messages come and go ---------------------------------------------

    @property
    def available(self) -> int:
        """How many messages a reader could get now."""
        return self.depth - self.uncommitted_gets - len(self.sleeping)

    @property
    def memory_bytes(self) -> int:
        return sum(lane.memory_bytes for lane in self._order)

    @property
    def run_count(self) -> int:
        return sum(len(lane.runs) for lane in self._order)

    def add(self, entry: QueuedMessage) -> None:
        """Let a message stand here; `depth` is the caller's to count.

        Raises:
            OSError: Past the buffer the disk did not take the messages; they stay in memory.
        """
        message = entry.message
        if self._by_message_id is not None or message.correlation_id or message.group_id:
            self._index(entry)
        if len(self._order) == 1 and (lane := self._lanes.get(message.priority)) is not None:
            lane.add(entry, room_bytes=self.definition.buffer_bytes - lane.memory_bytes)
        else:
            self._lane(message.priority).add(entry, room_bytes=self.definition.buffer_bytes - self.memory_bytes)

    def _lane(self, priority: int) -> Lane:
        if self.definition.delivery == "FIFO":
            priority = 0
        if priority not in self._lanes:
            self._lanes[priority] = Lane(self, self._store)
            self._order = [self._lanes[p] for p in sorted(self._lanes, reverse=True)]
        return self._lanes[priority]

    def _index(self, entry: QueuedMessage) -> None:
        message = entry.message
        if self._by_message_id is not None:
            _insert(self._by_message_id, message.message_id, entry)
        if message.correlation_id:
            _insert(self._by_correlation_id, message.correlation_id, entry)
        if message.group_id:
            self._groups.add(entry)

    def _unindex(self, entry: QueuedMessage) -> None:
        message = entry.message
        if self._by_message_id is not None:
            _remove(self._by_message_id, message.message_id, entry)
        if message.correlation_id:
            _remove(self._by_correlation_id, message.correlation_id, entry)

    def lock(self, entry: QueuedMessage) -> None:
        """Nobody else gets this available entry until `unlock` or `remove`."""
        entry.state = LOCKED
        self.uncommitted_gets += 1
        self._take_out(entry)

    def lock_some(self, most: int, body_bytes: float) -> list[QueuedMessage]:
        """Lock the next entries in one go; see `Lane.pop_some` for when it finds none though there are some."""
        lane = next((lane for lane in self._order if lane), None)
        if lane is None:
            return []
        locked = lane.pop_some(most, body_bytes)
        self.uncommitted_gets += len(locked)
        return locked

    def hold(self, entry: QueuedMessage) -> None:
        """Let a unit of work have an entry that never stood here; `depth` is the caller's to count."""
        message = entry.message
        if self._by_message_id is not None or message.correlation_id or message.group_id:
            self._index(entry)
        self.uncommitted_gets += 1
        entry.state = LOCKED

    def _take_out(self, entry: QueuedMessage) -> None:
        lane = self._lane(entry.message.priority)
        # The usual case: it is the next one, and leaves no tombstone.
        if lane.is_next(entry):
            lane.pop(entry)
        else:
            lane.leave(entry)

    def lock_unread(self, entry: QueuedMessage) -> None:
        """Like `lock`, for an entry that is to leave without ever reaching a reader."""
        if entry.message.group_id:
            self._groups.drop(entry)
        self.lock(entry)

    def unlock(self, entry: QueuedMessage) -> None:
        """An entry that a unit of work had got is available again, at its old place."""
        entry.state = AVAILABLE
        self.uncommitted_gets -= 1
        self._lane(entry.message.priority).come_back(entry)
        index, message_id = self._by_message_id, entry.message.message_id
        if index is not None and entry not in index.get(message_id, ()):
            _insert(index, message_id, entry)  # it was away when the index was made
        if entry.message.group_id:
            self._groups.add(entry)  # `lock_unread` may have dropped it

    def remove(self, entry: QueuedMessage) -> None:
        """An entry leaves for good, from whatever state."""
        if entry.state == LOCKED:
            self.uncommitted_gets -= 1
        else:
            self._take_out(entry)
        if entry.is_indexed or self._by_message_id is not None:
            self._unindex(entry)
            if entry.message.group_id:
                self._groups.remove(entry)
        entry.state = GONE
        self.depth -= 1
        if entry.log_position >= 0:
            if entry.run is None:
                self._keeper.young.pop(entry.key, None)
            else:
                entry.run.set_gone(entry.index)
                self._keeper.recounted.pop(entry.key, None)
        entry.message = NO_BODY
        entry.shared = None

    # --- LaneOwner ----------------------------------------------------------------------------

    def spilled(self, run: RestingRun, entries: list[QueuedMessage]) -> None:
        keeper = self._keeper
        keeper.runs[run.stored.number] = run
        if run.persistent:
            for entry in entries:
                keeper.young.pop(entry.key, None)
        if self._is_indexed:
            for entry in entries:
                self._unindex(entry)
                if entry.message.group_id:
                    self._groups.spilled(entry)

    def loaded(self, entries: list[QueuedMessage]) -> None:
        index_all = self._by_message_id is not None
        for entry in entries:
            message = entry.message
            if index_all or message.correlation_id or message.group_id:
                self._index(entry)
            if message.expiry_s is not None:
                self._keeper.watch_expiry(self, entry)

    @property
    def _is_indexed(self) -> bool:
        return bool(self._by_correlation_id or self._groups) or self._by_message_id is not None

    def backouts(self, entry: Entry) -> int:
        return self._keeper.recounted.get(entry.key, entry.backouts)

    def useless(self, run: RestingRun) -> None:
        self._keeper.useless(run)

    def rest(self, run: RestingRun, priority: int) -> None:
        """Restart leaves a run of this queue on disk."""
        self._lane(priority).rest(run)
        self.depth += run.live
        self._unlearned.append(run)

    def forget(self) -> None:
        """The queue has gone with its messages; so do their files."""
        for lane in self._order:
            for run in lane.runs:
                self._keeper.useless(run)

    # --- which is next --------------------------------------------------------------------------

    def next(
        self, criteria: Criteria | None, mine: Collection[int] = (), search: Search | None = None
    ) -> QueuedMessage | None:
        """The message a reader would get, left where it is.

        `mine` are the keys of what the reader's own unit of work has got: they
        count as there when a whole group is wanted.

        Raises:
            SearchPaused: A `search` was given that has to go on later.
        """
        if criteria is None:
            for lane in self._order:
                entry = lane.first()
                if entry is not None:
                    return entry
            return None
        if search is not None:
            search.on(self)
        if criteria.whole_group:
            group = self.whole_group(criteria, mine, search) or ()
            return next((entry for entry in group if criteria.matches(entry.message)), None)
        if criteria.message_id is not None:
            candidates = self._message_index(search).get(criteria.message_id, ())
            if search is None or _are_quickly_asked(candidates, criteria):
                return self._indexed(candidates, criteria, criteria.message_id, search)
        elif criteria.correlation_id is not None:
            candidates = self._by_correlation_id.get(criteria.correlation_id, ())
            if search is None or _are_quickly_asked(candidates, criteria):
                return self._indexed(candidates, criteria, criteria.correlation_id, search)
        if criteria.group_id is not None:
            return next(
                (entry for entry in self._members(criteria.group_id, search) if criteria.matches(entry.message)), None
            )
        if search is None:
            return self._earliest(
                lambda lane: next((e for e in lane.in_memory() if criteria.matches(e.message)), None), criteria
            )
        late = search.latecomer()
        return late or self._earliest(lambda lane: _search(lane, search), criteria, search=search)

    def _indexed(
        self,
        candidates: Iterable[QueuedMessage],
        criteria: Criteria,
        wanted_id: bytes,
        search: Search | None,
    ) -> QueuedMessage | None:
        available = (e for e in candidates if e.state == AVAILABLE and criteria.matches(e.message))
        # An index is in order of arrival.
        in_order = len(self._order) == 1
        best = next(available, None) if in_order else min(available, key=self.place_of, default=None)
        home = None if best is None else self._lane(best.message.priority)
        return self._earliest(lambda lane: best if lane is home else None, criteria, hash(wanted_id), search)

    def _earliest(
        self,
        in_memory: Callable[[Lane], QueuedMessage | None],
        criteria: Criteria,
        mark: int | None = None,
        search: Search | None = None,
    ) -> QueuedMessage | None:
        """What comes first, in memory or on disk."""
        for lane in self._order:
            best = in_memory(lane)
            if lane.runs and (best is None or lane.runs[0].keys[0] < best.key):
                before = None if best is None else best.key
                found = lane.fetch(
                    lambda e: criteria.matches(e.message), mark=mark, before=before, question=criteria, search=search
                )
                if found is not None and (best is None or found.key < best.key):
                    best = found
            if best is not None:
                return best
        return None

    def _message_index(self, search: Search | None) -> Index:
        """The index by message id, complete; it is made when it is first asked for.

        Raises:
            SearchPaused: There is more to do; the next search goes on with it.
        """
        if self._by_message_id is None:
            self._by_message_id = {}
            self._unindexed = dict.fromkeys(self._order, -1)
        index = self._by_message_id
        for lane, passed in list(self._unindexed.items()):
            for entry in lane.in_memory(passed):
                if search is not None:
                    search.turn.spend(STEPS_PER_MESSAGE)
                # What has come since the index was begun is in it.
                if entry not in index.get(entry.message.message_id, ()):
                    _insert(index, entry.message.message_id, entry)
                self._unindexed[lane] = entry.key
            del self._unindexed[lane]
        return index

    def _members(self, group_id: bytes, search: Search | None = None) -> Iterable[QueuedMessage]:
        self._learn_groups(search)
        for lane in self._order:
            while self._groups.is_on_disk(group_id):
                found = lane.fetch(lambda e: e.message.group_id == group_id, mark=hash(group_id), search=search)
                if found is None:
                    break
        if search is not None:
            search.turn.left -= self._groups.size(group_id)
        return self._groups.members(group_id)

    def _learn_groups(self, search: Search | None = None) -> None:
        """Get to know the groups in runs that restart has left on disk."""
        while self._unlearned:
            run = self._unlearned[-1]
            if run.live:
                if search is not None:
                    search.turn.spend(STEPS_PER_RUN)
                _, stored = self._store.read(run.stored.number, run.gone)
                run.marks = marks_of([entry.message for entry in stored])
                for index, entry in enumerate(stored):
                    if entry.message.group_id and not run.is_taken(index):
                        self._groups.add_on_disk(entry.key, entry.message)
            self._unlearned.pop()

    def whole_group(
        self, criteria: Criteria, mine: Collection[int] = (), search: Search | None = None
    ) -> list[QueuedMessage] | None:
        """The first whole group with a matching message, in sequence, left where it is.

        With a `search`, groups that become whole meanwhile may be passed over: who waits for one looks again.

        Raises:
            SearchPaused: The search has to go on later.
        """
        self._learn_groups(search)
        if search is not None:
            search.on(self)
            if search.group_id and self._groups.is_whole(search.group_id, mine):
                # Nothing else costs steps before some of it is read, or the search would never get further.
                return list(self._members(search.group_id, search))
        not_whole: set[bytes] = set()
        for lane in self._order:
            for entry in lane.all(-1 if search is None else search.passed(lane)):
                message = entry.message
                if search is not None:
                    search.spend_for(entry)
                if message.group_id not in not_whole and criteria.matches(message):
                    if not message.group_id:
                        key = entry.key
                        found = entry if entry.resident else lane.fetch(lambda e: e.key == key)  # noqa: B023
                        return [found] if found else None
                    if search is not None:
                        search.turn.left -= self._groups.size(message.group_id)
                    if self._groups.is_whole(message.group_id, mine):
                        if search is not None:
                            search.group_id = message.group_id
                        return list(self._members(message.group_id, search))
                    not_whole.add(message.group_id)
                if search is not None:
                    search.pass_by(lane, entry.key)
        return None

    def place_of(self, entry: QueuedMessage) -> tuple[int, int]:
        """Where it stands in the order of delivery."""
        return (0 if self.definition.delivery == "FIFO" else -entry.message.priority, entry.key)

    def after(self, place: tuple[int, int] | None) -> Iterator[QueuedMessage]:
        """The available messages behind a place, for a browse; the queue must not change meanwhile."""
        for priority in sorted(self._lanes, reverse=True):
            if place is None or -priority >= place[0]:
                behind = place[1] if place is not None and -priority == place[0] else -1
                yield from self._lanes[priority].all(behind)

    def oldest(self) -> QueuedMessage | None:
        """The available message that has been here longest, whatever its priority."""
        firsts = (next(lane.all(), None) for lane in self._order)
        return min((entry for entry in firsts if entry is not None), key=lambda entry: entry.key, default=None)

    def available_from(self, priority: int, limit: int) -> int:
        """How many available messages in memory have at least this priority; `limit` is enough."""
        entries = (entry for lane in self._order for entry in lane.in_memory() if entry.message.priority >= priority)
        return sum(1 for _ in islice(entries, limit))


def _search(lane: Lane, search: Search) -> QueuedMessage | None:
    """The first wanted entry in a lane's memory behind those that were looked at before."""
    found = search.found.get(lane)
    if found is not None and found.state == AVAILABLE and found.resident:
        return found  # without steps, or a search of the runs before it would never get further
    for entry in lane.in_memory(search.passed(lane)):
        search.spend_for(entry)
        if search.criteria.matches(entry.message):
            search.found[lane] = entry
            return entry
        search.pass_by(lane, entry.key)
    return None


def _are_quickly_asked(candidates: Collection[QueuedMessage], criteria: Criteria) -> bool:
    return criteria.selector is None or len(candidates) <= _CANDIDATES_AT_ONCE


def _insert(index: Index, key: bytes, entry: QueuedMessage) -> None:
    entries = index.get(key)
    if entries is None:
        index[key] = deque((entry,))
    elif entries[-1].key < entry.key:
        entries.append(entry)
    else:
        insort(entries, entry, key=lambda other: other.key)


def _remove(index: Index, key: bytes, entry: QueuedMessage) -> None:
    entries = index.get(key)
    if entries is None:
        return
    if len(entries) == 1:
        if entries[0] is entry:
            del index[key]
        return
    try:
        entries.remove(entry)
    except ValueError:
        return
