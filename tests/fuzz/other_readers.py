# SPDX-License-Identifier: Apache-2.0
"""A client that hears a server's frames, and a restart that reads records: the other compiled parsers.

What `compiled/transport.pyx` makes of a frame, and `compiled/records.pyx` of a
record, must be what msgspec and the form in Python make of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from entrepot.client.protocol import ClientCore
from entrepot.client.read_ahead import ReadAhead
from entrepot.compiled import compiled
from entrepot.engine import restart
from entrepot.engine.entry import QueuedMessage
from entrepot.engine.recovery_log.group import GROUP, GroupKey
from entrepot.engine.recovery_log.record import (
    FRAME_HEAD_BYTES,
    BadFrame,
    CheckpointRecord,
    CommitRecord,
    PutRecord,
    Record,
    RemoveRecord,
    TakenRecord,
    frame,
    frame_head,
    parse_head,
)
from entrepot.engine.recovery_log.record import decode as decode_record
from entrepot.errors import EntrepotError
from entrepot.message import Message, MessageType
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import decode, encode
from entrepot.server.wire.frame import HEAD, HEAD_BYTES, FrameReader
from entrepot.server.wire.verbs import Verb

from .finding import Finding

if TYPE_CHECKING:
    from .frames import Memory

FRAME_BYTES_MAX = 100 * 1024
NUMBERS = range(8)
"""Of the frames that wait for an answer."""
_MESSAGES = (
    Message(b"body", b"m" * 24, put_time=1.5, user="ann", application="app"),
    Message(b"b" * 40, b"m1", b"c1", type=MessageType.REPLY, priority=7, user="bob"),
    Message(b"b" * 300, b"i" * 128, b"c" * 128, reply_to="Q" * 48, expiry_s=30.0, persistent=True),
    Message(b"b", properties={"k": 1}),
)
_encode = msgspec.msgpack.Encoder().encode

Note = Callable[[bytes | bytearray], None]


class Client:
    """A connection's end at a client, with frames that wait for an answer and a consumer."""

    name = "client"

    def __init__(self, memory: Memory, note: Note) -> None:
        self._memory, self._note = memory, note
        self._reader = FrameReader(memoryview(memory.content), FRAME_BYTES_MAX)
        self._core = _HearingCore()
        self._slot = compiled("transport").BlockingReply
        found: list[tuple[Verb, Any]] = [
            (Verb.DONE, verbs.DonePayload(value)) for value in (None, b"", b"m" * 24, 7, "x")
        ]
        found.append((Verb.MESSAGE, verbs.MessageAnswer(False, None)))
        for message in _MESSAGES:
            found += [(Verb.MESSAGE, verbs.MessageAnswer(leased, message)) for leased in (False, True)]
            found += [(Verb.DELIVERY, verbs.DeliveryPayload(consumer, 300, message)) for consumer in (1, 1, 1, 2)]
        for size in (0, 1, 3, 17):
            messages = [_MESSAGES[n % 3] for n in range(size)]
            found += [(Verb.DELIVERIES, verbs.Deliveries(1, 70_000, messages))] * 3
        self.samples = [
            encode(verb, number, payload) for verb, payload in found for number in (NUMBERS if verb < 67 else (0,))
        ]

    def hear(self, frames: Sequence[bytes | bytearray]) -> tuple[int, int]:
        """How many frames were looked at, and how many of them taken."""
        return self.hear_bytes(b"".join(frames))

    def hear_bytes(self, data: bytes, hidden: int = 0) -> tuple[int, int]:
        self._note(data)
        self._memory.fill(data, hidden)
        core = self._core
        slots = {number: self._slot() for number in NUMBERS}
        core.pending = dict(slots)
        ahead = ReadAhead(1, "Q", None, 100, 0)
        core.consumers = {1: ahead}
        core.left = None
        core.hear(self._reader, len(data))
        end = len(data) if core.left is None else core.left
        at = taken = 0
        delivered: list[Message] = []
        while at < end:
            length, verb, number = HEAD.unpack_from(data, at)
            try:
                payload = decode(verb, memoryview(data)[at + HEAD_BYTES : at + 4 + length])
            except EntrepotError as error:
                raise Finding(f"verb {verb} was taken: {data[at : at + 4 + length]!r}") from error
            if verb == Verb.DELIVERY and payload.consumer == 1:
                delivered.append(payload.message)
            elif verb == Verb.DELIVERIES and payload.consumer == 1:
                delivered += payload.messages
            elif verb in (Verb.DONE, Verb.MESSAGE):
                value = payload.value if verb == Verb.DONE else payload.message
                slot = slots.pop(number)
                if not slot.done or _encode(slot.value) != _encode(value):
                    raise Finding(f"the answer is {slot.value!r}, not {value!r}")
            at += 4 + length
            taken += 1
        if at != end or _encode(list(ahead.arrived)) != _encode(delivered):
            raise Finding(f"{list(ahead.arrived)!r} came, of {data!r}")
        return taken + (end < len(data)), taken


class _HearingCore(ClientCore):
    """Which leaves what is not plain to nobody."""

    left: int | None

    def __init__(self) -> None:
        super().__init__("fuzz")

    def hear_any(self, reader: FrameReader, count: int, start: int) -> None:
        del reader, count
        self.left = start


class Log:
    """A restart that reads a window of the log in which all CRCs and checks are right.

    A frame stands for a record of the kind in the place of its verb.
    """

    name = "log"
    _SEED = 7
    _CHECK = 99
    _GROUP = struct.Struct("<QQIIdQQ")

    def __init__(self, memory: Memory, note: Note) -> None:
        self._memory, self._note = memory, note
        self._take = compiled("records").take
        self._key = GroupKey(b"s" * 32)
        records: list[Record] = [CommitRecord(unit) for unit in (7, 8, 300)]
        for message in _MESSAGES:
            for unit in (0, 7, 300):
                records += [PutRecord(unit, [(1, key)], message) for key in (2, 50, 2**40)]
        records.append(PutRecord(7, [(1, 3), (2, 4)], _MESSAGES[0], [([(3, 5)], Message(b""))]))
        for keys in ([], [1], [2, 50], list(range(40))):
            records += [RemoveRecord(0, keys), RemoveRecord(7, keys), TakenRecord(keys, [1]), TakenRecord([1, 2], keys)]
        payloads = [(kind_of(record), frame(record, 0)[1]) for record in records]
        # A group of all that follows, which follows the one before it: zeros are filled in.
        payloads += [(GROUP, self._GROUP.pack(0, 10, 1, serial, 2.5, 0, 0)) for serial in range(8)]
        self.samples = [HEAD.pack(HEAD_BYTES - 4 + len(payload), kind, 0) + payload for kind, payload in payloads]

    def hear(self, frames: Sequence[bytes | bytearray]) -> tuple[int, int]:
        """How many records were looked at, and how many of them replayed."""
        return self.hear_bytes(self._window(frames))

    def _window(self, frames: Sequence[bytes | bytearray]) -> bytes:
        """Records that are whole, one behind the other."""
        window = bytearray()
        seed, check = self._SEED, self._CHECK
        rest = sum(FRAME_HEAD_BYTES + len(each) - HEAD_BYTES for each in frames)
        for each in frames:
            kind, payload = each[4], bytes(each[HEAD_BYTES:])
            rest -= FRAME_HEAD_BYTES + len(payload)
            if kind == GROUP and len(payload) == self._GROUP.size:
                body_bytes, forced, incarnation, serial, when, previous, _ = self._GROUP.unpack(payload)
                previous = previous or check
                secrets = self._key.secrets(len(window), incarnation, serial, previous)
                seed, check = secrets.seed, secrets.check
                payload = self._GROUP.pack(body_bytes or rest, forced, incarnation, serial, when, previous, check)
            window += frame_head(kind, payload, len(window), seed) + payload
        return bytes(window)

    def hear_bytes(self, data: bytes, hidden: int = 0) -> tuple[int, int]:
        self._note(data)
        self._memory.fill(data, hidden)
        kinds = dict(_kinds(data))
        group_end = next((at for at, kind in kinds.items() if kind == GROUP), len(data))
        reader = SimpleNamespace(
            _data=memoryview(self._memory.content)[: len(data)],
            _base=0,
            _seed=self._SEED,
            _check=self._CHECK,
            _keys={0: self._key},
            _payload_bytes=2**40,
            incarnation=1,
            time=0.0,
            forced_position=0,
        )
        replay, twin = _Replay(), _Replay()
        end, _ = self._take(replay, reader, 0, group_end, 2**60)
        taken = 0
        for at, kind in kinds.items():
            if at >= end:
                break
            head = data[at : at + FRAME_HEAD_BYTES]
            length, _, crc = parse_head(head, at)
            payload = data[at + FRAME_HEAD_BYTES : at + FRAME_HEAD_BYTES + length]
            try:
                if kind == GROUP:
                    group, _ = self._key.parse(head, payload, crc)
                    twin.begin_group(at, group.time)
                else:
                    twin.act(at, decode_record(kind, memoryview(payload)))
            except (BadFrame, msgspec.MsgspecError, KeyError) as error:
                raise Finding(f"a record of kind {kind} was replayed: {payload!r}") from error
            taken += 1
        if replay.records != taken or replay.state() != twin.state():
            raise Finding(f"{replay.state()}, not {twin.state()}, of {data!r}")
        return taken + (end < len(data)), taken


def kind_of(record: Record) -> int:
    return int(frame(record, 0)[0][4])


def _kinds(data: bytes) -> Iterator[tuple[int, int]]:
    """Where records stand, and of which kind."""
    at = 0
    while at + FRAME_HEAD_BYTES <= len(data):
        yield at, data[at + 4]
        at += FRAME_HEAD_BYTES + int.from_bytes(data[at : at + 4], "little")


class _Replay(restart._Replay):
    """Of a queue manager with three messages, and no objects."""

    def __init__(self) -> None:
        manager = SimpleNamespace(recounted={}, log=SimpleNamespace(note_group_start=lambda _: None))
        super().__init__(manager, _CHECKPOINT)  # type: ignore[arg-type]
        for key in (1, 2, 3):
            self.alive[key] = QueuedMessage(key, 1, _MESSAGES[0], 0, 0)

    def act(self, position: int, record: Record) -> None:
        if isinstance(record, (PutRecord, RemoveRecord, TakenRecord, CommitRecord)):
            try:
                super().act(position, record)
            except OverflowError:
                return  # of a number that no queue manager has written

    def state(self) -> bytes:
        """All that a record can change."""
        units = {str(unit): [_told(part) for part in parts] for unit, parts in self.units.items() if parts}
        alive = [_told(entry) for _, entry in sorted(self.alive.items())]
        return _encode([alive, sorted(units.items()), self.key_last, str(self.wall_last)])


_CHECKPOINT = CheckpointRecord(3, b"m" * 16, 0, 0, 1, 0, 0, 0, 0.0)


def _told(part: Any) -> Any:
    if isinstance(part, list):
        return part
    return part.key, part.queue, part.message, part.backouts, part.log_position


READERS = (Client, Log)
