# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from entrepot.server import deadlines
from entrepot.server.deadlines import Deadlines


class Loop:
    """A loop whose clock a test moves; it has one timer."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self, when, call))
        return self.timers[-1]

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for timer in [each for each in self.timers if each.when <= self.now]:
            self.timers.remove(timer)
            timer.call()


class Timer:
    def __init__(self, loop: Loop, when: float, call: Callable[[], None]) -> None:
        self.loop = loop
        self.when = when
        self.call = call

    def cancel(self) -> None:
        self.loop.timers.remove(self)


class Waiting:
    """Something that waits until it is served or has expired."""

    def __init__(self, name: str, expired: list[str]) -> None:
        self.name = name
        self.is_waiting = True
        self._expired = expired

    def expire(self) -> None:
        self.is_waiting = False
        self._expired.append(self.name)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def due(loop: Loop) -> Deadlines:
    return Deadlines(loop)  # type: ignore[arg-type]


def test_what_waits_expires_in_the_order_of_its_time_and_by_one_timer(loop: Loop, due: Deadlines) -> None:
    expired: list[str] = []
    for name, seconds in (("late", 3.0), ("soon", 1.0), ("later", 3.0), ("between", 2.0)):
        due.after(seconds, Waiting(name, expired))
        assert len(loop.timers) == 1
    seen = []
    for _ in range(3):
        loop.advance(1.0)
        seen.append(list(expired))
    assert seen == [["soon"], ["soon", "between"], ["soon", "between", "late", "later"]]
    assert loop.timers == []


def test_what_was_served_does_not_expire_and_its_timer_harms_nobody(loop: Loop, due: Deadlines) -> None:
    expired: list[str] = []
    served, waits = Waiting("served", expired), Waiting("waits", expired)
    due.after(1.0, served)
    due.after(2.0, waits)
    served.is_waiting = False
    loop.advance(1.0)
    assert [timer.when for timer in loop.timers] == [102.0]
    loop.advance(1.0)
    assert expired == ["waits"]


def test_who_begins_to_wait_while_another_expires_is_not_forgotten(loop: Loop, due: Deadlines) -> None:
    expired: list[str] = []
    first, second = Waiting("first", expired), Waiting("second", expired)
    first.expire = lambda: (setattr(first, "is_waiting", False), due.after(1.0, second))  # type: ignore[method-assign]
    due.after(1.0, first)
    loop.advance(1.0)
    loop.advance(1.0)
    assert expired == ["second"]


def test_what_was_served_is_let_go_of_before_more_than_so_many_have_gathered(
    due: Deadlines, monkeypatch: pytest.MonkeyPatch, loop: Loop
) -> None:
    monkeypatch.setattr(deadlines, "_TIDY_MIN", 4)
    due = Deadlines(loop)  # type: ignore[arg-type]
    gone: list[Any] = []
    expired: list[str] = []
    due.after(60.0, waits := Waiting("waits", expired))
    for _ in range(3):
        served = Waiting("served", expired)
        due.after(60.0, served)
        served.is_waiting = False
        gone.append(weakref.ref(served))
    del served
    assert all(each() is not None for each in gone)
    due.after(60.0, Waiting("fifth", expired))
    assert all(each() is None for each in gone)
    loop.advance(60.0)
    assert expired == ["waits", "fifth"] and not waits.is_waiting


def test_it_works_on_a_real_loop() -> None:
    async def work() -> list[str]:
        expired: list[str] = []
        due = Deadlines(asyncio.get_running_loop())
        due.after(0.0, Waiting("now", expired))
        while not expired:
            await asyncio.sleep(0)
        return expired

    assert asyncio.run(work()) == ["now"]
