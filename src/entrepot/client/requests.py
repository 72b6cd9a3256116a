# SPDX-License-Identifier: Apache-2.0
"""What an application says, as requests say it: names, criteria, subscriptions."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from entrepot.checks import shortened
from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import SubscriptionDefinition, require_name
from entrepot.engine.publishing import PREFIX as TOPIC_PREFIX
from entrepot.engine.topics import require_topic
from entrepot.errors import InvalidArgument, InvalidName, LimitExceeded
from entrepot.limits import DISTRIBUTION_MAX
from entrepot.server.wire import verbs

_SENDABLE_MAX = 1000
_sendable: set[str] = set()
"""Names that were found to be some: a program uses few of them, and each very often."""


def queue_name(name: object) -> str:
    """A name that can be sent; whether it is a queue's is for the server to say.

    Raises:
        InvalidName: It is none.
    """
    if name.__class__ is str and name in _sendable:
        return name
    if not isinstance(name, str):
        raise InvalidName("queue", shortened(name))
    if name.startswith(TOPIC_PREFIX):
        require_topic(name[len(TOPIC_PREFIX) :])
        return name
    queue, _, manager = name.partition("@")
    require_name("queue", queue)
    if manager:
        require_name("queue manager", manager)
    if len(_sendable) < _SENDABLE_MAX:
        _sendable.add(name)
    return name


def queue_names(names: object) -> str | list[str]:
    """One name, or those of a distribution list.

    Raises:
        InvalidName, InvalidArgument, LimitExceeded: They are none.
    """
    if isinstance(names, str):
        return queue_name(names)
    if not isinstance(names, Collection) or isinstance(names, bytes | bytearray | memoryview | Mapping):
        raise InvalidArgument("queue", f"{type(names).__name__} names no queue", "a name, or a list of names")
    if not names:
        raise InvalidArgument("queue", "an empty list", "a name, or a list of names")
    if len(names) > DISTRIBUTION_MAX:
        raise LimitExceeded("queues in a distribution list", len(names), DISTRIBUTION_MAX)
    return [queue_name(name) for name in names]


def wanted(criteria: Criteria | None) -> verbs.Wanted | None:
    """Criteria as the wire says them."""
    if criteria is None:
        return None
    selector = None if criteria.selector is None else criteria.selector.text
    return verbs.Wanted(criteria.message_id, criteria.correlation_id, criteria.group_id, selector, criteria.whole_group)


def subscribe_frame(wanted: SubscriptionDefinition, *, new_only: bool) -> verbs.Subscribe:
    """How a client asks for a subscription."""
    return verbs.Subscribe(
        wanted.name,
        wanted.topic,
        wanted.destination,
        wanted.durable,
        wanted.shared,
        wanted.selector,
        wanted.content,
        wanted.wildcards,
        new_only,
    )
