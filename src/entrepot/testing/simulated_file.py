# SPDX-License-Identifier: Apache-2.0
"""What memory and medium know of one simulated file.

Only the memory's contents are kept whole. Each update since the last force
keeps the bytes it replaced, so a write costs what it writes and a force
costs nothing; the medium's contents are worked out when the power fails.
The medium takes sectors in any order, each in any version it ever had.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

SECTOR_BYTES = 512
"""What a medium writes wholly or not at all."""


class FileUpdate(NamedTuple):
    """A write or truncate since the last force, with what undoes it."""

    offset: int
    length: int
    old: bytes
    """The bytes replaced; shorter than `length` where the file grew."""
    size_before: int
    size_after: int


class Version(NamedTuple):
    """A sector as it was after one update; `update` is -1 for the medium's own."""

    update: int
    image: bytes
    cut: bool
    """Whether the update was a truncate that gave the whole sector back."""


class SimulatedContents:
    """A file's bytes, and which of them a power cut could take."""

    __slots__ = ("_failed", "_forced", "_lost", "_updates", "bytes")

    def __init__(self, contents: bytes | bytearray = b"") -> None:
        self.bytes = bytearray(contents)
        """What a reader sees."""
        self._updates: list[FileUpdate] = []
        # The updates before this one were in a force that failed: memory holds
        # them as clean, so no later force writes their sectors again.
        self._failed = 0
        # What the medium has in sectors that memory wrongly holds as clean.
        self._lost: dict[int, bytes] = {}
        # Sectors that were forced without the rest of the file, and after how many updates.
        self._forced: dict[int, int] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> SimulatedContents:
        twin = SimulatedContents(self.bytes)
        twin._updates = self._updates.copy()
        twin._failed = self._failed
        twin._lost = self._lost.copy()
        twin._forced = self._forced.copy()
        return twin

    def write(self, offset: int, data: bytes) -> None:
        if not data:
            return
        contents = self.bytes
        size = len(contents)
        end = offset + len(data)
        if offset > size:
            contents.extend(bytes(offset - size))
        self._updates.append(FileUpdate(offset, len(data), bytes(contents[offset:end]), size, max(size, end)))
        contents[offset:end] = data

    def truncate(self, size: int) -> None:
        contents = self.bytes
        before = len(contents)
        if size < before:
            self._updates.append(FileUpdate(size, before - size, bytes(contents[size:]), before, size))
            del contents[size:]
        elif size > before:
            self._updates.append(FileUpdate(before, 0, b"", before, size))
            contents.extend(bytes(size - before))

    def force(self) -> None:
        """Make everything durable except what an earlier failed force gave up."""
        if self._failed or self._lost:
            self._keep_what_was_lost()
        self._updates.clear()
        self._forced.clear()
        self._failed = 0

    def force_last(self) -> None:
        """Make the last write durable, and nothing that was written elsewhere before it; the file had its size."""
        last = self._updates[-1]
        if len(self._updates) == 1 and not self._lost:
            self.force()
            return
        for sector in range(last.offset // SECTOR_BYTES, -(-(last.offset + last.length) // SECTOR_BYTES)):
            self._lost.pop(sector, None)
            self._forced[sector] = len(self._updates)

    def fail_force(self) -> None:
        """Give up on all updates so far, as Linux does: readable still, clean, and not on the medium."""
        self._failed = len(self._updates)

    def replace(self, contents: bytes | bytearray) -> None:
        """Put durable contents in the place of all there was."""
        self.bytes[:] = contents
        self._updates.clear()
        self._forced.clear()
        self._failed = 0
        self._lost.clear()

    def power_cut(self, random: Random) -> None:
        """Keep what was forced, and of the rest what chance leaves."""
        if not self._updates and not self._lost:
            return
        image, versions = self._versions()
        # Sector by sector alone, a long write would next to never be wholly kept or wholly lost.
        mood = random.random()
        last, size = self._surviving_size(random, mood)
        for sector, lost in self._lost.items():
            _place(image, sector, lost)
        for sector in sorted(versions):
            possible = self._possible(versions[sector], last)
            if mood < 0.25:
                chosen = possible[0]
            elif mood < 0.5:
                chosen = possible[-1]
            else:
                chosen = possible[int(random.random() * len(possible))]
            _place(image, sector, chosen)
        self.replace(image[:size])

    def _surviving_size(self, random: Random, mood: float) -> tuple[int, int]:
        """The last update whose size reached the medium (-1: none), and the size there."""
        resizes = [number for number, update in enumerate(self._updates) if update.size_after != update.size_before]
        if not resizes:
            return len(self._updates) - 1, len(self.bytes)
        if mood < 0.25:
            return -1, self._updates[0].size_before
        if mood < 0.5:
            return resizes[-1], len(self.bytes)
        position = int(random.random() * (len(resizes) + 1))
        if position == len(resizes):
            return -1, self._updates[0].size_before
        last = resizes[position]
        before, after = self._updates[last].size_before, self._updates[last].size_after
        # File systems allocate while they write back, so a long growth may be found half done.
        first_boundary = before // SECTOR_BYTES + 1
        boundaries = (after - 1) // SECTOR_BYTES + 1 - first_boundary
        if boundaries > 0 and random.random() < 0.5:
            return last, (first_boundary + int(random.random() * boundaries)) * SECTOR_BYTES
        return last, after

    def _possible(self, versions: list[Version], last: int) -> list[bytes]:
        """The versions of a sector that the medium may hold when sizes up to update `last` got there.

        A truncate that got there took the older versions away; one that did
        not keeps the newer ones out, for they have blocks of their own.
        """
        possible: list[bytes] = []
        for update, image, cut in versions:
            if cut:
                if update > last:
                    break
                possible = [image]
            elif update == -1 or update >= self._failed:
                possible.append(image)
        return possible

    def _keep_what_was_lost(self) -> None:
        _, versions = self._versions()
        for sector, history in versions.items():
            on_medium = self._possible(history, len(self._updates))[-1]
            start = sector * SECTOR_BYTES
            if on_medium == self.bytes[start : start + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0"):
                self._lost.pop(sector, None)
            else:
                self._lost[sector] = on_medium

    def _versions(self) -> tuple[bytearray, dict[int, list[Version]]]:
        """The contents before all updates, zero-padded, and every version of every updated sector, oldest first."""
        size_max = max([len(self.bytes), *(update.size_before for update in self._updates)])
        padded = bytearray(-(-size_max // SECTOR_BYTES) * SECTOR_BYTES)
        padded[: len(self.bytes)] = self.bytes
        # A view is cut into sectors without a copy more, and this is where a power cut spends its time.
        image = memoryview(padded)
        versions: dict[int, list[Version]] = {}
        for number in range(len(self._updates) - 1, -1, -1):
            offset, length, old, size_before, size_after = self._updates[number]
            shrinks = size_after < size_before
            for sector in range(offset // SECTOR_BYTES, -(-(offset + length) // SECTOR_BYTES)):
                start = sector * SECTOR_BYTES
                version = Version(number, bytes(image[start : start + SECTOR_BYTES]), shrinks and start >= size_after)
                versions.setdefault(sector, []).append(version)
            image[offset : offset + len(old)] = old
            if size_before < size_after:
                image[size_before:size_after] = bytes(size_after - size_before)
        for sector, history in versions.items():
            start = sector * SECTOR_BYTES
            on_medium = self._lost.get(sector) or bytes(image[start : start + SECTOR_BYTES])
            history.append(Version(-1, on_medium, False))
            history.reverse()
            if sector in self._forced:
                versions[sector] = _since(history, self._forced[sector])
        return padded, versions


def _since(history: list[Version], forced: int) -> list[Version]:
    """What is left of a sector's versions after a force that covered the first `forced` updates."""
    later = [version for version in history if version.update >= forced]
    on_medium = history[len(history) - len(later) - 1]
    return [Version(-1, on_medium.image, False), *later]


def _place(image: bytearray, sector: int, contents: bytes) -> None:
    """Lay a sector into an image; past its end there is nothing to lay it on."""
    start = sector * SECTOR_BYTES
    if start < len(image):
        image[start : start + SECTOR_BYTES] = contents
