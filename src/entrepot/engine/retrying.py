# SPDX-License-Identifier: Apache-2.0
"""Messages that go back to their queues because their reader did not finish with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.engine.unit_of_work import Unit, UnitState, give_up_places
from entrepot.engine.waiting import Waiter
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager


def retry_later(manager: QueueManager, unit: Unit, delay_s: float) -> None:
    """Back out a unit; the messages it has got count as tried, and come again after a delay.

    Until then they stay locked, though no unit has them. The log knows nothing
    of it: after a restart they are there at once.
    """
    unit.require_active()
    if not unit.counted:
        manager.backout_counts.count_tries(unit)
    if delay_s <= 0:
        manager.back_out(unit)
        return
    unit.state = UnitState.BACKED_OUT
    unit.let_go()
    give_up_places(unit.puts)
    due = manager.steady.now() + delay_s
    for queue, entry in unit.takes:
        threshold = queue.definition.backout_threshold
        if threshold and entry.backouts >= threshold:
            # Its next reader moves it to the backout queue, so there is no use in waiting.
            manager.put_back(queue, entry)
        else:
            manager.timers.at(due, manager.put_back, queue, entry)


def return_unseen(manager: QueueManager, name: str, waiter: Waiter) -> None:
    """A reader has stopped waiting: let others have what has come for it at the last moment."""
    guard = waiter.unit
    if guard is None or guard.state is not UnitState.ACTIVE:
        return
    if not guard.private:
        if waiter.message is not None:
            _take_out(manager, guard, waiter.message)
        return
    if not guard.takes and waiter.message is not None:
        manager.give_back(name, waiter.message)
    manager.back_out(guard)


def _take_out(manager: QueueManager, unit: Unit, message: Message) -> None:
    """Take a message out of a unit that goes on, or its commit would delete it unseen."""
    for take in reversed(unit.takes):
        if take.entry.message.message_id == message.message_id:
            unit.takes.remove(take)
            if unit.counted:
                alone = Unit(0, 1)
                alone.takes = [take]
                manager.backout_counts.forgive(alone)
            manager.put_back(take.queue, take.entry)
            return
