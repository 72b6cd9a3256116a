# SPDX-License-Identifier: Apache-2.0
# Generated from entrepot/client/aio/subscription.py by tools/blocking: change that one.
"""A subscription that a connection has open: its publications, wherever the connection leads."""

from __future__ import annotations

import contextlib
import math
import time
from typing import Self, Unpack
from weakref import WeakSet

from entrepot import checks
from entrepot.client.blocking.calls import Calls
from entrepot.client.blocking.consumption import Consumption
from entrepot.client.blocking.incoming import Incoming, open_incoming
from entrepot.client.options import GetOptions, criteria
from entrepot.client.protocol import OpenSubscription
from entrepot.client.requests import subscribe_frame
from entrepot.engine import definitions
from entrepot.errors import ConnectFailed, ConnectionLost, EntrepotError, Fenced
from entrepot.limits import CONSUMER_CREDIT_MAX
from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb


class Subscription:
    """Publications come to its `queue`, which all verbs can use, in units of work too; `get` is the short way.

    Closing it, or the connection, ends a subscription that is not durable; a
    durable one goes on collecting. Should the connection break and mend itself,
    a durable subscription goes on where it was. One that is not durable begins
    anew, under another queue: what was published meanwhile is not for it.
    """

    def __init__(self, calls: Calls, opened: OpenSubscription, consumptions: WeakSet[Consumption]) -> None:
        self._calls = calls
        self._opened = opened
        self._consumptions = consumptions
        self._closed = False

    @property
    def name(self) -> str:
        """Under which others may share it, or the durable name."""
        return self._opened.found.name

    @property
    def durable(self) -> bool:
        return self._opened.found.durable

    @property
    def queue(self) -> str:
        """The queue on which its publications are."""
        if self._opened.error is not None and not self._closed:
            raise self._opened.error
        return self._opened.found.destination

    @property
    def opened(self) -> int:
        """Counts the connections it has been open on."""
        return self._calls.core.opened

    def get(self, *, wait_s: float = 0.0, **options: Unpack[GetOptions]) -> Message | None:
        """The next publication, or None when none comes within `wait_s`; see `Connection.get`."""
        if wait_s != 0:
            wait_s = checks.wait("wait_s", wait_s)
        wanted = criteria(options)
        deadline = time.monotonic() + wait_s
        while True:
            queue, opened = self.queue, self.opened
            try:
                return self._calls.get(queue, wanted, wait_s=wait_s)
            except EntrepotError:
                # The connection broke meanwhile, and the queue may have gone with it.
                if opened == self.opened or self._closed:
                    raise
            wait_s = max(deadline - time.monotonic(), 0.0)

    def consume(self, *, read_ahead: int = 100, wait_s: float = math.inf) -> SubscriptionConsumption:
        """Publications one after another, until none comes for `wait_s`; see `Connection.consume`."""
        credit = checks.whole_number("read_ahead", read_ahead, 1, CONSUMER_CREDIT_MAX)
        wait_s = checks.wait("wait_s", wait_s)
        consumption = SubscriptionConsumption(self, self.open_incoming(credit), credit, wait_s)
        self._consumptions.add(consumption)
        return consumption

    def open_incoming(self, read_ahead: int) -> Incoming:
        while True:
            queue, opened = self.queue, self.opened
            try:
                return open_incoming(self._calls, queue, None, read_ahead)
            except EntrepotError:
                if opened == self.opened or self._closed:
                    raise

    def close(self) -> None:
        """Read it no longer; a durable one goes on collecting."""
        if self._closed:
            return
        self._closed = True
        self._calls.core.subscriptions.discard(self._opened)
        if self._calls.line.is_connected:  # or the server has left it when the connection broke
            with contextlib.suppress(ConnectionLost, ConnectFailed, Fenced):  # the server has left it by now
                self._calls.ask(Verb.UNSUBSCRIBE, verbs.Unsubscribe(self.name, end=False))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SubscriptionConsumption(Consumption):
    """The publications of `Subscription.consume`; goes on over a broken connection."""

    def __init__(self, subscription: Subscription, incoming: Incoming, read_ahead: int, wait_s: float) -> None:
        super().__init__(lambda: subscription.open_incoming(read_ahead), incoming, wait_s)
        self._subscription = subscription
        self._opened = subscription.opened

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


def subscribe(
    calls: Calls, wanted: definitions.SubscriptionDefinition, consumptions: WeakSet[Consumption], *, new_only: bool
) -> Subscription:
    """Open a subscription, and make it if there is none of its name."""
    opened = OpenSubscription(wanted, wanted)
    opened.resolve(calls.ask(Verb.SUBSCRIBE, subscribe_frame(wanted, new_only=new_only)))
    calls.core.subscriptions.add(opened)
    return Subscription(calls, opened, consumptions)
