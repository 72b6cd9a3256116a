# SPDX-License-Identifier: Apache-2.0
"""Taking a checkpoint while the queue manager goes on working.

Four steps: `begin` and `install` and `finish` belong to the engine's
thread and are short; `write_runs` and `write` do the slow work on disk and
may run beside it. Messages that have been in the log since before the
previous checkpoint move to runs, so the log before that may be reused.
Between the two positions the log still has them, which is why a message
that lives only briefly never costs more than its two log records.

On a full disk as many move as the reserve has space for; the log before
the first of the others is kept. The checkpoint is taken all the same: it
lets go of runs whose messages were got, which makes space again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from entrepot import limits
from entrepot.disk import NO_SPACE
from entrepot.engine.entry import GONE, OVERHEAD_BYTES, QueuedMessage, RestingRun
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.recovery_log.bodies import BodyFile
from entrepot.engine.recovery_log.checkpoint import write_checkpoint
from entrepot.engine.recovery_log.record import (
    FORMAT_VERSION,
    CheckpointRecord,
    CountsRecord,
    Entry,
    PrepareRecord,
    PutRecord,
    Record,
    RemoveRecord,
    Run,
    body_of,
)
from entrepot.engine.recovery_log.run import StoredRun
from entrepot.errors import DiskFailed, DiskFull


class CheckpointTaker:
    """Knows when a checkpoint is due and takes it."""

    def __init__(self, manager: QueueManager, *, applied_position: int, interval_bytes: int) -> None:
        self._manager = manager
        self._interval_bytes = interval_bytes
        self.applied_position = applied_position
        """What the last checkpoint has seen of the log; the next one may release everything before."""

    @property
    def is_due(self) -> bool:
        return self._manager.log.appended_position - self.applied_position >= self._interval_bytes

    def take(self) -> None:
        """All steps at once, for callers on one thread.

        Raises:
            DiskFull: The old checkpoint stands; take one again when there is space.
            DiskFailed: Fatal; the queue manager has failed.
        """
        plan = self.begin()
        try:
            plan.write_runs()
            # What has been written but not forced would be counted twice after a crash.
            if self._manager.log.appended_position > self._manager.log.forced_position:
                self._manager.force()
            plan.install()
            plan.write()
        except OSError as error:
            raise self.failed(plan, error) from error
        self.finish(plan)
        plan.restock()

    def begin(self) -> CheckpointPlan:
        return CheckpointPlan(self._manager, self.applied_position)

    def finish(self, plan: CheckpointPlan) -> None:
        self.applied_position = plan.applied_position
        plan.finish()

    def failed(self, plan: CheckpointPlan, error: OSError) -> DiskFull | DiskFailed:
        """What a failed step means for the queue manager."""
        path = self._manager.disk.describe("checkpoint")
        plan.abandon()
        if error.errno in NO_SPACE:
            return DiskFull(path)
        failure = DiskFailed(path, str(error))
        self._manager.fail(failure)
        return failure


class CheckpointPlan:
    """One checkpoint on its way."""

    def __init__(self, manager: QueueManager, start_position: int) -> None:
        self._manager = manager
        self._start_position = start_position
        manager.late = []
        # Runs are in the order of keys: it is how restart finds a message in one.
        self._moving = sorted((e for e in manager.young.values() if e.log_position < start_position), key=_key)
        self._entries = [_stored(entry) for entry in self._moving]
        self._staying: list[QueuedMessage] = []
        """Those for which the disk has no space; only the log has them."""
        self._unforced = [run for run in manager.runs.values() if run.persistent and not run.durable]
        self._written: list[RestingRun] = []
        self._records: list[Record] = []
        self._head: CheckpointRecord | None = None
        self._useless: list[RestingRun] = []
        self._useless_bodies: list[BodyFile] = []
        self.applied_position = 0
        self.is_short = False
        """Whether the disk had too little space for all that was to move."""
        self.made_room = False
        """Whether it has let go of log or runs, so that the next one may do more."""

    def write_runs(self) -> None:
        """Bring to disk what the log will no longer have."""
        self._manager.store.force_bodies()
        for run in self._unforced:
            self._force(run)
        self._write(self._moving, self._entries)

    def _force(self, run: RestingRun) -> None:
        try:
            self._manager.store.force(run.stored.number)
        except OSError as error:
            # The disk has not taken it; the log still has all of its messages, or else this is the end.
            if error.errno not in NO_SPACE or run.log_position < self._manager.log.needed_position:
                raise
            self.is_short = True
            return
        run.durable = True

    def _write(self, moving: list[QueuedMessage], entries: list[Entry]) -> None:
        """Write runs while there is space; what has none is cut off both lists."""
        done = 0
        for part, body_bytes in _slices(entries):
            try:
                self._wrote(self._manager.store.write(part, body_bytes=body_bytes, force=True, shared=True), part)
                done += len(part)
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                # Puts that found the log full must not use up what gets will need.
                touched = self._manager.log.is_reserve_touched
                while touched and (stored := self._manager.store.write_into_reserve(entries[done:])):
                    self._wrote(stored, entries[done : done + stored.entries])
                    done += stored.entries
                self.is_short = True
                break
        self._staying += moving[done:]
        del moving[done:], entries[done:]

    def _wrote(self, stored: StoredRun, part: list[Entry]) -> None:
        keys = array("Q", [entry.key for entry in part])
        self._written.append(RestingRun(stored, keys, queue=0, persistent=True, durable=True))

    def install(self) -> None:
        """Let the moved messages belong to their runs and note the state of everything else."""
        manager = self._manager
        for run in manager.runs.values():
            # Written since `begin`: the log may have been all that had its messages.
            if run.persistent and not run.durable:
                self._force(run)
        manager.store.force_bodies()
        # Resolved since `begin`: old messages that were not on any queue then.
        late = sorted(
            (e for e in manager.late if e.run is None and e.state != GONE and e.log_position < self._start_position),
            key=_key,
        )
        stored_late = [_stored(entry) for entry in late]
        self._write(late, stored_late)
        self._moving += late
        self._entries += stored_late
        moving = iter(zip(self._moving, self._entries, strict=True))
        for run in self._written:
            manager.runs[run.stored.number] = run
            for index in range(run.stored.entries):
                entry, stored = next(moving)
                self._attach(run, index, entry, stored)
        for run in [run for run in manager.runs.values() if not run.live]:
            manager.useless(run)
        self._useless = manager.useless_runs
        manager.useless_runs = []
        self._useless_bodies = [*manager.useless_bodies, *manager.store.bodies.unwanted()]
        manager.useless_bodies = []
        self.applied_position = manager.log.forced_position
        if self.is_short:
            self._start_position = self._keep_log()
        self._head = CheckpointRecord(
            FORMAT_VERSION,
            manager.manager_id,
            self._start_position,
            self.applied_position,
            manager.incarnation,
            manager.key_next,
            manager.store.number_next,
            manager.objects.number_next,
            manager.clock.now(),
        )
        self._records = list(_state(manager))

    def _keep_log(self) -> int:
        """Where restart must begin to read, given what only the log has."""
        manager = self._manager
        needed = [entry.log_position for entry in self._staying if entry.run is None and entry.state != GONE]
        needed += [run.log_position for run in manager.runs.values() if run.persistent and not run.durable]
        return manager.log.group_start_before(min([self._start_position, *needed]))

    def _attach(self, run: RestingRun, index: int, entry: QueuedMessage, stored: Entry) -> None:
        manager = self._manager
        if entry.state == GONE or entry.run is not None:
            # It has left meanwhile, or went to disk with its neighbours.
            run.set_gone(index)
            return
        entry.run, entry.index = run, index
        manager.young.pop(entry.key, None)
        if entry.backouts != stored.backouts:
            manager.recounted[entry.key] = entry.backouts

    def write(self) -> None:
        """Replace the checkpoint on disk."""
        assert self._head is not None
        write_checkpoint(self._manager.disk, self._head, self._records)

    def finish(self) -> None:
        """Let go of what restart no longer needs."""
        self.made_room = bool(self._useless) or self._start_position > self._manager.log.needed_position
        # Only a checkpoint that has found space for runs has shown that there is some. Else as much is worth keeping
        # as messages of the log will need, which hold it up until they can move; after a restart, too.
        plenty = self._written and not self.is_short
        young = () if plenty else self._manager.young.values()
        self._manager.store.reserve.want(sum(entry.body_bytes + OVERHEAD_BYTES for entry in young))
        while self._useless:
            self._manager.store.remove(self._useless[-1].stored.number)
            self._useless.pop()
        while self._useless_bodies:
            self._manager.store.remove_bodies(self._useless_bodies[-1])
            self._useless_bodies.pop()
        self._manager.log.release(self._start_position, keep_all=self.is_short)

    def restock(self) -> None:
        """See to the space for checkpoints on a full disk; may run beside the engine."""
        if not self.is_short:
            self._manager.store.reserve.restock()

    def abandon(self) -> None:
        """The old checkpoint stands, so what it names must stay."""
        self._manager.useless_runs += self._useless
        self._manager.useless_bodies += self._useless_bodies


def _key(entry: QueuedMessage) -> int:
    return entry.key


def _stored(entry: QueuedMessage) -> Entry:
    return Entry(entry.key, entry.queue, entry.backouts, entry.log_position, entry.recorded)


def _slices(entries: list[Entry]) -> Iterator[tuple[list[Entry], int]]:
    """Parts of a run's size, and how many bytes their bodies have; neighbours with the same body stay together."""
    begin = size = 0
    last: object = None
    for index, entry in enumerate(entries):
        body = body_of(entry.message)
        if body is last:
            continue
        if size >= limits.RUN_BYTES:
            yield entries[begin:index], size
            begin, size = index, 0
        size += len(body)
        last = body
    if begin < len(entries):
        yield entries[begin:], size


def _state(manager: QueueManager) -> Iterator[Record]:
    """Everything that restart cannot learn from the log behind the checkpoint."""
    for definition in manager.objects.stored():
        yield manager.objects.record(definition)
    for run in manager.runs.values():
        if run.persistent and run.durable:
            yield Run(run.stored.number, run.stored.entries, bytes(run.gone))
    if manager.recounted:
        yield CountsRecord(dict(manager.recounted))
    for number, (transaction_id, (unit, arrivals)) in enumerate(manager.in_doubt.units.items(), start=1):
        yield from _puts(number, [entry for _, entry in arrivals if entry.message.persistent])
        yield RemoveRecord(number, [take.entry.key for take in unit.takes if take.entry.log_position >= 0])
        branches, user = manager.global_units.prepared.get(transaction_id, ([], ""))
        yield PrepareRecord(number, transaction_id, branches, user, manager.global_units.since.get(transaction_id, 0.0))
    yield from manager.global_units.state()


def _puts(unit: int, entries: list[QueuedMessage]) -> list[PutRecord]:
    """What the log had of a unit, with a body once."""
    puts: list[PutRecord] = []
    last: QueuedMessage | None = None
    for entry in entries:
        target = (entry.queue, entry.key)
        if last is not None and last.message is entry.message:
            (puts[-1].alike[-1][0] if puts[-1].alike else puts[-1].targets).append(target)
        elif last is not None and last.message.body is entry.message.body:
            puts[-1].add_alike([target], entry.message)
        else:
            puts.append(PutRecord(unit, [target], entry.message))
        last = entry
    return puts
