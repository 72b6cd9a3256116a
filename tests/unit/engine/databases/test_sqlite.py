# SPDX-License-Identifier: Apache-2.0
"""The table in which SQLite remembers its units, and what SQLite does where it cannot have one."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError, OperationalError

from entrepot.engine.databases.sqlite import SQLite
from entrepot.engine.recovery_log.record import Branch
from entrepot.errors import DatabaseUnavailable, TwoPhaseUnavailable
from unit.engine.databases.stand_in import refused

PREFIX = "entrepot-00-"
UNIT = f"{PREFIX}1-7"
BRANCH = f"{UNIT}-0"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """One that does not wait for locks."""
    engine = create_engine(f"sqlite:///{tmp_path}/rows.db", connect_args={"timeout": 0})
    yield engine
    engine.dispose()


@pytest.fixture
def resource(engine: Engine) -> SQLite:
    resource = SQLite(engine)
    resource.check()
    return resource


def table(engine: Engine) -> dict[str, str]:
    """What stands in the table, without the database's number."""
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT transaction_id, outcome FROM entrepot_units")).all()
    return {name: outcome for name, outcome in rows if name != "database"}


def set_number(engine: Engine, outcome: str) -> None:
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM entrepot_units WHERE transaction_id = 'database'"))
        connection.execute(text("INSERT INTO entrepot_units VALUES ('database', :outcome)"), {"outcome": outcome})


def commit_unit(resource: SQLite, unit: str = UNIT) -> Branch:
    branch = resource.open(f"{unit}-0")
    branch.prepare()
    branch.commit()
    return branch.form


# --- which database it is ------------------------------------------------------------------------


def test_a_database_gets_a_number_once(resource: SQLite, engine: Engine) -> None:
    number = resource.identity()
    assert number > 0
    again = SQLite(engine)
    again.check()
    assert again.identity() == number
    assert commit_unit(again) == Branch(resource.name, "", number)


def test_the_number_is_never_the_one_of_databases_without(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "randbelow", lambda _: 0)
    resource = SQLite(engine)
    resource.check()
    assert resource.identity() == 1


def test_a_database_whose_number_was_deleted_gets_another(resource: SQLite, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM entrepot_units"))
    assert resource.identity() == 0
    resource.check()
    assert resource.identity() > 0


@pytest.mark.parametrize(("outcome", "number"), [("7", 7), ("seven", 0), ("", 0)])
def test_a_number_is_what_the_table_says(resource: SQLite, engine: Engine, outcome: str, number: int) -> None:
    set_number(engine, outcome)
    assert resource.identity() == number


def test_a_database_without_its_table_has_no_number(resource: SQLite, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE entrepot_units"))
    assert resource.identity() == 0


def test_a_number_that_cannot_be_read_is_not_taken_for_none(resource: SQLite, engine: Engine) -> None:
    """Or recovery would think that no unit of this database waits."""
    with engine.connect() as other:
        other.exec_driver_sql("BEGIN EXCLUSIVE")
        with pytest.raises(OperationalError, match="locked"):
            resource.identity()


# --- in a unit of work ---------------------------------------------------------------------------


def test_a_branch_that_commits_leaves_a_row_and_one_that_does_not_leaves_none(resource: SQLite, engine: Engine) -> None:
    commit_unit(resource)
    branch = resource.open(f"{PREFIX}1-8-0")
    branch.prepare()
    branch.roll_back()
    assert table(engine) == {UNIT: "committed"}


def test_a_row_goes_with_the_next_unit_once_the_queue_manager_knows(resource: SQLite, engine: Engine) -> None:
    commit_unit(resource, "one")
    commit_unit(resource, "two")
    assert table(engine).keys() == {"one", "two"}
    resource.told("one")
    commit_unit(resource, "three")
    assert table(engine).keys() == {"two", "three"}


def test_a_unit_that_has_a_row_already_is_refused(resource: SQLite) -> None:
    """Recovery has ended it: what the branch did must not be committed any more."""
    resource.settle([UNIT])
    branch = resource.open(BRANCH)
    with pytest.raises(IntegrityError):
        branch.prepare()
    branch.roll_back()
    assert resource.remembers


def test_a_branch_that_finds_the_database_locked_is_backed_out(resource: SQLite, engine: Engine) -> None:
    with engine.connect() as other:
        other.exec_driver_sql("BEGIN IMMEDIATE")
        branch = resource.open(BRANCH)
        with pytest.raises(OperationalError, match="locked"):
            branch.prepare()
        branch.roll_back()
    assert resource.remembers


def test_a_table_that_was_dropped_is_done_without_from_then_on(
    resource: SQLite, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE entrepot_units"))
    assert commit_unit(resource).number == 0
    assert not resource.remembers
    assert "no usable table entrepot_units" in caplog.text
    resource.check()
    assert commit_unit(resource).number > 0


# --- recovery ------------------------------------------------------------------------------------


def test_a_unit_without_a_row_is_backed_out_for_good(resource: SQLite, engine: Engine) -> None:
    commit_unit(resource)
    assert resource.settle([UNIT, "other"]) == {UNIT: True, "other": False}
    assert table(engine) == {UNIT: "committed", "other": "backed out"}
    assert resource.settle(["other"]) == {"other": False}


def test_a_branch_that_lives_is_waited_for(resource: SQLite) -> None:
    branch = resource.open(BRANCH)
    branch.prepare()
    with pytest.raises(OperationalError, match="locked"):
        resource.settle([UNIT])
    branch.commit()
    assert resource.settle([UNIT]) == {UNIT: True}


def test_rows_are_listed_by_queue_manager_and_dropped_by_name(resource: SQLite, engine: Engine) -> None:
    for unit in (UNIT, f"{PREFIX}1-8", "entrepot-01-1-1"):
        commit_unit(resource, unit)
    assert sorted(resource.remembered(PREFIX)) == [UNIT, f"{PREFIX}1-8"]
    resource.forget([UNIT])
    resource.forget([])
    assert table(engine).keys() == {f"{PREFIX}1-8", "entrepot-01-1-1"}


# --- databases that cannot remember --------------------------------------------------------------


def test_a_database_in_memory_remembers_nothing() -> None:
    resource = SQLite(create_engine("sqlite://"))
    resource.check()
    assert not resource.remembers
    assert (resource.identity(), resource.remembered(PREFIX)) == (0, [])
    assert commit_unit(resource).number == 0


def test_a_file_beside_a_database_in_memory_does_not_count(tmp_path: Path) -> None:
    engine = create_engine("sqlite://")
    event.listen(engine, "connect", lambda dbapi, _: dbapi.execute(f"ATTACH '{tmp_path}/other.db' AS other"))
    resource = SQLite(engine)
    resource.check()
    assert not resource.remembers


def deny_tables(dbapi: sqlite3.Connection, _: object) -> None:
    dbapi.set_authorizer(lambda what, *_: sqlite3.SQLITE_DENY if what == sqlite3.SQLITE_CREATE_TABLE else 0)


def other_table(dbapi: sqlite3.Connection, _: object) -> None:
    dbapi.execute("CREATE TABLE IF NOT EXISTS entrepot_units (whatever TEXT)")


def only_read(dbapi: sqlite3.Connection, _: object) -> None:
    dbapi.execute("PRAGMA query_only = ON")


@pytest.mark.parametrize("limit", [deny_tables, other_table, only_read])
def test_a_database_that_takes_no_table_takes_part_without(
    engine: Engine, limit: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    event.listen(engine, "connect", limit)
    resource = SQLite(engine)
    resource.check()
    assert not resource.remembers
    assert (resource.identity(), resource.remembered(PREFIX), commit_unit(resource).number) == (0, [], 0)
    assert "no usable table entrepot_units" in caplog.text


def test_a_table_that_may_not_be_written_to_any_more_is_done_without(resource: SQLite, engine: Engine) -> None:
    event.listen(engine, "connect", only_read)
    engine.dispose()
    assert commit_unit(resource).number == 0
    assert not resource.remembers


def test_a_database_that_is_locked_at_the_first_use_is_unavailable(engine: Engine) -> None:
    """Which is no reason to remember nothing: it can be used a moment later."""
    resource = SQLite(engine)
    with engine.connect() as other:
        other.exec_driver_sql("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseUnavailable, match="locked"):
            resource.check()
    resource.check()
    assert resource.remembers


def test_an_error_without_a_name_is_no_reason_to_remember_nothing(resource: SQLite) -> None:
    branch = resource.open(BRANCH)

    def fail(*_: object) -> None:
        raise refused(None)

    event.listen(resource.engine, "do_execute", fail)
    with pytest.raises(OperationalError, match="it does not"):
        branch.prepare()
    assert resource.remembers


# --- engines whose statements commit by themselves -----------------------------------------------


def undriven(dbapi: sqlite3.Connection, _: object) -> None:
    dbapi.isolation_level = None


def test_an_engine_that_begins_no_units_is_refused(engine: Engine) -> None:
    event.listen(engine, "connect", undriven)
    with pytest.raises(TwoPhaseUnavailable, match="commits by itself"):
        SQLite(engine).check()


def test_an_engine_that_begins_units_by_itself_is_taken(engine: Engine) -> None:
    event.listen(engine, "connect", undriven)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    resource = SQLite(engine)
    resource.check()
    assert commit_unit(resource).number == resource.identity() > 0


class Committing(sqlite3.Connection):
    """As SQLite has it from Python 3.12 on."""

    autocommit = True


def test_a_driver_that_commits_by_itself_is_refused(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/rows.db", connect_args={"factory": Committing})
    with pytest.raises(TwoPhaseUnavailable, match="commits by itself"):
        SQLite(engine).check()


class Silent(sqlite3.Connection):
    """A driver that does not say whether a unit has begun."""

    @property
    def in_transaction(self) -> bool:
        raise AttributeError


def test_a_driver_that_does_not_say_whether_a_unit_has_begun_is_trusted(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/rows.db", connect_args={"factory": Silent})
    event.listen(engine, "connect", undriven)
    SQLite(engine).check()
