# SPDX-License-Identifier: Apache-2.0
"""Links by which a partner subscribes: they consume the queue of a subscription, which they open and leave.

A plain one ends with its link. A durable one outlives it, and goes on
collecting: `<container>:<link name>` is its name, by which the next link
finds it. Links that share one have its name up to a `|`, and whatever
behind that. Without a source a link means the durable subscription of its
name, whatever it is about: to read it, or to end it with a close.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from entrepot.engine.definitions import SubscriptionDefinition
from entrepot.errors import EntrepotError, NotAuthorized, SubscriptionNotFound
from entrepot.server.amqp.addresses import TOPIC_SCHEME, parse_source
from entrepot.server.amqp.codec import Symbols, encode
from entrepot.server.amqp.conditions import Refusal, refusal_of
from entrepot.server.amqp.engine import (
    DISTRIBUTION_COPY,
    DURABLE_DELIVERIES,
    EXPIRE_NEVER,
    EXPIRE_WITH_LINK,
    NOT_DURABLE,
    SOURCE,
    UNSPECIFIED,
    Pointer,
    lib,
    set_value,
    text,
    value_of,
)
from entrepot.server.amqp.filters import CONTENT_FILTER, SELECTOR, encode_filters, read_filters
from entrepot.server.amqp.outgoing import OutgoingLink
from entrepot.server.amqp.peer_link import Closed, address_of, capabilities_of, plain_kind

if TYPE_CHECKING:
    from entrepot.server.amqp.conversation import AmqpConversation

_DELIMITER = "|"
_GLOBAL = "global"


class SubscriptionLink(OutgoingLink):
    """A partner that takes the publications of a subscription away."""

    __slots__ = ("_subscription",)

    def __init__(self, conversation: AmqpConversation, pointer: Pointer) -> None:
        super().__init__(conversation, pointer)
        self._subscription: SubscriptionDefinition | None = None

    # --- attaching ----------------------------------------------------------------------------

    def attach(self) -> None:
        source = lib.pn_link_remote_source(self.pointer)
        wanted = self._existing() if lib.pn_terminus_get_type(source) == UNSPECIFIED else self._wanted(source)
        self.conversation.subscriptions.open(wanted, self._opened)

    def _wanted(self, source: Pointer) -> SubscriptionDefinition:
        capabilities = capabilities_of(source)
        address = parse_source(address_of(source) or "", plain_kind(capabilities))
        filters = read_filters(value_of(lib.pn_terminus_filter(source)), topic=True)
        shared = "shared" in capabilities
        durable = (
            lib.pn_terminus_get_durability(source) != NOT_DURABLE
            and lib.pn_terminus_get_expiry_policy(source) == EXPIRE_NEVER
        )
        name = ""
        if durable or shared:
            name = self._link_name.partition(_DELIMITER)[0] if shared else self._link_name
            name = name if _GLOBAL in capabilities else self._own(name)
        self.echo()
        set_value(lib.pn_terminus_filter(lib.pn_link_source(self.pointer)), filters.heeded)
        return SubscriptionDefinition(
            name=name,
            topic=address.name,
            selector=filters.selector,
            content=filters.content,
            managed=True,
            durable=durable,
            shared=shared,
            type="API",
        )

    def _existing(self) -> SubscriptionDefinition:
        """What to open for a link without a source: the durable subscription that its name can mean."""
        link_name = self._link_name
        names = [self._own(link_name)]
        before, delimiter, behind = link_name.partition(_DELIMITER)
        if delimiter:
            names.append(before if behind.startswith(_GLOBAL) else self._own(before))
        session = self.conversation.session
        with session.registry.host.lock:
            found = [session.engine.manager.objects.subscriptions.get(name) for name in names]
        existing = next((each for each in found if each is not None and each.durable), None)
        self.echo()
        if existing is None:
            raise SubscriptionNotFound(names[-1])
        # Without a topic, so that whatever it is about is right; and as if its queue had been made for it, because
        # who only reads its queue need not be allowed to put there.
        return SubscriptionDefinition(name=existing.name, managed=True, durable=True, shared=existing.shared)

    @property
    def _link_name(self) -> str:
        return text(lib.pn_link_name(self.pointer)) or ""

    def _own(self, name: str) -> str:
        return f"{self.conversation.container}:{name}"

    def _opened(self, found: SubscriptionDefinition, error: EntrepotError | None) -> None:
        self.conversation.guarded(partial(self._use, found, error))

    def _use(self, found: SubscriptionDefinition, error: EntrepotError | None) -> None:
        if error is not None:
            if isinstance(error, NotAuthorized) and not found.topic:
                # Whoever may not have it is not told that it exists.
                error = SubscriptionNotFound(found.name)
            self.refuse(refusal_of(error))
            return
        self._subscription = found
        self.name = found.destination
        self._describe(found)
        try:
            self.ready()
        except EntrepotError as refused:
            self.end()
            self.refuse(refusal_of(refused))

    def _describe(self, found: SubscriptionDefinition) -> None:
        """Tell the partner what it has."""
        source = lib.pn_link_source(self.pointer)
        if lib.pn_terminus_get_type(source) == UNSPECIFIED:
            lib.pn_terminus_set_type(source, SOURCE)
            lib.pn_terminus_set_address(source, (TOPIC_SCHEME + found.topic).encode())
            capabilities = Symbols(("topic", "shared") if found.shared else ("topic",))
            set_value(lib.pn_terminus_capabilities(source), encode(capabilities))
            filters = {SELECTOR: found.selector, CONTENT_FILTER: found.content}
            set_value(lib.pn_terminus_filter(source), encode_filters({k: v for k, v in filters.items() if v}, {}))
        lib.pn_terminus_set_durability(source, DURABLE_DELIVERIES if found.durable else NOT_DURABLE)
        lib.pn_terminus_set_expiry_policy(source, EXPIRE_NEVER if found.durable else EXPIRE_WITH_LINK)
        lib.pn_terminus_set_distribution_mode(source, DISTRIBUTION_COPY)

    # --- the end ------------------------------------------------------------------------------

    def close(self, done: Closed) -> None:
        found, self._subscription = self._subscription, None
        self.end()
        if found is None:
            done(None)
        elif found.durable:
            self.conversation.subscriptions.end(found.name, partial(self._ended, done))
        else:
            self.conversation.subscriptions.leave(found.name)
            done(None)

    def _ended(self, done: Closed, error: EntrepotError | None) -> None:
        refusal: Refusal | None = None if error is None else refusal_of(error)
        self.conversation.guarded(partial(done, refusal))

    def end(self) -> None:
        super().end()
        # Last, because the queue of one that is not durable goes with it.
        found, self._subscription = self._subscription, None
        if found is not None:
            self.conversation.subscriptions.leave(found.name)
