# SPDX-License-Identifier: Apache-2.0
"""The embedded binding for asyncio: the engine never waits, so its verbs run on the event loop itself.

Only the force of the log runs elsewhere, one for all tasks that have gathered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from weakref import WeakSet

from entrepot.embedded import EmbeddedHolder, EmbeddedHost
from entrepot.errors import EntrepotError, LogFull, QueueFull, RequestTimedOut, SpillFailed
from entrepot.message import Message, PutInUnit
from entrepot.mqsc import Answer
from entrepot.queues.claims import Claim
from entrepot.queues.criteria import Criteria
from entrepot.queues.definitions import Subscription
from entrepot.queues.host import CHECKPOINTS_FOR_ROOM
from entrepot.queues.loop_host import LoopHost
from entrepot.queues.settlement import Settlement
from entrepot.queues.unit_of_work import Unit, UnitState
from entrepot.queues.waiting import Waiter

_FULL_RETRY_S = 0.005
_GROUP_RETRY_S = 0.01

Verb = Callable[[], Settlement | None]


class AioEmbedded:
    """What `channels.aio_client.AioClient` is for the other bindings."""

    opened = 1
    """Its one connection never breaks."""

    def __init__(self, host: EmbeddedHost, leave: Callable[[], None], application: str = "") -> None:
        self._host = host
        self._leave = leave
        self._engine = LoopHost(host)
        self._manager = host.manager
        self._units: WeakSet[Unit] = WeakSet()
        self._holder = EmbeddedHolder(host, self._units, application)
        self._checkpointing: asyncio.Future[None] | None = None

    @property
    def host(self) -> EmbeddedHost:
        return self._host

    async def _start(self, verb: Verb) -> asyncio.Future[EntrepotError | None] | None:
        """Run a verb; what is returned is done when its effect is on disk."""
        self._holder.require_unfenced()
        future: asyncio.Future[EntrepotError | None] = self._engine.loop.create_future()

        def done(error: EntrepotError | None) -> None:
            if not future.done():
                future.set_result(error)

        for _ in range(CHECKPOINTS_FOR_ROOM):
            try:
                return None if self._engine.run(verb, done) else future
            except LogFull:
                if not self._host.may_checkpoint:
                    raise
                await self._checkpoint()
            self._holder.require_unfenced()  # it may have been, meanwhile
        return None if self._engine.run(verb, done) else future

    async def _checkpoint(self) -> None:
        """Take a checkpoint beside the loop; all tasks that need one meanwhile share it."""
        if self._checkpointing is None or self._checkpointing.done():
            self._checkpointing = self._engine.loop.run_in_executor(None, self._host.checkpoint)
        await asyncio.shield(self._checkpointing)

    async def _durably(self, verb: Verb) -> None:
        future = await self._start(verb)
        if future is not None and (error := await future) is not None:
            raise error

    async def put(
        self,
        name: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None,
        priority: int | None,
        unit: Unit | None,
        wait_s: float,
    ) -> bytes:
        message_id = b""

        def put() -> Settlement | None:
            nonlocal message_id
            message_id, settlement = self._manager.put(
                name, message, persistent=persistent, priority=priority, unit=unit
            )
            return settlement

        deadline = self._engine.loop.time() + wait_s
        while True:
            try:
                await self._durably(put)
                break
            except (QueueFull, SpillFailed):
                if self._engine.loop.time() >= deadline:
                    raise
            await asyncio.sleep(_FULL_RETRY_S)
        if message.delay_s:
            self._host.wake_housekeeper()
        return message_id

    async def put_many(self, unit: Unit, puts: Sequence[PutInUnit]) -> list[bytes]:
        self._holder.require_unfenced()
        return self._host.put_many(unit, puts)  # in a unit of work nothing waits for the disk

    async def get(self, name: str, criteria: Criteria | None, *, unit: Unit | None, wait_s: float) -> Message | None:
        message: Message | None = None

        def get() -> Settlement | None:
            nonlocal message
            message, settlement = self._manager.get(name, criteria, unit)
            return settlement

        leaving = await self._start(get)
        if leaving is not None:
            await _to_the_end(leaving)
        if message is not None or wait_s == 0:
            return message
        return await self._wait_for(name, criteria, unit, wait_s)

    async def _wait_for(self, name: str, criteria: Criteria | None, unit: Unit | None, wait_s: float) -> Message | None:
        """Wait under a unit of work of its own, so that a cancelled wait gives back what came at the last moment."""
        host, engine = self._host, self._engine
        guard = unit or host.private_unit()
        self._units.add(guard)
        future: asyncio.Future[None] = engine.loop.create_future()
        waiter = Waiter(criteria, guard, engine.waker(partial(_arrived, future)))
        engine.wait(name, waiter)
        try:
            try:
                await asyncio.wait_for(future, wait_s)
            except TimeoutError:
                host.stop_waiting(waiter)
            if waiter.error is not None:
                raise waiter.error
            if unit is None:
                leaving = await self._start(partial(self._manager.commit, guard))
                if leaving is not None:
                    await _to_the_end(leaving)
            return waiter.message
        except BaseException:
            # Neither a cancellation nor a full log may leave a message locked that no one has.
            host.give_back(name, waiter)
            raise

    async def get_many(
        self, name: str, limit: int, criteria: Criteria | None, *, unit: Unit, wait_s: float
    ) -> list[Message]:
        first = await self.get(name, criteria, unit=unit, wait_s=wait_s)
        return [] if first is None else self._engine.get_some(name, criteria, unit, limit, got=[first])

    async def get_group(self, name: str, criteria: Criteria, *, unit: Unit, wait_s: float) -> list[Message] | None:
        deadline = self._engine.loop.time() + wait_s
        while True:
            messages = self._host.get_group(name, criteria, unit=unit)
            if messages is not None or self._engine.loop.time() >= deadline:
                return messages
            await asyncio.sleep(_GROUP_RETRY_S)

    async def request(
        self,
        name: str,
        message: Message,
        reply_queue: str,
        timeout_s: float,
        *,
        persistent: bool | None,
        priority: int | None,
        opened: int,
    ) -> Message:
        del opened  # it is always the same
        message_id = await self.put(name, message, persistent=persistent, priority=priority, unit=None, wait_s=0.0)
        reply = await self.get(reply_queue, Criteria(correlation_id=message_id), unit=None, wait_s=timeout_s)
        if reply is None:
            raise RequestTimedOut(name, timeout_s)
        return reply

    async def consume(self, name: str, criteria: Criteria | None, read_ahead: int) -> AioEmbeddedIncoming:
        del read_ahead  # nothing is far away here
        self._holder.require_unfenced()
        with self._host.lock:
            self._manager.readable(name)
        return AioEmbeddedIncoming(self, name, criteria)

    def retry(self, unit: Unit, delay_s: float) -> None:
        self._holder.require_unfenced()
        self._host.retry(unit, delay_s)

    async def reject(self, unit: Unit, reason: str) -> None:
        try:
            await self._durably(partial(self._manager.consequences.reject, unit, reason))
        except EntrepotError:
            self._host.back_out_if_active(unit)
            raise

    async def browse(
        self, name: str, criteria: Criteria | None, place: tuple[int, int] | None, limit: int
    ) -> tuple[list[Message], tuple[int, int] | None]:
        return self._host.browse(name, criteria, place, limit)

    def begin(self) -> Unit:
        self._holder.require_unfenced()
        unit = self._host.begin()
        self._units.add(unit)
        return unit

    async def commit(self, unit: Unit, *, counted: bool = True) -> None:
        await self._durably(partial(self._manager.commit, unit, counted=counted))

    async def back_out(self, unit: Unit, *, counted: bool = True) -> None:
        if self._holder.fenced is None or unit.state is UnitState.ACTIVE:
            self._host.back_out(unit, counted=counted)

    async def prepare(self, unit: Unit, transaction_id: bytes) -> None:
        await self._durably(partial(self._manager.in_doubt.prepare, unit, transaction_id))

    async def resolve(self, transaction_id: bytes, *, commit: bool) -> None:
        await self._durably(partial(self._manager.in_doubt.resolve, transaction_id, commit=commit))

    async def in_doubt(self) -> list[bytes]:
        return self._host.in_doubt()

    async def subscribe(self, wanted: Subscription, *, new_only: bool = False) -> Subscription:
        found = wanted

        def subscribe() -> Settlement | None:
            nonlocal found
            found, settlement = self._manager.publishing.subscribe(wanted, new_only=new_only)
            return settlement

        await self._durably(subscribe)
        return found

    async def leave_subscription(self, name: str) -> None:
        if self._host.failure is None:
            self._host.leave_subscription(name)

    async def unsubscribe(self, name: str) -> None:
        await self._durably(partial(self._manager.publishing.unsubscribe, name))

    async def mqsc(self, script: str, source: str) -> list[Answer]:
        return await asyncio.to_thread(self._host.mqsc, script, source)

    async def make_dynamic(self, model: str, pattern: str) -> str:
        return await asyncio.to_thread(self._host.make_dynamic, model, pattern)

    def remove_temporary(self, names: Sequence[str]) -> None:
        if self._host.failure is None:
            self._host.remove_temporary(names)

    async def claim(self, name: str, epoch: int, status: bytes) -> str:
        return await asyncio.to_thread(self._holder.claim, name, epoch, status)

    async def retire(self, name: str, epoch: int) -> None:
        await asyncio.to_thread(self._holder.retire, name, epoch)

    async def instruct(self, prefix: str, order: str) -> int:
        self._holder.require_unfenced()
        return self._holder.instruct(prefix, order)

    async def claims(self, prefix: str) -> list[Claim]:
        self._holder.require_unfenced()
        return self._holder.claims(prefix)

    async def next_epoch(self, prefix: str) -> int:
        return await asyncio.to_thread(self._holder.next_epoch, prefix)

    async def close(self) -> None:
        if self._host.failure is None:
            self._holder.leave()
        await asyncio.to_thread(self._leave)


class AioEmbeddedIncoming:
    """What `embedded.EmbeddedIncoming` is for threads."""

    def __init__(self, binding: AioEmbedded, name: str, criteria: Criteria | None) -> None:
        self._binding = binding
        self._name = name
        self._criteria = criteria
        self._unit: Unit | None = None
        self._getting = False
        self._ended = False

    async def get(self, wait_s: float) -> Message | None:
        """The next message, or None when none comes within `wait_s`."""
        if self._ended:
            return None
        self._unit = unit = self._binding.begin()
        self._getting = True
        message: Message | None = None
        try:
            message = await self._binding.get(self._name, self._criteria, unit=unit, wait_s=wait_s)
        finally:
            self._getting = False
            if message is None or self._ended:  # closed meanwhile, by another task
                self._binding.host.back_out_if_active(unit, counted=False)
                message = None
        return message

    async def done(self) -> None:
        await self.ack()

    async def ack(self) -> None:
        await self._binding.commit(self._at_hand)

    async def retry(self, delay_s: float) -> None:
        self._binding.retry(self._at_hand, delay_s)

    async def reject(self, reason: str) -> None:
        await self._binding.reject(self._at_hand, reason)

    @property
    def _at_hand(self) -> Unit:
        assert self._unit is not None
        return self._unit

    async def close(self, *, tried: bool) -> None:
        self.abandon(tried=tried)

    def abandon(self, *, tried: bool) -> None:  # noqa: ARG002  # its unit knows
        self._ended = True
        if self._unit is not None and not self._getting:
            self._binding.host.abandon(self._unit)


def _arrived(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _to_the_end(leaving: asyncio.Future[EntrepotError | None]) -> None:
    """Await the removal of a message; a cancellation in the middle of it comes too late to be heeded."""
    while not leaving.done():
        try:
            await asyncio.wait([leaving])
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or not current.cancelling():
                raise
            current.uncancel()
    error = leaving.result()
    if error is not None:
        raise error
