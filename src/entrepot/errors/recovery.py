# SPDX-License-Identifier: Apache-2.0
"""The disk, the recovery log, the checkpoint."""

from __future__ import annotations

from entrepot.errors.root import EntrepotError


class RecoveryError(EntrepotError):
    code = "R00"


class LogFull(RecoveryError):
    used_bytes: int
    code = "R01"
    reason = 2102
    retryable = True
    text = "the recovery log has no room beyond its {used_bytes} bytes in use"
    hint = "Free disk space; gets and back-outs go on, and puts again once a checkpoint has succeeded."


class LogDamaged(RecoveryError):
    segment: str
    offset: int
    problem: str
    code = "R02"
    reason = 2101
    text = "{segment}, offset {offset}: {problem}"
    hint = "Valid records follow the damage, so nothing was cut. Restore a backup with entrepot qm restore."


class CheckpointDamaged(RecoveryError):
    file: str
    offset: int
    problem: str
    code = "R03"
    reason = 2101
    text = "{file}, offset {offset}: {problem}"
    hint = "Rebuild from a linear log with entrepot qm recover, or restore a backup with entrepot qm restore."


class RunDamaged(RecoveryError):
    file: str
    offset: int
    problem: str
    code = "R04"
    reason = 2101
    text = "{file}, offset {offset}: {problem}"
    hint = "Rebuild its queue from a linear log with entrepot qm recover, or restore a backup with entrepot qm restore."


class FormatUnsupported(RecoveryError):
    file: str
    version: int
    supported: int
    code = "R05"
    text = "{file} has format version {version}, this Entrepot reads {supported}"
    hint = "Open it with the Entrepot that wrote it."


class DiskFull(RecoveryError):
    path: str
    code = "R06"
    reason = 2102
    retryable = True
    text = "no space left on the disk of {path}"
    hint = "Free disk space and do it again; no restart is needed."


class DiskFailed(RecoveryError):
    path: str
    problem: str
    code = "R07"
    reason = 2101
    outcome = "unknown"
    text = "the disk failed at {path}: {problem}"
    hint = (
        "The queue manager has stopped, because what the disk holds is no longer known. Mend the disk and start again."
    )


class QueueManagerFailed(RecoveryError):
    because: str
    code = "R08"
    reason = 2162
    text = "the queue manager has stopped after a failure: {because}"
    hint = "Start it again; committed work is recovered from the log."


class QueueManagerStopped(RecoveryError):
    name: str
    code = "R15"
    reason = 2162
    text = "the queue manager {name} has been stopped"
    hint = "Connect again to start it; committed work is safe."


class QueueManagerNotFound(RecoveryError):
    path: str
    problem: str
    code = "R09"
    reason = 2058
    text = "no queue manager at {path}: {problem}"
    hint = "Create one with entrepot qm create {path}."


class QueueManagerExists(RecoveryError):
    path: str
    code = "R10"
    text = "{path} is not empty"
    hint = "Choose a new or empty folder; nothing was changed."


class QueueManagerInUse(RecoveryError):
    path: str
    owner: str
    code = "R11"
    retryable = True
    text = "the queue manager at {path} is running already ({owner})"
    hint = "Stop that process first: one process at a time owns the data."


class UnsafeFolder(RecoveryError):
    path: str
    problem: str
    code = "R12"
    text = "{path} is not safe to use: {problem}"
    hint = "Only its owner may read a queue manager's folder (chmod 700), and it holds no symbolic link."


class LogNotLinear(RecoveryError):
    path: str
    what_for: str
    code = "R13"
    text = "{path} has a circular log, which cannot serve {what_for}"
    hint = "Create the queue manager with --log linear, or restore a backup."


class LogIncomplete(RecoveryError):
    path: str
    position: int
    code = "R14"
    text = "the log at {path} no longer reaches back to position {position}"
    hint = "Put the archived segments back, or start from a later backup."


class BackupDamaged(RecoveryError):
    file: str
    problem: str
    code = "R16"
    text = "{file} is not what was backed up: {problem}"
    hint = "Restore another backup. A folder in which a queue manager was started is no longer a backup."


class FolderNotWritable(RecoveryError):
    path: str
    problem: str
    code = "R17"
    reason = 2101
    text = "{path} cannot hold a queue manager: {problem}"
    hint = "Choose a folder on a local file system in which this user may make files."
