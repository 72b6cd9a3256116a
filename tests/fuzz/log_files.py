# SPDX-License-Identifier: Apache-2.0
"""The recovery log, checkpoints, runs and files of bodies, with every CRC taken for right.

A CRC keeps a fuzzer out as it keeps chance out; what stands behind it is
read by the same code when somebody has computed it.
"""

from __future__ import annotations

from contextlib import ExitStack
from random import Random
from unittest import mock

from entrepot.engine.recovery_log import group, record
from entrepot.engine.recovery_log import reader as log_reader
from entrepot.engine.recovery_log.bodies import decode_bodies, encode_bodies
from entrepot.engine.recovery_log.checkpoint import PATH, read_checkpoint, write_checkpoint
from entrepot.engine.recovery_log.record import (
    FORMAT_VERSION,
    Branch,
    CheckpointRecord,
    CommitRecord,
    CountsRecord,
    DefineRecord,
    DeleteRecord,
    Entry,
    ForgetRecord,
    HeuristicRecord,
    PrepareRecord,
    PutRecord,
    RemoveRecord,
    ResolveRecord,
    Run,
    TakenRecord,
)
from entrepot.engine.recovery_log.run import FOLDER as RUNS
from entrepot.engine.recovery_log.run import RunStore, run_path
from entrepot.engine.recovery_log.segment import HEAD_PAGE_BYTES, segment_path
from entrepot.message import Message
from entrepot.testing import SimulatedDisk
from unit.engine.recovery_log.logs import MANAGER_ID, PAYLOAD_BYTES, new_disk, open_log, reader, write

from .target import Target

RECORDS = (
    PutRecord(0, [(1, 2)], Message(b"body", properties={"a": 1})),
    PutRecord(7, [(1, 3), (2, 4)], Message(b"shared"), [([(3, 5)], Message(b"", priority=1))]),
    RemoveRecord(7, [2, 3]),
    TakenRecord([4], [9]),
    CommitRecord(7),
    PrepareRecord(8, b"x", [Branch("postgresql://db/shop", "x-0", 1)], "ann"),
    ResolveRecord(b"x", True),
    DefineRecord("QLOCAL", 1, {"name": "Q", "depth_max": 10}),
    DeleteRecord("QLOCAL", "Q"),
    ForgetRecord(b"x", ["x-0"]),
    HeuristicRecord(b"x", "", "", "committed"),
)


def _without_crc() -> ExitStack:
    """Where a head and its payload meet their CRC, nothing is compared."""
    patches = ExitStack()
    for module in (log_reader, record, group):
        patches.enter_context(mock.patch.object(module, "check", lambda *_: None))
    # Nor is a group's check, which no fuzzer could guess.
    patches.enter_context(mock.patch.object(group.GroupKey, "secrets", _secrets_of_anybody))
    return patches


class _AnyNumber(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def _secrets_of_anybody(*_: object) -> group.GroupSecrets:
    return group.GroupSecrets(_AnyNumber(), 0)


def _log_seed() -> tuple[SimulatedDisk, bytes]:
    disk = new_disk()
    log = open_log(disk)
    for first in range(0, len(RECORDS), 3):
        write(log, *RECORDS[first : first + 3])
    content = disk.contents(segment_path(0))[HEAD_PAGE_BYTES:]
    return disk, content.rstrip(b"\0")


_LOG, _LOG_SEED = _log_seed()
_LOG_HEAD = _LOG.contents(segment_path(0))[:HEAD_PAGE_BYTES]


def read_log(data: bytes) -> None:
    _LOG.put(segment_path(0), _LOG_HEAD + data[:PAYLOAD_BYTES].ljust(PAYLOAD_BYTES, b"\0"))
    with _without_crc():
        found = reader(_LOG)
        for logged in found.records(0):
            assert 0 <= logged.position < found.end_position <= PAYLOAD_BYTES


def _checkpoint_seed() -> bytes:
    disk = new_disk()
    head = CheckpointRecord(FORMAT_VERSION, MANAGER_ID, 0, 0, 1, 5, 2, 3, 1.7e9)
    write_checkpoint(disk, head, [*RECORDS[5:8], Run(1, 2, b"\1"), CountsRecord({4: 2})])
    return disk.contents(PATH)


def read_checkpoint_file(data: bytes) -> None:
    disk = SimulatedDisk(Random(1))
    disk.put(PATH, data)
    with _without_crc():
        read_checkpoint(disk)


def _run_seed() -> bytes:
    disk = new_disk()
    disk.make_folder(RUNS)
    store = RunStore(disk, MANAGER_ID)
    entries = [Entry(key, 1, 0, -1, Message(b"body" * key, properties={"k": key})) for key in range(1, 4)]
    stored = store.write(entries, body_bytes=100, force=True)
    return disk.contents(run_path(stored.number))


def read_run(data: bytes) -> None:
    disk = new_disk()
    disk.make_folder(RUNS)
    disk.put(run_path(1), data)
    with _without_crc():
        RunStore(disk, MANAGER_ID).read(1)


def read_bodies(data: bytes) -> None:
    with _without_crc():
        decode_bodies("bodies", memoryview(data), MANAGER_ID, 1)


TARGETS = (
    Target("log", read_log, (_LOG_SEED,), 1000),
    Target("checkpoint", read_checkpoint_file, (_checkpoint_seed(),), 3000),
    Target("run", read_run, (_run_seed(),), 3000),
    Target("bodies", read_bodies, (b"".join(map(bytes, encode_bodies(MANAGER_ID, 1, [b"one", b"two" * 9]))),), 6000),
)
