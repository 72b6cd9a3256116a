# SPDX-License-Identifier: Apache-2.0
"""Readers who wait for a message, first come, first served."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from entrepot.errors import EntrepotError
from entrepot.queues.criteria import Criteria

if TYPE_CHECKING:
    from entrepot.message import Message
    from entrepot.queues.settlement import Settlement
    from entrepot.queues.unit_of_work import Unit


class Waiter:
    """One reader. `wake` is called once, when `message` or `error` is there."""

    __slots__ = ("criteria", "error", "message", "number", "settlement", "unit", "wake")

    def __init__(self, criteria: Criteria | None, unit: Unit | None, wake: Callable[[], None]) -> None:
        self.criteria = criteria
        self.unit = unit
        self.wake = wake
        self.number = 0
        self.message: Message | None = None
        self.settlement: Settlement | None = None
        self.error: EntrepotError | None = None


class Waiters:
    """The readers of one queue. Those who wait for a correlation id are found by it, however many there are."""

    def __init__(self) -> None:
        self._next = 0
        self._any: dict[int, Waiter] = {}
        self._by_correlation: dict[bytes, dict[int, Waiter]] = {}

    def __bool__(self) -> bool:
        return bool(self._any or self._by_correlation)

    def __len__(self) -> int:
        return len(self._any) + sum(map(len, self._by_correlation.values()))

    def add(self, waiter: Waiter) -> None:
        waiter.number = self._next
        self._next += 1
        self._shelf(waiter)[waiter.number] = waiter

    def _shelf(self, waiter: Waiter) -> dict[int, Waiter]:
        correlation_id = waiter.criteria.correlation_id if waiter.criteria else None
        return self._any if correlation_id is None else self._by_correlation.setdefault(correlation_id, {})

    def remove(self, waiter: Waiter) -> None:
        shelf = self._shelf(waiter)
        shelf.pop(waiter.number, None)
        if waiter.criteria and waiter.criteria.correlation_id is not None and not shelf:
            del self._by_correlation[waiter.criteria.correlation_id]

    def for_message(self, message: Message) -> Iterator[Waiter]:
        """Who would take this message, in the order they came; whole groups are the caller's to judge.

        Stop iterating once a waiter was removed.
        """
        candidates: Iterable[Waiter] = self._any.values()
        keyed = self._by_correlation.get(message.correlation_id)
        if keyed:
            candidates = heapq.merge(candidates, keyed.values(), key=lambda waiter: waiter.number)
        for waiter in candidates:
            if waiter.criteria is None or waiter.criteria.matches(message):
                yield waiter

    def all(self) -> list[Waiter]:
        return [*self._any.values(), *(w for shelf in self._by_correlation.values() for w in shelf.values())]
