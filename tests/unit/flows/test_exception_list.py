# SPDX-License-Identifier: Apache-2.0
"""The ExceptionList, against the figures of IBM's documentation.

"Exception list tree structure" lists the fields and their types, "Parser", "User" and "Database exception trace
output" show whole lists, and "Exception list structure" shows how programs walk them: to the last child, for as long
as there is a Number.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from entrepot.errors import EsqlRunError
from entrepot.esql import SqlDatabase
from entrepot.flows.exception_list import exception_list
from entrepot.models.tree import Element
from entrepot.models.values import Bits
from folding import for_each

from .drawn import Drawn, Stage, compute, drawn, node, reads, writes

FIELDS = ["File", "Line", "Function", "Type", "Name", "Label", "Catalog", "Severity", "Number", "Text"]


def told(failing: Drawn, body: str = "<order><id>7</id></order>", **options: Any) -> Element:
    kept: list[Element] = []

    def keep(message: Any, send: Any) -> None:
        kept.append(message.exception_list)

    flow = drawn("In -> Node", "In.catch -> Keep", In=reads(), Node=failing, Keep=node("Python", function=keep))
    Stage(flow, **options).feed(body)
    return kept[0]


def chain(root: Element) -> list[Element]:
    """What a program finds that moves to the last child for as long as there is a Number."""
    found = []
    at = root.children[-1] if root.children else None
    while at is not None and at.get("Number") is not None:
        found.append(at)
        at = at.children[-1]
    return found


def inserts(element: Element) -> list[tuple[Any, Any]]:
    return [(insert.get("Type"), insert.get("Text")) for insert in element.all("Insert")]


def test_a_message_without_an_error_has_an_empty_list() -> None:
    stage = Stage(
        drawn(
            "In -> Say -> Out",
            In=reads(),
            Say=compute("SET OutputRoot.XMLNSC.n = CARDINALITY(InputExceptionList.*[]);"),
            Out=writes(),
        )
    )
    stage.feed()
    assert stage.on("OUT") == [b"<n>0</n>"]


def test_the_outermost_tells_which_node_could_not_go_on() -> None:
    outer = chain(told(compute("THROW USER EXCEPTION;")))[0]
    assert outer.name == "RecoverableException"
    assert [child.name for child in outer][: len(FIELDS)] == FIELDS
    assert [outer.get(field) for field in FIELDS[3:]] == [
        "ComIbmComputeNode",
        "Node",
        "shop.Node",
        "BIPmsgs",
        3,
        2230,
        "Caught exception and rethrowing",
    ]
    assert inserts(outer) == [(14, "shop.Node")]


def test_fields_are_name_values_and_exceptions_are_names() -> None:
    outer = chain(told(compute("THROW USER EXCEPTION;")))[0]
    assert {child.kind for child in outer if child.name in FIELDS} == {0x03000000}
    assert {child.kind for child in outer if child.name not in FIELDS} == {0x01000000}
    assert type(outer.get("Line")) is int


def test_a_thrown_exception_has_its_number_severity_catalog_and_inserts() -> None:
    thrown = (
        "THROW USER EXCEPTION SEVERITY 2 CATALOG 'shop' MESSAGE 2952 VALUES('too dear', InputRoot.XMLNSC.order.id);"
    )
    inner = chain(told(compute(thrown)))[-1]
    assert inner.name == "UserException"
    assert [inner.get(field) for field in ("Catalog", "Severity", "Number")] == ["shop", 2, 2952]
    assert inserts(inner) == [(5, "too dear"), (5, "7")]
    assert (inner.get("File"), inner.get("Line")) == ("Node.statements", 1)


def test_without_clauses_it_is_number_2951_of_severity_1() -> None:
    inner = chain(told(compute("THROW USER EXCEPTION;")))[-1]
    assert (inner.get("Number"), inner.get("Severity")) == (2951, 1)


def test_a_throw_node_has_its_text_as_the_first_insert_and_its_label_as_the_second() -> None:
    inner = chain(told(node("Throw", text="halt", number=3001)))[-1]
    assert (inner.name, inner.get("Number"), inner.get("Text")) == ("UserException", 3001, "halt")
    assert inserts(inner) == [(5, "halt"), (5, "shop.Node")]
    assert inner.get("Type") == "ComIbmThrowNode"


def test_a_body_that_cannot_be_read_is_a_parser_exception() -> None:
    inner = chain(told(compute("SET OutputRoot.XMLNSC.n = InputRoot.XMLNSC.order.id;"), "<order><id></order>"))[-1]
    assert inner.name == "ParserException"
    assert inner.get("Number") != 2230
    assert "no XMLNSC message" in str(inner.get("Text"))


def test_a_database_s_refusal_is_a_root_with_a_child_that_has_the_sqlstate() -> None:
    database = sqlite3.connect(":memory:")
    outer, root, child = chain(
        told(compute("INSERT INTO Database.nothing (a) VALUES (1);"), database=SqlDatabase(database))
    )
    assert (outer.name, root.name, child.name) == ("RecoverableException", "DatabaseException", "DatabaseException")
    assert [each.get("Number") for each in (outer, root, child)] == [2230, 2321, 2322]
    state, native, text = inserts(child)
    assert (state, native[0], text[0]) == ((5, "HY000"), 2, 5)
    assert "nothing" in text[1]


def test_a_cast_that_fails_is_a_cast_exception_with_what_could_not_be_cast() -> None:
    inner = chain(told(compute("SET OutputRoot.XMLNSC.n = CAST(InputRoot.XMLNSC.order.id AS DATE);")))[-1]
    assert inner.name == "CastException"
    assert "7" in "".join(text for _, text in inserts(inner))


def test_an_error_of_python_is_a_recoverable_exception_with_its_line() -> None:
    def fails(message: Any, send: Any) -> None:
        raise KeyError("ship")

    inner = chain(told(node("Python", function=fails)))[-1]
    assert (inner.name, inner.get("Function"), inner.get("Text")) == ("RecoverableException", "KeyError", "'ship'")
    assert inner.get("File") == "test_exception_list.py"
    assert inner.get("Type") == "ComIbmPythonNode"


def test_what_was_behind_an_error_of_ours_is_its_last_child() -> None:
    try:
        try:
            raise EsqlRunError("the cause", number=2420)
        except EsqlRunError as cause:
            raise EsqlRunError("the effect", number=2401) from cause
    except EsqlRunError as error:
        levels = chain(exception_list(error, None))
    assert [level.get("Number") for level in levels] == [2230, 2401, 2420]


@for_each(
    ("value", "number", "text"),
    [
        (True, 1, "true"),
        (5, 2, "5"),
        (1.5, 3, "1.5E+0"),
        (Decimal("1.50"), 4, "1.50"),
        ("x", 5, "x"),
        (time(12, 30), 6, "12:30:00"),
        (time(12, 30, tzinfo=UTC), 7, "12:30:00Z"),
        (date(2026, 1, 31), 8, "2026-01-31"),
        (datetime(2026, 1, 31, 12), 9, "2026-01-31T12:00:00"),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), 10, "2026-01-31T12:00:00Z"),
        (b"\x01", 12, "01"),
        (Bits("101"), 13, "101"),
        (None, 0, ""),
    ],
)
def test_an_insert_has_the_number_of_its_type(value: Any, number: int, text: str) -> None:
    error = EsqlRunError("x", inserts=(value,))
    assert inserts(chain(exception_list(error, None))[-1]) == [(number, text)]


def test_the_walk_that_programs_do_finds_the_innermost_error() -> None:
    """The loop of IBM's "Accessing the ExceptionList tree using ESQL"."""
    walk = """
        DECLARE at REFERENCE TO InputExceptionList.*[1];
        DECLARE number INTEGER; DECLARE text CHARACTER;
        WHILE at.Number IS NOT NULL DO
            SET number = at.Number; SET text = at.Insert[1].Text;
            MOVE at LASTCHILD;
        END WHILE;
        SET OutputRoot.XMLNSC.t.number = number; SET OutputRoot.XMLNSC.t.text = text;"""
    stage = Stage(
        drawn(
            "In -> Fail",
            "Fail.failure -> Walk -> Out",
            In=reads(),
            Fail=compute("THROW USER EXCEPTION MESSAGE 2953 VALUES('no ship');"),
            Walk=compute(walk),
            Out=writes(),
        )
    )
    stage.feed()
    assert stage.on("OUT") == [b"<t><number>2953</number><text>no ship</text></t>"]


def test_a_node_of_a_subflow_is_labelled_with_the_way_to_it() -> None:
    flow = drawn("In -> Node", In=reads(), Node=node("Throw"))
    kernel_node = Stage(flow).kernel.nodes["Node"]
    kernel_node.name = "Audit/Inner"
    assert chain(exception_list(ValueError("x"), kernel_node))[0].get("Label") == "shop.Audit.Inner"
