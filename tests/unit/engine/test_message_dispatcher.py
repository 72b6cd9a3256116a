# SPDX-License-Identifier: Apache-2.0
"""Messages and waiting readers, brought together a turn at a time."""

from __future__ import annotations

import math

import pytest

from entrepot import limits
from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.unit_of_work import Unit
from entrepot.engine.waiting import Waiter
from entrepot.message import Message
from entrepot.selectors import compile_selector

from .simulated import Simulated

GROUPS = Criteria(whole_group=True)
ODD = Criteria(selector=compile_selector("odd = TRUE"))


@pytest.fixture
def manager() -> QueueManager:
    return Simulated().manager


def waiting(manager: QueueManager, criteria: Criteria | None = None, unit: Unit | None = None) -> Waiter:
    waiter = Waiter(criteria, unit, lambda: None)
    manager.wait("Q", waiter)
    return waiter


def put(manager: QueueManager, body: bytes, *, odd: bool = False, sequence: int = 0, last: bool = False) -> None:
    group_id = b"g" if sequence else b""
    message = Message(body, properties={"odd": odd}, group_id=group_id, sequence=sequence, last_in_group=last)
    manager.put("Q", message)


def body_of(waiter: Waiter) -> bytes | None:
    return waiter.message and waiter.message.body


def searches(manager: QueueManager) -> int:
    """How many searches the lanes of the queue still tell of what comes."""
    return sum(len(lane.searches) for lane in manager.objects.queues["Q"]._order)


def test_a_message_goes_to_the_first_reader_that_wants_it(manager: QueueManager) -> None:
    odd, anyone, last = waiting(manager, ODD), waiting(manager), waiting(manager)
    put(manager, b"even")
    put(manager, b"odd", odd=True)
    put(manager, b"third")
    assert [body_of(waiter) for waiter in (odd, anyone, last)] == [b"odd", b"even", b"third"]
    assert not manager.offering.has_work


def test_a_reader_that_waits_for_groups_is_served_when_one_is_whole(manager: QueueManager) -> None:
    for_group, for_odd = waiting(manager, GROUPS), waiting(manager, ODD)
    put(manager, b"2", sequence=2, last=True)
    assert for_group.message is None
    put(manager, b"1", sequence=1)
    assert [body_of(waiter) for waiter in (for_group, for_odd)] == [b"1", None]
    put(manager, b"alone", odd=True)
    assert body_of(for_odd) == b"alone"


@pytest.mark.parametrize("first", [GROUPS, ODD])
def test_a_message_that_returns_goes_to_the_reader_that_came_first(manager: QueueManager, first: Criteria) -> None:
    put(manager, b"returns", odd=True)
    unit = manager.begin()
    manager.get("Q", None, unit)
    waiters = [waiting(manager, criteria) for criteria in (first, GROUPS, ODD)]
    manager.back_out(unit)
    assert [body_of(waiter) for waiter in waiters] == [b"returns", None, None]


def test_a_message_that_a_group_reader_left_goes_to_the_next_one(manager: QueueManager) -> None:
    for_group, for_odd = waiting(manager, GROUPS), waiting(manager, ODD)
    put(manager, b"2", sequence=2, odd=True)
    assert [body_of(waiter) for waiter in (for_group, for_odd)] == [None, b"2"]


def test_work_that_is_left_for_a_later_turn_is_announced(manager: QueueManager) -> None:
    announced: list[bool] = []
    manager.offering.on_work = lambda: announced.append(manager.offering.has_work)
    manager.turn.left = 0
    waiter = waiting(manager, ODD)
    put(manager, b"odd", odd=True)
    assert (body_of(waiter), announced) == (None, [True])
    put(manager, b"odd too", odd=True)
    assert announced == [True], "the queue has its turn anyway"
    manager.turn.left = 1000
    manager.offering.go_on()
    assert (body_of(waiter), manager.offering.has_work) == (b"odd", False)


def test_a_search_for_a_group_reader_is_announced_once_and_done_in_a_later_turn(manager: QueueManager) -> None:
    announced: list[bool] = []
    manager.offering.on_work = lambda: announced.append(manager.offering.has_work)
    manager.turn.left = 1000
    waiter = waiting(manager, GROUPS)
    put(manager, b"2", sequence=2, last=True)
    put(manager, b"1", sequence=1)
    assert (body_of(waiter), announced) == (None, [True])
    manager.offering.go_on()
    assert (body_of(waiter), manager.offering.has_work) == (b"1", False)


def test_a_turn_without_steps_offers_nothing(manager: QueueManager) -> None:
    manager.turn.left = 0
    odd = waiting(manager, ODD)
    put(manager, b"odd", odd=True)
    odd.leave()
    anyone = waiting(manager)
    manager.offering.go_on()
    assert (body_of(anyone), manager.offering.has_work) == (None, True)
    manager.turn.left = 1
    manager.offering.go_on()
    assert (body_of(anyone), manager.offering.has_work) == (b"odd", False)


def test_a_turn_without_steps_searches_for_nobody(manager: QueueManager) -> None:
    manager.turn.left = 0
    waiter = waiting(manager, GROUPS)
    put(manager, b"alone")
    waiter.leave()
    manager.offering.go_on()
    assert manager.offering.has_work
    manager.turn.left = 1
    manager.offering.go_on()
    assert (body_of(waiter), manager.offering.has_work) == (None, False)


def test_a_search_that_found_nothing_leaves_nothing_behind_and_may_begin_again(manager: QueueManager) -> None:
    manager.turn.left = 1000
    waiter = waiting(manager, GROUPS)
    put(manager, b"2", sequence=2, last=True)
    manager.offering.go_on()
    assert (body_of(waiter), manager.offering.has_work, searches(manager)) == (None, False, 0)
    put(manager, b"1", sequence=1)
    manager.offering.go_on()
    assert (body_of(waiter), searches(manager)) == (b"1", 0)


def test_a_search_goes_on_where_its_turn_ended(manager: QueueManager) -> None:
    manager.turn.left = 1000
    waiter = waiting(manager, GROUPS)
    for sequence in range(2, 8):
        put(manager, b"%d" % sequence, sequence=sequence)
    put(manager, b"whole")
    turns = 0
    while manager.offering.has_work:
        manager.turn.left = 1
        manager.offering.go_on()
        turns += 1
    assert (body_of(waiter), searches(manager)) == (b"whole", 0)
    assert 3 < turns < 20


def test_a_message_that_went_to_disk_before_its_offer_is_looked_for_there(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RUN_BYTES", 2000)
    manager.administration.alter(LocalQueue(name="Q", buffer_bytes=0))
    manager.force()
    manager.turn.left = 0
    waiter = waiting(manager, ODD)
    for number in range(10):
        put(manager, b"%d" % number, odd=number == 0)
    assert manager.objects.queues["Q"].run_count
    while manager.offering.has_work:
        manager.turn.left = 100_000
        manager.offering.go_on()
    assert body_of(waiter) == b"0"


def test_without_a_loop_nothing_is_left_for_later(manager: QueueManager) -> None:
    assert manager.turn.left == math.inf
    waiters = [waiting(manager, criteria) for criteria in (GROUPS, ODD, None)]
    for number in range(3):
        put(manager, b"%d" % number, odd=True)
    assert {body_of(waiter) for waiter in waiters} == {b"0", b"1", b"2"}
    assert not manager.offering.has_work


def test_messages_that_were_not_offered_to_all_are_offered_turn_after_turn(manager: QueueManager) -> None:
    for number in range(6):
        waiting(manager, Criteria(selector=compile_selector(f"n = {number}")))
    odd = waiting(manager, ODD)
    manager.turn.left = 0
    for number in range(2):
        put(manager, b"%d" % number, odd=True)
    turns = 0
    while manager.offering.has_work:
        manager.turn.left = 1
        manager.offering.go_on()
        turns += 1
    assert (body_of(odd), turns > 5) == (b"0", True)


def test_queues_have_their_turns_one_after_the_other(manager: QueueManager) -> None:
    manager.administration.define(LocalQueue(name="A"), replace_existing=False)
    manager.force()
    manager.turn.left = 0
    waiters = []
    for name in ("Q", "A"):
        for criteria in (*(Criteria(selector=compile_selector(f"n = {number}")) for number in range(4)), ODD):
            waiter = Waiter(criteria, None, lambda: None)
            manager.wait(name, waiter)
        waiters.append(waiter)
        manager.put(name, Message(name.encode(), properties={"odd": True}))
    while manager.offering.has_work:
        manager.turn.left = 1
        manager.offering.go_on()
    assert [body_of(waiter) for waiter in waiters] == [b"Q", b"A"]


def test_poison_is_not_given_to_those_that_wait(manager: QueueManager) -> None:
    manager.administration.alter(LocalQueue(name="Q", backout_threshold=1, backout_queue="Q.BAD"))
    manager.administration.define(LocalQueue(name="Q.BAD"), replace_existing=False)
    manager.force()
    for criteria in (None, GROUPS):
        put(manager, b"poison")
        unit = manager.begin()
        assert manager.get("Q", None, unit)[0] is not None
        waiter = waiting(manager, criteria, manager.begin())
        manager.back_out(unit)
        assert waiter.message is None
        waiter.leave()
    assert manager.objects.queues["Q.BAD"].depth == 2
