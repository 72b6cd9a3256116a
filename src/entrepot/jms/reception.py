# SPDX-License-Identifier: Apache-2.0
"""What stands behind a session and its consumers: how its mode gets messages, and what is not acknowledged yet.

What waits for `acknowledge` or `commit`, and the message of a listener's
callback, stands in one unit of work, which begins with the first verb that
needs it.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from entrepot.client.blocking import Connection, Subscription, UnitOfWork
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import ConnectionClosed, InvalidArgument, QueueNotFound, UnitBackedOut
from entrepot.jms.source import ConsumerSource
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.jms.dispatcher import Dispatcher

WAIT_S = 0.25
"""How long one verb waits, and so how soon a reader notices that another thread has closed it."""


class Acknowledge(enum.Enum):
    """When a message counts as received, with JMS's numbers; the package's first lines say what each promises."""

    TRANSACTED = 0
    AUTO = 1
    CLIENT = 2
    DUPLICATES_OK = 3


class Reception:
    """One thread has it at a time: the application's, or the dispatcher's once there is a listener."""

    def __init__(self, connection: Connection, mode: Acknowledge, prefetch: int) -> None:
        self.connection = connection
        self.mode = mode
        self.on_error: Callable[[Exception], None] | None = None
        self.dispatcher: Dispatcher | None = None
        self.sources: list[ConsumerSource] = []
        self.closing = threading.Event()
        self.busy = threading.RLock()
        """Held by a thread that receives, so that another one that closes waits for it."""
        self.recovering = False
        """Whether the callback under way wants its message to come again."""
        self._prefetch = prefetch
        self._unit: UnitOfWork | None = None
        self._unit_used = False
        """Whether anything would be undone if the unit were backed out."""
        self._leaving: list[Subscription] = []
        """To be closed when the unit has ended, as it may hold messages of theirs."""

    def require_open(self) -> None:
        if self.closing.is_set():
            raise InvalidArgument("session", "it is closed", "an open one")

    def require_thread(self) -> None:
        """Refuse what only the thread may do that has the session."""
        if self.dispatcher is not None and not self.dispatcher.is_here:
            raise InvalidArgument("session", "its listeners have it", "a verb in their callbacks, or another session")

    # --- messages ----------------------------------------------------------------------------------

    def get(self, source: ConsumerSource, wait_s: float) -> Message | None:
        """The next message for a `receive`, as the mode wants it."""
        if self.mode is Acknowledge.DUPLICATES_OK:
            return source.read_ahead(self.connection, self._prefetch, wait_s)
        if self.mode is not Acknowledge.AUTO:
            return self.get_in_unit(source, wait_s)
        while True:
            queue = source.queue
            try:
                return self.connection.get(queue, wait_s=wait_s, **source.options)
            except QueueNotFound:
                if source.queue == queue:
                    raise

    def get_in_unit(self, source: ConsumerSource, wait_s: float) -> Message | None:
        """The next message, in the unit of work."""
        while True:
            used, queue = self._unit_used, source.queue
            try:
                with self._unit_of_work() as unit:
                    message = source.get(self.connection, self._prefetch, unit, wait_s)
                    self._unit_used = used or message is not None
                    return message
            except UnitBackedOut:
                if used:
                    raise
                # The connection broke while nothing was at stake.
            except QueueNotFound:
                if source.queue == queue:
                    raise

    def called_back(self, *, returned: bool) -> bool:
        """A callback has ended: acknowledge its message if the mode does so; False when it comes again."""
        recovering, self.recovering = self.recovering, False
        if self.mode not in (Acknowledge.AUTO, Acknowledge.DUPLICATES_OK):
            return True
        done = returned and not recovering
        try:
            self.end_unit(UnitOfWork.commit if done else UnitOfWork.back_out)
        finally:
            self.end_unit(UnitOfWork.back_out)  # what is open still, because there was no room for a commit
        return done

    # --- the unit of work --------------------------------------------------------------------------

    @contextlib.contextmanager
    def unit_of_work(self) -> Iterator[UnitOfWork]:
        """The unit of work, for something that would be undone if it were backed out."""
        with self._unit_of_work() as unit:
            self._unit_used = True
            yield unit

    @contextlib.contextmanager
    def _unit_of_work(self) -> Iterator[UnitOfWork]:
        if self._unit is None:
            self._unit = self.connection.unit_of_work()
        unit = self._unit
        try:
            yield unit
        finally:
            # However it has ended: by a commit, a broken connection, or a put that was refused.
            if unit.state != UnitState.ACTIVE.value:
                self._unit = None
                self._unit_used = False
                self._close_leaving()

    def end_unit(self, verb: Callable[[UnitOfWork], None]) -> None:
        """Commit or back out what is open, if anything is."""
        if self._unit_used:
            with self._unit_of_work() as unit:
                verb(unit)

    # --- the end -----------------------------------------------------------------------------------

    def close_source(self, source: ConsumerSource) -> None:
        """Let no more come from a source, when no call uses it any more."""
        source.closing.set()
        if self.dispatcher is not None and not self.dispatcher.is_here:
            self.dispatcher.release(source)
        with self.busy:
            self._stop(source)

    def _stop(self, source: ConsumerSource) -> None:
        if source not in self.sources:
            return
        self.sources.remove(source)
        source.stop_reading_ahead()
        if source.subscription is not None:
            self._leaving.append(source.subscription)
        if not self._unit_used:
            self._close_leaving()

    def _close_leaving(self) -> None:
        with contextlib.suppress(IndexError):  # another thread may close a consumer now
            while True:
                self._leaving.pop().close()

    def close(self) -> None:
        """Back out what is open and let go of everything, when no call uses it any more."""
        self.closing.set()
        if self.dispatcher is not None:
            if self.dispatcher.is_here:
                return  # its thread does it when the callback has returned
            self.dispatcher.join()
        self.end()

    def end(self) -> None:
        """Let go of everything; for the thread that has the session."""
        # A closed connection has backed out and closed what was open.
        with self.busy, contextlib.suppress(ConnectionClosed), contextlib.ExitStack() as stack:
            for source in self.sources:
                source.closing.set()
                stack.callback(self._stop, source)
            # Runs first, as it may hold their messages. One that holds nothing ends too: a connection has few.
            if self._unit is not None:
                self._unit_used = True
                stack.callback(self.end_unit, UnitOfWork.back_out)
