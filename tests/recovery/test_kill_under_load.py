# SPDX-License-Identifier: Apache-2.0
"""Producers, movers and consumers on many threads, a SIGKILL at any moment, and the checker's verdict."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from entrepot.disk import SystemDisk
from entrepot.engine import group_commit
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.folder import create, read_settings
from entrepot.engine.recovery_log.checkpoint import read_checkpoint
from entrepot.engine.recovery_log.reader import LogReader
from entrepot.engine.recovery_log.record import CommitRecord
from entrepot.engine.recovery_log.segment import HEAD_PAGE_BYTES, segment_path
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import EntrepotError
from entrepot.message import Message
from hosted import Host
from recovery.checker import Operation, Outcome, Stamp, Standing, Verdict, check, read_stamp, stamped

# Checkpoints, segment switches, wraps and spills within the second that a process lives.
LOG = LogSettings(segment_bytes=128 * 1024, primary=3, secondary=5, checkpoint_bytes=150_000, buffer_bytes=16_384)
QUEUES = ("A", "B", "ORDERED")
DEPTH_HIGH = 150
LIVES = 5
"""How often each queue manager is killed before its queues are drained."""
LIFE_S_MAX = 0.7
WORK_BYTES = 15_000
"""What a process that has done something has written into its journal."""


# --- the history, written by the process that will be killed --------------------------------


class Journal:
    """One complete line for each event, in one write to a file that outlives the process."""

    def __init__(self, path: Path, life: int) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._life = life
        # A kill may cut a write where it crosses a page, so a life begins with a line of its own.
        os.write(self._descriptor, b"\n")

    def write(self, operation: str, event: str, *details: object) -> None:
        line = json.dumps([f"{self._life}/{operation}", event, *details]) + "\n"
        os.write(self._descriptor, line.encode())


def read_journal(path: Path) -> tuple[list[Operation], list[str]]:
    """The operations, and the bodies that were not what was put."""
    operations: dict[str, Operation] = {}
    committing: set[str] = set()
    damaged: list[str] = []
    lines = [*path.read_text().splitlines(), ""]
    for line, following in itertools.pairwise(lines):
        if not line:
            continue
        try:
            name, event, *details = json.loads(line)
        except json.JSONDecodeError:
            # The last words of a life: that event was never written. Anywhere else it would be a mistake of ours.
            assert not following, line
            continue
        if event == "begin":
            operations[name] = Operation(actor=details[0])
            continue
        operation = operations[name]
        if event == "put":
            operation.puts.append(_standing(details))
        elif event == "got":
            if details[1] is None:
                damaged.append(f"{name} from {details[0]}")
            else:
                operation.gets.append(_standing(details))
        elif event == "take":
            operation.takes_from = details[0]
            committing.add(name)
        elif event == "commit":
            committing.add(name)
        else:
            operation.outcome = event
            operation.takes_from = ""
    # Whoever died before the commit has done nothing, and that is known.
    for name, operation in operations.items():
        if operation.outcome == "unknown" and name not in committing:
            operation.outcome = "fail"
    return list(operations.values()), damaged


def _standing(details: list[object]) -> Standing:
    queue, stamp = details
    assert isinstance(queue, str)
    assert isinstance(stamp, list)
    return Standing(queue, Stamp(*stamp))


# --- the load -------------------------------------------------------------------------------


class Actor:
    """One thread: it works until the process is killed."""

    def __init__(self, name: str, host: Host, journal: Journal, random: Random) -> None:
        self.name = name
        self.host = host
        self.journal = journal
        self.random = random
        self._operation = 0
        self._sequence = 0

    def begin(self) -> str:
        self._operation += 1
        operation = f"{self.name}.{self._operation}"
        self.journal.write(operation, "begin", self.name)
        return operation

    def end(self, operation: str, error: EntrepotError | None = None) -> None:
        if error is None:
            self.journal.write(operation, "ok")
        elif error.outcome == "not_done":
            self.journal.write(operation, "fail")
            time.sleep(0.002)

    def put(self, operation: str, queue: str, k: int = 1, n: int = 1, unit: Unit | None = None) -> None:
        self._sequence += 1
        stamp = Stamp(self.name, self._sequence, operation, k, n)
        self.journal.write(operation, "put", queue, stamp)
        if unit is None:
            self.journal.write(operation, "commit")
        filler = self.random.randbytes(self.random.choice((10, 300, 2_000, 9_000)))
        self.host.put(queue, Message(stamped(stamp, filler)), persistent=True, priority=4, unit=unit)

    def got(self, operation: str, queue: str, message: Message) -> None:
        self.journal.write(operation, "got", queue, read_stamp(message.body))

    def commit(self, operation: str, unit: Unit) -> None:
        self.journal.write(operation, "commit")
        try:
            self.host.commit(unit)
        except EntrepotError as error:
            if unit.state.name == "ACTIVE":
                self.host.back_out(unit)
            self.end(operation, error)
        else:
            self.end(operation)

    def back_out(self, operation: str, unit: Unit) -> None:
        self.host.back_out(unit)
        self.journal.write(operation, "fail")


def produce(actor: Actor, queues: tuple[str, ...], *, back_outs: bool) -> None:
    """Put alone, and in units of one to five over the queues; some units are backed out."""
    while actor.host.queue_status(queues[0])["CURDEPTH"] > DEPTH_HIGH:  # type: ignore[operator]
        time.sleep(0.005)
    operation = actor.begin()
    if actor.random.random() < 0.5:
        try:
            actor.put(operation, queues[0])
        except EntrepotError as error:
            actor.end(operation, error)
        else:
            actor.end(operation)
        return
    unit = actor.host.begin()
    count = actor.random.randint(1, 5)
    for k in range(1, count + 1):
        actor.put(operation, actor.random.choice(queues), k, count, unit)
    if back_outs and actor.random.random() < 0.25:
        actor.back_out(operation, unit)
    else:
        actor.commit(operation, unit)


def move(actor: Actor) -> None:
    """From A to B in a unit of work; some moves are backed out."""
    operation = actor.begin()
    unit = actor.host.begin()
    message = actor.host.get("A", unit=unit, wait_s=0.02)
    if message is None:
        actor.back_out(operation, unit)
        return
    actor.got(operation, "A", message)
    actor.journal.write(operation, "put", "B", read_stamp(message.body))
    actor.host.put("B", Message(message.body), persistent=True, priority=4, unit=unit)
    if actor.random.random() < 0.2:
        actor.back_out(operation, unit)
    else:
        actor.commit(operation, unit)


def consume(actor: Actor, queue: str) -> None:
    """Get one message outside of any unit."""
    operation = actor.begin()
    actor.journal.write(operation, "take", queue)
    try:
        message = actor.host.get(queue, wait_s=0.02)
    except EntrepotError as error:
        actor.end(operation, error)
        return
    if message is not None:
        actor.got(operation, queue, message)
    actor.end(operation)


def consume_in_units(actor: Actor, queue: str, *, back_outs: bool) -> None:
    """Get up to three messages in a unit."""
    operation = actor.begin()
    unit = actor.host.begin()
    for _ in range(actor.random.randint(1, 3)):
        message = actor.host.get(queue, unit=unit, wait_s=0.02)
        if message is not None:
            actor.got(operation, queue, message)
    if back_outs and actor.random.random() < 0.2:
        actor.back_out(operation, unit)
    else:
        actor.commit(operation, unit)


ROLES: dict[str, Callable[[Actor], None]] = {
    "producer-1": lambda actor: produce(actor, ("A", "B"), back_outs=True),
    "producer-2": lambda actor: produce(actor, ("A", "B"), back_outs=True),
    "producer-3": lambda actor: produce(actor, ("B", "A"), back_outs=True),
    "mover-1": move,
    "mover-2": move,
    "consumer-1": lambda actor: consume(actor, "B"),
    "consumer-2": lambda actor: consume_in_units(actor, "B", back_outs=True),
    # One producer, one consumer, one priority, no back-out: here MQ promises the order.
    "in-order-producer": lambda actor: produce(actor, ("ORDERED",), back_outs=False),
    "in-order-consumer": lambda actor: consume_in_units(actor, "ORDERED", back_outs=False),
}


class Failures:
    """Why threads ended that should have gone on until the kill."""

    def __init__(self, journal: Path) -> None:
        self.path = journal.with_suffix(".failures")
        self.path.touch()

    def add(self) -> None:
        with self.path.open("a") as file:
            file.write(traceback.format_exc())


def live(path: Path, journal: Path, life: int, seed: int, failures: Failures) -> None:
    """The whole life of the process that is killed; it only returns when something is wrong."""
    host = Host(path)
    lines = Journal(journal, life)
    ended = threading.Event()

    def work(name: str, role: Callable[[Actor], None]) -> None:
        # The name has the life in it: a producer's sequence begins anew with each.
        actor = Actor(f"{name}@{life}", host, lines, Random(f"{seed} {life} {name}"))
        try:
            while True:
                role(actor)
        except BaseException:
            failures.add()
            ended.set()

    for name, role in ROLES.items():
        threading.Thread(target=work, args=(name, role), daemon=True).start()
    ended.wait()


# --- the kill -------------------------------------------------------------------------------


def new_manager(path: Path) -> None:
    create(path, name="QM", log=LOG)
    with contextlib.closing(Host(path)) as host:
        for name in QUEUES:
            host.define(LocalQueue(name=name, buffer_bytes=80_000), replace=False)


def run_and_kill(path: Path, journal: Path, life: int, seed: int) -> None:
    random = Random(f"{seed} {life}")
    failures = Failures(journal)
    before = journal.stat().st_size
    child = os.fork()
    if child == 0:
        try:
            live(path, journal, life, seed, failures)
        except BaseException:
            failures.add()
        finally:
            os._exit(1)
    time.sleep(random.uniform(0.02, LIFE_S_MAX))
    if life % 2 == 0:
        # On a busy machine it may not have come to its work; so it may die while it starts, but not each time.
        deadline = time.monotonic() + 60
        while journal.stat().st_size - before < WORK_BYTES and time.monotonic() < deadline:
            time.sleep(0.005)
    if random.random() < 0.3:
        # A process that was stopped for a while is none the worse for it.
        os.kill(child, signal.SIGSTOP)
        time.sleep(0.1)
        os.kill(child, signal.SIGCONT)
        time.sleep(random.uniform(0.0, 0.1))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), failures.path.read_text()


def drain(path: Path) -> tuple[list[Standing], list[str]]:
    """Start once more and get everything; what was on the queues, and which bodies were damaged."""
    found: list[Standing] = []
    damaged: list[str] = []
    with contextlib.closing(Host(path)) as host:
        for queue in QUEUES:
            while (message := host.get(queue)) is not None:
                stamp = read_stamp(message.body)
                if stamp is None:
                    damaged.append(f"drained from {queue}")
                else:
                    found.append(Standing(queue, stamp))
    return found, damaged


def campaign(path: Path, seed: int, lives: int = LIVES) -> tuple[Verdict, list[Operation]]:
    """Kill a queue manager so many times, then see whether its queues hold what they should."""
    journal = path.with_suffix(".journal")
    journal.touch()
    new_manager(path)
    for life in range(lives):
        run_and_kill(path, journal, life, seed)
    drained, damaged = drain(path)
    operations, damaged_before = read_journal(journal)
    return check(operations, drained, [*damaged_before, *damaged]), operations


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.torture) for seed in (3, 4))])
def test_killed_under_load_five_times_in_a_row_nothing_is_lost_torn_or_doubled(tmp_path: Path, seed: int) -> None:
    verdict, operations = campaign(tmp_path / "qm", seed)
    assert verdict.problems() == {}, verdict
    # A load that did nothing would prove nothing.
    assert sum(operation.outcome == "ok" and operation.effects > 0 for operation in operations) > 100


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 160))
def test_killed_under_load_three_hundred_times(tmp_path: Path, seed: int) -> None:
    verdict, _ = campaign(tmp_path / "qm", seed)
    assert verdict.problems() == {}, verdict


def test_acknowledging_before_the_write_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    promise = group_commit.GroupCommit.promise

    def eager(self: group_commit.GroupCommit, *arguments: object) -> object:
        settlement = promise(self, *arguments)  # type: ignore[arg-type]
        self._pending.remove(settlement)
        settlement.settle()
        return settlement

    monkeypatch.setattr(group_commit.GroupCommit, "promise", eager)
    # Otherwise notes of gets would carry the records to disk with them, mostly in time.
    monkeypatch.setattr(group_commit.GroupCommit, "flush", lambda self: None)
    journal = tmp_path / "journal"
    journal.touch()
    new_manager(tmp_path / "qm")
    for life in range(3):
        run_and_kill(tmp_path / "qm", journal, life, seed=7)
    monkeypatch.undo()
    drained, _ = drain(tmp_path / "qm")
    problems = check(read_journal(journal)[0], drained).problems()
    assert problems, "messages that were acknowledged too early must be missed"


# --- what a kill can tear -------------------------------------------------------------------


def put_unit(path: Path, *bodies: bytes) -> Path:
    """Start, put all in one unit of work, and be killed; the folder that is left."""
    host = Host(path)
    unit = host.begin()
    for body in bodies:
        host.put("A", Message(body), persistent=True, unit=unit)
    host.commit(unit)
    killed = path.with_name(path.name + "+")
    shutil.copytree(path, killed)
    host.close()
    return killed


def tear_last_commit(path: Path) -> None:
    """Leave the last unit's puts in the log, but not its commit, as a write that was cut short does."""
    settings, disk = read_settings(path), SystemDisk(path)
    start = read_checkpoint(disk)[0].start_position
    records = list(LogReader(disk, settings.log, settings.manager_id).records(start))
    position = max(logged.position for logged in records if isinstance(logged.record, CommitRecord))
    number, offset = divmod(position, settings.log.payload_bytes)
    file = disk.open(segment_path(number))
    file.write(HEAD_PAGE_BYTES + offset, [bytes(settings.log.payload_bytes - offset)])
    file.close()


def test_a_unit_that_a_crash_tore_does_not_come_back_when_a_later_start_commits_its_own(tmp_path: Path) -> None:
    """Each start numbers its units anew, and the log still has the puts of the torn one."""
    new_manager(tmp_path / "qm")
    path = put_unit(tmp_path / "qm", b"torn 1", b"torn 2")
    tear_last_commit(path)
    path = put_unit(path, b"whole 1", b"whole 2")
    with contextlib.closing(Host(path)) as host:
        assert [message.body for message in host.browse("A", None, None, 10)[0]] == [b"whole 1", b"whole 2"]


def test_a_message_that_kills_its_reader_each_time_is_counted_and_set_aside(tmp_path: Path) -> None:
    """Nothing but the count of takes is in the log when the process dies."""
    path = tmp_path / "qm"
    new_manager(path)
    with contextlib.closing(Host(path)) as host:
        host.define(LocalQueue(name="POISON"), replace=False)
        poisoned = LocalQueue(name="Q", backout_threshold=3, backout_queue="POISON")
        host.define(poisoned, replace=False)
        for body in (b"poison", b"neighbour"):
            host.put("Q", Message(body), persistent=True)
    for count in range(3):
        host = Host(path)
        message = host.get("Q", unit=host.begin())
        assert message is not None
        assert (message.body, message.backout_count) == (b"poison", count)
        killed = path.with_name(path.name + "+")
        shutil.copytree(path, killed)
        host.close()
        path = killed
    with contextlib.closing(Host(path)) as host:
        unit = host.begin()
        message = host.get("Q", unit=unit)
        assert message is not None
        assert message.body == b"neighbour"
        host.commit(unit)
        poison = host.get("POISON")
        assert poison is not None
        assert poison.body == b"poison"


# --- the checker's own controls -------------------------------------------------------------


def standing(queue: str, sequence: int, *, unit: str = "u", k: int = 1, n: int = 1, producer: str = "p") -> Standing:
    return Standing(queue, Stamp(producer, sequence, unit, k, n))


def put(*standings: Standing, outcome: Outcome = "ok") -> Operation:
    return Operation("p", puts=list(standings), outcome=outcome)


def get(*standings: Standing, outcome: Outcome = "ok", actor: str = "c") -> Operation:
    return Operation(actor, gets=list(standings), outcome=outcome)


def moved(source: Standing, queue: str, outcome: Outcome) -> Operation:
    return Operation("m", puts=[Standing(queue, source.stamp)], gets=[source], outcome=outcome)


FIRST, SECOND, THIRD = (standing("A", number) for number in (1, 2, 3))


def test_a_sound_history_has_no_problems() -> None:
    history = [put(FIRST), put(SECOND, THIRD), get(FIRST), put(standing("A", 4), outcome="fail")]
    assert check(history, [SECOND, THIRD]).problems() == {}


def test_the_checker_finds_a_lost_message() -> None:
    assert check([put(FIRST), put(SECOND)], [SECOND]).lost == [FIRST]


def test_the_checker_finds_a_message_that_nobody_put() -> None:
    assert check([put(FIRST)], [FIRST, SECOND]).unexpected == [SECOND]


@pytest.mark.parametrize(
    ("history", "drained"),
    [
        ([put(FIRST)], [FIRST, FIRST]),
        ([put(FIRST), get(FIRST)], [FIRST]),
        ([put(FIRST), get(FIRST), get(FIRST, actor="d")], []),
        ([put(FIRST, outcome="unknown")], [FIRST, FIRST]),
        ([put(FIRST), moved(FIRST, "B", "ok"), moved(FIRST, "B", "ok")], [Standing("B", FIRST.stamp)]),
    ],
    ids=["left twice", "got and left", "got twice", "unknown and left twice", "moved twice"],
)
def test_the_checker_finds_a_duplicate(history: list[Operation], drained: list[Standing]) -> None:
    assert check(history, drained).duplicated


@pytest.mark.parametrize("outcome", ["ok", "unknown"])
def test_the_checker_finds_a_torn_unit_of_puts(outcome: Outcome) -> None:
    verdict = check([put(FIRST, SECOND, THIRD, outcome=outcome)], [FIRST, THIRD])
    assert len(verdict.torn_unit) == 1
    assert verdict.lost == [SECOND]


@pytest.mark.parametrize("outcome", ["ok", "unknown"])
def test_the_checker_finds_a_torn_move(outcome: Outcome) -> None:
    history = [put(FIRST), moved(FIRST, "B", outcome)]
    assert check(history, [FIRST, Standing("B", FIRST.stamp)]).torn_unit
    assert check(history, []).torn_unit


@pytest.mark.parametrize("drained", [[FIRST], [Standing("B", FIRST.stamp)]], ids=["not moved", "moved"])
def test_a_move_of_unknown_outcome_happened_wholly_or_not_at_all(drained: list[Standing]) -> None:
    assert check([put(FIRST), moved(FIRST, "B", "unknown")], drained).problems() == {}


def test_the_checker_finds_a_read_of_what_was_backed_out() -> None:
    aborted = put(FIRST, outcome="fail")
    assert check([aborted], [FIRST]).aborted_read == [FIRST]
    assert check([aborted, get(FIRST)], []).aborted_read == [FIRST]
    # Even when the reader has backed out too, it has seen what never was.
    assert check([aborted, get(FIRST, outcome="fail")], []).aborted_read == [FIRST]


@pytest.mark.parametrize("drained", [[], [FIRST, SECOND]], ids=["did not happen", "happened"])
def test_an_unknown_unit_of_puts_may_be_there_or_not(drained: list[Standing]) -> None:
    assert check([put(FIRST, SECOND, outcome="unknown")], drained).problems() == {}


@pytest.mark.parametrize("drained", [[], [FIRST]], ids=["has left", "reappears"])
def test_a_get_of_unknown_outcome_may_reappear(drained: list[Standing]) -> None:
    assert check([put(FIRST), get(FIRST, outcome="unknown")], drained).problems() == {}


def test_a_get_that_died_explains_one_missing_message_of_its_queue_and_no_more() -> None:
    died = Operation("c", takes_from="A")
    assert check([put(FIRST), died], []).problems() == {}
    assert check([put(FIRST), died], [FIRST]).problems() == {}
    assert len(check([put(FIRST), put(SECOND), died], []).lost) == 1
    elsewhere = standing("B", 1)
    assert check([put(elsewhere), died], []).lost == [elsewhere]


def test_a_move_that_did_not_happen_may_be_made_again() -> None:
    history = [put(FIRST), moved(FIRST, "B", "unknown"), moved(FIRST, "B", "fail"), moved(FIRST, "B", "ok")]
    assert check(history, [Standing("B", FIRST.stamp)]).problems() == {}


def test_unknown_outcomes_that_depend_on_each_other_are_decided_together() -> None:
    on_b = Standing("B", FIRST.stamp)
    history = [put(FIRST, outcome="unknown"), moved(FIRST, "B", "unknown"), get(on_b, outcome="unknown")]
    assert check(history, [on_b]).problems() == {}
    assert check(history, []).problems() == {}
    assert check(history, [FIRST, on_b]).problems() != {}


def test_the_checker_finds_disorder_of_one_producer_and_one_consumer() -> None:
    history = [put(FIRST), put(SECOND), put(THIRD)]
    assert check(history, [SECOND, FIRST, THIRD]).reordered == [(SECOND, FIRST)]
    assert check([*history, get(SECOND)], [FIRST, THIRD]).reordered == [(SECOND, FIRST)]


@pytest.mark.parametrize(
    "gets",
    [
        [get(SECOND), get(FIRST, actor="d")],
        [get(FIRST, outcome="fail"), get(SECOND), get(FIRST)],
    ],
    ids=["two consumers", "a back-out"],
)
def test_no_order_is_promised_to_two_consumers_or_after_a_back_out(gets: list[Operation]) -> None:
    assert check([put(FIRST), put(SECOND), *gets], []).problems() == {}


def test_a_body_that_was_changed_does_not_prove_itself() -> None:
    body = stamped(FIRST.stamp, b"filler \n with a line end")
    assert read_stamp(body) == FIRST.stamp
    for offset in range(len(body)):
        changed = bytearray(body)
        changed[offset] ^= 1
        assert read_stamp(bytes(changed)) is None
    assert check([], [], ["a body"]).problems() == {"hash_mismatch": 1}
