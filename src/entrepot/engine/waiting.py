# SPDX-License-Identifier: Apache-2.0
"""Readers who wait for a message, first come, first served."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from entrepot.engine.criteria import Criteria
from entrepot.engine.search import Search, SearchBudget, SearchPaused
from entrepot.errors import EntrepotError

if TYPE_CHECKING:
    from entrepot.engine.settlement import Settlement
    from entrepot.engine.unit_of_work import Unit
    from entrepot.message import Message


class Waiter:
    """One reader. `wake` is called once, when `message` or `error` is there."""

    __slots__ = (
        "among", "criteria", "error", "is_private", "message", "number", "search", "settlement", "shelf", "unit",
        "wake",
    )  # fmt: skip

    def __init__(self, criteria: Criteria | None, unit: Unit | None, wake: Callable[[], None]) -> None:
        self.criteria = criteria
        self.unit = unit
        self.is_private = unit is None or unit.private
        """Whether a nonpersistent message that it is given has left for good."""
        self.wake = wake
        self.number = 0
        self.message: Message | None = None
        self.settlement: Settlement | None = None
        self.error: EntrepotError | None = None
        self.shelf: dict[int, Waiter] = {}
        self.among: Waiters | None = None
        """Where it waits; the name by which it came may lead elsewhere, or nowhere, by now."""
        self.search: Search | None = None
        """Its way through the queue while it waits: it is among those that `Offering` looks for."""

    @property
    def wants_whole_group(self) -> bool:
        return self.criteria is not None and self.criteria.whole_group

    def leave(self) -> None:
        """Wait no longer."""
        if self.among is not None:
            self.among.remove(self)

    def take_turn(self) -> None:
        """It is about to be served: who comes now is for others."""
        self.leave()

    def serve(self, message: Message, settlement: Settlement | None = None) -> None:
        """Here is what it waited for."""
        self.message = message
        self.settlement = settlement
        self.wake()

    def give_up(self, error: EntrepotError) -> None:
        """Wait no longer, because there is nothing to wait for."""
        self.leave()
        self.error = error
        self.wake()


class LeasingWaiter(Waiter):
    """A reader outside of any unit of work: it has one as soon as it is given what has to be held for it."""

    __slots__ = ("_begin", "_unit")

    def __init__(self, criteria: Criteria | None, begin: Callable[[], Unit], wake: Callable[[], None]) -> None:
        self._begin = begin
        self._unit: Unit | None = None
        super().__init__(criteria, None, wake)

    @property
    def unit(self) -> Unit | None:
        if self._unit is None:
            self._unit = self._begin()
        return self._unit

    @unit.setter
    def unit(self, _: Unit | None) -> None:
        pass  # it makes its own

    @property
    def lease(self) -> Unit | None:
        """What holds its message, if anything does."""
        return self._unit


class StandingWaiter(Waiter):
    """A reader that wants one message after the other, as many as it has credit for; others get theirs in turn.

    `wake` is called when `arrived` is no longer empty.
    """

    __slots__ = ("arrived", "credit", "outlet")

    def __init__(self, criteria: Criteria | None, unit: Unit, wake: Callable[[], None]) -> None:
        super().__init__(criteria, unit, wake)
        self.credit = 0
        self.outlet: Any = None
        """Where the compiled form sends messages as bytes, without waking the reader for each."""
        self.arrived: list[Message] = []

    def take_turn(self) -> None:
        self.credit -= 1
        if self.among is not None:
            if self.credit > 0:
                self.among.to_the_end(self)
            else:
                self.leave()

    def serve(self, message: Message, settlement: Settlement | None = None) -> None:
        assert settlement is None, "it reads under a unit of work"
        self.arrived.append(message)
        if len(self.arrived) == 1:
            self.wake()


class Waiters:
    """The readers of one queue. Those who wait for a correlation id are found by it, however many there are."""

    def __init__(self) -> None:
        self._next = 0
        self.any: dict[int, Waiter] = {}
        """Those who want any message, or one that is not found by its correlation id alone."""
        self.by_correlation: dict[bytes, dict[int, Waiter]] = {}
        self.for_groups = 0
        """How many of them wait for whole groups, which any message may complete."""

    def __bool__(self) -> bool:
        return bool(self.any or self.by_correlation)

    def __len__(self) -> int:
        return len(self.any) + sum(map(len, self.by_correlation.values()))

    def add(self, waiter: Waiter) -> None:
        criteria = waiter.criteria
        shelf = self.any
        if criteria is not None:
            if criteria.whole_group:
                self.for_groups += 1  # any message may be the one that completes a group
            elif criteria.correlation_id is not None:
                self.add_keyed(waiter, criteria.correlation_id)
                return
        self._stand_on(shelf, waiter)

    def add_keyed(self, waiter: Waiter, correlation_id: bytes) -> None:
        """`add` for one that wants the message with this correlation id, and asks for nothing else."""
        self._stand_on(self.by_correlation.setdefault(correlation_id, {}), waiter)

    def _stand_on(self, shelf: dict[int, Waiter], waiter: Waiter) -> None:
        waiter.number = self._next
        waiter.among = self
        waiter.shelf = shelf
        shelf[self._next] = waiter
        self._next += 1

    def to_the_end(self, waiter: Waiter) -> None:
        """Let a waiter stand behind all others."""
        shelf = waiter.shelf
        del shelf[waiter.number]
        waiter.number = self._next
        self._next += 1
        shelf[waiter.number] = waiter

    def remove(self, waiter: Waiter) -> None:
        criteria = waiter.criteria
        if criteria is not None and criteria.whole_group:
            self.for_groups -= 1
        if waiter.shelf is self.any:
            waiter.among = None
            self.any.pop(waiter.number, None)
        else:
            assert criteria is not None
            assert criteria.correlation_id is not None
            self.remove_keyed(waiter, criteria.correlation_id)

    def remove_keyed(self, waiter: Waiter, correlation_id: bytes) -> None:
        """`remove` for what `add_keyed` has added."""
        waiter.among = None
        shelf = waiter.shelf
        shelf.pop(waiter.number, None)
        if not shelf:
            del self.by_correlation[correlation_id]

    def obvious_for(self, correlation_id: bytes) -> Waiter | None:
        """Who takes a message without groups and properties, if nobody else has to be asked; None: ask `first_for`."""
        shelf = self.by_correlation.get(correlation_id)
        if not shelf:
            waiter = next(iter(self.any.values()), None)
            return None if waiter is None or waiter.criteria is not None else waiter
        if self.any:
            return None  # who came first?
        waiter = next(iter(shelf.values()))
        return waiter if waiter.criteria is not None and waiter.criteria.is_correlation_only else None

    def first_for(self, message: Message, turn: SearchBudget, number: int = 0) -> Waiter | None:
        """Who takes this message, of those that came as `number` or later; whole groups are left out.

        Raises:
            SearchPaused: The turn's steps are used up; it has the number to go on with.
        """
        for waiter in self._candidates(message):
            criteria = waiter.criteria
            if waiter.number < number:
                continue
            if criteria is None:
                return waiter
            if criteria.whole_group:
                continue
            if turn.left <= 0:
                paused = SearchPaused()
                paused.waiter_number = waiter.number
                raise paused
            turn.left -= criteria.steps_for(message)
            if criteria.matches(message):
                return waiter
        return None

    def _candidates(self, message: Message) -> Iterable[Waiter]:
        keyed = self.by_correlation.get(message.correlation_id) if self.by_correlation else None
        if not keyed:
            return self.any.values()
        if not self.any:
            return keyed.values()
        return heapq.merge(self.any.values(), keyed.values(), key=lambda waiter: waiter.number)

    def for_message(self, message: Message) -> Iterator[Waiter]:
        """Who would take this message, in the order they came; whole groups are the caller's to judge.

        Stop iterating once a waiter was removed, or iterate over a copy.
        """
        for waiter in self._candidates(message):
            if waiter.criteria is None or waiter.criteria.whole_group or waiter.criteria.matches(message):
                yield waiter

    def all(self) -> list[Waiter]:
        return [*self.any.values(), *(w for shelf in self.by_correlation.values() for w in shelf.values())]
