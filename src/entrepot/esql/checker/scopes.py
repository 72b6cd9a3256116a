# SPDX-License-Identifier: Apache-2.0
"""What a name means at a place of a program: variables, correlation names, and the routines that can be called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches

from entrepot.esql.parsing.words import words
from entrepot.esql.syntax import DataType, Declare, Module, Routine, SourceFile, SourcePlace

_COMPUTE = words(
    "InputRoot InputBody InputProperties InputLocalEnvironment InputDestinationList InputExceptionList Environment"
    " OutputRoot OutputLocalEnvironment OutputDestinationList OutputExceptionList"
)
_WITHOUT_OUTPUT = words("Root Body Properties LocalEnvironment DestinationList ExceptionList Environment")

CORRELATIONS: dict[str, frozenset[str]] = {
    "COMPUTE": _COMPUTE,
    "FILTER": _WITHOUT_OUTPUT,
    "DATABASE": _WITHOUT_OUTPUT,
    "DATABASEEVENT": _WITHOUT_OUTPUT,
    # A routine outside of modules serves all callers.
    "": _COMPUTE | _WITHOUT_OUTPUT,
}
"""Where a field reference may begin, for each kind of module."""

READ_ONLY = frozenset({"InputRoot", "InputBody", "InputProperties", "InputExceptionList"})


@dataclass(frozen=True, slots=True)
class CheckerSymbol:
    """A name and what it stands for."""

    name: str
    place: SourcePlace
    type: str = ""
    """Of a variable; empty when only the run tells."""
    constant: bool = False
    read_only: bool = False
    """An IN parameter."""
    declaration: Declare | None = None

    @property
    def is_reference(self) -> bool:
        return self.type == "REFERENCE"

    @property
    def has_fields(self) -> bool:
        return self.type in ("REFERENCE", "ROW", "LIST", "")


def symbol_of(declaration: Declare, name: str) -> CheckerSymbol:
    """The symbol that a DECLARE makes."""
    type_: DataType | None = declaration.type
    return CheckerSymbol(
        name,
        declaration.place,
        type_.name if type_ is not None else "CHARACTER",
        declaration.constant,
        declaration=declaration,
    )


@dataclass(slots=True)
class Scope:
    """Names, innermost block last."""

    blocks: list[dict[str, CheckerSymbol]] = field(default_factory=lambda: [{}])
    columns: int = 0
    """How many database statements are around: there, a bare name may be a column."""

    def find(self, name: str) -> CheckerSymbol | None:
        for block in reversed(self.blocks):
            if name in block:
                return block[name]
        return None

    def here(self, name: str) -> CheckerSymbol | None:
        return self.blocks[-1].get(name)

    def add(self, symbol: CheckerSymbol) -> None:
        self.blocks[-1][symbol.name] = symbol

    def names(self) -> Iterator[str]:
        for block in self.blocks:
            yield from block

    @contextmanager
    def block(self, *, columns: bool = False) -> Iterator[None]:
        self.blocks.append({})
        self.columns += columns
        yield
        self.columns -= columns
        self.blocks.pop()


def similar(name: str, known: Sequence[str]) -> str:
    """A hint at what was meant; empty when nothing is near."""
    exact = [candidate for candidate in known if candidate.lower() == name.lower()]
    if exact:
        return f"; there is {exact[0]}, and names tell capitals from small letters"
    near = [candidate for candidate in sorted(known) if len(name) > 2 and candidate.startswith(name)]
    near = near or get_close_matches(name, sorted(known), 1, 0.8)
    return f"; is {near[0]} meant?" if near else ""


class Project:
    """All files together: which schema has which routines and variables."""

    def __init__(self, files: Sequence[SourceFile]) -> None:
        self.routines: dict[tuple[str, ...], Routine] = {}
        self.variables: dict[tuple[str, ...], dict[str, CheckerSymbol]] = {}
        self.schemas: set[tuple[str, ...]] = {file.schema for file in files}
        for file in files:
            for routine in file.routines:
                self.routines.setdefault((*file.schema, routine.name), routine)
            for module in file.modules:
                for routine in module.routines:
                    self.routines.setdefault((*file.schema, module.name, routine.name), routine)
            names = self.variables.setdefault(file.schema, {})
            for declaration in file.declarations:
                for name in declaration.names:
                    names.setdefault(name, symbol_of(declaration, name))

    def find_routine(self, name: tuple[str, ...], file: SourceFile, module: Module | None) -> Routine | None:
        """As the product looks: in the module, in the schema, along PATH, in the default schema, by full name."""
        places = [(*file.schema, module.name)] if module is not None else []
        for place in (*places, file.schema, *file.path, ()):
            found = self.routines.get((*place, *name))
            if found is not None:
                return found
        return None

    def routine_names(self, file: SourceFile, module: Module | None) -> list[str]:
        """What can be called by its bare name."""
        places = {file.schema, *file.path, ()}
        if module is not None:
            places.add((*file.schema, module.name))
        return [key[-1] for key in self.routines if key[:-1] in places]

    def outer_names(self, file: SourceFile, module: Module | None) -> dict[str, CheckerSymbol]:
        """Variables that routines of a module see without declaring them."""
        names: dict[str, CheckerSymbol] = {}
        for schema in ((), *reversed(file.path), file.schema):
            names |= self.variables.get(schema, {})
        for declaration in module.declarations if module is not None else ():
            for name in declaration.names:
                names[name] = symbol_of(declaration, name)
        return names
