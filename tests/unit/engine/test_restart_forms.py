# SPDX-License-Identifier: Apache-2.0
"""However the log is read, one record after the other or many at once, compiled or not, the same state comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.engine import restart as restarting
from entrepot.engine.definitions import LocalQueue, SubscriptionDefinition
from entrepot.engine.entry import QueuedMessage
from entrepot.engine.recovery_log import reader as reading
from entrepot.engine.recovery_log.group import Group
from entrepot.engine.recovery_log.reader import LogReader
from entrepot.engine.recovery_log.record import PutRecord
from entrepot.engine.recovery_log.segment import HEAD_PAGE_BYTES, segment_path
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import Restarted, restart
from entrepot.errors import EntrepotError, LogDamaged
from entrepot.message import Message, MessageType
from entrepot.testing import SimulatedDisk

from .simulated import Simulated

LOG = LogSettings(segment_bytes=64 * 1024, primary=8, secondary=24)
QUEUES = ("Q", "A", "B")
SPECIAL: list[dict[str, Any]] = [
    {"properties": {"colour": "red", "size": 3}},
    {"correlation_id": b"c"},
    {"group_id": b"g", "sequence": 2},
    {"expiry_s": 3600.0},
    {"delay_s": 3600.0},
    {"reply_to": "A", "reply_to_manager": "ELSEWHERE"},
    {"type": MessageType.REQUEST, "reply_to": "A"},
    {"format": "MQSTR", "user": "zoë"},
    {"message_id": b"m" * 24, "backout_count": 3},
]


class Work:
    """What a queue manager does, step by step; its log is what is to be read."""

    def __init__(self) -> None:
        self.world = Simulated(log=LOG)
        self.count = 0
        self.manager.administration.define_missing()
        for name in QUEUES[1:]:
            self.manager.administration.define(LocalQueue(name=name, delivery="FIFO"), replace_existing=False)
        self.manager.force()
        for name in QUEUES:
            self.manager.publishing.define(SubscriptionDefinition(name=f"S.{name}", topic="t", destination=name))
        self.manager.force()

    @property
    def manager(self) -> Any:
        return self.world.manager

    def message(self, body_bytes: int, special: int) -> Message:
        self.count += 1
        body = self.count.to_bytes(4, "big") + bytes(body_bytes)
        return Message(body, **(SPECIAL[special] if special < len(SPECIAL) else {}))

    def put(self, queue: str, body_bytes: int, special: int, priority: int | None, persistent: bool) -> None:
        self.manager.put(queue, self.message(body_bytes, special), persistent=persistent, priority=priority)

    def put_to_all(self, body_bytes: int, special: int) -> None:
        self.manager.put(QUEUES, self.message(body_bytes, special), persistent=True)

    def publish(self, body_bytes: int, special: int, retained: bool) -> None:
        message = self.message(body_bytes, special)
        self.manager.publishing.publish("t", Message(message.body, retained=retained), persistent=True)

    def get(self, queue: str) -> None:
        self.manager.get(queue)

    def unit(self, queue: str, puts: int, gets: int, special: int, end: str) -> None:
        unit = self.manager.begin()
        for _ in range(puts):
            self.manager.put(queue, self.message(100, special), persistent=True, unit=unit)
        for _ in range(gets):
            self.manager.get(queue, None, unit)
        match end:
            case "commit":
                self.manager.commit(unit)
            case "back out":
                self.manager.back_out(unit)
            case "forgive":
                self.manager.back_out(unit, counted=False)
            case "prepare" | "resolve":
                transaction_id = b"x%d" % self.count
                self.manager.in_doubt.prepare(unit, transaction_id)
                self.manager.force()
                if end == "resolve":
                    self.manager.in_doubt.resolve(transaction_id, commit=gets % 2 == 0)

    def define(self, name: str) -> None:
        if name in self.manager.objects.queues:
            self.manager.administration.delete("QLOCAL", name, purge=True)
        else:
            self.manager.administration.define(LocalQueue(name=name, buffer_bytes=4096), replace_existing=False)

    def checkpoint(self) -> None:
        self.world.restarted.checkpoints.take()

    def start(self, power_cut: bool) -> None:
        self.world.power_cut_and_start() if power_cut else self.world.kill_and_start()

    def do(self, step: tuple[Any, ...]) -> None:
        name, *arguments = step
        try:
            getattr(self, name)(*arguments)
            self.manager.force()
        except EntrepotError:
            # A full log, a queue that is not there: the same for every form, as it is before the restart.
            self.manager.force()


sizes = st.sampled_from([0, 1, 30, 200, 255, 300, 3000, 70_000])
specials = st.integers(0, 2 * len(SPECIAL))
queues = st.sampled_from([*QUEUES, "D"])
steps = st.one_of(
    st.tuples(st.just("put"), queues, sizes, specials, st.sampled_from([None, 0, 4, 9]), st.booleans()),
    st.tuples(st.just("put_to_all"), sizes, specials),
    st.tuples(st.just("publish"), sizes, specials, st.booleans()),
    st.tuples(st.just("get"), queues),
    st.tuples(
        st.just("unit"),
        queues,
        st.integers(0, 3),
        st.integers(0, 3),
        specials,
        st.sampled_from(["commit", "commit", "back out", "forgive", "prepare", "resolve", "leave open"]),
    ),
    st.tuples(st.just("define"), st.just("D")),
    st.tuples(st.just("checkpoint")),
    st.tuples(st.just("start"), st.booleans()),
)


def one_by_one(disk: SimulatedDisk, work: Work, until: int | None = None) -> Restarted:
    """Each record comes from the reader's general way."""
    records = LogReader.records

    def without_take(self: LogReader, start: int, **options: Any) -> Any:
        return records(self, start, **(options | {"take": None}))

    with mock.patch.object(LogReader, "records", without_take), mock.patch.object(restarting, "_records", None):
        return restart(disk, work.world.clock, work.world.settings, until_position=until)


def in_python(disk: SimulatedDisk, work: Work, until: int | None = None) -> Restarted:
    with mock.patch.object(restarting, "_records", None):
        return restart(disk, work.world.clock, work.world.settings, until_position=until)


def as_installed(disk: SimulatedDisk, work: Work, until: int | None = None) -> Restarted:
    return restart(disk, work.world.clock, work.world.settings, until_position=until)


Form = Callable[..., Restarted]


def seen(entry: QueuedMessage) -> Any:
    run = None if entry.run is None else (entry.run.stored.number, entry.index)
    place = (entry.key, entry.queue, entry.log_position, run, entry.state, entry.resident)
    return place, entry.backouts, None if entry.shared is None else entry.shared.count, entry.message


def state_of(restarted: Restarted) -> Any:
    """All that a restart has made of the disk."""
    manager: Any = restarted.manager
    memory = {}
    for name, queue in manager.objects.queues.items():
        memory[name] = (
            [(lane.memory_bytes, lane._key_last, [seen(e) for e in lane.in_memory()]) for lane in queue._order],
            [seen(entry) for entry in queue.after(None)],
            [seen(entry) for entry in queue.sleeping.values()],
            {found: [entry.key for entry in entries] for found, entries in queue._by_correlation_id.items()},
            (queue.depth, queue.reserved, queue.uncommitted_gets, queue.memory_bytes, queue.run_count),
        )
    in_doubt = {
        transaction_id: (
            [(queue.number, seen(entry)) for queue, entry in arrivals],
            [(take.queue.number, seen(take.entry)) for take in unit.takes],
            [put.message for put in unit.puts],
        )
        for transaction_id, (unit, arrivals) in manager.in_doubt.units.items()
    }
    runs = {number: (bytes(run.gone), run.live, list(run.keys)) for number, run in manager.runs.items()}
    told = (restarted.replayed_bytes, restarted.replayed_records, restarted.torn)
    kept = (sorted(manager.young), manager.recounted, runs, manager.key_next, manager.log._group_starts)
    return memory, in_doubt, kept, told


def outcome(form: Form, work: Work, disk: SimulatedDisk, window_bytes: int, until: int | None = None) -> Any:
    """The state that a form restores and what is on disk then, or the error and the untouched disk."""
    own = disk.copy()
    with mock.patch.object(reading, "_WINDOW_BYTES", window_bytes):
        try:
            found = state_of(form(own, work, until))
        except EntrepotError as error:
            found = type(error), str(error)
    return found, {path: own.contents(path) for path in own.paths()}


def require_one_outcome(work: Work, disk: SimulatedDisk, until: int | None = None) -> Any:
    states = []
    # Random numbers of this disk follow from what it was asked before, so what is on it depends on the windows.
    for window_bytes in (4 * 1024 * 1024, 8 * 1024):
        expected = outcome(one_by_one, work, disk, window_bytes, until)
        for form in (in_python, as_installed):
            assert outcome(form, work, disk, window_bytes, until) == expected, (form.__name__, window_bytes)
        states.append(expected[0])
    assert states[0] == states[1], "windows make a difference"
    return states[0]


@settings(max_examples=60)
@given(st.lists(steps, min_size=1, max_size=25), st.booleans())
def test_all_forms_restore_the_same_state(script: list[tuple[Any, ...]], power_cut: bool) -> None:
    work = Work()
    for step in script:
        work.do(step)
    work.world.disk.power_cut() if power_cut else work.world.disk.kill()
    require_one_outcome(work, work.world.disk)


@pytest.fixture(scope="module")
def worked() -> Work:
    """A log of four segments with everything in it, and the mark of an idle queue manager at its end."""
    work = Work()
    for special in range(len(SPECIAL) + 3):
        work.put("Q", 300, special, special % 3, persistent=True)
        work.unit("A", 3, 1, special, "commit")
        work.unit("A", 1, 2, special, "back out")
        work.manager.force()
    work.checkpoint()
    work.publish(500, 99, retained=True)
    work.unit("B", 2, 1, 99, "prepare")
    work.put("B", 70_000, 99, None, persistent=True)
    for _ in range(40):
        work.put("B", 1000, 99, None, persistent=True)
        work.unit("B", 1, 2, 99, "forgive")
        work.manager.force()
        work.get("B")
        work.manager.force()
    work.manager.group_commit.mark()
    work.world.disk.kill()
    return work


def log_of(work: Work) -> list[reading.LoggedRecord]:
    return list(work.world.reader().records(0))


def test_a_restore_to_a_position_is_the_same_in_all_forms(worked: Work) -> None:
    groups = [logged.position for logged in log_of(worked) if isinstance(logged.record, Group)]
    applied = worked.world.restarted.checkpoints.applied_position
    behind = [position for position in groups if position >= applied]
    assert len(behind) > 50
    for position in (behind[0], behind[1], behind[len(behind) // 2] + 1, behind[-1], behind[-1] + 1):
        require_one_outcome(worked, worked.world.disk, position)


places = st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 90))
"""A record, by its place among all, and a byte from its beginning on."""


@settings(max_examples=60)
@given(place=places, bit=st.integers(0, 7))
def test_damage_is_reported_alike_by_all_forms(worked: Work, place: tuple[float, int], bit: int) -> None:
    disk = worked.world.disk.copy()
    log = log_of(worked)
    number, offset = divmod(log[int(place[0] * len(log))].position + place[1], LOG.payload_bytes)
    disk.flip_bit(segment_path(number), HEAD_PAGE_BYTES + offset, bit)
    require_one_outcome(worked, disk)


@settings(max_examples=60)
@given(place=places, filler=st.sampled_from([b"\0", b"\xff", b"\x02\0\0\0"]))
def test_a_log_that_is_cut_off_is_alike_to_all_forms(worked: Work, place: tuple[float, int], filler: bytes) -> None:
    disk = worked.world.disk.copy()
    log = log_of(worked)
    first, offset = divmod(log[int(place[0] * len(log))].position + place[1], LOG.payload_bytes)
    for number in range(first, log[-1].position // LOG.payload_bytes + 1):
        begin = HEAD_PAGE_BYTES + (offset if number == first else 0)
        size = LOG.segment_bytes - begin
        disk.overwrite(segment_path(number), begin, (filler * size)[:size])
    require_one_outcome(worked, disk)


def test_damage_and_a_torn_end_are_told_apart_by_all_forms(worked: Work) -> None:
    """The two tests above see both."""
    log = log_of(worked)
    puts = [logged.position for logged in log if isinstance(logged.record, PutRecord)]
    damaged = worked.world.disk.copy()
    number, offset = divmod(puts[-1] + 30, LOG.payload_bytes)
    damaged.flip_bit(segment_path(number), HEAD_PAGE_BYTES + offset, 0)
    error, text = require_one_outcome(worked, damaged)
    assert error is LogDamaged
    assert "CRC" in text
    torn = worked.world.disk.copy()
    number, offset = divmod(log[-1].position + 30, LOG.payload_bytes)
    torn.flip_bit(segment_path(number), HEAD_PAGE_BYTES + offset, 0)
    *_, told = require_one_outcome(worked, torn)
    assert told[2], "a torn end is told of"


def test_a_whole_record_that_is_none_is_reported_alike_by_all_forms() -> None:
    """Its CRC is right, its message has a word where a number belongs."""
    work = Work()
    number = work.manager.objects.queues["Q"].number
    wrong: Any = Message(b"body", persistent=True, sequence="three")  # type: ignore[arg-type]
    work.manager.log.append([PutRecord(0, [(number, work.manager.key_next + 1)], wrong)])
    work.manager.force()
    work.world.disk.kill()
    error, text = require_one_outcome(work, work.world.disk)
    assert error is LogDamaged
    assert "PUT record cannot be understood" in text
