# SPDX-License-Identifier: Apache-2.0
"""The messages of an asyncio connection's `consume`: `entrepot.consuming` as coroutines, with the same promises."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Protocol, Self

from entrepot.delivery import AioDelivery, aio_delivery
from entrepot.errors import DeliverySettled
from entrepot.message import Message


class AioIncoming(Protocol):
    """`binding.Incoming` for tasks."""

    async def get(self, wait_s: float) -> Message | None: ...

    async def done(self) -> None: ...

    async def ack(self) -> None: ...

    async def retry(self, delay_s: float) -> None: ...

    async def reject(self, reason: str) -> None: ...

    async def close(self, *, tried: bool) -> None: ...

    def abandon(self, *, tried: bool) -> None:
        """Close it without waiting: its loop was left, and cannot wait."""


class Consumption(AsyncIterator[AioDelivery]):
    """Messages one after another, for one task at a time."""

    def __init__(self, open_incoming: Callable[[], Awaitable[AioIncoming]], incoming: AioIncoming, wait_s: float):
        self._open = open_incoming
        self._wait_s = wait_s
        self._incoming: AioIncoming | None = incoming
        self._number = 0
        """Of the last delivery."""
        self._at_hand = False
        """Whether that is neither settled nor returned."""
        self._in_with = False
        self._closed = False

    async def get(self, wait_s: float = 0.0) -> AioDelivery | None:
        """The next message, or None when none comes within `wait_s`; settles the one before it."""
        await self.settle()
        if self._closed:
            return None
        if self._incoming is None:
            self._incoming = await self._open()
        message = await self._receive(self._incoming, wait_s)
        if message is None or self._closed:  # by another, who has returned it
            return None
        self._number += 1
        self._at_hand = True
        return aio_delivery(message, self, self._number)

    async def _receive(self, incoming: AioIncoming, wait_s: float) -> Message | None:
        return await incoming.get(wait_s)

    async def settle(self) -> None:
        """The message at hand has been used, as `entrepot.consuming.Consumption.settle` says."""
        if self._at_hand and self._incoming is not None:
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

    def _held(self, number: int) -> AioIncoming:
        if not self._at_hand or number != self._number or self._incoming is None:
            raise DeliverySettled()
        return self._incoming

    # --- loops ------------------------------------------------------------------------------------

    def __aiter__(self) -> _Turns:
        return _Turns(self)

    async def __anext__(self) -> AioDelivery:
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

    def _let_go(self) -> tuple[AioIncoming | None, bool]:
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


class _Turns(AsyncIterator[AioDelivery]):
    """One `async for`. It is no asynchronous generator: those are closed some turns of the event loop too late."""

    def __init__(self, consumption: Consumption) -> None:
        self._consumption = consumption

    async def __anext__(self) -> AioDelivery:
        message = await self._consumption.get(self._consumption._wait_s)
        if message is None:
            raise StopAsyncIteration
        return message

    def __del__(self) -> None:
        self._consumption.left()
