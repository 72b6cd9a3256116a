# SPDX-License-Identifier: Apache-2.0
"""The same contract by every binding."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import MEMORY, SMALL_LOG, TESTER, let_tester_in
from entrepot.client.blocking import Connection, connect
from entrepot.engine.folder import create
from entrepot.testing.servers import ServerThread


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped queue manager QM1 with a queue Q."""
    path = tmp_path_factory.mktemp("contract") / "QM1"
    create(path, log=SMALL_LOG)
    with connect(f"embedded:{path}") as connection:
        connection.mqsc("DEFINE QLOCAL(Q)")
    let_tester_in(path)
    return path


@pytest.fixture
def folder(template: Path) -> Iterator[Path]:
    """A queue manager of the test's own."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as parent:
        yield Path(shutil.copytree(template, Path(parent) / "QM1"))


@pytest.fixture(params=["embedded", "unix", "tcp"])
def url(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """The way to a queue manager with a queue Q, by every binding there is."""
    if request.param == "embedded":
        yield f"embedded:{folder}"
        return
    with ServerThread(folder) as server:
        yield server.unix_url if request.param == "unix" else f"mq://{TESTER}@127.0.0.1:{server.port('TCP')}/QM1"


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with connect(url, application="tests") as connection:
        yield connection
