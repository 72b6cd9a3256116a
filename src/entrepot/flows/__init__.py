# SPDX-License-Identifier: Apache-2.0
"""The route: message flows as graphs of nodes, and the kernels that they are compiled to.

definition   a flow as it was written: nodes, links, what travels with them
loading      a flow from a file: notation reads our YAML, msgflow/ IBM's files, maps/ their mappings
subflows     subflows put in their places
checking/    everything that is wrong with a flow, before it runs
drawing      a flow as a tree for the terminal; picture draws it as SVG
nodes/       one class a node type
kernel       a flow compiled; journey is one message's way through it
flow_world   what nodes may ask of the world; memory_world is one in memory
statistics   how many messages each node has had, and what they took

A flow knows neither queues nor Spark: live/ is an instance at work on queues, and `entrepot.spark` runs those.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entrepot.flows.definition import FlowDefinition
    from entrepot.flows.kernel import Kernel
    from entrepot.flows.loading import load_flow

DOORS = (
    "definition",
    "drawing",
    "flow_world",
    "kernel",
    "live.deployment",
    "live.instance",
    "live.local_processes",
    "live.readiness",
    "live.supervision",
    "live.worker_process",
    "loading",
    "memory_world",
    "node_reference",
    "nodes",
    "nodes.input_node",
    "nodes.node",
    "picture",
    "subflows",
    "trials",
    "trials.cases",
    "trials.verdicts",
)
"""The modules that other rooms import; all others are this room's own (tests/tidy/test_doors.py)."""

__all__ = ["FlowDefinition", "Kernel", "load_flow"]

_PLACES = {"FlowDefinition": "definition", "Kernel": "kernel", "load_flow": "loading"}


def __getattr__(name: str) -> Any:
    # Parsers, ESQL and models come with these, and most modules of the room need none of them.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
