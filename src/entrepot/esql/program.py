# SPDX-License-Identifier: Apache-2.0
"""A compiled ESQL program, ready to run on messages.

    program = compile_files([Path("orders.esql")])
    module = program.module("Orders")
    outputs = module.compute(assembly)

A program pickles as its text and is compiled again where it arrives, so it
can travel to Spark's workers; SHARED variables stay behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from entrepot.errors import BudgetSpent, EsqlInvalid, EsqlRunError, MessageTooComplex, ModelNotFound
from entrepot.esql.checker import CheckOptions, require_valid
from entrepot.esql.compiler.project import GENERATED, Compiled, compile_project, module_of, start_name
from entrepot.esql.parsing import parse_expression, parse_file, parse_statements
from entrepot.esql.runtime.run import Emit, EsqlRun
from entrepot.esql.runtime.statements import outgoing
from entrepot.esql.syntax import Return, SourceFile
from entrepot.models.tree import Assembly
from entrepot.models.tree_state import COPIES

Functions = Mapping[str, Callable[..., Any]]
"""Python functions by the EXTERNAL NAME under which ESQL calls them."""


class EsqlModule:
    """One module: COMPUTE, FILTER or DATABASE."""

    def __init__(self, program: Program, name: str, kind: str, main: Callable[[EsqlRun], Any]) -> None:
        self.program = program
        self.name = name
        self.kind = kind
        self._main = main
        start = program.compiled.namespace[start_name(main.__name__)]
        # Most modules have no variables of their own, and then there is nothing to be done for each message.
        self._start: Callable[[EsqlRun], None] | None = start if start.__code__.co_names else None
        # Without loops and calls the budget cannot end, so no copies are needed.
        self._can_repeat = "run.steps" in program.source or "run.enter()" in program.source

    def run(self, run: EsqlRun) -> bool | None:
        """Run Main; its answer.

        Raises:
            EsqlRunError: The program failed; `place` says where.
        """
        run.shared = self.program.compiled.shared
        if not self._can_repeat:
            return self._run(run)
        # A PROPAGATE runs other programs within this one.
        paying, COPIES.charge = COPIES.charge, run.charge
        try:
            return self._run(run)
        finally:
            COPIES.charge = paying

    def _run(self, run: EsqlRun) -> bool | None:
        try:
            if self._start is not None:
                run.variables = SimpleNamespace()
                self._start(run)
            answer: bool | None = self._main(run)
        except EsqlRunError as error:
            if not error.place:
                error.place = self.program.place_of(error)
            raise
        except RecursionError as error:
            raise self._budget_spent("calls or trees inside of each other are too deep", error) from error
        except MemoryError as error:
            raise self._budget_spent("there is no memory left for what the program makes", error) from error
        except MessageTooComplex as error:
            if error.domain != "tree":
                raise
            raise self._budget_spent(f"{error.path}: {error.problem}", error) from error
        return answer

    def _budget_spent(self, problem: str, error: BaseException) -> BudgetSpent:
        return BudgetSpent(problem, place=self.program.place_of(error) or self.name)

    def compute(self, assembly: Assembly, emit: Emit | None = None, **options: Any) -> list[tuple[str, Assembly]]:
        """What a Compute node does with a message: where each output goes, in order.

        With `emit`, outputs go there at once instead, as a flow needs it.
        """
        outputs: list[tuple[str, Assembly]] = []
        run = EsqlRun(assembly, **options)
        run.emit = emit or partial(_collect, outputs)
        if self.run(run) is True:
            leaving = outgoing(run)
            if emit is not None:
                emit("terminal", "out", leaving)
            else:
                outputs.append(("out", leaving))
        return outputs

    def filter(self, assembly: Assembly, **options: Any) -> bool | None:
        """What a Filter node does: the terminal true, false or unknown."""
        run = EsqlRun(assembly, **options)
        run.mode = ""
        return self.run(run)


def _collect(outputs: list[tuple[str, Assembly]], where: str, name: str, leaving: Assembly) -> None:
    """Keep a propagated message as it is now; the program goes on changing its trees."""
    kept = Assembly(
        leaving.root.copy(),
        leaving.environment,
        leaving.local_environment.copy(),
        leaving.exception_list.copy(),
    )
    outputs.append((name if where == "terminal" else f"label:{name}", kept))


class Program:
    """All modules of a project."""

    def __init__(
        self, files: Sequence[SourceFile], *, functions: Functions | None = None, allow_eval: bool = False
    ) -> None:
        self._files = tuple(files)
        self._functions = dict(functions or {})
        self._allow_eval = allow_eval
        self.compiled: Compiled = compile_project(files, functions=self._functions, allow_eval=allow_eval)
        self.modules = {
            name: EsqlModule(self, name, kind, self.compiled.namespace[python])
            for name, (kind, python) in self.compiled.mains.items()
        }

    def module(self, name: str) -> EsqlModule:
        """
        Raises:
            ModelNotFound: There is no module of that name; schema.Module where it has a schema.
        """
        try:
            return self.modules[name]
        except KeyError:
            raise ModelNotFound("module", name, tuple(self.modules)) from None

    @property
    def source(self) -> str:
        """The Python that the program was compiled to."""
        return self.compiled.source

    def place_of(self, error: BaseException) -> str:
        """Where in the ESQL an error was raised: file:line."""
        place = ""
        traceback = error.__traceback__
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if code.co_filename == GENERATED and traceback.tb_lineno <= len(self.compiled.lines):
                file, line = self.compiled.lines[traceback.tb_lineno - 1]
                if line:
                    place = f"{file}:{line}"
            traceback = traceback.tb_next
        return place

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._files, self._functions, self._allow_eval)


def _rebuild(files: Sequence[SourceFile], functions: Functions, allow_eval: bool) -> Program:
    return Program(files, functions=functions, allow_eval=allow_eval)


def read_program(path: Path | str) -> str:
    """The text of a .esql file, in UTF-8 with or without a mark.

    Raises:
        EsqlInvalid: A byte is no UTF-8; says where.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        column = error.start - error.object.rfind(b"\n", 0, error.start)
        problem = f"the byte {error.object[error.start]:#04x} is no UTF-8"
        raise EsqlInvalid(((str(path), line, column, problem, ""),)) from None


def compile_files(
    paths: Sequence[Path | str], *, functions: Functions | None = None, allow_eval: bool = False
) -> Program:
    """A program from .esql files.

    Raises:
        EsqlInvalid: All mistakes in all of them.
    """
    texts = {str(path): read_program(path) for path in paths}
    return compile_texts(texts, functions=functions, allow_eval=allow_eval)


def compile_texts(texts: Mapping[str, str], *, functions: Functions | None = None, allow_eval: bool = False) -> Program:
    """A program from texts by file name."""
    files = [parse_file(text, file) for file, text in texts.items()]
    require_valid(files, CheckOptions(allow_eval=allow_eval))
    return Program(files, functions=functions, allow_eval=allow_eval)


def compile_statements(text: str, file: str = "<statements>", *, kind: str = "COMPUTE", **options: Any) -> EsqlModule:
    """A module from bare statements, as the broker document prints them; RETURN TRUE is added."""
    source = module_of(parse_statements(text, file), file, text, kind)
    require_valid([source], CheckOptions(allow_eval=bool(options.get("allow_eval"))))
    return Program([source], **options).module("Statements")


def compile_condition(text: str, file: str = "<condition>") -> EsqlModule:
    """A filter from one expression."""
    expression = parse_expression(text, file)
    source = module_of((Return(expression.place, expression),), file, text, "FILTER")
    require_valid([source])
    return Program([source]).module("Statements")
