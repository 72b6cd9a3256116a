# SPDX-License-Identifier: Apache-2.0
"""How the links of one connection open, leave and end subscriptions, one after the other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from entrepot.engine.definitions import SubscriptionDefinition
from entrepot.errors import EntrepotError, QueueInUse, SubscriptionInUse
from entrepot.server.open_subscriptions import Subscribed

if TYPE_CHECKING:
    from entrepot.server.amqp.conversation import AmqpConversation
    from entrepot.server.session import Done

_END_RETRY_S = 0.01
_END_RETRIES = 100


class LinkSubscriptions:
    """Those of one connection.

    While one is opened or ended the connection's events wait, so that no link
    can meet a subscription that is about to be, or has nearly gone.
    """

    __slots__ = ("_conversation",)

    def __init__(self, conversation: AmqpConversation) -> None:
        self._conversation = conversation

    def open(self, wanted: SubscriptionDefinition, done: Subscribed) -> None:
        """Let a link read a subscription; `done` is given the subscription as it is."""
        conversation = self._conversation

        def opened(found: SubscriptionDefinition, error: EntrepotError | None) -> None:
            done(found, error)
            conversation.go_on()

        conversation.hold()
        conversation.session.subscriptions.open(wanted, opened)

    def leave(self, name: str) -> None:
        """A link reads it no longer."""
        session = self._conversation.session
        if not session.closed:
            session.subscriptions.leave(name, lambda _: None)

    def end(self, name: str, done: Done) -> None:
        """A link reads it no longer, and nobody shall; `done` is told if that cannot be, and then it goes on."""
        conversation = self._conversation

        def ended(error: EntrepotError | None) -> None:
            done(error)
            conversation.go_on()

        self.leave(name)
        if conversation.session.subscriptions.is_open(name):
            done(SubscriptionInUse(name, "other links of this connection read it"))
            return
        conversation.hold()
        conversation.settle()
        self._end(name, _END_RETRIES, ended)

    def _end(self, name: str, retries: int, done: Done) -> None:
        session = self._conversation.session

        def ended(error: EntrepotError | None) -> None:
            # What the partner has accepted a moment ago may not have left the queue yet.
            if isinstance(error, QueueInUse) and retries:
                session.registry.loop.call_later(_END_RETRY_S, partial(self._end, name, retries - 1, done))
            else:
                done(error)

        if not session.closed:
            session.subscriptions.end(name, ended)
