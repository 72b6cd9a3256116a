# SPDX-License-Identifier: Apache-2.0
"""Connections for threads. All but lines, keeper and primitives is generated from `entrepot.client.aio`."""

from __future__ import annotations

from entrepot.client.blocking.connecting import connect
from entrepot.client.blocking.connection import Browse, Connection
from entrepot.client.blocking.consumption import Consumption
from entrepot.client.blocking.delivery import Delivery
from entrepot.client.blocking.pipeline import Pipeline
from entrepot.client.blocking.reader import Reader
from entrepot.client.blocking.subscription import Subscription, SubscriptionConsumption
from entrepot.client.blocking.unit_of_work import AnyUnit, UnitOfWork

__all__ = [
    "AnyUnit",
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
