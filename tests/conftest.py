# SPDX-License-Identifier: Apache-2.0
"""What tests of every room share: small queue managers that can be opened, closed, killed and given a clock."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from entrepot import limits
from entrepot.client.blocking import Connection, connect
from entrepot.client.blocking.connecting import connected_to
from entrepot.client.embedded import EmbeddedHost
from entrepot.clock import Clock
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.server.security import passwords
from entrepot.server.security.users import Users
from entrepot.testing import VirtualClock
from hosted import Hosted

# The same examples every time, so that a change is judged by itself; ENTREPOT_EXPLORE=1 looks for new ones, and more.
# No deadline: a busy machine is no mistake of ours, and --timeout stops what hangs.
settings.register_profile("steady", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=500)
settings.load_profile("explore" if os.environ.get("ENTREPOT_EXPLORE") else "steady")


# Tests start some hundreds of processes, and each would compile all of our modules if none may keep what it compiled.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Who runs us in the background may ignore interrupts, and children would inherit that: those that are sent one would
# never end.
signal.signal(signal.SIGINT, signal.default_int_handler)


OWN_SPARK = frozenset(f"tests/spark/test_{name}.py" for name in ("cluster", "demo", "driver", "driver_and_executors"))
"""Files whose tests start Spark in processes of their own."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist loadgroup: all tests in Spark's one session in one process, others file by file.

    The mark xdist_group says the same, but with pytest 9.2 xdist 3.8 overlooks it (pytest-xdist issue 1386).
    """
    from xdist.scheduler import LoadGroupScheduling

    class OneSparkSession(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            # Not test by test: then a process would wait for its next one after each.
            file = nodeid.partition("::")[0]
            return "spark" if file.startswith("tests/spark/") and file not in OWN_SPARK else file

    return OneSparkSession(config, log) if config.getvalue("dist") == "loadgroup" else None


# The longest first: whoever takes them in the end keeps all others waiting.
LONG_FOLDERS = ("spark", "workbench", "histories", "recovery", "simulation", "channels", "global_units", "forms")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(tests).parts[0]
        return LONG_FOLDERS.index(folder) if folder in LONG_FOLDERS else len(LONG_FOLDERS) + (folder == "unit")

    items.sort(key=place)


# What collecting makes stays until the end: looking through it for garbage, again and again, took two fifths of the
# processor time of collecting, in every process. Later searches for garbage leave it out too.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        # In the process that only hands out tests too, where collecting has no end that is told.
        gc.enable()
        gc.freeze()


SMALL_LOG = LogSettings(segment_bytes=256 * 1024, primary=3, secondary=4)


# For tests that are not about disks: a killed process leaves its files in memory as it would on a disk.
MEMORY = Path("/dev/shm")
TESTER = "tester:secret"


def host_of(connection: Connection) -> Any:
    """The queue manager behind an embedded connection, for tests of what is inside."""
    return Hosted(connection.calls.line._host)  # type: ignore[attr-defined]


class Place:
    """A queue manager's folder, and whoever is connected to it."""

    def __init__(self, path: Path, clock: VirtualClock | None = None) -> None:
        self.path = path
        self.clock = clock
        self._open: list[Connection] = []

    def open(self) -> Connection:
        """Start the queue manager and connect to it."""
        clock: Clock | None = self.clock
        connection = connected_to(EmbeddedHost(self.path, clock=clock), application="tests")
        self._open.append(connection)
        return connection

    def reopen(self) -> Connection:
        """Stop the queue manager cleanly and start it again."""
        self.close()
        return self.open()

    def killed(self) -> Place:
        """What a SIGKILL now would leave behind: the files as they are, without another word from the process."""
        copy = self.path.parent / f"{self.path.name}.killed"
        shutil.copytree(self.path, copy)
        return Place(copy, self.clock)

    def close(self) -> None:
        while self._open:
            self._open.pop().close()

    def advance(self, seconds: float) -> None:
        """Let time pass, and everything that is due happen."""
        assert self.clock is not None
        self.clock.advance(seconds)
        for connection in self._open:
            manager = host_of(connection)._manager
            with connection.calls.line._lock:
                manager.timers.tick()
            host_of(connection)._force_all()

    def files(self, folder: str) -> list[str]:
        """The names in a folder, but for the space that is kept for a full disk."""
        names = (path.name for path in (self.path / folder).iterdir())
        return sorted(name for name in names if not name.startswith("reserve-"))


def let_tester_in(path: Path) -> None:
    """Let an administrator in by TCP with user and password of TESTER, which no queue manager does by itself."""
    with connect(f"embedded:{path}") as connection:
        connection.mqsc("DEFINE LISTENER(TCP) PORT(0)\nALTER QMGR CHLAUTH(DISABLED)")
    users = Users.load(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "hash_password", _cheaply_hashed)
        users.add(*TESTER.split(":"), ["mqm"])
    users.save()


def _cheaply_hashed(password: str) -> passwords.PasswordHash:
    """Nobody guesses here, and every test would pay for it."""
    salt = b"salt" * 4
    return passwords.PasswordHash(n=2, salt=salt, hash=passwords._scrypt(passwords.as_bytes(password), salt, 2, 8, 1))


def folder_in_memory() -> tempfile.TemporaryDirectory[str]:
    """A folder for files that nobody has to wait for; on a machine that has none in memory, one on a disk."""
    return tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None, ignore_cleanup_errors=True)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A new queue manager QM1 that lives by the machine's clock."""
    create(tmp_path / "QM1", log=SMALL_LOG)
    place = Place(tmp_path / "QM1")
    yield place
    place.close()


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[Place]:
    """A new queue manager QM1 whose clock moves when the test says so."""
    clock = VirtualClock()
    create(tmp_path / "QM1", log=SMALL_LOG, clock=clock)
    place = Place(tmp_path / "QM1", clock)
    yield place
    place.close()


@pytest.fixture
def connection(place: Place) -> Connection:
    """A connection by the embedded binding, to a queue manager with a queue Q."""
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    return connection


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> int:
    """Messages go to disk a few kilobytes at a time, so that a hundred of them make several runs."""
    monkeypatch.setattr(limits, "RUN_BYTES", 10_000)
    return limits.RUN_BYTES
