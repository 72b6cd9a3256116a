# SPDX-License-Identifier: Apache-2.0
"""A get on its way to its message: served, cancelled, or out of time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from entrepot.engine.criteria import Criteria
from entrepot.engine.search import Search
from entrepot.engine.unit_of_work import Unit
from entrepot.engine.waiting import LeasingWaiter, Waiter
from entrepot.errors import EntrepotError
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.server.session import Session

Got = Callable[[Message | None, Unit | None, EntrepotError | None], None]
"""A message, the lease that holds it until it is acknowledged, or an error."""


class WaitingGet:
    """A get on its way to its message."""

    __slots__ = ("_done", "_leasing", "_name", "_session", "guard", "waiter")

    def __init__(self, session: Session, name: str, criteria: Criteria | None, unit: Unit | None, done: Got) -> None:
        self._session = session
        self._name = name
        self.guard = unit
        """The unit of work that gets; outside of any, the waiter makes a lease when it needs one."""
        self._leasing = unit is None
        self._done: Got | None = done
        engine = session.engine
        self.waiter = (
            LeasingWaiter(criteria, engine.host.private_unit, engine.waker(self._woken))
            if unit is None
            else Waiter(criteria, unit, engine.waker(self._woken))
        )

    def _lease(self) -> Unit | None:
        """What holds the message until its reader has it, if anything has to."""
        lease = self.waiter.lease if isinstance(self.waiter, LeasingWaiter) else None
        return None if lease is None else self._session.leased(lease)

    def start(self, wait_s: float, search: Search | None = None) -> bool:
        """Get, or wait for it; False when that was all.

        Raises:
            SearchPaused: The search has to go on later, and nothing waits.
        """
        engine = self._session.engine
        waiter = self.waiter
        look = engine.lease_or_wait if self._leasing else engine.get_or_wait
        message = look(self._name, waiter, search)
        if message is not None:
            done, self._done = self._done, None
            if done is not None:
                done(message, self._lease(), None)
            return False
        if self._done is None:
            return False  # it came at once, by way of another verb's consequences
        self.begin(wait_s)
        return True

    def begin(self, wait_s: float) -> None:
        """Wait for so long, now that the waiter stands among those of its queue."""
        self._session.waiting.add(self)
        if wait_s != math.inf:
            self._session.registry.deadlines.after(wait_s, self)

    @property
    def is_waiting(self) -> bool:
        return self._done is not None

    def _end(self) -> Got | None:
        done, self._done = self._done, None
        self._session.waiting.discard(self)
        return done

    def _woken(self) -> None:
        done = self._end()
        waiter = self.waiter
        if done is None or self._session.closed:
            # Nobody is there for it any more.
            if self._leasing:
                self._session.registry.host.give_back(self._name, waiter)
            return
        if self._session.fenced is not None:
            if self._leasing:
                self._session.registry.host.give_back(self._name, waiter)
            done(None, None, self._session.fenced)
            return
        done(waiter.message, self._lease(), waiter.error)

    def expire(self) -> None:
        """Its time is up; a message that has come at the last moment is delivered all the same."""
        self._session.engine.stop_waiting(self.waiter)
        if self.waiter.message is None and self.waiter.error is None:
            done = self._end()
            if done is not None:
                done(None, None, self._session.fenced)

    def cancel(self) -> None:
        """Wait no longer."""
        self.expire()
