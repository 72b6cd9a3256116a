# SPDX-License-Identifier: Apache-2.0
"""Where a consumer's messages come from: a queue, or the queue of a subscription."""

from __future__ import annotations

import threading
from collections.abc import Callable

from entrepot.client.blocking import Connection, Consumption, Reader, Subscription, SubscriptionConsumption, UnitOfWork
from entrepot.client.options import GetOptions
from entrepot.errors import EntrepotError
from entrepot.message import Message

Listener = Callable[[Message], None]


class ConsumerSource:
    """What a consumer, its session and the session's thread know of one another."""

    def __init__(self, queue: str, options: GetOptions | None = None, subscription: Subscription | None = None) -> None:
        self._queue = queue
        self.options: GetOptions = options or {}
        self.subscription = subscription
        self.listener: Listener | None = None
        self.closing = threading.Event()
        """Nothing more is wanted; its reading stops soon."""
        self.released = threading.Event()
        """Its listener will not be called any more."""
        self._consumption: Consumption | SubscriptionConsumption | None = None
        self._reader: Reader | None = None

    @property
    def queue(self) -> str:
        """Where its messages are; one that is not durable moves when its connection breaks and mends itself."""
        return self._queue if self.subscription is None else self.subscription.queue

    def read_ahead(self, connection: Connection, prefetch: int, wait_s: float) -> Message | None:
        """The next message of those that come of themselves."""
        if self._consumption is None and self.subscription is not None:
            self._consumption = self.subscription.consume(read_ahead=prefetch)
        elif self._consumption is None:
            self._consumption = connection.consume(self.queue, read_ahead=prefetch, **self.options)
        try:
            return self._consumption.get(wait_s)
        except EntrepotError:
            self._consumption = None  # it has ended; the next receive opens another
            raise

    def get(self, connection: Connection, prefetch: int, unit: UnitOfWork, wait_s: float) -> Message | None:
        """The next message, in a unit of work."""
        queue = self.queue
        if self._reader is not None and self._reader.queue != queue:
            self._reader.close()
            self._reader = None
        if self._reader is None:
            self._reader = connection.reader(queue, read_ahead=prefetch, **self.options)
        return self._reader.get(unit, wait_s=wait_s)

    def stop_reading_ahead(self) -> None:
        """What was read ahead and not received is on its queue again; what a unit of work has stays with it."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        consumption, self._consumption = self._consumption, None
        if consumption is not None:
            consumption.settle()  # what was received last has been used, as far as this mode promises anything
            consumption.close()
