# SPDX-License-Identifier: Apache-2.0
"""A message that `consume` has brought, and what its reader can say about it.

The loop says most of it by itself (`Consumption`). A delivery is a message
with every attribute of one; what goes to another process, or into a
program's own data, is the plain message.
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec.structs import astuple

from entrepot import checks
from entrepot.errors import InvalidArgument
from entrepot.limits import TEXT_BYTES_MAX
from entrepot.message import Message


class Settling(Protocol):
    """Where a delivery came from."""

    def ack(self, number: int) -> None: ...

    def retry(self, number: int, delay_s: float) -> None: ...

    def reject(self, number: int, reason: str) -> None: ...


class AioSettling(Protocol):
    """The same for tasks."""

    async def ack(self, number: int) -> None: ...

    async def retry(self, number: int, delay_s: float) -> None: ...

    async def reject(self, number: int, reason: str) -> None: ...


class ConsumedMessage(Message, frozen=True, array_like=True, gc=False):
    """A message, and who brought it as the how manieth."""

    _source: Any = None
    _number: int = 0

    @property
    def message(self) -> Message:
        """The plain message."""
        return Message(*astuple(self)[:_FIELDS])

    def __reduce__(self) -> Any:
        return Message, astuple(self)[:_FIELDS]

    def __repr__(self) -> str:
        return repr(self.message).replace("Message", type(self).__name__, 1)


_FIELDS = len(Message.__struct_fields__)


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


class AioDelivery(ConsumedMessage, frozen=True, array_like=True, gc=False):
    """`Delivery` for tasks: the same promises, as coroutines."""

    async def ack(self) -> None:
        """Settle it now, as `Delivery.ack` does."""
        await self._source.ack(self._number)

    async def retry(self, *, delay_s: float = 0.0) -> None:
        """Return it to its queue, as `Delivery.retry` does."""
        await self._source.retry(self._number, checks.seconds("delay_s", delay_s))

    async def reject(self, reason: str) -> None:
        """Move it away, as `Delivery.reject` does."""
        await self._source.reject(self._number, reason_text(reason))


def delivery(message: Message, source: Settling, number: int) -> Delivery:
    """A message for its reader."""
    return Delivery(*astuple(message), source, number)  # type: ignore[call-arg]  # mypy does not count behind the star


def aio_delivery(message: Message, source: AioSettling, number: int) -> AioDelivery:
    """A message for its reader, who is a task."""
    return AioDelivery(*astuple(message), source, number)  # type: ignore[call-arg]


def reason_text(reason: object) -> str:
    """Why a message is rejected, as it is kept with the message: cut to 1,024 bytes, since errors' texts may be long.

    Raises:
        InvalidArgument: It is no text.
    """
    if not isinstance(reason, str):
        raise InvalidArgument("reason", f"{type(reason).__name__} is no text", "str")
    return reason.encode(errors="replace")[:TEXT_BYTES_MAX].decode(errors="ignore")
