# SPDX-License-Identifier: Apache-2.0
"""Entrepot: queues that never lose a message.

import entrepot

with entrepot.connect("embedded:./qm1") as connection:
    connection.mqsc("DEFINE QLOCAL(ORDERS) REPLACE")
    connection.put("ORDERS", b"42 crates", persistent=True)
    print(connection.get("ORDERS").body)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entrepot.client.blocking import Browse, Connection, Delivery, Subscription, UnitOfWork, connect
    from entrepot.client.worker import Worker
    from entrepot.engine.claims import Claim
    from entrepot.errors import EntrepotError
    from entrepot.message import Feedback, Message, MessageType, Report

__all__ = [
    "Browse",
    "Claim",
    "Connection",
    "Delivery",
    "EntrepotError",
    "Feedback",
    "Message",
    "MessageType",
    "Report",
    "Subscription",
    "UnitOfWork",
    "Worker",
    "connect",
]

_HOMES = {
    "entrepot.client.blocking": ("Browse", "Connection", "Delivery", "Subscription", "UnitOfWork", "connect"),
    "entrepot.client.worker": ("Worker",),
    "entrepot.errors": ("EntrepotError",),
    "entrepot.message": ("Feedback", "Message", "MessageType", "Report"),
    "entrepot.engine.claims": ("Claim",),
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is asked for: a command line that only prints its help loads no engine."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'entrepot' has no attribute {name!r}")
