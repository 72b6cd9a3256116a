# SPDX-License-Identifier: Apache-2.0
"""Queue managers that are reached through real sockets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from channels.processes import ServerProcess
from channels.proxy import Proxy
from conftest import MEMORY, let_tester_in
from entrepot import Connection
from entrepot.client.blocking import connect
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.testing.servers import ServerThread

LOG = LogSettings(segment_bytes=1024 * 1024, primary=3, secondary=8)
OBJECTS = "DEFINE QLOCAL(Q) MAXDEPTH(100000)\nDEFINE QLOCAL(R) MAXDEPTH(100000)"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("channels") / "QM1"
    create(path, log=LOG)
    with connect(f"embedded:{path}") as connection:
        connection.mqsc(OBJECTS)
    let_tester_in(path)
    return path


@pytest.fixture
def parent() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as parent:
        yield Path(parent)


@pytest.fixture
def folder(template: Path, parent: Path) -> Path:
    """A stopped queue manager QM1 with queues Q and R."""
    return Path(shutil.copytree(template, parent / "QM1"))


@pytest.fixture
def quick(folder: Path) -> Path:
    """The same, with a heartbeat every second."""
    with connect(f"embedded:{folder}") as connection:
        connection.mqsc("ALTER CHANNEL(SYSTEM.DEF.SVRCONN) CHLTYPE(SVRCONN) HBINT(1)")
    return folder


@pytest.fixture
def server(folder: Path) -> Iterator[ServerThread]:
    """A server in this process."""
    with ServerThread(folder) as server:
        yield server


@pytest.fixture
def process(folder: Path) -> Iterator[ServerProcess]:
    """A server in a process of its own."""
    with ServerProcess(folder) as process:
        yield process


@pytest.fixture
def connection(server: ServerThread) -> Iterator[Connection]:
    with connect(server.unix_url, application="tests") as connection:
        yield connection


@pytest.fixture
def other(server: ServerThread) -> Iterator[Connection]:
    """A second connection to the same server."""
    with connect(server.unix_url, application="tests") as connection:
        yield connection


@pytest.fixture
def proxy(server: ServerThread, parent: Path) -> Iterator[Proxy]:
    with Proxy(parent / "proxy", server.path) as proxy:
        yield proxy
