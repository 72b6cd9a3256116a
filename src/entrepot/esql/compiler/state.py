# SPDX-License-Identifier: Apache-2.0
"""What the parts of a routine's compiler share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from entrepot.esql.compiler.constants import Constants
from entrepot.esql.compiler.names import TREES, CompilerSymbol, NamesInScope, Routines
from entrepot.esql.compiler.source import RoutineLines
from entrepot.esql.syntax import Routine

_WORDS = re.compile(r"\w+")

CompileEvaluated = Callable[[dict[str, CompilerSymbol], Routine, str], Callable[..., Any]]
"""Compiles the text of an EVAL as a routine: outer names, the routine, the text."""


class ModuleTrees:
    """Correlation names of a kind of module, and which of them the routine uses."""

    def __init__(self, module_kind: str) -> None:
        self._trees = TREES.get(module_kind, {})
        self.used: dict[str, str] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._trees)

    def __contains__(self, name: object) -> bool:
        return name in self._trees

    def note_use(self, python: str) -> None:
        """Remember the trees that a piece of Python names."""
        for tree in _WORDS.findall(python):
            if tree in self._trees:
                self.used[tree] = self._trees[tree]


class PathSites:
    """Beginnings of paths that are walked more than once, and the variable that keeps the end of each."""

    def __init__(self, counted: Mapping[tuple[str, ...], int]) -> None:
        kept = [prefix for prefix, count in counted.items() if count > 1]
        self._variables = {prefix: f"site{number}" for number, prefix in enumerate(kept, 1)}
        self.met: dict[tuple[str, ...], int] = {}
        """Beginnings of paths, and how often each was met."""

    def site(self, prefix: tuple[str, ...]) -> str | None:
        self.met[prefix] = self.met.get(prefix, 0) + 1
        return self._variables.get(prefix)

    def variables(self) -> list[str]:
        return list(self._variables.values())


@dataclass(slots=True)
class RoutineState:
    """One routine while it is compiled."""

    routine: Routine
    names: NamesInScope
    constants: Constants
    routines: Routines
    trees: ModuleTrees
    sites: PathSites
    compile_evaluated: CompileEvaluated | None
    """None where EVAL is off."""
    lines: RoutineLines = field(default_factory=RoutineLines)
    outs: list[str] = field(default_factory=list)
    """Python names of what the routine gives back beside its value."""
    loops: list[str] = field(default_factory=list)
    """Labels of the loops and blocks around us that Python can leave itself, innermost last."""

    def returned(self, value: str) -> str:
        return f"({', '.join([value, *self.outs])},)" if self.outs else value
