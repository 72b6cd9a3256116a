# SPDX-License-Identifier: Apache-2.0
"""EVAL: text that a program makes and runs, where that is allowed.

The text sees the names that are in scope where EVAL stands. It is compiled as
a routine whose parameters are these names, all of them INOUT, so that what it
sets is set where it came from. What was compiled is kept, because a program
usually makes the same few texts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from entrepot.errors import EsqlInvalid, EsqlRunError
from entrepot.esql.compiler.names import CompilerSymbol
from entrepot.esql.compiler.source import Code
from entrepot.esql.compiler.unsupported import Unsupported
from entrepot.esql.parsing import parse_expression, parse_statements
from entrepot.esql.syntax import Begin, Call, DataType, Eval, Return, Routine, RoutineParameter, SourcePlace, Statement

if TYPE_CHECKING:
    from entrepot.esql.compiler.expressions import ExpressionCompiler
    from entrepot.esql.compiler.state import RoutineState

TEXTS_MAX = 1_000
"""How many texts one EVAL keeps compiled."""

CompileRoutine = Callable[[Routine, str], Callable[..., Any]]


class EvalCompiler:
    """Calls of evaluators: EVAL in an expression, and as a statement."""

    def __init__(self, state: RoutineState, expressions: ExpressionCompiler) -> None:
        self._expressions = expressions
        self._names = state.names
        self._constants = state.constants
        self._lines = state.lines
        self._compile_evaluated = state.compile_evaluated

    def expression(self, node: Call) -> Code:
        text = self._expressions.expression(node.arguments[0]).text
        evaluator, names = self._evaluator(node, statements=False)
        values = "".join(f", {symbol.python}" for symbol in names.values())
        return Code(f"{evaluator}(run, {text}{values}){'[0]' if names else ''}")

    def do_Eval(self, node: Eval) -> None:
        text = self._expressions.expression(node.text).text
        evaluator, names = self._evaluator(node, statements=True)
        values = "".join(f", {symbol.python}" for symbol in names.values())
        kept = self._names.temporary()
        self._lines.statement(f"{kept} = {evaluator}(run, {text}{values})")
        for number, symbol in enumerate(names.values(), 1):
            if not symbol.constant:
                self._lines.body.line(f"{symbol.python} = {kept}[{number}]")

    def _evaluator(self, node: Call | Eval, *, statements: bool) -> tuple[str, dict[str, CompilerSymbol]]:
        if self._compile_evaluated is None:
            raise Unsupported(node, "EVAL is off: it runs text as a program; allow_eval turns it on")
        names = self._names.locals_in_scope()
        compile_routine = partial(self._compile_evaluated, self._names.outermost())
        return self._constants.add(Evaluator(names, compile_routine, statements=statements), "evaluate"), names


class Evaluator:
    """One EVAL of a program."""

    def __init__(self, names: dict[str, CompilerSymbol], compile_routine: CompileRoutine, *, statements: bool) -> None:
        place = SourcePlace(1, 1)
        self._compile = compile_routine
        self._statements = statements
        self._parameters = tuple(
            RoutineParameter(place, name, "INOUT", DataType(place, _TYPES.get(symbol.kind, symbol.type)))
            for name, symbol in names.items()
        )
        self._functions: dict[str, Callable[..., Any]] = {}

    def __call__(self, run: Any, text: Any, *values: Any) -> Any:
        """Value of the text, and where there are names in scope, a tuple of it and their values.

        Raises:
            EsqlRunError: The text is no ESQL.
        """
        if type(text) is not str:
            raise EsqlRunError(f"EVAL takes a text, not {text!r}", number=2930)
        function = self._functions.get(text)
        if function is None:
            if len(self._functions) >= TEXTS_MAX:
                self._functions.clear()
            function = self._functions[text] = self._compiled(text)
        return function(run, *values)

    def _compiled(self, text: str) -> Callable[..., Any]:
        place = SourcePlace(1, 1)
        try:
            body: tuple[Statement, ...]
            if self._statements:
                body = parse_statements(text if text.rstrip().endswith(";") else text + ";", "<EVAL>")
            else:
                body = (Return(place, parse_expression(text, "<EVAL>")),)
            routine = Routine(
                place, "EVAL", self._parameters, None, is_function=True, language="ESQL", body=Begin(place, body)
            )
            return self._compile(routine, text)
        except EsqlInvalid as error:
            _, line, column, problem, _ = error.mistakes[0]
            raise EsqlRunError(f"EVAL, line {line}, column {column} of its text: {problem}", number=2930) from error


_TYPES = {"reference": "REFERENCE", "row": "ROW"}
