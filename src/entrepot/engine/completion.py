# SPDX-License-Identifier: Apache-2.0
"""A message on its way to a queue gets what its sender has not said, or is refused by the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from entrepot.engine.routes import Route
from entrepot.errors import InternalQueue, MessageTooLong, PersistentNotAllowed, PutInhibited, QueueFull
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager


def complete(
    manager: QueueManager,
    route: Route,
    name: str,
    message: Message,
    persistent: bool | None,
    priority: int | None,
    *,
    internal: bool = False,
) -> Message:
    """The message as it will be stored. Every put comes through here; publications ask their plan the same.

    `internal`: the queue manager has written it itself.

    Raises:
        InternalQueue, PutInhibited, MessageTooLong, QueueFull, PersistentNotAllowed: The queue does not take it.
    """
    queue = route.queue
    definition = queue.definition
    if route.internal and not internal:
        raise InternalQueue(name)
    if not route.put_enabled:
        raise PutInhibited(name)
    if len(message.body) > route.body_bytes_max:
        raise MessageTooLong(name, len(message.body), route.body_bytes_max)
    if queue.depth + queue.reserved >= definition.depth_max:
        manager.consequences.full(queue)
        raise QueueFull(name, definition.depth_max)
    if persistent is None:
        persistent = route.default_persistent
    if persistent and definition.dynamic == "TEMPORARY":
        raise PersistentNotAllowed(name)
    return replace(
        message,
        message_id=message.message_id or manager.new_message_id(),
        put_time=manager.put_time(message),
        persistent=persistent,
        priority=route.default_priority if priority is None else priority,
        target_queue=route.target_queue,
        target_manager=route.target_manager,
    )
