# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from entrepot.errors import EsqlInvalid
from entrepot.esql.parsing import parse_expression, parse_file, parse_statements
from entrepot.esql.syntax import Binary, Select, Set, SourcePlace
from entrepot.esql.syntax import Path as FieldReference

from .shown import shown

BROKER = Path(__file__).parents[2] / "golden" / "esql" / "broker"

ORDERS = """\ufeffBROKER SCHEMA com.shop
PATH com.shared, legacy;

-- Constants of the schema
DECLARE ns NAMESPACE 'urn:shop';

CREATE FUNCTION twice(IN x INTEGER, y CONSTANT CHAR) RETURNS INTEGER NOT NULL
  RETURN x * 2;

CREATE PROCEDURE stored(INOUT a DECIMAL NULLABLE, OUT b REFERENCE, p NAMESPACE)
  LANGUAGE DATABASE DYNAMIC RESULT SETS 2 EXTERNAL NAME "S.PROC";

CREATE COMPUTE MODULE Orders
  DECLARE counter SHARED INTEGER 0;
  CREATE FUNCTION Main() RETURNS BOOLEAN
  BEGIN
    RETURN TRUE;
  END;
  CREATE PROCEDURE hello() LANGUAGE JAVA EXTERNAL NAME "com.shop.Hello.say" CLASSLOADER "own";;
END MODULE;

create filter module Cheap
  create function Main() returns boolean return Root.XMLNSC.ns:price < 10;
end module;
CREATE DATABASE MODULE Store CREATE FUNCTION Main() RETURNS BOOLEAN BEGIN END; END MODULE;
"""


def test_file_has_schema_path_declarations_routines_and_modules() -> None:
    file = parse_file(ORDERS, "orders.esql")
    assert (file.file, file.text) == ("orders.esql", ORDERS.removeprefix("\ufeff"))
    assert (file.schema, file.path) == (("com", "shop"), (("com", "shared"), ("legacy",)))
    assert [shown(declaration) for declaration in file.declarations] == [
        "Declare(names=['ns'], constant=True, kind='namespace', value='urn:shop')"
    ]
    assert [(module.kind, module.name) for module in file.modules] == [
        ("COMPUTE", "Orders"),
        ("FILTER", "Cheap"),
        ("DATABASE", "Store"),
    ]


def test_routines_keep_parameters_language_and_external_name() -> None:
    twice, stored = parse_file(ORDERS, "orders.esql").routines
    assert shown(twice) == (
        "Routine(name='twice', parameters=[RoutineParameter(name='x', direction='IN', type=INTEGER), "
        "RoutineParameter(name='y', direction='IN', type=CHARACTER, constant=True)], returns=INTEGER, "
        "is_function=True, language='ESQL', body=Return(value=(x * 2)))"
    )
    assert shown(stored) == (
        "Routine(name='stored', parameters=[RoutineParameter(name='a', direction='INOUT', type=DECIMAL), "
        "RoutineParameter(name='b', direction='OUT', type=REFERENCE), "
        "RoutineParameter(name='p', direction='IN', type=CHARACTER, constant=True)], "
        "language='DATABASE', external='S.PROC')"
    )
    main, hello = parse_file(ORDERS, "orders.esql").modules[0].routines
    assert (main.name, main.is_function) == ("Main", True)
    assert (hello.language, hello.external, hello.body) == ("JAVA", "com.shop.Hello.say", None)


def test_external_routine_without_language_is_the_databases() -> None:
    (routine,) = parse_file("CREATE PROCEDURE p() EXTERNAL NAME 'x';", "f").routines
    assert routine.language == "DATABASE"


def test_places_count_lines_and_columns_from_one() -> None:
    (statement,) = parse_statements("\n  /* two\n lines */ SET a.b =\n  'x\ny' || 1;", "f")
    assert isinstance(statement, Set)
    assert statement.place == SourcePlace(3, 11)
    assert statement.target.place == SourcePlace(3, 15)
    assert [step.place for step in statement.target.steps] == [SourcePlace(3, 15), SourcePlace(3, 17)]
    assert isinstance(statement.value, Binary)
    assert statement.value.left.place == SourcePlace(4, 3)
    assert statement.value.place == SourcePlace(5, 4)  # behind a text of two lines: an operation stands at its operator


def test_bare_statements_may_begin_at_a_line_of_a_larger_file() -> None:
    (statement,) = parse_statements("SET a = 1;", "f", line=812)
    assert statement.place == SourcePlace(812, 1)
    with pytest.raises(EsqlInvalid) as wrong:
        parse_statements("SET a = 1;\nSET b = ;", "f", line=812)
    assert wrong.value.mistakes[0][1:] == (813, 9, "found ';' where an expression belongs", "  SET b = ;\n          ^")


@pytest.mark.parametrize("name", sorted(path.name for path in BROKER.glob("*.esql")))
def test_programs_of_the_broker_document_are_read_verbatim(name: str) -> None:
    assert parse_statements((BROKER / name).read_text(), name)


def test_the_five_programs_are_there() -> None:
    counts = {path.name: len(parse_statements(path.read_text(), "f")) for path in BROKER.glob("*.esql")}
    assert counts == {
        "9_1_simple.esql": 2,
        "9_2_complex.esql": 6,
        "9_3_multiple_complex.esql": 6,
        "9_4_very_complex.esql": 30,
        "9_5_nested_select.esql": 7,
    }


def test_nested_select_of_the_broker_document() -> None:
    statement = parse_statements((BROKER / "9_5_nested_select.esql").read_text(), "f")[-1]
    assert isinstance(statement, Set)
    assert shown(statement.target) == "OutputRoot.XML.CSIM.Data.Statement[]"
    assert isinstance(statement.value, Select)
    assert [shown(chosen) for chosen in statement.value.selected] == [
        "Selected(expression='Monthly', alias=[(<XML.Attribute>)Type])",
        "Selected(expression='Full', alias=[(50331648){style}[1]])",
        "Selected(expression=(I.Initial || COALESCE(I.Initial[2], '')), alias=[Customer, Initials])",
        "Selected(expression=I.Surname, alias=[Customer, Name])",
        "Selected(expression=I.Balance, alias=[Customer, Balance])",
        "Selected(expression=Select(form='list', selected=[Selected(expression=II.Description, alias=[Desc]), "
        "Selected(expression=(Cast(operand=[II.Price], type=FLOAT) * Decimal('1.6')), alias=[Cost]), "
        "Selected(expression=II.Quantity, alias=[Qty])], sources=[FromSource(path=I.Item[], alias='II')], "
        "where=(II.Price > Decimal('0.0'))), alias=[Purchases, Article[]])",
        "Selected(expression=Select(form='aggregate', selected=[((Cast(operand=[II.Price], type=FLOAT) * "
        "Cast(operand=[II.Quantity], type=FLOAT)) * Decimal('1.6'))], sources=[FromSource(path=I.Item[], alias='II')], "
        "aggregate='SUM'), alias=[Amount])",
        "Selected(expression='Dollars', alias=[Amount, (<XML.Attribute>)Currency])",
    ]
    assert shown(statement.value.sources) == "[FromSource(path=InputRoot.XML.CSIM.Data.Invoice[], alias='I')]"
    assert shown(statement.value.where) == "(I.Surname <> 'Shop')"


@pytest.mark.parametrize("operator", ["||", "AND", "OR"])
def test_long_chain_of_pieces_is_read_in_order_and_does_not_nest(operator: str) -> None:
    pieces = [f"v{number}" for number in range(1000)]
    tree = parse_expression(f" {operator} ".join(pieces), "f")
    found, deepest, waiting = [], 0, [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(node, Binary):
            assert node.operator == operator
            waiting += [(node.right, depth + 1), (node.left, depth + 1)]
        else:
            assert isinstance(node, FieldReference)
            found.append(node.steps[0].name)
    assert found == pieces
    assert deepest < 30


def test_names_like_properties_are_variables_where_they_are_declared() -> None:
    assert shown(parse_expression("NodeLabel || SQLCODE", "f")) == "(NodeLabel() || SQLCODE())"
    text = "CREATE FUNCTION f(IN NodeLabel CHARACTER) RETURNS CHARACTER RETURN NodeLabel || CURRENT_DATE;"
    assert "body=Return(value=(NodeLabel || CURRENT_DATE()))" in shown(parse_file(text, "f"))
    assert "Cast(operand=[CURRENT_DATE()]" in shown(parse_statements("SET x = CAST(CURRENT_DATE AS CHAR);", "f"))


def test_trees_and_errors_survive_pickle() -> None:
    file = parse_file(ORDERS, "orders.esql")
    assert pickle.loads(pickle.dumps(file)) == file
    with pytest.raises(EsqlInvalid) as wrong:
        parse_file("SET", "f")
    assert pickle.loads(pickle.dumps(wrong.value)).mistakes == wrong.value.mistakes
