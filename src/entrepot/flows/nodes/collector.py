# SPDX-License-Identifier: Apache-2.0
"""Collector: messages from several terminals become one collection.

    Root
      Properties
      Collection
        CollectionName
        orders             one folder for each message, called after its terminal
          Properties, MQMD, XMLNSC ...

Each terminal has an event handler: how many messages it takes, how long, and
which value of the message tells what it belongs to. Messages with the same
value share a shelf of open collections; a message goes to the oldest that
still takes one from its terminal. The shelf counts, the messages themselves
are kept apart from it, so that a deep backlog of one terminal stays cheap.
An instance needs a shelf's token to work on it, so instances never disagree.
"""

from __future__ import annotations

from typing import ClassVar

from entrepot.errors import NotCollectable, StateUnreadable
from entrepot.esql import EsqlRun
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.event_handlers import EventHandler, correlation_of, read_handler, row_mistakes
from entrepot.flows.exception_list import with_exception
from entrepot.flows.flow_world import QueueFacts
from entrepot.flows.journey import Journey
from entrepot.flows.nodes.input_node import EntryPoint, InputNode
from entrepot.flows.nodes.node import Enter, FlowMistake, NodeContext, Property
from entrepot.flows.states import (
    BUSY_S,
    Collected,
    Collection,
    Event,
    Shelf,
    Tick,
    WaitingCollections,
    decode,
    decode_one_of,
    encode,
    has_turn,
    key_of,
    lay_out_token,
    new_number,
    pack,
    parcel_of,
    queue_name,
    unpack,
)
from entrepot.message import Message
from entrepot.models.tree import Assembly, Element, Root

_CONTROL = "control"
_KIND = "COLLECTOR"
_TOKENS = 16
"""Shelves are shared out among so many tokens; work on a shelf takes its token."""
_WAITING_KEY = key_of("waiting")
_WAITING_TOKEN = key_of("token", "waiting")
_EARLY_S = 0.001
"""A timer that rings so much too early is meant."""


class Collector(InputNode):
    type: ClassVar[str] = "Collector"
    about: ClassVar[str] = "Gathers messages from its terminals until what its handlers ask for is there."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmCollector",)
    inputs: ClassVar[tuple[str, ...]] = (_CONTROL,)
    inputs_free: ClassVar[bool] = True
    outputs: ClassVar[tuple[str, ...]] = ("out", "expire", "failure", "catch")
    properties: ClassVar[tuple[Property, ...]] = (
        Property(
            "handlers",
            "table",
            required=True,
            ibm="eventHandlerPropertyTable",
            about="a list of {terminal, quantity: 1, timeout_s: 0, correlation_path, correlation_pattern}",
        ),
        Property("collection_name", "text", "", ibm="collectionName", about="* stands for the correlation string"),
        Property(
            "collection_expiry_s",
            "number",
            0,
            ibm="collectionExpiry",
            about="after so long an incomplete collection goes to expire; 0: never",
        ),
        Property(
            "persistence",
            "choice",
            "automatic",
            choices=("automatic", "yes", "no"),
            ibm="persistenceMode",
            about="whether open collections survive a restart; automatic: if a message in them does",
        ),
        Property(
            "coordination",
            "choice",
            "disabled",
            choices=("disabled", "all", "first"),
            ibm="eventCoordination",
            about="complete collections wait for a message at control, which lets all or the first of them go",
        ),
    )

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        settings = self.settings
        name = f"{plan.flow.name}.{self.name}"
        self._shelves = queue_name(_KIND, name)
        self._contents = queue_name(_KIND, name, ".HELD")
        self._ticks = queue_name(_KIND, name, ".TICKS")
        self._parked = queue_name(_KIND, name, ".PARKED")
        self._due = queue_name(_KIND, name, ".DUE")
        self._tokens = queue_name(_KIND, name, ".TOKENS")
        self._handlers = [read_handler(row, f"{self.name}.handlers") for row in settings["handlers"]]
        self._numbers = {handler.terminal: number for number, handler in enumerate(self._handlers)}
        self._expiry_s = float(settings["collection_expiry_s"] or 0)
        self._coordination = settings["coordination"]

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        given = definition.properties
        found: list[FlowMistake] = []
        terminals: set[str] = set()
        holds = bool(given.get("collection_expiry_s"))
        for number, row in enumerate(given.get("handlers") or (), 1):
            where = f"{definition.name}.handlers[{number}]"
            if not isinstance(row, dict) or not row.get("terminal"):
                found.append(FlowMistake(where, "it names no terminal", "Write {terminal: NAME, quantity: 1}."))
                continue
            found += row_mistakes(where, row)
            if row["terminal"] in terminals or row["terminal"] == _CONTROL:
                found.append(
                    FlowMistake(where, f"the terminal {row['terminal']} is taken", "Give each handler its own.")
                )
            terminals.add(row["terminal"])
            holds = holds or bool(row.get("quantity", 1) or row.get("timeout_s"))
        for link in flow.links:
            if link.target == definition.name and link.input not in terminals | {_CONTROL}:
                problem = f"messages come to its terminal {link.input}, which has no event handler"
                found.append(FlowMistake(str(link.place) if link.place.line else definition.name, problem))
        if terminals and not holds:
            advice = "Give a handler a quantity or timeout_s, or say collection_expiry_s."
            found.append(FlowMistake(definition.name, "its collections would never be complete", advice))
        return found

    def points(self) -> list[EntryPoint]:
        return [EntryPoint(self, self._time_has_come, queue=self._due, transaction="yes", internal=True)]

    def prime(self, journey: Journey) -> None:
        for number in range(_TOKENS):
            lay_out_token(journey, self._tokens, key_of("token", number))
        lay_out_token(journey, self._tokens, _WAITING_TOKEN)

    # --- a message comes ----------------------------------------------------------------------

    def entrance(self, terminal: str) -> Enter:
        def enter(assembly: Assembly, journey: Journey) -> None:
            try:
                self._arrived(terminal, assembly, journey)
            except Exception as error:
                self._failed(error, assembly, journey)

        return enter

    def _arrived(self, terminal: str, assembly: Assembly, journey: Journey) -> None:
        if terminal == _CONTROL:
            if self._coordination == "disabled" or self._release(assembly, journey):
                return
            self._park(Event(_CONTROL, b""), journey.message.persistent, journey)
            return
        if assembly.root.first("Collection") is not None:
            problem = f"a collection came to its terminal {terminal}, and collections are not nested"
            raise NotCollectable(self.plan.flow.name, self.name, problem)
        parcel = parcel_of(assembly.root)
        packed = pack(parcel)
        if not self._collect(terminal, packed, parcel.message.persistent, assembly, journey):
            self._park(Event(terminal, packed), parcel.message.persistent, journey)

    def _park(self, event: Event, persistent: bool, journey: Journey) -> None:
        """Let a message come again soon: another instance has what it needs."""
        message = Message(encode(event), persistent=self._is_persistent(persistent))
        journey.keep(self._parked, journey.world.new_message_id(), message, expires_s=BUSY_S, then=self._due)

    def _is_persistent(self, wanted: bool) -> bool:
        persistence = self.settings["persistence"]
        return wanted if persistence == "automatic" else bool(persistence == "yes")

    def _correlation(self, handler: EventHandler, assembly: Assembly, journey: Journey) -> str:
        run = EsqlRun(assembly)
        run.database = journey.world.database
        run.properties = self.user_properties
        return correlation_of(handler, run)

    def _collect(self, terminal: str, packed: bytes, persistent: bool, assembly: Assembly, journey: Journey) -> bool:
        """Put a message into a collection; False when another instance has what that needs."""
        number = self._numbers[terminal]
        correlation = self._correlation(self._handlers[number], assembly, journey)
        key = key_of(correlation)
        waiting = self._waiting(journey)
        if waiting is None:
            return False
        shelf = self._shelf(key, correlation, journey)
        if shelf is None:
            self._keep_waiting(waiting, journey)
            return False
        now = journey.world.steady_now()
        collection = self._accepting(shelf, number, now, journey)
        handler = self._handlers[number]
        collection.counts[number] += 1
        if handler.timeout_s and not collection.satisfied_at[number]:
            collection.satisfied_at[number] = now + handler.timeout_s
        place = key_of(key, collection.number)
        before = journey.take(self._contents, place)
        held = Collected(correlation, []) if before is None else decode(before.body, Collected, self._contents)
        held.items.append((terminal, packed))
        persistent = self._is_persistent(persistent or (before is not None and before.persistent))
        shelf.persistent = shelf.persistent or persistent
        if self._is_complete(collection, now):
            self._finished(shelf, key, collection, journey)
            self._complete(place, held, persistent, waiting, assembly, journey)
        else:
            journey.keep(self._contents, place, Message(encode(held), persistent=persistent))
            self._keep_shelf(shelf, key, journey)
            self._set_tick(key, collection, persistent, now, journey)
            self._keep_waiting(waiting, journey)
        return True

    def _shelf(self, key: bytes, correlation: str, journey: Journey) -> Shelf | None:
        """The shelf of a correlation string, maybe an empty one; None when it is another instance's turn."""
        if not has_turn(journey, self._tokens, key_of("token", key[0] % _TOKENS)):
            return None
        taken = journey.take(self._shelves, key)
        return Shelf(correlation, []) if taken is None else decode(taken.body, Shelf, self._shelves)

    def _accepting(self, shelf: Shelf, number: int, now: float, journey: Journey) -> Collection:
        """The oldest collection that takes a message of this handler, or a new one."""
        quantity = self._handlers[number].quantity
        for collection in shelf.collections:
            if collection.expires_at and collection.expires_at <= now:
                continue
            if quantity and collection.counts[number] >= quantity:
                continue
            if collection.satisfied_at[number] and collection.satisfied_at[number] <= now:
                continue
            return collection
        count = len(self._handlers)
        expires_at = now + self._expiry_s if self._expiry_s else 0.0
        made = Collection(new_number(journey), [0] * count, [0.0] * count, expires_at)
        shelf.collections.append(made)
        return made

    def _is_complete(self, collection: Collection, now: float) -> bool:
        required = [(number, handler) for number, handler in enumerate(self._handlers) if handler.is_required]
        return bool(required) and all(
            (handler.quantity and collection.counts[number] >= handler.quantity)
            or (collection.satisfied_at[number] and collection.satisfied_at[number] <= now + _EARLY_S)
            for number, handler in required
        )

    def _finished(self, shelf: Shelf, key: bytes, collection: Collection, journey: Journey) -> None:
        """A collection leaves its shelf."""
        shelf.collections.remove(collection)
        if collection.due_at():
            journey.take(self._ticks, key_of(key, collection.number))
        self._keep_shelf(shelf, key, journey)

    def _keep_shelf(self, shelf: Shelf, key: bytes, journey: Journey) -> None:
        if shelf.collections:
            journey.keep(self._shelves, key, Message(encode(shelf), persistent=shelf.persistent))

    def _set_tick(self, key: bytes, collection: Collection, persistent: bool, now: float, journey: Journey) -> None:
        times = [at for at in (*collection.satisfied_at, collection.expires_at) if at > now]
        if not times:
            return
        place = key_of(key, collection.number)
        journey.take(self._ticks, place)
        tick = Message(encode(Tick(key, collection.number)), persistent=persistent)
        journey.keep(self._ticks, place, tick, expires_s=min(times) - now, then=self._due)

    # --- the time has come --------------------------------------------------------------------

    def _time_has_come(self, message: Message, journey: Journey) -> None:
        state = decode_one_of(message.body, (Tick, Event), self._due)
        if isinstance(state, Tick):
            self._ring(state, message, journey)
        elif isinstance(state, Event):
            self._retry(state, message, journey)

    def _retry(self, event: Event, message: Message, journey: Journey) -> None:
        if event.terminal == _CONTROL:
            done = self._release(Assembly(), journey)
        elif event.terminal not in self._numbers:
            problem = f"a message waited for its terminal {event.terminal}, which it does not have any more"
            raise NotCollectable(self.plan.flow.name, self.name, problem)
        else:
            parcel = unpack(event.packed, self._due)
            journey.message = parcel.message
            done = self._collect(event.terminal, event.packed, parcel.message.persistent, parcel.open(), journey)
        if not done:
            self._park(event, message.persistent, journey)

    def _ring(self, tick: Tick, message: Message, journey: Journey) -> None:
        now = journey.world.steady_now()
        waiting = self._waiting(journey)
        shelf = None if waiting is None else self._shelf(tick.key, "", journey)
        if waiting is None or shelf is None:
            if waiting is not None:
                self._keep_waiting(waiting, journey)
            self._ring_later(tick, message, journey)
            return
        collection = next((each for each in shelf.collections if each.number == tick.number), None)
        if collection is None:
            self._keep_shelf(shelf, tick.key, journey)
            self._keep_waiting(waiting, journey)
            return  # it was complete before
        is_expired = bool(collection.expires_at and collection.expires_at <= now + _EARLY_S)
        if not is_expired and not self._is_complete(collection, now):
            self._keep_shelf(shelf, tick.key, journey)
            self._set_tick(tick.key, collection, message.persistent, now, journey)
            self._keep_waiting(waiting, journey)
            return
        place = key_of(tick.key, tick.number)
        before = journey.take(self._contents, place)
        held = Collected(shelf.correlation, []) if before is None else decode(before.body, Collected, self._contents)
        self._finished(shelf, tick.key, collection, journey)
        if held.items:
            journey.message = unpack(held.items[-1][1], self._contents).message
        if is_expired:
            self._keep_waiting(waiting, journey)
            self._send("expire", held, None, journey)
        else:
            self._complete(place, held, message.persistent, waiting, None, journey)

    def _ring_later(self, tick: Tick, message: Message, journey: Journey) -> None:
        bell = Message(message.body, persistent=message.persistent)
        place = key_of(tick.key, tick.number)
        journey.keep(self._ticks, place, bell, expires_s=BUSY_S, then=self._due)

    # --- complete collections -----------------------------------------------------------------

    def _waiting(self, journey: Journey) -> WaitingCollections | None:
        """The collections that wait for control messages; None when another instance has them."""
        if self._coordination == "disabled":
            return _NONE_WAITING
        if not has_turn(journey, self._tokens, _WAITING_TOKEN):
            return None
        taken = journey.take(self._shelves, _WAITING_KEY)
        return WaitingCollections([], 0) if taken is None else decode(taken.body, WaitingCollections, self._shelves)

    def _keep_waiting(self, waiting: WaitingCollections, journey: Journey) -> None:
        if waiting is not _NONE_WAITING:
            message = Message(encode(waiting), persistent=waiting.persistent)
            journey.keep(self._shelves, _WAITING_KEY, message)

    def _complete(
        self,
        place: bytes,
        held: Collected,
        persistent: bool,
        waiting: WaitingCollections,
        assembly: Assembly | None,
        journey: Journey,
    ) -> None:
        if waiting is not _NONE_WAITING:
            if not waiting.wanted:
                waiting.keys.append(place)
                waiting.persistent = waiting.persistent or persistent
                journey.keep(self._contents, place, Message(encode(held), persistent=persistent))
                self._keep_waiting(waiting, journey)
                return
            waiting.wanted -= 1
            self._keep_waiting(waiting, journey)
        self._send("out", held, assembly, journey)

    def _release(self, assembly: Assembly, journey: Journey) -> bool:
        """A control message: let complete collections go; False when another instance has them."""
        waiting = self._waiting(journey)
        if waiting is None:
            return False
        count = 1 if self._coordination == "first" else len(waiting.keys)
        going, waiting.keys = waiting.keys[:count], waiting.keys[count:]
        if not going:
            waiting.wanted = waiting.wanted + 1 if self._coordination == "first" else 1
        self._keep_waiting(waiting, journey)
        for place in going:
            taken = journey.take(self._contents, place)
            if taken is not None:
                self._send("out", decode(taken.body, Collected, self._contents), assembly, journey)
        return True

    def _send(self, terminal: str, held: Collected, assembly: Assembly | None, journey: Journey) -> None:
        leaving = self._composed(held, assembly)
        catch = self.wires.get("catch")
        try:
            if not self.propagate(terminal, leaving, journey) and terminal == "expire":
                text = f"{self.name}: a collection of {len(held.items)} messages is dropped: it has expired"
                journey.world.trace("", text)
        except Exception as error:
            if catch is None:
                raise
            if journey.raised is not error:
                journey.raised, journey.raised_by = error, self
            journey.noted(self, error)
            catch(with_exception(leaving, error, journey), journey)

    def _composed(self, held: Collected, assembly: Assembly | None) -> Assembly:
        root = Root()
        root.add("Properties")
        collection = root.append(Element("Collection"))
        collection.add("CollectionName", str(self.settings["collection_name"]).replace("*", held.correlation))
        for terminal, packed in held.items:
            collection.append(unpack(packed, self._contents).enclosed(terminal))
        made = Assembly(root, None if assembly is None else assembly.environment)
        made.local_environment.add("Wildcard").add("WildcardMatch", held.correlation)
        return made

    # --- what has failed ----------------------------------------------------------------------

    def set_aside(self, message: Message, journey: Journey, error: Exception, facts: QueueFacts) -> None:
        """A collection whose time has come could not go on: it must not wait for a timer that rings no more."""
        try:
            state = decode_one_of(message.body, (Tick, Event), self._due)
        except StateUnreadable:
            state = None
        if not isinstance(state, Tick):
            super().set_aside(message, journey, error, facts)
            return
        held = self._taken_out(state, journey)
        if held is None:
            self._ring_later(state, message, journey)
            return
        if not held.items:
            return
        super().set_aside(Message(encode(held), persistent=message.persistent), journey, error, facts)
        # What the failure terminal did may have been undone, and this with it.
        self._taken_out(state, journey)

    def _taken_out(self, tick: Tick, journey: Journey) -> Collected | None:
        """The messages of a collection, which is no more; None when another instance has it."""
        shelf = self._shelf(tick.key, "", journey)
        if shelf is None:
            return None
        collection = next((each for each in shelf.collections if each.number == tick.number), None)
        if collection is None:
            self._keep_shelf(shelf, tick.key, journey)
            return Collected("", [])
        self._finished(shelf, tick.key, collection, journey)
        held = journey.take(self._contents, key_of(tick.key, tick.number))
        return Collected("", []) if held is None else decode(held.body, Collected, self._contents)

    def parse(self, message: Message, journey: Journey) -> Assembly:
        del journey
        state = decode_one_of(message.body, (Event, Collected), self._due)
        if isinstance(state, Collected):
            return self._composed(state, None)
        assert isinstance(state, Event)
        return unpack(state.packed, self._due).open() if state.packed else Assembly()

    def contents(self, message: Message) -> list[Message]:
        try:
            state = decode_one_of(message.body, (Event, Collected), self._due)
        except StateUnreadable:
            return [message]
        if isinstance(state, Collected):
            return [unpack(packed, self._due).message for _, packed in state.items]
        assert isinstance(state, Event)
        return [unpack(state.packed, self._due).message] if state.packed else []


_NONE_WAITING = WaitingCollections([], 0)
"""Where nothing waits for control messages."""
