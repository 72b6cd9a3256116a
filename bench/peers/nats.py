# SPDX-License-Identifier: Apache-2.0
"""NATS with nats-py: its own request and reply, and a queue group of workers.

Core NATS has no queues: a message goes to a subscriber that is there now,
or nowhere. Its client gets replies through one inbox per connection,
matched by a token in the subject. nats-py is asyncio only, so drivers and
workers are asynchronous programs; once with the event loop that comes with
Python, and once with uvloop, which makes nats-py a third faster.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Coroutine, Sequence
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import nats
import nats.errors

from peers.system import ONE_WAY, REPLY_S, REQUESTS, Producer, System, Trips
from processes import LOOPBACK, Server, accepts, free_port

# Debian keeps it where the path of ordinary users does not lead.
_COMMAND = shutil.which("nats-server") or "/usr/sbin/nats-server"


class Nats(System):
    name = "nats"
    title = "NATS, nats-py"
    commands = (_COMMAND,)
    nonpersistent_contract = "memory and at most once: not even queued; without a ready subscriber a message is dropped"

    def start(self) -> None:
        self._port = free_port()
        command = [_COMMAND, "-a", LOOPBACK, "-p", str(self._port)]
        self._server = Server(command, self.folder / "log")
        self._server.wait_until(lambda: accepts(self._port))

    def stop(self) -> None:
        if hasattr(self, "_server"):
            self._server.stop()

    @property
    def pids(self) -> list[int]:
        return [self._server.pid]

    def version(self) -> str:
        found = subprocess.run([_COMMAND, "--version"], capture_output=True, text=True, check=True)
        return f"{found.stdout.strip()}; nats-py {metadata.version('nats-py')}"

    def settings(self) -> dict[str, Any]:
        return {"jetstream": "off", "event loop": "asyncio's own", "reply": "request() through the inbox of the client"}

    def runner(self) -> asyncio.Runner:
        return asyncio.Runner()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        with self.runner() as runner:
            return runner.run(coroutine)

    async def client(self) -> Any:
        return await nats.connect(f"nats://{LOOPBACK}:{self._port}", allow_reconnect=False)

    def drive(self, number: int, trips: Trips) -> int:  # noqa: ARG002 - an inbox of its own needs no number
        self.run(self._drive(trips))
        return 0

    async def _drive(self, trips: Trips) -> None:
        client = await self.client()
        try:
            body = next(trips)
            while True:
                try:
                    reply = (await client.request(REQUESTS, body, timeout=REPLY_S)).data
                except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
                    reply = None
                body = trips.send(reply)
        except StopIteration:
            pass

    def work(self, ready: Callable[[], None]) -> None:
        self.run(self._work(ready))

    async def _work(self, ready: Callable[[], None]) -> None:
        client = await self.client()

        async def reply(message: Any) -> None:
            await message.respond(message.data)

        await client.subscribe(REQUESTS, queue="workers", cb=reply)
        await client.flush()
        ready()
        await asyncio.Event().wait()

    def producer(self) -> Producer:
        return _Producer(self)

    def consume(self, see: Callable[[bytes], None], ready: Callable[[], None]) -> None:
        self.run(self._consume(see, ready))

    async def _consume(self, see: Callable[[bytes], None], ready: Callable[[], None]) -> None:
        client = await self.client()

        async def take(message: Any) -> None:
            see(message.data)

        # The limits of a subscription are far above what one_way.py lets be under way, so nothing is dropped.
        await client.subscribe(ONE_WAY, cb=take)
        await client.flush()
        ready()
        await asyncio.Event().wait()


class NatsUvloop(Nats):
    name = "nats-uvloop"
    title = "NATS, nats-py on uvloop"

    def version(self) -> str:
        return f"{super().version()}; uvloop {metadata.version('uvloop')}"

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"event loop": "uvloop"}

    def runner(self) -> asyncio.Runner:
        import uvloop

        return asyncio.Runner(loop_factory=uvloop.new_event_loop)

    @classmethod
    def missing(cls) -> list[str]:
        return super().missing() + ([] if find_spec("uvloop") else ["module uvloop"])


class _Producer:
    def __init__(self, system: Nats) -> None:
        self._runner = system.runner()
        self._client = self._runner.run(system.client())

    def send(self, bodies: Sequence[bytes]) -> None:
        self._runner.run(self._publish(bodies))

    async def _publish(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            await self._client.publish(ONE_WAY, body)
        # Lets the client hand the batch to the socket, without waiting for an answer of the server.
        await asyncio.sleep(0)

    def flush(self) -> None:
        self._runner.run(self._client.flush())
