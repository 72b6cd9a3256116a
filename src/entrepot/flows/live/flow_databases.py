# SPDX-License-Identifier: Apache-2.0
"""A flow's data sources, in the unit of work of its messages.

A coordinated flow works in branches of a global unit of work. Otherwise each
database has a unit of its own, which is committed just before the messages'
unit: after a crash in between, messages come again whose rows are there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine
from sqlalchemy.engine import Engine
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool, PoolProxiedConnection, QueuePool

from entrepot.errors import DatabaseFailed, DatabaseUnavailable, InvalidSetting
from entrepot.esql import SqlDatabase

if TYPE_CHECKING:
    from entrepot.client.blocking.global_unit import GlobalUnitOfWork

_UNKNOWN_SOURCE = "IM002"
AFTERMATH = "25P02"
"""What follows an error in the same unit of work, as PostgreSQL says it."""
_UNDOES_ALL = "postgresql"
"""Where a statement that fails takes the whole unit of work with it; elsewhere it alone is undone."""
_SAVEPOINT = "entrepot_statement"
_CONNECT_S = 10


class FlowDatabases:
    """What ESQL is given as its database."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        """
        Raises:
            InvalidSetting: A URL is none, or its driver is not installed.
        """
        self._engines = {name: _engine(name, url) for name, url in urls.items()}
        self._own: dict[str, PoolProxiedConnection] = {}
        self._opened: dict[str, SqlDatabase] = {}
        self.unit: GlobalUnitOfWork | None = None
        """The global unit of work that all work belongs to, in a coordinated flow."""
        self.used = False
        """Something was done since this was set to False."""
        self._works = False
        """Something was done in this unit of work."""
        self._careful = False
        self._spoiled = False
        """A database has undone what others did in this unit of work, because one statement failed."""

    @property
    def engines(self) -> list[Engine]:
        return list(self._engines.values())

    # --- what ESQL asks -----------------------------------------------------------------------

    def query(self, source: str, text: str, values: Sequence[Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        with self._statement(source) as database:
            return database.query("", text, values)

    def execute(self, source: str, text: str, values: Sequence[Any]) -> int:
        with self._statement(source) as database:
            return database.execute("", text, values)

    def call(self, source: str, name: str, values: Sequence[Any], directions: Sequence[str], returns: bool) -> Any:
        with self._statement(source) as database:
            return database.call("", name, values, directions, returns)

    def finish(self, source: str, commit: bool) -> None:
        if self.unit is not None:
            raise DatabaseFailed("COMMIT and ROLLBACK are the flow's affair: it is coordinated", sqlstate="2D000")
        self._database(source).finish("", commit)

    def _statement(self, source: str) -> _Statement:
        """Where one statement is carried out; should it fail, it alone is undone."""
        return _Statement(self, self._database(source), self._engine(source).dialect.name == _UNDOES_ALL)

    def _database(self, source: str) -> SqlDatabase:
        # Before it is tried: a message that cannot get to its database waits for it with its whole unit.
        self.used = self._works = True
        opened = self._opened.get(source)
        if opened is None:
            opened = self._opened[source] = SqlDatabase(self._connected(source))
        return opened

    def _engine(self, source: str) -> Engine:
        engine = self._engines.get(source) or self._engines.get("")
        if engine is None:
            known = ", ".join(sorted(self._engines)) or "none"
            problem = f"there is no data source {source!r}; there is {known}"
            raise DatabaseFailed(problem, sqlstate=_UNKNOWN_SOURCE, number=2321)
        return engine

    def _connected(self, source: str) -> Any:
        engine = self._engine(source)
        name = source if source in self._engines else ""
        try:
            if self.unit is not None:
                return self.unit.database(engine).connection.driver_connection
            own = self._own.get(name)
            if own is None:
                own = self._own[name] = engine.raw_connection()
            return own.driver_connection
        except (SQLAlchemyError, OSError, DatabaseUnavailable) as error:
            raise DatabaseFailed(f"{source}: {error}", sqlstate="08001", number=2321) from error
        except Exception as error:  # a driver's own error, which raw connections do not wrap
            raise DatabaseFailed(f"{source}: {error}", sqlstate="08001", number=2321) from error

    # --- units of work ------------------------------------------------------------------------

    def begin(self, unit: GlobalUnitOfWork | None, *, careful: bool = False) -> None:
        """Work from now on belongs to another unit; `careful`: of one message alone."""
        self.unit = unit
        if unit is not None:
            self._opened.clear()
        self.used = self._works = self._spoiled = False
        self._careful = careful

    @property
    def has_own_work(self) -> bool:
        """Whether something was done in this unit of work that no coordinator commits."""
        return self._works and self.unit is None

    def require_sound(self) -> None:
        """
        Raises:
            DatabaseFailed: After an error that the flow has dealt with, the work of its neighbours is undone too.
        """
        if self._spoiled:
            raise DatabaseFailed("an error has undone all that was done in this unit of work", sqlstate=AFTERMATH)

    def commit(self) -> None:
        """Let every database that is not coordinated keep what was done.

        Raises:
            DatabaseFailed: One of them did not; those before it did.
        """
        if self.unit is not None:
            return
        for connection in list(self._own.values()):
            try:
                SqlDatabase(connection.driver_connection).finish("", True)
            except DatabaseFailed:
                self.back_out()
                raise

    def back_out(self) -> None:
        """Let no database that is not coordinated keep anything; connections that cannot be told are left."""
        for name, connection in list(self._own.items()):
            try:
                connection.rollback()
            except Exception:
                with contextlib.suppress(Exception):
                    connection.invalidate()
                del self._own[name]
                self._opened.clear()

    def finish_now(self, source: str) -> None:
        """Commit a node's work, whatever becomes of the message."""
        if self.unit is None and self._own:
            self._database(source).finish("", True)

    def close(self) -> None:
        for connection in self._own.values():
            with contextlib.suppress(Exception):
                connection.close()
        for engine in self._engines.values():
            engine.dispose()


class _Statement:
    """One statement at a database.

    Messages that share a unit of work do without savepoints, as most
    statements succeed. Where one did not, and the flow went on, they are
    worked on one by one, each statement with a savepoint of its own.
    """

    __slots__ = ("_databases", "_saved", "_sql", "_undoes_all")

    def __init__(self, databases: FlowDatabases, sql: SqlDatabase, undoes_all: bool) -> None:
        self._databases = databases
        self._sql = sql
        self._undoes_all = undoes_all
        self._saved = undoes_all and databases._careful

    def __enter__(self) -> SqlDatabase:
        if self._saved:
            self._sql.execute("", f"SAVEPOINT {_SAVEPOINT}", ())
        return self._sql

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._undoes_all:
            return
        if self._saved:
            # After an error that ended the connection this fails too, and the first error is the one to tell.
            with contextlib.suppress(DatabaseFailed) if kind else contextlib.nullcontext():
                if kind:
                    self._sql.execute("", f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}", ())
                self._sql.execute("", f"RELEASE SAVEPOINT {_SAVEPOINT}", ())
        elif kind is not None:
            self._databases._spoiled = True


def _engine(name: str, url: str) -> Engine:
    try:
        if url.startswith("sqlite"):
            # A file has no server to keep connections to, and one that is left open holds locks.
            return create_engine(url, poolclass=NullPool, connect_args={"timeout": 30})
        limits: dict[str, Any] = {}
        if url.startswith(_UNDOES_ALL) and "connect_timeout" not in url:
            limits["connect_timeout"] = _CONNECT_S  # a server that does not answer at all would be waited for by TCP
        return create_engine(url, poolclass=QueuePool, pool_pre_ping=False, connect_args=limits)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise InvalidSetting("--database", name or "default", f"{url!r}: {error}") from error
