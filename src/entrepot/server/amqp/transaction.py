# SPDX-License-Identifier: Apache-2.0
"""AMQP's transactions: units of work that a partner declares, fills and discharges by messages to a coordinator."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from entrepot.engine.unit_of_work import Unit, UnitState
from entrepot.errors import EntrepotError
from entrepot.limits import UNITS_PER_CONNECTION_MAX
from entrepot.server.amqp.codec import Described, Malformed, ULong, decode, encode
from entrepot.server.amqp.conditions import (
    DECODE_ERROR,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    ROLLBACK,
    UNKNOWN_ID,
    Refusal,
    refusal_of,
)
from entrepot.server.amqp.engine import (
    ACCEPTED,
    DECLARED,
    Pointer,
    delivery_settle,
    delivery_settled,
    delivery_update,
    reject,
    set_state,
)
from entrepot.server.amqp.incoming import ReceivingLink

if TYPE_CHECKING:
    from entrepot.server.amqp.conversation import AmqpConversation
    from entrepot.server.amqp.outgoing import OutgoingLink

_DECLARE = (0x31, "amqp:declare:list")
_DISCHARGE = (0x32, "amqp:discharge:list")
_MESSAGE_BYTES_MAX = 4096
_VALUE_SECTION = 0x77


class Transaction:
    """A unit of work, and the deliveries that await its end."""

    __slots__ = ("_after", "_failure", "_retired", "accepted", "coordinator", "identifier", "unit")

    def __init__(self, identifier: bytes, unit: Unit, coordinator: CoordinatorLink) -> None:
        self.identifier = identifier
        self.unit = unit
        self.coordinator = coordinator
        self.accepted = encode([identifier, Described(ULong(ACCEPTED), [])])
        """The state of a message that was put in it."""
        self._failure: Refusal | None = None
        self._retired: list[tuple[OutgoingLink, Pointer]] = []
        self._after: list[partial[None]] = []

    def failed(self, refusal: Refusal) -> None:
        """Something in it did not happen, so nothing of it may."""
        if self._failure is None:
            self._failure = refusal

    def retire(self, link: OutgoingLink, delivery: Pointer) -> None:
        """A delivery is settled with the transaction."""
        self._retired.append((link, delivery))

    def afterwards(self, what: partial[None]) -> None:
        """Do something once the transaction has been committed; if it is backed out, the messages return anyway."""
        self._after.append(what)

    def require_whole(self) -> None:
        if self._failure is not None:
            raise Refusal(ROLLBACK, f"{self._failure.condition}: {self._failure.description}")

    def ended(self, *, committed: bool) -> None:
        after, self._after = self._after, []
        if committed:
            for what in after:
                what()
        for link, delivery in self._retired:
            link.forget(delivery)
        self._retired = []


class CoordinatorLink(ReceivingLink):
    """The link by which a partner declares and discharges; what it leaves open is backed out with it."""

    __slots__ = ("_mine",)

    def __init__(self, conversation: AmqpConversation, pointer: Pointer) -> None:
        super().__init__(conversation, pointer)
        self.message_bytes_max = _MESSAGE_BYTES_MAX
        self._mine: set[bytes] = set()

    def attach(self) -> None:
        self.echo()
        self.open()

    def on_message(self, delivery: Pointer, data: bytes) -> None:
        unanswered: Pointer | None = delivery
        if delivery_settled(delivery):
            delivery_settle(delivery)
            unanswered = None
        try:
            wish = _wish(data)
            if wish.descriptor in _DECLARE:
                self._declare(unanswered, wish.value)
            elif wish.descriptor in _DISCHARGE:
                self._discharge(unanswered, wish.value)
            else:
                raise Refusal(NOT_IMPLEMENTED, f"a coordinator does not know {wish.descriptor!s:.60}")
        except Malformed as error:
            self._answer(unanswered, Refusal(DECODE_ERROR, str(error)))
        except EntrepotError as error:
            self._answer(unanswered, refusal_of(error))
        except Refusal as refusal:
            self._answer(unanswered, refusal)

    def _declare(self, delivery: Pointer | None, fields: Any) -> None:
        if isinstance(fields, list) and fields and fields[0] is not None:
            raise Refusal(NOT_IMPLEMENTED, "no transaction of several resource managers")
        if delivery is None:
            raise Refusal(NOT_ALLOWED, "who declares wants an answer")
        conversation = self.conversation
        if len(conversation.transactions) >= UNITS_PER_CONNECTION_MAX:
            raise Refusal(RESOURCE_LIMIT_EXCEEDED, f"{UNITS_PER_CONNECTION_MAX} transactions are open")
        identifier = conversation.next_transaction()
        transaction = Transaction(identifier, conversation.session.begin(), self)
        conversation.transactions[identifier] = transaction
        self._mine.add(identifier)
        set_state(delivery, DECLARED, encode([identifier]))
        delivery_settle(delivery)
        self.used()
        conversation.wants_flush()

    def _discharge(self, delivery: Pointer | None, fields: Any) -> None:
        transaction = self.conversation.transaction(fields)
        if transaction.coordinator is not self:
            raise Refusal(UNKNOWN_ID, "another coordinator has declared this transaction")
        del self.conversation.transactions[transaction.identifier]
        self._mine.discard(transaction.identifier)
        wants_commit = len(fields) < 2 or fields[1] is not True
        try:
            if wants_commit:
                transaction.require_whole()
        except Refusal:
            self._back_out(transaction)
            raise
        if not wants_commit:
            self._back_out(transaction)
            self._answer(delivery, None)
            return
        self.conversation.session.commit(transaction.unit, partial(self._committed, delivery, transaction))

    def _committed(self, delivery: Pointer | None, transaction: Transaction, error: EntrepotError | None) -> None:
        if error is not None and transaction.unit.state is UnitState.ACTIVE:
            self._back_out(transaction)
        else:
            transaction.ended(committed=error is None)
        if self.is_open:
            self._answer(delivery, None if error is None else Refusal(ROLLBACK, str(error)))

    def _back_out(self, transaction: Transaction) -> None:
        session = self.conversation.session
        if not session.closed and transaction.unit.state is UnitState.ACTIVE:
            session.back_out(transaction.unit)
        transaction.ended(committed=False)

    def _answer(self, delivery: Pointer | None, refusal: Refusal | None) -> None:
        if delivery is not None:
            if refusal is None:
                delivery_update(delivery, ACCEPTED)
                delivery_settle(delivery)
            else:
                reject(delivery, refusal)
        self.used()
        self.conversation.wants_flush()

    def end(self) -> None:
        super().end()
        for identifier in self._mine:
            transaction = self.conversation.transactions.pop(identifier, None)
            if transaction is not None:
                self._back_out(transaction)
        self._mine = set()


def _wish(data: bytes) -> Described:
    """What a message to a coordinator asks: the described list in its only section that counts."""
    at = 0
    while at < len(data):
        section, at = decode(data, at)
        if isinstance(section, Described) and section.descriptor in (_VALUE_SECTION, "amqp:amqp-value:*"):
            if isinstance(section.value, Described):
                return section.value
            break
    raise Malformed("neither declare nor discharge")
