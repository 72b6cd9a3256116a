# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL: prepared transactions, and what became of a transaction after it has ended."""

from __future__ import annotations

import re

from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from entrepot.engine.databases.resource import End, Resource
from entrepot.engine.recovery_log.record import Branch
from entrepot.errors import TwoPhaseUnavailable

_ADVICE = "Set max_prepared_transactions in postgresql.conf to at least max_connections, and restart PostgreSQL."
_UNDEFINED_OBJECT = "42704"
_OURS = re.compile(r"[a-z0-9-]+")

_LIST = text(
    "SELECT gid FROM pg_prepared_xacts"
    " WHERE database = current_database() AND left(gid, length(CAST(:prefix AS text))) = :prefix"
)


class PostgreSQL(Resource):
    """Any driver of it that SQLAlchemy has; tried with psycopg."""

    def check(self) -> None:
        with self.connected() as connection:
            self._require_units(connection)
            if int(connection.scalar(text("SHOW max_prepared_transactions")) or 0) == 0:
                problem = "its max_prepared_transactions is 0"
                raise TwoPhaseUnavailable(self.name, problem, _ADVICE)

    def number(self, connection: Connection) -> int:
        return int(connection.scalar(text("SELECT CAST(pg_current_xact_id() AS text)")) or 0)

    def prepared(self, prefix: str) -> list[str]:
        with self.connected() as connection:
            found = connection.scalars(_LIST, {"prefix": prefix}).all()
        # An id stands in a command below, where it cannot be a parameter; none of ours has a quotation mark.
        return [name for name in found if _OURS.fullmatch(name)]

    def commit(self, branch: Branch) -> End:
        return "committed" if self._end("COMMIT", branch.branch_id) else self.ended(branch)

    def roll_back(self, branch_id: str) -> None:
        self._end("ROLLBACK", branch_id)

    def _end(self, verb: str, branch_id: str) -> bool:
        """End a prepared branch; False when there is none."""
        assert _OURS.fullmatch(branch_id), branch_id
        try:
            with self.connected() as connection:
                # Outside of any transaction, as PostgreSQL wants it.
                connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql(
                    f"{verb} PREPARED '{branch_id}'"
                )
        except DBAPIError as error:
            if _sqlstate(error) != _UNDEFINED_OBJECT:
                raise
            return False
        return True

    def ended(self, branch: Branch) -> End:
        """Not there any more: done, because it was decided, unless PostgreSQL remembers otherwise."""
        if not branch.number:
            return "committed"
        try:
            with self.connected() as connection:
                status = connection.scalar(
                    text("SELECT pg_xact_status(CAST(CAST(:number AS text) AS xid8))"), {"number": str(branch.number)}
                )
        except DBAPIError as error:
            if _sqlstate(error) is None:
                raise  # no answer at all
            # It has not come so far yet: this is another server, or one from a backup.
            return "unknown"
        if status == "aborted":
            return "backed out"
        # Of one that ended very long ago nothing is known any more, and then the decision counts.
        return "unknown" if status == "in progress" else "committed"


def _sqlstate(error: DBAPIError) -> str | None:
    return getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
