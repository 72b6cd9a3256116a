# SPDX-License-Identifier: Apache-2.0
"""A message while it rests on a queue, in memory."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import TYPE_CHECKING

import msgspec

from entrepot.compiled import compiled
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.engine.recovery_log.bodies import BodyFile, SharedBody
    from entrepot.engine.recovery_log.run import StoredRun

AVAILABLE, LOCKED, GONE = 0, 1, 2
"""States of an entry: readers may have it, a unit of work has it, it has left."""

OVERHEAD_BYTES = 640
"""Memory of an entry beside its body: structures, ids, texts and index places, measured on CPython 3.11."""


class RestingRun:
    """A run on disk and what became of its entries since it was written."""

    __slots__ = (
        "answered", "borrowed", "durable", "gone", "keys", "live", "log_position", "marks", "persistent", "queue",
        "stored", "taken",
    )  # fmt: skip

    def __init__(
        self,
        stored: StoredRun,
        keys: array[int],
        *,
        queue: int,
        persistent: bool,
        durable: bool,
        log_position: int = -1,
    ) -> None:
        self.stored = stored
        self.keys = keys
        self.queue = queue
        """The queue it belongs to, or 0 when its entries belong to several."""
        self.persistent = persistent
        """Whether any of its messages is persistent, so that restart needs it."""
        self.durable = durable
        self.log_position = log_position
        """Of one that is not durable yet: where the log has the first of its persistent messages."""
        self.gone = bytearray((stored.entries + 7) // 8)
        self.taken = bytearray((stored.entries + 7) // 8)
        """Entries that were read out one by one and must not be loaded with the rest."""
        self.live = stored.entries
        self.borrowed: dict[int, BodyFile] = {}
        """Where the bodies are of entries that share theirs with other queues."""
        self.marks: array[int] | None = None
        """Sorted hashes of the ids in it, to answer quickly that an id is not here."""
        self.answered: set[Hashable] = set()
        """What was asked for before, so that nothing of it is here any more."""

    def set_gone(self, index: int) -> None:
        byte, bit = index >> 3, 1 << (index & 7)
        if not self.gone[byte] & bit:
            self.gone[byte] |= bit
            self.live -= 1
            if self.borrowed and (file := self.borrowed.pop(index, None)) is not None:
                file.references -= 1

    def give_up(self) -> None:
        """Nobody wants any of it any more."""
        for file in self.borrowed.values():
            file.references -= 1
        self.borrowed.clear()

    def is_gone(self, index: int) -> bool:
        return bool(self.gone[index >> 3] & (1 << (index & 7)))

    def set_taken(self, index: int) -> None:
        self.taken[index >> 3] |= 1 << (index & 7)

    def is_taken(self, index: int) -> bool:
        return bool((self.taken[index >> 3] | self.gone[index >> 3]) & (1 << (index & 7)))


class QueuedMessage(msgspec.Struct, eq=False, gc=False):
    """An entry of a queue. Order on the queue is by priority, then by `key`."""

    key: int
    queue: int
    """The number of the queue it is on."""
    message: Message
    backouts: int = 0
    """How many units of work have got it so far."""
    log_position: int = -1
    """Where the log has it; -1 for a nonpersistent message."""
    run: RestingRun | None = None
    """The run that has it too, so that the log need not keep it."""
    index: int = 0
    state: int = AVAILABLE
    resident: bool = False
    """Whether it stands in its lane right now, available or not."""
    shared: SharedBody | None = None
    """What its body is to other queues, if they have it too."""

    @property
    def recorded(self) -> Message:
        """What a record takes for its message; its twin gives the bytes of one that was not looked at."""
        return self.message

    @property
    def body_bytes(self) -> int:
        return len(self.message.body)

    @property
    def is_indexed(self) -> bool:
        """Whether its queue may have to find it by a correlation id or a group."""
        return bool(self.message.correlation_id or self.message.group_id)

    @property
    def memory_bytes(self) -> int:
        """Its part of the memory; a body that several queues have is there once."""
        shared = self.shared
        if shared is None:
            return len(self.message.body) + OVERHEAD_BYTES
        return len(self.message.body) // shared.count + OVERHEAD_BYTES


if not TYPE_CHECKING and (_entry := compiled("entry")) is not None:
    QueuedMessage = _entry.QueuedMessage

NO_BODY = Message(b"")
"""Takes the place of a message that has left memory, so that the body is freed at once."""
