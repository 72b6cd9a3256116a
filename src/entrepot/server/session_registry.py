# SPDX-License-Identifier: Apache-2.0
"""What all sessions of a server share: the engine on the loop, who may do what, and who is here."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from entrepot.engine.host import Host
from entrepot.engine.loop_host import LoopHost
from entrepot.errors import ConnectionLost, EntrepotError, NotAuthorized, UserLimitReached
from entrepot.server.deadlines import Deadlines
from entrepot.server.memory_watch import MemoryWatch
from entrepot.server.session_tokens import SessionTokens

if TYPE_CHECKING:
    from entrepot.engine.unit_of_work import Unit
    from entrepot.server.mqsc import Administered
    from entrepot.server.session import Session


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a partner is, as the server has found out; a partner's own word is not taken for it."""

    user: str
    groups: frozenset[str] = frozenset()
    address: str = ""
    channel: str = ""
    administrator: bool = False


class Authorizer(Protocol):
    """Who may do what; `security.authority.Authority` is one."""

    def allows(self, user: str, groups: frozenset[str], object_type: str, name: str, what: str) -> bool: ...


class ServedConnection(Protocol):
    """A connection, as the server sees it that looks after all of them."""

    heard: float

    @property
    def session(self) -> Session | None: ...

    @property
    def heartbeat_s(self) -> float: ...

    def close(self, error: EntrepotError | None = None) -> None: ...


class SessionRegistry:
    """One for each server, on the loop's thread only; or what an embedded queue manager has in its place."""

    def __init__(self, host: Host, judge: Authorizer | None = None, engine: LoopHost | None = None) -> None:
        self.host = host
        self.engine = engine or LoopHost(host)
        self.loop: Any = self.engine.loop
        self.deadlines = Deadlines(self.loop)
        self.judge = judge
        self.authority_epoch = 0
        """Raised when authorities change, so that no session goes by what it remembers."""
        self.stopping = False
        """The queue manager ends, and with it all sessions."""
        self.sessions: dict[int, Session] = {}
        self.session_tokens = SessionTokens()
        self.links: set[ServedConnection] = set()
        """Connections, whether or not they have a session yet."""
        self.supervised: Callable[[Session], Administered] = lambda _: host
        """What a session's MQSC acts on; a server puts itself here, with its channels and its authorities."""
        self.managed: Callable[[Session, str, dict[str, Any]], Any] = lambda *_: None
        """What MANAGE does: the command line's requests to a running queue manager."""
        self.refused: Callable[[Identity, NotAuthorized | UserLimitReached], None] = lambda *_: None
        """Told of every verb that was refused, for the audit log."""
        self.aged: Callable[[Identity, Unit, float], None] = lambda *_: None
        """Told of every unit of work that is backed out because of its age, for the audit log."""
        # Administration may wait for the disk, so it runs beside the loop, one thing at a time.
        self.office = ThreadPoolExecutor(1, "entrepot-office")
        self.judging = ThreadPoolExecutor(1, "entrepot-judging")
        """Reads long selectors, and asks many subscribers' conditions about a publication."""
        self.memory = MemoryWatch(math.inf, math.inf)
        """Whether there is memory for more; a server puts one here that knows its process's limits."""
        if engine is None:
            # Strangers come to a server: none may hold up others, nor find it without threads when memory is short.
            self.engine.keep_free()
            for pool in (self.office, self.judging):
                pool.submit(lambda: None)
        self._checkpoint_waiters: list[Callable[[EntrepotError | None], None]] = []

    def enter(self, session: Session) -> int:
        number: int = self.host.manager.next_session()
        self.sessions[number] = session
        return number

    def leave(self, number: int) -> None:
        self.sessions.pop(number, None)

    # --- beside the loop ------------------------------------------------------------------------

    def checkpoint(self, then: Callable[[EntrepotError | None], None]) -> None:
        """Take a checkpoint beside the loop because the log is full; all who ask meanwhile share it."""
        self._checkpoint_waiters.append(then)
        if len(self._checkpoint_waiters) == 1:
            future = self.loop.run_in_executor(None, self.host.checkpoint)
            future.add_done_callback(self._checkpointed)

    def _checkpointed(self, future: asyncio.Future[None]) -> None:
        error = future.exception()
        if isinstance(error, MemoryError):
            raise error  # to the loop's handler
        waiters, self._checkpoint_waiters = self._checkpoint_waiters, []
        for then in waiters:
            then(error if isinstance(error, EntrepotError) else None)

    def in_office(self, work: Callable[[], Any], done: Callable[[Any, EntrepotError | None], None]) -> None:
        """Do something that may block, and tell the loop what came of it."""
        future = self.loop.run_in_executor(self.office, work)
        future.add_done_callback(partial(_office_done, done))

    def close(self) -> None:
        self.office.shutdown(wait=True)
        self.judging.shutdown(wait=True)


def _office_done(done: Callable[[Any, EntrepotError | None], None], future: asyncio.Future[Any]) -> None:
    if future.cancelled():
        return
    error = future.exception()
    if isinstance(error, MemoryError):
        raise error  # to the loop's handler
    if error is None:
        done(future.result(), None)
    elif isinstance(error, EntrepotError):
        done(None, error)
    else:
        # A partner that waits for ever would be one mistake more.
        done(None, ConnectionLost("the queue manager", "the command ended in an error of its own, which is logged"))
        raise error
