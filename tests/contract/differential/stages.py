# SPDX-License-Identifier: Apache-2.0
"""One way to write a scenario for all bindings: verbs are awaited, whether threads or tasks carry them out."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import entrepot.aio
from entrepot import Connection, Message
from entrepot.client.blocking import connect
from entrepot.errors import EntrepotError

VERBS_USED: set[tuple[str, str]] = set()
"""Class and name of every public verb that a scenario has called through the blocking connection."""

_AT_ONCE = ("unit_of_work", "pipeline", "reader", "look_ahead")
"""What the asyncio connection does without waiting."""
_DEAD = "SYSTEM.DEAD.LETTER.QUEUE"
_PLAIN = (str, bytes, int, float, list, tuple, dict, type(None))


class Blocking:
    """An object of the blocking API whose methods can be awaited."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        target = self._target
        VERBS_USED.add((_public_class(target, name), name))
        value = getattr(target, name)
        if not callable(value):
            return value
        if name in _AT_ONCE:
            return lambda *arguments, **options: _wrapped(value(*arguments, **options))

        async def call(*arguments: Any, **options: Any) -> Any:
            return _wrapped(value(*(_bare(each) for each in arguments), **options))

        return call

    async def __aenter__(self) -> Blocking:
        self._target.__enter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._target.__exit__(*error)


def _public_class(target: Any, name: str) -> str:
    return next((each.__name__ for each in type(target).__mro__ if name in vars(each)), "")


def _bare(value: Any) -> Any:
    return value._target if isinstance(value, Blocking) else value


def _wrapped(value: Any) -> Any:
    if isinstance(value, _PLAIN) or type(value) is Message or not type(value).__module__.startswith("entrepot"):
        return value
    return Blocking(value)


class Stage:
    """What a scenario has: connections through one binding, and queues whose names are its own."""

    def __init__(self, url: str, connection: Any, prefix: str, *, tasks: bool) -> None:
        self.url = url
        self.c = connection
        self.tasks = tasks
        self._prefix = prefix
        self._opened: list[Any] = []

    # --- connections and queues -------------------------------------------------------------------

    async def connect(self) -> Any:
        """Another connection by the same binding, which ends with the scenario at the latest."""
        if self.tasks:
            opened: Any = await entrepot.aio.connect(self.url)
        else:
            opened = Blocking(connect(self.url))
        self._opened.append(opened)
        return opened

    async def end(self) -> None:
        for opened in self._opened:
            await opened.close()

    def name(self, name: str) -> str:
        return f"{self._prefix}.{name}"

    async def define(self, name: str = "Q", options: str = "") -> str:
        """A queue; returns its name."""
        await self.c.mqsc(f"DEFINE QLOCAL({self.name(name)}) {options}")
        return self.name(name)

    async def alter(self, name: str, options: str) -> None:
        await self.c.mqsc(f"ALTER QLOCAL({name}) {options}")

    async def fill(self, queue: str, count: int = 6, **options: Any) -> None:
        for number in range(count):
            await self.c.put(queue, b"%d" % number, **({"persistent": number % 2 == 0} | options))

    # --- what is to be seen -----------------------------------------------------------------------

    async def browse(self, queue: str, connection: Any = None, **options: Any) -> list[Message]:
        found = (connection or self.c).browse(queue, **options)
        if self.tasks:
            return [message async for message in found]
        return list((await found)._target)

    async def left(self, queue: str) -> list[tuple[bytes, int]]:
        """What can be got from a queue, with backout counts."""
        return [(message.body, message.backout_count) for message in await self.browse(queue)]

    async def bodies(self, queue: str) -> list[bytes]:
        return [message.body for message in await self.browse(queue)]

    async def status(self, queue: str) -> tuple[int, str]:
        """Depth of a queue, and whether something is uncommitted."""
        (row,) = (await self.c.mqsc(f"DISPLAY QSTATUS({queue}) CURDEPTH UNCOM"))[0].rows
        return int(row["CURDEPTH"]), str(row["UNCOM"])

    async def depth(self, queue: str) -> int:
        """How many messages a queue has once what was got or settled has left it, which may take a force of the log."""
        async with asyncio.timeout(30):
            while (found := await self.status(queue))[1] != "0":
                await asyncio.sleep(0.002)
        return found[0]

    async def moved(self, queue: str, count: int = 1) -> list[bytes]:
        """What the queue manager itself has put on a queue; that is there when the log is next forced."""
        async with asyncio.timeout(30):
            while len(found := await self.bodies(queue)) < count:
                await asyncio.sleep(0.002)
        return found

    async def dead(self, queue: str) -> list[tuple[bytes, int]]:
        """Dead letters of a queue: body and reason."""
        async with asyncio.timeout(30):
            while not (found := await self.browse(_DEAD, selector=f"dead_letter_queue = '{queue}'")):
                await asyncio.sleep(0.002)
        return [(message.body, message.properties["dead_letter_reason"]) for message in found]

    # --- loops ------------------------------------------------------------------------------------

    async def loop(
        self, source: Any, turn: Callable[[Any], Awaitable[bool | None]], *, bare: bool = False, **options: Any
    ) -> None:
        """A `for` over a consumption, inside its `with` unless `bare`; `turn` says True to break."""
        if self.tasks:
            if bare:
                async for message in await source.consume(**options):
                    if await turn(message):
                        break
                return
            async with await source.consume(**options) as consumption:
                async for message in consumption:
                    if await turn(message):
                        break
            return
        VERBS_USED.add((type(source._target).__name__, "consume"))
        if bare:
            for message in source._target.consume(**options):
                if await turn(Blocking(message)):
                    break
            return
        with source._target.consume(**options) as consumption:
            for message in consumption:
                if await turn(Blocking(message)):
                    break

    @contextmanager
    def responder(self, queue: str) -> Iterator[None]:
        """Answers one request with its own body, in a thread of its own."""

        def respond() -> None:
            with connect(self.url) as connection:
                request = connection.get(queue, wait_s=60)
                assert request is not None
                connection.reply(request, b"re: " + request.body)

        thread = threading.Thread(target=respond)
        thread.start()
        yield
        thread.join()


async def outcome(verb: Any) -> Any:
    """What a verb returns, or what its error tells a program."""
    try:
        found = verb
        while inspect.isawaitable(found):
            found = await found
        return found
    except EntrepotError as error:
        return told(error)


def told(error: EntrepotError) -> tuple[str, str, bool]:
    return (error.code, error.outcome, error.retryable)


def raised(work: Callable[[], Any]) -> Any:
    """The same for what is wrong already when it is called."""
    try:
        return work()
    except EntrepotError as error:
        return told(error)


__all__ = ["VERBS_USED", "Blocking", "Connection", "Stage", "outcome", "raised", "told"]
