# SPDX-License-Identifier: Apache-2.0
"""What a sender sends before it asks for confirmation: messages of a transmission queue, in one unit of work."""

from __future__ import annotations

import enum
from typing import NamedTuple

from entrepot.channels import travel
from entrepot.channels.channel_state import new_batch_id, sequence_after
from entrepot.channels.terms import Terms
from entrepot.channels.travel import DeliveryProblem
from entrepot.engine.definitions import Channel
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.unit_of_work import Unit
from entrepot.engine.waiting import Waiter
from entrepot.errors import EntrepotError
from entrepot.limits import MIB
from entrepot.message import Message
from entrepot.server.session_registry import SessionRegistry

_TAKEN_AT_ONCE = 64
_TAKEN_BYTES = 1 * MIB
"""Then others get the engine, and what was taken gets to the network."""


class Phase(enum.Enum):
    GATHERING = "gathering"
    PREPARING = "preparing"
    """The log is being forced; the receiver has not been asked yet."""
    ASKED = "asked"
    """The receiver knows that the batch has ended; whether it has it nobody knows."""
    RESOLVING = "resolving"


class Outgoing(NamedTuple):
    """A message on its way out; sequence 0 is outside of the batch."""

    sequence: int
    message: Message


class Batch:
    """Messages from a transmission queue; nobody else gets them while this unit of work has them."""

    __slots__ = (
        "_taken", "body_bytes", "id", "messages", "opened", "phase", "sequence", "stuck", "terms", "unit", "watched",
    )  # fmt: skip

    def __init__(self, manager: QueueManager, terms: Terms, sequence: int) -> None:
        self.id = new_batch_id()
        self.terms = terms
        self.sequence = sequence
        """Of the last message in it, or before it."""
        self.messages = 0
        self.body_bytes = 0
        self.opened = 0.0
        """When its first message came, by the loop's clock."""
        self.phase = Phase.GATHERING
        self.stuck: EntrepotError | None = None
        """Why a persistent message can neither be sent nor be kept on the dead-letter queue."""
        self.unit: Unit = manager.internal_unit()
        # A broken connection is no failure of a message.
        self.unit.counted = False
        # So that fast messages may come to a waiting sender without joining the unit.
        self.unit.private = terms.fast
        self.watched = False
        """Whether a timer waits for BATCHINT."""
        self._taken = 0

    @property
    def is_full(self) -> bool:
        return self.messages >= self.terms.batch_size or self.body_bytes >= self.terms.batch_bytes_max

    def take(self, registry: SessionRegistry, definition: Channel) -> tuple[list[Outgoing], bool]:
        """Some messages, and whether there are no more.

        Raises:
            EntrepotError: The queue cannot be read. What was taken stays in the unit.
        """
        found: list[Outgoing] = []
        size = 0
        with registry.host.lock:
            while len(found) < _TAKEN_AT_ONCE and size < _TAKEN_BYTES and not self.is_full and self.stuck is None:
                message = self._next(registry.engine.manager, definition.transmission_queue)
                if message is None:
                    return found, True
                outgoing = self._accept(registry, definition, message)
                if outgoing is not None:
                    found.append(outgoing)
                    size += len(message.body)
        return found, False

    def _next(self, manager: QueueManager, queue: str) -> Message | None:
        return manager.lease(queue, None, self.unit) if self.terms.fast else manager.get(queue, None, self.unit)[0]

    def wait(self, registry: SessionRegistry, definition: Channel, waiter: Waiter) -> Message | None:
        """Let the sender wait for the next message; one that has come since `take` is returned instead.

        Raises:
            EntrepotError: The queue cannot be read.
        """
        manager = registry.engine.manager
        with registry.host.lock:
            message = self._next(manager, definition.transmission_queue)
            if message is None:
                manager.wait(definition.transmission_queue, waiter)
        return message

    def add(self, registry: SessionRegistry, definition: Channel, message: Message) -> Outgoing | None:
        """A message that came to the waiting sender; None when it cannot be sent."""
        with registry.host.lock:
            return self._accept(registry, definition, message)

    def give_back(self, registry: SessionRegistry, definition: Channel, message: Message | None) -> None:
        """A message may have come to the sender just when it stopped to wait: let it stay here."""
        if message is not None and len(self.unit.takes) == self._taken:
            with registry.host.lock:
                registry.engine.manager.give_back(definition.transmission_queue, message)
        # Else the unit has it, and backs it out.

    def _accept(self, registry: SessionRegistry, definition: Channel, message: Message) -> Outgoing | None:
        in_unit = len(self.unit.takes) > self._taken
        problem = self._problem(message)
        if problem is not None:
            self._bury(registry, definition, message, problem, in_unit=in_unit)
            return None
        message = travel.leaving(message, registry.host.settings.name)
        if not in_unit:
            return Outgoing(0, message)
        if not self.messages:
            self.opened = registry.loop.time()
        self._taken += 1
        self.messages += 1
        self.body_bytes += len(message.body)
        self.sequence = sequence_after(self.sequence, self.terms.sequence_wrap)
        return Outgoing(self.sequence, message)

    def _problem(self, message: Message) -> DeliveryProblem | None:
        if not message.target_queue:
            return DeliveryProblem(travel.TRANSMISSION_MESSAGE_WRONG, "it was put on the transmission queue itself")
        if len(message.body) > self.terms.body_bytes_max:
            what = f"it has {len(message.body)} bytes, the channel takes {self.terms.body_bytes_max}"
            return DeliveryProblem(travel.TOO_LONG_FOR_CHANNEL, what)
        return None

    def _bury(
        self,
        registry: SessionRegistry,
        definition: Channel,
        message: Message,
        problem: DeliveryProblem,
        *,
        in_unit: bool,
    ) -> None:
        """Move a message that cannot be sent out of its neighbours' way, for good and at once."""
        manager = registry.engine.manager
        own = manager.internal_unit()
        name = f"{message.target_queue or definition.transmission_queue}@{message.target_manager}".rstrip("@")
        try:
            travel.plan_undeliverable(manager, own, message, name, problem, message.put_time)
        except EntrepotError as error:
            if message.persistent:
                self.stuck = error
            return  # a nonpersistent one travels at most once, and this was its once
        if in_unit:
            own.takes.append(self.unit.takes.pop())
        # Nobody waits for it: if the log does not take it the message is back on the queue, and comes again.
        if manager.commit_or_undo(own, delivered=False) is not None:
            registry.host.want_force()
