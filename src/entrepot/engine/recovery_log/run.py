# SPDX-License-Identifier: Apache-2.0
"""Runs: files of messages that have left memory or the log, written once and read back in large pieces.

    runs/00000012.run = head, chunks of entries, end; framed like the log

A run is never changed. Entries that leave it are remembered by whoever
owns the run; when all have left, the file is removed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from typing import NamedTuple

from msgspec.structs import replace

from entrepot.disk import Buffer, Disk
from entrepot.engine.recovery_log.bodies import (
    BodyFile,
    BodyReferences,
    BodyStore,
    SharedBody,
    decode_bodies,
    encode_bodies,
)
from entrepot.engine.recovery_log.record import (
    FORMAT_VERSION,
    BadFrame,
    EndRecord,
    EntriesRecord,
    Entry,
    Record,
    RunHead,
    body_of,
    frame_file,
    parse,
    require_format,
)
from entrepot.engine.recovery_log.reserve import Reserve
from entrepot.errors import RunDamaged
from entrepot.message import Message

FOLDER = "runs"
CHUNK_BYTES = 64 * 1024
# Runs that wait for the background thread; then the caller waits too, so that memory stays bounded.
UNWRITTEN_MAX = 3
_NO_MESSAGE = Message(b"")


def run_path(number: int) -> str:
    return f"{FOLDER}/{number:08d}.run"


def bodies_path(number: int) -> str:
    return f"{FOLDER}/{number:08d}.bodies"


class StoredRun(NamedTuple):
    """A run by its number, and how many entries it has."""

    number: int
    entries: int


class RunStore:
    """Writes, reads and removes runs.

    With `background`, runs that need not be forced are written on its thread
    while the caller goes on; until then they are read from memory. A run whose
    write failed stays there, and the next write answers for it.
    """

    def __init__(
        self,
        disk: Disk,
        manager_id: bytes,
        *,
        number_next: int = 1,
        background: Executor | None = None,
        reserve_bytes: int = 0,
    ) -> None:
        self._disk = disk
        self._manager_id = manager_id
        self._background = background
        self.reserve = Reserve(disk, FOLDER, reserve_bytes)
        self._unwritten: dict[int, tuple[list[Buffer], Future[None]]] = {}
        # A checkpoint writes and forces runs while the engine's thread writes others.
        self._lock = threading.Lock()
        self._in_doubt: set[str] = set()
        """Files whose last force did not succeed."""
        self.number_next = number_next
        self.bodies = BodyStore()

    def _next_number(self) -> int:
        with self._lock:
            number, self.number_next = self.number_next, self.number_next + 1
        return number

    def lend(self, entries: list[Entry], shares: list[SharedBody | None]) -> BodyReferences:
        """Let entries that are about to be written refer to the bodies they share, and store those that are new.

        Raises:
            OSError: The disk refused; the entries must not be written.
        """
        loan = self.bodies.lend(entries, shares, self._next_number())
        if loan.new:
            number = loan.own.number
            try:
                self._write_file(bodies_path(number), encode_bodies(self._manager_id, number, loan.new), force=False)
            except OSError:
                self.bodies.take_back(loan)
                raise
        return loan

    def take_back(self, loan: BodyReferences) -> None:
        """The entries were not written after all; the next restart removes the file if the disk does not now."""
        self.bodies.take_back(loan)
        if loan.new:
            with contextlib.suppress(OSError):
                self._disk.remove(bodies_path(loan.own.number))

    def write(
        self, entries: list[Entry], *, body_bytes: int, force: bool, shared: bool = False, at_once: bool = False
    ) -> StoredRun:
        """Store entries, with so many bytes in their bodies, in a new run; durably with `force`.

        `shared`: neighbours may have the same body, which counts and is stored once.
        `at_once`: it is written when this returns, though not forced.

        Raises:
            OSError: The disk refused this run, or an earlier one; nothing of this one remains.
        """
        with self._lock:
            self._reap()
        number = self._next_number()
        run, buffers = self._encode(number, entries, body_bytes, shared=shared)
        if force or at_once or self._background is None:
            self._write_file(run_path(run.number), buffers, force=force)
        else:
            self._allocate(run_path(run.number), sum(map(len, buffers)))
            future = self._background.submit(self._write_file, run_path(run.number), buffers, force=False)
            self._unwritten[run.number] = (buffers, future)
        return run

    def _allocate(self, path: str, size: int) -> None:
        """A run that waits for its thread is promised already, so the disk must not refuse it then."""
        try:
            file = self._disk.open(path, create=True)
            try:
                file.allocate(size)
            finally:
                file.close()
        except OSError:
            if self._disk.exists(path):
                self._disk.remove(path)
            raise

    def _write_file(self, path: str, buffers: list[Buffer], *, force: bool) -> None:
        try:
            file = self._disk.open(path, create=True)
            try:
                file.write(0, buffers)
                if force:
                    file.force()
            finally:
                file.close()
            if force:
                self._disk.force_folder(FOLDER)
        except OSError:
            if self._disk.exists(path):
                self._disk.remove(path)
            raise

    def _reap(self) -> None:
        """Let go of what has been written; wait when too much has not, and try again what failed."""
        for number, (buffers, future) in list(self._unwritten.items()):
            if not future.done() and len(self._unwritten) < UNWRITTEN_MAX:
                continue
            if future.exception() is not None:
                self._write_file(run_path(number), buffers, force=False)
            self._unwritten.pop(number, None)  # a checkpoint may have waited for it as well

    def _finish(self, number: int) -> None:
        """Return when a run is on disk."""
        with self._lock:
            unwritten = self._unwritten.get(number)
            if unwritten is not None:
                buffers, future = unwritten
                if future.exception() is not None:
                    self._write_file(run_path(number), buffers, force=False)
                self._unwritten.pop(number, None)

    def _encode(
        self, number: int, entries: list[Entry], body_bytes: int, *, shared: bool
    ) -> tuple[StoredRun, list[Buffer]]:
        head = RunHead(FORMAT_VERSION, self._manager_id, number)
        return StoredRun(number, len(entries)), frame_file(head, _chunks(entries, body_bytes, shared=shared))

    def force(self, number: int) -> None:
        """Make a run that was written without force durable.

        Raises:
            OSError: The disk refused; it may be tried again.
        """
        self._finish(number)
        self._force_file(run_path(number))

    def force_bodies(self) -> None:
        """Make the bodies durable that persistent messages refer to."""
        for file in list(self.bodies.files.values()):
            if file.persistent and not file.durable:
                self._force_file(bodies_path(file.number))
                file.durable = True

    def _force_file(self, path: str) -> None:
        file = self._disk.open(path)
        try:
            if path in self._in_doubt:
                # The kernel may hold what it could not write as if it had, so another force would do nothing.
                file.write(0, [_require_whole(path, file.read(0, file.size()))])
            self._in_doubt.add(path)
            file.force()
            self._in_doubt.remove(path)
        finally:
            file.close()
        self._disk.force_folder(FOLDER)

    def read(
        self, number: int, gone: bytes | bytearray = b"", *, persistent_only: bool = False
    ) -> tuple[StoredRun, list[Entry]]:
        """A whole run, every record checked; entries that have `gone` need not have their bodies any more.

        After a crash only persistent messages have theirs for certain.

        Raises:
            RunDamaged: File and offset are named.
        """
        path = self._disk.describe(run_path(number))
        content = memoryview(self._content(number))
        head, position = _record(path, content, 0)
        if not isinstance(head, RunHead) or head.number != number or head.manager_id != self._manager_id:
            raise RunDamaged(path, 0, "this is not the run that its name says")
        require_format(path, head.format_version)
        entries: list[Entry] = []
        chunks = 0
        while True:
            record, next_position = _record(path, content, position)
            if isinstance(record, EndRecord) and record.records == chunks:
                self._complete(entries, gone, persistent_only=persistent_only)
                return StoredRun(number, len(entries)), entries
            if not isinstance(record, EntriesRecord):
                raise RunDamaged(path, position, "this record does not belong into a run")
            _unfold(record)
            entries += record.entries
            chunks += 1
            position = next_position

    def _complete(self, entries: list[Entry], gone: bytes | bytearray, *, persistent_only: bool) -> None:
        """Give entries the bodies that they refer to; those that another queue has in memory are not read again."""
        files: dict[int, list[bytes]] = {}
        for index, entry in enumerate(entries):
            if not entry.body_file or (gone and gone[index >> 3] & (1 << (index & 7))):
                continue
            if persistent_only and not entry.message.persistent:
                continue
            shared = self.bodies.in_memory(entry)
            body = self._body(entry, files) if shared is None else shared.body
            entry.message = replace(entry.message, body=body)

    def _body(self, entry: Entry, files: dict[int, list[bytes]]) -> bytes:
        number = entry.body_file
        path = bodies_path(number)
        if number not in files:
            content = memoryview(self._read_file(path))
            files[number] = decode_bodies(self._disk.describe(path), content, self._manager_id, number)
        if entry.body_index >= len(files[number]):
            raise RunDamaged(self._disk.describe(path), 0, f"it has no body {entry.body_index}, which a run refers to")
        return files[number][entry.body_index]

    def _content(self, number: int) -> bytes:
        # In one piece: a run has a few megabytes, and all of it is wanted.
        unwritten = self._unwritten.get(number)
        if unwritten is not None:
            return b"".join(unwritten[0])
        return self._read_file(run_path(number))

    def _read_file(self, path: str) -> bytes:
        try:
            file = self._disk.open(path)
            try:
                return file.read(0, file.size())
            finally:
                file.close()
        except OSError as error:
            raise RunDamaged(self._disk.describe(path), 0, f"it cannot be read: {error}") from error

    def remove(self, number: int) -> None:
        unwritten = self._unwritten.pop(number, None)
        if unwritten is not None and unwritten[1].exception() is not None:
            return  # it never came to be
        if not self.reserve.keep(run_path(number)):
            self._disk.remove(run_path(number))

    def write_into_reserve(self, entries: list[Entry]) -> StoredRun | None:
        """Store as many of the entries as a file of the reserve has space for, durably; None when none does."""
        for path, room in self.reserve.sizes().items():
            number = self._next_number()
            count = len(entries)
            while count:
                body_bytes = sum(len(body_of(entry.message)) for entry in entries[:count])
                # Encoding is what costs memory: most of the time the bodies alone are too many.
                if body_bytes <= room:
                    run, buffers = self._encode(number, entries[:count], body_bytes, shared=True)
                    if (size := sum(map(len, buffers))) <= room:
                        break
                count = count * 7 // 8
            else:
                continue
            self.reserve.use(path, run_path(number))
            file = self._disk.open(run_path(number))
            try:
                file.write(0, [*buffers, bytes(room - size)])
                file.force()
            finally:
                file.close()
            self._disk.force_folder(FOLDER)
            return run
        return None

    def drop_bodies(self, file: BodyFile) -> None:
        """Remove a file of bodies if nobody refers to it any more and restart would not need it, either."""
        if file.references <= 0 and not file.persistent and self.bodies.files.pop(file.number, None) is not None:
            file.removed = True
            self.remove_bodies(file)

    def remove_bodies(self, file: BodyFile) -> None:
        self._disk.remove(bodies_path(file.number))

    def numbers(self) -> list[int]:
        """The runs on disk."""
        return [int(name.removesuffix(".run")) for name in self._disk.names(FOLDER) if name.endswith(".run")]

    def body_numbers(self) -> list[int]:
        """The files of bodies on disk."""
        return [int(name.removesuffix(".bodies")) for name in self._disk.names(FOLDER) if name.endswith(".bodies")]


def _chunks(entries: list[Entry], body_bytes: int, *, shared: bool) -> Iterator[EntriesRecord]:
    at_once = max(len(entries) * CHUNK_BYTES // (body_bytes + 1), 1)
    first = 0
    while first < len(entries):
        end = min(first + at_once, len(entries))
        while shared and end < len(entries) and body_of(entries[end].message) is body_of(entries[end - 1].message):
            end += 1  # a chunk that ended here would store the body once more
        chunk = entries[first:end]
        yield _fold(chunk) if shared else EntriesRecord(chunk)
        first = end


def _fold(entries: list[Entry]) -> EntriesRecord:
    """Leave out the bodies that an earlier entry has."""
    stored: list[Entry] = []
    copies: list[tuple[int, int, bool]] = []
    first: dict[int, int] = {}
    for index, entry in enumerate(entries):
        message = entry.message
        twin = first.setdefault(id(message), index)
        home = twin if twin != index else first.setdefault(id(body_of(message)), index)
        if home == index:
            stored.append(entry)
            continue
        same = twin != index
        copies.append((index, home, same))
        stored.append(replace(entry, message=_NO_MESSAGE if same else replace(message, body=b"")))
    return EntriesRecord(stored, copies)


def _unfold(record: EntriesRecord) -> None:
    entries = record.entries
    for index, home, same in record.copies:
        original = entries[home].message
        entries[index].message = original if same else replace(entries[index].message, body=original.body)


def _record(path: str, content: memoryview, position: int) -> tuple[Record, int]:
    try:
        return parse(content, position)
    except BadFrame as bad:
        raise RunDamaged(path, position, str(bad)) from bad


def _require_whole(path: str, content: bytes) -> bytes:
    """The content of a run or of a file of bodies, every record checked.

    Raises:
        OSError: The disk has lost some of it.
    """
    record, position = None, 0
    try:
        while not isinstance(record, EndRecord):
            record, position = parse(memoryview(content), position)
    except BadFrame as bad:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path) from bad
    return content
