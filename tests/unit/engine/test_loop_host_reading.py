# SPDX-License-Identifier: Apache-2.0
"""Readers on an event loop: credit, units that are given up, and searches in turns."""

from __future__ import annotations

from itertools import pairwise

import pytest

from entrepot.engine.criteria import Criteria
from entrepot.engine.loop_host import LoopHost
from entrepot.engine.search import STEPS_PER_TURN, SearchPaused
from entrepot.engine.unit_of_work import UnitState
from entrepot.engine.waiting import StandingWaiter
from entrepot.selectors import compile_selector

from .looping import Bench, bench, turns

__all__ = ["bench"]


def standing(engine: LoopHost, credit: int) -> StandingWaiter:
    waiter = StandingWaiter(None, engine.manager.begin(), lambda: None)
    waiter.credit = credit
    return waiter


def fill(bench: Bench, engine: LoopHost, count: int) -> None:
    for number in range(count):
        bench.put(engine, b"%d" % number)


@pytest.mark.parametrize(
    ("credit", "limit", "bytes_limit", "found", "waits"),
    [
        (9, 9, 100, 3, True),
        (3, 9, 100, 3, False),
        (4, 9, 100, 3, True),
        (9, 3, 100, 3, False),
        (9, 9, 3, 3, False),
        (9, 9, 4, 3, True),
        (9, 9, 2, 2, False),
    ],
)
def test_a_standing_reader_waits_only_if_there_was_no_more_for_it(
    bench: Bench, credit: int, limit: int, bytes_limit: int, found: int, waits: bool
) -> None:
    async def work(engine: LoopHost) -> None:
        fill(bench, engine, 3)
        waiter = standing(engine, credit)
        assert len(engine.get_some_or_wait("Q", waiter, limit, bytes_limit)) == found
        assert waiter.credit == credit - found
        assert bool(engine.manager.objects.queues["Q"].waiters) is waits

    bench.on_loop(work)


def test_some_messages_are_got_up_to_the_limit_with_those_that_were_got_before(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        fill(bench, engine, 5)
        unit = engine.manager.begin()
        first = engine.get_some("Q", None, unit, 2)
        assert [message.body for message in first] == [b"0", b"1"]
        more = engine.get_some("Q", None, unit, 4, got=first)
        assert [message.body for message in more] == [b"0", b"1", b"2", b"3"]
        assert [message.body for message in engine.get_some("Q", None, unit, 4)] == [b"4"]

    bench.on_loop(work)


@pytest.mark.parametrize("waits", [False, True])
def test_a_lease_locks_what_is_persistent_and_takes_the_rest(bench: Bench, waits: bool) -> None:
    async def work(engine: LoopHost) -> None:
        guard = engine.manager.begin()
        bench.put(engine, b"persistent", persistent=True)
        await turns()
        bench.put(engine, b"other")
        for body in (b"persistent", b"other", None):
            waiter = bench.waiter(engine, None, guard)
            found = engine.lease_or_wait("Q", waiter) if waits else engine.lease("Q", None, guard)
            assert (found and found.body) == body
        assert [take.entry.message.body for take in guard.takes] == [b"persistent"]
        assert bool(engine.manager.objects.queues["Q"].waiters) is waits

    bench.on_loop(work)


@pytest.mark.parametrize("lost", [False, True])
def test_a_reader_that_is_lost_leaves_persistent_messages_and_its_tries_count(bench: Bench, lost: bool) -> None:
    async def work(engine: LoopHost) -> None:
        bench.put(engine, b"persistent", persistent=True)
        await turns()
        bench.put(engine, b"other")
        unit = engine.manager.begin()
        unit.counted = False
        assert len(engine.get_some("Q", None, unit, 2)) == 2
        engine.give_up(unit, lost=lost)
        await turns()
        left = [(message.body, message.backout_count) for message in bench.host.browse("Q", None, None, 9)[0]]
        assert left == ([(b"persistent", 1)] if lost else [(b"persistent", 0), (b"other", 0)])
        assert bench.host.queue_status("Q")["CURDEPTH"] == len(left)

    bench.on_loop(work)


@pytest.mark.parametrize(("counted", "tried", "count"), [(True, True, 1), (False, True, 1), (False, False, 0)])
def test_a_try_is_counted_once(bench: Bench, counted: bool, tried: bool, count: int) -> None:
    async def work(engine: LoopHost) -> None:
        fill(bench, engine, 1)
        unit = engine.manager.begin()
        unit.counted = counted
        engine.get_some("Q", None, unit, 1)
        for _ in range(2):
            engine.back_out(unit, tried=tried)
        assert unit.state is UnitState.BACKED_OUT
        assert bench.host.browse("Q", None, None, 1)[0][0].backout_count == count

    bench.on_loop(work)


def test_a_back_out_may_be_forgiven(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        fill(bench, engine, 1)
        unit = engine.manager.begin()
        engine.get_some("Q", None, unit, 1)
        engine.back_out(unit, counted=False)
        assert bench.host.browse("Q", None, None, 1)[0][0].backout_count == 0

    bench.on_loop(work)


def test_tries_of_messages_that_stay_locked_are_counted(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        fill(bench, engine, 1)
        unit = engine.manager.begin()
        unit.counted = False
        engine.get_some("Q", None, unit, 1)
        engine.count_tries(list(unit.takes))
        assert (unit.state, unit.takes[0].entry.backouts) == (UnitState.ACTIVE, 1)

    bench.on_loop(work)


def test_a_message_that_is_to_be_retried_later_comes_after_the_delay(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        fill(bench, engine, 1)
        unit = engine.manager.begin()
        engine.get_some("Q", None, unit, 1)
        engine.retry(unit, 3600)
        assert bench.bodies() == []
        bench.clock.advance(3600)
        with bench.host.lock:
            engine.manager.timers.tick()
        assert bench.bodies() == [b"0"]

    bench.on_loop(work)


def test_a_reader_that_stopped_waiting_is_not_served(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        waiter = bench.waiter(engine)
        engine.get_or_wait("Q", waiter)
        engine.stop_waiting(waiter)
        fill(bench, engine, 1)
        assert (waiter.message, bench.bodies()) == (None, [b"0"])

    bench.on_loop(work)


# --- searches ------------------------------------------------------------------------------------


def test_a_step_that_is_done_at_once_is_done_now(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        engine.keep_free()
        assert engine.manager.turn.left == STEPS_PER_TURN
        assert engine.in_turns(lambda: bench.notes.append("done"))
        assert bench.notes == ["done"]

    bench.on_loop(work)


def test_steps_go_on_in_later_turns_one_after_the_other(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        engine.keep_free()

        def step(name: str, tries: list[int]) -> None:
            if tries:
                tries.pop()
                raise SearchPaused
            bench.notes.append(name)

        left = {"a": [1, 1], "b": [], "c": [1]}
        for name, tries in left.items():
            assert not engine.in_turns(lambda name=name, tries=tries: step(name, tries))  # type: ignore[misc]
        assert bench.notes == []
        await turns(10)
        assert bench.notes == ["b", "a", "c"]

    bench.on_loop(work)


def test_what_a_turn_has_spent_is_there_again_in_the_next(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        engine.keep_free()
        turn = engine.manager.turn
        assert engine.in_turns(lambda: turn.spend(STEPS_PER_TURN))
        assert not engine.in_turns(lambda: bench.notes.append("late"))
        assert (turn.left, bench.notes) == (0, [])
        await turns(2)
        assert (turn.left, bench.notes) == (STEPS_PER_TURN, ["late"])

    bench.on_loop(work)


def test_steps_of_one_turn_take_no_more_than_it_has(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        engine.keep_free()
        turn = engine.manager.turn
        turn.left = 0
        for number in range(3):
            engine.in_turns(lambda number=number: (turn.spend(STEPS_PER_TURN), bench.notes.append(number)))  # type: ignore[misc]
        seen = []
        for _ in range(5):
            await turns(1)
            seen.append(len(bench.notes))
        assert bench.notes == [0, 1, 2]
        assert all(later - earlier <= 1 for earlier, later in pairwise(seen))

    bench.on_loop(work)


def test_a_reader_of_groups_is_served_in_a_later_turn_without_another_verb(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        engine.keep_free()
        engine.get_or_wait("Q", bench.waiter(engine, Criteria(whole_group=True)))
        bench.put(engine, b"alone")
        assert bench.notes == [None]
        await turns()
        assert bench.notes == [None, b"alone"]
        assert engine.manager.turn.left <= STEPS_PER_TURN

    bench.on_loop(work)


def test_only_criteria_need_a_search(bench: Bench) -> None:
    async def work(engine: LoopHost) -> None:
        assert engine.search_for(None) is None
        criteria = Criteria(selector=compile_selector("n = 1"))
        search = engine.search_for(criteria)
        assert search is not None
        assert (search.criteria, search.turn) == (criteria, engine.manager.turn)

    bench.on_loop(work)
