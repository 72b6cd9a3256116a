# SPDX-License-Identifier: Apache-2.0
"""Runs: files of messages that have left memory or the log, written once and read back in large pieces.

    runs/00000012.run = head, chunks of entries, end; framed like the log

A run is never changed. Entries that leave it are remembered by whoever
owns the run; when all have left, the file is removed.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import msgspec

from entrepot.disk import Buffer, Disk, File
from entrepot.errors import FormatUnsupported, RunDamaged
from entrepot.recovery_log.record import (
    FORMAT_VERSION,
    FRAME_HEAD_BYTES,
    BadFrame,
    End,
    Entries,
    Entry,
    Record,
    RunHead,
    check,
    decode,
    frame,
    parse_head,
)

FOLDER = "runs"
CHUNK_BYTES = 64 * 1024


def run_path(number: int) -> str:
    return f"{FOLDER}/{number:08d}.run"


class StoredRun(NamedTuple):
    """Where the entries of a run are: chunk i begins at `offsets[i]` with entry `firsts[i]`."""

    number: int
    entries: int
    offsets: list[int]
    firsts: list[int]


class RunStore:
    """Writes, reads and removes runs."""

    def __init__(self, disk: Disk, manager_id: bytes, *, number_next: int = 1) -> None:
        self._disk = disk
        self._manager_id = manager_id
        self.number_next = number_next

    def write(self, entries: list[Entry], *, body_bytes: int, force: bool) -> StoredRun:
        """Store entries, with so many bytes in their bodies, in a new run; durably with `force`.

        Raises:
            OSError: The disk refused; nothing of the run remains.
        """
        run, buffers = self._encode(self.number_next, entries, body_bytes)
        self.number_next += 1
        path = run_path(run.number)
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
        return run

    def _encode(self, number: int, entries: list[Entry], body_bytes: int) -> tuple[StoredRun, list[Buffer]]:
        offsets: list[int] = []
        firsts: list[int] = []
        buffers: list[Buffer] = []
        position = 0

        def add(record: Record) -> None:
            nonlocal position
            head, payload = frame(record, position)
            buffers.extend((head, payload))
            position += len(head) + len(payload)

        add(RunHead(FORMAT_VERSION, self._manager_id, number))
        at_once = max(len(entries) * CHUNK_BYTES // (body_bytes + 1), 1)
        for first in range(0, len(entries), at_once):
            offsets.append(position)
            firsts.append(first)
            add(Entries(entries[first : first + at_once]))
        add(End(len(offsets)))
        return StoredRun(number, len(entries), offsets, firsts), buffers

    def force(self, number: int) -> None:
        """Make a run that was written without force durable."""
        file = self._disk.open(run_path(number))
        try:
            file.force()
        finally:
            file.close()
        self._disk.force_folder(FOLDER)

    def read(self, number: int) -> tuple[StoredRun, list[Entry]]:
        """A whole run, every record checked."""
        path = run_path(number)
        offsets: list[int] = []
        firsts: list[int] = []
        entries: list[Entry] = []
        with _Opened(self._disk, path) as opened:
            # In one piece: a run has a few megabytes, and all of it is wanted.
            file = _InMemory(opened.read(0, opened.size()))
            head, position = self._record(path, file, 0)
            if not isinstance(head, RunHead) or head.number != number or head.manager_id != self._manager_id:
                raise RunDamaged(self._disk.describe(path), 0, "this is not the run that its name says")
            if head.format_version != FORMAT_VERSION:
                raise FormatUnsupported(self._disk.describe(path), head.format_version, FORMAT_VERSION)
            while True:
                record, next_position = self._record(path, file, position)
                if isinstance(record, End) and record.records == len(offsets):
                    return StoredRun(number, len(entries), offsets, firsts), entries
                if not isinstance(record, Entries):
                    raise RunDamaged(self._disk.describe(path), position, "this record does not belong into a run")
                offsets.append(position)
                firsts.append(len(entries))
                entries += record.entries
                position = next_position

    def read_entry(self, run: StoredRun, index: int) -> Entry:
        """One entry of a run."""
        path = run_path(run.number)
        chunk = bisect_right(run.firsts, index) - 1
        with _Opened(self._disk, path) as file:
            record, _ = self._record(path, file, run.offsets[chunk])
        if not isinstance(record, Entries):
            raise RunDamaged(self._disk.describe(path), run.offsets[chunk], "this record does not belong here")
        return record.entries[index - run.firsts[chunk]]

    def _record(self, path: str, file: File | _InMemory, position: int) -> tuple[Record, int]:
        try:
            head = file.read(position, FRAME_HEAD_BYTES)
            length, kind, crc = parse_head(head, position)
            payload = file.read(position + FRAME_HEAD_BYTES, length)
            if len(payload) < length:
                raise BadFrame("the file ends within a record")
            check(head, payload, crc)
            return decode(kind, payload), position + FRAME_HEAD_BYTES + length
        except (BadFrame, msgspec.MsgspecError) as bad:
            raise RunDamaged(self._disk.describe(path), position, str(bad)) from bad
        except OSError as error:
            raise RunDamaged(self._disk.describe(path), position, f"it cannot be read: {error}") from error

    def remove(self, number: int) -> None:
        self._disk.remove(run_path(number))

    def numbers(self) -> list[int]:
        """The runs on disk."""
        return [int(name.removesuffix(".run")) for name in self._disk.names(FOLDER)]


class _InMemory:
    """What was read of a file, to be read from."""

    def __init__(self, content: bytes) -> None:
        self._content = memoryview(content)

    def read(self, offset: int, size: int) -> memoryview:
        return self._content[offset : offset + size]


class _Opened:
    """A file that closes itself."""

    def __init__(self, disk: Disk, path: str) -> None:
        try:
            self._file = disk.open(path)
        except OSError as error:
            raise RunDamaged(disk.describe(path), 0, f"it cannot be opened: {error}") from error

    def __enter__(self) -> File:
        return self._file

    def __exit__(self, *_: object) -> None:
        self._file.close()
