# SPDX-License-Identifier: Apache-2.0
"""What `consume` reads from: messages that come ahead of their use, or one by one where the queue manager is near."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from entrepot.client.aio.calls import Calls
from entrepot.client.read_ahead import ReadAhead, RemoteUnit
from entrepot.client.requests import queue_name, wanted
from entrepot.engine.criteria import Criteria
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import ConnectionClosed, ConnectionLost, Fenced
from entrepot.message import Message
from entrepot.server.wire.verbs import Verb

_IDLE_S = 0.02
"""How long a consumer may find nothing before it says how far it has come."""


class Incoming(Protocol):
    """Messages one after another; the last one is at hand until it is settled or returned."""

    @property
    def ahead(self) -> ReadAhead | None:
        """Where messages come before they are asked for, if they do."""

    def take(self) -> Message | None:
        """The next message if it is here already; nothing is at hand when this is called."""

    async def get(self, wait_s: float) -> Message | None:
        """The next message, or None when none comes within `wait_s`; nothing is at hand when this is called."""

    async def done(self) -> None:
        """What is at hand was used; a queue manager far away may hear of it later, with others."""

    async def ack(self) -> None:
        """What is at hand was used, and has left for good when this returns."""

    async def retry(self, delay_s: float) -> None:
        """What is at hand returns as tried, and can be got after so long."""

    async def reject(self, reason: str) -> None:
        """What is at hand moves to the backout queue or the dead-letter queue; or returns as tried, and raises."""

    async def close(self, *, tried: bool) -> None:
        """Let no more come. What is at hand, if `tried`, returns as tried, all the rest untried."""

    def abandon(self, *, tried: bool) -> None:
        """Close it without waiting: its loop was left, and cannot wait."""


async def open_incoming(calls: Calls, name: str, criteria: Criteria | None, read_ahead: int) -> Incoming:
    """Begin to read a queue.

    Raises:
        QueueNotFound, GetInhibited, NotAuthorized: It cannot be read.
    """
    if calls.line.is_near:
        await calls.browse(name, None, None, 1)  # so that a wrong name is told now
        return EmbeddedIncoming(calls, name, criteria)
    far = RemoteIncoming(calls, name, criteria, read_ahead)
    await far.open()
    return far


class EmbeddedIncoming:
    """Each message in a unit of work of its own, so that its try is counted before a crash could hide it."""

    ahead = None

    def __init__(self, calls: Calls, name: str, criteria: Criteria | None) -> None:
        self._calls = calls
        self._name = name
        self._criteria = criteria
        self._unit: RemoteUnit | None = None
        self._is_getting = False
        self._ended = False

    def take(self) -> Message | None:
        return None

    async def get(self, wait_s: float) -> Message | None:
        if self._ended:
            return None
        unit = self._unit = self._calls.begin()
        self._is_getting = True
        message: Message | None = None
        try:
            message = await self._calls.get(self._name, self._criteria, unit=unit, wait_s=wait_s)
        finally:
            self._is_getting = False
            if (message is None or self._ended) and unit.state is UnitState.ACTIVE:  # closed meanwhile, by another
                await self._calls.back_out(unit, counted=False)
                message = None
        return message

    @property
    def _at_hand(self) -> RemoteUnit:
        assert self._unit is not None
        return self._unit

    async def done(self) -> None:
        await self.ack()

    async def ack(self) -> None:
        await self._calls.commit(self._at_hand)

    async def retry(self, delay_s: float) -> None:
        await self._calls.back_out(self._at_hand, delay_s=delay_s)

    async def reject(self, reason: str) -> None:
        await self._calls.back_out(self._at_hand, rejected=reason)

    async def close(self, *, tried: bool) -> None:
        self.abandon(tried=tried)

    def abandon(self, *, tried: bool) -> None:
        self._ended = True
        unit = self._unit
        if unit is not None and not self._is_getting and unit.state is UnitState.ACTIVE:
            self._calls.line.do_later(partial(self._calls.tell_back_out, unit, counted=tried))


class RemoteIncoming:
    """Messages that come by credit, over one connection after another."""

    def __init__(self, calls: Calls, name: str, criteria: Criteria | None, read_ahead: int) -> None:
        self._calls = calls
        self._name = queue_name(name)
        self._which = wanted(criteria)
        self._read_ahead = read_ahead
        self.ahead: ReadAhead | None = None
        self._ended = False

    async def open(self) -> None:
        self.ahead, _ = await self._calls.open_ahead(
            partial(self._calls.core.consume, self._name, self._which, self._read_ahead)
        )

    def take(self) -> Message | None:
        return None if self._ended or self.ahead is None else self.ahead.next()

    async def get(self, wait_s: float) -> Message | None:
        deadline = time.monotonic() + wait_s
        asked = False
        while not self._ended:
            ahead = self._opened
            if not ahead.has_some:
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
                await self._calls.hear_all()
                asked = True
        return None

    async def _open_again(self) -> None:
        if self._ended:
            return
        try:
            await self.open()
        except ConnectionLost:
            if not self._calls.line.mends_itself:
                raise

    async def _wait(self, ahead: ReadAhead, deadline: float) -> None:
        """Return when something has come, or at the deadline."""
        line = self._calls.line
        await line.arrived(ahead, min(deadline, time.monotonic() + _IDLE_S))
        if not ahead.has_some and ahead.error is None:
            # It will take a while: let the server know how far we have come.
            line.do_if_connected(partial(self._calls.core.used, ahead, idle=True))
            await line.arrived(ahead, deadline)

    @property
    def _opened(self) -> ReadAhead:
        assert self.ahead is not None
        return self.ahead

    async def done(self) -> None:
        ahead = self._opened
        if ahead.use():
            self._calls.line.used(ahead)

    async def ack(self) -> None:
        slot = self._calls.line.slot()
        await self._ask(slot, partial(self._calls.core.settle, self._opened, slot))

    async def retry(self, delay_s: float) -> None:
        slot = self._calls.line.slot()
        await self._ask(slot, partial(self._calls.core.return_at_hand, self._opened, delay_s, None, slot))

    async def reject(self, reason: str) -> None:
        slot = self._calls.line.slot()
        await self._ask(slot, partial(self._calls.core.return_at_hand, self._opened, 0.0, reason, slot))

    async def _ask(self, slot: Any, ask: Callable[[], None]) -> None:
        ahead, line = self._opened, self._calls.line

        def step() -> bool:
            if not ahead.is_lost:
                ask()
            return not ahead.is_lost

        if not line.do_if_connected(step):
            # The server has taken it back, if it is persistent; if not, it had let go of it.
            raise ahead.error or ConnectionLost(self._calls.core.peer, line.problem)
        await line.answer(slot)

    async def close(self, *, tried: bool) -> None:
        if self._ended or self.ahead is None:
            return
        self._ended = True
        slot = self._calls.line.slot()
        if self._calls.line.do_if_connected(partial(self._stop, self.ahead, tried, slot)):
            with contextlib.suppress(ConnectionLost, ConnectionClosed, Fenced):  # the server has given it back
                await self._calls.line.answer(slot)

    def abandon(self, *, tried: bool) -> None:
        if not self._ended and self.ahead is not None:
            self._ended = True
            self._calls.line.do_later(partial(self._stop, self.ahead, tried, self._calls.line.slot()))

    def _stop(self, ahead: ReadAhead, tried: bool, slot: Any) -> bool:
        core = self._calls.core
        if not self._calls.forget_ahead(ahead):
            return False
        core.used(ahead, idle=True)
        core.ask(Verb.STOP_CONSUMING, core.stop_frame(ahead, tried=tried), slot)
        return True
