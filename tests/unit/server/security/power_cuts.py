# SPDX-License-Identifier: Apache-2.0
"""A folder, and what a power cut would leave of it.

Programs that call the operating system directly are watched: each write,
force and change of a name is a moment. What was not forced may be lost and
may be kept, so each moment has several outcomes: nothing that was not forced
is left; names are left, and contents are not; one file lost what was not
forced, and the others did not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

_CHANGES = ("write", "pwrite", "ftruncate", "rename", "unlink")


class Left(NamedTuple):
    """What a power cut leaves, and how many promises had been made before it."""

    promises: int
    files: tuple[tuple[str, bytes], ...]

    def content(self, name: str) -> bytes | None:
        return dict(self.files).get(name)


class PowerCuts:
    """Watches a folder that is empty at first; forces are noted, and not done."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._names: dict[str, int] = {}
        self._contents: dict[int, bytes] = {}
        self._held: list[int] = []
        self.promises = 0
        """How many things had been promised to outlive a power cut; the test counts them."""
        self.left: dict[Left, None] = {}
        """Every outcome of a power cut at any moment so far."""
        for name in _CHANGES:
            monkeypatch.setattr(os, name, self._watched(getattr(os, name)))
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._force)

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:
            result = call(*arguments, **named)
            self.left.update(dict.fromkeys(self.outcomes()))
            return result

        return watched

    def _force(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            # While this one is open, no other file gets the same number.
            held = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
            self._held.append(held)
            self._contents[status.st_ino] = os.pread(held, status.st_size, 0)
        elif os.path.samestat(status, self._folder.stat()):
            self._names = self._names_now()
        self.left.update(dict.fromkeys(self.outcomes()))

    def _names_now(self) -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in self._folder.iterdir()}

    def outcomes(self) -> Iterator[Left]:
        """What a power cut now may leave."""
        forced = {name: self._contents.get(inode, b"") for name, inode in self._names_now().items()}
        written = {name: (self._folder / name).read_bytes() for name in forced}
        yield self._outcome({name: self._contents.get(inode, b"") for name, inode in self._names.items()})
        yield self._outcome(forced)
        for name, content in forced.items():
            yield self._outcome({**written, name: content})

    def _outcome(self, files: dict[str, bytes]) -> Left:
        return Left(self.promises, tuple(sorted(files.items())))


def restore(left: Left, folder: Path) -> Path:
    """A folder with what a power cut left."""
    folder.mkdir(mode=0o700)
    for name, content in left.files:
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    return folder
