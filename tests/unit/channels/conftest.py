# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from entrepot.client.blocking.connecting import connected_to
from entrepot.client.embedded import EmbeddedHost
from entrepot.queues.folder import create
from entrepot.recovery_log.settings import LogSettings
from entrepot.security.users import Users
from recovery.channel_pair import Pair, copy_pair, new_pair, run

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


@pytest.fixture(scope="session")
def pair_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two queue managers with a channel between them, to be copied."""
    path = tmp_path_factory.mktemp("channels") / "template"
    new_pair(path)
    return path


@pytest.fixture
def with_pair(pair_template: Path, tmp_path: Path) -> Callable[..., None]:
    """Run something with a pair of queue managers; keywords change the definitions of the channel's ends."""

    def open_and_run(
        work: Callable[[Pair], Awaitable[Any]], *, receiver: dict[str, Any] | None = None, **sender: Any
    ) -> None:
        if sender or receiver:
            new_pair(tmp_path / "pair", sender=sender, receiver=receiver)
        else:
            copy_pair(pair_template, tmp_path / "pair")
        run(tmp_path / "pair", work)

    return open_and_run
