# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from functools import partial

from entrepot.engine.entry import GONE, QueuedMessage
from entrepot.engine.timers import Timers
from entrepot.message import Message
from entrepot.testing import VirtualClock


class Bench:
    """Timers on a clock that begins at 0, and what they have done."""

    def __init__(self) -> None:
        self.clock = VirtualClock(0.0)
        self.timers = Timers(self.clock.now)
        self.done: list[object] = []

    def call_at(self, when: float, name: object) -> None:
        self.timers.call_at(when, partial(self.done.append, name))

    def watch(self, when: float, entry: QueuedMessage) -> None:
        self.timers.at(when, lambda _, due: self.done.append(due), None, entry)  # type: ignore[arg-type]

    def tick_at(self, when: float) -> list[object]:
        self.clock.advance(when - self.clock.now())
        self.timers.tick()
        done = list(self.done)
        self.done.clear()
        return done


def entry_of(key: int) -> QueuedMessage:
    return QueuedMessage(key, 1, Message(b""))


def test_nothing_is_due_where_nothing_waits() -> None:
    bench = Bench()
    assert bench.tick_at(1) == []
    assert bench.timers.next_due is None


def test_a_timer_is_due_at_its_time_and_not_before() -> None:
    bench = Bench()
    bench.call_at(5, "five")
    assert bench.tick_at(4.9) == []
    assert bench.tick_at(5) == ["five"]
    assert bench.tick_at(6) == []


def test_timers_are_due_in_the_order_of_their_times_and_then_of_their_coming() -> None:
    bench = Bench()
    for when, name in ((3, "c"), (1, "a"), (9, "late"), (3, "d"), (2, "b")):
        bench.call_at(when, name)
    assert bench.tick_at(3) == ["a", "b", "c", "d"]
    assert bench.tick_at(9) == ["late"]


def test_the_next_due_time_is_that_of_the_earliest() -> None:
    bench = Bench()
    for when in (70, 50, 60):
        bench.call_at(when, when)
    assert bench.timers.next_due == 50
    bench.tick_at(55)
    assert bench.timers.next_due == 60


def test_an_action_gets_the_message_it_was_set_for() -> None:
    bench = Bench()
    entry = entry_of(1)
    bench.watch(1, entry)
    assert bench.tick_at(1) == [entry]


def test_many_that_are_due_at_once_are_served_a_part_at_a_time_oldest_first() -> None:
    bench = Bench()
    for number in range(450):
        bench.call_at(1, number)
    parts = [bench.tick_at(1) for _ in range(4)]
    assert [len(part) for part in parts] == [200, 200, 50, 0]
    assert [number for part in parts for number in part] == list(range(450))


def test_timers_of_messages_that_have_gone_make_room_for_others() -> None:
    bench = Bench()
    entries = [entry_of(number) for number in range(1024)]
    for entry in entries:
        bench.watch(entry.key + 1, entry)
    for entry in entries[:1000]:
        entry.state = GONE
    bench.watch(5000, entry_of(2000))
    assert bench.timers.next_due == 1001
    assert bench.tick_at(4999) == entries[1000:]
