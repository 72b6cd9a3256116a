# SPDX-License-Identifier: Apache-2.0
"""One routine to one Python function."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from entrepot.errors import EsqlInvalid
from entrepot.esql.compiler.databases import DatabaseCompiler
from entrepot.esql.compiler.evaluation import Evaluator
from entrepot.esql.compiler.names import TREES, CompilerSymbol, NamesInScope
from entrepot.esql.compiler.paths import Code
from entrepot.esql.compiler.selects import SelectCompiler
from entrepot.esql.compiler.source import INDENT, Line, PythonLines
from entrepot.esql.compiler.statements import StatementCompiler
from entrepot.esql.syntax import Begin, Call, Declare, Eval, Literal, Path, Routine, SourcePlace, Step

_WORDS = re.compile(r"\w+")


class Unsupported(Exception):
    """A construct that cannot be compiled, and where; the project turns it into an EsqlInvalid."""

    def __init__(self, place: SourcePlace, problem: str) -> None:
        super().__init__(problem)
        self.place = place
        self.problem = problem


class Routines:
    """Which routine a name means, seen from one module of one schema."""

    def __init__(self, known: dict[tuple[str, ...], tuple[str, Routine]], searched: list[tuple[str, ...]]) -> None:
        self._known = known
        self._searched = searched

    def find(self, name: tuple[str, ...], *, function: bool) -> tuple[str, Routine] | None:
        for prefix in self._searched:
            found = self._known.get((*prefix, *name))
            if found is not None and (not function or found[1].is_function):
                return found
        return None


class RoutineCompiler(StatementCompiler):
    """Compiles one routine. Statements, expressions and paths are in the classes above it; SELECT and
    databases are parts of it."""

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
        super().__init__()
        self.selects = SelectCompiler(self)
        self.databases = DatabaseCompiler(self)
        self.trees = TREES.get(module_kind, {})
        self.prefixes = {}
        kept = [prefix for prefix, count in (prefixes or {}).items() if count > 1]
        self.sites = {prefix: f"site{number}" for number, prefix in enumerate(kept, 1)}
        self.constants = constants
        self.routine = routine
        self.python = python
        self.module_kind = module_kind
        self.routines = routines
        self.allow_eval = allow_eval
        self.names = NamesInScope(outer)
        self.trees_used: dict[str, str] = {}

    def compile(self, *, main: bool) -> list[Line]:
        """The lines of the function.

        Raises:
            Unsupported: The first construct that cannot be compiled.
        """
        routine = self.routine
        assert routine is not None
        parameters = []
        opening: list[str] = []
        for parameter in routine.parameters:
            kind = parameter.type.name
            if kind == "REFERENCE":
                python = self.names.fresh(parameter.name, "r")
                self.names.declare(parameter.name, CompilerSymbol("reference", python))
                opening.append(f"moved_{python}, at_{python} = {python} is not None, 0")
                opening.append(f"if {python} is None: {python} = Element('')")
            elif kind in ("ROW", "LIST"):
                python = self.names.fresh(parameter.name, "row")
                self.names.declare(parameter.name, CompilerSymbol("row", python))
                opening.append(f"{python} = row_of({python}, {parameter.name!r})")
            else:
                python = self.names.fresh(parameter.name)
                self.names.declare(parameter.name, CompilerSymbol("scalar", python, kind, constant=parameter.constant))
            parameters.append(python)
            if parameter.direction != "IN":
                self.outs.append(python)
        with self.names.block():
            body = routine.body
            self.statements(body.body if isinstance(body, Begin) and not body.label else (body,) if body else ())
        return self._function(parameters, opening, main=main)

    def _function(self, parameters: list[str], opening: list[str], *, main: bool) -> list[Line]:
        routine = self.routine
        assert routine is not None
        source = PythonLines()
        source.place = routine.place
        with source.block(f"def {self.python}({', '.join(['run', *parameters])}):"):
            if not main:
                source.line("run.enter()")
                source.line("try:")
                source.depth += 1
            for name, python in sorted(self.trees_used.items()):
                source.line(f"{name} = {python}")
            for line in [*opening, *(f"{site} = [-1, None, None]" for site in self.sites.values())]:
                source.line(line)
            source.extend(self.source.lines)
            if not (self.source.lines and self.source.lines[-1][:2] == (0, "return True")):
                source.line(f"return {self.returned('None')}")
            if not main:
                source.depth -= 1
                source.line("finally:")
                source.line("    run.depth -= 1")
        return source.lines

    # --- what the parts above need ----------------------------------------------------------------------

    def unsupported(self, node: object, problem: str) -> Unsupported:
        return Unsupported(getattr(node, "place", SourcePlace(1, 1)), problem)

    def resolve(self, path: Path) -> tuple[CompilerSymbol, tuple[Step, ...]]:
        name = path.steps[0].name or ""
        trees = self.trees
        if self.names.find(name) is None:
            for tree, python in trees.items():
                # Trees are local names; the function takes from the run those that it uses.
                self.names._blocks[0].setdefault(tree, CompilerSymbol("tree", tree, python, local=False))
        symbol, rest = super().resolve(path)
        for tree in _WORDS.findall(symbol.python):
            if tree in trees:
                self.trees_used[tree] = trees[tree]
        return symbol, rest

    def find_routine(self, name: tuple[str, ...], *, function: bool) -> tuple[str, Routine] | None:
        return self.routines.find(name, function=function)

    def namespace_value(self, node: Declare) -> str:
        if isinstance(node.value, Literal) and isinstance(node.value.value, str):
            return node.value.value
        raise self.unsupported(node, "a NAMESPACE is a character literal")

    # --- EVAL -------------------------------------------------------------------------------------------

    def evaluation(self, node: Call) -> Code:
        text = self.expression(node.arguments[0]).text
        evaluator, names = self._evaluator(node, statements=False)
        values = "".join(f", {symbol.python}" for symbol in names.values())
        return Code(f"{evaluator}(run, {text}{values}){'[0]' if names else ''}")

    def do_Eval(self, node: Eval) -> None:
        text = self.expression(node.text).text
        evaluator, names = self._evaluator(node, statements=True)
        values = "".join(f", {symbol.python}" for symbol in names.values())
        kept = self.names.temporary()
        self.line(f"{kept} = {evaluator}(run, {text}{values})")
        for number, symbol in enumerate(names.values(), 1):
            if not symbol.constant:
                self.source.line(f"{symbol.python} = {kept}[{number}]")

    def _evaluator(self, node: Call | Eval, *, statements: bool) -> tuple[str, dict[str, CompilerSymbol]]:
        if not self.allow_eval:
            raise self.unsupported(node, "EVAL is off: it runs text as a program; allow_eval turns it on")
        names = self.names.locals_in_scope()
        outer = dict(self.names._blocks[0])

        def compile_routine(routine: Routine, text: str) -> Callable[..., Any]:
            constants = dict(self.constants)
            compiler = RoutineCompiler(routine, "evaluated", self.module_kind, dict(outer), self.routines, constants)
            try:
                lines = compiler.compile(main=False)
            except Unsupported as problem:
                mistake = ("<EVAL>", problem.place.line, problem.place.column, problem.problem, text)
                raise EsqlInvalid((mistake,)) from None
            source = "".join(f"{INDENT * depth}{line}\n" for depth, line, _ in lines)
            exec(compile(source, "<EVAL>", "exec"), constants)  # noqa: S102 -- allowed by the deployment
            function: Callable[..., Any] = constants["evaluated"]
            return function

        return self.constant(Evaluator(names, compile_routine, statements=statements), "evaluate"), names
