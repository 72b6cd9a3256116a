# SPDX-License-Identifier: Apache-2.0
"""Who sends the demo's orders: exactly once, although the queue manager is killed under his hands.

He keeps his place as a message on a queue, and moves it in the same unit of
work in which he puts a few orders. When an answer got lost, he looks at his
place and goes on from there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from demo.orders import OrderBook
from entrepot.client.blocking import Connection, connect
from entrepot.errors import ChannelError, EntrepotError, QueueingError

PLACE = "ORDERS.SENT"
_ORDERS = "ORDERS"
_AT_A_TIME = 50
_AHEAD_MAX = 500
"""So many orders may wait for the flow, so that the sender is at work for as long as the flow is."""
_AGAIN_S = 0.05
_PLACE_S = 1.0


class Sender(threading.Thread):
    """Sends all orders; `done` tells how many of them have been dealt with."""

    def __init__(self, url: str, book: OrderBook, done: Callable[[], int]) -> None:
        super().__init__(name="sender", daemon=True)
        self._url = url
        self._book = book
        self._done = done
        self._stopping = threading.Event()
        self.sent = 0
        self.interruptions = 0
        """How often the outcome of a unit of work was not known."""
        self.error: EntrepotError | None = None

    def run(self) -> None:
        try:
            with connect(self._url, application="demo sender") as connection:
                while self.sent < self._book.count and not self._stopping.is_set():
                    if self.sent - self._done() >= _AHEAD_MAX:
                        time.sleep(_AGAIN_S)
                        continue
                    try:
                        self.send_some(connection)
                    except (ChannelError, QueueingError) as error:
                        # What became of the unit stands on the queue: his place has moved, or it has not.
                        if not error.retryable and error.outcome != "unknown":
                            raise
                        self.interruptions += 1
                        time.sleep(_AGAIN_S)
        except EntrepotError as error:
            self.error = error

    def stop(self) -> None:
        """Let him finish what he is at."""
        self._stopping.set()
        self.join()

    def send_some(self, connection: Connection) -> None:
        """The next orders, in one unit of work with the sender's place."""
        with connection.unit_of_work() as unit:
            place = unit.get(PLACE, wait_s=_PLACE_S)
            if place is None:
                return  # a unit of his that broke still holds it
            last = int(place.body)
            end = min(last + _AT_A_TIME, self._book.count)
            for number in range(last + 1, end + 1):
                order = self._book.order(number)
                unit.put(
                    _ORDERS,
                    order.body(),
                    persistent=True,
                    format=order.form,
                    ccsid=order.ccsid,
                    encoding=order.encoding,
                    correlation_id=order.correlation_id,
                )
            unit.put(PLACE, b"%d" % end, persistent=True)
        self.sent = end


def prepare(connection: Connection) -> None:
    """The place before the first order."""
    connection.put(PLACE, b"0", persistent=True)
