# SPDX-License-Identifier: Apache-2.0
"""Distribution lists: one put, many queues, all of them or none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from entrepot.engine.completion import complete
from entrepot.engine.settlement import Settlement
from entrepot.engine.unit_of_work import PendingPut, Unit, give_up_places, memory_bytes
from entrepot.errors import DistributionFailed, EntrepotError, InvalidArgument, InvalidName, LimitExceeded
from entrepot.limits import DISTRIBUTION_MAX
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager


def distribute(
    manager: QueueManager,
    names: str | Sequence[str],
    message: Message,
    persistent: bool | None,
    priority: int | None,
    unit: Unit | None,
) -> tuple[bytes, Settlement | None]:
    """Put a message on every queue that is named, directly or by a NAMELIST.

    Raises:
        DistributionFailed: Some queue does not take it, so none has it; the reason for each is named.
    """
    if isinstance(names, str):
        names = manager.objects.name_lists[names].names
    _require_names(names)
    target = unit or manager.internal_unit()
    target.require_active()
    target.require_room(memory_bytes(message))
    failures: list[tuple[str, str]] = []
    puts: list[PendingPut] = []
    for name in dict.fromkeys(names):
        try:
            route = manager.objects.route(name)
            completed = complete(manager, route, name, message, persistent, priority)
        except EntrepotError as error:
            failures.append((name, error.what))
            continue
        route.queue.reserved += 1
        # One id, and one body on disk and in memory, for all queues that agree on everything else.
        message = replace(message, message_id=completed.message_id)
        alike = next((put for put in puts if put.message == replace(completed, put_time=put.message.put_time)), None)
        if alike is not None:
            alike.queues.append(route.queue)
        else:
            puts.append(PendingPut([route.queue], completed))
    if failures:
        give_up_places(puts)
        raise DistributionFailed(tuple(failures))
    manager.keep_time(target)
    target.puts += puts
    target.body_bytes += memory_bytes(message)
    target.consequential = True
    return message.message_id, None if unit else manager.commit_or_undo(target)


def _require_names(names: object) -> None:
    """Refuse what is no distribution list."""
    if not isinstance(names, Collection) or isinstance(names, bytes | bytearray | memoryview | Mapping):
        raise InvalidArgument("queue", f"{type(names).__name__} names no queue", "a name, or a list of names")
    if not names:
        raise InvalidArgument("queue", "an empty list", "a name, or a list of names")
    if len(names) > DISTRIBUTION_MAX:
        raise LimitExceeded("queues in a distribution list", len(names), DISTRIBUTION_MAX)
    for name in names:
        if not isinstance(name, str):
            raise InvalidName("queue", repr(name))
