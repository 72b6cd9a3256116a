# SPDX-License-Identifier: Apache-2.0
"""A process that is killed at any of its system calls: what was acknowledged is there, and nothing twice."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from entrepot.engine import group_commit
from entrepot.engine.recovery_log import writer
from entrepot.testing import KillingDisk
from recovery.workload import Script, in_process, new_manager, recovered, run_script

SCRIPT = Script(60)
# In `make test`, each in one way; `make torture` takes every point in every way.
POINTS = 120
WAYS = (0.0, 0.5, 1.0)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crash") / "base"
    new_manager(path)
    return path


def points(base: Path, tmp_path: Path) -> int:
    """How many system calls that change the disk a whole run of the script makes."""
    path = tmp_path / "dry"
    shutil.copytree(base, path)
    disk = KillingDisk(path, 0)

    def work(report: object) -> None:
        run_script(path, SCRIPT, disk)(lambda _: None)
        report(disk.count)  # type: ignore[operator]

    count, killed = in_process(work)
    assert not killed
    assert recovered(path) == SCRIPT.states[-1]
    return count


def crash(base: Path, path: Path, at: int, part: float) -> int:
    """Run the script until its `at`-th call kills it; how many steps were acknowledged."""
    shutil.copytree(base, path)
    acknowledged, killed = in_process(run_script(path, SCRIPT, KillingDisk(path, at, part=part)))
    assert killed or acknowledged == len(SCRIPT.steps)
    return acknowledged


def check(path: Path, acknowledged: int) -> None:
    """acknowledged ≤ recovered ≤ acknowledged + in flight, no duplicate, no torn unit of work."""
    allowed = SCRIPT.states[acknowledged : acknowledged + 2]
    assert recovered(path) in allowed


def crash_everywhere(base: Path, tmp_path: Path, kill_points: list[tuple[int, float]]) -> None:
    for at, part in kill_points:
        path = tmp_path / f"at-{at}-{part}"
        acknowledged = crash(base, path, at, part)
        check(path, acknowledged)
        # The second recovery finds what the first one left.
        check(path, acknowledged)
        shutil.rmtree(path)


def spread(total: int, count: int) -> list[int]:
    return sorted({1 + index * (total - 1) // (count - 1) for index in range(count)})


@pytest.mark.parametrize("part", WAYS)
def test_killed_at_any_system_call_nothing_is_lost_and_nothing_comes_twice(
    base: Path, tmp_path: Path, part: float
) -> None:
    total = points(base, tmp_path)
    assert total > POINTS, "the script must pass more system calls than we sample"
    mine = spread(total, POINTS)[WAYS.index(part) :: len(WAYS)]
    assert len(mine) >= POINTS // len(WAYS)
    crash_everywhere(base, tmp_path, [(at, part) for at in mine])


@pytest.mark.torture
@pytest.mark.parametrize("part", WAYS)
def test_killed_at_every_system_call(base: Path, tmp_path: Path, part: float) -> None:
    total = points(base, tmp_path)
    crash_everywhere(base, tmp_path, [(at, part) for at in range(1, total + 1)])


def test_the_script_passes_checkpoints_segment_switches_and_wraps(base: Path, tmp_path: Path) -> None:
    path = tmp_path / "qm"
    shutil.copytree(base, path)
    in_process(run_script(path, SCRIPT, None))
    segments = sorted(name for name in os.listdir(path / "log") if name.startswith("segment-"))
    assert int(segments[-1][8:16]) >= 5, "the log must have gone around more than once"
    assert segments[0] != "segment-00000000.log"


def recover_and_die(path: Path, at: int) -> bool:
    """Start the recovery and kill it at its `at`-th call; whether it was killed before it was done."""
    _, killed = in_process(lambda report: recovered(path, KillingDisk(path, at, part=0.5)) and None)
    return killed


@pytest.mark.parametrize("crashes", [6, pytest.param(24, marks=pytest.mark.torture)])
def test_killed_in_recovery_three_times_in_a_row_nothing_changes(base: Path, tmp_path: Path, crashes: int) -> None:
    total = points(base, tmp_path)
    killed = 0
    for at in spread(total, crashes):
        path = tmp_path / f"at-{at}"
        acknowledged = crash(base, path, at, 0.5)
        for first, second, third in ((1, 1, 1), (2, 3, 5), (4, 7, 2), (9, 6, 8)):
            again = tmp_path / "again"
            shutil.copytree(path, again)
            killed += sum(recover_and_die(again, recovery_at) for recovery_at in (first, second, third))
            check(again, acknowledged)
            shutil.rmtree(again)
        shutil.rmtree(path)
    assert killed > 5 * crashes


# --- negative control -----------------------------------------------------------------------


def test_acknowledging_before_the_write_is_noticed(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill does not lose what was written, only what was not; so the planted bug answers before the write."""
    promise = group_commit.GroupCommit.promise

    def eager(self: group_commit.GroupCommit, *arguments: object) -> object:
        settlement = promise(self, *arguments)  # type: ignore[arg-type]
        self._pending.remove(settlement)
        settlement.settle()
        return settlement

    monkeypatch.setattr(group_commit.GroupCommit, "promise", eager)
    monkeypatch.setattr(writer.RecoveryLog, "require_room", lambda *_, **__: None)
    with pytest.raises(AssertionError):
        crash_everywhere(base, tmp_path, [(at, 0.0) for at in range(3, 40)])
