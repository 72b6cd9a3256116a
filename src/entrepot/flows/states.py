# SPDX-License-Identifier: Apache-2.0
"""What nodes keep for messages to come, as bytes: aggregates, collections, timers.

A kept state is a message on a queue of the flow's own (`Journey.keep`). When
its time is over only its body and its key travel on, so the body tells
everything: MessagePack arrays, each headed by the name of what it is. A
message inside a state is bytes of its own, which are read when
the message is needed and are otherwise only copied.

These bytes outlive the process that wrote them. To change a structure, add a
field with a default at its end; for anything else give it a new tag, and read
the old one too.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from entrepot.errors import StateUnreadable
from entrepot.limits import NAME_CHARACTERS_MAX
from entrepot.message import Message
from entrepot.models import parse_message, render_message
from entrepot.models.headers.origin import Unopened
from entrepot.models.tree import Assembly, Element, Folder, Root

if TYPE_CHECKING:
    from entrepot.flows.journey import Journey

KEY_BYTES: Final = 24
"""A key is a correlation id."""
_ASKED_MAX: Final = 6
"""So often a state must be neither found nor held before it is taken for unknown.

Both questions are asked one after the other, and a state that two instances
use all the time slipped through them in 1 of 258 runs of 60 replies.
"""
BUSY_S: Final = 0.05
"""Seconds before an instance tries again for a state that another instance has."""
_FOREIGN = re.compile(r"[^A-Za-z0-9._%/]")
_DIGEST_CHARACTERS: Final = 8


# --- names and keys -----------------------------------------------------------------------------


def queue_name(kind: str, name: str, suffix: str = "") -> str:
    """The queue of a flow's own for something that its author has named.

    A name that is too long, or has what queue names cannot have, is shortened
    and told apart by a digest, so that two flows that use the same name meet.
    """
    full = f"SYSTEM.FLOW.{kind}.{name}{suffix}"
    room = NAME_CHARACTERS_MAX - len(f"SYSTEM.FLOW.{kind}.") - len(_LONGEST_SUFFIX)
    if len(name) <= room and name and not _FOREIGN.search(name):
        return full
    digest = blake2b(name.encode(), digest_size=_DIGEST_CHARACTERS // 2).hexdigest().upper()
    short = _FOREIGN.sub("_", name)[: room - _DIGEST_CHARACTERS - 1]
    return f"SYSTEM.FLOW.{kind}.{short}.{digest}{suffix}"


_LONGEST_SUFFIX: Final = ".TIMEOUT"


def key_of(*parts: str | bytes | int) -> bytes:
    """A key for something that is known by names and numbers."""
    digest = blake2b(digest_size=KEY_BYTES)
    for part in parts:
        part_bytes = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(part_bytes).to_bytes(4, "big"))
        digest.update(part_bytes)
    return digest.digest()


def new_number(journey: Journey) -> int:
    """A number that nothing else has."""
    # A digest, because what is new in a message id may be at its end.
    return int.from_bytes(blake2b(journey.world.new_message_id(), digest_size=7).digest(), "big")


# --- messages inside of states ------------------------------------------------------------------


class Parcel(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message, and how its body is read."""

    message: Message
    domain: str = ""
    message_set: str = ""
    message_type: str = ""
    message_format: str = ""

    def open(self, source_queue: str = "") -> Assembly:
        """The trees of the message."""
        return parse_message(
            self.message,
            domain=self.domain,
            message_set=self.message_set,
            message_type=self.message_type,
            message_format=self.message_format,
            source_queue=source_queue,
        )

    def enclosed(self, name: str) -> Root:
        """The message as a folder of another one; nothing of it is read before it is needed."""
        root = self.open().root
        root.key = name
        return root


def parcel_of(root: Root) -> Parcel:
    """A message as it is at this place in the flow."""
    message = render_message(root)
    unread = root.unread
    if type(unread) is Unopened and root.is_unchanged():
        origin = unread.origin
        return Parcel(message, unread.parser.name, origin.message_set, origin.message_type, origin.message_format)
    body = root.children[-1] if root.children else None
    domain = body.domain.name if isinstance(body, Folder) and body.domain.name not in _HEADERS else "BLOB"
    properties = root.first("Properties")
    if properties is None:
        return Parcel(message, domain)
    return Parcel(
        message,
        domain,
        _text(properties, "MessageSet"),
        _text(properties, "MessageType"),
        _text(properties, "MessageFormat"),
    )


_HEADERS = frozenset({"Properties", "MQMD", "MQRFH2", "MQDLH"})


def _text(folder: Element, name: str) -> str:
    value = folder.get(name)
    return "" if value is None else str(value)


_encode = msgspec.msgpack.Encoder().encode
_parcels = msgspec.msgpack.Decoder(Parcel)


def pack(parcel: Parcel) -> bytes:
    """A message as the bytes that states hold."""
    return _encode(parcel)


def unpack(packed: bytes, queue: str = "") -> Parcel:
    """
    Raises:
        StateUnreadable: These bytes are no message.
    """
    try:
        return _parcels.decode(packed)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StateUnreadable(queue, str(error)) from error


# --- the states ---------------------------------------------------------------------------------


class Aggregate(msgspec.Struct, array_like=True, gc=False, tag="aggregate1"):
    """Requests that were sent, and the replies that have come."""

    deadline: float
    """Of `FlowWorld.steady_now`, as all times here; 0 for never."""
    folders: list[str]
    """One for each request, in the order in which they were sent."""
    requests: list[bytes]
    """The ids of the requests: what replies have as correlation id."""
    replies: list[bytes | None]
    """Packed, beside their requests; None where one is missing."""
    missing: int


class Pointer(msgspec.Struct, array_like=True, gc=False, tag="pointer1"):
    """Whose request an id is, where the id itself does not tell."""

    aggregate: bytes
    requests: int
    """How many requests have this id."""


class Parked(msgspec.Struct, array_like=True, gc=False, tag="parked1"):
    """A reply that is to be matched again."""

    packed: bytes
    correlation_id: bytes
    aggregate: bytes
    """Its aggregate; empty where that is not known."""
    until: float
    """When it is given up as unknown."""


class Collection(msgspec.Struct, array_like=True, gc=False):
    """A collection that is not complete: what it has, handler by handler."""

    number: int
    """Unique: its messages and its timer are found by it."""
    counts: list[int]
    satisfied_at: list[float]
    """When each handler is satisfied whatever it has: its timer; 0 while that has not begun."""
    expires_at: float
    """0 for never."""

    def due_at(self) -> float:
        """When something happens to it without a message; 0 for never."""
        times = [at for at in (*self.satisfied_at, self.expires_at) if at]
        return min(times) if times else 0.0


class Shelf(msgspec.Struct, array_like=True, gc=False, tag="shelf1"):
    """The open collections of one correlation string, oldest first."""

    correlation: str
    collections: list[Collection]
    persistent: bool = False


class Collected(msgspec.Struct, array_like=True, gc=False, tag="collected1"):
    """The messages of one collection."""

    correlation: str
    items: list[tuple[str, bytes]]
    """Terminal and packed message, as they came."""


class WaitingCollections(msgspec.Struct, array_like=True, gc=False, tag="waiting1"):
    """Collections that are complete and wait for a control message."""

    keys: list[bytes]
    wanted: int
    """Control messages that came when none was complete."""
    persistent: bool = False


class Event(msgspec.Struct, array_like=True, gc=False, tag="event1"):
    """A message that came to a terminal when another instance had the state that it needs."""

    terminal: str
    packed: bytes


class Tick(msgspec.Struct, array_like=True, gc=False, tag="tick1"):
    """That a time has come: what for is told by the state that it names."""

    key: bytes
    number: int
    due_at: float = 0.0


class TimerState(msgspec.Struct, array_like=True, gc=False, tag="timer1"):
    """A timeout request that was accepted."""

    number: int
    """Ticks of another number belong to a request that was overwritten."""
    identifier: str
    packed: bytes
    interval_s: int
    left: int
    """How often it is still to happen; -1 for ever."""
    ignore_missed: bool
    allow_overwrite: bool
    start_date: str
    start_time: str
    persistent: bool


class Order(msgspec.Struct, array_like=True, gc=False, tag="order1"):
    """A timeout request that waits because another instance has the timer."""

    key: bytes
    timer: TimerState | None
    """None takes the timer away."""
    due_at: float = 0.0


class TurnToken(msgspec.Struct, array_like=True, gc=False, tag="token1"):
    """Its holder may work on some states; see `has_turn`."""


State = (
    Aggregate
    | Pointer
    | Parked
    | Shelf
    | Collected
    | WaitingCollections
    | Event
    | Tick
    | TimerState
    | Order
    | TurnToken
)
_Kind = TypeVar("_Kind", bound=State)

_aggregates = msgspec.msgpack.Decoder(Aggregate)
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {Aggregate: _aggregates}


def encode(state: State) -> bytes:
    """The body of a state."""
    return _encode(state)


def decode(body: bytes, kind: type[_Kind], queue: str) -> _Kind:
    """A state from its body.

    Raises:
        StateUnreadable: It is none, or none of this kind.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    try:
        decoded: _Kind = decoder.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StateUnreadable(queue, str(error)) from error
    return decoded


_several: dict[tuple[type[Any], ...], msgspec.msgpack.Decoder[Any]] = {}


def decode_one_of(body: bytes, kinds: tuple[type[Any], ...], queue: str) -> State:
    """A state that may be of several kinds."""
    decoder = _several.get(kinds)
    if decoder is None:
        union: Any = kinds[0]
        for kind in kinds[1:]:
            union = union | kind
        decoder = _several[kinds] = msgspec.msgpack.Decoder(union)
    try:
        found: State = decoder.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StateUnreadable(queue, str(error)) from error
    return found


class OpenAggregate:
    """What AggregateRequest nodes add to, while the message is below an AggregateControl."""

    __slots__ = ("folders", "head", "name", "requests")

    def __init__(self, name: str, head: bytes) -> None:
        self.name = name
        self.head = head
        self.folders: list[str] = []
        self.requests: list[bytes] = []


# --- taking turns -------------------------------------------------------------------------------


def find(journey: Journey, store: str, key: bytes) -> tuple[Message | None, bool]:
    """What is kept under a key, taken; and, where nothing was found, whether another instance may have it."""
    for _ in range(_ASKED_MAX):
        taken = journey.take(store, key)
        if taken is not None:
            return taken, False
        if journey.is_kept(store, key):
            return None, True
        # Its holder may have let go between the two questions, and taken it again before the next one.
    return journey.take(store, key), False


def lay_out_token(journey: Journey, store: str, token: bytes) -> None:
    """Make a token, unless there is one."""
    taken, is_away = find(journey, store, token)
    if not is_away:
        body = encode(TurnToken()) if taken is None else taken.body
        journey.keep(store, token, Message(body, persistent=True))


def has_turn(journey: Journey, store: str, token: bytes) -> bool:
    """Whether this message has a token, until its unit of work ends.

    Two instances that both find no state would both make one, and neither
    would ever be whole. The token's holder knows that no other works on
    what it stands for.
    """
    taken = journey.take(store, token)
    if taken is None:
        return False
    journey.keep(store, token, Message(taken.body, persistent=True))
    return True


def remaining_s(deadline: float, now: float) -> float | None:
    """How long a state with a deadline is still kept; None without one."""
    return max(deadline - now, 0.001) if deadline else None
