# SPDX-License-Identifier: Apache-2.0
"""A branch: one database's part of a global unit of work, on the connection that the program uses for it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sqlalchemy.engine import Connection, RootTransaction, TwoPhaseTransaction
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from entrepot.engine.recovery_log.record import Branch
from entrepot.errors import DatabaseWorkEnded

if TYPE_CHECKING:
    from entrepot.engine.databases.resource import OnePhase, Resource

# What SQLite says when it has not committed and knows it: busy, full, a constraint.
_NOT_COMMITTED = ("SQLITE_BUSY", "SQLITE_FULL", "SQLITE_CONSTRAINT")


class OpenBranch:
    """A branch with two phases."""

    def __init__(self, resource: Resource, connection: Connection, branch_id: str) -> None:
        self.resource = resource
        self.connection = connection
        self.branch_id = branch_id
        self._number = 0
        try:
            self._transaction: RootTransaction = self._begin()
        except BaseException:
            connection.invalidate()
            connection.close()
            raise

    def _begin(self) -> RootTransaction:
        return self.connection.begin_twophase(self.branch_id)

    @property
    def form(self) -> Branch:
        """As the queue manager remembers it."""
        return Branch(self.resource.name, self.branch_id, self._number)

    def require_open(self) -> None:
        """Refuse to go on when the program has committed or rolled back by itself.

        Raises:
            DatabaseWorkEnded
        """
        if self.connection.closed or not self._transaction.is_active:
            raise DatabaseWorkEnded(self.resource.name)

    def prepare(self) -> None:
        """From here on the database can commit whatever happens, and does not before it is told.

        Raises:
            SQLAlchemyError: It may be prepared or not; back it out.
        """
        assert isinstance(self._transaction, TwoPhaseTransaction)
        self._number = self.resource.number(self.connection)
        self._transaction.prepare()

    def commit(self) -> None:
        """On the connection that has prepared it.

        Raises:
            SQLAlchemyError: Whether it is committed is unknown; `Resource.commit` finds out.
        """
        self._transaction.commit()
        self.connection.close()

    def roll_back(self) -> None:
        """Undo it, prepared or not.

        Raises:
            SQLAlchemyError: It may still be prepared; recovery rolls it back.
        """
        try:
            if self._transaction.is_active:
                self._transaction.rollback()
            self.connection.close()
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Let go of the connection and leave a prepared branch as it is."""
        # Not just closed: SQLAlchemy would roll back what is prepared.
        with contextlib.suppress(SQLAlchemyError):
            self.connection.invalidate()
        with contextlib.suppress(SQLAlchemyError):
            self.connection.close()


class OneTimeBranch(OpenBranch):
    """A branch with one phase."""

    resource: OnePhase

    def _begin(self) -> RootTransaction:
        return self.connection.begin()

    @property
    def form(self) -> Branch:
        return Branch(self.resource.name, "", self._number)

    @property
    def can_be_asked(self) -> bool:
        """Whether recovery can find out if it has committed."""
        return self._number > 0

    def prepare(self) -> None:
        """Let its last statement write down that it has committed, where the database can.

        Raises:
            SQLAlchemyError: It is not committed; back it out.
        """
        self._number = self.resource.remember(self.connection, unit_of(self.branch_id))

    @staticmethod
    def is_unknown(error: SQLAlchemyError) -> bool:
        """Whether a commit that failed like this may have happened all the same."""
        if not isinstance(error, OperationalError):
            # The database has understood and refused it, unless the connection broke meanwhile.
            return bool(getattr(error, "connection_invalidated", False))
        name = getattr(error.orig, "sqlite_errorname", "") or ""
        return not name.startswith(_NOT_COMMITTED)


def unit_of(branch_id: str) -> str:
    """The transaction id of a branch's unit."""
    return branch_id.rpartition("-")[0]
