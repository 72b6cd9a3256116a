# SPDX-License-Identifier: Apache-2.0
"""A line to a server for the tasks of an event loop: one connection, and the next when it breaks.

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
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from entrepot.client.address import NO_TLS_THERE, Address, closed_at_once, problem_of
from entrepot.client.aio.transport import VerbSteps
from entrepot.client.options import Sender
from entrepot.client.protocol import ANSWER_BYTES_MAX, TAKING, ClientCore, waited_for
from entrepot.client.read_ahead import ReadAhead
from entrepot.errors import (
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    EntrepotError,
    Fenced,
    ProtocolError,
    SecurityError,
)
from entrepot.message import Message, MessageType
from entrepot.server.wire import verbs
from entrepot.server.wire.frame import SOCKET, FrameReader, read_buffer
from entrepot.server.wire.verbs import Verb

Result = TypeVar("Result")

_HANDSHAKE_S = 15.0
_RETRY_FIRST_S = 0.05
_RETRY_MAX_S = 1.0
_GOODBYE_S = 2.0
_SILENCE = 2.5
"""A server that says nothing for so many heartbeats is taken for dead."""


class FutureReply:
    """Resolves a future unless its task has stopped waiting."""

    __slots__ = ("future", "late", "number", "unit_active", "verb")

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self.future = future
        self.late: Any = None
        """What came when its task had just been cancelled, and does not know it yet."""
        self.verb = self.number = 0
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


async def answer_of(line: Any, slot: FutureReply) -> Any:
    """Await an answer; a task that is cancelled meanwhile loses no message by it."""
    try:
        return await slot.future
    except asyncio.CancelledError:
        if slot.verb not in TAKING:
            raise
        return await _cancel(line, slot)


async def _cancel(line: Any, slot: FutureReply) -> Any:
    """The task waits no longer. A message that comes all the same is returned in spite of that.

    Raises:
        CancelledError: None came.
    """
    asked = slot.future
    if asked.cancelled():
        asked = line.loop.create_future()
        if line.core.pending.get(slot.number) is slot:
            line.core.pending[slot.number] = fresh = FutureReply(asked)
            fresh.verb, fresh.number = slot.verb, slot.number
            line.do_if_connected(partial(line.core.tell, Verb.CANCEL, verbs.NumberPayload(slot.number)))
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


async def arrived(loop: asyncio.AbstractEventLoop, ahead: ReadAhead, deadline: float) -> None:
    """Return when a message has come ahead or something has gone wrong, or at the deadline."""
    if ahead.has_some or ahead.error is not None:
        return
    # Not asyncio.wait_for: in Python 3.11 it forgets a cancellation that comes together with a message.
    future: asyncio.Future[None] = loop.create_future()
    wake = partial(_resolve, future)
    timer = None if deadline == float("inf") else loop.call_later(max(deadline - time.monotonic(), 0), wake)
    ahead.wake = wake
    try:
        await future
    finally:
        ahead.wake = None
        if timer is not None:
            timer.cancel()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


CLOSED_BY_MANAGER = "the queue manager has closed the connection"


class _Wire(asyncio.BufferedProtocol):
    """One connection's bytes."""

    def __init__(self, line: AsyncTransport) -> None:
        self._line = line
        self.reader = FrameReader(read_buffer())
        self.transport: Any = None
        self.lost = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, _sizehint: int) -> Any:
        return self.reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        line = self._line
        line.heard = line.loop.time()
        try:
            line.core.hear(self.reader, nbytes)
        except ProtocolError as error:
            self.transport.abort()
            line.broken(self, problem_of(error))
            return
        if line.core.urgent:
            line.flush()

    def pause_writing(self) -> None:
        self._line.writable.clear()

    def resume_writing(self) -> None:
        self._line.writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._line.broken(self, str(exc) if exc else CLOSED_BY_MANAGER)


class AsyncTransport(VerbSteps):
    """One connection after another to the same queue manager, for all tasks that have the client."""

    is_near = False
    """Whether the queue manager is in this process."""

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
                    FutureReply(future),
                    channel=address.channel,
                    user=address.user,
                    password=address.password,
                    application=self._application,
                    manager=address.manager,
                )
                wire.transport.write(b"".join(self.core.take()))
                welcome: verbs.Welcome = await future
                await self._begin_again(wire)
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

    async def _begin_again(self, wire: _Wire) -> None:
        """Before anything else is said on a new connection, have what the one before had."""
        slots = self.core.begin_again(lambda: FutureReply(self.loop.create_future()))
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

    async def do(self, step: Callable[[], Result], *, urgent: bool = True) -> Result:
        """See `transport.Transport.do`."""
        del urgent  # all that is said in one turn of the loop goes together
        if self._is_hindered:
            await self._ready()
        result = step()
        self._flush_soon()
        return result

    async def put_plain(self, name: str, body: bytes, persistent: bool | None, sender: Sender) -> bytes:
        """See `transport.Transport.put_plain`."""
        if self._is_hindered:
            await self._ready()
        slot = FutureReply(self.loop.create_future())
        message_id = self.core.gather_put(name, body, persistent, None, b"", MessageType.DATAGRAM, sender, slot)
        self._flush_soon()
        await slot.future
        return message_id

    async def join_plain(self, name: str, body: bytes, persistent: bool | None, sender: Sender) -> bytes:
        """See `transport.Transport.join_plain`."""
        if self._is_hindered:
            await self._ready()
        message_id = self.core.join_put(name, body, persistent, sender)
        self._flush_soon()
        return message_id

    async def reply_plain(
        self, name: str, body: bytes, priority: int | None, correlation_id: bytes, sender: Sender
    ) -> bytes:
        """See `transport.Transport.reply_plain`."""
        if self._is_hindered:
            await self._ready()
        message_id = self.core.gather_put(name, body, False, priority, correlation_id, MessageType.REPLY, sender, None)
        self._flush_soon()
        return message_id

    async def request_plain(
        self,
        name: str,
        body: bytes,
        reply_queue: str,
        timeout_s: float,
        persistent: bool | None,
        sender: Sender,
        opened: int,
    ) -> Message | None:
        """See `transport.Transport.request_plain`."""
        if self._is_hindered:
            await self._ready()
        if self.core.opened != opened:
            return None
        slot = FutureReply(self.loop.create_future())
        self.core.gather_request(name, body, reply_queue, timeout_s, persistent, sender, slot)
        self._flush_soon()
        reply: Message = await answer_of(self, slot)
        return reply

    def do_if_connected(self, step: Callable[[], Result]) -> Result | None:
        """See `transport.Transport.do_if_connected`."""
        if self._wire is None:
            return None
        result = step()
        self._flush_soon()
        return result

    def do_later(self, step: Callable[[], Any]) -> None:
        """See `transport.Transport.do_later`."""
        if threading.get_ident() != self._thread:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self.loop.call_soon_threadsafe(self.do_later, step)
        elif not self.loop.is_closed():
            self.do_if_connected(step)

    def slot(self) -> FutureReply:
        return FutureReply(self.loop.create_future())

    async def answer(self, slot: FutureReply) -> Any:
        """See `transport.Transport.answer`."""
        return await answer_of(self, slot)

    async def arrived(self, ahead: ReadAhead, deadline: float) -> None:
        """See `transport.Transport.arrived`."""
        await arrived(self.loop, ahead, deadline)

    @property
    def is_connected(self) -> bool:
        return self._wire is not None

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def problem(self) -> str:
        """Why the last connection broke."""
        return self._problem

    @property
    def reconnect_s(self) -> float:
        """How long it tries to connect again."""
        return self._reconnect_s

    async def another(self) -> AsyncTransport:
        """A second line to the same queue manager."""
        line = AsyncTransport(self.address, application=self._application, reconnect_s=self._reconnect_s)
        await line.open()
        return line

    async def close(self) -> None:
        """Say goodbye and end the connection; what is open is backed out."""
        if self._closed:
            return
        self._closed = True  # from here on nobody connects again
        try:
            if self._wire is not None:
                goodbye: asyncio.Future[Any] = self.loop.create_future()
                self.core.ask(Verb.GOODBYE, verbs.Empty(), FutureReply(goodbye))
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
