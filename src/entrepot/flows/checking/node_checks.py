# SPDX-License-Identifier: Apache-2.0
"""Nodes one by one: their types, what is said about them, and the models they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from entrepot.errors import ModelNotFound
from entrepot.flows.declarations import type_of
from entrepot.flows.definition import INPUT, OUTPUT, SUBFLOW, FlowDefinition, NodeDefinition
from entrepot.flows.nodes import NODE_TYPES
from entrepot.flows.nodes.node import FlowMistake, Node, Property
from entrepot.flows.property_values import meant, problem_with
from entrepot.models.logical import MessageSet
from entrepot.models.message_sets import find_set
from entrepot.models.outgoing import BODY_DOMAINS
from entrepot.yaml_places import Place

_IN_A_PROPERTY = re.compile(r"\.(?P<name>\w+)(?P<item>\[\d+\])?(?::(?P<line>\d+):(?P<column>\d+))?")


def node_mistakes(flow: FlowDefinition, *, is_complete: bool) -> list[FlowMistake]:
    """What is wrong with the nodes of a flow that has its subflows in place."""
    found: list[FlowMistake] = []
    for node in flow.nodes.values():
        if node.type in (INPUT, OUTPUT):
            found += _terminal(node)
            continue
        node_type = type_of(node.type)
        if node_type is None:
            if node.type:  # else it was told where it was read
                found.append(_unknown_type(node))
            continue
        wrong: set[str] = set()
        found += _properties(node, node_type, wrong)
        found += _by_type(node, node_type, flow, wrong)
        if not wrong:
            found += _models(node, flow, is_complete=is_complete)
    return found


def _by_type(
    node: NodeDefinition, node_type: type[Node], flow: FlowDefinition, wrong: set[str]
) -> Iterator[FlowMistake]:
    """What the type itself finds; it may rely on its own declaration, so it does not see what breaks that."""
    right = {name: value for name, value in node.properties.items() if name not in wrong}
    for mistake in node_type.check(replace(node, properties=right), flow):
        if not wrong or mistake.where != node.name:  # else it may only miss what was left out
            yield _located(node, node_type, mistake)


def at(node: NodeDefinition, problem: str, advice: str = "", *, of: str = "", severity: str = "mistake") -> FlowMistake:
    """A mistake at a node, or at one of its properties."""
    place = node.places.get(of, node.place)
    where, text = (str(place), f"{own_name(node.name)}: {problem}") if place.line else (node.name, problem)
    return FlowMistake(where, text, advice, "warning" if severity == "warning" else "mistake")


def own_name(name: str) -> str:
    """What a node is called in its own file, whatever subflow it came with."""
    return name.rpartition("/")[2]


def _unknown_type(node: NodeDefinition) -> FlowMistake:
    known = (*NODE_TYPES, SUBFLOW, INPUT, OUTPUT)
    advice = f"There is {', '.join(sorted(known))}."
    return at(node, f"there is no node type {node.type!r}{meant(node.type, known)}", advice, of="type")


def _terminal(node: NodeDefinition) -> Iterator[FlowMistake]:
    for name in node.properties:
        yield at(node, f"a terminal has no property {name!r}", of=name)


def _properties(node: NodeDefinition, node_type: type[Node], wrong: set[str]) -> Iterator[FlowMistake]:
    """Properties against their declarations; the names of those that are wrong are noted."""
    declared = {each.name: each for each in node_type.properties}
    for name, value in node.properties.items():
        if name not in declared:
            wrong.add(name)
            advice = f"It has {', '.join(declared)}." if declared else "It has none."
            yield at(node, f"{node.type} has no property {name!r}{meant(name, declared)}", advice, of=name)
            continue
        problem = problem_with(value, declared[name])
        if not problem and declared[name].required and value == "":
            problem = "nothing is said"
        if problem:
            wrong.add(name)
            yield at(node, f"{name}: {problem}", declared[name].about and f"{name}: {declared[name].about}.", of=name)
    for name, each in declared.items():
        if each.required and name not in node.properties:
            wrong.add(name)
            within = node.name.rpartition("/")[0]
            used = f", at the subflow {within}," if within else ""
            yield at(node, f"{name} is missing", f"Say {name}{used}{': ' + each.about if each.about else ''}.")


def _located(node: NodeDefinition, node_type: type[Node], mistake: FlowMistake) -> FlowMistake:
    """A mistake that a node type has told by names, told by its place in the file."""
    if not mistake.where.startswith(node.name):
        return mistake
    behind = mistake.where.removeprefix(node.name)
    if not behind:
        return at(node, mistake.problem, mistake.advice, severity=mistake.severity)
    inside = _IN_A_PROPERTY.fullmatch(behind)
    place = None if inside is None else node.places.get(inside["name"])
    if inside is None or place is None:
        return mistake
    declared = next((each for each in node_type.properties if each.name == inside["name"]), None)
    if inside["line"] is not None:
        place = _within(place, declared, int(inside["line"]), int(inside["column"]))
    label = f"{own_name(node.name)}.{inside['name']}{inside['item'] or ''}"
    return FlowMistake(str(place), f"{label}: {mistake.problem}", mistake.advice, mistake.severity)


def _within(place: Place, declared: Property | None, line: int, column: int) -> Place:
    """A place in the text of a property; texts that were folded, or are only partly ESQL, are told as a whole."""
    if declared is None or declared.kind != "esql" or not place.column:
        return place
    return Place(place.file, place.line + line - 1, place.column + column - 1)


def _models(node: NodeDefinition, flow: FlowDefinition, *, is_complete: bool) -> Iterator[FlowMistake]:
    """The domain, and for MRM the set, the message and the format."""
    domain, set_name = node.properties.get("domain"), node.properties.get("message_set")
    if not domain:
        return
    if domain not in BODY_DOMAINS:
        advice = f"There is {', '.join(BODY_DOMAINS)}."
        yield at(node, f"there is no domain {domain!r}{meant(str(domain), BODY_DOMAINS)}", advice, of="domain")
        return
    if domain != "MRM" or not set_name or not is_complete:
        return
    found = _find_set(str(set_name), flow)
    if found is None:
        sets = [each.name for each in flow.message_sets]
        advice = f"The flow has {', '.join(sets) or 'none'}. List its file under `models`."
        yield at(node, f"there is no message set {set_name!r}{meant(str(set_name), sets)}", advice, of="message_set")
        return
    for name, known in (("message_type", list(found.messages)), ("message_format", list(found.formats))):
        value = node.properties.get(name)
        if value and value not in known:
            shown = ", ".join(known[:40])
            problem = f"the set {found.name} has no {name.removeprefix('message_')} {value!r}{meant(str(value), known)}"
            yield at(node, problem, f"It has {shown}.", of=name)


def _find_set(name: str, flow: FlowDefinition) -> MessageSet | None:
    own = next((each for each in flow.message_sets if each.name == name), None)
    if own is not None:
        return own
    try:
        return find_set(name)
    except ModelNotFound:
        return None
