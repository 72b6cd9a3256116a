# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: what restart starts from, so that the log before it may go.

One file, `checkpoint`, framed like the log: first the Checkpoint record,
then objects, runs, backout counts and prepared units, last End, and zeros
behind it. A new one is written beside it and forced, then takes its place.

The old file is not removed but becomes `checkpoint.new`, for the next one
to be written into: its blocks are there already, so that a checkpoint can
be taken on a full disk. Each has more of them than it needs for now.
"""

from __future__ import annotations

from collections.abc import Iterable

from entrepot.disk import NO_SPACE, Buffer, Disk, File
from entrepot.engine.recovery_log.record import (
    BadFrame,
    CheckpointRecord,
    EndRecord,
    Record,
    frame,
    parse,
    require_format,
)
from entrepot.errors import CheckpointDamaged

PATH = "checkpoint"
PREVIOUS = "checkpoint.previous"
"""The checkpoint itself while the new one takes its name."""
_NEW = "checkpoint.new"
_ROOM_BYTES_MIN = 128 * 1024
_ROOM_FACTOR = 4
"""How much larger the next checkpoint may be, on a full disk."""


def write_checkpoint(disk: Disk, head: CheckpointRecord, records: Iterable[Record]) -> None:
    """Replace the checkpoint durably.

    Raises:
        OSError: The disk refused; the old checkpoint still stands.
    """
    buffers: list[Buffer] = []
    position = count = 0
    for record in (head, *records):
        frame_head, payload = frame(record, position)
        buffers += (frame_head, payload)
        position += len(frame_head) + len(payload)
        count += 1
    buffers += frame(EndRecord(count), position)
    if disk.exists(PREVIOUS):
        # A crash or a refusal has interrupted the last one.
        if not disk.exists(PATH):
            disk.rename(PREVIOUS, PATH)
        _settle(disk)
    file = disk.open(_NEW, create=True)
    try:
        size = file.size()
        file.write(0, [*buffers, bytes(max(size - _size(buffers), 0))])
        _keep_room(file, _ROOM_FACTOR * _size(buffers))
        file.force()
    finally:
        file.close()
    if disk.exists(PATH):
        disk.rename(PATH, PREVIOUS)
    disk.rename(_NEW, PATH)
    _settle(disk)


def _settle(disk: Disk) -> None:
    """Make the checkpoint's name durable; only then may the previous one be written over."""
    disk.force_folder(".")
    if disk.exists(PREVIOUS):
        disk.rename(PREVIOUS, _NEW)


def _keep_room(file: File, wanted: int) -> None:
    """Let the file have blocks for a larger checkpoint than this one, if the disk has them."""
    wanted, size = max(wanted, _ROOM_BYTES_MIN), file.size()
    if size >= wanted:
        return
    try:
        file.write(size, [bytes(wanted - size)])
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise


def _size(buffers: Iterable[Buffer]) -> int:
    return sum(map(len, buffers))


def read_checkpoint(disk: Disk) -> tuple[CheckpointRecord, list[Record]]:
    """The checkpoint, every byte of it checked; no power cut brings back an older one.

    Raises:
        CheckpointDamaged: It is not whole; offset and problem are named.
    """
    path = disk.describe(PATH)
    if disk.exists(PREVIOUS):
        # The process before us died before it forced the new name, and restart removes what only older ones need.
        disk.force_folder(".")
    file = _open(disk)
    try:
        data = memoryview(file.read(0, file.size()))
    finally:
        file.close()
    records: list[Record] = []
    position = 0
    while True:
        try:
            record, position = parse(data, position)
        except BadFrame as bad:
            raise CheckpointDamaged(path, position, str(bad)) from bad
        if isinstance(record, EndRecord):
            room = data[position:].tobytes()
            if record.records != len(records) or room.count(0) != len(room):
                raise CheckpointDamaged(path, position, "the number of records is wrong")
            break
        records.append(record)
    first = records[0] if records else None
    if not isinstance(first, CheckpointRecord):
        raise CheckpointDamaged(path, 0, "it does not begin as a checkpoint")
    require_format(path, first.format_version)
    return first, records[1:]


def _open(disk: Disk) -> File:
    try:
        return disk.open(PATH)
    except FileNotFoundError:
        if not disk.exists(PREVIOUS):
            raise
        return disk.open(PREVIOUS)  # a crash between two renames
