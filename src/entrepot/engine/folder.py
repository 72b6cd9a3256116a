# SPDX-License-Identifier: Apache-2.0
"""A queue manager's folder on the file system: made, checked, and owned by one process at a time.

    manager.json    name, id, log settings; written once
    lock            held by the process that runs the queue manager
    checkpoint      what restart starts from; checkpoint.new is where the next one is written
    log/  runs/     see docs/RECOVERY_LOG.md

Names of queues never become names of files.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import msgspec

from entrepot.clock import Clock, SystemClock
from entrepot.disk import NO_SPACE, Disk, SystemDisk, lock_folder, unsafe
from entrepot.engine.definitions import require_name
from entrepot.engine.recovery_log.record import FORMAT_VERSION, require_format
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import lay_out
from entrepot.engine.settings import ManagerSettings
from entrepot.errors import (
    DiskFailed,
    DiskFull,
    FolderNotWritable,
    InvalidSetting,
    QueueManagerExists,
    QueueManagerInUse,
    QueueManagerNotFound,
    RecoveryError,
    UnsafeFolder,
)

SETTINGS = "manager.json"
_NOT_WRITABLE = {
    errno.EACCES: "permission denied",
    errno.EPERM: "its file system does not permit it",
    errno.EROFS: "its file system is read-only",
    errno.ENOTDIR: "a file stands where a folder should be",
    errno.EEXIST: "a file stands where a folder should be",
    errno.ENAMETOOLONG: "the path is too long",
    errno.ELOOP: "its path has too many symbolic links",
    errno.EOPNOTSUPP: "its file system has no such files",
    errno.EINVAL: "its file system has no such files",
}
"""Why files cannot be made or changed, though the disk is sound."""


def create(
    path: Path | str,
    *,
    name: str | None = None,
    log: LogSettings | None = None,
    disk: Disk | None = None,
    clock: Clock | None = None,
) -> ManagerSettings:
    """Make a new queue manager in a new or empty folder; its name is the folder's unless given.

    Raises:
        QueueManagerExists: The folder is not empty. Nothing was changed.
        InvalidName, InvalidSetting: Nothing was changed.
        FolderNotWritable: No files can be made there; the text says why. What was begun is left.
        DiskFull: What was begun is left, and is no queue manager.
    """
    folder = Path(path)
    settings = ManagerSettings(
        name=require_name("queue manager", name or folder.resolve().name),
        manager_id=os.urandom(12),
        format_version=FORMAT_VERSION,
        created=(clock or SystemClock()).now(),
        log=(log or LogSettings()).validated(),
    )
    try:
        make_folder(folder)
        if any(folder.iterdir()):
            raise QueueManagerExists(str(folder))
        folder.chmod(0o700)
        disk = disk or SystemDisk(folder)
        lay_out(disk, clock or SystemClock(), settings)
        # Last, because its presence says that there is a queue manager.
        write_settings(disk, settings)
    except OSError as error:
        raise as_recovery_error(folder, error) from error
    return settings


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can read, and those above it, so that a power cut does not take them again."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in made:
        # Names can be made in some folders that cannot be read, and then not be forced.
        with contextlib.suppress(PermissionError):
            SystemDisk(path.parent).force_folder(".")


def write_settings(disk: Disk, settings: ManagerSettings) -> None:
    file = disk.open(SETTINGS + ".new", create=True)
    try:
        file.write(0, [settings_text(settings)])
        file.force()
    finally:
        file.close()
    disk.rename(SETTINGS + ".new", SETTINGS)
    disk.force_folder(".")


def settings_text(settings: ManagerSettings) -> bytes:
    """What `manager.json` contains."""
    return msgspec.json.format(msgspec.json.encode(settings))


def read_settings(path: Path | str) -> ManagerSettings:
    """What was settled at creation.

    Raises:
        QueueManagerNotFound: There is none, or its folder cannot be read.
    """
    file = Path(path) / SETTINGS
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        raise QueueManagerNotFound(str(path), f"{SETTINGS} is missing") from None
    except OSError as error:
        raise QueueManagerNotFound(str(path), error.strerror or str(error)) from error
    try:
        version = msgspec.json.decode(text, type=dict[str, Any]).get("format_version")
        require_format(str(file), int(version or 0))
        settings = msgspec.json.decode(text, type=ManagerSettings)
        settings.log.validated()
        return settings
    except InvalidSetting as error:
        raise QueueManagerNotFound(str(path), f"{SETTINGS} is damaged: {error.what}") from error
    except (msgspec.MsgspecError, base64.binascii.Error, TypeError, ValueError) as error:  # type: ignore[attr-defined]
        raise QueueManagerNotFound(str(path), f"{SETTINGS} cannot be read: {error}") from error


def own(path: Path | str) -> int:
    """Take the folder for this process; the descriptor keeps it until it is closed.

    Raises:
        UnsafeFolder, QueueManagerInUse, QueueManagerNotFound
    """
    folder = Path(path)
    try:
        problem = unsafe(folder)
        if problem is not None:
            raise UnsafeFolder(str(folder), problem)
        descriptor = lock_folder(folder)
    except FileNotFoundError as error:
        raise QueueManagerNotFound(str(path), error.strerror or str(error)) from error
    except OSError as error:
        raise as_recovery_error(folder, error) from error
    if descriptor is None:
        owner = (folder / "lock").read_text() or "another process"
        raise QueueManagerInUse(str(folder), owner)
    return descriptor


def as_recovery_error(folder: Path, error: OSError) -> RecoveryError:
    """What an error of the operating system means for a queue manager in a folder."""
    if error.errno in NO_SPACE:
        return DiskFull(str(folder))
    if error.errno == errno.ENOENT and not folder.exists():
        parent = next((path for path in folder.resolve().parents if path.is_dir()), Path("/"))
        return FolderNotWritable(str(folder), f"no files can be made in {parent}")
    problem = _NOT_WRITABLE.get(error.errno or 0)
    if problem is not None:
        return FolderNotWritable(str(folder), problem)
    return DiskFailed(str(folder), str(error))
