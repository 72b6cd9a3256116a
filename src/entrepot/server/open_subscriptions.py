# SPDX-License-Identifier: Apache-2.0
"""The subscriptions that a session has open; it leaves them when its partner goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, cast

from msgspec.structs import replace

from entrepot.engine.definitions import SubscriptionDefinition, require_name, require_subscription_name
from entrepot.engine.settlement import Settlement
from entrepot.engine.subscription_owner import SubscriptionOwner
from entrepot.engine.topics import parse_pattern
from entrepot.errors import EntrepotError, InvalidArgument, LimitExceeded, SubscriptionInUse, SubscriptionNotFound
from entrepot.limits import SUBSCRIPTIONS_PER_CONNECTION_MAX
from entrepot.selectors import ready_selector
from entrepot.server.wire import verbs

if TYPE_CHECKING:
    from entrepot.server.session import Done, Session

Subscribed = Callable[[SubscriptionDefinition, EntrepotError | None], None]


class OpenSubscriptions:
    """Those of one session; for the loop's thread."""

    __slots__ = ("_by_name", "_session", "queues")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._by_name: dict[str, tuple[SubscriptionDefinition, int]] = {}
        """Each with how often it is open: a shared one may be several times."""
        self.queues: set[str] = set()
        """The queues that were made for them: whoever may subscribe may read these."""

    def open(self, wanted: SubscriptionDefinition, done: Subscribed, *, new_only: bool = False) -> None:
        """Subscribe; `done` is given the subscription as it is."""
        session = self._session
        found = wanted

        def subscribe() -> Settlement | None:
            nonlocal found
            found, settlement = session.engine.manager.publishing.subscribe(
                wanted, new_only=new_only, holder=self._holder()
            )
            return settlement

        def subscribed(error: EntrepotError | None) -> None:
            if error is None:
                times = self._by_name[found.name][1] if self.is_open(found.name) else 0
                self._by_name[found.name] = (found, times + 1)
                if found.managed:
                    self.queues.add(found.destination)
                if session.closed:
                    self.leave_all()
            session.tell_refused(error)
            done(found, error)

        try:
            wanted = self._allowed(wanted)
        except EntrepotError as error:
            done(wanted, error)
            return
        session.attempt(subscribe, subscribed)

    def _allowed(self, wanted: SubscriptionDefinition) -> SubscriptionDefinition:
        session = self._session
        if len(self._by_name) >= SUBSCRIPTIONS_PER_CONNECTION_MAX:
            limit = SUBSCRIPTIONS_PER_CONNECTION_MAX
            raise LimitExceeded("subscriptions of a connection", limit + 1, limit)
        if wanted.topic:
            self._require_topic(wanted)
        else:
            self._require_existing(wanted.name)
        # For a queue of its own choice the engine asks for PUT, now and with every plan of a publication.
        return replace(wanted, user=session.identity.user)

    def _holder(self) -> SubscriptionOwner:
        identity = self._session.identity
        return SubscriptionOwner(identity.user, identity.administrator)

    def _require_topic(self, definition: SubscriptionDefinition) -> None:
        pattern = parse_pattern(definition.topic, definition.wildcards)
        self._session.require_topic("/".join(pattern.levels[: pattern.first_wild_level]), "SUB")

    def _require_existing(self, name: str) -> None:
        """Refuse what this partner may not do with a subscription of this name; whether there is one is not told."""
        session = self._session
        with session.registry.host.lock:
            existing = session.engine.manager.objects.subscriptions.get(name)
        if existing is not None:
            self._require_topic(existing)
        elif not session.identity.administrator:
            session.require_topic("", "SUB")

    def is_open(self, name: str) -> bool:
        return name in self._by_name

    def leave(self, name: str, done: Done) -> None:
        """The partner reads it no longer, or once less."""
        if self.is_open(name):
            self._leave_once(name)
        done(None)

    def _leave_once(self, name: str) -> None:
        found, times = self._by_name.pop(name)
        if times > 1:
            self._by_name[name] = (found, times - 1)
        else:
            self.queues.discard(found.destination)
        host = self._session.registry.host
        if host.failure is None:
            host.leave_subscription(name)

    def end(self, name: str, done: Done) -> None:
        """Leave a subscription and end it, durable or not; should others read it, it is only left."""
        session = self._session
        try:
            require_subscription_name(name)
            self._require_existing(name)
        except EntrepotError as error:
            done(error)
            return
        left = self.is_open(name)
        if left:
            self._leave_once(name)
        with session.registry.host.lock:
            gone = name not in session.engine.manager.objects.subscriptions
        if gone:
            done(None if left else SubscriptionNotFound(name))
            return

        def ended(error: EntrepotError | None) -> None:
            session.tell_refused(error)
            done(error)

        publishing = session.engine.manager.publishing
        session.attempt(lambda: publishing.unsubscribe(name, holder=self._holder()), ended)

    def leave_all(self) -> None:
        while self._by_name:
            self._leave_once(next(iter(self._by_name)))


def subscribe(session: Session | None, frame: verbs.Subscribe, answer: Callable[..., None]) -> None:
    """The frame SUBSCRIBE."""
    assert session is not None
    if frame.wildcards not in ("TOPIC", "CHAR"):
        raise InvalidArgument("wildcards", repr(frame.wildcards[:20]), "TOPIC or CHAR")
    if frame.name:
        require_subscription_name(frame.name)
    if frame.queue:
        require_name("queue", frame.queue.partition("@")[0])
    wanted = SubscriptionDefinition(
        name=frame.name,
        topic=frame.topic,
        wildcards=cast(Literal["TOPIC", "CHAR"], frame.wildcards),
        selector=frame.selector and ready_selector(frame.selector).text,
        content=frame.content,
        destination=frame.queue,
        managed=not frame.queue,
        durable=frame.durable,
        shared=frame.shared,
        type="API",
    )
    session.subscriptions.open(
        wanted, lambda found, error: answer(error, [found.name, found.destination]), new_only=frame.new_only
    )


def unsubscribe(session: Session | None, frame: verbs.Unsubscribe, answer: Callable[..., None]) -> None:
    """The frame UNSUBSCRIBE."""
    assert session is not None
    if frame.end:
        if session.subscriptions.is_open(frame.name):
            raise SubscriptionInUse(frame.name, "this connection has it open")
        session.subscriptions.end(frame.name, answer)
    else:
        session.subscriptions.leave(frame.name, answer)
