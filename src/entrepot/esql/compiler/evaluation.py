# SPDX-License-Identifier: Apache-2.0
"""EVAL: text that a program makes and runs, where that is allowed.

The text sees the names that are in scope where EVAL stands. It is compiled as
a routine whose parameters are these names, all of them INOUT, so that what it
sets is set where it came from. What was compiled is kept, because a program
usually makes the same few texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from entrepot.errors import EsqlInvalid, EsqlRunError
from entrepot.esql.compiler.names import CompilerSymbol
from entrepot.esql.parsing import parse_expression, parse_statements
from entrepot.esql.syntax import Begin, DataType, Return, Routine, RoutineParameter, SourcePlace, Statement

TEXTS_MAX = 1_000
"""How many texts one EVAL keeps compiled."""

CompileRoutine = Callable[[Routine, str], Callable[..., Any]]


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
