# SPDX-License-Identifier: Apache-2.0
"""A disk in memory, for queue managers that need not outlive their process (`memory:`)."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence

from entrepot.disk import Buffer


class MemoryFile:
    """A file whose contents are a buffer; several may have it open."""

    __slots__ = ("_contents", "_lock")

    def __init__(self, contents: bytearray, lock: threading.Lock) -> None:
        self._contents = contents
        self._lock = lock

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        with self._lock:
            contents = self._contents
            if offset > len(contents):
                contents.extend(bytes(offset - len(contents)))
            contents[offset : offset + len(data)] = data

    def write_blocks(self, offset: int, blocks: memoryview) -> None:
        self.write(offset, [blocks])
        self.force()

    def read(self, offset: int, size: int) -> bytes:
        with self._lock:
            return bytes(self._contents[offset : offset + size])

    def force(self) -> None:
        """There is nothing that could be lost before the process is."""

    def truncate(self, size: int) -> None:
        with self._lock:
            contents = self._contents
            if size < len(contents):
                del contents[size:]
            else:
                contents.extend(bytes(size - len(contents)))

    def allocate(self, size: int) -> None:
        """Memory is taken when something is written."""

    def size(self) -> int:
        return len(self._contents)

    def close(self) -> None:
        """The disk keeps it."""


class MemoryDisk:
    """Files by their paths; folders are only names."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._files: dict[str, bytearray] = {}
        self._folders: set[str] = {"."}
        self._lock = threading.Lock()

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        with self._lock:
            contents = self._files.get(path)
            if contents is None:
                if not create:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.describe(path))
                contents = self._files[path] = bytearray()
        return MemoryFile(contents, self._lock)

    def rename(self, source: str, target: str) -> None:
        with self._lock:
            self._files[target] = self._taken(source)

    def remove(self, path: str) -> None:
        with self._lock:
            self._taken(path)

    def _taken(self, path: str) -> bytearray:
        try:
            return self._files.pop(path)
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.describe(path)) from None

    def names(self, folder: str) -> list[str]:
        prefix = "" if folder == "." else f"{folder}/"
        with self._lock:
            paths = [*self._files, *self._folders]
        found = {path[len(prefix) :].partition("/")[0] for path in paths if path.startswith(prefix)}
        return sorted(found - {"", "."})

    def exists(self, path: str) -> bool:
        with self._lock:
            return path in self._files or path in self._folders

    def make_folder(self, path: str) -> None:
        with self._lock:
            self._folders.add(path)

    def force_folder(self, path: str) -> None:
        """There is nothing that could be lost before the process is."""

    def describe(self, path: str) -> str:
        return f"{self._name}/{path}"

    def random_bytes(self, size: int) -> bytes:
        return os.urandom(size)
