# SPDX-License-Identifier: Apache-2.0
"""A session: consumers, what they have received, and what is sent along with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, Unpack

from entrepot import checks
from entrepot.client.blocking import Connection, Subscription, UnitOfWork
from entrepot.client.options import GetOptions, PutOptions, criteria
from entrepot.errors import InvalidArgument
from entrepot.jms.consumer import Consumer
from entrepot.jms.reception import Acknowledge, Reception
from entrepot.jms.source import ConsumerSource
from entrepot.limits import CONSUMER_CREDIT_MAX

TOPIC = "topic:"
"""What the name of a destination begins with if it is no queue."""


class Session:
    """Sends and receives by one thread; only `close`, its own and that of its consumers, may come from another.

    Several sessions may share a connection, each with a thread.
    """

    def __init__(
        self, connection: Connection, acknowledge: Acknowledge = Acknowledge.AUTO, *, prefetch: int = 100
    ) -> None:
        """Begin a session.

        Args:
            acknowledge: When what was received is done with.
            prefetch: How many messages come to each consumer ahead of their use, through a channel; 1 is none. With
                AUTO only listeners read ahead, `receive` does not.
        """
        if not isinstance(acknowledge, Acknowledge):
            raise InvalidArgument("acknowledge", checks.shortened(acknowledge), "one of Acknowledge")
        prefetch = checks.whole_number("prefetch", prefetch, 1, CONSUMER_CREDIT_MAX)
        self._connection = connection
        self._mode = acknowledge
        self._reception = Reception(connection, acknowledge, prefetch)

    @property
    def on_error(self) -> Callable[[Exception], None] | None:
        """Told, on the session's thread, what callbacks raise and why listeners pause or end."""
        return self._reception.on_error

    @on_error.setter
    def on_error(self, callback: Callable[[Exception], None] | None) -> None:
        self._reception.on_error = callback

    # --- consumers ---------------------------------------------------------------------------------

    def consumer(self, destination: str, selector: str | None = None) -> Consumer:
        """Read a queue, or a topic for as long as the consumer is open. That a queue is missing, `receive` tells."""
        self._reception.require_open()
        if _is_topic(destination):
            return self._subscribed(self._connection.subscribe(_topic(destination), selector=selector or None))
        options: GetOptions = {"selector": selector} if selector else {}
        criteria(options)  # so that a wrong selector is told now
        return self._consumer(ConsumerSource(destination, options))

    def durable_consumer(self, topic: str, name: str, selector: str | None = None, *, shared: bool = False) -> Consumer:
        """Read a topic by a durable subscription, which collects while it has no reader, until `unsubscribe`.

        Raises:
            SubscriptionInUse: It has a reader, and not both asked for `shared`.
            SubscriptionDiffers: It exists with another topic or selector.
        """
        self._reception.require_open()
        return self._subscribed(
            self._connection.subscribe(_topic(topic), durable=name, selector=selector or None, shared=shared)
        )

    def shared_consumer(self, topic: str, name: str, selector: str | None = None) -> Consumer:
        """Read a topic together with all that name the same subscription: each message goes to one of them."""
        self._reception.require_open()
        return self._subscribed(
            self._connection.subscribe(_topic(topic), name=name, selector=selector or None, shared=True)
        )

    def unsubscribe(self, name: str) -> None:
        """End a durable subscription, and discard what it has collected."""
        self._reception.require_open()
        self._connection.unsubscribe(name)

    def _subscribed(self, subscription: Subscription) -> Consumer:
        # The subscription has the selector, so nothing else comes to its queue.
        return self._consumer(ConsumerSource(subscription.queue, subscription=subscription))

    def _consumer(self, source: ConsumerSource) -> Consumer:
        self._reception.sources.append(source)
        return Consumer(self._reception, source)

    # --- verbs -------------------------------------------------------------------------------------

    def send(self, destination: str, body: bytes | bytearray | memoryview, **options: Unpack[PutOptions]) -> bytes:
        """Put a message on a queue or publish it; returns its message id.

        With TRANSACTED it is not visible before the commit. With the other modes it
        is there when this returns, whatever becomes of what was received. Unlike
        in JMS it is as persistent as its queue or topic says (DEFPSIST), unless
        `persistent` says so.

        Raises:
            EntrepotError: Nothing was sent. Through a channel, some refusals of a TRANSACTED send come at the commit.
        """
        self._reception.require_open()
        if self._mode is not Acknowledge.TRANSACTED:
            return _send(self._connection, destination, body, options)
        self._reception.require_thread()
        with self._reception.busy, self._reception.unit_of_work() as unit:
            return _send(unit, destination, body, options)

    def acknowledge(self) -> None:
        """CLIENT: all that the session has received so far is done with. In other modes without effect, as in JMS.

        Raises:
            UnitBackedOut: Nothing was acknowledged; it comes again.
            ConnectionLost: Whether it comes again is unknown.
            LogFull: Nothing was acknowledged yet; try again later, or `recover`.
        """
        if self._mode is Acknowledge.CLIENT:
            self._end(UnitOfWork.commit)

    def recover(self) -> None:
        """Let all come again that was received and not acknowledged, each consumer's in its old order.

        With AUTO and DUPLICATES_OK that is the message of the callback that says so, or none.
        """
        self._require("recover", self._mode is not Acknowledge.TRANSACTED)
        if self._mode is Acknowledge.CLIENT:
            self._end(UnitOfWork.back_out)
        elif self._reception.dispatcher is not None:
            self._reception.require_thread()
            self._reception.recovering = True

    def commit(self) -> None:
        """TRANSACTED: let all happen that was sent and received; on disk when this returns. The next unit begins.

        Raises:
            UnitBackedOut, QueueingError: Nothing happened, and what was received comes again.
            LogFull: Nothing happened yet; commit again later, or roll back.
            ConnectionLost, DiskFailed: The outcome is unknown.
        """
        self._require("commit", self._mode is Acknowledge.TRANSACTED)
        self._end(UnitOfWork.commit)

    def rollback(self) -> None:
        """TRANSACTED: let nothing happen of what was sent and received. The next unit begins."""
        self._require("rollback", self._mode is Acknowledge.TRANSACTED)
        self._end(UnitOfWork.back_out)

    def close(self) -> None:
        """End the session: what was not acknowledged comes again, what was not committed is gone.

        Waits for a callback or `receive` that is under way. Called by a callback,
        it takes effect when that has returned.
        """
        self._reception.close()

    def _require(self, verb: str, allowed: bool) -> None:
        if not allowed:
            raise InvalidArgument("acknowledge", f"{verb}() has no meaning with {self._mode.name}", "another mode")

    def _end(self, verb: Callable[[UnitOfWork], None]) -> None:
        self._reception.require_open()
        self._reception.require_thread()
        with self._reception.busy:
            self._reception.end_unit(verb)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _send(
    verbs: Connection | UnitOfWork, destination: str, body: bytes | bytearray | memoryview, options: PutOptions
) -> bytes:
    if _is_topic(destination):
        return verbs.publish(_topic(destination), body, **options)
    return verbs.put(destination, body, **options)


def _is_topic(destination: str) -> bool:
    return isinstance(destination, str) and destination.startswith(TOPIC)


def _topic(destination: str) -> str:
    if not _is_topic(destination):
        raise InvalidArgument("topic", checks.shortened(destination), f"{TOPIC} and a topic, such as {TOPIC}prices/ibm")
    return destination.removeprefix(TOPIC)
