# SPDX-License-Identifier: Apache-2.0
"""The database that takes part in a receiver's global unit of work: one row for each receiver, changed by each message.

PostgreSQL, which prepares and commits in two phases, where it is installed;
else a file of SQLite, which decides for all as the last agent. Each receiver
has its own row, so that receivers wait for each other's forces and not for
each other's locks; SQLite has one lock for all the same.
"""

from __future__ import annotations

import importlib.util
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from entrepot.errors import SystemAbsent
from entrepot.workbench.systems.postgresql_process import (
    USER,
    PostgreSqlProcess,
    closed_folder,
    program,
    programs,
    version,
)
from entrepot.workbench.systems.processes import LOOPBACK, free_port

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection as DatabaseConnection
    from sqlalchemy.engine import Engine

POSTGRESQL, SQLITE = "postgresql", "sqlite"
_CONNECTIONS_MAX = "200"
_PARAMETERS = {
    "max_connections": _CONNECTIONS_MAX,
    "max_prepared_transactions": _CONNECTIONS_MAX,
    "synchronous_commit": "on",
}
_LOCK_S = 60


def choose(wanted: str, folder: Path) -> str:
    """The kind of database that a point asks for, or what can run in the folder when it asks for none.

    Raises:
        SystemAbsent: It is not installed, or SQLAlchemy is not.
    """
    if importlib.util.find_spec("sqlalchemy") is None:
        missing = "Python module sqlalchemy not installed: pip install 'entrepot[sql]'"
        raise SystemAbsent("a global unit of work", missing)
    can_postgresql = programs() is not None and importlib.util.find_spec("psycopg") is not None
    kind = wanted or (POSTGRESQL if can_postgresql and closed_folder(folder) is None else SQLITE)
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
        self._process = PostgreSqlProcess(folder, "PostgreSQL")

    def start(self) -> None:
        """Make it when there is none yet, and return when it answers and has its table."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self.kind == POSTGRESQL and not self._process.is_alive():
            self._process.start(free_port(), _PARAMETERS, self._answers)
        self._create_table()

    def stop(self) -> None:
        self._process.stop()

    def is_alive(self) -> bool:
        return self.kind == SQLITE or self._process.is_alive()

    @property
    def pids(self) -> list[int]:
        """Of PostgreSQL's processes now; SQLite lives in those that use it."""
        return self._process.pids

    @property
    def url(self) -> str:
        if self.kind == SQLITE:
            return f"sqlite:///{self._folder / 'received.sqlite'}"
        return f"postgresql+psycopg://{USER}@{LOOPBACK}:{self._process.port}/postgres"

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
        return f"PostgreSQL {version().split()[2]}"

    def _answers(self) -> bool:
        asked = [program("pg_isready"), "-q", "-h", LOOPBACK, "-p", str(self._process.port), "-U", USER]
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
