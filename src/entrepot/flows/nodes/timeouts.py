# SPDX-License-Identifier: Apache-2.0
"""TimeoutControl and TimeoutNotification: messages at a time, or again and again.

A timer is two states. One says what is to happen (`TimerState`), the other only
that it is time (`Tick`), and comes back to TimeoutNotification when it
expires. A tick counts only if the timer that it names is still there and has
its number, so cancelling or overwriting works at any moment, also when the
tick is already on its way.

`timeout_requests` reads what a message asks for.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import ClassVar, Literal

from entrepot.errors import StateUnreadable, TimeoutExists, TimeoutRequestInvalid
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.flow_world import QueueFacts
from entrepot.flows.journey import Journey
from entrepot.flows.location import read_location
from entrepot.flows.nodes.input_node import PARSING, TRANSACTION, EntryPoint, InputNode
from entrepot.flows.nodes.node import FlowMistake, Node, NodeContext, Property
from entrepot.flows.states import (
    BUSY_S,
    Order,
    Parcel,
    Tick,
    TimerState,
    decode,
    decode_one_of,
    encode,
    find,
    has_turn,
    key_of,
    lay_out_token,
    new_number,
    pack,
    parcel_of,
    queue_name,
    remaining_s,
    unpack,
)
from entrepot.flows.timeout_requests import RequestError, TimeoutRequest, read_request
from entrepot.message import Message
from entrepot.models.tree import Assembly, Element, Folder, Root

MISSED_AFTER_S = 60.0
"""A tick that comes so late was missed: no instance ran. What is a little late has only waited its turn."""
_KIND = "TIMER"
_TOKEN = key_of("token")
_UNIQUE = Property(
    "unique_id",
    "text",
    required=True,
    ibm="uniqueIdentifier",
    about="what joins TimeoutControl nodes with a TimeoutNotification",
)
_AUTOMATIC = key_of("automatic")


class _Stores:
    """Where the timers of one unique id are."""

    __slots__ = ("due", "parked", "ticks", "timers", "tokens")

    def __init__(self, unique_id: str) -> None:
        self.timers = queue_name(_KIND, unique_id)
        self.ticks = queue_name(_KIND, unique_id, ".TICKS")
        self.parked = queue_name(_KIND, unique_id, ".PARKED")
        self.due = queue_name(_KIND, unique_id, ".DUE")
        self.tokens = queue_name(_KIND, unique_id, ".TOKENS")

    def start(self, key: bytes, timer: TimerState, due_at: float, journey: Journey) -> None:
        """Keep a timer, and let it ring."""
        journey.keep(self.timers, key, Message(encode(timer), persistent=timer.persistent))
        journey.take(self.ticks, key)
        tick = Message(encode(Tick(key, timer.number, due_at)), persistent=timer.persistent)
        waits_s = remaining_s(due_at, journey.world.steady_now())
        journey.keep(self.ticks, key, tick, expires_s=waits_s, then=self.due)

    def carry_out(self, order: Order, journey: Journey) -> Literal["done", "busy", "exists", "unknown"]:
        """Set or cancel a timer, unless another instance has it at the moment."""
        key, timer = order.key, order.timer
        if timer is not None and not self._may_make(journey):
            return "busy"
        taken, is_away = find(journey, self.timers, key)
        if is_away:
            return "busy"
        if timer is None:
            journey.take(self.ticks, key)
            return "unknown" if taken is None else "done"
        if taken is not None and not decode(taken.body, TimerState, self.timers).allow_overwrite:
            journey.keep(self.timers, key, Message(taken.body, persistent=taken.persistent))
            return "exists"
        self.start(key, timer, order.due_at, journey)
        return "done"

    def _may_make(self, journey: Journey) -> bool:
        """Whether no other instance makes a timer at the moment."""
        if has_turn(journey, self.tokens, _TOKEN):
            return True
        # Where no token was ever laid out, TimeoutNotification has never run. Let it find the timer when it does.
        return not journey.is_kept(self.tokens, _TOKEN)

    def park(self, order: Order, persistent: bool, journey: Journey) -> None:
        """Let TimeoutNotification carry it out soon."""
        message = Message(encode(order), persistent=persistent)
        journey.keep(self.parked, journey.world.new_message_id(), message, expires_s=BUSY_S, then=self.due)


class TimeoutControl(Node):
    type: ClassVar[str] = "TimeoutControl"
    about: ClassVar[str] = "Sets or cancels a timer, as the message asks, and lets the message go on."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmTimeoutControl",)
    properties: ClassVar[tuple[Property, ...]] = (
        _UNIQUE,
        Property(
            "request_location",
            "text",
            "InputLocalEnvironment.TimeoutRequest",
            ibm="requestLocation",
            about="where the message has its timeout request",
        ),
        Property(
            "stored_location",
            "text",
            "",
            ibm="storedMessageLocation",
            about="the part of the message that comes back; all of it when empty",
        ),
        Property(
            "persistence",
            "choice",
            "automatic",
            choices=("automatic", "yes", "no"),
            ibm="requestPersistence",
            about="whether the timer survives a restart; automatic: if the message does",
        ),
        Property("domain", "text", "", ibm="messageDomain", about="which parser reads it when it comes back"),
        Property("message_set", "text", "", ibm="messageSet"),
        Property("message_type", "text", "", ibm="messageType"),
        Property("message_format", "text", "", ibm="messageFormat"),
    )

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        settings = self.settings
        self._stores = _Stores(str(settings["unique_id"]))
        self._where = read_location(settings["request_location"])
        self._stored = read_location(settings["stored_location"]) if settings["stored_location"] else None

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        del flow
        found = []
        for name in ("request_location", "stored_location"):
            try:
                if definition.properties.get(name):
                    read_location(str(definition.properties[name]))
            except ValueError as error:
                found.append(FlowMistake(definition.name, f"{name}: {error}"))
        return found

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        place = self._where.find(assembly)
        if place is None:
            raise self._failure("the place", f"is not there: {self._where.text}")
        try:
            request = read_request(place, journey.world.now())
        except RequestError as error:
            raise self._failure(error.field, error.problem) from error
        order = self._order(request, assembly, journey)
        answer = self._stores.carry_out(order, journey)
        if answer == "busy":
            self._stores.park(order, self._is_persistent(journey), journey)
        elif answer == "exists":
            raise TimeoutExists(self.plan.flow.name, self.name, request.identifier)
        elif answer == "unknown":
            journey.world.trace("", f"{self.name}: there is no timeout request {request.identifier!r} to cancel")
        self.propagate("out", assembly, journey)

    def _is_persistent(self, journey: Journey) -> bool:
        persistence = self.settings["persistence"]
        return journey.message.persistent if persistence == "automatic" else bool(persistence == "yes")

    def _order(self, request: TimeoutRequest, assembly: Assembly, journey: Journey) -> Order:
        key = key_of("timer", request.identifier)
        if request.action == "CANCEL":
            return Order(key, None)
        timer = TimerState(
            new_number(journey),
            request.identifier,
            pack(self._parcel(assembly)),
            request.interval_s,
            request.count,
            request.ignore_missed,
            request.allow_overwrite,
            request.start_date,
            request.start_time,
            self._is_persistent(journey),
        )
        # The request tells a time of the clock; from here on setting the clock does not change when that comes.
        world = journey.world
        return Order(key, timer, request.start_at + (world.steady_now() - world.now()))

    def _parcel(self, assembly: Assembly) -> Parcel:
        root = assembly.root if self._stored is None else self._part(assembly)
        parcel = parcel_of(root)
        settings = self.settings
        if not settings["domain"]:
            return parcel
        return Parcel(
            parcel.message,
            settings["domain"],
            settings["message_set"] or parcel.message_set,
            settings["message_type"] or parcel.message_type,
            settings["message_format"] or parcel.message_format,
        )

    def _part(self, assembly: Assembly) -> Root:
        """A message with the same headers whose body is only what was asked for."""
        assert self._stored is not None
        part = self._stored.find(assembly)
        if part is None:
            raise self._failure("the stored message", f"is not there: {self._stored.text}")
        if part is assembly.root:
            return assembly.root
        children = assembly.root.children
        root = Root()
        for header in children[:-1]:
            root.append(header.copy())
        whole = children[-1] if children else None
        folder = part if isinstance(part, Folder) else whole
        name = folder.domain.name if isinstance(folder, Folder) else "XMLNSC"
        body = root.add(name)
        into: Element = body.add("Data") if name == "JSON" else body
        for child in part.children if isinstance(part, Folder) else [part]:
            into.append(child.copy())
        return root

    def _failure(self, field: str, problem: str) -> TimeoutRequestInvalid:
        return TimeoutRequestInvalid(self.plan.flow.name, self.name, field, problem)


class TimeoutNotification(InputNode):
    type: ClassVar[str] = "TimeoutNotification"
    about: ClassVar[str] = "Brings messages at their time: those of TimeoutControl, or an empty one again and again."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmTimeoutNotification",)
    properties: ClassVar[tuple[Property, ...]] = (
        _UNIQUE,
        Property(
            "mode",
            "choice",
            "automatic",
            choices=("automatic", "controlled"),
            ibm="operationMode",
            about="automatic: every interval; controlled: what TimeoutControl nodes ask for",
        ),
        Property("interval_s", "number", 1, ibm="timeoutInterval", about="in the mode automatic"),
        replace(TRANSACTION, default="yes"),
        *PARSING,
    )

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        self._stores = _Stores(str(self.settings["unique_id"]))
        self._is_automatic = self.settings["mode"] == "automatic"
        self._interval_s = float(self.settings["interval_s"])

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        del flow
        given = definition.properties
        interval_s = given.get("interval_s", 1)
        if given.get("mode", "automatic") == "automatic" and isinstance(interval_s, int | float) and interval_s <= 0:
            return [FlowMistake(definition.name, f"interval_s is {interval_s}", "Say how many seconds, more than 0.")]
        return []

    def points(self) -> list[EntryPoint]:
        return [EntryPoint(self, self._time_has_come, queue=self._stores.due, transaction="yes", internal=True)]

    def prime(self, journey: Journey) -> None:
        """Begin anew where the mode is automatic; ticks that are still on their way have another number then."""
        lay_out_token(journey, self._stores.tokens, _TOKEN)
        if not self._is_automatic:
            return
        _, is_away = find(journey, self._stores.timers, _AUTOMATIC)
        if is_away:
            return  # another instance lets it ring at this moment, and so it goes on
        now = journey.world.steady_now()
        timer = TimerState(new_number(journey), str(self.settings["unique_id"]), b"", 0, -1, True, True, "", "", True)
        self._stores.start(_AUTOMATIC, timer, now + self._interval_s, journey)

    # --- the time has come --------------------------------------------------------------------

    def _time_has_come(self, message: Message, journey: Journey) -> None:
        state = decode_one_of(message.body, (Tick, Order), self._stores.due)
        if isinstance(state, Order):
            self._carry_out(state, message, journey)
        elif isinstance(state, Tick):
            fired = self._advance(state, message, journey)
            if fired is not None:
                self._fire(fired, state.due_at, journey)

    def _carry_out(self, order: Order, message: Message, journey: Journey) -> None:
        answer = self._stores.carry_out(order, journey)
        if answer == "busy":
            self._stores.park(order, message.persistent, journey)
        elif answer == "exists" and order.timer is not None:
            text = f"{self.name}: the timeout request {order.timer.identifier!r} is dropped: there is one already"
            journey.world.trace("", text)

    def _advance(self, tick: Tick, message: Message, journey: Journey) -> TimerState | None:
        """Let a timer go on to its next time, or end; what is to be sent now, if anything."""
        stores = self._stores
        taken, is_away = find(journey, stores.timers, tick.key)
        if taken is None:
            if is_away:
                next_tick = Message(message.body, persistent=message.persistent)
                journey.keep(stores.ticks, tick.key, next_tick, expires_s=BUSY_S, then=stores.due)
            return None
        timer = decode(taken.body, TimerState, stores.timers)
        if timer.number != tick.number:
            journey.keep(stores.timers, tick.key, Message(taken.body, persistent=taken.persistent))
            return None
        now = journey.world.steady_now()
        late_s = now - tick.due_at
        interval_s = self._interval_s if tick.key == _AUTOMATIC else float(timer.interval_s)
        times = _skipped(late_s, interval_s) if timer.ignore_missed else 0
        left = timer.left
        if left > 0:
            timer.left = max(left - 1 - times, 0)
        if timer.left:
            stores.start(tick.key, timer, tick.due_at + (1 + times) * interval_s, journey)
        timer.left = left
        if timer.ignore_missed and late_s > MISSED_AFTER_S:
            text = f"{self.name}: a timeout of {timer.identifier!r} was missed {late_s:.0f} s ago, and is ignored"
            journey.world.trace("", text)
            return None
        return timer

    def _fire(self, timer: TimerState, due_at: float, journey: Journey) -> None:
        wanted = self.settings["transaction"]
        message = unpack(timer.packed, self._stores.due).message if timer.packed else Message(b"")
        journey.message = message
        journey.transactional = message.persistent if wanted == "automatic" else wanted == "yes"
        self.start(self._assembly(timer, due_at, journey), journey)

    def _assembly(self, timer: TimerState, due_at: float, journey: Journey) -> Assembly:
        if timer.packed:
            assembly = self._parcel(timer).open()
        else:
            assembly = Assembly(Root())
            assembly.root.add("Properties")
        request = assembly.local_environment.add("TimeoutRequest")
        is_automatic = not timer.packed
        world = journey.world
        at = datetime.fromtimestamp(due_at + (world.now() - world.steady_now()))  # local time, as in requests
        request.add("Action", "SET")
        request.add("Identifier", timer.identifier)
        request.add("StartDate", at.strftime("%Y-%m-%d") if is_automatic else timer.start_date)
        request.add("StartTime", at.strftime("%H:%M:%S.%f") if is_automatic else timer.start_time)
        request.add("Count", 1 if is_automatic else timer.left)
        request.add("Interval", _whole(self._interval_s) if is_automatic else timer.interval_s)
        request.add("IgnoreMissed", timer.ignore_missed)
        request.add("AllowOverwrite", timer.allow_overwrite)
        return assembly

    def _parcel(self, timer: TimerState) -> Parcel:
        """The message as it was stored; what this node says of its parser goes before."""
        parcel = unpack(timer.packed, self._stores.due)
        settings = self.settings
        if not settings["domain"]:
            return parcel
        return Parcel(
            parcel.message,
            settings["domain"],
            settings["message_set"] or parcel.message_set,
            settings["message_type"] or parcel.message_type,
            settings["message_format"] or parcel.message_format,
        )

    # --- what has failed ----------------------------------------------------------------------

    def set_aside(self, message: Message, journey: Journey, error: Exception, facts: QueueFacts) -> None:
        """A message that was brought has failed for the last time; its timer goes on."""
        try:
            tick = decode(message.body, Tick, self._stores.due)
        except StateUnreadable:
            super().set_aside(message, journey, error, facts)
            return
        fired = self._advance(tick, message, journey)
        if fired is None:
            return
        order = Order(tick.key, fired, tick.due_at)
        super().set_aside(Message(encode(order), persistent=message.persistent), journey, error, facts)
        if (self._stores.timers, tick.key) not in journey.states:
            # What the failure terminal did was undone, and this with it.
            self._advance(tick, message, journey)

    def parse(self, message: Message, journey: Journey) -> Assembly:
        order = decode(message.body, Order, self._stores.due)
        return Assembly() if order.timer is None else self._assembly(order.timer, order.due_at, journey)

    def contents(self, message: Message) -> list[Message]:
        """The message that the timer brings; an automatic one brings none that is worth keeping."""
        try:
            order = decode(message.body, Order, self._stores.due)
        except StateUnreadable:
            return [message]
        if order.timer is None or not order.timer.packed:
            return []
        return [unpack(order.timer.packed, self._stores.due).message]


def _skipped(late_s: float, interval_s: float) -> int:
    """How many further times have gone by as well."""
    return int(late_s // interval_s) if interval_s > 0 and late_s >= interval_s else 0


def _whole(seconds: float) -> int | float:
    return int(seconds) if seconds.is_integer() else seconds
