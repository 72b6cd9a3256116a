# SPDX-License-Identifier: Apache-2.0
"""Units of work: puts that nobody sees and gets that nobody else gets, until the unit's end."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from entrepot.engine.quotas import UNCOMMITTED_BYTES
from entrepot.errors import TooManyUncommitted, UnitFinished
from entrepot.limits import KIB, UNCOMMITTED_BYTES_MAX

if TYPE_CHECKING:
    from entrepot.engine.entry import QueuedMessage
    from entrepot.engine.queue import Queue
    from entrepot.engine.quotas import Quotas
    from entrepot.message import Message

_MESSAGE_BYTES = 1 * KIB
"""What a message takes in memory beside its body and its properties."""
_HELD_STEP_BYTES = 64 * KIB
RECORD_BYTES = 1024
"""What a record of the log needs beside a message's body: frame, ids, texts."""


class UnitState(enum.Enum):
    ACTIVE = "active"
    ENDING = "committing"
    PREPARED = "prepared"
    COMMITTED = "committed"
    BACKED_OUT = "backed out"
    UNKNOWN = "unknown"
    """Only at a client: its connection broke while the unit was ending."""


class PendingPut(NamedTuple):
    """A message that arrives on its queues when the unit commits."""

    queues: list[Queue]
    message: Message


class Take(NamedTuple):
    """A message that leaves its queue when the unit commits."""

    queue: Queue
    entry: QueuedMessage


class UnitOwner(NamedTuple):
    """A user whose uncommitted messages are counted."""

    quotas: Quotas
    user: str
    limited: bool


class Unit:
    """Its number is never used again, so a late commit cannot hit a later unit."""

    __slots__ = (
        "__weakref__",
        "began_s",
        "body_bytes",
        "clock_steps",
        "consequential",
        "counted",
        "forgiving",
        "held_bytes",
        "holder",
        "limit",
        "number",
        "private",
        "puts",
        "state",
        "takes",
        "transaction_id",
    )

    def __init__(self, number: int, limit: int) -> None:
        self.number = number
        self.limit = limit
        self.state = UnitState.ACTIVE
        self.puts: list[PendingPut] = []
        self.takes: list[Take] = []
        self.body_bytes = 0
        self.clock_steps = 0
        """How often the clock had been set when its put times were read."""
        self.consequential = False
        """Whether copies or reports have to be added before it commits."""
        self.private = False
        """Whether it only guards a get that waits: then it is no delivery that could be backed out."""
        self.counted = True
        """Whether taking a message is a try of it; if not, `BackoutCounts.count_tries` does so when one fails."""
        self.forgiving = False
        """Whether its end, if that is a back-out, takes back what was counted: its messages were not at fault."""
        self.transaction_id = b""
        """Of one that is prepared, or global."""
        self.holder: UnitOwner | None = None
        """The user whose memory it takes, if that is counted."""
        self.held_bytes = 0
        """What is counted for its user so far."""
        self.began_s = 0.0
        """On the clock of the session that began it."""

    def keys_from(self, queue: Queue) -> set[int]:
        """The keys of the messages that the unit has got from a queue."""
        return {take.entry.key for take in self.takes if take.queue is queue}

    def require_active(self) -> None:
        if self.state is not UnitState.ACTIVE:
            raise UnitFinished(self.number, self.state.value)

    def require_room(self, body_bytes: int, messages: int = 1) -> None:
        """Refuse what would exceed the unit's limits; the unit itself can still commit or back out."""
        if len(self.puts) + len(self.takes) + messages > self.limit:
            raise TooManyUncommitted(self.number, self.limit, "messages")
        if self.body_bytes + body_bytes > UNCOMMITTED_BYTES_MAX:
            raise TooManyUncommitted(self.number, UNCOMMITTED_BYTES_MAX, "bytes")
        if self.holder is not None:
            needed = self.body_bytes + body_bytes + _MESSAGE_BYTES * (len(self.puts) + messages)
            if needed > self.held_bytes:
                self.hold(needed)

    def hold(self, needed: int) -> None:
        """Count so many bytes for its user, and some more: not every message need be counted.

        Raises:
            UserLimitReached: The unit itself can still commit or back out.
        """
        assert self.holder is not None
        amount = needed + -needed % _HELD_STEP_BYTES
        self.holder.quotas.hold(UNCOMMITTED_BYTES, self.holder.user, self, amount, limited=self.holder.limited)
        self.held_bytes = amount

    def let_go(self) -> None:
        """It has ended, and its messages are not its own any more."""
        if self.holder is not None and self.held_bytes:
            self.holder.quotas.let_go(UNCOMMITTED_BYTES, self.holder.user, self)
            self.held_bytes = 0


def memory_bytes(message: Message) -> int:
    """About what a message takes, in memory and in the log, beside what all of them take."""
    size = len(message.body)
    for name, value in message.properties.items():
        size += len(name) + (len(value) if isinstance(value, str | bytes) else 8)
    return size


def give_up_places(puts: Iterable[PendingPut]) -> None:
    """Let go of the places on queues that were kept for puts."""
    for put in puts:
        for queue in put.queues:
            queue.reserved -= 1
