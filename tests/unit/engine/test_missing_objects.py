# SPDX-License-Identifier: Apache-2.0
"""A queue manager of an earlier release gets the system objects of this one, if its disk lets it."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from entrepot.engine.definitions import SYNCHRONIZATION_QUEUE
from entrepot.engine.folder import create
from entrepot.engine.missing_objects import define_missing
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.recovery_log.writer import RecoveryLog
from entrepot.engine.restart import restart
from entrepot.errors import DiskFailed, LogFull
from entrepot.testing import Fault, FaultyDisk, PlannedFaults, VirtualClock
from open_files import open_files

from .simulated import Simulated


@pytest.fixture
def earlier() -> Simulated:
    """A queue manager that has only what the first release had."""
    world = Simulated()
    assert SYNCHRONIZATION_QUEUE not in world.manager.objects.queues
    return world


def test_what_was_missing_is_there_at_once_and_after_a_power_cut(earlier: Simulated) -> None:
    define_missing(earlier.manager)
    assert SYNCHRONIZATION_QUEUE in earlier.manager.objects.queues
    earlier.power_cut_and_start()
    assert SYNCHRONIZATION_QUEUE in earlier.manager.objects.queues


def test_where_nothing_is_missing_nothing_is_written(earlier: Simulated) -> None:
    define_missing(earlier.manager)
    operations = earlier.disk.operations
    define_missing(earlier.manager)
    assert earlier.disk.operations == operations


class FailingForces:
    """A disk whose forces fail once it is told so."""

    fail = False

    def before(self, operation: str, path: str, size: int) -> int | None:
        if self.fail and operation == "force":
            raise OSError(errno.EIO, "", path)
        return None


def test_a_disk_that_fails_then_ends_the_start_and_leaves_no_file_open(tmp_path: Path) -> None:
    settings = create(tmp_path / "QM", log=LogSettings(segment_bytes=64 * 1024, primary=2, secondary=1))
    faults = FailingForces()
    manager = restart(FaultyDisk(tmp_path / "QM", faults), VirtualClock(), settings).manager
    manager.force()
    assert open_files(tmp_path) != []
    faults.fail = True
    with pytest.raises(DiskFailed):
        define_missing(manager)
    assert open_files(tmp_path) == []


@pytest.mark.parametrize("full", ["disk", "log"])
def test_where_there_is_no_space_the_start_goes_on_with_a_warning(
    earlier: Simulated, full: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise LogFull(0)

    if full == "log":
        monkeypatch.setattr(RecoveryLog, "require_room", refuse)
    else:
        fault = Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"write"}))
        earlier.disk.faults = PlannedFaults(fault)
    with caplog.at_level(logging.WARNING, "entrepot"):
        define_missing(earlier.manager)
    assert ["system objects are missing" in text for text in caplog.messages] == [True]
    monkeypatch.undo()
    earlier.disk.faults = None
    define_missing(earlier.manager)
    assert SYNCHRONIZATION_QUEUE in earlier.manager.objects.queues
