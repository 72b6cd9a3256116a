# SPDX-License-Identifier: Apache-2.0
"""When a disk is lost: backup while running, restore to a point in time, rebuild from a linear log.

A linear log keeps every message that ever arrived, so together with the
state it started from (a backup, or the empty queue manager of its first
day) it can rebuild every queue as it was at any time since.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec

from entrepot.clock import SystemClock
from entrepot.disk import SystemDisk
from entrepot.errors import LogIncomplete, LogNotLinear, ObjectNotFound, QueueManagerExists
from entrepot.queues.folder import own, read_settings, write_settings
from entrepot.queues.host import Host
from entrepot.queues.restart import Restarted, restart, write_first_checkpoint
from entrepot.queues.settings import ManagerSettings
from entrepot.recovery_log.checkpoint import PATH as CHECKPOINT
from entrepot.recovery_log.checkpoint import read_checkpoint
from entrepot.recovery_log.record import Run
from entrepot.recovery_log.run import FOLDER as RUNS
from entrepot.recovery_log.run import run_path
from entrepot.recovery_log.segment import FOLDER as LOG
from entrepot.recovery_log.segment import HEAD_PAGE_BYTES, segment_numbers, segment_path

_REBUILDING = "rebuilding"
_PRIVATE_FILES = ("users.json", "credentials.json", "resources.json")
"""Who may come in; without them a restored queue manager would let nobody in. The audit log stays where it is."""


class BackupReport(msgspec.Struct, frozen=True):
    destination: str
    files: int
    copied_bytes: int
    log_position: int
    """Everything that was durable at this position of the log is in the backup."""


class RestoreReport(msgspec.Struct, frozen=True):
    destination: str
    log_position: int
    messages: int
    replayed_records: int


def backup(host: Host, destination: Path) -> BackupReport:
    """Copy a running queue manager; everything acknowledged before the call is in the copy.

    Puts and gets go on meanwhile; checkpoints wait.

    Raises:
        QueueManagerExists: The destination is not empty. Nothing was copied.
    """
    _require_empty(destination)
    host.checkpoint()
    with host.without_checkpoints() as position:
        source = SystemDisk(host.path)
        target = _new_folder(destination)
        head, records = read_checkpoint(source)
        names = [CHECKPOINT, *(run_path(record.number) for record in records if isinstance(record, Run))]
        copied = sum(_copy(host.path / name, destination / name) for name in names)
        payload_bytes = host.settings.log.payload_bytes
        numbers = range(head.start_position // payload_bytes, position // payload_bytes + 1)
        segments = [number for number in numbers if source.exists(segment_path(number))]
        for number in segments:
            copied += _copy(host.path / segment_path(number), destination / segment_path(number))
        for name in _PRIVATE_FILES:
            if (host.path / name).exists():
                copied += _copy(host.path / name, destination / name)
                (destination / name).chmod(0o600)
        # The log went on while we copied, so the end of the copy may have holes.
        _cut(target, host.settings, position)
        _force_all(destination)
        write_settings(target, host.settings)
    return BackupReport(str(destination), len(names) + len(segments) + 1, copied, position)


def restore(
    backup: Path, destination: Path, *, log_from: Path | None = None, until_time: float | None = None
) -> RestoreReport:
    """Make a queue manager out of a backup, as it was then or, with later log, as it was until a time.

    `log_from` is the folder of the queue manager that was backed up, or one
    with its archived segments. `until_time` is in seconds since 1970; the
    last group written by then is the last that counts.

    Raises:
        QueueManagerExists: The destination is not empty. Nothing was changed.
        LogIncomplete: Segments between backup and log are missing.
        LogDamaged, RunDamaged, CheckpointDamaged: What was copied is not sound; there is no queue manager then.
    """
    _require_empty(destination)
    settings = read_settings(backup)
    disk = _new_folder(destination)
    _copy(backup / CHECKPOINT, destination / CHECKPOINT)
    for folder in (RUNS, LOG):
        for file in sorted((backup / folder).iterdir()):
            _copy(file, destination / folder / file.name)
    if log_from is not None:
        _add_later_log(settings, destination, log_from)
    restarted = restart(disk, SystemClock(), settings, until_time=until_time)
    # What lies behind the end must not come back at the next start.
    _cut(disk, settings, restarted.manager.log.forced_position)
    restarted.manager.log.close()
    _force_all(destination)
    # Last: only now is this a queue manager.
    write_settings(disk, settings)
    return RestoreReport(
        str(destination),
        restarted.manager.log.forced_position,
        sum(queue.depth for queue in restarted.manager.objects.queues.values()),
        restarted.replayed_records,
    )


def _add_later_log(settings: ManagerSettings, destination: Path, log_from: Path) -> None:
    if settings.log.kind != "linear":
        raise LogNotLinear(str(log_from), "a restore beyond the backup")
    head, _ = read_checkpoint(SystemDisk(destination))
    needed = head.start_position // settings.log.payload_bytes
    folder = log_from / LOG if (log_from / LOG).is_dir() else log_from
    for file in sorted(folder.glob("segment-*.log")):
        if int(file.stem.removeprefix("segment-")) >= needed:
            _copy(file, destination / LOG / file.name)
    numbers = segment_numbers(SystemDisk(destination))
    missing = sorted(set(range(needed, max(numbers, default=needed) + 1)) - set(numbers))
    if missing:
        raise LogIncomplete(str(log_from), missing[0] * settings.log.payload_bytes)


def recover_queue(path: Path, queue: str, *, backup: Path | None = None) -> int:
    """Rebuild a queue whose files are damaged or lost from the linear log; how many messages it has then.

    The queue manager must be stopped. Reading the log is what takes the time
    and it rebuilds the other queues on the way, to the same state they are in.

    Raises:
        LogNotLinear, LogIncomplete: The log cannot tell. Nothing was changed.
        ObjectNotFound: There is no such queue at the log's end. Nothing was changed.
    """
    descriptor = own(path)
    try:
        settings = read_settings(path)
        if settings.log.kind != "linear":
            raise LogNotLinear(str(path), "media recovery")
        rebuilding = path / _REBUILDING
        shutil.rmtree(rebuilding, ignore_errors=True)
        try:
            try:
                restarted = _rebuild(path, rebuilding, settings, backup)
            except LogIncomplete as error:
                raise LogIncomplete(str(path / LOG), error.position) from error
            found = restarted.manager.objects.queues.get(queue)
            if found is None:
                raise ObjectNotFound("QLOCAL", queue)
            restarted.manager.log.close()
            _replace_state(path, rebuilding)
            return found.depth
        finally:
            shutil.rmtree(rebuilding, ignore_errors=True)
    finally:
        os.close(descriptor)


def _rebuild(path: Path, rebuilding: Path, settings: ManagerSettings, backup: Path | None) -> Restarted:
    disk = _new_folder(rebuilding)
    run_next = max((int(file.stem) for file in (path / RUNS).glob("*.*")), default=0) + 1
    if backup is None:
        write_first_checkpoint(disk, SystemClock(), settings, run_next=run_next)
    else:
        _copy(backup / CHECKPOINT, rebuilding / CHECKPOINT)
        for file in (backup / RUNS).iterdir():
            _copy(file, rebuilding / RUNS / file.name)
    for file in (path / LOG).glob("segment-*.log"):
        # Links suffice: rebuilding only reads the log.
        (rebuilding / LOG / file.name).hardlink_to(file)
    restarted = restart(disk, SystemClock(), settings, run_next=run_next)
    # The first checkpoint of a restart still needs the log it has read; a second one does not.
    restarted.checkpoints.take()
    return restarted


def _replace_state(path: Path, rebuilding: Path) -> None:
    """Put the rebuilt runs beside the old ones, then switch to them by the checkpoint.

    A crash in between leaves the old state with some files too many.
    """
    for file in (rebuilding / RUNS).iterdir():
        file.rename(path / RUNS / file.name)
    _force_folder(path / RUNS)
    (rebuilding / CHECKPOINT).rename(path / CHECKPOINT)
    _force_folder(path)


def archive(path: Path, destination: Path) -> list[str]:
    """Move the segments of a linear log that a restart no longer needs; their names.

    They are still wanted for media recovery and for a restore to a time.
    """
    settings = read_settings(path)
    if settings.log.kind != "linear":
        raise LogNotLinear(str(path), "an archive")
    head, _ = read_checkpoint(SystemDisk(path))
    needed = head.start_position // settings.log.payload_bytes
    destination.mkdir(mode=0o700, parents=True, exist_ok=True)
    moved = []
    for number in segment_numbers(SystemDisk(path)):
        if number < needed:
            file = path / segment_path(number)
            _copy(file, destination / file.name)
            moved.append(file)
    _force_all(destination)
    for file in moved:
        file.unlink()
    _force_folder(path / LOG)
    return [file.name for file in moved]


def _require_empty(destination: Path) -> None:
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise QueueManagerExists(str(destination))


def _new_folder(folder: Path) -> SystemDisk:
    for name in (folder, folder / LOG, folder / RUNS):
        name.mkdir(mode=0o700, parents=True, exist_ok=True)
    return SystemDisk(folder)


def _copy(source: Path, target: Path) -> int:
    shutil.copyfile(source, target)
    target.chmod(0o600)
    return target.stat().st_size


def _cut(disk: SystemDisk, settings: ManagerSettings, position: int) -> None:
    """Let the log end at a position: zeros behind it, and no later segment."""
    last, offset = divmod(position, settings.log.payload_bytes)
    for number in segment_numbers(disk):
        if number > last:
            disk.remove(segment_path(number))
        elif number == last:
            file = disk.open(segment_path(number))
            try:
                file.write(HEAD_PAGE_BYTES + offset, [bytes(settings.log.payload_bytes - offset)])
                file.force()
            finally:
                file.close()


def _force_all(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        else:
            _force_folder(file)
    _force_folder(folder)


def _force_folder(folder: Path) -> None:
    SystemDisk(folder).force_folder(".")
