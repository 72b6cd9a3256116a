# SPDX-License-Identifier: Apache-2.0
"""Accounting: how many messages a flow and its nodes have had, and what they took.

Elapsed and processor time of a node include what it calls further on, as a
call does; `own` in a report takes that out again by the nodes below.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from entrepot.flows.flow_world import Output
from entrepot.flows.journey import Journey
from entrepot.message import Message

Came = TypeVar("Came")
"""What enters: a message at an input node, its trees at all others."""


@dataclass(slots=True)
class NodeStatistics:
    """What one node has had."""

    messages: int = 0
    errors: int = 0
    bytes: int = 0
    """Bodies that came in or went out here; 0 for nodes in the middle, which have trees."""
    elapsed_ns: int = 0
    """With everything that it called."""
    cpu_ns: int = 0
    below_elapsed_ns: int = 0
    below_cpu_ns: int = 0
    """Of these, what the nodes that it called took."""


@dataclass(slots=True)
class FlowStatistics:
    """What one instance of a flow has had."""

    nodes: dict[str, NodeStatistics] = field(default_factory=dict)
    messages: int = 0
    bytes_in: int = 0
    outputs: int = 0
    bytes_out: int = 0
    failed: int = 0
    """Tries that ended with an uncaught error."""
    set_aside: int = 0
    given_back: int = 0
    """Units of work that were backed out to be tried again."""
    units: int = 0

    def __init__(self, nodes: Iterable[str] = ()) -> None:
        self.nodes = {name: NodeStatistics() for name in nodes}
        self.messages = self.bytes_in = self.outputs = self.bytes_out = 0
        self.failed = self.set_aside = self.given_back = self.units = 0

    def sent(self, outputs: Iterable[Output]) -> None:
        """Messages leave the flow."""
        for output in outputs:
            size = len(output.message.body)
            self.outputs += 1
            self.bytes_out += size
            if output.node in self.nodes:
                self.nodes[output.node].bytes += size

    def as_data(self) -> dict[str, Any]:
        """As plain data, for monitoring."""
        report: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                "messages",
                "bytes_in",
                "outputs",
                "bytes_out",
                "failed",
                "set_aside",
                "given_back",
                "units",
            )
        }
        if self.nodes:
            report["nodes"] = {
                name: {
                    "messages": node.messages,
                    "errors": node.errors,
                    "bytes": node.bytes,
                    "elapsed_ms": round((node.elapsed_ns - node.below_elapsed_ns) / 1e6, 3),
                    "cpu_ms": round((node.cpu_ns - node.below_cpu_ns) / 1e6, 3),
                }
                for name, node in self.nodes.items()
            }
        return report


_callers: list[NodeStatistics] = []
"""The nodes that are at work, the innermost last; a kernel belongs to one thread of one process."""


def counted(enter: Callable[[Came, Journey], None], node: NodeStatistics) -> Callable[[Came, Journey], None]:
    """An entrance that counts messages and the time they take."""

    def enter_counted(came: Came, journey: Journey) -> None:
        _callers.append(node)
        if isinstance(came, Message):
            node.bytes += len(came.body)
        elapsed, cpu = time.perf_counter_ns(), time.thread_time_ns()
        try:
            enter(came, journey)
        except Exception:
            node.errors += 1
            raise
        finally:
            elapsed, cpu = time.perf_counter_ns() - elapsed, time.thread_time_ns() - cpu
            _callers.pop()
            node.messages += 1
            node.elapsed_ns += elapsed
            node.cpu_ns += cpu
            if _callers:
                _callers[-1].below_elapsed_ns += elapsed
                _callers[-1].below_cpu_ns += cpu

    return enter_counted
