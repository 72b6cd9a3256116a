# SPDX-License-Identifier: Apache-2.0
"""ESQL's databases over DB-API connections, on SQLite; tests/global_units has PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from entrepot.errors import DatabaseFailed
from entrepot.esql import compile_statements
from entrepot.esql.sql_database import SqlDatabase, _marked
from entrepot.message import Message
from entrepot.models.assembling import parse_message
from entrepot.models.values import Bits, Interval
from folding import for_each


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(
        "CREATE TABLE parts (id INTEGER PRIMARY KEY, name TEXT, made TEXT, weight NUMERIC, picture BLOB);"
        "INSERT INTO parts (id, name) VALUES (1, 'bolt'), (2, 'nut');"
    )
    yield connection
    connection.close()


@pytest.fixture
def database(connection: sqlite3.Connection) -> SqlDatabase:
    return SqlDatabase(connection)


class Recorder(SqlDatabase):
    """Also remembers what was asked."""

    def __init__(self, connections: Any) -> None:
        super().__init__(connections)
        self.asked: list[tuple[str, list[Any]]] = []

    def query(self, source: str, text: str, values: Any) -> Any:
        self.asked.append((text, list(values)))
        return super().query(source, text, values)


def run(text: str, database: SqlDatabase, body: bytes = b"<q>1</q>", **options: Any) -> Any:
    assembly = parse_message(Message(body), domain="XMLNSC")
    compile_statements(text).compute(assembly, database=database, **options)
    return assembly.environment.first("Variables")


# --- the interface ----------------------------------------------------------------------------------


def test_a_query_gives_names_and_rows(database: SqlDatabase) -> None:
    names, rows = database.query("", "SELECT id, name AS n FROM parts WHERE id > ? ORDER BY id", [0])
    assert (list(names), [tuple(row) for row in rows]) == (["id", "n"], [(1, "bolt"), (2, "nut")])


def test_a_query_without_rows_gives_none(database: SqlDatabase) -> None:
    assert database.query("", "CREATE TABLE t (a INTEGER)", []) == ((), ())


def test_execute_tells_how_many_rows(database: SqlDatabase) -> None:
    assert database.execute("", "UPDATE parts SET name = ?", ["x"]) == 2


def test_values_that_sqlite_has_no_type_for_go_as_text(database: SqlDatabase, connection: sqlite3.Connection) -> None:
    values = [Decimal("1.50"), date(2003, 12, 24), datetime(2003, 12, 24, 10, 20, 30), Bits("101")]
    values += [Interval("DAY", seconds=Decimal(86400)), Interval("YEAR", months=12)]
    for value in values:
        database.execute("", "INSERT INTO parts (made) VALUES (?)", [value])
    made = [row[0] for row in connection.execute("SELECT made FROM parts WHERE id > 2 ORDER BY id")]
    assert made == ["1.50", "2003-12-24", "2003-12-24 10:20:30", "101", "86400", "12"]


def test_bytes_come_back_as_bytes(database: SqlDatabase) -> None:
    database.execute("", "UPDATE parts SET picture = ? WHERE id = 1", [b"\x00\xff"])
    assert database.query("", "SELECT picture FROM parts WHERE id = 1", [])[1] == [(b"\x00\xff",)]


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("INSERT INTO parts (id) VALUES (1)", "23000"),
        ("SELECT * FROM missing", "HY000"),
        ("SELEC", "HY000"),
        ("SELECT ?", "42000"),
    ],
)
def test_failures_have_a_sqlstate(database: SqlDatabase, sql: str, state: str) -> None:
    with pytest.raises(DatabaseFailed) as caught:
        database.query("", sql, [])
    assert caught.value.state == state
    assert caught.value.problem
    with pytest.raises(DatabaseFailed):
        database.execute("", sql, [])


def test_a_sqlite_failure_has_its_native_number(database: SqlDatabase) -> None:
    with pytest.raises(DatabaseFailed) as caught:
        database.execute("", "INSERT INTO parts (id) VALUES (1)", [])
    assert caught.value.native_error == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY


def test_sources_by_name(connection: sqlite3.Connection) -> None:
    other = sqlite3.connect(":memory:")
    other.execute("CREATE TABLE t (a)")
    database = SqlDatabase({"": connection, "OTHER": other})
    assert database.query("OTHER", "SELECT COUNT(*) FROM t", [])[1] == [(0,)]
    with pytest.raises(DatabaseFailed, match=r"'THIRD'; there is \(the default\), OTHER"):
        database.query("THIRD", "SELECT 1", [])
    other.close()


def test_a_single_source_is_the_default(connection: sqlite3.Connection) -> None:
    assert SqlDatabase({"SHOP": connection}).query("", "SELECT 1", [])[1] == [(1,)]


def test_commit_and_rollback(database: SqlDatabase, connection: sqlite3.Connection) -> None:
    connection.commit()
    database.execute("", "DELETE FROM parts", [])
    database.finish("", commit=False)
    assert connection.execute("SELECT COUNT(*) FROM parts").fetchone() == (2,)
    database.execute("", "DELETE FROM parts WHERE id = 1", [])
    database.finish("", commit=True)
    connection.rollback()
    assert connection.execute("SELECT COUNT(*) FROM parts").fetchone() == (1,)


@for_each(
    ("text", "marked"),
    [
        ("a = ? AND b = ?", "a = %s AND b = %s"),
        ("a = '?' AND b = ?", "a = '?' AND b = %s"),
        ("a = 'it''s ?' AND b = ?", "a = 'it''s ?' AND b = %s"),
        ('"?" = ?', '"?" = %s'),
        ("-- ?\na = ?", "-- ?\na = %s"),
        ("/* ? */ a = ?", "/* ? */ a = %s"),
        ("a LIKE 'x%' AND b = ?", "a LIKE 'x%%' AND b = %s"),
        ("a % 2 = ?", "a %% 2 = %s"),
        ("a = 'open ?", "a = 'open ?"),
    ],
)
def test_question_marks_as_other_drivers_want_them(text: str, marked: str) -> None:
    assert _marked(text, "format") == marked
    assert _marked(text, "qmark") == text


# --- what ESQL gives to the database ----------------------------------------------------------------


def asked_by(text: str, connection: sqlite3.Connection) -> list[tuple[str, list[Any]]]:
    recorder = Recorder(connection)
    run(text, recorder)
    return recorder.asked


def test_conditions_go_to_the_database_with_bound_values(connection: sqlite3.Connection) -> None:
    text = """SET Environment.Variables.R[] = (SELECT ITEM P.name FROM Database.parts AS P
      WHERE P.id = CAST(InputRoot.XMLNSC.q AS INTEGER) AND P.name LIKE 'b%');"""
    [(sql, values)] = asked_by(text, connection)
    assert "WHERE" in sql
    assert sql.count("?") == len(values)
    assert 1 in values
    assert "b%" in values or "'b%'" in sql
    assert "bolt" not in sql


def test_only_the_columns_that_are_wanted_are_asked_for(connection: sqlite3.Connection) -> None:
    [(sql, _)] = asked_by("SET Environment.Variables.R[] = (SELECT P.name FROM Database.parts AS P);", connection)
    assert "picture" not in sql
    assert "*" not in sql


def test_aggregates_are_the_databases_business(connection: sqlite3.Connection) -> None:
    [(sql, _)] = asked_by("SET Environment.Variables.R = (SELECT MAX(P.id) FROM Database.parts AS P);", connection)
    assert "MAX(" in sql.upper()


def test_what_a_message_says_never_becomes_sql(database: SqlDatabase, connection: sqlite3.Connection) -> None:
    evil = b"<q>x' OR 1=1; DROP TABLE parts; --</q>"
    text = "SET Environment.Variables.N = (SELECT COUNT(*) FROM Database.parts AS P WHERE P.name = InputRoot.XMLNSC.q);"
    assert run(text, database, evil).get("N") == 0
    run("INSERT INTO Database.parts (name) VALUES (InputRoot.XMLNSC.q);", database, evil)
    assert connection.execute("SELECT COUNT(*) FROM parts").fetchone() == (3,)


def test_rows_of_a_query_that_is_left_early_do_no_harm(database: SqlDatabase) -> None:
    text = "SET Environment.Variables.A = THE(SELECT ITEM P.name FROM Database.parts AS P);" * 3
    assert run(text, database).get("A") == "bolt"


def test_commit_and_rollback_in_a_program(database: SqlDatabase, connection: sqlite3.Connection) -> None:
    run("DELETE FROM Database.parts AS P; ROLLBACK;", database)
    assert connection.execute("SELECT COUNT(*) FROM parts").fetchone() == (2,)
    run("DELETE FROM Database.parts AS P WHERE P.id = 1; COMMIT;", database)
    connection.rollback()
    assert connection.execute("SELECT COUNT(*) FROM parts").fetchone() == (1,)


def test_passthru_to_a_source_of_its_own(connection: sqlite3.Connection) -> None:
    other = sqlite3.connect(":memory:")
    other.execute("CREATE TABLE t (a INTEGER)")
    database = SqlDatabase({"": connection, "OTHER": other})
    run("PASSTHRU('INSERT INTO t VALUES (?)' TO Database.OTHER VALUES(7));", database)
    assert other.execute("SELECT a FROM t").fetchall() == [(7,)]
    other.close()


def test_a_failing_select_without_throw_gives_no_rows(database: SqlDatabase) -> None:
    text = """
    SET Environment.Variables.N = CARDINALITY(SELECT T.a FROM Database.missing AS T);
    SET Environment.Variables.State = SQLSTATE;
    SET Environment.Variables.Text = SQLERRORTEXT;"""
    variables = run(text, database, throw_on_database_error=False)
    assert variables.get("N") == 0
    assert variables.get("State") == "HY000"
    assert "missing" in variables.get("Text")


def test_a_null_compares_as_in_esql(database: SqlDatabase) -> None:
    text = (
        "SET Environment.Variables.N = (SELECT COUNT(*) FROM Database.parts AS P WHERE P.made = InputRoot.XMLNSC.none);"
    )
    assert run(text, database).get("N") == 0


def test_a_date_goes_and_comes(database: SqlDatabase, connection: sqlite3.Connection) -> None:
    run("UPDATE Database.parts AS P SET made = DATE '2003-12-24' WHERE P.id = 1;", database)
    assert connection.execute("SELECT made FROM parts WHERE id = 1").fetchone() == ("2003-12-24",)
    text = (
        "SET Environment.Variables.D = THE(SELECT ITEM CAST(P.made AS DATE) FROM Database.parts AS P WHERE P.id = 1);"
    )
    assert run(text, database).get("D") == date(2003, 12, 24)
