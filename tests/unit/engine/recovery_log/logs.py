# SPDX-License-Identifier: Apache-2.0
"""Small logs on a disk in memory, for tests of whatever writes and reads them."""

from __future__ import annotations

from random import Random

from entrepot.disk import Disk
from entrepot.engine.recovery_log.group import SALT_BYTES, Group, GroupKey
from entrepot.engine.recovery_log.reader import LogReader
from entrepot.engine.recovery_log.record import FRAME_HEAD_BYTES, CommitRecord, PutRecord, Record, frame
from entrepot.engine.recovery_log.segment import FOLDER, HEAD_PAGE_BYTES, SegmentHead, head_page, segment_path
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.recovery_log.writer import RecoveryLog
from entrepot.message import Message
from entrepot.testing import SimulatedDisk, VirtualClock
from entrepot.testing.forgery import UnsaltedForgery

MANAGER_ID = bytes(range(12))
SMALL = LogSettings(segment_bytes=64 * 1024, primary=2, secondary=3)
PAYLOAD_BYTES = SMALL.payload_bytes
SALT = bytes(range(SALT_BYTES))
KEY = GroupKey(SALT)


def new_disk(seed: int = 1) -> SimulatedDisk:
    disk = SimulatedDisk(Random(seed))
    disk.make_folder(FOLDER)
    disk.force_folder(".")
    return disk


def open_log(
    disk: Disk,
    *,
    settings: LogSettings = SMALL,
    position: int = 0,
    needed_position: int = 0,
    incarnation: int = 1,
) -> RecoveryLog:
    log = RecoveryLog(disk, VirtualClock(), settings, MANAGER_ID)
    log.open(position=position, needed_position=needed_position, incarnation=incarnation)
    return log


def write(log: RecoveryLog, *records: Record, force: bool = True) -> int:
    """Write one group; the position where it begins."""
    log.append(records)
    group = log.take()
    log.write_group(group, force=force)
    if force:
        log.forced(group)
    return group.start


def reader(disk: Disk, settings: LogSettings = SMALL) -> LogReader:
    return LogReader(disk, settings, MANAGER_ID)


def read(disk: Disk, start: int = 0, settings: LogSettings = SMALL) -> list[Record]:
    """All records but the groups' own."""
    return [logged.record for logged in reader(disk, settings).records(start) if not isinstance(logged.record, Group)]


def put_record(size: int, key: int = 1) -> PutRecord:
    return PutRecord(0, [(1, key)], Message(Random(size).randbytes(size)))


def framed_bytes(record: Record) -> int:
    return FRAME_HEAD_BYTES + len(frame(record, 0)[1])


def commits(*units: int) -> list[CommitRecord]:
    return [CommitRecord(unit) for unit in units]


def own_head_page(number: int, *, manager_id: bytes = MANAGER_ID, segment_bytes: int = SMALL.segment_bytes) -> bytes:
    """The first page of a segment that has `SALT`."""
    return head_page(manager_id, number, segment_bytes, SegmentHead(SALT, number * PAYLOAD_BYTES))


def overwrite(disk: SimulatedDisk, position: int, data: bytes) -> None:
    """Change the log behind everybody's back, within one segment."""
    number, offset = divmod(position, PAYLOAD_BYTES)
    content = bytearray(disk.contents(segment_path(number)))
    begin = HEAD_PAGE_BYTES + offset
    content[begin : begin + len(data)] = data
    disk.put(segment_path(number), bytes(content))


def stream(disk: SimulatedDisk, begin: int, end: int) -> bytes:
    """The log's bytes from one position to another, within one segment."""
    number, offset = divmod(begin, PAYLOAD_BYTES)
    return disk.contents(segment_path(number))[HEAD_PAGE_BYTES + offset :][: end - begin]


def put_format_2(disk: SimulatedDisk, *records: Record, number: int = 0) -> int:
    """Leave segments as format 2 wrote them, from this number on, a group for each record; where the last one ends."""
    position = number * PAYLOAD_BYTES
    stream = b""
    for serial, record in enumerate(records, 1):
        stream += UnsaltedForgery().group(position + len(stream), 1, serial, record)
    for begin in range(0, len(stream), PAYLOAD_BYTES):
        own = number + begin // PAYLOAD_BYTES
        page = head_page(MANAGER_ID, own, SMALL.segment_bytes, SegmentHead(b"", own * PAYLOAD_BYTES), version=2)
        disk.put(segment_path(own), page + stream[begin : begin + PAYLOAD_BYTES].ljust(PAYLOAD_BYTES, b"\0"))
    return position + len(stream)
