# SPDX-License-Identifier: Apache-2.0
"""The blocking client: the verbs of a host, at the end of a line to a server."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from entrepot.channels.address import Address
from entrepot.channels.client_coordinator import ClientCoordinator
from entrepot.channels.client_core import (
    GATHER_BYTES,
    HeldAhead,
    ReadAhead,
    RemoteUnit,
    ended_with,
    queue_name,
    subscribe_frame,
    wanted,
)
from entrepot.channels.incoming import ChannelIncoming
from entrepot.channels.line import Line, Slot
from entrepot.channels.pipeline import Pipeline
from entrepot.channels.reader import Reader
from entrepot.errors import (
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    EntrepotError,
    Fenced,
    TooManyUncommitted,
    UnitBackedOut,
)
from entrepot.message import Message, PutInUnit
from entrepot.mqsc import Answer
from entrepot.queues.claims import Claim
from entrepot.queues.criteria import Criteria
from entrepot.queues.definitions import Subscription
from entrepot.queues.unit_of_work import UnitState
from entrepot.wire import verbs
from entrepot.wire.verbs import Verb

_IDLE_S = 0.02
"""How long a consumer may find nothing before it says how far it has come."""


class Client(Line):
    """What a `Host` is for the embedded binding."""

    def __init__(self, address: Address, *, application: str, reconnect_s: float = 30.0) -> None:
        self._pipelines: weakref.WeakSet[Pipeline] = weakref.WeakSet()
        self._left: deque[tuple[ReadAhead, bool]] = deque()
        """Consumers whose loops were left by the garbage collector, while this thread was in the middle of a verb."""
        super().__init__(address, application=application, reconnect_s=reconnect_s)

    @property
    def failure(self) -> EntrepotError | None:
        return None

    def put(
        self,
        name: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None = None,
        priority: int | None = None,
        unit: RemoteUnit | None = None,
        wait_s: float = 0.0,
    ) -> bytes:
        if unit is not None:
            return self._put_in_unit(name, message, persistent, priority, unit, wait_s)
        slot = Slot()
        with self._lock:
            self._ensure()
            message_id, frame = self._core.put(name, message, persistent, priority, 0, wait_s)
            self._core.ask(Verb.PUT, frame, slot, with_message=True)
            self._send()
        self._answer(slot)
        return message_id

    def _put_in_unit(
        self,
        name: str | Sequence[str],
        message: Message,
        persistent: bool | None,
        priority: int | None,
        unit: RemoteUnit,
        wait_s: float,
    ) -> bytes:
        """Nobody waits for it unless it waits for room: what goes wrong is told when the unit commits."""
        slot = Slot() if wait_s else None
        with self._lock:
            number = self._ensure_unit(unit)
            message_id, frame = self._core.put(name, message, persistent, priority, number, wait_s)
            unit.messages += 1
            if slot is None:
                self._tell_put(frame)
            else:
                self._core.ask(Verb.PUT, frame, slot, with_message=True)
                self._send()
        if slot is not None:
            self._answer_in(unit, slot)
        elif self._backlog:
            self._relieve()
        return message_id

    def put_many(self, unit: RemoteUnit, puts: Sequence[PutInUnit], *, answered: bool = False) -> list[bytes]:
        """Put messages in a unit of work. What goes wrong is told when the unit commits, or, if `answered`, now.

        Raises:
            MessageTooLong: The channel would not take one of them; nothing was sent.
        """
        slot = Slot() if answered else None
        with self._lock:
            number = self._ensure_unit(unit)
            message_ids = self._core.tell_many(number, puts)
            unit.messages += len(puts)
            if slot is not None:
                self._core.ask(Verb.PUT_MANY, verbs.PutMany(number, []), slot)
            if slot is not None or self._core.out_bytes > GATHER_BYTES:
                self._send()
        if slot is not None:
            self._answer_in(unit, slot)
        elif self._backlog:
            self._relieve()
        return message_ids

    def _tell_put(self, frame: verbs.Put) -> None:
        self._core.tell(Verb.PUT, frame, with_message=True)
        # Who waits for room on a queue wants its waiting to begin.
        if self._core.out_bytes > GATHER_BYTES or frame.wait_s:
            self._send()

    def get(
        self, name: str, criteria: Criteria | None = None, *, unit: RemoteUnit | None = None, wait_s: float = 0.0
    ) -> Message | None:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                message: Message | None = self._in_unit(unit, partial(_get_frame, name, wait_s, criteria))
                return message
            except ConnectionLost as error:
                # Outside of a unit of work nothing persistent was lost: asking again is safe.
                wait_s = max(deadline - time.monotonic(), 0.0)
                if self._closed:
                    raise ConnectionClosed() from error
                if not self.mends_itself:
                    raise

    def _in_unit(self, unit: RemoteUnit | None, frame: Callable[[int], tuple[int, Any]]) -> Any:
        """Ask something that may belong to a unit of work; a broken connection has backed that out."""
        slot = Slot()
        with self._lock:
            if unit is None:
                self._ensure()
                number = 0
            else:
                number = self._ensure_unit(unit)
            self._core.ask(*frame(number), slot)
            self._send()
        return self._answer_in(unit, slot)

    def _answer_in(self, unit: RemoteUnit | None, slot: Slot) -> Any:
        try:
            return self._answer(slot)
        except ConnectionLost as error:
            if unit is None:
                raise
            unit.state = UnitState.BACKED_OUT
            raise UnitBackedOut(unit.number, error.problem) from error

    def _ensure_unit(self, unit: RemoteUnit) -> int:
        """Have a connection on which a unit can still be used; returns its number. Called with the lock held."""
        self._core.require_active(unit)
        try:
            self._ensure()
        except ConnectionClosed:
            raise
        except EntrepotError as error:
            self._core.is_out_of_reach(unit, error)
            raise
        return self._core.require_unit(unit)

    def get_many(
        self, name: str, limit: int, criteria: Criteria | None, *, unit: RemoteUnit, wait_s: float = 0.0
    ) -> list[Message]:
        """Up to `limit` messages at once; only the first is waited for."""
        answer = self._in_unit(
            unit,
            lambda number: (Verb.GET_MANY, verbs.GetMany(queue_name(name), number, limit, wait_s, wanted(criteria))),
        )
        messages: list[Message] = answer.messages
        return messages

    def get_group(
        self, name: str, criteria: Criteria, *, unit: RemoteUnit, wait_s: float = 0.0
    ) -> list[Message] | None:
        selector = None if criteria.selector is None else criteria.selector.text
        answer = self._in_unit(
            unit, lambda number: (Verb.GET_GROUP, verbs.GetGroup(queue_name(name), number, wait_s, selector))
        )
        return answer.messages or None

    def request(
        self,
        name: str,
        message: Message,
        reply_queue: str,
        timeout_s: float,
        *,
        persistent: bool | None,
        priority: int | None,
        opened: int,
    ) -> Message | None:
        """Put a request and get its reply with one frame each way.

        `opened` is the connection that has made the reply queue. None: it has
        broken, and the reply queue is gone with it; nothing was put.

        Raises:
            RequestTimedOut: No reply came in time.
        """
        frame = verbs.Request(queue_name(name), reply_queue, timeout_s, persistent, priority, message)
        slot = Slot()
        with self._lock:
            self._ensure()
            if self._core.opened != opened:
                return None
            self._core.require_fitting(message)
            self._core.ask(Verb.REQUEST, frame, slot, with_message=True)
            self._send()
        reply: Message = self._answer(slot)
        return reply

    def browse(
        self, name: str, criteria: Criteria | None, place: tuple[int, int] | None, limit: int
    ) -> tuple[list[Message], tuple[int, int] | None]:
        frame = verbs.Browse(queue_name(name), place, limit, wanted(criteria))
        answer = self._ask(Verb.BROWSE, frame)
        return answer.messages, answer.place

    def begin(self) -> RemoteUnit:
        with self._lock:
            self._ensure()
            return self._core.begin_unit()

    def commit(self, unit: RemoteUnit, *, counted: bool = True) -> None:
        self._end(
            unit, UnitState.COMMITTED, lambda number: (Verb.COMMIT, verbs.Commit(number, unit.deliveries, counted))
        )

    def prepare(self, unit: RemoteUnit, transaction_id: bytes) -> None:
        self._end(
            unit,
            UnitState.PREPARED,
            lambda number: (Verb.PREPARE, verbs.Prepare(number, transaction_id, unit.deliveries)),
        )

    def _end(self, unit: RemoteUnit, ended: UnitState, frame: Callable[[int], tuple[int, Any]]) -> None:
        slot = Slot()
        with self._lock:
            was_used = unit.used
            number = self._ensure_unit(unit)
            if not was_used and ended is UnitState.COMMITTED:
                unit.state = ended  # nothing was done in it
                return
            self._core.ask(*frame(number), slot)
            self._send()
        try:
            self._answer(slot)
        except EntrepotError as error:
            ended_with(unit, error, unit_active=slot.unit_active)
            if unit.state is UnitState.BACKED_OUT:
                self.give_back(unit)
            raise
        unit.state = ended
        for ahead in unit.aheads:
            if ahead.unit is unit:
                ahead.settled, ahead.unit = ahead.given, None

    def back_out(self, unit: RemoteUnit, *, counted: bool = True) -> None:
        slot = Slot()
        with self._lock:
            if self._closed:
                raise ConnectionClosed()
            self._core.require_active(unit)
            unit.state = UnitState.BACKED_OUT
            if not unit.used or unit.opened != self._core.opened or self._socket is None:
                return  # the server has done so when the connection broke
            used = [] if counted else unit.deliveries
            self._core.ask(Verb.BACK_OUT, verbs.BackOut(unit.number, counted, used), slot)
            self._send()
        with contextlib.suppress(ConnectionLost, Fenced):
            self._answer(slot)
        self.give_back(unit)

    def give_back(self, unit: RemoteUnit) -> None:
        """A unit was backed out: what it had comes again, before what was read ahead behind it."""
        for ahead in unit.aheads:
            if ahead.unit is unit or ahead.unit is None:
                self.stop_holding(ahead)

    @property
    def coordinator(self) -> ClientCoordinator:
        return ClientCoordinator(self)

    def begin_global(self) -> tuple[RemoteUnit, bytes]:
        slot = Slot()
        with self._lock:
            self._ensure()
            unit = self._core.begin_unit()
            self._core.ask(Verb.BEGIN_GLOBAL, verbs.OfUnit(self._core.require_unit(unit)), slot)
            self._send()
        transaction_id: bytes = self._answer(slot)
        return unit, transaction_id

    def end_global(self, unit: RemoteUnit, ended: UnitState, frame: Callable[[int], tuple[int, Any]]) -> None:
        """End a global unit by a verb of its own."""
        self._end(unit, ended, frame)

    def ask(self, verb: int, payload: Any) -> Any:
        """Ask something that has no method here."""
        return self._ask(verb, payload)

    def tell(self, verb: int, payload: Any) -> None:
        """Say something that needs no answer, if there is a connection to say it on."""
        with self._lock:
            if self._socket is not None:
                self._core.tell(verb, payload)
                self._send()

    def resolve(self, transaction_id: bytes, *, commit: bool) -> None:
        self._ask(Verb.RESOLVE, verbs.Resolve(transaction_id, commit))

    def in_doubt(self) -> list[bytes]:
        return list(self._ask(Verb.IN_DOUBT, verbs.Empty()))

    # --- many at a time -------------------------------------------------------------------------

    def pipeline(self) -> Pipeline:
        pipeline = Pipeline(self)
        with self._lock:
            self._pipelines.add(pipeline)
        return pipeline

    def put_without_answer(
        self, name: str | Sequence[str], message: Message, *, persistent: bool | None, priority: int | None
    ) -> bytes:
        """Send a put at once; should it be refused, the next `synchronize` tells."""
        with self._lock:
            self._ensure()
            message_id, frame = self._core.put(name, message, persistent, priority, 0, 0.0)
            self._core.tell(Verb.PUT, frame, with_message=True)
            self._send()
        if self._backlog:
            self._relieve()
        return message_id

    def tell_put(
        self,
        pipeline: Pipeline,
        name: str | Sequence[str],
        message: Message,
        persistent: bool | None,
        priority: int | None,
        wait_s: float,
    ) -> bytes:
        """Gather a put of a pipeline; `synchronize` tells what became of all of them."""
        with self._lock:
            self._ensure()
            message_id, frame = self._core.put(name, message, persistent, priority, 0, wait_s)
            pipeline.told += 1
            self._tell_put(frame)
        if self._backlog:
            self._relieve()
        return message_id

    def synchronize(self) -> None:
        """Return when all puts that wanted no answer are where they belong.

        Raises:
            EntrepotError: The first that was refused; the others were carried out.
        """
        self._ask(Verb.SYNCHRONIZE, verbs.Empty())

    def _broken(self, error: ConnectionLost) -> None:
        self.trouble_pipelines(error)

    def trouble_pipelines(self, error: EntrepotError) -> None:
        """Tell those pipelines whose puts it may concern."""
        with self._lock:
            for pipeline in list(self._pipelines):
                pipeline.trouble(error)

    def consume(self, name: str, criteria: Criteria | None, read_ahead: int, units: set[Any]) -> ChannelIncoming:
        """Let messages come of themselves, `read_ahead` of them before they are used."""
        del units  # the server takes back what was not settled
        return ChannelIncoming(self, name, wanted(criteria), read_ahead)

    def open_consumer(self, name: str, which: verbs.Wanted | None, read_ahead: int) -> ReadAhead:
        slot = Slot()
        with self._lock:
            self._ensure()
            ahead = self._core.consume(queue_name(name), which, read_ahead, slot)
            self._send()
        try:
            self._answer(slot)
        except EntrepotError:
            with self._lock:
                self._core.consumers.pop(ahead.number, None)
            raise
        return ahead

    def next_of(self, ahead: ReadAhead, deadline: float) -> Message | None:
        """The next message that came of itself, or None when none came in time."""
        arrived = ahead.arrived
        if not arrived:
            self._wait_ahead(ahead, min(deadline, time.monotonic() + _IDLE_S))
            if not arrived and ahead.error is None:
                # It will take a while: let the server know how far we have come.
                with self._lock:
                    if self._core.used(ahead, idle=True):
                        self._send()
                self._wait_ahead(ahead, deadline)
            if not arrived and ahead.error is None:
                self._hear_all()
        message = ahead.next()
        if message is None and ahead.error is not None:
            raise ahead.error
        return message

    def _hear_all(self) -> None:
        """The server answers in order, so what was there when we asked is here before its answer."""
        with contextlib.suppress(ConnectionLost):
            self._ask(Verb.HEARTBEAT, verbs.Empty())

    def _wait_ahead(self, ahead: ReadAhead, deadline: float) -> None:
        slot = Slot()
        ahead.wake = lambda: slot.resolve(None)
        self._wait(lambda: bool(ahead.arrived) or ahead.error is not None, slot, deadline)
        ahead.wake = None

    def was_used(self, ahead: ReadAhead) -> None:
        """The application is done with one more message."""
        ahead.given += 1
        if ahead.given - ahead.told >= ahead.credit_step:
            with self._lock:
                if self._core.used(ahead):
                    self._send()

    def settle_now(self, ahead: ReadAhead) -> None:
        """The application is done with one more message, which has left its queue when this returns."""
        self._ask_about(ahead, partial(self._core.settle, ahead))

    def return_now(self, ahead: ReadAhead, delay_s: float, rejected: str | None) -> None:
        """The application gives one message back."""
        self._ask_about(ahead, partial(self._core.return_at_hand, ahead, delay_s, rejected))

    def _ask_about(self, ahead: ReadAhead, ask: Callable[[Slot], None]) -> None:
        slot = Slot()
        with self._lock:
            if ahead.is_lost or self._socket is None:
                # The server has taken it back, if it is persistent; if not, it had let go of it.
                raise ahead.error or ConnectionLost(self._core.peer, self._problem)
            ask(slot)
            self._send()
        self._answer(slot)

    def close_consumer(self, ahead: ReadAhead, *, tried: bool) -> None:
        """Let no more come to a consumer; `tried`: what it was given last returns as tried."""
        if self._is_occupied:
            self._left.append((ahead, tried))  # `_ensure` does it before the next verb
            return
        slot = Slot()
        with self._lock:
            if not self._stop_consumer(ahead, tried, slot):
                return
        with contextlib.suppress(ConnectionLost, Fenced):
            self._answer(slot)

    def _stop_consumer(self, ahead: ReadAhead, tried: bool, slot: Slot) -> bool:
        """Ask the server to stop; False when there is nothing to ask. Called with the lock held."""
        ours = self._core.consumers.pop(ahead.number, None) is not None
        ahead.lose(ConnectionLost(self._core.peer, "the consumer was closed"))
        if not ours or self._socket is None:
            return False
        self._core.used(ahead, idle=True)
        self._core.ask(Verb.STOP_CONSUMING, self._core.stop_frame(ahead, tried=tried), slot)
        self._send()
        return True

    def _ensure(self) -> None:
        super()._ensure()
        while self._left:
            self._stop_consumer(*self._left.popleft(), Slot())

    # --- read ahead, in units of work -----------------------------------------------------------

    def reader(self, name: str, criteria: Criteria | None, read_ahead: int) -> Reader:
        """Read a queue in units of work; `read_ahead` messages come before they are asked for."""
        return Reader(self, name, criteria, read_ahead)

    def begin_holding(self, name: str, which: verbs.Wanted | None, read_ahead: int) -> HeldAhead:
        slot = Slot()
        with self._lock:
            self._ensure()
            ahead = self._core.hold(queue_name(name), which, read_ahead, slot)
            self._send()
        try:
            ahead.begin(self._answer(slot))
        except EntrepotError:
            with self._lock:
                self._core.consumers.pop(ahead.number, None)
            raise
        return ahead

    def hand_out(self, ahead: HeldAhead, unit: RemoteUnit, limit: int) -> list[Message]:
        """What came first of what is here, now in the unit; the server is told before the application has it.

        Raises:
            UnitBackedOut: Its connection broke.
            TooManyUncommitted: Nothing was handed out.
        """
        with self._lock:
            was_used = unit.used
            self._ensure_unit(unit)
            unit.used = was_used  # it becomes so with what it is handed
            if ahead.is_lost or ahead.has_expired:
                return []
            if unit.messages >= ahead.limit:
                raise TooManyUncommitted(unit.number, ahead.limit, "messages")
            assert ahead.unit in (None, unit), "its messages leave in their order, so two units cannot have some each"
            if ahead not in unit.aheads:
                unit.aheads.append(ahead)
            try:
                messages = ahead.next_few(min(limit, ahead.limit - unit.messages))
                if messages:
                    self._core.require_unit(unit)
                more = ahead.more()
                if messages or more:
                    self._core.tell(Verb.CREDIT, verbs.Credit(ahead.number, 0, more, ahead.given))
                    self._send()
                if ahead.is_lost:
                    # They are on their queue again, and nobody has seen them.
                    unit.used = was_used
                    return []
                if messages:
                    unit.messages += len(messages)
                    ahead.unit = unit
            except BaseException:
                self._interrupted()
                raise
        if self._backlog:
            self._relieve()
        return messages

    def wait_for_more(self, ahead: HeldAhead, deadline: float) -> None:
        """Return when something has come or gone wrong, or when it is certain that nothing has come in time."""
        self._wait_ahead(ahead, deadline)
        if not ahead.arrived and ahead.error is None:
            self._hear_all()

    def stop_holding(self, ahead: HeldAhead) -> None:
        """Let no more come. What a unit has stays with it; the rest is on its queue again when this returns."""
        slot = Slot()
        with self._lock:
            ours = self._core.consumers.pop(ahead.number, None) is not None
            ahead.lose(ConnectionLost(self._core.peer, "the consumer was closed"))
            if not ours or self._socket is None:
                return
            frame = verbs.OfConsumer(ahead.number)
            unit, ahead.unit = ahead.unit, None
            if unit is not None and unit.state is UnitState.ACTIVE:
                frame = verbs.OfConsumer(ahead.number, ahead.given, unit.number)
            self._core.ask(Verb.STOP_CONSUMING, frame, slot)
            self._send()
        with contextlib.suppress(ConnectionLost, Fenced):
            self._answer(slot)

    # --- publish/subscribe ----------------------------------------------------------------------

    def subscribe(self, wanted: Subscription, *, new_only: bool = False) -> Subscription:
        frame = subscribe_frame(wanted, new_only=new_only)
        name, queue = self._ask(Verb.SUBSCRIBE, frame)
        return replace(wanted, name=name, destination=queue)

    def leave_subscription(self, name: str) -> None:
        if self._socket is None:
            return  # the server has left it when the connection broke
        with contextlib.suppress(ConnectionLost, ConnectFailed, Fenced):
            self._ask(Verb.UNSUBSCRIBE, verbs.Unsubscribe(name, end=False))

    def unsubscribe(self, name: str) -> None:
        self._ask(Verb.UNSUBSCRIBE, verbs.Unsubscribe(name, end=True))

    # --- claims ---------------------------------------------------------------------------------

    def claimant(self, units: set[Any], application: str) -> Client:  # noqa: ARG002  # the server knows both
        """One connection has this client for itself."""
        return self

    def claim(self, name: str, epoch: int, status: bytes) -> str:
        order: str = self._ask(Verb.CLAIM, self._core.claim(name, epoch, status))
        with self._lock:
            self._core.claimed[name] = epoch
        return order

    def retire(self, name: str, epoch: int) -> None:
        self._ask(Verb.RETIRE, verbs.Retire(name, epoch))

    def instruct(self, prefix: str, order: str) -> int:
        count: int = self._ask(Verb.INSTRUCT, verbs.Instruct(prefix, order))
        return count

    def claims(self, prefix: str) -> list[Claim]:
        return [Claim(*form) for form in self._ask(Verb.CLAIMS, verbs.OfPrefix(prefix))]

    def next_epoch(self, prefix: str) -> int:
        epoch: int = self._ask(Verb.NEXT_EPOCH, verbs.OfPrefix(prefix))
        return epoch

    def unclaimed(self) -> Client:
        """Another client for the same queue manager, which nobody has fenced; to be closed by who asks for it."""
        return Client(self.address, application=self._application, reconnect_s=self._reconnect_s)

    # --- administration -------------------------------------------------------------------------

    def mqsc(self, script: str, source: str) -> list[Answer]:
        answers: list[Answer] = self._ask(Verb.MQSC, verbs.Mqsc(script, source))
        return answers

    def make_dynamic(self, model: str, pattern: str) -> str:
        name: str = self._ask(Verb.DYNAMIC, verbs.Dynamic(model, pattern))
        return name

    def remove_temporary(self, names: Iterable[str]) -> None:
        """The server does that when the connection ends."""

    def manage(self, what: str, **arguments: Any) -> Any:
        """What the command line asks of a running queue manager."""
        return self._ask(Verb.MANAGE, verbs.Manage(what, arguments))

    def status(self) -> dict[str, int | float | str]:
        found: dict[str, int | float | str] = self.manage("status")
        return found

    @property
    def manager_name(self) -> str:
        return self.welcome.manager

    def dump(self) -> str:
        script: str = self.manage("dump")
        return script

    def back_up(self, destination: Path) -> dict[str, Any]:
        report: dict[str, Any] = self.manage("backup", destination=str(destination))
        return report

    def checkpoint(self) -> None:
        self.manage("checkpoint")


def _get_frame(name: str, wait_s: float, criteria: Criteria | None, unit: int) -> tuple[int, verbs.Get]:
    return Verb.GET, verbs.Get(queue_name(name), unit, wait_s, wanted(criteria))
