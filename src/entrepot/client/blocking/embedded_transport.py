# SPDX-License-Identifier: Apache-2.0
"""A line to a queue manager in this process, for any number of threads.

Verbs run on the thread that asks, under the engine's lock. A thread that
waits for the disk forces the log for all who wait, or waits for the one that
does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from entrepot.client.blocking.blocking_reply import BlockingReply
from entrepot.client.blocking.transport import VerbSteps
from entrepot.client.embedded import EmbeddedHost, EmbeddedPeer, share_host
from entrepot.client.protocol import ClientCore
from entrepot.client.read_ahead import ReadAhead
from entrepot.errors import ConnectionClosed, ConnectionLost

Result = TypeVar("Result")


class EmbeddedTransport(VerbSteps):
    """One session after another: like a broken connection, an interrupt of the application ends a session."""

    is_near = True
    reconnect_s = 1.0
    problem = "the application was interrupted"

    def __init__(self, host: EmbeddedHost, leave: Callable[[], None], application: str) -> None:
        self._host = host
        self._leave = leave
        self._application = application
        self._lock = host.lock
        self.core = ClientCore(host.url, framed=False)
        self._near: EmbeddedPeer | None = None
        self._closed = False
        self._open()

    def _open(self) -> None:
        """Have a session, and what the one before had claimed and subscribed to."""
        with self._lock:
            if self._near is None:
                self._near = EmbeddedPeer(self.core, self._host.registry, self._application)
            claims = self.core.begin_again(BlockingReply)
            self._near.ask_all()
        for claim in claims:
            self.answer(claim)

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_connected(self) -> bool:
        return self._near is not None and not self._near.closed

    @property
    def mends_itself(self) -> bool:
        return not self._closed

    def do(self, step: Callable[[], Result], *, urgent: bool = True) -> Result:
        """See `transport.Transport.do`."""
        del urgent  # nothing is far away here
        with self._lock:
            self._require_usable()
            if self.is_connected:
                return self._take(step)
        self._near = None
        self._open()
        return self.do(step)

    def _require_usable(self) -> None:
        if self._closed:
            raise ConnectionClosed()
        self.core.require_unfenced()

    def _take(self, step: Callable[[], Result]) -> Result:
        assert self._near is not None
        result = step()
        self._near.ask_all()
        return result

    def do_if_connected(self, step: Callable[[], Result]) -> Result | None:
        """See `transport.Transport.do_if_connected`."""
        with self._lock:
            return self._take(step) if self.is_connected else None

    def do_later(self, step: Callable[[], Any]) -> None:
        """See `transport.Transport.do_later`."""
        if self._lock.is_mine:
            self._lock.ready.append(partial(self.do_if_connected, step))  # the garbage collector strikes in a turn
        else:
            self.do_if_connected(step)

    def slot(self) -> BlockingReply:
        return BlockingReply()

    def answer(self, slot: BlockingReply) -> Any:
        """See `transport.Transport.answer`."""
        if not slot.done:
            try:
                self._host.wait_for(slot)
            except BaseException:
                self._interrupted()
                raise
        if slot.error is not None:
            raise slot.error
        return slot.value

    def _interrupted(self) -> None:
        """A verb's answer is waited for no longer, though it may hold a message: all that is open goes back."""
        with self._lock:
            if self._near is not None:
                self._near.close(ConnectionLost(self.core.peer, self.problem))

    def arrived(self, ahead: ReadAhead, deadline: float) -> None:
        """See `transport.Transport.arrived`."""
        slot = BlockingReply()
        with self._lock:
            if ahead.arrived or ahead.error is not None:
                return
            ahead.wake = partial(slot.resolve, None)
        try:
            self._host.wait_for(slot, deadline)
        except BaseException:
            self._interrupted()
            raise
        finally:
            ahead.wake = None

    def another(self) -> EmbeddedTransport:
        """A second line to the same queue manager."""
        host, leave = share_host(self.core.peer)
        return EmbeddedTransport(host, leave, self._application)

    def close(self) -> None:
        """End the session, and let the queue manager go."""
        if self._closed:
            return
        self._closed = True
        with self._lock:
            if self._near is not None:
                self._near.close()
        self._leave()
