# SPDX-License-Identifier: Apache-2.0
"""The data sources of a flow: which connection a name leads to, whose unit of work it is, and what is undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.pool import QueuePool

from entrepot.errors import DatabaseFailed, InvalidSetting
from entrepot.flows.live import flow_databases
from entrepot.flows.live.flow_databases import FlowDatabases
from open_files import open_files

from .staged import Stage

INSERT = "INSERT INTO ledger VALUES (?)"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return _ledger(tmp_path / "ledger.db")


def _ledger(path: Path) -> Path:
    """A database with an empty ledger."""
    _seen(path, "CREATE TABLE ledger (n INTEGER PRIMARY KEY)")
    return path


def _seen(path: Path, statement: str = "SELECT n FROM ledger ORDER BY n") -> list[int]:
    """What everybody sees."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        found = connection.exec_driver_sql(statement)
        rows = [row[0] for row in found] if found.returns_rows else []
    engine.dispose()
    return rows


@pytest.fixture
def databases(ledger: Path) -> Iterator[FlowDatabases]:
    databases = FlowDatabases({"": f"sqlite:///{ledger}"})
    yield databases
    databases.close()


# --- names ------------------------------------------------------------------------------------------------------


def test_every_name_has_its_own_database_and_others_share_the_default(tmp_path: Path) -> None:
    paths = {name: _ledger(tmp_path / f"{name}.db") for name in ("A", "B", "")}
    databases = FlowDatabases({name: f"sqlite:///{path}" for name, path in paths.items()})
    for number, source in enumerate(("A", "B", "C", "D", "")):
        databases.execute(source, INSERT, [number])
    databases.commit()
    assert [_seen(path) for path in paths.values()] == [[0], [1], [2, 3, 4]]
    databases.close()


@pytest.mark.parametrize(("known", "said"), [((), "there is none"), (("B", "A"), "there is A, B")])
def test_a_name_without_a_database_is_refused_with_those_there_are(
    tmp_path: Path, known: tuple[str, ...], said: str
) -> None:
    databases = FlowDatabases({name: f"sqlite:///{tmp_path}/{name}.db" for name in known})
    with pytest.raises(DatabaseFailed, match=f"there is no data source 'X'; {said}\\. ") as told:
        databases.execute("X", INSERT, [1])
    assert told.value.state == "IM002"
    databases.close()


def test_a_database_that_does_not_open_is_an_outage_and_is_waited_for_with_the_whole_unit(tmp_path: Path) -> None:
    databases = FlowDatabases({"": f"sqlite:///{tmp_path}/no/such/folder/x.db"})
    with pytest.raises(DatabaseFailed) as told:
        databases.query("", "SELECT 1", [])
    assert told.value.state == "08001"
    assert databases.used
    databases.close()


@pytest.mark.parametrize("url", ["no url", "nosuch://x", "sqlite+nosuch:///x"])
def test_what_is_no_url_of_a_database_is_a_wrong_setting(url: str) -> None:
    with pytest.raises(InvalidSetting, match="LEDGER"):
        FlowDatabases({"LEDGER": url})


# --- units of work ----------------------------------------------------------------------------------------------


def test_nothing_is_done_in_the_beginning_and_in_each_new_unit(databases: FlowDatabases) -> None:
    assert (databases.used, databases.has_own_work) == (False, False)
    databases.require_sound()
    databases.execute("", INSERT, [1])
    assert (databases.used, databases.has_own_work) == (True, True)
    databases.commit()
    databases.begin(None)
    assert (databases.used, databases.has_own_work) == (False, False)
    databases.require_sound()


def test_rows_are_there_after_the_commit_and_gone_after_a_back_out(databases: FlowDatabases, ledger: Path) -> None:
    databases.execute("", INSERT, [1])
    assert _seen(ledger) == []
    databases.commit()
    assert _seen(ledger) == [1]
    databases.execute("", INSERT, [2])
    databases.back_out()
    databases.commit()
    assert _seen(ledger) == [1]


def test_esql_may_commit_and_roll_back_by_itself(databases: FlowDatabases, ledger: Path) -> None:
    databases.execute("", INSERT, [1])
    databases.finish("", True)
    databases.execute("", INSERT, [2])
    databases.finish("", False)
    databases.commit()
    assert _seen(ledger) == [1]


def test_a_node_that_commits_at_once_needs_no_unit_and_opens_nothing_that_was_not_used(
    databases: FlowDatabases, ledger: Path
) -> None:
    databases.finish_now("")
    assert not databases.used
    databases.execute("", INSERT, [1])
    databases.finish_now("")
    databases.back_out()
    assert _seen(ledger) == [1]


def test_when_one_database_refuses_its_commit_none_keeps_what_comes_after(tmp_path: Path) -> None:
    paths = [_ledger(tmp_path / f"{name}.db") for name in "ABC"]
    databases = FlowDatabases({path.stem: f"sqlite:///{path}" for path in paths})
    _seen(paths[1], "CREATE TABLE lines (n INTEGER REFERENCES ledger DEFERRABLE INITIALLY DEFERRED)")
    databases.query("A", "SELECT n FROM ledger", [])  # it is opened first, so it is told first to commit
    databases.execute("B", "PRAGMA foreign_keys = ON", [])
    for path in paths:
        databases.execute(path.stem, INSERT, [1])
    databases.execute("B", "INSERT INTO lines VALUES (7)", [])
    with pytest.raises(DatabaseFailed, match="FOREIGN KEY"):
        databases.commit()
    databases.commit()  # nothing is left that a later one would keep
    assert sorted(_seen(path) for path in paths) == [[], [], [1]]
    databases.close()


def test_a_connection_that_cannot_be_backed_out_is_left_for_a_new_one(databases: FlowDatabases, ledger: Path) -> None:
    databases.execute("", INSERT, [1])
    broken = databases._own[""]
    assert broken.driver_connection is not None
    broken.driver_connection.close()
    databases.back_out()
    assert not broken.is_valid, "and its pool does not hand it out again"
    databases.execute("", INSERT, [2])
    databases.commit()
    assert _seen(ledger) == [2]


def test_in_a_global_unit_the_coordinator_commits_and_nobody_else(
    stage: Stage, databases: FlowDatabases, ledger: Path
) -> None:
    for number in (1, 2):
        unit = stage.connection.global_unit_of_work(*databases.engines)
        databases.begin(unit)
        databases.execute("", INSERT, [number])
        assert databases.used
        assert not databases.has_own_work
        databases.commit()
        databases.finish_now("")
        with pytest.raises(DatabaseFailed, match="COMMIT and ROLLBACK are the flow's affair") as told:
            databases.finish("", True)
        assert told.value.state == "2D000"
        assert _seen(ledger) == list(range(1, number))
        unit.commit()
        assert _seen(ledger) == list(range(1, number + 1))


# --- what is left open ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooled", [False, True])
def test_closing_leaves_no_connection_open_not_even_in_a_pool(
    tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch, pooled: bool
) -> None:
    if pooled:
        engine = create_engine(f"sqlite:///{ledger}", poolclass=QueuePool)
        monkeypatch.setattr(flow_databases, "create_engine", lambda url, **_: engine)
    databases = FlowDatabases({"": f"sqlite:///{ledger}"})
    databases.execute("", INSERT, [1])
    assert open_files(tmp_path) != []
    databases.close()
    assert open_files(tmp_path) == []


def test_sqlite_waits_half_a_minute_for_others(databases: FlowDatabases) -> None:
    assert databases.query("", "PRAGMA busy_timeout", [])[1] == [(30_000,)]


@pytest.mark.parametrize(
    ("url", "waits_s"),
    [
        ("postgresql+psycopg://127.0.0.1:1/x", 10),
        ("postgresql+psycopg://127.0.0.1:1/x?connect_timeout=3", 3),
    ],
)
def test_a_postgresql_that_does_not_answer_is_waited_for_ten_seconds_or_as_its_url_says(url: str, waits_s: int) -> None:
    databases = FlowDatabases({"": url})
    (engine,) = databases.engines
    asked: list[dict[str, Any]] = []

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, record: Any, arguments: Any, options: dict[str, Any]) -> None:
        asked.append(dict(options))
        raise OSError("nobody answers")

    with pytest.raises(DatabaseFailed, match="nobody answers"):
        databases.execute("", INSERT, [1])
    assert [int(options["connect_timeout"]) for options in asked] == [waits_s]
    databases.close()


def test_connections_are_not_tried_out_before_each_use(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(flow_databases, "create_engine", lambda _, **options: made.append(options))
    FlowDatabases({"": "postgresql+psycopg://127.0.0.1:1/x"})
    assert not made[0].get("pool_pre_ping"), "a unit that fails is done again, so a ping saves nothing"


# --- statements that fail ---------------------------------------------------------------------------------------


class Recorded:
    """An `SqlDatabase` that notes what reaches the database."""

    statements: list[str]
    lost = False

    def __init__(self, connection: object) -> None: ...

    def execute(self, source: str, text: str, values: Any) -> int:
        if self.lost:
            raise DatabaseFailed("the connection is lost", sqlstate="08006")
        Recorded.statements.append(text)
        if text == "refused":
            raise DatabaseFailed("refused", sqlstate="23505")
        if text == "loses":
            self.lost = True
            raise DatabaseFailed("first error", sqlstate="57P01")
        return 1


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    Recorded.statements = []
    monkeypatch.setattr(flow_databases, "SqlDatabase", Recorded)
    return Recorded.statements


@pytest.fixture
def undoes_all(databases: FlowDatabases, monkeypatch: pytest.MonkeyPatch) -> FlowDatabases:
    """Databases of the kind in which a statement that fails takes the whole unit with it."""
    monkeypatch.setattr(flow_databases, "_UNDOES_ALL", databases.engines[0].dialect.name)
    return databases


def _is_sound(databases: FlowDatabases) -> bool:
    try:
        databases.require_sound()
    except DatabaseFailed as error:
        assert error.state == "25P02"
        return False
    return True


def test_in_a_shared_unit_statements_have_no_savepoints_and_one_that_fails_spoils_it(
    undoes_all: FlowDatabases, statements: list[str]
) -> None:
    undoes_all.execute("", "works", [])
    assert _is_sound(undoes_all)
    with pytest.raises(DatabaseFailed, match="refused"):
        undoes_all.execute("", "refused", [])
    assert not _is_sound(undoes_all)
    assert statements == ["works", "refused"]
    undoes_all.begin(None)
    assert _is_sound(undoes_all)


def test_in_a_unit_of_one_message_each_statement_that_fails_is_undone_alone(
    undoes_all: FlowDatabases, statements: list[str]
) -> None:
    undoes_all.begin(None, careful=True)
    undoes_all.execute("", "works", [])
    with pytest.raises(DatabaseFailed, match="refused"):
        undoes_all.execute("", "refused", [])
    begin, back, release = (f"{verb} SAVEPOINT entrepot_statement" for verb in ("", "ROLLBACK TO", "RELEASE"))
    assert statements == [begin.strip(), "works", release, begin.strip(), "refused", back, release]
    assert _is_sound(undoes_all)


def test_the_error_that_ended_the_connection_is_the_one_that_is_told(
    undoes_all: FlowDatabases, statements: list[str]
) -> None:
    undoes_all.begin(None, careful=True)
    with pytest.raises(DatabaseFailed, match="first error"):
        undoes_all.execute("", "loses", [])


def test_where_a_statement_that_fails_is_undone_alone_there_are_no_savepoints(
    databases: FlowDatabases, statements: list[str]
) -> None:
    databases.begin(None, careful=True)
    databases.execute("", "works", [])
    with pytest.raises(DatabaseFailed, match="refused"):
        databases.execute("", "refused", [])
    assert statements == ["works", "refused"]
    assert _is_sound(databases)
