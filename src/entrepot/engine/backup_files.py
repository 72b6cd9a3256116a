# SPDX-License-Identifier: Apache-2.0
"""The files of a backup: which ones there are, and the proof that they are whole.

A backup has every file of the queue manager's folder except those that
`LEFT_OUT` names, so a new kind of file is backed up and restored unless it
is entered there. `backup.json` lists each file with its size and CRC-32C:

    {"version": 1, "log_position": 4711, "time": 1793000000.0, "files": {"users.json": [412, 305419896], ...}}

A folder that is being made, by a backup or a restore, has the file
`unfinished` and no `manager.json`; the next attempt may begin it again.
"""

from __future__ import annotations

import os
import shutil
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from crc32c import crc32c

from entrepot.disk import SystemDisk, lock_folder
from entrepot.engine.folder import SETTINGS, make_folder
from entrepot.engine.recovery_log.run import FOLDER as RUNS
from entrepot.engine.recovery_log.segment import FOLDER as LOG
from entrepot.errors import BackupDamaged, QueueManagerExists, QueueManagerInUse

MANIFEST = "backup.json"
UNFINISHED = "unfinished"
LEFT_OUT = (
    "lock", "socket", "server.log", "audit.jsonl", "audit-*.jsonl", "audit-head.json", "audit-mark.json",
    "*.new", "checkpoint.previous", "rebuilding", UNFINISHED, MANIFEST,
)  # fmt: skip
"""Names of what belongs to one folder or one process, and is not part of a queue manager's state.

The audit log stays with the folder whose use it records.
"""
_VERSION = 1
_CHUNK_BYTES = 1024 * 1024


class Manifest(msgspec.Struct, frozen=True):
    """What a backup consists of."""

    version: int
    log_position: int
    """Everything before this position of the log is in the backup."""
    time: float
    files: dict[str, tuple[int, int]]
    """Size and CRC-32C of each file."""


def file_names(folder: Path) -> list[str]:
    """Every file of a queue manager's or a backup's folder that a copy of it needs."""
    return [
        str(file.relative_to(folder))
        for top in sorted(folder.iterdir())
        if not any(fnmatchcase(top.name.removeprefix("."), pattern) for pattern in LEFT_OUT)
        for file in ([top] if not top.is_dir() else sorted(top.rglob("*")))
        if file.is_file() and not file.is_symlink()
    ]


def begin(destination: Path) -> int:
    """Make the folder of a backup or a restore, or begin an unfinished one again; a descriptor that holds its lock.

    Raises:
        QueueManagerExists: The folder has something else in it. Nothing was changed.
        QueueManagerInUse: Another process is making it.
    """
    require_unused(destination)
    make_folder(destination)
    destination.chmod(0o700)
    descriptor = lock_folder(destination)
    if descriptor is None:
        raise QueueManagerInUse(str(destination), (destination / "lock").read_text() or "another process")
    try:
        for entry in destination.iterdir():
            if entry.name in ("lock", UNFINISHED):
                continue
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        (destination / UNFINISHED).touch(mode=0o600)
        for name in (LOG, RUNS):
            (destination / name).mkdir(mode=0o700)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def require_unused(destination: Path) -> None:
    """Refuse a folder that has anything in it but an unfinished backup or restore."""
    if not destination.exists():
        return
    names = {entry.name for entry in destination.iterdir()} if destination.is_dir() else {SETTINGS}
    if names and (UNFINISHED not in names or SETTINGS in names):
        raise QueueManagerExists(str(destination))


def finish(destination: Path) -> None:
    """The folder is whole: `manager.json` is there."""
    (destination / UNFINISHED).unlink()
    SystemDisk(destination).force_folder(".")


def copy(source: Path, target: Path) -> tuple[int, int]:
    """Copy a file so that only its owner can read the copy; its size and CRC-32C."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    size = crc = 0
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with source.open("rb") as reading, os.fdopen(descriptor, "wb") as writing:
        os.fchmod(writing.fileno(), 0o600)
        while chunk := reading.read(_CHUNK_BYTES):
            writing.write(chunk)
            size += len(chunk)
            crc = crc32c(chunk, crc)
    return size, crc


def write_manifest(destination: Path, log_position: int, time: float, settings: bytes) -> int:
    """List what has been copied, and `settings`, which will be written last; the number of bytes listed."""
    files = {name: _measure(destination / name) for name in file_names(destination)}
    files[SETTINGS] = (len(settings), crc32c(settings))
    manifest = Manifest(_VERSION, log_position, time, files)
    path = destination / MANIFEST
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.encode(manifest))
    return sum(size for size, _ in files.values())


def read_manifest(backup: Path) -> Manifest | None:
    """What a backup says it consists of; None for one that was made before there were manifests.

    Raises:
        BackupDamaged: The list cannot be read.
    """
    try:
        manifest = msgspec.json.decode((backup / MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, OSError) as error:
        raise BackupDamaged(str(backup / MANIFEST), f"it cannot be read: {error}") from error
    if manifest.version != _VERSION:
        raise BackupDamaged(str(backup / MANIFEST), f"its version is {manifest.version}, not {_VERSION}")
    return manifest


def copy_verified(backup: Path, destination: Path, manifest: Manifest | None) -> None:
    """Copy everything that a backup has, except `manager.json`, which the caller writes last.

    Raises:
        BackupDamaged: A file is missing, or is not what was backed up.
    """
    expected = dict.fromkeys(file_names(backup)) if manifest is None else manifest.files
    for name, proof in expected.items():
        try:
            found = _measure(backup / name) if name == SETTINGS else copy(backup / name, destination / name)
        except FileNotFoundError:
            raise BackupDamaged(str(backup / name), "it is missing") from None
        if proof is not None and found != proof:
            problem = f"it has {found[0]} bytes and CRC {found[1]:08x}, not {proof[0]} and {proof[1]:08x}"
            raise BackupDamaged(str(backup / name), problem)


def _measure(path: Path) -> tuple[int, int]:
    size = crc = 0
    with path.open("rb") as reading:
        while chunk := reading.read(_CHUNK_BYTES):
            size += len(chunk)
            crc = crc32c(chunk, crc)
    return size, crc
