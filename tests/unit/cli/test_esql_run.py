# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from .conftest import Complaint, Shell

PROGRAM = """CREATE COMPUTE MODULE Bill
  DECLARE currency EXTERNAL CHARACTER 'EUR';
  CREATE FUNCTION Main() RETURNS BOOLEAN BEGIN
    SET OutputRoot.Properties = InputRoot.Properties;
    SET OutputRoot.XMLNSC.Bill.Total = CAST(InputRoot.XMLNSC.Order.Price AS DECIMAL) * 2;
    SET OutputRoot.XMLNSC.Bill.Currency = currency;
    SET Environment.Variables.done = TRUE;
    RETURN InputRoot.XMLNSC.Order.Price > 0.0;
  END;
END MODULE;
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bill.esql"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def order(tmp_path: Path) -> Path:
    path = tmp_path / "order.xml"
    path.write_bytes(b"<Order><Price>4.50</Price></Order>")
    return path


# --- show --------------------------------------------------------------------------------------


def test_show_prints_python_that_compiles(shell: Shell, program: Path) -> None:
    said = shell("esql", "show", program).stdout
    compile(said, "shown", "exec")
    assert "def esql_Bill__Main(run):" in said


def test_show_takes_bare_statements_even_if_they_speak_of_modules(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "body.esql"
    path.write_text("SET OutputRoot.XMLNSC.a = 'a MODULE';")
    assert "'a MODULE'" in shell("esql", "show", path).stdout


def test_show_tells_mistakes_with_line_and_column(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "bad.esql"
    path.write_text("SET OutputRoot.XMLNSC.a = 1;\nSET b = 2;")
    said = shell("esql", "show", path, code=1).stderr
    assert "bad.esql:2:5: b is not declared" in said
    assert "  SET b = 2;\n      ^" in said


def test_a_file_that_is_no_utf_8_is_refused_with_its_place(tmp_path: Path, complaint: Complaint) -> None:
    path = tmp_path / "latin.esql"
    path.write_bytes(b"-- caf\xe9\nSET OutputRoot = InputRoot;")
    assert "latin.esql:1:7: the byte 0xe9 is no UTF-8" in complaint("esql", "show", path)


# --- run ---------------------------------------------------------------------------------------


def test_run_prints_trees_with_types(shell: Shell, program: Path, order: Path) -> None:
    said = shell("esql", "run", order, program).stdout
    assert said.startswith("terminal out\n")
    assert "Total = 9.00 (DECIMAL)" in said
    assert "Currency = 'EUR' (CHARACTER)" in said
    assert "done = TRUE (BOOLEAN)" in said


def test_run_prints_bodies(shell: Shell, program: Path, order: Path) -> None:
    said = shell("esql", "run", order, program, "--body", "--property", "currency=GBP").stdout
    assert said == "<Bill><Total>9.00</Total><Currency>GBP</Currency></Bill>\n"


def test_run_reads_the_message_from_standard_input(shell: Shell, program: Path) -> None:
    said = shell("esql", "run", "-", program, "--body", stdin=b"<Order><Price>1</Price></Order>").stdout
    assert "<Total>2</Total>" in said


def test_run_answers_in_json(shell: Shell, program: Path, order: Path) -> None:
    (output,) = shell.json("esql", "run", order, program)
    assert output["terminal"] == "out"
    body = output["Root"]["children"][-1]
    assert body["children"][0]["children"][0] == {"name": "Total", "type": "DECIMAL", "value": "9.00"}


def test_run_says_when_nothing_came_out(shell: Shell, program: Path, tmp_path: Path) -> None:
    free = tmp_path / "free.xml"
    free.write_bytes(b"<Order><Price>0</Price></Order>")
    assert "Nothing came out" in shell("esql", "run", free, program).stdout


def test_run_of_a_filter_names_the_terminal(shell: Shell, tmp_path: Path, order: Path) -> None:
    path = tmp_path / "filter.esql"
    path.write_text(
        "CREATE FILTER MODULE F CREATE FUNCTION Main() RETURNS BOOLEAN RETURN Body.Order.Price > 4.0; END MODULE;"
    )
    assert shell("esql", "run", order, path).stdout == "true\n"
    assert shell.json("esql", "run", order, path) == {"terminal": "true"}


def test_run_with_two_modules_asks_for_one(
    shell: Shell, program: Path, order: Path, tmp_path: Path, complaint: Complaint
) -> None:
    (tmp_path / "other.esql").write_text(PROGRAM.replace("MODULE Bill", "MODULE Other"))
    assert "there is Bill, Other" in complaint("esql", "run", order, tmp_path)
    assert shell("esql", "run", order, tmp_path, "--module", "Other", "--body").stdout.startswith("<Bill>")
    assert "Third" in complaint("esql", "run", order, tmp_path, "--module", "Third")


def test_run_uses_a_database(shell: Shell, tmp_path: Path, order: Path) -> None:
    database = tmp_path / "shop.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE T (N INTEGER)")
    path = tmp_path / "insert.esql"
    path.write_text("INSERT INTO Database.T (N) VALUES (7); SET OutputRoot.XMLNSC.a = 1;")
    shell("esql", "run", order, path, "--database", database)
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT N FROM T").fetchall() == [(7,)]


def test_run_tells_where_a_program_failed(program: Path, tmp_path: Path, complaint: Complaint) -> None:
    bad = tmp_path / "bad.xml"
    bad.write_bytes(b"<Order><Price>much</Price></Order>")
    said = complaint("esql", "run", bad, program)
    assert "bill.esql:5:" in said
    assert "X03" in said


def test_run_refuses_a_property_without_a_value(program: Path, order: Path, complaint: Complaint) -> None:
    assert "NAME=VALUE" in complaint("esql", "run", order, program, "--property", "currency")


def test_run_refuses_a_folder_without_programs(tmp_path: Path, order: Path, complaint: Complaint) -> None:
    (tmp_path / "empty").mkdir()
    assert "no .esql file" in complaint("esql", "run", order, tmp_path / "empty")
