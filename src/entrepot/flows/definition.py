# SPDX-License-Identifier: Apache-2.0
"""A flow as it was written: nodes, the links between their terminals, and what travels with them.

A definition is plain data, whatever it came from: our YAML (`notation`), IBM's
files (`msgflow/`), or Python:

    flow = FlowDefinition("orders")
    flow.node("MQInput", "Orders", queue="ORDERS", domain="XMLNSC")
    flow.node("MQOutput", "Done", queue="DONE")
    flow.link("Orders", "Done")

It pickles, so it can travel to wherever the flow is to run; ESQL and message
sets travel with it as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from entrepot.models.logical import MessageSet
from entrepot.yaml_places import NOWHERE, Place

SUBFLOW = "Subflow"
"""The type of a node that stands for a whole subflow; its property `flow` says which."""
INPUT = "Input"
"""The type of a node that is an input terminal of its subflow; its name is the terminal's."""
OUTPUT = "Output"
"""The same for an output terminal."""


@dataclass(slots=True)
class NodeDefinition:
    """One node: its name in the flow, its type, and what was said about it."""

    name: str
    type: str
    properties: dict[str, Any] = field(default_factory=dict)
    """By our names; what was not said is not there."""
    place: Place = NOWHERE
    places: dict[str, Place] = field(default_factory=dict)
    """Where the value of each property begins; without a column where its text does not stand there as it is."""
    user_properties: dict[str, Any] = field(default_factory=dict)
    """What the node sees in the place of the flow's, because it comes from a subflow that has its own."""


@dataclass(frozen=True, slots=True)
class FlowLink:
    """From an output terminal to an input terminal."""

    source: str
    terminal: str
    target: str
    input: str = "in"
    place: Place = NOWHERE


@dataclass(slots=True)
class FlowDefinition:
    """A flow, or a subflow: one that has nodes of the types Input and Output for its own terminals."""

    name: str
    nodes: dict[str, NodeDefinition] = field(default_factory=dict)
    links: list[FlowLink] = field(default_factory=list)
    """In the order in which they were drawn; one terminal's links are followed in this order."""
    coordinated: bool = False
    """Databases commit in one global unit of work with the messages."""
    instances: int = 1
    """How many tasks run it, unless the deployment says otherwise."""
    user_properties: dict[str, Any] = field(default_factory=dict)
    """What EXTERNAL variables of its ESQL have, with their defaults."""
    promoted: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Properties of its nodes that are set from outside: a name, and the (node, property) pairs that it sets."""
    subflows: dict[str, FlowDefinition] = field(default_factory=dict)
    """By the name under which nodes of the type Subflow ask for them."""
    esql: dict[str, str] = field(default_factory=dict)
    """The texts of its ESQL files by file name."""
    message_sets: list[MessageSet] = field(default_factory=list)
    place: Place = NOWHERE
    places: dict[str, Place] = field(default_factory=dict)
    """Where other things were written: `promote.NAME`, `properties.NAME`, `subflows.NAME`."""

    def node(self, type_name: str, name: str = "", /, **properties: Any) -> NodeDefinition:
        """Add a node; without a name it is called after its type."""
        name = name or type_name
        if name in self.nodes:
            raise ValueError(f"the flow {self.name} has a node {name!r} already")
        made = self.nodes[name] = NodeDefinition(name, type_name, properties)
        return made

    def link(
        self,
        source: NodeDefinition | str,
        target: NodeDefinition | str,
        *,
        terminal: str = "out",
        input: str = "in",  # noqa: A002 -- what every user of brokers calls it
    ) -> None:
        """Let what leaves a terminal arrive at another node."""
        self.links.append(FlowLink(_name_of(source), terminal, _name_of(target), input))

    @property
    def is_subflow(self) -> bool:
        """Whether it has terminals of its own, so that it is a part and cannot run."""
        return any(node.type in (INPUT, OUTPUT) for node in self.nodes.values())

    def leading_from(self, name: str) -> Iterator[FlowLink]:
        """The links that start at a node."""
        return (link for link in self.links if link.source == name)


def _name_of(node: NodeDefinition | str) -> str:
    return node if isinstance(node, str) else node.name
