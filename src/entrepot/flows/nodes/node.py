# SPDX-License-Identifier: Apache-2.0
"""What all node types share: their declaration, their terminals, and what becomes of their errors.

A node type is a class. Its declaration (`about`, `properties`, `inputs`,
`outputs`) is what definitions are checked against, what importers translate
to, and what the documentation is made of; an instance is one node of one
kernel.

An error belongs to the node that raised it: that node's failure terminal has
it if something is connected there, else it travels back against the links
until a TryCatch or the input node catches it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from entrepot.flows.exception_list import with_exception
from entrepot.models.tree import Assembly

if TYPE_CHECKING:
    from entrepot.esql import Program
    from entrepot.flows.definition import FlowDefinition, NodeDefinition
    from entrepot.flows.journey import Journey

Kind = Literal["text", "integer", "number", "flag", "choice", "esql", "list", "table", "any"]


@dataclass(frozen=True, slots=True)
class Property:
    """Something that can be said about a node."""

    name: str
    """As our YAML and Python say it."""
    kind: Kind = "text"
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    ibm: str = ""
    """The attribute in a .msgflow file; empty where there is none."""
    about: str = ""


@dataclass(frozen=True, slots=True)
class FlowMistake:
    """Something wrong with a definition, found before it runs."""

    where: str
    """File, line and column, or the node's name."""
    problem: str
    advice: str = ""
    severity: Literal["mistake", "warning"] = "mistake"

    @property
    def is_warning(self) -> bool:
        """It may be meant so; the flow runs."""
        return self.severity == "warning"


@dataclass(slots=True)
class NodeContext:
    """What nodes are built from, beside their own properties."""

    flow: FlowDefinition
    """Without subflows: they have been put in place."""
    program: Program | None
    """All of the flow's ESQL."""
    labels: dict[str, Callable[[Assembly, Journey], None]] = field(default_factory=dict)
    """Where RouteToLabel and PROPAGATE TO LABEL can go; filled once all nodes are built."""
    user_properties: Mapping[str, Any] = field(default_factory=dict)


Enter = Callable[[Assembly, "Journey"], None]


class Node:
    """One node of a kernel."""

    type: ClassVar[str]
    about: ClassVar[str] = ""
    properties: ClassVar[tuple[Property, ...]] = ()
    inputs: ClassVar[tuple[str, ...]] = ("in",)
    inputs_free: ClassVar[bool] = False
    """Whether a definition may name further input terminals."""
    outputs: ClassVar[tuple[str, ...]] = ("out", "failure")
    outputs_free: ClassVar[bool] = False
    """Whether a definition may name further output terminals."""
    ibm: ClassVar[tuple[str, ...]] = ()
    """What .msgflow files call it."""

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        self.name = definition.name
        self.plan = plan
        self.settings: dict[str, Any] = {declared.name: declared.default for declared in self.properties}
        self.settings.update(definition.properties)
        self.user_properties: Mapping[str, Any] = {**plan.user_properties, **definition.user_properties}
        """What ESQL of this node sees as EXTERNAL."""
        self.wires: dict[str, Enter] = {}
        """By output terminal; one that is not connected is not here."""

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        """What is wrong beyond what the declaration already forbids."""
        del definition, flow
        return []

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        """Do what this node does, and send the message on."""
        raise NotImplementedError

    def enter(self, assembly: Assembly, journey: Journey) -> None:
        """A message arrives at the terminal in."""
        try:
            self.evaluate(assembly, journey)
        except Exception as error:
            self._failed(error, assembly, journey)

    def entrance(self, terminal: str) -> Enter:
        """What a link to an input terminal calls; nodes with several of them say which here."""
        del terminal
        return self.enter

    def _failed(self, error: Exception, assembly: Assembly, journey: Journey) -> None:
        if journey.raised is error:
            raise error  # it comes from further on, and is not this node's
        journey.raised = error
        journey.raised_by = self
        failure = self.wires.get("failure")
        if failure is None:
            raise error
        journey.noted(self, error)
        failure(with_exception(assembly, error, journey), journey)

    def propagate(self, terminal: str, assembly: Assembly, journey: Journey) -> bool:
        """Send a message to whatever is connected to a terminal; whether there is something."""
        wire = self.wires.get(terminal)
        if wire is None:
            return False
        wire(assembly, journey)
        return True
