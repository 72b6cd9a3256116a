# SPDX-License-Identifier: Apache-2.0
"""ResetContentDescriptor, Validate and Trace: nodes that look at what a message contains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from entrepot.errors import EsqlInvalid, ValidationFailed
from entrepot.esql import EsqlModule, EsqlRun, compile_statements
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.journey import Journey
from entrepot.flows.nodes.node import FlowMistake, Node, NodeContext, Property
from entrepot.message import Message
from entrepot.models import parse_message, render_message
from entrepot.models.tree import Assembly, Element, Folder, Root
from entrepot.models.tree_json import tree_text, value_text


class ResetContentDescriptor(Node):
    type: ClassVar[str] = "ResetContentDescriptor"
    about: ClassVar[str] = "Lets another parser read the message's body from here on."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmResetContentDescriptor",)
    properties: ClassVar[tuple[Property, ...]] = (
        Property("domain", "text", "", ibm="messageDomain"),
        Property("reset_domain", "flag", True, ibm="resetMessageDomain"),
        Property("message_set", "text", "", ibm="messageSet"),
        Property("reset_message_set", "flag", False, ibm="resetMessageSet"),
        Property("message_type", "text", "", ibm="messageType"),
        Property("reset_message_type", "flag", False, ibm="resetMessageType"),
        Property("message_format", "text", "", ibm="messageFormat"),
        Property("reset_message_format", "flag", False, ibm="resetMessageFormat"),
    )

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        settings = self.settings
        properties = assembly.root.first("Properties")
        names: dict[str, str] = {}
        for ours, theirs in (
            ("message_set", "MessageSet"),
            ("message_type", "MessageType"),
            ("message_format", "MessageFormat"),
        ):
            found = None if properties is None else properties.first(theirs)
            names[ours] = "" if found is None or found.value is None else str(found.value)
            if settings[f"reset_{ours}"] or settings[ours]:
                names[ours] = settings[ours]
        body = next((child for child in reversed(assembly.root.children) if isinstance(child, Folder)), None)
        domain = body.domain.name if body is not None else ""
        if settings["reset_domain"] or settings["domain"]:
            domain = settings["domain"]
        message = render_message(assembly.root)
        parsed = parse_message(
            message, domain=domain, source_queue=journey.source_queue, transactional=journey.transactional, **names
        )
        _reread(parsed.root, domain, names)
        self.propagate(
            "out",
            Assembly(parsed.root, assembly.environment, assembly.local_environment, assembly.exception_list),
            journey,
        )


def _reread(root: Root, domain: str, names: dict[str, Any]) -> None:
    """Let the node's word count more than what an MQRFH2 says of the body: parsers believe the header first."""
    header = root.first("MQRFH2")
    described = None if header is None else header.first("mcd")
    came = root.children[-1]
    if described is None or not isinstance(came, Folder) or came.body is None:
        return
    alone = parse_message(Message(came.body, ccsid=came.ccsid, encoding=came.encoding), domain=domain, **names)
    descriptor = {"Msd": domain.lower() or "none", "Set": names["message_set"], "Type": names["message_type"]}
    for name, value in {**descriptor, "Fmt": names["message_format"]}.items():
        field = described.first(name)
        if field is not None:
            field.set_value(value)
        elif value:
            described.add(name, value)
    root.remove(came)
    root.append(alone.root.children[-1])


class Validate(Node):
    type: ClassVar[str] = "Validate"
    about: ClassVar[str] = "Lets a message on to `match` when it is what it should be."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmValidate", "ComIbmCheck")
    outputs: ClassVar[tuple[str, ...]] = ("match", "failure")
    properties: ClassVar[tuple[Property, ...]] = (
        Property("domain", "text", "", ibm="domain"),
        Property("check_domain", "flag", False, ibm="checkDomain"),
        Property("message_set", "text", "", ibm="set"),
        Property("check_message_set", "flag", False, ibm="checkSet"),
        Property("message_type", "text", "", ibm="type"),
        Property("check_message_type", "flag", False, ibm="checkType"),
        Property(
            "validation",
            "choice",
            "none",
            choices=("none", "content", "contentAndValue"),
            ibm="validateMaster",
            about="content: read every field of the body by its model",
        ),
    )

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        problems = self._problems(assembly)
        if problems:
            raise ValidationFailed(self._domain(assembly), tuple(problems))
        if self.settings["validation"] != "none":
            # A body that breaks its model is told by its own parser, with the place.
            for child in assembly.root.children:
                _read_all(child)
        self.propagate("match", assembly, journey)

    def _domain(self, assembly: Assembly) -> str:
        body = next((child for child in reversed(assembly.root.children) if isinstance(child, Folder)), None)
        return body.domain.name if body is not None else ""

    def _problems(self, assembly: Assembly) -> list[str]:
        settings = self.settings
        found = []
        domain = self._domain(assembly)
        if (settings["check_domain"] or settings["domain"]) and domain != settings["domain"]:
            found.append(f"its domain is {domain or 'none'}, not {settings['domain']}")
        properties = assembly.root.first("Properties")
        for ours, theirs in (("message_set", "MessageSet"), ("message_type", "MessageType")):
            if settings[f"check_{ours}"] or settings[ours]:
                value = None if properties is None else properties.first(theirs)
                has = "" if value is None or value.value is None else str(value.value)
                if has != settings[ours]:
                    found.append(f"its {theirs} is {has or 'empty'}, not {settings[ours]}")
        return found


def _read_all(element: Element) -> None:
    waiting = [element]
    while waiting:
        waiting += waiting.pop().children


_SET_VALUE = "SET Environment.Said = "


class Trace(Node):
    type: ClassVar[str] = "Trace"
    about: ClassVar[str] = "Writes a text with ${ESQL expressions} in it to the user trace or to a file."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmTrace",)
    properties: ClassVar[tuple[Property, ...]] = (
        Property(
            "destination",
            "choice",
            "userTrace",
            choices=("none", "userTrace", "file", "localError"),
            ibm="destination",
        ),
        Property("file", "text", "", ibm="filePath"),
        Property("pattern", "text", "", ibm="pattern"),
    )

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        self._parts: list[str | tuple[str, EsqlModule]] = [
            (text, _compiled(text, f"{self.name}.pattern")) if is_insert else text
            for is_insert, text in _pattern_parts(self.settings["pattern"] or "")
        ]

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        given = definition.properties
        found = []
        if given.get("destination") == "file" and not given.get("file"):
            found.append(FlowMistake(definition.name, "it has no file to write to", "Say file."))
        for is_insert, text in _pattern_parts(str(given.get("pattern") or "")):
            if is_insert:
                try:
                    _compiled(text, f"{definition.name}.pattern")
                except EsqlInvalid as error:
                    found += [FlowMistake(definition.name, f"${{{text}}}: {at[3]}") for at in error.mistakes]
        return found

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        if self.settings["destination"] != "none":
            text = "".join(
                part if isinstance(part, str) else self._value_text(*part, assembly, journey) for part in self._parts
            )
            journey.world.trace(self.settings["file"] if self.settings["destination"] == "file" else "", text)
        self.propagate("out", assembly, journey)

    def _value_text(self, text: str, expression: EsqlModule, assembly: Assembly, journey: Journey) -> str:
        own = Assembly(assembly.root, assembly.environment.copy(), assembly.local_environment, assembly.exception_list)
        run = EsqlRun(own, properties=self.user_properties, database=journey.world.database)
        run._now = journey.time_of_run()
        # A message may lack what the trace shows; that is no reason to stop it.
        try:
            expression.run(run)
        except Exception as error:
            return f"({error})"
        element = own.environment.first("Said")
        if element is None:
            return "NULL"
        if not element.children:
            return value_text(element.value)
        element.key = text.strip().rpartition(".")[2]
        return tree_text(element)


def _pattern_parts(pattern: str) -> Iterator[tuple[bool, str]]:
    """The parts of a pattern, and whether each is an expression; braces inside of one belong to it."""
    at = 0
    while (start := pattern.find("${", at)) >= 0:
        end, depth = start + 2, 1
        while end < len(pattern) and depth:
            depth += {"{": 1, "}": -1}.get(pattern[end], 0)
            end += 1
        if depth:
            break
        yield False, pattern[at:start]
        yield True, pattern[start + 2 : end - 1]
        at = end
    yield False, pattern[at:]


def _compiled(expression: str, where: str) -> EsqlModule:
    return compile_statements(f"{_SET_VALUE}{expression};", where, kind="DATABASE")
