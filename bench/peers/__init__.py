# SPDX-License-Identifier: Apache-2.0
"""The servers that the load side of the suite compares, each with the Python client that its users use.

Each module starts one server in a folder of its own, on a free port of the
loopback, and ends it by pid; the clients that put it under load stand
beside it. What a server promises for a message is written there too, since
a rate says nothing without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

_HOMES = {
    "entrepot-tcp": "peers.entrepot_server:EntrepotTcp",
    "entrepot-unix": "peers.entrepot_server:EntrepotUnix",
    "rabbitmq": "peers.rabbitmq:RabbitMq",
    "activemq": "peers.activemq:ActiveMq",
    "nats": "peers.nats:Nats",
    "nats-uvloop": "peers.nats:NatsUvloop",
    "redis": "peers.redis:Redis",
}
NAMES = tuple(_HOMES)
OURS = ("entrepot-tcp", "entrepot-unix")
PERSISTENT = (*OURS, "rabbitmq", "activemq")
"""Those that keep a message through a crash once they have taken it; the others offer nothing that compares."""
_TOPIC_HOMES = {
    "entrepot-topics": "peers.entrepot_topics:EntrepotTopics",
    "rabbitmq-topics": "peers.rabbitmq_topics:RabbitMqTopics",
    "nats-topics": "peers.nats_topics:NatsTopics",
    "jetstream-topics": "peers.nats_topics:JetStreamTopics",
}
TOPICS = ("entrepot-topics", "rabbitmq-topics", "nats-topics")
TOPICS_PERSISTENT = ("entrepot-topics", "rabbitmq-topics", "jetstream-topics")
"""JetStream promises less than the other two, and says so beside its figures."""


def find(name: str) -> Any:
    """The class of a system; its client library is imported only now."""
    module, _, attribute = (_HOMES | _TOPIC_HOMES)[name].partition(":")
    return getattr(import_module(module), attribute)


def absent(names: Sequence[str] = NAMES) -> dict[str, str]:
    """Which systems cannot run here, and what is missing; bench/peers_install installs it."""
    reasons = {}
    for name in names:
        try:
            missing = find(name).missing()
        except ModuleNotFoundError as error:
            missing = [f"module {error.name}"]
        if missing:
            reasons[name] = ", ".join(missing)
    return reasons


def warning(missing: dict[str, str]) -> str:
    """What a ratio to the best peer has to say when not all peers were there."""
    return "".join(f"WITHOUT {name}, which lacks {reason}: bench/peers_install. " for name, reason in missing.items())
