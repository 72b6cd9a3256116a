# SPDX-License-Identifier: Apache-2.0
"""Who wants publications: the subscriptions that live, and what topic objects say about each topic.

A publication asks for the plan of its topic. Making one walks the topic's
levels; it is kept until a definition changes, so a topic that is published
on again and again is matched once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from entrepot.engine.definitions import BASE_TOPIC, ROOT_TOPIC, LocalQueue, SubscriptionDefinition, Topic
from entrepot.engine.put_authority import require_put_of
from entrepot.engine.topics import (
    Filter,
    TopicIndex,
    TopicPattern,
    TopicTree,
    compile_filter,
    parse_pattern,
    require_topic,
)
from entrepot.errors import EntrepotError, InternalQueue
from entrepot.selectors import Selector, compile_selector

if TYPE_CHECKING:
    from entrepot.engine.objects import Objects
    from entrepot.engine.queue import Queue
    from entrepot.engine.routes import Route

Interest = tuple[str, str]
"""A wildcard scheme and a pattern."""

_PLANS_MAX = 10_000
_AS_QUEUE = -2

_INHERITED = (
    "publish", "subscribe", "durable", "default_persistent", "persistent_reach", "nonpersistent_reach",
    "use_dead_letter_queue", "publication_scope", "subscription_scope",
)  # fmt: skip
_MODELS = ("durable_model", "nondurable_model")


class TopicRules(NamedTuple):
    """What holds for one topic: the topic objects on the way to it, taken together."""

    topic: Topic
    """The nearest topic object, with nothing left to inherit."""
    sources: dict[str, str]
    """Which topic object has said it."""
    blocked_level: int
    """Wildcards that stand before this level reach nothing here; -1 is none."""
    names: tuple[str, ...]
    """The topic objects on the way, the nearest first."""


class Subscriber:
    """A subscription that lives."""

    __slots__ = ("broken", "content", "definition", "pattern", "readers", "selector")

    def __init__(self, definition: SubscriptionDefinition) -> None:
        self.definition = definition
        self.pattern: TopicPattern = parse_pattern(definition.topic, definition.wildcards)
        self.selector: Selector | None = None
        self.content: Filter | None = None
        self.broken: EntrepotError | None = None
        """Why nothing can be delivered, whatever is published: its conditions cannot be understood any more."""
        self.readers = 0
        """Connections that have it open."""
        try:
            self.selector, self.content = compile_conditions(definition)
        except EntrepotError as error:
            self.broken = error


def compile_conditions(definition: SubscriptionDefinition) -> tuple[Selector | None, Filter | None]:
    """What a subscription's selector and content filter mean.

    Raises:
        SelectorSyntaxError, ContentFilterSyntaxError
    """
    selector = compile_selector(definition.selector) if definition.selector else None
    return selector, compile_filter(definition.content) if definition.content else None


_STEPS_AT_ONCE = 2_000


class CopyShape(NamedTuple):
    """How a subscriber's message differs from the publication."""

    nonpersistent: bool
    priority: int | None
    correlation_id: bytes | None
    user_data: str
    target_queue: str
    target_manager: str


class SubscriberQueue(NamedTuple):
    """One subscriber's queue, with all that decides whether it takes a publication."""

    queue: Queue
    depth_max: int
    body_bytes_max: int
    subscriber: Subscriber


class SubscriberGroup(NamedTuple):
    """Subscribers who get the same message under the same conditions."""

    selector: Selector | None
    content: Filter | None
    shape: CopyShape
    proxy_for: str
    """The queue manager on whose behalf they have subscribed, if any."""
    members: list[SubscriberQueue]


class PublicationPlan(NamedTuple):
    """Where publications on one topic go."""

    ruling: TopicRules
    parties: list[SubscriberGroup]
    broken: list[tuple[Subscriber, EntrepotError]]
    """Subscribers whose queues cannot be reached at all."""
    streaming: bool
    """Whether some queue copies what it gets to another one."""
    takes_long: bool
    """Whether asking all subscribers' conditions about one publication takes longer than other verbs."""


class Subscribers:
    """Topic objects and subscriptions as the queue manager's objects have them."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.topics: TopicIndex[Topic] = TopicIndex()
        self.by_name: dict[str, Subscriber] = {}
        self._tree: TopicTree[Subscriber] = TopicTree()
        self._plans: dict[str, PublicationPlan] = {}
        self._rulings: dict[tuple[str, ...], TopicRules] = {}
        self.interest: dict[Interest, dict[str, int]] = {}
        """How many subscriptions there are to a pattern, by the queue manager on whose behalf; ours is empty."""
        self.on_interest: Callable[[Interest], None] = lambda _: None
        """Told when somebody begins or ceases to want a pattern."""

    # --- what the objects tell ------------------------------------------------------------------

    def add(self, definition: SubscriptionDefinition) -> None:
        """A subscription is new, or different from now on."""
        before = self.by_name.get(definition.name)
        subscriber = Subscriber(definition)
        if before is not None:
            self._tree.remove(before.pattern, before)
            self._count(before.definition, -1)
            subscriber.readers = before.readers
        self.by_name[definition.name] = subscriber
        self._tree.add(subscriber.pattern, subscriber)
        self._count(definition, 1)
        self.forget_plans()

    def remove(self, name: str) -> None:
        subscriber = self.by_name.pop(name)
        self._tree.remove(subscriber.pattern, subscriber)
        self._count(subscriber.definition, -1)
        self.forget_plans()

    def _count(self, definition: SubscriptionDefinition, step: int) -> None:
        if definition.scope == "QMGR":
            return
        key = (definition.wildcards, definition.topic)
        whose = definition.destination_manager if definition.type == "PROXY" else ""
        counts = self.interest.setdefault(key, {})
        counts[whose] = counts.get(whose, 0) + step
        if counts[whose] <= 0:
            del counts[whose]
            if not counts:
                del self.interest[key]
        self.on_interest(key)

    def set_topic(self, topic: Topic) -> None:
        self.topics.set(topic.topic, topic)
        self._rulings.clear()
        self.forget_plans()

    def remove_topic(self, topic: Topic) -> None:
        self.topics.remove(topic.topic)
        self._rulings.clear()
        self.forget_plans()

    def forget_plans(self) -> None:
        """Something has changed that plans are made of."""
        if self._plans:
            self._plans = {}

    # --- what publications ask --------------------------------------------------------------------

    def ruling(self, topic: str) -> TopicRules:
        """What holds for a topic; remembered for all topics below the same topic objects."""
        way = self.topics.way_to(topic)
        names = tuple(here.name for here in reversed(way)) or (BASE_TOPIC,)
        ruling = self._rulings.get(names)
        if ruling is None:
            ruling = self._rulings[names] = _ruling(way, names)
        return ruling

    def plan(self, topic: str) -> PublicationPlan:
        """Where publications on a topic go, as far as their content does not matter.

        Raises:
            InvalidTopic: Nobody can publish there.
        """
        plan = self._plans.get(topic)
        if plan is None:
            plan = self._make_plan(require_topic(topic))
            if len(self._plans) >= _PLANS_MAX:
                self._plans.clear()
            self._plans[topic] = plan
        return plan

    def _make_plan(self, topic: str) -> PublicationPlan:
        ruling = self.ruling(topic)
        parties: dict[tuple[str, str, CopyShape, str], SubscriberGroup] = {}
        broken: list[tuple[Subscriber, EntrepotError]] = []
        streaming = False
        for subscriber in self._tree.match(topic):
            definition = subscriber.definition
            if _is_blocked(subscriber.pattern, ruling):
                continue
            proxy_for = definition.destination_manager if definition.type == "PROXY" else ""
            if proxy_for and ruling.topic.publication_scope == "QMGR":
                continue
            try:
                if subscriber.broken is not None:
                    raise subscriber.broken
                member, shape = self.member(subscriber)
            except EntrepotError as error:
                broken.append((subscriber, error))
                continue
            streaming = streaming or bool(member.queue.definition.stream_queue)
            key = (definition.selector, definition.content, shape, proxy_for)
            party = parties.get(key)
            if party is None:
                party = parties[key] = SubscriberGroup(subscriber.selector, subscriber.content, shape, proxy_for, [])
            party.members.append(member)
        return PublicationPlan(ruling, list(parties.values()), broken, streaming, _takes_long(parties.values()))

    def blocks(self, subscriber: Subscriber, topic: str) -> bool:
        """Whether a topic object keeps a wildcard from reaching a topic."""
        return subscriber.pattern.is_wild and _is_blocked(subscriber.pattern, self.ruling(topic))

    def route(self, definition: SubscriptionDefinition) -> Route:
        """The way to a subscription's queue.

        Raises:
            NotAuthorized, InternalQueue, QueueNotFound and others: Its queue cannot be reached, or not by its user.
        """
        name = definition.destination
        if definition.destination_manager:
            name = f"{name}@{definition.destination_manager}"
        # What a command has defined grants; for what an application made, its user has to have the right still.
        if definition.type == "API" and definition.user and not definition.managed:
            require_put_of(self._objects, definition.user, name)
        route = self._objects.route(name)
        if route.internal:
            raise InternalQueue(name)
        return route

    def member(self, subscriber: Subscriber) -> tuple[SubscriberQueue, CopyShape]:
        """A subscriber's queue, and what its messages are like.

        Raises:
            QueueNotFound and others: Its queue cannot be reached.
        """
        definition = subscriber.definition
        route = self.route(definition)
        queue = route.queue
        local: LocalQueue = queue.definition
        # A queue that takes nothing has no room: so one comparison answers for both.
        depth_max = local.depth_max if route.put_enabled else 0
        priority = None if definition.priority < 0 else definition.priority
        shape = CopyShape(
            local.dynamic == "TEMPORARY",
            route.default_priority if definition.priority == _AS_QUEUE else priority,
            bytes.fromhex(definition.correlation_id) if definition.correlation_id else None,
            definition.user_data,
            route.target_queue,
            route.target_manager,
        )
        return SubscriberQueue(queue, depth_max, route.body_bytes_max, subscriber), shape


def _ruling(way: list[Topic], names: tuple[str, ...]) -> TopicRules:
    """What topic objects say together, from the root down: the nearest that says anything counts."""
    values: dict[str, Any] = {name: getattr(ROOT_TOPIC, name) for name in (*_INHERITED, "default_priority", *_MODELS)}
    sources = dict.fromkeys(values, BASE_TOPIC)
    blocked_level = -1
    for here in way:
        said = {name: value for name in _INHERITED if (value := getattr(here, name)) != "ASPARENT"}
        if here.default_priority >= 0:
            said["default_priority"] = here.default_priority
        said |= {name: model for name in _MODELS if (model := getattr(here, name))}
        values |= said
        sources |= dict.fromkeys(said, here.name)
        if here.wildcard == "BLOCK":
            blocked_level = here.topic.count("/") + 1 if here.topic else 0
    return TopicRules(Topic(name=names[0], **values), sources, blocked_level, names)


def _is_blocked(pattern: TopicPattern, ruling: TopicRules) -> bool:
    return pattern.is_wild and pattern.first_wild_level < ruling.blocked_level


def _takes_long(parties: Iterable[SubscriberGroup]) -> bool:
    if any(party.content is not None for party in parties):
        return True
    selectors = {party.selector for party in parties if party.selector is not None}
    return sum(selector.steps_max for selector in selectors) > _STEPS_AT_ONCE
