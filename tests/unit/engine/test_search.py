# SPDX-License-Identifier: Apache-2.0
"""Searches that stop and go on: they find what one in one go finds, however the queue changes meanwhile."""

from __future__ import annotations

import random
from typing import Any

import pytest

from entrepot import Connection, Message
from entrepot.engine.criteria import Criteria
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.search import STEPS_PER_TURN, Search, SearchBudget, SearchPaused
from entrepot.engine.unit_of_work import UnitState
from entrepot.selectors import compile_selector

ODD = Criteria(selector=compile_selector("odd = TRUE"))


def number_of(message: Message | None) -> int | None:
    return None if message is None else int(message.body[:6])


def the_manager(connection: Connection) -> QueueManager:
    return connection.calls.line._host.manager


@pytest.fixture
def spilling(place: Any, small_runs: int) -> Connection:
    connection: Connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q) BUFFER(20000)")
    return connection


def fill(connection: Connection, numbers: Any) -> None:
    for number in numbers:
        odd, body = bool(number % 2), b"%06d" % number + b"x" * 494
        connection.put("Q", body, properties={"odd": odd}, priority=number % 3, persistent=number % 5 == 0)


def get_in_turns(manager: QueueManager, search: Search, steps: float, between: Any = lambda: None) -> Message | None:
    """A get that has only so many steps in each turn; it must come to an end."""
    for _ in range(100_000):
        search.turn.left = steps
        try:
            return manager.get("Q", search.criteria, None, search)[0]
        except SearchPaused:
            between()
    raise AssertionError("the search makes no progress")


@pytest.mark.parametrize("steps", [1, 37, 1000])
def test_a_search_in_turns_finds_the_same_in_the_same_order(spilling: Connection, steps: int) -> None:
    fill(spilling, range(300))
    manager = the_manager(spilling)
    search = Search(SearchBudget(), ODD)
    found = [number_of(get_in_turns(manager, search, steps)) for _ in range(151)]
    in_order = sorted(range(1, 300, 2), key=lambda number: (-(number % 3), number))
    assert found == [*in_order, None]


def test_two_searches_of_runs_on_disk_do_not_keep_each_other_from_ending(spilling: Connection) -> None:
    fill(spilling, range(300))
    manager = the_manager(spilling)
    turn = SearchBudget()
    wanted = [Criteria(selector=compile_selector(f"Root.MQMD.Priority = {n} AND odd = 5")) for n in range(2)]
    searches = [Search(turn, criteria) for criteria in wanted]
    unfinished = list(searches)
    for _ in range(10_000):
        for search in list(unfinished):
            turn.left = 1
            try:
                assert manager.get("Q", search.criteria, None, search)[0] is None
                unfinished.remove(search)
            except SearchPaused:
                continue
    assert not unfinished


def test_what_comes_or_returns_behind_a_search_is_found_before_it_ends_with_nothing(spilling: Connection) -> None:
    # Whatever others do between its steps: when it says that there is nothing, nothing is there.
    manager = the_manager(spilling)
    for seed in range(15):
        chance = random.Random(seed)
        fill(spilling, [number * 2 for number in range(chance.randrange(10, 120))])
        search = Search(SearchBudget(), ODD)
        unit = manager.begin()
        for _ in range(5):
            manager.get("Q", None, unit)
        number = 1001

        def disturb(unit: Any = unit, chance: random.Random = chance) -> None:
            nonlocal number
            what = chance.randrange(12)
            if what == 0:
                fill(spilling, [number])
                number += 2
            elif what == 1:
                spilling.get("Q", selector="odd = FALSE")  # brings runs into memory
            elif what == 2 and unit.state is UnitState.ACTIVE:
                manager.back_out(unit)
            elif what == 3:
                other = manager.begin()
                for _ in range(3):
                    manager.get("Q", None, other)
                manager.back_out(other)
            elif what == 4:
                fill(spilling, [2000])

        while get_in_turns(manager, search, 23, disturb) is not None:
            pass
        assert spilling.get("Q", selector="odd = TRUE") is None, f"seed {seed}"
        search.end()
        if unit.state is UnitState.ACTIVE:
            manager.back_out(unit)
        manager.force()
        spilling.mqsc("CLEAR QLOCAL(Q)")


def test_a_search_by_id_on_disk_goes_on_where_it_stopped(spilling: Connection) -> None:
    fill(spilling, range(200))
    wanted = spilling.put("Q", b"%06d" % 777 + b"x" * 494, correlation_id=b"c")
    fill(spilling, range(200, 400))
    manager = the_manager(spilling)
    for criteria in (Criteria(message_id=wanted), Criteria(correlation_id=b"c"), Criteria(message_id=b"n" * 24)):
        search = Search(SearchBudget(), criteria)
        expected = None if criteria.message_id == b"n" * 24 else 777
        assert number_of(get_in_turns(manager, search, 1)) == expected
        if expected:
            wanted = spilling.put("Q", b"%06d" % 777 + b"x" * 494, correlation_id=b"c")


def test_groups_are_found_in_turns(spilling: Connection) -> None:
    for number in range(90):
        spilling.put("Q", b"%06d" % number + b"x" * 494, group_id=b"g%d" % (number % 3), sequence=number // 3 + 1,
                     last_in_group=number == 88)  # fmt: skip
    manager = the_manager(spilling)
    criteria = Criteria(whole_group=True)
    search = Search(SearchBudget(), criteria)
    unit = manager.begin()
    for _ in range(10_000):
        search.turn.left = 1
        try:
            found = manager.get_group("Q", criteria, unit, search)
            break
        except SearchPaused:
            continue
    assert found is not None
    assert [number_of(message) for message in found] == list(range(1, 90, 3))
    manager.back_out(unit)


def test_waiting_selectors_are_asked_in_turns_and_messages_come_in_order(place: Any) -> None:
    from entrepot.engine.waiting import Waiter

    connection: Connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    manager = the_manager(connection)
    manager.turn.left = STEPS_PER_TURN
    selector = "nothing = 1" + " OR nothing = 1" * 400
    waiters = [Waiter(Criteria(selector=compile_selector(selector)), None, lambda: None) for _ in range(100)]
    waiters += [Waiter(Criteria(selector=compile_selector("wanted = 1")), None, lambda: None) for _ in range(3)]
    for waiter in waiters:
        manager.wait("Q", waiter)
    for number in range(5):
        manager.put("Q", Message(b"%d" % number, properties={"wanted": 1}))
    assert [waiter.message for waiter in waiters if waiter.message] == []
    turns = 0
    while manager.offering.has_work:
        turns += 1
        manager.turn.left = STEPS_PER_TURN
        manager.offering.go_on()
        assert manager.turn.left > -5 * STEPS_PER_TURN
    served = [waiter.message.body for waiter in waiters if waiter.message]
    assert served == [b"0", b"1", b"2"]
    assert turns > 3
    for waiter in waiters:
        waiter.leave()
    manager.turn.left = float("inf")
    assert connection.get("Q").body == b"3"
