# SPDX-License-Identifier: Apache-2.0
# Generated from entrepot/client/aio/delivery.py by tools/blocking: change that one.
"""A message that `consume` has brought, and what its reader can say about it.

The loop says most of it by itself (`Consumption`). A delivery is a message
with every attribute of one; what goes to another process, or into a
program's own data, is the plain message.
"""

from __future__ import annotations

from typing import Protocol

from entrepot import checks
from entrepot.client.consumed import ConsumedMessage, delivered, reason_text
from entrepot.message import Message


class DeliverySource(Protocol):
    """Where a delivery came from."""

    def ack(self, number: int) -> None: ...

    def retry(self, number: int, delay_s: float) -> None: ...

    def reject(self, number: int, reason: str) -> None: ...


class Delivery(ConsumedMessage, frozen=True, array_like=True, gc=False):
    """A message of `Connection.consume`; say nothing, and the loop settles it when its turn has ended well.

    After `ack`, `retry` or `reject` leaving the loop does nothing more for it.
    """

    def ack(self) -> None:
        """Settle it now: it has left its queue for good, on disk too, when this returns.

        Raises:
            DeliverySettled: It was settled before, or returned.
            ConnectionLost: Whether it has left is unknown; if not, it comes again.
        """
        self._source.ack(self._number)

    def retry(self, *, delay_s: float = 0.0) -> None:
        """Return it to its queue with a raised `backout_count`; readers can get it after `delay_s`.

        What was read ahead comes before it. At the queue's BOTHRESH it moves to
        BOQNAME instead, as a message does that was backed out as often. A restart
        of the queue manager ends the delay.

        Raises:
            DeliverySettled, ConnectionLost: As of `ack`.
        """
        self._source.retry(self._number, checks.seconds("delay_s", delay_s))

    def reject(self, reason: str) -> None:
        """Move it to the queue's BOQNAME, or else the dead-letter queue, with the reason as `dead_letter_problem`.

        Raises:
            QueueNotFound, QueueFull: Neither takes it; it is back on its queue with a raised `backout_count`.
            DeliverySettled, ConnectionLost: As of `ack`.
        """
        self._source.reject(self._number, reason_text(reason))


def delivery(message: Message, source: DeliverySource, number: int) -> Delivery:
    """A message for its reader."""
    made: Delivery = delivered(Delivery, message, source, number)
    return made
