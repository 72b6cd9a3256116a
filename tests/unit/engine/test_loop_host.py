# SPDX-License-Identifier: Apache-2.0
"""The engine on an event loop: who is told what, when, and on which thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from entrepot.engine.criteria import Criteria
from entrepot.engine.loop_host import LoopHost
from entrepot.engine.unit_of_work import UnitState
from entrepot.engine.waiting import StandingWaiter
from entrepot.errors import DiskFull, EntrepotError, QueueNotFound, UnitBackedOut
from entrepot.message import Message

from .looping import Bench, bench, turns, until

__all__ = ["bench"]

SLOW_FORCE_S = 1.0

# --- answers ------------------------------------------------------------------------------------


def test_a_nonpersistent_put_is_answered_at_once(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        answers: list[tuple[bytes, EntrepotError | None]] = []
        engine.put("Q", Message(b""), False, None, None, lambda *answer: answers.append(answer))
        assert answers == [(bench.host.browse("Q", None, None, 1)[0][0].message_id, None)]

    bench.on_loop(work)


@pytest.mark.parametrize("force_s", [0.0, SLOW_FORCE_S])
def test_a_persistent_put_is_answered_once_when_it_is_on_disk(bench: Bench, force_s: float) -> None:
    async def work(engine: LoopHost) -> None:
        answers: list[tuple[bytes, EntrepotError | None]] = []
        bench.host.force_s = force_s
        engine.put("Q", Message(b""), True, None, None, lambda *answer: answers.append(answer))
        assert (answers, bench.bodies()) == ([], [])
        await until(lambda: answers)
        await turns()
        assert answers == [(bench.host.browse("Q", None, None, 1)[0][0].message_id, None)]

    bench.on_loop(work)


@pytest.mark.parametrize("force_s", [0.0, SLOW_FORCE_S])
def test_a_verb_is_answered_when_its_effect_is_on_disk(bench: Bench, force_s: float) -> None:
    async def work(engine: LoopHost) -> None:
        unit = engine.manager.begin()
        engine.put_in_unit("Q", Message(b"in a unit"), True, None, unit)
        bench.host.force_s = force_s
        assert not engine.run(lambda: engine.manager.commit(unit), bench.notes.append)
        assert bench.notes == []
        await until(lambda: bench.notes)
        assert (bench.notes, unit.state, bench.bodies()) == ([None], UnitState.COMMITTED, [b"in a unit"])
        empty = engine.manager.begin()
        assert engine.run(lambda: engine.manager.commit(empty), bench.notes.append), "nothing has to be forced"
        assert bench.notes == [None]

    bench.on_loop(work)


def test_who_waits_for_the_log_is_told_that_the_disk_is_full(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        bench.disk.full = True
        bench.put(engine, persistent=True)
        unit = engine.manager.begin()
        engine.put_in_unit("Q", Message(b""), True, None, unit)
        engine.run(lambda: engine.manager.commit(unit), bench.notes.append)
        await turns()
        assert [type(error) for error in bench.notes] == [UnitBackedOut, DiskFull]
        assert (unit.state, bench.bodies()) == (UnitState.BACKED_OUT, [])

    bench.on_loop(work)


def test_an_error_of_the_verb_itself_is_raised_and_nobody_is_told(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        with pytest.raises(QueueNotFound):
            engine.put("MISSING", Message(b""), True, None, None, lambda *_: bench.notes.append("told"))
        await turns()
        assert bench.notes == []

    bench.on_loop(work)


def test_all_who_come_in_one_turn_share_a_force(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        for _ in range(3):
            bench.put(engine, persistent=True)
        assert len(bench.notes) == 0
        await turns(2)
        assert bench.notes == [None, None, None]

    bench.on_loop(work)


# --- who is told, and on which thread -----------------------------------------------------------

VERBS: dict[str, Callable[[Bench, LoopHost], object]] = {
    "put": lambda bench, engine: bench.put(engine),
    "persistent put": lambda bench, engine: bench.put(engine, persistent=True),
    "run": lambda bench, engine: engine.run(lambda: None, lambda _: None),
    "wait": lambda bench, engine: engine.get_or_wait("Q", bench.waiter(engine, Criteria(message_id=b"x"))),
    "lease": lambda bench, engine: engine.lease("Q", None, engine.manager.begin()),
    "lease or wait": lambda bench, engine: engine.lease_or_wait(
        "Q", bench.waiter(engine, Criteria(message_id=b"x"), engine.manager.begin())
    ),
    "get some": lambda bench, engine: engine.get_some("Q", None, engine.manager.begin(), 1),
    "get some or wait": lambda bench, engine: engine.get_some_or_wait(
        "Q", StandingWaiter(None, engine.manager.begin(), lambda: None), 1, 1000
    ),
    "back out": lambda bench, engine: engine.back_out(engine.manager.begin()),
    "retry": lambda bench, engine: engine.retry(engine.manager.begin(), 0),
    "search": lambda bench, engine: engine.in_turns(lambda: engine.manager.turn.spend(1)),
}


@pytest.mark.parametrize("verb", VERBS)
def test_another_thread_reaches_the_loop_after_each_verb(bench: Bench, verb: str) -> None:
    async def work(engine: LoopHost) -> None:
        engine.keep_free()
        VERBS[verb](bench, engine)
        await turns()
        loop_thread, seen = threading.get_ident(), []

        def post() -> None:
            with bench.host.lock:
                engine.post(lambda: seen.append(threading.get_ident()))

        await asyncio.to_thread(post)
        await turns()
        assert seen == [loop_thread]

    bench.on_loop(work)


def test_a_verb_that_failed_leaves_the_loop_within_reach(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        with pytest.raises(QueueNotFound):
            engine.get_or_wait("MISSING", bench.waiter(engine))
        engine.get_or_wait("Q", bench.waiter(engine))
        await asyncio.to_thread(bench.host.put, "Q", Message(b"from another thread"))
        await turns()
        assert bench.notes == [b"from another thread"]

    bench.on_loop(work)


def test_a_reader_is_told_before_the_verb_returns_that_served_it(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        assert engine.get_or_wait("Q", bench.waiter(engine)) is None
        bench.put(engine, b"for the reader")
        assert bench.notes == [None, b"for the reader"]

    bench.on_loop(work)


def test_a_message_that_returns_is_told_before_the_verb_returns(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        for give_back in (
            engine.back_out,
            lambda unit: engine.retry(unit, 0),
            lambda unit: engine.give_up(unit, lost=False),
        ):
            bench.put(engine, b"returns")
            unit = engine.manager.begin()
            assert engine.get_some("Q", None, unit, 1)
            engine.get_or_wait("Q", bench.waiter(engine))
            bench.notes.clear()
            give_back(unit)
            assert bench.notes == [b"returns"]

    bench.on_loop(work)


def test_a_reader_that_waits_is_told_even_if_its_message_is_there(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        bench.put(engine, b"there")
        engine.wait("Q", bench.waiter(engine))
        assert bench.notes == [None, b"there"]
        engine.wait("Q", bench.waiter(engine))
        assert len(bench.notes) == 2

    bench.on_loop(work)


def test_in_a_turn_all_are_told_at_its_end_and_writers_write_once(bench: Bench) -> None:
    class Partner:
        def flush(self) -> None:
            bench.notes.append("flush")

    async def work(engine: LoopHost) -> None:
        engine.get_or_wait("Q", bench.waiter(engine))
        assert engine.turn is None
        with engine:
            assert engine.turn is not None
            engine.turn.append(Partner())
            bench.put(engine, b"served")
            assert bench.notes == [None], "the put is answered, the reader not yet told"
        assert bench.notes == [None, b"served", "flush"]
        assert engine.turn is None
        engine.get_or_wait("Q", bench.waiter(engine))
        bench.put(engine, b"next")
        assert bench.notes[3:] == [None, b"next"]

    bench.on_loop(work)


def test_what_a_callback_causes_comes_after_those_that_are_ready(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        def first() -> None:
            bench.notes.append("first")
            with bench.host.lock:
                engine.post(lambda: bench.notes.append("third"))
            engine.drain()
            bench.notes.append("end of the first")

        with bench.host.lock:
            engine.post(first)
            engine.post(lambda: bench.notes.append("second"))
        await turns()
        assert bench.notes == ["first", "end of the first", "second", "third"]

    bench.on_loop(work)


def test_a_callback_that_fails_does_not_keep_the_others_waiting(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        def fail() -> None:
            raise ZeroDivisionError

        with bench.host.lock:
            engine.post(fail)
            engine.post(lambda: bench.notes.append("told"))
        with pytest.raises(ZeroDivisionError):
            engine.drain()
        assert bench.notes == []
        await turns()
        assert bench.notes == ["told"]

    bench.on_loop(work)
