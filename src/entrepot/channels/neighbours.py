# SPDX-License-Identifier: Apache-2.0
"""Publish/subscribe between queue managers: parent and children tell each other which publications they want.

What a neighbour wants becomes a proxy subscription here, whose publications
travel over a channel to SYSTEM.INTER.QMGR.PUBS there and are published again,
to everybody but those they came from. Wishes travel as messages too, on
SYSTEM.INTER.QMGR.CONTROL: all of them when a queue manager starts, changes
afterwards. Each side holds the other's wishes as durable subscriptions, so
publications wait on the transmission queue while a neighbour is away.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal

import msgspec
from msgspec.structs import replace

from entrepot.channels.attempt import attempt
from entrepot.engine.definitions import (
    CHILDREN,
    INTERMANAGER_CONTROL,
    INTERMANAGER_PUBLICATIONS,
    NameList,
    SubscriptionDefinition,
)
from entrepot.engine.publishing import KEPT, ROUTE
from entrepot.engine.settlement import Settlement
from entrepot.engine.subscribers import Interest
from entrepot.engine.topics import parse_pattern
from entrepot.engine.unit_of_work import Unit, UnitState
from entrepot.engine.waiting import Waiter
from entrepot.errors import EntrepotError, InvalidTopic, PublishInhibited
from entrepot.message import Message
from entrepot.server.session_registry import SessionRegistry

_LOGGER = logging.getLogger("entrepot")

_Use = Callable[[Message, Unit], None]
"""Carries a message out under the unit that has got it; may be called again with the same one."""

_AT_ONCE = 64
_RETRY_S = 2.0
_FORMAT = "ENTREPOT.INTEREST"


class _WantedTopics(msgspec.Struct, array_like=True):
    """What one neighbour tells another."""

    kind: Literal["ALL", "ADD", "REMOVE", "LEAVE"]
    manager: str
    """Who tells it."""
    patterns: list[Interest] = []
    answer_wanted: bool = False


class Neighbours:
    """The parent and the children of a queue manager; on the loop's thread only."""

    def __init__(self, registry: SessionRegistry) -> None:
        self._registry = registry
        self._manager = registry.engine.manager
        self._parent = ""
        self._children_promised: tuple[str, ...] | None = None
        """Those of a definition that may still be on its way to disk: the next change must not forget it."""
        self._changed: set[Interest] = set()
        self._closed = False
        self._publications = _QueueReader(registry, INTERMANAGER_PUBLICATIONS, self._publish)
        self._control = _QueueReader(registry, INTERMANAGER_CONTROL, self._heed)

    @property
    def name(self) -> str:
        return self._registry.host.settings.name

    def open(self) -> None:
        """Tell all neighbours what is wanted here, and listen to them."""
        with self._registry.host.lock:
            self._manager.objects.subscribers.on_interest = self._note
        self.refresh()
        for child in self._children():
            self._tell_all(child)
        self._control.start()
        self._publications.start()

    def refresh(self) -> None:
        """The queue manager's attributes may have changed: perhaps it has another parent."""
        parent = self._registry.host.manager_attributes().parent
        if parent == self._parent:
            return
        before, self._parent = self._parent, parent
        if before:
            self._tell(before, _WantedTopics("LEAVE", self.name))
            self._run(partial(self._agree, before, [], self._proxies(before)), f"{before} is no longer the parent")
        if parent:
            self._tell_all(parent, answer_wanted=True)

    def status(self) -> list[dict[str, int | float | str]]:
        """The rows of DISPLAY PUBSUB."""
        rows: list[dict[str, int | float | str]] = [{"TYPE": "LOCAL", "QMNAME": self.name, "STATUS": "ACTIVE"}]
        kinds = [("PARENT", name) for name in [self._parent] if name] + [("CHILD", name) for name in self._children()]
        for kind, name in kinds:
            rows.append({"TYPE": kind, "QMNAME": name, "STATUS": "ACTIVE", "SUBCOUNT": len(self._proxies(name))})
        return rows

    def _children(self) -> tuple[str, ...]:
        if self._children_promised is not None:
            return self._children_promised
        known = self._manager.objects.name_lists.get(CHILDREN)
        return () if known is None else known.names

    def _neighbours(self) -> list[str]:
        return [*([self._parent] if self._parent else []), *self._children()]

    # --- what is wanted here ------------------------------------------------------------------------

    def _note(self, key: Interest) -> None:
        """Called by the engine, under the host's lock, on any thread."""
        self._changed.add(key)
        if len(self._changed) == 1:
            self._registry.engine.post(self._tell_changes)

    def _tell_changes(self) -> None:
        with self._registry.host.lock:
            changed, self._changed = self._changed, set()
            neighbours = self._neighbours()
        if self._closed:
            return
        for neighbour in neighbours:
            added = [key for key in changed if self._wants(key, neighbour)]
            removed = [key for key in changed if not self._wants(key, neighbour)]
            if added:
                self._tell(neighbour, _WantedTopics("ADD", self.name, added))
            if removed:
                self._tell(neighbour, _WantedTopics("REMOVE", self.name, removed))

    def _wants(self, key: Interest, neighbour: str) -> bool:
        """Whether anybody but the neighbour itself wants these publications from it."""
        counts = self._manager.objects.subscribers.interest.get(key)
        if counts is None or not (counts.keys() - {neighbour}):
            return False
        scheme, topic = key
        pattern = parse_pattern(topic, scheme)
        ruling = self._manager.objects.subscribers.ruling("/".join(pattern.levels[: pattern.first_wild_level]))
        return ruling.topic.subscription_scope != "QMGR"

    def _tell_all(self, neighbour: str, *, answer_wanted: bool = False) -> None:
        with self._registry.host.lock:
            wanted = [key for key in self._manager.objects.subscribers.interest if self._wants(key, neighbour)]
        self._tell(neighbour, _WantedTopics("ALL", self.name, wanted, answer_wanted))

    def _tell(self, neighbour: str, wishes: _WantedTopics) -> None:
        message = Message(msgspec.msgpack.encode(wishes), format=_FORMAT)
        name = f"{INTERMANAGER_CONTROL}@{neighbour}"

        def put() -> Settlement | None:
            return self._manager.put(name, message, persistent=True)[1]

        def done(error: EntrepotError | None) -> None:
            if error is not None and not self._closed:
                _LOGGER.warning("%s: %s does not learn what is wanted here yet: %s", self.name, neighbour, error)
                # What could not be told in parts is told as a whole.
                self._registry.loop.call_later(_RETRY_S, self._tell_again, neighbour, wishes.kind)

        attempt(self._registry, put, done)

    def _tell_again(self, neighbour: str, kind: str) -> None:
        if self._closed or self._registry.host.failure is not None:
            return
        if neighbour in self._neighbours():
            self._tell_all(neighbour, answer_wanted=neighbour == self._parent)
        elif kind == "LEAVE":
            self._tell(neighbour, _WantedTopics("LEAVE", self.name))

    # --- what neighbours want -------------------------------------------------------------------------

    def _proxies(self, neighbour: str) -> dict[Interest, str]:
        """The proxy subscriptions that there are for a neighbour, by what it wants."""
        return {
            (each.wildcards, each.topic): name
            for name, each in self._manager.objects.subscriptions.items()
            if each.type == "PROXY" and each.destination_manager == neighbour
        }

    def _heed(self, message: Message, _unit: Unit) -> None:
        """A neighbour has told something; heeding it twice changes nothing."""
        try:
            wishes = msgspec.msgpack.decode(message.body, type=_WantedTopics)
        except msgspec.MsgspecError as error:
            raise InvalidTopic(INTERMANAGER_CONTROL, 1, f"a message that nobody here understands: {error}") from error
        neighbour = wishes.manager
        there = self._proxies(neighbour)
        wanted = [(str(scheme), str(topic)) for scheme, topic in wishes.patterns]
        match wishes.kind:
            case "ALL":
                self._adopt(neighbour)
                gone = there.keys() - set(wanted)
                self._agree(neighbour, wanted, {key: there[key] for key in gone})
                if wishes.answer_wanted:
                    self._registry.loop.call_soon(self._tell_all, neighbour)
            case "ADD":
                self._agree(neighbour, wanted, {})
            case "REMOVE":
                self._agree(neighbour, [], {key: there[key] for key in wanted if key in there})
            case "LEAVE":
                self._agree(neighbour, [], there)
                self._disown(neighbour)

    def _agree(self, neighbour: str, wanted: Iterable[Interest], unwanted: dict[Interest, str]) -> Settlement | None:
        """Have proxy subscriptions for what a neighbour wants, and none for what it does not want any more."""
        publishing = self._manager.publishing
        settlement: Settlement | None = None
        for name in unwanted.values():
            settlement = publishing.unsubscribe(name) or settlement
        known = self._proxies(neighbour)
        for scheme, topic in wanted:
            if (scheme, topic) in known:
                continue
            digest = hashlib.sha256(f"{scheme} {topic}".encode()).hexdigest()[:24]
            proxy = SubscriptionDefinition(
                name=f"SYSTEM.PROXY.{neighbour}.{digest}",
                topic=topic,
                wildcards="CHAR" if scheme == "CHAR" else "TOPIC",
                destination=INTERMANAGER_PUBLICATIONS,
                destination_manager=neighbour,
                type="PROXY",
            )
            try:
                settlement = publishing.define(proxy) or settlement
            except EntrepotError as error:
                if error.retryable:
                    raise
                _LOGGER.warning("%s: %s cannot have %s: %s", self.name, neighbour, topic, error)
        return settlement

    def _adopt(self, neighbour: str) -> None:
        children = self._children()
        if neighbour not in (self._parent, *children):
            self._set_children((*children, neighbour))

    def _disown(self, neighbour: str) -> None:
        left = tuple(name for name in self._children() if name != neighbour)
        self._set_children(left)

    def _set_children(self, names: tuple[str, ...]) -> None:
        self._manager.administration.redefine(NameList(name=CHILDREN, names=names))
        self._children_promised = names

    def _run(self, verb: partial[Settlement | None], problem: str) -> None:
        def done(error: EntrepotError | None) -> None:
            if error is not None:
                _LOGGER.warning("%s: %s: %s", self.name, problem, error)

        attempt(self._registry, verb, done)

    # --- publications from neighbours -------------------------------------------------------------------

    def _publish(self, message: Message, unit: Unit) -> None:
        """Publish here what was published there."""
        properties = dict(message.properties)
        route = tuple(filter(None, str(properties.pop(ROUTE, "")).split(",")))
        kept = bool(properties.pop(KEPT, False))
        if self.name in route:
            _LOGGER.warning("%s: %s came back to us by way of %s", self.name, message.topic, ", ".join(route))
            return
        publishing = self._manager.publishing
        if kept:
            newest = publishing.retained.newest(message.topic)
            if newest is not None and newest.message_id == message.message_id:
                return  # it came when it was published, for others
        fresh = replace(message, properties=properties)
        publishing.publish(message.topic, fresh, message.persistent, message.priority, unit, route=route, kept=kept)

    def close(self) -> None:
        self._closed = True
        with self._registry.host.lock:
            self._manager.objects.subscribers.on_interest = lambda _: None
        self._publications.close()
        self._control.close()


class _QueueReader:
    """Reads a queue for us: each message and what it causes is one unit of work, several at a time."""

    def __init__(self, registry: SessionRegistry, queue: str, use: _Use) -> None:
        self._registry = registry
        self._queue = queue
        self._use = use
        self._waiter: Waiter | None = None
        self._closed = False

    def start(self) -> None:
        self._go_on(_AT_ONCE)

    def _go_on(self, limit: int) -> None:
        """Use what there is, then wait."""
        if self._closed or self._registry.host.failure is not None:
            return
        engine = self._registry.engine
        unit = engine.manager.begin()
        try:
            messages = engine.get_some(self._queue, None, unit, limit)
        except EntrepotError as error:
            self._pause(error)
            return
        if not messages:
            engine.back_out(unit)
            self._wait()
            return

        def used() -> Settlement | None:
            try:
                for message in messages:
                    self._use(message, unit)
                return engine.manager.commit(unit)
            except EntrepotError:
                # The log may be full, and then this runs again.
                if unit.state is UnitState.ACTIVE:
                    engine.manager.forget_puts(unit, 0)
                raise

        attempt(self._registry, used, partial(self._used, unit, limit))

    def _used(self, unit: Unit, limit: int, error: EntrepotError | None) -> None:
        engine = self._registry.engine
        if error is None:
            self._registry.loop.call_soon(self._go_on, _AT_ONCE)
            return
        engine.back_out(unit)
        if limit > 1:
            self._registry.loop.call_soon(self._go_on, 1)  # which of them it was
        elif isinstance(error, InvalidTopic | PublishInhibited):
            self._reject(error)
        else:
            self._pause(error)

    def _reject(self, error: EntrepotError) -> None:
        """One bad message must not hold up those behind it."""
        engine = self._registry.engine
        unit = engine.manager.begin()
        if engine.get_some(self._queue, None, unit, 1):
            _LOGGER.warning("%s goes to the dead-letter queue: %s", self._queue, error)
            verb = partial(engine.manager.consequences.reject, unit, error.what)
            attempt(self._registry, verb, partial(self._rejected, unit))
        else:
            engine.back_out(unit)
            self._wait()

    def _rejected(self, unit: Unit, error: EntrepotError | None) -> None:
        if unit.state is UnitState.ACTIVE:
            self._registry.engine.back_out(unit)
        if error is None:
            self._registry.loop.call_soon(self._go_on, _AT_ONCE)
        else:
            self._pause(error)

    def _pause(self, error: EntrepotError) -> None:
        if not self._closed and self._registry.host.failure is None:
            _LOGGER.warning("%s waits: %s", self._queue, error)
            self._registry.loop.call_later(_RETRY_S, self._go_on, _AT_ONCE)

    def _wait(self) -> None:
        engine = self._registry.engine
        guard = self._registry.host.private_unit()
        self._waiter = waiter = Waiter(None, guard, engine.waker(self._woken))
        try:
            message = engine.get_or_wait(self._queue, waiter)
        except EntrepotError as error:
            self._waiter = None
            self._pause(error)
            return
        if message is not None:
            waiter.serve(message)

    def _woken(self) -> None:
        """Something has come: it goes back, and is got under a unit of work together with what else is there."""
        waiter, self._waiter = self._waiter, None
        if waiter is None or self._closed:
            return
        if waiter.error is not None:
            self._pause(waiter.error)
            return
        self._registry.host.give_back(self._queue, waiter)
        self._go_on(_AT_ONCE)

    def close(self) -> None:
        self._closed = True
        waiter, self._waiter = self._waiter, None
        if waiter is not None and self._registry.host.failure is None:
            self._registry.host.give_back(self._queue, waiter)
