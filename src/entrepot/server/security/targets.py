# SPDX-License-Identifier: Apache-2.0
"""What a definition leads to, and the authority that its definer needs there.

Whoever may put to an alias puts to its target without being asked for that
one: the definition grants it. So the user who makes or changes such a
definition has to have himself what it grants. Administrators have
everything, so theirs grant as in MQ.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from entrepot.engine.definitions import (
    AliasQueue,
    Channel,
    Definition,
    ManagerAttributes,
    RemoteQueue,
    StoredQueueDefinition,
    Topic,
)
from entrepot.engine.system_queues import is_system


def rights_on_targets(definition: Definition, changed: Set[str], manager: str) -> Iterator[tuple[str, str]]:
    """Queues and the authority for each that a new or changed definition takes.

    `changed` names the fields that are other than before, `manager` is the
    name of the queue manager itself.
    """
    if isinstance(definition, AliasQueue):
        if changed & {"target", "put_enabled", "get_enabled"} and definition.target:
            yield from _of_alias(definition)
    elif isinstance(definition, RemoteQueue):
        if changed & {"remote_queue", "remote_manager", "transmission_queue", "put_enabled"}:
            yield from _of_remote(definition, manager)
    else:
        for field, word in _NAMING.items():
            queue = getattr(definition, field, "") if isinstance(definition, _HOLDERS[field]) else ""
            if queue and field in changed:
                yield queue, word


_NAMING = {
    "stream_queue": "PUT",
    "backout_queue": "PUT",
    "dead_letter_queue": "PUT",
    "default_transmission_queue": "PUT",
    "transmission_queue": "GET",
    "durable_model": "GET",
    "nondurable_model": "GET",
}
"""Fields with the name of a queue that messages reach by the definition, or leave by it."""

_HOLDERS: dict[str, type[Definition]] = {
    **dict.fromkeys(("stream_queue", "backout_queue"), StoredQueueDefinition),
    **dict.fromkeys(("dead_letter_queue", "default_transmission_queue"), ManagerAttributes),
    **dict.fromkeys(("durable_model", "nondurable_model"), Topic),
    "transmission_queue": Channel,
}


def _of_alias(alias: AliasQueue) -> Iterator[tuple[str, str]]:
    if alias.put_enabled:
        yield alias.target, "PUT"
    if alias.get_enabled:
        yield alias.target, "GET"
        yield alias.target, "BROWSE"


def _of_remote(remote: RemoteQueue, manager: str) -> Iterator[tuple[str, str]]:
    here = remote.remote_manager == manager and not remote.transmission_queue
    if not here:
        yield remote.transmission_queue or remote.remote_manager, "PUT"
    # At another queue manager its own authority counts, but for system queues, which trust their channels.
    if remote.remote_queue and (here or is_system(remote.remote_queue)):
        yield remote.remote_queue, "PUT"
