# SPDX-License-Identifier: Apache-2.0
"""Records: the unit of everything we store, framed alike in the log, in runs and in checkpoints.

A frame is a head of 20 bytes and a payload in MessagePack:

    length u32 | type u8, 3 zero bytes | position u64 | CRC-32C u32 | payload

The CRC covers all of the frame but itself and, in the log, begins with a
seed that belongs to the record's group. The position is where the frame
stands (in the log's stream, or in its file), so a frame left over from an
earlier lap of a circular log is never taken for a present one. The format
version and the checklist for changing it are in docs/RECOVERY_LOG.md.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import msgspec
from crc32c import crc32c
from msgspec.structs import replace

from entrepot.disk import Buffer
from entrepot.errors import FormatUnsupported
from entrepot.message import Message

FORMAT_VERSION = 3
"""3 has salted groups; 2 came with bodies that several messages share, and decisions. The records of 1 and 2 mean the
same in it."""
READABLE_VERSIONS = (1, 2, 3)

_TARGET_BYTES = 20
_HEAD = struct.Struct("<IB3xQ")
_CRC = struct.Struct("<I")
_HEAD_AND_CRC = struct.Struct("<IB3xQI")
_HEAD_BYTES = _HEAD.size
FRAME_HEAD_BYTES = _HEAD_AND_CRC.size
# The longest message, its properties and some descriptor.
PAYLOAD_BYTES_MAX = 128 * 1024 * 1024


def require_format(path: str, version: int) -> None:
    """Refuse what a later release has written.

    Raises:
        FormatUnsupported
    """
    if version not in READABLE_VERSIONS:
        raise FormatUnsupported(path, version, FORMAT_VERSION)


class RecordType(enum.IntEnum):
    GROUP = 1
    PUT = 2
    REMOVE = 3
    TAKEN = 4
    COMMIT = 5
    PREPARE = 6
    RESOLVE = 7
    DEFINE = 8
    DELETE = 9
    DECISION = 10
    FORGET = 11
    HEURISTIC = 12
    # Only in checkpoints and runs:
    CHECKPOINT = 32
    RUN = 33
    COUNTS = 34
    END = 35
    RUN_HEAD = 36
    ENTRIES = 37
    BODIES = 38


class Record(msgspec.Struct, array_like=True, gc=False):
    """What a payload says; the order of fields is the order on disk, so new ones go to the end."""


class PutRecord(Record, gc=False):
    """A message arrives on queues, under a key of its own on each."""

    unit: int
    """0: it stands alone. Otherwise it takes effect with the unit's Commit."""
    targets: list[tuple[int, int]]
    """Queue number and key, for each queue."""
    message: Message
    alike: list[tuple[list[tuple[int, int]], Message]] = []
    """Further targets, each with a message that differs in all but the body, which is left out."""

    def arrivals(self) -> Iterator[tuple[int, int, Message]]:
        """Queue number, key and message of each target."""
        message = self.message
        for queue, key in self.targets:
            yield queue, key, message
        for targets, differing in self.alike:
            whole = replace(differing, body=message.body)
            for queue, key in targets:
                yield queue, key, whole

    @property
    def key_last(self) -> int:
        return (self.alike[-1][0] if self.alike else self.targets)[-1][1]

    @property
    def extra_bytes(self) -> int:
        """About what its further targets and messages add to a record with one of each."""
        size = _TARGET_BYTES * (len(self.targets) - 1)
        for targets, message in self.alike:
            size += _TARGET_BYTES * len(targets) + len(_encode(message))
        return size

    def add_alike(self, targets: list[tuple[int, int]], message: Message) -> None:
        """One more message with the same body."""
        self.alike.append((targets, replace(message, body=b"")))


class RemoveRecord(Record, gc=False):
    """Messages leave their queues for good: got, expired or cleared."""

    unit: int
    keys: list[int]


class TakenRecord(Record, gc=False):
    """Units of work have got these messages; each time counts for the backout count."""

    keys: list[int]
    forgiven: list[int] = []
    """Units of work have given these back, and it does not count that they had them. A release that does not know
    the field reads a count that is too high, which loses nothing."""


class CommitRecord(Record, gc=False):
    unit: int


class Branch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A database's part of a global unit of work."""

    resource: str
    """The database's URL, without password."""
    branch_id: str
    """What the database knows it by; empty where it commits in one phase."""
    number: int = 0
    """The database's own number for it, if it has one: it outlives the branch. With one phase: the database's own."""


class PrepareRecord(Record, gc=False):
    """The unit's outcome now depends on its coordinator, who knows it by `transaction_id`."""

    unit: int
    transaction_id: bytes
    branches: list[Branch] = []
    """Of a global unit of our own: who else waits for the outcome."""
    user: str = ""
    """Who may decide it without being an administrator."""
    time: float = 0.0
    """When it was prepared, in seconds since 1970; 0.0: by a release that did not say."""


class ResolveRecord(Record, gc=False):
    """The coordinator has decided; its branches, if the unit was prepared with some, still have to be told."""

    transaction_id: bytes
    committed: bool
    heuristic: bool = False
    """An operator has decided instead."""


class DecisionRecord(Record, gc=False):
    """A global unit of ours is committed: the unit's Commit, and at once what its databases have to be told."""

    unit: int
    transaction_id: bytes
    branches: list[Branch]
    user: str = ""


class ForgetRecord(Record, gc=False):
    """These branches know the decision; with none named, everything about the transaction is forgotten."""

    transaction_id: bytes
    branches: list[str]


class HeuristicRecord(Record, gc=False):
    """Somebody has ended a part on his own account; remembered until an operator forgets it."""

    transaction_id: bytes
    branch_id: str
    """Empty: our own part."""
    resource: str
    outcome: str


class DefineRecord(Record, gc=False):
    """An object as it is from now on."""

    kind: str
    number: int
    attributes: dict[str, Any]


class DeleteRecord(Record, gc=False):
    kind: str
    name: str


class CheckpointRecord(Record, gc=False):
    """Opens a checkpoint.

    Restart replays the log from `start_position`; up to `applied_position`
    the effects of the log are in the checkpoint already, except for messages
    that arrived after `start_position`, which are still read from the log.
    """

    format_version: int
    manager_id: bytes
    start_position: int
    applied_position: int
    incarnation: int
    key_next: int
    run_next: int
    queue_next: int
    time: float


class Run(Record, gc=False):
    """A run that the checkpoint relies on, and which of its entries have left since it was written."""

    number: int
    entries: int
    gone: bytes
    """A bit for each entry."""


class CountsRecord(Record, gc=False):
    """Backout counts of messages in runs, where they have changed since the run was written."""

    counts: dict[int, int]


class EndRecord(Record, gc=False):
    """Closes a checkpoint or a run and tells how many records came before."""

    records: int


class RunHead(Record, gc=False):
    format_version: int
    manager_id: bytes
    number: int


class Entry(Record, gc=False):
    """A message at rest in a run."""

    key: int
    queue: int
    backouts: int
    log_position: int
    """Where in the log it arrived; -1 for a nonpersistent message."""
    message: Message
    """To be written, it may be a `msgspec.Raw` instead: see `QueuedMessage.recorded`."""
    body_file: int = 0
    """Not 0: the body is left out and stands in this file of bodies."""
    body_index: int = 0
    sharers: int = 1
    """How many queues got this body."""

    def refer_to(self, file: int, index: int, sharers: int) -> None:
        self.body_file, self.body_index, self.sharers = file, index, sharers
        self.message = replace(self.message, body=b"")


class BodiesRecord(Record, gc=False):
    """Bodies that entries of several runs refer to."""

    bodies: list[bytes]


class EntriesRecord(Record, gc=False):
    """Neighbours in a run share a frame, because one CRC over many is cheaper."""

    entries: list[Entry]
    copies: list[tuple[int, int, bool]] = []
    """An entry, an earlier one that has its body, and whether that has the rest of its message, too."""


_TYPES: dict[type[Record], RecordType] = {
    PutRecord: RecordType.PUT,
    RemoveRecord: RecordType.REMOVE,
    TakenRecord: RecordType.TAKEN,
    CommitRecord: RecordType.COMMIT,
    PrepareRecord: RecordType.PREPARE,
    ResolveRecord: RecordType.RESOLVE,
    DefineRecord: RecordType.DEFINE,
    DeleteRecord: RecordType.DELETE,
    DecisionRecord: RecordType.DECISION,
    ForgetRecord: RecordType.FORGET,
    HeuristicRecord: RecordType.HEURISTIC,
    CheckpointRecord: RecordType.CHECKPOINT,
    Run: RecordType.RUN,
    CountsRecord: RecordType.COUNTS,
    EndRecord: RecordType.END,
    RunHead: RecordType.RUN_HEAD,
    EntriesRecord: RecordType.ENTRIES,
    BodiesRecord: RecordType.BODIES,
}
_encode = msgspec.msgpack.Encoder().encode
_KINDS = frozenset(map(int, RecordType))
_DECODERS = {int(kind): msgspec.msgpack.Decoder(type_) for type_, kind in _TYPES.items()}


def body_of(message: Message) -> Any:
    """A message's body, by identity and length; of one that is only there as bytes the whole, which no other shares."""
    return message if isinstance(message, msgspec.Raw) else message.body


def frame(record: Record, position: int, seed: int = 0) -> tuple[bytes, bytes]:
    """Head and payload, ready to be written one after the other at `position`."""
    payload = _encode(record)
    return frame_head(_TYPES[type(record)], payload, position, seed), payload


def frame_file(head: RunHead, chunks: Iterable[Record]) -> list[Buffer]:
    """What a file of chunks contains: its head, the chunks, and an end that counts them."""
    buffers: list[Buffer] = []
    position, count = 0, -1
    for record in chain((head,), chunks):
        framed = frame(record, position)
        buffers += framed
        position += len(framed[0]) + len(framed[1])
        count += 1
    buffers += frame(EndRecord(count), position)
    return buffers


def frame_head(kind: int, payload: Buffer, position: int, seed: int = 0) -> bytes:
    head = _HEAD.pack(len(payload), kind, position)
    return head + _CRC.pack(crc32c(payload, crc32c(head, seed)))


class BadFrame(Exception):
    """These bytes are no frame for this position."""


def parse_head(head: Buffer, position: int) -> tuple[int, int, int]:
    """Payload length, type and CRC of the frame at `position`.

    Raises:
        BadFrame: The head cannot be right. The CRC is for `check` to compare.
    """
    if len(head) < FRAME_HEAD_BYTES:
        raise BadFrame("the data ends within a record's head")
    length, kind, stated, crc = _HEAD_AND_CRC.unpack(head)
    if stated != position:
        raise BadFrame("no record begins here" if not any(head) else f"a record for position {stated} stands here")
    if length > PAYLOAD_BYTES_MAX or kind not in _KINDS:
        raise BadFrame("the record's head is damaged")
    return length, kind, crc


def check(head: Buffer, payload: Buffer, crc: int, seed: int = 0) -> None:
    """Raise BadFrame unless the CRC agrees with head and payload."""
    if crc32c(payload, crc32c(head[:_HEAD_BYTES], seed)) != crc:
        raise BadFrame("the record's CRC does not match")


def decode(kind: int, payload: Buffer) -> Record:
    """The record in a payload whose CRC was checked; groups have `recovery_log.group`.

    Raises:
        msgspec.MsgspecError: It is none of this kind.
    """
    try:
        record: Record = _DECODERS[kind].decode(payload)
        return record
    except (ValueError, RecursionError, OverflowError) as error:
        # Text that is no UTF-8, nesting without end: msgspec has errors of its own only.
        raise msgspec.DecodeError(str(error)) from error


def plain_records(data: memoryview, base: int, position: int, end: int, seed: int) -> Iterator[tuple[Record, int]]:
    """The records of the log between two positions, in data that begins at `base`, each with the position behind it.

    At the first doubt it ends: `parse_head`, `check` and `decode` say what is wrong there.
    """
    unpack, decoder_of = _HEAD_AND_CRC.unpack_from, _DECODERS.get
    offset, end = position - base, min(end - base, len(data))
    begin = offset + FRAME_HEAD_BYTES
    while begin <= end:
        length, kind, stated, crc = unpack(data, offset)
        behind = begin + length
        decoder = decoder_of(kind)
        if stated != base + offset or behind > end or decoder is None:
            return
        payload = data[begin:behind]
        if crc32c(payload, crc32c(data[offset : offset + _HEAD_BYTES], seed)) != crc:
            return
        try:
            record = decoder.decode(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
            return
        yield record, base + behind
        offset = behind
        begin = behind + FRAME_HEAD_BYTES


def parse(content: memoryview, position: int) -> tuple[Record, int]:
    """The record at a position of a file that was read whole, and where the next one begins.

    Raises:
        BadFrame: There is none, or it is damaged.
    """
    begin = position + FRAME_HEAD_BYTES
    head = content[position:begin]
    length, kind, crc = parse_head(head, position)
    payload = content[begin : begin + length]
    if len(payload) < length:
        raise BadFrame("the file ends within a record")
    check(head, payload, crc)
    if kind not in _DECODERS:
        raise BadFrame(f"a {type_name(kind)} record stands only in a log")
    try:
        return decode(kind, payload), begin + length
    except msgspec.MsgspecError as error:
        raise BadFrame(f"a whole {type_name(kind)} record cannot be understood: {error}") from error


def type_name(kind: int) -> str:
    return RecordType(kind).name
