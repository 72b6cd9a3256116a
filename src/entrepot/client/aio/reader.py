# SPDX-License-Identifier: Apache-2.0
"""Messages that come one after another in units of work: those of `Connection.reader`."""

from __future__ import annotations

import time
from functools import partial
from typing import Self

from entrepot import checks
from entrepot.client.aio.calls import Calls
from entrepot.client.aio.unit_of_work import AnyUnit
from entrepot.client.read_ahead import HeldAhead, RemoteUnit
from entrepot.client.requests import queue_name, wanted
from entrepot.engine.criteria import Criteria
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import ConnectionClosed, ConnectionLost, InvalidArgument, TooManyUncommitted, UnitBackedOut
from entrepot.limits import CONSUMER_CREDIT_MAX
from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb


class Reader:
    """A queue's messages for units of work, global ones too, one after the other; for one user, like these.

    Survives its connection. All that it has handed out belongs to one unit of work, until that ends.
    """

    def __init__(self, calls: Calls, queue: str, criteria: Criteria | None, read_ahead: int) -> None:
        self.queue = queue_name(queue)
        self._calls = calls
        self._criteria = criteria
        self._read_ahead = read_ahead
        self._ahead: HeldAhead | None = None
        self._unit: RemoteUnit | None = None
        """The last one that has got something."""
        self._ended = False

    async def get(self, unit: AnyUnit, *, wait_s: float = 0.0) -> Message | None:
        """The next message, or None when none comes within `wait_s`.

        It leaves its queue when the unit commits, and comes back with a raised
        `backout_count` unless it does. The next unit may ask when this one has ended.

        Raises:
            QueueNotFound, GetInhibited: No message was got. It may be tried again.
            UnitBackedOut: The connection broke; what the unit had got comes again.
            TooManyUncommitted: The unit is full; commit it first.
            InvalidArgument: The unit is another connection's, or another one has messages of this reader.
        """
        messages = await self.get_many(unit, 1, wait_s=wait_s)
        return messages[0] if messages else None

    async def get_many(self, unit: AnyUnit, limit: int, *, wait_s: float = 0.0) -> list[Message]:
        """The next messages that are here, up to `limit`; only the first is waited for.

        All of them count as tried if the unit does not commit. Through a channel
        one that was tried before comes alone, so that it cannot take others with
        it twice.

        Raises:
            QueueNotFound, GetInhibited, UnitBackedOut, TooManyUncommitted, InvalidArgument: As for `get`.
        """
        local = unit.local
        if local.calls is not self._calls:
            raise InvalidArgument("unit", "it belongs to another connection", "one of the reader's connection")
        if self._calls.line.is_closed:
            raise ConnectionClosed()
        own = local.remote
        # Messages leave in their order, so two units cannot have some each.
        if self._unit not in (None, own) and self._unit.state is UnitState.ACTIVE:
            raise InvalidArgument("unit", "another one has messages of this reader", "that one, until it ends")
        messages = await self._get(own, limit, checks.wait("wait_s", wait_s))
        if messages:
            if self._unit is not own and self._unit is not None and self._unit.state is UnitState.ENDING:
                own.behind.append(self._unit)
            self._unit = own
        return messages

    @property
    def ready(self) -> int:
        """How many messages have come ahead and wait here."""
        return self._ahead.count if self._ahead is not None else 0

    async def _get(self, unit: RemoteUnit, limit: int, wait_s: float) -> list[Message]:
        deadline = time.monotonic() + wait_s
        asked = False
        while not self._ended:
            if self._read_ahead == 1 or self._calls.line.is_near:
                # In one process nothing has to come ahead: what does is only kept from others.
                return await self._calls.get_many(self.queue, limit, self._criteria, unit=unit, wait_s=wait_s)
            ahead = await self._open(unit)
            if ahead is None:
                continue
            messages = await self._hand_out(ahead, unit, limit)
            if messages:
                return messages
            if ahead.is_lost:
                self._ahead = None
                asked = False
            elif ahead.has_expired:
                await self._stop()
                asked = False
            elif (error := ahead.error) is not None:
                await self._stop()
                raise error
            elif asked:
                return []
            else:
                await self._calls.line.arrived(ahead, deadline)
                if not ahead.has_some and ahead.error is None:
                    await self._calls.hear_all()
                asked = time.monotonic() >= deadline
        await self._stop()  # closed by another, maybe while it was opened again
        return []

    async def _open(self, unit: RemoteUnit) -> HeldAhead | None:
        """Where messages come; None when the connection has broken once more, or nothing is read ahead by it."""
        if self._ahead is None:
            calls = self._calls
            try:
                ahead, limit = await calls.open_ahead(
                    partial(calls.core.hold, self.queue, wanted(self._criteria), self._read_ahead)
                )
            except ConnectionLost as error:
                if unit.used and unit.state is UnitState.ACTIVE:
                    unit.state = UnitState.BACKED_OUT
                    raise UnitBackedOut(unit.number, error.problem) from error
                if not calls.line.mends_itself:
                    raise
                return None
            ahead.begin(limit)
            self._ahead = ahead
            if not ahead.limit:
                # An older server does not know of such consumers, and would not let their messages go with a unit.
                self._read_ahead = 1
                await self._stop()
        return self._ahead

    async def _hand_out(self, ahead: HeldAhead, unit: RemoteUnit, limit: int) -> list[Message]:
        """What came first of what is here, now in the unit; the server is told before the application has it.

        Raises:
            UnitBackedOut: Its connection broke.
            TooManyUncommitted: Nothing was handed out.
        """
        core, was_used = self._calls.core, unit.used

        def step() -> list[Message]:
            core.require_active(unit)
            core.require_unit(unit)
            unit.used = was_used  # it becomes so with what it is handed
            if ahead.is_lost or ahead.has_expired:
                return []
            if unit.messages >= ahead.limit:
                raise TooManyUncommitted(unit.number, ahead.limit, "messages")
            assert ahead.unit in (None, unit), "its messages leave in their order, so two units cannot have some each"
            if ahead not in unit.aheads:
                unit.aheads.append(ahead)
            messages = ahead.next_few(min(limit, ahead.limit - unit.messages))
            if messages:
                unit.used = True
                unit.messages += len(messages)
                ahead.unit = unit
            more = ahead.more()
            if messages or more:
                core.tell(Verb.CREDIT, verbs.Credit(ahead.number, 0, more, ahead.given))
            return messages

        messages = await self._calls.do_in(unit, step)
        if messages and ahead.is_lost:
            # They are on their queue again, and have not been seen.
            unit.used = was_used
            unit.messages -= len(messages)
            ahead.unit = None
            return []
        return messages

    def look_ahead(self, count: int) -> None:
        """Let so many messages come before they are asked for, from now on; what has come stays.

        Few, where each takes long: those that wait here are kept from other readers.
        """
        count = checks.whole_number("count", count, 1, CONSUMER_CREDIT_MAX)
        if self._read_ahead > 1 and count != self._read_ahead:
            self._read_ahead = max(count, 2)
            if self._ahead is not None:
                self._ahead.resize(self._read_ahead)

    async def _stop(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            await self._calls.stop_holding(ahead)

    async def close(self) -> None:
        """Let no more come. What a unit of work has got stays with it; what was read ahead is on its queue again."""
        if not self._ended:
            self._ended = True
            await self._stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
