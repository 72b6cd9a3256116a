# SPDX-License-Identifier: Apache-2.0
"""What becomes of DEFINE SUB and ALTER SUB once the objects that they name are at hand."""

from __future__ import annotations

import msgspec

from entrepot.engine.definitions import Definition, SubscriptionDefinition, Topic
from entrepot.server.mqsc.commands import AlterCommand, DefineCommand
from entrepot.server.mqsc.syntax import Position
from entrepot.server.mqsc.topic_checks import OF_A_PROVIDED_QUEUE


def completed(
    subscription: SubscriptionDefinition, command: DefineCommand, topic_object: Definition | None
) -> SubscriptionDefinition:
    """The subscription with its whole topic, and without the queue of another one."""
    changes: dict[str, str] = {}
    if isinstance(topic_object, Topic):
        # As in MQ, always with a / between them: 'b' and '/b' below 'a' are two topics.
        changes["topic"] = "/".join(filter(None, (topic_object.topic, command.changes.get("topic"))))
    if subscription.managed:
        changes |= dict.fromkeys(OF_A_PROVIDED_QUEUE.values(), "")
    return msgspec.structs.replace(subscription, **changes)


def why_not_altered(
    subscription: SubscriptionDefinition, command: DefineCommand | AlterCommand
) -> tuple[Position, str] | None:
    """Where and why a subscription cannot be altered so."""
    if subscription.type == "PROXY":
        return command.name.at, f"{subscription.name} belongs to another queue manager, which asks for publications"
    for keyword, field in OF_A_PROVIDED_QUEUE.items():
        if subscription.managed and command.changes.get(field):
            problem = f"{keyword} does not go with {subscription.name}, whose DESTCLAS is MANAGED"
            return command.places[keyword], problem
    return None
