# SPDX-License-Identifier: Apache-2.0
"""When a disk is lost: backup while running, restore to a point in time, rebuild from a linear log.

A linear log keeps every message that ever arrived, so together with the
state it started from (a backup, or the empty queue manager of its first
day) it can rebuild every queue as it was at any time since.
"""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from entrepot.clock import SystemClock
from entrepot.disk import SystemDisk
from entrepot.engine import backup_files
from entrepot.engine.folder import make_folder, own, read_settings, settings_text, write_settings
from entrepot.engine.host import Host
from entrepot.engine.log_times import ClockStep, LogTimes, read_times
from entrepot.engine.recovery_log.checkpoint import PATH as CHECKPOINT
from entrepot.engine.recovery_log.checkpoint import read_checkpoint
from entrepot.engine.recovery_log.record import Run
from entrepot.engine.recovery_log.run import FOLDER as RUNS
from entrepot.engine.recovery_log.run import bodies_path, run_path
from entrepot.engine.recovery_log.segment import FOLDER as LOG
from entrepot.engine.recovery_log.segment import cut_log, segment_numbers, segment_path
from entrepot.engine.restart import Restarted, restart, write_first_checkpoint
from entrepot.engine.settings import ManagerSettings
from entrepot.errors import InvalidArgument, LogIncomplete, LogNotLinear, ObjectNotFound

_REBUILDING = "rebuilding"


class BackupReport(msgspec.Struct, frozen=True):
    destination: str
    files: int
    copied_bytes: int
    log_position: int
    """Everything that was durable at this position of the log is in the backup."""


class RestoreReport(msgspec.Struct, frozen=True):
    destination: str
    log_position: int
    """Everything before this position of the log counts, nothing behind it."""
    last_group: str
    """What the clock said when the last group that counts was written, in ISO 8601; empty when none was replayed."""
    messages: int
    replayed_records: int
    verified: bool
    """Whether every file of the backup is as its list says; a backup of an earlier release has no list."""
    clock_went_back: list[ClockStep] = []
    """Where the log shows that the clock was set back."""
    is_ambiguous: bool = False
    """Whether the time that was asked for names more than one place in the log, or one before the backup."""
    warnings: list[str] = []


def backup(host: Host, destination: Path) -> BackupReport:
    """Copy a running queue manager; everything acknowledged before the call is in the copy.

    Puts and gets go on meanwhile; checkpoints wait. A backup that was
    interrupted may be begun again in the same folder.

    Raises:
        QueueManagerExists: The destination is not empty. Nothing was copied.
        InvalidArgument: The destination lies in the queue manager's own folder.
    """
    if destination.resolve().is_relative_to(host.path.resolve()):
        raise InvalidArgument("destination", str(destination), "a folder outside of the queue manager's own")
    backup_files.require_unused(destination)
    host.checkpoint()
    lock = backup_files.begin(destination)
    try:
        with host.without_checkpoints() as position:
            _copy_state(host, destination, position)
        for name in backup_files.file_names(host.path):
            if name.partition("/")[0] not in (CHECKPOINT, LOG, RUNS, "manager.json"):
                backup_files.copy(host.path / name, destination / name)
        settings = settings_text(host.settings)
        copied = backup_files.write_manifest(destination, position, host.manager.clock.now(), settings)
        _force_all(destination)
        # Last: only now is this a backup.
        write_settings(SystemDisk(destination), host.settings)
        files = len(backup_files.file_names(destination))
        backup_files.finish(destination)
    finally:
        os.close(lock)
    return BackupReport(str(destination), files, copied, position)


def _copy_state(host: Host, destination: Path, position: int) -> None:
    source = SystemDisk(host.path)
    head, records = read_checkpoint(source)
    names = [CHECKPOINT, *(run_path(record.number) for record in records if isinstance(record, Run))]
    with host.lock:
        # Those that a persistent message needs stay until the next checkpoint.
        bodies = [file.number for file in host.manager.store.bodies.files.values() if file.persistent]
    names += [bodies_path(number) for number in bodies]
    payload_bytes = host.settings.log.payload_bytes
    numbers = range(head.start_position // payload_bytes, position // payload_bytes + 1)
    names += [segment_path(number) for number in numbers if source.exists(segment_path(number))]
    for name in names:
        backup_files.copy(host.path / name, destination / name)
    # The log went on while it was copied, so the end of the copy may have holes.
    _cut(SystemDisk(destination), host.settings, position)


def restore(
    backup: Path,
    destination: Path,
    *,
    log_from: Path | None = None,
    until_time: float | None = None,
    until_position: int | None = None,
) -> RestoreReport:
    """Make a queue manager out of a backup, as it was then or, with later log, as it was until a time.

    `log_from` is the folder of the queue manager that was backed up, or one
    with its archived segments. Of the log everything counts up to the last
    group that the clock stamped with `until_time` (in seconds since 1970) or
    earlier: a clock that ran ahead for a while cuts nothing off. Where the
    clock went back the report says so, and `until_position` names a place
    exactly. A restore that was interrupted may be begun again.

    Raises:
        QueueManagerExists: The destination is not empty. Nothing was changed.
        BackupDamaged: A file of the backup is missing or not what was backed up.
        LogIncomplete: Segments between backup and log are missing.
        LogDamaged, RunDamaged, CheckpointDamaged: What was copied is not sound; there is no queue manager then.
    """
    settings = read_settings(backup)
    manifest = backup_files.read_manifest(backup)
    lock = backup_files.begin(destination)
    try:
        backup_files.copy_verified(backup, destination, manifest)
        if log_from is not None:
            _add_later_log(settings, destination, log_from)
        disk = SystemDisk(destination)
        times = read_times(disk, settings)
        if manifest is not None and times.end_position < manifest.log_position:
            raise LogIncomplete(str(log_from or backup), manifest.log_position)
        if until_position is None:
            until_position = times.cut_for(until_time)
        elif not times.applied_position <= until_position <= times.end_position:
            raise InvalidArgument(
                "to_position", str(until_position), f"a position from {times.applied_position} to {times.end_position}"
            )
        restarted = restart(disk, SystemClock(), settings, until_position=until_position)
        end = restarted.manager.log.forced_position
        # What lies behind the end must not come back at the next start.
        _cut(disk, settings, end)
        restarted.manager.log.close()
        _force_all(destination)
        # Last: only now is this a queue manager.
        write_settings(disk, settings)
        backup_files.finish(destination)
    finally:
        os.close(lock)
    ambiguity = times.ambiguity(until_time) if until_time is not None else []
    return RestoreReport(
        str(destination),
        end,
        _iso(times.stamp_before(end)),
        sum(queue.depth for queue in restarted.manager.objects.queues.values()),
        restarted.replayed_records,
        manifest is not None,
        times.steps_back,
        bool(ambiguity),
        ambiguity + _warnings(times, verified=manifest is not None),
    )


def _warnings(times: LogTimes, *, verified: bool) -> list[str]:
    warnings = [
        f"The clock went back by {step.before - step.after:,.3f} s, to {_iso(step.after)}, "
        f"at position {step.position} of the log."
        for step in times.steps_back
    ]
    if not verified:
        warnings.append("The backup has no list of its files (backup.json), so a missing file would not be noticed.")
    return warnings


def _iso(time: float | None) -> str:
    return "" if time is None else datetime.fromtimestamp(time, UTC).isoformat()


def _add_later_log(settings: ManagerSettings, destination: Path, log_from: Path) -> None:
    if settings.log.kind != "linear":
        raise LogNotLinear(str(log_from), "a restore beyond the backup")
    head, _ = read_checkpoint(SystemDisk(destination))
    needed = head.start_position // settings.log.payload_bytes
    folder = log_from / LOG if (log_from / LOG).is_dir() else log_from
    for file in sorted(folder.glob("segment-*.log")):
        if int(file.stem.removeprefix("segment-")) >= needed:
            backup_files.copy(file, destination / LOG / file.name)
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
    for name in (rebuilding, rebuilding / LOG, rebuilding / RUNS):
        name.mkdir(mode=0o700)
    disk = SystemDisk(rebuilding)
    run_next = max((int(file.stem) for file in (path / RUNS).glob("*.*")), default=0) + 1
    if backup is None:
        write_first_checkpoint(disk, SystemClock(), settings, run_next=run_next)
    else:
        backup_files.copy(backup / CHECKPOINT, rebuilding / CHECKPOINT)
        for file in (backup / RUNS).iterdir():
            backup_files.copy(file, rebuilding / RUNS / file.name)
    for file in (path / LOG).glob("segment-*.log"):
        # Links suffice: rebuilding only reads the log.
        (rebuilding / LOG / file.name).hardlink_to(file)
    restarted = restart(disk, SystemClock(), settings, run_next=run_next)
    # The first checkpoint of a restart still needs the log it has read; a second one does not.
    restarted.checkpoints.take()
    return restarted


def _replace_state(path: Path, rebuilding: Path) -> None:
    """Put the rebuilt files beside the old ones, then switch to them by the checkpoint.

    A crash in between leaves the old state with some files too many.
    """
    for file in (rebuilding / RUNS).iterdir():
        file.rename(path / RUNS / file.name)
    _force_folder(path / RUNS)
    for file in (rebuilding / LOG).glob("segment-*.log"):
        # A log of an earlier format goes on in a new segment, on which the rebuilt checkpoint relies.
        if not (path / LOG / file.name).exists():
            file.rename(path / LOG / file.name)
    _force_folder(path / LOG)
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
    make_folder(destination)
    moved = []
    for number in segment_numbers(SystemDisk(path)):
        if number < needed:
            file = path / segment_path(number)
            backup_files.copy(file, destination / file.name)
            moved.append(file)
    _force_all(destination)
    for file in moved:
        file.unlink()
    _force_folder(path / LOG)
    return [file.name for file in moved]


def _cut(disk: SystemDisk, settings: ManagerSettings, position: int) -> None:
    cut_log(disk, settings.log.segment_bytes, position)


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
