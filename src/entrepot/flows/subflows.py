# SPDX-License-Identifier: Apache-2.0
"""Subflows put in their places: what remains is one flow of plain nodes.

A node of the type Subflow gives way to the nodes of its flow, which are then
called after both: the node Log of the subflow node Audit is Audit/Log. Links
go through the terminals (nodes of the types Input and Output) to what is
behind them, so that an error inside travels back as if there were no subflow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from entrepot.errors import FlowInvalid
from entrepot.flows.declarations import declared_by_subflow, declared_by_type
from entrepot.flows.definition import INPUT, OUTPUT, SUBFLOW, FlowDefinition, FlowLink, NodeDefinition
from entrepot.flows.nodes.node import FlowMistake
from entrepot.flows.property_values import meant, read_value
from entrepot.yaml_places import Place

NODES_MAX = 10_000
"""How many nodes a flow may have with its subflows in their places: a few small files can ask for enormous ones."""
DEPTH_MAX = 50


def expand(flow: FlowDefinition) -> FlowDefinition:
    """A flow without nodes of the type Subflow.

    Raises:
        FlowInvalid: A subflow is missing, contains itself, or has not what is asked of it.
    """
    flat, mistakes = expand_with_mistakes(flow)
    if mistakes:
        raise FlowInvalid(flow.name, tuple((mistake.where, mistake.problem, mistake.advice) for mistake in mistakes))
    return flat


def expand_with_mistakes(flow: FlowDefinition) -> tuple[FlowDefinition, list[FlowMistake]]:
    """The same as far as it goes, and what is wrong with its subflows."""
    expansion = _Expansion(flow)
    return expansion.flat, list(dict.fromkeys(expansion.mistakes))


def set_properties(flow: FlowDefinition, values: Mapping[str, Any]) -> FlowDefinition:
    """A flow whose promoted and user-defined properties have other values; the one given stays as it is.

    Texts are understood as the property wants them, so values may come from a command line.

    Raises:
        FlowInvalid: It has no such property; says which there are.
    """
    declared = declared_by_subflow(flow)
    changed = replace(
        flow,
        nodes={name: _copy(node) for name, node in flow.nodes.items()},
        user_properties=dict(flow.user_properties),
    )
    mistakes = []
    for name, given in values.items():
        value = read_value(given, declared[name]) if isinstance(given, str) and name in declared else given
        if not _set(changed, name, value):
            mistakes.append((flow.name, *_no_property(flow, name)))
    if mistakes:
        raise FlowInvalid(flow.name, tuple(mistakes))
    return changed


def _copy(node: NodeDefinition) -> NodeDefinition:
    return replace(
        node, properties=dict(node.properties), places=dict(node.places), user_properties=dict(node.user_properties)
    )


def _set(flow: FlowDefinition, name: str, value: Any, place: Place | None = None) -> bool:
    """Set a promoted or user-defined property of a flow that shares its nodes with no other; whether it has it."""
    for node_name, property_name in flow.promoted.get(name, ()):
        node = flow.nodes.get(node_name)
        if node is not None:
            node.properties[property_name] = value
            if place is not None:
                node.places[property_name] = place
    if name in flow.user_properties:
        flow.user_properties[name] = value
    return name in flow.promoted or name in flow.user_properties


def _no_property(flow: FlowDefinition, name: str) -> tuple[str, str]:
    known = [*flow.promoted, *flow.user_properties]
    problem = f"the flow {flow.name} has no property {name!r} that can be set{meant(name, known)}"
    return problem, f"It has {', '.join(sorted(known)) or 'none'}."


@dataclass(slots=True, eq=False)
class _FlowScope:
    """One flow in its place: the whole, or a subflow at one node."""

    flow: FlowDefinition
    """With nodes of its own, in which properties are set as this place wants them."""
    prefix: str
    node: str = ""
    """Which node of the flow above stands for it."""
    above: _FlowScope | None = None
    origins: tuple[int, ...] = ()
    """The definitions that this one lies in, and itself."""
    user_properties: dict[str, Any] = field(default_factory=dict)
    inner: dict[str, _FlowScope] = field(default_factory=dict)

    def find_subflow(self, name: str) -> FlowDefinition | None:
        """Its own subflows, else those of the flows around it."""
        scope: _FlowScope | None = self
        while scope is not None:
            if name in scope.flow.subflows:
                return scope.flow.subflows[name]
            scope = scope.above
        return None

    def terminals(self, type_name: str) -> list[str]:
        return [name for name, node in self.flow.nodes.items() if node.type == type_name]

    def terminal(self, name: str, type_name: str, usual: str) -> str | None:
        """The terminal node of that name; `in` and `out` mean the only one that there is."""
        known = self.terminals(type_name)
        if name in known:
            return name
        return known[0] if name == usual and len(known) == 1 else None

    def chain(self) -> list[str]:
        scope: _FlowScope | None = self
        names = []
        while scope is not None:
            names.append(scope.flow.name)
            scope = scope.above
        return names[::-1]


class _Expansion:
    def __init__(self, flow: FlowDefinition) -> None:
        self.mistakes: list[FlowMistake] = []
        self.flat = replace(flow, nodes={}, links=[], subflows={}, promoted={}, esql={}, message_sets=[])
        top = _FlowScope(_own(flow), "", origins=(id(flow),))
        self._check_promotions(flow)
        self._place_nodes(top)
        for scope in _all_scopes(top):
            self._check_terminals(scope)
            self._place_links(scope)

    def _wrong(self, place: Place, node: str, problem: str, advice: str = "") -> None:
        where, text = (str(place), f"{node}: {problem}") if place.line else (node, problem)
        self.mistakes.append(FlowMistake(where, text, advice))

    # --- nodes ------------------------------------------------------------------------------------------------

    def _place_nodes(self, scope: _FlowScope) -> None:
        self._bring_along(scope.flow)
        for name, node in scope.flow.nodes.items():
            if node.type == SUBFLOW:
                self._place_subflow(scope, node)
            elif node.type in (INPUT, OUTPUT) and scope.above is not None:
                continue  # links go through it
            else:
                self._place_node(scope.prefix + name, node, scope)

    def _bring_along(self, flow: FlowDefinition) -> None:
        """A flow's ESQL and models, once each."""
        for file, text in flow.esql.items():
            name = file
            while name in self.flat.esql and self.flat.esql[name] != text:
                name = f"{flow.name}/{name}"
            self.flat.esql[name] = text
        known = {id(each) for each in self.flat.message_sets}
        self.flat.message_sets += [each for each in flow.message_sets if id(each) not in known]

    def _place_node(self, name: str, node: NodeDefinition, scope: _FlowScope) -> None:
        if name in self.flat.nodes:
            self._wrong(node.place, name, "two nodes have this name when subflows are in their places", "Rename one.")
        elif len(self.flat.nodes) >= NODES_MAX:
            if len(self.flat.nodes) == NODES_MAX:
                problem = f"with all subflows in their places it has more than {NODES_MAX:,} nodes"
                self.mistakes.append(FlowMistake(str(self.flat.place), problem))
                self.flat.nodes[name] = node
        else:
            self.flat.nodes[name] = replace(
                _copy(node), name=name, user_properties={**node.user_properties, **scope.user_properties}
            )

    def _place_subflow(self, scope: _FlowScope, node: NodeDefinition) -> None:
        if len(self.flat.nodes) > NODES_MAX:
            return
        asked = str(node.properties.get("flow") or "")
        place = node.places.get("flow", node.place)
        flow = scope.find_subflow(asked)
        if flow is None:
            known = sorted({name for each in _upwards(scope) for name in each.flow.subflows})
            advice = f"There is {', '.join(known) or 'none'}. List its file under `subflows`."
            self._wrong(place, node.name, f"there is no subflow {asked!r}{meant(asked, known)}", advice)
            return
        if id(flow) in scope.origins or len(scope.origins) > DEPTH_MAX:
            circle = " → ".join([*scope.chain(), flow.name])
            self._wrong(place, node.name, f"a subflow contains itself: {circle}", "Break the circle.")
            return
        inner = _FlowScope(_own(flow), f"{scope.prefix}{node.name}/", node.name, scope, (*scope.origins, id(flow)))
        self._check_promotions(flow)
        for name, value in node.properties.items():
            if name != "flow" and not _set(inner.flow, name, value, node.places.get(name)):
                problem, advice = _no_property(flow, name)
                self._wrong(node.places.get(name, node.place), node.name, problem, advice)
        outer = scope.user_properties or (scope.flow.user_properties if scope.above is None else {})
        inner.user_properties = {**outer, **inner.flow.user_properties}
        scope.inner[node.name] = inner
        self._place_nodes(inner)

    def _check_promotions(self, flow: FlowDefinition) -> None:
        for name, pairs in flow.promoted.items():
            place = flow.places.get(f"promote.{name}", flow.place)
            for node_name, property_name in pairs:
                node = flow.nodes.get(node_name)
                if node is None:
                    problem = f"the promoted property {name} is one of {node_name!r}, which is no node"
                    self._wrong(place, flow.name, f"{problem}{meant(node_name, flow.nodes)}")
                    continue
                known = declared_by_type(node.type)
                if known and property_name not in known:
                    problem = f"the promoted property {name} is {property_name!r} of {node_name}, which has none"
                    self._wrong(place, flow.name, f"{problem}{meant(property_name, known)}")

    # --- links ------------------------------------------------------------------------------------------------

    def _check_terminals(self, scope: _FlowScope) -> None:
        """Links to and from subflows lead to terminals that they have."""
        for link in scope.flow.links:
            source, target = scope.inner.get(link.source), scope.inner.get(link.target)
            if source is not None and source.terminal(link.terminal, OUTPUT, "out") is None:
                self._no_terminal(link, link.source, link.terminal, "output", source.terminals(OUTPUT))
            if target is not None and target.terminal(link.input, INPUT, "in") is None:
                self._no_terminal(link, link.target, link.input, "input", target.terminals(INPUT))

    def _no_terminal(self, link: FlowLink, node: str, terminal: str, way: str, known: list[str]) -> None:
        advice = f"It has {', '.join(known)}." if known else f"It has none: no node of the type {way.capitalize()}."
        problem = f"this subflow has no {way} terminal {terminal!r}{meant(terminal, known)}"
        self._wrong(link.place, node, problem, advice)

    def _place_links(self, scope: _FlowScope) -> None:
        for link in scope.flow.links:
            source = scope.flow.nodes.get(link.source)
            if source is not None and (
                source.type == SUBFLOW or (source.type in (INPUT, OUTPUT) and scope.above is not None)
            ):
                continue  # followed from what leads there
            for target, entrance in self._behind(scope, link, frozenset()):
                self.flat.links.append(
                    FlowLink(scope.prefix + link.source, link.terminal, target, entrance, link.place)
                )

    def _behind(self, scope: _FlowScope, link: FlowLink, seen: frozenset[tuple[int, str]]) -> Iterator[tuple[str, str]]:
        """The nodes that a link leads to in the end."""
        target = scope.flow.nodes.get(link.target)
        inner = scope.inner.get(link.target)
        if inner is not None:
            terminal = inner.terminal(link.input, INPUT, "in")
            yield from self._through(inner, terminal, "", link, seen)
        elif target is not None and target.type == OUTPUT and scope.above is not None:
            yield from self._through(scope.above, scope.node, link.target, link, seen)
        elif target is None or target.type != SUBFLOW:
            yield scope.prefix + link.target, link.input

    def _through(
        self, scope: _FlowScope, node: str | None, terminal: str, link: FlowLink, seen: frozenset[tuple[int, str]]
    ) -> Iterator[tuple[str, str]]:
        """On from a terminal node, or from a terminal of a subflow's node."""
        key = (id(scope), f"{node}.{terminal}")
        if node is None:
            return
        if key in seen:
            self._wrong(link.place, link.source, "this link goes round through subflows without meeting any node")
            return
        inside = scope.inner.get(node) if terminal else None
        for onward in scope.flow.leading_from(node):
            if inside is None or inside.terminal(onward.terminal, OUTPUT, "out") == terminal:
                yield from self._behind(scope, onward, seen | {key})


def _own(flow: FlowDefinition) -> FlowDefinition:
    return replace(
        flow,
        nodes={name: _copy(node) for name, node in flow.nodes.items()},
        user_properties=dict(flow.user_properties),
    )


def _upwards(scope: _FlowScope | None) -> Iterator[_FlowScope]:
    while scope is not None:
        yield scope
        scope = scope.above


def _all_scopes(scope: _FlowScope) -> Iterator[_FlowScope]:
    yield scope
    for inner in scope.inner.values():
        yield from _all_scopes(inner)
