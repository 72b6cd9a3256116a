# SPDX-License-Identifier: Apache-2.0
"""Databases without a server: SQLite in memory, with two phases that only a list remembers, and faults on demand."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import Engine
from sqlalchemy.pool import QueuePool


class OnePhaseDialect(SQLiteDialect_pysqlite):
    """A database that is not SQLite, and knows no two phases."""

    name = "onephase"
    supports_statement_cache = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.faults: dict[str, list[Exception]] = {}
        """What goes wrong with the next calls, by their names; SELECT is what a statement begins with."""
        self.connects = 0
        self.open: set[sqlite3.Connection] = set()
        """Connections of the driver that nobody has closed."""

    def fault(self, call: str) -> None:
        if self.faults.get(call):
            raise self.faults[call].pop(0)

    def connect(self, *_: Any, **__: Any) -> Any:
        """In memory, whatever its name is."""
        self.connects += 1
        self.fault("connect")
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        self.open.add(connection)
        return connection

    def do_close(self, dbapi_connection: Any) -> None:
        self.open.discard(dbapi_connection)
        dbapi_connection.close()

    def do_terminate(self, dbapi_connection: Any) -> None:
        self.do_close(dbapi_connection)

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        self.fault(statement.split()[0])
        cursor.execute(statement, parameters)

    def do_commit(self, dbapi_connection: Any) -> None:
        self.fault("COMMIT")
        dbapi_connection.commit()

    def is_disconnect(self, error: Exception, connection: Any, cursor: Any) -> bool:
        return "gone" in str(error)


class TwoPhaseDialect(OnePhaseDialect):
    """A database that knows two phases; a branch is what it was told about it."""

    name = "twophase"
    supports_statement_cache = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.prepared: list[Any] = []
        self.committed: list[str] = []
        self.rolled_back: list[str] = []

    def do_begin_twophase(self, connection: Any, xid: str) -> None:
        self.fault("begin")

    def do_prepare_twophase(self, connection: Any, xid: str) -> None:
        self.fault("prepare")
        self.prepared.append(xid)

    def do_commit_twophase(self, connection: Any, xid: str, is_prepared: bool = True, recover: bool = False) -> None:
        self._end("commit", connection, xid, self.committed, is_prepared=is_prepared, recover=recover)

    def do_rollback_twophase(self, connection: Any, xid: str, is_prepared: bool = True, recover: bool = False) -> None:
        self._end("rollback", connection, xid, self.rolled_back, is_prepared=is_prepared, recover=recover)

    def _end(self, verb: str, connection: Any, xid: str, ended: list[str], *, is_prepared: bool, recover: bool) -> None:
        self.fault(verb)
        if is_prepared:
            # As drivers have it: without `recover` they look among the branches of this connection only.
            if xid not in self.prepared or recover is connection.in_transaction():
                raise sqlite3.OperationalError("no such branch")
            self.prepared.remove(xid)
        ended.append(xid)

    def do_recover_twophase(self, connection: Any) -> list[Any]:
        return list(self.prepared)


registry.impls["onephase"] = lambda: OnePhaseDialect
registry.impls["twophase"] = lambda: TwoPhaseDialect


def one_phase() -> Engine:
    return create_engine("onephase://", poolclass=QueuePool, pool_size=2, pool_timeout=0.01, max_overflow=0)


def two_phase(database: str = "") -> Engine:
    return create_engine(f"twophase://{database}", poolclass=QueuePool, pool_size=2, pool_timeout=0.01, max_overflow=0)


def checked_out(engine: Engine) -> int:
    """Connections that somebody has taken from the pool and not given back."""
    assert isinstance(engine.pool, QueuePool)
    return engine.pool.checkedout()


def gone() -> sqlite3.OperationalError:
    """What a driver says of a connection that has died."""
    return sqlite3.OperationalError("the server is gone")


def refused(name: str | None = "SQLITE_ERROR") -> sqlite3.OperationalError:
    """What a driver says of a statement that the database does not do."""
    error = sqlite3.OperationalError("it does not")
    error.sqlite_errorname = name  # type: ignore[assignment]
    return error
