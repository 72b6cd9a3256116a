# SPDX-License-Identifier: Apache-2.0
"""The flat way of the verbs that run most, for what most messages are.

Each function first looks whether anything special is asked. If so, it
returns having done nothing, and the general way of `QueueManager` runs; if
not, it does the whole verb in one piece. Both ways lead to the same state:
the simulation takes one of them at random, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from entrepot.engine.entry import LOCKED, QueuedMessage
from entrepot.engine.recovery_log.record import PutRecord
from entrepot.engine.unit_of_work import RECORD_BYTES, PendingPut, Take, Unit
from entrepot.errors import EntrepotError, SpillFailed
from entrepot.limits import ID_BYTES_MAX, MIB, NAME_CHARACTERS_MAX, PRIORITY_MAX
from entrepot.message import Message, PutInUnit

if TYPE_CHECKING:
    from entrepot.engine.queue import Queue
    from entrepot.engine.queue_manager import QueueManager
    from entrepot.engine.routes import Route
    from entrepot.engine.settlement import Settlement
    from entrepot.engine.waiting import Waiter

_PLAIN = Message(b"")
_CCSID, _ENCODING = _PLAIN.ccsid, _PLAIN.encoding
_EXPIRY_S_MAX = 1e9
_BODY_BYTES_MAX = 1 * MIB
"""Before a larger one is taken, a server looks at its memory."""


def is_plain(message: Message) -> bool:
    """Whether a message says no more than body, ids, type, reply-to queue and how long it is of use, and is not large.

    It may come from a stranger: a plain message needs no further vetting.
    """
    return not (
        message.properties
        or message.delay_s
        or message.group_id
        or message.report
        or message.retained
        or message.feedback
        or message.format
        or message.reply_to_manager
        or message.sequence != 1
        or message.last_in_group
        or message.ccsid != _CCSID
        or message.encoding != _ENCODING
        or len(message.body) >= _BODY_BYTES_MAX
        or len(message.message_id) > ID_BYTES_MAX
        or len(message.correlation_id) > ID_BYTES_MAX
        or len(message.reply_to) > NAME_CHARACTERS_MAX
        or (message.expiry_s is not None and not 0 < message.expiry_s < _EXPIRY_S_MAX)
    )


def route_for(manager: QueueManager, name: str) -> Route | None:
    """Where a nonpersistent message goes that need only be stored, or handed over; None: the general way."""
    objects = manager.objects
    route = objects.routes.get(name)
    if (
        route is None
        or name in objects.name_lists
        or not route.put_enabled
        or route.internal
        or route.target_queue
        or manager.group_commit.failure is not None
    ):
        return None
    queue = route.queue
    definition = queue.definition
    if (
        queue.watched
        or queue.unoffered
        or definition.stream_queue
        or queue.depth + queue.reserved >= definition.depth_max
    ):
        return None
    return route


def put(
    manager: QueueManager,
    route: Route,
    message: Message,
    message_id: bytes,
    persistent: bool | None,
    priority: int | None,
    user: str,
    application: str,
) -> bool:
    """Put a plain nonpersistent message outside of units of work; False: the general way has to.

    Raises:
        SpillFailed: The disk has no room for what no longer fits into memory; nothing was stored.
    """
    if persistent or (persistent is None and route.default_persistent) or len(message.body) > route.body_bytes_max:
        return False
    if priority is None:
        priority = route.default_priority
    elif not 0 <= priority <= PRIORITY_MAX:
        return False
    queue = route.queue
    waiters = queue.waiters
    waiter: Waiter | None = None
    if waiters.by_correlation or waiters.any:
        waiter = waiters.obvious_for(message.correlation_id)
        if waiter is None:
            return False
    elif message.expiry_s is not None:
        return False  # its time has to be watched on the queue
    stored = Message(
        message.body,
        message_id,
        message.correlation_id,
        False,
        priority,
        message.type,
        manager.clock.now() if message.expiry_s is None else manager.follow_clock(),
        message.expiry_s,
        0.0,
        message.reply_to,
        user=user,
        application=application,
    )
    manager.key_next += 1
    if waiter is None:
        entry = QueuedMessage(manager.key_next, queue.number, stored)
        try:
            manager.arrive(queue, entry)
        except SpillFailed:
            queue.remove(entry)  # refused, so that a full disk does not fill the memory instead
            raise
        return True
    waiter.take_turn()
    if not waiter.is_private:
        unit = waiter.unit
        assert unit is not None
        entry = QueuedMessage(manager.key_next, queue.number, stored)
        queue.depth += 1
        queue.hold(entry)
        unit.takes.append(Take(queue, entry))
        if unit.counted:
            manager.backout_counts.count(queue, entry)
    waiter.serve(stored)
    return True


def put_durably(
    manager: QueueManager,
    route: Route,
    message: Message,
    message_id: bytes,
    priority: int | None,
    user: str,
    application: str,
) -> Settlement | None:
    """Put a plain persistent message outside of units of work; None: the general way has to.

    Raises:
        LogFull, DiskFull, DiskFailed: Nothing was stored.
    """
    size = len(message.body)
    queue = route.queue
    if priority is None:
        priority = route.default_priority
    if (
        size > route.body_bytes_max
        or not 0 <= priority <= PRIORITY_MAX
        or message.expiry_s is not None
        or queue.definition.dynamic == "TEMPORARY"
    ):
        return None
    stored = Message(
        message.body,
        message_id,
        message.correlation_id,
        True,
        priority,
        message.type,
        manager.clock.now(),
        None,
        0.0,
        message.reply_to,
        user=user,
        application=application,
    )
    manager.require_room(size + RECORD_BYTES, reserved=False)
    key = manager.key_next = manager.key_next + 1
    entry = QueuedMessage(key, queue.number, stored, log_position=manager.log.appended_position)
    record = PutRecord(0, [(queue.number, key)], stored)
    arrive, refuse = partial(_arrive, manager, queue, entry), partial(_refuse, queue)
    settlement = manager.group_commit.promise([record], arrive, refuse)
    queue.reserved += 1
    return settlement


def _arrive(manager: QueueManager, queue: Queue, entry: QueuedMessage) -> None:
    queue.reserved -= 1
    # It is on disk and in memory; if it cannot be spilled, the next put to this queue is told.
    with suppress(SpillFailed):
        manager.arrive(queue, entry)


def _refuse(queue: Queue, error: EntrepotError) -> EntrepotError:
    queue.reserved -= 1
    return error


def plan(manager: QueueManager, unit: Unit, puts: Sequence[PutInUnit], user: str, application: str) -> bool:
    """Let plain messages arrive when a unit of work commits, vetted or not; False: none was taken, and `put` has to.

    Raises:
        UnitFinished, TooManyUncommitted, UserLimitReached: The unit takes none of them.
    """
    if manager.group_commit.failure is not None or unit.clock_steps != manager.steady.count:
        return False
    now, objects = manager.clock.now(), manager.objects
    planned: list[PendingPut] = []
    places: dict[Queue, int] = {}
    body_bytes = 0
    for name, persistent, priority, message in puts:
        route = objects.routes.get(name)
        if (
            route is None
            or name in objects.name_lists
            or not route.put_enabled
            or route.internal
            or route.target_queue
            or message.expiry_s is not None
            or not is_plain(message)
        ):
            return False
        size = len(message.body)
        if persistent is None:
            persistent = route.default_persistent
        if priority is None:
            priority = route.default_priority
        queue = route.queue
        definition = queue.definition
        taken = places.get(queue, 0)
        if (
            size > route.body_bytes_max
            or not 0 <= priority <= PRIORITY_MAX
            or definition.stream_queue
            or queue.depth + queue.reserved + taken >= definition.depth_max
            or (persistent and definition.dynamic == "TEMPORARY")
        ):
            return False
        places[queue] = taken + 1
        body_bytes += size
        stored = Message(
            message.body,
            message.message_id or manager.new_message_id(),
            message.correlation_id,
            persistent,
            priority,
            message.type,
            now,
            None,
            0.0,
            message.reply_to,
            user=user,
            application=application,
        )
        planned.append(PendingPut([queue], stored))
    unit.require_active()
    unit.require_room(body_bytes, len(planned))
    for queue, count in places.items():
        queue.reserved += count
    unit.puts += planned
    unit.body_bytes += body_bytes
    return True


def waited_for(manager: QueueManager, name: str) -> Queue | None:
    """An empty queue that a reader can simply wait for; None: the general way has to look."""
    route = manager.objects.routes.get(name)
    if route is None or route.target_queue or not route.get_enabled or route.queue.depth:
        return None
    return route.queue


def settle(takes: Sequence[Take]) -> bool:
    """Let messages leave that their reader has used; False when one of them is not plain, and all are still there."""
    for queue, entry in takes:
        if entry.log_position >= 0 or entry.state != LOCKED or queue.watched:
            return False
        message = entry.message
        if message.report or message.group_id:
            return False
    for queue, entry in takes:
        queue.remove(entry)
    return True
