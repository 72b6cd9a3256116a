# SPDX-License-Identifier: Apache-2.0
"""The engine: every verb of the queue manager, deterministic and on one thread.

It does no I/O but through the disk and clock it was given, starts no
thread and never waits. A verb whose effect has to be durable returns a
Settlement; its group commit settles all who have gathered with one write
of the log. What a unit of work does becomes visible when its
record is forced, not before: nobody ever reads what a power cut could
still take back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count

from msgspec.structs import replace

from entrepot.clock import Clock
from entrepot.disk import Disk
from entrepot.engine.administration import ObjectAdministration
from entrepot.engine.backout_counts import BackoutCounts
from entrepot.engine.browsing import browse
from entrepot.engine.claims import Claims
from entrepot.engine.completion import complete
from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import ManagerAttributes
from entrepot.engine.distribution import distribute
from entrepot.engine.entry import AVAILABLE, QueuedMessage, RestingRun
from entrepot.engine.expiry import Expiry
from entrepot.engine.generated_messages import GeneratedMessages
from entrepot.engine.global_units import GlobalUnits
from entrepot.engine.group_commit import GroupCommit
from entrepot.engine.in_doubt import InDoubt
from entrepot.engine.message_dispatcher import MessageDispatcher
from entrepot.engine.objects import Objects
from entrepot.engine.publishing import PREFIX as TOPIC_PREFIX
from entrepot.engine.publishing import Publishing
from entrepot.engine.queue import Queue
from entrepot.engine.recovery_log.bodies import BodyFile, SharedBody
from entrepot.engine.recovery_log.record import CommitRecord, PutRecord, Record, RemoveRecord
from entrepot.engine.recovery_log.run import RunStore
from entrepot.engine.recovery_log.writer import RecoveryLog
from entrepot.engine.search import Search, SearchBudget, SearchPaused
from entrepot.engine.settlement import Settlement
from entrepot.engine.steady_time import SteadyTime
from entrepot.engine.timers import Timers
from entrepot.engine.unit_of_work import RECORD_BYTES, PendingPut, Take, Unit, UnitState, give_up_places, memory_bytes
from entrepot.engine.waiting import Waiter
from entrepot.errors import (
    DiskFailed,
    DiskFull,
    EntrepotError,
    GetInhibited,
    SpillFailed,
    UnitBackedOut,
    WrongQueueKind,
)
from entrepot.limits import DISTRIBUTION_MAX
from entrepot.message import Message, Report

_CONFIRM_DELIVERY = int(Report.DELIVERY)

Arrival = tuple[Queue, QueuedMessage]


class QueueManager:
    """Verbs on queues; see the module's first lines for what makes it special."""

    def __init__(
        self,
        attributes: ManagerAttributes,
        manager_id: bytes,
        disk: Disk,
        clock: Clock,
        log: RecoveryLog,
        store: RunStore,
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.steady = SteadyTime(clock)
        self.log = log
        self.group_commit = GroupCommit(log, self._stop_readers)
        self.on_stop: Callable[[], None] = lambda: None
        """Called when the queue manager has stopped for good, after everyone has been answered."""
        self.consequences = GeneratedMessages(self)
        self.administration = ObjectAdministration(self)
        self.store = store
        self.manager_id = manager_id
        self.incarnation = 0
        """How often the queue manager has been started."""
        self.objects = Objects(attributes, lambda number, definition: Queue(number, definition, self, store))
        self.quotas = self.objects.quotas
        self.key_next = 1
        self.young: dict[int, QueuedMessage] = {}
        """Persistent messages that only the log has."""
        self.late: list[QueuedMessage] = []
        """Those of them that a resolved unit brought, so they are older in the log than on their queue."""
        self.recounted: dict[int, int] = {}
        """Backout counts that have changed since a run stored them."""
        self.runs: dict[int, RestingRun] = {}
        """Runs with messages that are still wanted, by number."""
        self.useless_runs: list[RestingRun] = []
        """Runs that the last checkpoint may still name; the next one removes them."""
        self.useless_bodies: list[BodyFile] = []
        """Files of bodies to which those refer, if they do."""
        self.in_doubt = InDoubt(self)
        self.publishing = Publishing(self)
        self.global_units = GlobalUnits(self)
        self.claims = Claims(self)
        self.backout_counts = BackoutCounts(self)
        self._unit_numbers = count(1)
        self.next_session = partial(next, count(1))  # each has its own range of message ids
        self._id_head = b""
        self.objects.clock_steps = lambda: self.steady.steps
        self.timers = Timers(self.steady.now)
        self.expiry = Expiry(self)
        self.turn = SearchBudget()
        self.offering = MessageDispatcher(self)

    def begin_incarnation(self, incarnation: int) -> None:
        """Start handing out ids that no earlier start can have used."""
        self.incarnation = incarnation
        self._id_head = self.manager_id + incarnation.to_bytes(4, "big")

    def message_id_head(self, range_number: int) -> bytes:
        """A range of message ids that others may hand out: its own ids never have the highest bit set."""
        return self._id_head + (0x8000_0000 | range_number & 0x7FFF_FFFF).to_bytes(4, "big")

    def new_message_id(self) -> bytes:
        self.key_next += 1
        return self._id_head + self.key_next.to_bytes(8, "big")

    # --- put ------------------------------------------------------------------------------

    def put(
        self,
        name: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None = None,
        priority: int | None = None,
        unit: Unit | None = None,
        internal: bool = False,
    ) -> tuple[bytes, Settlement | None]:
        """Leave a message on a queue, or the same message on several: on all of them or on none.

        Returns its message id, and a settlement when the put is durable only later.
        `internal`: the queue manager's own state, for a queue that nobody else writes to.
        """
        self.group_commit.require_running()
        if not isinstance(name, str) or name in self.objects.name_lists:
            return distribute(self, name, message, persistent, priority, unit)
        if name[:6] == TOPIC_PREFIX:
            return self.publishing.publish(name[6:], message, persistent, priority, unit)
        route = self.objects.route(name)
        queue = route.queue
        message = complete(self, route, name, message, persistent, priority, internal=internal)
        if unit is not None:
            unit.require_active()
            unit.require_room(memory_bytes(message))
            self.plan(unit, queue, message)
            return message.message_id, None
        if message.persistent or message.report or message.delay_s or queue.definition.stream_queue:
            own = self.internal_unit()
            self.plan(own, queue, message)
            return message.message_id, self.commit_or_undo(own)
        # Nonpersistent and on its own: it is there at once, or with the reader who waits for it.
        self.key_next += 1
        entry = QueuedMessage(self.key_next, queue.number, message)
        try:
            self.arrive(queue, entry)
        except SpillFailed:
            queue.remove(entry)  # refused, so that a full disk does not fill the memory instead
            raise
        return message.message_id, None

    def plan(self, unit: Unit, queue: Queue, message: Message) -> None:
        """Let a complete message arrive when the unit commits; its place on the queue is kept."""
        self.keep_time(unit)
        queue.reserved += 1
        unit.puts.append(PendingPut([queue], message))
        unit.body_bytes += memory_bytes(message)
        if message.report or queue.definition.stream_queue:
            unit.consequential = True

    def put_time(self, message: Message) -> float:
        """What the wall clock says; for a message with a time limit, a clock that was set is noticed first."""
        if message.expiry_s is None and not message.delay_s:
            return self.clock.now()
        return self.follow_clock()

    def follow_clock(self) -> float:
        """What the wall clock says; that it was set is noted in the log, for a restart."""
        count = self.steady.count
        now = self.steady.follow(self.key_next + 1)
        if self.steady.count != count:
            record = self.objects.record(self.objects.manager)
            self.group_commit.note(record, RECORD_BYTES + 32 * len(self.steady.steps))
        return now

    def keep_time(self, unit: Unit) -> None:
        """The clock was set while a unit was open: what it has put counts from the same moment as before."""
        if unit.clock_steps == self.steady.count:
            return
        shift_s = self.steady.shift_since(unit.clock_steps)
        unit.clock_steps = self.steady.count
        for index, (queues, message) in enumerate(unit.puts):
            if message.expiry_s is not None or message.delay_s:
                unit.puts[index] = PendingPut(queues, replace(message, put_time=message.put_time + shift_s))

    # --- get and browse -------------------------------------------------------------------

    def get(
        self,
        name: str,
        criteria: Criteria | None = None,
        unit: Unit | None = None,
        search: Search | None = None,
    ) -> tuple[Message | None, Settlement | None]:
        """The next message that meets the criteria, or None when there is none now.

        Without `unit` a persistent message has left for good when the settlement
        is done, and must not be used before.

        Raises:
            SearchPaused: A `search` was given that has to go on later.
        """
        queue = self.readable(name)
        if unit is not None:
            unit.require_active()
            unit.require_room(0)
        self.timers.tick()
        while True:
            try:
                if unit is not None and criteria is not None and criteria.whole_group:
                    entry = queue.next(criteria, unit.keys_from(queue), search)
                else:
                    entry = queue.next(criteria, (), search)
            except OSError as error:
                raise self.fail(DiskFailed(self.disk.describe("runs"), str(error))) from error
            if entry is None:
                return None, None
            if self.is_claimable(queue, entry, unit):
                return self._take(queue, entry, unit)

    def lease(
        self,
        name: str,
        criteria: Criteria | None,
        guard: Unit,
        waiter: Waiter | None = None,
        search: Search | None = None,
    ) -> Message | None:
        """The next message, for a reader at the end of a channel that may break before the message is there.

        A persistent one is locked under `guard`, which commits when its reader has
        it. A nonpersistent one has left for good: it travels at most once. If
        there is none, `waiter` waits from now on. `search`: see `get`.
        """
        queue = self.readable(name)
        if not queue.depth:
            if waiter is not None:
                queue.waiters.add(waiter)
            return None
        self.timers.tick()
        while True:
            try:
                entry = queue.next(criteria, (), search)
            except OSError as error:
                raise self.fail(DiskFailed(self.disk.describe("runs"), str(error))) from error
            if entry is None:
                if waiter is not None:
                    queue.waiters.add(waiter)
                return None
            message = entry.message
            if self.is_claimable(queue, entry, guard):
                safe = message.persistent or (message.report and message.report & _CONFIRM_DELIVERY)
                return self._take(queue, entry, guard if safe else None)[0]

    def get_group(
        self, name: str, criteria: Criteria, unit: Unit, search: Search | None = None
    ) -> list[Message] | None:
        """All messages of the next whole group, in sequence, or None when no group is whole; `search`: see `get`."""
        queue = self.readable(name)
        unit.require_active()
        self.timers.tick()
        while True:
            try:
                entries = queue.whole_group(criteria, unit.keys_from(queue), search)
            except OSError as error:
                raise self.fail(DiskFailed(self.disk.describe("runs"), str(error))) from error
            if entries is None:
                return None
            unit.require_room(0, len(entries))
            # Every one is asked, so that a group that failed too often moves as a whole.
            claimable = [self.is_claimable(queue, entry, unit) for entry in entries]
            if all(claimable):
                return [self._take(queue, entry, unit)[0] for entry in entries]

    def wait(self, name: str, waiter: Waiter) -> None:
        """Let a reader wait; `get` was tried before and found nothing."""
        self.readable(name).waiters.add(waiter)

    def stop_waiting(self, waiter: Waiter) -> None:
        waiter.leave()

    def browse(
        self, name: str, criteria: Criteria | None, place: tuple[int, int] | None, limit: int
    ) -> tuple[list[Message], tuple[int, int] | None]:
        """Up to `limit` messages behind a place, left where they are, and the place to go on from.

        No messages mean that there is nothing more for now.
        """
        return browse(self, name, criteria, place, limit)[:2]

    def readable(self, name: str) -> Queue:
        """The queue that a reader means.

        Raises:
            QueueNotFound, WrongQueueKind, GetInhibited: It cannot be read.
        """
        self.group_commit.require_running()
        route = self.objects.route(name)
        if route.target_queue:
            raise WrongQueueKind(name, "remote queue", "give messages")
        if not route.get_enabled:
            raise GetInhibited(name)
        return route.queue

    def is_claimable(self, queue: Queue, entry: QueuedMessage, unit: Unit | None) -> bool:
        """Whether a reader may have this entry; one that has expired or failed too often is moved away."""
        message = entry.message
        if message.expiry_s is not None and self.expiry.has_expired(entry):
            self.expiry.expire(queue, entry)
            return False
        threshold = queue.definition.backout_threshold
        if unit is not None and threshold and entry.backouts >= threshold:
            return not self.consequences.move_to_backout_queue(queue, entry)
        return True

    def _take(self, queue: Queue, entry: QueuedMessage, unit: Unit | None) -> tuple[Message, Settlement | None]:
        message = self.present(entry)
        if unit is not None:
            queue.lock(entry)
            self._hold_for(unit, queue, entry)
            return message, None
        if entry.message.persistent or (entry.message.report and entry.message.report & Report.DELIVERY):
            own = self.internal_unit()
            queue.lock(entry)
            own.takes.append(Take(queue, entry))
            own.consequential = entry.message.report != 0
            return message, self.commit_or_undo(own)
        queue.remove(entry)
        if queue.watched:
            self.consequences.watch_leaving(queue)
        return message, None

    def _hold_for(self, unit: Unit, queue: Queue, entry: QueuedMessage) -> None:
        unit.takes.append(Take(queue, entry))
        if entry.message.report:
            unit.consequential = True
        if unit.counted:
            self.backout_counts.count(queue, entry)

    def present(self, entry: QueuedMessage) -> Message:
        """The message as its reader sees it."""
        message = entry.message
        if message.expiry_s is not None:
            message = replace(message, expiry_s=max(self.expiry.left_s(entry), 0.0))
        return replace(message, backout_count=entry.backouts) if entry.backouts else message

    # --- arriving -------------------------------------------------------------------------

    def arrive(self, queue: Queue, entry: QueuedMessage) -> None:
        """A message is there from now on; it goes to a waiting reader before it goes to the queue."""
        message = entry.message
        if message.delay_s or message.expiry_s or queue.waiters or queue.watched:
            if self._come(queue, entry):
                self._stand(queue, entry)
            return
        # The same without the detours, because most messages take none.
        queue.depth += 1
        if entry.log_position >= 0:
            self.young[entry.key] = entry
        self._add(queue, entry)

    def _come(self, queue: Queue, entry: QueuedMessage) -> bool:
        """Count a message in; False when its delay is not over yet."""
        message = entry.message
        queue.depth += 1
        if entry.log_position >= 0 and entry.run is None:
            self.young[entry.key] = entry
        if message.delay_s > 0 and (due := self.steady.of(entry) + message.delay_s) > self.steady.now():
            queue.sleeping[entry.key] = entry
            self.timers.at(due, self._awake, queue, entry)
            return False
        return True

    def recover(self, queue: Queue, entry: QueuedMessage) -> None:
        """Restart brings a message back: no trigger, no event, no reader."""
        if self._come(queue, entry):
            try:
                self._add(queue, entry)
            except SpillFailed:
                return  # it is in memory; a full disk must not keep the queue manager from starting

    def recover_held(self, queue: Queue, entry: QueuedMessage) -> None:
        """Restart brings back a message that a prepared unit of work has got."""
        if entry.run is None:
            self.young[entry.key] = entry
        queue.depth += 1
        queue.hold(entry)

    def _stand(self, queue: Queue, entry: QueuedMessage) -> None:
        message = entry.message
        if queue.waiters and self._hand_over(queue, entry):
            return
        failed: SpillFailed | None = None
        try:
            self._add(queue, entry)
        except SpillFailed as error:
            failed = error
        if queue.waiters:
            self.offering.offer(queue, entry)
        if queue.watched:
            self.consequences.watch_arrival(queue, message, waiting=entry.state == AVAILABLE)
            if queue.is_retaining:
                self.publishing.retained.arrived(queue, entry)
        if failed is not None and entry.state == AVAILABLE:
            raise failed

    def _add(self, queue: Queue, entry: QueuedMessage) -> None:
        if entry.message.expiry_s is not None:
            self.watch_expiry(queue, entry)
        try:
            queue.add(entry)
        except OSError as error:
            # The messages are still in memory; tell the sender to slow down instead of losing any.
            raise SpillFailed(queue.definition.name, str(error)) from error

    def _hand_over(self, queue: Queue, entry: QueuedMessage) -> bool:
        """Give a message straight to a reader who waits for it, so that it need not stand on the queue before."""
        message = entry.message
        if message.expiry_s is not None and self.expiry.has_expired(entry):
            return False  # its unit of work took longer than it was of use
        try:
            waiter = self.offering.reader_for(queue, entry)
        except SearchPaused:
            return False
        if waiter is None:
            return False
        unit = waiter.unit
        safe = message.persistent or (message.report and message.report & _CONFIRM_DELIVERY)
        if unit is None and safe:
            return False  # its removal has to be logged first
        waiter.take_turn()
        if unit is None or (unit.private and not safe):
            queue.depth -= 1
            waiter.serve(self.present(entry))
            return True
        queue.hold(entry)
        presented = self.present(entry)
        self._hold_for(unit, queue, entry)
        waiter.serve(presented)
        if queue.watched:
            self.consequences.watch_arrival(queue, message, waiting=False)
        return True

    def give_back(self, name: str, message: Message) -> None:
        """Let others have a nonpersistent message that was handed over to a reader who has gone."""
        queue = self.objects.route(name).queue
        self.key_next += 1
        if message.expiry_s is not None:
            # What is left of its time was told to the reader; it counts from now.
            message = replace(message, put_time=self.put_time(message))
        self.arrive(queue, QueuedMessage(self.key_next, queue.number, message))

    def give(self, queue: Queue, entry: QueuedMessage, waiter: Waiter) -> None:
        """Let a reader that waits have an entry."""
        waiter.take_turn()
        try:
            message, settlement = self._take(queue, entry, waiter.unit)
        except EntrepotError as error:
            waiter.give_up(error)
        else:
            waiter.serve(message, settlement)

    def _awake(self, queue: Queue, entry: QueuedMessage) -> None:
        if queue.sleeping.pop(entry.key, None) is not None:
            try:
                self._stand(queue, entry)
            except SpillFailed:
                return  # it is in memory; the next put to this queue is told

    # --- units of work --------------------------------------------------------------------

    def begin(self) -> Unit:
        """Begin a unit of work; the one verb that needs no lock."""
        self.group_commit.require_running()
        return Unit(next(self._unit_numbers), self.objects.manager.uncommitted_max)

    def internal_unit(self) -> Unit:
        return Unit(0, DISTRIBUTION_MAX * 2)

    def commit(self, unit: Unit, *, delivered: bool = True, counted: bool = True) -> Settlement | None:
        """Let everything the unit did happen, all or nothing; None when nothing of it is persistent.

        `delivered` is false when what it takes was of no use to its reader, so that nobody is told it was.
        `counted` is what becomes of its gets if it is backed out instead.
        """
        unit.require_active()
        unit.forgiving = not counted
        try:
            return self._commit(unit, delivered=delivered)
        except (DiskFull, DiskFailed) as error:
            raise self.undo(unit, error) from error

    def commit_or_undo(self, unit: Unit, *, delivered: bool = True) -> Settlement | None:
        """Commit a unit of our own; `delivered` is false when what it takes reaches no reader."""
        try:
            return self._commit(unit, delivered=delivered)
        except EntrepotError as error:
            self.undo(unit, error)
            raise

    def _commit(self, unit: Unit, *, delivered: bool = True) -> Settlement | None:
        planned = len(unit.puts)
        try:
            if unit.consequential:
                self.consequences.add_to(unit, delivered=delivered)
            records, arrivals = self.records(unit)
            if records:
                self.require_room_for(unit, records)
        except EntrepotError:
            self.forget_puts(unit, planned)
            raise
        if not records:
            self.apply(unit, arrivals)
            return None
        if len(records) > 1:
            records.append(CommitRecord(self.stamp(records)))
        unit.state = UnitState.ENDING
        return self.promise(records, arrivals, partial(self.apply, unit, arrivals), partial(self.undo, unit))

    def forget_puts(self, unit: Unit, planned: int) -> None:
        """Take back a unit's puts behind the first `planned`: copies, reports, or a batch that was refused."""
        give_up_places(unit.puts[planned:])
        unit.body_bytes -= sum(memory_bytes(put.message) for put in unit.puts[planned:])
        del unit.puts[planned:]

    def stamp(self, records: Iterable[Record]) -> int:
        """Mark records as belonging together; the number is unique for this start and restart reads in order."""
        number = next(self._unit_numbers)
        for record in records:
            if isinstance(record, PutRecord | RemoveRecord):
                record.unit = number
        return number

    def records(self, unit: Unit) -> tuple[list[Record], list[Arrival]]:
        """What the log has to know of a unit, and what arrives where when it commits."""
        self.keep_time(unit)
        records: list[Record] = []
        arrivals: list[Arrival] = []
        for queues, message in unit.puts:
            targets = []
            shared = SharedBody(message.body, len(queues)) if len(queues) > 1 else None
            for queue in queues:
                self.key_next += 1
                arrivals.append((queue, QueuedMessage(self.key_next, queue.number, message, shared=shared)))
                targets.append((queue.number, self.key_next))
            if message.persistent:
                before = records[-1] if records else None
                if isinstance(before, PutRecord) and before.message.body is message.body:
                    before.add_alike(targets, message)
                else:
                    records.append(PutRecord(0, targets, message))
        keys = [take.entry.key for take in unit.takes if take.entry.log_position >= 0]
        if keys:
            records.append(RemoveRecord(0, keys))
        return records, arrivals

    def require_room_for(self, unit: Unit, records: list[Record]) -> None:
        size = unit.body_bytes + RECORD_BYTES * (len(records) + len(unit.takes) // 64)
        size += sum(record.extra_bytes for record in records if isinstance(record, PutRecord))
        self.require_room(size, reserved=not unit.puts)

    def require_room(self, size: int, *, reserved: bool) -> None:
        """Refuse what the log has no room for; a disk that fails at it is fatal."""
        try:
            self.log.require_room(size, reserved=reserved)
        except DiskFailed as error:
            raise self.fail(error) from error

    def promise(
        self,
        records: list[Record],
        arrivals: list[Arrival],
        apply: Callable[[], None],
        undo: Callable[[EntrepotError], EntrepotError],
    ) -> Settlement:
        start = self.log.appended_position
        for _, entry in arrivals:
            if entry.message.persistent:
                entry.log_position = start
        return self.group_commit.promise(records, apply, undo)

    def apply(self, unit: Unit, arrivals: list[Arrival]) -> None:
        unit.state = UnitState.COMMITTED
        unit.let_go()
        for queue, entry in unit.takes:
            in_group = entry.is_indexed and bool(entry.message.group_id)
            queue.remove(entry)
            if queue.watched:
                self.consequences.watch_leaving(queue)
            if in_group and queue.waiters:
                self._serve_groups(queue)
        for queue, entry in arrivals:
            queue.reserved -= 1
            try:
                self.arrive(queue, entry)
            except SpillFailed:
                continue  # it is committed and in memory; the next put to this queue is told

    def _serve_groups(self, queue: Queue) -> None:
        """A message of a group has left: the rest of the group is to follow it."""
        for waiter in queue.waiters.all():
            if waiter.wants_whole_group:
                self.offering.search_for(queue, waiter)

    def undo(self, unit: Unit, error: EntrepotError) -> EntrepotError:
        self.release(unit)
        return UnitBackedOut(unit.number, error.what) if unit.number else error

    def back_out(self, unit: Unit, *, counted: bool = True) -> None:
        """Let nothing of the unit happen: puts vanish, gets return with a raised backout count, unless uncounted."""
        unit.require_active()
        unit.forgiving = not counted
        self.release(unit)

    def release(self, unit: Unit) -> None:
        unit.state = UnitState.BACKED_OUT
        unit.let_go()
        give_up_places(unit.puts)
        if unit.forgiving:
            self.backout_counts.forgive(unit)  # first, because who waits for them gets them at once
        for queue, entry in unit.takes:
            self.put_back(queue, entry)

    def put_back(self, queue: Queue, entry: QueuedMessage) -> None:
        """A message that was locked stands in its old place again."""
        message = entry.message
        queue.unlock(entry)
        if message.expiry_s is not None:
            self.watch_expiry(queue, entry)  # its time may have come while the unit had it
        if queue.waiters:
            self.offering.offer(queue, entry)
        if queue.watched:
            self.consequences.watch_arrival(queue, message, waiting=entry.state == AVAILABLE)

    # --- failure --------------------------------------------------------------------------

    @property
    def failure(self) -> EntrepotError | None:
        return self.group_commit.failure

    def fail(self, error: EntrepotError) -> EntrepotError:
        return self.group_commit.fail(error)

    def force(self) -> None:
        """One whole force of the log, for callers on one thread."""
        self.group_commit.force()

    def _stop_readers(self) -> None:
        for queue in self.objects.queues.values():
            for waiter in queue.waiters.all():
                waiter.give_up(self.group_commit.refusal())
        self.on_stop()

    def watch_expiry(self, queue: Queue, entry: QueuedMessage) -> None:
        """See `Expiry.watch`; a lane's owner asks for it, too."""
        self.expiry.watch(queue, entry)

    # --- Keeper ---------------------------------------------------------------------------

    def useless(self, run: RestingRun) -> None:
        """A run's file is wanted no more; remove it, or leave it to the next checkpoint."""
        if self.runs.pop(run.stored.number, None) is None:
            return
        files = set(run.borrowed.values())
        run.give_up()
        if run.persistent:
            self.useless_runs.append(run)
        else:
            self.store.remove(run.stored.number)
        for file in files:
            self.store.drop_bodies(file)
