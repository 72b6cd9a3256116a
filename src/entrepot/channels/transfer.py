# SPDX-License-Identifier: Apache-2.0
"""A sender's work while it is connected: messages leave in batches, and each batch is settled with the receiver.

A batch is gathered and sent message by message. When it ends, its unit of
work is prepared, so that it survives whatever happens; only then is the
receiver told of the end. While it commits and confirms, the messages of
the next batch are on their way already; its unit is prepared with the same
force of the log that resolves the one before. If the connection breaks in
between, the batch stays prepared: it is in doubt until the ends meet again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from entrepot.channels.attempt import attempt
from entrepot.channels.batch import Batch, Outgoing, Phase
from entrepot.channels.channel_state import ChannelState, InDoubtBatch, Role, SequenceMark, change_state, transaction_id
from entrepot.channels.terms import Terms
from entrepot.engine.definitions import Channel
from entrepot.engine.waiting import Waiter
from entrepot.errors import EntrepotError, FrameUnreadable
from entrepot.message import Message
from entrepot.server.session_registry import SessionRegistry
from entrepot.server.wire.verbs import ChannelConfirm, ChannelEndOfBatch, Payload, Verb


class Ledger:
    """What a sender knows of its channel, over all its connections."""

    __slots__ = ("_on_settled", "_settling", "batches", "body_bytes", "doubt", "memory", "messages")

    def __init__(self, channel: str, on_settled: Callable[[], None]) -> None:
        self.memory = ChannelState(Role.SENDER, channel)
        """What is confirmed."""
        self.doubt: InDoubtBatch | None = None
        self.messages = self.batches = self.body_bytes = 0
        self._settling = 0
        self._on_settled = on_settled

    @property
    def is_settled(self) -> bool:
        """Whether the log has all that we know; before, nobody must be told anything."""
        return not self._settling

    def begin(self) -> None:
        """A change is on its way to the log."""
        self._settling += 1

    def end(self) -> None:
        self._settling -= 1
        if not self._settling:
            self._on_settled()


class ReceiverConnection(Protocol):
    """The connection to the receiver."""

    @property
    def unread(self) -> bool:
        """Whether it takes no more for now."""

    def send(self, verb: int, number: int, payload: Payload) -> None: ...

    def send_messages(self, messages: Sequence[Outgoing]) -> None: ...


class TransferChannel(Protocol):
    """The channel that a transfer works for."""

    registry: SessionRegistry
    definition: Channel
    ledger: Ledger

    def fail(self, error: EntrepotError, *, for_good: bool = False) -> None:
        """The connection cannot be used any more; it ends the transfer."""

    def finished(self) -> None:
        """All that was begun is done, as was asked for by `finish`; the connection can end."""


class Transfer:
    """One connection's work; on the loop's thread only."""

    __slots__ = (
        "_carrier",
        "_closed",
        "_ending",
        "_finishing",
        "_gathering",
        "_link",
        "_pumping",
        "_waiter",
        "definition",
        "last",
        "ledger",
        "partner",
        "registry",
        "terms",
    )  # fmt: skip

    def __init__(self, carrier: TransferChannel, link: ReceiverConnection, partner: str, terms: Terms) -> None:
        self.registry = carrier.registry
        self.definition = carrier.definition
        self.ledger = carrier.ledger
        self.partner = partner
        self.terms = terms
        self.last = self.registry.loop.time()
        """When the last message was sent."""
        self._carrier = carrier
        self._link = link
        self._gathering: Batch | None = None
        self._ending: Batch | None = None
        self._waiter: Waiter | None = None
        self._pumping = False
        self._finishing = False
        self._closed = False

    @property
    def batch(self) -> Batch | None:
        """What is under way."""
        return self._ending or self._gathering

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do but to wait for a message."""
        open_batch = self._ending is not None or (self._gathering is not None and self._gathering.messages)
        return self._waiter is not None and not open_batch and self.ledger.is_settled

    # --- messages -----------------------------------------------------------------------------------

    def pump(self) -> None:
        """Send what there is, as far as the batch and the connection allow, then wait for more."""
        self._pumping = False
        if self._closed or self._finishing or self._link.unread or self._waiter is not None:
            return
        if self._ending is not None and self._ending.phase is Phase.PREPARING:
            return  # what is sent before a batch's end belongs to it
        batch = self._gathering
        if batch is None:
            sequence = self._ending.sequence if self._ending is not None else self.ledger.memory.sequence
            self._gathering = batch = Batch(self.registry.engine.manager, self.terms, sequence)
        if batch.is_full:
            self._end_if_due()
            return
        try:
            found, drained = batch.take(self.registry, self.definition)
        except EntrepotError as error:
            self._carrier.fail(error)
            return
        self._send(batch, found)
        if self._closed or batch.is_full:
            self._end_if_due()
        elif drained:
            self._drained(batch)
        else:
            self._pump_soon()

    def _send(self, batch: Batch, found: list[Outgoing]) -> None:
        self._link.send_messages(found)
        self.ledger.body_bytes += sum(len(message.body) for _, message in found)
        self.ledger.messages += len(found)
        self.last = self.registry.loop.time()
        if batch.stuck is not None:
            self._carrier.fail(batch.stuck, for_good=True)
        elif batch.messages and not batch.watched and self.definition.batch_interval_ms:
            batch.watched = True
            self.registry.loop.call_later(self.definition.batch_interval_ms / 1000, self._end_if_due)

    def _drained(self, batch: Batch) -> None:
        """The transmission queue is empty: end the batch, or wait for more."""
        if batch.messages and self._ending is None and self._has_waited(batch):
            self._end(batch)
            return
        waiter = Waiter(None, batch.unit, self.registry.engine.waker(self._woken))
        try:
            message = batch.wait(self.registry, self.definition, waiter)
        except EntrepotError as error:
            self._carrier.fail(error)
            return
        if message is None:
            self._waiter = waiter
        else:
            self._came(batch, message)

    def _woken(self) -> None:
        waiter, batch = self._waiter, self._gathering
        if waiter is None or batch is None or (waiter.message is None and waiter.error is None):
            return  # an earlier one, which was given up
        self._waiter = None
        if waiter.message is not None:
            self._came(batch, waiter.message)
        else:
            assert waiter.error is not None
            self._carrier.fail(waiter.error)

    def _came(self, batch: Batch, message: Message) -> None:
        """A message has come to an empty queue; there may be more behind it."""
        outgoing = batch.add(self.registry, self.definition, message)
        self._send(batch, [outgoing] if outgoing is not None else [])
        if self._finishing or batch.is_full:
            self._end_if_due()
        else:
            self._pump_soon()

    def _pump_soon(self) -> None:
        # Others are waiting for the loop, too; and what was sent has to be written first.
        if not self._pumping and not self._closed:
            self._pumping = True
            self.registry.loop.call_soon(self.pump)

    def stop_waiting(self) -> bool:
        """Wait for no more messages; False when one has just come, and has to be sent."""
        waiter = self._waiter
        if waiter is not None:
            self.registry.engine.stop_waiting(waiter)
            if waiter.message is not None or waiter.error is not None:
                return False  # and `_woken` will have it
            self._waiter = None
        return True

    # --- the end of a batch ---------------------------------------------------------------------------

    def _has_waited(self, batch: Batch) -> bool:
        """Whether BATCHINT lets a batch end now that the transmission queue is empty."""
        interval_s = self.definition.batch_interval_ms / 1000
        return not interval_s or self.registry.loop.time() >= batch.opened + interval_s

    def _end_if_due(self) -> None:
        """End the batch if it is to end now, or go on with it."""
        if self._closed or self._ending is not None:
            return
        batch = self._gathering
        if batch is None or not batch.messages:
            if not self._finishing:
                self.pump()
            elif self.ledger.is_settled and self.stop_waiting():
                self._carrier.finished()
            return
        is_empty = self._waiter is not None
        if not (self._finishing or batch.is_full or (is_empty and self._has_waited(batch))):
            self.pump()
        elif self.stop_waiting():
            self._end(batch)

    def _end(self, batch: Batch) -> None:
        """Make the batch outlive everything, then ask the receiver for it."""
        manager = self.registry.engine.manager
        name = self.definition.name
        self._gathering = None
        self._ending = batch
        batch.phase = Phase.PREPARING
        before = self.ledger.memory
        after = before.followed_by(self.partner, SequenceMark(batch.sequence, batch.id), manager.clock.now())
        doubt = InDoubtBatch(transaction_id(name, batch.id), before, after)
        prepare = partial(manager.in_doubt.prepare, batch.unit, doubt.transaction_id)
        self.ledger.begin()
        attempt(
            self.registry,
            change_state(manager, batch.unit, before, after, prepare),
            partial(self._prepared, batch, doubt),
        )

    def _prepared(self, batch: Batch, doubt: InDoubtBatch, error: EntrepotError | None) -> None:
        if error is not None:
            self.registry.engine.back_out(batch.unit)
            if not self._closed:
                self._carrier.fail(error)
        else:
            # If the connection broke meanwhile, the next meeting decides.
            self.ledger.doubt = doubt
            if not self._closed:
                self._ask(batch)
        self.ledger.end()

    def _ask(self, batch: Batch) -> None:
        batch.phase = Phase.ASKED
        self._link.send(Verb.CHANNEL_END_OF_BATCH, 0, ChannelEndOfBatch(batch.id, batch.sequence))
        self.pump()

    def confirmed(self, confirm: ChannelConfirm) -> None:
        """The receiver has the batch, for good.

        Raises:
            FrameUnreadable: It speaks of another one.
        """
        batch, doubt = self._ending, self.ledger.doubt
        if batch is None or doubt is None or batch.phase is not Phase.ASKED:
            raise FrameUnreadable("a confirmation that nobody asked for")
        if (confirm.sequence, confirm.batch) != (batch.sequence, batch.id):
            raise FrameUnreadable(f"message {confirm.sequence} confirmed where {batch.sequence} was asked for")
        batch.phase = Phase.RESOLVING
        self.ledger.doubt = None
        self.ledger.memory = doubt.after
        self.ledger.batches += 1
        self.ledger.begin()
        resolve = partial(self.registry.engine.manager.in_doubt.resolve, doubt.transaction_id, commit=True)
        # The next batch may be prepared behind it, never before it: at most one is ever in doubt.
        if attempt(self.registry, resolve, partial(self._resolved, batch, doubt)):
            self._next_batch(batch)

    def _resolved(self, batch: Batch, doubt: InDoubtBatch, error: EntrepotError | None) -> None:
        if error is not None:
            self.ledger.doubt = doubt
            self.ledger.memory = doubt.before
        self.ledger.end()
        if self._closed:
            return
        if error is not None:
            self._carrier.fail(error)
        elif self._finishing:
            self._end_if_due()
        else:
            self._next_batch(batch)

    def _next_batch(self, batch: Batch) -> None:
        if self._ending is batch:
            self._ending = None
            self._end_if_due()

    # --- the end ----------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Begin nothing new; `TransferChannel.finished` is called when what was begun is done."""
        self._finishing = True
        self._end_if_due()

    def close(self) -> None:
        """The connection has gone; a batch that the receiver was not asked for returns to its queue."""
        if self._closed:
            return
        self._closed = True
        waiter, self._waiter = self._waiter, None
        batch, self._gathering = self._gathering, None
        if batch is None or self.registry.host.failure is not None:
            return
        if waiter is not None:
            self.registry.engine.stop_waiting(waiter)
            batch.give_back(self.registry, self.definition, waiter.message)
        self.registry.engine.back_out(batch.unit)
