# SPDX-License-Identifier: Apache-2.0
"""A queue manager for tests of applications.

    # conftest.py
    pytest_plugins = ["entrepot.testing.pytest_plugin"]

    # test_orders.py
    def test_an_order_is_confirmed(entrepot_queue_manager):
        entrepot_queue_manager.mqsc("DEFINE QLOCAL(ORDERS)")
        entrepot_queue_manager.put("ORDERS", b"42 crates")

It is a connection to a queue manager in memory, new for each test. Others
that the test starts connect by `entrepot_url`. It is no entry point that pytest
finds by itself: for those pytest rewrites the assertions of the whole package.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from entrepot import Connection

_numbers = count(1)


@pytest.fixture
def entrepot_url() -> Iterator[str]:
    """The URL of a queue manager in memory, which lives as long as the test."""
    from entrepot import connect

    url = f"memory:TEST.{next(_numbers)}"
    with connect(url):
        yield url


@pytest.fixture
def entrepot_queue_manager(entrepot_url: str) -> Iterator[Connection]:
    """A connection to that queue manager."""
    from entrepot import connect

    with connect(entrepot_url) as connection:
        yield connection
