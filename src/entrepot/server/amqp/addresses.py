# SPDX-License-Identifier: Apache-2.0
"""AMQP addresses: which queue or which topic a link, the `to` of a message or its reply-to means.

ORDERS   queue://ORDERS   /queue/ORDERS   queue:ORDERS     the queue ORDERS
ORDERS@QM2                                                 ORDERS at another queue manager
topic://a/b   /topic/a/b   topic:a/b                       the topic a/b
a/b, of a terminus with the capability `topic`             the topic a/b
amqps://host:5671/ORDERS   amqp://host/topic/a/b           the same, as a URL: what stands before its path is left out
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from entrepot.engine.definitions import require_name
from entrepot.engine.publishing import PREFIX as TOPIC_PREFIX
from entrepot.engine.topics import parse_pattern, require_topic

Kind = Literal["queue", "topic"]

TOPIC_SCHEME = "topic://"
"""What we write before a topic."""
_PREFIXES: tuple[tuple[str, Kind], ...] = (
    ("queue://", "queue"),
    ("/queue/", "queue"),
    ("queue:", "queue"),
    (TOPIC_SCHEME, "topic"),
    ("/topic/", "topic"),
    ("topic:", "topic"),
)


_URL_SCHEMES = ("amqp://", "amqps://")


class AmqpAddress(NamedTuple):
    kind: Kind
    name: str
    manager: str = ""

    @property
    def route(self) -> str:
        """The name that a put takes."""
        if self.kind == "topic":
            return TOPIC_PREFIX + self.name
        return f"{self.name}@{self.manager}" if self.manager else self.name


def kind_of(text: str, plain: Kind = "queue") -> Kind:
    """Whether an address means a queue or a topic; `plain` is what one without a prefix means."""
    return _split(text, plain)[0]


def _split(text: str, plain: Kind) -> tuple[Kind, str]:
    if text.startswith(_URL_SCHEMES):
        # Some clients, uamqp for one, name a link by the whole URL that they have connected to.
        path = "/" + text.partition("://")[2].partition("/")[2]
        text = path if path.startswith(("/queue/", "/topic/")) else path[1:]
    for prefix, kind in _PREFIXES:
        if text.startswith(prefix):
            return kind, text[len(prefix) :]
    return plain, text


def parse_address(text: str, plain: Kind = "queue") -> AmqpAddress:
    """What an address means; whether it exists is another question, and so is what a topic looks like.

    Raises:
        InvalidName: It cannot be the name of anything.
    """
    kind, text = _split(text, plain)
    if kind == "topic":
        return AmqpAddress(kind, text)
    name, at, manager = text.partition("@")
    require_name("queue", name)
    if at:
        require_name("queue manager", manager)
    return AmqpAddress(kind, name, manager)


def parse_target(text: str, plain: Kind = "queue") -> AmqpAddress:
    """The same for those who send: a topic has no wildcards.

    Raises:
        InvalidName, InvalidTopic
    """
    address = parse_address(text, plain)
    if address.kind == "topic":
        require_topic(address.name)
    return address


def parse_source(text: str, plain: Kind = "queue") -> AmqpAddress:
    """The same for those who receive: a topic may have wildcards.

    Raises:
        InvalidName, InvalidTopic
    """
    address = parse_address(text, plain)
    if address.kind == "topic":
        parse_pattern(address.name)
    return address
