# SPDX-License-Identifier: Apache-2.0
"""A NATS server process, and nats-py behind calls that block: what NATS core and JetStream have in common.

nats-py is asyncio only, so each client has an event loop of its own, which
runs while one of its calls does. uvloop makes nats-py a third faster than
asyncio's own loop. Messages come through a callback, which is twice as fast
as next_msg() and fetch().
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Coroutine
from importlib import metadata
from typing import Any, TypeVar

import nats
import uvloop
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from entrepot.errors import SystemFailed
from entrepot.workbench.systems.processes import LOOPBACK, ServerProcess
from entrepot.workbench.systems.single_server import SingleServer

# Debian keeps it where the path of ordinary users does not lead.
COMMAND = shutil.which("nats-server") or "/usr/sbin/nats-server"
PENDING_BYTES_MAX = 1 << 30
UNFLUSHED_BYTES_MAX = 1 << 20
FLUSH_S = 60
CONNECT_S = 60
QUEUE_GROUP = "workers"
_GONE = "closed the connection"
_Result = TypeVar("_Result")


class NatsServer(SingleServer):
    """Starts the server; its clients are a subclass's affair."""

    commands = (COMMAND,)
    packages = ("nats-server",)
    modules = ("nats", "uvloop")
    start_s = 0.5

    def _launch(self) -> ServerProcess:
        configuration = self.folder / "nats.conf"
        configuration.write_text(self._configuration())
        return ServerProcess([COMMAND, "-c", str(configuration)], self.folder / "log", name=self.name)

    def _configuration(self) -> str:
        # A client whose loop stands still answers no ping and reads nothing, which is no reason to cut it off.
        return (
            f'listen: "{LOOPBACK}:{self._port}"\n'
            f"max_pending: {PENDING_BYTES_MAX}\n"
            "max_payload: 8388608\n"
            'write_deadline: "10m"\n'
            'ping_interval: "1h"\n'
        )

    def version(self) -> str:
        found = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True)
        clients = ", ".join(f"{name} {metadata.version(name)}" for name in ("nats-py", "uvloop"))
        return f"{found.stdout.strip()}; {clients}"

    def settings(self) -> dict[str, str]:
        return {
            "event loop": "uvloop, a third faster with nats-py than asyncio's own",
            "max_pending": f"{PENDING_BYTES_MAX} bytes instead of 64 MiB, so that a slow receiver is not cut off",
            "max_payload": "8 MiB instead of 1 MiB, for the largest messages of the documents",
            "write_deadline, ping_interval": "10 minutes and 1 hour, so that a client at rest is not cut off",
        }

    def link(self) -> NatsConnection:
        """A connection of the calling thread."""
        return NatsConnection(self.name, f"nats://{LOOPBACK}:{self._port}")


class NatsConnection:
    """A connection of nats-py with its event loop."""

    def __init__(self, system: str, address: str) -> None:
        self._system = system
        self.loop = uvloop.new_event_loop()
        self._unflushed_bytes = 0
        self._inboxes: list[Inbox] = []
        self.awaited: list[asyncio.Future[Any]] = []
        """Acknowledgements that have not come; `settle` waits for them."""
        # nats-py gives a server two seconds to greet it, which a busy machine may need for others.
        connecting = nats.connect(address, connect_timeout=CONNECT_S, allow_reconnect=False, closed_cb=self._end)
        self.client: Client = self.run(connecting)

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        return self.loop.run_until_complete(coroutine)

    async def _end(self) -> None:
        """The connection is closed, so waiting calls would wait for ever."""
        for inbox in self._inboxes:
            inbox.end()
        for future in self.awaited:
            if not future.done():
                future.set_exception(SystemFailed(self._system, _GONE))

    async def settle(self) -> None:
        """Return when all that is awaited has come.

        Raises:
            SystemFailed: The connection is gone.
        """
        await asyncio.gather(*self.awaited)
        self.awaited.clear()

    async def inbox(self, subject: str, group: str = "") -> Inbox:
        """Subscribe; the server knows of it when this returns."""
        inbox = Inbox(self._system)
        self._inboxes.append(inbox)
        # No limits of the client's own, beyond which it would drop messages.
        inbox.subscription = await self.client.subscribe(
            subject, queue=group, cb=inbox.add, pending_msgs_limit=0, pending_bytes_limit=0
        )
        await self.flush()
        return inbox

    async def publish(self, subject: str, bodies: list[bytes]) -> None:
        """Hand messages to the socket, without waiting for an answer except once a MiB."""
        for body in bodies:
            await self.client.publish(subject, body)
            self._unflushed_bytes += len(body)
            # Nothing else holds back a sender that is faster than the server, but for the memory of its own process.
            if self._unflushed_bytes >= UNFLUSHED_BYTES_MAX:
                await self.flush()
        await asyncio.sleep(0)

    async def flush(self) -> None:
        """Return when the server has worked off everything that this client has told it."""
        # nats-py writes its PING past commands that its flusher has not yet written, such as a SUB of just now.
        await asyncio.sleep(0)
        while self.client.pending_data_size and self.client.is_connected:
            await asyncio.sleep(0.001)
        await self.client.flush(timeout=FLUSH_S)
        self._unflushed_bytes = 0

    def close(self) -> None:
        if not self.client.is_closed:
            self.run(self.client.close())
        self.loop.close()


class Inbox:
    """Messages that came and were not taken yet."""

    subscription: Subscription

    def __init__(self, system: str) -> None:
        self._system = system
        self._messages: list[Msg] = []
        self._changed = asyncio.Event()
        self._has_ended = False

    async def add(self, message: Msg) -> None:
        self._messages.append(message)
        self._changed.set()

    def end(self) -> None:
        self._has_ended = True
        self._changed.set()

    async def take(self, timeout_s: float) -> list[Msg]:
        """At least one; none when the time is over.

        Raises:
            SystemFailed: The connection is gone.
        """
        if not self._messages:
            await self._wait(timeout_s)
        return self.drain()

    def drain(self) -> list[Msg]:
        """What is there."""
        drained, self._messages = self._messages, []
        return drained

    async def _wait(self, timeout_s: float) -> None:
        self._changed.clear()
        if self._has_ended:
            raise SystemFailed(self._system, _GONE)
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return
        if not self._messages:
            raise SystemFailed(self._system, _GONE)
