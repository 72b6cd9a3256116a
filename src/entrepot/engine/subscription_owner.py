# SPDX-License-Identifier: Apache-2.0
"""Whose a subscription is: its owner and administrators open and end it, others open it with VARUSER(ANY).

One without an owner, made by an administrator's command or by a release
that kept none, is an administrator's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from entrepot.engine.definitions import SubscriptionDefinition
from entrepot.engine.quotas import DURABLE_SUBSCRIPTIONS, Quotas
from entrepot.errors import EntrepotError, NotAuthorized


@dataclass(frozen=True, slots=True)
class SubscriptionOwner:
    """A user who opens or ends subscriptions."""

    user: str
    administrator: bool

    def require_reader(self, definition: SubscriptionDefinition) -> None:
        """Refuse to open a subscription of another user, unless it is for any.

        Raises:
            NotAuthorized
        """
        if not definition.any_user:
            self.require_owner(definition)

    def require_owner(self, definition: SubscriptionDefinition) -> None:
        if not self.administrator and (not definition.user or definition.user != self.user):
            raise NotAuthorized(self.user, f"subscription {definition.name}", "owner")

    @contextmanager
    def counted(self, quotas: Quotas, wanted: SubscriptionDefinition) -> Iterator[None]:
        """Count a durable subscription that is being made.

        Raises:
            UserLimitReached
        """
        if not wanted.durable or not wanted.user:
            yield
            return
        quotas.hold(DURABLE_SUBSCRIPTIONS, wanted.user, wanted.name, limited=not self.administrator)
        try:
            yield
        except EntrepotError:
            quotas.let_go(DURABLE_SUBSCRIPTIONS, wanted.user, wanted.name)
            raise


TRUSTED = SubscriptionOwner("", administrator=True)
"""The process that runs the queue manager."""
