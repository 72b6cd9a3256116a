# SPDX-License-Identifier: Apache-2.0
"""Nodes together: links and terminals, labels, what cannot be reached, and circles."""

from __future__ import annotations

from collections.abc import Iterator

from entrepot.flows.checking.node_checks import at, own_name
from entrepot.flows.declarations import type_of
from entrepot.flows.definition import INPUT, OUTPUT, FlowDefinition, FlowLink, NodeDefinition
from entrepot.flows.nodes.input_node import InputNode
from entrepot.flows.nodes.node import FlowMistake
from entrepot.flows.property_values import meant

_CIRCLE_SHOWN_MAX = 12
_LABEL = "Label"
_ROUTE_TO_LABEL = "RouteToLabel"


def link_mistakes(flow: FlowDefinition, *, is_complete: bool) -> list[FlowMistake]:
    """What is wrong between the nodes of a flow that has its subflows in place.

    Where nodes are missing, nothing is said about what cannot be reached.
    """
    found = [mistake for link in flow.links for mistake in _link(flow, link)]
    found += _twice(flow)
    found += _labels(flow, is_complete=is_complete)
    if is_complete:
        are_links_right = all(mistake.is_warning for mistake in found)
        found += _entrances(flow)
        if are_links_right:
            found += _unreached(flow)
    found += _circles(flow)
    return found


def _wrong(link: FlowLink, node: str, problem: str, advice: str = "", *, is_warning: bool = False) -> FlowMistake:
    place = link.place
    where, text = (str(place), f"{own_name(node)}: {problem}") if place.line else (node, problem)
    return FlowMistake(where, text, advice, "warning" if is_warning else "mistake")


# --- links ----------------------------------------------------------------------------------------------------


def _link(flow: FlowDefinition, link: FlowLink) -> Iterator[FlowMistake]:
    source, target = flow.nodes.get(link.source), flow.nodes.get(link.target)
    if source is None:
        yield _wrong(link, link.source, "a link begins here, and there is no such node", _beside(flow, link.source))
    elif (problem := _no_output(source, link.terminal)) is not None:
        yield _wrong(link, link.source, *problem)
    if target is None:
        problem_text = f"its terminal {link.terminal} is linked to {own_name(link.target)!r}, and there is no such node"
        beside = [own_name(name) for name in flow.nodes if _scope(name) == _scope(link.target)]
        advice = _beside(flow, link.target)
        yield _wrong(link, link.source, problem_text + meant(own_name(link.target), beside), advice)
    elif (problem := _no_input(target, link.input)) is not None:
        yield _wrong(link, link.source, *problem)


def _no_output(node: NodeDefinition, terminal: str) -> tuple[str, str] | None:
    node_type = type_of(node.type)
    if node.type == INPUT:
        known: tuple[str, ...] = ("out",)
    elif node.type == OUTPUT:
        known = ()
    elif node_type is None or terminal in node_type.outputs or node_type.outputs_free:
        return None
    else:
        known = node_type.outputs
    if terminal in known:
        return None
    advice = f"It has {', '.join(known)}." if known else "It has none."
    return f"{node.type} has no output terminal {terminal!r}{meant(terminal, known)}", advice


def _no_input(node: NodeDefinition, terminal: str) -> tuple[str, str] | None:
    node_type = type_of(node.type)
    if node.type == OUTPUT:
        known: tuple[str, ...] = ("in",)
    elif node.type == INPUT:
        known = ()
    elif node_type is None or terminal in node_type.inputs or node_type.inputs_free:
        return None
    else:
        known = node_type.inputs
    if terminal in known:
        return None
    if not known:
        return f"it is linked to {node.name}, where messages enter", f"Nothing can be linked to {node.type}."
    problem = f"it is linked to the terminal {terminal!r} of {node.name}, which {node.type} has not"
    return problem + meant(terminal, known), f"It has {', '.join(known)}."


def _scope(name: str) -> str:
    return name.rpartition("/")[0]


def _beside(flow: FlowDefinition, name: str) -> str:
    beside = [own_name(other) for other in flow.nodes if _scope(other) == _scope(name)]
    return f"There is {', '.join(beside[:40])}{', ...' if len(beside) > 40 else ''}."


def _twice(flow: FlowDefinition) -> Iterator[FlowMistake]:
    seen: set[tuple[str, str, str, str]] = set()
    for link in flow.links:
        key = (link.source, link.terminal, link.target, link.input)
        if key in seen:
            problem = f"its terminal {link.terminal} is linked to {link.target} twice, so each message goes there twice"
            yield _wrong(link, link.source, problem, is_warning=True)
        seen.add(key)


# --- labels ---------------------------------------------------------------------------------------------------


def _labels(flow: FlowDefinition, *, is_complete: bool) -> Iterator[FlowMistake]:
    labels: dict[str, NodeDefinition] = {}
    for node in flow.nodes.values():
        label = node.properties.get("label")
        if node.type != _LABEL or not isinstance(label, str):
            continue
        if label in labels:
            problem = f"{labels[label].name} has the label {label!r} already"
            yield at(node, problem, "RouteToLabel could not tell them apart; rename one.", of="label")
        labels.setdefault(label, node)
    if is_complete and not labels:
        for node in flow.nodes.values():
            if node.type == _ROUTE_TO_LABEL:
                yield at(node, "there is no Label that it could route to", "Add nodes of the type Label.")


# --- ways -----------------------------------------------------------------------------------------------------


def _entrances(flow: FlowDefinition) -> Iterator[FlowMistake]:
    inputs = [node for node in flow.nodes.values() if _is_input(node)]
    if not inputs and not flow.is_subflow:
        yield FlowMistake(
            str(flow.place), "it has no input node, so no message can come in", "Add one, such as MQInput."
        )
    connected = {(link.source, link.terminal) for link in flow.links}
    for node in inputs:
        node_type = type_of(node.type)
        if node_type is not None and "out" in node_type.outputs and (node.name, "out") not in connected:
            yield at(node, "its terminal out is not linked to anything, so messages are lost here", severity="warning")


def _is_input(node: NodeDefinition) -> bool:
    node_type = type_of(node.type)
    return node_type is not None and issubclass(node_type, InputNode)


def _unreached(flow: FlowDefinition) -> Iterator[FlowMistake]:
    # ESQL can propagate to labels too, and it need not say so in words that can be read beforehand.
    jumps = any(node.type == _ROUTE_TO_LABEL or hasattr(type_of(node.type), "kind") for node in flow.nodes.values())
    waiting = [
        node.name
        for node in flow.nodes.values()
        if node.type == INPUT or _is_input(node) or (jumps and node.type == _LABEL)
    ]
    if not waiting:
        return
    onward = _onward(flow)
    reached: set[str] = set(waiting)
    while waiting:
        for name in onward[waiting.pop()]:
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    for node in flow.nodes.values():
        if node.name not in reached:
            yield at(node, "no message ever gets here", "Link something to it, or take it away.", severity="warning")


def _onward(flow: FlowDefinition) -> dict[str, list[str]]:
    onward: dict[str, list[str]] = {name: [] for name in flow.nodes}
    for link in flow.links:
        if link.source in onward and link.target in onward:
            onward[link.source].append(link.target)
    return onward


def _circles(flow: FlowDefinition) -> Iterator[FlowMistake]:
    """Circles of links, one warning for each that a walk in depth closes."""
    onward = _onward(flow)
    done: set[str] = set()
    for start in onward:
        if start in done:
            continue
        path = [start]
        on_path = {start: 0}
        ways = [iter(onward[start])]
        while ways:
            name = next(ways[-1], None)
            if name is None:
                ways.pop()
                done.add(path[-1])
                del on_path[path.pop()]
            elif name in on_path:
                yield _circle(flow, [*path[on_path[name] :], name])
            elif name not in done:
                on_path[name] = len(path)
                path.append(name)
                ways.append(iter(onward[name]))


def _circle(flow: FlowDefinition, names: list[str]) -> FlowMistake:
    shown = names if len(names) <= _CIRCLE_SHOWN_MAX else [*names[: _CIRCLE_SHOWN_MAX - 1], "...", names[-1]]
    link = next(each for each in flow.links if each.source == names[-2] and each.target == names[-1])
    problem = f"links go round in a circle: {' → '.join(shown)}"
    advice = "A message that never leaves it fails when it has gone round too often."
    return _wrong(link, link.source, problem, advice, is_warning=True)
