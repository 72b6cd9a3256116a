# SPDX-License-Identifier: Apache-2.0
"""A hundred durable subscribers and a process that is killed: each has each publication once, or nobody has it."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from conftest import MEMORY
from entrepot import limits
from entrepot.clock import SystemClock
from entrepot.disk import Disk, SystemDisk
from entrepot.engine import group_commit, queue_manager
from entrepot.engine.definitions import LocalQueue, SubscriptionDefinition
from entrepot.engine.folder import create, read_settings
from entrepot.engine.recovery_log import record, run, writer
from entrepot.engine.recovery_log.record import PutRecord
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import restart
from entrepot.engine.unit_of_work import Unit
from entrepot.message import Message
from entrepot.testing import KillingDisk
from hosted import Host
from recovery.workload import in_process

LOG = LogSettings(segment_bytes=64 * 1024, primary=2, secondary=4, checkpoint_bytes=25_000)
SUBSCRIBERS = [f"S{number:03}" for number in range(100)]
QUEUES = [*SUBSCRIBERS, "IN", "OUT"]
STEPS = 40
POINTS = 50
TORTURE_POINTS = 300
SIZES = (10, 400, 3_000, 9_000)
KEPT = "kept"
"""The topic of what is retained."""


def body(number: int) -> bytes:
    return b"%d:" % number + bytes([number % 251]) * SIZES[number % len(SIZES)]


def wants(index: int, number: int) -> bool:
    """Whether a subscriber gets a publication: every tenth asks only for even ones."""
    return index % 10 != 9 or number % 2 == 0


# --- what is done, and what must be there then -------------------------------------------------------


@dataclass
class State:
    """What stands on each queue, by the numbers in the bodies, and what is retained."""

    queues: dict[str, tuple[int, ...]] = field(default_factory=lambda: dict.fromkeys(QUEUES, ()))
    kept: int = 0

    def copy(self) -> State:
        return State(dict(self.queues), self.kept)

    def publish(self, number: int) -> None:
        for index, name in enumerate(SUBSCRIBERS):
            if wants(index, number):
                self.put(name, number)

    def put(self, name: str, number: int) -> None:
        self.queues[name] += (number,)

    def get(self, name: str) -> int:
        first, *rest = self.queues[name]
        self.queues[name] = tuple(rest)
        return first


class Load:
    """Units of publications, puts and gets; `states[n]` is right after n of them."""

    def __init__(self, steps: int) -> None:
        self.states = [State()]
        self.steps: list[Callable[[Host], None]] = []
        self._numbers = itertools.count(1)
        kinds = itertools.cycle(
            (
                self._alone,
                self._several,
                self._with_put,
                self._checkpoint,
                self._move,
                self._retain,
                self._back_out,
                self._read,
            )
        )
        for kind in itertools.islice(kinds, steps):
            state = self.states[-1].copy()
            self.steps.append(kind(state))
            self.states.append(state)

    def run(self, host: Host, report: Callable[[int], None]) -> None:
        for number, step in enumerate(self.steps, start=1):
            step(host)
            report(number)

    def _checkpoint(self, _: State) -> Callable[[Host], None]:
        return Host.checkpoint

    def _alone(self, state: State) -> Callable[[Host], None]:
        number = next(self._numbers)
        state.publish(number)
        return lambda host: publish(host, number)

    def _several(self, state: State) -> Callable[[Host], None]:
        numbers = list(itertools.islice(self._numbers, 3))
        for number in numbers:
            state.publish(number)

        def step(host: Host) -> None:
            with unit_of_work(host) as unit:
                for number in numbers:
                    publish(host, number, unit)

        return step

    def _with_put(self, state: State) -> Callable[[Host], None]:
        put, published = next(self._numbers), next(self._numbers)
        state.put("IN", put)
        state.publish(published)

        def step(host: Host) -> None:
            with unit_of_work(host) as unit:
                host.put("IN", Message(body(put)), persistent=True, unit=unit)
                publish(host, published, unit)

        return step

    def _move(self, state: State) -> Callable[[Host], None]:
        """Get, publish what was got, and put it elsewhere."""
        number = state.get("IN")
        state.publish(number)
        state.put("OUT", number)

        def step(host: Host) -> None:
            with unit_of_work(host) as unit:
                message = host.get("IN", unit=unit)
                assert message is not None
                publish(host, number, unit)
                host.put("OUT", Message(message.body), persistent=True, unit=unit)

        return step

    def _retain(self, state: State) -> Callable[[Host], None]:
        number = next(self._numbers)
        state.publish(number)
        state.kept = number

        def step(host: Host) -> None:
            host.put(f"topic:{KEPT}", message(number, retained=True), persistent=True)

        return step

    def _back_out(self, state: State) -> Callable[[Host], None]:
        number = next(self._numbers)
        held = state.queues["OUT"][0]

        def step(host: Host) -> None:
            unit = host.begin()
            publish(host, number, unit)
            found = host.get("OUT", unit=unit)
            assert found is not None
            assert found.body == body(held)
            host.back_out(unit)

        return step

    def _read(self, state: State) -> Callable[[Host], None]:
        """A few subscribers read all they have, each in a unit of its own; others never do."""
        reader = SUBSCRIBERS[len(self.steps) % 5]
        count = len(state.queues[reader])
        state.queues[reader] = ()

        def step(host: Host) -> None:
            with unit_of_work(host) as unit:
                for _ in range(count):
                    assert host.get(reader, unit=unit) is not None

        return step


def message(number: int, *, retained: bool = False) -> Message:
    return Message(body(number), properties={"n": number}, retained=retained)


def publish(host: Host, number: int, unit: Unit | None = None) -> None:
    host.put(f"topic:t/{number}", message(number), persistent=True, unit=unit)


@contextlib.contextmanager
def unit_of_work(host: Host) -> Iterator[Unit]:
    unit = host.begin()
    yield unit
    host.commit(unit)


# --- the kill ----------------------------------------------------------------------------------------


LOAD = Load(STEPS)


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RUN_BYTES", 8_000)


@pytest.fixture(scope="module")
def parent() -> Iterator[Path]:
    """A killed process leaves its files in memory as it would on a disk."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def base(parent: Path) -> Path:
    """A queue manager with a hundred subscribers; some get another message than the rest, with the same body."""
    path = parent / "base"
    create(path, name="QM", log=LOG)
    with contextlib.closing(Host(path)) as host:
        for index, name in enumerate(QUEUES):
            # Some outgrow their memory and store what they have, each for itself but the bodies.
            buffer_bytes = 4_000 if index % 20 == 3 else LocalQueue(name=name).buffer_bytes
            host.define(LocalQueue(name=name, buffer_bytes=buffer_bytes), replace=False)
        for index, name in enumerate(SUBSCRIBERS):
            host.define(
                SubscriptionDefinition(
                    name=name,
                    topic="#",
                    destination=name,
                    user_data="differs" if index % 3 == 0 else "",
                    selector="" if index % 10 != 9 else "n IN (" + ", ".join(map(str, range(0, 2 * STEPS, 2))) + ")",
                ),
                replace=False,
            )
    return path


def total_calls(base: Path, parent: Path) -> int:
    """How many system calls that change the disk the whole load makes."""
    path = Path(shutil.copytree(base, parent / "dry"))
    disk = KillingDisk(path, 0)

    def work(report: Callable[[int], None]) -> None:
        LOAD.run(Host(path, disk=disk), lambda _: None)
        report(disk.count)

    count, killed = in_process(work)
    assert not killed
    assert recovered(path) == LOAD.states[-1]
    shutil.rmtree(path)
    return count


def recovered(path: Path, disk: Disk | None = None) -> State:
    """Restart as the next start would; every body is checked."""
    manager = restart(disk or SystemDisk(path), SystemClock(), read_settings(path)).manager
    state = State()
    for name in QUEUES:
        for found in manager.browse(name, None, None, 1_000_000)[0]:
            number = int(found.body.partition(b":")[0] or -1)
            assert found.body == body(number), f"{name} has a body that nobody has sent"
            assert name in ("IN", "OUT") or (found.properties.get("MQSubUserData") is not None) == (
                SUBSCRIBERS.index(name) % 3 == 0
            )
            state.put(name, number)
    kept = manager.publishing.retained.newest(KEPT)
    state.kept = 0 if kept is None else int(kept.body.partition(b":")[0])
    manager.log.close()
    return state


def crash(base: Path, path: Path, at: int, part: float) -> int:
    """Run the load until its `at`-th call kills it; how many steps were acknowledged."""
    shutil.copytree(base, path)
    disk = KillingDisk(path, at, part=part)
    acknowledged, killed = in_process(lambda report: LOAD.run(Host(path, disk=disk), report))
    assert killed or acknowledged == len(LOAD.steps)
    return acknowledged


def crash_at(base: Path, parent: Path, points: list[tuple[int, float]]) -> None:
    """What was acknowledged is there, and of what was under way all or nothing; the second restart finds the same."""
    for count, (at, part) in enumerate(points):
        path = parent / f"at-{at}"
        try:
            acknowledged = crash(base, path, at, part)
            allowed = LOAD.states[acknowledged : acknowledged + 2]
            first = recovered(path)
            assert first in allowed, f"killed at {at}, {part}, after {acknowledged} steps"
            assert count % 5 or recovered(path) == first
        finally:
            shutil.rmtree(path)


def random_points(total: int, count: int, seed: int) -> list[tuple[int, float]]:
    # The first calls are those of the start.
    everywhere = list(itertools.product(range(3, total + 1), (0.0, 0.3, 0.7, 1.0)))
    return sorted(Random(seed).sample(everywhere, count))


def test_killed_at_random_points_each_subscriber_has_each_publication_once_or_nobody_has_it(
    base: Path, parent: Path
) -> None:
    total = total_calls(base, parent)
    assert total > POINTS
    crash_at(base, parent, random_points(total, POINTS, seed=1))


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(2, 6))
def test_killed_at_three_hundred_random_points(base: Path, parent: Path, seed: int) -> None:
    total = total_calls(base, parent)
    crash_at(base, parent, random_points(total, TORTURE_POINTS, seed))


def test_the_load_passes_checkpoints_and_runs_that_share_bodies(base: Path, parent: Path) -> None:
    path = Path(shutil.copytree(base, parent / "whole"))
    in_process(lambda report: LOAD.run(Host(path), report))
    files = list((path / "runs").glob("*.*"))
    assert {file.suffix for file in files} == {".run", ".bodies"}
    stored = sum(len(body(number)) for name in SUBSCRIBERS for number in LOAD.states[-1].queues[name])
    assert sum(file.stat().st_size for file in files) < stored / 10
    shutil.rmtree(path)


# --- negative controls: these must be noticed ----------------------------------------------------------


Bug = Callable[[pytest.MonkeyPatch], None]


def acknowledge_before_the_write(patch: pytest.MonkeyPatch) -> None:
    """A kill does not lose what was written, only what was not; so the bug answers before the write."""
    promise = group_commit.GroupCommit.promise

    def eager(self: group_commit.GroupCommit, *arguments: Any) -> Any:
        settlement = promise(self, *arguments)
        self._pending.remove(settlement)
        settlement.settle()
        return settlement

    patch.setattr(group_commit.GroupCommit, "promise", eager)
    patch.setattr(writer.RecoveryLog, "require_room", lambda *_, **__: None)


def forget_half_of_the_targets(patch: pytest.MonkeyPatch) -> None:
    records = queue_manager.QueueManager.records

    def half(self: queue_manager.QueueManager, unit: Unit) -> Any:
        written, arrivals = records(self, unit)
        for put in written:
            if isinstance(put, PutRecord) and len(put.targets) > 1:
                del put.targets[len(put.targets) // 2 :]
        return written, arrivals

    patch.setattr(queue_manager.QueueManager, "records", half)


def commit_one_by_one(patch: pytest.MonkeyPatch) -> None:
    commit = queue_manager.QueueManager._commit

    def each(self: queue_manager.QueueManager, unit: Unit, *, delivered: bool = True) -> Any:
        while len(unit.puts) > 1:
            own = self.internal_unit()
            own.puts.append(unit.puts.pop(0))
            commit(self, own)
            self.force()
        return commit(self, unit, delivered=delivered)

    patch.setattr(queue_manager.QueueManager, "_commit", each)


def bring_back_only_those_who_got_the_same_message(patch: pytest.MonkeyPatch) -> None:
    arrivals = record.PutRecord.arrivals
    patch.setattr(record.PutRecord, "arrivals", lambda self: itertools.islice(arrivals(self), len(self.targets)))


def leave_out_bodies_and_not_bring_them_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(run, "_unfold", lambda _: None)


def give_keys_twice(patch: pytest.MonkeyPatch) -> None:
    """The highest key of a publication is that of its last target, not of its first."""
    patch.setattr(record.PutRecord, "key_last", property(lambda self: self.targets[0][1]))


@pytest.mark.parametrize(
    "bug",
    [
        acknowledge_before_the_write,
        forget_half_of_the_targets,
        commit_one_by_one,
        bring_back_only_those_who_got_the_same_message,
        leave_out_bodies_and_not_bring_them_back,
    ],
    ids=lambda bug: bug.__name__,
)
def test_planted_bugs_are_noticed(base: Path, parent: Path, monkeypatch: pytest.MonkeyPatch, bug: Bug) -> None:
    total = total_calls(base, parent)
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        crash_at(base, parent, random_points(total, 40, seed=1)[::-1])


def test_keys_that_are_given_twice_are_noticed(base: Path, parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second life goes on where the first was killed; what both have done must be there."""
    assert second_life(base, parent)
    give_keys_twice(monkeypatch)
    assert not second_life(base, parent)


def second_life(base: Path, parent: Path) -> bool:
    path = Path(shutil.copytree(base, parent / "lives"))
    try:
        for number in (1, 3):
            acknowledged, killed = in_process(lambda report, number=number: publish_and_die(path, number, report))
            assert (acknowledged, killed) == (1, True)
        state = recovered(path)
        return all(
            state.queues[name] == tuple(number for number in (1, 3) if wants(index, number))
            for index, name in enumerate(SUBSCRIBERS)
        )
    finally:
        shutil.rmtree(path)


def publish_and_die(path: Path, number: int, report: Callable[[int], None]) -> None:
    host = Host(path)
    publish(host, number)
    report(1)
    KillingDisk(path, 1, part=1.0).force_folder(".")
