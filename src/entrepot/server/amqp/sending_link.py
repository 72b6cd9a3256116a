# SPDX-License-Identifier: Apache-2.0
"""What links that send have in common: messages become deliveries, and stop when the partner does not read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.engine.criteria import Criteria
from entrepot.limits import MIB
from entrepot.message import Message
from entrepot.server.amqp.addresses import parse_source
from entrepot.server.amqp.conditions import MESSAGE_SIZE_EXCEEDED, Refusal
from entrepot.server.amqp.engine import (
    SENDER_SETTLED,
    SENDER_UNSETTLED,
    Pointer,
    delivery_settle,
    lib,
    link_advance,
    link_send,
    new_delivery,
    session_outgoing_bytes,
    set_value,
    value_of,
)
from entrepot.server.amqp.filters import read_filters
from entrepot.server.amqp.mapping import encode_message
from entrepot.server.amqp.peer_link import PeerLink, address_of

if TYPE_CHECKING:
    from entrepot.server.amqp.conversation import AmqpConversation

UNSENT_BYTES_MAX = 1 * MIB
"""What may wait in the engine for a partner's session to take it, before its links stop."""


class SendingLink(PeerLink):
    """A link by which a partner receives."""

    __slots__ = ("criteria", "message_bytes_max", "settles", "stalled")

    def __init__(self, conversation: AmqpConversation, pointer: Pointer) -> None:
        super().__init__(conversation, pointer)
        self.criteria: Criteria | None = None
        self.settles: bool = lib.pn_link_remote_snd_settle_mode(pointer) == SENDER_SETTLED
        """Whether messages are sent and forgotten."""
        self.stalled = False
        """Whether the partner has to take what it was sent first."""
        self.message_bytes_max = 0

    def attach(self) -> None:
        source = lib.pn_link_remote_source(self.pointer)
        filters = read_filters(value_of(lib.pn_terminus_filter(source)))
        self.criteria = filters.criteria
        self.echo()
        set_value(lib.pn_terminus_filter(lib.pn_link_source(self.pointer)), filters.heeded)
        if lib.pn_terminus_is_dynamic(source):
            self.make_temporary(lib.pn_link_source(self.pointer))
            return
        self.name = parse_source(address_of(source) or "").route
        self.ready()

    def open(self) -> None:
        self.message_bytes_max = lib.pn_link_remote_max_message_size(self.pointer)
        lib.pn_link_set_snd_settle_mode(self.pointer, SENDER_SETTLED if self.settles else SENDER_UNSETTLED)
        lib.pn_link_set_rcv_settle_mode(self.pointer, lib.pn_link_remote_rcv_settle_mode(self.pointer))
        lib.pn_link_open(self.pointer)
        self.is_open = True
        self.conversation.wants_flush()

    def send(self, message: Message) -> Pointer | None:
        """Send a message; returns its delivery if it is to be settled later.

        Raises:
            Refusal: The partner does not take messages of this size; it was not sent.
        """
        data = encode_message(message, self.name)
        if len(data) > self.message_bytes_max > 0:
            problem = f"a message of {len(data)} bytes, the receiver takes {self.message_bytes_max}"
            raise Refusal(MESSAGE_SIZE_EXCEEDED, problem)
        pointer = self.pointer
        conversation = self.conversation
        delivery = new_delivery(pointer, conversation.next_tag())
        link_send(pointer, data, len(data))
        conversation.wants_flush()
        if self.settles:
            delivery_settle(delivery)  # which sends it, too
            delivery = None
        else:
            link_advance(pointer)
        if session_outgoing_bytes(self.session_pointer) > UNSENT_BYTES_MAX:
            self.stalled = True
            conversation.stalled.add(self)
        return delivery

    def pump(self) -> None:
        """Send what there is, as far as the partner wants it."""
        raise NotImplementedError

    def on_flow(self) -> None:
        if self.is_open:
            self.pump()

    def go_on(self) -> None:
        """Whether the partner has taken enough for more to be sent is looked at; if it has, more is."""
        if session_outgoing_bytes(self.session_pointer) <= UNSENT_BYTES_MAX // 2:
            self.stalled = False
            self.conversation.stalled.discard(self)
            self.pump()

    def end(self) -> None:
        super().end()
        self.conversation.stalled.discard(self)
