# SPDX-License-Identifier: Apache-2.0
"""Conditions of ESQL that a database can decide, as SQL with bound values.

What does not mention a column is computed here and bound as `?`. What
mentions one and is no SQL that every database understands is not translated;
then the rows are fetched and the condition is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from entrepot.esql.runtime.database import sql_name
from entrepot.esql.syntax import (
    Among,
    Between,
    Binary,
    Call,
    Case,
    Expression,
    Is,
    Like,
    Path,
    Select,
    Step,
    Unary,
)

_FUNCTIONS = {"UPPER": "UPPER", "UCASE": "UPPER", "LOWER": "LOWER", "LCASE": "LOWER", "ABS": "ABS", "ABSVAL": "ABS"}
_LAZY = {"COALESCE": "COALESCE", "NULLIF": "NULLIF"}


class NotSql(Exception):
    """The expression has to be decided here."""


@dataclass(slots=True)
class Sql:
    """SQL text, and Python for the values of its question marks."""

    text: str
    values: list[str]


class Translator:
    """Expressions to SQL, for a statement over some tables."""

    def __init__(self, tables: set[str], later: set[str], local: Callable[[Expression], str]) -> None:
        self._tables = tables
        self._later = later
        """Sources whose rows are not known yet when the database is asked."""
        self._local = local

    def translate(self, node: Expression) -> Sql:
        """
        Raises:
            NotSql: It cannot be said in SQL.
        """
        if not mentions(node, self._tables):
            if mentions(node, self._later) or any(isinstance(part, Select) for part in parts_of(node)):
                raise NotSql
            return Sql("?", [self._local(node)])
        translate = getattr(self, "_" + type(node).__name__.lower(), None)
        if translate is None:
            raise NotSql
        translated = translate(node)
        assert isinstance(translated, Sql)
        return translated

    def _all(self, nodes: list[Expression]) -> tuple[list[str], list[str]]:
        texts: list[str] = []
        values: list[str] = []
        for node in nodes:
            part = self.translate(node)
            texts.append(part.text)
            values.extend(part.values)
        return texts, values

    def _path(self, node: Path) -> Sql:
        steps = node.steps
        if len(steps) != 2 or not _is_column(steps[1]):
            raise NotSql
        assert steps[1].name is not None
        return Sql(f"{sql_name(steps[0].name or '')}.{sql_name(steps[1].name, quoted=steps[1].quoted)}", [])

    def _unary(self, node: Unary) -> Sql:
        operand = self.translate(node.operand)
        return Sql(f"({node.operator} {operand.text})", operand.values)

    def _binary(self, node: Binary) -> Sql:
        (left, right), values = self._all([node.left, node.right])
        return Sql(f"({left} {node.operator} {right})", values)

    def _between(self, node: Between) -> Sql:
        if node.symmetric:
            raise NotSql
        (operand, low, high), values = self._all([node.operand, node.low, node.high])
        return Sql(f"({operand} {'NOT ' if node.negated else ''}BETWEEN {low} AND {high})", values)

    def _among(self, node: Among) -> Sql:
        texts, values = self._all([node.operand, *node.candidates])
        return Sql(f"({texts[0]} {'NOT ' if node.negated else ''}IN ({', '.join(texts[1:])}))", values)

    def _like(self, node: Like) -> Sql:
        nodes = [node.operand, node.pattern, *([node.escape] if node.escape is not None else [])]
        texts, values = self._all(nodes)
        escape = f" ESCAPE {texts[2]}" if len(texts) > 2 else ""
        return Sql(f"({texts[0]} {'NOT ' if node.negated else ''}LIKE {texts[1]}{escape})", values)

    def _is(self, node: Is) -> Sql:
        if node.what != "NULL":
            raise NotSql
        operand = self.translate(node.operand)
        return Sql(f"({operand.text} IS {'NOT ' if node.negated else ''}NULL)", operand.values)

    def _case(self, node: Case) -> Sql:
        text, values = "CASE", []
        if node.operand is not None:
            operand = self.translate(node.operand)
            text, values = f"{text} {operand.text}", [*operand.values]
        for when, then in node.branches:
            (test, result), more = self._all([when, then])
            text, values = f"{text} WHEN {test} THEN {result}", [*values, *more]
        if node.otherwise is not None:
            otherwise = self.translate(node.otherwise)
            text, values = f"{text} ELSE {otherwise.text}", [*values, *otherwise.values]
        return Sql(f"({text} END)", values)

    def _call(self, node: Call) -> Sql:
        name = node.name[-1].upper()
        function = _FUNCTIONS.get(name) or _LAZY.get(name)
        if function is None or len(node.name) > 1 or (name in _FUNCTIONS and len(node.arguments) != 1):
            raise NotSql
        texts, values = self._all(list(node.arguments))
        return Sql(f"{function}({', '.join(texts)})", values)


def _is_column(step: Step) -> bool:
    return step.name is not None and step.index is None and not step.kinds and step.namespace is None


def conjuncts(node: Expression | None) -> list[Expression]:
    """The parts of a condition that must all be true."""
    if node is None:
        return []
    if isinstance(node, Binary) and node.operator == "AND":
        return [*conjuncts(node.left), *conjuncts(node.right)]
    return [node]


def parts_of(node: Any) -> Iterator[Any]:
    """A node and everything below it."""
    if isinstance(node, tuple):
        for part in node:
            yield from parts_of(part)
    elif is_dataclass(node):
        yield node
        for field in fields(node):
            yield from parts_of(getattr(node, field.name))


def mentions(node: Any, names: set[str]) -> bool:
    """Whether a field reference below a node begins with one of these names."""
    return any(isinstance(part, Path) and part.steps[0].name in names for part in parts_of(node))


def columns_of(node: Any, table: str) -> list[Step] | None:
    """The columns of a table that a node reads, each once; None when it wants all of them."""
    found: dict[str, Step] = {}
    for part in parts_of(node):
        if isinstance(part, Path) and part.steps[0].name == table:
            if len(part.steps) < 2 or not _is_column(part.steps[1]):
                return None
            found.setdefault(part.steps[1].name or "", part.steps[1])
    return list(found.values())
