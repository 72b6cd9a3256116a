# SPDX-License-Identifier: Apache-2.0
"""MQInput, MQOutput, MQReply and MQGet: a flow's ends at queues."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec.structs import replace

from entrepot.errors import DestinationMissing
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.journey import Journey
from entrepot.flows.nodes.input_node import PARSING, TRANSACTION, InputNode, Point
from entrepot.flows.nodes.node import Mistake, Node, Plan, Property
from entrepot.flows.outside import Output
from entrepot.message import Message, MessageType, Report
from entrepot.models import parse_message, render_message
from entrepot.models.tree import Assembly, Element

_PERSISTENCE = Property(
    "persistence",
    "choice",
    "automatic",
    choices=("automatic", "yes", "no"),
    ibm="persistenceMode",
    about="automatic: as MQMD says, or as the message that came in where there is no MQMD",
)


class MQInput(InputNode):
    type: ClassVar[str] = "MQInput"
    about: ClassVar[str] = "Messages from a queue."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmMQInput",)
    properties: ClassVar[tuple[Property, ...]] = (
        Property("queue", "text", required=True, ibm="queueName"),
        *PARSING,
        TRANSACTION,
        Property("selector", "text", "", about="take only messages whose properties fulfil this condition"),
    )

    def points(self) -> list[Point]:
        settings = self.settings
        return [
            Point(
                self,
                self.run,
                queue=settings["queue"],
                transaction=settings["transaction"],
                selector=settings["selector"] or "",
            )
        ]


class _Sender(Node):
    """What MQOutput and MQReply share: a tree becomes a message on a queue."""

    def __init__(self, definition: NodeDefinition, plan: Plan) -> None:
        super().__init__(definition, plan)
        self._persistence = self.settings["persistence"]
        self._transaction = self.settings["transaction"]

    def _message(self, assembly: Assembly, journey: Journey) -> Message:
        root = assembly.root
        message = render_message(root)
        if self._persistence != "automatic":
            wanted = self._persistence == "yes"
        elif message.persistent is journey.message.persistent or root.first("MQMD") is not None:
            wanted = message.persistent
        else:
            wanted = journey.message.persistent
        if message.persistent is not wanted or message.backout_count:
            message = replace(message, persistent=wanted, backout_count=0)
        return message

    def _send(self, destination: str, message: Message, journey: Journey) -> None:
        output = Output(destination, message, self.name)
        if self._transaction == "no":
            journey.outside.put_now(output)
        else:
            journey.put(output)

    def _go_on(self, assembly: Assembly, journey: Journey, sent: list[tuple[str, Message]]) -> None:
        """Let the terminal `out` have the message, with what became of it."""
        out = self.wires.get("out")
        if out is None:
            return
        local = assembly.local_environment.copy()
        written = local.first("WrittenDestination") or local.add("WrittenDestination")
        for before in written.all("MQ"):
            written.remove(before)
        mq = written.add("MQ")
        for destination, message in sent:
            queue, _, manager = destination.partition("@")
            told = mq.add("DestinationData")
            told.add("queueName", queue)
            told.add("queueManagerName", manager)
            told.add("replyIdentifier", message.message_id)
            told.add("msgId", message.message_id)
            told.add("correlId", message.correlation_id)
            told.add("GroupId", message.group_id)
        out(Assembly(assembly.root, assembly.environment, local, assembly.exception_list), journey)


class MQOutput(_Sender):
    type: ClassVar[str] = "MQOutput"
    about: ClassVar[str] = "Puts the message on a queue, on the queues of a destination list, or on its reply-to queue."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmMQOutput",)
    properties: ClassVar[tuple[Property, ...]] = (
        Property("queue", "text", "", ibm="queueName"),
        Property("queue_manager", "text", "", ibm="queueManagerName"),
        Property(
            "destination",
            "choice",
            "queue",
            choices=("queue", "reply", "list"),
            ibm="destinationMode",
            about="list: LocalEnvironment.Destination.MQ says where; reply: MQMD does",
        ),
        TRANSACTION,
        _PERSISTENCE,
        Property("new_message_id", "flag", False, ibm="newMsgId"),
        Property("new_correlation_id", "flag", False, ibm="newCorrelId"),
    )

    def __init__(self, definition: NodeDefinition, plan: Plan) -> None:
        super().__init__(definition, plan)
        settings = self.settings
        manager = settings["queue_manager"]
        self._queue = f"{settings['queue']}@{manager}" if manager else settings["queue"]
        self._mode = settings["destination"]
        self._new_ids = settings["new_message_id"] or settings["new_correlation_id"]

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[Mistake]:
        said = definition.properties
        if said.get("destination", "queue") == "queue" and not said.get("queue"):
            return [Mistake(definition.name, "it names no queue", "Say queue, or destination: list or reply.")]
        return []

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        message = self._message(assembly, journey)
        if self._mode == "queue" and not self._new_ids:
            # The way of most messages.
            if self._transaction == "no":
                journey.outside.put_now(Output(self._queue, message, self.name))
            else:
                journey.put(Output(self._queue, message, self.name))
            if "out" in self.wires:
                self._go_on(assembly, journey, [(self._queue, message)])
            return
        sent = []
        for destination in self._destinations(assembly, message):
            own = self._with_new_ids(message, journey) if self._new_ids else message
            self._send(destination, own, journey)
            sent.append((destination, own))
        self._go_on(assembly, journey, sent)

    def _with_new_ids(self, message: Message, journey: Journey) -> Message:
        settings = self.settings
        changes: dict[str, bytes] = {}
        if settings["new_message_id"]:
            changes["message_id"] = journey.new_message_id()
        if settings["new_correlation_id"]:
            changes["correlation_id"] = journey.outside.new_message_id()
        return replace(message, **changes)

    def _destinations(self, assembly: Assembly, message: Message) -> list[str]:
        if self._mode == "queue":
            return [self._queue]
        if self._mode == "reply":
            return [reply_queue(message, self)]
        found = []
        for listed in _listed(assembly.local_environment):
            queue = _text(listed, "queueName")
            manager = _text(listed, "queueManagerName")
            if queue:
                found.append(f"{queue}@{manager}" if manager else queue)
        if not found:
            raise DestinationMissing(self.plan.flow.name, self.name, "LocalEnvironment.Destination.MQ lists no queue")
        return found


def _listed(local: Element) -> list[Element]:
    destination = local.first("Destination")
    if destination is None:
        return []
    return [
        data
        for name in ("MQ", "MQDestinationList")
        for mq in destination.all(name)
        for data in mq.all("DestinationData")
    ]


def _text(element: Element, name: str) -> str:
    found = element.first(name)
    return "" if found is None or found.value is None else str(found.value).strip()


def reply_queue(message: Message, node: Node) -> str:
    """Where a reply to a message goes.

    Raises:
        DestinationMissing: It does not say.
    """
    if not message.reply_to.strip():
        raise DestinationMissing(node.plan.flow.name, node.name, "MQMD.ReplyToQ is empty")
    manager = message.reply_to_manager.strip()
    return f"{message.reply_to.strip()}@{manager}" if manager else message.reply_to.strip()


class MQReply(_Sender):
    type: ClassVar[str] = "MQReply"
    about: ClassVar[str] = "Puts the message on the reply-to queue of the one that came in."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmMQReply",)
    properties: ClassVar[tuple[Property, ...]] = (TRANSACTION, _PERSISTENCE)

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        message = self._message(assembly, journey)
        destination = reply_queue(message, self)
        wanted = message.report
        reply = replace(
            message,
            type=MessageType.REPLY,
            message_id=message.message_id if wanted & Report.PASS_MESSAGE_ID else journey.outside.new_message_id(),
            correlation_id=message.correlation_id if wanted & Report.PASS_CORRELATION_ID else message.message_id,
            reply_to="",
            reply_to_manager="",
            report=0,
        )
        self._send(destination, reply, journey)
        self._go_on(assembly, journey, [(destination, reply)])


class MQGet(Node):
    type: ClassVar[str] = "MQGet"
    about: ClassVar[str] = "Gets a message in the middle of a flow, such as the reply to one that was sent before."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmMQGet",)
    outputs: ClassVar[tuple[str, ...]] = ("out", "warning", "failure", "noMessage")
    properties: ClassVar[tuple[Property, ...]] = (
        Property("queue", "text", required=True, ibm="queueName"),
        *PARSING,
        Property("wait_ms", "integer", 1000, ibm="waitInterval", about="-1 waits for ever"),
        Property("by_message_id", "flag", False, ibm="getByMessageId"),
        Property("by_correlation_id", "flag", False, ibm="getByCorrelationId"),
        Property("browse", "flag", False, ibm="browseOnly"),
        Property("selector", "text", ""),
        TRANSACTION,
        Property(
            "message",
            "choice",
            "replace",
            choices=("replace", "none"),
            ibm="generateMode",
            about="replace: the message that was got goes on; none: the one that came in goes on",
        ),
        Property("result_path", "text", "", ibm="outputDataLocation", about="a place in LocalEnvironment for the body"),
    )

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        settings = self.settings
        wait_ms: int = settings["wait_ms"]
        asked = render_message(assembly.root)
        found = journey.outside.get(
            settings["queue"],
            wait_s=float("inf") if wait_ms < 0 else wait_ms / 1000,
            message_id=asked.message_id if settings["by_message_id"] else None,
            correlation_id=asked.correlation_id if settings["by_correlation_id"] else None,
            selector=settings["selector"] or None,
            browse=settings["browse"],
            transactional=settings["transaction"] == "yes"
            or (settings["transaction"] == "automatic" and journey.transactional),
        )
        if found is None:
            self.propagate("noMessage", assembly, journey)
            return
        got = parse_message(
            found,
            domain=settings["domain"],
            message_set=settings["message_set"],
            message_type=settings["message_type"],
            message_format=settings["message_format"],
            source_queue=settings["queue"],
        )
        local = assembly.local_environment
        if settings["result_path"]:
            local = local.copy()
            place = local
            for step in _steps(settings["result_path"]):
                place = place.first(step) or place.add(step)
            for folder in got.root.children:
                place.append(folder.copy())
        root = assembly.root if settings["message"] == "none" else got.root
        self.propagate("out", Assembly(root, assembly.environment, local, assembly.exception_list), journey)


def _steps(path: str) -> list[str]:
    steps: list[Any] = [step for step in path.replace("$", "").split(".") if step]
    return steps[1:] if steps and steps[0] in ("LocalEnvironment", "OutputLocalEnvironment") else steps
