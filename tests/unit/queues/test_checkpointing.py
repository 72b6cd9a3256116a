# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

import pytest

from entrepot.errors import DiskFull
from entrepot.recovery_log.bodies import BodyFile
from entrepot.recovery_log.run import bodies_path
from entrepot.testing import Fault, PlannedFaults

from .simulated import Simulated


def test_runs_that_a_failed_checkpoint_did_not_remove_go_with_the_next() -> None:
    """The old checkpoint names them, so they must stay with it; and they must not stay for ever."""
    world = Simulated()
    world.put(b"old")
    for _ in range(3):
        world.restarted.checkpoints.take()
    before = world.disk.names("runs")
    assert before != []
    world.manager.get("Q")
    world.manager.force()
    world.disk.faults = PlannedFaults(Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"write"})))
    with pytest.raises(DiskFull):
        world.restarted.checkpoints.take()
    assert world.disk.names("runs") == before
    copy = world.disk.copy()
    world.restarted.checkpoints.take()
    world.restarted.checkpoints.take()
    assert world.disk.names("runs") == []
    # A kill right after the failed checkpoint finds the run that the old one names.
    world.disk = copy
    world.kill_and_start()
    assert world.bodies() == []


def test_files_of_bodies_that_a_failed_checkpoint_did_not_remove_go_with_the_next() -> None:
    world = Simulated()
    file = BodyFile(77, durable=True)
    world.disk.put(bodies_path(77), b"")
    world.manager.useless_bodies = [file]
    world.disk.faults = PlannedFaults(Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"write"})))
    with pytest.raises(DiskFull):
        world.restarted.checkpoints.take()
    assert world.disk.exists(bodies_path(77))
    world.restarted.checkpoints.take()
    assert not world.disk.exists(bodies_path(77))
