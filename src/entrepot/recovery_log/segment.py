# SPDX-License-Identifier: Apache-2.0
"""Segments: the files that carry the log's stream of bytes.

The log is one stream; a position in it never changes its meaning. The
stream lies in numbered files of one size, each with a head page:

    log/segment-00000007.log     the stream from position 7 * (size - 4096)
    log/spare-00000003.log       zero-filled or used before, waiting for a number

A spare gets its head page, forced, before it is renamed to a segment, so a
file named segment is one. Files are filled with zeros once when they are
made and then reused, because writing into a hole or past the end would
make every force write the file's metadata too.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from entrepot.disk import Disk, File
from entrepot.errors import LogDamaged
from entrepot.recovery_log.record import FORMAT_VERSION, READABLE_VERSIONS, require_format

FOLDER = "log"
HEAD_PAGE_BYTES = 4096
_HEAD = struct.Struct("<8sI12sQQ")
_MAGIC = b"ENTREPOT"
_ZEROS = bytes(1024 * 1024)


def segment_path(number: int) -> str:
    return f"{FOLDER}/segment-{number:08d}.log"


def head_page(manager_id: bytes, number: int, segment_bytes: int, version: int | None = None) -> bytes:
    """A segment's first page; the newest version unless another is said."""
    version = FORMAT_VERSION if version is None else version
    page = _HEAD.pack(_MAGIC, version, manager_id, number, segment_bytes).ljust(HEAD_PAGE_BYTES - 4, b"\0")
    return page + struct.pack("<I", crc32c(page))


def check_head_page(disk: Disk, path: str, file: File, manager_id: bytes, number: int, segment_bytes: int) -> None:
    """Refuse a segment that is damaged, of another version, or of another queue manager."""
    page = file.read(0, HEAD_PAGE_BYTES)
    if any(page == head_page(manager_id, number, segment_bytes, version) for version in READABLE_VERSIONS):
        return
    described = disk.describe(path)
    if len(page) < HEAD_PAGE_BYTES or struct.unpack("<I", page[-4:])[0] != crc32c(page[:-4]):
        raise LogDamaged(described, 0, "the segment's head page is damaged")
    _, version, owner, stated, _ = _HEAD.unpack_from(page)
    require_format(described, version)
    if owner != manager_id:
        raise LogDamaged(described, 0, "the segment belongs to another queue manager")
    raise LogDamaged(described, 0, f"the segment's head page says number {stated}")


def segment_numbers(disk: Disk) -> list[int]:
    """The numbers of the segments there are, ascending."""
    names = (name for name in disk.names(FOLDER) if name.startswith("segment-"))
    return sorted(int(name[len("segment-") : -len(".log")]) for name in names)


class SparePool:
    """Files of a segment's size that wait for their turn."""

    def __init__(self, disk: Disk, manager_id: bytes, segment_bytes: int) -> None:
        self._disk = disk
        self._manager_id = manager_id
        self._segment_bytes = segment_bytes
        self._next = 0
        self._paths: list[str] = []

    def find(self) -> None:
        """Take stock of the spares on disk."""
        for name in self._disk.names(FOLDER):
            path = f"{FOLDER}/{name}"
            if name.startswith("making-"):
                self._disk.remove(path)  # its making was interrupted
            elif name.startswith("spare-"):
                self._paths.append(path)
                self._next = max(self._next, int(name[len("spare-") : -len(".log")]) + 1)

    def __len__(self) -> int:
        return len(self._paths)

    def _name(self) -> str:
        self._next += 1
        return f"{FOLDER}/spare-{self._next - 1:08d}.log"

    def make(self) -> None:
        """Add one new file of zeros.

        Raises:
            OSError: The disk refused; what was begun is removed again.
        """
        path = self._name()
        making = path.replace("spare-", "making-")
        file = self._disk.open(making, create=True)
        try:
            try:
                for offset in range(0, self._segment_bytes, len(_ZEROS)):
                    file.write(offset, [_ZEROS[: self._segment_bytes - offset]])
                file.force()
            finally:
                file.close()
            self._disk.rename(making, path)
        except OSError:
            if self._disk.exists(making):
                self._disk.remove(making)
            raise
        self._disk.force_folder(FOLDER)
        self._paths.append(path)

    def use(self, number: int) -> File:
        """Turn a spare into segment `number`."""
        file = self._disk.open(self._paths[0])
        file.write(0, [head_page(self._manager_id, number, self._segment_bytes)])
        file.force()
        self._disk.rename(self._paths.pop(0), segment_path(number))
        self._disk.force_folder(FOLDER)
        return file

    def take_back(self, number: int, *, keep: bool) -> None:
        """Let a segment that restart no longer needs be a spare, or remove it."""
        if keep:
            path = self._name()
            self._disk.rename(segment_path(number), path)
            self._paths.append(path)
        else:
            self._disk.remove(segment_path(number))
