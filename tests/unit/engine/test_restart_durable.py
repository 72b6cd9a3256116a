# SPDX-License-Identifier: Apache-2.0
"""What a restart has read, it has forced: nobody is shown what a power cut could still take."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from entrepot.disk import SystemDisk
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import restart
from entrepot.message import Message
from entrepot.testing import Fault, PlannedFaults, VirtualClock
from open_files import open_files

from .simulated import Simulated

SEEDS = pytest.mark.parametrize("seed", range(6))
LINEAR = LogSettings(kind="linear", segment_bytes=64 * 1024, primary=3, secondary=2)
LOG = LogSettings(segment_bytes=64 * 1024, primary=2, secondary=1)
OVER_A_BORDER = [b"a" * 40_000, b"b" * 40_000]
"""The second lies in two segments."""


def write_unforced(world: Simulated, body: bytes) -> None:
    world.manager.put("Q", Message(body), persistent=True)
    group = world.manager.group_commit.begin()
    assert group is not None
    world.manager.log.write_group(group, force=False)


@SEEDS
def test_what_was_written_and_not_forced_is_safe_once_a_restart_has_shown_it(seed: int) -> None:
    world = Simulated(seed)
    world.put(OVER_A_BORDER[0])
    write_unforced(world, OVER_A_BORDER[1])
    world.kill_and_start()
    assert world.bodies() == OVER_A_BORDER
    world.power_cut_and_start()
    assert world.bodies() == OVER_A_BORDER


@SEEDS
def test_what_a_failed_force_gave_up_is_safe_once_a_restart_has_shown_it(seed: int) -> None:
    """The kernel holds it as if it were written, so to force it again would not do."""
    world = Simulated(seed)
    world.put(OVER_A_BORDER[0])
    world.manager.put("Q", Message(OVER_A_BORDER[1]), persistent=True)
    world.disk.faults = PlannedFaults(
        Fault(at=2, error_number=errno.EIO, operations=frozenset({"force"}), for_ever=True)
    )
    world.manager.force()
    assert world.manager.failure is not None
    world.disk.faults = None
    world.kill_and_start()
    assert world.bodies() == OVER_A_BORDER
    world.power_cut_and_start()
    assert world.bodies() == OVER_A_BORDER


class KilledBeforeForceOf:
    """The process dies when it wants to force a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def before(self, operation: str, path: str, size: int) -> int | None:
        if (operation, path) == ("force_folder", self._folder):
            raise KeyboardInterrupt
        return None


@SEEDS
@pytest.mark.parametrize("log", [LINEAR, LOG], ids=["linear", "circular"])
def test_a_segment_whose_name_was_not_forced_yet_keeps_what_later_starts_write(seed: int, log: LogSettings) -> None:
    world = Simulated(seed, log)
    world.put(b"a" * 50_000)
    world.manager.put("Q", Message(b"b" * 30_000), persistent=True)
    world.disk.faults = KilledBeforeForceOf("log")
    with pytest.raises(KeyboardInterrupt):
        world.manager.force()
    world.disk.faults = None
    world.kill_and_start()
    for _ in range(2):
        world.put(b"c" * 20_000)
    world.power_cut_and_start()
    assert [body[:1] for body in world.bodies()] == [b"a", b"c", b"c"]


def test_a_restart_leaves_no_file_open_but_those_of_the_log_that_it_writes(tmp_path: Path) -> None:
    settings = create(tmp_path / "QM", log=LOG)
    disk = SystemDisk(tmp_path / "QM")
    for body in (b"first", b"second"):
        manager = restart(disk, VirtualClock(), settings).manager
        manager.put("SYSTEM.DEAD.LETTER.QUEUE", Message(body), persistent=True)
        manager.group_commit.flush()  # so that the next start has something to write again
        manager.log.close()
        assert open_files(tmp_path) == []
