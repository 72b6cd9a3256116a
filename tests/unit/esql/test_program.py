# SPDX-License-Identifier: Apache-2.0
"""Compiled programs as a whole: they travel, they say where they failed, and they come to an end."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path

import pytest

from entrepot.errors import BudgetSpent, CastFailed, EsqlInvalid, EsqlRunError, ModelNotFound, UserException
from entrepot.esql import compile_condition, compile_files, compile_statements, compile_texts
from entrepot.esql.sql_database import SqlDatabase
from entrepot.message import Message
from entrepot.models.assembling import parse_message, render_message
from entrepot.models.tree import Assembly

ORDERS = """
BROKER SCHEMA shop
DECLARE Seen SHARED INTEGER 0;
CREATE FUNCTION Gross(IN Net DECIMAL) RETURNS DECIMAL BEGIN
  RETURN Net * 1.19;
END;
CREATE COMPUTE MODULE Orders
  CREATE FUNCTION Main() RETURNS BOOLEAN BEGIN
    SET Seen = Seen + 1;
    SET OutputRoot.XMLNSC.order.gross = Gross(CAST(InputBody.order.net AS DECIMAL));
    SET Environment.Variables.Seen = Seen;
    RETURN TRUE;
  END;
END MODULE;
CREATE FILTER MODULE Large
  CREATE FUNCTION Main() RETURNS BOOLEAN BEGIN
    RETURN Body.order.net > 100;
  END;
END MODULE;
"""


def message(body: bytes = b"<order><net>100</net></order>") -> Assembly:
    return parse_message(Message(body), domain="XMLNSC")


def in_main(body: str) -> str:
    return f"""CREATE COMPUTE MODULE Test
      CREATE PROCEDURE Again(IN N INTEGER) BEGIN
        CALL Again(N + 1);
      END;
      CREATE FUNCTION Deep(IN R REFERENCE) RETURNS INTEGER BEGIN
        RETURN Deep(R) + 1;
      END;
      CREATE FUNCTION Main() RETURNS BOOLEAN BEGIN
        {body}
        RETURN TRUE;
      END;
    END MODULE;"""


# --- modules ----------------------------------------------------------------------------------------


def test_modules_have_their_schema_in_front() -> None:
    program = compile_texts({"orders.esql": ORDERS})
    assert {name: module.kind for name, module in program.modules.items()} == {
        "shop.Orders": "COMPUTE",
        "shop.Large": "FILTER",
    }


def test_a_module_that_there_is_not_is_told_with_those_that_there_are() -> None:
    with pytest.raises(ModelNotFound, match=r"'Nothing'; there is shop\.Large, shop\.Orders"):
        compile_texts({"orders.esql": ORDERS}).module("Nothing")


def test_compute_gives_terminal_and_message() -> None:
    [(terminal, output)] = compile_texts({"orders.esql": ORDERS}).module("shop.Orders").compute(message())
    assert terminal == "out"
    assert render_message(output.root).body == b"<order><gross>119.00</gross></order>"


def test_filter_answers() -> None:
    module = compile_texts({"orders.esql": ORDERS}).module("shop.Large")
    assert module.filter(message()) is False
    assert module.filter(message(b"<order><net>101</net></order>")) is True
    assert module.filter(message(b"<order/>")) is None


def test_compute_leaves_the_input_as_it_was() -> None:
    assembly = message()
    compile_statements("SET OutputRoot = InputRoot; SET OutputRoot.XMLNSC.order.net = 1;").compute(assembly)
    assert assembly.root.get("XMLNSC", "order", "net") == "100"


def test_outputs_of_a_loop_are_kept_apart() -> None:
    module = compile_statements(
        """DECLARE N INTEGER 0;
        WHILE N < 3 DO
          SET N = N + 1;
          SET OutputRoot.XMLNSC.n = N;
          PROPAGATE DELETE NONE;
        END WHILE;
        RETURN FALSE;"""
    )
    assert [render_message(output.root).body for _, output in module.compute(message())] == [
        b"<n>1</n>",
        b"<n>2</n>",
        b"<n>3</n>",
    ]


def test_emit_is_called_at_once() -> None:
    seen = []
    module = compile_statements("SET OutputRoot.XMLNSC.a = 1; PROPAGATE TO TERMINAL 'out1'; RETURN TRUE;")
    outputs = module.compute(
        message(), emit=lambda where, name, leaving: seen.append((where, name, len(leaving.root.children)))
    )
    assert outputs == []
    assert seen == [("terminal", "out1", 1), ("terminal", "out", 0)]


def test_a_condition_is_a_filter() -> None:
    module = compile_condition("Body.order.net BETWEEN 50 AND 150")
    assert module.kind == "FILTER"
    assert module.filter(message()) is True


def test_an_option_that_a_run_does_not_have() -> None:
    with pytest.raises(TypeError, match="throw_on_error"):
        compile_statements("RETURN TRUE;").compute(message(), throw_on_error=False)


def test_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "orders.esql").write_text("\ufeff" + ORDERS, encoding="utf-8")
    assert "shop.Orders" in compile_files([tmp_path / "orders.esql"]).modules


def test_mistakes_of_all_files_are_told_together() -> None:
    with pytest.raises(EsqlInvalid) as caught:
        compile_texts({"a.esql": in_main("SET Nowhere = 1;"), "b.esql": in_main("SET Neither = 1;")})
    assert {mistake[0] for mistake in caught.value.mistakes} == {"a.esql", "b.esql"}


# --- travelling -------------------------------------------------------------------------------------


def test_a_pickled_program_does_the_same() -> None:
    program = compile_texts({"orders.esql": ORDERS})
    again = pickle.loads(pickle.dumps(program))
    [(_, output)] = again.module("shop.Orders").compute(message())
    assert render_message(output.root).body == b"<order><gross>119.00</gross></order>"
    assert again.source == program.source


def test_shared_variables_stay_behind() -> None:
    program = compile_texts({"orders.esql": ORDERS})
    for _ in range(3):
        program.module("shop.Orders").compute(message())
    assembly = message()
    pickle.loads(pickle.dumps(program)).module("shop.Orders").compute(assembly)
    assert assembly.environment.get("Variables", "Seen") == 1


def reversed_text(text: str) -> str:
    return text[::-1]


def test_functions_travel_too() -> None:
    text = """
    CREATE FUNCTION Reverse(IN T CHARACTER) RETURNS CHARACTER LANGUAGE JAVA EXTERNAL NAME "a.B.reverse";
    CREATE COMPUTE MODULE Test
      CREATE FUNCTION Main() RETURNS BOOLEAN BEGIN
        SET Environment.Variables.R = Reverse('abc');
        RETURN TRUE;
      END;
    END MODULE;"""
    program = compile_texts({"t.esql": text}, functions={"a.B.reverse": reversed_text})
    assembly = message()
    pickle.loads(pickle.dumps(program)).module("Test").compute(assembly)
    assert assembly.environment.get("Variables", "R") == "cba"


def test_errors_of_a_run_travel() -> None:
    with pytest.raises(CastFailed) as caught:
        compile_statements("DECLARE I INTEGER 'x';", "t.esql").compute(message())
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.place, again.problem) == (caught.value.place, caught.value.problem)


# --- where it failed --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\n\nSET Environment.Variables.A = CAST('x' AS INTEGER);", 3),
        ("DECLARE I INTEGER 0;\nWHILE I < 3 DO\n  SET I = I + 1;\n  SET I = I / 0;\nEND WHILE;", 4),
        ("IF TRUE THEN\n  IF CAST('x' AS INTEGER) = 1 THEN\n    RETURN TRUE;\n  END IF;\nEND IF;", 2),
        ("SET Environment.Variables.A\n  = CAST('x' AS INTEGER);", 1),
    ],
)
def test_an_error_says_its_line(text: str, line: int) -> None:
    with pytest.raises(EsqlRunError) as caught:
        compile_statements(text, "flow.esql").compute(message())
    assert caught.value.place == f"flow.esql:{line}"
    assert str(caught.value).startswith(f"{type(caught.value).__name__} [{caught.value.code}]: flow.esql:{line}: ")


def test_an_error_in_a_routine_says_the_line_of_the_routine() -> None:
    tools = "BROKER SCHEMA tools\nCREATE PROCEDURE Bad() BEGIN\n\n  THROW USER EXCEPTION;\nEND;"
    program = compile_texts({"tools.esql": tools, "main.esql": in_main("CALL tools.Bad();")})
    with pytest.raises(UserException) as caught:
        program.module("Test").compute(message())
    assert caught.value.place == "tools.esql:4"


def test_an_error_in_a_select_says_its_line() -> None:
    text = "SET Environment.Variables.A[] =\n (SELECT ITEM CAST(I AS INTEGER) FROM InputRoot.XMLNSC.order.net[] AS I);"
    with pytest.raises(CastFailed) as caught:
        compile_statements(text, "s.esql").compute(message(b"<order><net>x</net></order>"))
    assert caught.value.place.startswith("s.esql:")


def test_bytes_that_are_no_message_are_told_when_they_are_looked_at() -> None:
    module = compile_statements("SET Environment.Variables.A = InputRoot.XMLNSC.order.net;")
    with pytest.raises(Exception, match="XMLNSC"):
        module.compute(message(b"<order><net>"))


# --- budgets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "WHILE TRUE DO END WHILE;",
        "L: LOOP ITERATE L; END LOOP L;",
        "REPEAT UNTIL FALSE END REPEAT;",
        "DECLARE I INTEGER 0; WHILE I >= 0 DO SET I = I + 1; SET I = 0; END WHILE;",
        "WHILE TRUE DO DECLARE EXIT HANDLER FOR SQLSTATE LIKE '%' BEGIN END; THROW USER EXCEPTION; END WHILE;",
        "BEGIN DECLARE CONTINUE HANDLER FOR SQLSTATE LIKE '%' BEGIN END; WHILE TRUE DO END WHILE; END;",
    ],
)
def test_an_endless_loop_ends(text: str) -> None:
    with pytest.raises(BudgetSpent, match="loops without end"):
        compile_statements(text, "endless.esql").compute(message(), steps=20_000)


def test_a_spent_budget_says_where() -> None:
    with pytest.raises(BudgetSpent) as caught:
        compile_statements("\nWHILE TRUE DO\nEND WHILE;", "endless.esql").compute(message(), steps=1_000)
    assert caught.value.place == "endless.esql:2"


def test_a_loop_within_its_budget_runs_to_its_end() -> None:
    assembly = message()
    text = "DECLARE I INTEGER 0; WHILE I < 900 DO SET I = I + 1; END WHILE; SET Environment.Variables.I = I;"
    compile_statements(text).compute(assembly, steps=1_000)
    assert assembly.environment.get("Variables", "I") == 900


@pytest.mark.parametrize("body", ["CALL Again(1);", "SET Environment.Variables.D = Deep(InputRoot);"])
def test_endless_recursion_ends(body: str) -> None:
    with pytest.raises(BudgetSpent, match="recurses without end"):
        compile_texts({"t.esql": in_main(body)}).module("Test").compute(message())


def test_no_handler_takes_a_spent_budget() -> None:
    body = "DECLARE EXIT HANDLER FOR SQLSTATE LIKE '%' BEGIN END; CALL Again(1);"
    with pytest.raises(BudgetSpent):
        compile_texts({"t.esql": in_main(body)}).module("Test").compute(message())


@pytest.mark.parametrize(
    "text",
    [
        # A text of 2**60 characters, a BLOB of the same, and a tree that copies itself into itself.
        "DECLARE T CHARACTER 'x'; DECLARE I INTEGER 0; WHILE I < 60 DO SET T = T || T; SET I = I + 1; END WHILE;",
        "DECLARE T BLOB X'00'; DECLARE I INTEGER 0; WHILE I < 60 DO SET T = T || T; SET I = I + 1; END WHILE;",
        "SET Environment.Variables.R = LENGTH(REPLICATE('x', 1000000000000));",
        "SET Environment.Variables.R = LENGTH(SPACE(1000000000000));",
        """SET OutputRoot.XMLNSC.a.b = 1;
        DECLARE I INTEGER 0;
        WHILE I < 60 DO
          SET OutputRoot.XMLNSC.a.{'c' || CAST(I AS CHARACTER)} = OutputRoot.XMLNSC.a;
          SET I = I + 1;
        END WHILE;""",
    ],
)
def test_growth_without_end_ends(text: str) -> None:
    with pytest.raises(EsqlRunError):
        compile_statements(text).compute(message(), steps=200_000)


def test_a_tree_too_deep_is_an_error_of_the_program() -> None:
    text = """SET OutputRoot.XMLNSC.a = 1;
    DECLARE R REFERENCE TO OutputRoot.XMLNSC.a;
    DECLARE I INTEGER 0;
    WHILE I < 5000 DO
      CREATE LASTCHILD OF R AS R NAME 'a';
      SET I = I + 1;
    END WHILE;
    SET Environment.Variables.Copy = OutputRoot.XMLNSC.a;"""
    with pytest.raises(EsqlRunError):
        compile_statements(text).compute(message())


def test_two_runs_of_a_module_do_not_know_each_other() -> None:
    module = compile_statements("DECLARE N INTEGER; SET N = COALESCE(N, 0) + 1; SET OutputRoot.XMLNSC.n = N;")
    for _ in range(2):
        [(_, output)] = module.compute(message())
        assert render_message(output.root).body == b"<n>1</n>"


def test_a_database_is_asked_through_the_run() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a INTEGER)")
    compile_statements("INSERT INTO Database.t (a) VALUES (1);").compute(message(), database=SqlDatabase(connection))
    assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]
    connection.close()


def test_a_node_without_a_database_says_so() -> None:
    with pytest.raises(EsqlRunError, match="no database"):
        compile_statements("INSERT INTO Database.t (a) VALUES (1);").compute(message())


@pytest.mark.parametrize("declared", [b"", b' xmlns="u"'])
@pytest.mark.parametrize("looked_at", ["", "IF OutputRoot.XMLNSC.*:o.*:a.*:x = '' THEN END IF;"])
def test_a_field_that_takes_a_value_loses_its_children_whether_they_were_looked_at_or_not(
    declared: bytes, looked_at: str
) -> None:
    module = compile_statements(f"""
        SET OutputRoot = InputRoot; {looked_at}
        DECLARE a REFERENCE TO OutputRoot.XMLNSC.*:o.*:a;
        SET a = OutputRoot.XMLNSC.*:o.*:b;""")
    body = b"<o" + declared + b"><a><x>1</x></a><b>2</b></o>"
    [(_, output)] = module.compute(message(body))
    assert render_message(output.root).body == b"<o" + declared + b"><a>2</a><b>2</b></o>"
