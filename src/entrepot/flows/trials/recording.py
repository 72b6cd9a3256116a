# SPDX-License-Identifier: Apache-2.0
"""A kernel that remembers which way a message took, and whose nodes can be replaced.

Recording costs a copy of the trees at every node, so it is for tests; the
kernel that runs live knows nothing of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from entrepot.flows.definition import FlowDefinition
from entrepot.flows.journey import Journey
from entrepot.flows.kernel import Kernel
from entrepot.flows.nodes.input_node import EntryPoint
from entrepot.flows.nodes.node import Enter, Node
from entrepot.message import Message
from entrepot.models import parse_message
from entrepot.models.tree import Assembly, Element, Root

Stub = Callable[[Assembly], Any]
"""What stands in for a node: gets the message, and says what leaves.

None lets the message go on as it came, an assembly goes on in its place, and bytes, text or a dictionary (JSON) are a
new body for it; a pair (terminal, any of these) says where it goes, and a list of pairs sends several. What it raises
is the node's error.
"""


@dataclass(slots=True)
class Visit:
    """A message in a node."""

    node: str
    input: Assembly
    """The trees as they arrived."""
    outputs: list[tuple[str, Assembly]] = field(default_factory=list)
    """What left, and by which terminal, in order."""
    error: Exception | None = None
    """What came out of it, by itself or from further on."""

    @property
    def output(self) -> Assembly:
        """What left first.

        Raises:
            AssertionError: Nothing did.
        """
        if not self.outputs:
            raise AssertionError(f"nothing left the node {self.node}" + (f": {self.error}" if self.error else ""))
        return self.outputs[0][1]


@dataclass(slots=True)
class Recording:
    """Where messages have been since it was begun."""

    path: list[str] = field(default_factory=list)
    """`node.terminal` for each time that something left a node, `node` where nothing did."""
    visits: list[Visit] = field(default_factory=list)
    environment: Element | None = None
    """As the flow left it."""
    open: list[Visit] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)
    """Of stubs: these are the test's, and not the flow's to catch."""


class RecordedKernel(Kernel):
    """A kernel with a record, and with stubs in the place of nodes."""

    def __init__(self, flow: FlowDefinition) -> None:
        self.record = Recording()
        self.stubs: dict[str, tuple[Stub, str]] = {}
        """By node: what stands in for it, and the domain of bodies that it makes."""
        super().__init__(flow)
        for node in self.nodes.values():
            for terminal, wire in node.wires.items():
                node.wires[terminal] = self._leaving(node.name, terminal, wire)
        labels = next(iter(self.nodes.values())).plan.labels if self.nodes else {}
        for label, enter in labels.items():
            labels[label] = self._jumping(label, enter)
        for point in self.points:
            point.run = self._starting(point)

    def _entrance(self, node: Node, terminal: str) -> Enter:
        entrance = super()._entrance(node, terminal)

        def enter(assembly: Assembly, journey: Journey) -> None:
            stub = self.stubs.get(node.name)
            with_visit = self._visiting(node, Visit(node.name, snapshot(assembly)))
            with_visit(entrance if stub is None else self._standing_in(node, *stub), assembly, journey)

        return enter

    def _visiting(self, node: Node, visit: Visit) -> Callable[[Enter, Assembly, Journey], None]:
        def run(enter: Enter, assembly: Assembly, journey: Journey) -> None:
            record = self.record
            at = len(record.path)
            record.visits.append(visit)
            record.open.append(visit)
            try:
                enter(assembly, journey)
            except Exception as error:
                visit.error = error
                raise
            finally:
                record.open.pop()
                if not visit.outputs:
                    record.path.insert(at, node.name)

        return run

    def _leaving(self, name: str, terminal: str, wire: Enter) -> Enter:
        def leave(assembly: Assembly, journey: Journey) -> None:
            self._note(name, terminal, assembly)
            wire(assembly, journey)

        return leave

    def _jumping(self, label: str, enter: Enter) -> Enter:
        def jump(assembly: Assembly, journey: Journey) -> None:
            if self.record.open:
                self._note(self.record.open[-1].node, f"label:{label}", assembly)
            enter(assembly, journey)

        return jump

    def _note(self, name: str, terminal: str, assembly: Assembly) -> None:
        record = self.record
        record.environment = assembly.environment
        record.path.append(f"{name}.{terminal}")
        visit = next((each for each in reversed(record.open) if each.node == name), None)
        if visit is not None:
            visit.outputs.append((terminal, snapshot(assembly)))

    def _starting(self, point: EntryPoint) -> Callable[[Message, Journey], None]:
        run = point.run

        def start(message: Message, journey: Journey) -> None:
            record = self.record
            at = len(record.path)
            try:
                run(message, journey)
            finally:
                if len(record.path) == at:
                    record.path.append(point.node.name)

        return start

    # --- stubs ------------------------------------------------------------------------------------

    def _standing_in(self, node: Node, function: Stub, domain: str) -> Enter:
        def enter(assembly: Assembly, journey: Journey) -> None:
            try:
                answers = self._answers(node, function(snapshot(assembly)), assembly, domain)
                for terminal, leaving in answers:
                    node.propagate(terminal, leaving, journey)
            except Exception as error:
                node._failed(error, assembly, journey)

        return enter

    def _answers(self, node: Node, answer: Any, assembly: Assembly, domain: str) -> list[tuple[str, Assembly]]:
        usual = "out" if "out" in node.outputs else node.outputs[0]
        pairs = answer if isinstance(answer, list) else [answer if isinstance(answer, tuple) else (usual, answer)]
        found = []
        for terminal, each in pairs:
            if terminal not in node.outputs and terminal not in node.wires and not node.outputs_free:
                self.record.mistakes.append(
                    f"the stub of {node.name} sends to {terminal!r}; {node.type} has {', '.join(node.outputs)}"
                )
            found.append((terminal, _answered(each, assembly, domain)))
        return found


def snapshot(assembly: Assembly) -> Assembly:
    """The trees as they are now, whatever becomes of them."""
    return Assembly(
        assembly.root.copy(),
        assembly.environment.copy(),
        assembly.local_environment.copy(),
        assembly.exception_list.copy(),
    )


def _answered(answer: Any, assembly: Assembly, domain: str) -> Assembly:
    if answer is None:
        return assembly
    if isinstance(answer, Assembly):
        # The environment is one for a whole flow, and the stub was given a copy.
        return Assembly(answer.root, assembly.environment, answer.local_environment, answer.exception_list)
    root = with_body(assembly.root, body_bytes(answer), domain)
    return Assembly(root, assembly.environment, assembly.local_environment, assembly.exception_list)


def body_bytes(body: Any) -> bytes:
    """The bytes of a body: as they are, of a text in UTF-8, or of JSON.

    Raises:
        TypeError: Nothing of that.
    """
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, dict | list):
        return json.dumps(body, ensure_ascii=False).encode()
    raise TypeError(f"a body is bytes, text, or a dictionary or list for JSON; this is {type(body).__name__}")


def with_body(root: Root, body: bytes, domain: str) -> Root:
    """A message with another body; without a domain it is taken for what it looks like."""
    first = body.lstrip()[:1]
    domain = domain or ("XMLNSC" if first == b"<" else "JSON" if first in (b"{", b"[") else "BLOB")
    own = root.copy()
    made = parse_message(Message(body), domain=domain).root.children[-1]
    headers = [child for child in own.children if child.domain_name() in _HEADERS]
    for child in [child for child in own.children if child not in headers]:
        own.remove(child)
    own.append(made)
    return own


_HEADERS = frozenset({"Properties", "MQMD", "MQRFH2", "HTTPInputHeader", "HTTPReplyHeader", "HTTPResponseHeader"})
