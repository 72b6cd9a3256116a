# SPDX-License-Identifier: Apache-2.0
"""The asyncio form of `entrepot`: the same verbs as coroutines.

async with await entrepot.aio.connect("unix:./qm1") as connection:
    await connection.put("ORDERS", b"...", persistent=True)
    async with connection.unit_of_work() as unit:
        order = await unit.get("ORDERS", wait_s=1)
        await unit.put("DONE", order.body, persistent=True)
"""

from __future__ import annotations

from entrepot.client.aio.connecting import connect
from entrepot.client.aio.connection import Browse, Connection
from entrepot.client.aio.consumption import Consumption
from entrepot.client.aio.delivery import Delivery
from entrepot.client.aio.pipeline import Pipeline
from entrepot.client.aio.reader import Reader
from entrepot.client.aio.subscription import Subscription, SubscriptionConsumption
from entrepot.client.aio.unit_of_work import UnitOfWork

__all__ = [
    "Browse",
    "Connection",
    "Consumption",
    "Delivery",
    "Pipeline",
    "Reader",
    "Subscription",
    "SubscriptionConsumption",
    "UnitOfWork",
    "connect",
]
