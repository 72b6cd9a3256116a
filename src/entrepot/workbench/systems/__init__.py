# SPDX-License-Identifier: Apache-2.0
"""The systems that can be measured, each with the Python client that its users use.

The class of a system, and with it its client library, is imported when it
is asked for.
"""

from __future__ import annotations

from importlib import import_module

from entrepot.errors import SystemUnknown
from entrepot.workbench.systems.system import System

_PLACES = {
    "entrepot-embedded": "entrepot_embedded:EntrepotEmbedded",
    "entrepot-unix": "entrepot_server:EntrepotUnix",
    "entrepot-tcp": "entrepot_server:EntrepotTcp",
    "entrepot-channels": "entrepot_channels:EntrepotChannels",
    "entrepot-amqp": "entrepot_amqp:EntrepotAmqp",
    "rabbitmq": "rabbitmq:RabbitMq",
    "activemq": "activemq:ActiveMq",
    "nats": "nats:Nats",
    "jetstream": "jetstream:JetStream",
    "redis-lists": "redis_lists:RedisLists",
    "redis-streams": "redis_streams:RedisStreams",
    "postgresql": "postgresql:PostgreSql",
}
NAMES = tuple(_PLACES)
OURS = tuple(name for name in NAMES if name.startswith("entrepot-"))
PEERS = tuple(name for name in NAMES if name not in OURS)
ENTREPOT = "entrepot"
"""Stands for the binding that a scenario names."""
ALL = "all"


def find_system(name: str) -> type[System]:
    """The class of a system.

    Raises:
        SystemUnknown: No system has this name; the error lists them.
    """
    if name not in _PLACES:
        raise SystemUnknown(name, (ENTREPOT, ALL, *NAMES))
    module, _, attribute = _PLACES[name].partition(":")
    found: type[System] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return found


def absent_reason(name: str) -> str:
    """Why a system cannot run here; empty when it can."""
    try:
        return find_system(name).absent()
    except ModuleNotFoundError as error:
        return f"Python module {error.name} not installed: pip install 'entrepot[bench]'"
