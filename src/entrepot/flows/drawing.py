# SPDX-License-Identifier: Apache-2.0
"""A flow as a tree of text: where messages enter, and from there terminal by terminal.

    orders
    └─ Orders (MQInput ORDERS)
       ├─ out → Total (Compute Total)
       │  └─ out → Done (MQOutput DONE)
       └─ catch → Refuse (MQOutput REFUSED)

A node that several links lead to is drawn where the first of them does; the
others say that it stands above. `picture` draws the same as SVG.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from entrepot.flows.declarations import type_of
from entrepot.flows.definition import INPUT, OUTPUT, SUBFLOW, FlowDefinition, FlowLink, NodeDefinition
from entrepot.flows.nodes.input_node import InputNode

_TELLING = ("queue", "label", "module", "topic", "map", "file", "path", "url", "function", "unique_id",
            "aggregate_name", "folder", "text")  # fmt: skip
"""What tells most about a node, the first that it has."""
_DETAIL_CHARACTERS_MAX = 40


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the tree."""

    depth: int
    name: str
    type: str
    detail: str = ""
    """The queue, module or whatever else tells most about it."""
    terminal: str = ""
    """From which output terminal of the node above one comes here; empty for those where messages enter."""
    input: str = ""
    """At which input terminal, unless it is `in`."""
    is_repeated: bool = False
    """It stands further up with all that follows."""


def outline(flow: FlowDefinition) -> list[Row]:
    """The tree, from top to bottom."""
    rows: list[Row] = []
    drawn: set[str] = set()
    onward: dict[str, list[FlowLink]] = {name: [] for name in flow.nodes}
    for link in flow.links:
        if link.source in onward:
            onward[link.source].append(link)
    for root in roots(flow):
        if root in drawn:
            continue
        rows.append(_row(flow, 0, root, None))
        drawn.add(root)
        waiting = [iter(onward[root])]
        while waiting:
            onward_link = next(waiting[-1], None)
            if onward_link is None:
                waiting.pop()
                continue
            target = onward_link.target
            rows.append(_row(flow, len(waiting), target, onward_link, is_repeated=target in drawn))
            if target not in drawn and target in flow.nodes:
                drawn.add(target)
                waiting.append(iter(onward[target]))
    return rows


def roots(flow: FlowDefinition) -> Iterator[str]:
    """Where to begin: where messages enter, then labels, then what nothing leads to, then all the rest."""
    linked = {link.target for link in flow.links}
    yield from (name for name, node in flow.nodes.items() if is_entrance(node))
    yield from (name for name, node in flow.nodes.items() if node.type == "Label" and name not in linked)
    yield from (name for name in flow.nodes if name not in linked)
    yield from flow.nodes


def is_entrance(node: NodeDefinition) -> bool:
    """Whether messages come into the flow there."""
    node_type = type_of(node.type)
    return node.type == INPUT or (node_type is not None and issubclass(node_type, InputNode))


def detail_of(node: NodeDefinition) -> str:
    """What tells most about a node beside its name and type."""
    if node.type in (INPUT, OUTPUT):
        return ""
    if node.type == SUBFLOW:
        return str(node.properties.get("flow") or "")
    detail = next((value for name in _TELLING if isinstance(value := node.properties.get(name), str) and value), "")
    line = detail.strip().partition("\n")[0]
    return line if len(line) <= _DETAIL_CHARACTERS_MAX else line[: _DETAIL_CHARACTERS_MAX - 1] + "…"


def _row(flow: FlowDefinition, depth: int, name: str, link: FlowLink | None, *, is_repeated: bool = False) -> Row:
    node = flow.nodes.get(name)
    terminal, entrance = ("", "") if link is None else (link.terminal, "" if link.input == "in" else link.input)
    if node is None:
        return Row(depth, name, "missing", terminal=terminal, input=entrance)
    return Row(depth, name, node.type or "?", detail_of(node), terminal, entrance, is_repeated)


def words_for_row(row: Row) -> tuple[str, str, str]:
    """A line in three parts: how one comes there, the node's name, and what it is."""
    terminal = f"{row.terminal} → " if row.terminal else ""
    name = f"{row.name}.{row.input}" if row.input else row.name
    if row.is_repeated:
        return terminal, name, " (above)"
    detail = "subflow" if row.type == SUBFLOW else row.type
    return terminal, name, f" ({detail}{' ' + row.detail if row.detail else ''})"


def with_subflows(flow: FlowDefinition) -> Iterator[FlowDefinition]:
    """A flow, and every subflow below it once."""
    seen: set[int] = set()
    waiting = [flow]
    while waiting:
        each = waiting.pop(0)
        if id(each) not in seen:
            seen.add(id(each))
            waiting += each.subflows.values()
            yield each


def as_json(flow: FlowDefinition) -> dict[str, Any]:
    """A definition as plain values, for programs."""
    return {
        "flow": flow.name,
        "coordinated": flow.coordinated,
        "instances": flow.instances,
        "properties": {name: _plain(value) for name, value in flow.user_properties.items()},
        "promote": {name: [f"{node}.{inner}" for node, inner in pairs] for name, pairs in flow.promoted.items()},
        "esql": list(flow.esql),
        "message_sets": [each.name for each in flow.message_sets],
        "nodes": [
            {
                "name": node.name,
                "type": node.type,
                "properties": {name: _plain(value) for name, value in node.properties.items()},
                "place": str(node.place),
            }
            for node in flow.nodes.values()
        ],
        "links": [
            {"from": link.source, "terminal": link.terminal, "to": link.target, "input": link.input}
            for link in flow.links
        ],
        "subflows": [as_json(each) for each in list(with_subflows(flow))[1:]] if flow.subflows else [],
    }


def _plain(value: Any) -> Any:
    """Values as JSON can say them; a Python function is told by its name."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return getattr(value, "__qualname__", None) or str(value)
