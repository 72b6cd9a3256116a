# SPDX-License-Identifier: Apache-2.0
"""The whole queue manager in a simulated world: random verbs, random faults, one seed.

    python -m entrepot.testing.simulation 4711      runs one seed and prints its trace hash

A `Simulation` drives the engine on a simulated disk and a virtual clock,
cuts the power, kills the process, fills and breaks the disk, and compares
everything it sees with a model that is simple enough to be obviously
right. What was acknowledged must be there after every restart, what was
refused must not be, and of what was under way a prefix: the log is
sequential, so nothing may be there that came after something missing.
Where the log ends, segments hold what an attacker would like to find there.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from entrepot import limits
from entrepot.engine import express
from entrepot.engine.checkpointing import CheckpointPlan
from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import LocalQueue, SubscriptionDefinition
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.recovery_log.record import FORMAT_VERSION, DefineRecord
from entrepot.engine.recovery_log.segment import HEAD_PAGE_BYTES, segment_path
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import Restarted, lay_out, restart
from entrepot.engine.settings import ManagerSettings
from entrepot.engine.settlement import Settlement
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import (
    DiskFailed,
    DiskFull,
    EntrepotError,
    LogFull,
    QueueManagerFailed,
    RunDamaged,
    SpillFailed,
    UnitBackedOut,
)
from entrepot.message import Message
from entrepot.testing.clock import VirtualClock
from entrepot.testing.faults import GROWING
from entrepot.testing.forgery import FORGERIES
from entrepot.testing.simulated_disk import SimulatedDisk

QUEUES = ("A", "B", "C")
TOPIC = "simulated"
_SMALL_RUN_BYTES = 8 * 1024
_PRIORITIES = (0, 0, 0, 5)
_FORGED = "FORGED"
_LATER_START = 2**31


@dataclass(eq=False)
class Item:
    """A message as the model knows it."""

    number: int
    queue: str
    priority: int
    persistent: bool
    order: int = 0
    backouts: int = 0
    forgiven: int = 0
    """How often it was given back uncounted since the last crash: a power cut may take that note, and not the count."""
    uncertain: bool = False
    """Whether a crash may have lost a count that was not visible since."""
    taken_by: object = None

    @property
    def place(self) -> tuple[int, int]:
        return (-self.priority, self.order)


@dataclass(eq=False)
class SimulatedUnit:
    """A unit of work on both sides."""

    unit: Unit
    puts: list[Item] = field(default_factory=list)
    takes: list[Item] = field(default_factory=list)
    transaction_id: bytes = b""


@dataclass(eq=False)
class Promise:
    """Something the log has to make true: what happens in the model when it is."""

    settlement: Settlement
    work: SimulatedUnit
    apply: Callable[[], None]
    undo: Callable[[], None]


class Simulation:
    """One seed's world. `run` raises AssertionError when the queue manager breaks a promise."""

    def __init__(self, seed: int, *, faults: bool = True, topics: bool = False, flat: bool = True) -> None:
        self.random = Random(seed)
        # Of its own, so that a seed does the same verbs by whatever way.
        self.ways = Random(seed + 2) if flat else None
        """Chooses between the flat way of a verb and the general one; None: always the general one."""
        self.disk = SimulatedDisk(Random(seed + 1))
        self.clock = VirtualClock()
        self.settings = ManagerSettings(
            name="SIM",
            manager_id=seed.to_bytes(12, "big"),
            format_version=FORMAT_VERSION,
            created=0.0,
            log=LogSettings(
                kind="linear" if seed % 7 == 0 else "circular",
                segment_bytes=64 * 1024,
                primary=2,
                secondary=2,
                checkpoint_bytes=40_000,
            ),
        )
        self.with_faults = faults
        self.with_topics = topics
        self.on_queue: list[Item] = []
        self.promises: list[Promise] = []
        self.open: list[SimulatedUnit] = []
        self.prepared: dict[bytes, SimulatedUnit] = {}
        self.bodies: dict[int, bytes] = {}
        self.number = 0
        self.order = 0
        self.crashes = 0
        self.faulted = False
        self.counts: dict[str, int] = {}
        self.plan: CheckpointPlan | None = None
        lay_out(self.disk, self.clock, self.settings)
        self.restarted = self._restart()
        for name in QUEUES:
            self.manager.administration.define(
                LocalQueue(name=name, buffer_bytes=6000, depth_max=10_000), replace_existing=False
            )
        self.manager.force()
        for name in QUEUES if topics else ():
            self.manager.publishing.define(SubscriptionDefinition(name=name, topic=TOPIC, destination=name))
        self.manager.force()

    @property
    def manager(self) -> QueueManager:
        return self.restarted.manager

    def _restart(self) -> Restarted:
        return restart(self.disk, self.clock, self.settings)

    # --- running --------------------------------------------------------------------------

    def run(self, steps: int) -> str:
        """Take random steps, end with a crash and a full comparison; the hash of all disk operations."""
        before = limits.RUN_BYTES
        limits.RUN_BYTES = _SMALL_RUN_BYTES
        try:
            for _ in range(steps):
                self._step()
            self._crash(self.disk.power_cut)
            self._drain()
        finally:
            limits.RUN_BYTES = before
        return self.disk.trace_hash

    def _step(self) -> None:
        steps: list[tuple[int, Callable[[], None]]] = [
            (24, self._put),
            (20, self._get),
            (8, self._begin),
            (8, self._commit),
            (4, self._back_out),
            (2, self._prepare),
            (2, self._resolve),
            (16, self._force),
            (3, self._checkpoint),
            (2, self._compare),
            (1, self._let_time_pass),
            (1, self._browse),
        ]
        if self.with_topics:
            steps.append((16, self._publish))
        if self.with_faults:
            steps += [
                (1, lambda: self._crash(self.disk.power_cut)),
                (1, lambda: self._crash(self.disk.kill)),
                (2, self._crash_in_a_force),
                (1, self._fill_disk),
            ]
            if self.random.random() < 0.1:
                steps.append((2, self._break_disk))
        weights = [weight for weight, _ in steps]
        action = self.random.choices([action for _, action in steps], weights)[0]
        self.clock.advance(0.001)
        try:
            action()
        except (LogFull, DiskFull, SpillFailed, UnitBackedOut) as full:
            self._count(type(full).__name__)
        except RunDamaged:
            assert self.faulted
        except (DiskFailed, QueueManagerFailed):
            assert self.manager.failure is not None
        self._settle()
        if self.manager.failure is not None:
            self._count("failed")
            self._crash(self.disk.kill)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # --- verbs ----------------------------------------------------------------------------

    def _put(self) -> None:
        work = self.random.choice([None, *self.open])
        self.number += 1
        item = Item(
            self.number,
            self.random.choice(QUEUES),
            self.random.choice(_PRIORITIES),
            persistent=self.random.random() < 0.7,
        )
        body = b"%d:" % item.number + b"x" * self.random.choice((0, 10, 400, 3000))
        self.bodies[item.number] = body
        message = Message(body, correlation_id=b"c%d" % (item.number % 5))
        done, settlement = self._put_flat(item, message, work)
        if not done:
            _, settlement = self.manager.put(
                item.queue,
                message,
                persistent=item.persistent,
                priority=item.priority,
                unit=work.unit if work else None,
            )
        if work is not None:
            work.puts.append(item)
        else:
            self._promise(settlement, SimulatedUnit(Unit(0, 0), puts=[item]))

    def _put_flat(self, item: Item, message: Message, work: SimulatedUnit | None) -> tuple[bool, Settlement | None]:
        """Put by the flat way, if that is chosen and takes it."""
        if self.ways is None or self.ways.random() < 0.5:
            return False, None
        manager, settlement = self.manager, None
        if work is not None:
            done = express.plan(manager, work.unit, [(item.queue, item.persistent, item.priority, message)], "", "")
        else:
            route = express.route_for(manager, item.queue)
            own_id = manager.new_message_id()
            if route is not None and item.persistent:
                settlement = express.put_durably(manager, route, message, own_id, item.priority, "", "")
                done = settlement is not None
            else:
                done = route is not None and express.put(manager, route, message, own_id, False, item.priority, "", "")
        self._count("flat" if done else "not flat")
        return done, settlement

    def _publish(self) -> None:
        """The same message to every queue, all or nothing."""
        work = self.random.choice([None, *self.open])
        self.number += 1
        persistent = self.random.random() < 0.7
        priority = self.random.choice(_PRIORITIES)
        items = [Item(self.number, name, priority, persistent=persistent) for name in QUEUES]
        body = b"%d:" % self.number + b"x" * self.random.choice((0, 10, 400, 3000))
        self.bodies[self.number] = body
        _, settlement = self.manager.put(
            f"topic:{TOPIC}",
            Message(body, correlation_id=b"c%d" % (self.number % 5)),
            persistent=persistent,
            priority=priority,
            unit=work.unit if work else None,
        )
        if work is not None:
            work.puts += items
        else:
            self._promise(settlement, SimulatedUnit(Unit(0, 0), puts=items))

    def _get(self) -> None:
        work = self.random.choice([None, *self.open])
        name = self.random.choice(QUEUES)
        criteria = None
        wanted = [item for item in self.on_queue if item.queue == name and item.taken_by is None]
        if self.random.random() < 0.2:
            correlation_id = b"c%d" % self.random.randrange(5)
            criteria = Criteria(correlation_id=correlation_id)
            wanted = [item for item in wanted if b"c%d" % (item.number % 5) == correlation_id]
        message, settlement = self.manager.get(name, criteria, work.unit if work else None)
        expected = min(wanted, key=lambda item: item.place, default=None)
        if message is None:
            assert expected is None, f"{name} gave nothing instead of {expected}"
            return
        number = self._number_of(message)
        assert expected is not None, f"{name} gave {number} instead of nothing"
        if criteria is None:
            assert number == expected.number, f"{name} gave {number} instead of {expected}"
        item = next((item for item in wanted if item.number == number), None)
        assert item is not None, f"{name} gave {number}, which is not there"
        assert item.uncertain or message.backout_count == item.backouts, f"{item} came with {message.backout_count}"
        item.backouts, item.uncertain = message.backout_count, False
        if work is not None:
            item.taken_by = work
            item.backouts += 1
            work.takes.append(item)
        else:
            own = SimulatedUnit(Unit(0, 0), takes=[item])
            item.taken_by = own
            self._promise(settlement, own)

    def _browse(self) -> None:
        name = self.random.choice(QUEUES)
        messages, _ = self.manager.browse(name, None, None, 10_000)
        numbers = [self._number_of(message) for message in messages]
        items = [item for item in self.on_queue if item.queue == name and item.taken_by is None]
        assert numbers == [item.number for item in sorted(items, key=lambda item: item.place)]

    def _begin(self) -> None:
        if len(self.open) < 4:
            self.open.append(SimulatedUnit(self.manager.begin()))

    def _commit(self) -> None:
        if not self.open:
            return
        work = self.open[self.random.randrange(len(self.open))]
        unit = work.unit
        if self.ways is not None and self.ways.random() < 0.5 and not unit.puts and express.settle(unit.takes):
            unit.takes.clear()
        try:
            settlement = self.manager.commit(work.unit)
        except LogFull:
            return  # still active
        except EntrepotError:
            self.open.remove(work)
            self._undo(work)
            raise
        self.open.remove(work)
        self._promise(settlement, work)

    def _back_out(self) -> None:
        if self.open:
            work = self.open.pop(self.random.randrange(len(self.open)))
            # By the number and not by chance, so that seeds which have found a bug once still do the same.
            counted = work.unit.number % 3 != 0
            self.manager.back_out(work.unit, counted=counted)
            self._undo(work)
            for item in work.takes if not counted else ():
                item.backouts -= 1
                item.forgiven += 1

    def _prepare(self) -> None:
        if not self.open:
            return
        work = self.open[self.random.randrange(len(self.open))]
        self.number += 1
        work.transaction_id = b"t%d" % self.number
        settlement = self.manager.in_doubt.prepare(work.unit, work.transaction_id)
        self.open.remove(work)
        self._order(work)

        def apply() -> None:
            self.prepared[work.transaction_id] = work

        self.promises.append(Promise(settlement, work, apply, lambda: self._undo(work)))

    def _resolve(self) -> None:
        if not self.prepared:
            return
        transaction_id = self.random.choice(list(self.prepared))
        work = self.prepared[transaction_id]
        if any(promise.work is work for promise in self.promises):
            return  # being resolved already
        commit = self.random.random() < 0.5
        settlement = self.manager.in_doubt.resolve(transaction_id, commit=commit)
        assert settlement is not None

        def apply() -> None:
            del self.prepared[transaction_id]
            if commit:
                self._apply(work)
            else:
                self._undo(work)

        self.promises.append(Promise(settlement, work, apply, lambda: None))

    # --- the model ------------------------------------------------------------------------

    def _order(self, work: SimulatedUnit) -> None:
        for item in work.puts:
            self.order += 1
            item.order = self.order

    def _promise(self, settlement: Settlement | None, work: SimulatedUnit) -> None:
        self._order(work)
        if settlement is None:
            self._apply(work)
        else:
            self.promises.append(Promise(settlement, work, lambda: self._apply(work), lambda: self._undo(work)))

    def _apply(self, work: SimulatedUnit) -> None:
        for item in work.takes:
            self.on_queue.remove(item)
        self.on_queue += work.puts

    def _undo(self, work: SimulatedUnit) -> None:
        for item in work.takes:
            item.taken_by = None

    def _settle(self) -> None:
        """Let the model follow what the queue manager has acknowledged."""
        while self.promises and self.promises[0].settlement.done and self.promises[0].settlement.error is None:
            self.promises.pop(0).apply()
        refused = [promise for promise in self.promises if promise.settlement.done]
        for promise in reversed(refused):
            error = promise.settlement.error
            assert error is not None, "a later promise was kept before an earlier one"
            if error.outcome == "not_done":
                promise.undo()
                self.promises.remove(promise)

    # --- disk and time --------------------------------------------------------------------

    def _force(self) -> None:
        self.manager.force()

    def _checkpoint(self) -> None:
        """One of a checkpoint's steps, so that verbs fall between them."""
        checkpoints = self.restarted.checkpoints
        try:
            if self.plan is None:
                self.plan = checkpoints.begin()
                self.plan.write_runs()
                return
            plan, self.plan = self.plan, None
            self.manager.force()
            if self.manager.failure is None:
                plan.install()
                plan.write()
                checkpoints.finish(plan)
                self._count("checkpoints")
        except OSError as error:
            self.plan = None
            raise checkpoints.failed(checkpoints.begin(), error) from error

    def _let_time_pass(self) -> None:
        self.clock.advance(self.random.random() * 100)
        self.manager.timers.tick()

    def _fill_disk(self) -> None:
        self.faulted = True
        calls = self.random.randrange(1, 30)
        self.disk.faults = _RandomFault(self.random, errno.ENOSPC, calls, lambda: self._count("no space"))

    def _break_disk(self) -> None:
        self.faulted = True
        self.disk.faults = _RandomFault(self.random, errno.EIO, calls=1)

    # --- crash and comparison -------------------------------------------------------------

    def _crash(self, how: Callable[[], None]) -> None:
        self.crashes += 1
        power_cut = how == self.disk.power_cut
        self.disk.faults = None
        end = self.manager.log.written_position
        how()
        self._forge_behind(end)
        self.plan = None
        if self.random.random() < 0.2:
            power_cut = True
            self._crash_in_restart()
        self.restarted = self._restart()
        # A note of a backout count is not worth an error when the disk is full.
        # Nor is it written ahead of what a caller waits for.
        self._accept_survivors(exact_counts=not power_cut and not self.faulted and not self.promises)
        self.faulted = False
        assert self.manager.objects.find("QLOCAL", _FORGED) is None, "a forged record was believed"
        self._compare()

    def _forge_behind(self, end: int) -> None:
        """Behind its end the log's file has what was written there a lap ago: bodies, made for this place."""
        number, offset = divmod(end, self.settings.log.payload_bytes)
        if not self.disk.exists(segment_path(number)):
            return
        forgery = FORGERIES[self.crashes % len(FORGERIES)]
        forged = forgery.group(end, _LATER_START, 1, DefineRecord("QLOCAL", 999, {"name": _FORGED}))
        for serial in range(2, 8):
            forged += forgery.group(end + len(forged), _LATER_START, serial)
        self.disk.overwrite(segment_path(number), HEAD_PAGE_BYTES + offset, forged)

    def _crash_in_a_force(self) -> None:
        """The power goes between the write of a group and the end of its force: the group may be torn."""
        self.disk.faults = None
        group = self.manager.group_commit.begin()
        if group is not None:
            self.manager.log.write_group(group, force=False)
        self._crash(self.random.choice((self.disk.power_cut, self.disk.power_cut, self.disk.kill)))

    def _crash_in_restart(self) -> None:
        self.disk.faults = _PowerCut(self.disk, self.random.randrange(1, 40))
        try:
            self._restart()
        except (_PowerIsGone, AssertionError) as gone:
            assert isinstance(gone, _PowerIsGone) or self.disk.faults is None
        finally:
            self.disk.faults = None
        self.disk.kill()

    def _accept_survivors(self, *, exact_counts: bool) -> None:
        """Of what was under way a prefix has survived: find out which, and let the model follow."""
        for work in self.open:
            self._undo(work)
        self.open = []
        found = {(name, number) for name in QUEUES for number in self._numbers(name)}
        for index in range(len(self.promises) + 1):
            if index:
                self.promises[index - 1].apply()
            if {(item.queue, item.number) for item in self.on_queue if self._survives(item)} == found:
                prepared = set(self.manager.in_doubt.units)
                if prepared == set(self.prepared):
                    break
        else:
            expected = sorted((item.queue, item.number) for item in self.on_queue if self._survives(item))
            raise AssertionError(
                f"after the crash: {sorted(found)}, expected {expected} or an earlier state; "
                f"in doubt {list(self.manager.in_doubt.units)}, expected {list(self.prepared)}"
            )
        for promise in self.promises[index:]:
            for item in promise.work.takes:
                if item.taken_by is promise.work and promise.work not in self.prepared.values():
                    item.taken_by = None
        self.promises = []
        self.on_queue = [item for item in self.on_queue if item.persistent]
        for work in self.prepared.values():
            for item in work.takes:
                item.uncertain = True
            work.puts = [item for item in work.puts if item.persistent]
            work.takes = [item for item in work.takes if item.persistent]
        self._accept_counts(exact=exact_counts)

    def _survives(self, item: Item) -> bool:
        return item.persistent and not (
            isinstance(item.taken_by, SimulatedUnit) and item.taken_by in self.prepared.values()
        )

    def _numbers(self, name: str) -> list[int]:
        messages, _ = self.manager.browse(name, None, None, 100_000)
        return [self._number_of(message) for message in messages]

    def _number_of(self, message: Message) -> int:
        """Which message it is, when all of it is as it was put."""
        number = int(message.body.partition(b":")[0])
        assert message.body == self.bodies[number], f"the body of {number} has changed"
        return number

    def _accept_counts(self, *, exact: bool) -> None:
        """Backout counts are noted without a force: a kill keeps them, a power cut may take the last ones."""
        by_number = {(item.queue, item.number): item for item in self.on_queue}
        for name in QUEUES:
            for message in self.manager.browse(name, None, None, 100_000)[0]:
                item = by_number[(name, int(message.body.partition(b":")[0]))]
                if exact and not item.uncertain:
                    assert message.backout_count == item.backouts, f"{item} has count {message.backout_count}"
                # Around a full disk a checkpoint may count what the log will count again.
                assert self.faulted or item.uncertain or message.backout_count <= item.backouts + item.forgiven, (
                    f"{item} has {message.backout_count}"
                )
                item.backouts, item.forgiven, item.uncertain = message.backout_count, 0, False

    def _compare(self) -> None:
        for name in QUEUES:
            items = [item for item in self.on_queue if item.queue == name and item.taken_by is None]
            expected = [item.number for item in sorted(items, key=lambda item: item.place)]
            found = self._numbers(name)
            assert found == expected, f"{name} has {found}, expected {expected}"
            depth = self.manager.administration.queue_status(name)["CURDEPTH"]
            assert depth == sum(item.queue == name for item in self.on_queue), f"{name} has depth {depth}"

    def _drain(self) -> None:
        """After the faults have stopped everything can be got: the queue manager is alive."""
        for transaction_id in list(self.prepared):
            settlement = self.manager.in_doubt.resolve(transaction_id, commit=False)
            self.manager.force()
            assert settlement is not None
            assert settlement.error is None
            self._undo(self.prepared.pop(transaction_id))
        for name in QUEUES:
            while True:
                try:
                    message, _ = self.manager.get(name)
                except LogFull:
                    self.manager.force()
                    self.restarted.checkpoints.take()
                    continue
                if message is None:
                    break
                items = [item for item in self.on_queue if item.queue == name]
                expected = min(items, key=lambda item: item.place)
                assert message.body.partition(b":")[0] == b"%d" % expected.number
                self.on_queue.remove(expected)
        self.manager.force()
        assert self.manager.failure is None
        assert not self.on_queue


class _RandomFault:
    """After some calls the disk refuses, for as long as `calls` says."""

    def __init__(self, random: Random, number: int, calls: int, struck: Callable[[], None] = lambda: None) -> None:
        self._number = number
        self._struck = struck
        self._wait = random.randrange(10)
        self._calls = calls
        self._part = random.random() < 0.3

    def before(self, operation: str, path: str, size: int) -> int | None:
        if self._number == errno.ENOSPC and operation not in GROWING:
            return None
        if operation == "read":
            return None
        self._wait -= 1
        if self._wait >= 0 or self._calls <= 0:
            return None
        self._calls -= 1
        self._struck()
        if operation == "write" and self._part and self._number == errno.ENOSPC:
            return size // 2
        raise OSError(self._number, "simulated", path)


class _PowerIsGone(Exception):
    pass


class _PowerCut:
    def __init__(self, disk: SimulatedDisk, at: int) -> None:
        self._disk = disk
        self._at = at

    def before(self, _operation: str, _path: str, _size: int) -> int | None:
        self._at -= 1
        if self._at == 0:
            self._disk.power_cut()
            raise _PowerIsGone
        return None


def main() -> None:
    """Run the seeds named on the command line."""
    for seed in map(int, sys.argv[1:]):
        simulation = Simulation(seed)
        try:
            trace = simulation.run(300)
        except (AssertionError, DiskFailed, QueueManagerFailed) as error:
            raise SystemExit(f"seed {seed}: {error}") from error
        print(seed, trace, f"{simulation.crashes} crashes", simulation.counts)


if __name__ == "__main__":
    main()
