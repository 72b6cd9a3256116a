# SPDX-License-Identifier: Apache-2.0
"""What a name means at a place of a program, and what it is called in Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from entrepot.esql.syntax import Routine

TREES = {
    "COMPUTE": {
        "InputRoot": "run.input_root",
        "InputLocalEnvironment": "run.input_local_environment",
        "InputDestinationList": "run.input_local_environment",
        "InputExceptionList": "run.input_exception_list",
        "Environment": "run.environment",
        "OutputRoot": "run.output_root",
        "OutputLocalEnvironment": "run.output_local_environment",
        "OutputDestinationList": "run.output_local_environment",
        "OutputExceptionList": "run.output_exception_list",
        "Root": "run.input_root",
    },
    "FILTER": {
        "Root": "run.root",
        "LocalEnvironment": "run.local_environment",
        "DestinationList": "run.local_environment",
        "ExceptionList": "run.exception_list",
        "Environment": "run.environment",
    },
}
"""Correlation names of each kind of module, and where a run keeps their trees."""
TREES["DATABASE"] = TREES["FILTER"]

SHORTHANDS = {
    "InputBody": ("InputRoot", ""),
    "Body": ("Root", ""),
    "InputProperties": ("InputRoot", "Properties"),
    "Properties": ("Root", "Properties"),
}
"""Names for a part of a tree: below which correlation name; an empty part is the last child."""


@dataclass(frozen=True, slots=True)
class CompilerSymbol:
    """A name's meaning."""

    kind: str
    """scalar, reference, row, tree, namespace, database, label"""
    python: str
    type: str = ""
    """Of a scalar."""
    constant: bool = False
    local: bool = True
    """A variable of the Python function itself."""


class NamesInScope:
    """Names in scope, innermost block last, and the Python names that one function has used."""

    def __init__(self, outer: dict[str, CompilerSymbol]) -> None:
        self._blocks: list[dict[str, CompilerSymbol]] = [outer, {}]
        self._used: set[str] = set()
        self._counter = 0

    @contextmanager
    def block(self) -> Iterator[None]:
        self._blocks.append({})
        yield
        self._blocks.pop()

    def find(self, name: str) -> CompilerSymbol | None:
        for block in reversed(self._blocks):
            if name in block:
                return block[name]
        return None

    def declare(self, name: str, symbol: CompilerSymbol) -> CompilerSymbol:
        self._blocks[-1][name] = symbol
        return symbol

    def declare_outermost(self, name: str, symbol: CompilerSymbol) -> None:
        """Declare a name around the routine, unless it is known there."""
        self._blocks[0].setdefault(name, symbol)

    def outermost(self) -> dict[str, CompilerSymbol]:
        """A copy of the names around the routine."""
        return dict(self._blocks[0])

    def locals_in_scope(self) -> dict[str, CompilerSymbol]:
        """Variables of the routine itself that can be seen here, the innermost of each name."""
        found: dict[str, CompilerSymbol] = {}
        for block in self._blocks[1:]:
            found.update(block)
        return {name: symbol for name, symbol in found.items() if symbol.kind in ("scalar", "reference", "row")}

    def declared_here(self, name: str) -> CompilerSymbol | None:
        return self._blocks[-1].get(name)

    def fresh(self, name: str, prefix: str = "v") -> str:
        """A Python name like the ESQL one that nothing else in the function has."""
        stem = f"{prefix}_{re.sub(r'[^0-9A-Za-z_]', '_', name)}"
        candidate, number = stem, 2
        while candidate in self._used:
            candidate, number = f"{stem}_{number}", number + 1
        self._used.add(candidate)
        return candidate

    def temporary(self) -> str:
        self._counter += 1
        return f"t{self._counter}"


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
