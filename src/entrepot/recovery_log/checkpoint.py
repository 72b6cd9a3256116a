# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: what restart starts from, so that the log before it may go.

One file, `checkpoint`, framed like the log: first the Checkpoint record,
then objects, runs, backout counts and prepared units, last End. A new one
is written beside it, forced, and renamed over it.
"""

from __future__ import annotations

from collections.abc import Iterable

from entrepot.disk import Buffer, Disk
from entrepot.errors import CheckpointDamaged
from entrepot.recovery_log.record import (
    BadFrame,
    Checkpoint,
    End,
    Record,
    frame,
    parse,
    require_format,
)

PATH = "checkpoint"
_NEW = "checkpoint.new"


def write_checkpoint(disk: Disk, head: Checkpoint, records: Iterable[Record]) -> None:
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
    buffers += frame(End(count), position)
    file = disk.open(_NEW, create=True)
    try:
        file.truncate(0)
        file.write(0, buffers)
        file.force()
    finally:
        file.close()
    disk.rename(_NEW, PATH)
    disk.force_folder(".")


def read_checkpoint(disk: Disk) -> tuple[Checkpoint, list[Record]]:
    """The checkpoint, every byte of it checked.

    Raises:
        CheckpointDamaged: It is not whole; offset and problem are named.
    """
    path = disk.describe(PATH)
    file = disk.open(PATH)
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
        if isinstance(record, End):
            if record.records != len(records) or position != len(data):
                raise CheckpointDamaged(path, position, "the number of records is wrong")
            break
        records.append(record)
    first = records[0] if records else None
    if not isinstance(first, Checkpoint):
        raise CheckpointDamaged(path, 0, "it does not begin as a checkpoint")
    require_format(path, first.format_version)
    return first, records[1:]
