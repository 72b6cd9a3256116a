# SPDX-License-Identifier: Apache-2.0
"""A get on its way to its message: served, cancelled, or out of time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from entrepot.engine.criteria import Criteria
from entrepot.engine.search import Search
from entrepot.engine.unit_of_work import Unit
from entrepot.engine.waiting import Waiter
from entrepot.errors import EntrepotError
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.server.session import Session

Got = Callable[[Message | None, Unit | None, EntrepotError | None], None]
"""A message, the lease that holds it until it is acknowledged, or an error."""


class WaitingGet:
    """A get on its way to its message."""

    __slots__ = ("_done", "_leasing", "_name", "_session", "_waiter", "guard")

    def __init__(
        self, session: Session, name: str, criteria: Criteria | None, guard: Unit, leasing: bool, done: Got
    ) -> None:
        self._session = session
        self._name = name
        self.guard = guard
        self._leasing = leasing
        self._done: Got | None = done
        self._waiter = Waiter(criteria, guard, session.engine.waker(self._woken))

    def start(self, wait_s: float, search: Search | None = None) -> bool:
        """Get, or wait for it; False when that was all.

        Raises:
            SearchPaused: The search has to go on later, and nothing waits.
        """
        session, engine = self._session, self._session.engine
        waiter = self._waiter
        look = engine.lease_or_wait if self._leasing else engine.get_or_wait
        message = look(self._name, waiter, search)
        if message is not None:
            done, self._done = self._done, None
            if done is not None:
                done(message, session.leased(self.guard) if self._leasing else None, None)
            return False
        if self._done is None:
            return False  # it came at once, by way of another verb's consequences
        session.waiting.add(self)
        if wait_s != math.inf:
            session.desk.deadlines.after(wait_s, self)
        return True

    @property
    def is_waiting(self) -> bool:
        return self._done is not None

    def _end(self) -> Got | None:
        done, self._done = self._done, None
        self._session.waiting.discard(self)
        return done

    def _woken(self) -> None:
        done = self._end()
        waiter = self._waiter
        if done is None or self._session.closed:
            # Nobody is there for it any more.
            if self._leasing:
                self._session.desk.host.give_back(self._name, waiter)
            return
        if self._session.fenced is not None:
            if self._leasing:
                self._session.desk.host.give_back(self._name, waiter)
            done(None, None, self._session.fenced)
            return
        lease = self._session.leased(self.guard) if self._leasing else None
        done(waiter.message, lease, waiter.error)

    def expire(self) -> None:
        """Its time is up; a message that has come at the last moment is delivered all the same."""
        self._session.engine.stop_waiting(self._waiter)
        if self._waiter.message is None and self._waiter.error is None:
            done = self._end()
            if done is not None:
                done(None, None, self._session.fenced)

    def cancel(self) -> None:
        """Wait no longer."""
        self.expire()
