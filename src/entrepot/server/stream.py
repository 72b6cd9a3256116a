# SPDX-License-Identifier: Apache-2.0
"""A stream: messages that come by credit in one order, and are used in that order.

All that is on its way stands under one unit of work, oldest first, so that
"used up to here" settles many with one commit. A reader that stops gives
back what it has not used. One that vanishes may have used what was on its
way: persistent messages return, as they must not be lost; nonpersistent
ones do not, as they must not come twice.

A held stream is one for units of work. Its reader says what the application
has seen before the application sees it: that counts as tried from then on.
What was used leaves with a unit, and all the rest returns whatever happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from entrepot.compiled import compiled
from entrepot.engine import express
from entrepot.engine.criteria import Criteria
from entrepot.engine.unit_of_work import Take, Unit
from entrepot.engine.waiting import StandingWaiter
from entrepot.errors import EntrepotError, FrameUnreadable
from entrepot.limits import CONSUMER_CREDIT_MAX, MIB
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.server.session import Done, Session

_outlet = compiled("outlet")
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
        "_pumping",
        "_search",
        "_seen",
        "_session",
        "_settled",
        "_unit",
        "closed",
        "held",
        "name",
        "waiter",
    )

    def __init__(
        self,
        session: Session,
        name: str,
        criteria: Criteria | None,
        deliver: Callable[[list[Message]], None],
        failed: Callable[[EntrepotError | None], None],
        *,
        held: bool = False,
    ) -> None:
        self._session = session
        self.name = name
        self.held = held
        self._deliver = deliver
        self._failed = failed
        self._unit = self._fresh_unit()
        if held:
            self._unit.limit = session.engine.manager.objects.manager.uncommitted_max
        self._settled = 0
        self._seen = 0
        """How many of those that are not used were seen; always 0 unless held."""
        self._held_bytes = 0
        """Bodies of those that were neither used nor seen."""
        self.waiter = StandingWaiter(criteria, self._unit, session.engine.waker(self._woken))
        self._search = session.engine.search_for(criteria)
        """Its way through the queue, kept for its life: what was passed over once is not looked at again."""
        self._pumping = False
        """Whether a step of the search is to come."""
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
        return self.waiter.credit

    @property
    def limit(self) -> int:
        """Of a held one: how many may be on their way or wait for the end of a unit, together with its credit."""
        return self._unit.limit

    @property
    def delivered(self) -> int:
        """The number of the last delivery."""
        return self._settled + len(self._unit.takes) - len(self.waiter.arrived)

    @property
    def is_used(self) -> bool:
        """Whether something of it belongs to a unit of work that has not ended."""
        return self._seen > 0

    def allows(self, used: int, more: int) -> bool:
        """Whether its credit may be raised, once deliveries up to `used` have been used."""
        credit_max = CONSUMER_CREDIT_MAX
        if self.held:
            unused = len(self._unit.takes) - max(min(used, self.delivered) - self._settled, 0)
            credit_max = min(credit_max, self._unit.limit - unused)
        return self.waiter.credit + more <= credit_max

    def grant(self, more: int) -> None:
        """Let so many more messages come."""
        self.waiter.credit += more
        if self.waiter.among is None:
            self.pump()

    def pause(self) -> None:
        """The partner does not read what it is sent: let nothing come meanwhile."""
        self._paused = True
        self._session.engine.stop_waiting(self.waiter)

    def resume(self) -> None:
        self._paused = False
        self.pump()

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
            SearchPaused: Nothing was found so far; it has to go on in a later turn.
        """
        has_looked = self._deliver_some()
        self._pumping = False
        if has_looked and self.waiter.among is None and self.waiter.credit > 0:
            # Others are waiting for the loop, too.
            self._session.registry.loop.call_soon(self.pump)

    def _deliver_some(self) -> bool:
        """Deliver some of what there is; False when nothing may come just now."""
        waiter = self.waiter
        if waiter.among is not None or self.closed or self._paused or waiter.credit <= 0 or waiter.error is not None:
            return False
        if self._held_bytes >= _HELD_BYTES_MAX:
            return False
        if waiter.arrived:
            self._woken()  # they came before those that are there now, and count before them
        if waiter.outlet is not None and _outlet.pump(waiter.outlet, self.name):
            return True
        if waiter.credit <= 0 or self._paused or self._held_bytes >= _HELD_BYTES_MAX:
            return True
        try:
            messages = self._session.engine.get_some_or_wait(
                self.name, waiter, _PUMP_AT_ONCE, _PUMP_BYTES, self._search
            )
        except EntrepotError as error:
            waiter.error = error
            self._failed(error)
            return False
        self._hand(messages)
        return True

    def _woken(self) -> None:
        if self.closed:
            return  # what it was given stands under our unit, which has been backed out
        waiter = self.waiter
        arrived, waiter.arrived = waiter.arrived, []
        self._hand(arrived)
        if self._held_bytes >= _HELD_BYTES_MAX:
            self._session.engine.stop_waiting(waiter)
        if waiter.error is not None:
            # Only its reader knows what it has used of what came; it says so, and closes.
            self._failed(waiter.error)

    def _hand(self, messages: list[Message]) -> None:
        if messages:
            for message in messages:
                self._held_bytes += len(message.body)
            self._deliver(messages)

    def used(self, up_to: int, done: Done) -> None:
        """The reader has used all deliveries up to this one, counted from 1."""
        count = min(up_to, self.delivered) - self._settled
        if count <= 0 or self.closed:
            done(None)
            return
        takes = self._unit.takes
        if not self.held and not self._unit.consequential:
            gone = takes[:count]
            size = 0
            for take in gone:
                size += take.entry.body_bytes
            with self._session.engine.host.lock:
                settled = express.settle(gone)
            if settled:
                del takes[:count]
                self._settled += count
                self._held_bytes -= size
                done(None)
                return
        unit = self._fresh_unit()
        self._move(count, unit)
        self._session.settle(unit, done)

    def give_back(self, number: int, delay_s: float, used: Done) -> None:
        """The reader has used all before this delivery, of which `used` is told, and wants this one tried again."""
        self._session.engine.retry(self._only(number, used), delay_s)

    def reject(self, number: int, problem: str, used: Done, done: Done) -> None:
        """The reader has used all before this delivery, and can make nothing of this one."""
        self._session.reject(self._only(number, used), problem, done)

    def _only(self, number: int, done: Done) -> Unit:
        """One delivery under a unit of its own, when all before it are used."""
        self.used(number - 1, done)
        unit = self._fresh_unit()
        self._move(1, unit)
        return unit

    def require_returnable(self, number: int) -> None:
        """Refuse a delivery that was not sent or is used already, or that only a unit of work can return.

        Raises:
            FrameUnreadable
        """
        if self.held or not self._settled < number <= self.delivered:
            raise FrameUnreadable(f"delivery {number} cannot be returned")

    def see(self, up_to: int) -> None:
        """Of a held one: the application has, or is about to have, all deliveries up to this one."""
        seen = self._seen
        count = min(up_to, self.delivered) - self._settled - seen
        if count <= 0 or self.closed or not self.held:
            return
        tried = self._unit.takes[seen : seen + count]
        self._seen += count
        self._session.engine.count_tries(tried)
        self._let_go(tried)
        self.pump()  # their bodies may have kept others from coming

    def _let_go(self, takes: list[Take]) -> None:
        self._held_bytes -= sum([take.entry.body_bytes for take in takes])

    def _move(self, count: int, unit: Unit) -> None:
        """Let the first of those that are on their way stand under another unit."""
        self.see(self._settled + count)
        self._settled += count
        takes = self._unit.takes
        moved, takes[:count] = takes[:count], []
        unit.takes += moved
        unit.consequential = unit.consequential or self._unit.consequential
        if self.held:
            self._seen -= count
        else:
            self._let_go(moved)

    def close(self, *, lost: bool = False, tried: int = 0) -> None:
        """Let no more come, and give back what was not used; deliveries up to `tried` count as tried.

        `lost`: it is not known what was used.
        """
        if self.closed:
            return
        self.closed = True
        if not self.held and tried > self._settled and self._session.engine.host.failure is None:
            self._session.engine.count_tries(self._unit.takes[: tried - self._settled])
        self._session.consumers.discard(self)
        engine = self._session.engine
        engine.stop_waiting(self.waiter)
        if self._search is not None:
            self._search.end()
        if engine.host.failure is None:
            if self._session.registry.stopping:
                self._forgive_seen()
            # Of a held one it is known what was used, and what was seen has been counted.
            engine.give_up(self._unit, lost=lost and not self.held)

    def _forgive_seen(self) -> None:
        """The queue manager stops: what was seen and not used was not tried."""
        seen = self._fresh_unit()
        seen.counted = True
        seen.takes = self._unit.takes[: self._seen]
        engine = self._session.engine
        with engine.host.lock:
            engine.manager.backout_counts.forgive(seen)


def enlist(streams: Mapping[int, Stream], used: Iterable[tuple[int, int]], begin: Callable[[], Unit]) -> None:
    """Let what was used of held streams leave with a unit of work; `begin` is asked for it if anything was.

    Raises:
        FrameUnreadable: There is no such stream or delivery. Nothing was moved.
        TooManyUncommitted: The unit would be too large. Nothing was moved.
    """
    counts: dict[Stream, int] = {}
    for number, up_to in used:
        stream = streams.get(number)
        if stream is None or not stream.held or up_to > stream.delivered:
            raise FrameUnreadable(f"delivery {up_to} to consumer {number}, which is not held or has not had it")
        counts[stream] = max(up_to - stream._settled, counts.get(stream, 0))
    wanted = sum(counts.values())
    if wanted:
        unit = begin()
        unit.require_room(0, wanted)
        for stream, count in counts.items():
            if count:
                stream._move(count, unit)
