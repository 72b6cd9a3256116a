# SPDX-License-Identifier: Apache-2.0
"""MQInput, MQOutput, MQReply and MQGet: a flow's ends at queues."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec.structs import replace

from entrepot.errors import DestinationMissing
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.flow_world import TOPIC, Output
from entrepot.flows.journey import Journey
from entrepot.flows.nodes.input_node import PARSING, TRANSACTION, EntryPoint, InputNode
from entrepot.flows.nodes.node import FlowMistake, Node, NodeContext, Property
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

    def points(self) -> list[EntryPoint]:
        settings = self.settings
        return [
            EntryPoint(
                self,
                self.run,
                queue=settings["queue"],
                transaction=settings["transaction"],
                selector=settings["selector"] or "",
            )
        ]


class _QueueOutput(Node):
    """What MQOutput and MQReply share: a tree becomes a message on a queue."""

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
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

    def _send(self, destination: str, message: Message, journey: Journey, transaction: str) -> None:
        output = Output(destination, message, self.name)
        if transaction == "no":
            journey.world.put_now(output)
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
            data = mq.add("DestinationData")
            data.add("queueName", queue)
            data.add("queueManagerName", manager)
            data.add("replyIdentifier", message.message_id)
            data.add("msgId", message.message_id)
            data.add("correlId", message.correlation_id)
            data.add("GroupId", message.group_id)
        out(Assembly(assembly.root, assembly.environment, local, assembly.exception_list), journey)


class MQOutput(_QueueOutput):
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

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        settings = self.settings
        manager = settings["queue_manager"]
        self._queue = f"{settings['queue']}@{manager}" if manager else settings["queue"]
        self._mode = settings["destination"]
        self._new_ids = settings["new_message_id"] or settings["new_correlation_id"]

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        given = definition.properties
        if given.get("destination", "queue") == "queue" and not given.get("queue"):
            return [FlowMistake(definition.name, "it names no queue", "Say queue, or destination: list or reply.")]
        return []

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        message = self._message(assembly, journey)
        # The nodes behind this one see the id, so then the queue manager is not left to make one.
        needs_id = not message.message_id and "out" in self.wires
        if self._mode == "queue" and not self._new_ids and not needs_id:
            # The way of most messages.
            if self._transaction == "no":
                journey.world.put_now(Output(self._queue, message, self.name))
            else:
                journey.put(Output(self._queue, message, self.name))
            if "out" in self.wires:
                self._go_on(assembly, journey, [(self._queue, message)])
            return
        sent = []
        for destination, wanted in self._destinations(assembly, message):
            own = self._own(message, wanted, journey)
            self._send(destination, own, journey, wanted.get("transactionMode") or self._transaction)
            sent.append((destination, own))
        self._go_on(assembly, journey, sent)

    def _own(self, message: Message, wanted: dict[str, str], journey: Journey) -> Message:
        """The message as one destination gets it; what its entry in the list says goes before the node's word."""
        settings = self.settings
        changes: dict[str, Any] = {}
        if not message.message_id or _is_wanted(wanted.get("newMsgId"), settings["new_message_id"]):
            changes["message_id"] = journey.new_message_id()
        if _is_wanted(wanted.get("newCorrelId"), settings["new_correlation_id"]):
            changes["correlation_id"] = journey.world.new_message_id()
        if wanted.get("persistenceMode") in ("yes", "no"):
            changes["persistent"] = wanted["persistenceMode"] == "yes"
        if "replyToQ" in wanted:
            changes["reply_to"] = wanted["replyToQ"]
        if "replyToQMgr" in wanted:
            changes["reply_to_manager"] = wanted["replyToQMgr"]
        return replace(message, **changes) if changes else message

    def _destinations(self, assembly: Assembly, message: Message) -> list[tuple[str, dict[str, str]]]:
        """Where it goes, and what each entry of a destination list wants to be otherwise."""
        if self._mode == "queue":
            return [(self._queue, {})]
        if self._mode == "reply":
            return [(reply_queue(message, self), {})]
        found = []
        for listed in _listed(assembly.local_environment):
            wanted = {field.name: str(field.value).strip() for field in listed if field.value is not None}
            queue, manager = wanted.get("queueName"), wanted.get("queueManagerName")
            if queue:
                found.append((f"{queue}@{manager}" if manager else queue, wanted))
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


def _is_wanted(value: str | None, otherwise: bool) -> bool:
    return otherwise if value is None else value.lower() in ("yes", "true", "1")


def reply_queue(message: Message, node: Node) -> str:
    """Where a reply to a message goes.

    Raises:
        DestinationMissing: It does not say.
    """
    name = message.reply_to.strip()
    if not name:
        raise DestinationMissing(node.plan.flow.name, node.name, "MQMD.ReplyToQ is empty")
    # The sender of a message says where its reply goes, and the flow may put where the sender may not.
    if name.startswith(("SYSTEM.", TOPIC)):
        raise DestinationMissing(node.plan.flow.name, node.name, f"MQMD.ReplyToQ is {name}, and takes no replies")
    manager = message.reply_to_manager.strip()
    return f"{name}@{manager}" if manager else name


class MQReply(_QueueOutput):
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
            message_id=message.message_id if wanted & Report.PASS_MESSAGE_ID else journey.world.new_message_id(),
            correlation_id=message.correlation_id if wanted & Report.PASS_CORRELATION_ID else message.message_id,
            reply_to="",
            reply_to_manager="",
            report=0,
        )
        self._send(destination, reply, journey, self._transaction)
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
        transactional = settings["transaction"] == "yes" or (
            settings["transaction"] == "automatic" and journey.transactional
        )
        found = journey.world.get(
            settings["queue"],
            wait_s=float("inf") if wait_ms < 0 else wait_ms / 1000,
            message_id=self._asked(assembly, "MsgId") if settings["by_message_id"] else None,
            correlation_id=self._asked(assembly, "CorrelId") if settings["by_correlation_id"] else None,
            selector=settings["selector"] or None,
            browse=settings["browse"],
            transactional=transactional,
        )
        if found is None:
            self.propagate("noMessage", assembly, journey)
            return
        if transactional and not settings["browse"]:
            journey.has_got = True
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

    def _asked(self, assembly: Assembly, field: str) -> bytes:
        found = assembly.root.get("MQMD", field)
        if not isinstance(found, bytes):
            problem = f"it is to get a message by {field}, and the one that came in has no MQMD.{field}"
            raise DestinationMissing(self.plan.flow.name, self.name, problem)
        return found


def _steps(path: str) -> list[str]:
    steps: list[Any] = [step for step in path.replace("$", "").split(".") if step]
    return steps[1:] if steps and steps[0] in ("LocalEnvironment", "OutputLocalEnvironment") else steps
