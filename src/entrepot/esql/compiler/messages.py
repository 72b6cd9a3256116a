# SPDX-License-Identifier: Apache-2.0
"""Statements that leave the routine to Python: PROPAGATE, THROW, RESIGNAL, LOG."""

from __future__ import annotations

from entrepot.esql.compiler.expressions import ExpressionCompiler
from entrepot.esql.compiler.state import RoutineState
from entrepot.esql.syntax import Expression, LogStatement, Propagate, Resignal, Throw


class MessageCompiler:
    """Messages, exceptions and the log."""

    def __init__(self, state: RoutineState, expressions: ExpressionCompiler) -> None:
        self._expressions = expressions
        self._lines = state.lines

    def _clause(self, clause: Expression | None) -> str:
        return "None" if clause is None else self._expressions.expression(clause).text

    def do_Propagate(self, node: Propagate) -> None:
        trees = ", ".join(
            "None" if clause is None else self._expressions.tree(clause).text
            for clause in (node.environment, node.message, node.exception)
        )
        where = f"{self._clause(node.terminal)}, {self._clause(node.label)}"
        self._lines.statement(f"propagate(run, {where}, {trees}, finalize={node.finalize}, delete={node.delete})")

    def do_Throw(self, node: Throw) -> None:
        values = "".join(f"{self._expressions.expression(value).text}, " for value in node.values)
        clauses = ", ".join(self._clause(clause) for clause in (node.severity, node.catalog, node.message))
        self._lines.statement(f"throw({clauses}, ({values}))")

    def do_Resignal(self, node: Resignal) -> None:
        del node
        self._lines.statement("run.resignal()")

    def do_LogStatement(self, node: LogStatement) -> None:
        values = "".join(f"{self._expressions.expression(value).text}, " for value in node.values)
        clauses = ", ".join(self._clause(clause) for clause in (node.severity, node.catalog, node.message))
        self._lines.statement(f"log(run, {node.where!r}, {node.exception}, {clauses}, ({values}))")
