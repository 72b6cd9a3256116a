# SPDX-License-Identifier: Apache-2.0
"""Flows drawn in a line or two, for tests.

drawn("In -> Price -> Done", "Price.failure -> Bad", In=reads("ORDERS"), Price=compute("..."), Done=writes("DONE"), ...)
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from entrepot.flows.definition import FlowDefinition
from entrepot.flows.flow_world import QueueFacts
from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import MemoryWorld
from entrepot.message import Message

Drawn = tuple[str, dict[str, Any]]


def node(type_name: str, **properties: Any) -> Drawn:
    return type_name, properties


def reads(queue: str = "IN", domain: str = "XMLNSC", **properties: Any) -> Drawn:
    return node("MQInput", queue=queue, domain=domain, **properties)


def writes(queue: str = "OUT", **properties: Any) -> Drawn:
    return node("MQOutput", queue=queue, **properties)


def compute(statements: str, **properties: Any) -> Drawn:
    return node("Compute", statements=statements, **properties)


def drawn(*routes: str, esql: str = "", name: str = "shop", **nodes: Drawn) -> FlowDefinition:
    flow = FlowDefinition(name, esql={"shop.esql": esql} if esql else {})
    for label, (type_name, properties) in nodes.items():
        flow.node(type_name, label, **properties)
    for route in routes:
        stops = [stop.strip() for stop in route.split("->")]
        for source, target in pairwise(stops):
            node_name, _, terminal = source.partition(".")
            flow.link(node_name, target.partition(".")[0], terminal=terminal or "out")
    return flow


class Stage:
    """A kernel in a world in memory."""

    def __init__(self, flow: FlowDefinition, *, facts: QueueFacts | None = None, **options: Any) -> None:
        self.kernel = Kernel(flow)
        queue = self.kernel.points[0].queue
        self.world = MemoryWorld(now=1_000_000.0, facts={queue: facts} if facts is not None else None, **options)

    def feed(self, body: bytes | str = b"<order><id>7</id></order>", /, **descriptor: Any) -> Any:
        data = body.encode() if isinstance(body, str) else body
        return self.world.feed(self.kernel, self.kernel.points[0], Message(data, **descriptor))

    def on(self, queue: str) -> list[bytes]:
        return [message.body for message in self.world.queues[queue]]

    def messages(self, queue: str) -> list[Message]:
        return self.world.queues[queue]
