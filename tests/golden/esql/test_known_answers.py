# SPDX-License-Identifier: Apache-2.0
"""The known answers of ESQL: one test for each case of the YAML files in answers.

The answers were written from IBM's reference topics (`spec` says which), not
from what the program gave. A file has a `spec` for all its cases, and cases:

    - name: scales add on multiplication
      expression: "0.30 * 1.6"                    or statements, or module (a whole file)
      expect: {type: DECIMAL, value: "0.480"}

    - name: a value set to NULL goes
      input: <a><b>1</b></a>                      XMLNSC unless `domain` says otherwise
      statements: |
        SET OutputRoot = InputRoot;
        SET OutputRoot.XMLNSC.a.b = NULL;
      expect: {output: <a/>}

What else may be expected: `variables` (children of Environment.Variables by name:
a bare value, {type, value}, or `absent`), `environment` and `body` (trees as
tree_json writes them), `outputs` (terminal and body, in order), `filter` (true, false or
unknown), `rows` (SQL and what it gives afterwards), `reports` (what LOG said) and `error`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import entrepot.errors
from entrepot.errors import EntrepotError, EsqlInvalid
from entrepot.esql.program import EsqlModule, compile_statements, compile_texts
from entrepot.esql.runtime.dates import use_clock, use_zone
from entrepot.esql.sql_database import SqlDatabase
from entrepot.message import Message
from entrepot.models.assembling import parse_message, render_message
from entrepot.models.tree import Assembly, Element
from entrepot.models.tree_json import tree_from_json, tree_to_json
from folding import for_each

NOW = datetime(2022, 6, 27, 17, 10, 37, tzinfo=UTC)
FOLDER = Path(__file__).parent / "answers"
FUNCTIONS = {
    "com.example.Text.reverse": lambda text: None if text is None else text[::-1],
    "com.example.Numbers.add": lambda left, right: left + right,
    "com.example.Tree.tag": lambda element: element.add("tagged", "yes"),
}


def _cases() -> list[Any]:
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        # In C, because every process of the tests reads them.
        document = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
        assert document["spec"], path.name
        for case in document["cases"]:
            marks = (
                [pytest.mark.xfail(strict=True, raises=(AssertionError, EntrepotError), reason=case["known_gap"])]
                if "known_gap" in case
                else []
            )
            found.append(pytest.param(case, id=f"{path.stem}:{case['name']}", marks=marks))
    return found


CASES = _cases()


def test_every_case_has_a_name_of_its_own() -> None:
    names = [parameter.id for parameter in CASES]
    assert len(set(names)) == len(names)
    assert len(names) >= 450


@pytest.fixture(autouse=True)
def _noon_in_greenwich() -> Iterator[None]:
    """The answers must not depend on where and when the tests run."""
    use_clock(lambda: NOW)
    use_zone(UTC)
    yield
    use_clock(None)
    use_zone(None)


@for_each("case", CASES)
def test_known_answer(case: dict[str, Any]) -> None:
    expected = case["expect"]
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(case.get("tables", ""))
        if "error" in expected:
            _expect_error(case, expected["error"], connection)
        else:
            _expect_answer(case, expected, connection)
    finally:
        connection.close()


# --- running ---------------------------------------------------------------------------------------


def _module(case: dict[str, Any]) -> EsqlModule:
    file = f"{case['name']}.esql"
    if "module" in case:
        texts = {file: case["module"], **case.get("files", {})}
        return compile_texts(texts, functions=FUNCTIONS).module(case.get("module_name", "Test"))
    if "expression" in case:
        return compile_statements(f"SET Environment.Variables.Result VALUE = {case['expression']};", file)
    return compile_statements(case["statements"], file, kind=case.get("kind", "COMPUTE"))


def _assembly(case: dict[str, Any]) -> Assembly:
    body = bytes.fromhex(case["input_hex"]) if "input_hex" in case else case.get("input", "<none/>").encode()
    assembly = parse_message(Message(body, message_id=b"m" * 24), domain=case.get("domain", "XMLNSC"))
    if "environment" in case:
        for child in tree_from_json({"name": "Environment", "children": case["environment"]}).children:
            assembly.environment.append(child.copy())
    return assembly


def _options(case: dict[str, Any], connection: sqlite3.Connection, reports: list[Any]) -> dict[str, Any]:
    options: dict[str, Any] = {
        "now": NOW,
        "database": SqlDatabase(connection),
        "report": lambda *said: reports.append(said),
        "properties": case.get("properties", {}),
        "throw_on_database_error": case.get("throw_on_database_error", True),
    }
    if case.get("kind") != "FILTER":
        options["mode"] = case.get("mode", "message")
    return options


def _expect_answer(case: dict[str, Any], expected: dict[str, Any], connection: sqlite3.Connection) -> None:
    module = _module(case)
    reports: list[Any] = []
    options = _options(case, connection, reports)
    unknown = set(expected) - _CHECKS.keys() - {"type", "value", "filter", "reports", "rows"}
    assert not unknown, unknown
    assembly = _assembly(case)
    outputs: list[tuple[str, Assembly]] = []
    if "filter" in expected:
        answer = module.filter(assembly, **options)
        assert {True: "true", False: "false", None: "unknown"}[answer] == expected["filter"]
    else:
        for _ in range(case.get("runs", 1)):
            outputs = module.compute(assembly, **options)
    if "expression" in case:
        result = assembly.environment.first("Variables").first("Result")  # type: ignore[union-attr]
        assert result is not None
        _expect_value(result, expected)
    for check, wanted in expected.items():
        if check in _CHECKS:
            _CHECKS[check](assembly, outputs, wanted)
    for sql, wanted in expected.get("rows", {}).items():
        assert [list(row) for row in connection.execute(sql)] == wanted
    if "reports" in expected:
        assert [[where, number, list(inserts)] for where, number, _, inserts in reports] == expected["reports"]


def _expect_error(case: dict[str, Any], expected: dict[str, Any], connection: sqlite3.Connection) -> None:
    kind = getattr(entrepot.errors, expected["kind"])
    with pytest.raises(kind) as caught:
        module = _module(case)
        options = _options(case, connection, [])
        module.compute(_assembly(case), **options)
    error = caught.value
    assert type(error) is kind, type(error)
    assert expected.get("contains", "") in str(error)
    if "line" in expected:
        places = [mistake[1] for mistake in error.mistakes] if isinstance(error, EsqlInvalid) else [error.place]
        assert str(expected["line"]) in [str(place).rpartition(":")[2] for place in places]
    for field in ("number", "sqlstate", "state", "inserts"):
        if field in expected:
            found = getattr(error, field)
            assert (list(found) if field == "inserts" else found) == expected[field]


# --- comparing -------------------------------------------------------------------------------------


def _expect_value(element: Element, expected: Any) -> None:
    """A bare value of YAML stands for its own type: text CHARACTER, numbers INTEGER, null NULL."""
    said = tree_to_json(element)
    found = (said.get("type", "NULL"), said.get("value"))
    if not isinstance(expected, dict):
        names = {bool: "BOOLEAN", int: "INTEGER", str: "CHARACTER", type(None): "NULL"}
        expected = {"type": names[type(expected)], "value": expected}
    assert found == (expected["type"] or "NULL", expected.get("value"))


def _expect_variables(assembly: Assembly, outputs: Any, wanted: dict[str, Any]) -> None:
    variables = assembly.environment.first("Variables") or Element("Variables")
    for name, value in wanted.items():
        elements = variables.all(name)
        if value == "absent":
            assert not elements, f"{name} is there"
            continue
        values = value if isinstance(value, list) else [value]
        assert len(elements) == len(values), f"{name}: {len(elements)}"
        for element, one in zip(elements, values, strict=True):
            _expect_value(element, one)


def _expect_environment(assembly: Assembly, outputs: Any, wanted: list[Any]) -> None:
    variables = assembly.environment.first("Variables") or Element("Variables")
    assert [tree_to_json(child) for child in variables.children] == wanted


def _body(assembly: Assembly) -> str:
    return render_message(assembly.root).body.decode()


def _expect_output(assembly: Assembly, outputs: list[tuple[str, Assembly]], wanted: str) -> None:
    assert [terminal for terminal, _ in outputs] == ["out"]
    assert _body(outputs[0][1]) == wanted


def _expect_outputs(assembly: Assembly, outputs: list[tuple[str, Assembly]], wanted: list[Any]) -> None:
    assert [[terminal, _body(output)] for terminal, output in outputs] == wanted


def _expect_terminals(assembly: Assembly, outputs: list[tuple[str, Assembly]], wanted: list[str]) -> None:
    assert [terminal for terminal, _ in outputs] == wanted


def _expect_body(assembly: Assembly, outputs: list[tuple[str, Assembly]], wanted: Any) -> None:
    assert tree_to_json(outputs[0][1].root.children[-1])["children"] == wanted


def _expect_folders(assembly: Assembly, outputs: list[tuple[str, Assembly]], wanted: list[str]) -> None:
    assert [folder.key for folder in outputs[0][1].root.children] == wanted


def _expect_destination(assembly: Assembly, outputs: list[tuple[str, Assembly]], wanted: list[Any]) -> None:
    assert [tree_to_json(child) for child in outputs[0][1].local_environment.children] == wanted


_CHECKS = {
    "variables": _expect_variables,
    "environment": _expect_environment,
    "output": _expect_output,
    "outputs": _expect_outputs,
    "terminals": _expect_terminals,
    "body": _expect_body,
    "folders": _expect_folders,
    "local_environment": _expect_destination,
}
