# SPDX-License-Identifier: Apache-2.0
"""Calls inside of expressions to Python: routines of the program, and functions of the language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.esql.compiler.field_functions import FieldFunctionCompiler
from entrepot.esql.compiler.source import Code
from entrepot.esql.compiler.unsupported import Unsupported
from entrepot.esql.runtime.functions import FUNCTIONS
from entrepot.esql.syntax import Call, Expression, Path, Routine, RoutineParameter

if TYPE_CHECKING:
    from entrepot.esql.compiler.expressions import ExpressionCompiler
    from entrepot.esql.compiler.state import RoutineState


class CallCompiler:
    """Function calls, and the arguments of CALL."""

    def __init__(self, state: RoutineState, expressions: ExpressionCompiler) -> None:
        self._expressions = expressions
        self._paths = expressions.paths
        self._field_functions = FieldFunctionCompiler(state, expressions)
        self._names = state.names
        self._constants = state.constants
        self._routines = state.routines

    def call(self, node: Call) -> Code:
        if len(node.name) == 1:
            structural = getattr(self._field_functions, "call_" + node.name[0].upper(), None)
            if structural is not None:
                compiled = structural(node)
                assert isinstance(compiled, Code)
                return compiled
        found = self._routines.find(node.name, function=True)
        if found is not None:
            return self._routine_call(node, *found)
        builtin = FUNCTIONS.get(node.name[-1].upper()) if len(node.name) == 1 else None
        if builtin is None:
            raise Unsupported(node, f"there is no function {'.'.join(node.name)}")
        arguments = [self._expressions.expression(argument).text for argument in node.arguments]
        if builtin.needs_run:
            arguments.insert(0, "run")
        if len(builtin.forms) > 1:
            arguments.append(f"form={node.form!r}")
        name = f"f_{builtin.name}"
        self._constants.define(name, builtin.call)
        return Code(f"{name}({', '.join(arguments)})")

    def _routine_call(self, node: Call, python: str, routine: Routine) -> Code:
        """A function of the program, inside of an expression."""
        outs = [parameter for parameter in routine.parameters if parameter.direction != "IN"]
        arguments = self.arguments(routine.parameters, node.arguments)
        code = f"{python}({', '.join(['run', *arguments])})"
        type_name = routine.returns.name if routine.returns is not None else ""
        if not outs:
            return Code(code, type_name if type_name not in ("ROW", "REFERENCE") else "TREE")
        kept = self._names.temporary()
        stores = []
        number = 0
        for parameter, argument in zip(routine.parameters, node.arguments, strict=True):
            if parameter.direction == "IN":
                continue
            number += 1
            symbol = self._paths.is_scalar(argument) if isinstance(argument, Path) else None
            if symbol is None or not symbol.local:
                raise Unsupported(argument, f"parameter {parameter.name} gives back a value: name a local variable")
            stores.append(f"({symbol.python} := {kept}[{number}])")
        return Code(f"(({kept} := {code}), {', '.join(stores)}, {kept}[0])[-1]", type_name)

    def arguments(self, parameters: tuple[RoutineParameter, ...], given: tuple[Expression, ...]) -> list[str]:
        texts = []
        for parameter, argument in zip(parameters, given, strict=True):
            if parameter.type.name == "REFERENCE":
                if not isinstance(argument, Path):
                    raise Unsupported(argument, f"parameter {parameter.name} is a REFERENCE: name a field")
                texts.append(self._paths.element(argument))
            elif parameter.type.name == "ROW":
                texts.append(self._expressions.tree(argument).text)
            elif parameter.direction == "OUT":
                texts.append("None")
            else:
                texts.append(self._constants.converted(self._expressions.expression(argument), parameter.type.name))
        return texts
