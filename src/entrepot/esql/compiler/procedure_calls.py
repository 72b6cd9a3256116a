# SPDX-License-Identifier: Apache-2.0
"""CALL to Python, and what the routine gives back."""

from __future__ import annotations

from entrepot.esql.compiler.expressions import ExpressionCompiler
from entrepot.esql.compiler.source import Code
from entrepot.esql.compiler.state import RoutineState
from entrepot.esql.compiler.unsupported import Unsupported
from entrepot.esql.syntax import CallStatement, Expression, Path


class ProcedureCallCompiler:
    """Calls that are statements."""

    def __init__(self, state: RoutineState, expressions: ExpressionCompiler) -> None:
        self._expressions = expressions
        self._names = state.names
        self._constants = state.constants
        self._lines = state.lines
        self._body = state.lines.body
        self._routines = state.routines
        self._paths = expressions.paths

    def do_CallStatement(self, node: CallStatement) -> None:
        found = self._routines.find(node.name, function=False)
        if found is None:
            raise Unsupported(node, f"there is no procedure {'.'.join(node.name)}")
        python, routine = found
        if node.schema is not None:
            raise Unsupported(node, "CALL ... EXTERNAL SCHEMA is not supported: name the schema in EXTERNAL NAME")
        if len(node.arguments) != len(routine.parameters):
            problem = f"{routine.name} takes {len(routine.parameters)} arguments, not {len(node.arguments)}"
            raise Unsupported(node, problem)
        arguments = self._expressions.calls.arguments(routine.parameters, node.arguments)
        database = ""
        if routine.language == "DATABASE":
            database = f", source={self._expressions.databases.database_name(node.database)}"
        code = f"{python}({', '.join(['run', *arguments])}{database})"
        outs = [
            (parameter, argument)
            for parameter, argument in zip(routine.parameters, node.arguments, strict=True)
            if parameter.direction != "IN"
        ]
        if not outs and node.into is None:
            self._lines.statement(code)
            return
        kept = self._names.temporary()
        self._lines.statement(f"{kept} = {code}")
        for number, (parameter, argument) in enumerate(outs, 1):
            if parameter.type.name in ("REFERENCE", "ROW") and parameter.direction == "INOUT":
                self._give_back(argument, f"{kept}[{number}]", tree=True)
            else:
                self._give_back(argument, f"{kept}[{number}]")
        if node.into is not None:
            self._give_back(node.into, f"{kept}[0]" if outs else kept)

    def _give_back(self, target: Expression, value: str, *, tree: bool = False) -> None:
        if not isinstance(target, Path):
            raise Unsupported(target, "what gives back a value has to be a variable or a field")
        scalar = self._paths.is_scalar(target)
        if scalar is not None:
            if scalar.constant:
                raise Unsupported(target, f"{target.steps[0].name} is a constant")
            self._body.line(f"{scalar.python} = {self._constants.converted(Code(value), scalar.type)}")
            return
        symbol, rest = self._paths.resolve(target)
        if tree and symbol.kind == "reference" and not rest:
            self._body.line(f"{symbol.python} = {value}")
            return
        if tree:
            return
        base, steps = self._paths.base(target)
        self._lines.flush()
        with self._body.block(f"if {value} is None:"):
            self._body.line(f"discard({self._paths.below(base, steps)})")
        with self._body.block("else:"):
            self._body.line(f"assign({self._paths.made(base, steps)}, {value})")
