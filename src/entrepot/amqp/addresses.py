# SPDX-License-Identifier: Apache-2.0
"""AMQP addresses: which queue, and once there are any, which topic a link or a reply-to means.

ORDERS   queue://ORDERS   /queue/ORDERS   queue:ORDERS     the queue ORDERS
ORDERS@QM2                                                 ORDERS at another queue manager
topic://PRICES   /topic/PRICES   topic:PRICES              a topic
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from entrepot.amqp.conditions import NOT_IMPLEMENTED, Refusal
from entrepot.queues.definitions import require_name

_PREFIXES: tuple[tuple[str, Literal["queue", "topic"]], ...] = (
    ("queue://", "queue"),
    ("/queue/", "queue"),
    ("queue:", "queue"),
    ("topic://", "topic"),
    ("/topic/", "topic"),
    ("topic:", "topic"),
)


class Address(NamedTuple):
    kind: Literal["queue", "topic"]
    name: str
    manager: str = ""

    @property
    def route(self) -> str:
        """The name that a put takes."""
        return f"{self.name}@{self.manager}" if self.manager else self.name


def parse_address(text: str) -> Address:
    """What an address means; whether it exists is another question.

    Raises:
        InvalidName: It cannot be the name of anything.
    """
    kind: Literal["queue", "topic"] = "queue"
    for prefix, of_kind in _PREFIXES:
        if text.startswith(prefix):
            kind, text = of_kind, text[len(prefix) :]
            break
    if kind == "topic":
        return Address(kind, text)
    name, at, manager = text.partition("@")
    require_name("queue", name)
    if at:
        require_name("queue manager", manager)
    return Address(kind, name, manager)


def parse_queue(text: str) -> Address:
    """The same for those who need a queue.

    Raises:
        Refusal: It is a topic.
        InvalidName
    """
    address = parse_address(text)
    if address.kind == "topic":
        raise Refusal(NOT_IMPLEMENTED, f"{text[:100]} is a topic: this queue manager has queues only, so far")
    return address
