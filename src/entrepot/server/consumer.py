# SPDX-License-Identifier: Apache-2.0
"""A consumer: messages that come by credit, each to be settled by itself, in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from entrepot.engine.criteria import Criteria
from entrepot.engine.search import SearchPaused
from entrepot.engine.unit_of_work import Unit
from entrepot.engine.waiting import Waiter
from entrepot.errors import EntrepotError
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.server.session import Done, Session

_PUMP_AT_ONCE = 64

Deliver = Callable[[Message, Unit | None], None]


class Consumer:
    """Messages that come of themselves, as long as there is credit for them."""

    __slots__ = (
        "_criteria",
        "_deliver",
        "_failed",
        "_name",
        "_pumping",
        "_search",
        "_session",
        "_spare",
        "_waiter",
        "closed",
        "credit",
        "locked",
        "paused",
    )

    def __init__(
        self, session: Session, name: str, criteria: Criteria | None, deliver: Deliver, failed: Done, *, locked: bool
    ) -> None:
        self._session = session
        self._name = name
        self._criteria = criteria
        self._deliver = deliver
        self._failed = failed
        self.locked = locked
        self.credit = 0
        self.paused = False
        """Set by the adapter while its partner does not read what it is sent."""
        self.closed = False
        self._waiter: Waiter | None = None
        self._spare: Unit | None = None
        self._search = session.engine.search_for(criteria)
        """Its way through the queue, kept for its life: what was passed over once is not looked at again."""
        self._pumping = False
        """Whether a step of the search is to come."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_waiting(self) -> bool:
        """Whether it has found nothing more, and waits."""
        waiter = self._waiter
        return waiter is not None and waiter.message is None and waiter.error is None

    def grant(self, more: int) -> None:
        """Let so many more messages come."""
        self.credit += more
        self.pump()

    def _guard(self) -> Unit:
        guard, self._spare = self._spare, None
        if guard is None:
            guard = self._session.registry.host.private_unit()
            if self.locked:
                guard.private = False
        return guard

    def pump(self) -> None:
        """Deliver what there is, as far as credit goes, then wait for more."""
        if self._search is None:
            self._pump()
        elif not self._pumping:
            self._pumping = True
            self._session.engine.in_turns(self._pump)

    def _pump(self) -> None:
        """A step of that.

        Raises:
            SearchPaused: It has to go on in a later turn.
        """
        self._deliver_some()
        self._pumping = False

    def _deliver_some(self) -> None:
        if self._waiter is not None or self.closed:
            return
        engine = self._session.engine
        for _ in range(_PUMP_AT_ONCE):
            if self.credit <= 0 or self.paused:
                return
            guard = self._guard()
            try:
                if self.locked:
                    with engine.host.lock:
                        message, _ = engine.manager.get(self._name, self._criteria, guard, self._search)
                else:
                    message = engine.lease(self._name, self._criteria, guard, self._search)
                if message is None:
                    self._wait(guard)
                    return
            except SearchPaused:
                self._spare = guard
                raise
            except EntrepotError as error:
                self._fail(error)
                return
            self._hand(message, guard)
            if self.closed:
                return
        # Others are waiting for the loop, too.
        self._session.registry.loop.call_soon(self.pump)

    def _wait(self, guard: Unit) -> None:
        engine = self._session.engine
        waiter = Waiter(self._criteria, guard, engine.waker(self._woken))
        look = engine.get_or_wait if self.locked else engine.lease_or_wait
        self._waiter = waiter
        try:
            message = look(self._name, waiter, self._search)
        except SearchPaused:
            self._waiter = None
            raise
        if message is not None:
            waiter.serve(message)  # it has come a moment ago

    def _woken(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None:
            return
        assert waiter.unit is not None
        if self.closed:
            self._give_back(waiter)
        elif waiter.error is not None:
            self._fail(waiter.error)
        elif waiter.message is not None:
            self._hand(waiter.message, waiter.unit)
            self.pump()

    def _hand(self, message: Message, guard: Unit) -> None:
        self.credit -= 1
        lease = self._session.leased(guard)
        if lease is None:
            self._spare = guard
        self._deliver(message, lease)

    def _give_back(self, waiter: Waiter) -> None:
        host = self._session.registry.host
        if host.failure is not None:
            return
        assert waiter.unit is not None
        if waiter.unit.private:
            host.give_back(self._name, waiter)
        else:
            self._session.engine.back_out(waiter.unit)

    def _fail(self, error: EntrepotError) -> None:
        self.close()
        self._failed(error)

    def close(self) -> None:
        """Let no more come; what was delivered is still to be settled."""
        if self.closed:
            return
        self.closed = True
        if self._search is not None:
            self._search.end()
        self._session.consumers.discard(self)
        waiter = self._waiter
        if waiter is not None:
            self._session.engine.stop_waiting(waiter)
            if waiter.message is None and waiter.error is None:
                self._waiter = None
        # Else it has been served a moment ago, and `_woken` gives it back.
