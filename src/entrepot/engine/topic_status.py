# SPDX-License-Identifier: Apache-2.0
"""How topics and subscriptions are doing, under MQSC's keywords."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager

Row = dict[str, int | float | str]


def topic_status(manager: QueueManager) -> list[Row]:
    """Every topic that anybody has defined, subscribed to or retained something on."""
    subscribers = manager.objects.subscribers
    counts: dict[str, int] = {}
    for subscriber in subscribers.by_name.values():
        counts[subscriber.definition.topic] = counts.get(subscriber.definition.topic, 0) + 1
    defined = {topic: definition.name for topic, definition in subscribers.topics}
    retained = set(manager.publishing.retained.topics())
    rows: list[Row] = []
    for topic in sorted({*counts, *defined, *retained}):
        ruling = subscribers.ruling(topic).topic
        rows.append(
            {
                "TOPICSTR": topic,
                "ADMIN": defined.get(topic, ""),
                "PUB": ruling.publish,
                "SUB": ruling.subscribe,
                "DURSUB": ruling.durable,
                "DEFPSIST": ruling.default_persistent,
                "DEFPRTY": ruling.default_priority,
                "PMSGDLV": ruling.persistent_reach,
                "NPMSGDLV": ruling.nonpersistent_reach,
                "RETAINED": "YES" if topic in retained else "NO",
                "SUBCOUNT": counts.get(topic, 0),
            }
        )
    return rows


def subscription_status(manager: QueueManager) -> list[Row]:
    """Every subscription, those that are not durable included."""
    rows: list[Row] = []
    for name, subscriber in sorted(manager.objects.subscribers.by_name.items()):
        definition = subscriber.definition
        queue = manager.objects.queues.get(definition.destination)
        rows.append(
            {
                "SUB": name,
                "TOPICSTR": definition.topic,
                "DURABLE": "YES" if definition.durable else "NO",
                "SUBTYPE": definition.type,
                "DEST": definition.destination,
                "NUMMSGS": 0 if queue is None else queue.depth,
                "ACTCONN": subscriber.readers,
            }
        )
    return rows
