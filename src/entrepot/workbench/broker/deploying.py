# SPDX-License-Identifier: Apache-2.0
"""A case's flows at work as instances on a Spark that is open already.

A program that has a Spark, a test for instance, uses `deployed`; measurements have
one in a process tree of its own (engine.py), so that what it costs can be
told from what the generators cost.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from entrepot.flows.definition import FlowDefinition
from entrepot.workbench.broker.cases import BrokerCase, find_case

if TYPE_CHECKING:
    from pyspark import SparkContext

    from entrepot.spark.live.live_flow import LiveFlow

_LOOK_S = 0.02
_BEGIN_S = 60.0


class DeploymentRequest(msgspec.Struct, kw_only=True, frozen=True):
    """What is to run, as it travels to the engine."""

    case: str
    url: str
    message_bytes: int
    instances: int = 1
    """Of the last of the case's flows; those before it, which only hand on, run once."""
    groups: int = 1
    """Execution groups that run all of that, each in a Spark job of its own."""
    databases: dict[str, str] = {}
    suffix: str = ""
    """Of every queue and topic, so that several cases can be at work beside each other."""


@dataclass(slots=True)
class Deployed:
    """Flows at work."""

    flows: list[LiveFlow] = field(default_factory=list)

    @property
    def pids(self) -> list[int]:
        """Of the instances."""
        return [int(row["pid"]) for flow in self.flows for row in flow.status() if "pid" in row]

    def problem(self) -> str:
        """What is not as it was when it began; empty while all is well."""
        for flow in self.flows:
            if not flow.is_running:
                return f"the flow {flow.name} has ended"
            if flow.restarts:
                return f"Spark has begun the flow {flow.name} again {flow.restarts} times"
        return ""


@contextlib.contextmanager
def deployed(context: SparkContext, wanted: DeploymentRequest) -> Iterator[Deployed]:
    """The case's flows, from when every instance is at work to the end of the block; their queues have to be there.

    Raises:
        FlowNotReady, FlowEnded, InstancesTooMany: It does not run; says why.
    """
    from entrepot.spark.live.live_flow import LiveFlow

    case = find_case(wanted.case)
    found = Deployed()
    with contextlib.ExitStack() as stack:
        flows = definitions(case, wanted.message_bytes, wanted.suffix)
        for definition in flows:
            instances = wanted.instances if definition is flows[-1] else 1
            for group in range(wanted.groups):
                live = LiveFlow(
                    context,
                    definition,
                    wanted.url,
                    instances=instances,
                    group=f"group{group}",
                    databases=wanted.databases,
                )
                found.flows.append(stack.enter_context(live))
        deadline = time.monotonic() + _BEGIN_S
        for live in found.flows:
            live.wait_until_running()
            # An instance has connected a moment before it tells its process.
            while not all("pid" in row for row in live.status()) and time.monotonic() < deadline:
                time.sleep(_LOOK_S)
        yield found


def definitions(case: BrokerCase, message_bytes: int, suffix: str) -> list[FlowDefinition]:
    """The flows of a case with the suffix at the end of their names, queues, topics and aggregations."""
    found = case.definitions(message_bytes)
    if suffix:
        for flow in found:
            flow.name += suffix
            for node in flow.nodes.values():
                _rename(node.properties, suffix)
    return found


def _rename(properties: dict[str, Any], suffix: str) -> None:
    for name in ("queue", "aggregate_name", "topic"):
        if properties.get(name):
            properties[name] += suffix
    if "statements" in properties:
        properties["statements"] = properties["statements"].replace("BROKER.REPLIES", f"BROKER.REPLIES{suffix}")


def queues_of(case: BrokerCase, suffix: str = "") -> list[str]:
    """Every queue that its flows name."""
    found: dict[str, None] = {}
    for flow in definitions(case, case.sizes[0], suffix):
        for node in flow.nodes.values():
            if node.properties.get("queue"):
                found[str(node.properties["queue"])] = None
    return list(found)


def databases_of(case: BrokerCase, url: str) -> dict[str, str]:
    from entrepot.workbench.broker.database import DATA_SOURCE

    return {DATA_SOURCE: url} if case.database else {}
