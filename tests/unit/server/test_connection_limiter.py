# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from entrepot.server.connection_limiter import ConnectionLimiter


def test_so_many_come_in_and_the_next_one_does_not() -> None:
    gate = ConnectionLimiter(3, 100)
    assert [gate.enter(f"10.0.0.{number}") for number in range(5)] == [True, True, True, False, False]
    assert (gate.connections, gate.turned_away) == (3, 2)


def test_one_address_may_not_take_every_place() -> None:
    gate = ConnectionLimiter(100, 2)
    assert [gate.enter("10.0.0.1") for _ in range(3)] == [True, True, False]
    assert gate.enter("10.0.0.2")
    assert gate.connections == 3


def test_who_leaves_makes_room() -> None:
    gate = ConnectionLimiter(2, 1)
    gate.enter("10.0.0.1")
    gate.enter("10.0.0.2")
    assert not gate.enter("10.0.0.1")
    gate.leave("10.0.0.1")
    assert gate.enter("10.0.0.1")
    assert not gate.enter("10.0.0.3")


def test_nothing_is_remembered_of_addresses_that_have_gone() -> None:
    gate = ConnectionLimiter(10, 10)
    for number in range(1000):
        gate.enter(f"10.0.0.{number}")
        gate.leave(f"10.0.0.{number}")
    assert gate.connections == 0
    assert len(gate._from) == 0


def test_who_was_turned_away_is_not_remembered_either() -> None:
    gate = ConnectionLimiter(0, 10)
    for number in range(1000):
        assert not gate.enter(f"10.0.0.{number}")
    assert len(gate._from) == 0
    assert gate.turned_away == 1000


def test_all_listeners_share_what_the_process_can_bear() -> None:
    together = ConnectionLimiter(3, 100)
    first, second = ConnectionLimiter(2, 100, together), ConnectionLimiter(100, 100, together)
    assert [first.enter("10.0.0.1") for _ in range(3)] == [True, True, False]
    assert together.connections == 2  # who found the first one full does not count
    assert [second.enter("10.0.0.2") for _ in range(2)] == [True, False]
    assert (second.connections, second.turned_away) == (1, 1)
    first.leave("10.0.0.1")
    assert together.connections == 2
    assert second.enter("10.0.0.2")
