# SPDX-License-Identifier: Apache-2.0
"""The queue manager's objects: what is defined, and the queues that live by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import msgspec

from entrepot.engine.definitions import (
    STORED_KINDS,
    AliasQueue,
    AuthorityRecord,
    Channel,
    ChannelRule,
    ClaimRecord,
    ClockSteps,
    Definition,
    Listener,
    LocalQueue,
    ManagerAttributes,
    NameList,
    Process,
    QueueDefinition,
    SubscriptionDefinition,
    Topic,
    is_fleeting,
)
from entrepot.engine.put_authority import Originators, TrustedOriginators
from entrepot.engine.queue import Queue
from entrepot.engine.quotas import DURABLE_SUBSCRIPTIONS, PERMANENT_QUEUES, TEMPORARY_QUEUES, Quota, Quotas
from entrepot.engine.recovery_log.record import DefineRecord
from entrepot.engine.routes import Route, find_route
from entrepot.engine.subscribers import Subscribers
from entrepot.engine.system_queues import INTERNAL_QUEUES
from entrepot.errors import EntrepotError, InvalidName, QueueInUse, QueueNotEmpty, QueueNotFound

_ROUTES_MAX = 100_000


class Objects:
    """Definitions by kind and name; queues of all kinds share one name space."""

    def __init__(self, manager: ManagerAttributes, make_queue: Callable[[int, LocalQueue], Queue]) -> None:
        self.manager = manager
        self.clock_steps: Callable[[], ClockSteps] = lambda: self.manager.clock_steps
        """What to store of them; an ALTER QMGR knows only those of its time."""
        self._make_queue = make_queue
        self.queue_definitions: dict[str, QueueDefinition] = {}
        self.queues: dict[str, Queue] = {}
        """Local queues by name."""
        self.queues_by_number: dict[int, Queue] = {}
        self.processes: dict[str, Process] = {}
        self.name_lists: dict[str, NameList] = {}
        self.channels: dict[str, Channel] = {}
        self.listeners: dict[str, Listener] = {}
        self.authority_records: dict[str, AuthorityRecord] = {}
        """By `authority_key`."""
        self.channel_rules: dict[str, ChannelRule] = {}
        """By `rule_key`."""
        self.topics: dict[str, Topic] = {}
        self.subscriptions: dict[str, SubscriptionDefinition] = {}
        """Those that are not durable included, which are never stored."""
        self.claims: dict[str, ClaimRecord] = {}
        """What is remembered of claims; no object that an administrator defines."""
        self.quotas = Quotas(lambda: self.manager)
        self.subscribers = Subscribers(self)
        self._shelves: dict[str, dict[str, Any]] = {
            Process.kind: self.processes,
            NameList.kind: self.name_lists,
            Channel.kind: self.channels,
            Listener.kind: self.listeners,
            AuthorityRecord.kind: self.authority_records,
            ChannelRule.kind: self.channel_rules,
            Topic.kind: self.topics,
            SubscriptionDefinition.kind: self.subscriptions,
        }
        self.number_next = 1
        self._leaving: set[str] = set()
        """Local queues whose deletion is on its way to disk; nothing may arrive there any more."""
        self.routes: dict[str, Route] = {}
        self._initiation_queues: Counter[str] = Counter()
        """Names that local queues have as their INITQ."""
        self.originators: Originators = TrustedOriginators()
        self.authority_changes = 0
        """How often an authority record has come, changed or gone."""

    @cached_property
    def internal_queues(self) -> frozenset[str]:
        """Local queues to which only the queue manager itself puts."""
        named = +self._initiation_queues
        targets = (self.queue_definitions.get(name) for name in named)
        return INTERNAL_QUEUES.union(named, (each.target for each in targets if isinstance(each, AliasQueue)))

    def route(self, name: str) -> Route:
        """Where a put or get on this name goes; remembered until a definition changes."""
        try:
            route = self.routes.get(name)
        except TypeError:
            raise InvalidName("queue", repr(name)) from None  # a list, for instance
        if route is None:
            if len(self.routes) >= _ROUTES_MAX:
                self.routes.clear()  # partners can make up any number of QUEUE@MANAGER
            route = self.routes[name] = find_route(self, name)
        return route

    def queue_to_open(self, name: str) -> QueueDefinition | None:
        """The definition of a queue that verbs may use."""
        return None if name in self._leaving else self.queue_definitions.get(name)

    def begin_leaving(self, name: str) -> None:
        """Let nobody use a queue while its deletion is not certain yet."""
        self._leaving.add(name)
        self._forget_routes()

    def end_leaving(self, name: str) -> None:
        self._leaving.discard(name)
        self._forget_routes()

    def _forget_routes(self) -> None:
        self.routes.clear()
        self.__dict__.pop("internal_queues", None)
        self.subscribers.forget_plans()

    def find(self, kind: str, name: str) -> Definition | None:
        definition = self._shelf(kind).get(name)
        return definition if definition is not None and definition.kind == kind else None

    def _shelf(self, kind: str) -> dict[str, Any]:
        if kind == ManagerAttributes.kind:
            return {self.manager.name: self.manager}
        if kind == ClaimRecord.kind:
            return self.claims
        return self._shelves.get(kind, self.queue_definitions)

    def __iter__(self) -> Iterator[Definition]:
        """Every definition but the queue manager's own."""
        yield from self.queue_definitions.values()
        for shelf in self._shelves.values():
            yield from shelf.values()

    def stored(self) -> Iterator[Definition]:
        """What a checkpoint has to have: all that outlives its connection, and claims."""
        yield self.manager
        yield from (definition for definition in self if not is_fleeting(definition))
        yield from self.claims.values()

    def put(self, definition: Definition, number: int = 0) -> None:
        """Let a definition be true from now on, new or changed."""
        if isinstance(definition, ClaimRecord):
            self.claims[definition.name] = definition
            return
        before = self.find(definition.kind, definition.name)
        if before is not None:
            self._let_go(before)
        if (holding := _holding(definition)) is not None:
            self.quotas.hold(*holding, limited=False)
        if isinstance(definition, SubscriptionDefinition):
            self.subscriptions[definition.name] = definition
            self.subscribers.add(definition)
            return  # no name leads anywhere else because of it
        self._forget_routes()
        if isinstance(definition, ManagerAttributes):
            self.manager = definition
            return
        if isinstance(definition, Topic):
            self.subscribers.set_topic(definition)
        if isinstance(definition, AuthorityRecord):
            self.authority_changes += 1
        shelf = self._shelf(definition.kind)
        self._count_initiation(shelf.get(definition.name), -1)
        self._count_initiation(definition, 1)
        shelf[definition.name] = definition
        if isinstance(definition, LocalQueue):
            queue = self.queues.get(definition.name)
            if queue is not None:
                queue.redefine(definition)
                return
            number = number or self.number_next
            self.number_next = max(self.number_next, number + 1)
            queue = self._make_queue(number, definition)
            self.queues[definition.name] = self.queues_by_number[number] = queue

    def remove(self, kind: str, name: str) -> None:
        if kind == SubscriptionDefinition.kind:
            self.subscribers.remove(name)
        elif kind == Topic.kind:
            self.subscribers.remove_topic(self.topics[name])
        elif kind == AuthorityRecord.kind:
            self.authority_changes += 1
        self._forget_routes()
        definition = self._shelf(kind).pop(name)
        self._count_initiation(definition, -1)
        self._let_go(definition)
        queue = self.queues.pop(name, None) if kind == LocalQueue.kind else None
        if queue is not None:
            del self.queues_by_number[queue.number]
            queue.forget()
            for waiter in queue.waiters.all():
                waiter.give_up(QueueNotFound(name))

    def _count_initiation(self, definition: Definition | None, step: int) -> None:
        if isinstance(definition, LocalQueue) and definition.initiation_queue:
            self._initiation_queues[definition.initiation_queue] += step

    def _let_go(self, definition: Definition) -> None:
        if (holding := _holding(definition)) is not None:
            self.quotas.let_go(*holding)

    def record(self, definition: Definition) -> DefineRecord:
        """How the log and the checkpoint store a definition."""
        if isinstance(definition, ManagerAttributes):
            definition = msgspec.structs.replace(definition, clock_steps=self.clock_steps())
        queue = self.queues.get(definition.name) if isinstance(definition, LocalQueue) else None
        number = queue.number if queue is not None else self.number_next
        return DefineRecord(definition.kind, number, _changed(definition))

    def restore(self, record: DefineRecord) -> None:
        """The opposite of `record`."""
        kind = STORED_KINDS[record.kind]
        self.put(msgspec.convert(record.attributes, kind), record.number)


def _holding(definition: Definition) -> tuple[Quota, str, str] | None:
    """What a definition counts for, if it is a user's."""
    if isinstance(definition, SubscriptionDefinition) and definition.durable and definition.user:
        return DURABLE_SUBSCRIPTIONS, definition.user, definition.name
    if isinstance(definition, LocalQueue) and definition.dynamic and definition.owner:
        return dynamic_quota(definition), definition.owner, definition.name
    return None


def dynamic_quota(definition: LocalQueue) -> Quota:
    return PERMANENT_QUEUES if definition.dynamic == "PERMANENT" else TEMPORARY_QUEUES


def _changed(definition: Definition) -> dict[str, Any]:
    """Only what differs from the defaults, so that a later default reaches old definitions."""
    plain: dict[str, Any] = msgspec.to_builtins(definition)
    defaults = msgspec.to_builtins(type(definition)(name=definition.name))
    return {key: value for key, value in plain.items() if key == "name" or value != defaults[key]}


def why_not_deletable(queue: Queue, *, purge: bool) -> EntrepotError | None:
    """The reason to keep a queue that is to be deleted or cleared, if there is one."""
    name = queue.definition.name
    if queue.reserved or queue.uncommitted_gets:
        return QueueInUse(name, "uncommitted messages")
    if queue.waiters:
        return QueueInUse(name, "a get waits on it")
    if queue.depth and not purge:
        return QueueNotEmpty(name, queue.depth)
    return None
