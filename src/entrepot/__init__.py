# SPDX-License-Identifier: Apache-2.0
"""Entrepot: queues that never lose a message.

import entrepot

with entrepot.connect("embedded:./qm1") as connection:
    connection.mqsc("DEFINE QLOCAL(ORDERS) REPLACE")
    connection.put("ORDERS", b"42 crates", persistent=True)
    print(connection.get("ORDERS").body)
"""

from entrepot.connection import Browse, Connection, UnitOfWork, connect
from entrepot.errors import EntrepotError
from entrepot.message import Feedback, Message, MessageType, Report

__all__ = [
    "Browse",
    "Connection",
    "EntrepotError",
    "Feedback",
    "Message",
    "MessageType",
    "Report",
    "UnitOfWork",
    "connect",
]
