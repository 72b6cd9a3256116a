# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from entrepot.client.blocking.connecting import connected_to
from entrepot.client.embedded import EmbeddedHost
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.server.security.users import Users

from .guests import FOUNDED, PASSWORDS, Work, live


@pytest.fixture(scope="session")
def founded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue manager QM1 to be copied; two users, and what one of them may do is what `FOUNDED` says."""
    path = tmp_path_factory.mktemp("founded") / "QM1"
    create(path, log=LogSettings(segment_bytes=256 * 1024, primary=3, secondary=4))
    with connected_to(EmbeddedHost(path), application="tests") as connection:
        connection.mqsc(FOUNDED)
    users = Users.load(path)
    for name, groups in (("ann", ["clerks"]), ("boss", ["mqm"])):
        users.add(name, PASSWORDS[name], groups)
    users.save()
    return path


@pytest.fixture
def house_path(founded: Path, tmp_path: Path) -> Path:
    shutil.copytree(founded, tmp_path / "QM1")
    return tmp_path / "QM1"


@pytest.fixture
def inside(house_path: Path) -> Callable[[Work], None]:
    """Run a test's coroutine in a house of its own, and see that its guests leave nothing behind."""
    return lambda work: live(house_path, work)
