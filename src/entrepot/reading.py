# SPDX-License-Identifier: Apache-2.0
"""Messages that come one after another in units of work: those of `Connection.reader`."""

from __future__ import annotations

from typing import Any, Protocol, Self

from entrepot import checks
from entrepot.binding import Binding, RunningUnit, UnitReader
from entrepot.errors import InvalidArgument
from entrepot.limits import CONSUMER_CREDIT_MAX
from entrepot.message import Message
from entrepot.queues.criteria import Criteria
from entrepot.queues.unit_of_work import UnitState


class Connected(Protocol):
    """A connection, as its readers see it."""

    @property
    def host(self) -> Binding: ...


class LocalPart(Protocol):
    """What a unit of work is for its own queue manager."""

    _connection: Any
    _unit: Any


class AnyUnit(Protocol):
    """`entrepot.UnitOfWork`, or a global one."""

    @property
    def local(self) -> LocalPart: ...


class Reader:
    """A queue's messages for units of work, global ones too, one after the other; for one thread, like these."""

    def __init__(self, connection: Connected, queue: str, criteria: Criteria | None, read_ahead: int) -> None:
        self.queue = queue
        self._connection = connection
        self._reader: UnitReader = connection.host.reader(queue, criteria, read_ahead)
        self._unit: RunningUnit | None = None
        """The last one that has got something."""

    def get(self, unit: AnyUnit, *, wait_s: float = 0.0) -> Message | None:
        """The next message, or None when none comes within `wait_s`.

        It leaves its queue when the unit commits, and comes back with a raised
        `backout_count` unless it does. The next unit may ask when this one has ended.

        Raises:
            QueueNotFound, GetInhibited: No message was got. It may be tried again.
            UnitBackedOut: The connection broke; what the unit had got comes again.
            TooManyUncommitted: The unit is full; commit it first.
            InvalidArgument: The unit is another connection's, or another one has messages of this reader.
        """
        messages = self.get_many(unit, 1, wait_s=wait_s)
        return messages[0] if messages else None

    def get_many(self, unit: AnyUnit, limit: int, *, wait_s: float = 0.0) -> list[Message]:
        """The next messages that are here, up to `limit`; only the first is waited for.

        All of them count as tried if the unit does not commit. Through a channel
        one that was tried before comes alone, so that it cannot take others with
        it twice.

        Raises:
            QueueNotFound, GetInhibited, UnitBackedOut, TooManyUncommitted, InvalidArgument: As for `get`.
        """
        local = unit.local
        if local._connection is not self._connection:
            raise InvalidArgument("unit", "it belongs to another connection", "one of the reader's connection")
        _ = self._connection.host  # or it is closed
        # Messages leave in their order, so two units cannot have some each.
        if self._unit not in (None, local._unit) and self._unit.state is UnitState.ACTIVE:
            raise InvalidArgument("unit", "another one has messages of this reader", "that one, until it ends")
        messages = self._reader.get(local._unit, limit, checks.wait("wait_s", wait_s))
        if messages:
            self._unit = local._unit
        return messages

    def look_ahead(self, count: int) -> None:
        """Let so many messages come before they are asked for, from now on; what has come stays.

        Few, where each takes long: those that wait here are kept from other readers.
        """
        self._reader.look_ahead(checks.whole_number("count", count, 1, CONSUMER_CREDIT_MAX))

    def close(self) -> None:
        """Let no more come. What a unit of work has got stays with it; what was read ahead is on its queue again."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
