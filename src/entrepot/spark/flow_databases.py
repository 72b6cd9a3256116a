# SPDX-License-Identifier: Apache-2.0
"""A flow's data sources, in the unit of work of its messages.

A coordinated flow works in branches of a global unit of work. Otherwise each
database has a unit of its own, which is committed just before the messages'
unit: after a crash in between, messages come again whose rows are there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine
from sqlalchemy.engine import Engine
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool, PoolProxiedConnection, QueuePool

from entrepot.errors import DatabaseFailed, DatabaseUnavailable, InvalidSetting
from entrepot.esql import SqlDatabase

if TYPE_CHECKING:
    from entrepot.global_unit import GlobalUnitOfWork

_UNKNOWN_SOURCE = "IM002"


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
        """Something was done since somebody set this to False."""

    @property
    def engines(self) -> list[Engine]:
        return list(self._engines.values())

    # --- what ESQL asks -----------------------------------------------------------------------

    def query(self, source: str, text: str, values: Sequence[Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return self._database(source).query("", text, values)

    def execute(self, source: str, text: str, values: Sequence[Any]) -> int:
        return self._database(source).execute("", text, values)

    def call(self, source: str, name: str, values: Sequence[Any], directions: Sequence[str], returns: bool) -> Any:
        return self._database(source).call("", name, values, directions, returns)

    def finish(self, source: str, commit: bool) -> None:
        if self.unit is not None:
            raise DatabaseFailed("COMMIT and ROLLBACK are the flow's affair: it is coordinated", sqlstate="2D000")
        self._database(source).finish("", commit)

    def _database(self, source: str) -> SqlDatabase:
        opened = self._opened.get(source)
        if opened is None:
            opened = self._opened[source] = SqlDatabase(self._connected(source))
        self.used = True
        return opened

    def _connected(self, source: str) -> Any:
        name = source if source in self._engines else ""
        engine = self._engines.get(name)
        if engine is None:
            known = ", ".join(sorted(self._engines)) or "none"
            problem = f"there is no data source {source!r}; there is {known}"
            raise DatabaseFailed(problem, sqlstate=_UNKNOWN_SOURCE, number=2321)
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

    def begin(self, unit: GlobalUnitOfWork | None) -> None:
        """Work from now on belongs to another unit."""
        self.unit = unit
        if unit is not None:
            self._opened.clear()
        self.used = False

    def commit(self) -> None:
        """Let every database that is not coordinated keep what was done.

        Raises:
            DatabaseFailed: One of them did not; those before it did.
        """
        if self.unit is not None:
            return
        for name, connection in list(self._own.items()):
            try:
                connection.commit()
            except Exception as error:
                self.back_out()
                raise DatabaseFailed(f"{name}: {error}", sqlstate="40000", number=2322) from error

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


def _engine(name: str, url: str) -> Engine:
    try:
        if url.startswith("sqlite"):
            # A file has no server to keep connections to, and one that is left open holds locks.
            return create_engine(url, poolclass=NullPool, connect_args={"timeout": 30})
        return create_engine(url, poolclass=QueuePool, pool_pre_ping=False)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise InvalidSetting("--database", name or "default", f"{url!r}: {error}") from error
