# SPDX-License-Identifier: Apache-2.0
"""Segments: the files that carry the log's stream of bytes.

The log is one stream; a position in it never changes its meaning. The
stream lies in numbered files of one size, each with a head page:

    log/segment-00000007.log     the stream from position 7 * (size - 4096)
    log/spare-00000003.log       zero-filled or used before, waiting for a number

A spare gets its head page, forced, before it is renamed to a segment, so a
file named segment is one. The page has a new random salt each time: what the
file held before fits no longer (engine/recovery_log/group.py). Files are filled with zeros once when they are
made and then reused, because writing into a hole or past the end would
make every force write the file's metadata too.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from entrepot.disk import Disk, File
from entrepot.engine.recovery_log.group import SALT_BYTES
from entrepot.engine.recovery_log.record import FORMAT_VERSION, require_format
from entrepot.errors import LogDamaged

FOLDER = "log"
HEAD_PAGE_BYTES = 4096
_HEAD = struct.Struct("<8sI12sQQ")
_SALT = struct.Struct(f"<{SALT_BYTES}sQ")
SALTED_VERSION = 3
_MAGIC = b"ENTREPOT"
_ZEROS = bytes(1024 * 1024)


def segment_path(number: int) -> str:
    return f"{FOLDER}/segment-{number:08d}.log"


class SegmentHead(NamedTuple):
    """What a segment's first page says of it."""

    salt: bytes
    """Random for each use of the file; empty in formats 1 and 2."""
    continues: int
    """The position at which the stream before this segment ends: its own first one, or where format 2 was left."""


def head_page(
    manager_id: bytes, number: int, segment_bytes: int, head: SegmentHead, version: int = FORMAT_VERSION
) -> bytes:
    """A segment's first page."""
    page = _HEAD.pack(_MAGIC, version, manager_id, number, segment_bytes)
    if version >= SALTED_VERSION:
        page += _SALT.pack(*head)
    page = page.ljust(HEAD_PAGE_BYTES - 4, b"\0")
    return page + struct.pack("<I", crc32c(page))


def read_head_page(
    disk: Disk, path: str, file: File, manager_id: bytes, number: int, segment_bytes: int
) -> SegmentHead:
    """What the first page says.

    Raises:
        LogDamaged, FormatUnsupported: The segment is damaged, of another version, or of another queue manager.
    """
    page = file.read(0, HEAD_PAGE_BYTES)
    described = disk.describe(path)
    if len(page) < HEAD_PAGE_BYTES or struct.unpack("<I", page[-4:])[0] != crc32c(page[:-4]):
        raise LogDamaged(described, 0, "the segment's head page is damaged")
    _, version, owner, stated, _ = _HEAD.unpack_from(page)
    require_format(described, version)
    if owner != manager_id:
        raise LogDamaged(described, 0, "the segment belongs to another queue manager")
    head = SegmentHead(b"", number * (segment_bytes - HEAD_PAGE_BYTES))
    if version >= SALTED_VERSION:
        head = SegmentHead._make(_SALT.unpack_from(page, _HEAD.size))
    if page != head_page(manager_id, number, segment_bytes, head, version):
        raise LogDamaged(described, 0, f"the segment's head page says number {stated}")
    return head


def segment_numbers(disk: Disk) -> list[int]:
    """The numbers of the segments there are, ascending."""
    names = (name for name in disk.names(FOLDER) if name.startswith("segment-"))
    return sorted(int(name[len("segment-") : -len(".log")]) for name in names)


def cut_log(disk: Disk, segment_bytes: int, position: int) -> None:
    """Let the log end at a position: zeros behind it, and no later segment."""
    last, offset = divmod(position, segment_bytes - HEAD_PAGE_BYTES)
    for number in segment_numbers(disk):
        if number > last:
            disk.remove(segment_path(number))
        elif number == last:
            file = disk.open(segment_path(number))
            try:
                begin = HEAD_PAGE_BYTES + offset
                file.write(begin, [bytes(segment_bytes - begin)])
                file.force()
            finally:
                file.close()
    disk.force_folder(FOLDER)


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
            self._disk.force_folder(FOLDER)
        except OSError:
            for begun in (making, path):
                if self._disk.exists(begun):
                    self._disk.remove(begun)
            raise
        self._paths.append(path)

    def use(self, number: int, head: SegmentHead) -> File:
        """Turn a spare into segment `number`.

        Raises:
            OSError: The disk refused; the file is closed, and a spare that has not got its new name remains one.
        """
        file = self._disk.open(self._paths[0])
        try:
            file.write(0, [head_page(self._manager_id, number, self._segment_bytes, head)])
            file.force()
            self._disk.rename(self._paths[0], segment_path(number))
            del self._paths[0]
            self._disk.force_folder(FOLDER)
        except OSError:
            file.close()
            raise
        return file

    def take_back(self, number: int, *, keep: bool) -> None:
        """Let a segment that restart no longer needs be a spare, or remove it."""
        if keep:
            path = self._name()
            self._disk.rename(segment_path(number), path)
            self._paths.append(path)
        else:
            self._disk.remove(segment_path(number))
