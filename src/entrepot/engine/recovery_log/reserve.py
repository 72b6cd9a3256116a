# SPDX-License-Identifier: Apache-2.0
"""Disk space that is kept for checkpoints on a full disk.

    runs/reserve-00000007     a file of zeros, or a run that is wanted no more

A checkpoint that finds no space writes a run into one of these files, which
then becomes the run: its blocks are never given back in between, so no
other program can take them. While the disk is short of space, runs that
are wanted no more become reserves instead of being removed.
"""

from __future__ import annotations

from itertools import count

from entrepot.disk import NO_SPACE, Disk

_PREFIX = "reserve-"


class Reserve:
    """The files in one folder that are kept for their space."""

    def __init__(self, disk: Disk, folder: str, wanted_bytes: int) -> None:
        self._disk = disk
        self._folder = folder
        self._usual_bytes = wanted_bytes
        self.wanted_bytes = wanted_bytes
        """How much to keep; more while checkpoints have not found space for all that is to move."""
        self._sizes: dict[str, int] | None = None
        # Runs that are wanted no more come from the engine while a checkpoint restocks: no number is given twice.
        self._numbers = count(1)

    def sizes(self) -> dict[str, int]:
        """The files and their sizes, largest first."""
        if self._sizes is None:
            names = [name for name in self._disk.names(self._folder) if name.startswith(_PREFIX)]
            self._numbers = count(1 + max((int(name.removeprefix(_PREFIX)) for name in names), default=0))
            self._sizes = {f"{self._folder}/{name}": self._size(f"{self._folder}/{name}") for name in names}
        return dict(sorted(self._sizes.items(), key=lambda item: -item[1]))

    def _size(self, path: str) -> int:
        file = self._disk.open(path)
        try:
            return file.size()
        finally:
            file.close()

    def use(self, path: str, target: str) -> None:
        """Let a file of the reserve have another name; the caller writes into it."""
        self._disk.rename(path, target)
        self.sizes()
        assert self._sizes is not None
        del self._sizes[path]

    def keep(self, path: str) -> bool:
        """Take a file that is wanted no more into the reserve; False when there is enough."""
        if not self.wanted_bytes or sum(self.sizes().values()) >= self.wanted_bytes:
            return False
        size = self._size(path)
        if size < self._usual_bytes // 2:
            return False
        self._add(path, size)
        return True

    def _add(self, path: str, size: int) -> None:
        assert self._sizes is not None
        kept = f"{self._folder}/{_PREFIX}{next(self._numbers):08d}"
        self._disk.rename(path, kept)
        self._sizes[kept] = size

    def want(self, more_bytes: int) -> None:
        """Checkpoints may need so many bytes, and the disk may not have them: keep them beside what is usual."""
        if self._usual_bytes:
            self.wanted_bytes = self._usual_bytes + more_bytes

    def restock(self) -> None:
        """Keep as much as is usual, as far as the disk has it, and no more than is wanted."""
        sizes = self.sizes()
        assert self._sizes is not None
        for path, size in sizes.items():
            if sum(self._sizes.values()) - size >= self.wanted_bytes:
                self._disk.remove(path)
                del self._sizes[path]
        if sum(self._sizes.values()) < self._usual_bytes:
            self._make()

    def _make(self) -> None:
        making = f"{self._folder}/making-reserve"
        try:
            file = self._disk.open(making, create=True)
            try:
                file.write(0, [bytes(self._usual_bytes)])
                file.force()
            finally:
                file.close()
            self._add(making, self._usual_bytes)
        except OSError as error:
            if self._disk.exists(making):
                self._disk.remove(making)
            if error.errno not in NO_SPACE:
                raise
