# SPDX-License-Identifier: Apache-2.0
"""What `consume` of the asyncio connection reads from at the end of a channel: messages that come by credit."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from entrepot.channels.client_core import ReadAhead
from entrepot.errors import ConnectionLost
from entrepot.message import Message
from entrepot.wire import verbs

if TYPE_CHECKING:
    from entrepot.channels.aio_client import AioClient

_IDLE_S = 0.02


class AioChannelIncoming:
    """Messages that come by credit, for `async for`."""

    def __init__(self, client: AioClient, name: str, which: verbs.Wanted | None, read_ahead: int) -> None:
        self._client = client
        self._name = name
        self._which = which
        self._read_ahead = read_ahead
        self._ahead: ReadAhead | None = None
        self._ended = False

    async def open(self) -> None:
        self._ahead = await self._client.open_consumer(self._name, self._which, self._read_ahead)

    async def get(self, wait_s: float) -> Message | None:
        """The next message, or None when none comes within `wait_s`."""
        deadline = time.monotonic() + wait_s
        asked = False
        while not self._ended:
            ahead = self._ahead
            assert ahead is not None
            if not ahead.arrived:
                await self._wait(ahead, deadline)
            message = ahead.next()
            if message is not None:
                return message
            if isinstance(ahead.error, ConnectionLost):
                # Nothing persistent that was not used is lost: it is on its queue again.
                await self._open_again()
            elif (error := ahead.error) is not None:
                await self.close(tried=False)
                raise error
            elif asked:
                return None
            elif time.monotonic() >= deadline:
                await self._client.hear_all()
                asked = True
        return None

    async def _open_again(self) -> None:
        if self._ended:
            return
        try:
            await self.open()
        except ConnectionLost:
            if not self._client.mends_itself:
                raise

    async def _wait(self, ahead: ReadAhead, deadline: float) -> None:
        """Return when something has come, or at the deadline."""
        idle = min(deadline, time.monotonic() + _IDLE_S)
        await self._wait_until(ahead, idle)
        if not ahead.arrived and ahead.error is None:
            # It will take a while: let the server know how far we have come.
            self._client.was_used(ahead, idle=True)
            await self._wait_until(ahead, deadline)

    async def _wait_until(self, ahead: ReadAhead, deadline: float) -> None:
        if ahead.arrived or ahead.error is not None:
            return
        # Not asyncio.wait_for: in Python 3.11 it forgets a cancellation that comes together with a message.
        loop = self._client.loop
        future: asyncio.Future[None] = loop.create_future()
        wake = partial(_resolve, future)
        timer = None if deadline == float("inf") else loop.call_later(max(deadline - time.monotonic(), 0), wake)
        ahead.wake = wake
        try:
            await future
        finally:
            ahead.wake = None
            if timer is not None:
                timer.cancel()

    async def done(self) -> None:
        ahead = self._opened
        if not ahead.is_lost:
            ahead.given += 1
            self._client.was_used(ahead)

    async def ack(self) -> None:
        await self._client.settle_now(self._opened)

    async def retry(self, delay_s: float) -> None:
        await self._client.return_now(self._opened, delay_s, None)

    async def reject(self, reason: str) -> None:
        await self._client.return_now(self._opened, 0.0, reason)

    @property
    def _opened(self) -> ReadAhead:
        assert self._ahead is not None
        return self._ahead

    async def close(self, *, tried: bool) -> None:
        if not self._ended and self._ahead is not None:
            self._ended = True
            await self._client.close_consumer(self._ahead, tried=tried)

    def abandon(self, *, tried: bool) -> None:
        if not self._ended and self._ahead is not None:
            self._ended = True
            self._client.abandon_consumer(self._ahead, tried=tried)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
