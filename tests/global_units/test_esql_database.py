# SPDX-License-Identifier: Apache-2.0
"""ESQL on a real PostgreSQL: its types, its SQLSTATEs, its procedures."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from entrepot.errors import DatabaseFailed
from entrepot.esql import SqlDatabase, compile_texts
from entrepot.message import Message
from entrepot.models.assembling import parse_message
from entrepot.models.tree import Element
from entrepot.testing.postgres import Postgres


@pytest.fixture
def shop(postgres: Postgres) -> Iterator[psycopg.Connection[Any]]:
    """A connection with a table and two routines; every statement is a unit of work."""
    url = postgres.url.replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS parts")
        connection.execute(
            "CREATE TABLE parts (id integer PRIMARY KEY, name text, price numeric(8,2), made date, seen timestamp,"
            " good boolean, picture bytea, ratio double precision)"
        )
        connection.execute(
            "INSERT INTO parts VALUES (1, 'bolt', 0.50, '2003-12-24', '2003-12-24 10:20:30', true, '\\x00ff', 1.5),"
            " (2, 'nut', 0.25, NULL, NULL, false, NULL, NULL)"
        )
        connection.execute(
            "CREATE OR REPLACE PROCEDURE raise_price(IN part integer, INOUT amount numeric, INOUT note text)"
            " LANGUAGE plpgsql AS $$ BEGIN"
            " UPDATE parts SET price = price + amount WHERE id = part RETURNING price INTO amount;"
            " note := note || '!'; END $$"
        )
        connection.execute(
            "CREATE OR REPLACE FUNCTION twice(n integer) RETURNS integer LANGUAGE sql AS $$ SELECT n * 2 $$"
        )
        yield connection
        connection.execute("DROP TABLE parts")
        connection.execute("DROP PROCEDURE raise_price")
        connection.execute("DROP FUNCTION twice")


ROUTINES = """
CREATE PROCEDURE RaisePrice(IN Part INTEGER, INOUT Amount DECIMAL, INOUT Note CHARACTER)
  LANGUAGE DATABASE EXTERNAL NAME "raise_price";
CREATE PROCEDURE Twice(IN N INTEGER) RETURNS INTEGER
  LANGUAGE DATABASE EXTERNAL NAME "twice";
"""


def run(body: str, connection: psycopg.Connection[Any], message: bytes = b"<q>1</q>", **options: Any) -> Element:
    text = f"""{ROUTINES}
    CREATE COMPUTE MODULE Test
      CREATE FUNCTION Main() RETURNS BOOLEAN BEGIN
        {body}
        RETURN TRUE;
      END;
    END MODULE;"""
    assembly = parse_message(Message(message), domain="XMLNSC")
    module = compile_texts({"test.esql": text}).module("Test")
    module.compute(assembly, database=SqlDatabase(connection), **options)
    return assembly.environment.first("Variables") or Element("Variables")


def test_columns_come_with_their_types(shop: psycopg.Connection[Any]) -> None:
    variables = run("SET Environment.Variables.P = THE(SELECT P.* FROM Database.parts AS P WHERE P.id = 1);", shop)
    part = variables.first("P")
    assert part is not None
    assert {child.key: child.value for child in part} == {
        "id": 1,
        "name": "bolt",
        "price": Decimal("0.50"),
        "made": date(2003, 12, 24),
        "seen": datetime(2003, 12, 24, 10, 20, 30),
        "good": True,
        "picture": b"\x00\xff",
        "ratio": 1.5,
    }


def test_conditions_with_values_and_percent_signs(shop: psycopg.Connection[Any]) -> None:
    text = """SET Environment.Variables.A = THE(SELECT ITEM P.name FROM Database.parts AS P
        WHERE P.name LIKE 'b%' AND P.id = CAST(InputRoot.XMLNSC.q AS INTEGER) AND P.made = DATE '2003-12-24');
      SET Environment.Variables.N = (SELECT COUNT(*) FROM Database.parts AS P WHERE P.made IS NULL);
      SET Environment.Variables.S = (SELECT SUM(P.price) FROM Database.parts AS P);"""
    variables = run(text, shop)
    assert [variables.get(name) for name in ("A", "N", "S")] == ["bolt", 1, Decimal("0.75")]


def test_insert_update_and_delete(shop: psycopg.Connection[Any]) -> None:
    text = """INSERT INTO Database.parts (id, name, price, good, picture, made)
        VALUES (3, 'it''s 100%', 12.50, TRUE, X'0102', DATE '2004-02-29');
      UPDATE Database.parts AS P SET price = P.price * 2 WHERE P.id = 3;
      DELETE FROM Database.parts AS P WHERE P.name = 'nut';"""
    run(text, shop)
    assert shop.execute("SELECT id, name, price, good, picture, made FROM parts ORDER BY id").fetchall() == [
        (1, "bolt", Decimal("0.50"), True, b"\x00\xff", date(2003, 12, 24)),
        (3, "it's 100%", Decimal("25.00"), True, b"\x01\x02", date(2004, 2, 29)),
    ]


def test_passthru(shop: psycopg.Connection[Any]) -> None:
    text = """PASSTHRU('UPDATE parts SET name = ? WHERE id = ? AND name <> ''?%''' VALUES('screw', 1));
      SET Environment.Variables.P[] = PASSTHRU('SELECT name FROM parts WHERE id > ? ORDER BY id DESC' VALUES(0));"""
    assert [row.get("name") for row in run(text, shop).all("P")] == ["nut", "screw"]


def test_a_repeated_key_has_its_sqlstate(shop: psycopg.Connection[Any]) -> None:
    text = """INSERT INTO Database.parts (id) VALUES (1);
      SET Environment.Variables.State = SQLSTATE;
      SET Environment.Variables.Code = SQLCODE;
      INSERT INTO Database.parts (id) VALUES (9);
      SET Environment.Variables.Then = SQLSTATE;"""
    variables = run(text, shop, throw_on_database_error=False)
    assert [variables.get(name) for name in ("State", "Code", "Then")] == ["23505", -1, "00000"]


def test_a_repeated_key_is_thrown_and_handled(shop: psycopg.Connection[Any]) -> None:
    with pytest.raises(DatabaseFailed) as caught:
        run("INSERT INTO Database.parts (id) VALUES (1);", shop)
    assert caught.value.state == "23505"
    text = """BEGIN
        DECLARE EXIT HANDLER FOR SQLSTATE LIKE '23%' SET Environment.Variables.H = SQLSTATE;
        INSERT INTO Database.parts (id) VALUES (1);
      END;"""
    assert run(text, shop).get("H") == "23505"


def test_a_table_that_there_is_not(shop: psycopg.Connection[Any]) -> None:
    with pytest.raises(DatabaseFailed) as caught:
        run("SET Environment.Variables.N = (SELECT COUNT(*) FROM Database.missing AS M);", shop)
    assert caught.value.state == "42P01"


def test_a_stored_procedure_gives_back_by_inout(shop: psycopg.Connection[Any]) -> None:
    text = """DECLARE Amount DECIMAL 0.25;
      DECLARE Note CHARACTER 'dear';
      CALL RaisePrice(1, Amount, Note);
      SET Environment.Variables.Amount = Amount;
      SET Environment.Variables.Note = Note;"""
    variables = run(text, shop)
    assert [variables.get("Amount"), variables.get("Note")] == [Decimal("0.75"), "dear!"]
    assert shop.execute("SELECT price FROM parts WHERE id = 1").fetchone() == (Decimal("0.75"),)


def test_a_stored_function_gives_back_its_value(shop: psycopg.Connection[Any]) -> None:
    text = "DECLARE N INTEGER; CALL Twice(21) INTO N; SET Environment.Variables.N = N;"
    assert run(text, shop).get("N") == 42


def test_rollback_and_commit(postgres: Postgres, shop: psycopg.Connection[Any]) -> None:
    url = postgres.url.replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(url) as connection:
        run("DELETE FROM Database.parts AS P; ROLLBACK;", connection)
        run("DELETE FROM Database.parts AS P WHERE P.id = 1; COMMIT;", connection)
    assert shop.execute("SELECT id FROM parts").fetchall() == [(2,)]
