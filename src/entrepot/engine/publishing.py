# SPDX-License-Identifier: Apache-2.0
"""Publish and subscribe: one publication, many queues, and its body once.

A publication becomes one put with many targets: the log has its body once,
and in memory all queues refer to the same message. Subscribers whose message
differs, by its priority for instance, share at least the body. Everything
happens to all subscribers that can have it, or to none; what a queue refuses
goes to the dead-letter queue, as the topic's PMSGDLV, NPMSGDLV and USEDLQ say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from entrepot.engine.completion import complete as completed
from entrepot.engine.definitions import BASE_TOPIC, LocalQueue, SubscriptionDefinition, Topic, require_subscription_name
from entrepot.engine.entry import QueuedMessage
from entrepot.engine.objects import why_not_deletable
from entrepot.engine.queue import Queue
from entrepot.engine.recovery_log.bodies import SharedBody
from entrepot.engine.recovery_log.record import DeleteRecord
from entrepot.engine.reports import undeliverable
from entrepot.engine.retained import Retained
from entrepot.engine.settlement import Settlement
from entrepot.engine.subscribers import (
    CopyShape,
    PublicationPlan,
    Subscriber,
    SubscriberQueue,
    TopicRules,
    compile_conditions,
)
from entrepot.engine.subscription_owner import TRUSTED, SubscriptionOwner
from entrepot.engine.topics import Content, Filter, TopicPattern, parse_pattern, require_topic
from entrepot.engine.unit_of_work import PendingPut, Take, Unit, give_up_places, memory_bytes
from entrepot.engine.waiting import StandingWaiter
from entrepot.errors import (
    DurabilityNotAllowed,
    EntrepotError,
    InvalidArgument,
    MessageTooLong,
    PublicationFailed,
    PublishInhibited,
    PutInhibited,
    QueueFull,
    SpillFailed,
    SubscribeInhibited,
    SubscriptionDiffers,
    SubscriptionInUse,
    SubscriptionNotFound,
    TopicObjectTaken,
)
from entrepot.message import Message
from entrepot.selectors import Selector

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager

PREFIX = "topic:"
"""What a name begins with that is no queue's but a topic's."""

ROUTE = "entrepot_route"
"""Property of a publication on its way to another queue manager: who has it already."""
KEPT = "entrepot_kept"
"""Property of one that was retained before the other queue manager asked for it."""

_RECORD_BYTES = 2048
_DURABLE_NAMES = "SYSTEM.MANAGED.DURABLE.*"
_NONDURABLE_NAMES = "SYSTEM.MANAGED.NDURABLE.*"
_EXPIRY_RETRY_S = 60.0

Verdicts = dict[tuple[Selector | None, Filter | None], bool]
"""Which conditions of subscribers hold for a publication."""

_Copies = list[tuple[Message, list["Queue"]]]
_Refusals = list[tuple[Subscriber, Message, EntrepotError]]


class Publishing:
    """Publications and subscriptions of a queue manager."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._subscribers = manager.objects.subscribers
        self.retained = Retained(manager)
        self._made_up = 0
        self._judged: Message | None = None
        self._verdicts: Verdicts = {}
        self.flat = True
        """Whether streams that wait are served without asking whether anything is special about them."""

    # --- publish ----------------------------------------------------------------------------------

    def publish(
        self,
        topic: str,
        message: Message,
        persistent: bool | None = None,
        priority: int | None = None,
        unit: Unit | None = None,
        *,
        route: tuple[str, ...] = (),
        kept: bool = False,
    ) -> tuple[bytes, Settlement | None]:
        """Let all subscribers of a topic have a message.

        `route` are the queue managers through which it came to us; `kept`: it was
        retained there before anybody here wanted it.

        Raises:
            InvalidTopic, PublishInhibited, MessageTooLong: Nobody has it.
            PublicationFailed: Somebody could not have it who must; nobody has it.
        """
        manager = self._manager
        plan = self._subscribers.plan(topic)
        ruling = plan.ruling.topic
        if ruling.publish == "DISABLED":
            raise PublishInhibited(topic, plan.ruling.sources["publish"])
        size = len(message.body)
        if size > manager.objects.manager.body_bytes_max:
            raise MessageTooLong(topic, size, manager.objects.manager.body_bytes_max)
        if unit is not None:
            unit.require_active()
            unit.require_room(memory_bytes(message))
        complete = replace(
            message,
            message_id=message.message_id or manager.new_message_id(),
            put_time=manager.put_time(message),
            persistent=ruling.default_persistent == "YES" if persistent is None else persistent,
            priority=ruling.default_priority if priority is None else priority,
            topic=topic,
            retained=kept,
            target_queue="",
            target_manager="",
        )
        verdicts = self._verdicts if self._judged is message else None
        copies, refusals = self._address(plan, complete, route, verdicts, retain=message.retained)
        try:
            if message.retained:
                _reserve(copies, replace(complete, retained=True), self.retained.queue)
            if refusals:
                self._divert(plan.ruling, complete, copies, refusals)
        except EntrepotError:
            give_up_places(PendingPut(queues, copy) for copy, queues in copies)
            raise
        slow = complete.persistent or complete.report or complete.delay_s or plan.streaming
        if unit is None and not slow:
            self._deliver(copies)
            return complete.message_id, None
        target = unit or manager.internal_unit()
        manager.keep_time(target)
        target.puts += [PendingPut(queues, copy) for copy, queues in copies]
        target.body_bytes += memory_bytes(message)
        if complete.report or plan.streaming:
            target.consequential = True
        return complete.message_id, None if unit else manager.commit_or_undo(target)

    def judgement(self, topic: str, message: Message) -> Callable[[], Verdicts] | None:
        """What asks all subscribers' conditions about a publication, on any thread; None if that is quickly done."""
        plan = self._subscribers.plan(topic)
        if not plan.takes_long:
            return None
        conditions = {(party.selector, party.content) for party in plan.parties}
        return partial(_judge, conditions, message)

    def know(self, message: Message | None, verdicts: Verdicts) -> None:
        """The conditions were asked about this message before; what is new since then is asked when it is published."""
        self._judged, self._verdicts = message, verdicts

    def _address(
        self,
        plan: PublicationPlan,
        message: Message,
        route: tuple[str, ...],
        verdicts: Verdicts | None,
        *,
        retain: bool,
    ) -> tuple[_Copies, _Refusals]:
        """Which message each queue is to have, and keeps a place for; and who cannot have it."""
        size = len(message.body)
        content: Content | None = None
        copies: _Copies = []
        refusals: _Refusals = [(subscriber, message, error) for subscriber, error in plan.broken]
        for selector, filter_, shape, proxy_for, members in plan.parties:
            if proxy_for and proxy_for in route:
                continue
            known = verdicts.get((selector, filter_)) if verdicts else None
            if known is None:
                content = content or Content(message.body)
                known = is_wanted(selector, filter_, message, content)
            if not known:
                continue
            copy = _shaped(message, shape)
            if proxy_for:
                copy = self._travelling(copy, route, retain=retain)
            queues: list[Queue] = []
            for member in members:
                queue = member.queue
                if queue.depth + queue.reserved < member.depth_max and size <= member.body_bytes_max:
                    queue.reserved += 1  # at once: another subscription may lead to the same queue
                    queues.append(queue)
                else:
                    error = _why_not(member, size)
                    if isinstance(error, QueueFull):
                        self._manager.consequences.full(queue)
                    refusals.append((member.subscriber, copy, error))
            if queues:
                copies.append((copy, queues))
        return copies, refusals

    def _travelling(self, message: Message, route: tuple[str, ...], *, retain: bool) -> Message:
        """A publication for another queue manager: it is told which ones have it, and whether to keep it."""
        way = ",".join((*route, self._manager.objects.manager.name))
        return replace(message, retained=retain, properties={**message.properties, ROUTE: way})

    def _deliver(self, copies: _Copies) -> None:
        """Nothing of it is persistent, and it is in no unit of work: it is there at once."""
        manager = self._manager
        for copy, queues in copies:
            shared = SharedBody(copy.body, len(queues)) if len(queues) > 1 else None
            for queue in queues:
                manager.key_next += 1
                queue.reserved -= 1
                if self.flat and hand_to_stream(queue, manager.key_next, copy, shared):
                    continue
                try:
                    manager.arrive(queue, QueuedMessage(manager.key_next, queue.number, copy, shared=shared))
                except SpillFailed:
                    continue  # it is in memory; the next put to this queue is told

    def _divert(self, ruling: TopicRules, message: Message, copies: _Copies, refusals: _Refusals) -> None:
        """Some subscribers cannot have it: let the dead-letter queue have it for them, if it may.

        Raises:
            PublicationFailed: It may not, and these subscribers must have it.
        """
        manager = self._manager
        topic = ruling.topic
        reach = topic.persistent_reach if message.persistent else topic.nonpersistent_reach
        failures: list[tuple[str, str]] = []
        for subscriber, copy, error in refusals:
            definition = subscriber.definition
            problem = error.what
            if topic.use_dead_letter_queue == "YES":
                dead = undeliverable(copy, definition.destination, error.reason or 0, error.what, manager.clock.now())
                name = manager.objects.manager.dead_letter_queue
                try:
                    route = manager.objects.route(name)
                    _reserve(copies, completed(manager, route, name, dead, dead.persistent, dead.priority), route.queue)
                    continue
                except EntrepotError as refused:
                    problem = f"{problem}; not on the dead-letter queue: {refused.what}"
            if reach == "ALL" or (reach == "ALLDUR" and definition.durable):
                failures.append((definition.name, problem))
        if failures:
            raise PublicationFailed(message.topic, tuple(failures))

    # --- subscribe --------------------------------------------------------------------------------

    def subscribe(
        self, wanted: SubscriptionDefinition, *, new_only: bool = False, holder: SubscriptionOwner = TRUSTED
    ) -> tuple[SubscriptionDefinition, Settlement | None]:
        """Open a subscription for one more reader, and make it if there is none of its name.

        Returns it as it is. Without a name it is given one; an empty topic means one that exists.

        Raises:
            SubscriptionInUse, SubscriptionDiffers, SubscriptionNotFound: It is not open.
            NotAuthorized: It is another user's.
            UserLimitReached: The user has as many durable ones as one may have.
            InvalidTopic, SubscribeInhibited, DurabilityNotAllowed: It cannot be made.
        """
        self._manager.group_commit.require_running()
        if not wanted.name:
            self._made_up += 1
            wanted = replace(wanted, name=f"SYSTEM.SUB.{self._manager.incarnation:04X}{self._made_up:08X}")
        name = require_subscription_name(wanted.name)
        existing = self._subscribers.by_name.get(name)
        if existing is None and not wanted.topic:
            raise SubscriptionNotFound(name)
        settlement = None
        if existing is None:
            with holder.counted(self._manager.quotas, wanted):
                settlement = self.define(wanted, new_only=new_only)
            existing = self._subscribers.by_name[name]
        else:
            holder.require_reader(existing.definition)
            _require_same(existing.definition, wanted)
            if existing.readers and not existing.definition.shared:
                raise SubscriptionInUse(name, "another connection reads it")
        existing.readers += 1
        return existing.definition, settlement

    def define(self, wanted: SubscriptionDefinition, *, new_only: bool = False) -> Settlement | None:
        """Make a subscription; from now on publications reach it.

        It is there at once, before the log is forced: a publication that comes
        meanwhile stands behind it in the log. What is retained comes first.
        """
        manager = self._manager
        pattern = parse_pattern(wanted.topic, wanted.wildcards)
        compile_conditions(wanted)
        ruling = self._subscribers.ruling("/".join(pattern.levels[: pattern.first_wild_level]))
        if ruling.topic.subscribe == "DISABLED":
            raise SubscribeInhibited(wanted.topic, ruling.sources["subscribe"])
        if wanted.durable and ruling.topic.durable == "NO":
            raise DurabilityNotAllowed(wanted.topic, ruling.sources["durable"])
        queue = self._managed_queue(wanted, ruling) if wanted.managed else None
        if queue is not None:
            wanted = replace(wanted, destination=queue.name)
        elif wanted.type != "PROXY":  # what another queue manager wants is noted though the way to it is missing yet
            self._subscribers.route(wanted)
        created = manager.follow_clock()
        wanted = replace(wanted, created=created, clock_offset=manager.steady.offset)
        kept = [] if new_only else self._kept_for(wanted, pattern)
        if wanted.durable or kept:
            # Asked for all of it now: were there no room for what is retained, the subscription would be there all
            # the same.
            size = _RECORD_BYTES * (2 + len(kept)) + sum(len(message.body) for message in kept)
            manager.require_room(size, reserved=not kept)
        if queue is not None:
            manager.objects.put(queue)
        manager.objects.put(wanted)
        settlement = None
        if wanted.durable:
            records = [manager.objects.record(each) for each in (queue, wanted) if each is not None]
            settlement = manager.group_commit.promise(
                list(records), lambda: None, lambda error: self._not_defined(wanted, error)
            )
        self.watch_expiry(wanted)
        return self._deliver_kept(wanted, kept) or settlement

    def _kept_for(self, wanted: SubscriptionDefinition, pattern: TopicPattern) -> list[Message]:
        try:
            if not wanted.managed:
                self._subscribers.route(wanted)
        except EntrepotError:
            return []
        return list(self.retained.find(pattern))

    def _managed_queue(self, wanted: SubscriptionDefinition, ruling: TopicRules) -> LocalQueue:
        # The queue lives as long as its subscription, whatever kind of queue the model is for.
        dynamic = self._manager.administration.dynamic
        if wanted.durable:
            return replace(dynamic(ruling.topic.durable_model, _DURABLE_NAMES), dynamic="PERMANENT")
        return replace(dynamic(ruling.topic.nondurable_model, _NONDURABLE_NAMES), dynamic="TEMPORARY")

    def _not_defined(self, definition: SubscriptionDefinition, error: EntrepotError) -> EntrepotError:
        objects = self._manager.objects
        if objects.find(SubscriptionDefinition.kind, definition.name) is not None:
            objects.remove(SubscriptionDefinition.kind, definition.name)
        if definition.managed and definition.destination in objects.queues:
            objects.remove(LocalQueue.kind, definition.destination)
        return error

    def _deliver_kept(self, definition: SubscriptionDefinition, kept: list[Message]) -> Settlement | None:
        """A new subscriber gets what was retained before it came."""
        if not kept:
            return None
        manager = self._manager
        subscriber = self._subscribers.by_name[definition.name]
        own = manager.internal_unit()
        member, shape = self._subscribers.member(subscriber)
        for message in kept:
            if _fits(subscriber, message) and not self._subscribers.blocks(subscriber, message.topic):
                copy = _shaped(message, shape)
                if definition.type == "PROXY":
                    copy = self._travelling(copy, (), retain=True)
                    copy = replace(copy, properties={**copy.properties, KEPT: True})
                manager.plan(own, member.queue, replace(copy, retained=True))
        return manager.commit_or_undo(own) if own.puts else None

    def alter(self, definition: SubscriptionDefinition) -> Settlement | None:
        """Give a subscription other attributes; what it is about stays.

        Raises:
            SubscriptionNotFound, SubscriptionDiffers
        """
        existing = self._existing(definition.name).definition
        compile_conditions(definition)
        for name in ("topic", "wildcards", "managed", "durable"):
            if getattr(existing, name) != getattr(definition, name):
                raise SubscriptionDiffers(
                    definition.name, name, str(getattr(existing, name)), str(getattr(definition, name))
                )
        if existing.managed:
            definition = replace(definition, destination=existing.destination)
        elif definition.destination != existing.destination:
            self._subscribers.route(definition)
        definition = replace(definition, created=existing.created, clock_offset=existing.clock_offset)
        settlement = self._manager.administration.redefine(definition)
        self.watch_expiry(definition)
        return settlement

    # --- the end of a subscription ------------------------------------------------------------------

    def leave(self, name: str) -> None:
        """A reader has gone; a subscription that is not durable ends with its last one."""
        subscriber = self._subscribers.by_name.get(name)
        if subscriber is None:
            return
        subscriber.readers -= 1
        if not subscriber.definition.durable and subscriber.readers <= 0:
            self._end(subscriber)

    def unsubscribe(self, name: str, *, holder: SubscriptionOwner = TRUSTED) -> Settlement | None:
        """End a subscription, and discard what is on a queue that was made for it.

        Raises:
            NotAuthorized: It is another user's. It goes on.
            SubscriptionNotFound, SubscriptionInUse, QueueInUse: It goes on.
        """
        self._manager.group_commit.require_running()
        subscriber = self._existing(name)
        holder.require_owner(subscriber.definition)
        if subscriber.readers:
            raise SubscriptionInUse(name, "it is open")
        return self._end(subscriber)

    def _existing(self, name: str) -> Subscriber:
        subscriber = self._subscribers.by_name.get(name)
        if subscriber is None:
            raise SubscriptionNotFound(name)
        return subscriber

    def _end(self, subscriber: Subscriber) -> Settlement | None:
        manager = self._manager
        objects = manager.objects
        definition = subscriber.definition
        if not definition.durable:
            objects.remove(SubscriptionDefinition.kind, definition.name)
            if definition.managed:
                manager.administration.remove_temporary(definition.destination)
            return None
        queue = objects.queues.get(definition.destination) if definition.managed else None
        records = [DeleteRecord(SubscriptionDefinition.kind, definition.name)]
        if queue is not None:
            problem = why_not_deletable(queue, purge=True)
            if problem is not None:
                raise problem
            records.append(DeleteRecord(LocalQueue.kind, definition.destination))
        # Before anything is discarded: without room the subscription goes on, with all it has.
        manager.require_room(_RECORD_BYTES, reserved=True)
        if queue is not None:
            manager.administration.clear_all(queue)
        # From now on no publication reaches it, so none can be acknowledged and then go with the queue.
        objects.remove(SubscriptionDefinition.kind, definition.name)
        if queue is not None:
            objects.begin_leaving(definition.destination)

        def ended() -> None:
            if queue is not None:
                objects.end_leaving(definition.destination)
                objects.remove(LocalQueue.kind, definition.destination)

        def not_ended(error: EntrepotError) -> EntrepotError:
            if queue is not None:
                objects.end_leaving(definition.destination)
            objects.put(definition)
            return error

        return manager.group_commit.promise(list(records), ended, not_ended)

    # --- time and restart -----------------------------------------------------------------------------

    def recover(self) -> None:
        """Restart: what has been retained, and when subscriptions expire."""
        self.retained.recover()
        for subscriber in self._subscribers.by_name.values():
            self.watch_expiry(subscriber.definition)

    def watch_expiry(self, definition: SubscriptionDefinition) -> None:
        """End a subscription when its time has come."""
        if definition.expiry_s is not None:
            self._manager.timers.call_at(_ends_at(definition, definition.expiry_s), partial(self._expire, definition))

    def _expire(self, definition: SubscriptionDefinition) -> None:
        subscriber = self._subscribers.by_name.get(definition.name)
        if subscriber is None or subscriber.definition.created != definition.created:
            return
        expiry_s = subscriber.definition.expiry_s
        if expiry_s is None or _ends_at(definition, expiry_s) > self._manager.steady.now():
            return
        try:
            self._end(subscriber)
        except EntrepotError:
            again_at = self._manager.steady.now() + _EXPIRY_RETRY_S
            self._manager.timers.call_at(again_at, partial(self._expire, definition))

    # --- topic objects ----------------------------------------------------------------------------------

    def require_definable(self, topic: Topic) -> None:
        """Refuse a topic object that cannot be.

        Raises:
            InvalidTopic, TopicObjectTaken, InvalidArgument
        """
        existing = self._manager.objects.topics.get(topic.name)
        if existing is not None and existing.topic != topic.topic:
            raise InvalidArgument("topic", f"{topic.name} stands at {existing.topic!r} and cannot move", existing.topic)
        if topic.name != BASE_TOPIC:
            require_topic(topic.topic)
        elif topic.topic:
            raise InvalidArgument("topic", f"{BASE_TOPIC} is the root", "no topic string")
        other = self._subscribers.topics.get(topic.topic)
        if other is not None and other.name != topic.name:
            raise TopicObjectTaken(topic.topic, other.name)


def hand_to_stream(queue: Queue, key: int, message: Message, shared: SharedBody | None) -> bool:
    """Give a nonpersistent publication to a stream that waits and takes anything; False: `arrive` has to."""
    waiters = queue.waiters
    if (
        not waiters.any
        or waiters.by_correlation
        or queue.unoffered
        or queue.watched
        or message.expiry_s is not None
        or message.group_id
    ):
        return False
    waiter = next(iter(waiters.any.values()))
    unit = waiter.unit
    if waiter.__class__ is not StandingWaiter or waiter.criteria is not None or unit is None or unit.counted:
        return False
    waiter.take_turn()
    entry = QueuedMessage(key, queue.number, message, shared=shared)
    queue.depth += 1
    queue.hold(entry)
    unit.takes.append(Take(queue, entry))
    waiter.serve(message)
    return True


def _reserve(copies: _Copies, copy: Message, queue: Queue) -> None:
    queue.reserved += 1
    copies.append((copy, [queue]))


def _shaped(message: Message, shape: CopyShape) -> Message:
    """The publication as subscribers of one kind get it."""
    nonpersistent, priority, correlation_id, user_data, target_queue, target_manager = shape
    if not (nonpersistent and message.persistent) and priority is None and correlation_id is None and not user_data:
        if not target_queue:
            return message
        return replace(message, target_queue=target_queue, target_manager=target_manager)
    return replace(
        message,
        persistent=message.persistent and not nonpersistent,
        priority=message.priority if priority is None else priority,
        correlation_id=message.correlation_id if correlation_id is None else correlation_id,
        properties={**message.properties, "MQSubUserData": user_data} if user_data else message.properties,
        target_queue=target_queue,
        target_manager=target_manager,
    )


def _why_not(member: SubscriberQueue, size: int) -> EntrepotError:
    name = member.queue.definition.name
    if not member.depth_max:
        return PutInhibited(name)
    if size > member.body_bytes_max:
        return MessageTooLong(name, size, member.body_bytes_max)
    return QueueFull(name, member.depth_max)


def _fits(subscriber: Subscriber, message: Message) -> bool:
    return is_wanted(subscriber.selector, subscriber.content, message, Content(message.body))


def _require_same(existing: SubscriptionDefinition, wanted: SubscriptionDefinition) -> None:
    """Refuse to open a subscription as something that it is not."""
    compared = ["durable", "shared"]
    if wanted.topic:
        compared += ["topic", "wildcards", "selector", "content"]
    if wanted.destination:
        compared.append("destination")
    for name in compared:
        if getattr(existing, name) != getattr(wanted, name):
            raise SubscriptionDiffers(existing.name, name, repr(getattr(existing, name)), repr(getattr(wanted, name)))


def _ends_at(definition: SubscriptionDefinition, expiry_s: float) -> float:
    """When a subscription expires, in steady time."""
    return definition.created + definition.clock_offset + expiry_s


def is_wanted(selector: Selector | None, filter_: Filter | None, message: Message, content: Content) -> bool:
    """Whether a subscriber with these conditions wants a publication."""
    if selector is not None and not selector.matches(message):
        return False
    return filter_ is None or content.matches(filter_)


def _judge(conditions: Iterable[tuple[Selector | None, Filter | None]], message: Message) -> Verdicts:
    content = Content(message.body)
    return {(selector, filter_): is_wanted(selector, filter_, message, content) for selector, filter_ in conditions}
