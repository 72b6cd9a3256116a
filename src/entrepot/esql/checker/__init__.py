# SPDX-License-Identifier: Apache-2.0
"""Everything that can be found wrong in a program before it runs.

    for mistake in check([parse_file(text, "orders.esql")]):
        print(mistake)

All files of a project are checked together, since schemas and PATH reach
across files. A mistake stops deployment; a warning is told and lets it pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from entrepot.esql.checker.scopes import Project, Scope
from entrepot.esql.checker.statements import StatementChecks, declared
from entrepot.esql.mistakes import MISTAKE, WARNING, Mistake, invalid, mistake_in
from entrepot.esql.syntax import Declare, Module, Routine, SourceFile, SourcePlace, Statement


@dataclass(frozen=True, slots=True)
class CheckOptions:
    allow_eval: bool = False
    """EVAL runs text as a program; the author of the text is then the author of the program."""
    kind: str | None = None
    """The kind of module whose names loose statements and routines outside of modules see; any when None."""


def check(files: Sequence[SourceFile], options: CheckOptions | None = None) -> list[Mistake]:
    """Mistakes and warnings of a whole project, sorted by place; empty when there are none."""
    chosen = options or CheckOptions()
    project = Project(files)
    mistakes: list[Mistake] = []
    for file in files:
        _FileCheck(project, file, chosen, mistakes).run()
    _check_names(files, mistakes)
    return sorted(set(mistakes))


def check_statements(
    statements: tuple[Statement, ...], file: str, text: str, options: CheckOptions | None = None
) -> list[Mistake]:
    """The same for a bare body, which is that of a Compute node unless the options say otherwise."""
    chosen = options or CheckOptions()
    source = SourceFile(file, text, (), (), (), (), ())
    mistakes: list[Mistake] = []
    checks = _FileCheck(Project([source]), source, chosen, mistakes).checks(None, chosen.kind or "COMPUTE")
    for statement in statements:
        checks.statement(statement)
    return sorted(set(mistakes))


def require_valid(files: Sequence[SourceFile], options: CheckOptions | None = None) -> list[Mistake]:
    """The warnings of a program without mistakes.

    Raises:
        EsqlInvalid: There are mistakes; it has them all.
    """
    found = check(files, options)
    if any(not mistake.is_warning for mistake in found):
        raise invalid(found)
    return found


class _FileCheck:
    """One file of a project."""

    def __init__(self, project: Project, file: SourceFile, options: CheckOptions, mistakes: list[Mistake]) -> None:
        self._project = project
        self._file = file
        self._options = options
        self._mistakes = mistakes

    def report(self, place: SourcePlace, problem: str, severity: str) -> None:
        file = self._file
        self._mistakes.append(mistake_in(file.text, file.file, place.line, place.column, problem, severity=severity))

    def checks(self, module: Module | None, kind: str | None = None) -> StatementChecks:
        scope = Scope([self._project.outer_names(self._file, module), {}])
        return StatementChecks(
            self._project, self._file, module, scope, self.report, allow_eval=self._options.allow_eval, kind=kind
        )

    def run(self) -> None:
        file = self._file
        for schema in file.path:
            if schema not in self._project.schemas:
                self.report(SourcePlace(1, 1), f"PATH names the schema {'.'.join(schema)}, which no file has", WARNING)
        self._declarations(file.declarations, None)
        for routine in file.routines:
            self._routine(routine, None)
        for module in file.modules:
            self._module(module)

    def _declarations(self, declarations: tuple[Declare, ...], module: Module | None) -> None:
        checks = self.checks(module)
        for declaration in declarations:
            if declaration.type is not None and declaration.type.name == "REFERENCE":
                self.report(
                    declaration.place,
                    "a REFERENCE outside of routines is not supported; declare it in the routine",
                    MISTAKE,
                )
            declared(checks, declaration)

    def _module(self, module: Module) -> None:
        if module.kind == "DATABASEEVENT":
            self.report(module.place, "DATABASEEVENT modules are not supported", MISTAKE)
        self._declarations(module.declarations, module)
        main = next((routine for routine in module.routines if routine.name == "Main"), None)
        if main is None:
            self.report(module.place, f"{module.name} has no Main: CREATE FUNCTION Main() RETURNS BOOLEAN", MISTAKE)
        elif main.parameters or main.returns is None or main.returns.name != "BOOLEAN":
            self.report(main.place, "Main takes no arguments and RETURNS BOOLEAN", MISTAKE)
        for routine in module.routines:
            self._routine(routine, module)

    def _routine(self, routine: Routine, module: Module | None) -> None:
        if routine.language == "CLR":
            self.report(routine.place, "LANGUAGE CLR is not supported", MISTAKE)
        if routine.language == "DATABASE" and routine.is_function:
            self.report(routine.place, "a FUNCTION cannot be LANGUAGE DATABASE; make it a PROCEDURE", MISTAKE)
        if routine.is_function and routine.returns is None and routine.language == "ESQL":
            self.report(routine.place, f"the function {routine.name} has no RETURNS", WARNING)
        self.checks(module, self._options.kind if module is None else None).run(routine)


def _check_names(files: Sequence[SourceFile], mistakes: list[Mistake]) -> None:
    """Routines and modules have one name each within a schema or a module: nothing can be overloaded."""
    seen: dict[tuple[str, ...], tuple[SourceFile, SourcePlace]] = {}
    for file in files:
        named = [((*file.schema, routine.name), routine.place) for routine in file.routines]
        for module in file.modules:
            named.append(((*file.schema, module.name), module.place))
            named += [((*file.schema, module.name, routine.name), routine.place) for routine in module.routines]
        for key, place in named:
            if key in seen:
                other, before = seen[key]
                where = f"line {before.line}" if other is file else f"{other.file}, line {before.line}"
                problem = f"there is a {key[-1]} already, in {where}"
                mistakes.append(mistake_in(file.text, file.file, place.line, place.column, problem))
            else:
                seen[key] = (file, place)
