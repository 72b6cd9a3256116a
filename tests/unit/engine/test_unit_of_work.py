# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.engine.definitions import ManagerAttributes
from entrepot.engine.entry import QueuedMessage
from entrepot.engine.quotas import UNCOMMITTED_BYTES, Quotas
from entrepot.engine.unit_of_work import PendingPut, Take, Unit, UnitOwner, UnitState, memory_bytes
from entrepot.errors import TooManyUncommitted, UnitFinished, UserLimitReached
from entrepot.limits import KIB, UNCOMMITTED_BYTES_MAX
from entrepot.message import Message


def test_unit_has_room_up_to_its_limits() -> None:
    unit = Unit(1, 2)
    unit.require_room(UNCOMMITTED_BYTES_MAX)
    unit.require_room(0, 2)
    with pytest.raises(TooManyUncommitted, match="messages"):
        unit.require_room(0, 3)
    with pytest.raises(TooManyUncommitted, match="bytes"):
        unit.require_room(UNCOMMITTED_BYTES_MAX + 1)
    unit.puts.append(PendingPut([], Message(b"")))
    unit.require_room(0)
    unit.puts.append(PendingPut([], Message(b"")))
    with pytest.raises(TooManyUncommitted):
        unit.require_room(0)


@pytest.mark.parametrize("state", [state for state in UnitState if state is not UnitState.ACTIVE])
def test_only_an_active_unit_goes_on(state: UnitState) -> None:
    unit = Unit(7, 1)
    unit.require_active()
    unit.state = state
    with pytest.raises(UnitFinished) as caught:
        unit.require_active()
    assert (caught.value.unit, caught.value.state) == (7, state.value)


def test_unit_knows_what_it_has_from_which_queue() -> None:
    unit = Unit(1, 10)
    here, there = object(), object()
    for key, queue in ((1, here), (2, there), (3, here)):
        unit.takes.append(Take(queue, QueuedMessage(key, 1, Message(b""))))  # type: ignore[arg-type]
    assert unit.keys_from(here) == {1, 3}  # type: ignore[arg-type]


def test_a_message_takes_its_body_and_its_properties() -> None:
    assert memory_bytes(Message(b"four")) == 4
    assert memory_bytes(Message(b"four", properties={"text": "abc", "raw": b"xy"})) == 4 + (4 + 3) + (3 + 2)
    for number in (True, 1, 2.5):
        assert memory_bytes(Message(b"", properties={"n": number})) == 1 + 8


def unit_of(user: str, *, limited: bool = True) -> tuple[Unit, Quotas]:
    quotas = Quotas(lambda: ManagerAttributes(name="QM", user_uncommitted_bytes_max=128 * KIB))
    unit = Unit(1, 10_000)
    unit.holder = UnitOwner(quotas, user, limited)
    return unit, quotas


def test_a_user_is_counted_in_steps_of_64_kib_with_1_kib_for_each_message() -> None:
    unit, quotas = unit_of("ann")
    for body_bytes, messages, held in ((0, 1, 64), (63 * KIB, 1, 64), (0, 64, 64), (63 * KIB + 1, 1, 128)):
        unit.require_room(body_bytes, messages)
        assert quotas.held(UNCOMMITTED_BYTES, "ann") == held * KIB


def test_what_a_unit_has_counts_with_what_is_added() -> None:
    unit, quotas = unit_of("ann")
    unit.puts = [PendingPut([], Message(b""))] * 10
    unit.body_bytes = 53 * KIB
    unit.require_room(0)
    assert quotas.held(UNCOMMITTED_BYTES, "ann") == 64 * KIB
    unit.require_room(1)
    assert quotas.held(UNCOMMITTED_BYTES, "ann") == 128 * KIB


def test_a_unit_that_exceeds_what_its_user_may_hold_is_refused_unless_unlimited() -> None:
    unit, quotas = unit_of("ann")
    unit.require_room(127 * KIB)
    with pytest.raises(UserLimitReached):
        unit.require_room(127 * KIB + 1)
    assert quotas.held(UNCOMMITTED_BYTES, "ann") == 128 * KIB
    unit, quotas = unit_of("root", limited=False)
    unit.require_room(127 * KIB + 1)
    assert quotas.held(UNCOMMITTED_BYTES, "root") == 192 * KIB


def test_a_unit_that_has_ended_counts_for_nobody_and_can_be_counted_again() -> None:
    unit, quotas = unit_of("ann")
    for _ in range(2):
        unit.require_room(0)
        assert quotas.held(UNCOMMITTED_BYTES, "ann") == 64 * KIB
        unit.let_go()
        assert quotas.held(UNCOMMITTED_BYTES, "ann") == 0
    Unit(2, 1).let_go()
