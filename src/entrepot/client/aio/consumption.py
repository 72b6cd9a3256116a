# SPDX-License-Identifier: Apache-2.0
"""The messages of `Connection.consume`, and when each is settled.

A message is at hand from the moment its reader has it until it is settled
or returned, and there is at most one. Asking for the next settles it.
Leaving a `with` in peace settles it, too; leaving by an exception returns
it with a raised backout count. A `for` loop without `with` cannot tell
`break` from an exception, so both return it. What was read ahead returns
untried (docs/CONSUMING.md has the table).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

from entrepot.client.aio.delivery import Delivery, delivery
from entrepot.client.aio.incoming import Incoming
from entrepot.client.consumed import Turns
from entrepot.errors import DeliverySettled
from entrepot.message import Message


class Consumption(Turns, AsyncIterator[Delivery]):
    """Messages one after another; for one user at a time, though any may close it."""

    def __init__(self, open_incoming: Callable[[], Awaitable[Incoming]], incoming: Incoming, wait_s: float) -> None:
        self._open = open_incoming
        self._wait_s = wait_s
        self._incoming: Incoming | None = incoming
        self._number = 0
        """Of the last delivery."""
        self._at_hand = False
        """Whether that is neither settled nor returned."""
        self._in_with = False
        self._closed = False

    async def get(self, wait_s: float = 0.0) -> Delivery | None:
        """The next message, or None when none comes within `wait_s`; settles the one before it."""
        found: Delivery | None = self._turn(Delivery)
        if found is not None:
            return found
        incoming = self._incoming
        if self._at_hand and incoming is not None:
            await incoming.done()
            self._at_hand = False
        if self._closed:
            return None
        if incoming is None:
            incoming = self._incoming = await self._open()
        message = incoming.take()
        if message is None:
            message = await self._receive(incoming, wait_s)
        if message is None or self._closed:  # by another, who has returned it
            return None
        self._number = number = self._number + 1
        self._at_hand = True
        return delivery(message, self, number)

    async def _receive(self, incoming: Incoming, wait_s: float) -> Message | None:
        return await incoming.get(wait_s)

    async def settle(self) -> None:
        """The message at hand has been used: it will not come again, unless a connection breaks before that is told."""
        if self._at_hand and self._incoming is not None and not self._used():
            await self._incoming.done()
            self._at_hand = False

    # --- a delivery's own verbs -------------------------------------------------------------------

    async def ack(self, number: int) -> None:
        """See `Delivery.ack`."""
        await self._held(number).ack()
        self._at_hand = False

    async def retry(self, number: int, delay_s: float) -> None:
        """See `Delivery.retry`."""
        await self._held(number).retry(delay_s)
        self._at_hand = False

    async def reject(self, number: int, reason: str) -> None:
        """See `Delivery.reject`."""
        incoming = self._held(number)
        self._at_hand = False  # if it is refused, it has been returned
        await incoming.reject(reason)

    def _held(self, number: int) -> Incoming:
        if not self._at_hand or number != self._number or self._incoming is None:
            raise DeliverySettled()
        return self._incoming

    # --- loops ------------------------------------------------------------------------------------

    def __aiter__(self) -> _Loop:
        return _Loop(self)

    async def __anext__(self) -> Delivery:
        message = await self.get(self._wait_s)
        if message is None:
            await self.close()
            raise StopAsyncIteration
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

    async def give_back(self) -> None:
        """What is at hand returns as tried, what was read ahead untried; another loop may begin."""
        incoming, at_hand = self._let_go()
        if incoming is not None:
            await incoming.close(tried=at_hand)

    async def close(self) -> None:
        """Let no more come. What is at hand and was not settled returns as tried, what was read ahead untried."""
        self._closed = True
        await self.give_back()

    async def __aenter__(self) -> Self:
        self._in_with = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self.settle()
        finally:
            await self.close()


class _Loop(AsyncIterator[Delivery]):
    """One loop. It is no generator: asynchronous ones are closed some turns of the event loop too late."""

    def __init__(self, consumption: Consumption) -> None:
        self._consumption = consumption

    async def __anext__(self) -> Delivery:
        consumption = self._consumption
        message: Delivery | None = consumption._turn(Delivery)
        if message is None:
            message = await consumption.get(consumption._wait_s)
        if message is None:
            raise StopAsyncIteration
        return message

    def __del__(self) -> None:
        self._consumption.left()
