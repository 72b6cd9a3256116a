# SPDX-License-Identifier: Apache-2.0
"""IF, CASE, loops, blocks and RETURN to Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.esql.compiler.expressions import ExpressionCompiler
from entrepot.esql.compiler.jumps import jumps
from entrepot.esql.compiler.names import CompilerSymbol
from entrepot.esql.compiler.state import RoutineState
from entrepot.esql.compiler.unsupported import Unsupported
from entrepot.esql.syntax import Begin, CaseStatement, For, If, Iterate, Leave, Loop, Repeat, Return, Statement, While

if TYPE_CHECKING:
    from entrepot.esql.compiler.statements import StatementCompiler


class ControlCompiler:
    """Which statement comes next."""

    def __init__(self, state: RoutineState, expressions: ExpressionCompiler, statements: StatementCompiler) -> None:
        self._expressions = expressions
        self._names = state.names
        self._constants = state.constants
        self._lines = state.lines
        self._body = state.lines.body
        self._loops = state.loops
        self._paths = expressions.paths
        self._state = state
        self._statements = statements

    def do_If(self, node: If) -> None:
        conditions = [self._expressions.condition(condition) for condition, _ in node.branches]
        self._lines.flush()
        for number, (condition, (_, body)) in enumerate(zip(conditions, node.branches, strict=True)):
            with self._body.block(f"{'el' if number else ''}if {condition}:"), self._names.block():
                self._statements.statements(body)
        if node.otherwise:
            with self._body.block("else:"), self._names.block():
                self._statements.statements(node.otherwise)

    def do_CaseStatement(self, node: CaseStatement) -> None:
        kept = self._names.temporary()
        if node.operand is not None:
            self._lines.statement(f"{kept} = {self._expressions.expression(node.operand).text}")
            tests = [f"equal({kept}, {self._expressions.expression(when).text})" for when, _ in node.branches]
        else:
            tests = [self._expressions.condition(when) for when, _ in node.branches]
        self._lines.flush()
        for number, (test, (_, body)) in enumerate(zip(tests, node.branches, strict=True)):
            with self._body.block(f"{'el' if number else ''}if {test}:"), self._names.block():
                self._statements.statements(body)
        if node.otherwise:
            with self._body.block("else:"), self._names.block():
                self._statements.statements(node.otherwise)

    def _loop(self, head: str, label: str, body: tuple[Statement, ...], before: tuple[str, ...] = ()) -> None:
        # A LEAVE or ITERATE out of an inner loop travels as an exception, because Python cannot name loops.
        far = bool(label) and jumps(body, label)
        if far:
            self._body.line("try:")
            self._body.depth += 1
        with self._body.block(head), self._names.block():
            self._body.line("run.steps -= 1")
            self._body.line("if run.steps < 0: run.spent()")
            for text in before:
                self._body.line(text)
            if far:
                self._body.line("try:")
                self._body.depth += 1
            self._loops.append(label)
            self._statements.statements(body)
            self._loops.pop()
            if far:
                self._body.depth -= 1
                with self._body.block("except IterateLoop as jump:"):
                    self._body.line(f"if jump.label != {label!r}: raise")
        if far:
            self._body.depth -= 1
            with self._body.block("except LeaveLoop as jump:"):
                self._body.line(f"if jump.label != {label!r}: raise")

    def do_While(self, node: While) -> None:
        condition = self._expressions.condition(node.condition)
        self._lines.flush()
        self._loop(f"while {condition}:", node.label, node.body)

    def do_Repeat(self, node: Repeat) -> None:
        until = self._expressions.condition(node.until)
        self._lines.flush()
        started = self._names.temporary()
        self._body.line(f"{started} = False")
        self._loop("while True:", node.label, node.body, (f"if {started} and {until}: break", f"{started} = True"))

    def do_Loop(self, node: Loop) -> None:
        self._loop("while True:", node.label, node.body)

    def do_For(self, node: For) -> None:
        elements = self._paths.elements(node.source)
        self._lines.flush()
        with self._names.block():
            python = self._names.fresh(node.name, "r")
            self._names.declare(node.name, CompilerSymbol("reference", python, constant=True))
            self._body.line(f"moved_{python}, at_{python} = True, 0")
            self._loop(f"for {python} in list({elements}):", node.label, node.body)

    def do_Leave(self, node: Leave) -> None:
        if not self._loops or self._loops[-1] != node.label:
            self._far_jump("LeaveLoop", node.label, node)
        else:
            self._lines.statement("break")

    def do_Iterate(self, node: Iterate) -> None:
        if not self._loops or self._loops[-1] != node.label:
            self._far_jump("IterateLoop", node.label, node)
        else:
            self._lines.statement("continue")

    def _far_jump(self, exception: str, label: str, node: Statement) -> None:
        if label not in self._loops:
            raise Unsupported(node, f"there is no loop or block {label} around this")
        self._lines.statement(f"raise {exception}({label!r})")

    def do_Begin(self, node: Begin) -> None:
        if node.atomic:
            with self._body.block("with run_atomic():"):
                self._begin(node)
        else:
            self._begin(node)

    def _begin(self, node: Begin) -> None:
        if node.label and jumps(node.body, node.label, near=True):
            # A block that can be left is a loop of one turn.
            far = jumps(node.body, node.label)
            if far:
                self._body.line("try:")
                self._body.depth += 1
            with self._body.block("for _ in (0,):"), self._names.block():
                self._loops.append(node.label)
                self._statements.statements(node.body)
                self._loops.pop()
            if far:
                self._body.depth -= 1
                with self._body.block("except LeaveLoop as jump:"):
                    self._body.line(f"if jump.label != {node.label!r}: raise")
            return
        with self._names.block():
            self._statements.statements(node.body)

    def do_Return(self, node: Return) -> None:
        if node.value is None:
            value = "None"
        elif self._state.routine.returns is not None:
            wanted = self._state.routine.returns.name
            if wanted in ("ROW", "REFERENCE", "LIST"):
                value = self._expressions.tree(node.value).text
            else:
                value = self._constants.converted(self._expressions.scalar(node.value), wanted)
        else:
            value = self._expressions.scalar(node.value).text
        self._lines.statement(f"return {self._state.returned(value)}")
