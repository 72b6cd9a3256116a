# SPDX-License-Identifier: Apache-2.0
"""One routine to one Python function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from entrepot.errors import EsqlInvalid
from entrepot.esql.compiler.constants import Constants
from entrepot.esql.compiler.expressions import ExpressionCompiler
from entrepot.esql.compiler.names import CompilerSymbol, NamesInScope, Routines
from entrepot.esql.compiler.source import INDENT, Line, PythonLines
from entrepot.esql.compiler.state import ModuleTrees, PathSites, RoutineState
from entrepot.esql.compiler.statements import StatementCompiler
from entrepot.esql.compiler.unsupported import Unsupported
from entrepot.esql.syntax import Begin, Routine


class RoutineCompiler:
    """Compiles one routine: its parameters and the function around its statements."""

    def __init__(
        self,
        routine: Routine,
        python: str,
        module_kind: str,
        outer: dict[str, CompilerSymbol],
        routines: Routines,
        constants: dict[str, Any],
        *,
        allow_eval: bool = False,
        prefixes: Mapping[tuple[str, ...], int] | None = None,
    ) -> None:
        self._python = python
        self.state = RoutineState(
            routine,
            NamesInScope(outer),
            Constants(constants),
            routines,
            ModuleTrees(module_kind),
            PathSites(prefixes or {}),
            partial(_compile_evaluated, module_kind, routines, constants) if allow_eval else None,
        )
        self.expressions = ExpressionCompiler(self.state)
        self._statements = StatementCompiler(self.state, self.expressions)

    def compile(self, *, main: bool) -> list[Line]:
        """The lines of the function.

        Raises:
            Unsupported: The first construct that cannot be compiled.
        """
        routine = self.state.routine
        names = self.state.names
        parameters = []
        opening: list[str] = []
        for parameter in routine.parameters:
            kind = parameter.type.name
            if kind == "REFERENCE":
                python = names.fresh(parameter.name, "r")
                names.declare(parameter.name, CompilerSymbol("reference", python))
                opening.append(f"moved_{python}, at_{python} = {python} is not None, 0")
                opening.append(f"if {python} is None: {python} = Element('')")
            elif kind in ("ROW", "LIST"):
                python = names.fresh(parameter.name, "row")
                names.declare(parameter.name, CompilerSymbol("row", python))
                opening.append(f"{python} = row_of({python}, {parameter.name!r})")
            else:
                python = names.fresh(parameter.name)
                names.declare(parameter.name, CompilerSymbol("scalar", python, kind, constant=parameter.constant))
            parameters.append(python)
            if parameter.direction != "IN":
                self.state.outs.append(python)
        with names.block():
            body = routine.body
            self._statements.statements(
                body.body if isinstance(body, Begin) and not body.label else (body,) if body else ()
            )
        return self._function(parameters, opening, main=main)

    def _function(self, parameters: list[str], opening: list[str], *, main: bool) -> list[Line]:
        routine = self.state.routine
        body = self.state.lines.body
        source = PythonLines()
        source.place = routine.place
        with source.block(f"def {self._python}({', '.join(['run', *parameters])}):"):
            if not main:
                source.line("run.enter()")
                source.line("try:")
                source.depth += 1
            for name, python in sorted(self.state.trees.used.items()):
                source.line(f"{name} = {python}")
            for line in [*opening, *(f"{site} = [-1, None, None]" for site in self.state.sites.variables())]:
                source.line(line)
            source.extend(body.lines)
            if not (body.lines and body.lines[-1][:2] == (0, "return True")):
                source.line(f"return {self.state.returned('None')}")
            if not main:
                source.depth -= 1
                source.line("finally:")
                source.line("    run.depth -= 1")
        return source.lines


def _compile_evaluated(
    module_kind: str,
    routines: Routines,
    known: dict[str, Any],
    outer: dict[str, CompilerSymbol],
    routine: Routine,
    text: str,
) -> Callable[..., Any]:
    """The text of an EVAL as a function; it may not use EVAL itself."""
    constants = dict(known)
    compiler = RoutineCompiler(routine, "evaluated", module_kind, dict(outer), routines, constants)
    try:
        lines = compiler.compile(main=False)
    except Unsupported as problem:
        mistake = ("<EVAL>", problem.place.line, problem.place.column, problem.problem, text)
        raise EsqlInvalid((mistake,)) from None
    source = "".join(f"{INDENT * depth}{line}\n" for depth, line, _ in lines)
    exec(compile(source, "<EVAL>", "exec"), constants)  # noqa: S102 -- allowed by the deployment
    function: Callable[..., Any] = constants["evaluated"]
    return function
