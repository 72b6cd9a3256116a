# SPDX-License-Identifier: Apache-2.0
"""A flow compiled: messages in, messages out, no queues and no Spark in it.

    kernel = Kernel(flow)
    journey = kernel.process(kernel.points[0], message, world)
    journey.outputs     what it wants to send, and where

Links become plain calls: a node calls the next one, and an error travels back
as a Python exception does. A kernel pickles as its definition and is compiled
again where it arrives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from entrepot.errors import RetriedTooOften
from entrepot.esql import Program, compile_texts
from entrepot.esql.user_functions import FlowControl, as_failure
from entrepot.flows.checking import require_valid
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.flow_world import FlowWorld, Output, QueueFacts
from entrepot.flows.journey import NEVER, Earlier, Journey, NotAlone
from entrepot.flows.nodes import find_type
from entrepot.flows.nodes.input_node import EntryPoint, InputNode
from entrepot.flows.nodes.node import Enter, Node, NodeContext
from entrepot.flows.statistics import FlowStatistics, counted
from entrepot.flows.subflows import expand
from entrepot.message import Message
from entrepot.models import register_set
from entrepot.models.tree import Assembly

CRASHES_MAX = 5
"""In how many units of work that ended with a crash a message may have been, before it is held to be the cause."""


class Kernel:
    """One flow, ready to run; for one thread."""

    def __init__(self, flow: FlowDefinition, *, node_statistics: bool = False) -> None:
        """
        Raises:
            FlowInvalid: Everything that is wrong with it.
        """
        self.flow = flow
        self._node_statistics = node_statistics
        require_valid(flow)
        flat = expand(flow)
        for message_set in flat.message_sets:
            register_set(message_set)
        program: Program | None = compile_texts(flat.esql) if flat.esql else None
        plan = NodeContext(flat, program, user_properties=flat.user_properties)
        self.nodes: dict[str, Node] = {
            name: find_type(definition.type)(definition, plan) for name, definition in flat.nodes.items()
        }
        self.statistics = FlowStatistics(list(self.nodes) if node_statistics else [])
        self._wire(flat)
        for node in self.nodes.values():
            label = node.settings.get("label") if node.type == "Label" else None
            if label:
                plan.labels[str(label)] = self._entrance(node, "in")
        self.points: list[EntryPoint] = [
            point for node in self.nodes.values() if isinstance(node, InputNode) for point in node.points()
        ]
        if node_statistics:
            for point in self.points:
                point.run = counted(point.run, self.statistics.nodes[point.node.name])

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.flow, self._node_statistics)

    def _wire(self, flat: FlowDefinition) -> None:
        targets: dict[tuple[str, str], list[Enter]] = {}
        for link in flat.links:
            entrance = self._entrance(self.nodes[link.target], link.input)
            targets.setdefault((link.source, link.terminal), []).append(entrance)
        for (source, terminal), entrances in targets.items():
            self.nodes[source].wires[terminal] = entrances[0] if len(entrances) == 1 else _one_after_another(entrances)

    def _entrance(self, node: Node, terminal: str) -> Enter:
        entrance = node.entrance(terminal)
        return counted(entrance, self.statistics.nodes[node.name]) if self._node_statistics else entrance

    def point(self, name: str) -> EntryPoint:
        """Where messages come in: by the name of a node, or of its queue."""
        for point in self.points:
            if name in (point.node.name, point.queue):
                return point
        raise KeyError(name)

    def process(self, point: EntryPoint, message: Message, world: FlowWorld, earlier: Earlier = NEVER) -> Journey:
        """Take one message through the flow; what is to happen on its account.

        A message that fails is tried again up to the threshold of its queue and
        then set aside: to the failure terminal of its input node, else to the
        backout queue, else to the dead-letter queue. So an answer always means
        that the message has been dealt with.

        Raises:
            NotAlone: It failed after it had got a message, done work in a database, or carefully put something.
            NowhereToSetAside: It failed, and no terminal or queue takes it. It must stay on its queue.
        """
        tries, error, raised_by, failure_failed = earlier
        facts = world.facts(point.queue) if point.queue else _NO_FACTS
        transactional = point.is_transactional(message)
        left_behind: Journey | None = None
        statistics = self.statistics
        while not _is_exhausted(message, tries, facts, transactional):
            journey = Journey(message, world, source_queue=point.queue, transactional=transactional)
            try:
                point.run(message, journey)
            except FlowControl:
                raise
            except BaseException as raised:
                error, tries, raised_by = as_failure(raised), tries + 1, journey.raised_by
                statistics.failed += 1
                if journey.is_bound():
                    raise NotAlone(Earlier(tries, error, raised_by)) from raised
                if not transactional:
                    left_behind = journey
                    break
                continue
            statistics.messages += 1
            statistics.bytes_in += len(message.body)
            return journey
        failing = Journey(message, world, source_queue=point.queue, transactional=transactional)
        if left_behind is not None:
            # Outside of a unit of work they would be on their queues already.
            failing.outputs = [output for output in left_behind.outputs if not self._is_in_unit(output)]
        if error is None:
            error = RetriedTooOften(point.queue, message.backout_count)
        failing.raised_by, failing.failure_failed = raised_by, failure_failed
        try:
            point.set_aside(message, failing, error, facts)
        except NotAlone:
            raise NotAlone(Earlier(tries, error, raised_by, failure_failed=True)) from error
        statistics.messages += 1
        statistics.set_aside += 1
        statistics.bytes_in += len(message.body)
        return failing

    def _is_in_unit(self, output: Output) -> bool:
        """Whether the node that sent it wants a unit of work whatever the message came in."""
        node = self.nodes.get(output.node)
        return node is not None and node.settings.get("transaction") == "yes"


_NO_FACTS = QueueFacts()


def _is_exhausted(message: Message, tries: int, facts: QueueFacts, transactional: bool) -> bool:
    if tries:
        # A threshold that is not set is 1, as in IBM's brokers: an error of the flow would come again.
        return not transactional or tries + message.backout_count >= facts.threshold
    # Untried, but it was in units of work that were never committed: a crash may have been another message's.
    return message.backout_count >= facts.threshold + CRASHES_MAX


def _one_after_another(entrances: Sequence[Enter]) -> Enter:
    def enter_all(assembly: Assembly, journey: Journey) -> None:
        for entrance in entrances:
            entrance(assembly, journey)

    return enter_all


def _rebuild(flow: FlowDefinition, node_statistics: bool) -> Kernel:
    return Kernel(flow, node_statistics=node_statistics)
