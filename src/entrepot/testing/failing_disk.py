# SPDX-License-Identifier: Apache-2.0
"""Disks of the operating system that fail, or kill their own process, at a chosen system call.

A kill test runs once with `at=0` in a process that lives, reads `count`, and
then runs again in a child process for every `at` from 1 to that count.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from entrepot.disk import Buffer, File, SystemDisk, SystemFile
from entrepot.testing.faults import Faults


class KillCounter:
    """Counts the calls that change the disk, over all its files, and knows which one is fatal."""

    def __init__(self, at: int, part: float) -> None:
        self.count = 0
        self.part = part
        self._at = at
        # The queue manager forces from a thread of its own.
        self._lock = threading.Lock()

    def is_fatal(self) -> bool:
        """Count one call; whether it is the last of this process."""
        with self._lock:
            self.count += 1
            return self.count == self._at

    def around(self, call: Callable[[], None]) -> None:
        """Count and make a call that is done wholly or not at all."""
        fatal = self.is_fatal()
        if fatal and self.part < 1:
            die()
        call()
        if fatal:
            die()


class KillingFile(SystemFile):
    """A file whose calls count towards the fatal one."""

    __slots__ = ("_counter",)

    def __init__(self, descriptor: int, counter: KillCounter) -> None:
        super().__init__(descriptor)
        self._counter = counter

    def write_some(self, offset: int, buffers: Sequence[Buffer]) -> int:
        if self._counter.is_fatal():
            if size := int(sum(map(len, buffers)) * self._counter.part):
                super().write_some(offset, leading(buffers, size))
            die()
        return super().write_some(offset, buffers)

    def write_blocks(self, offset: int, blocks: memoryview) -> None:
        if not self._counter.is_fatal():
            super().write_blocks(offset, blocks)
            return
        if size := int(len(blocks) * self._counter.part):
            super().write(offset, [blocks[:size]])
        die()

    def force(self) -> None:
        self._counter.around(super().force)

    def truncate(self, size: int) -> None:
        self._counter.around(partial(super().truncate, size))


class KillingDisk(SystemDisk):
    """A folder whose process gets SIGKILL at the `at`-th call that changes it; at 0, never.

    The calls are gathered writes, forces, truncates, creates, renames,
    removes and forces of a folder. `part` says how much of the fatal call is
    done: 0.0 dies before it, 1.0 after it, and anything between after that
    part of a write's bytes; any other call is then not made at all.
    """

    def __init__(self, root: Path | str, at: int, *, part: float = 1.0) -> None:
        if not 0 <= part <= 1:
            raise ValueError(f"part must be from 0 to 1, not {part}")
        super().__init__(root)
        self._counter = KillCounter(at, part)

    @property
    def count(self) -> int:
        """How many calls changed the disk so far."""
        return self._counter.count

    def open(self, path: str, *, create: bool = False) -> File:
        if not create or self.exists(path):
            return super().open(path)
        fatal = self._counter.is_fatal()
        if fatal and self._counter.part < 1:
            die()
        file = super().open(path, create=True)
        if fatal:
            die()
        return file

    def file(self, descriptor: int) -> SystemFile:
        return KillingFile(descriptor, self._counter)

    def rename(self, source: str, target: str) -> None:
        self._counter.around(partial(super().rename, source, target))

    def remove(self, path: str) -> None:
        self._counter.around(partial(super().remove, path))

    def force_folder(self, path: str) -> None:
        self._counter.around(partial(super().force_folder, path))


class FaultyFile(SystemFile):
    """A file that asks before each call whether it shall fail."""

    __slots__ = ("_faults", "path")

    def __init__(self, descriptor: int, faults: Faults) -> None:
        super().__init__(descriptor)
        self._faults = faults
        self.path = ""

    def write_some(self, offset: int, buffers: Sequence[Buffer]) -> int:
        allowed = self._faults.before("write", self.path, sum(map(len, buffers)))
        if allowed is None:
            return super().write_some(offset, buffers)
        return super().write_some(offset, leading(buffers, allowed))

    def write_blocks(self, offset: int, blocks: memoryview) -> None:
        # In two calls, so that each may fail for itself.
        self.write(offset, [blocks])
        self.force()

    def read(self, offset: int, size: int) -> bytes:
        self._faults.before("read", self.path, size)
        return super().read(offset, size)

    def force(self) -> None:
        self._faults.before("force", self.path, 0)
        super().force()

    def truncate(self, size: int) -> None:
        self._faults.before("truncate", self.path, size)
        super().truncate(size)

    def allocate(self, size: int) -> None:
        self._faults.before("allocate", self.path, size)
        super().allocate(size)


class FaultyDisk(SystemDisk):
    """A folder whose calls fail, or write less than asked, where `faults` says so."""

    def __init__(self, root: Path | str, faults: Faults) -> None:
        super().__init__(root)
        self.faults = faults

    def open(self, path: str, *, create: bool = False) -> File:
        self.faults.before("create" if create and not self.exists(path) else "open", path, 0)
        file = super().open(path, create=create)
        assert isinstance(file, FaultyFile)
        file.path = path
        return file

    def file(self, descriptor: int) -> SystemFile:
        return FaultyFile(descriptor, self.faults)

    def rename(self, source: str, target: str) -> None:
        self.faults.before("rename", source, 0)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.faults.before("remove", path, 0)
        super().remove(path)

    def make_folder(self, path: str) -> None:
        self.faults.before("make_folder", path, 0)
        super().make_folder(path)

    def force_folder(self, path: str) -> None:
        self.faults.before("force_folder", path, 0)
        super().force_folder(path)


def leading(buffers: Sequence[Buffer], size: int) -> list[Buffer]:
    """The buffers' first `size` bytes."""
    taken: list[Buffer] = []
    for buffer in buffers:
        if size <= 0:
            break
        taken.append(buffer[:size])
        size -= len(buffer)
    return taken


def die() -> NoReturn:
    """End this process as a crash would: no handler runs, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)
    # Another thread may take the signal; this one must not get to its next call meanwhile.
    while True:
        signal.pause()
