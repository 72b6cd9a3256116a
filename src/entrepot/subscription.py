# SPDX-License-Identifier: Apache-2.0
"""A subscription that a connection has open: its publications, wherever the connection leads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, Self, Unpack
from weakref import WeakSet

from entrepot import checks
from entrepot.binding import Binding, Incoming
from entrepot.consuming import Consumption
from entrepot.delivery import Delivery
from entrepot.errors import EntrepotError
from entrepot.limits import CONSUMER_CREDIT_MAX
from entrepot.message import Message
from entrepot.options import GetOptions, criteria
from entrepot.queues import definitions


class Subscription:
    """Publications come to its `queue`, which all verbs can use, in units of work too; `get` is the short way.

    Closing it, or the connection, ends a subscription that is not durable; a
    durable one goes on collecting. Should the connection break and mend itself,
    a durable subscription goes on where it was. One that is not durable begins
    anew, under another queue: what was published meanwhile is not for it.
    """

    def __init__(
        self,
        host: Binding,
        wanted: definitions.Subscription,
        closed: Callable[[Subscription], None],
        units: set[Any],
        consumptions: WeakSet[Consumption],
        *,
        new_only: bool,
    ) -> None:
        self._host = host
        self._wanted = wanted
        self._tell_closed = closed
        self._units = units
        self._consumptions = consumptions
        self._found = host.subscribe(wanted, new_only=new_only)
        self._opened = host.opened
        self._closed = False

    @property
    def name(self) -> str:
        """Under which others may share it, or the durable name."""
        return self._found.name

    @property
    def durable(self) -> bool:
        return self._found.durable

    @property
    def queue(self) -> str:
        """The queue on which its publications are."""
        if self._opened != self._host.opened and not self._closed:
            opened = self._host.opened
            self._found = self._host.subscribe(self._wanted, new_only=True)
            self._opened = opened
        return self._found.destination

    def get(self, *, wait_s: float = 0.0, **options: Unpack[GetOptions]) -> Message | None:
        """The next publication, or None when none comes within `wait_s`; see `Connection.get`."""
        if wait_s != 0:
            wait_s = checks.wait("wait_s", wait_s)
        wanted = criteria(options)
        deadline = time.monotonic() + wait_s
        while True:
            queue = self.queue
            try:
                return self._host.get(queue, wanted, wait_s=wait_s)
            except EntrepotError:
                # The connection broke meanwhile, and the queue may have gone with it.
                if self._opened == self._host.opened or self._closed:
                    raise
            wait_s = max(deadline - time.monotonic(), 0.0)

    def consume(self, *, read_ahead: int = 100, wait_s: float = math.inf) -> SubscriptionConsumption:
        """Publications one after another, until none comes for `wait_s`; see `Connection.consume`."""
        credit = checks.whole_number("read_ahead", read_ahead, 1, CONSUMER_CREDIT_MAX)
        consumption = SubscriptionConsumption(self, credit, checks.wait("wait_s", wait_s))
        self._consumptions.add(consumption)
        return consumption

    def open_consumer(self, read_ahead: int) -> Incoming:
        return self._host.consume(self.queue, None, read_ahead, self._units)

    @property
    def opened(self) -> int:
        """Counts the connections it has been open on."""
        return self._host.opened

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self.consume())

    def close(self) -> None:
        """Read it no longer; a durable one goes on collecting."""
        if not self._closed:
            self._closed = True
            self._tell_closed(self)
            if self._host.failure is None and self._opened == self._host.opened:
                self._host.leave_subscription(self._found.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SubscriptionConsumption(Consumption):
    """The publications of `Subscription.consume`; goes on over a broken connection."""

    def __init__(self, subscription: Subscription, read_ahead: int, wait_s: float) -> None:
        self._subscription = subscription
        self._opened = subscription.opened
        super().__init__(lambda: subscription.open_consumer(read_ahead), wait_s)

    def _receive(self, incoming: Incoming, wait_s: float) -> Message | None:
        while True:
            try:
                return incoming.get(wait_s)
            except EntrepotError:
                # The queue of one that is not durable went with the connection that broke.
                if self._opened == self._subscription.opened:
                    raise
            self._opened = self._subscription.opened
            self._incoming = incoming = self._open()
