# SPDX-License-Identifier: Apache-2.0
"""May this identity put there? The one question before every put, whatever way the message takes.

`queues_asked` says which queues' PUT authority a name takes. A session asks
it of its own user for PUT, PUT_MANY, REQUEST, AMQP transfers, distribution
lists and the queue of a subscription, a receiver channel of the channel's
user. What a message causes after its sender has gone (reports,
publications to a subscription's queue) asks it of the user that the server
recorded: `require_put_of`. What a definition causes (aliases, streams,
backouts) was asked when it was defined, of the user who defined it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from entrepot.engine.definitions import LocalQueue, RemoteQueue
from entrepot.engine.system_queues import is_system
from entrepot.errors import EntrepotError

if TYPE_CHECKING:
    from entrepot.engine.objects import Objects


class Originators(Protocol):
    """What the users may whose messages and subscriptions go on working without them."""

    def require_put(self, user: str, queues: Iterable[str]) -> None:
        """Refuse a put unless the user has PUT on all of these queues.

        Raises:
            NotAuthorized
        """


class TrustedOriginators:
    """Everybody may everything: an engine below all users, as in tests and simulations."""

    def require_put(self, user: str, queues: Iterable[str]) -> None:
        pass


def queues_asked(objects: Objects, name: str) -> tuple[str, ...]:
    """The queues on which a put to `QUEUE` or `QUEUE@MANAGER` takes PUT authority.

    A name of this queue manager is asked for itself: an alias or a remote
    definition grants what its definer could grant. What leaves for another
    one asks for the transmission queue, or for the queue manager alias; for
    a system queue there also for that queue's name here.
    """
    queue, _, manager = name.partition("@")
    if not manager or manager == objects.manager.name:
        return (queue,)
    try:
        route = objects.route(name)
    except EntrepotError:
        return (manager,)  # so that a refusal does not tell which ways there are
    if not route.target_queue:
        return (queue,)
    is_alias = isinstance(objects.queue_definitions.get(manager), RemoteQueue)
    way = manager if is_alias else route.queue.definition.name
    return (way, queue) if is_system(queue) else (way,)


def require_put_of(objects: Objects, user: str, name: str) -> None:
    """Refuse a put that a user's message or subscription causes; for the engine's lock.

    Raises:
        NotAuthorized
    """
    queue = objects.queue_definitions.get(name)
    if isinstance(queue, LocalQueue) and queue.dynamic and user and queue.owner == user:
        return
    objects.originators.require_put(user, queues_asked(objects, name))
