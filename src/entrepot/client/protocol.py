# SPDX-License-Identifier: Apache-2.0
"""The client's side of the native protocol, without any I/O: one for every line, blocking or not.

Verbs go in and gather in `out`, as frames or, for a queue manager in this
process, as they are; answers go in and resolve the slots of those who
asked. What a broken connection means for each of them is decided here,
once: an answer that never came is an unknown outcome, and a unit of work
that was open is backed out, because the server does that.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec.structs import replace

from entrepot.client.plain import PUT_MANY_BYTES, PlainCore
from entrepot.client.read_ahead import HeldAhead, ReadAhead, RemoteUnit
from entrepot.client.requests import queue_name, queue_names, subscribe_frame
from entrepot.engine.definitions import SubscriptionDefinition
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import (
    ConnectFailed,
    ConnectionLost,
    EntrepotError,
    Fenced,
    FrameUnreadable,
    MessageTooLong,
    ProtocolError,
    UnitBackedOut,
    UnitFinished,
)
from entrepot.limits import KIB
from entrepot.message import Message, MessageType, PutInUnit
from entrepot.server.mqsc import Answer, only_reads
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import LONG_BODY_BYTES, decode, encode, encode_parts
from entrepot.server.wire.error_form import from_wire
from entrepot.server.wire.frame import VERSION, FrameReader
from entrepot.server.wire.verbs import MAGIC, Verb

if TYPE_CHECKING:
    from entrepot.client.options import Sender

NOT_ASKED = object()
"""In place of an answer: the connection that a verb was for is no longer there, and it was not sent."""
GATHER_BYTES = 128 * KIB
"""Verbs that want no answer gather up to here before they are sent."""
ANSWER_BYTES_MAX = 2**32 - 1
"""A server that has let us in may answer as much as a frame can hold: a group of messages comes whole."""
_NUMBER_MAX = 2**32 - 1
_TOKEN_BYTES = 16
# Looking up members of an enumeration costs more than comparing numbers.
_DELIVERY = int(Verb.DELIVERY)
_DELIVERIES = int(Verb.DELIVERIES)
_MESSAGE = int(Verb.MESSAGE)


_MANAGED_READS = ("status", "dump", "in_doubt")


def is_repeatable(verb: int, payload: Any) -> bool:
    """Whether a verb whose answer was lost may be asked again on the next connection without doing anything twice."""
    again = verbs.ASKED[Verb(verb)].again
    if again is not verbs.Repeatable.IF_IT_READS:
        return again is verbs.Repeatable.ALWAYS
    return only_reads(payload.script) if verb == Verb.MQSC else payload.what in _MANAGED_READS


class ReplySlot(Protocol):
    """Where an answer goes, and what it answers."""

    verb: int
    number: int
    unit_active: bool
    """The unit of work that was to end has not."""

    def resolve(self, value: Any) -> None: ...

    def fail(self, error: EntrepotError, *, unit_active: bool = False) -> None: ...


SlotKind = TypeVar("SlotKind", bound=ReplySlot)

_WITH_MESSAGE = frozenset(verb for verb, definition in verbs.ASKED.items() if definition.has_message)
TAKING = frozenset(verb for verb, definition in verbs.ASKED.items() if definition.takes)
"""Verbs whose answer must not get lost: it may hold a message that is nowhere else any more."""


class _UnsettledMessage:
    """A message that the server has given out, until it has left its queue for good; its reader has it only then."""

    __slots__ = ("_message", "_slot", "number", "unit_active", "verb")

    def __init__(self, message: Message, slot: ReplySlot) -> None:
        self._message = message
        self._slot = slot
        self.verb = self.number = 0
        self.unit_active = False

    def resolve(self, _: Any) -> None:
        self._slot.resolve(self._message)

    def fail(self, error: EntrepotError, *, unit_active: bool = False) -> None:
        self._slot.fail(error, unit_active=unit_active)


@dataclass(slots=True, eq=False)
class OpenSubscription:
    """A subscription of this client; one that is not durable begins anew with every connection."""

    wanted: SubscriptionDefinition
    found: SubscriptionDefinition
    error: EntrepotError | None = None
    """Why it could not begin anew."""
    verb: int = 0
    number: int = 0
    unit_active: bool = False

    def resolve(self, answer: Any) -> None:
        name, queue = answer
        self.found = replace(self.wanted, name=name, destination=queue)
        self.error = None

    def fail(self, error: EntrepotError, *, unit_active: bool = False) -> None:
        del unit_active
        self.error = error


_PUT_BYTES = 800
"""More than the descriptor of a message takes that has no properties."""


class ClientCore(PlainCore):
    """One connection after another to the same queue manager."""

    def __init__(self, peer: str, *, framed: bool = True) -> None:
        super().__init__()
        self.peer = peer
        self._framed = framed
        """Whether verbs become bytes; those for a queue manager in this process need not."""
        self.opened = 0
        """Counts connections."""
        self.welcome: verbs.Welcome | None = None
        self.out: list[Any] = []
        """Frames; or triples of verb, number and payload."""
        self.out_bytes = 0
        self.pending: dict[int, ReplySlot] = {}
        self.consumers: dict[int, ReadAhead] = {}
        self.urgent = False
        """Whether something has gathered that must not wait for the next verb."""
        self.farewell: EntrepotError | None = None
        """Why the server has ended the connection, if it said so."""
        self.fenced: Fenced | None = None
        """Who has been fenced does nothing more, and connects no more."""
        self.claimed: dict[str, int] = {}
        """Names and epochs, to be claimed again on every connection before anything else is said there."""
        self.subscriptions: set[OpenSubscription] = set()
        self.pipelines: weakref.WeakSet[Any] = weakref.WeakSet()
        """Those whose puts may not have been answered for."""
        self._joins = False
        """Whether the server takes several puts in one frame."""
        self.body_bytes_max = 0
        """The longest body that the server takes."""
        self._token = os.urandom(_TOKEN_BYTES)
        self._number = 0
        self._consumer_next = 0
        self._unit_next = 0
        self._made = count(1)
        """Whoever makes message ids needs no lock for it."""
        self._id_head = b""

    # --- what goes out ------------------------------------------------------------------------

    def ask(self, verb: int, payload: Any, slot: ReplySlot) -> int:
        """Gather a frame that will be answered; its number."""
        return self.gather(verb, payload, slot)

    def tell(self, verb: int, payload: Any) -> None:
        """Gather a frame that wants no answer."""
        self.gather(verb, payload, None)

    def gather(self, verb: int, payload: Any, slot: ReplySlot | None) -> int:
        """Gather a frame; `slot` is where its answer goes, if it wants one."""
        if self._joined:
            self._gather_joined()
        number = 0
        if slot is not None:
            self._number = number = self._number % _NUMBER_MAX + 1
            slot.verb, slot.number = verb, number
            self.pending[number] = slot
        if not self._framed:
            self.out.append((verb, number, payload))
        elif verb in _WITH_MESSAGE and len(payload.message.body) >= LONG_BODY_BYTES:
            parts = encode_parts(verb, number, payload)
            self.out += parts
            self.out_bytes += sum(map(len, parts))
        else:
            frame = encode(verb, number, payload)
            self.out.append(frame)
            self.out_bytes += len(frame)
        return number

    def join(self, put: verbs.Put) -> None:
        """Gather a put that wants no answer and need not be sent at once: it shares a frame with its neighbours."""
        message = put.message
        size = len(message.body) + _PUT_BYTES
        if (
            not self._joins
            or size > PUT_MANY_BYTES
            or message.properties
            or put.wait_s
            or put.queue.__class__ is not str
        ):
            self.gather(Verb.PUT, put, None)
            return
        self.join_one((put.queue, put.persistent, put.priority, message), size)
        self.out_bytes += len(message.body)

    def take(self) -> list[bytes]:
        """All that has gathered, to be sent now."""
        if self._joined:
            self._gather_joined()
        out, self.out = self.out, []
        self.out_bytes = 0
        self.urgent = False
        return out

    def hello(self, slot: ReplySlot, *, channel: str, user: str, password: str, application: str, manager: str) -> None:
        before = b"" if self.welcome is None else self.welcome.token
        self.ask(Verb.HELLO, verbs.Hello(MAGIC, VERSION, channel, user, password, application, manager, before), slot)

    def begin_connection(self, welcome: verbs.Welcome) -> None:
        """A server has let us in."""
        self.opened += 1
        self.welcome = welcome
        self.farewell = None
        self._joins = welcome.joins_puts
        self.body_bytes_max = welcome.body_bytes_max
        self._id_head = welcome.message_id_head

    @property
    def manager_name(self) -> str:
        assert self.welcome is not None
        return self.welcome.manager

    def require_unfenced(self) -> None:
        """Refuse every verb once somebody else acts in our place.

        Raises:
            Fenced
        """
        if self.fenced is not None:
            raise Fenced(self.fenced.name, self.fenced.epoch, self.fenced.current)

    def claim(self, name: str, epoch: int, status: bytes = b"") -> verbs.ClaimPayload:
        return verbs.ClaimPayload(name, epoch, self._token, status)

    def begin_again(self, make_slot: Callable[[], SlotKind]) -> list[SlotKind]:
        """A new connection: gather the claims that the one before had; the caller waits for their answers.

        Its subscriptions follow. Their answers come before those of later verbs, so they are not waited for.
        """
        slots = []
        for name, epoch in self.claimed.items():
            slots.append(slot := make_slot())
            self.ask(Verb.CLAIM, self.claim(name, epoch), slot)
        for opened in self.subscriptions:
            self.ask(Verb.SUBSCRIBE, subscribe_frame(opened.wanted, new_only=True), opened)
        return slots

    def refused(self, error: EntrepotError) -> EntrepotError:
        """One of these claims was not granted again; if somebody else has it, that is the end."""
        if isinstance(error, Fenced):
            self.fenced = error
        return error

    def message_id(self) -> bytes:
        """One that nobody else makes: the server has given us our own range."""
        return self._id_head + next(self._made).to_bytes(4, "big")

    def begin_unit(self) -> RemoteUnit:
        self._unit_next = self._unit_next % _NUMBER_MAX + 1
        return RemoteUnit(self._unit_next, self.opened)

    @staticmethod
    def require_active(unit: RemoteUnit) -> None:
        """Refuse a unit that has ended.

        Raises:
            UnitFinished
        """
        if unit.state is not UnitState.ACTIVE:
            raise UnitFinished(unit.number, unit.state.value)

    @staticmethod
    def is_out_of_reach(unit: RemoteUnit, error: EntrepotError) -> None:
        """There is no connection to be had for a unit: what the server had of it, it has backed out."""
        if unit.used or isinstance(error, Fenced):
            unit.state = UnitState.BACKED_OUT

    def require_unit(self, unit: RemoteUnit) -> int:
        """The number of a unit that can still be used.

        Raises:
            UnitBackedOut: Its connection broke; nothing of it happened.
        """
        if unit.opened != self.opened and unit.state is UnitState.ACTIVE:
            if not unit.used:
                unit.opened = self.opened  # nothing was done in it yet
            else:
                unit.state = UnitState.BACKED_OUT
                raise UnitBackedOut(unit.number, "its connection broke")
        unit.used = True
        return unit.number

    def put(
        self, name: Any, message: Message, persistent: bool | None, priority: int | None, unit: int, wait_s: float
    ) -> tuple[bytes, verbs.Put]:
        """The frame of a put, and the message id it has from the beginning.

        Raises:
            MessageTooLong: The channel would not take it; nothing was sent.
        """
        self.require_fitting(message)
        if not message.message_id:
            message = replace(message, message_id=self.message_id())
        return message.message_id, verbs.Put(queue_names(name), unit, persistent, priority, wait_s, message)

    def put_any(
        self,
        name: str,
        body: bytes,
        persistent: bool | None,
        priority: int | None,
        correlation_id: bytes,
        kind: int,
        sender: Sender,
        slot: ReplySlot | None,
    ) -> bytes:
        """See `PlainCore.gather_put`."""
        message = Message(
            body,
            correlation_id=correlation_id,
            type=MessageType(kind),
            user=sender.user,
            application=sender.application,
        )
        message_id, frame = self.put(name, message, persistent, priority, 0, 0.0)
        self.gather(Verb.PUT, frame, slot)
        return message_id

    def join_any(self, name: str, body: bytes, persistent: bool | None, sender: Sender) -> bytes:
        """See `PlainCore.join_put`."""
        message = Message(body, user=sender.user, application=sender.application)
        message_id, frame = self.put(name, message, persistent, None, 0, 0.0)
        self.join(frame)
        return message_id

    def request_any(
        self,
        name: str,
        body: bytes,
        reply_queue: str,
        timeout_s: float,
        persistent: bool | None,
        sender: Sender,
        slot: ReplySlot,
    ) -> None:
        """See `PlainCore.gather_request`."""
        message = Message(
            body,
            type=MessageType.REQUEST,
            expiry_s=timeout_s,
            reply_to=reply_queue,
            user=sender.user,
            application=sender.application,
        )
        self.require_fitting(message)
        frame = verbs.Request(queue_name(name), reply_queue, timeout_s, persistent, None, message)
        self.gather(Verb.REQUEST, frame, slot)

    def bodies_any(
        self, unit: int, name: str, bodies: Sequence[bytes], persistent: bool | None, sender: Sender
    ) -> list[bytes]:
        """See `PlainCore.gather_bodies`."""
        user, application = sender
        puts = [(name, persistent, None, Message(body, user=user, application=application)) for body in bodies]
        return self.put_many(unit, puts, None)

    def put_many(self, unit: int, puts: Sequence[PutInUnit], slot: ReplySlot | None) -> list[bytes]:
        """Gather many puts of a unit, to be answered for together if there is a slot; their message ids.

        Raises:
            MessageTooLong: The channel would not take one of them; nothing was gathered.
        """
        for _, _, _, message in puts:
            self.require_fitting(message)
        message_ids: list[bytes] = []
        frames = self._frames_of(unit, puts, message_ids)
        if slot is not None and not self._framed:
            self.ask(Verb.PUT_MANY, next(frames, verbs.PutMany(unit, [])), slot)
            return message_ids
        for frame in frames:
            if isinstance(frame, verbs.Put):
                self.tell(Verb.PUT, frame)
            else:
                self.tell(Verb.PUT_MANY, frame)
        if slot is not None:
            self.ask(Verb.PUT_MANY, verbs.PutMany(unit, []), slot)
        return message_ids

    def _frames_of(
        self, unit: int, puts: Sequence[PutInUnit], message_ids: list[bytes]
    ) -> Iterator[verbs.PutMany | verbs.Put]:
        """Short messages share a frame, a long one has its own."""
        gathered: list[PutInUnit] = []
        size = 0
        for name, persistent, priority, message in puts:
            queue_name(name)
            if not message.message_id:
                message = replace(message, message_id=self.message_id())
            message_ids.append(message.message_id)
            own = len(message.body) + (PUT_MANY_BYTES if message.properties or message.topic else _PUT_BYTES)
            if not self._framed:
                own = 0  # what needs no frame has all the room there is
            if own > PUT_MANY_BYTES:
                if gathered:
                    yield verbs.PutMany(unit, gathered)
                    gathered, size = [], 0
                yield verbs.Put(name, unit, persistent, priority, 0.0, message)
                continue
            if size + own > PUT_MANY_BYTES:
                yield verbs.PutMany(unit, gathered)
                gathered, size = [], 0
            gathered.append((name, persistent, priority, message))
            size += own
        if gathered:
            yield verbs.PutMany(unit, gathered)

    def require_fitting(self, message: Message) -> None:
        """Refuse what the server would end the connection for."""
        if len(message.body) > self.body_bytes_max:
            raise MessageTooLong(f"the channel to {self.peer}", len(message.body), self.body_bytes_max)

    # --- consumers ----------------------------------------------------------------------------

    def consume(self, queue: str, wanted: verbs.Wanted | None, credit: int, slot: ReplySlot) -> ReadAhead:
        self._consumer_next += 1
        ahead = ReadAhead(self._consumer_next, queue, wanted, credit, self.opened)
        self.consumers[ahead.number] = ahead
        self.ask(Verb.CONSUME, verbs.Consume(queue, ahead.number, credit, wanted, together=True), slot)
        return ahead

    def hold(self, queue: str, wanted: verbs.Wanted | None, credit: int, slot: ReplySlot) -> HeldAhead:
        """A consumer for units of work."""
        self._consumer_next += 1
        ahead = HeldAhead(self._consumer_next, queue, wanted, credit, self.opened)
        self.consumers[ahead.number] = ahead
        payload = verbs.Consume(queue, ahead.number, credit, wanted, held=True, together=True)
        self.ask(Verb.CONSUME, payload, slot)
        return ahead

    def used(self, ahead: ReadAhead, *, idle: bool = False) -> bool:
        """The application has used what it was given; True when a frame about that has gathered."""
        more = ahead.given - ahead.told
        if more == 0 or (more < ahead.credit_step and not idle):
            return False
        ahead.told = ahead.given
        self.tell(Verb.CREDIT, verbs.Credit(ahead.number, ahead.given, more))
        return True

    def return_at_hand(self, ahead: ReadAhead, delay_s: float, rejected: str | None, slot: ReplySlot) -> None:
        """The application gives back what it was given last."""
        ahead.given += 1
        more, ahead.told = ahead.given - ahead.told, ahead.given
        self.ask(Verb.RETURN, verbs.ReturnPayload(ahead.number, ahead.given, more, delay_s, rejected), slot)

    def settle(self, ahead: ReadAhead, slot: ReplySlot) -> None:
        """The application has used what it was given last, and wants to know that it has left its queue."""
        ahead.given += 1
        more, ahead.told = ahead.given - ahead.told, ahead.given
        self.ask(Verb.CREDIT, verbs.Credit(ahead.number, ahead.given, more), slot)

    def stop_frame(self, ahead: ReadAhead, *, tried: bool) -> verbs.ConsumerPayload:
        """How a consumer ends; `tried`: what it was given last returns as tried."""
        return verbs.ConsumerPayload(ahead.number, tried=ahead.given + 1 if tried else 0)

    # --- what comes in ------------------------------------------------------------------------

    def hear_any(self, reader: FrameReader, count: int, start: int) -> None:
        """`PlainCore.hear` for all frames behind the first `start` bytes."""
        for verb, number, view in reader.frames(count, start):
            self.handle(verb, number, decode(verb, view))

    def handle(self, verb: int, number: int, payload: Any) -> None:
        """A frame has come.

        Raises:
            FrameUnreadable: The server says what no server says.
        """
        if verb == _DELIVERY:
            ahead = self.consumers.get(payload.consumer)
            if ahead is not None:
                ahead.arrive((payload.message,))
            return
        if verb == _DELIVERIES:
            ahead = self.consumers.get(payload.consumer)
            if ahead is not None:
                ahead.arrive(payload.messages)
            return
        if verb == _MESSAGE and (slot := self.pending.pop(number, None)) is not None:
            if not payload.leased:
                slot.resolve(payload.message)
                return
            self.urgent = True
            if self._framed:
                self.tell(Verb.ACKNOWLEDGE, verbs.NumberPayload(number))
                slot.resolve(payload.message)
            else:
                # In one process both ends live and die together: what was got has left for good.
                self.ask(Verb.ACKNOWLEDGE, verbs.NumberPayload(number), _UnsettledMessage(payload.message, slot))
            return
        if verb in (Verb.CLOSING, Verb.CONSUMER_FAILED, Verb.ALIVE) and not self.pending.get(number):
            self._handle_unasked(verb, payload)
            return
        slot = self.pending.pop(number, None)
        if slot is None:
            raise FrameUnreadable(f"an answer to {number}, which nobody has asked")
        if verb == Verb.FAILED:
            slot.fail(from_wire(payload.error), unit_active=payload.unit_active)
        elif verb == Verb.DONE:
            slot.resolve(payload.value)
        elif verb == Verb.ANSWERS:
            slot.resolve([_answer(form) for form in payload.answers])
        else:
            slot.resolve(payload)

    def _handle_unasked(self, verb: int, payload: Any) -> None:
        if verb == Verb.CLOSING:
            self.farewell = from_wire(payload.error)
            if isinstance(self.farewell, Fenced):
                self.fenced = self.farewell
        elif verb == Verb.CONSUMER_FAILED:
            ahead = self.consumers.get(payload.consumer)
            if ahead is not None:
                # What has come can still be used; the server waits to hear how far.
                ahead.error = from_wire(payload.error)
                if ahead.wake is not None:
                    ahead.wake()

    def lose(self, problem: str) -> None:
        """The connection has broken: whoever waits for an answer does not know the outcome."""
        if self.farewell is not None:
            problem = self.farewell.what
        self.take()
        pending, self.pending = self.pending, {}
        misunderstood = self.farewell if isinstance(self.farewell, ProtocolError) and len(pending) == 1 else None
        for slot in pending.values():
            # A server that could not understand us has done nothing; saying it again would not help.
            slot.fail(misunderstood or ConnectionLost(self.peer, problem))
        consumers, self.consumers = self.consumers, {}
        for ahead in consumers.values():
            ahead.lose(ConnectionLost(self.peer, problem))
        self.trouble_pipelines(ConnectionLost(self.peer, problem))

    def trouble_pipelines(self, error: EntrepotError) -> None:
        """Tell those pipelines whose puts it may concern."""
        for pipeline in list(self.pipelines):
            pipeline.trouble(error)


def waited_for(error: EntrepotError, reconnect_s: float) -> EntrepotError:
    """Why there is no connection, and how long one was waited for."""
    if isinstance(error, ConnectFailed):
        return ConnectFailed(error.peer, f"{error.problem}; tried for {reconnect_s:g} s (reconnect_s)")
    return error


def _answer(form: Any) -> Answer:
    command, line, output, rows, errors, warnings = form
    restored: Any = tuple(from_wire(error) for error in errors)
    return Answer(command, line, tuple(output), tuple(rows), restored, tuple(warnings))
