# SPDX-License-Identifier: Apache-2.0
"""The database that takes part in a receiver's global unit of work: one row for each receiver, changed by each message.

PostgreSQL, which prepares and commits in two phases, where it is installed;
else a file of SQLite, which decides for all as the last agent. Each receiver
has its own row, so that receivers wait for each other's forces and not for
each other's locks; SQLite has one lock for all the same.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from entrepot.errors import SystemAbsent
from entrepot.workbench.systems.processes import LOOPBACK, Server, free_port
from entrepot.workbench.systems.system import is_running

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection as DatabaseConnection
    from sqlalchemy.engine import Engine

POSTGRESQL, SQLITE = "postgresql", "sqlite"
_USER = "postgres"
_LIBRARIES = Path("/usr/lib/postgresql")
_CONNECTIONS_MAX = 200
_LOCK_S = 60
_END_S = 10.0


def postgresql_programs() -> Path | None:
    """Where initdb and postgres are, of the newest version; None when they are not installed."""
    installed = [path for path in _LIBRARIES.glob("*/bin") if (path / "initdb").exists()]
    if installed:
        return max(installed, key=lambda path: float(path.parent.name))
    found = shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


def choose(wanted: str) -> str:
    """The kind of database that a point asks for, or what there is when it asks for none.

    Raises:
        SystemAbsent: It is not installed, or SQLAlchemy is not.
    """
    if importlib.util.find_spec("sqlalchemy") is None:
        missing = "Python module sqlalchemy not installed: pip install 'entrepot[sql]'"
        raise SystemAbsent("a global unit of work", missing)
    can_postgresql = postgresql_programs() is not None and importlib.util.find_spec("psycopg") is not None
    kind = wanted or (POSTGRESQL if can_postgresql else SQLITE)
    if kind not in (POSTGRESQL, SQLITE):
        raise SystemAbsent(f"the database {kind!r}", f"there are {POSTGRESQL} and {SQLITE}")
    if kind == POSTGRESQL and not can_postgresql:
        raise SystemAbsent(POSTGRESQL, "it needs the Debian package postgresql and pip install 'entrepot[postgres]'")
    return kind


class ReceiverRow:
    """One receiver's connection pool and row."""

    def __init__(self, url: str) -> None:
        from sqlalchemy import create_engine, text

        is_file = url.startswith("sqlite")
        # One receiver has one unit at a time; recovery of what a crash left may want a second connection.
        self.engine: Engine = (
            create_engine(url, connect_args={"timeout": _LOCK_S}) if is_file else create_engine(url, pool_size=2)
        )
        self._key = uuid.uuid4().hex
        self._update = text("UPDATE received SET messages = messages + 1, last = :body WHERE receiver = :receiver")
        with self.engine.begin() as database:
            database.execute(
                text("INSERT INTO received (receiver, messages, last) VALUES (:receiver, 0, NULL)"),
                {"receiver": self._key},
            )

    def update(self, database: DatabaseConnection, body: bytes) -> None:
        database.execute(self._update, {"body": body[:64], "receiver": self._key})

    def close(self) -> None:
        self.engine.dispose()


class UnitDatabase:
    """Started and stopped with the system that it is measured with."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._folder = folder
        self.kind = kind
        self._server: Server | None = None
        self._port = 0

    def start(self) -> None:
        """Make it when there is none yet, and return when it answers and has its table."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self.kind == POSTGRESQL and (self._server is None or not self.is_alive()):
            self._start_postgresql()
        self._create_table()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    def is_alive(self) -> bool:
        return self._server is None or is_running(self._server.pid)

    @property
    def url(self) -> str:
        if self.kind == SQLITE:
            return f"sqlite:///{self._folder / 'received.sqlite'}"
        return f"postgresql+psycopg://bench@{LOOPBACK}:{self._port}/postgres"

    def open_row(self) -> ReceiverRow:
        return ReceiverRow(self.url)

    def messages(self) -> int:
        """How many messages have changed a row."""
        from sqlalchemy import create_engine, text

        engine = create_engine(self.url)
        try:
            with engine.connect() as database:
                return int(database.scalar(text("SELECT coalesce(sum(messages), 0) FROM received")) or 0)
        finally:
            engine.dispose()

    def version(self) -> str:
        if self.kind == SQLITE:
            import sqlite3

            return f"SQLite {sqlite3.sqlite_version}"
        asked = [self._program("postgres"), "--version"]
        told = subprocess.run(asked, check=True, capture_output=True, text=True)
        return f"PostgreSQL {told.stdout.split()[2]}"

    def _program(self, name: str) -> str:
        programs = postgresql_programs()
        assert programs is not None
        return str(programs / name)

    def _start_postgresql(self) -> None:
        data = self._folder / "data"
        # PostgreSQL refuses to run as root, so it becomes its own user, who must be able to get to the folder.
        user = _USER if os.geteuid() == 0 else ""
        if user:
            _let_through(self._folder)
            shutil.chown(self._folder, user, user)
        if not (data / "PG_VERSION").exists():
            become = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"] if user else []
            layout = ["-D", str(data), "-A", "trust", "-U", "bench", "-E", "UTF8", "--no-locale"]
            command = [*become, self._program("initdb"), *layout]
            subprocess.run(command, check=True, capture_output=True, cwd=self._folder)
        _await_end(data)
        self._port = free_port()
        options = {
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "max_connections": _CONNECTIONS_MAX,
            "max_prepared_transactions": _CONNECTIONS_MAX,
            "fsync": "on",
            "synchronous_commit": "on",
        }
        command = [self._program("postgres"), "-D", str(data), "-p", str(self._port)]
        for key, value in options.items():
            command += ["-c", f"{key}={value}"]
        self._server = Server(command, self._folder / "postgresql.log", name="PostgreSQL", user=user)
        self._server.wait_until(self._answers)

    def _answers(self) -> bool:
        asked = [self._program("pg_isready"), "-q", "-h", LOOPBACK, "-p", str(self._port), "-U", "bench"]
        return subprocess.run(asked, check=False).returncode == 0

    def _create_table(self) -> None:
        from sqlalchemy import create_engine, text

        engine = create_engine(self.url)
        kind = "BLOB" if self.kind == SQLITE else "BYTEA"
        try:
            with engine.begin() as database:
                database.execute(
                    text(
                        "CREATE TABLE IF NOT EXISTS received"
                        f" (receiver VARCHAR(32) PRIMARY KEY, messages BIGINT NOT NULL, last {kind})"
                    )
                )
        finally:
            engine.dispose()


def _await_end(data: Path) -> None:
    """Let those die whom a killed PostgreSQL has left, or the next would take them for one that still runs."""
    deadline = time.monotonic() + _END_S
    while _workers(data) and time.monotonic() < deadline:
        time.sleep(0.05)
    if not _workers(data):
        # It may name a dead process that nobody has buried yet, which would pass for a living one.
        (data / "postmaster.pid").unlink(missing_ok=True)


def _workers(data: Path) -> list[int]:
    """Living processes that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink() == data and is_running(int(process.name)):
                found.append(int(process.name))
    return found


def _let_through(folder: Path) -> None:
    """Let other users pass the private folders above, which they still cannot list."""
    for above in folder.parents:
        if above.stat().st_uid != os.geteuid() or above.stat().st_mode & 0o001:
            continue
        above.chmod(above.stat().st_mode & 0o7777 | 0o011)
