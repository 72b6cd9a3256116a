# SPDX-License-Identifier: Apache-2.0
"""The asyncio twin of `entrepot.connect`: the same verbs as coroutines, through every binding.

async with await entrepot.aio.connect("unix:./qm1") as connection:
    await connection.put("ORDERS", b"...", persistent=True)
    async with connection.unit_of_work() as unit:
        order = await unit.get("ORDERS", wait_s=1)
        await unit.put("DONE", order.body, persistent=True)
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack
from weakref import WeakSet

from entrepot import checks
from entrepot import connection as blocking
from entrepot.aio_consuming import AioIncoming, Consumption
from entrepot.aio_embedded import AioEmbedded
from entrepot.binding import RunningUnit
from entrepot.channels.address import parse
from entrepot.channels.aio_client import AioClient
from entrepot.embedded import current_user
from entrepot.errors import ConnectionClosed, EntrepotError
from entrepot.limits import CONSUMER_CREDIT_MAX
from entrepot.message import Message, MessageType
from entrepot.mqsc import Answer, require_ok
from entrepot.options import (
    GetOptions,
    PutOptions,
    SubscribeOptions,
    criteria,
    draft,
    drafts,
    publication,
    reply_options,
    reply_to,
    subscription,
)
from entrepot.queues import definitions
from entrepot.queues.claims import Claim, require_epoch, require_name, require_prefix, status_form
from entrepot.queues.definitions import MODEL_QUEUE, require_subscription_name
from entrepot.queues.unit_of_work import UnitState

__all__ = ["Connection", "Consumption", "Subscription", "SubscriptionConsumption", "UnitOfWork", "connect"]

_BROWSE_AT_ONCE = 500


async def connect(
    url: str, *, application: str = "", user: str = "", password: str = "", reconnect_s: float = 30.0
) -> Connection:
    """Connect as `entrepot.connect` does; nothing of it blocks the event loop."""
    checks.text("application", application)
    name = application or blocking.program()
    if not isinstance(url, str) or url.startswith("embedded:"):
        host, leave = await asyncio.to_thread(blocking.share_host, url)
        return Connection(AioEmbedded(host, leave, name), application=name)
    address = parse(url, user=user, password=password)
    client = AioClient(address, application=name, reconnect_s=checks.seconds("reconnect_s", reconnect_s))
    await client.open()
    return Connection(client, application=name)


class _Verbs:
    """What a connection and a unit of work have in common."""

    _connection: Connection
    _unit: RunningUnit | None

    async def put(
        self, queue: str | Sequence[str], body: bytes | bytearray | memoryview, **options: Unpack[PutOptions]
    ) -> bytes:
        """Leave a message, as `entrepot.Connection.put` does; durable, where it has to be, when awaited."""
        connection = self._connection
        message, persistent, priority, wait_s = draft(
            body, options, user=connection.user, application=connection.application
        )
        message_id: bytes = await connection.binding.put(
            queue, message, persistent=persistent, priority=priority, unit=self._unit, wait_s=wait_s
        )
        return message_id

    async def publish(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        retain: bool = False,
        **options: Unpack[PutOptions],
    ) -> bytes:
        """Let everybody have a message who has subscribed to the topic, as `entrepot.Connection.publish` does."""
        connection = self._connection
        name, (message, persistent, priority, wait_s) = publication(
            topic, body, options, retain=retain, user=connection.user, application=connection.application
        )
        message_id: bytes = await connection.binding.put(
            name, message, persistent=persistent, priority=priority, unit=self._unit, wait_s=wait_s
        )
        return message_id

    async def get(self, queue: str, *, wait_s: float = 0.0, **options: Unpack[GetOptions]) -> Message | None:
        """Take a message, as `entrepot.Connection.get` does.

        Cancelling it loses nothing: a message that came at the last moment goes
        back to its place or, when it has left its queue already, is returned in
        spite of the cancellation.
        """
        wait_s = checks.wait("wait_s", wait_s) if wait_s != 0 else 0.0
        message: Message | None = await self._connection.binding.get(
            queue, criteria(options), unit=self._unit, wait_s=wait_s
        )
        return message


class UnitOfWork(_Verbs):
    """Puts and gets that happen together or not at all; use it with `async with`."""

    def __init__(self, connection: Connection, unit: RunningUnit) -> None:
        self._connection = connection
        self._unit: RunningUnit = unit

    @property
    def state(self) -> str:
        """active, prepared, committed, backed out, or unknown when a connection broke at its end"""
        return self._unit.state.value

    async def put_many(
        self, queue: str, bodies: Iterable[bytes | bytearray | memoryview], **options: Unpack[PutOptions]
    ) -> list[bytes]:
        """Put a message for each body with one verb, as `entrepot.UnitOfWork.put_many` does."""
        connection = self._connection
        puts = drafts(queue, bodies, options, user=connection.user, application=connection.application)
        message_ids: list[bytes] = await connection.binding.put_many(self._unit, puts)
        return message_ids

    async def get_many(
        self, queue: str, limit: int = 100, *, wait_s: float = 0.0, **options: Unpack[GetOptions]
    ) -> list[Message]:
        """Up to `limit` messages with one verb, as `entrepot.UnitOfWork.get_many` gets them."""
        limit = checks.whole_number("limit", limit, 1, CONSUMER_CREDIT_MAX)
        wait_s = checks.wait("wait_s", wait_s)
        found: list[Message] = await self._connection.binding.get_many(
            queue, limit, criteria(options), unit=self._unit, wait_s=wait_s
        )
        return found

    async def get_group(self, queue: str, *, wait_s: float = 0.0, selector: str | None = None) -> list[Message] | None:
        """All messages of the next group that is whole, in sequence."""
        wanted = criteria({"selector": selector, "whole_group": True})
        found: list[Message] | None = await self._connection.binding.get_group(
            queue, wanted, unit=self._unit, wait_s=checks.wait("wait_s", wait_s)
        )
        return found

    async def commit(self, *, counted: bool = True) -> None:
        """Let everything happen; on disk when awaited. `counted` is `entrepot.UnitOfWork.commit`'s."""
        checks.flag("counted", counted)
        await self._end(self._connection.binding.commit(self._unit, counted=counted))

    async def back_out(self, *, counted: bool = True) -> None:
        """Let nothing happen: puts vanish, gets return with a raised backout count, unless it is not counted."""
        checks.flag("counted", counted)
        await self._end(self._connection.binding.back_out(self._unit, counted=counted))

    async def prepare(self, transaction_id: bytes) -> None:
        """Leave the outcome to a coordinator, who says it with `Connection.resolve`."""
        await self._end(self._connection.binding.prepare(self._unit, checks.transaction_id(transaction_id)))

    async def _end(self, verb: Coroutine[Any, Any, None]) -> None:
        try:
            await verb
        finally:
            if self._unit.state is not UnitState.ACTIVE:
                self._connection.ended(self._unit)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._unit.state is not UnitState.ACTIVE:
            return  # ended by hand
        if kind is not None:
            await self.back_out()
            return
        try:
            await self.commit()
        except BaseException:
            if self._unit.state is UnitState.ACTIVE:
                await self.back_out()
            raise


class Connection(_Verbs):
    """A connection for the tasks of one event loop."""

    def __init__(self, binding: Any, *, application: str) -> None:
        self._connection = self
        self._unit = None
        self._binding: Any = binding
        self.user = current_user()
        self.application = application
        self._temporary: list[str] = []
        self._reply_queue = ("", 0)
        self._making_reply_queue = asyncio.Lock()
        self._units: set[RunningUnit] = set()
        self._subscriptions: set[Subscription] = set()
        self._consumptions: WeakSet[Consumption] = WeakSet()

    @property
    def binding(self) -> Any:
        if self._binding is None:
            raise ConnectionClosed()
        return self._binding

    async def browse(self, queue: str, **options: Unpack[GetOptions]) -> AsyncIterator[Message]:
        """Look at a queue's messages without taking them."""
        wanted, place = criteria(options), None
        while True:
            found, place = await self.binding.browse(queue, wanted, place, _BROWSE_AT_ONCE)
            if not found:
                return
            for message in found:
                yield message

    async def consume(
        self, queue: str, *, read_ahead: int = 100, wait_s: float = math.inf, **options: Unpack[GetOptions]
    ) -> Consumption:
        """Messages one after another, for `async for`, as `entrepot.Connection.consume` gives them."""
        credit = checks.whole_number("read_ahead", read_ahead, 1, CONSUMER_CREDIT_MAX)
        wanted = criteria(options)
        wait_s = checks.wait("wait_s", wait_s)

        async def open_incoming() -> AioIncoming:
            incoming: AioIncoming = await self.binding.consume(queue, wanted, credit)
            return incoming

        consumption = Consumption(open_incoming, await open_incoming(), wait_s)
        self._consumptions.add(consumption)
        return consumption

    def unit_of_work(self) -> UnitOfWork:
        """Begin a unit of work; use it with `async with`."""
        unit: RunningUnit = self.binding.begin()
        self._units.add(unit)
        return UnitOfWork(self, unit)

    def ended(self, unit: RunningUnit) -> None:
        """A unit of work of this connection has come to its end."""
        self._units.discard(unit)

    async def request(
        self,
        queue: str,
        body: bytes | bytearray | memoryview,
        *,
        timeout_s: float = 30.0,
        **options: Unpack[PutOptions],
    ) -> Message:
        """Put a request and wait for its reply, as `entrepot.Connection.request` does."""
        timeout_s = checks.seconds("timeout_s", timeout_s, positive=True)
        while True:
            reply_queue = await self.reply_queue()
            options |= {"type": MessageType.REQUEST, "reply_to": reply_queue, "expiry_s": timeout_s}
            message, persistent, priority, _ = draft(body, options, user=self.user, application=self.application)
            reply: Message | None = await self.binding.request(
                queue,
                message,
                reply_queue,
                timeout_s,
                persistent=persistent,
                priority=priority,
                opened=self._reply_queue[1],
            )
            if reply is not None:
                return reply

    async def reply(
        self, request: Message, body: bytes | bytearray | memoryview, **options: Unpack[PutOptions]
    ) -> bytes:
        """Answer a request on the queue it names, under its message id."""
        return await self.put(reply_to(request), body, **reply_options(request, options))

    async def subscribe(self, topic: str | None = None, **options: Unpack[SubscribeOptions]) -> Subscription:
        """Have what is published on a topic from now on, as `entrepot.Connection.subscribe` does."""
        wanted, new_only = subscription(topic, options)
        opened = Subscription(self.binding, wanted, self._subscriptions.discard, self._consumptions)
        await opened.open(new_only=new_only)
        self._subscriptions.add(opened)
        return opened

    async def unsubscribe(self, durable: str) -> None:
        """End a durable subscription, and discard what it has collected."""
        await self.binding.unsubscribe(require_subscription_name(durable))

    async def reply_queue(self) -> str:
        """The temporary queue on which this connection waits for replies."""
        async with self._making_reply_queue:  # many requests at once share one
            name, opened = self._reply_queue
            while not name or opened != self.binding.opened:
                opened = self.binding.opened
                name = await self.dynamic_queue()
                self._reply_queue = (name, opened)
            return name

    async def dynamic_queue(self, model: str = MODEL_QUEUE, pattern: str = "ENTREPOT.*") -> str:
        """Create a queue after a model and return its name; a temporary one goes with this connection."""
        name: str = await self.binding.make_dynamic(model, pattern)
        self._temporary.append(name)
        return name

    async def mqsc(self, script: str, *, source: str = "-") -> list[Answer]:
        """Run administration commands and return their answers."""
        answers: list[Answer] = await self.binding.mqsc(script, source)
        require_ok(answers)
        return answers

    async def in_doubt(self) -> list[bytes]:
        """The transaction ids of units that were prepared and not resolved."""
        found: list[bytes] = await self.binding.in_doubt()
        return found

    async def resolve(self, transaction_id: bytes, *, commit: bool) -> None:
        """Carry out a coordinator's decision about a prepared unit of work."""
        await self.binding.resolve(checks.transaction_id(transaction_id), commit=checks.flag("commit", commit))

    async def claim(self, name: str, epoch: int, *, status: Mapping[str, Any] | None = None) -> str:
        """Act under a name, as `entrepot.Connection.claim` does; returns the order that was given to it."""
        order: str = await self.binding.claim(require_name(name), require_epoch(epoch), status_form(status))
        return order

    async def retire(self, name: str, epoch: int) -> None:
        """Let nobody below an epoch act under a name, as `entrepot.Connection.retire` does."""
        await self.binding.retire(require_name(name), require_epoch(epoch))

    async def instruct(self, prefix: str, order: str) -> int:
        """Give an order to all who act under names that begin so; returns how many they are."""
        count: int = await self.binding.instruct(require_prefix(prefix), order)
        return count

    async def claims(self, prefix: str = "") -> list[Claim]:
        """Who acts under names that begin so, and who last did."""
        found: list[Claim] = await self.binding.claims(require_prefix(prefix))
        return found

    async def next_epoch(self, prefix: str) -> int:
        """A number above all that were ever claimed, retired or given under names that begin so."""
        epoch: int = await self.binding.next_epoch(require_prefix(prefix))
        return epoch

    async def close(self) -> None:
        """Back out what is open and let the queue manager go."""
        if self._binding is None:
            return
        binding = self._binding
        try:
            for consumption in list(self._consumptions):
                await consumption.give_back()
            for unit in list(self._units):
                if unit.state is UnitState.ACTIVE:
                    await binding.back_out(unit)
            for opened in list(self._subscriptions):
                await opened.close()
            if isinstance(binding, AioEmbedded):
                binding.remove_temporary(self._temporary)
        finally:
            self._binding = None
            await binding.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Subscription:
    """The asyncio twin of `entrepot.subscription.Subscription`: the same promises, as coroutines."""

    def __init__(
        self,
        binding: Any,
        wanted: definitions.Subscription,
        closed: Callable[[Subscription], None],
        consumptions: WeakSet[Consumption],
    ) -> None:
        self._binding = binding
        self._wanted = wanted
        self._tell_closed = closed
        self._consumptions = consumptions
        self._found = wanted
        self._opened = 0
        self._opening = asyncio.Lock()
        self._closed = False

    async def open(self, *, new_only: bool) -> None:
        self._found = await self._binding.subscribe(self._wanted, new_only=new_only)
        self._opened = self._binding.opened

    @property
    def name(self) -> str:
        """Under which others may share it, or the durable name."""
        return self._found.name

    @property
    def durable(self) -> bool:
        return self._found.durable

    @property
    def opened(self) -> int:
        """Counts the connections it has been open on."""
        opened: int = self._binding.opened
        return opened

    async def queue(self) -> str:
        """The queue on which its publications are."""
        async with self._opening:
            if self._opened != self._binding.opened and not self._closed:
                await self.open(new_only=True)
        return self._found.destination

    async def get(self, *, wait_s: float = 0.0, **options: Unpack[GetOptions]) -> Message | None:
        """The next publication, or None when none comes within `wait_s`."""
        wait_s = checks.wait("wait_s", wait_s) if wait_s != 0 else 0.0
        wanted = criteria(options)
        deadline = time.monotonic() + wait_s
        while True:
            queue = await self.queue()
            try:
                message: Message | None = await self._binding.get(queue, wanted, unit=None, wait_s=wait_s)
                return message
            except EntrepotError:
                # The connection broke meanwhile, and the queue may have gone with it.
                if self._opened == self._binding.opened or self._closed:
                    raise
            wait_s = max(deadline - time.monotonic(), 0.0)

    async def consume(self, *, read_ahead: int = 100, wait_s: float = math.inf) -> SubscriptionConsumption:
        """Publications one after another, for `async for`."""
        credit = checks.whole_number("read_ahead", read_ahead, 1, CONSUMER_CREDIT_MAX)
        incoming = await self.open_consumer(credit)
        consumption = SubscriptionConsumption(self, incoming, credit, checks.wait("wait_s", wait_s))
        self._consumptions.add(consumption)
        return consumption

    async def open_consumer(self, read_ahead: int) -> AioIncoming:
        incoming: AioIncoming = await self._binding.consume(await self.queue(), None, read_ahead)
        return incoming

    async def close(self) -> None:
        """Read it no longer; a durable one goes on collecting."""
        if not self._closed:
            self._closed = True
            self._tell_closed(self)
            if self._opened == self._binding.opened:
                await self._binding.leave_subscription(self._found.name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class SubscriptionConsumption(Consumption):
    """The publications of `Subscription.consume`; goes on over a broken connection."""

    def __init__(self, opened_by: Subscription, incoming: AioIncoming, read_ahead: int, wait_s: float) -> None:
        super().__init__(lambda: opened_by.open_consumer(read_ahead), incoming, wait_s)
        self._subscription = opened_by
        self._opened = opened_by.opened

    async def _receive(self, incoming: AioIncoming, wait_s: float) -> Message | None:
        while True:
            try:
                return await incoming.get(wait_s)
            except EntrepotError:
                # The queue of one that is not durable went with the connection that broke.
                if self._opened == self._subscription.opened:
                    raise
            self._opened = self._subscription.opened
            self._incoming = incoming = await self._open()
