# SPDX-License-Identifier: Apache-2.0
"""The asyncio twin of `entrepot.connect`: the same verbs as coroutines.

    async with await entrepot.aio.connect("embedded:./qm1") as connection:
        await connection.put("ORDERS", b"...", persistent=True)
        async with connection.unit_of_work() as unit:
            order = await unit.get("ORDERS", wait_s=1)
            await unit.put("DONE", order.body, persistent=True)

The engine never waits, so its verbs run on the event loop itself; only the
force of the log runs elsewhere, one for all tasks that have gathered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import partial
from types import TracebackType
from typing import Self, Unpack

from entrepot import checks
from entrepot import connection as blocking
from entrepot.errors import LogFull, RequestTimedOut
from entrepot.message import Message, MessageType
from entrepot.mqsc import Answer
from entrepot.options import GetOptions, PutOptions, criteria, draft
from entrepot.queues.criteria import Criteria
from entrepot.queues.definitions import MODEL_QUEUE
from entrepot.queues.settlement import Settlement
from entrepot.queues.unit_of_work import Unit, UnitState
from entrepot.queues.waiting import Waiter

__all__ = ["Connection", "UnitOfWork", "connect"]

Verb = Callable[[], Settlement | None]


async def connect(url: str, *, application: str = "") -> Connection:
    """Connect as `entrepot.connect` does; a restart does not block the event loop."""
    connection = await asyncio.to_thread(blocking.connect, url, application=application)
    return Connection(connection)


class _Mailbox:
    """Brings what other threads have done to the event loop, many at a time.

    Waking a loop costs a system call, so a group commit wakes it once, not
    once for each of its members.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._done: deque[asyncio.Future[None]] = deque()
        self._announced = False

    def post(self, future: asyncio.Future[None]) -> None:
        self._done.append(future)
        if not self._announced:
            self._announced = True
            self._loop.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        # First, so that what is posted from now on is announced again.
        self._announced = False
        while self._done:
            future = self._done.popleft()
            if not future.done():
                future.set_result(None)

    def future(self) -> asyncio.Future[None]:
        return self._loop.create_future()


async def _settled(settlement: Settlement, future: asyncio.Future[None]) -> None:
    await future
    if settlement.error is not None:
        raise settlement.error


async def _to_the_end(removal: Coroutine[None, None, None]) -> None:
    """Await the removal of a message; a cancellation in the middle of it comes too late to be heeded."""
    task = asyncio.ensure_future(removal)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or not current.cancelling():
                raise
            current.uncancel()
    task.result()


class _Verbs:
    """What a connection and a unit of work have in common."""

    _connection: Connection
    _unit: Unit | None

    async def put(
        self, queue: str | Sequence[str], body: bytes | bytearray | memoryview, **options: Unpack[PutOptions]
    ) -> bytes:
        """Leave a message, as `entrepot.Connection.put` does; durable, where it has to be, when awaited."""
        connection = self._connection
        message, persistent, priority = draft(
            body, options, user=connection.blocking.user, application=connection.blocking.application
        )
        message_id = b""

        def put() -> Settlement | None:
            nonlocal message_id
            message_id, settlement = connection.blocking.host.manager.put(
                queue, message, persistent=persistent, priority=priority, unit=self._unit
            )
            return settlement

        await connection.durably(put)
        return message_id

    async def get(self, queue: str, *, wait_s: float = 0.0, **options: Unpack[GetOptions]) -> Message | None:
        """Take a message, as `entrepot.Connection.get` does.

        Cancelling it loses nothing: a message that came at the last moment goes
        back to its place or, when it has left its queue already, is returned in
        spite of the cancellation.
        """
        wait_s = checks.wait("wait_s", wait_s) if wait_s != 0 else 0.0
        wanted = criteria(options)
        message: Message | None = None

        def get() -> Settlement | None:
            nonlocal message
            message, settlement = self._connection.blocking.host.manager.get(queue, wanted, self._unit)
            return settlement

        leaving = await self._connection.start(get)
        if leaving is not None:
            await _to_the_end(leaving)
        if message is not None or wait_s == 0:
            return message
        return await self._connection.wait_for(queue, wanted, self._unit, wait_s)


class UnitOfWork(_Verbs):
    """Puts and gets that happen together or not at all; use it with `async with`."""

    def __init__(self, connection: Connection, unit: Unit) -> None:
        self._connection = connection
        self._unit: Unit = unit

    @property
    def state(self) -> str:
        """active, prepared, committed or backed out"""
        return self._unit.state.value

    async def commit(self) -> None:
        """Let everything happen; on disk when awaited."""
        manager = self._connection.blocking.host.manager
        await self._end(partial(manager.commit, self._unit))

    async def back_out(self) -> None:
        """Let nothing happen: puts vanish, gets return with a raised backout count."""
        self._connection.blocking.host.back_out(self._unit)
        self._connection.blocking.ended(self._unit)

    async def prepare(self, transaction_id: bytes) -> None:
        """Leave the outcome to a coordinator, who says it with `Connection.resolve`."""
        manager = self._connection.blocking.host.manager
        await self._end(partial(manager.in_doubt.prepare, self._unit, checks.transaction_id(transaction_id)))

    async def _end(self, verb: Verb) -> None:
        try:
            await self._connection.durably(verb)
        finally:
            if self._unit.state is not UnitState.ACTIVE:
                self._connection.blocking.ended(self._unit)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._unit.state is not UnitState.ACTIVE:
            return  # ended by hand
        if kind is not None:
            await self.back_out()
            return
        try:
            await self.commit()
        except BaseException:
            if self._unit.state is UnitState.ACTIVE:
                await self.back_out()
            raise


class Connection(_Verbs):
    """A connection for the tasks of one event loop."""

    def __init__(self, connection: blocking.Connection) -> None:
        self._connection = self
        self._unit = None
        self._mailbox = _Mailbox()
        self.blocking = connection
        """The same connection for code that blocks; it may be used beside this one."""

    async def durably(self, verb: Verb) -> None:
        """Run a verb of the engine and return when its effect is on disk."""
        effect = await self.start(verb)
        if effect is not None:
            await effect

    async def start(self, verb: Verb) -> Coroutine[None, None, None] | None:
        """Run a verb of the engine; what is returned has to be awaited until its effect is on disk."""
        host = self.blocking.host
        future: asyncio.Future[None] | None = None

        def attach(settlement: Settlement) -> None:
            nonlocal future
            future = self._mailbox.future()
            settlement.wake = partial(self._mailbox.post, future)

        try:
            settlement = host.start(verb, attach)
        except LogFull:
            await asyncio.to_thread(host.checkpoint)
            settlement = host.start(verb, attach)
        return None if settlement is None or future is None else _settled(settlement, future)

    async def wait_for(self, queue: str, wanted: Criteria | None, unit: Unit | None, wait_s: float) -> Message | None:
        """Wait for a message under a unit of work of its own, so that a cancelled wait gives it back."""
        host = self.blocking.host
        own = unit or host.private_unit()
        future = self._mailbox.future()
        waiter = Waiter(wanted, own, partial(self._mailbox.post, future))
        host.wait(queue, waiter)
        try:
            await asyncio.wait_for(future, wait_s)
        except TimeoutError:
            host.stop_waiting(waiter)
        except BaseException:
            host.give_back(queue, waiter)
            raise
        if waiter.error is not None:
            raise waiter.error
        if unit is None:
            leaving = await self.start(partial(host.manager.commit, own))
            if leaving is not None:
                await _to_the_end(leaving)
        return waiter.message

    async def browse(self, queue: str, **options: Unpack[GetOptions]) -> AsyncIterator[Message]:
        """Look at a queue's messages without taking them."""
        for message in self.blocking.browse(queue, **options):
            yield message

    def unit_of_work(self) -> UnitOfWork:
        """Begin a unit of work; use it with `async with`."""
        return UnitOfWork(self, self.blocking.begin())

    async def request(
        self,
        queue: str,
        body: bytes | bytearray | memoryview,
        *,
        timeout_s: float = 30.0,
        **options: Unpack[PutOptions],
    ) -> Message:
        """Put a request and wait for its reply, as `entrepot.Connection.request` does."""
        timeout_s = checks.seconds("timeout_s", timeout_s, positive=True)
        reply_queue = self.blocking.reply_queue()
        options |= {"type": MessageType.REQUEST, "reply_to": reply_queue, "expiry_s": timeout_s}
        message_id = await self.put(queue, body, **options)
        reply = await self.get(reply_queue, correlation_id=message_id, wait_s=timeout_s)
        if reply is None:
            raise RequestTimedOut(queue, timeout_s)
        return reply

    async def dynamic_queue(self, model: str = MODEL_QUEUE, pattern: str = "ENTREPOT.*") -> str:
        """Create a queue after a model and return its name."""
        return await asyncio.to_thread(self.blocking.dynamic_queue, model, pattern)

    async def mqsc(self, script: str, *, source: str = "-") -> list[Answer]:
        """Run administration commands and return their answers."""
        return await asyncio.to_thread(self.blocking.mqsc, script, source=source)

    async def in_doubt(self) -> list[bytes]:
        """The transaction ids of units that were prepared and not resolved."""
        return self.blocking.in_doubt()

    async def resolve(self, transaction_id: bytes, *, commit: bool) -> None:
        """Carry out a coordinator's decision about a prepared unit of work."""
        manager = self.blocking.host.manager
        await self.durably(partial(manager.in_doubt.resolve, checks.transaction_id(transaction_id), commit=commit))

    async def close(self) -> None:
        """Back out what is open and let the queue manager go."""
        await asyncio.to_thread(self.blocking.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
