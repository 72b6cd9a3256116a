# SPDX-License-Identifier: Apache-2.0
"""A queue manager with a server for the instances of a module."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from entrepot.client.blocking import Connection, connect
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.flows.live import instance as instances
from entrepot.testing.servers import ServerThread

from .staged import Stage
from .stepped import SteppedTime

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


@pytest.fixture
def worker(stage: Stage) -> Iterator[Connection]:
    """The connection of an instance."""
    with connect(stage.url) as worker:
        yield worker


@pytest.fixture
def instance_clock(monkeypatch: pytest.MonkeyPatch) -> SteppedTime:
    """The time of instances, who rest for as long as they may."""
    clock = SteppedTime()
    monkeypatch.setattr(instances, "time", clock)
    monkeypatch.setattr(instances, "random", SimpleNamespace(uniform=lambda low, high: high))
    return clock
