# SPDX-License-Identifier: Apache-2.0
"""All files of a project to one Python source, and that to functions.

Generated functions are called after schema, module and routine, take the
`Run` first, and find variables of their module in `run.variables` and SHARED
ones in `run.shared`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from entrepot.errors import EsqlInvalid, EsqlRunError
from entrepot.errors.describing import error_text
from entrepot.esql.compiler.names import CompilerSymbol, Routines
from entrepot.esql.compiler.routine import RoutineCompiler
from entrepot.esql.compiler.source import Code, Line, PythonLines
from entrepot.esql.compiler.unsupported import Unsupported
from entrepot.esql.compiler.vocabulary import vocabulary
from entrepot.esql.mistakes import excerpt_of
from entrepot.esql.runtime.constants import CONSTANTS
from entrepot.esql.syntax import Begin, DataType, Declare, Module, Return, Routine, SourceFile, SourcePlace, Statement
from entrepot.esql.syntax import Literal as LiteralValue
from entrepot.esql.user_functions import call_user_function


@dataclass(frozen=True, slots=True)
class Compiled:
    """A project as Python."""

    source: str
    """What was compiled, to be read by people."""
    lines: tuple[tuple[str, int], ...]
    """File and line of ESQL for each line of `source`."""
    namespace: dict[str, Any]
    mains: Mapping[str, tuple[str, str]]
    """schema.Module to (kind of module, name of its Main in `namespace`)."""
    shared: SimpleNamespace


def compile_project(
    files: Sequence[SourceFile],
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    allow_eval: bool = False,
) -> Compiled:
    """
    Raises:
        EsqlInvalid: Everything that cannot be compiled, with its place.
    """
    return _Project(files, functions or {}, allow_eval).compile()


def python_name(*parts: str) -> str:
    return "__".join(re.sub(r"[^0-9A-Za-z_]", "_", part) for part in parts if part)


def routine_name(*parts: str) -> str:
    """The Python function of a routine; the prefix keeps a program's `concat` apart from ours."""
    return "esql_" + python_name(*parts)


def start_name(main: str) -> str:
    """The function that gives a module's variables their first values, from the name of its Main."""
    return "start_" + main.rpartition("__")[0]


class _Project:
    def __init__(
        self, files: Sequence[SourceFile], functions: Mapping[str, Callable[..., Any]], allow_eval: bool
    ) -> None:
        self.files = files
        self.functions = functions
        self.allow_eval = allow_eval
        self.constants: dict[str, Any] = dict(vocabulary())
        self.shared = SimpleNamespace()
        self.known: dict[tuple[str, ...], tuple[str, Routine]] = {}
        self.schema_names: dict[tuple[str, ...], dict[str, CompilerSymbol]] = {}
        self.mistakes: list[tuple[str, int, int, str, str]] = []
        self.lines: list[tuple[Line, str]] = []
        self.mains: dict[str, tuple[str, str]] = {}

    def compile(self) -> Compiled:
        for file in self.files:
            self._announce(file)
        schema_level = {file: self._variables(file.schema, file.declarations, file) for file in map(_Key, self.files)}
        starts: list[str] = []
        for number, file in enumerate(self.files, 1):
            own = schema_level[_Key(file)][1]
            if own:
                # A routine may be called from any module of the project, and finds the variables of its own schema.
                starts.append(f"start_schema_{number}")
                self._start(file, None, starts[-1], own, self._outer(file, {}))
        for file in self.files:
            for routine in file.routines:
                self._routine(file, None, routine, self._outer(file, {}))
            for module in file.modules:
                names, start = self._variables((*file.schema, module.name), module.declarations, file)
                outer = self._outer(file, names)
                for routine in module.routines:
                    self._routine(file, module, routine, outer)
                python = start_name(routine_name(*file.schema, module.name, "Main"))
                self._start(file, module, python, start, outer, starts)
        if self.mistakes:
            raise EsqlInvalid(tuple(sorted(self.mistakes)))
        text = "".join(f"{'    ' * depth}{line}\n" for (depth, line, _), _ in self.lines)
        places = tuple((file, place.line if place else 0) for (_, _, place), file in self.lines)
        namespace = dict(self.constants)
        exec(compile(text, GENERATED, "exec"), namespace)  # noqa: S102 -- our own source, from a checked program
        return Compiled(text, places, namespace, self.mains, self.shared)

    # --- names ----------------------------------------------------------------------------------------

    def _announce(self, file: SourceFile) -> None:
        for routine in file.routines:
            self.known[(*file.schema, routine.name)] = (routine_name(*file.schema, routine.name), routine)
        for module in file.modules:
            for routine in module.routines:
                key = (*file.schema, module.name, routine.name)
                self.known[key] = (routine_name(*key), routine)

    def _outer(self, file: SourceFile, own: dict[str, CompilerSymbol]) -> dict[str, CompilerSymbol]:
        names: dict[str, CompilerSymbol] = {
            name: CompilerSymbol("scalar", repr(value), _CONSTANT_TYPES[type(value)], constant=True, local=False)
            for name, value in CONSTANTS.items()
        }
        names["Database"] = CompilerSymbol("database", "", local=False)
        for schema in (*file.path, file.schema):
            names.update(self.schema_names.get(schema, {}))
        names.update(own)
        return names

    def _variables(
        self, owner: tuple[str, ...], declarations: tuple[Declare, ...], file: SourceFile | _Key
    ) -> tuple[dict[str, CompilerSymbol], list[tuple[Declare, str, str]]]:
        """Symbols of a module's or schema's variables, and what has to be set when a run starts."""
        symbols: dict[str, CompilerSymbol] = {}
        start: list[tuple[Declare, str, str]] = []
        for declaration in declarations:
            for name in declaration.names:
                if declaration.kind == "namespace":
                    value = getattr(declaration.value, "value", None)
                    symbols[name] = CompilerSymbol("namespace", "", value if isinstance(value, str) else "")
                    continue
                stem = python_name(*owner, name)
                kind = declaration.type.name if declaration.type is not None else "CHARACTER"
                value = declaration.value.value if isinstance(declaration.value, LiteralValue) else None
                if declaration.constant and not declaration.scope and _CONSTANT_TYPES.get(type(value)) == kind:
                    symbols[name] = CompilerSymbol("scalar", repr(value), kind, constant=True, local=False)
                    continue
                where = "run.shared" if declaration.scope == "SHARED" else "run.variables"
                row = "row" if kind in ("ROW", "LIST") else "scalar"
                symbols[name] = CompilerSymbol(
                    row,
                    f"{where}.{stem}",
                    kind,
                    constant=declaration.constant or declaration.scope == "EXTERNAL",
                    local=False,
                )
                start.append((declaration, name, f"{where}.{stem}"))
        if isinstance(file, _Key):
            self.schema_names.setdefault(owner, {}).update(symbols)
        return symbols, start

    # --- routines -------------------------------------------------------------------------------------

    def _routines(self, file: SourceFile, module: Module | None) -> Routines:
        searched = [(*file.schema, module.name)] if module is not None else []
        return Routines(self.known, [*searched, file.schema, *file.path, ()])

    def _routine(
        self, file: SourceFile, module: Module | None, routine: Routine, outer: dict[str, CompilerSymbol]
    ) -> None:
        owner = (*file.schema, module.name) if module is not None else file.schema
        python = routine_name(*owner, routine.name)
        kind = module.kind if module is not None else "COMPUTE"
        if routine.language == "ESQL":
            # Schema-level routines are shared by all kinds of modules; they see the trees of a Compute node.
            self._compiled(
                file, routine, python, kind, outer, self._routines(file, module), main=routine.name == "Main"
            )
        else:
            self._foreign(file, routine, python)
        if module is not None and routine.name == "Main":
            self.mains[".".join(owner)] = (module.kind, python)

    def _compiled(
        self,
        file: SourceFile,
        routine: Routine,
        python: str,
        kind: str,
        outer: dict[str, CompilerSymbol],
        routines: Routines,
        *,
        main: bool,
    ) -> None:
        def compiler(prefixes: Mapping[tuple[str, ...], int] | None) -> RoutineCompiler:
            return RoutineCompiler(
                routine,
                python,
                kind,
                dict(outer),
                routines,
                self.constants,
                allow_eval=self.allow_eval,
                prefixes=prefixes,
            )

        try:
            # Twice: the first time tells which paths are walked more than once.
            first = compiler(None)
            first.compile(main=main)
            self._write(file, compiler(first.state.sites.met).compile(main=main))
        except Unsupported as problem:
            self._mistake(file, problem.place, problem.problem)

    def _foreign(self, file: SourceFile, routine: Routine, python: str) -> None:
        if routine.language == "JAVA":
            function = self.functions.get(routine.external) or self.functions.get(routine.name)
            if function is None:
                problem = f"{routine.name} is {routine.external} outside of ESQL: give a Python function of that name"
                self._mistake(file, routine.place, problem)
                return
            self.constants[python] = _foreign_call(function, routine)
        elif routine.language == "DATABASE":
            self.constants[python] = self.constants["stored_procedure"](routine)
        else:
            self._mistake(file, routine.place, f"LANGUAGE {routine.language} is not supported")

    def _start(
        self,
        file: SourceFile,
        module: Module | None,
        python: str,
        start: list[tuple[Declare, str, str]],
        outer: dict[str, CompilerSymbol],
        before: Sequence[str] = (),
    ) -> None:
        """A function that gives a module's or schema's variables their first values."""
        place = module.place if module is not None else SourcePlace(1, 1)
        kind = module.kind if module is not None else "COMPUTE"
        routine = Routine(place, "start", (), None, is_function=False, language="ESQL", body=Begin(place, ()))
        compiler = RoutineCompiler(routine, python, kind, dict(outer), self._routines(file, module), self.constants)
        source = PythonLines()
        source.place = place
        try:
            with source.block(f"def {python}(run):"):
                for name in before:
                    source.line(f"{name}(run)")
                for declaration, name, target in start:
                    compiler.state.lines.body.place = declaration.place
                    _initialise(compiler, declaration, name, target)
                source.extend(compiler.state.lines.body.lines)
        except Unsupported as problem:
            self._mistake(file, problem.place, problem.problem)
            return
        for tree, python_tree in compiler.state.trees.used.items():
            source.lines.insert(1, (1, f"{tree} = {python_tree}", place))
        self._write(file, source.lines)

    # --- results --------------------------------------------------------------------------------------

    def _write(self, file: SourceFile, lines: list[Line]) -> None:
        self.lines.extend((line, file.file) for line in lines)
        self.lines.append(((0, "", None), file.file))

    def _mistake(self, file: SourceFile, place: SourcePlace, problem: str) -> None:
        self.mistakes.append(
            (file.file, place.line, place.column, problem, excerpt_of(file.text, place.line, place.column))
        )


GENERATED = "<compiled ESQL>"
"""The file name of generated source in tracebacks."""

_CONSTANT_TYPES: dict[type, str] = {int: "INTEGER", str: "CHARACTER", bytes: "BLOB"}


class _Key:
    """A file as a key, by identity."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.schema = file.schema
        self.declarations = file.declarations

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.file is self.file

    def __hash__(self) -> int:
        return id(self.file)


def _initialise(compiler: RoutineCompiler, declaration: Declare, name: str, target: str) -> None:
    kind = declaration.type.name if declaration.type is not None else "CHARACTER"
    owner, _, attribute = target.rpartition(".")
    if declaration.scope == "SHARED":
        compiler.state.lines.body.line(f"if hasattr({owner}, {attribute!r}): pass")
        with compiler.state.lines.body.block("else:"):
            _first_value(compiler, declaration, name, target, kind)
    elif declaration.scope == "EXTERNAL":
        default = "None" if declaration.value is None else compiler.expressions.expression(declaration.value).text
        compiler.state.lines.body.line(
            f"{target} = {compiler.state.constants.converted(Code(f'run.properties.get({name!r}, {default})'), kind)}"
        )
    else:
        _first_value(compiler, declaration, name, target, kind)


def _first_value(compiler: RoutineCompiler, declaration: Declare, name: str, target: str, kind: str) -> None:
    if kind in ("ROW", "LIST"):
        compiler.state.lines.statement(f"{target} = Root({name!r})")
        if declaration.value is not None:
            compiler.state.lines.statement(f"assign({target}, {compiler.expressions.tree(declaration.value).text})")
        return
    if kind == "REFERENCE":
        raise Unsupported(declaration, "a REFERENCE outside of routines")
    value = None if declaration.value is None else compiler.expressions.expression(declaration.value)
    compiler.state.lines.statement(
        f"{target} = {'None' if value is None else compiler.state.constants.converted(value, kind)}"
    )


def _foreign_call(function: Callable[..., Any], routine: Routine) -> Callable[..., Any]:
    """A Python function behind an ESQL routine; what it raises is an ESQL exception.

    With OUT and INOUT parameters it gives back a tuple: its value, then those in their order.
    """

    def call(run: Any, *arguments: Any) -> Any:
        del run
        try:
            return call_user_function(function, routine.external or routine.name, *arguments)
        except EsqlRunError:
            raise
        except Exception as error:
            problem = f"{routine.external or routine.name}: {type(error).__name__}: {error_text(error)}"
            raise EsqlRunError(problem) from error

    return call


def module_of(statements: tuple[Statement, ...], file: str, text: str, kind: str = "COMPUTE") -> SourceFile:
    """Bare statements as a file with one module, Main; they end with RETURN TRUE."""
    place = SourcePlace(1, 1)
    body = Begin(place, (*statements, Return(place, LiteralValue(place, True))))
    main = Routine(place, "Main", (), DataType(place, "BOOLEAN"), is_function=True, language="ESQL", body=body)
    module = Module(place, kind, "Statements", (), (main,))
    return SourceFile(file, text, (), (), (), (), (module,))
