# SPDX-License-Identifier: Apache-2.0
"""What a session's partner may do: asked with every verb, before it is known whether the object exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.engine.publishing import PREFIX as TOPIC_PREFIX
from entrepot.engine.put_authority import queues_asked
from entrepot.errors import EntrepotError, NotAuthorized, UserLimitReached

if TYPE_CHECKING:
    from entrepot.engine.loop_host import LoopHost
    from entrepot.server.open_subscriptions import OpenSubscriptions
    from entrepot.server.session_registry import Identity, SessionRegistry

_ALLOWED_MAX = 1000
_READING = ("GET", "BROWSE")


class SessionAuthority:
    """The part of a session that refuses."""

    __slots__ = ("_allowed", "_allowed_at")

    if TYPE_CHECKING:
        registry: SessionRegistry
        engine: LoopHost
        identity: Identity
        temporary: list[str]
        subscriptions: OpenSubscriptions
        _allowed: set[tuple[str, str, str]]
        _allowed_at: int

    def require(self, object_type: str, name: str, what: str) -> None:
        """Refuse what this partner may not do.

        Raises:
            NotAuthorized: Whether the object exists is not told.
        """
        identity = self.identity
        if identity.administrator:
            return
        if self._allowed_at != self.registry.authority_epoch:
            self._allowed.clear()
            self._allowed_at = self.registry.authority_epoch
        if (object_type, name, what) in self._allowed:
            return
        if name in self.temporary or (name in self.subscriptions.queues and what in _READING):
            return  # not remembered: once it is gone, the name may be another's
        judge = self.registry.judge
        if judge is None or judge.allows(identity.user, identity.groups, object_type, name, what):
            if len(self._allowed) < _ALLOWED_MAX:
                self._allowed.add((object_type, name, what))
            return
        error = NotAuthorized(identity.user, name, what)
        self.registry.refused(identity, error)
        raise error

    def is_known_to_have(self, object_type: str, name: str, what: str) -> bool:
        """Whether an authority need not be asked for any more; if it need, `require` does so."""
        return self.identity.administrator or (
            (object_type, name, what) in self._allowed and self._allowed_at == self.registry.authority_epoch
        )

    def may(self, object_type: str, name: str, what: str) -> bool:
        """Whether this partner has an authority; nothing is told to the audit log."""
        identity, judge = self.identity, self.registry.judge
        return (
            identity.administrator
            or judge is None
            or judge.allows(identity.user, identity.groups, object_type, name, what)
        )

    def tell_refused(self, error: EntrepotError | None) -> None:
        """Tell the audit log of a refusal by the engine; not under its lock."""
        if isinstance(error, NotAuthorized | UserLimitReached):
            self.registry.refused(self.identity, error)

    def require_put(self, name: str | list[str]) -> None:
        """Refuse a put that this partner may not do, whatever way it would take.

        Raises:
            NotAuthorized
        """
        if self.identity.administrator:
            return
        for each in [name] if isinstance(name, str) else name:
            if each.startswith(TOPIC_PREFIX):
                self.require_topic(each[len(TOPIC_PREFIX) :], "PUB")
            elif "@" not in each:
                self.require("QUEUE", each, "PUT")
            else:
                with self.registry.host.lock:
                    queues = queues_asked(self.engine.manager.objects, each)
                for queue in queues:  # with the lock released, because refusals are written down
                    self.require("QUEUE", queue, "PUT")

    def require_topic(self, topic: str, what: str) -> None:
        """Refuse what this partner may not do with a topic: a topic object on the way to it has to allow it.

        Raises:
            NotAuthorized
        """
        identity, judge = self.identity, self.registry.judge
        if identity.administrator or judge is None:
            return
        with self.registry.host.lock:
            names = self.engine.manager.objects.subscribers.ruling(topic).names
        if not any(judge.allows(identity.user, identity.groups, "TOPIC", name, what) for name in names):
            self.require("TOPIC", names[0], what)  # which refuses, and tells
