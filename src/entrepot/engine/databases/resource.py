# SPDX-License-Identifier: Apache-2.0
"""A database as a global unit of work sees it: does it commit in two phases, and what has it prepared?

`Resource` serves every dialect of SQLAlchemy that knows two-phase commit;
`OnePhase` those that do not; PostgreSQL and SQLite have modules of their own,
because they can tell more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from sqlalchemy import select
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from entrepot.engine.databases.branch import OneTimeBranch, OpenBranch
from entrepot.engine.recovery_log.record import Branch
from entrepot.errors import DatabaseUnavailable, InvalidArgument, TwoPhaseUnavailable
from entrepot.limits import TEXT_BYTES_MAX

End = Literal["committed", "backed out", "unknown"]
"""How a branch that was decided has ended."""


class Resource:
    """A database with two-phase commit."""

    two_phase = True

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.name = resource_name(engine.url)

    def check(self) -> None:
        """Refuse a database that cannot take part.

        Raises:
            DatabaseUnavailable, TwoPhaseUnavailable: Nothing was done.
        """
        with self.connected() as connection:
            self._require_units(connection)

    def _require_units(self, connection: Connection) -> None:
        if getattr(connection.connection.dbapi_connection, "autocommit", False) is True:
            problem = "each of its statements commits by itself"
            raise TwoPhaseUnavailable(self.name, problem, "Make its engine without isolation_level='AUTOCOMMIT'.")

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """A connection of our own, which answers: one from a pool may have died with its server."""
        try:
            connection = self.engine.connect()
            try:
                connection.execute(select(1))
            except DBAPIError as error:
                connection.close()
                if not error.connection_invalidated:
                    raise
                connection = self.engine.connect()
            connection.rollback()
        except SQLAlchemyError as error:
            raise DatabaseUnavailable(self.name, problem_of(error)) from error
        with connection:
            yield connection

    def open(self, branch_id: str) -> OpenBranch:
        """Begin a branch.

        Raises:
            DatabaseUnavailable: Nothing was begun.
        """
        try:
            try:
                return self._opened(branch_id)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                return self._opened(branch_id)  # the one before was from a pool, and had died
        except SQLAlchemyError as error:
            raise DatabaseUnavailable(self.name, problem_of(error)) from error

    def _opened(self, branch_id: str) -> OpenBranch:
        return OpenBranch(self, self.engine.connect(), branch_id)

    def number(self, connection: Connection) -> int:  # noqa: ARG002
        """The database's own number of what a connection has begun; 0 when it has none that outlives it."""
        return 0

    # --- without the connection that has prepared -------------------------------------------

    def prepared(self, prefix: str) -> list[str]:
        """The branches that are prepared there and whose ids begin so."""
        with self.connected() as connection:
            found: list[Any] = connection.recover_twophase()
        names = [name.decode() if isinstance(name, bytes) else str(name) for name in found]
        return [name for name in names if name.startswith(prefix)]

    def commit(self, branch: Branch) -> End:
        """Commit a branch that was decided.

        Raises:
            SQLAlchemyError, DatabaseUnavailable: It is not known; try again.
        """
        try:
            with self.connected() as connection:
                connection.commit_prepared(branch.branch_id, recover=True)
        except Exception as error:  # some come from the driver as they are
            if branch.branch_id in self.prepared(branch.branch_id):
                raise DatabaseUnavailable(self.name, problem_of(error)) from error
            return self.ended(branch)
        return "committed"

    def roll_back(self, branch_id: str) -> None:
        """Back out a branch that was not decided; one that is not there any more has ended so already.

        Raises:
            SQLAlchemyError, DatabaseUnavailable: It is not known; try again.
        """
        try:
            with self.connected() as connection:
                connection.rollback_prepared(branch_id, recover=True)
        except Exception as error:  # some come from the driver as they are
            if branch_id in self.prepared(branch_id):
                raise DatabaseUnavailable(self.name, problem_of(error)) from error

    def ended(self, branch: Branch) -> End:  # noqa: ARG002
        """How a decided branch has ended that is not prepared any more."""
        # There was a decision, so nobody but us has had a reason to end it.
        return "committed"


class OnePhase(Resource):
    """A database that can only commit, or not: it decides for all, as the last to be asked."""

    two_phase = False
    remembers = False
    """Whether it can be asked after a crash for which units it has committed."""

    def _opened(self, branch_id: str) -> OneTimeBranch:
        return OneTimeBranch(self, self.engine.connect(), branch_id)

    def prepared(self, prefix: str) -> list[str]:  # noqa: ARG002
        return []

    def remember(self, connection: Connection, transaction_id: str) -> int:  # noqa: ARG002
        """Write down in a branch that it has committed; a number that tells this database from others, or 0."""
        return 0

    def told(self, transaction_id: str) -> None:
        """The queue manager knows for good what was written down."""


def resource_of(engine: object) -> Resource:
    """What an engine's database can do.

    Raises:
        InvalidArgument: It is no engine.
    """
    if not isinstance(engine, Engine):
        raise InvalidArgument("engine", f"{type(engine).__name__} is no engine", "an Engine of SQLAlchemy")
    if engine.dialect.name == "postgresql":
        from entrepot.engine.databases.postgresql import PostgreSQL

        return PostgreSQL(engine)
    if engine.dialect.name == "sqlite":
        from entrepot.engine.databases.sqlite import SQLite

        return SQLite(engine)
    own = getattr(type(engine.dialect), "do_prepare_twophase", None)
    known = own is not None and own is not getattr(DefaultDialect, "do_prepare_twophase", None)
    return Resource(engine) if known else OnePhase(engine)


def resource_name(url: URL) -> str:
    """A URL that can be shown: no password in it, nor the name of a driver."""
    public = {key: value for key, value in url.query.items() if "pass" not in key.lower()}
    # Made anew: to `set` a password of None would leave the one there is.
    shown = URL.create(url.get_backend_name(), url.username, None, url.host, url.port, url.database, public)
    return shown.render_as_string(hide_password=False)[: TEXT_BYTES_MAX // 4]


def problem_of(error: BaseException) -> str:
    """What a database says, in a line; not the statement, in which secrets may stand."""
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    lines = str(original).strip().splitlines()
    return lines[0] if lines else type(original).__name__
