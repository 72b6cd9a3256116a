# SPDX-License-Identifier: Apache-2.0
"""The asyncio client: the same protocol core as the blocking one, on an event loop.

No task and no stream per message: frames resolve futures straight from the
transport's callback, and what several tasks ask within one turn of the loop
leaves in one write.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from entrepot.channels.address import NO_TLS_THERE, SOCKET, Address, closed_at_once, problem_of
from entrepot.channels.aio_incoming import AioChannelIncoming
from entrepot.channels.client_core import (
    ANSWER_BYTES_MAX,
    ClientCore,
    ReadAhead,
    RemoteUnit,
    ended_with,
    is_repeatable,
    queue_name,
    subscribe_frame,
    waited_for,
    wanted,
)
from entrepot.errors import (
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    EntrepotError,
    Fenced,
    ProtocolError,
    SecurityError,
    UnitBackedOut,
)
from entrepot.message import Message, PutInUnit
from entrepot.mqsc import Answer
from entrepot.queues.claims import Claim
from entrepot.queues.criteria import Criteria
from entrepot.queues.definitions import Subscription
from entrepot.queues.unit_of_work import UnitState
from entrepot.wire import verbs
from entrepot.wire.codec import decode
from entrepot.wire.frame import FrameReader, read_buffer
from entrepot.wire.verbs import Verb

_HANDSHAKE_S = 15.0
_RETRY_FIRST_S = 0.05
_RETRY_MAX_S = 1.0
_GOODBYE_S = 2.0
_FOREVER = float("inf")
_SILENCE = 2.5
"""A server that says nothing for so many heartbeats is taken for dead."""
_TAKING = (Verb.GET, Verb.GET_MANY, Verb.GET_GROUP, Verb.REQUEST)
"""Verbs whose answer must not get lost: it may hold a message that is nowhere else any more."""


class _Slot:
    """Resolves a future unless its task has stopped waiting."""

    __slots__ = ("future", "late", "unit_active")

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self.future = future
        self.late: Any = None
        """What came when its task had just been cancelled, and does not know it yet."""
        self.unit_active = False

    def resolve(self, value: Any) -> None:
        if self.future.done():
            self.late = value
        else:
            self.future.set_result(value)

    def fail(self, error: EntrepotError, *, unit_active: bool = False) -> None:
        self.unit_active = unit_active
        if not self.future.done():
            self.future.set_exception(error)


CLOSED_BY_MANAGER = "the queue manager has closed the connection"


class _Wire(asyncio.BufferedProtocol):
    """One connection's bytes."""

    def __init__(self, client: AioClient) -> None:
        self._client = client
        self.reader = FrameReader(read_buffer())
        self.transport: Any = None
        self.lost = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, _sizehint: int) -> Any:
        return self.reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        client = self._client
        client.heard = client.loop.time()
        try:
            for verb, number, view in self.reader.frames(nbytes):
                client.core.handle(verb, number, decode(verb, view))
        except ProtocolError as error:
            self.transport.abort()
            client.broken(self, problem_of(error))
            return
        if client.core.urgent:
            client.flush()

    def pause_writing(self) -> None:
        self._client.writable.clear()

    def resume_writing(self) -> None:
        self._client.writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._client.broken(self, str(exc) if exc else CLOSED_BY_MANAGER)


class AioClient:
    """What `channels.client.Client` is for threads."""

    def __init__(self, address: Address, *, application: str, reconnect_s: float) -> None:
        self.address = address
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.core = ClientCore(str(address))
        self.heard = 0.0
        self.writable = asyncio.Event()
        self.writable.set()
        self._application = application
        self._reconnect_s = reconnect_s
        self._wire: _Wire | None = None
        self._greeting: _Wire | None = None
        """A connection that has not let us in yet."""
        self._problem = ""
        """Why the last connection broke."""
        self._opening: asyncio.Lock = asyncio.Lock()
        self._flushing = False
        self._closed = False
        self._keeper: asyncio.TimerHandle | None = None
        self._said = 0.0

    # --- the connection -------------------------------------------------------------------------

    @property
    def opened(self) -> int:
        return self.core.opened

    @property
    def welcome(self) -> verbs.Welcome:
        assert self.core.welcome is not None
        return self.core.welcome

    @property
    def mends_itself(self) -> bool:
        """Whether it connects again when it has broken."""
        return self._reconnect_s > 0 and not self._closed

    async def open(self) -> None:
        """Connect and say who we are.

        Raises:
            ConnectFailed, SecurityError: Nobody answers there, or does not let us in.
        """
        address = self.address
        self.core.farewell = None
        try:
            async with asyncio.timeout(_HANDSHAKE_S):
                wire = self._greeting = await self._reach()
                future = self.loop.create_future()
                self.core.take()
                self.core.hello(
                    _Slot(future),
                    channel=address.channel,
                    user=address.user,
                    password=address.password,
                    application=self._application,
                    manager=address.manager,
                )
                wire.transport.write(b"".join(self.core.take()))
                welcome: verbs.Welcome = await future
                await self._claim_again(wire)
        except ConnectionLost as error:
            closed = error.problem == CLOSED_BY_MANAGER
            raise ConnectFailed(str(address), closed_at_once(address) if closed else error.problem) from error
        except (OSError, TimeoutError) as error:
            hung_up = isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)
            problem = NO_TLS_THERE if hung_up and address.tls else problem_of(error) or "no answer"
            raise ConnectFailed(str(address), problem) from error
        else:
            self._greeting, self._wire = None, wire
        finally:
            if self._greeting is not None:
                self._greeting.transport.abort()
                self._greeting = None
        wire.reader.frame_bytes_max = ANSWER_BYTES_MAX
        self.core.begin_connection(welcome)
        self.heard = self._said = self.loop.time()
        if welcome.heartbeat_s and self._keeper is None:
            self._keeper = self.loop.call_later(welcome.heartbeat_s / 4, self._keep_alive)

    async def _claim_again(self, wire: _Wire) -> None:
        """Before anything else is said on a new connection, have what the one before had claimed."""
        slots = self.core.claim_again(lambda: _Slot(self.loop.create_future()))
        wire.transport.write(b"".join(self.core.take()))
        try:
            for slot in slots:
                await slot.future
        except Fenced as error:
            raise self.core.refused(error) from None

    async def _reach(self) -> _Wire:
        address = self.address
        make = partial(_Wire, self)
        if address.folder is None:
            context = await asyncio.to_thread(address.ssl_context) if address.tls else None
            _, protocol = await self.loop.create_connection(make, address.host, address.port, ssl=context)
            return protocol
        # By way of a descriptor, because the path of a Unix socket has at most 107 bytes.
        descriptor = os.open(address.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _, protocol = await self.loop.create_unix_connection(make, f"/proc/self/fd/{descriptor}/{SOCKET}")
        finally:
            os.close(descriptor)
        return protocol

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None and wire.transport is not None:
            wire.transport.abort()

    def broken(self, wire: _Wire, problem: str) -> None:
        """A connection has broken; everybody who waits for it is told."""
        if self._wire is wire:
            self._wire = None
            self._problem = problem
            self.writable.set()
            self.core.lose(problem)
        elif self._greeting is wire:
            self.core.lose(problem)

    async def _ensure(self) -> None:
        if self._closed:
            raise ConnectionClosed()
        self.core.require_unfenced()
        if self._wire is not None:
            return
        if self._reconnect_s <= 0:
            raise ConnectFailed(self.core.peer, self._problem)
        async with self._opening:
            deadline = self.loop.time() + self._reconnect_s
            pause_s = _RETRY_FIRST_S
            while self._wire is None:
                try:
                    await self.open()
                except (SecurityError, Fenced):
                    raise
                except EntrepotError as error:
                    if self.loop.time() + pause_s >= deadline or self._closed:
                        raise waited_for(error, self._reconnect_s) from error
                    await asyncio.sleep(pause_s)
                    pause_s = min(pause_s * 2, _RETRY_MAX_S)

    def _keep_alive(self) -> None:
        heartbeat_s = self.welcome.heartbeat_s
        if self._closed or not heartbeat_s:
            return
        self._keeper = self.loop.call_later(heartbeat_s / 4, self._keep_alive)
        wire = self._wire
        if wire is None:
            return
        now = self.loop.time()
        silent_s = now - self.heard
        if silent_s > _SILENCE * heartbeat_s:
            wire.transport.abort()
            self.broken(wire, f"nothing was heard from the queue manager for {silent_s:.1f} s")
        elif max(now - self._said, silent_s) >= heartbeat_s / 4:
            self.core.tell(Verb.HEARTBEAT, verbs.Empty())
            self.flush()

    # --- asking ---------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what has gathered."""
        self._flushing = False
        parts = self.core.take()
        if not parts or self._wire is None:
            return
        self._said = self.loop.time()
        if len(parts) == 1:
            self._wire.transport.write(parts[0])
        else:
            self._wire.transport.writelines(parts)

    def _flush_soon(self) -> None:
        # Tasks that are ready in this turn of the loop add to the same write.
        if not self._flushing:
            self._flushing = True
            self.loop.call_soon(self.flush)

    @property
    def _is_hindered(self) -> bool:
        """Whether nothing can be asked right now."""
        return self._wire is None or self._closed or not self.writable.is_set() or self.core.fenced is not None

    async def _ready(self) -> None:
        """Return with a connection that takes more; what is asked before the next `await` goes there."""
        while self._is_hindered:
            await self._ensure()
            await self.writable.wait()

    async def _ask(self, verb: int, payload: Any, *, with_message: bool = False) -> Any:
        """Ask and await the answer; what may be repeated is asked again when the connection breaks."""
        deadline = _FOREVER
        while True:
            try:
                return await self._ask_once(verb, payload, with_message=with_message)
            except ConnectionLost:
                now = self.loop.time()
                if not self.mends_itself or now >= deadline or not is_repeatable(verb, payload):
                    raise
                deadline = min(deadline, now + self._reconnect_s)

    async def _ask_once(self, verb: int, payload: Any, *, with_message: bool) -> Any:
        if self._is_hindered:
            await self._ready()
        future: asyncio.Future[Any] = self.loop.create_future()
        slot = _Slot(future)
        number = self.core.ask(verb, payload, slot, with_message=with_message)
        self._flush_soon()
        try:
            return await future
        except asyncio.CancelledError:
            if verb not in _TAKING:
                raise
            return await self._cancel(number, slot)

    async def _cancel(self, number: int, slot: _Slot) -> Any:
        """The task waits no longer. A message that comes all the same is returned in spite of that.

        Raises:
            CancelledError: None came.
        """
        asked = slot.future
        if asked.cancelled():
            asked = self.loop.create_future()
            if self.core.pending.get(number) is slot:
                self.core.pending[number] = _Slot(asked)
                self.core.tell(Verb.CANCEL, verbs.OfNumber(number))
                self._flush_soon()
            else:
                asked.set_result(slot.late)
        while not asked.done():
            with contextlib.suppress(asyncio.CancelledError):  # it has been told already
                await asyncio.wait([asked])
        answer = None if asked.exception() is not None else asked.result()
        if answer is None or (isinstance(answer, verbs.MessagesAnswer) and not answer.messages):
            raise asyncio.CancelledError
        if (current := asyncio.current_task()) is not None:
            current.uncancel()
        return answer

    # --- verbs ----------------------------------------------------------------------------------

    async def put(
        self,
        name: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None,
        priority: int | None,
        unit: RemoteUnit | None,
        wait_s: float,
    ) -> bytes:
        if unit is None:
            if self._is_hindered:
                await self._ready()
            message_id, frame = self.core.put(name, message, persistent, priority, 0, wait_s)
            await self._ask(Verb.PUT, frame, with_message=True)
            return message_id
        # Its outcome is not waited for, unless it waits for room: a refusal is told when the unit commits.
        number = await self._ready_for(unit)
        message_id, frame = self.core.put(name, message, persistent, priority, number, wait_s)
        if wait_s:
            await self._ask_in(unit, Verb.PUT, frame, with_message=True)
            return message_id
        self.core.tell(Verb.PUT, frame, with_message=True)
        self._flush_soon()
        return message_id

    async def put_many(self, unit: RemoteUnit, puts: Sequence[PutInUnit]) -> list[bytes]:
        message_ids = self.core.tell_many(await self._ready_for(unit), puts)
        self._flush_soon()
        return message_ids

    async def get(
        self, name: str, criteria: Criteria | None, *, unit: RemoteUnit | None, wait_s: float
    ) -> Message | None:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                message: Message | None = await self._in_unit(
                    unit, Verb.GET, partial(_get_frame, name, wait_s, criteria)
                )
                return message
            except ConnectionLost as error:
                # Outside of a unit of work nothing persistent was lost: asking again is safe.
                wait_s = max(deadline - time.monotonic(), 0.0)
                if self._closed:
                    raise ConnectionClosed() from error
                if not self.mends_itself:
                    raise

    async def _in_unit(self, unit: RemoteUnit | None, verb: int, frame: Callable[[int], Any]) -> Any:
        if unit is None:
            return await self._ask(verb, frame(0))
        return await self._ask_in(unit, verb, frame(await self._ready_for(unit)))

    async def _ready_for(self, unit: RemoteUnit) -> int:
        """Return the number of a unit when there is a connection on which it can still be used."""
        self.core.require_active(unit)
        if self._is_hindered:
            try:
                await self._ready()
            except ConnectionClosed:
                raise
            except EntrepotError as error:
                self.core.is_out_of_reach(unit, error)
                raise
            self.core.require_active(unit)  # it may have ended meanwhile
        return self.core.require_unit(unit)

    async def _ask_in(self, unit: RemoteUnit, verb: int, payload: Any, *, with_message: bool = False) -> Any:
        try:
            return await self._ask(verb, payload, with_message=with_message)
        except ConnectionLost as error:
            unit.state = UnitState.BACKED_OUT
            raise UnitBackedOut(unit.number, error.problem) from error

    async def get_many(
        self, name: str, limit: int, criteria: Criteria | None, *, unit: RemoteUnit, wait_s: float
    ) -> list[Message]:
        answer = await self._in_unit(
            unit, Verb.GET_MANY, lambda number: verbs.GetMany(queue_name(name), number, limit, wait_s, wanted(criteria))
        )
        messages: list[Message] = answer.messages
        return messages

    async def get_group(
        self, name: str, criteria: Criteria, *, unit: RemoteUnit, wait_s: float
    ) -> list[Message] | None:
        selector = None if criteria.selector is None else criteria.selector.text
        answer = await self._in_unit(
            unit, Verb.GET_GROUP, lambda number: verbs.GetGroup(queue_name(name), number, wait_s, selector)
        )
        return answer.messages or None

    async def request(
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
        """None: the connection that has made the reply queue is no more; nothing was put."""
        frame = verbs.Request(queue_name(name), reply_queue, timeout_s, persistent, priority, message)
        await self._ready()
        if self.core.opened != opened:
            return None
        self.core.require_fitting(message)
        reply: Message = await self._ask(Verb.REQUEST, frame, with_message=True)
        return reply

    async def browse(
        self, name: str, criteria: Criteria | None, place: tuple[int, int] | None, limit: int
    ) -> tuple[list[Message], tuple[int, int] | None]:
        frame = verbs.Browse(queue_name(name), place, limit, wanted(criteria))
        answer = await self._ask(Verb.BROWSE, frame)
        return answer.messages, answer.place

    def begin(self) -> RemoteUnit:
        return self.core.begin_unit()

    async def commit(self, unit: RemoteUnit, *, counted: bool = True) -> None:
        frame = partial(verbs.Commit, counted=counted)
        await self._end(unit, UnitState.COMMITTED, Verb.COMMIT, frame)

    async def prepare(self, unit: RemoteUnit, transaction_id: bytes) -> None:
        await self._end(unit, UnitState.PREPARED, Verb.PREPARE, lambda number: verbs.Prepare(number, transaction_id))

    async def _end(self, unit: RemoteUnit, ended: UnitState, verb: int, frame: Callable[[int], Any]) -> None:
        was_used = unit.used
        number = await self._ready_for(unit)
        if not was_used and ended is UnitState.COMMITTED:
            unit.state = ended  # nothing was done in it
            return
        slot = _Slot(self.loop.create_future())
        self.core.ask(verb, frame(number), slot)
        self._flush_soon()
        try:
            await slot.future
        except asyncio.CancelledError:
            unit.state = UnitState.UNKNOWN
            raise
        except EntrepotError as error:
            ended_with(unit, error, unit_active=slot.unit_active)
            raise
        unit.state = ended

    async def back_out(self, unit: RemoteUnit, *, counted: bool = True) -> None:
        if self._closed:
            raise ConnectionClosed()
        self.core.require_active(unit)
        unit.state = UnitState.BACKED_OUT
        if unit.used and unit.opened == self.core.opened and self._wire is not None:
            with contextlib.suppress(ConnectionLost, Fenced):
                await self._ask(Verb.BACK_OUT, verbs.BackOut(unit.number, counted))

    async def resolve(self, transaction_id: bytes, *, commit: bool) -> None:
        await self._ask(Verb.RESOLVE, verbs.Resolve(transaction_id, commit))

    async def in_doubt(self) -> list[bytes]:
        return list(await self._ask(Verb.IN_DOUBT, verbs.Empty()))

    async def mqsc(self, script: str, source: str) -> list[Answer]:
        answers: list[Answer] = await self._ask(Verb.MQSC, verbs.Mqsc(script, source))
        return answers

    async def make_dynamic(self, model: str, pattern: str) -> str:
        name: str = await self._ask(Verb.DYNAMIC, verbs.Dynamic(model, pattern))
        return name

    async def subscribe(self, wanted: Subscription, *, new_only: bool = False) -> Subscription:
        frame = subscribe_frame(wanted, new_only=new_only)
        name, queue = await self._ask(Verb.SUBSCRIBE, frame)
        return replace(wanted, name=name, destination=queue)

    async def leave_subscription(self, name: str) -> None:
        if self._wire is None:
            return  # the server has left it when the connection broke
        with contextlib.suppress(ConnectionLost, ConnectFailed, Fenced):
            await self._ask(Verb.UNSUBSCRIBE, verbs.Unsubscribe(name, end=False))

    async def unsubscribe(self, name: str) -> None:
        await self._ask(Verb.UNSUBSCRIBE, verbs.Unsubscribe(name, end=True))

    # --- claims ---------------------------------------------------------------------------------

    async def claim(self, name: str, epoch: int, status: bytes) -> str:
        order: str = await self._ask(Verb.CLAIM, self.core.claim(name, epoch, status))
        self.core.claimed[name] = epoch
        return order

    async def retire(self, name: str, epoch: int) -> None:
        await self._ask(Verb.RETIRE, verbs.Retire(name, epoch))

    async def instruct(self, prefix: str, order: str) -> int:
        return int(await self._ask(Verb.INSTRUCT, verbs.Instruct(prefix, order)))

    async def claims(self, prefix: str) -> list[Claim]:
        return [Claim(*form) for form in await self._ask(Verb.CLAIMS, verbs.OfPrefix(prefix))]

    async def next_epoch(self, prefix: str) -> int:
        return int(await self._ask(Verb.NEXT_EPOCH, verbs.OfPrefix(prefix)))

    # --- consumers ------------------------------------------------------------------------------

    async def consume(self, name: str, criteria: Criteria | None, read_ahead: int) -> AioChannelIncoming:
        incoming = AioChannelIncoming(self, name, wanted(criteria), read_ahead)
        await incoming.open()
        return incoming

    async def open_consumer(self, name: str, which: verbs.Wanted | None, read_ahead: int) -> ReadAhead:
        await self._ready()
        future: asyncio.Future[Any] = self.loop.create_future()
        ahead = self.core.consume(queue_name(name), which, read_ahead, _Slot(future))
        self._flush_soon()
        try:
            await future
        except BaseException:
            if self._stop_consumer(ahead):
                self.core.tell(Verb.STOP_CONSUMING, verbs.OfConsumer(ahead.number))
                self._flush_soon()
            raise
        return ahead

    def _stop_consumer(self, ahead: ReadAhead) -> bool:
        """Let nothing more come to it here; True when the server has to be told."""
        ours = self.core.consumers.pop(ahead.number, None) is not None
        ahead.lose(ConnectionLost(self.core.peer, "the consumer was closed"))
        return ours and self._wire is not None

    async def hear_all(self) -> None:
        """The server answers in order, so what was there when we asked is here before its answer."""
        with contextlib.suppress(ConnectionLost):
            await self._ask(Verb.HEARTBEAT, verbs.Empty())

    async def settle_now(self, ahead: ReadAhead) -> None:
        """The application is done with one more message, which has left its queue when this returns."""
        await self._ask_about(ahead, partial(self.core.settle, ahead))

    async def return_now(self, ahead: ReadAhead, delay_s: float, rejected: str | None) -> None:
        """The application gives one message back."""
        await self._ask_about(ahead, partial(self.core.return_at_hand, ahead, delay_s, rejected))

    async def _ask_about(self, ahead: ReadAhead, ask: Callable[[_Slot], None]) -> None:
        if ahead.is_lost or self._wire is None:
            # The server has taken it back, if it is persistent; if not, it had let go of it.
            raise ahead.error or ConnectionLost(self.core.peer, self._problem)
        future: asyncio.Future[Any] = self.loop.create_future()
        ask(_Slot(future))
        self._flush_soon()
        await future

    async def close_consumer(self, ahead: ReadAhead, *, tried: bool) -> None:
        if self._stop_consumer(ahead):
            self.core.used(ahead, idle=True)
            with contextlib.suppress(ConnectionLost, ConnectionClosed, Fenced):
                await self._ask(Verb.STOP_CONSUMING, self.core.stop_frame(ahead, tried=tried))

    def abandon_consumer(self, ahead: ReadAhead, *, tried: bool) -> None:
        """The same for a loop that was left and cannot wait, maybe on another thread: the garbage collector's."""
        if threading.get_ident() != self._thread:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self.loop.call_soon_threadsafe(partial(self.abandon_consumer, ahead, tried=tried))
        elif self._stop_consumer(ahead) and not self.loop.is_closed():
            self.core.used(ahead, idle=True)
            self.core.tell(Verb.STOP_CONSUMING, self.core.stop_frame(ahead, tried=tried))
            self._flush_soon()

    def was_used(self, ahead: ReadAhead, *, idle: bool = False) -> None:
        if self.core.used(ahead, idle=idle):
            self._flush_soon()

    async def close(self) -> None:
        """Say goodbye and end the connection; what is open is backed out."""
        if self._closed:
            return
        self._closed = True  # from here on nobody connects again
        try:
            if self._wire is not None:
                goodbye: asyncio.Future[Any] = self.loop.create_future()
                self.core.ask(Verb.GOODBYE, verbs.Empty(), _Slot(goodbye))
                self.flush()
                # Nobody has to wait long for a server that does not answer any more.
                with contextlib.suppress(EntrepotError, TimeoutError):
                    async with asyncio.timeout(_GOODBYE_S):
                        await goodbye
        finally:
            if self._keeper is not None:
                self._keeper.cancel()
            self._drop()
            self.core.lose("the connection was closed")


def _get_frame(name: str, wait_s: float, criteria: Criteria | None, unit: int) -> verbs.Get:
    return verbs.Get(queue_name(name), unit, wait_s, wanted(criteria))
