# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

pytest.importorskip("proton", reason="python-qpid-proton, of the extra amqp, is not installed")

from .amqp_server import AmqpServer

_numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpServer]:
    """A queue manager that all tests of a module share."""
    server = AmqpServer(tmp_path_factory.mktemp("amqp") / "QM1")
    yield server
    server.stop()


@pytest.fixture
def queue(server: AmqpServer) -> str:
    """A queue of its own for every test."""
    name = f"TEST.{next(_numbers)}"
    server.mqsc(f"DEFINE QLOCAL({name}) MAXDEPTH(100000) MAXMSGL(8388608) BOQNAME(BACKOUT)")
    return name
