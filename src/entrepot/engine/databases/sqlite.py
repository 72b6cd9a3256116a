# SPDX-License-Identifier: Apache-2.0
"""SQLite: it commits in one phase, and remembers in a table of its own for which units it did.

    entrepot_units   transaction_id                     outcome
                     database                           4611686018427387904 (which database this is)
                     entrepot-0a1b…-3-17                committed

A branch writes its row last, *before* the queue manager prepares its part,
and so holds SQLite's write lock from then on. Who finds a unit in doubt and
comes to write has therefore outlived the branch: there is a row if it has
committed, and if there is none it never will.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from collections.abc import Iterable, Sequence

from sqlalchemy import bindparam, text
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from entrepot.engine.databases.resource import OnePhase, problem_of
from entrepot.errors import DatabaseUnavailable, TwoPhaseUnavailable

_LOGGER = logging.getLogger("entrepot")

COMMITTED = "committed"
BACKED_OUT = "backed out"
_IDENTITY = "database"
_NUMBER_MAX = 2**62
_TOLD_MAX = 100
"""So many rows that nobody needs any more are dropped with the next unit; others wait for recovery."""

# What SQLite says when it may not be written to, or not so: then it works as any database with one phase does.
_REFUSALS = ("SQLITE_AUTH", "SQLITE_PERM", "SQLITE_READONLY", "SQLITE_CANTOPEN")
_OTHER_TABLE = "SQLITE_ERROR"
"""No such table, or no such column."""

_CREATE = text("CREATE TABLE IF NOT EXISTS entrepot_units (transaction_id TEXT PRIMARY KEY, outcome TEXT NOT NULL)")
_INSERT = text("INSERT INTO entrepot_units (transaction_id, outcome) VALUES (:name, :outcome)")
_INSERT_IF_NONE = text("INSERT OR IGNORE INTO entrepot_units (transaction_id, outcome) VALUES (:name, :outcome)")
_DELETE = text("DELETE FROM entrepot_units WHERE transaction_id = :name")
_OUTCOMES = text("SELECT transaction_id, outcome FROM entrepot_units WHERE transaction_id IN :names").bindparams(
    bindparam("names", expanding=True)
)
_ALL = text("SELECT transaction_id FROM entrepot_units WHERE substr(transaction_id, 1, length(:prefix)) = :prefix")


class SQLite(OnePhase):
    """A file, or a database in memory, which takes what it knows with it and so remembers nothing."""

    remembers = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._told: deque[str] = deque(maxlen=_TOLD_MAX)

    def check(self) -> None:
        """Refuse a database that cannot take part, and lay out the table."""
        with self.connected() as connection:
            self._require_units(connection)
            self.remembers = _is_file(connection)
            if not self.remembers:
                return
            try:
                self._lay_out(connection)
            except DBAPIError as error:
                if not _is_refusal(error):
                    raise DatabaseUnavailable(self.name, problem_of(error)) from error
                self._remember_no_more(error)

    def _require_units(self, connection: Connection) -> None:
        super()._require_units(connection)
        driver = connection.connection.driver_connection
        with connection.begin():
            if getattr(driver, "isolation_level", "") is None and not getattr(driver, "in_transaction", True):
                problem = "each of its statements commits by itself"
                raise TwoPhaseUnavailable(self.name, problem, "Make its engine without isolation_level='AUTOCOMMIT'.")

    def _lay_out(self, connection: Connection) -> None:
        number = _number(connection)
        connection.rollback()
        if number:
            return
        with connection.begin():
            connection.execute(_CREATE)
            number = secrets.randbelow(_NUMBER_MAX) + 1
            connection.execute(_INSERT_IF_NONE, {"name": _IDENTITY, "outcome": str(number)})

    def _remember_no_more(self, error: DBAPIError) -> None:
        self.remembers = False
        _LOGGER.warning(
            "%s has no usable table entrepot_units, so a crash can leave units of work in doubt there: %s",
            self.name,
            problem_of(error),
        )

    # --- in a unit of work --------------------------------------------------------------------

    def remember(self, connection: Connection, transaction_id: str) -> int:
        """Write down in a branch's own unit of work that it has committed; the number of this database, or 0.

        Raises:
            SQLAlchemyError: Back the branch out.
        """
        if not self.remembers:
            return 0
        try:
            connection.execute(_INSERT, {"name": transaction_id, "outcome": COMMITTED})
        except DBAPIError as error:
            if not _is_refusal(error):
                raise
            self._remember_no_more(error)
            return 0
        # A branch that does not commit leaves these to recovery.
        told = [self._told.popleft() for _ in range(len(self._told))]
        if told:
            connection.execute(_DELETE, [{"name": name} for name in told])
        # On this connection: should the file be another one by now, nobody may take it for the one before.
        return _number(connection)

    def told(self, transaction_id: str) -> None:
        """The queue manager has the outcome of a unit on disk: its row can go."""
        self._told.append(transaction_id)

    # --- recovery -----------------------------------------------------------------------------

    def identity(self) -> int:
        """The number of this database, by which units in doubt know it; 0 if none can."""
        if not self.remembers:
            return 0
        with self.connected() as connection:
            return _number(connection)

    def settle(self, transaction_ids: Sequence[str]) -> dict[str, bool]:
        """Whether the branches of units have committed; those that have not never will.

        They must have been in doubt at the queue manager before this is asked.

        Raises:
            SQLAlchemyError, DatabaseUnavailable: It is not known; try again.
        """
        with self.connected() as connection, connection.begin():
            # Waits for the write lock, which a living branch has.
            connection.execute(_INSERT_IF_NONE, [{"name": name, "outcome": BACKED_OUT} for name in transaction_ids])
            found = connection.execute(_OUTCOMES, {"names": list(transaction_ids)}).all()
            return {name: outcome == COMMITTED for name, outcome in found}

    def remembered(self, prefix: str) -> list[str]:
        """The units of a queue manager that have a row."""
        if not self.remembers:
            return []
        with self.connected() as connection:
            return list(connection.scalars(_ALL, {"prefix": prefix}).all())

    def forget(self, transaction_ids: Iterable[str]) -> None:
        """Drop rows of units that the queue manager has ended."""
        names = [{"name": name} for name in transaction_ids]
        if names:
            with self.connected() as connection, connection.begin():
                connection.execute(_DELETE, names)


def _number(connection: Connection) -> int:
    """Which database this is; 0 when nobody has ever said."""
    try:
        found = connection.execute(_OUTCOMES, {"names": [_IDENTITY]}).all()
    except DBAPIError as error:
        if _error_name(error) != _OTHER_TABLE:
            raise
        return 0
    return int(found[0][1]) if found and found[0][1].isdecimal() else 0


def _is_file(connection: Connection) -> bool:
    rows = connection.exec_driver_sql("PRAGMA database_list").all()
    connection.rollback()
    return any(name == "main" and file for _, name, file in rows)


def _is_refusal(error: DBAPIError) -> bool:
    name = _error_name(error)
    return name == _OTHER_TABLE or name.startswith(_REFUSALS)


def _error_name(error: DBAPIError) -> str:
    return getattr(error.orig, "sqlite_errorname", "") or ""
