# SPDX-License-Identifier: Apache-2.0
"""Runs a program on a message as a YAML case describes it, and says what came out in the words of the case.

Values: texts, whole numbers, true, false and null are CHARACTER, INTEGER, BOOLEAN and NULL; all others name
their type, as in {DECIMAL: "9.90"}. A tree is a mapping of paths to values, `order.item[2].sku: b7`, of
all elements that have a value.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from entrepot.esql.program import EsqlModule, Program, compile_statements, compile_texts
from entrepot.esql.sql_database import SqlDatabase
from entrepot.message import Message
from entrepot.models.assembling import parse_message, render_message
from entrepot.models.element_types import NAME
from entrepot.models.tree import Assembly, Element
from entrepot.models.tree_json import tree_to_json, type_name

PLAIN = {"CHARACTER", "INTEGER", "BOOLEAN", "NULL"}

FUNCTIONS = {
    "com.example.Text.reverse": lambda text: None if text is None else text[::-1],
    "com.example.Checks.luhn": lambda digits: sum(map(int, digits)) % 10 == 0,
    "com.example.Names.split": lambda name, first, last: (None, *name.split(" ", 1)),
}
"""What stands for Java in these programs."""


@dataclass
class Outcome:
    """What a run left behind."""

    outputs: list[tuple[str, Assembly]] = field(default_factory=list)
    answer: bool | None = None
    environment: Element = field(default_factory=lambda: Element("Environment"))
    reports: list[tuple[str, int, str]] = field(default_factory=list)
    connection: sqlite3.Connection | None = None


def program_of(texts: dict[str, str]) -> Program:
    return compile_texts(texts, functions=FUNCTIONS)


def module_of(text: str, name: str = "<snippet>", *, allow_eval: bool = False) -> EsqlModule:
    """A module from a file's text, or from bare statements."""
    if "MODULE" in text:
        return next(iter(program_of({name: text}).modules.values()))
    return compile_statements(text, name, allow_eval=allow_eval)


def run_case(module: EsqlModule, case: dict[str, Any], outcome: Outcome | None = None) -> Outcome:
    """One message through one module."""
    outcome = outcome or Outcome()
    message = Message(_bytes(case["body"]), message_id=b"m" * 24, **case.get("message", {}))
    domain = case.get("domain", "XMLNSC")
    assembly = parse_message(message, domain=domain, **case.get("model", {}))
    _fill(assembly.environment, case.get("environment_in", {}))
    _fill(assembly.local_environment, case.get("local_environment_in", {}))
    _fill(assembly.exception_list, case.get("exception_list_in", {}))
    outcome.environment = assembly.environment
    options: dict[str, Any] = {
        "properties": case.get("properties", {}),
        "labels": case.get("labels", {}),
        "local_zone": UTC,
        "now": _moment(case.get("now", "2024-02-29T13:45:10.123456")),
        "throw_on_database_error": case.get("throw_on_database_error", True),
        "report": lambda where, number, text, inserts: outcome.reports.append((where, number, text)),
    }
    if "database" in case:
        outcome.connection = sqlite3.connect(":memory:", isolation_level=None)
        outcome.connection.executescript(case["database"])
        options["database"] = SqlDatabase({"": outcome.connection, "SHOP": outcome.connection})
    if module.kind == "FILTER":
        outcome.answer = module.filter(assembly, **options)
    else:
        outcome.outputs = module.compute(assembly, mode=case.get("mode", "all"), **options)
    return outcome


def shown(value: Any) -> Any:
    """A value as a case writes it."""
    name = type_name(value)
    return value if name in PLAIN else {name: tree_to_json(Element("x", value))["value"]}


def paths(tree: Element) -> dict[str, Any]:
    """All values of a tree by their paths, in order."""
    found: dict[str, Any] = {}
    _collect(tree, "", found)
    return found


def _collect(element: Element, above: str, found: dict[str, Any]) -> None:
    count: dict[str, int] = {}
    many = {child.key for child in element.children if sum(other.key == child.key for other in element.children) > 1}
    for child in element.children:
        count[child.key] = count.get(child.key, 0) + 1
        path = f"{above}{child.key}" + (f"[{count[child.key]}]" if child.key in many else "")
        if child.value is not None or not child.children:
            found[path] = shown(child.value)
        _collect(child, path + ".", found)


def body_of(assembly: Assembly) -> str:
    """The body as it would be put on a queue, as text; bytes that are no UTF-8 in hexadecimal."""
    body = render_message(assembly.root).body
    try:
        return body.decode()
    except UnicodeDecodeError:
        return "hex " + body.hex()


def _bytes(body: str) -> bytes:
    return bytes.fromhex(body[4:]) if body.startswith("hex ") else body.encode()


def _moment(text: Any) -> datetime:
    return (text if isinstance(text, datetime) else datetime.fromisoformat(text)).replace(tzinfo=UTC)


def _fill(tree: Element, values: dict[str, Any]) -> None:
    """`a.b[2].c: value` into a tree; an index beyond the last makes one more."""
    for path, value in values.items():
        place = tree
        for step in path.split("."):
            name, _, index = step.partition("[")
            same = place.all(name)
            number = int(index[:-1]) if index else 1
            place = same[number - 1] if number <= len(same) else place.append(Element(name, None, NAME))
        place.value = value
