# SPDX-License-Identifier: Apache-2.0
"""Links by which a partner sends: every message that comes is put, and accepted when it is safe."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from entrepot.engine.publishing import PREFIX as TOPIC_PREFIX
from entrepot.errors import EntrepotError
from entrepot.limits import FRAME_OVERHEAD_BYTES_MAX
from entrepot.server.amqp.addresses import parse_target
from entrepot.server.amqp.codec import Malformed
from entrepot.server.amqp.conditions import (
    DECODE_ERROR,
    INVALID_FIELD,
    MESSAGE_SIZE_EXCEEDED,
    TRANSFER_LIMIT_EXCEEDED,
    Refusal,
    refusal_of,
)
from entrepot.server.amqp.engine import (
    ACCEPTED,
    RECEIVER_FIRST,
    TRANSACTIONAL,
    Pointer,
    delivery_partial,
    delivery_readable,
    delivery_remote_state,
    delivery_settle,
    delivery_settled,
    delivery_update,
    lib,
    link_advance,
    link_flow,
    read,
    reject,
    remote_state_value,
    set_state,
)
from entrepot.server.amqp.mapping import decode_message
from entrepot.server.amqp.peer_link import PeerLink, address_of, capabilities_of, plain_kind
from entrepot.server.message_checks import checked_message

if TYPE_CHECKING:
    from entrepot.server.amqp.conversation import AmqpConversation
    from entrepot.server.amqp.transaction import Transaction

CREDIT = 200
"""Messages that a sender may have on their way. Half of it is granted anew at a time."""


class ReceivingLink(PeerLink):
    """A link whose deliveries come in pieces and are handed over whole."""

    __slots__ = ("_credit", "_pieces", "_pieces_bytes", "_used", "message_bytes_max")

    def __init__(self, conversation: AmqpConversation, pointer: Pointer) -> None:
        super().__init__(conversation, pointer)
        self.message_bytes_max = 0
        self._pieces: list[bytes] = []
        self._pieces_bytes = 0
        self._credit = CREDIT
        self._used = 0

    def open(self) -> None:
        lib.pn_link_set_max_message_size(self.pointer, self.message_bytes_max)
        lib.pn_link_set_snd_settle_mode(self.pointer, lib.pn_link_remote_snd_settle_mode(self.pointer))
        lib.pn_link_set_rcv_settle_mode(self.pointer, RECEIVER_FIRST)
        lib.pn_link_open(self.pointer)
        self.is_open = True
        link_flow(self.pointer, CREDIT)
        self.conversation.wants_flush()

    def on_delivery(self, delivery: Pointer) -> None:
        if not delivery_readable(delivery):
            return  # it was taken before, and its sender has noticed
        if not self.is_open:
            delivery_settle(delivery)
            return
        data = read(self.pointer)
        if data is None:
            self._forget_pieces()
            self._credit -= 1
            delivery_settle(delivery)
            self.used()
            return
        if delivery_partial(delivery):
            self._keep(data)
            return
        if self._pieces:
            self._keep(data)
            if not self.is_open:
                return
            data = b"".join(self._pieces)
            self._forget_pieces()
        self._credit -= 1
        if self._credit < 0:
            self.detach(Refusal(TRANSFER_LIMIT_EXCEEDED, "a message came without credit for it"))
            return
        link_advance(self.pointer)
        self.on_message(delivery, data)

    def on_message(self, delivery: Pointer, data: bytes) -> None:
        """A whole message has come. Its delivery is to be settled, and `used` to be called for it."""
        raise NotImplementedError

    def _keep(self, data: bytes) -> None:
        self._pieces.append(data)
        self._pieces_bytes += len(data)
        self.conversation.pieces_bytes += len(data)
        if self._pieces_bytes > self.message_bytes_max:
            limit = self.message_bytes_max
            self.detach(Refusal(MESSAGE_SIZE_EXCEEDED, f"a message of more than {limit} bytes"))
        else:
            self.conversation.require_room_for_pieces()

    def _forget_pieces(self) -> None:
        self.conversation.pieces_bytes -= self._pieces_bytes
        self._pieces = []
        self._pieces_bytes = 0

    def used(self) -> None:
        """A message has been dealt with, so its sender may send another one."""
        self._used += 1
        if self._used >= CREDIT // 2 and self.is_open:
            link_flow(self.pointer, self._used)
            self._credit += self._used
            self._used = 0

    def end(self) -> None:
        super().end()
        self._forget_pieces()


class IncomingLink(ReceivingLink):
    """A partner that puts messages to one queue or topic or, as an anonymous relay, to any."""

    __slots__ = ()

    def attach(self) -> None:
        target = lib.pn_link_remote_target(self.pointer)
        self.echo()
        if lib.pn_terminus_is_dynamic(target):
            self.make_temporary(lib.pn_link_target(self.pointer))
            return
        text = address_of(target)
        if text:
            address = parse_target(text, plain_kind(capabilities_of(target)))
            self.conversation.session.require_put(address.route)
            self.name = address.route
        self.ready()

    def ready(self) -> None:
        registry = self.conversation.session.registry
        with registry.host.lock:
            objects = registry.engine.manager.objects
            is_queue = self.name and not self.name.startswith(TOPIC_PREFIX)
            limit = objects.route(self.name).body_bytes_max if is_queue else objects.manager.body_bytes_max
        # The limit is a body's; the rest of the message comes on top of it.
        self.message_bytes_max = min(limit, self.conversation.body_bytes_max) + FRAME_OVERHEAD_BYTES_MAX
        self.open()

    def on_message(self, delivery: Pointer, data: bytes) -> None:
        conversation = self.conversation
        session = conversation.session
        settled = delivery_settled(delivery)
        transaction: Transaction | None = None
        try:
            if delivery_remote_state(delivery) == TRANSACTIONAL:
                transaction = conversation.transaction(remote_state_value(delivery))
            message, persistent, priority, to = decode_message(data, session.engine.manager.clock.now())
            name = self.name or _destination(to)
            if message.retained and not name.startswith(TOPIC_PREFIX):
                message = replace(message, retained=False)  # a queue keeps everything anyway
            message = checked_message(message, user=session.identity.user, application=session.application)
        except Malformed as error:
            self._refused(delivery, settled, transaction, Refusal(DECODE_ERROR, str(error)))
            return
        except EntrepotError as error:
            self._refused(delivery, settled, transaction, refusal_of(error))
            return
        except Refusal as refusal:
            self._refused(delivery, settled, transaction, refusal)
            return
        if settled:
            delivery_settle(delivery)
        session.put(
            name,
            message,
            partial(self._was_put, None if settled else delivery, transaction),
            persistent=persistent,
            priority=priority,
            unit=None if transaction is None else transaction.unit,
        )

    def _was_put(
        self, delivery: Pointer | None, transaction: Transaction | None, _: bytes, error: EntrepotError | None
    ) -> None:
        if not self.is_open:
            return
        if error is not None:
            self._refused(delivery, delivery is None, transaction, refusal_of(error))
            return
        if delivery is not None:
            if transaction is None:
                delivery_update(delivery, ACCEPTED)
            else:
                set_state(delivery, TRANSACTIONAL, transaction.accepted)
            delivery_settle(delivery)
        self.used()
        self.conversation.wants_flush()

    def _refused(
        self, delivery: Pointer | None, settled: bool, transaction: Transaction | None, refusal: Refusal
    ) -> None:
        if transaction is not None:
            transaction.failed(refusal)
        if settled:
            # Its sender has stopped caring for the message, so the link is all that we can tell it by.
            if transaction is None:
                self.detach(refusal)
            return
        assert delivery is not None
        reject(delivery, refusal)
        self.used()
        self.conversation.wants_flush()


def _destination(to: str | None) -> str:
    if not to:
        raise Refusal(INVALID_FIELD, "neither the link nor the message says where it is to go")
    return parse_target(to).route
