# SPDX-License-Identifier: Apache-2.0
"""The engine in a simulated world: its seeds hold, and planted bugs do not."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrepot.engine import entry, group_commit, queue_manager, restart
from entrepot.engine.recovery_log import bodies, reader, record, run, writer
from entrepot.errors import RecoveryError
from entrepot.testing import SimulatedDisk
from entrepot.testing.simulation import Simulation
from folding import for_each

SEEDS = 1000
# Of the seeds in parts of fifty or forty: the first parts in `make test`, the others in `make torture`.
PARTS, PARTS_OF_PUBLICATIONS = 8, 3
STEPS = 150
# As many seeds as a planted bug gets to hide in.
SEEDS_FOR_A_BUG = 300


def in_parts(total: int, first: int) -> pytest.MarkDecorator:
    others = [pytest.param(part, marks=pytest.mark.torture) for part in range(first, total)]
    return pytest.mark.parametrize("part", [*range(first), *others])


@in_parts(20, PARTS)
def test_a_thousand_seeds_lose_nothing_and_bring_nothing_twice(part: int) -> None:
    for seed in range(part * SEEDS // 20, (part + 1) * SEEDS // 20):
        Simulation(seed).run(STEPS)


@in_parts(6, PARTS_OF_PUBLICATIONS)
def test_publications_reach_all_queues_or_none(part: int) -> None:
    for seed in range(part * 40, (part + 1) * 40):
        Simulation(seed, topics=True).run(STEPS)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(min_value=10_000, max_value=2**60), steps=st.integers(min_value=1, max_value=300))
def test_any_seed_of_any_length_agrees_with_the_model(seed: int, steps: int) -> None:
    Simulation(seed).run(steps)


@for_each("seed", [800, 1081, 1338, 1458, 2120, 23048, 23553, 102015, 105295, 105548, 106761, 206173, 300759, 301025])
def test_seeds_that_have_found_a_bug_still_hold(seed: int) -> None:
    Simulation(seed).run(250)


@for_each("seed", [0, 1, 2, 3, 7, 14, 35, 62])
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    first, second = Simulation(seed), Simulation(seed)
    assert first.run(STEPS) == second.run(STEPS)
    assert first.counts == second.counts


def test_different_seeds_give_different_traces() -> None:
    assert len({Simulation(seed).run(30) for seed in range(10)}) == 10


def test_the_seeds_meet_crashes_full_disks_failures_and_checkpoints() -> None:
    counts: dict[str, int] = {}
    crashes = 0
    for seed in range(60):
        simulation = Simulation(seed)
        simulation.run(STEPS)
        crashes += simulation.crashes
        for what, count in simulation.counts.items():
            counts[what] = counts.get(what, 0) + count
    assert crashes > 200
    assert counts["checkpoints"] > 50
    assert counts["failed"] > 20
    assert counts["no space"] > 50
    assert sum(counts.get(what, 0) for what in ("DiskFull", "LogFull", "SpillFailed", "UnitBackedOut")) > 0


@pytest.mark.torture
@pytest.mark.parametrize("part", range(10))
def test_a_hundred_thousand_seeds(part: int) -> None:
    for seed in range(100_000 + part * 10_000, 100_000 + (part + 1) * 10_000):
        Simulation(seed).run(250)


# --- negative controls: the simulation must notice these ---------------------------------------


def is_noticed(*, topics: bool = False) -> bool:
    for seed in range(SEEDS_FOR_A_BUG):
        try:
            Simulation(seed, topics=topics).run(STEPS)
        except (AssertionError, RecoveryError):
            return True
    return False


Bug = Callable[[pytest.MonkeyPatch], None]


def acknowledge_before_force(patch: pytest.MonkeyPatch) -> None:
    write_group = writer.RecoveryLog.write_group

    def without_force(self: writer.RecoveryLog, group: writer.WriteGroup, *, force: bool) -> None:
        write_group(self, group, force=False)

    patch.setattr(writer.RecoveryLog, "write_group", without_force)


def retry_a_failed_force(patch: pytest.MonkeyPatch) -> None:
    write_group = writer.RecoveryLog.write_group

    def again(self: writer.RecoveryLog, group: writer.WriteGroup, *, force: bool) -> None:
        try:
            write_group(self, group, force=force)
        except Exception:
            for _, file in group.files:
                file.force()

    patch.setattr(writer.RecoveryLog, "write_group", again)


def skip_the_crc(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader, "check", lambda *_: None)


def take_damage_for_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    # Harmless on its own; with a force that did not happen it hides what was lost.
    patch.setattr(reader.LogReader, "groups", lambda self, position: iter(()))
    acknowledge_before_force(patch)


def guessable_salts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedDisk, "random_bytes", lambda self, size: bytes(size))


def keep_a_group_that_met_a_full_disk(patch: pytest.MonkeyPatch) -> None:
    def give_up(self: writer.RecoveryLog, group: writer.WriteGroup) -> None:
        self.discard_gathered()

    patch.setattr(writer.RecoveryLog, "give_up", give_up)
    write = writer.RecoveryLog._write

    def write_then_complain(self: writer.RecoveryLog, group: writer.WriteGroup) -> None:
        try:
            write(self, group)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self._disk.faults = None  # type: ignore[attr-defined]
                write(self, group)
            raise

    patch.setattr(writer.RecoveryLog, "_write", write_then_complain)


def do_not_rewrite_the_end_of_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(restart, "_make_durable", lambda *_: None)


def answer_before_the_group_is_forced(patch: pytest.MonkeyPatch) -> None:
    promise = group_commit.GroupCommit.promise

    def eager(self: group_commit.GroupCommit, *arguments: Any) -> Any:
        settlement = promise(self, *arguments)
        self._pending.remove(settlement)
        settlement.settle()
        return settlement

    patch.setattr(group_commit.GroupCommit, "promise", eager)


@pytest.mark.parametrize(
    "bug",
    [
        acknowledge_before_force,
        answer_before_the_group_is_forced,
        retry_a_failed_force,
        skip_the_crc,
        take_damage_for_a_torn_tail,
        guessable_salts,
        keep_a_group_that_met_a_full_disk,
        do_not_rewrite_the_end_of_the_log,
    ],
)
def test_a_planted_bug_is_noticed(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    assert is_noticed()


def do_not_force_shared_bodies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(run.RunStore, "force_bodies", lambda _: None)


def remove_shared_bodies_too_early(patch: pytest.MonkeyPatch) -> None:
    """Before the checkpoint that no longer needs them is on disk."""
    set_gone = entry.RestingRun.set_gone

    def at_once(self: entry.RestingRun, index: int) -> None:
        file = self.borrowed.get(index)
        set_gone(self, index)
        if file is not None and not file.references:
            file.removed = True
            early.append(file.number)

    early: list[int] = []
    unwanted = bodies.BodyStore.unwanted
    read = run.RunStore._read_file

    def missing(self: run.RunStore, path: str) -> bytes:
        if path.endswith(".bodies") and int(path[-15:-7]) in early:
            raise AssertionError("the body is gone")
        return read(self, path)

    def forgotten(self: bodies.BodyStore) -> list[bodies.BodyFile]:
        early.clear()
        return unwanted(self)

    patch.setattr(entry.RestingRun, "set_gone", at_once)
    patch.setattr(run.RunStore, "_read_file", missing)
    patch.setattr(bodies.BodyStore, "unwanted", forgotten)


def forget_half_of_the_targets(patch: pytest.MonkeyPatch) -> None:
    records = queue_manager.QueueManager.records

    def half(self: queue_manager.QueueManager, unit: Any) -> Any:
        written, arrivals = records(self, unit)
        for each in written:
            if isinstance(each, record.PutRecord) and len(each.targets) > 1:
                each.targets = each.targets[:-1]
        return written, arrivals

    patch.setattr(queue_manager.QueueManager, "records", half)


@pytest.mark.parametrize(
    "bug", [do_not_force_shared_bodies, remove_shared_bodies_too_early, forget_half_of_the_targets]
)
def test_a_planted_bug_in_publications_is_noticed(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    assert is_noticed(topics=True)
