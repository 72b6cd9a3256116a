# SPDX-License-Identifier: Apache-2.0
"""A flow on trial, in milliseconds, without a queue manager and without Spark.

    trial = FlowTest("orders.yaml", databases={"SHOP": "CREATE TABLE price (article TEXT, euros REAL)"})
    trial.stub("Credit", lambda message: {"credit": "good"})
    result = trial.feed("ORDERS", "<order><article>tea</article></order>", persistent=True)
    result.assert_output("DONE", tree={"XMLNSC.order.total": 3.5})

Queues, topics, kept states and timers are those of `flows.memory_world`;
databases are real ones.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from entrepot.errors import InvalidArgument, NowhereToSetAside
from entrepot.esql import SqlDatabase
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.flow_world import TOPIC, Output, QueueFacts
from entrepot.flows.journey import Failure, Journey
from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import DEAD_LETTERS, MemoryWorld
from entrepot.flows.nodes.input_node import EntryPoint, InputNode
from entrepot.flows.trials.recording import RecordedKernel, Recording, Stub, body_bytes
from entrepot.flows.trials.result import FlowResult
from entrepot.message import Message
from entrepot.models import render_message
from entrepot.models.tree import Assembly, Folder, Root


class FlowTest:
    """A flow with a world of its own; what is put on queues stays there from one message to the next."""

    def __init__(
        self,
        flow: FlowDefinition | str | Path,
        *,
        databases: Mapping[str, Any] | Any | None = None,
        now: float | datetime | None = None,
        user_properties: Mapping[str, Any] | None = None,
        queues: Mapping[str, QueueFacts] | None = None,
    ) -> None:
        """
        `databases` are DB-API connections by data source, or one for all; a text is SQL that a new SQLite database in
        memory begins with. `queues` say how often their messages are tried, and where they are set aside.

        Raises:
            FlowInvalid: Everything that is wrong with the flow.
        """
        definition = flow if isinstance(flow, FlowDefinition) else _loaded(flow)
        if user_properties:
            known = definition.user_properties
            unknown = sorted(set(user_properties) - set(known))
            if unknown and known:
                raise InvalidArgument("user_properties", ", ".join(unknown), f"some of {', '.join(sorted(known))}")
            definition = dataclasses.replace(definition, user_properties={**known, **user_properties})
        self.connections = _connections(databases)
        self.kernel = RecordedKernel(definition)
        self._world = _World(
            now=now.timestamp() if isinstance(now, datetime) else now,
            database=SqlDatabase(self.connections) if self.connections else None,
            facts=queues,
        )
        self._world.internal = frozenset(point.queue for point in self.kernel.points if point.internal)
        self._world.prime(self.kernel)

    # --- the world ----------------------------------------------------------------------------------

    def database(self, source: str = "") -> Any:
        """The connection of a data source; of the only one without a name."""
        if not source and len(self.connections) == 1:
            return next(iter(self.connections.values()))
        if source not in self.connections:
            known = ", ".join(sorted(self.connections)) or "none"
            raise InvalidArgument("data source", source, f"one that the test has; it has {known}")
        return self.connections[source]

    def limit(
        self, queue: str, *, threshold: int = 0, backout_queue: str = "", dead_letter_queue: str = DEAD_LETTERS
    ) -> None:
        """Say how often messages of a queue are tried, and where they go then: BOTHRESH, BOQNAME and DEADQ."""
        self._world.limit(queue, QueueFacts(threshold, backout_queue, dead_letter_queue))

    def put(self, queue: str, body: Any, **descriptor: Any) -> None:
        """Leave a message on a queue, for an MQGet or for `run_all`."""
        self._world.put_now(Output(queue, message_of(body, descriptor)))

    def messages(self, queue: str) -> list[Message]:
        """What lies on a queue."""
        return list(self._world.queues[queue])

    @property
    def now(self) -> float:
        """Seconds since 1970, in this world."""
        return self._world.now()

    # --- the flow -----------------------------------------------------------------------------------

    def stub(self, node: str, function: Stub | Any, *, domain: str = "") -> None:
        """Let a function stand in for a node, or an answer that is always the same.

        It gets the message and returns what leaves: None for the message as it came, another assembly, a new body
        (bytes, text, or a dictionary for JSON), or a pair (terminal, any of these). An exception that it raises, or
        that is given instead of it, is the node's error. `domain` says how new bodies are read.

        Raises:
            InvalidArgument: There is no such node, or messages enter the flow there.
        """
        found = self.kernel.nodes.get(node)
        if found is None:
            raise InvalidArgument("node", node, f"one of {', '.join(sorted(self.kernel.nodes))}")
        if isinstance(found, InputNode):
            raise InvalidArgument("node", node, "one in the middle of the flow; what comes in here is what you feed")
        self.kernel.stubs[node] = (_as_function(function), domain)

    def feed(self, where: str, body: Any = b"", /, **descriptor: Any) -> FlowResult:
        """Take a message through the flow from an input node, named by itself or by its queue.

        The message is bytes, text, a dictionary or list (JSON), a tree, or a whole `Message`; further arguments are
        fields of its descriptor. What a flow puts on a queue that it reads itself waits for `run_all`.

        Raises:
            InvalidArgument: There is no such node, or no such field.
        """
        try:
            point = self.kernel.point(where)
        except KeyError:
            known = ", ".join(f"{each.node.name} ({each.queue})" for each in self.kernel.points)
            raise InvalidArgument("input node", where, f"one of {known}") from None
        message = message_of(body, descriptor)
        return self._recorded(lambda: self._world.feed(self.kernel, point, message))

    def run_all(self) -> FlowResult:
        """Bring in what lies on the queues that the flow reads, until nothing does."""
        return self._recorded(lambda: self._world.run_all(self.kernel))

    def pass_time(self, seconds: float) -> FlowResult:
        """Let time go by; timers fire, states expire, and what comes of it enters the flow."""
        return self._recorded(lambda: self._world.pass_time(seconds, self.kernel))

    def _recorded(self, action: Any) -> FlowResult:
        self.kernel.record = record = Recording()
        result = self._world.result = FlowResult(record=record)
        try:
            action()
        except NowhereToSetAside as error:
            result.failures.append(Failure(error.node, error))
        if record.mistakes:
            raise InvalidArgument("stub", "; ".join(record.mistakes), "terminals that the node has")
        return result


class _World(MemoryWorld):
    """A world in memory that also records what happens in a step."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.result = FlowResult()
        self.internal: frozenset[str] = frozenset()
        """Queues of the flow itself, such as a timer's: nothing that goes there has left it."""

    def limit(self, queue: str, facts: QueueFacts) -> None:
        self._facts[queue] = facts

    def put_now(self, output: Output) -> None:
        super().put_now(output)
        destination = output.destination
        if destination in self.internal:
            return
        is_topic = destination.startswith(TOPIC)
        kept = self.published[destination[len(TOPIC) :]] if is_topic else self.queues[destination]
        self.result.sent.append((destination, kept[-1]))

    def trace(self, destination: str, text: str) -> None:
        super().trace(destination, text)
        if destination:
            self.result.files[destination] = self.result.files.get(destination, "") + text
        else:
            self.result.trace.append(text)

    def feed(self, kernel: Kernel, point: str | EntryPoint, message: Message) -> Journey:
        journey = super().feed(kernel, point, message)
        self.result.failures += journey.failures
        return journey


def message_of(body: Any, descriptor: Mapping[str, Any]) -> Message:
    """A message from whatever a test has.

    Raises:
        InvalidArgument: A message has no such field.
    """
    unknown = sorted(set(descriptor) - set(Message.__struct_fields__))
    if unknown:
        raise InvalidArgument("field", ", ".join(unknown), f"some of {', '.join(Message.__struct_fields__)}")
    if isinstance(body, Message):
        return replace(body, **descriptor) if descriptor else body
    if isinstance(body, Assembly):
        body = body.root
    if isinstance(body, Root):
        return replace(render_message(body), **descriptor)
    return Message(body.render() if isinstance(body, Folder) else body_bytes(body), **descriptor)


def _as_function(stub: Any) -> Stub:
    if isinstance(stub, BaseException):

        def fails(assembly: Assembly) -> Any:
            del assembly
            raise stub

        return fails
    if callable(stub):
        function: Stub = stub
        return function

    def answers(assembly: Assembly) -> Any:
        del assembly
        return stub

    return answers


def _loaded(path: str | Path) -> FlowDefinition:
    from entrepot.flows.loading import load_flow

    return load_flow(path)


def _connections(databases: Any) -> dict[str, Any]:
    if databases is None:
        return {}
    named = dict(databases) if isinstance(databases, Mapping) else {"": databases}
    return {source: _opened(database) if isinstance(database, str) else database for source, database in named.items()}


def _opened(script: str) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.executescript(script)
    return connection
