# SPDX-License-Identifier: Apache-2.0
"""The trusted binding: runs the engine inside this process, for any number of threads.

One lock guards the engine. It is never held across a force: a thread that
needs one either does it for everybody who has gathered, or waits for the
thread that is doing it (so a single committer pays for no thread switch,
and 64 share a force). A housekeeper thread takes checkpoints and ends
delays and expiries.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from entrepot.clock import Clock, SystemClock
from entrepot.compiled import form
from entrepot.disk import Disk, SystemDisk
from entrepot.engine.definitions import Definition, LocalQueue, ManagerAttributes
from entrepot.engine.folder import as_recovery_error, own, read_settings
from entrepot.engine.missing_objects import define_missing
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.recovery_log.writer import WriteGroup
from entrepot.engine.restart import Progress, restart
from entrepot.engine.retrying import return_unseen
from entrepot.engine.serverless import Serverless
from entrepot.engine.settings import ManagerSettings
from entrepot.engine.settlement import Settlement
from entrepot.engine.topic_status import subscription_status, topic_status
from entrepot.engine.unit_of_work import Unit
from entrepot.engine.waiting import Waiter
from entrepot.errors import (
    DiskFailed,
    DiskFull,
    EntrepotError,
    LogFull,
    QueueManagerFailed,
    QueueManagerStopped,
)
from entrepot.limits import RUN_BYTES

_LOGGER = logging.getLogger("entrepot")

_HOUSEKEEPING_S = 0.25
_GROUPS_IN_A_ROW = 8
# A checkpoint lets go of the log up to the one before it, so two make all the room there is.
CHECKPOINTS_FOR_ROOM = 2
# After a failed checkpoint, so that a full disk is not asked again with every put.
_CHECKPOINT_RETRY_S = 1.0
_FORCES_REMEMBERED = 16


class Completion(Protocol):
    """Something that is done at some time."""

    done: bool


class AwaitedCompletion(Completion, Protocol):
    """The same for a thread that waits for it."""

    ticket: threading.Lock | None


class Host(Serverless):
    """A running queue manager. All methods may be called from any thread."""

    def __init__(
        self,
        path: Path | str,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        progress: Progress | None = None,
        settings: ManagerSettings | None = None,
    ) -> None:
        """`settings` are those of a queue manager without a folder: its disk has all that it keeps."""
        self.path = Path(path)
        self.settings = settings or read_settings(self.path)  # first: nothing is written into a folder that is not ours
        self._lock_descriptor = own(self.path) if settings is None else None
        # Its thread starts with the first queue that outgrows its memory.
        self._spiller = ThreadPoolExecutor(1, "entrepot-spiller")
        try:
            self.restarted = restart(
                disk or SystemDisk(self.path),
                clock or SystemClock(),
                self.settings,
                background=self._spiller,
                reserve_bytes=min(RUN_BYTES, self.settings.log.segment_bytes),
                progress=progress,
            )
            self._restarted(self.restarted.manager)
            define_missing(self.restarted.manager)
        except BaseException as error:
            self._spiller.shutdown()
            self._let_folder_go()
            if isinstance(error, OSError):
                raise as_recovery_error(self.path, error) from error
            raise
        self._manager = self.restarted.manager
        self._manager.on_stop = self._wake_served
        self._checkpoints = self.restarted.checkpoints
        self._lock = self._make_lock()
        self._forcing = False
        self._followers: list[tuple[Completion, threading.Lock]] = []
        self._checkpoint_lock = threading.Lock()
        self._checkpoint_after = 0.0
        self._short_position = 0
        """How far the log had come when a checkpoint last found no space."""
        self._closed = False
        self._wake_housekeeper = threading.Event()
        self._forcer: threading.Thread | None = None
        self._force_wanted = threading.Event()
        self.force_s = 0.0
        """How long a force takes, as far as is known lately."""
        # Last: it may need any of the above at once.
        self._housekeeper = threading.Thread(target=self._keep_house, name="entrepot-housekeeper", daemon=True)
        self._housekeeper.start()

    def _make_lock(self) -> Any:
        """The engine's lock; a thread that has it may take it once more."""
        return threading.RLock()

    # --- verbs ----------------------------------------------------------------------------

    def private_unit(self) -> Unit:
        """A unit that guards a waiting get outside of any unit of work, so that it can be given up."""
        unit = self._manager.internal_unit()
        unit.private = True
        unit.counted = False
        return unit

    def stop_waiting(self, waiter: Waiter) -> None:
        """The reader waits no longer; what has come at the last moment is in the waiter."""
        with self._lock:
            if waiter.message is None and waiter.error is None:
                self._manager.stop_waiting(waiter)

    def give_back(self, name: str, waiter: Waiter) -> None:
        """The reader has gone without its message: let others have it, or its unit's commit would delete it unseen."""
        self.stop_waiting(waiter)
        with self._lock:
            return_unseen(self._manager, name, waiter)

    def in_doubt(self) -> list[bytes]:
        """The transaction ids of prepared units, oldest first."""
        with self._lock:
            return list(self._manager.in_doubt.units)

    # --- publish/subscribe ------------------------------------------------------------------

    def leave_subscription(self, name: str) -> None:
        """A reader has gone from it."""
        with self._lock:
            self._manager.publishing.leave(name)

    def clear_retained(self, topic: str) -> int:
        count = 0

        def clear() -> Settlement | None:
            nonlocal count
            count, settlement = self._manager.publishing.retained.clear(topic)
            return settlement

        self.durably(clear)
        return count

    # --- administration (mqsc's Administered) -----------------------------------------------

    def manager_attributes(self) -> ManagerAttributes:
        with self._lock:
            return self._manager.objects.manager

    def definitions(self) -> Iterable[Definition]:
        with self._lock:
            return list(self._manager.objects)

    def find(self, kind: str, name: str) -> Definition | None:
        with self._lock:
            return self._manager.objects.find(kind, name)

    def define(self, definition: Definition, *, replace: bool) -> None:
        self.durably(lambda: self._manager.administration.define(definition, replace_existing=replace))

    def alter(self, definition: Definition) -> None:
        self.durably(lambda: self._manager.administration.alter(definition))

    def delete(self, kind: str, name: str, *, purge: bool) -> None:
        if purge and kind == LocalQueue.kind and self.find(kind, name) is not None:
            self.clear(name)
        self.durably(lambda: self._manager.administration.delete(kind, name, purge=purge))

    def clear(self, name: str) -> int:
        """Remove the messages that are on a local queue now, some at a time, so that others are served in between.

        Raises:
            QueueInUse: Somebody reads it. Messages may have been removed before.
        """
        cleared, more = 0, 1

        def clear() -> Settlement | None:
            nonlocal cleared, more
            more, settlement = self._manager.administration.clear_some(name)
            cleared += more
            return settlement

        with self._lock:
            queue = self._manager.objects.queues.get(name)
            depth = 0 if queue is None else queue.depth
        while more and cleared <= depth:
            self.durably(clear)
        return cleared

    def queue_status(self, name: str) -> Mapping[str, int | float | str]:
        with self._lock:
            return self._manager.administration.queue_status(name)

    def running(self, noun: str) -> list[dict[str, int | float | str]]:
        with self._lock:
            if noun == "TPSTATUS":
                return topic_status(self._manager)
            return subscription_status(self._manager) if noun == "SBSTATUS" else []

    def remove_temporary(self, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                self._manager.administration.remove_temporary(name)

    # --- group commit -----------------------------------------------------------------------

    def durably(self, verb: Callable[[], Settlement | None]) -> None:
        """Run a verb and wait until its effect is on disk."""
        for _ in range(CHECKPOINTS_FOR_ROOM):
            try:
                settlement = self._locked(verb)
                break
            except LogFull:
                if not self.may_checkpoint:
                    raise
                self.checkpoint()
        else:
            settlement = self._locked(verb)
        if settlement is not None:
            self._await(settlement)
        else:
            self._lock.release()

    def _locked(self, verb: Callable[[], Settlement | None]) -> Settlement | None:
        """Run a verb; the lock is held afterwards, unless the verb has failed."""
        self._lock.acquire()
        try:
            while self._forcing and self._manager.log.gathered_bytes > self.settings.log.buffer_bytes:
                newest = self._manager.group_commit.newest
                if newest is None:
                    break  # only notes have gathered, and nobody forces those
                self._wait_for_group(newest)
            return verb()
        except BaseException:
            self._lock.release()
            raise

    def _wait_for_group(self, newest: Settlement) -> None:
        """The log buffer is full: let the force that is under way end first; called and left with the lock held."""
        with contextlib.suppress(EntrepotError):
            self._await(newest)
        self._lock.acquire()

    def force_here(self) -> None:
        """Force what has gathered on this thread, unless another one is at it; it goes on then for us, too.

        What went wrong is for those who wait for it.
        """
        with self._lock:
            if self._manager.group_commit.newest is None:
                return
            if not self._forcing:
                self._force_group()
                return
        self.want_force()

    def want_force(self) -> None:
        """Let our thread force what has gathered, soon."""
        if self._forcer is None:
            self._forcer = threading.Thread(target=self._force_for_others, name="entrepot-forcer", daemon=True)
            self._forcer.start()
        if not self._force_wanted.is_set():
            self._force_wanted.set()

    def _force_for_others(self) -> None:
        while not self._closed:
            self._force_wanted.wait()
            self._force_wanted.clear()
            while True:
                self._lock.acquire()
                newest = self._manager.group_commit.newest
                if newest is None:
                    self._lock.release()
                    break
                # What went wrong is for those who wait for it.
                with contextlib.suppress(EntrepotError):
                    self._await(newest)

    def wait_for(self, waiting: AwaitedCompletion, deadline: float = math.inf) -> None:
        """Return when something is done, or at the deadline; what has gathered is forced unless another thread does.

        The thread that is to be woken waits on the `ticket`, which whoever is done releases.
        """
        while not waiting.done:
            self._lock.acquire()
            if waiting.done:
                self._lock.release()
                return
            if not self._forcing and self._manager.group_commit.newest is not None:
                self._force()
                self._lock.release()
                continue
            waiting.ticket = ticket = threading.Lock()
            ticket.acquire()
            follower = (waiting, ticket)
            if self._forcing:
                self._followers.append(follower)
            self._lock.release()
            left_s = deadline - time.monotonic()
            try:
                if left_s <= 0 or not ticket.acquire(timeout=min(left_s, threading.TIMEOUT_MAX)):
                    self._leave(follower)
                    return
            except BaseException:
                self._leave(follower)
                raise

    def _await(self, settlement: Settlement) -> None:
        """Return when a settlement is done, having forced the log if nobody else was at it.

        Called with the lock held, left without it.
        """
        while not settlement.done:
            if not self._forcing:
                self._force()
                continue
            ticket = threading.Lock()
            ticket.acquire()
            follower = (settlement, ticket)
            self._followers.append(follower)
            self._lock.release()
            try:
                ticket.acquire()
            except BaseException:
                self._leave(follower)
                raise
            if settlement.done:
                break
            self._lock.acquire()  # it is this thread's turn to force
        else:
            self._lock.release()
        if settlement.error is not None:
            raise settlement.error

    def _leave(self, follower: tuple[Completion, threading.Lock]) -> None:
        """An interrupted thread waits no longer; if it was its turn to force, it is the next one's."""
        with self._lock:
            if follower in self._followers:
                self._followers.remove(follower)
            elif not follower[0].done:
                self._pass_the_turn()

    def _pass_the_turn(self) -> None:
        while self._followers:
            waiting, ticket = self._followers.pop(0)
            if not waiting.done:
                _release(ticket)
                return

    def _force(self) -> None:
        """Force what has gathered; called and left with the lock held.

        Goes on for a few groups before another thread has to take over: waking
        that thread costs more than a group, but this one's caller waits.
        """
        for _ in range(_GROUPS_IN_A_ROW):
            self._force_group()
            if not self._followers:
                return
        self._pass_the_turn()

    def _force_group(self) -> None:
        manager = self._manager
        group = manager.group_commit.begin()
        if group is not None:
            self._forcing = True
            self._lock.release()
            interrupt: BaseException | None = None
            try:
                error = self._write(group)
            except BaseException as caught:
                # Nobody knows how far it got. All of the group is written again, not only forced again.
                interrupt = caught
                error = self._write(group)
            self._lock.acquire()
            self._forcing = False
            manager.group_commit.end(group, error)
            if interrupt is not None:
                self._wake_served()
                self._pass_the_turn()
                self._lock.release()
                raise interrupt
        self._wake_served()

    def _write(self, group: WriteGroup) -> EntrepotError | None:
        begin = time.perf_counter()
        try:
            self._manager.log.write_group(group, force=True)
        except (DiskFull, DiskFailed) as failed:
            return failed
        self.force_s += (time.perf_counter() - begin - self.force_s) / _FORCES_REMEMBERED
        return None

    def _wake_served(self) -> None:
        waiting = []
        for follower in self._followers:
            if follower[0].done:
                _release(follower[1])
            else:
                waiting.append(follower)
        self._followers = waiting

    # --- checkpoints and time -----------------------------------------------------------------

    @property
    def may_checkpoint(self) -> bool:
        """Whether the last one that failed is long enough ago."""
        if time.monotonic() >= self._checkpoint_after:
            return True
        # Gets go on, and what they have removed may let the log go.
        log = self._manager.log
        return log.appended_position - self._short_position >= log.reserve_bytes // 4

    def checkpoint(self) -> None:
        """Take a checkpoint now, while other threads go on.

        Raises:
            DiskFull: The old checkpoint stands. Once there is space, the next one succeeds.
            DiskFailed: Fatal.
        """
        with self._checkpoint_lock:
            with self._lock:
                self._manager.group_commit.require_running()
                plan = self._checkpoints.begin()
            try:
                plan.write_runs()
                self._force_all()
                with self._lock:
                    plan.install()
                plan.write()
                with self._lock:
                    self._checkpoints.finish(plan)
                    if plan.is_short and not plan.made_room:
                        self._pause_checkpoints()
                plan.restock()
            except OSError as error:
                self._pause_checkpoints()
                with self._lock:
                    raise self._checkpoints.failed(plan, error) from error

    def _pause_checkpoints(self) -> None:
        self._checkpoint_after = time.monotonic() + _CHECKPOINT_RETRY_S
        self._short_position = self._manager.log.appended_position

    @contextlib.contextmanager
    def without_checkpoints(self) -> Iterator[int]:
        """Keep every file that restart would need until the end; yields a position up to which all is forced."""
        with self._checkpoint_lock:
            self._force_all()
            with self._lock:
                position = self._manager.log.forced_position
            yield position

    def _force_all(self) -> None:
        """Force everything that has gathered so far, whoever does it."""
        with self._lock:
            while self._forcing:
                self._lock.release()
                time.sleep(0.0005)
                self._lock.acquire()
            if self._manager.log.appended_position > self._manager.log.forced_position:
                self._force()

    def _keep_house(self) -> None:
        while not self._closed:
            self._wake_housekeeper.wait(self._nap_s())
            self._wake_housekeeper.clear()
            if self._closed:
                return
            try:
                with self._lock:
                    if self._manager.failure is not None:
                        return
                    self._manager.follow_clock()
                    self._manager.timers.tick()
                    self._manager.group_commit.mark()
                    due = self._checkpoints.is_due and self.may_checkpoint
                    unforced = self._manager.group_commit.newest
                if unforced is not None:
                    self._force_all()
                if due:
                    self.checkpoint()
            except EntrepotError as error:
                _LOGGER.warning("%s: %s", self.settings.name, error)

    def _nap_s(self) -> float:
        with self._lock:
            due = self._manager.timers.next_due
            now = self._manager.steady.now()
        return _HOUSEKEEPING_S if due is None else min(max(due - now, 0.0), _HOUSEKEEPING_S)

    @property
    def lock(self) -> Any:
        """The engine's lock, for whoever runs several verbs under it; held for microseconds, never across I/O."""
        return self._lock

    @property
    def is_crowded(self) -> bool:
        """Whether more has gathered for the log than its buffer is meant to hold: senders should pause."""
        return self._manager.log.gathered_bytes > self.settings.log.buffer_bytes

    def wake_housekeeper(self) -> None:
        """Something with a due time has come."""
        self._wake_housekeeper.set()

    @property
    def manager(self) -> QueueManager:
        """The engine, for those who run its verbs under the lock."""
        return self._manager

    @property
    def failure(self) -> EntrepotError | None:
        return self._manager.failure

    def status(self) -> dict[str, int | float | str]:
        """How the queue manager is doing."""
        with self._lock:
            manager, log = self._manager, self._manager.log
            return {
                "name": self.settings.name,
                "state": "failed" if manager.failure else "running",
                "log": self.settings.log.kind,
                "log_position": log.appended_position,
                "log_needed_bytes": log.appended_position - log.needed_position,
                "queues": len(manager.objects.queues),
                "messages": sum(queue.depth for queue in manager.objects.queues.values()),
                "in_doubt": len(manager.in_doubt.units),
                "starts": manager.incarnation,
                "form": form(),
            }

    def _stop(self) -> None:
        """Answer everyone who is still waiting, then refuse everything: the folder may soon be another's."""
        stopped = QueueManagerStopped(self.settings.name)
        while True:
            with self._lock:
                if self._manager.group_commit.newest is None or self._manager.failure is not None:
                    self._manager.fail(stopped)
                    return
            self._force_all()

    def close(self) -> None:
        """Stop cleanly: take a last checkpoint and let the folder go. Open units are backed out."""
        if self._closed:
            return
        self._closed = True
        self._wake_housekeeper.set()
        self._housekeeper.join()
        if self._forcer is not None:
            self._force_wanted.set()
            self._forcer.join()
        try:
            if self._manager.failure is None:
                self.checkpoint()
        except (DiskFull, QueueManagerFailed) as error:
            _LOGGER.warning("%s: no last checkpoint: %s", self.settings.name, error)
        finally:
            self._stop()
            self._spiller.shutdown()
            self._manager.log.close()
            self._let_folder_go()

    def _let_folder_go(self) -> None:
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)


def _release(ticket: threading.Lock) -> None:
    """Wake whoever waits for a ticket; it may be awake already."""
    with contextlib.suppress(RuntimeError):
        ticket.release()
