# SPDX-License-Identifier: Apache-2.0
"""A worker: functions that handle the messages of queues, each call in a unit of work.

    worker = entrepot.Worker("unix:./qm1")

    @worker.handles("ORDERS", retries=5)
    async def confirm(order: Order) -> Receipt:
        ...

    worker.run()

The annotation of the first argument says what the body is (`bodies`). A
result is the reply of a request, or goes to the queue of `sends_to`. The
message leaves its queue, and the result is put, when the function has
returned; if it raises, nothing of that happens. Then the message comes again
after a while, `retries` times, and at last moves to the queue's BOQNAME or
the dead-letter queue with the error's text. So does a body that cannot be
read, at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import signal
import typing
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from entrepot import checks
from entrepot.client.aio.connecting import connect
from entrepot.client.aio.connection import Connection
from entrepot.client.aio.unit_of_work import UnitOfWork
from entrepot.client.bodies import Reader, reader_for, written
from entrepot.client.options import reply_options, reply_to
from entrepot.errors import (
    BodyUnreadable,
    ChannelError,
    EntrepotError,
    InvalidArgument,
    UnitBackedOut,
)
from entrepot.message import Message

_LOGGER = logging.getLogger("entrepot.worker")

_WAIT_S = 3600.0
_PAUSE_S = 1.0
"""Before the next try, when there is no connection to be had."""
_RETRIES_MAX = 1_000_000
_CONCURRENCY_MAX = 10_000

Handler = TypeVar("Handler", bound=Callable[..., Any])
Arguments = Callable[[Message, UnitOfWork], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a message stays away after it has failed: longer each time."""

    first_s: float = 1.0
    factor: float = 2.0
    most_s: float = 300.0

    def __call__(self, tries: int) -> float:
        """Seconds after so many earlier tries."""
        return float(min(self.first_s * self.factor ** min(tries, 64), self.most_s))


@dataclass(frozen=True, slots=True)
class _Handling:
    """What a queue's messages are given to."""

    queue: str
    handler: Callable[..., Any]
    arguments: Arguments
    is_coroutine: bool
    retries: int
    backoff: Callable[[int], float]
    concurrency: int
    selector: str | None
    sends_to: str | None


class Worker:
    """Handlers of queues, and the connection they share; for `run`, or `async with` in a program of its own."""

    def __init__(
        self, url: str, *, application: str = "", user: str = "", password: str = "", reconnect_s: float = 30.0
    ) -> None:
        self._connect: Callable[[], Awaitable[Connection]] = lambda: connect(
            url, application=application, user=user, password=password, reconnect_s=reconnect_s
        )
        self._handlings: list[_Handling] = []
        self._connection: Connection | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.Task[Any]] = set()
        """Those of them that are handling a message."""
        self._is_stopping = False

    @property
    def connection(self) -> Connection:
        """The connection that handlers may use beside their unit of work, while the worker runs."""
        assert self._connection is not None, "the worker does not run"
        return self._connection

    def handles(
        self,
        queue: str,
        *,
        retries: int = 5,
        backoff: Callable[[int], float] | None = None,
        concurrency: int = 1,
        selector: str | None = None,
        sends_to: str | None = None,
    ) -> Callable[[Handler], Handler]:
        """Let a function handle the messages of a queue.

        It may have arguments for the body, by any annotation that `bodies` knows;
        for the `Message`; and, if it is a coroutine, for the `aio.UnitOfWork` in
        which it can get and put more. Other functions run on threads.
        `concurrency` calls of it run at a time.

        Raises:
            InvalidArgument: The function asks for something that it cannot be given.
        """
        retries = checks.whole_number("retries", retries, 0, _RETRIES_MAX)
        concurrency = checks.whole_number("concurrency", concurrency, 1, _CONCURRENCY_MAX)

        def registered(handler: Handler) -> Handler:
            is_coroutine = inspect.iscoroutinefunction(handler)
            self._handlings.append(
                _Handling(
                    queue,
                    handler,
                    _arguments_for(handler, is_coroutine=is_coroutine),
                    is_coroutine,
                    retries,
                    backoff or Backoff(),
                    concurrency,
                    selector,
                    sends_to,
                )
            )
            return handler

        return registered

    # --- life -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Handle messages until SIGTERM or SIGINT comes; messages that are being handled are finished first."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        async with self:
            stopped = asyncio.ensure_future(stop.wait())
            await asyncio.wait([stopped, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()

    async def start(self) -> None:
        """Connect, and begin to handle messages.

        Raises:
            InvalidArgument: There is no handler.
            ConnectFailed, SecurityError: There is no connection to be had.
        """
        if not self._handlings:
            raise InvalidArgument("worker", "it has no handlers", "one at least, by @worker.handles(QUEUE)")
        self._is_stopping = False
        self._connection = await self._connect()
        for handling in self._handlings:
            for _ in range(handling.concurrency):
                self._tasks.add(asyncio.create_task(self._serve(handling)))

    async def stop(self, *, patience_s: float = 30.0) -> None:
        """Handle no more. Calls that are under way may end within `patience_s`; then they are cancelled.

        Raises:
            EntrepotError: Why a queue could not be served, if that has ended the worker.
        """
        self._is_stopping = True
        for task in self._tasks - self._busy:
            task.cancel()
        tasks, self._tasks = self._tasks, set()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=patience_s)
            for task in left:
                task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- messages -----------------------------------------------------------------------------------

    async def _serve(self, handling: _Handling) -> None:
        while not self._is_stopping:
            try:
                await self._serve_one(handling)
            except (ChannelError, UnitBackedOut) as error:
                # What the unit had is back on its queue, and the connection mends itself.
                _LOGGER.warning("%s: %s", handling.queue, error)
                await asyncio.sleep(_PAUSE_S)

    async def _serve_one(self, handling: _Handling) -> None:
        async with self.connection.unit_of_work() as unit:
            message = await unit.get(handling.queue, wait_s=_WAIT_S, selector=handling.selector)
            if message is None:
                return
            if self._is_stopping:
                await unit.back_out(counted=False)
                return
            task = asyncio.current_task()
            assert task is not None
            self._busy.add(task)
            try:
                await self._handle(handling, message, unit)
            finally:
                self._busy.discard(task)

    async def _handle(self, handling: _Handling, message: Message, unit: UnitOfWork) -> None:
        try:
            arguments = handling.arguments(message, unit)
            if handling.is_coroutine:
                result = await handling.handler(**arguments)
            else:
                result = await asyncio.to_thread(handling.handler, **arguments)
            await _send(handling, message, result, unit)
        except (ChannelError, UnitBackedOut):
            raise
        except BodyUnreadable as error:
            _LOGGER.warning("%s: message %s is rejected: %s", handling.queue, message.message_id.hex(), error)
            await unit.reject(str(error))
        except Exception as error:
            await _return(handling, message, unit, error)


async def _send(handling: _Handling, message: Message, result: Any, unit: UnitOfWork) -> None:
    if result is None:
        return
    body = written(result)
    if handling.sends_to is not None:
        await unit.put(handling.sends_to, body, persistent=message.persistent, correlation_id=message.message_id)
    elif message.reply_to:
        await unit.put(reply_to(message), body, **reply_options(message, {}))


async def _return(handling: _Handling, message: Message, unit: UnitOfWork, error: Exception) -> None:
    """The handler has failed: the message comes again after a while, or is set aside."""
    name, tries = message.message_id.hex(), message.backout_count
    if tries < handling.retries:
        delay_s = handling.backoff(tries)
        _LOGGER.warning("%s: message %s comes again in %g s", handling.queue, name, delay_s, exc_info=error)
        await unit.back_out(delay_s=delay_s)
        return
    _LOGGER.error("%s: message %s is rejected after %d tries", handling.queue, name, tries + 1, exc_info=error)
    with contextlib.suppress(EntrepotError):  # then it is back on its queue, and is tried once more
        await unit.reject(f"{type(error).__name__}: {error}")


def _arguments_for(handler: Callable[..., Any], *, is_coroutine: bool) -> Arguments:
    """What makes a handler's arguments of a message and its unit of work."""
    annotations = typing.get_type_hints(handler)
    body: tuple[str, Reader] | None = None
    messages, units = [], []
    for name in inspect.signature(handler).parameters:
        annotation = annotations.get(name)
        if annotation is Message:
            messages.append(name)
        elif annotation is UnitOfWork:
            units.append(name)
        elif body is None:
            body = (name, reader_for(annotation))
        else:
            raise InvalidArgument("handler", f"{body[0]} and {name} are both a body", "one argument for the body")
    if units and not is_coroutine:
        raise InvalidArgument("handler", "a function on a thread wants a unit of work", "a coroutine")

    def arguments(message: Message, unit: UnitOfWork) -> dict[str, Any]:
        found: dict[str, Any] = dict.fromkeys(messages, message) | dict.fromkeys(units, unit)
        if body is not None:
            found[body[0]] = body[1](message.body)
        return found

    return arguments
