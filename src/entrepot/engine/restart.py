# SPDX-License-Identifier: Apache-2.0
"""Restart: from what is on disk back to the state of the moment of the crash.

The checkpoint gives objects, runs and prepared units; the log from the
checkpoint's start position gives the rest. Up to `applied_position` the
checkpoint has seen the log already: of that part only messages matter, and
replaying one that has come and gone, or that a run has, changes nothing.
Behind it everything counts. Nothing is put on a queue before the end of
the log is known, so what came and went in between costs no memory.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any, NamedTuple

from entrepot.clock import Clock
from entrepot.compiled import compiled
from entrepot.disk import Disk
from entrepot.engine.checkpointing import CheckpointTaker
from entrepot.engine.definitions import ManagerAttributes, founding_objects
from entrepot.engine.entry import QueuedMessage, RestingRun
from entrepot.engine.queue import Queue
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.recovery_log.bodies import BodyFile, SharedBody
from entrepot.engine.recovery_log.checkpoint import read_checkpoint, write_checkpoint
from entrepot.engine.recovery_log.group import Group
from entrepot.engine.recovery_log.reader import LogReader
from entrepot.engine.recovery_log.record import (
    FORMAT_VERSION,
    CheckpointRecord,
    CommitRecord,
    CountsRecord,
    DecisionRecord,
    DefineRecord,
    DeleteRecord,
    Entry,
    ForgetRecord,
    HeuristicRecord,
    PrepareRecord,
    PutRecord,
    Record,
    RemoveRecord,
    ResolveRecord,
    Run,
    TakenRecord,
)
from entrepot.engine.recovery_log.run import FOLDER as RUNS
from entrepot.engine.recovery_log.run import RunStore
from entrepot.engine.recovery_log.segment import FOLDER as LOG
from entrepot.engine.recovery_log.segment import HEAD_PAGE_BYTES, cut_log, segment_path
from entrepot.engine.recovery_log.writer import RecoveryLog
from entrepot.engine.settings import ManagerSettings
from entrepot.engine.unit_of_work import PendingPut, Take, Unit, UnitOwner, UnitState, memory_bytes
from entrepot.errors import LogDamaged

_records = compiled("records")

Progress = Callable[[float], None]
_TOLD_RECORDS = 10_000
"""How many records are replayed before progress is told of again."""


class Restarted(NamedTuple):
    """A queue manager that is ready, and what its restart has found."""

    manager: QueueManager
    checkpoints: CheckpointTaker
    replayed_bytes: int
    replayed_records: int
    torn: str
    """What a crash left at the end of the log and was cut off; empty when nothing."""


def lay_out(disk: Disk, clock: Clock, settings: ManagerSettings) -> None:
    """Make the files of a new queue manager, so that `restart` finds one that has never run."""
    for folder in (LOG, RUNS):
        disk.make_folder(folder)
    log = RecoveryLog(disk, clock, settings.log, settings.manager_id)
    log.make_primaries()
    # Forces the names of the two folders, too, which stand beside the checkpoint.
    write_first_checkpoint(disk, clock, settings)


def write_first_checkpoint(disk: Disk, clock: Clock, settings: ManagerSettings, *, run_next: int = 1) -> None:
    """The state of a queue manager that has never run."""
    attributes = ManagerAttributes(name=settings.name)
    log = RecoveryLog(disk, clock, settings.log, settings.manager_id)
    manager = QueueManager(attributes, settings.manager_id, disk, clock, log, RunStore(disk, settings.manager_id))
    for definition in founding_objects():
        manager.objects.put(definition)
    records: list[Record] = [manager.objects.record(attributes)]
    records += [manager.objects.record(definition) for definition in manager.objects]
    queue_next = manager.objects.number_next
    head = CheckpointRecord(FORMAT_VERSION, settings.manager_id, 0, 0, 0, 1, run_next, queue_next, clock.now())
    write_checkpoint(disk, head, records)


class _Replay:
    """The state while the log is being read."""

    def __init__(self, manager: QueueManager, checkpoint: CheckpointRecord, progress: Progress | None = None) -> None:
        self.manager = manager
        self.checkpoint = checkpoint
        self._progress = progress
        self._told = 0
        self.alive: dict[int, QueuedMessage] = {}
        """Messages by key, in memory."""
        self.resting: list[RestingRun] = []
        """Runs that stay on disk; their messages are alive too."""
        self.resting_last = 0
        self.from_checkpoint: set[int] = set()
        self._incarnation = 0
        self.key_last = 0
        """The highest key that was ever given to a message; none is given twice."""
        self.units: dict[int, list[QueuedMessage | list[int]]] = {}
        """What units of work did that have not ended yet, in order: messages that arrive, and keys to remove."""
        self.prepared: dict[bytes, tuple[list[QueuedMessage], list[int]]] = {}
        """Messages that arrive with the commit, and keys to remove."""
        self.records = 0
        """How many were replayed."""
        self.wall_last = checkpoint.time
        """What the wall clock said last."""
        self._actions: dict[type[Record], Callable[[Any, int], None]] = {
            Group: self._replay_group,
            PutRecord: self._replay_put,
            RemoveRecord: self._replay_remove,
            TakenRecord: self._replay_taken,
            CommitRecord: self._replay_commit,
            PrepareRecord: lambda record, _: self._prepare(record),
            ResolveRecord: self._replay_resolve,
            DecisionRecord: self._replay_decision,
            ForgetRecord: self._replay_forget,
            HeuristicRecord: self._replay_heuristic,
            DefineRecord: self._replay_define,
            DeleteRecord: self._replay_delete,
        }

    # --- from the checkpoint --------------------------------------------------------------

    def load(self, records: list[Record]) -> None:
        runs: list[Run] = []
        counts: dict[int, int] = {}
        for record in records:
            match record:
                case DefineRecord():
                    self.manager.objects.restore(record)
                case Run():
                    runs.append(record)
                case CountsRecord():
                    counts = record.counts
                case PutRecord():
                    self._replay_put(record, 0)
                case RemoveRecord():
                    self._replay_remove(record, 0)
                case PrepareRecord():
                    self._prepare(record)
                case DecisionRecord() | HeuristicRecord():
                    self.manager.global_units.restore(record)
                case _:
                    raise AssertionError(f"a checkpoint has no {record}")
        loaded_bytes: dict[int, int] = {}
        for run in runs:
            self._load_run(run, counts, loaded_bytes)
        self.manager.recounted = counts

    def _load_run(self, record: Run, counts: dict[int, int], loaded_bytes: dict[int, int]) -> None:
        store = self.manager.store
        stored, entries = store.read(record.number, record.gone, persistent_only=True)
        one_lane = len({(entry.queue, entry.message.priority) for entry in entries}) == 1
        run = RestingRun(
            stored,
            array("Q", [entry.key for entry in entries]),
            queue=entries[0].queue if one_lane else 0,
            persistent=True,
            durable=True,
        )
        self.manager.runs[stored.number] = run
        queue = self.manager.objects.queues_by_number.get(run.queue)
        asleep = any(entry.message.delay_s for entry in entries)  # each has to be watched in memory
        # A body that several queues have was written once, and is read once.
        shares = _shares(entries) if run.queue == 0 else {}
        stays = not asleep and queue is not None and loaded_bytes.get(run.queue, 0) > queue.definition.buffer_bytes
        for index, entry in enumerate(entries):
            gone = record.gone[index >> 3] & (1 << (index & 7))
            if gone or not entry.message.persistent or entry.queue not in self.manager.objects.queues_by_number:
                run.set_gone(index)
                continue
            if entry.body_file:
                run.borrowed[index] = file = store.bodies.file(entry.body_file)
                file.references += 1
            if stays:
                continue
            backouts = counts.get(entry.key, entry.backouts)
            self.alive[entry.key] = QueuedMessage(
                entry.key, entry.queue, entry.message, backouts, entry.log_position, run, index
            )
            alive = self.alive[entry.key]
            alive.shared = store.bodies.share_of(entry) if entry.body_file else shares.get(id(entry.message.body))
            self.from_checkpoint.add(entry.key)
            loaded_bytes[entry.queue] = loaded_bytes.get(entry.queue, 0) + alive.memory_bytes
        if stays and run.live:
            self.resting.append(run)
            self.resting_last = max(self.resting_last, run.keys[-1])

    # --- from the log ---------------------------------------------------------------------

    def replay(self, position: int, record: Record) -> None:
        self.act(position, record)
        self.records += 1
        self._tell(position)

    def _tell(self, position: int) -> None:
        if self._progress is not None and self.records - self._told >= _TOLD_RECORDS:
            self._told = self.records
            self._progress(float(position))

    def act(self, position: int, record: Record) -> None:
        self._actions[type(record)](record, position)

    def take(self, reader: LogReader, position: int, group_end: int, until: int) -> tuple[int, int]:
        """Replay the records of a group from a position on that lie in the reader's window; see `LogReader.records`."""
        if _records is not None:
            position, group_end = _records.take(self, reader, position, group_end, until)
            self._tell(position)
            return position, group_end
        actions = self._actions
        count = 0
        for record, behind in reader.plain_records(position, group_end):
            actions[type(record)](record, position)
            position = behind
            count += 1
        self.records += count
        self._tell(position)
        return position, group_end

    def _replay_group(self, record: Group, position: int) -> None:
        self.begin_group(position, record.time)
        if record.incarnation > self._incarnation:
            # Each start numbers its units from 1, and a crash ends those that were not committed.
            self._incarnation = record.incarnation
            self.units.clear()

    def begin_group(self, position: int, time: float) -> None:
        self.manager.log.note_group_start(position)
        if self._is_new(position):
            self.wall_last = time

    def _replay_put(self, record: PutRecord, position: int) -> None:
        if len(record.targets) == 1 and not record.alike:
            queue, key = record.targets[0]
            arriving = [QueuedMessage(key, queue, record.message, 0, position)]
        else:
            arriving = _arrivals(record, position)
            key = record.key_last
        if key > self.key_last:
            self.key_last = key
        if record.unit:
            self._parts(record.unit).extend(arriving)
        else:
            self._arrive(arriving)

    def _replay_remove(self, record: RemoveRecord, _: int) -> None:
        if record.unit:
            self._parts(record.unit).append(record.keys)
        else:
            self._remove(record.keys)

    def _parts(self, unit: int) -> list[QueuedMessage | list[int]]:
        parts = self.units.get(unit)
        if parts is None:
            parts = self.units[unit] = []
        return parts

    def _replay_commit(self, record: CommitRecord, _: int) -> None:
        alive, resting_last = self.alive, self.resting_last
        for part in self.units.pop(record.unit, ()):
            if isinstance(part, list):
                self._remove(part)
            elif part.key > resting_last:
                alive.setdefault(part.key, part)
            else:
                self._arrive((part,))

    def _replay_decision(self, record: DecisionRecord, position: int) -> None:
        self._replay_commit(CommitRecord(record.unit), position)
        if self._is_new(position):
            self.manager.global_units.restore(record)

    def _replay_forget(self, record: ForgetRecord, position: int) -> None:
        if self._is_new(position):
            self.manager.global_units.restore_forgotten(record)

    def _replay_heuristic(self, record: HeuristicRecord, position: int) -> None:
        if self._is_new(position):
            self.manager.global_units.restore(record)

    def _replay_taken(self, record: TakenRecord, position: int) -> None:
        self._count(record.keys, 1, new=self._is_new(position))
        if record.forgiven:
            self._count(record.forgiven, -1, new=self._is_new(position))

    def _replay_define(self, record: DefineRecord, position: int) -> None:
        if self._is_new(position):
            self.manager.objects.restore(record)

    def _replay_delete(self, record: DeleteRecord, position: int) -> None:
        if self._is_new(position) and self.manager.objects.find(record.kind, record.name) is not None:
            self.manager.objects.remove(record.kind, record.name)

    def _is_new(self, position: int) -> bool:
        """Whether the checkpoint has not seen this part of the log yet."""
        return position >= self.checkpoint.applied_position

    def _arrive(self, entries: Iterable[QueuedMessage]) -> None:
        alive = self.alive
        for entry in entries:
            key = entry.key
            # Keys only grow, so a key that a run has is one that the checkpoint knows better.
            if key not in alive and (key > self.resting_last or self._find_resting(key) is None):
                alive[key] = entry

    def _remove(self, keys: list[int]) -> None:
        for key in keys:
            self.manager.recounted.pop(key, None)
            entry = self.alive.pop(key, None)
            if entry is not None:
                if entry.run is not None:
                    entry.run.set_gone(entry.index)
                continue
            resting = self._find_resting(key)
            if resting is not None:
                resting[0].set_gone(resting[1])

    def _count(self, keys: list[int], by: int, *, new: bool) -> None:
        for key in keys:
            if new and key <= self.resting_last:
                self._wake_run_of(key)
            entry = self.alive.get(key)
            if entry is not None and (new or key not in self.from_checkpoint):
                entry.backouts = max(entry.backouts + by, 0)
                if entry.run is not None:
                    self.manager.recounted[key] = entry.backouts

    def _find_resting(self, key: int) -> tuple[RestingRun, int] | None:
        if key > self.resting_last:
            return None  # as almost all are that the log still has
        for run in self.resting:
            if run.keys[0] <= key <= run.keys[-1]:
                index = bisect_left(run.keys, key)
                if run.keys[index] == key and not run.is_gone(index):
                    return run, index
        return None

    def _prepare(self, record: PrepareRecord) -> None:
        arrivals: list[QueuedMessage] = []
        removed: list[int] = []
        for part in self.units.pop(record.unit, ()):
            if isinstance(part, list):
                removed += part
            else:
                arrivals.append(part)
        self.prepared[record.transaction_id] = (arrivals, removed)
        self.manager.global_units.restore(record)

    def _replay_resolve(self, record: ResolveRecord, position: int) -> None:
        self.manager.global_units.restore_resolved(record, new=self._is_new(position))
        arrivals, removed = self.prepared.pop(record.transaction_id, ([], []))
        if record.committed:
            self._remove(removed)
            self._arrive(arrivals)

    # --- putting it to work ---------------------------------------------------------------

    def settle(self) -> None:
        """Let the queues have their messages, in the order of their keys."""
        manager = self.manager
        held = {key for _, removed in self.prepared.values() for key in removed}
        for key in held:
            self._wake_run_of(key)
        resting: dict[int, list[RestingRun]] = {}
        for run in self.resting:
            resting.setdefault(run.queue, []).append(run)
        for number, runs in resting.items():
            resting[number] = sorted(runs, key=lambda run: run.keys[0], reverse=True)
        keys = sorted(self.alive.keys() - held)
        if _records is not None and not resting:
            _records.stand(manager, keys, self.alive)
            keys = []
        for key in keys:
            entry = self.alive[key]
            queue = manager.objects.queues_by_number.get(entry.queue)
            if queue is None:
                continue  # the queue was deleted after the message arrived
            waiting = resting.get(entry.queue)
            while waiting and waiting[-1].keys[0] < key:
                self._rest(queue, waiting.pop())
            manager.recover(queue, entry)
        for number, runs in resting.items():
            while runs:
                self._rest(manager.objects.queues_by_number[number], runs.pop())
        for transaction_id, (arrivals, removed) in self.prepared.items():
            self._hold(transaction_id, arrivals, removed)

    def _wake_run_of(self, key: int) -> None:
        """Something happened to a message of a run that was to stay on disk: bring the run in."""
        found = self._find_resting(key)
        if found is None:
            return
        run = found[0]
        self.resting.remove(run)
        store = self.manager.store
        _, entries = store.read(run.stored.number, run.gone)
        for index, stored in enumerate(entries):
            if not run.is_gone(index):
                backouts = self.manager.recounted.get(stored.key, stored.backouts)
                shared = store.bodies.share_of(stored) if stored.body_file else None
                self.alive[stored.key] = QueuedMessage(
                    stored.key, stored.queue, stored.message, backouts, stored.log_position, run, index, shared=shared
                )
                self.from_checkpoint.add(stored.key)

    def _rest(self, queue: Queue, run: RestingRun) -> None:
        _, entries = self.manager.store.read(run.stored.number, run.gone)
        queue.rest(run, entries[0].message.priority)

    def _hold(self, transaction_id: bytes, arriving: list[QueuedMessage], removed: list[int]) -> None:
        manager = self.manager
        unit = Unit(0, 0)
        unit.state = UnitState.PREPARED
        unit.transaction_id = transaction_id
        arrivals = []
        for entry in arriving:
            queue = manager.objects.queues_by_number.get(entry.queue)
            if queue is not None:
                queue.reserved += 1
                unit.puts.append(PendingPut([queue], entry.message))
                arrivals.append((queue, entry))
        for key in removed:
            held = self.alive.get(key)
            queue = manager.objects.queues_by_number.get(held.queue) if held else None
            if held is not None and queue is not None:
                manager.recover_held(queue, held)
                unit.takes.append(Take(queue, held))
        user = manager.global_units.owner(transaction_id)
        if user:
            unit.holder = UnitOwner(manager.quotas, user, limited=False)
            unit.hold(sum(memory_bytes(put.message) for put in unit.puts))
        manager.in_doubt.units[transaction_id] = (unit, arrivals)


def restart(
    disk: Disk,
    clock: Clock,
    settings: ManagerSettings,
    *,
    until_position: int | None = None,
    run_next: int = 0,
    reserve_bytes: int = 0,
    background: Executor | None = None,
    progress: Progress | None = None,
) -> Restarted:
    """Recover a queue manager and leave it ready for work.

    `until_position` ignores the groups from this position of the log on, for a
    restore to a point in time; `reserve_bytes` of disk space are kept for
    checkpoints on a full disk; `run_next` is the lowest number for new runs, which are
    written on `background` where that is allowed. Killing a restart is
    harmless: it changes nothing that the next one would read differently.

    Raises:
        LogDamaged, CheckpointDamaged, RunDamaged: No crash explains what is on disk. Nothing was changed.
    """
    checkpoint, records = read_checkpoint(disk)
    reader = LogReader(disk, settings.log, settings.manager_id)
    run_next = max(checkpoint.run_next, run_next)
    store = RunStore(
        disk, settings.manager_id, number_next=run_next, background=background, reserve_bytes=reserve_bytes
    )
    log = RecoveryLog(disk, clock, settings.log, settings.manager_id)
    manager = QueueManager(ManagerAttributes(name=settings.name), settings.manager_id, disk, clock, log, store)
    manager.key_next = checkpoint.key_next
    manager.objects.number_next = checkpoint.queue_next
    replay = _Replay(manager, checkpoint, progress)
    replay.load(records)
    written = reader.records(
        checkpoint.start_position,
        boundary=checkpoint.applied_position,
        incarnation=checkpoint.incarnation,
        until=sys.maxsize if until_position is None else until_position,
        take=replay.take,
    )
    for position, record in written:
        replay.replay(position, record)
    end = reader.end_position
    if end < checkpoint.applied_position:
        path, offset = reader.describe(end)
        raise LogDamaged(
            path, offset, f"the log ends here, but the checkpoint has seen it up to {checkpoint.applied_position}"
        )
    if until_position is not None:
        # What lies behind must not come back at the next start.
        cut_log(disk, settings.log.segment_bytes, end)
    manager.key_next = max(manager.key_next, replay.key_last + 1)
    manager.steady.begin(manager.objects.manager.clock_steps, replay.wall_last, manager.key_next + 1)
    _make_durable(disk, settings, min(max(reader.forced_position, checkpoint.start_position), end), end)
    manager.begin_incarnation(max(checkpoint.incarnation, reader.incarnation) + 1)
    log.open(position=end, needed_position=checkpoint.start_position, incarnation=manager.incarnation)
    _remove_orphans(manager)
    replay.settle()
    manager.publishing.recover()
    checkpoints = CheckpointTaker(
        manager, applied_position=checkpoint.start_position, interval_bytes=settings.log.checkpoint_interval_bytes
    )
    # A new incarnation must be on disk before anybody sees an id of it or the log has a group of it.
    checkpoints.take()
    for queue in list(manager.objects.queues.values()):
        if queue.definition.trigger_type == "FIRST":
            manager.administration.trigger_waiting(queue)
    return Restarted(manager, checkpoints, end - checkpoint.start_position, replay.records, reader.torn)


def _make_durable(disk: Disk, settings: ManagerSettings, start: int, end: int) -> None:
    """Let the end of the log, which we have just read, count as forced from now on.

    Forcing it would not do: if the process before us stopped because a force
    failed, the kernel may hold what it could not write as if it had. So what
    no force is known to have covered is written once more.
    """
    payload_bytes = settings.log.payload_bytes
    position = start
    while position < end:
        number, offset = divmod(position, payload_bytes)
        size = min(end - position, payload_bytes - offset)
        file = disk.open(segment_path(number))
        try:
            file.write(HEAD_PAGE_BYTES + offset, [file.read(HEAD_PAGE_BYTES + offset, size)])
            file.force()
        finally:
            file.close()
        position += size
    disk.force_folder(LOG)


def _remove_orphans(manager: QueueManager) -> None:
    """Runs that no checkpoint names held nonpersistent messages, or were never finished."""
    for number in manager.store.numbers():
        if number not in manager.runs:
            manager.store.remove(number)
        manager.store.number_next = max(manager.store.number_next, number + 1)
    for number in manager.store.body_numbers():
        if number not in manager.store.bodies.files:
            manager.store.remove_bodies(BodyFile(number, durable=True))
        manager.store.number_next = max(manager.store.number_next, number + 1)


def _arrivals(put: PutRecord, position: int) -> list[QueuedMessage]:
    """What a PUT at a position of the log lets stand on queues."""
    shared = SharedBody(put.message.body, len(put.targets)) if len(put.targets) > 1 else None
    return [QueuedMessage(key, queue, message, 0, position, shared=shared) for queue, key, message in put.arrivals()]


def _shares(entries: list[Entry]) -> dict[int, SharedBody]:
    """Bodies that several entries of a run have, by identity."""
    counts = Counter(id(entry.message.body) for entry in entries)
    return {
        id(entry.message.body): SharedBody(entry.message.body, count)
        for entry in entries
        if (count := counts[id(entry.message.body)]) > 1
    }
