# SPDX-License-Identifier: Apache-2.0
"""What all links have in common: how they are attached, refused and ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from entrepot.engine.definitions import MODEL_QUEUE
from entrepot.errors import EntrepotError
from entrepot.server.amqp.addresses import Kind
from entrepot.server.amqp.codec import Described, Symbol, ULong, encode
from entrepot.server.amqp.conditions import NOT_IMPLEMENTED, Refusal, refusal_of
from entrepot.server.amqp.engine import (
    EXPIRE_WITH_LINK,
    UNSPECIFIED,
    Pointer,
    lib,
    set_condition,
    set_value,
    text,
    value_of,
)

if TYPE_CHECKING:
    from entrepot.server.amqp.conversation import AmqpConversation

_DELETE_ON_CLOSE = encode({Symbol("lifetime-policy"): Described(ULong(0x2B), [])})
_DYNAMIC_NAME = "AMQP.*"

Closed = Callable[[Refusal | None], None]


class PeerLink:
    """One link; made when the partner attaches it, ended once, freed with the partner's detach."""

    __slots__ = ("conversation", "is_open", "name", "pointer", "session_pointer", "temporary")

    def __init__(self, conversation: AmqpConversation, pointer: Pointer) -> None:
        self.conversation = conversation
        self.pointer = pointer
        self.session_pointer = lib.pn_link_session(pointer)
        self.is_open = False
        self.name = ""
        """The queue."""
        self.temporary = ""
        """The queue that was made for this link."""

    # --- attaching ----------------------------------------------------------------------------

    def attach(self) -> None:
        """Answer the partner's attach.

        Raises:
            Refusal, EntrepotError: It cannot be; nothing has been answered yet.
        """
        raise NotImplementedError

    def refuse(self, refusal: Refusal) -> None:
        """Answer an attach as the standard wants it: with a link that leads nowhere, and its end."""
        is_sender = lib.pn_link_is_sender(self.pointer)
        nowhere = lib.pn_link_source(self.pointer) if is_sender else lib.pn_link_target(self.pointer)
        lib.pn_terminus_set_type(nowhere, UNSPECIFIED)
        lib.pn_link_open(self.pointer)
        set_condition(lib.pn_link_condition(self.pointer), refusal)
        lib.pn_link_close(self.pointer)
        self.conversation.wants_flush()

    def echo(self) -> None:
        """Take over what the partner has said about both ends of the link."""
        lib.pn_terminus_copy(lib.pn_link_source(self.pointer), lib.pn_link_remote_source(self.pointer))
        lib.pn_terminus_copy(lib.pn_link_target(self.pointer), lib.pn_link_remote_target(self.pointer))

    def make_temporary(self, terminus: Pointer) -> None:
        """Attach this link to a queue that lives as long as it does, and tell the partner its name.

        Raises:
            Refusal: It is to be a topic.
        """
        if "temporary-topic" in capabilities_of(terminus):
            raise Refusal(NOT_IMPLEMENTED, "there are temporary queues, but no temporary topics")

        def made(name: str, error: EntrepotError | None) -> None:
            conversation = self.conversation
            if self.pointer not in conversation.links:
                return
            if error is not None:
                self.refuse(refusal_of(error))
                return
            self.name = self.temporary = name
            lib.pn_terminus_set_address(terminus, name.encode())
            lib.pn_terminus_set_dynamic(terminus, True)
            lib.pn_terminus_set_expiry_policy(terminus, EXPIRE_WITH_LINK)
            set_value(lib.pn_terminus_properties(terminus), _DELETE_ON_CLOSE)
            conversation.guarded(self.ready)

        self.conversation.session.make_dynamic(MODEL_QUEUE, _DYNAMIC_NAME, made)

    def ready(self) -> None:
        """The queue is known, and may be used: open the link."""
        raise NotImplementedError

    # --- while it is there --------------------------------------------------------------------

    def on_delivery(self, delivery: Pointer) -> None:
        """Something has come, or has changed, on a delivery of this link."""

    def on_flow(self) -> None:
        """The partner has given credit, or taken it back."""

    # --- the end ------------------------------------------------------------------------------

    def detach(self, refusal: Refusal) -> None:
        """End the link from our side, and say why."""
        if not self.is_open:
            return
        self.end()
        set_condition(lib.pn_link_condition(self.pointer), refusal)
        lib.pn_link_close(self.pointer)
        self.conversation.wants_flush()

    def close(self, done: Closed) -> None:
        """The partner has closed the link; `done` is called when it may be told that, with what did not go well."""
        self.end()
        done(None)

    def end(self) -> None:
        """The link is used no more; called more than once."""
        self.is_open = False
        if self.temporary:
            session, name = self.conversation.session, self.temporary
            self.temporary = ""
            if not session.closed:
                session.drop_temporary(name)


def address_of(terminus: Pointer) -> str | None:
    return text(lib.pn_terminus_get_address(terminus))


def capabilities_of(terminus: Pointer) -> set[str]:
    """What a terminus is said to be able to do."""
    found = value_of(lib.pn_terminus_capabilities(terminus))
    several = found if isinstance(found, list) else [found]
    return {str(each) for each in several if isinstance(each, str)}


def plain_kind(capabilities: set[str]) -> Kind:
    """What an address without a prefix means at a terminus with these capabilities."""
    return "topic" if "topic" in capabilities else "queue"
