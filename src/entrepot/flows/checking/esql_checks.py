# SPDX-License-Identifier: Apache-2.0
"""The programs of a flow, and the modules that its nodes ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from entrepot.errors import EsqlInvalid
from entrepot.esql import Program
from entrepot.esql.checker import check
from entrepot.esql.parsing import parse_file
from entrepot.esql.syntax import Declare, SourceFile
from entrepot.flows.checking.node_checks import at
from entrepot.flows.declarations import type_of
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.nodes.node import FlowMistake
from entrepot.flows.property_values import meant

_ABSENCES = ("there is no function", "there is no procedure", "PATH names")
"""How the checker begins to tell of what may be in a file that could not be read."""


def esql_mistakes(flow: FlowDefinition, *, is_complete: bool) -> list[FlowMistake]:
    """What is wrong with the ESQL of a flow that has its subflows in place."""
    files, found = _parsed(flow)
    all_read = is_complete and not found
    checked = check(files)
    for each in checked:
        if all_read or not each.problem.startswith(_ABSENCES):
            severity: Literal["mistake", "warning"] = "warning" if each.is_warning else "mistake"
            found.append(FlowMistake(f"{each.file}:{each.line}:{each.column}", each.problem, severity=severity))
    if all_read and files and not any(not each.is_warning for each in checked):
        try:
            Program(files)  # the compiler refuses what it cannot do, such as functions in Java
        except EsqlInvalid as error:
            found += _flow_mistakes(error)
    if all_read:
        found += _modules(flow, files)
        found += _externals(flow, files)
    return found


def _parsed(flow: FlowDefinition) -> tuple[list[SourceFile], list[FlowMistake]]:
    files: list[SourceFile] = []
    found: list[FlowMistake] = []
    for name, text in flow.esql.items():
        try:
            files.append(parse_file(text, name))
        except EsqlInvalid as error:
            found += _flow_mistakes(error)
    return files, found


def _flow_mistakes(error: EsqlInvalid) -> list[FlowMistake]:
    return [FlowMistake(f"{file}:{line}:{column}", problem) for file, line, column, problem, _ in error.mistakes]


def _modules(flow: FlowDefinition, files: list[SourceFile]) -> Iterator[FlowMistake]:
    kinds = {".".join((*file.schema, module.name)): module.kind for file in files for module in file.modules}
    for node in flow.nodes.values():
        wanted, name = getattr(type_of(node.type), "kind", None), node.properties.get("module")
        if wanted and isinstance(name, str) and name:
            yield from _module(node, name, wanted, kinds)


def _module(node: NodeDefinition, name: str, wanted: str, kinds: dict[str, str]) -> Iterator[FlowMistake]:
    alike = [name] if name in kinds else [full for full in kinds if full.rpartition(".")[2] == name]
    if len(alike) > 1:
        advice = f"Say which: {' or '.join(sorted(alike))}."
        yield at(node, f"the module {name!r} is in several schemas", advice, of="module")
    elif not alike:
        known = ", ".join(sorted(kinds)) or "none"
        near = meant(name, [*kinds, *(full.rpartition(".")[2] for full in kinds)])
        advice = f"There is {known}. List its file under `esql`."
        yield at(node, f"there is no module {name!r}{near}", advice, of="module")
    elif kinds[alike[0]] != wanted:
        problem = f"{name} is a {kinds[alike[0]]} MODULE, and {node.type} wants a {wanted} MODULE"
        yield at(node, problem, of="module")


def _externals(flow: FlowDefinition, files: list[SourceFile]) -> Iterator[FlowMistake]:
    """EXTERNAL variables without a value."""
    given = set(flow.user_properties).union(*(node.user_properties for node in flow.nodes.values()))
    for file in files:
        for declared in _declarations(file):
            if declared.scope != "EXTERNAL" or declared.value is not None:
                continue
            for name in declared.names:
                if name not in given:
                    where = f"{file.file}:{declared.place.line}:{declared.place.column}"
                    problem = f"the EXTERNAL {name} is no property of the flow, so it is NULL{meant(name, given)}"
                    yield FlowMistake(where, problem, "Say it under `properties`.", "warning")


def _declarations(file: SourceFile) -> Iterator[Declare]:
    yield from file.declarations
    for module in file.modules:
        yield from module.declarations
