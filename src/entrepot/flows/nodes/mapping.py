# SPDX-License-Identifier: Apache-2.0
"""Mapping: a new message from the elements of the one that came, said as a table.

The table (`entrepot.flows.maps`) becomes ESQL once, when the flow is built, so
a Mapping node is as fast as a Compute node with the same statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from entrepot.errors import EsqlInvalid
from entrepot.esql import EsqlModule, compile_statements
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.maps.gdm import read_map
from entrepot.flows.maps.notation import MapText, Target, write_map
from entrepot.flows.nodes.compute import Compute
from entrepot.flows.nodes.node import FlowMistake, Property
from entrepot.models.logical import MessageSet

_FROM_COMPUTE = tuple(declared for declared in Compute.properties if declared.name not in ("module", "statements"))


class Mapping(Compute):
    type: ClassVar[str] = "Mapping"
    about: ClassVar[str] = "Makes a new message by a table of copies and expressions."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmMSLMapping", "ComIbmMapping")
    outputs: ClassVar[tuple[str, ...]] = ("out", "failure")
    properties: ClassVar[tuple[Property, ...]] = (
        Property(
            "map",
            "any",
            required=True,
            ibm="mappingExpression",
            about="copy, set, foreach, if: see entrepot.flows.maps; or the text of an IBM .map file",
        ),
        Property("domain", "text", "", about="of the new message; the input's when empty"),
        Property("message_set", "text", ""),
        Property("message_type", "text", ""),
        Property("message_format", "text", ""),
        *_FROM_COMPUTE,
    )

    def _compiled(self) -> EsqlModule:
        text = esql_of(self.settings, self.plan.flow.message_sets)
        return compile_statements(text.esql, f"{self.name}.map", kind=self.kind)

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        settings: dict[str, Any] = {declared.name: declared.default for declared in cls.properties}
        settings.update(definition.properties)
        text = esql_of(settings, flow.message_sets)
        if text.problems:
            return [FlowMistake(f"{definition.name}.{where}", problem) for where, problem in text.problems]
        try:
            compile_statements(text.esql, f"{definition.name}.map", kind=cls.kind)
        except EsqlInvalid as error:
            return [FlowMistake(f"{at[0]}:{at[1]}:{at[2]}", at[3]) for at in error.mistakes]
        return []


def esql_of(settings: dict[str, Any], sets: Sequence[MessageSet] = ()) -> MapText:
    """The ESQL of a Mapping node's properties, and what is wrong with its map."""
    table: Any = settings.get("map")
    target = Target(**{key: str(settings.get(key) or "") for key in Target.__dataclass_fields__})
    if isinstance(table, str) and table.lstrip().startswith("<"):
        read = read_map(table, "map")
        if read.problems:
            return MapText("", read.problems)
        table = read.table
        merged = {key: getattr(target, key) or getattr(read.target, key) for key in Target.__dataclass_fields__}
        target = Target(**merged)
    return write_map(table, target, sets)
