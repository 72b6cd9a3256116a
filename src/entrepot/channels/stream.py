# SPDX-License-Identifier: Apache-2.0
"""A stream: messages that come by credit in one order, and are used in that order.

All that is on its way stands under one unit of work, oldest first, so that
"used up to here" settles many with one commit. A reader that stops gives
back what it has not used. One that vanishes may have used what was on its
way: persistent messages return, as they must not be lost; nonpersistent
ones do not, as they must not come twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from entrepot.errors import EntrepotError
from entrepot.limits import CONSUMER_CREDIT_MAX
from entrepot.message import Message
from entrepot.queues.criteria import Criteria
from entrepot.queues.unit_of_work import Unit
from entrepot.queues.waiting import Waiter

if TYPE_CHECKING:
    from entrepot.channels.session import Done, Session

_PUMP_AT_ONCE = 128


class Stream:
    """One reader's messages; made by `Session.stream`."""

    __slots__ = (
        "_criteria",
        "_deliver",
        "_failed",
        "_session",
        "_settled",
        "_unit",
        "_waiter",
        "closed",
        "credit",
        "name",
        "paused",
    )

    def __init__(
        self,
        session: Session,
        name: str,
        criteria: Criteria | None,
        deliver: Callable[[Message], None],
        failed: Callable[[EntrepotError | None], None],
    ) -> None:
        self._session = session
        self.name = name
        self._criteria = criteria
        self._deliver = deliver
        self._failed = failed
        self._unit = self._fresh_unit()
        self._settled = 0
        self._waiter: Waiter | None = None
        self.credit = 0
        self.paused = False
        """Set by the adapter while its partner does not read what it is sent."""
        self.closed = False

    def _fresh_unit(self) -> Unit:
        unit = self._session.engine.manager.internal_unit()
        unit.limit = 2 * CONSUMER_CREDIT_MAX
        unit.counted = False
        return unit

    def grant(self, more: int) -> None:
        """Let so many more messages come."""
        self.credit += more
        self.pump()

    def pump(self) -> None:
        """Deliver what there is, as far as credit goes, then wait for more."""
        if self._waiter is not None or self.closed or self.paused or self.credit <= 0:
            return
        engine = self._session.engine
        limit = min(self.credit, _PUMP_AT_ONCE)
        try:
            messages = engine.get_some(self.name, self._criteria, self._unit, limit)
            self.credit -= len(messages)
            for message in messages:
                self._deliver(message)
            if len(messages) < limit:
                self._wait()
            elif self.credit > 0:
                # Others are waiting for the loop, too.
                self._session.desk.loop.call_soon(self.pump)
        except EntrepotError as error:
            self._fail(error)

    def _wait(self) -> None:
        engine = self._session.engine
        self._waiter = waiter = Waiter(self._criteria, self._unit, engine.waker(self._woken))
        engine.wait(self.name, waiter)

    def _woken(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None or self.closed:
            return  # what it was given stands under our unit, which has been backed out
        if waiter.error is not None:
            self._fail(waiter.error)
        elif waiter.message is not None:
            self.credit -= 1
            self._deliver(waiter.message)
            self.pump()

    def used(self, up_to: int, done: Done) -> None:
        """The reader has used all deliveries up to this one, counted from 1."""
        count = min(up_to - self._settled, len(self._unit.takes))
        if count <= 0 or self.closed:
            done(None)
            return
        self._settled += count
        unit = self._fresh_unit()
        takes = self._unit.takes
        unit.takes, self._unit.takes = takes[:count], takes[count:]
        unit.consequential = self._unit.consequential
        manager = self._session.engine.manager
        self._session.attempt(lambda: manager.commit(unit), done)

    def _fail(self, error: EntrepotError) -> None:
        self.close()
        self._failed(error)

    def close(self, *, lost: bool = False) -> None:
        """Let no more come, and give back what was not used; `lost`: nobody knows what was."""
        if self.closed:
            return
        self.closed = True
        self._session.consumers.discard(self)
        engine = self._session.engine
        if self._waiter is not None:
            engine.stop_waiting(self._waiter)
        if engine.host.failure is None:
            engine.give_up(self._unit, lost=lost)
