# SPDX-License-Identifier: Apache-2.0
"""Where messages enter a flow, and what becomes of them when their errors are not handled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from msgspec.structs import replace

from entrepot.errors import EntrepotError, NowhereToSetAside
from entrepot.errors.describing import error_text
from entrepot.esql.user_functions import FlowControl, as_failure
from entrepot.flows.exception_list import with_exception
from entrepot.flows.flow_world import Output, QueueFacts
from entrepot.flows.journey import NEVER, Journey, NotAlone
from entrepot.flows.nodes.node import Node, Property
from entrepot.message import Message
from entrepot.models import parse_message
from entrepot.models.tree import Assembly

TRANSACTION = Property(
    "transaction",
    "choice",
    "automatic",
    choices=("yes", "no", "automatic"),
    ibm="transactionMode",
    about="yes: outputs and input are one unit of work; automatic: for persistent messages",
)
_PROBLEM_CHARACTERS = 1000
PARSING = (
    Property("domain", "text", "", ibm="messageDomainProperty", about="which parser reads the body; BLOB when empty"),
    Property("message_set", "text", "", ibm="messageSetProperty"),
    Property("message_type", "text", "", ibm="messageTypeProperty"),
    Property("message_format", "text", "", ibm="messageFormatProperty"),
)


class MessageSource(Protocol):
    """Where messages come from that lie on no queue; the kernel's caller asks it in turn with the queues.

    It keeps what it has handed out until it hears that the unit of work with all of that was committed. It is
    made in the process that runs the kernel, and used by one thread.
    """

    def next(self, wait_s: float) -> Message | None:
        """The next message, or None when none comes within `wait_s`."""

    def committed(self) -> None:
        """All that was handed out since the last time has been dealt with, for good."""

    def backed_out(self) -> None:
        """None of that has happened: it is handed out again."""

    def left_in_doubt(self) -> None:
        """Whether that has happened is not known, and the unit of work itself cannot be asked any more."""

    def close(self) -> None: ...


@dataclass(slots=True)
class EntryPoint:
    """One place at which messages enter; the kernel's caller brings them."""

    node: InputNode
    run: Callable[[Message, Journey], None]
    queue: str = ""
    """The queue that they come from; empty for other sources."""
    transaction: str = "automatic"
    source: Callable[[], MessageSource] | None = None
    """Opens what they come from, where that is no queue."""
    selector: str = ""
    internal: bool = False
    """A queue of the flow itself, such as a timer's; made when the flow starts and it is missing."""

    def is_transactional(self, message: Message) -> bool:
        return message.persistent if self.transaction == "automatic" else self.transaction == "yes"

    def set_aside(self, message: Message, journey: Journey, error: Exception, facts: QueueFacts) -> None:
        self.node.set_aside(message, journey, error, facts)


class InputNode(Node):
    """Parses what comes, sends it to `out`, and catches what comes back."""

    inputs: ClassVar[tuple[str, ...]] = ()
    outputs: ClassVar[tuple[str, ...]] = ("out", "failure", "catch")

    def points(self) -> list[EntryPoint]:
        raise NotImplementedError

    def prime(self, journey: Journey) -> None:
        """The flow starts: put what has to be there before the first message, such as a timer's token."""

    def parse(self, message: Message, journey: Journey) -> Assembly:
        """The trees that the flow starts with."""
        settings: dict[str, Any] = self.settings
        return parse_message(
            message,
            domain=settings["domain"],
            message_set=settings["message_set"],
            message_type=settings["message_type"],
            message_format=settings["message_format"],
            source_queue=journey.source_queue,
            transactional=journey.transactional,
        )

    def run(self, message: Message, journey: Journey) -> None:
        """A message has come."""
        self.start(self.parse(message, journey), journey)

    def start(self, assembly: Assembly, journey: Journey) -> None:
        """Send a message into the flow; an error that comes back goes to `catch`."""
        catch = self.wires.get("catch")
        if catch is None:
            self.propagate("out", assembly, journey)
            return
        try:
            self.propagate("out", assembly, journey)
        except Exception as error:
            if journey.raised is not error:
                journey.raised, journey.raised_by = error, self
            journey.noted(self, error)
            catch(with_exception(assembly, error, journey), journey)

    def set_aside(self, message: Message, journey: Journey, error: Exception, facts: QueueFacts) -> None:
        """A message has failed for the last time.

        Raises:
            NotAlone: The failure terminal did not take it either, and only the whole unit can undo what was done there.
            NowhereToSetAside: Neither the failure terminal nor a queue takes it.
        """
        failure = self.wires.get("failure")
        problem = error_text(error)
        journey.raised_by = journey.raised_by or self
        journey.noted(journey.raised_by, error)
        if failure is not None and not journey.failure_failed:
            sent_before = len(journey.outputs)
            try:
                failure(with_exception(self._as_it_came(message, journey), error, journey), journey)
                return
            except FlowControl:
                raise
            except BaseException as raised:
                second = as_failure(raised)
                if journey.is_bound():
                    raise NotAlone(NEVER) from second
                journey.noted(journey.raised_by or self, second)
                del journey.outputs[sent_before:]
                journey.states.clear()
                journey.after_commit.clear()
                problem = f"{problem}; and on the way from the failure terminal: {error_text(second)}"
        for each in self.contents(message):
            self._put_aside(each, journey, problem, facts, error)

    def contents(self, message: Message) -> list[Message]:
        """What goes to a backout queue when a message has failed: itself, or the messages that it stands for."""
        return [message]

    def _put_aside(self, message: Message, journey: Journey, problem: str, facts: QueueFacts, error: Exception) -> None:
        for queue in (facts.backout_queue, facts.dead_letter_queue):
            if not queue:
                continue
            reasons = {"entrepot_flow": self.plan.flow.name, "entrepot_error": problem[:_PROBLEM_CHARACTERS]}
            own = replace(message, properties={**message.properties, **reasons}, backout_count=0)
            try:
                journey.put(Output(queue, own, self.name))
                return
            except EntrepotError as refused:
                problem = f"{problem}; and {queue} refused it: {refused.what}"
        raise NowhereToSetAside(self.plan.flow.name, self.name, journey.source_queue, problem) from error

    def _as_it_came(self, message: Message, journey: Journey) -> Assembly:
        """The trees of a message that has failed; it may have been its headers or its model that could not be read."""
        try:
            return self.parse(message, journey)
        except Exception:
            return parse_message(message, domain="BLOB", source_queue=journey.source_queue)
