# SPDX-License-Identifier: Apache-2.0
"""Entrepot's publish and subscribe through its standard binding: a pipeline publishes, asyncio tasks consume.

Persistent publications go to durable subscriptions. A subscriber reads 100
ahead, as the API does unless it is told otherwise.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib import metadata
from typing import Any

from peers.entrepot_server import EntrepotUnix
from peers.system import TOPIC, Publisher, See, TopicSystem

SUBSCRIBING_AT_ONCE = 20
READ_AHEAD = 100


class EntrepotTopics(EntrepotUnix, TopicSystem):
    name = "entrepot-topics"
    title = "entrepot"
    nonpersistent_contract = "memory; dies with the server; a publication was answered for before the next batch"
    persistent_contract = (
        "every publication on disk for all durable subscribers before its batch is answered for, one force for many;"
        " what was consumed leaves in forced units of up to 50, not waited for: after a crash some come twice"
    )

    def version(self) -> str:
        return f"{super().version()}; uvloop {metadata.version('uvloop')}"

    def settings(self) -> dict[str, Any]:
        return {"url": "unix", "read ahead": READ_AHEAD, "event loop of subscribers": "uvloop"}

    def publisher(self) -> Publisher:
        return _Publisher(self.connect(), persistent=self.persistent)

    def subscribe(self, numbers: Sequence[int], see: See, ready: Callable[[], None], *, apart: bool) -> None:
        durable = {number: {"durable": f"S{number}"} if self.persistent else {} for number in numbers}
        wanted = {number: {"topic": TOPIC} | options for number, options in durable.items()}
        run(consume(self.url, wanted, see, ready, apart=apart))


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(coroutine)


async def consume(
    url: str, wanted: Mapping[int, Mapping[str, Any]], see: See, ready: Callable[[], None], *, apart: bool
) -> None:
    """Open a subscription for each number, with these arguments of `subscribe`, and hand over what comes, for ever."""
    import entrepot.aio

    common = None if apart else await entrepot.aio.connect(url)
    at_once = asyncio.Semaphore(SUBSCRIBING_AT_ONCE)

    async def open_one(arguments: Mapping[str, Any]) -> Any:
        async with at_once:
            connection = common or await entrepot.aio.connect(url)
            subscription = await connection.subscribe(**arguments)
            return await subscription.consume(read_ahead=READ_AHEAD)

    async def take(messages: Any, take_one: Callable[[bytes], None]) -> None:
        async for message in messages:
            take_one(message.body)

    opened = await asyncio.gather(*(open_one(arguments) for arguments in wanted.values()))
    ready()
    await asyncio.gather(*(take(messages, see(number)) for messages, number in zip(opened, wanted, strict=True)))


class _Publisher:
    def __init__(self, connection: Any, *, persistent: bool) -> None:
        self._connection = connection
        self._persistent = persistent

    def send(self, bodies: Sequence[bytes]) -> None:
        with self._connection.pipeline() as pipeline:
            for body in bodies:
                pipeline.publish(TOPIC, body, persistent=self._persistent)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def flush(self) -> None:
        """The end of a pipeline means that the server has it."""
