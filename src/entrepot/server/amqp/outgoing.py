# SPDX-License-Identifier: Apache-2.0
"""Links by which a partner consumes a queue: messages go out by credit, and what becomes of them comes back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from entrepot.engine.unit_of_work import Unit
from entrepot.errors import EntrepotError
from entrepot.limits import CONSUMER_CREDIT_MAX
from entrepot.message import Message
from entrepot.server.amqp.codec import Described, Malformed
from entrepot.server.amqp.conditions import Refusal, refusal_of
from entrepot.server.amqp.engine import (
    ACCEPTED,
    MODIFIED,
    REJECTED,
    RELEASED,
    TRANSACTIONAL,
    Pointer,
    condition_text,
    delivery_remote_state,
    delivery_settle,
    delivery_settled,
    delivery_updated,
    lib,
    link_credit,
    remote_state_value,
)
from entrepot.server.amqp.sending_link import SendingLink
from entrepot.server.consumer import Consumer

if TYPE_CHECKING:
    from entrepot.server.amqp.conversation import AmqpConversation
    from entrepot.server.amqp.transaction import Transaction

_UNDELIVERABLE_HERE = "the receiver has marked it as undeliverable"


class OutgoingLink(SendingLink):
    """A partner that takes messages away."""

    __slots__ = ("_consumer", "_draining", "unsettled")

    def __init__(self, conversation: AmqpConversation, pointer: Pointer) -> None:
        super().__init__(conversation, pointer)
        self._consumer: Consumer | None = None
        self._draining = False
        self.unsettled: dict[Pointer, Unit | None] = {}
        """Deliveries that the partner has not settled, and what holds their messages."""

    def ready(self) -> None:
        self._consumer = self._consume()
        self.open()

    def _consume(self) -> Consumer:
        return self.conversation.session.consume(
            self.name, self.criteria, self._deliver, self._failed, locked=not self.settles
        )

    # --- out ----------------------------------------------------------------------------------

    def pump(self) -> None:
        self._draining = bool(lib.pn_link_get_drain(self.pointer))
        credit = min(link_credit(self.pointer), CONSUMER_CREDIT_MAX - len(self.unsettled))
        consumer = self._consumer
        if credit <= 0:
            if consumer is not None:
                # One that waits would be given a message that nobody wants now.
                self._consumer = None
                consumer.close()
        elif not self.stalled:
            try:
                if consumer is None:
                    consumer = self._consumer = self._consume()
            except EntrepotError as error:
                self.detach(refusal_of(error))
                return
            consumer.paused = False
            consumer.grant(credit - consumer.credit)
        if self._draining:
            self.conversation.draining.add(self)
            self.conversation.wants_flush()

    def drain(self) -> bool:
        """Give back credit that finds no message, if the partner has asked for that; False to be asked again."""
        if not self._draining or not self.is_open or link_credit(self.pointer) <= 0:
            return True
        consumer = self._consumer
        if consumer is None or not consumer.is_waiting:
            return False
        self._consumer = None
        consumer.close()
        lib.pn_link_drained(self.pointer)
        return True

    def _deliver(self, message: Message, lease: Unit | None) -> None:
        """Called by the session, which must not hear of our troubles."""
        self.conversation.guarded(partial(self._send, message, lease))

    def _send(self, message: Message, lease: Unit | None) -> None:
        try:
            delivery = self.send(message)
        except Refusal as refusal:
            session = self.conversation.session
            if lease is not None:
                session.release([lease], tried=True)
            else:
                with session.registry.host.lock:
                    session.engine.manager.give_back(self.name, message)
            self.detach(refusal)
            return
        if delivery is not None:
            self.unsettled[delivery] = lease
        elif lease is not None:
            self.conversation.accept(lease)
        if self.stalled and self._consumer is not None:
            self._consumer.paused = True

    def _failed(self, error: EntrepotError | None) -> None:
        self._consumer = None
        assert error is not None
        self.conversation.guarded(partial(self.detach, refusal_of(error)))

    # --- what becomes of it -------------------------------------------------------------------

    def on_delivery(self, delivery: Pointer) -> None:
        if not delivery_updated(delivery) or delivery not in self.unsettled:
            return
        state = delivery_remote_state(delivery)
        settled = delivery_settled(delivery)
        lease = self.unsettled[delivery]
        if state == ACCEPTED:
            if lease is not None:
                self.unsettled[delivery] = None
                self.conversation.accept(lease, None if settled else (self, delivery))
        elif state == TRANSACTIONAL:
            self._in_transaction(delivery, lease)
        elif state in (RELEASED, REJECTED, MODIFIED):
            if lease is not None:
                self.unsettled[delivery] = None
                self._outcome(delivery, state, lease)()
            settled = True
        elif settled and lease is not None:
            # Settled and nothing said: nobody knows whether it was used, and it must not be lost.
            self.conversation.session.release([lease], tried=True)
        if settled:
            self.forget(delivery)

    def forget(self, delivery: Pointer) -> None:
        """A delivery is settled on both sides."""
        if delivery in self.unsettled:
            at_limit = len(self.unsettled) >= CONSUMER_CREDIT_MAX
            del self.unsettled[delivery]
            delivery_settle(delivery)
            self.conversation.wants_flush()
            if at_limit and self.is_open and not self.conversation.is_closed:
                self.pump()

    def _outcome(self, delivery: Pointer, state: int, lease: Unit) -> partial[None]:
        """What an outcome other than success means for a message."""
        session = self.conversation.session
        if state == RELEASED:
            return partial(session.release, [lease], tried=False)
        disposition = lib.pn_delivery_remote(delivery)
        if state == REJECTED:
            problem = condition_text(lib.pn_disposition_condition(disposition))
            return partial(session.reject, lease, problem or "the receiver has rejected it")
        if lib.pn_disposition_is_undeliverable(disposition):
            return partial(session.reject, lease, _UNDELIVERABLE_HERE)
        return partial(session.release, [lease], tried=bool(lib.pn_disposition_is_failed(disposition)))

    def _in_transaction(self, delivery: Pointer, lease: Unit | None) -> None:
        transaction: Transaction | None = None
        try:
            fields = remote_state_value(delivery)
            transaction = self.conversation.transaction(fields)
            if lease is None:
                return  # said before
            self.unsettled[delivery] = None
            transaction.retire(self, delivery)
            outcome = fields[1] if len(fields) > 1 else None
            self._enlist(transaction, lease, outcome)
        except (Refusal, Malformed, EntrepotError) as error:
            refusal = refusal_of(error) if isinstance(error, EntrepotError) else error
            if transaction is not None and isinstance(refusal, Refusal):
                transaction.failed(refusal)
            if lease is not None:
                self.conversation.session.release([lease], tried=True)
                self.unsettled[delivery] = None
            if transaction is None:
                self.detach(refusal if isinstance(refusal, Refusal) else Refusal("amqp:decode-error", str(error)))

    def _enlist(self, transaction: Transaction, lease: Unit, outcome: Any) -> None:
        session = self.conversation.session
        state = outcome.descriptor if isinstance(outcome, Described) else ACCEPTED
        fields = outcome.value if isinstance(outcome, Described) and isinstance(outcome.value, list) else []
        if state == RELEASED:
            transaction.afterwards(partial(session.release, [lease], tried=False))
        elif state == REJECTED or (state == MODIFIED and len(fields) > 1 and fields[1] is True):
            problem = "the receiver has rejected it" if state == REJECTED else _UNDELIVERABLE_HERE
            transaction.afterwards(partial(session.reject, lease, problem))
        elif state == MODIFIED:
            transaction.afterwards(partial(session.release, [lease], tried=bool(fields and fields[0] is True)))
        else:
            session.enlist(lease, transaction.unit)

    # --- the end ------------------------------------------------------------------------------

    def end(self) -> None:
        super().end()
        self.conversation.draining.discard(self)
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        session = self.conversation.session
        leases = [lease for lease in self.unsettled.values() if lease is not None]
        self.unsettled = {}
        if not session.closed:
            session.release(leases, tried=True)
