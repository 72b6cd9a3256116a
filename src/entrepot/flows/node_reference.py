# SPDX-License-Identifier: Apache-2.0
"""What there is to know about node types, from their declarations: for the command line and for docs/FLOWS.md."""

from __future__ import annotations

from typing import Any

from entrepot.flows.nodes.input_node import InputNode
from entrepot.flows.nodes.node import Node, Property

_VALUES = {
    "text": "text",
    "integer": "whole number",
    "number": "number",
    "flag": "yes or no",
    "esql": "ESQL",
    "list": "list",
    "table": "table",
    "any": "any",
}


def as_json(node_type: type[Node]) -> dict[str, Any]:
    """Everything that a type declares, as plain values."""
    return {
        "type": node_type.type,
        "about": plain(node_type.about),
        "inputs": [*node_type.inputs, *(["any name"] if node_type.inputs_free else [])],
        "outputs": [*node_type.outputs, *(["any name"] if node_type.outputs_free else [])],
        "enters": issubclass(node_type, InputNode),
        "ibm": list(node_type.ibm),
        "properties": [
            {
                "name": each.name,
                "values": ", ".join(each.choices) if each.kind == "choice" else _VALUES[each.kind],
                "required": each.required,
                "default": _default(each),
                "ibm": each.ibm,
                "about": each.about,
            }
            for each in node_type.properties
        ],
    }


def plain(text: str) -> str:
    """A sentence without the backticks of our pages."""
    return text.replace("`", "")


def _default(declared: Property) -> str:
    if declared.required:
        return "must be said"
    if declared.default is None or declared.default == "":
        return "–"
    if isinstance(declared.default, bool):
        return "yes" if declared.default else "no"
    return str(declared.default)


def markdown(node_type: type[Node]) -> str:
    """A section of docs/FLOWS.md."""
    declared = as_json(node_type)
    inputs = ", ".join(f"`{name}`" if name != "any name" else name for name in declared["inputs"])
    outputs = ", ".join(f"`{name}`" if name != "any name" else name for name in declared["outputs"])
    lines = [
        f"### {node_type.type}",
        "",
        f"{node_type.about} " + (f"In: {inputs}. " if inputs else "Messages enter here. ") + f"Out: {outputs}.",
        "",
    ]
    if declared["properties"]:
        lines += ["| Property | Value | Default | Meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{each['name']}` | {_cell(each['values'])} | {_cell(each['default'])} | {_cell(each['about'])} |"
            for each in declared["properties"]
        ]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
