# SPDX-License-Identifier: Apache-2.0
"""A session: one partner's verbs on the queue manager, whatever protocol it speaks.

Verbs never wait; they take a `done` that is called exactly once, at once or
later, on the loop's thread. While `blocked` is true the session's next verb
has to wait for `on_unblocked`, because verbs of one partner keep their
order. Whatever a partner leaves open is backed out when it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeGuard

from msgspec.structs import replace

from entrepot.engine import express
from entrepot.engine.criteria import Criteria
from entrepot.engine.host import CHECKPOINTS_FOR_ROOM
from entrepot.engine.publishing import PREFIX as TOPIC_PREFIX
from entrepot.engine.quotas import WAITING_GETS
from entrepot.engine.search import Search
from entrepot.engine.settlement import Settlement
from entrepot.engine.system_queues import is_system
from entrepot.engine.unit_of_work import Unit, UnitState
from entrepot.engine.unit_of_work import UnitOwner as UnitHolder
from entrepot.engine.waiting import Waiter
from entrepot.errors import (
    EntrepotError,
    Fenced,
    LimitExceeded,
    LogFull,
    NotAuthorized,
    QueueFull,
    SpillFailed,
    UnitFinished,
    UserLimitReached,
)
from entrepot.message import Message, PutInUnit
from entrepot.server.consumer import Consumer, Deliver
from entrepot.server.mqsc import run_script
from entrepot.server.open_subscriptions import OpenSubscriptions
from entrepot.server.session_authority import SessionAuthority
from entrepot.server.session_put import PutDone, SessionPut
from entrepot.server.session_registry import Identity, SessionRegistry
from entrepot.server.stream import Stream
from entrepot.server.waiting_get import Got, WaitingGet
from entrepot.server.waiting_group import GotGroup, WaitingGroup

_FULL_RETRY_S = 0.01
_TEMPORARY_MAX = 1000
_WAITING_GROUPS_MAX = 100
_WAITING_STEP = 64

Done = Callable[[EntrepotError | None], None]


class Session(SessionAuthority):
    """One partner. All methods are for the loop's thread."""

    __slots__ = (
        "__weakref__",
        "_blockers",
        "_waiting_held",
        "application",
        "aside",
        "blocked",
        "closed",
        "consumers",
        "engine",
        "fenced",
        "identity",
        "leases",
        "number",
        "on_replaced",
        "on_unblocked",
        "protocol",
        "registry",
        "subscriptions",
        "temporary",
        "units",
        "waiting",
    )

    def __init__(self, registry: SessionRegistry, identity: Identity, application: str, protocol: str) -> None:
        self.registry = registry
        self.engine = registry.engine
        self.identity = identity
        self.application = application
        self.protocol = protocol
        self.units: set[Unit] = set()
        self.leases: set[Unit] = set()
        """What its partner has been sent and has not acknowledged."""
        self.waiting: set[WaitingGet | WaitingGroup] = set()
        self.consumers: set[Consumer | Stream] = set()
        self.temporary: list[str] = []
        self.subscriptions = OpenSubscriptions(self)
        self._blockers = 0
        self.blocked = False
        """Whether a verb keeps those behind it waiting."""
        self.aside = 0
        """Puts that wait for room beside other verbs."""
        self._waiting_held = 0
        self.closed = False
        self.fenced: Fenced | None = None
        """Why nothing more is done for this partner, though its connection is still there."""
        self.on_unblocked: Callable[[], None] = lambda: None
        self.on_replaced: Callable[[], None] = lambda: None
        """Called when its partner has come back on another connection, just before it is closed."""
        self._allowed: set[tuple[str, str, str]] = set()
        """What this partner is known to be allowed, until authorities change: asked with every message."""
        self._allowed_at = registry.authority_epoch
        self.number = registry.enter(self)

    # --- put ------------------------------------------------------------------------------------

    def put(
        self,
        name: str | list[str],
        message: Message,
        done: PutDone,
        *,
        persistent: bool | None = None,
        priority: int | None = None,
        unit: Unit | None = None,
        wait_s: float = 0.0,
        aside: bool = False,
    ) -> None:
        """Put a vetted message; `wait_s` is how long to wait for room on a full queue.

        `aside`: verbs behind it need not wait with it, for among them may be
        the gets that make room. Its partner waits for the answer if order matters.
        """
        SessionPut(self, name, message, done, persistent, priority, unit, wait_s, aside).begin()

    def put_plain(
        self,
        name: str | list[str],
        message: Message,
        persistent: bool | None,
        priority: int | None,
        replied: Callable[[bytes], Waiter] | None = None,
        reply_queue: str = "",
    ) -> bytes:
        """Put a message of which nothing is special, vetted or not; its id, or b"" when it has to be vetted and `put`.

        `replied`: see `LoopHost.put_plain`.
        """
        if not self._may_go_flat(name, message):
            return b""
        user, application = self.identity.user, self.application
        try:
            return self.engine.put_plain(name, message, persistent, priority, user, application, replied, reply_queue)
        except SpillFailed:
            return b""  # the general way waits for room, or tells

    def put_durably(self, name: str | list[str], message: Message, priority: int | None, done: PutDone) -> bool:
        """The same for a persistent message; False: nothing was done."""
        if not self._may_go_flat(name, message):
            return False
        try:
            return self.engine.put_durably(name, message, priority, self.identity.user, self.application, done)
        except EntrepotError:
            return False  # the general way waits for room, or tells

    def _may_go_flat(self, name: str | list[str], message: Message) -> TypeGuard[str]:
        return (
            name.__class__ is str
            and not self.registry.memory.is_short
            and express.is_plain(message)
            and (self.identity.administrator or self.is_known_to_have("QUEUE", name, "PUT"))
        )

    def plan(self, puts: Sequence[PutInUnit], unit: Unit) -> bool:
        """Put messages with a unit of work of which nothing is special, vetted or not; False: none was put.

        Raises:
            EntrepotError: The unit takes none of them.
        """
        if self.registry.memory.is_short:
            return False
        for name in {put[0] for put in puts}:
            if not self.is_known_to_have("QUEUE", name, "PUT"):
                return False
        with self.registry.host.lock:
            return express.plan(self.engine.manager, unit, puts, self.identity.user, self.application)

    def put_in_unit(
        self, name: str, message: Message, persistent: bool | None, priority: int | None, unit: Unit
    ) -> None:
        """Put a vetted message with a unit of work; nothing happens before that commits, so there is no waiting.

        Raises:
            EntrepotError: It is refused.
        """
        if message.retained and not name.startswith(TOPIC_PREFIX):
            message = replace(message, retained=False)
        self.require_put(name)
        self.registry.memory.require(len(message.body), self.registry.host.settings.name)
        self.engine.put_in_unit(name, message, persistent, priority, unit)
        if message.delay_s:
            self.registry.host.wake_housekeeper()

    def attempt(self, verb: Callable[[], Settlement | None], done: Done, *, wait_s: float = 0.0) -> None:
        """Run a verb of the engine; a full log or queue blocks the session until there is room, or time is up."""
        try:
            if self.engine.run(verb, done):
                done(None)
        except LogFull as error:
            self.block()
            self._wait_for_room(verb, done, self.registry.loop.time() + wait_s, CHECKPOINTS_FOR_ROOM, error)
        except (QueueFull, SpillFailed) as error:
            if wait_s <= 0:
                done(error)
                return
            self.block()
            self._wait_for_room(verb, done, self.registry.loop.time() + wait_s, CHECKPOINTS_FOR_ROOM)
        except EntrepotError as error:
            done(error)

    def block(self) -> None:
        """Let the partner's next verbs wait until `unblock` is called as often."""
        self._blockers += 1
        self.blocked = True

    def unblock(self) -> None:
        self._blockers -= 1
        self.blocked = self._blockers > 0
        self.leases -= {lease for lease in self.leases if lease.state is not UnitState.ACTIVE}
        if not self._blockers and not self.closed:
            self.on_unblocked()

    def _wait_for_room(
        self,
        verb: Callable[[], Settlement | None],
        done: Done,
        deadline: float,
        checkpoints: int,
        error: EntrepotError | None = None,
    ) -> None:
        """Run a verb once more, until there is room for it; `error` is what kept it from that so far."""
        if self.closed:
            return
        try:
            self.require_unfenced()
            if error is not None:
                raise error
            if self.engine.run(verb, done):
                done(None)
        except LogFull as full:
            if checkpoints:
                self.registry.checkpoint(partial(self._wait_for_room, verb, done, deadline, checkpoints - 1))
                return
            done(full)
        except (QueueFull, SpillFailed) as full:
            if self.registry.loop.time() < deadline:
                # Asking again is simpler than a list of senders for each queue, and a full queue is no hurry.
                self.registry.loop.call_later(_FULL_RETRY_S, self._wait_for_room, verb, done, deadline, checkpoints)
                return
            done(full)
        except EntrepotError as failed:
            done(failed)
        self.unblock()

    # --- get ------------------------------------------------------------------------------------

    def get(
        self,
        name: str,
        criteria: Criteria | None,
        unit: Unit | None,
        wait_s: float,
        done: Got,
        *,
        waits: Callable[[WaitingGet], None] = lambda _: None,
        search: Search | None = None,
    ) -> None:
        """Get a message; `waits` is told when it has to be waited for, and can cancel that.

        Outside of a unit of work a persistent message comes with a lease: it
        returns to its queue unless `accept` settles that. A get with criteria may
        take several turns of the loop, and verbs behind it wait for it; `search` is
        the one it uses, for `done` to go on with.
        """
        search = search or self.engine.search_for(criteria)

        def get() -> None:
            try:
                self.require_unfenced()
                if wait_s > 0:
                    self.count_waiting()
                    waiting = WaitingGet(self, name, criteria, unit, done)
                    if waiting.start(wait_s, search) and waiting.is_waiting:
                        waits(waiting)
                elif unit is None:
                    guard = self.registry.host.private_unit()
                    message = self.engine.lease(name, criteria, guard, search)
                    done(message, self.leased(guard), None)
                else:
                    found = self.engine.get_some(name, criteria, unit, 1, search=search)
                    done(found[0] if found else None, None, None)
            except EntrepotError as error:
                done(None, None, error)

        try:
            self.require("QUEUE", name, "GET")
        except EntrepotError as error:
            done(None, None, error)
            return
        (get if search is None else partial(self.search, get, search))()

    def search(self, step: Callable[[], None], search: Search | None = None) -> None:
        """Run a verb that may take several turns of the loop; the session's next verbs wait for it."""

        def look() -> None:
            if not self.closed:
                step()
            if search is not None:
                search.end()
            if later:
                self.unblock()

        later = False
        if not self.engine.in_turns(look):
            later = True
            self.block()

    def get_group(self, name: str, criteria: Criteria, unit: Unit, wait_s: float, done: GotGroup) -> WaitingGroup:
        """Get all messages of the next whole group; what is returned can be cancelled while it waits.

        Raises:
            LimitExceeded: Too many of the session wait for groups.
        """
        # Each of them costs a look a hundred times a second.
        if sum(isinstance(each, WaitingGroup) for each in self.waiting) >= _WAITING_GROUPS_MAX:
            raise LimitExceeded("gets that wait for groups", _WAITING_GROUPS_MAX + 1, _WAITING_GROUPS_MAX)
        self.count_waiting()
        return WaitingGroup(self, name, criteria, unit, wait_s, done)

    def count_waiting(self) -> None:
        """Count one more get that may wait, or consumer: the session stands for the most it ever had at once.

        Raises:
            UserLimitReached
        """
        count = len(self.waiting) + len(self.consumers) + 1
        if count > self._waiting_held:
            try:
                self.hold_waiting(count)
            except UserLimitReached as error:
                self.tell_refused(error)
                raise

    def hold_waiting(self, count: int) -> None:
        """Let so many gets and consumers count for its user, or some more: not each has to be counted.

        Raises:
            UserLimitReached
        """
        # Twice as many each time, so that a connection with one reader counts as one.
        held = min(1 << (count - 1).bit_length(), count + -count % _WAITING_STEP)
        limited = not self.identity.administrator
        self.engine.manager.quotas.hold(WAITING_GETS, self.identity.user, self.number, held, limited=limited)
        self._waiting_held = held

    def leased(self, guard: Unit) -> Unit | None:
        """The guard, if it holds anything: a lease until it is settled."""
        if not guard.takes:
            return None
        self.leases.add(guard)
        return guard

    def consume(
        self, name: str, criteria: Criteria | None, deliver: Deliver, failed: Done, *, locked: bool = False
    ) -> Consumer:
        """Let messages come by credit. `locked`: every one is held until it is settled, nonpersistent ones too.

        Raises:
            EntrepotError: The queue cannot be read.
        """
        self.require("QUEUE", name, "GET")
        with self.registry.host.lock:
            self.engine.manager.readable(name)
        self.count_waiting()
        consumer = Consumer(self, name, criteria, deliver, failed, locked=locked)
        self.consumers.add(consumer)
        return consumer

    def stream(
        self,
        name: str,
        criteria: Criteria | None,
        deliver: Callable[[list[Message]], None],
        failed: Done,
        *,
        held: bool = False,
    ) -> Stream:
        """Let messages come by credit, to be used in their order; `held`: in units of work.

        Raises:
            EntrepotError: The queue cannot be read.
        """
        self.require("QUEUE", name, "GET")
        with self.registry.host.lock:
            self.engine.manager.readable(name)
        self.count_waiting()
        stream = Stream(self, name, criteria, deliver, failed, held=held)
        self.consumers.add(stream)
        return stream

    # --- what was delivered -----------------------------------------------------------------------

    def accept(self, leases: Iterable[Unit], done: Done) -> None:
        """The partner has these messages: they leave their queues for good."""
        first: Unit | None = None
        for lease in leases:
            self.leases.discard(lease)
            if lease.state is not UnitState.ACTIVE:
                continue
            if first is None:
                first = lease
            else:
                _merge(lease, first)
        if first is None:
            done(None)
            return
        self.settle(first, done)

    def settle(self, unit: Unit, done: Done) -> None:
        """Commit what the partner has used; if there is no room for that now, it stays ours to give back."""
        self.attempt(lambda: self.engine.manager.commit(unit), done)
        if unit.state is UnitState.ACTIVE:
            self.leases.add(unit)

    def release(self, leases: Iterable[Unit], *, tried: bool) -> None:
        """The partner does not want these messages: they return to their places, and count as tried or not."""
        for lease in leases:
            self.leases.discard(lease)
            self.engine.back_out(lease, tried=tried)

    def enlist(self, lease: Unit, unit: Unit) -> None:
        """Let a delivered message leave its queue with a unit of work.

        Raises:
            UnitFinished: The lease or the unit has ended.
            TooManyUncommitted: The unit is full; the lease stays as it was.
        """
        if lease.state is not UnitState.ACTIVE:
            raise UnitFinished(lease.number, lease.state.value)
        unit.require_active()
        unit.require_room(0, len(lease.takes))
        self.leases.discard(lease)
        if not lease.counted:
            with self.registry.host.lock:
                self.engine.manager.backout_counts.count_tries(lease)
        _merge(lease, unit)

    def reject(self, lease: Unit, problem: str, done: Done = lambda _: None) -> None:
        """The partner can make nothing of a message: it moves to the backout queue or the dead-letter queue.

        If neither takes it, it returns to its place and counts as tried.
        """
        self.leases.discard(lease)

        def rejected(error: EntrepotError | None) -> None:
            if error is not None:
                self.engine.back_out(lease, tried=True)
            done(error)

        self.attempt(lambda: self.engine.manager.consequences.reject(lease, problem), rejected)
        if lease.state is UnitState.ACTIVE:
            self.leases.add(lease)  # it waits for room, and must return if its partner goes meanwhile

    # --- units of work ----------------------------------------------------------------------------

    def begin(self, *, everywhere: bool = False) -> Unit:
        """A unit of work; `everywhere` makes it a global one."""
        manager = self.engine.manager
        unit = manager.global_units.begin() if everywhere else manager.begin()
        unit.holder = UnitHolder(manager.quotas, self.identity.user, not self.identity.administrator)
        unit.began_s = self.registry.loop.time()
        self.units.add(unit)
        return unit

    def back_out_old(self, age_s_max: float) -> None:
        """End units that have been open for too long: they keep messages from others, and memory."""
        if not self.units or self.blocked:
            return
        begun_before = self.registry.loop.time() - age_s_max
        for unit in list(self.units):
            if unit.began_s < begun_before and unit.state is UnitState.ACTIVE:
                self.registry.aged(self.identity, unit, age_s_max)
                self.back_out(unit)

    def end_with(self, unit: Unit, verb: Callable[[], Settlement | None], done: Done) -> None:
        """End a unit by another verb than its own commit; nothing may come under it any more."""
        self._stop_gets(unit)
        self.attempt(verb, partial(self._ended, unit, done))

    def commit(self, unit: Unit, done: Done, *, counted: bool = True) -> None:
        if self.waiting:
            self._stop_gets(unit)
        self.attempt(lambda: self.engine.manager.commit(unit, counted=counted), partial(self._ended, unit, done))

    def back_out(self, unit: Unit, *, counted: bool = True) -> None:
        """Let nothing of the unit happen; `counted`: what it has got counts as tried.

        Raises:
            UnitFinished: It has ended otherwise.
        """
        self.units.discard(unit)
        unit.require_active()
        self._stop_gets(unit)
        self.engine.back_out(unit, counted=counted)

    def retry(self, unit: Unit, delay_s: float) -> None:
        """Back out a unit of work; what it has got counts as tried, and comes again after a delay.

        Raises:
            UnitFinished: It has ended otherwise.
        """
        self.units.discard(unit)
        unit.require_active()
        self._stop_gets(unit)
        self.engine.retry(unit, delay_s)

    def reject_unit(self, unit: Unit, problem: str, done: Done) -> None:
        """End a unit of work whose messages its partner can make nothing of; see `reject`."""
        unit.require_active()
        self._stop_gets(unit)

        def rejected(error: EntrepotError | None) -> None:
            if error is not None:
                self.engine.back_out(unit)
            self.units.discard(unit)
            done(error)

        self.attempt(lambda: self.engine.manager.consequences.reject(unit, problem), rejected)

    def _stop_gets(self, unit: Unit) -> None:
        """A unit of work ends: nothing may come under it any more."""
        for waiting in [each for each in self.waiting if each.guard is unit]:
            waiting.cancel()

    def prepare(self, unit: Unit, transaction_id: bytes, done: Done) -> None:
        self._stop_gets(unit)
        prepare = partial(
            self.engine.manager.in_doubt.prepare,
            unit,
            transaction_id,
            user=self.identity.user,
            limited=not self.identity.administrator,
        )
        self.attempt(prepare, partial(self._ended, unit, done))

    def resolve(self, transaction_id: bytes, done: Done, *, commit: bool) -> None:
        self.attempt(lambda: self.engine.manager.in_doubt.resolve(transaction_id, commit=commit), done)

    def _ended(self, unit: Unit, done: Done, error: EntrepotError | None) -> None:
        if unit.state is not UnitState.ACTIVE:
            self.units.discard(unit)
        done(error)

    # --- administration -----------------------------------------------------------------------------

    def make_dynamic(self, model: str, pattern: str, done: Callable[[str, EntrepotError | None], None]) -> None:
        """Create a queue after a model; a temporary one goes with the session."""
        name = ""

        def make() -> Settlement | None:
            nonlocal name
            name, settlement = self.engine.manager.administration.make_dynamic(
                model, pattern, self.identity.user, limited=not self.identity.administrator
            )
            return settlement

        def made(error: EntrepotError | None) -> None:
            self.tell_refused(error)
            if error is None:
                self.temporary.append(name)
            done(name, error)

        try:
            self.require("QUEUE", model, "GET")
            if is_system(pattern):
                self.require("QUEUE", pattern, "CRT")  # or a name that we are to make later would be taken
            if len(self.temporary) >= _TEMPORARY_MAX:
                raise LimitExceeded("dynamic queues of a connection", len(self.temporary) + 1, _TEMPORARY_MAX)
        except EntrepotError as error:
            done("", error)
            return
        self.attempt(make, made)

    def drop_temporary(self, name: str) -> None:
        """A temporary queue of this session is wanted no more."""
        self.temporary.remove(name)
        self.registry.host.remove_temporary([name])

    def mqsc(self, script: str, source: str, done: Callable[[Any, EntrepotError | None], None]) -> None:
        """Run administration commands beside the loop; the session waits for them."""
        administered = self.registry.supervised(self)
        self._in_office(lambda: run_script(script, administered, source), done)

    def manage(self, what: str, arguments: dict[str, Any], done: Callable[[Any, EntrepotError | None], None]) -> None:
        """Do what the command line asks of a running queue manager; for administrators."""
        identity = self.identity
        if not identity.administrator:
            error = NotAuthorized(identity.user, self.registry.host.settings.name, "administrator")
            self.registry.refused(identity, error)
            done(None, error)
            return
        self._in_office(lambda: self.registry.managed(self, what, arguments), done)

    def _in_office(self, work: Callable[[], Any], done: Callable[[Any, EntrepotError | None], None]) -> None:
        self.block()

        def worked(result: Any, error: EntrepotError | None) -> None:
            if not self.closed:
                done(result, error)
                self.unblock()

        self.registry.in_office(work, worked)

    # --- the end ------------------------------------------------------------------------------------

    def fence(self, error: Fenced) -> None:
        """Somebody has taken the partner's place: what it left open is backed out, and no more is done for it.

        What it had committed before stands, and is still answered.
        """
        self.fenced = error
        self._let_go()

    def require_unfenced(self) -> None:
        if self.fenced is not None:
            raise self.fenced

    def close(self) -> None:
        """The partner has gone: back out what it left open, and drop its temporary queues."""
        if self.closed:
            return
        self.closed = True
        self.registry.leave(self.number)
        self.engine.manager.quotas.let_go(WAITING_GETS, self.identity.user, self.number)
        self._let_go()
        if self.registry.host.failure is None:
            self.subscriptions.leave_all()
            self.registry.host.remove_temporary(self.temporary)

    def _let_go(self) -> None:
        for waiting in list(self.waiting):
            waiting.cancel()
        for consumer in list(self.consumers):
            if isinstance(consumer, Stream):
                consumer.close(lost=True)
            else:
                consumer.close()
        if self.registry.host.failure is None:
            self.release(list(self.leases), tried=True)
            for unit in list(self.units):
                # That the queue manager stops is not the fault of what a unit has got.
                self.engine.back_out(unit, counted=not self.registry.stopping)
        self.units.clear()

    @property
    def is_busy(self) -> bool:
        """Whether a unit of work of its partner is under way, or something was not acknowledged."""
        if self.units or self.leases:
            return True
        return any(isinstance(consumer, Stream) and consumer.is_used for consumer in self.consumers)

    @property
    def state(self) -> str:
        """What it is busy with, for DISPLAY CONN."""
        return "ACTIVE" if self.is_busy else "NONE"


def _merge(lease: Unit, unit: Unit) -> None:
    """Move what a lease holds to a unit."""
    unit.takes += lease.takes
    unit.consequential = unit.consequential or lease.consequential
    lease.takes = []
    lease.state = UnitState.COMMITTED
