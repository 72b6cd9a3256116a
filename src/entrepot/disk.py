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
import mmap
import os
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

_Opened = TypeVar("_Opened")

Buffer = bytes | bytearray | memoryview

# Linux takes at most 1,024 buffers in one gathered write.
BUFFERS_PER_WRITE_MAX = 1024

BLOCK_BYTES = 4096
"""What `File.write_blocks` writes in multiples of; all common devices and file systems take it."""

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers after which the disk is sound but full."""


class File(Protocol):
    """An open file."""

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one after the other from `offset`; durable only after `force`."""

    def write_blocks(self, offset: int, blocks: memoryview) -> None:
        """Write whole blocks, which would survive a power cut when this returns; what was written before need not.

        `offset` and the size are multiples of BLOCK_BYTES, within the file. Quickest for `block_memory`.
        """

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer at the end of the file."""

    def force(self) -> None:
        """Return when everything written to this file would survive a power cut."""

    def truncate(self, size: int) -> None: ...

    def allocate(self, size: int) -> None:
        """Give the file space for so many bytes, so that a full disk cannot refuse to write them."""

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

    def random_bytes(self, size: int) -> bytes:
        """Random bytes, to salt files with."""


class DescriptorReserve:
    """Descriptors that are kept back for the disk, so that connections can never take the last ones.

    A log whose next segment cannot be opened has to stop the queue manager for good. Filled by a server; empty, it
    changes nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spare: list[int] = []
        self._wanted = 0

    def keep(self, count: int) -> None:
        """Have so many from now on."""
        with self._lock:
            self._wanted = count
            while len(self._spare) > count:
                os.close(self._spare.pop())
        self.refill()

    def open(self, path: Path, flags: int) -> int:
        """A descriptor for a path; see `run`."""
        return self.run(lambda: os.open(path, flags, 0o600))

    def run(self, opens: Callable[[], _Opened]) -> _Opened:
        """Call something that opens a file; one of the reserve gives way when the process has no other left."""
        while True:
            try:
                return opens()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                with self._lock:
                    if not self._spare:
                        raise
                    os.close(self._spare.pop())

    def refill(self) -> None:
        """Take back what was lent, as far as the process has descriptors again."""
        with self._lock:
            while len(self._spare) < self._wanted:
                try:
                    self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
                except OSError:
                    return

    @property
    def is_whole(self) -> bool:
        return len(self._spare) >= self._wanted


DESCRIPTORS = DescriptorReserve()
"""The process's own."""


def block_memory(size: int) -> memoryview:
    """Memory that begins at a block's boundary, as direct writes need it; pages are taken when they are used."""
    return memoryview(mmap.mmap(-1, size))


# Of these a direct write may be refused: file systems without it, devices of larger blocks, old kernels.
_NOT_DIRECT = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})
# A C library may be too old for writes that force.
_FORCED = getattr(os, "RWF_DSYNC", 0)


class SystemFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor", "_is_direct", "_may_be_direct")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_direct = False
        self._may_be_direct = bool(_FORCED)

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
        if self._is_direct:
            self._be_direct(False)
        return os.pwritev(self._descriptor, buffers, offset)

    def write_blocks(self, offset: int, blocks: memoryview) -> None:
        # Past the page cache: no copy, no dirty pages to look for, and one system call instead of two.
        written = 0
        if self._may_be_direct:
            try:
                if not self._is_direct:
                    self._be_direct(True)
                written = os.pwritev(self._descriptor, (blocks,), offset, _FORCED)
            except OSError as error:
                if error.errno not in _NOT_DIRECT:
                    raise
                self._may_be_direct = False
        if written < len(blocks):
            self.write(offset + written, [blocks[written:]])
            self.force()

    def _be_direct(self, direct: bool) -> None:
        """Write to the device itself from now on, or to the kernel's memory."""
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, os.O_DIRECT if direct else 0)
        self._is_direct = direct

    def read(self, offset: int, size: int) -> bytes:
        if self._is_direct:
            self._be_direct(False)
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

    def allocate(self, size: int) -> None:
        try:
            os.posix_fallocate(self._descriptor, 0, size)
        except OSError as error:
            # A file system that cannot promise it may refuse the write later.
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV):
                raise

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)
        if not DESCRIPTORS.is_whole:
            DESCRIPTORS.refill()


class SystemDisk:
    """A folder of the operating system's file system."""

    def __init__(self, root: Path | str) -> None:
        self._root = Path(root)

    def open(self, path: str, *, create: bool = False) -> File:
        # A symbolic link could lead our writes out of the folder that only its owner can read.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
        return self.file(DESCRIPTORS.open(self._root / path, flags))

    def file(self, descriptor: int) -> SystemFile:
        """The file object for a descriptor; a failing disk returns its own kind."""
        return SystemFile(descriptor)

    def rename(self, source: str, target: str) -> None:
        os.rename(self._root / source, self._root / target)

    def remove(self, path: str) -> None:
        os.unlink(self._root / path)

    def names(self, folder: str) -> list[str]:
        return sorted(DESCRIPTORS.run(lambda: os.listdir(self._root / folder)))

    def exists(self, path: str) -> bool:
        return (self._root / path).exists()

    def make_folder(self, path: str) -> None:
        (self._root / path).mkdir(mode=0o700, parents=True, exist_ok=True)

    def force_folder(self, path: str) -> None:
        descriptor = DESCRIPTORS.open(self._root / path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def describe(self, path: str) -> str:
        return str(self._root / path)

    def random_bytes(self, size: int) -> bytes:
        return os.urandom(size)


def lock_folder(folder: Path) -> int | None:
    """Take the folder for this process: a descriptor to keep open, or None when another has it."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    try:
        # In place, since a full disk may not give back what a truncate lets go.
        written = os.pwrite(descriptor, f"process {os.getpid()}".encode(), 0)
        os.ftruncate(descriptor, written)
    except OSError as error:
        if error.errno not in NO_SPACE:
            os.close(descriptor)
            raise
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
