# SPDX-License-Identifier: Apache-2.0
"""A queue manager with a server for the instances of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from entrepot.queues.folder import create
from entrepot.recovery_log.settings import LogSettings
from entrepot.spark.live import instance as instances
from entrepot.testing.servers import ServerThread

from .staged import Stage

LOG = LogSettings(segment_bytes=1024 * 1024, primary=3, secondary=4)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    path = tmp_path_factory.mktemp("instance") / "QM1"
    create(path, log=LOG)
    with ServerThread(path) as server:
        stage = Stage(server.unix_url)
        stage.connection.mqsc("DEFINE QLOCAL(DEAD) REPLACE\nALTER QMGR DEADQ(DEAD)")
        yield stage
        stage.connection.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances that hear orders at once."""
    monkeypatch.setattr(instances, "BEAT_S", 0.02)
