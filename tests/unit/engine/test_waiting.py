# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from entrepot.engine.criteria import Criteria
from entrepot.engine.waiting import Waiter, Waiters
from entrepot.errors import QueueNotFound
from entrepot.message import Message
from entrepot.selectors import compile_selector


def waiter(**criteria: object) -> Waiter:
    return Waiter(Criteria(**criteria) if criteria else None, None, lambda: None)  # type: ignore[arg-type]


def waiting(*who: Waiter) -> Waiters:
    waiters = Waiters()
    for one in who:
        waiters.add(one)
    return waiters


def test_readers_are_found_in_the_order_they_came() -> None:
    anyone, by_id, last = waiter(), waiter(correlation_id=b"c"), waiter()
    waiters = waiting(anyone, by_id, last)
    assert list(waiters.for_message(Message(b"", correlation_id=b"c"))) == [anyone, by_id, last]
    assert list(waiters.for_message(Message(b""))) == [anyone, last]
    assert waiters.all() == [anyone, last, by_id]
    assert len(waiters) == 3


def test_reader_is_asked_only_for_what_it_wants() -> None:
    red = waiter(selector=compile_selector("colour = 'red'"))
    mine = waiter(message_id=b"m", correlation_id=b"c")
    waiters = waiting(red, mine)
    assert list(waiters.for_message(Message(b"", properties={"colour": "red"}))) == [red]
    assert list(waiters.for_message(Message(b"", correlation_id=b"c"))) == []
    assert list(waiters.for_message(Message(b"", message_id=b"m", correlation_id=b"c"))) == [mine]


def test_reader_of_whole_groups_is_asked_for_every_message() -> None:
    group = waiter(correlation_id=b"c", whole_group=True)
    waiters = waiting(group)
    assert list(waiters.for_message(Message(b"", group_id=b"g"))) == [group]
    group.leave()
    assert not waiters


def test_reader_that_left_is_gone_and_may_leave_twice() -> None:
    one, two = waiter(correlation_id=b"c"), waiter(correlation_id=b"c")
    waiters = waiting(one, two)
    one.leave()
    one.leave()
    assert list(waiters.for_message(Message(b"", correlation_id=b"c"))) == [two]
    two.leave()
    assert not waiters
    assert len(waiters) == 0


def test_reader_that_gives_up_is_woken_with_the_error() -> None:
    woken: list[bool] = []
    one = Waiter(None, None, lambda: woken.append(True))
    waiters = waiting(one)
    one.give_up(QueueNotFound("Q"))
    assert woken == [True]
    assert isinstance(one.error, QueueNotFound)
    assert not waiters


def test_reader_that_never_waited_may_leave() -> None:
    waiter().leave()
