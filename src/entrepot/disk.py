# SPDX-License-Identifier: Apache-2.0
"""The disk, as a part of the I/O seam: everything the queue manager stores passes here.

The verbs are as few and as plain as the guarantees we need from a file
system: positioned writes, force, rename and remove, and forcing a folder
so that a new name survives a power cut. `entrepot.testing` has a disk that
forgets what was not forced, and one that fails where a test wants it to.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

Buffer = bytes | bytearray | memoryview

# Linux takes at most 1,024 buffers in one gathered write.
BUFFERS_PER_WRITE_MAX = 1024

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers after which the disk is sound but full."""


class File(Protocol):
    """An open file."""

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one after the other from `offset`; durable only after `force`."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer at the end of the file."""

    def force(self) -> None:
        """Return when everything written to this file would survive a power cut."""

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class Disk(Protocol):
    """Files and folders below one root."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted."""

    def exists(self, path: str) -> bool: ...

    def make_folder(self, path: str) -> None: ...

    def force_folder(self, path: str) -> None:
        """Return when names created, renamed or removed in the folder would survive a power cut."""

    def describe(self, path: str) -> str:
        """The path as a person would find it."""


class SystemFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        written = self.write_some(offset, buffers[:BUFFERS_PER_WRITE_MAX])
        if written == sum(map(len, buffers)):
            return
        # A write may be short, for instance when a signal arrives: go on behind what it did.
        pending = [memoryview(buffer) for buffer in buffers]
        while True:
            offset += written
            done = 0
            while done < len(pending) and written >= len(pending[done]):
                written -= len(pending[done])
                done += 1
            pending = pending[done:]
            if not pending:
                return
            pending[0] = pending[0][written:]
            written = self.write_some(offset, pending[:BUFFERS_PER_WRITE_MAX])

    def write_some(self, offset: int, buffers: Sequence[Buffer]) -> int:
        """One system call; how many bytes it wrote."""
        return os.pwritev(self._descriptor, buffers, offset)

    def read(self, offset: int, size: int) -> bytes:
        parts = []
        while size > 0:
            part = os.pread(self._descriptor, size, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def force(self) -> None:
        os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


class SystemDisk:
    """A folder of the operating system's file system."""

    def __init__(self, root: Path | str) -> None:
        self._root = Path(root)

    def open(self, path: str, *, create: bool = False) -> File:
        # A symbolic link could lead our writes out of the folder that only its owner can read.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
        return self.file(os.open(self._root / path, flags, 0o600))

    def file(self, descriptor: int) -> SystemFile:
        """The file object for a descriptor; a failing disk returns its own kind."""
        return SystemFile(descriptor)

    def rename(self, source: str, target: str) -> None:
        os.rename(self._root / source, self._root / target)

    def remove(self, path: str) -> None:
        os.unlink(self._root / path)

    def names(self, folder: str) -> list[str]:
        return sorted(os.listdir(self._root / folder))

    def exists(self, path: str) -> bool:
        return (self._root / path).exists()

    def make_folder(self, path: str) -> None:
        (self._root / path).mkdir(mode=0o700, parents=True, exist_ok=True)

    def force_folder(self, path: str) -> None:
        descriptor = os.open(self._root / path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def describe(self, path: str) -> str:
        return str(self._root / path)


def lock_folder(folder: Path) -> int | None:
    """Take the folder for this process: a descriptor to keep open, or None when another has it."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"process {os.getpid()}".encode())
    return descriptor


def unsafe(folder: Path) -> str | None:
    """Why a queue manager's data must not lie in this folder, or None when it may."""
    status = os.lstat(folder)
    if stat.S_ISLNK(status.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISDIR(status.st_mode):
        return "it is no folder"
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    if stat.S_IMODE(status.st_mode) & 0o077:
        return f"its mode is {stat.S_IMODE(status.st_mode):o}"
    for path in folder.rglob("*"):
        if path.is_symlink():
            return f"{path.relative_to(folder)} is a symbolic link"
    return None
