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
from entrepot.limits import CONSUMER_CREDIT_MAX, MIB
from entrepot.message import Message
from entrepot.queues.criteria import Criteria
from entrepot.queues.unit_of_work import Unit
from entrepot.queues.waiting import StandingWaiter

if TYPE_CHECKING:
    from entrepot.channels.session import Done, Session

_PUMP_AT_ONCE = 128
_PUMP_BYTES = 1 * MIB
_HELD_BYTES_MAX = 64 * MIB
"""Bodies that one reader may keep in our memory, whatever its credit: more come when it has used some of them."""


class Stream:
    """One reader's messages; made by `Session.stream`."""

    __slots__ = (
        "_deliver",
        "_failed",
        "_held_bytes",
        "_paused",
        "_session",
        "_settled",
        "_unit",
        "_waiter",
        "closed",
        "name",
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
        self._deliver = deliver
        self._failed = failed
        self._unit = self._fresh_unit()
        self._settled = 0
        self._held_bytes = 0
        self._waiter = StandingWaiter(criteria, self._unit, session.engine.waker(self._woken))
        self._paused = False
        self.closed = False

    def _fresh_unit(self) -> Unit:
        unit = self._session.engine.manager.internal_unit()
        unit.limit = 2 * CONSUMER_CREDIT_MAX
        unit.counted = False
        return unit

    @property
    def credit(self) -> int:
        """How many messages may still come."""
        return self._waiter.credit

    def grant(self, more: int) -> None:
        """Let so many more messages come."""
        self._waiter.credit += more
        self.pump()

    def pause(self) -> None:
        """The partner does not read what it is sent: let nothing come meanwhile."""
        self._paused = True
        self._session.engine.stop_waiting(self._waiter)

    def resume(self) -> None:
        self._paused = False
        self.pump()

    def pump(self) -> None:
        """Deliver what there is, as far as credit goes, then wait for more."""
        waiter = self._waiter
        if waiter.among is not None or self.closed or self._paused or waiter.credit <= 0 or waiter.error is not None:
            return
        if self._held_bytes >= _HELD_BYTES_MAX:
            return
        if waiter.arrived:
            self._woken()  # they came before those that are there now, and count before them
        try:
            messages = self._session.engine.get_some_or_wait(self.name, waiter, _PUMP_AT_ONCE, _PUMP_BYTES)
        except EntrepotError as error:
            waiter.error = error
            self._failed(error)
            return
        for message in messages:
            self._held_bytes += len(message.body)
            self._deliver(message)
        if waiter.among is None and waiter.credit > 0:
            # Others are waiting for the loop, too.
            self._session.desk.loop.call_soon(self.pump)

    def _woken(self) -> None:
        if self.closed:
            return  # what it was given stands under our unit, which has been backed out
        waiter = self._waiter
        arrived, waiter.arrived = waiter.arrived, []
        for message in arrived:
            self._held_bytes += len(message.body)
            self._deliver(message)
        if self._held_bytes >= _HELD_BYTES_MAX:
            self._session.engine.stop_waiting(waiter)
        if waiter.error is not None:
            # Only its reader knows what it has used of what came; it says so, and closes.
            self._failed(waiter.error)

    def used(self, up_to: int, done: Done) -> None:
        """The reader has used all deliveries up to this one, counted from 1."""
        count = min(up_to - self._settled, len(self._unit.takes))
        if count <= 0 or self.closed:
            done(None)
            return
        self._settled += count
        unit = self._fresh_unit()
        takes = self._unit.takes
        unit.takes = takes[:count]
        del takes[:count]
        self._held_bytes -= sum([len(take.entry.message.body) for take in unit.takes])
        unit.consequential = self._unit.consequential
        self._session.settle(unit, done)

    def close(self, *, lost: bool = False) -> None:
        """Let no more come, and give back what was not used; `lost`: nobody knows what was."""
        if self.closed:
            return
        self.closed = True
        self._session.consumers.discard(self)
        engine = self._session.engine
        engine.stop_waiting(self._waiter)
        if engine.host.failure is None:
            engine.give_up(self._unit, lost=lost)
