# SPDX-License-Identifier: Apache-2.0
"""Puts and gets that happen together or not at all; and the verbs that a connection and a unit of work share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Protocol, Self, Unpack

from entrepot import checks
from entrepot.client.aio.calls import Calls
from entrepot.client.consumed import reason_text
from entrepot.client.options import GetOptions, PutOptions, Sender, criteria, draft, drafts, publication
from entrepot.client.read_ahead import RemoteUnit
from entrepot.engine.unit_of_work import UnitState
from entrepot.limits import CONSUMER_CREDIT_MAX
from entrepot.message import Message, PutInUnit


class Verbs:
    """What a connection and a unit of work have in common."""

    def __init__(self, calls: Calls, sender: Sender, unit: RemoteUnit | None) -> None:
        self.calls = calls
        self._sender = sender
        self._unit = unit

    async def put(
        self,
        queue: str | Sequence[str],
        body: bytes | bytearray | memoryview,
        **options: Unpack[PutOptions],
    ) -> bytes:
        """Put a message on a queue; returns its message id.

        Outside of a unit of work a persistent message is on disk when this
        returns; a nonpersistent one is in memory and dies with the queue
        manager. Inside, no reader sees it before the commit. `PutOptions` lists
        what may be said about the message. Several queues, or the name of a
        NAMELIST, make a distribution list: all get the message, or none.

        Raises:
            QueueNotFound, PutInhibited, MessageTooLong: Nothing was stored.
            QueueFull, LogFull, DiskFull: Nothing was stored; retry later.
            InvalidArgument: An argument is wrong; nothing was stored.
            DiskFailed: Whether it was stored is unknown; the queue manager has stopped.
        """
        persistent = options.get("persistent")
        if (
            self._unit is None
            and body.__class__ is bytes
            and queue.__class__ is str
            and len(options) == (persistent.__class__ is bool)
        ):
            return await self.calls.line.put_plain(queue, body, persistent, self._sender)
        message, persistent, priority, wait_s = draft(body, options, self._sender)
        return await self.calls.put(
            queue, message, persistent=persistent, priority=priority, unit=self._unit, wait_s=wait_s
        )

    async def put_message(
        self,
        queue: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None = None,
        priority: int | None = None,
        wait_s: float = 0.0,
    ) -> bytes:
        """Put a message as it is, with all its attributes but its user and application; returns its message id."""
        return await self.calls.put(
            queue, message, persistent=persistent, priority=priority, unit=self._unit, wait_s=wait_s
        )

    async def publish(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        retain: bool = False,
        **options: Unpack[PutOptions],
    ) -> bytes:
        """Publish a message to all subscribers of a topic; returns its message id.

        All of them have it, or none: what a subscriber's queue refuses goes to
        the dead-letter queue, unless the topic says otherwise. With `retain` it is
        kept for subscribers to come, in place of what was kept before. For the
        rest it is a put: persistent or not, in a unit of work or on its own.

        Raises:
            InvalidTopic, PublishInhibited, PublicationFailed, MessageTooLong: No subscriber has it.
        """
        name, (message, persistent, priority, wait_s) = publication(topic, body, options, self._sender, retain=retain)
        return await self.calls.put(
            name, message, persistent=persistent, priority=priority, unit=self._unit, wait_s=wait_s
        )

    async def get(self, queue: str, *, wait_s: float = 0.0, **options: Unpack[GetOptions]) -> Message | None:
        """Take the next message off a queue, or None when there is none within `wait_s`.

        `GetOptions` says which message it has to be, if not just the next one.
        Outside of a unit of work the message has left for good; inside, it comes
        back with a raised `backout_count` unless the unit commits, and moves to
        the backout queue once the queue's threshold is reached.

        A task that is cancelled meanwhile loses nothing: a message that came at
        the last moment goes back to its place or, when it has left its queue
        already, is returned in spite of the cancellation.

        Raises:
            QueueNotFound, GetInhibited, SelectorSyntaxError: No message was taken.
            DiskFailed: Whether one was taken is unknown; the queue manager has stopped.
        """
        if wait_s != 0:
            wait_s = checks.wait("wait_s", wait_s)
        return await self.calls.get(queue, criteria(options), unit=self._unit, wait_s=wait_s)


class UnitOfWork(Verbs):
    """Puts and gets that happen together or not at all.

    As a context manager it commits at the end and backs out on an exception.
    One user at a time: a thread, or a task.
    """

    def __init__(self, calls: Calls, sender: Sender, unit: RemoteUnit, ended: Callable[[RemoteUnit], None]) -> None:
        super().__init__(calls, sender, unit)
        self.remote = unit
        """What the client knows of it."""
        self._tell_ended = ended

    @property
    def local(self) -> UnitOfWork:
        """What a global unit has of this kind."""
        return self

    @property
    def state(self) -> str:
        """active, committing, prepared, committed, backed out, or unknown when a connection broke at its end"""
        return self.remote.state.value

    async def put_many(
        self, queue: str, bodies: Iterable[bytes | bytearray | memoryview], **options: Unpack[PutOptions]
    ) -> list[bytes]:
        """Put a message for each body, alike in all else, with one verb; their message ids.

        A message that is refused is reported when the unit commits, as of `put`.

        Raises:
            InvalidArgument: An argument is wrong, or an option belongs to one message; nothing was put.
            MessageTooLong: The channel would not take one of them; nothing was put.
        """
        persistent = options.get("persistent")
        if (
            len(options) == (persistent.__class__ is bool)
            and bodies.__class__ is list
            and set(map(type, bodies)) == {bytes}
        ):
            return await self.calls.put_bodies(self.remote, queue, bodies, persistent, self._sender)
        return await self.calls.put_many(self.remote, drafts(queue, bodies, options, self._sender))

    async def put_messages(self, puts: Sequence[PutInUnit], *, answered: bool = False) -> list[bytes]:
        """Put messages as they are: queue, persistence and priority asked for, and message of each.

        Raises:
            EntrepotError: If `answered`, the first one that was refused; else that is raised by `commit`.
        """
        return await self.calls.put_many(self.remote, puts, answered=answered)

    async def get_group(self, queue: str, *, wait_s: float = 0.0, selector: str | None = None) -> list[Message] | None:
        """All messages of the next group that is whole, in sequence; a message of no group is one alone."""
        wanted = criteria({"selector": selector, "whole_group": True})
        assert wanted is not None
        return await self.calls.get_group(queue, wanted, unit=self.remote, wait_s=checks.wait("wait_s", wait_s))

    async def get_many(
        self, queue: str, limit: int = 100, *, wait_s: float = 0.0, **options: Unpack[GetOptions]
    ) -> list[Message]:
        """Up to `limit` messages with one verb; only the first is waited for, so none means that none came.

        An error behind the first message ends the batch, and what was got is
        returned; the next call raises the error and gets nothing.

        Raises:
            TooManyUncommitted: The unit is full (MAXUMSGS); commit it. Nothing was got.
            QueueNotFound, GetInhibited: Nothing was got.
        """
        limit = checks.whole_number("limit", limit, 1, CONSUMER_CREDIT_MAX)
        wait_s = checks.wait("wait_s", wait_s)
        return await self.calls.get_many(queue, limit, criteria(options), unit=self.remote, wait_s=wait_s)

    async def commit(self, *, counted: bool = True) -> None:
        """Let everything happen; on disk when this returns.

        With `counted=False` messages that return, because a put was refused for
        instance, return as `back_out(counted=False)` gives them back.

        Raises:
            UnitBackedOut: The disk is full; nothing happened, and the gets are back on their queues.
            LogFull: The unit is still active; commit again later, or back out.
            DiskFailed: The outcome is unknown; the queue manager has stopped.
            ConnectionLost: The outcome is unknown; the connection broke while the unit was ending.
            QueueingError: A put of this unit was refused; the unit is backed out.
            Fenced: Another connection holds this connection's claim; the unit is backed out.
        """
        checks.flag("counted", counted)
        try:
            await self.calls.commit(self.remote, counted=counted)
        finally:
            self._ended()

    async def begin_commit(self) -> None:
        """Ask for a commit without waiting for it; messages that return do so uncounted. `finish_commit` has to follow.

        The next unit may begin at once, and get messages of the same readers. It
        will be committed after this one or, should this one fail, backed out.

        Raises:
            UnitBackedOut: The unit before it, whose readers it shares, has failed; this one was backed out as well.
            UnitFinished, ConnectFailed, Fenced: It was not asked for.
        """
        try:
            await self.calls.begin_commit(self.remote)
        finally:
            self._ended()

    async def finish_commit(self) -> None:
        """Return when everything has happened that `begin_commit` has asked for.

        Raises:
            EntrepotError: As for `commit`, but the unit is not active any more: what was not committed is backed out.
        """
        try:
            await self.calls.finish_commit(self.remote)
        finally:
            self._ended()

    async def back_out(self, *, counted: bool = True, delay_s: float = 0.0) -> None:
        """Let nothing happen: puts vanish, gets return with a raised backout count.

        With `counted=False` they return as if they had not been got: for readers
        that give a batch back to take its messages one by one. A crash counts all the same.
        With `delay_s` readers can get them after so many seconds; a restart of the
        queue manager ends the delay.
        """
        checks.flag("counted", counted)
        delay_s = checks.seconds("delay_s", delay_s)
        try:
            await self.calls.back_out(self.remote, counted=counted, delay_s=delay_s)
        finally:
            self._ended()

    async def reject(self, reason: str) -> None:
        """Let nothing happen but this: gets move to their queue's BOQNAME, or else to the dead-letter queue.

        The reason is their `dead_letter_problem`.

        Raises:
            QueueNotFound, QueueFull: Neither takes them; they are back on their queues with a raised `backout_count`.
        """
        try:
            await self.calls.back_out(self.remote, rejected=reason_text(reason))
        finally:
            self._ended()

    async def prepare(self, transaction_id: bytes) -> None:
        """Leave the outcome to a coordinator, who decides it with `Connection.resolve`, even after a restart."""
        name = checks.transaction_id(transaction_id)
        try:
            await self.calls.prepare(self.remote, name)
        finally:
            self._ended()

    def _ended(self) -> None:
        if self.remote.state not in (UnitState.ACTIVE, UnitState.ENDING):
            self._tell_ended(self.remote)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.remote.state is not UnitState.ACTIVE:
            return  # ended by hand
        if kind is not None:
            await self.back_out()
            return
        try:
            await self.commit()
        except BaseException:
            if self.remote.state is UnitState.ACTIVE:
                await self.back_out()
            raise


class AnyUnit(Protocol):
    """`UnitOfWork`, or a global one."""

    @property
    def local(self) -> UnitOfWork: ...
