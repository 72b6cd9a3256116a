# SPDX-License-Identifier: Apache-2.0
"""The engine on an event loop: verbs run on the loop itself, and what the log settles comes back to it.

Used by everything that must not block: the asyncio connection, and a
server's sessions. The engine calls `wake` of settlements and waiters under
the host's lock, on whatever thread it runs; here they become plain calls on
the loop's thread with no lock held, many at a time, because waking a loop
costs a system call.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from entrepot.engine import express
from entrepot.engine.batch_get import get_up_to
from entrepot.engine.criteria import Criteria
from entrepot.engine.host import Host
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.retrying import retry_later
from entrepot.engine.search import STEPS_PER_TURN, Search, SearchPaused
from entrepot.engine.settlement import Settlement
from entrepot.engine.unit_of_work import Take, Unit, UnitState
from entrepot.engine.waiting import StandingWaiter, Waiter
from entrepot.errors import EntrepotError
from entrepot.message import Message

_FORCE_HERE_S = 0.001
"""A force that takes no longer is done on the loop: handing it to a thread and back would cost more than waiting.

With a slower disk a thread forces, and whoever needs no disk is not held up.
"""

Verb = Callable[[], Settlement | None]
Done = Callable[[EntrepotError | None], None]


class Writer(Protocol):
    """Somebody who has gathered bytes for his partner."""

    def flush(self) -> None: ...


class LoopHost:
    """A host for one event loop; all methods are for the loop's own thread."""

    def __init__(self, host: Host, loop: Any = None) -> None:
        self.host = host
        self.manager: QueueManager = host.manager
        self._lock = host.lock
        self.loop: Any = loop or asyncio.get_running_loop()
        self._ready: deque[Callable[[], None]] = deque()
        self._announced = False
        self._inside = False
        self._draining = False
        self._force_wanted = False
        self._steps: deque[Callable[[], None]] = deque()
        """Searches that go on in the next turn of the loop."""
        self._turn_wanted = False
        self.turn: list[Writer] | None = None
        """Those who have something to write at the end of the turn that is under way."""
        self.crowded = False
        """Whether the log had more to write than it should when it was last given something: senders should pause."""

    # --- verbs --------------------------------------------------------------------------------

    def run(self, verb: Verb, done: Done) -> bool:
        """Run a verb; True when its effect is there at once, else `done` is called once the log has it.

        Raises:
            LogFull: Checkpoint, off the event loop, and run it again.
            EntrepotError: Whatever the verb raises; `done` is not called.
        """
        with self._lock:
            self._inside = True
            try:
                settlement = verb()
                if settlement is not None:
                    settlement.wake = partial(self.post, partial(_settled, settlement, done))
            finally:
                self._inside = False
        if settlement is not None:
            self._want_force()
        if self._ready:
            self.drain()
        return settlement is None

    def put(
        self,
        name: str | Sequence[str],
        message: Message,
        persistent: bool | None,
        priority: int | None,
        unit: Unit | None,
        done: Callable[[bytes, EntrepotError | None], None],
    ) -> None:
        """`run` for the verb that runs most; `done` is called in any case unless an error is raised."""
        with self._lock:
            self._inside = True
            try:
                message_id, settlement = self.manager.put(
                    name, message, persistent=persistent, priority=priority, unit=unit
                )
                if settlement is not None:
                    settlement.wake = partial(self.post, partial(_was_put, settlement, message_id, done))
            finally:
                self._inside = False
        if settlement is None:
            done(message_id, None)
        else:
            self._want_force()
        if self._ready:
            self.drain()

    def put_plain(
        self,
        name: str,
        message: Message,
        persistent: bool | None,
        priority: int | None,
        user: str,
        application: str,
        replied: Callable[[bytes], Waiter] | None = None,
        reply_queue: str = "",
    ) -> bytes:
        """Put a plain message by the flat way; its message id, or b"" when nothing was done and `put` has to.

        `replied` makes what waits for its reply on `reply_queue`, where nothing may be yet.
        """
        manager = self.manager
        with self._lock:
            route = express.route_for(manager, name)
            if route is None:
                return b""
            replies = None
            if replied is not None:
                replies = express.waited_for(manager, reply_queue)
                if replies is None:
                    return b""
            message_id = message.message_id or manager.new_message_id()
            self._inside = True
            try:
                if not express.put(manager, route, message, message_id, persistent, priority, user, application):
                    return b""
                if replies is not None and replied is not None:
                    replies.waiters.add(replied(message_id))
            finally:
                self._inside = False
        if self._ready:
            self.drain()
        return message_id

    def put_durably(
        self,
        name: str,
        message: Message,
        priority: int | None,
        user: str,
        application: str,
        done: Callable[[bytes, EntrepotError | None], None],
    ) -> bool:
        """The same for a persistent message: `done` is called once the log has it; False: nothing was done.

        Raises:
            LogFull, DiskFull, DiskFailed: Nothing was stored.
        """
        manager = self.manager
        with self._lock:
            route = express.route_for(manager, name)
            if route is None:
                return False
            message_id = message.message_id or manager.new_message_id()
            settlement = express.put_durably(manager, route, message, message_id, priority, user, application)
            if settlement is None:
                return False
            settlement.wake = partial(self.post, partial(_was_put, settlement, message_id, done))
        self._want_force()
        return True

    def put_in_unit(
        self, name: str, message: Message, persistent: bool | None, priority: int | None, unit: Unit
    ) -> None:
        """The same in a unit of work, where nothing is settled yet and nobody is served."""
        with self._lock:
            self.manager.put(name, message, persistent=persistent, priority=priority, unit=unit)

    def wait(self, name: str, waiter: Waiter) -> None:
        """Let a reader wait; its `wake`, which has to be made by `waker`, is called even if its message is there."""
        message = self.get_or_wait(name, waiter)
        if message is not None:
            self._ready.append(partial(waiter.serve, message, waiter.settlement))
            self.drain()

    def get_or_wait(self, name: str, waiter: Waiter, search: Search | None = None) -> Message | None:
        """A message for a reader; the waiter waits from now on when there is none."""
        with self._lock:
            self._inside = True
            try:
                message, waiter.settlement = self.manager.get(name, waiter.criteria, waiter.unit, search)
                if message is None:
                    self.manager.wait(name, waiter)
            finally:
                self._inside = False
        if self._ready:
            self.drain()
        return message

    def lease(self, name: str, criteria: Criteria | None, guard: Unit, search: Search | None = None) -> Message | None:
        """See `QueueManager.lease`."""
        with self._lock:
            self._inside = True
            try:
                return self.manager.lease(name, criteria, guard, None, search)
            finally:
                self._inside = False

    def lease_or_wait(self, name: str, waiter: Waiter, search: Search | None = None) -> Message | None:
        """The same; the waiter waits from now on when there is nothing."""
        assert waiter.unit is not None
        with self._lock:
            self._inside = True
            try:
                message = self.manager.lease(name, waiter.criteria, waiter.unit, waiter, search)
            finally:
                self._inside = False
        if self._ready:
            self.drain()
        return message

    def get_some(
        self,
        name: str,
        criteria: Criteria | None,
        unit: Unit,
        limit: int,
        *,
        search: Search | None = None,
        got: Sequence[Message] = (),
    ) -> list[Message]:
        """Up to `limit` messages under a unit, without waiting; `got` are the first of them, if there are some."""
        with self._lock:
            self._inside = True
            try:
                found = get_up_to(self.manager, name, criteria, unit, limit, math.inf, search, got=got)
            finally:
                self._inside = False
        if self._ready:
            self.drain()
        return found

    def get_some_or_wait(
        self, name: str, waiter: StandingWaiter, limit: int, bytes_limit: int, search: Search | None = None
    ) -> list[Message]:
        """What a standing waiter has credit for, up to the limits; it waits from now on if that was all."""
        unit = waiter.unit
        assert unit is not None
        limit = min(limit, waiter.credit)
        with self._lock:
            self._inside = True
            try:
                found = get_up_to(self.manager, name, waiter.criteria, unit, limit, bytes_limit, search)
                waiter.credit -= len(found)
                if search is not None and search.interrupted:
                    pass  # it goes on in a later turn
                elif len(found) < limit and sum([len(message.body) for message in found]) < bytes_limit:
                    # What was found has to reach its reader first: the next call meets the same error.
                    with contextlib.suppress(EntrepotError) if found else contextlib.nullcontext():
                        self.manager.wait(name, waiter)
            finally:
                self._inside = False
        if self._ready:
            self.drain()
        return found

    def give_up(self, unit: Unit, *, lost: bool) -> None:
        """Back out an uncounted unit. `lost`: what it holds may have been used, so nonpersistent messages go."""
        if lost:
            used = self.manager.internal_unit()
            used.takes = [take for take in unit.takes if not take.entry.message.persistent]
            unit.takes = [take for take in unit.takes if take.entry.message.persistent]
            self.run(lambda: self.manager.commit(used), lambda _: None)
        self.back_out(unit, tried=lost)

    def stop_waiting(self, waiter: Waiter) -> None:
        self.host.stop_waiting(waiter)

    def back_out(self, unit: Unit, *, tried: bool = False, counted: bool = True) -> None:
        """Back out a unit if it is still active.

        `tried`: what an uncounted unit holds has failed once more. `counted`: see `QueueManager.back_out`.
        """
        with self._lock:
            self._inside = True
            try:
                if unit.state is UnitState.ACTIVE:
                    if tried and not unit.counted:
                        self.manager.backout_counts.count_tries(unit)
                    self.manager.back_out(unit, counted=counted)
            finally:
                self._inside = False
        if self._ready:
            self.drain()

    def retry(self, unit: Unit, delay_s: float) -> None:
        """See `retry_later`."""
        with self._lock:
            self._inside = True
            try:
                retry_later(self.manager, unit, delay_s)
            finally:
                self._inside = False
        if delay_s:
            self.host.wake_housekeeper()
        if self._ready:
            self.drain()

    def count_tries(self, takes: list[Take]) -> None:
        """Readers have failed with these messages, which are still locked."""
        tried = self.manager.internal_unit()
        tried.takes = takes
        with self._lock:
            self.manager.backout_counts.count_tries(tried)

    # --- searches -------------------------------------------------------------------------------

    def keep_free(self) -> None:
        """Let searches of this queue manager take only so many steps in each turn of the loop, from now on."""
        with self._lock:
            self.manager.turn.left = STEPS_PER_TURN
            self.manager.offering.on_work = partial(self.post, self._want_turn)

    def search_for(self, criteria: Criteria | None) -> Search | None:
        """What a verb needs to look for these criteria in several turns; None when it finds its message at once."""
        return None if criteria is None else Search(self.manager.turn, criteria)

    def in_turns(self, step: Callable[[], None]) -> bool:
        """Run a step now, and again in later turns while it raises SearchPaused; True when that was all.

        All steps that wait have their turn one after the other, and no more of them in one turn than its budget allows.
        """
        if not self._steps and self.manager.turn.left > 0:
            try:
                step()
            except SearchPaused:
                pass
            else:
                self._note_spent()
                return True
        self._steps.append(step)
        self._want_turn()
        return False

    def _note_spent(self) -> None:
        if self.manager.turn.left < STEPS_PER_TURN:
            self._want_turn()

    def _want_turn(self) -> None:
        if not self._turn_wanted:
            self._turn_wanted = True
            self.loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        """A new turn of the loop: others have had theirs since the last one."""
        self._turn_wanted = False
        manager = self.manager
        turn = manager.turn
        with self._lock:
            if turn.left != math.inf:
                turn.left = STEPS_PER_TURN
            self._inside = True
            try:
                if manager.offering.has_work:
                    # Half of it is for readers that wait, so that neither they nor searches wait for ever.
                    turn.left /= 2
                    manager.offering.go_on()
                    turn.left = max(turn.left, 0) + STEPS_PER_TURN / 2
            finally:
                self._inside = False
        steps = self._steps
        try:
            for _ in range(len(steps)):
                if turn.left <= 0:
                    break
                step = steps.popleft()
                try:
                    step()
                except SearchPaused:
                    steps.append(step)
        finally:
            if steps or manager.offering.has_work:
                self._want_turn()
            if self._ready:
                self.drain()

    # --- turns ----------------------------------------------------------------------------------

    def __enter__(self) -> None:
        """Many verbs follow: what they cause waits until the end, to be told together."""
        self.turn = []
        self._draining = True

    def __exit__(self, *_: object) -> None:
        self._draining = False
        if self._ready:
            self.drain()
        turn, self.turn = self.turn, None
        for writer in turn or ():
            writer.flush()

    # --- the log --------------------------------------------------------------------------------

    def _want_force(self) -> None:
        """Force at the end of this turn of the loop: for all who came in it, and who come while it lasts."""
        self.crowded = self.host.is_crowded
        if not self._force_wanted:
            self._force_wanted = True
            self.loop.call_soon(self._force)

    def _force(self) -> None:
        self._force_wanted = False
        if self.host.force_s > _FORCE_HERE_S:
            self.host.want_force()
            return
        self._inside = True
        try:
            self.host.force_here()
        finally:
            self._inside = False
            self.drain()

    # --- what comes back ------------------------------------------------------------------------

    def waker(self, callback: Callable[[], None]) -> Callable[[], None]:
        """What a waiter's `wake` has to be, for `callback` to be called on the loop."""
        return partial(self.post, callback)

    def post(self, callback: Callable[[], None]) -> None:
        """Called by the engine, under the host's lock."""
        self._ready.append(callback)
        # Inside a verb of this loop, `run` drains afterwards. The lock makes the question safe.
        if not self._inside and not self._announced:
            self._announced = True
            self.loop.call_soon_threadsafe(self.drain)

    def drain(self) -> None:
        """Call what is ready. Not nested: what a callback causes joins the end of the queue."""
        self._announced = False
        if self._draining:
            return
        self._draining = True
        try:
            while self._ready:
                self._ready.popleft()()
        finally:
            self._draining = False
            if self._ready:  # a callback has raised; the others must not wait for the next verb
                self.loop.call_soon(self.drain)


def _was_put(settlement: Settlement, message_id: bytes, done: Callable[[bytes, EntrepotError | None], None]) -> None:
    done(message_id, settlement.error)


def _settled(settlement: Settlement, done: Done) -> None:
    done(settlement.error)
