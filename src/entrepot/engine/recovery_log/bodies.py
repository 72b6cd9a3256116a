# SPDX-License-Identifier: Apache-2.0
"""Bodies that several queues share, stored once when those queues outgrow their memory.

    runs/00000012.bodies = head, chunks of bodies, end; framed like the log

Each queue writes a run of its own, in its own order; a body that others have
too stands in a file of bodies, and the runs refer to it. Such a file is never
changed. It goes when no entry of any run refers to it any more; restart counts
that anew, from the runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import NamedTuple

from entrepot.disk import Buffer
from entrepot.engine.recovery_log.record import (
    FORMAT_VERSION,
    BadFrame,
    BodiesRecord,
    EndRecord,
    Entry,
    Record,
    RunHead,
    frame_file,
    parse,
    require_format,
)
from entrepot.errors import RunDamaged

SHARED_BYTES_MIN = 256
"""A shorter body costs less than the reference to it saves."""
CHUNK_BYTES = 64 * 1024


class BodyFile:
    """A file of bodies, and how many entries of runs refer to it."""

    __slots__ = ("durable", "number", "persistent", "references", "removed")

    def __init__(self, number: int, *, durable: bool) -> None:
        self.number = number
        self.references = 0
        self.persistent = durable
        """Whether a persistent message refers to it, so that restart needs it."""
        self.durable = durable
        self.removed = False


class SharedBody:
    """A body that several queues have in memory or on disk."""

    __slots__ = ("__weakref__", "body", "count", "file", "index")

    def __init__(self, body: bytes, count: int, file: BodyFile | None = None, index: int = 0) -> None:
        self.body = body
        self.count = count
        """How many queues got it."""
        self.file = file
        """Where it is on disk, once a queue has had to store it."""
        self.index = index


class BodyReferences(NamedTuple):
    """Which files entries refer to, and what has to be stored before they are."""

    own: BodyFile
    """For the bodies that no file has yet."""
    new: list[bytes]
    files: dict[int, BodyFile]
    """By the place of the entry."""


class BodyStore:
    """The bodies of one queue manager that are shared on disk; `RunStore` does the writing and reading."""

    def __init__(self) -> None:
        self.files: dict[int, BodyFile] = {}
        self._shared: weakref.WeakValueDictionary[tuple[int, int], SharedBody] = weakref.WeakValueDictionary()
        """Those of them that are in memory."""

    def file(self, number: int) -> BodyFile:
        """A file that a run of an earlier start refers to."""
        if number not in self.files:
            self.files[number] = BodyFile(number, durable=True)
        return self.files[number]

    def lend(self, entries: list[Entry], shares: list[SharedBody | None], number: int) -> BodyReferences:
        """Let entries that are to be stored refer to shared bodies; what no file has yet is to be stored as `number`.

        Undo it with `take_back`.
        """
        loan = BodyReferences(BodyFile(number, durable=False), [], {})
        for place, (entry, shared) in enumerate(zip(entries, shares, strict=True)):
            if shared is None or len(entry.message.body) < SHARED_BYTES_MIN:
                continue
            if shared.file is None or shared.file.removed:
                shared.file, shared.index = loan.own, len(loan.new)
                loan.new.append(shared.body)
                self._shared[(number, shared.index)] = shared
            file = shared.file
            file.references += 1
            file.persistent = file.persistent or entry.message.persistent
            loan.files[place] = file
            entry.refer_to(file.number, shared.index, shared.count)
        if loan.new:
            self.files[number] = loan.own
        return loan

    def take_back(self, loan: BodyReferences) -> None:
        """The entries were not stored after all."""
        for file in loan.files.values():
            file.references -= 1
        loan.own.removed = True
        self.files.pop(loan.own.number, None)

    def in_memory(self, entry: Entry) -> SharedBody | None:
        """The body that an entry refers to, if a queue has it in memory."""
        return self._shared.get((entry.body_file, entry.body_index))

    def share_of(self, entry: Entry) -> SharedBody:
        """A body that has been read for an entry, shared with whoever reads it next."""
        key = (entry.body_file, entry.body_index)
        shared = self._shared.get(key)
        if shared is None:
            shared = SharedBody(entry.message.body, entry.sharers, self.file(entry.body_file), entry.body_index)
            self._shared[key] = shared
        return shared

    def unwanted(self) -> list[BodyFile]:
        """Files that no run refers to any more; they are no longer on the shelf."""
        found = [file for file in self.files.values() if file.references <= 0]
        for file in found:
            file.removed = True
            del self.files[file.number]
        return found


def encode_bodies(manager_id: bytes, number: int, bodies: list[bytes]) -> list[Buffer]:
    """What a file of bodies contains."""
    return frame_file(RunHead(FORMAT_VERSION, manager_id, number), _chunks(bodies))


def _chunks(bodies: list[bytes]) -> Iterator[BodiesRecord]:
    chunk: list[bytes] = []
    size = 0
    for body in bodies:
        chunk.append(body)
        size += len(body)
        if size >= CHUNK_BYTES:
            yield BodiesRecord(chunk)
            chunk, size = [], 0
    if chunk:
        yield BodiesRecord(chunk)


def decode_bodies(path: str, content: memoryview, manager_id: bytes, number: int) -> list[bytes]:
    """The bodies of a file, every record checked.

    Raises:
        RunDamaged: File and offset are named.
    """

    def record(position: int) -> tuple[Record, int]:
        try:
            return parse(content, position)
        except BadFrame as bad:
            raise RunDamaged(path, position, str(bad)) from bad

    head, position = record(0)
    if not isinstance(head, RunHead) or head.number != number or head.manager_id != manager_id:
        raise RunDamaged(path, 0, "this is not the file that its name says")
    require_format(path, head.format_version)
    bodies: list[bytes] = []
    chunks = 0
    while True:
        found, next_position = record(position)
        if isinstance(found, EndRecord) and found.records == chunks:
            return bodies
        if not isinstance(found, BodiesRecord):
            raise RunDamaged(path, position, "this record does not belong into a file of bodies")
        bodies += found.bodies
        chunks += 1
        position = next_position
