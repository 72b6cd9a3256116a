# SPDX-License-Identifier: Apache-2.0
"""Functions that look at fields rather than at values, and so are no Python functions of their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.esql.compiler.source import Code
from entrepot.esql.compiler.unsupported import Unsupported
from entrepot.esql.syntax import Call, Path

if TYPE_CHECKING:
    from entrepot.esql.compiler.expressions import ExpressionCompiler
    from entrepot.esql.compiler.state import RoutineState


class FieldFunctionCompiler:
    """One method for each function, called after it."""

    def __init__(self, state: RoutineState, expressions: ExpressionCompiler) -> None:
        self._expressions = expressions
        self._paths = expressions.paths
        self._names = state.names

    def _path_argument(self, node: Call) -> Path:
        if len(node.arguments) != 1 or not isinstance(node.arguments[0], Path):
            raise Unsupported(node, f"{node.name[0].upper()} takes one field reference")
        return node.arguments[0]

    def call_CARDINALITY(self, node: Call) -> Code:
        if len(node.arguments) != 1:
            raise Unsupported(node, "CARDINALITY takes one list")
        return Code(f"cardinality({self._expressions.as_list(node.arguments[0])})", "INTEGER")

    def call_EXISTS(self, node: Call) -> Code:
        if len(node.arguments) != 1:
            raise Unsupported(node, "EXISTS takes one list")
        return Code(f"(cardinality({self._expressions.as_list(node.arguments[0])}) > 0)", "BOOLEAN")

    def call_SINGULAR(self, node: Call) -> Code:
        if len(node.arguments) != 1:
            raise Unsupported(node, "SINGULAR takes one list")
        return Code(f"(cardinality({self._expressions.as_list(node.arguments[0])}) == 1)", "BOOLEAN")

    def call_FIELDNAME(self, node: Call) -> Code:
        return Code(f"field_name({self._paths.element(self._path_argument(node))})", "CHARACTER")

    def call_FIELDNAMESPACE(self, node: Call) -> Code:
        return Code(f"field_namespace({self._paths.element(self._path_argument(node))})", "CHARACTER")

    def call_FIELDTYPE(self, node: Call) -> Code:
        return Code(f"field_type({self._paths.element(self._path_argument(node))})", "INTEGER")

    def call_FIELDVALUE(self, node: Call) -> Code:
        return Code(f"value_of({self._paths.element(self._path_argument(node))})")

    def call_LASTMOVE(self, node: Call) -> Code:
        path = self._path_argument(node)
        symbol = self._names.find(path.steps[0].name or "")
        if symbol is None or symbol.kind != "reference" or len(path.steps) > 1:
            raise Unsupported(node, "LASTMOVE takes a REFERENCE variable")
        return Code(f"moved_{symbol.python}", "BOOLEAN")

    def call_SAMEFIELD(self, node: Call) -> Code:
        if len(node.arguments) != 2 or not all(isinstance(argument, Path) for argument in node.arguments):
            raise Unsupported(node, "SAMEFIELD takes two field references")
        left, right = (self._paths.element(argument) for argument in node.arguments if isinstance(argument, Path))
        return Code(f"({left} is {right})", "BOOLEAN")

    def call_COALESCE(self, node: Call) -> Code:
        text = self._expressions.expression(node.arguments[-1]).text
        for argument in reversed(node.arguments[:-1]):
            kept = self._names.temporary()
            text = f"({kept} if ({kept} := {self._expressions.expression(argument).text}) is not None else {text})"
        return Code(text)

    def call_NULLIF(self, node: Call) -> Code:
        if len(node.arguments) != 2:
            raise Unsupported(node, "NULLIF takes two values")
        kept = self._names.temporary()
        left, right = (self._expressions.expression(argument).text for argument in node.arguments)
        return Code(f"(None if equal(({kept} := {left}), {right}) else {kept})")

    def call_BITSTREAM(self, node: Call) -> Code:
        return Code(f"bitstream(run, {self._paths.element(self._path_argument(node))}, *[None] * 6)", "BLOB")

    def call_EVAL(self, node: Call) -> Code:
        return self._expressions.evaluations.expression(node)
