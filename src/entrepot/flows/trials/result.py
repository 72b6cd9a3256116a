# SPDX-License-Identifier: Apache-2.0
"""What one message has brought about in a flow, and assertions about it that tell what they found instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from entrepot.flows.flow_world import TOPIC
from entrepot.flows.journey import Failure
from entrepot.flows.trials import differences
from entrepot.flows.trials.recording import Recording, Visit
from entrepot.message import Message
from entrepot.models import parse_message
from entrepot.models.outgoing import BODY_DOMAINS
from entrepot.models.tree import Element, Root


@dataclass(slots=True)
class FlowResult:
    """Everything that came of a message."""

    sent: list[tuple[str, Message]] = field(default_factory=list)
    """Destination and message, in the order in which they were put; topics begin with `topic:`."""
    trace: list[str] = field(default_factory=list)
    """What Trace nodes and LOG wrote to the user trace."""
    files: dict[str, str] = field(default_factory=dict)
    """What Trace nodes wrote to files, by name."""
    failures: list[Failure] = field(default_factory=list)
    """Every error, with the node that met it, or that took care of it."""
    record: Recording = field(default_factory=Recording)

    @property
    def outputs(self) -> dict[str, list[Message]]:
        """The messages that were put, by queue."""
        return self._by_destination(topics=False)

    @property
    def published(self) -> dict[str, list[Message]]:
        """The messages that were published, by topic."""
        return self._by_destination(topics=True)

    def _by_destination(self, *, topics: bool) -> dict[str, list[Message]]:
        found: dict[str, list[Message]] = {}
        for destination, message in self.sent:
            if destination.startswith(TOPIC) is topics:
                found.setdefault(destination.removeprefix(TOPIC), []).append(message)
        return found

    @property
    def path(self) -> list[str]:
        """The way that the message took: `node.terminal` each time it left a node, `node` where it ended."""
        return list(self.record.path)

    @property
    def environment(self) -> Element:
        """The Environment as the flow left it."""
        return self.record.environment or Root("Environment")

    def at(self, node: str, number: int = 1) -> Visit:
        """What a node got and what left it, the first time or the n-th.

        Raises:
            AssertionError: The message was not there so often.
        """
        visits = [visit for visit in self.record.visits if visit.node == node]
        if len(visits) < number:
            raise AssertionError(f"the message was {len(visits)} times at {node!r}; its way: {self._way()}")
        return visits[number - 1]

    def tree(
        self,
        message: Message | str,
        domain: str = "",
        *,
        message_set: str = "",
        message_type: str = "",
        message_format: str = "",
    ) -> Root:
        """The tree of a message, or of the only one on a queue."""
        if isinstance(message, str):
            message = self._one(message, None, topics=False)
        return parse_message(
            message,
            domain=domain,
            message_set=message_set,
            message_type=message_type,
            message_format=message_format,
        ).root

    # --- assertions -------------------------------------------------------------------------------

    def assert_output(
        self,
        queue: str,
        *,
        number: int | None = None,
        body: bytes | str | None = None,
        xml: bytes | str | None = None,
        json: Any = None,
        tree: Mapping[str, Any] | None = None,
        domain: Mapping[str, str] | None = None,
        properties: Mapping[str, Any] | None = None,
        **descriptor: Any,
    ) -> Message:
        """The only message on a queue, or the n-th from 1, is as told; gives it back.

        `body` is compared byte for byte, `xml` and `json` by what they mean, `tree` by paths such as
        XMLNSC.order.total, and all others are fields of its descriptor: persistent=True, correlation_id=b"...".
        `domain` names message_set, message_type and message_format for trees of MRM.

        Raises:
            AssertionError: It is otherwise; tells how.
        """
        return self._assert(queue, False, number, body, xml, json, tree, domain, properties, descriptor)

    def assert_published(
        self,
        topic: str,
        *,
        number: int | None = None,
        body: bytes | str | None = None,
        xml: bytes | str | None = None,
        json: Any = None,
        tree: Mapping[str, Any] | None = None,
        domain: Mapping[str, str] | None = None,
        properties: Mapping[str, Any] | None = None,
        **descriptor: Any,
    ) -> Message:
        """The same for what was published on a topic."""
        return self._assert(topic, True, number, body, xml, json, tree, domain, properties, descriptor)

    def _assert(
        self,
        destination: str,
        topics: bool,
        number: int | None,
        body: bytes | str | None,
        xml: bytes | str | None,
        json: Any,
        tree: Mapping[str, Any] | None,
        domain: Mapping[str, str] | None,
        properties: Mapping[str, Any] | None,
        descriptor: Mapping[str, Any],
    ) -> Message:
        message = self._one(destination, number, topics=topics)
        lines: list[str] = []
        if body is not None:
            lines += differences.of_bytes(body.encode() if isinstance(body, str) else body, message.body)
        if xml is not None:
            lines += differences.of_xml(xml, message.body)
        if json is not None:
            lines += differences.of_json(json, message.body)
        if tree is not None:
            lines += tree_differences(tree, message, domain or {})
        lines += descriptor_differences({**descriptor, **({"properties": properties} if properties else {})}, message)
        if lines:
            which = f"message {number} " if number else "the message "
            self._fail(f"{which}{'published on' if topics else 'on'} {destination} is not as expected:", lines)
        return message

    def assert_no_output(self, destination: str = "") -> None:
        """Nothing was put on a queue or published on a topic; nowhere at all without a name."""
        found = [where for where, _ in self.sent if destination in ("", where, where.removeprefix(TOPIC))]
        if found:
            self._fail(f"expected nothing on {destination or 'any queue or topic'}:", [self._sent_words()])

    def assert_destinations(self, *destinations: str) -> None:
        """Messages were put and published exactly there, in any order; a topic is `topic:NAME`."""
        found = [where for where, _ in self.sent]
        if sorted(found) != sorted(destinations):
            self._fail(f"expected messages on {', '.join(destinations) or 'no queue'}:", [self._sent_words()])

    def assert_failed(self, error: type[BaseException] = Exception, text: str = "", *, node: str = "") -> Exception:
        """Some node met such an error, handled or not; gives it back."""
        for failure in self.failures:
            fits = isinstance(failure.error, error) and text in str(failure.error)
            if fits and node in ("", failure.node):
                return failure.error
        wanted = f"{error.__name__}{f' with {text!r}' if text else ''}{f' at {node}' if node else ''}"
        found = [f"{failure.node}: {failure.error}" for failure in self.failures] or ["nothing failed"]
        raise AssertionError("\n  ".join([f"expected {wanted}:", *found, f"its way: {self._way()}"]))

    def assert_succeeded(self) -> None:
        """No node met an error, not even one that was handled."""
        if self.failures:
            self._fail("expected no error:", [])

    def assert_path(self, *steps: str) -> None:
        """The message took exactly this way."""
        if self.path != list(steps):
            expected = " → ".join(steps)
            self._fail("the message took another way:", [f"expected: {expected}"])

    # --- what they share ----------------------------------------------------------------------------

    def _one(self, destination: str, number: int | None, *, topics: bool) -> Message:
        found = self._by_destination(topics=topics).get(destination, [])
        if number is None and len(found) == 1:
            return found[0]
        if number is not None and 1 <= number <= len(found):
            return found[number - 1]
        wanted = f"message {number}" if number is not None else "one message"
        count = f"{len(found)} messages are" if len(found) != 1 else "one message is"
        kind = "published on" if topics else "on"
        self._fail(f"expected {wanted} {kind} {destination}, and {count} there:", [self._sent_words()])
        raise AssertionError  # _fail has raised

    def _fail(self, problem: str, lines: Sequence[str]) -> None:
        text = [*lines, f"its way: {self._way()}"]
        text += [f"error at {failure.node}: {failure.error}" for failure in self.failures]
        raise AssertionError("\n  ".join([problem, *text]))

    def _way(self) -> str:
        return " → ".join(self.record.path) or "nowhere"

    def _sent_words(self) -> str:
        if not self.sent:
            return "nothing was put or published"
        return "; ".join(f"{where}: {differences.shown(message.body)}" for where, message in self.sent)


def tree_differences(expected: Mapping[str, Any], message: Message, names: Mapping[str, str]) -> list[str]:
    """Which paths of a message's tree are otherwise; the first step of a path says which parser reads the body."""
    lines: list[str] = []
    by_domain: dict[str, dict[str, Any]] = {}
    for path, value in expected.items():
        first = path.partition(".")[0].partition("[")[0]
        by_domain.setdefault(first if first in BODY_DOMAINS else "", {})[path] = value
    for domain, paths in by_domain.items():
        try:
            lines += differences.of_tree(paths, parse_message(message, domain=domain, **dict(names)).root)  # type: ignore[arg-type]
        except ValueError as error:
            lines.append(str(error))
        except Exception as error:
            lines.append(f"the message cannot be read as {domain or 'BLOB'}: {error}")
    return lines


def descriptor_differences(expected: Mapping[str, Any], message: Message) -> list[str]:
    """Which fields of a message's descriptor are otherwise; of its properties only those that are named count."""
    lines: list[str] = []
    for name, wanted in expected.items():
        if name == "properties":
            for key, value in wanted.items():
                if message.properties.get(key) != value:
                    found = differences.shown(message.properties.get(key))
                    lines.append(f"property {key}: expected {differences.shown(value)}, found {found}")
        elif not hasattr(message, name):
            lines.append(f"{name}: a message has no such field; it has {', '.join(message.__struct_fields__)}")
        elif not _is_same_field(wanted, getattr(message, name)):
            found = differences.shown(getattr(message, name))
            lines.append(f"{name}: expected {differences.shown(wanted)}, found {found}")
    return lines


def _is_same_field(wanted: Any, found: Any) -> bool:
    if isinstance(found, bytes):
        # A test file can say an id only as text or in hexadecimal digits.
        return bool(wanted == found) or str(wanted).encode() == found.rstrip(b"\0") or str(wanted) == found.hex()
    return bool(wanted == found) or str(wanted).upper() == getattr(found, "name", None)
