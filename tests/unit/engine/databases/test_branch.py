# SPDX-License-Identifier: Apache-2.0
"""A branch on a program's connection: what the database is told, and where the connection is afterwards."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidRequestError, OperationalError

from entrepot.engine.databases.branch import OneTimeBranch, OpenBranch, unit_of
from entrepot.engine.databases.resource import OnePhase, Resource
from entrepot.engine.recovery_log.record import Branch
from entrepot.errors import DatabaseUnavailable, DatabaseWorkEnded
from unit.engine.databases.stand_in import checked_out, one_phase, refused, two_phase

UNIT = "entrepot-00-1-7"
BRANCH = f"{UNIT}-0"


@pytest.fixture
def engine() -> Engine:
    return two_phase("/shop")


@pytest.fixture
def database(engine: Engine) -> Any:
    """What the database was told."""
    return engine.dialect


@pytest.fixture
def branch(engine: Engine) -> OpenBranch:
    return Resource(engine).open(BRANCH)


class Numbering(Resource):
    """A database that numbers its transactions."""

    def number(self, _: object) -> int:
        return 700


class Remembering(OnePhase):
    """A database with one phase that writes down what it commits."""

    identity = 1

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.rows: list[str] = []

    def remember(self, _: object, transaction_id: str) -> int:
        self.rows.append(transaction_id)
        return self.identity


# --- two phases ----------------------------------------------------------------------------------


def test_a_branch_prepares_and_then_commits(branch: OpenBranch, database: Any, engine: Engine) -> None:
    branch.prepare()
    assert (database.prepared, database.committed) == ([BRANCH], [])
    branch.commit()
    assert (database.prepared, database.committed) == ([], [BRANCH])
    assert checked_out(engine) == 0


@pytest.mark.parametrize("prepared", [False, True])
def test_a_branch_that_is_rolled_back_keeps_nothing(
    branch: OpenBranch, database: Any, engine: Engine, prepared: bool
) -> None:
    if prepared:
        branch.prepare()
    branch.roll_back()
    assert (database.prepared, database.rolled_back) == ([], [BRANCH])
    assert checked_out(engine) == 0


def test_a_branch_that_is_left_stays_prepared_and_its_connection_ends(
    branch: OpenBranch, database: Any, engine: Engine
) -> None:
    branch.prepare()
    branch.leave()
    assert (database.prepared, database.committed, database.rolled_back) == ([BRANCH], [], [])
    assert branch.connection.closed
    assert (checked_out(engine), len(database.open)) == (0, 0)
    branch.leave()  # twice does no harm


def test_a_branch_that_cannot_be_rolled_back_is_left(branch: OpenBranch, database: Any, engine: Engine) -> None:
    branch.prepare()
    database.faults["rollback"] = [refused(), refused()]
    with pytest.raises(OperationalError):
        branch.roll_back()
    assert database.prepared == [BRANCH]
    assert branch.connection.closed
    assert (checked_out(engine), len(database.open)) == (0, 0)


def test_a_branch_whose_work_the_program_has_ended_is_rolled_back_all_the_same(
    branch: OpenBranch, engine: Engine
) -> None:
    branch.connection.rollback()
    branch.roll_back()
    assert checked_out(engine) == 0


def test_a_branch_that_cannot_begin_keeps_no_connection(database: Any, engine: Engine) -> None:
    database.faults["begin"] = [refused()]
    with pytest.raises(DatabaseUnavailable, match="it does not"):
        Resource(engine).open(BRANCH)
    assert checked_out(engine) == 0
    assert len(database.open) == 0, "what it has begun is not known, so nobody uses it again"


@pytest.mark.parametrize("end", ["commit", "rollback", "close"])
def test_a_program_that_has_ended_its_work_is_noticed(branch: OpenBranch, end: str) -> None:
    branch.require_open()
    getattr(branch.connection, end)()
    with pytest.raises(DatabaseWorkEnded):
        branch.require_open()


def test_a_branch_has_its_number_from_the_moment_it_is_prepared(engine: Engine) -> None:
    branch = Numbering(engine).open(BRANCH)
    assert branch.form == Branch("twophase:///shop", BRANCH, 0)
    branch.prepare()
    assert branch.form == Branch("twophase:///shop", BRANCH, 700)
    branch.roll_back()


# --- one phase -----------------------------------------------------------------------------------


def test_a_last_agent_writes_down_the_unit_and_commits_once() -> None:
    engine = one_phase()
    resource = Remembering(engine)
    branch = resource.open(BRANCH)
    branch.prepare()
    assert resource.rows == [UNIT]
    assert branch.form == Branch("onephase://", "", 1)
    branch.commit()
    assert checked_out(engine) == 0


@pytest.mark.parametrize(("identity", "can_be_asked"), [(0, False), (1, True), (2**62, True)])
def test_a_last_agent_can_be_asked_if_it_has_a_number(identity: int, can_be_asked: bool) -> None:
    resource = Remembering(one_phase())
    resource.identity = identity
    branch = resource.open(BRANCH)
    assert isinstance(branch, OneTimeBranch)
    assert not branch.can_be_asked, "not before it has written down anything"
    branch.prepare()
    assert branch.can_be_asked is can_be_asked
    branch.roll_back()


def _broken() -> DBAPIError:
    error = IntegrityError("COMMIT", {}, Exception("cut off"))
    error.connection_invalidated = True
    return error


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("COMMIT", {}, refused("SQLITE_IOERR_FSYNC")),
        OperationalError("COMMIT", {}, Exception("server closed the connection unexpectedly")),
        OperationalError("COMMIT", {}, sqlite3.OperationalError("no name at all")),
        OperationalError("COMMIT", {}, refused(None)),
        _broken(),
    ],
    ids=str,
)
def test_a_commit_whose_answer_may_be_lost_is_unknown(error: DBAPIError) -> None:
    assert OneTimeBranch.is_unknown(error)


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("COMMIT", {}, refused("SQLITE_BUSY")),
        OperationalError("COMMIT", {}, refused("SQLITE_BUSY_SNAPSHOT")),
        OperationalError("COMMIT", {}, refused("SQLITE_FULL")),
        OperationalError("COMMIT", {}, refused("SQLITE_CONSTRAINT_FOREIGNKEY")),
        IntegrityError("COMMIT", {}, Exception("violates a constraint")),
        InvalidRequestError("it was never sent"),
    ],
    ids=str,
)
def test_a_commit_that_was_refused_is_not_unknown(error: DBAPIError) -> None:
    assert not OneTimeBranch.is_unknown(error)


def test_the_unit_of_a_branch_is_all_before_its_last_part() -> None:
    assert unit_of(BRANCH) == UNIT
    assert unit_of(f"{UNIT}-31") == UNIT
