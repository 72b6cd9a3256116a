# SPDX-License-Identifier: Apache-2.0
"""What can be wrong in a statement: declarations, assignments, labels, references, and where a flow may be left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from entrepot.esql.checker import certain_types
from entrepot.esql.checker.expressions import ExpressionChecks
from entrepot.esql.checker.scopes import READ_ONLY, CheckerSymbol, similar, symbol_of
from entrepot.esql.syntax import (
    Attach,
    Begin,
    CallStatement,
    CaseStatement,
    Create,
    Declare,
    DeleteField,
    DeleteFrom,
    Detach,
    Eval,
    Finish,
    For,
    Handler,
    If,
    Insert,
    Iterate,
    Leave,
    Literal,
    LogStatement,
    Loop,
    Move,
    PassthruStatement,
    Path,
    Propagate,
    Repeat,
    Resignal,
    Return,
    Routine,
    Set,
    Statement,
    SyntaxNode,
    Throw,
    Update,
    While,
)


def alike(left: Any, right: Any) -> bool:
    """Whether two parts of a program say the same, wherever they stand."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(alike(*pair) for pair in zip(left, right, strict=True))
    if isinstance(left, SyntaxNode) and type(left) is type(right):
        return all(
            alike(getattr(left, field.name), getattr(right, field.name))
            for field in fields(left)
            if field.name != "place"
        )
    return type(left) is type(right) and bool(left == right)


class StatementChecks(ExpressionChecks):
    """The statements of one routine."""

    routine: Routine | None = None
    in_handler = False

    def run(self, routine: Routine) -> None:
        """Check a routine's parameters and body."""
        self.routine = routine
        with self.scope.block():
            for parameter in routine.parameters:
                if self.scope.here(parameter.name) is not None:
                    self.mistake(parameter, f"there are two parameters {parameter.name}")
                type_ = parameter.type.name
                fixed = parameter.direction == "IN" and type_ not in ("REFERENCE", "ROW", "LIST")
                self.scope.add(
                    CheckerSymbol(parameter.name, parameter.place, type_, parameter.constant, read_only=fixed)
                )
            if routine.body is not None:
                self.statement(routine.body)
        if routine.body is not None and routine.returns is not None and not self.returned:
            self.warning(routine, f"{routine.name} never returns a value")

    def statement(self, node: Statement) -> None:
        check: Callable[[Any], None] = getattr(self, f"on_{type(node).__name__.lower()}")
        check(node)

    def statements(self, nodes: tuple[Statement, ...]) -> None:
        """A list of statements with its own names."""
        with self.scope.block():
            for node in nodes:
                self.statement(node)

    # --- names ------------------------------------------------------------------------------------

    def on_declare(self, node: Declare) -> None:
        if node.scope:
            self.mistake(node, f"{node.scope} variables are declared outside of routines")
        declared(self, node)

    def declaration_value(self, node: Declare) -> None:
        """The first value of a declaration, which cannot yet see its names."""
        type_ = self.expression(node.value)
        if node.kind != "variable":
            self._report_problem(node, certain_types.assignment_problem(type_, "CHARACTER"))
        elif node.type is not None:
            if node.type.name == "REFERENCE" and not isinstance(node.value, Path):
                self.mistake(node, f"the REFERENCE {node.names[0]} needs TO and a field")
            elif node.value is not None:
                self._report_problem(node.value, certain_types.assignment_problem(type_, node.type.name))
        if node.constant and node.value is None and node.scope != "EXTERNAL":
            self.mistake(node, f"the constant {node.names[0]} needs a value")

    def assignable(self, path: Path) -> None:
        head = path.steps[0].name or ""
        symbol = self.scope.find(head)
        if symbol is None:
            if head in READ_ONLY and self.kind == "COMPUTE":
                self.mistake(path, f"{head} cannot be changed in a COMPUTE module; OutputRoot can")
            elif self.kind == "FILTER" and head in ("Root", "Body", "Properties"):
                self.mistake(path, f"{head} cannot be changed in a FILTER module")
            return
        if symbol.constant:
            self.mistake(path, f"{head} is a constant")
        elif symbol.read_only and len(path.steps) == 1:
            self.warning(path, f"{head} is an IN parameter; the caller will not see the change")

    def on_set(self, node: Set) -> None:
        target = self.expression(node.target)
        self.assignable(node.target)
        source = self.expression(node.value)
        symbol = self._variable(node.target)
        if node.facet in ("NAME", "NAMESPACE", "TYPE") and symbol is not None and not symbol.has_fields:
            self.mistake(node.target, f"{symbol.name} is {symbol.type}, not a field that has a {node.facet}")
        elif target and not node.facet:
            self._report_problem(node.value, certain_types.assignment_problem(source, target))

    # --- control ------------------------------------------------------------------------------------

    def condition(self, node: Any, word: str) -> None:
        self._report_problem(node, certain_types.truth_problem(word, self.expression(node)))

    def on_if(self, node: If) -> None:
        for condition, then in node.branches:
            self.condition(condition, "IF")
            self.statements(then)
        self.statements(node.otherwise)

    def on_casestatement(self, node: CaseStatement) -> None:
        operand = self.expression(node.operand)
        for when, then in node.branches:
            if node.operand is None:
                self.condition(when, "WHEN")
            else:
                self._report_problem(when, certain_types.comparison_problem("=", operand, self.expression(when)))
            self.statements(then)
        self.statements(node.otherwise or ())

    @contextmanager
    def labelled(self, label: str, node: SyntaxNode) -> Any:
        if label and label in self.labels:
            self.mistake(node, f"the label {label} is used by a block around this one")
        self.labels.append(label)
        yield
        self.labels.pop()

    def on_while(self, node: While) -> None:
        self.condition(node.condition, "WHILE")
        with self.labelled(node.label, node):
            self.statements(node.body)

    def on_repeat(self, node: Repeat) -> None:
        with self.labelled(node.label, node):
            self.statements(node.body)
        self.condition(node.until, "UNTIL")

    def on_loop(self, node: Loop) -> None:
        with self.labelled(node.label, node):
            self.statements(node.body)

    def on_for(self, node: For) -> None:
        self.expression(node.source)
        with self.labelled(node.label, node), self.scope.block():
            self.scope.add(CheckerSymbol(node.name, node.place))
            self.statements(node.body)

    def on_begin(self, node: Begin) -> None:
        with self.labelled(node.label, node):
            self.statements(node.body)

    def on_leave(self, node: Leave) -> None:
        self._jump(node, node.label, "LEAVE")

    def on_iterate(self, node: Iterate) -> None:
        self._jump(node, node.label, "ITERATE")

    def _jump(self, node: SyntaxNode, label: str, word: str) -> None:
        known = [name for name in self.labels if name]
        if label not in known:
            self.mistake(node, f"{word} {label}: no loop or block around this has that label{similar(label, known)}")

    def on_return(self, node: Return) -> None:
        type_ = self.expression(node.value)
        routine = self.routine
        if routine is None:
            return
        self.returned = True
        if routine.returns is None:
            if node.value is not None:
                self.mistake(node.value, f"{routine.name} has no RETURNS, so RETURN takes no value")
        elif node.value is None:
            self.mistake(node, f"{routine.name} returns {routine.returns.name}, so RETURN needs a value")
        else:
            self._report_problem(node.value, certain_types.assignment_problem(type_, routine.returns.name))

    def on_callstatement(self, node: CallStatement) -> None:
        routine = self.project.find_routine(node.name, self.file, self.module)
        if routine is None:
            self._arguments(node.arguments)
            known = self.project.routine_names(self.file, self.module)
            self.mistake(node, f"there is no procedure {'.'.join(node.name)}{similar(node.name[-1], known)}")
        else:
            self.routine_call(node, routine, node.arguments)
            if node.into is not None and routine.returns is None:
                self.mistake(node.into, f"{routine.name} has no RETURNS, so INTO gets nothing")
        if node.into is not None:
            self.expression(node.into)
            self.assignable(node.into)
        if node.database is not None:
            self.database(node.database)
        self.expression(node.schema)

    def on_handler(self, node: Handler) -> None:
        before, self.in_handler = self.in_handler, True
        self.statement(node.body)
        self.in_handler = before

    def on_resignal(self, node: Resignal) -> None:
        if not self.in_handler:
            self.mistake(node, "RESIGNAL stands in a HANDLER only")

    def on_throw(self, node: Throw) -> None:
        for part in (node.severity, node.catalog, node.message, *node.values):
            self.expression(part)

    def on_logstatement(self, node: LogStatement) -> None:
        for part in (node.severity, node.catalog, node.message, *node.values):
            self.expression(part)

    def on_eval(self, node: Eval) -> None:
        self.expression(node.text)
        if not self.allow_eval:
            self.mistake(node, "EVAL runs text as a program and is off; allow_eval turns it on")

    def on_propagate(self, node: Propagate) -> None:
        if self.kind not in ("COMPUTE", "DATABASE", ""):
            self.mistake(node, f"PROPAGATE stands in COMPUTE and DATABASE modules, not in a {self.kind} module")
        for part in (node.terminal, node.label, node.environment, node.message, node.exception):
            self.expression(part)

    # --- elements -----------------------------------------------------------------------------------

    def reference(self, node: SyntaxNode, name: str, word: str) -> None:
        """Whether a name is a REFERENCE that can be moved."""
        symbol = self.scope.find(name)
        if symbol is None:
            self.mistake(node, f"{name} is not declared{similar(name, list(self.scope.names()))}")
        elif not symbol.is_reference:
            self.mistake(node, f"{word} {name}: {name} is {symbol.type or 'a correlation name'}, not a REFERENCE")

    def on_move(self, node: Move) -> None:
        self.reference(node, node.reference, "MOVE")
        self.expression(node.target)
        self.kinds(node.kinds)
        self.expression(node.namespace)
        self.expression(node.name)

    def on_attach(self, node: Attach) -> None:
        self.reference(node, node.reference, "ATTACH")
        self.expression(node.target)

    def on_detach(self, node: Detach) -> None:
        self.reference(node, node.reference, "DETACH")

    def on_create(self, node: Create) -> None:
        self.expression(node.target)
        self.assignable(node.target)
        if node.alias:
            self.reference(node, node.alias, "AS")
        self.kinds(node.kinds)
        if isinstance(node.domain, Literal):
            self.domain(node.domain, node.domain.value)
        parts = (node.domain, node.namespace, node.name, node.value, node.source, node.parse, node.options)
        for part in (*parts, node.encoding, node.ccsid, node.set, node.type, node.format):
            self.expression(part)

    def on_deletefield(self, node: DeleteField) -> None:
        self.expression(node.target)
        self.assignable(node.target)

    # --- tables -------------------------------------------------------------------------------------

    def on_insert(self, node: Insert) -> None:
        self.database(node.target)
        self._arguments(node.values)

    def on_update(self, node: Update) -> None:
        self._on_table(node, node.target, node.alias, (*(value for _, value in node.settings), node.where))

    def on_deletefrom(self, node: DeleteFrom) -> None:
        self._on_table(node, node.target, node.alias, (node.where,))

    def _on_table(self, node: SyntaxNode, target: Path, alias: str, parts: tuple[Any, ...]) -> None:
        self.database(target)
        with self.scope.block(columns=True):
            name = alias or target.steps[-1].name
            if name:
                self.scope.add(CheckerSymbol(name, node.place))
            for part in parts:
                self.expression(part)

    def on_passthrustatement(self, node: PassthruStatement) -> None:
        self.expression(node.passthru)

    def on_finish(self, node: Finish) -> None:
        if node.database is not None:
            self.database(node.database)


def declared(checks: StatementChecks, node: Declare) -> None:
    """A DECLARE, in a routine or outside: its first value, and whether its names are free."""
    checks.declaration_value(node)
    for name in node.names:
        before = checks.scope.here(name)
        if before is not None:
            if before.declaration is not None and _same_declaration(before.declaration, node):
                checks.warning(node, f"{name} is declared a second time, as in line {before.place.line}")
            else:
                checks.mistake(node, f"{name} is declared already, in line {before.place.line}")
        checks.scope.add(symbol_of(node, name))


def _same_declaration(left: Declare, right: Declare) -> bool:
    return (left.scope, left.constant, left.kind) == (right.scope, right.constant, right.kind) and (
        alike((left.type, left.value), (right.type, right.value))
    )
