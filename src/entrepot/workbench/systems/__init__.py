# SPDX-License-Identifier: Apache-2.0
"""The systems that can be measured, each with the Python client that its users use.

A system sends express messages at its best: without waiting for the answer
to one before the next. `NAME-answered` is its other form, whose senders wait
for each answer. The class of a system, and with it its client library, is
imported when it is asked for.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from entrepot.errors import SystemUnknown
from entrepot.workbench.quality import Quality
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
ANSWERED = "-answered"
_ONE_FORM = ("entrepot-embedded", "entrepot-channels")
"""Whose answers cost no way to a server, or come from the first of two."""
NAMES = tuple(form for name in _PLACES for form in ([name] if name in _ONE_FORM else [name, f"{name}{ANSWERED}"]))
OURS = tuple(name for name in NAMES if name.startswith("entrepot-"))
PEERS = tuple(name for name in NAMES if name not in OURS)
ENTREPOT = "entrepot"
"""Stands for the binding that a scenario names."""
ALL = "all"


def find_system(name: str) -> type[System]:
    """The class of a system, in the form that its name says.

    Raises:
        SystemUnknown: No system has this name; the error lists them.
    """
    if name not in NAMES:
        raise SystemUnknown(name, (ENTREPOT, ALL, *NAMES))
    module, _, attribute = _PLACES[base_name(name)].partition(":")
    found: type[System] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return _answered(found) if is_answered(name) else found


def base_name(name: str) -> str:
    """Without its form."""
    return name.removesuffix(ANSWERED)


def is_answered(name: str) -> bool:
    return name.endswith(ANSWERED)


@cache
def _answered(kind: type[System]) -> type[System]:
    """The same system with senders that wait for each answer, which only express messages do not anyway."""
    members = {
        "name": f"{kind.name}{ANSWERED}",
        "title": f"{kind.title}, waiting for each answer",
        "contracts": {Quality.EXPRESS: kind.answered_contract},
        "is_answered": True,
    }
    return type(f"{kind.__name__}Answered", (kind,), members)


def absent_reason(name: str) -> str:
    """Why a system cannot run here; empty when it can."""
    try:
        return find_system(name).absent()
    except ModuleNotFoundError as error:
        return f"Python module {error.name} not installed: pip install 'entrepot[bench]'"
