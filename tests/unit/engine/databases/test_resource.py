# SPDX-License-Identifier: Apache-2.0
"""Databases as global units see them: which can do what, and what is done when a connection has died."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError, OperationalError

from entrepot.engine.databases.postgresql import PostgreSQL
from entrepot.engine.databases.resource import OnePhase, Resource, problem_of, resource_name, resource_of
from entrepot.engine.databases.sqlite import SQLite
from entrepot.engine.recovery_log.record import Branch
from entrepot.errors import DatabaseUnavailable, InvalidArgument, TwoPhaseUnavailable
from entrepot.limits import TEXT_BYTES_MAX
from unit.engine.databases.stand_in import checked_out, gone, one_phase, refused, two_phase

BRANCH = Branch("twophase://", "entrepot-00-1-7-0", 0)


@pytest.fixture
def engine() -> Engine:
    return two_phase()


@pytest.fixture
def database(engine: Engine) -> Any:
    return engine.dialect


@pytest.fixture
def resource(engine: Engine) -> Resource:
    return Resource(engine)


# --- kinds of databases --------------------------------------------------------------------------


def test_what_a_database_can_do_is_known_by_its_dialect() -> None:
    assert type(resource_of(create_engine("postgresql+psycopg://db/shop"))) is PostgreSQL
    assert type(resource_of(create_engine("sqlite://"))) is SQLite
    assert type(resource_of(two_phase())) is Resource
    assert type(resource_of(one_phase())) is OnePhase


def test_only_engines_are_databases() -> None:
    with pytest.raises(InvalidArgument, match="str is no engine"):
        resource_of("sqlite://")


class Committing(sqlite3.Connection):
    """As psycopg has it, and SQLite from Python 3.12 on."""

    autocommit = True


class Silent(sqlite3.Connection):
    """A driver that says nothing about it."""

    @property
    def autocommit(self) -> bool:
        raise AttributeError


@pytest.mark.parametrize("kind", [Resource, OnePhase, SQLite])
def test_a_database_whose_statements_commit_by_themselves_is_refused(kind: type[Resource]) -> None:
    kind(create_engine("sqlite://", connect_args={"factory": Silent})).check()
    with pytest.raises(TwoPhaseUnavailable, match="commits by itself"):
        kind(create_engine("sqlite://", connect_args={"factory": Committing})).check()


# --- connections that have died ------------------------------------------------------------------


def test_a_connection_of_a_pool_that_has_died_is_replaced(resource: Resource, database: Any, engine: Engine) -> None:
    with resource.connected():
        pass
    database.faults["SELECT"] = [gone()]
    with resource.connected() as connection:
        assert connection.scalar(text("SELECT 7")) == 7
    assert (database.connects, checked_out(engine)) == (2, 0)


def test_a_connection_is_ready_for_a_unit_of_work(resource: Resource) -> None:
    with resource.connected() as connection:
        assert not connection.in_transaction()


def test_a_database_that_has_died_altogether_is_told(resource: Resource, database: Any, engine: Engine) -> None:
    with resource.connected():
        pass
    database.faults = {"SELECT": [gone()], "connect": [gone()]}
    with pytest.raises(DatabaseUnavailable, match="the server is gone"), resource.connected():
        pytest.fail("nothing answers")
    assert checked_out(engine) == 0


def test_what_a_database_refuses_is_not_tried_again(resource: Resource, database: Any, engine: Engine) -> None:
    database.faults["SELECT"] = [refused()]
    with pytest.raises(DatabaseUnavailable, match="it does not") as failed, resource.connected():
        pytest.fail("it was refused")
    assert failed.value.__cause__ is not None  # which holds on to the connection, if nobody has closed it
    assert checked_out(engine) == 0


def test_a_database_that_cannot_be_connected_to_is_told(resource: Resource, database: Any) -> None:
    database.faults["connect"] = [refused(), refused()]
    with pytest.raises(DatabaseUnavailable), resource.connected():
        pytest.fail("nothing answers")
    with pytest.raises(DatabaseUnavailable):
        resource.open(BRANCH.branch_id)


def test_a_branch_begins_on_another_connection_if_the_first_has_died(resource: Resource, database: Any) -> None:
    database.faults["begin"] = [gone()]
    resource.open(BRANCH.branch_id).roll_back()
    assert database.connects == 2


def test_a_branch_that_is_refused_is_not_begun_again(resource: Resource, database: Any) -> None:
    database.faults["begin"] = [refused()]
    with pytest.raises(DatabaseUnavailable):
        resource.open(BRANCH.branch_id)
    assert database.connects == 1


# --- without the connection that has prepared ----------------------------------------------------


def test_prepared_branches_are_listed_by_the_beginning_of_their_ids(resource: Resource, database: Any) -> None:
    database.prepared = ["entrepot-00-1-7-0", b"entrepot-00-1-8-0", "entrepot-01-1-1-0", "another"]
    assert resource.prepared("entrepot-00-") == ["entrepot-00-1-7-0", "entrepot-00-1-8-0"]


def test_a_branch_that_was_left_is_committed_or_rolled_back(resource: Resource, database: Any, engine: Engine) -> None:
    database.prepared = ["a", "b"]
    assert resource.commit(Branch("", "a")) == "committed"
    resource.roll_back("b")
    assert (database.committed, database.rolled_back, database.prepared) == (["a"], ["b"], [])
    assert checked_out(engine) == 0


@pytest.mark.parametrize("verb", ["commit", "rollback"])
def test_a_branch_that_is_still_prepared_after_an_error_is_tried_again(
    resource: Resource, database: Any, verb: str
) -> None:
    database.prepared = [BRANCH.branch_id]
    database.faults[verb] = [refused()]
    with pytest.raises(DatabaseUnavailable, match="it does not"):
        resource.commit(BRANCH) if verb == "commit" else resource.roll_back(BRANCH.branch_id)
    assert database.prepared == [BRANCH.branch_id]


def test_a_decided_branch_that_is_not_there_any_more_has_committed(resource: Resource) -> None:
    assert resource.commit(BRANCH) == "committed"
    resource.roll_back(BRANCH.branch_id)


class Odd(Resource):
    """A database that knows how a branch has ended."""

    def ended(self, _: Branch) -> Any:
        return "backed out"


def test_how_a_branch_has_ended_is_asked_of_the_database_that_knows(engine: Engine) -> None:
    assert Odd(engine).commit(BRANCH) == "backed out"


def test_a_database_without_numbers_gives_none(resource: Resource) -> None:
    branch = resource.open(BRANCH.branch_id)
    branch.prepare()
    assert branch.form == BRANCH
    branch.roll_back()


def test_a_database_with_one_phase_prepares_and_remembers_nothing() -> None:
    resource = OnePhase(one_phase())
    branch = resource.open(BRANCH.branch_id)
    branch.prepare()
    assert branch.form == Branch("onephase://", "", 0)
    assert resource.prepared("") == []
    branch.roll_back()
    resource.told("entrepot-00-1-7")


# --- words ---------------------------------------------------------------------------------------


def test_a_name_has_no_secret_and_no_driver() -> None:
    url = make_url("postgresql+psycopg://ann:secret@db:5433/shop?sslmode=on&PassFile=hidden&sslpassword=hidden")
    assert resource_name(url) == "postgresql://ann@db:5433/shop?sslmode=on"


def test_a_name_fits_into_a_record_whatever_its_letters_are() -> None:
    name = resource_name(make_url("sqlite:///" + "\N{PACKAGE}" * TEXT_BYTES_MAX))
    assert len(name) == TEXT_BYTES_MAX // 4
    assert len(name.encode()) <= TEXT_BYTES_MAX


def test_a_problem_is_the_first_line_of_what_the_driver_says() -> None:
    assert problem_of(OperationalError("SELECT 'secret'", {}, Exception("\nno\nHINT: never"))) == "no"
    assert problem_of(ValueError("no\nmore")) == "no"
    assert problem_of(ValueError()) == "ValueError"
    assert problem_of(DBAPIError("COMMIT", {}, None)) != "None"  # type: ignore[arg-type]
