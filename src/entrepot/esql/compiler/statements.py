# SPDX-License-Identifier: Apache-2.0
"""Statements to Python: blocks, their handlers, and which part compiles which statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from entrepot.esql.compiler.assignments import COPIES_LEAST, AssignmentCompiler
from entrepot.esql.compiler.control import ControlCompiler
from entrepot.esql.compiler.expressions import ExpressionCompiler
from entrepot.esql.compiler.fields import FieldCompiler
from entrepot.esql.compiler.jumps import goes_on
from entrepot.esql.compiler.messages import MessageCompiler
from entrepot.esql.compiler.procedure_calls import ProcedureCallCompiler
from entrepot.esql.compiler.state import RoutineState
from entrepot.esql.compiler.unsupported import Unsupported
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
    LogStatement,
    Loop,
    Move,
    PassthruStatement,
    Propagate,
    Repeat,
    Resignal,
    Return,
    Set,
    Statement,
    Throw,
    Update,
    While,
)


class StatementCompiler:
    """Blocks with their handlers; each kind of statement has a part of its own."""

    def __init__(self, state: RoutineState, expressions: ExpressionCompiler) -> None:
        self._names = state.names
        self._body = state.lines.body
        self._loops = state.loops
        assignments = self._assignments = AssignmentCompiler(state, expressions)
        control = ControlCompiler(state, expressions, self)
        procedure_calls = ProcedureCallCompiler(state, expressions)
        fields = FieldCompiler(state, expressions)
        messages = MessageCompiler(state, expressions)
        databases = expressions.databases
        evaluations = expressions.evaluations
        self._compilers: dict[type[Statement], Callable[[Any], None]] = {
            Declare: assignments.do_Declare,
            Set: assignments.do_Set,
            If: control.do_If,
            CaseStatement: control.do_CaseStatement,
            While: control.do_While,
            Repeat: control.do_Repeat,
            Loop: control.do_Loop,
            For: control.do_For,
            Leave: control.do_Leave,
            Iterate: control.do_Iterate,
            Begin: control.do_Begin,
            Return: control.do_Return,
            CallStatement: procedure_calls.do_CallStatement,
            Move: fields.do_Move,
            Create: fields.do_Create,
            DeleteField: fields.do_DeleteField,
            Attach: fields.do_Attach,
            Detach: fields.do_Detach,
            Propagate: messages.do_Propagate,
            Throw: messages.do_Throw,
            Resignal: messages.do_Resignal,
            LogStatement: messages.do_LogStatement,
            Insert: databases.do_Insert,
            Update: databases.do_Update,
            DeleteFrom: databases.do_DeleteFrom,
            PassthruStatement: databases.do_PassthruStatement,
            Finish: databases.do_Finish,
            Eval: evaluations.do_Eval,
            Handler: _misplaced,
        }

    def statement(self, node: Statement) -> None:
        self._body.place = node.place
        self._compilers[type(node)](node)

    def _in_order(self, body: Sequence[Statement]) -> None:
        """One after the other; runs of plain copies are tried as one before."""
        at = 0
        while at < len(body):
            names = self._assignments.model_names(body, at)
            if len(names) > 1:
                self._body.place = body[at].place
                with self._body.block(f"if not put_names(OutputRoot, {names!r}):"):
                    for statement in body[at : at + len(names)]:
                        self.statement(statement)
                at += len(names)
                continue
            copies = self._assignments.plain_copies(body, at)
            if len(copies) < COPIES_LEAST:
                self.statement(body[at])
                at += 1
                continue
            pairs = tuple((copy.key, copy.name) for copy in copies)
            self._body.place = body[at].place
            path = f"OutputRoot, {copies[0].path!r}, InputRoot, {copies[0].folder!r}"
            same = tuple(copy.key for copy in copies) if all(copy.key == copy.name for copy in copies) else None
            with self._body.block(f"if not copy_record({path}, {pairs!r}, {same!r}):"):
                for statement in body[at : at + len(copies)]:
                    self.statement(statement)
            at += len(copies)

    def statements(self, body: tuple[Statement, ...]) -> None:
        handlers = [statement for statement in body if isinstance(statement, Handler)]
        rest = [statement for statement in body if not isinstance(statement, Handler)]
        if not handlers:
            self._in_order(rest)
            return
        # Variables are declared before handlers, and handlers may use them.
        first = next(number for number, statement in enumerate(body) if isinstance(statement, Handler))
        for statement in rest[:first]:
            self.statement(statement)
        if goes_on(body):
            self._resuming(rest[first:], handlers)
            return
        with self._body.block("try:"):
            for statement in rest[first:]:
                self.statement(statement)
        with self._body.block("except HANDLED as error:"):
            self._handled(handlers)

    def _resuming(self, body: Sequence[Statement], handlers: list[Handler]) -> None:
        """Statements of a block with a CONTINUE handler: it goes on behind the one of them that failed."""
        reached = self._names.temporary()
        self._body.line(f"{reached} = 0")
        # To Python this is a loop, so leaving one around it takes a jump.
        self._loops.append("")
        with self._body.block(f"while {reached} < {len(body)}:"):
            with self._body.block("try:"):
                for number, statement in enumerate(body, 1):
                    self._body.place = statement.place
                    with self._body.block(f"if {reached} < {number}:"):
                        self._body.line(f"{reached} = {number}")
                        if isinstance(statement, Declare):
                            self._declaration(statement)
                        else:
                            self.statement(statement)
            with self._body.block("except HANDLED as error:"):
                self._handled(handlers)
        self._loops.pop()

    def _handled(self, handlers: list[Handler]) -> None:
        """The first handler that takes the error, in the order of the program."""
        resumes = any(handler.action == "CONTINUE" for handler in handlers)
        self._body.line("error = taken(error)")
        for number, handler in enumerate(handlers):
            self._body.place = handler.place
            with self._body.block(f"{'el' if number else ''}if handles(error, {handler.states!r}):"):
                with self._body.block("with run.handling(error):"), self._names.block():
                    self.statement(handler.body)
                if resumes and handler.action == "EXIT":
                    self._body.line("break")
        with self._body.block("else:"):
            self._body.line("raise")

    def _declaration(self, node: Declare) -> None:
        """Whatever its value comes to, the variable has to be there for a handler that goes on behind it."""
        known = {name for name in node.names if self._names.declared_here(name) is not None}
        start = len(self._body.lines)
        self.statement(node)
        for name in node.names:
            symbol = self._names.declared_here(name)
            if symbol is None or name in known or symbol.kind not in ("scalar", "reference"):
                continue
            python = symbol.python
            empty = f"{python} = None"
            if symbol.kind == "reference":
                empty = f"{python}, moved_{python}, at_{python} = Root({name!r}), False, 0"
            self._body.lines.insert(start, (self._body.depth, empty, node.place))


def _misplaced(node: Handler) -> NoReturn:
    raise Unsupported(node, "a HANDLER here: declare it at the beginning of a block")
