# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of queues that have outgrown their memory: what lies in runs is safe before the log lets it go."""

from __future__ import annotations

import contextlib
import errno

import pytest

from entrepot import limits
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.recovery_log.record import TakenRecord
from entrepot.errors import DiskFailed, DiskFull
from entrepot.message import Message

from .simulated import Simulated, checkpoint_during_which


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RUN_BYTES", 8 * 1024)


def spilled(seed: int) -> Simulated:
    """A queue whose messages have gone to disk, unforced: a power cut would leave them to the log alone."""
    world = Simulated(seed)
    world.manager.administration.alter(LocalQueue(name="Q", buffer_bytes=8192))
    world.put(b"x" * 5000)  # stays in memory, and in a run of its own
    for _ in range(2):
        world.restarted.checkpoints.take()
    world.manager.log.append([TakenRecord([])] * 300)  # enough for the log to remember that a group begins behind it
    world.manager.force()
    world.restarted.checkpoints.take()
    for number in range(1, 9):
        world.put(b"%d" % number * 3000)
    assert len(world.disk.names("runs")) == 3
    return world


def heads(world: Simulated) -> list[bytes]:
    return [body[:1] for body in world.bodies()]


ALL = [b"x", *(b"%d" % number for number in range(1, 9))]


class FullRuns:
    """A disk that has no space for runs when they are to be forced, or written; the log has its own."""

    def __init__(
        self, error_number: int = errno.ENOSPC, kind: str = ".run", operation: str = "force", spared: int = 0
    ) -> None:
        self._error_number = error_number
        self._kind = kind
        self._operation = operation
        self._spared = spared

    def before(self, operation: str, path: str, size: int) -> int | None:
        if operation == self._operation and path.endswith(self._kind):
            self._spared -= 1
            if self._spared < 0:
                raise OSError(self._error_number, "", path)
        return None


@pytest.mark.parametrize("seed", range(10))
def test_a_run_is_forced_before_the_log_that_had_its_messages_is_let_go(seed: int) -> None:
    world = spilled(seed)
    for _ in range(3):
        world.restarted.checkpoints.take()
    world.power_cut_and_start()
    assert heads(world) == ALL


@pytest.mark.parametrize("seed", range(10))
def test_a_run_that_was_written_during_a_checkpoint_is_forced_with_it(seed: int) -> None:
    world = spilled(seed)

    def put_more() -> None:
        for number in range(3):
            world.put(b"abc"[number : number + 1] * 4000)

    for _ in range(3):
        checkpoint_during_which(world, put_more)
        for _ in range(3):
            world.manager.get("Q")
        world.manager.force()
    before = heads(world)
    world.power_cut_and_start()
    assert heads(world) == before


@pytest.mark.parametrize("seed", range(10))
def test_the_log_keeps_what_a_full_disk_did_not_let_a_run_have(seed: int) -> None:
    """However often a checkpoint is tried: restart neither needs the runs nor misses their messages."""
    world = spilled(seed)
    world.disk.faults = FullRuns()
    for _ in range(3):
        plan = checkpoint_during_which(world, lambda: None)
        assert plan.is_short
    world.disk.faults = None
    world.power_cut_and_start()
    assert heads(world) == ALL


def test_once_there_is_space_again_a_checkpoint_lets_the_log_go() -> None:
    world = spilled(1)
    world.disk.faults = FullRuns()
    kept = min(run.log_position for run in world.manager.runs.values() if not run.durable)
    for _ in range(2):
        world.restarted.checkpoints.take()
        assert world.manager.log.needed_position == kept  # the very place where the first of them stands
    world.disk.faults = None
    for _ in range(2):
        world.restarted.checkpoints.take()
    assert world.manager.log.needed_position == world.manager.log.forced_position
    world.power_cut_and_start()
    assert heads(world) == ALL


@pytest.mark.parametrize("operation", ["force", "write"])
def test_a_run_that_a_failing_disk_did_not_take_stops_the_queue_manager(operation: str) -> None:
    world = spilled(1) if operation == "force" else old(1)
    world.disk.faults = FullRuns(errno.EIO, operation=operation)
    with pytest.raises(DiskFailed):
        world.restarted.checkpoints.take()
    assert isinstance(world.manager.failure, DiskFailed)


def old(seed: int) -> Simulated:
    """A queue in memory whose messages the next checkpoint wants to move to several runs."""
    world = Simulated(seed)
    world.put(b"x" * 5000)
    for number in range(1, 9):
        world.put(b"%d" % number * 3000)
    world.restarted.checkpoints.take()
    return world


def test_the_log_is_not_kept_for_messages_that_were_got_meanwhile() -> None:
    world = old(1)
    start = world.manager.log.forced_position
    world.disk.faults = FullRuns(operation="write")
    plan = checkpoint_during_which(world, lambda: [world.manager.get("Q") for _ in ALL])
    assert plan.is_short
    assert world.manager.log.needed_position == world.manager.log.group_start_before(start)


def test_a_run_is_full_when_its_bodies_have_as_many_bytes_as_it_may_have() -> None:
    world = Simulated()
    for number in range(6):
        world.put(b"%d" % number * (limits.RUN_BYTES // 2))
    for _ in range(2):
        world.restarted.checkpoints.take()
    assert len(world.disk.names("runs")) == 3


@pytest.mark.parametrize("spared", [0, 1, 2])
def test_messages_for_which_there_was_no_space_are_moved_later(spared: int) -> None:
    for seed in range(4):
        world = old(seed)
        world.disk.faults = FullRuns(operation="write", spared=spared)
        for _ in range(2):
            assert checkpoint_during_which(world, lambda: None).is_short
        world.disk.faults = None
        assert len(world.disk.names("runs")) == spared
        world.power_cut_and_start()
        assert heads(world) == ALL, seed
        for _ in range(2):
            world.restarted.checkpoints.take()
        assert world.manager.log.needed_position == world.manager.log.forced_position
        world.power_cut_and_start()
        assert heads(world) == ALL, seed


def spilled_to_two_queues(seed: int) -> Simulated:
    """Both queues have sent their messages to disk, with their bodies in a file of its own."""
    world = Simulated(seed)
    for name in ("Q", "R"):
        world.manager.administration.define(LocalQueue(name=name, buffer_bytes=4096), replace_existing=True)
    world.manager.force()
    put_on_both(world)
    assert any(name.endswith(".bodies") for name in world.disk.names("runs"))
    return world


def put_on_both(world: Simulated) -> None:
    for number in range(1, 9):
        world.manager.put(("Q", "R"), Message(b"%d" % number * 3000), persistent=True)
        world.manager.force()


@pytest.mark.parametrize("seed", range(5))
def test_shared_bodies_that_were_written_during_a_checkpoint_are_forced_with_it(seed: int) -> None:
    world = Simulated(seed)
    for name in ("Q", "R"):
        world.manager.administration.define(LocalQueue(name=name, buffer_bytes=4096), replace_existing=True)
    world.manager.force()
    checkpoint_during_which(world, lambda: put_on_both(world))
    assert any(name.endswith(".bodies") for name in world.disk.names("runs"))
    world.power_cut_and_start()
    assert heads(world) == ALL[1:]


@pytest.mark.parametrize("seed", range(5))
def test_shared_bodies_are_forced_before_the_log_that_had_them_is_let_go(seed: int) -> None:
    world = spilled_to_two_queues(seed)
    for _ in range(3):
        world.restarted.checkpoints.take()
    world.power_cut_and_start()
    assert heads(world) == ALL[1:]


@pytest.mark.parametrize("kind", [".run", ".bodies"])
def test_what_a_force_has_refused_once_is_written_again_before_it_counts_as_forced(kind: str) -> None:
    """The kernel drops what it could not write, and says the next time that all is well."""
    for seed in range(10):
        world = spilled_to_two_queues(seed)
        world.disk.faults = FullRuns(kind=kind)
        with contextlib.suppress(DiskFull):
            world.restarted.checkpoints.take()
        world.disk.faults = None
        for _ in range(3):
            world.restarted.checkpoints.take()
        world.power_cut_and_start()
        assert heads(world) == ALL[1:], seed


@pytest.mark.parametrize("kind", [".run", ".bodies"])
def test_what_a_force_has_refused_and_nobody_can_read_any_more_stops_the_queue_manager(kind: str) -> None:
    world = spilled_to_two_queues(1)
    world.disk.faults = FullRuns(kind=kind)
    with contextlib.suppress(DiskFull):
        world.restarted.checkpoints.take()
    world.disk.faults = None
    lost = next(f"runs/{name}" for name in world.disk.names("runs") if name.endswith(kind))
    world.disk.put(lost, bytes(len(world.disk.contents(lost))))
    with pytest.raises(DiskFailed):
        world.restarted.checkpoints.take()
    world.kill_and_start()
    assert heads(world) == ALL[1:]


class Noted:
    """Notes what is done to runs and bodies, and goes on to do it."""

    def __init__(self, *operations: str) -> None:
        self.paths: list[str] = []
        self._operations = operations

    def before(self, operation: str, path: str, size: int) -> int | None:
        if operation in self._operations and path.startswith("runs/"):
            self.paths.append(path)
        return None


@pytest.mark.parametrize("operation", ["write", "force"])
def test_runs_and_bodies_are_written_and_forced_once(operation: str) -> None:
    world = spilled_to_two_queues(1)
    world.disk.faults = noted = Noted(operation)
    for _ in range(3):
        world.restarted.checkpoints.take()
    assert len(noted.paths) == len(set(noted.paths)) > 0


@pytest.mark.parametrize("kind", [".run", ".bodies"])
def test_what_was_written_again_is_not_written_a_third_time(kind: str) -> None:
    world = spilled_to_two_queues(1)
    world.disk.faults = FullRuns(kind=kind)
    with contextlib.suppress(DiskFull):
        world.restarted.checkpoints.take()
    world.disk.faults = noted = Noted("write")
    world.restarted.checkpoints.take()
    again, noted.paths = noted.paths, []
    assert any(path.endswith(kind) for path in again)
    for _ in range(2):
        world.restarted.checkpoints.take()
    assert not set(again) & set(noted.paths)


def test_the_engine_need_not_wait_for_forces_of_what_was_there_before() -> None:
    """`install` is what the engine waits for; the slow work comes before it."""
    world = spilled_to_two_queues(1)
    plan = world.restarted.checkpoints.begin()
    plan.write_runs()
    world.disk.faults = noted = Noted("force", "write")
    plan.install()
    assert noted.paths == []


def test_a_run_that_nothing_else_has_the_messages_of_must_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restart spreads what an older run has over new ones; the older one counts until the new ones are safe."""
    for seed in range(6):
        world = Simulated(seed)
        monkeypatch.setattr(limits, "RUN_BYTES", 64 * 1024)
        for number in range(1, 9):
            world.put(b"%d" % number * 3000)
        for _ in range(3):
            world.restarted.checkpoints.take()
        world.manager.administration.alter(LocalQueue(name="Q", buffer_bytes=4096))
        world.manager.force()
        monkeypatch.setattr(limits, "RUN_BYTES", 8 * 1024)
        world.disk.faults = FullRuns()
        with pytest.raises(DiskFull):
            world.kill_and_start()
        world.disk.faults = None
        world.power_cut_and_start()
        assert heads(world) == ALL[1:], seed
