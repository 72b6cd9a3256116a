# SPDX-License-Identifier: Apache-2.0
"""Publish and subscribe of RabbitMQ: a topic exchange, and a classic queue for each subscriber.

pika's asyncio connection, on uvloop, because its blocking one waits for each
confirm by itself. Persistent means durable queues, delivery mode 2, and a
confirm for each publication, waited for once a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import pika
from pika.adapters.asyncio_connection import AsyncioConnection

from peers.rabbitmq import RabbitMq
from peers.system import Publisher, See, TopicSystem
from processes import LOOPBACK

EXCHANGE = "bench"
KEY = "prices.all"
PREFETCH = 1000
ACKNOWLEDGED_AT_ONCE = 50


class RabbitMqTopics(RabbitMq, TopicSystem):
    name = "rabbitmq-topics"
    title = "RabbitMQ"
    nonpersistent_contract = "memory; classic queues, no confirms, delivered means acknowledged"
    persistent_contract = (
        "fsync of each queue's journal before the confirm, waited for once a batch; delivered before it;"
        " acknowledgements, 50 at once, forced up to 0.2 s later"
    )

    def start(self) -> None:
        super().start()
        channel = self.channel()
        channel.exchange_declare(EXCHANGE, "topic", durable=self.persistent)
        channel.connection.close()

    def version(self) -> str:
        return f"{super().version()}; uvloop {metadata.version('uvloop')}"

    def settings(self) -> dict[str, Any]:
        return {"queue": "classic, version 1, one per subscriber", "prefetch": PREFETCH, "event loop": "uvloop"}

    def publisher(self) -> Publisher:
        return _Publisher(self)

    def subscribe(self, numbers: Sequence[int], see: See, ready: Callable[[], None], *, apart: bool) -> None:
        with self.runner() as runner:
            runner.run(self._subscribe_all(numbers, see, ready, apart=apart))

    def runner(self) -> asyncio.Runner:
        import uvloop

        return asyncio.Runner(loop_factory=uvloop.new_event_loop)

    async def _subscribe_all(self, numbers: Sequence[int], see: See, ready: Callable[[], None], *, apart: bool) -> None:
        common = None if apart else await self.open_channel()
        tags = [0]
        for number in numbers:
            channel = common or await self.open_channel()
            await self._subscribe(channel, number, see(number), [0] if apart else tags)
        ready()
        await asyncio.Event().wait()

    async def _subscribe(self, channel: Any, number: int, see: Callable[[bytes], None], taken: list[int]) -> None:
        """`taken` counts what has come by the channel since the last acknowledgement."""
        persistent = self.persistent

        def take(_: Any, method: Any, __: Any, body: bytes) -> None:
            see(body)
            if persistent:
                taken[0] += 1
                if taken[0] == ACKNOWLEDGED_AT_ONCE:
                    channel.basic_ack(method.delivery_tag, multiple=True)
                    taken[0] = 0

        queue = f"S{number}"
        await _done(channel.basic_qos, prefetch_count=PREFETCH)
        await _done(channel.queue_declare, queue, durable=persistent, exclusive=not persistent)
        await _done(channel.queue_bind, queue, EXCHANGE, KEY)
        await _done(channel.basic_consume, queue, take, auto_ack=not persistent)

    async def open_channel(self) -> Any:
        """On a connection of its own."""
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[Any] = loop.create_future()
        connection = AsyncioConnection(
            pika.ConnectionParameters(LOOPBACK, self._port, heartbeat=0),
            on_open_callback=opened.set_result,
            on_open_error_callback=lambda _, error: opened.set_exception(error),
            custom_ioloop=loop,
        )
        await opened
        channel: asyncio.Future[Any] = loop.create_future()
        connection.channel(on_open_callback=channel.set_result)
        return await channel


async def _done(verb: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """Call a verb of pika and return when the broker has answered."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    verb(*arguments, callback=answered.set_result, **options)
    await answered


class _Publisher:
    def __init__(self, system: RabbitMqTopics) -> None:
        self._persistent = system.persistent
        self._runner = system.runner()
        self._channel = self._runner.run(system.open_channel())
        self._described = pika.BasicProperties(delivery_mode=2 if self._persistent else 1)
        self._sent = 0
        self._unconfirmed: set[int] = set()
        self._woken = asyncio.Event()
        if self._persistent:
            self._runner.run(self._select_confirms())

    async def _select_confirms(self) -> None:
        await _done(self._channel.confirm_delivery, self._confirm)

    def _confirm(self, frame: Any) -> None:
        method = frame.method
        assert isinstance(method, pika.spec.Basic.Ack), "RabbitMQ has refused a publication"
        if method.multiple:
            self._unconfirmed = {tag for tag in self._unconfirmed if tag > method.delivery_tag}
        else:
            self._unconfirmed.discard(method.delivery_tag)
        self._woken.set()

    def send(self, bodies: Sequence[bytes]) -> None:
        self._runner.run(self._publish(bodies))

    async def _publish(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._channel.basic_publish(EXCHANGE, KEY, body, self._described)
            self._sent += 1
            if self._persistent:
                self._unconfirmed.add(self._sent)
        await asyncio.sleep(0)
        while self._unconfirmed:
            self._woken.clear()
            await self._woken.wait()

    def pause(self, seconds: float) -> None:
        self._runner.run(asyncio.sleep(seconds))

    def flush(self) -> None:
        self._runner.run(_done(self._channel.exchange_declare, EXCHANGE, "topic", passive=True))
