# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.errors import TooManyUncommitted, UnitFinished
from entrepot.limits import UNCOMMITTED_BYTES_MAX
from entrepot.message import Message
from entrepot.queues.entry import QueuedMessage
from entrepot.queues.unit_of_work import PendingPut, Take, Unit, UnitState


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
