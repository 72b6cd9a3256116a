# SPDX-License-Identifier: Apache-2.0
# Generated from entrepot/client/aio/consumption.py by tools/blocking: change that one.
"""The messages of `Connection.consume`, and when each is settled.

A message is at hand from the moment its reader has it until it is settled
or returned, and there is at most one. Asking for the next settles it.
Leaving a `with` in peace settles it, too; leaving by an exception returns
it with a raised backout count. A `for` loop without `with` cannot tell
`break` from an exception, so both return it. What was read ahead returns
untried (docs/CONSUMING.md has the table).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from entrepot.client.blocking.delivery import Delivery, delivery
from entrepot.client.blocking.incoming import Incoming
from entrepot.client.consumed import Turns
from entrepot.errors import DeliverySettled
from entrepot.message import Message


class Consumption(Turns, Iterator[Delivery]):
    """Messages one after another; for one user at a time, though any may close it."""

    def __init__(self, open_incoming: Callable[[], Incoming], incoming: Incoming, wait_s: float) -> None:
        self._open = open_incoming
        self._wait_s = wait_s
        self._incoming: Incoming | None = incoming
        self._number = 0
        """Of the last delivery."""
        self._at_hand = False
        """Whether that is neither settled nor returned."""
        self._in_with = False
        self._closed = False

    def get(self, wait_s: float = 0.0) -> Delivery | None:
        """The next message, or None when none comes within `wait_s`; settles the one before it."""
        found: Delivery | None = self._turn(Delivery)
        if found is not None:
            return found
        incoming = self._incoming
        if self._at_hand and incoming is not None:
            incoming.done()
            self._at_hand = False
        if self._closed:
            return None
        if incoming is None:
            incoming = self._incoming = self._open()
        message = incoming.take()
        if message is None:
            message = self._receive(incoming, wait_s)
        if message is None or self._closed:  # by another, who has returned it
            return None
        self._number = number = self._number + 1
        self._at_hand = True
        return delivery(message, self, number)

    def _receive(self, incoming: Incoming, wait_s: float) -> Message | None:
        return incoming.get(wait_s)

    def settle(self) -> None:
        """The message at hand has been used: it will not come again, unless a connection breaks before that is told."""
        if self._at_hand and self._incoming is not None and not self._used():
            self._incoming.done()
            self._at_hand = False

    # --- a delivery's own verbs -------------------------------------------------------------------

    def ack(self, number: int) -> None:
        """See `Delivery.ack`."""
        self._held(number).ack()
        self._at_hand = False

    def retry(self, number: int, delay_s: float) -> None:
        """See `Delivery.retry`."""
        self._held(number).retry(delay_s)
        self._at_hand = False

    def reject(self, number: int, reason: str) -> None:
        """See `Delivery.reject`."""
        incoming = self._held(number)
        self._at_hand = False  # if it is refused, it has been returned
        incoming.reject(reason)

    def _held(self, number: int) -> Incoming:
        if not self._at_hand or number != self._number or self._incoming is None:
            raise DeliverySettled()
        return self._incoming

    # --- loops ------------------------------------------------------------------------------------

    def __iter__(self) -> _Loop:
        return _Loop(self)

    def __next__(self) -> Delivery:
        message = self.get(self._wait_s)
        if message is None:
            self.close()
            raise StopIteration
        return message

    def left(self) -> None:
        """A loop over it has ended or was left; unless a `with` decides, what is at hand returns as tried."""
        if not self._in_with:
            incoming, at_hand = self._let_go()
            if incoming is not None:
                incoming.abandon(tried=at_hand)

    def _let_go(self) -> tuple[Incoming | None, bool]:
        incoming, self._incoming = self._incoming, None
        at_hand, self._at_hand = self._at_hand, False
        return incoming, at_hand

    def give_back(self) -> None:
        """What is at hand returns as tried, what was read ahead untried; another loop may begin."""
        incoming, at_hand = self._let_go()
        if incoming is not None:
            incoming.close(tried=at_hand)

    def close(self) -> None:
        """Let no more come. What is at hand and was not settled returns as tried, what was read ahead untried."""
        self._closed = True
        self.give_back()

    def __enter__(self) -> Self:
        self._in_with = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.settle()
        finally:
            self.close()


class _Loop(Iterator[Delivery]):
    """One loop. It is no generator: asynchronous ones are closed some turns of the event loop too late."""

    def __init__(self, consumption: Consumption) -> None:
        self._consumption = consumption

    def __next__(self) -> Delivery:
        consumption = self._consumption
        message: Delivery | None = consumption._turn(Delivery)
        if message is None:
            message = consumption.get(consumption._wait_s)
        if message is None:
            raise StopIteration
        return message

    def __del__(self) -> None:
        self._consumption.left()
