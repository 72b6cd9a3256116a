# SPDX-License-Identifier: Apache-2.0
"""What a flow writes to files, so that a file has it when the unit of work is committed, and only then.

Before the commit the bytes go to a file of their own, forced to disk, and the
unit of work carries a note of what is to happen with it. After the commit it
is put in its place. After a crash in between, the instance that finds the file later
asks for the note: with one it is put in its place, without one it goes.

    mqsitransit/.17f3…-9a1b…-c0ff….spool            written, not in its place yet
    mqsitransit/.17f3…-9a1b…-c0ff….spool.at.4711.   is being appended at that offset
    mqsitransit/orders.csv                          records that are collected until the file is finished

Renaming a file to its place happens or does not. An append can be done by
halves; but its name tells where it began, so that it can be done again with
the same result. The lock on the file that is appended to lets one at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from entrepot.flows.file_source import ARCHIVE, locked, move_aside, timestamp

TRANSIT = "mqsitransit"
FAILURE = "mqsifailure"
RESERVED = frozenset({TRANSIT, FAILURE, ARCHIVE, "mqsitransitin", "mqsibackout", "mqsireplace"})
_SPOOL = ".spool"
_AT = ".at."
_PIECE_BYTES = 1024 * 1024

Existing = Literal["replace", "append", "archive", "fail"]


class Task(msgspec.Struct, frozen=True):
    """What is to happen with a spool."""

    target: str
    """Below the node's folder."""
    existing: Existing = "replace"
    """What with a file that is there already."""
    collects: bool = False
    """It is one record of a file that is not finished."""
    finishes: bool = False
    """It is no record: the file that was collected is whole."""
    between: str = ""
    """What comes before it unless it is the first, in hexadecimal."""


class Spool:
    """Bytes on disk that are not in their place yet; locked while their writer lives."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.file = file

    @property
    def has_begun(self) -> bool:
        """It is being put in its place, so it was committed."""
        return _AT in self.path.name

    @property
    def key(self) -> bytes:
        """By which the note about it is found."""
        return hashlib.sha256(self.path.name.partition(_AT)[0].encode()).digest()[:24]

    def close(self) -> None:
        self.file.close()


class Spools:
    """The spools of one folder."""

    def __init__(self, folder: Path, *, forces: bool = True) -> None:
        self._folder = folder
        self._transit = folder / TRANSIT
        self._forces = forces

    def write(self, task: Task, body: bytes) -> Spool:
        """Put bytes on disk, beside their place.

        Raises:
            OSError: Nothing was written.
        """
        if not self._folder.is_dir():
            raise FileNotFoundError(2, "there is no such folder", str(self._folder))
        self._transit.mkdir(exist_ok=True)
        path = self._transit / _new_name(task)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        spool = Spool(path, os.fdopen(descriptor, "r+b"))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            spool.file.write(body)
            spool.file.flush()
            self._force(descriptor)
            self._force_folder(self._transit)
        except BaseException:
            spool.close()
            path.unlink(missing_ok=True)
            raise
        return spool

    def left_behind(self) -> Iterator[Spool]:
        """Spools of dead processes, oldest first, locked for us."""
        try:
            names = sorted(name for name in os.listdir(self._transit) if name.startswith(".") and _SPOOL in name)
        except FileNotFoundError:
            return
        for name in names:
            path = self._transit / name
            file = locked(path)
            if file is not None:
                yield Spool(path, file)

    def place(self, spool: Spool, task: Task, *, is_late: bool = False) -> None:
        """Let happen what is to happen; after a crash, again. One that is late does not replace what is newer.

        Raises:
            OSError: The spool is where it was.
        """
        target = self._folder / task.target
        if task.finishes:
            self._finish(target, task)
            spool.path.unlink(missing_ok=True)
        elif task.collects:
            collected = target.parent / TRANSIT / target.name
            collected.parent.mkdir(exist_ok=True)
            self._append(spool.path, collected, task)
        elif task.existing == "append":
            self._append(spool.path, target, task)
        elif is_late and task.existing != "fail" and self._is_newer(target, spool):
            if task.existing == "archive":
                move_aside(spool.path, target.parent / ARCHIVE, f"{timestamp()}_{target.name}")
            spool.path.unlink(missing_ok=True)
        else:
            self._put(spool.path, target, task.existing)
        spool.close()

    def _is_newer(self, target: Path, spool: Spool) -> bool:
        try:
            return target.stat(follow_symlinks=False).st_mtime_ns > os.fstat(spool.file.fileno()).st_mtime_ns
        except FileNotFoundError:
            return False

    # --- whole files --------------------------------------------------------------------------

    def _put(self, source: Path, target: Path, existing: Existing) -> None:
        if existing == "fail":
            try:
                os.link(source, target)
            except FileExistsError:
                if not target.samefile(source):
                    # It was not at hand when the message came; its content is kept for people to decide.
                    move_aside(source, self._folder / FAILURE, target.name)
                    return
            source.unlink()
        else:
            if existing == "archive" and target.exists():
                move_aside(target, target.parent / ARCHIVE, f"{timestamp()}_{target.name}")
            source.replace(target)
        self._force_folder(target.parent)

    def _finish(self, target: Path, task: Task) -> None:
        collected = target.parent / TRANSIT / target.name
        with self._alone_with(collected, create=False) as descriptor:
            if descriptor is None:
                return  # there were no records, or it was done before a crash
            self._complete(descriptor, task)
            if task.existing != "append":
                self._put(collected, target, task.existing)
                return
            own = Task(task.target, "append")
            with self._alone_with(target) as other:
                assert other is not None
                self._complete(other, own)
                begun = self._transit / f"{_new_name(own)}{_AT}{os.fstat(other).st_size}."
                collected.rename(begun)
                self._force_folder(self._transit)
                self._copy(begun, other)

    # --- appending ----------------------------------------------------------------------------

    def _append(self, source: Path, target: Path, task: Task) -> None:
        with self._alone_with(target) as descriptor:
            assert descriptor is not None
            self._complete(descriptor, task)
            if not source.exists():
                return  # it was one of those that had begun
            size = os.fstat(descriptor).st_size
            begun = source.with_name(f"{source.name}{_AT}{size}.{task.between if size else ''}")
            source.rename(begun)
            self._force_folder(source.parent)
            self._copy(begun, descriptor)

    def _complete(self, descriptor: int, task: Task) -> None:
        """Do again what a crash has cut short; no other process can do so, since the file is locked for us."""
        marked = f"-{_mark(task)}{_SPOOL}{_AT}"
        for name in sorted(os.listdir(self._transit)):
            if marked in name:
                self._copy(self._transit / name, descriptor)

    def _copy(self, begun: Path, descriptor: int) -> None:
        """Append what has begun, at the offset that its name says, whatever is there."""
        offset_text, _, between = begun.name.partition(_AT)[2].partition(".")
        offset = int(offset_text)
        os.ftruncate(descriptor, offset)
        offset += _write_at(descriptor, bytes.fromhex(between), offset)
        with begun.open("rb") as source:
            while piece := source.read(_PIECE_BYTES):
                offset += _write_at(descriptor, piece, offset)
        self._force(descriptor)
        begun.unlink()

    @contextlib.contextmanager
    def _alone_with(self, path: Path, *, create: bool = True) -> Iterator[int | None]:
        """A file, locked, and still the one of that name; None when there is none."""
        descriptor = self._opened_alone(path, create)
        try:
            yield descriptor
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _opened_alone(self, path: Path, create: bool) -> int | None:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        while True:
            try:
                descriptor = os.open(path, flags, 0o666)
            except FileNotFoundError:
                if create:
                    raise
                return None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False)):
                    return descriptor
            except FileNotFoundError:
                pass  # it was finished while we waited
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    # --- disk ---------------------------------------------------------------------------------

    def _force(self, descriptor: int) -> None:
        if self._forces:
            os.fsync(descriptor)

    def _force_folder(self, folder: Path) -> None:
        if self._forces:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _new_name(task: Task) -> str:
    """By age, and for no other spool."""
    return f".{time.time_ns():016x}-{os.urandom(4).hex()}-{_mark(task)}{_SPOOL}"


def _write_at(descriptor: int, data: bytes, offset: int) -> int:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
    return len(data)


def _mark(task: Task) -> str:
    """Which file a spool is for, in its name."""
    place = f"{TRANSIT}/{task.target}" if task.collects or task.finishes else task.target
    return hashlib.sha256(place.encode()).hexdigest()[:16]
