# SPDX-License-Identifier: Apache-2.0
"""A line to a queue manager in this process, for the tasks of one event loop.

The engine never waits, so verbs run on the loop itself, as a server's do.
The log is forced at the end of a turn, for all tasks that came in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from entrepot.client.aio.async_transport import FutureReply, answer_of, arrived
from entrepot.client.aio.transport import VerbSteps
from entrepot.client.embedded import EmbeddedHost, EmbeddedPeer, share_host
from entrepot.client.protocol import ClientCore
from entrepot.client.read_ahead import ReadAhead
from entrepot.engine.loop_host import LoopHost
from entrepot.errors import ConnectionClosed

Result = TypeVar("Result")


class EmbeddedTransport(VerbSteps):
    """One session, which lives as long as the line."""

    is_near = True
    reconnect_s = 0.0
    mends_itself = False
    problem = "the connection was closed"

    def __init__(self, host: EmbeddedHost, leave: Callable[[], None], application: str) -> None:
        self._host = host
        self._leave = leave
        self._application = application
        self._thread = threading.get_ident()
        self._registry = host.desk_on(LoopHost(host))
        self.loop: asyncio.AbstractEventLoop = self._registry.loop
        self.core = ClientCore(host.url, framed=False)
        self._near = EmbeddedPeer(self.core, self._registry, application)
        self._closed = False

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_connected(self) -> bool:
        return not self._near.closed

    async def do(self, step: Callable[[], Result], *, urgent: bool = True) -> Result:
        """See `transport.Transport.do`."""
        del urgent  # nothing is far away here
        if self._closed:
            raise ConnectionClosed()
        self.core.require_unfenced()
        return self._take(step)

    def _take(self, step: Callable[[], Result]) -> Result:
        result = step()
        self._near.ask_all()
        return result

    def do_if_connected(self, step: Callable[[], Result]) -> Result | None:
        """See `transport.Transport.do_if_connected`."""
        return self._take(step) if self.is_connected else None

    def do_later(self, step: Callable[[], Any]) -> None:
        """See `transport.Transport.do_later`."""
        if threading.get_ident() != self._thread:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self.loop.call_soon_threadsafe(self.do_if_connected, step)
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

    async def another(self) -> EmbeddedTransport:
        """A second line to the same queue manager."""
        host, leave = await asyncio.to_thread(share_host, self.core.peer)
        return EmbeddedTransport(host, leave, self._application)

    async def close(self) -> None:
        """End the session, and let the queue manager go."""
        if self._closed:
            return
        self._closed = True
        self._near.close()
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._registry.close()
        self._leave()
