# SPDX-License-Identifier: Apache-2.0
"""AggregateControl, AggregateRequest and AggregateReply: many requests, one answer.

    fan-out   MQInput → AggregateControl → Compute → MQOutput → AggregateRequest
    fan-in    MQInput → AggregateReply → Compute → MQOutput

An aggregate is one state. Its key is the beginning of the ids that its
requests get, so the correlation id of a reply tells which aggregate it
belongs to. The state waits with the time that is left; when that is over, it
comes back to AggregateReply by itself. A reply that is unknown, or whose
aggregate another instance has at the moment, is parked and comes back too.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple

from msgspec.structs import replace

from entrepot.errors import AggregationFailed, StateUnreadable
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.exception_list import with_exception
from entrepot.flows.journey import Journey
from entrepot.flows.location import read_location
from entrepot.flows.nodes.input_node import TRANSACTION, EntryPoint, InputNode
from entrepot.flows.nodes.node import Enter, FlowMistake, Node, NodeContext, Property
from entrepot.flows.states import (
    BUSY_S,
    KEY_BYTES,
    Aggregate,
    OpenAggregate,
    Parcel,
    Parked,
    Pointer,
    decode,
    decode_one_of,
    encode,
    find,
    pack,
    parcel_of,
    queue_name,
    remaining_s,
    unpack,
)
from entrepot.message import Message
from entrepot.models.tree import Assembly, Element, Root

BODY = "ComIbmAggregateReplyBody"
"""The folder below Root that has the replies."""
CONTROL = "ComIbmAggregateControlNode"
"""The folder of LocalEnvironment that tells of an aggregate that was begun."""
_HEAD_BYTES = 20
_AWAY_S_MAX = 30.0
"""No instance holds an aggregate for longer; one that was not found in all that time does not exist."""
_KIND = "AGGREGATE"
_NAME = Property(
    "aggregate_name", "text", required=True, ibm="aggregateName", about="what joins the nodes of both sides"
)


def _key(head: bytes) -> bytes:
    return head[:_HEAD_BYTES] + bytes(KEY_BYTES - _HEAD_BYTES)


class AggregateControl(Node):
    type: ClassVar[str] = "AggregateControl"
    about: ClassVar[str] = "Begins an aggregate: the requests that are sent from here on belong together."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmAggregateControl",)
    outputs: ClassVar[tuple[str, ...]] = ("out", "control", "failure")
    properties: ClassVar[tuple[Property, ...]] = (
        _NAME,
        Property("timeout_s", "number", 0, ibm="timeoutInterval", about="how long replies are waited for; 0: for ever"),
        Property(
            "timeout_location",
            "text",
            "$LocalEnvironment/Aggregation/Timeout",
            ibm="timeoutLocation",
            about="where a message may say another time",
        ),
    )

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        settings = self.settings
        self._aggregate_name = str(settings["aggregate_name"])
        self._store = queue_name(_KIND, self._aggregate_name)
        self._timeouts = queue_name(_KIND, self._aggregate_name, ".TIMEOUT")
        self._pointers = queue_name(_KIND, self._aggregate_name, ".IDS")
        self._timeout_s = float(settings["timeout_s"] or 0)
        where = settings["timeout_location"]
        self._timeout_location = read_location(where) if where else None

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        del flow
        given = definition.properties
        found = []
        timeout_s = given.get("timeout_s") or 0
        if isinstance(timeout_s, int | float) and timeout_s < 0:
            found.append(
                FlowMistake(definition.name, f"timeout_s is {timeout_s}", "Say how many seconds; 0 is for ever.")
            )
        try:
            if given.get("timeout_location"):
                read_location(str(given["timeout_location"]))
        except ValueError as error:
            found.append(FlowMistake(definition.name, f"timeout_location: {error}"))
        return found

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        # A digest, because what is new in a message id may be at its end.
        head = blake2b(journey.world.new_message_id(), digest_size=_HEAD_BYTES).digest()
        opened = OpenAggregate(self._aggregate_name, head)
        around = journey.aggregate, journey.message_id_head
        journey.aggregate, journey.message_id_head = opened, head
        try:
            self.propagate("out", assembly, journey)
        finally:
            journey.aggregate, journey.message_id_head = around
        timeout_s = self._timeout(assembly)
        self._finish(opened, timeout_s, journey)
        if "control" in self.wires:
            self._tell(opened, timeout_s, assembly, journey)

    def _timeout(self, assembly: Assembly) -> float:
        if self._timeout_location is None:
            return self._timeout_s
        element = self._timeout_location.find(assembly)
        if element is None or element.value is None:
            return self._timeout_s
        try:
            seconds = float(element.value)
        except (TypeError, ValueError):
            seconds = -1.0
        if not 0 <= seconds < float("inf"):
            problem = f"{self._timeout_location.text} is {element.value!r}, which is no number of seconds"
            raise AggregationFailed(self.plan.flow.name, self.name, problem)
        return seconds

    def _finish(self, opened: OpenAggregate, timeout_s: float, journey: Journey) -> None:
        """Keep what replies are matched with, in the same unit of work in which the requests are sent."""
        requests = opened.requests
        if not requests and not timeout_s:
            text = f"the aggregate {self._aggregate_name} has no requests and no timeout, so nothing follows"
            journey.world.trace("", f"{self.name}: {text}")
            return
        persistent = journey.message.persistent
        deadline = journey.world.steady_now() + timeout_s if timeout_s else 0.0
        missing = len(requests)
        state = Aggregate(deadline, opened.folders, requests, [None] * missing, missing)
        key = _key(opened.head)
        expires_s = timeout_s or None
        then = self._timeouts if timeout_s else ""
        journey.keep(self._store, key, Message(encode(state), persistent=persistent), expires_s=expires_s, then=then)
        for request in set(requests):
            if not request.startswith(opened.head):
                pointer = Message(encode(Pointer(key, requests.count(request))), persistent=persistent)
                journey.keep(self._pointers, request, pointer, expires_s=expires_s)

    def _tell(self, opened: OpenAggregate, timeout_s: float, assembly: Assembly, journey: Journey) -> None:
        """A control message as flows before version 6 have sent it; it is not needed any more."""
        local = assembly.local_environment.copy()
        control = local.add(CONTROL)
        control.add("AggregateName", self._aggregate_name)
        control.add("AggregateIdentifier", _key(opened.head))
        control.add("Timeout", timeout_s)
        for folder, request in zip(opened.folders, opened.requests, strict=True):
            each = control.add("Request")
            each.add("FolderName", folder)
            each.add("ReplyIdentifier", request)
        self.propagate(
            "control", Assembly(assembly.root, assembly.environment, local, assembly.exception_list), journey
        )


class AggregateRequest(Node):
    type: ClassVar[str] = "AggregateRequest"
    about: ClassVar[str] = "Stands behind an output node: what that has sent is a request of the aggregate."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmAggregateRequest",)
    properties: ClassVar[tuple[Property, ...]] = (
        Property("folder", "text", required=True, ibm="folderName", about="where the reply is in the answer"),
    )

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        opened = journey.aggregate
        if opened is None:
            raise self._failure("the message has not come through an AggregateControl")
        written = assembly.local_environment.first("WrittenDestination")
        sent = [data for protocol in written or () for data in protocol.all("DestinationData")]
        if not sent:
            raise self._failure("LocalEnvironment.WrittenDestination tells of no message that was sent")
        for data in sent:
            identifier = data.get("replyIdentifier") or data.get("ReplyIdentifier") or b""
            if not isinstance(identifier, bytes) or not identifier.strip(b"\0"):
                raise self._failure("a request has no id that replies could name")
            opened.folders.append(str(self.settings["folder"]))
            opened.requests.append(identifier)
        self.propagate("out", assembly, journey)

    def _failure(self, problem: str) -> AggregationFailed:
        return AggregationFailed(self.plan.flow.name, self.name, problem)


class AggregateReply(InputNode):
    type: ClassVar[str] = "AggregateReply"
    about: ClassVar[str] = (
        "Takes replies, and sends one message when all of an aggregate are there or its time is over."
    )
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmAggregateReply",)
    inputs: ClassVar[tuple[str, ...]] = ("in", "control")
    outputs: ClassVar[tuple[str, ...]] = ("out", "unknown", "timeout", "catch", "failure")
    properties: ClassVar[tuple[Property, ...]] = (
        _NAME,
        Property(
            "unknown_timeout_s",
            "number",
            0,
            ibm="unknownMessageTimeout",
            about="how long an unknown reply may wait for its aggregate; 0: not at all",
        ),
        TRANSACTION,
    )

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        name = str(self.settings["aggregate_name"])
        self._store = queue_name(_KIND, name)
        self._timeouts = queue_name(_KIND, name, ".TIMEOUT")
        self._pointers = queue_name(_KIND, name, ".IDS")
        self._parked = queue_name(_KIND, name, ".PARKED")
        self._retries = queue_name(_KIND, name, ".RETRY")
        self._unknown_timeout_s = float(self.settings["unknown_timeout_s"] or 0)

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        del flow
        waits_s = definition.properties.get("unknown_timeout_s") or 0
        if isinstance(waits_s, int | float) and waits_s < 0:
            return [FlowMistake(definition.name, f"unknown_timeout_s is {waits_s}", "Say how many seconds, from 0 on.")]
        return []

    def points(self) -> list[EntryPoint]:
        # Always in the unit of work: it holds the only copy of an aggregate's replies.
        return [
            EntryPoint(self, self._time_is_over, queue=self._timeouts, transaction="yes", internal=True),
            EntryPoint(self, self._try_again, queue=self._retries, transaction="yes", internal=True),
        ]

    def entrance(self, terminal: str) -> Enter:
        return _ignore if terminal == "control" else self.enter

    # --- a reply ------------------------------------------------------------------------------

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        parcel = parcel_of(assembly.root)
        message = parcel.message
        if not message.correlation_id.strip(b"\0"):
            problem = "the reply has no correlation id, so nothing tells which request it answers"
            raise AggregationFailed(self.plan.flow.name, self.name, problem)
        if message.expiry_s is not None:
            # It has arrived; how long it was of use on a queue means nothing from here on.
            parcel = replace(parcel, message=replace(message, expiry_s=None))
        until = journey.world.steady_now() + self._unknown_timeout_s
        self._match(_Reply(parcel, pack(parcel), message.correlation_id, b"", until, assembly), journey)

    def _try_again(self, message: Message, journey: Journey) -> None:
        """A parked reply has come back."""
        parked = decode(message.body, Parked, journey.source_queue)
        parcel = unpack(parked.packed, journey.source_queue)
        self._go_on_as(parcel.message, journey)
        reply = _Reply(parcel, parked.packed, parked.correlation_id, parked.aggregate, parked.until, None)
        self._match(reply, journey)

    def _go_on_as(self, message: Message, journey: Journey) -> None:
        """Let the flow see this message as the one that came in."""
        journey.message = message
        wanted = self.settings["transaction"]
        journey.transactional = message.persistent if wanted == "automatic" else wanted == "yes"

    def _match(self, reply: _Reply, journey: Journey) -> None:
        """Add a reply to its aggregate."""
        key, taken, is_away = self._find(reply, journey)
        if taken is None:
            self._wait(reply, key, is_away, journey)
            return
        state = decode(taken.body, Aggregate, self._store)
        place = _open_place(state, reply.correlation_id)
        if place < 0:
            self._keep(key, Message(taken.body, persistent=taken.persistent), state, journey)
            self._give_up(reply, journey, "its request has been answered before")
            return
        state.replies[place] = reply.packed
        state.missing -= 1
        if state.missing:
            persistent = taken.persistent or reply.parcel.message.persistent
            self._keep(key, Message(encode(state), persistent=persistent), state, journey)
        else:
            self._send("out", self._composed(state, reply.parcel, reply.assembly), journey)

    def _find(self, reply: _Reply, journey: Journey) -> tuple[bytes, Message | None, bool]:
        """The key of a reply's aggregate, the aggregate if it is to be had, and whether it may be elsewhere."""
        key = reply.aggregate or _key(reply.correlation_id)
        taken = journey.take(self._store, key)
        if taken is not None:
            return key, taken, False
        if not reply.aggregate:
            key = self._pointed_to(reply.correlation_id, journey) or key
        return key, *find(journey, self._store, key)

    def _pointed_to(self, correlation_id: bytes, journey: Journey) -> bytes:
        """The aggregate of a request that was sent under an id made elsewhere."""
        taken = journey.take(self._pointers, correlation_id)
        if taken is None:
            return b""
        pointer = decode(taken.body, Pointer, self._pointers)
        if pointer.requests > 1:
            left = Message(encode(Pointer(pointer.aggregate, pointer.requests - 1)), persistent=taken.persistent)
            journey.keep(self._pointers, correlation_id, left, expires_s=taken.expiry_s)
        return pointer.aggregate

    def _keep(self, key: bytes, message: Message, state: Aggregate, journey: Journey) -> None:
        expires_s = remaining_s(state.deadline, journey.world.steady_now()) if state.deadline else None
        journey.keep(self._store, key, message, expires_s=expires_s, then=self._timeouts if state.deadline else "")

    def _wait(self, reply: _Reply, key: bytes, is_away: bool, journey: Journey) -> None:
        """Park a reply whose aggregate is away, or not known yet; give it up when its time is over."""
        now = journey.world.steady_now()
        if is_away and now < reply.until + _AWAY_S_MAX:
            waits_s = BUSY_S
        elif reply.until > now:
            waits_s = reply.until - now
        else:
            self._give_up(reply, journey, "no aggregate waits for it")
            return
        # A key that was pointed to is remembered: the pointer is used up.
        aggregate = b"" if key == _key(reply.correlation_id) else key
        state = Parked(reply.packed, reply.correlation_id, aggregate, reply.until)
        parked = Message(encode(state), persistent=reply.parcel.message.persistent)
        journey.keep(self._parked, journey.world.new_message_id(), parked, expires_s=waits_s, then=self._retries)

    def _give_up(self, reply: _Reply, journey: Journey, why: str) -> None:
        if not self._send("unknown", reply.assembly or reply.parcel.open(), journey):
            text = f"{self.name}: a reply to {reply.correlation_id.hex()} is dropped: {why}"
            journey.world.trace("", text)

    # --- what leaves --------------------------------------------------------------------------

    def _time_is_over(self, message: Message, journey: Journey) -> None:
        state = decode(message.body, Aggregate, journey.source_queue)
        came = _replies(state)
        last = unpack(came[-1], journey.source_queue) if came else Parcel(Message(b"", persistent=message.persistent))
        self._go_on_as(last.message, journey)
        if not self._send("timeout", self._composed(state, last if came else None, None), journey):
            text = f"{self.name}: an aggregate with {len(came)} replies is dropped: its time is over"
            journey.world.trace("", text)

    def _composed(self, state: Aggregate, last: Parcel | None, assembly: Assembly | None) -> Assembly:
        """One message of all replies that have come, in the order of their requests."""
        body = Element(BODY)
        body.fill(
            unpack(packed, self._store).enclosed(folder)
            for folder, packed in zip(state.folders, state.replies, strict=True)
            if packed is not None
        )
        properties = None if last is None else last.open().root.first("Properties")
        root = Root()
        root.fill([properties or root.new_child("Properties"), body])
        if assembly is None:
            return Assembly(root)
        return Assembly(root, assembly.environment, assembly.local_environment, assembly.exception_list)

    def _send(self, terminal: str, assembly: Assembly, journey: Journey) -> bool:
        """As `propagate`; an error that comes back goes to `catch`."""
        catch = self.wires.get("catch")
        if catch is None:
            return self.propagate(terminal, assembly, journey)
        try:
            return self.propagate(terminal, assembly, journey)
        except Exception as error:
            if journey.raised is not error:
                journey.raised, journey.raised_by = error, self
            journey.noted(self, error)
            catch(with_exception(assembly, error, journey), journey)
            return True

    # --- what has failed ----------------------------------------------------------------------

    def parse(self, message: Message, journey: Journey) -> Assembly:
        """What the failure terminal has of a message from one of the own queues."""
        if journey.source_queue == self._retries:
            return unpack(decode(message.body, Parked, self._retries).packed, self._retries).open()
        state = decode(message.body, Aggregate, journey.source_queue)
        came = _replies(state)
        return self._composed(state, unpack(came[-1], self._timeouts) if came else None, None)

    def contents(self, message: Message) -> list[Message]:
        """The replies themselves: the state that holds them cannot be read outside."""
        try:
            state = decode_one_of(message.body, (Parked, Aggregate), self._store)
            packed = [state.packed] if isinstance(state, Parked) else _replies(state)
            return [unpack(each, self._store).message for each in packed]
        except StateUnreadable:
            return [message]


class _Reply(NamedTuple):
    """A reply that is looking for its aggregate."""

    parcel: Parcel
    packed: bytes
    correlation_id: bytes
    aggregate: bytes
    """The key of its aggregate, where the correlation id does not tell and it was found out."""
    until: float
    """When it is given up as unknown."""
    assembly: Assembly | None
    """As it came in; None where it was parked."""


def _replies(state: Any) -> list[bytes]:
    return [packed for packed in state.replies if packed is not None]


def _open_place(state: Aggregate, correlation_id: bytes) -> int:
    """Which request of an aggregate a reply answers; -1 for none that is open."""
    for place, request in enumerate(state.requests):
        if request == correlation_id and state.replies[place] is None:
            return place
    return -1


def _ignore(assembly: Assembly, journey: Journey) -> None:
    """Control messages have told nothing that the state of an aggregate does not tell since version 6."""
    del assembly, journey
