# SPDX-License-Identifier: Apache-2.0
"""The same contract by every binding."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import SMALL_LOG
from entrepot.connection import Connection, connect
from entrepot.queues.folder import create
from entrepot.security import passwords
from entrepot.security.users import Users
from entrepot.testing.servers import ServerThread

# The contract is about verbs, not about disks, so forces of the log may cost nothing.
MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped queue manager QM1 with a queue Q, which lets an administrator `tester` in by TCP."""
    path = tmp_path_factory.mktemp("contract") / "QM1"
    create(path, log=SMALL_LOG)
    with connect(f"embedded:{path}") as connection:
        connection.mqsc("DEFINE QLOCAL(Q)\nDEFINE LISTENER(TCP) PORT(0)\nALTER QMGR CHLAUTH(DISABLED)")
    users = Users.load(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "hash_password", cheaply_hashed)
        users.add("tester", "secret", ["mqm"])
    users.save()
    return path


def cheaply_hashed(password: str) -> passwords.PasswordHash:
    """Nobody guesses here, and every test would pay for it."""
    salt = b"salt" * 4
    return passwords.PasswordHash(n=2, salt=salt, hash=passwords._scrypt(passwords.as_bytes(password), salt, 2, 8, 1))


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
        yield server.unix_url if request.param == "unix" else f"mq://tester:secret@127.0.0.1:{server.port('TCP')}/QM1"


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with connect(url, application="tests") as connection:
        yield connection
