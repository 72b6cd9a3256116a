# SPDX-License-Identifier: Apache-2.0
"""What can be said about a node: by its type, or by the subflow that it stands for."""

from __future__ import annotations

from typing import Any

from entrepot.errors import NodeTypeUnknown
from entrepot.flows.definition import INPUT, OUTPUT, SUBFLOW, FlowDefinition
from entrepot.flows.nodes import find_type
from entrepot.flows.nodes.node import Kind, Node, Property

_DEPTH_MAX = 20
"""Subflows in subflows may go round in a circle, which is told elsewhere."""


def type_of(name: str) -> type[Node] | None:
    """The class behind the name of a type; None where there is none, as for terminals and subflows."""
    if name in (INPUT, OUTPUT, SUBFLOW):
        return None
    try:
        return find_type(name)
    except NodeTypeUnknown:
        return None


def declared_by_type(name: str) -> dict[str, Property]:
    found = type_of(name)
    return {} if found is None else {declared.name: declared for declared in found.properties}


def declared_by_subflow(flow: FlowDefinition, depth: int = 0) -> dict[str, Property]:
    """The properties of a flow's own, and those of its nodes that it promotes."""
    found = {name: Property(name, _kind_of(value), value) for name, value in flow.user_properties.items()}
    for name, pairs in flow.promoted.items():
        declared = next(filter(None, (_declared_in(flow, node, inner, depth) for node, inner in pairs)), None)
        if declared is not None:
            found[name] = declared
    return found


def _declared_in(flow: FlowDefinition, node_name: str, property_name: str, depth: int) -> Property | None:
    node = flow.nodes.get(node_name)
    if node is None or depth > _DEPTH_MAX:
        return None
    if node.type != SUBFLOW:
        return declared_by_type(node.type).get(property_name)
    inner = flow.subflows.get(str(node.properties.get("flow")))
    return None if inner is None else declared_by_subflow(inner, depth + 1).get(property_name)


def _kind_of(value: Any) -> Kind:
    """What a user-defined property wants, by its default value."""
    if isinstance(value, str):
        return "text"
    return "flag" if isinstance(value, bool) else "any"
