# SPDX-License-Identifier: Apache-2.0
"""One message on its way through a flow: what it has brought about so far.

Outputs, kept states and what is to be done after the commit are collected
here; the kernel's caller makes them happen, all of them or none. So a
message that fails leaves nothing behind, and its neighbours in the same unit
of work never notice.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from entrepot.flows.flow_world import Output
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.flows.flow_world import FlowWorld
    from entrepot.flows.nodes.node import Node
    from entrepot.flows.states import OpenAggregate

_MESSAGE_ID_BYTES = 24


class KeptState(NamedTuple):
    """A state that a node keeps for messages to come."""

    message: Message
    expires_s: float | None = None
    """How long it is kept; for ever when None."""
    then: str = ""
    """The queue to which it goes when it expires; it is discarded when empty."""


class Failure(NamedTuple):
    """An error that some node has met, handled or not."""

    node: str
    error: Exception


class Earlier(NamedTuple):
    """What became of a message before, in units of work that were given back."""

    tries: int = 0
    error: Exception | None = None
    raised_by: Node | None = None
    """The node that met the error."""
    failure_failed: bool = False
    """Whether it was on its way from the failure terminal, and did not arrive."""


NEVER = Earlier()


class NotAlone(Exception):
    """A message failed when work was done that cannot be undone for it alone: its unit of work has to go back."""

    def __init__(self, earlier: Earlier) -> None:
        super().__init__(earlier)
        self.earlier = earlier


class Journey:
    """Where one message has been, and what it leaves."""

    __slots__ = (
        "after_commit",
        "aggregate",
        "failure_failed",
        "failures",
        "has_got",
        "message",
        "message_id_head",
        "message_ids_made",
        "outputs",
        "raised",
        "raised_by",
        "source_queue",
        "states",
        "transactional",
        "world",
    )

    def __init__(
        self, message: Message, world: FlowWorld, *, source_queue: str = "", transactional: bool = True
    ) -> None:
        self.message = message
        """The one that came in."""
        self.world = world
        self.source_queue = source_queue
        self.transactional = transactional
        """What transaction mode automatic means for this message."""
        self.outputs: list[Output] = []
        self.states: dict[tuple[str, bytes], KeptState | None] = {}
        """What it keeps in stores; None where it took something away."""
        self.after_commit: list[Callable[[], None]] = []
        self.raised: Exception | None = None
        """The error that is travelling back, so that nodes on its way know that it is not theirs."""
        self.raised_by: Node | None = None
        self.failures: list[Failure] = []
        self.failure_failed = False
        """It has been on its way from the failure terminal in a unit of work that was given back."""
        self.has_got = False
        """A node has got another message in the unit of work; only the whole unit can give that back."""
        self.message_id_head = b""
        """How new message ids begin while an AggregateControl is open, so that replies tell what they belong to."""
        self.message_ids_made = 0
        self.aggregate: OpenAggregate | None = None
        """What AggregateRequest nodes add to while an AggregateControl is open."""

    def new_message_id(self) -> bytes:
        """An id for a message that this one gives rise to."""
        if not self.message_id_head:
            return self.world.new_message_id()
        self.message_ids_made += 1
        return self.message_id_head + self.message_ids_made.to_bytes(
            _MESSAGE_ID_BYTES - len(self.message_id_head), "big"
        )

    def is_bound(self) -> bool:
        """Whether something was done that cannot be undone for this message alone."""
        return self.has_got or self.world.careful or self.world.database_used()

    def time_of_run(self) -> datetime | None:
        """The time that ESQL is told; None is the clock's."""
        if not self.world.own_time:
            return None
        return datetime.fromtimestamp(self.world.now(), UTC)

    def put(self, output: Output) -> None:
        """Send a message with the unit of work."""
        if self.world.careful:
            self.world.put(output)
        self.outputs.append(output)

    def take(self, store: str, key: bytes) -> Message | None:
        """What was kept under a key, by this message or one before; it is not kept any more."""
        place = (store, key)
        if place in self.states:
            kept = self.states[place]
            self.states[place] = None
            return None if kept is None else kept.message
        found = self.world.take(store, key)
        if found is not None:
            self.states[place] = None
        return found

    def is_kept(self, store: str, key: bytes) -> bool:
        """Whether something is kept under a key; another instance may have it at the moment."""
        place = (store, key)
        if place in self.states:
            return self.states[place] is not None
        return self.world.is_kept(store, key)

    def keep(self, store: str, key: bytes, message: Message, *, expires_s: float | None = None, then: str = "") -> None:
        """Keep a state under a key, in the place of what was kept there before."""
        self.states[store, key] = KeptState(message, expires_s, then)

    def noted(self, node: Node, error: Exception) -> None:
        """Remember an error that a failure or catch terminal takes care of."""
        self.failures.append(Failure(node.name, error))
