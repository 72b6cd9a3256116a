# SPDX-License-Identifier: Apache-2.0
"""Where a name leads: from what an application says to the local queue that stores the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from entrepot.engine.definitions import AliasQueue, LocalQueue, ModelQueue, QueueDefinition, RemoteQueue, require_name
from entrepot.errors import AliasBroken, QueueNotFound, TransmissionQueueMissing, WrongQueueKind

if TYPE_CHECKING:
    from entrepot.engine.objects import Objects
    from entrepot.engine.queue import Queue


class Route(msgspec.Struct, frozen=True, eq=False):
    """The way of a message, settled once for a name until a definition changes."""

    queue: Queue
    put_enabled: bool
    get_enabled: bool
    body_bytes_max: int
    default_persistent: bool
    default_priority: int
    target_queue: str = ""
    """Not empty: the message is for another queue manager, and `queue` is a transmission queue."""
    target_manager: str = ""
    internal: bool = False
    """Whether only the queue manager itself puts there."""


def find_route(objects: Objects, name: str) -> Route:
    """The route of `QUEUE` or `QUEUE@MANAGER`.

    Raises:
        QueueNotFound, AliasBroken, TransmissionQueueMissing, WrongQueueKind, InvalidName
    """
    queue_name, _, manager = name.partition("@") if isinstance(name, str) else (name, "", "")
    require_name("queue", queue_name)
    if manager and manager != objects.manager.name:
        return _remote_route(objects, queue_name, queue_name, require_name("queue manager", manager), None)
    definition = objects.queue_to_open(queue_name)
    if isinstance(definition, AliasQueue) and isinstance(
        target := objects.queue_to_open(definition.target), RemoteQueue
    ):
        return _remote_definition_route(objects, queue_name, target, definition)
    if isinstance(definition, RemoteQueue):
        return _remote_definition_route(objects, queue_name, definition, definition)
    return _home_route(objects, queue_name)


def _home_route(objects: Objects, queue_name: str) -> Route:
    """The route of a name that must lead to a queue of this queue manager, so that no circle is possible."""
    definition = objects.queue_to_open(queue_name)
    if isinstance(definition, LocalQueue):
        return _local_route(objects, definition, definition)
    if isinstance(definition, AliasQueue):
        target = objects.queue_to_open(definition.target)
        if isinstance(target, LocalQueue):
            return _local_route(objects, definition, target)
        raise AliasBroken(queue_name, definition.target or "nothing")
    if isinstance(definition, ModelQueue):
        raise WrongQueueKind(queue_name, "model queue", "hold messages")
    raise QueueNotFound(queue_name)


def _local_route(objects: Objects, opened: LocalQueue | AliasQueue, target: LocalQueue) -> Route:
    # An alias lends its own defaults and may inhibit what its target allows, not the other way round.
    return Route(
        objects.queues[target.name],
        opened.put_enabled and target.put_enabled,
        opened.get_enabled and target.get_enabled,
        min(target.body_bytes_max, objects.manager.body_bytes_max),
        opened.default_persistent,
        opened.default_priority,
        internal=target.name in objects.internal_queues,
    )


def _remote_definition_route(objects: Objects, name: str, remote: RemoteQueue, opened: QueueDefinition) -> Route:
    if not remote.remote_queue:
        raise WrongQueueKind(name, "queue manager alias", "take messages itself")
    route = _remote_route(objects, name, remote.remote_queue, remote.remote_manager, opened, remote.transmission_queue)
    return route if remote.put_enabled else replace(route, put_enabled=False)


def _remote_route(
    objects: Objects,
    name: str,
    target_queue: str,
    target_manager: str,
    opened: QueueDefinition | None,
    transmission_queue: str = "",
) -> Route:
    alias = objects.queue_definitions.get(target_manager)
    if isinstance(alias, RemoteQueue) and not alias.remote_queue:
        target_manager = alias.remote_manager
        transmission_queue = transmission_queue or alias.transmission_queue
    if target_manager == objects.manager.name and not transmission_queue:
        return _home_route(objects, target_queue)
    for candidate in (transmission_queue, target_manager, objects.manager.default_transmission_queue):
        definition = objects.queue_to_open(candidate)
        if isinstance(definition, LocalQueue) and definition.usage == "XMITQ":
            return Route(
                objects.queues[candidate],
                definition.put_enabled and (opened is None or opened.put_enabled),
                False,
                min(definition.body_bytes_max, objects.manager.body_bytes_max),
                (opened or definition).default_persistent,
                (opened or definition).default_priority,
                target_queue,
                target_manager,
                candidate in objects.internal_queues,
            )
        if transmission_queue:
            break
    raise TransmissionQueueMissing(name, transmission_queue or target_manager, target_manager)
