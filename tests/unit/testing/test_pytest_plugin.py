# SPDX-License-Identifier: Apache-2.0
"""The fixtures for tests of applications."""

from __future__ import annotations

import pytest

import entrepot
from entrepot.errors import QueueNotFound
from entrepot.testing.pytest_plugin import entrepot_queue_manager, entrepot_url

__all__ = ["entrepot_queue_manager", "entrepot_url"]


def test_a_queue_manager_is_there_and_others_reach_it(
    entrepot_queue_manager: entrepot.Connection, entrepot_url: str
) -> None:
    entrepot_queue_manager.mqsc("DEFINE QLOCAL(ORDERS)")
    with entrepot.connect(entrepot_url) as other:
        other.put("ORDERS", b"42 crates", persistent=True)
    message = entrepot_queue_manager.get("ORDERS")
    assert message is not None and message.body == b"42 crates"


def test_it_is_a_new_one_for_each_test(entrepot_queue_manager: entrepot.Connection) -> None:
    with pytest.raises(QueueNotFound):
        entrepot_queue_manager.get("ORDERS")
