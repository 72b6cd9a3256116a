# SPDX-License-Identifier: Apache-2.0
"""Publish and subscribe of NATS, on uvloop: core subjects without persistence, and JetStream with files.

The server cuts off a client for whom more than 64 MiB wait; here it may be
1 GiB, so that the throttle of the measurement decides alone. JetStream of
version 2.9 has no setting that forces its files before it acknowledges.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from nats.js.api import AckPolicy, ConsumerConfig

from peers.nats import _COMMAND, NatsUvloop
from peers.system import Publisher, See, TopicSystem
from processes import LOOPBACK, Server, accepts, free_port

SUBJECT = "prices.all"
STREAM = "PRICES"
ACKNOWLEDGED_AT_ONCE = 50
UNACKNOWLEDGED_MAX = 1000
PENDING_BYTES_MAX = 1 << 30
PUBLISH_S = 60.0


class NatsTopics(NatsUvloop, TopicSystem):
    name = "nats-topics"
    title = "NATS"

    def start(self) -> None:
        self._port = free_port()
        configuration = self.folder / "nats.conf"
        configuration.write_text(
            f'listen: "{LOOPBACK}:{self._port}"\nmax_pending: {PENDING_BYTES_MAX}\n'
            f'jetstream: {{store_dir: "{self.folder / "jetstream"}"}}\n'
        )
        self._server = Server([_COMMAND, "-c", str(configuration)], self.folder / "log")
        self._server.wait_until(lambda: accepts(self._port))

    def settings(self) -> dict[str, Any]:
        return {"event loop": "uvloop", "max_pending": PENDING_BYTES_MAX}

    def publisher(self) -> Publisher:
        return _Publisher(self)

    def subscribe(self, numbers: Sequence[int], see: See, ready: Callable[[], None], *, apart: bool) -> None:
        self.run(self._subscribe_all(numbers, see, ready, apart=apart))

    async def _subscribe_all(self, numbers: Sequence[int], see: See, ready: Callable[[], None], *, apart: bool) -> None:
        common = None if apart else await self.client()
        for number in numbers:
            client = common or await self.client()
            await self._subscribe(client, number, see(number))
            await client.flush()
        ready()
        await asyncio.Event().wait()

    async def _subscribe(self, client: Any, number: int, see: Callable[[bytes], None]) -> None:  # noqa: ARG002
        async def take(message: Any) -> None:
            see(message.data)

        await client.subscribe(SUBJECT, cb=take, pending_bytes_limit=PENDING_BYTES_MAX)

    async def publish(self, client: Any, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            await client.publish(SUBJECT, body)
        await asyncio.sleep(0)


class JetStreamTopics(NatsTopics):
    name = "jetstream-topics"
    title = "NATS JetStream"
    persistent_contract = (
        "WEAKER: acknowledged once in the kernel's memory, forced every 2 minutes: a power cut takes what came since;"
        " durable push consumers, 50 acknowledged at once"
    )

    def start(self) -> None:
        super().start()
        self.run(self._make_stream())

    async def _make_stream(self) -> None:
        client = await self.client()
        await client.jetstream().add_stream(name=STREAM, subjects=[SUBJECT])
        await client.close()

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"storage": "file", "ack policy": "all", "max_ack_pending": UNACKNOWLEDGED_MAX}

    async def _subscribe(self, client: Any, number: int, see: Callable[[bytes], None]) -> None:
        unacknowledged = 0

        async def take(message: Any) -> None:
            nonlocal unacknowledged
            see(message.data)
            unacknowledged += 1
            if unacknowledged == ACKNOWLEDGED_AT_ONCE:
                await message.ack()
                unacknowledged = 0

        how = ConsumerConfig(ack_policy=AckPolicy.ALL, max_ack_pending=UNACKNOWLEDGED_MAX, ack_wait=PUBLISH_S)
        await client.jetstream().subscribe(
            SUBJECT,
            durable=f"S{number}",
            stream=STREAM,
            config=how,
            cb=take,
            manual_ack=True,
            pending_bytes_limit=PENDING_BYTES_MAX,
        )

    async def publish(self, client: Any, bodies: Sequence[bytes]) -> None:
        stream = client.jetstream(timeout=PUBLISH_S)
        await asyncio.gather(*[await stream.publish_async(SUBJECT, body) for body in bodies])


class _Publisher:
    def __init__(self, system: NatsTopics) -> None:
        self._system = system
        self._runner = system.runner()
        self._client = self._runner.run(system.client())

    def send(self, bodies: Sequence[bytes]) -> None:
        self._runner.run(self._system.publish(self._client, bodies))

    def pause(self, seconds: float) -> None:
        self._runner.run(asyncio.sleep(seconds))

    def flush(self) -> None:
        self._runner.run(self._client.flush())
