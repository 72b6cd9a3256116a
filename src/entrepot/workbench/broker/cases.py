# SPDX-License-Identifier: Apache-2.0
"""The broker document's cases: which flows each has, what comes in, and what else takes part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from entrepot.errors import ScenarioInvalid
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.loading import load_flow
from entrepot.message import Message
from entrepot.workbench.broker.messages import MODEL_BYTES, SET, Template, message_of, model, template_of
from entrepot.yaml_places import load_plain

FLOWS = Path(__file__).resolve().parent


@dataclass(frozen=True)
class BrokerCase:
    """One measurement of the document."""

    name: str
    table: str
    flows: tuple[str, ...]
    message: str
    sizes: tuple[int, ...] = (1024, 4096)
    instances: int = 0
    groups: int = 1
    subscribers: int = 0
    content: str = ""
    database: bool = False
    echo: str = ""
    """A queue whose requests the load has to answer."""

    def definitions(self, size: int = MODEL_BYTES) -> list[FlowDefinition]:
        """Its flows; where their model has fixed lengths, with the model of messages of that size."""
        found = [load_flow(FLOWS / f"{flow}.yaml") for flow in self.flows]
        for flow in found:
            if size != MODEL_BYTES:
                flow.message_sets = [model(size) if each.name == SET else each for each in flow.message_sets]
        return found

    def body(self, size: int) -> Message:
        return message_of(self.message, size)

    def template(self, size: int) -> Template:
        return template_of(self.message, size)


@cache
def cases() -> dict[str, BrokerCase]:
    tables: dict[str, dict[str, Any]] = load_plain((FLOWS / "cases.yaml").read_text())
    return {name: msgspec.convert({"name": name, **facts}, BrokerCase) for name, facts in tables.items()}


def find_case(name: str) -> BrokerCase:
    """
    Raises:
        ScenarioInvalid: There is no such case.
    """
    if name not in cases():
        raise ScenarioInvalid("cases.yaml", name, f"is no case; there are {', '.join(cases())}")
    return cases()[name]
