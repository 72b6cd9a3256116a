# SPDX-License-Identifier: Apache-2.0
"""HTTPInput, HTTPReply and HTTPRequest: a flow as a web service, and as the client of one.

A request is no message on a queue: it is not persistent, it is tried once, and
its client waits. So a flow that fails answers 500 instead of setting the
message aside, and an answer is sent when the unit of work is committed, never
before.
"""

from __future__ import annotations

import ssl
import time
from functools import partial
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import msgspec

from entrepot.errors import DestinationMissing, EntrepotError, HttpClientGone, HttpHeaderInvalid
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.flow_world import Output, QueueFacts
from entrepot.flows.http_headers import TOLD, Headers, child_of, find
from entrepot.flows.http_listener import (
    APPLICATION,
    HttpSource,
    Reply,
    answer,
    flow_mark,
    is_waiting,
    open_source,
    owner,
    read_identifier,
)
from entrepot.flows.journey import Journey
from entrepot.flows.nodes import find_type
from entrepot.flows.nodes.arrivals import AS_BYTES, arrived, body_of, place_in, set_in
from entrepot.flows.nodes.http_request import METHODS, HTTPRequest, Speaker
from entrepot.flows.nodes.input_node import PARSING, EntryPoint, InputNode
from entrepot.flows.nodes.node import FlowMistake, Property
from entrepot.message import Message
from entrepot.models.tree import Assembly, Element, Root

__all__ = ["HTTPInput", "HTTPReply", "HTTPRequest", "reply_queue_of"]

_REPLIES = "SYSTEM.HTTP.REPLY."
_OWNER = "entrepot_http_owner"


def reply_queue_of(flow_as_marked: str) -> str:
    """Where replies wait whose client is connected to another process of a flow."""
    return _REPLIES + flow_as_marked


class HTTPInput(InputNode):
    type: ClassVar[str] = "HTTPInput"
    about: ClassVar[str] = "Requests of HTTP clients, which wait for an HTTPReply."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmWSInput",)
    properties: ClassVar[tuple[Property, ...]] = (
        Property("path", "text", required=True, ibm="URLSpecifier", about="/orders, or /orders/* with all below it"),
        Property("port", "integer", 7080, about="a port belongs to one flow; its instances share it"),
        Property("bind", "text", "127.0.0.1", about="the address to listen at; 0.0.0.0 lets other machines in"),
        Property("methods", "list", (), about="all when empty"),
        Property("timeout_s", "number", 180.0, ibm="timeoutForClient", about="then the client gets 504"),
        Property("https", "flag", False, ibm="useHTTPS"),
        Property("certificate", "text", "", about="for https: a PEM file with the certificate and those above it"),
        Property("private_key", "text", "", about="for https: the PEM file of its key"),
        Property("parse_query", "flag", False, ibm="parseQueryString", about="LocalEnvironment.HTTP.Input.QueryString"),
        *PARSING,
    )

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        given = definition.properties
        found = []
        path = _path(str(given.get("path") or ""))
        if not path.startswith("/") or "?" in path or "*" in path.removesuffix("/*"):
            found.append(
                FlowMistake(
                    definition.name, f"{given.get('path')!r} is no path of a URL", "Write /orders or /orders/*."
                )
            )
        port = given.get("port", 7080)
        if isinstance(port, int) and not 0 <= port <= 65_535:
            found.append(FlowMistake(definition.name, f"there is no port {port}", "Choose one from 1 to 65535."))
        timeout_s = given.get("timeout_s", 180.0)
        if isinstance(timeout_s, int | float) and not 0 < timeout_s <= 86_400:
            found.append(FlowMistake(definition.name, f"a client cannot wait {timeout_s} s", "Say 0.1 to 86400."))
        found += [
            FlowMistake(definition.name, f"there is no method {method!r}", f"Use {', '.join(METHODS)}.")
            for method in given.get("methods") or ()
            if method not in METHODS
        ]
        if given.get("https") and not given.get("certificate"):
            found.append(FlowMistake(definition.name, "https needs a certificate", "Say certificate and private_key."))
        for other in flow.nodes.values():
            same = other.type == cls.type and other.name != definition.name
            if same and other.properties.get("port", 7080) == port and path == _path(str(other.properties.get("path"))):
                found.append(
                    FlowMistake(definition.name, f"{other.name} has the path {path} too", "Give each its own.")
                )
        return found

    def points(self) -> list[EntryPoint]:
        found = [EntryPoint(self, self.run, transaction="yes", source=self._open)]
        flow = self.plan.flow
        inputs = [each for each in flow.nodes.values() if issubclass(find_type(each.type), InputNode)]
        first = next(each.name for each in inputs if each.type == self.type)
        replies_here = any(each.type == HTTPReply.type for each in flow.nodes.values())
        if self.name == first and not (replies_here and all(each.type == self.type for each in inputs)):
            # The reply may come from elsewhere: another flow, or another instance that got what this one put.
            found.append(
                EntryPoint(
                    self,
                    self._deliver,
                    queue=reply_queue_of(flow_mark(flow.name)),
                    transaction="yes",
                    selector=f"{_OWNER} = '{owner()}'",
                    internal=True,
                )
            )
        return found

    def _open(self) -> HttpSource:
        settings = self.settings
        context = None
        if settings["certificate"]:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(settings["certificate"], settings["private_key"] or None)
        return open_source(
            flow=self.plan.flow.name,
            host=settings["bind"],
            port=settings["port"],
            path=_path(settings["path"]),
            methods=frozenset(settings["methods"]),
            timeout_s=settings["timeout_s"],
            context=context,
        )

    def parse(self, message: Message, journey: Journey) -> Assembly:
        del journey
        return self._assembly(message, self.settings)

    def _as_it_came(self, message: Message, journey: Journey) -> Assembly:
        try:
            return self.parse(message, journey)
        except Exception:
            return self._assembly(message, AS_BYTES)

    def _assembly(self, message: Message, parsing: Any) -> Assembly:
        stored = message.properties
        headers = [(name, value) for name, _, value in (line.partition(":") for line in _lines(stored["headers"]))]
        root = arrived(message, parsing, _input_header(stored, headers))
        properties = root.children[0]
        set_in(properties, "ReplyProtocol", "SOAP-HTTP")
        set_in(properties, "ContentType", find(headers, "Content-Type") or "")
        local = Root("LocalEnvironment")
        place_in(local, "Destination", "HTTP").add("RequestIdentifier", message.message_id)
        line = place_in(local, "HTTP", "Input", "RequestLine")
        line.add("Method", stored["method"])
        line.add("RequestURI", stored["target"])
        line.add("HTTPVersion", stored["version"])
        if self.settings["parse_query"]:
            query = place_in(local, "HTTP", "Input", "QueryString")
            for name, value in parse_qsl(urlsplit(str(stored["target"])).query, keep_blank_values=True):
                query.add(name, value)
        return Assembly(root, None, local)

    def _deliver(self, message: Message, journey: Journey) -> None:
        """A reply that came from elsewhere."""
        status, headers = msgspec.json.decode(str(message.properties["entrepot_http_head"]), type=tuple[int, Headers])
        reply = Reply(status, [(name, value) for name, value in headers], message.body)
        journey.after_commit.append(partial(answer, message.correlation_id, reply))

    def set_aside(self, message: Message, journey: Journey, error: Exception, facts: QueueFacts) -> None:
        """A request has failed: the failure terminal takes care of it, or its client is told."""
        if journey.source_queue:
            journey.noted(self, error)  # a reply that cannot be read; its client is told when its time is up
        else:
            super().set_aside(message, journey, error, facts)

    def _put_aside(self, message: Message, journey: Journey, problem: str, facts: QueueFacts, error: Exception) -> None:
        del problem, facts
        journey.after_commit.append(partial(answer, message.message_id, self._sorry(error)))

    def _sorry(self, error: Exception) -> Reply:
        # Names and codes only: what went wrong inside is not shown to clients.
        known = f" ({type(error).__name__} [{error.code}])" if isinstance(error, EntrepotError) else ""
        body = f"500 Internal Server Error\nThe flow {self.plan.flow.name} could not deal with this request{known}.\n"
        return Reply(500, [("Content-Type", "text/plain; charset=utf-8")], body.encode())


def _path(path: str) -> str:
    """The path of what may be a whole URL."""
    return urlsplit(path).path if path.startswith(("http://", "https://")) else path


def _lines(text: Any) -> list[str]:
    return str(text).split("\n") if text else []


def _input_header(properties: Any, headers: Headers) -> Element:
    header = Element("HTTPInputHeader")
    host = find(headers, "Host") or f"localhost:{properties['port']}"
    target = str(properties["target"])
    url = target if not target.startswith("/") else f"{properties['scheme']}://{host}{target}"
    header.add("X-Original-HTTP-Command", f"{properties['method']} {url} {properties['version']}")
    for name, value in headers:
        if name.lower() not in TOLD:
            header.add(name, value)
    query = urlsplit(target).query
    if query:
        header.add("X-Query-String", query)
    header.add("X-Scheme", properties["scheme"])
    header.add("X-Server-Name", host.rpartition(":")[0] or host)
    header.add("X-Server-Port", str(properties["port"]))
    header.add("X-Remote-Addr", properties["client"])
    header.add("X-Remote-Host", properties["client"])
    return header


class HTTPReply(Speaker):
    type: ClassVar[str] = "HTTPReply"
    about: ClassVar[str] = "Answers the client whose request an HTTPInput has received, when the unit of work commits."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmWSReply",)
    properties: ClassVar[tuple[Property, ...]] = (
        Property(
            "status", "integer", 200, about="unless LocalEnvironment.Destination.HTTP.ReplyStatusCode says another"
        ),
        Property(
            "ignore_transport_failures",
            "flag",
            True,
            ibm="ignoreTransportFailures",
            about="go on when the client no longer waits for the answer",
        ),
        Property("generate_default_headers", "flag", True, ibm="generateDefaultHttpHeaders"),
    )

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        del flow
        status = definition.properties.get("status", 200)
        if isinstance(status, int) and not 200 <= status <= 599:
            return [FlowMistake(definition.name, f"{status} is no status of a reply", "Say 200 to 599.")]
        return []

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        identifier = self._identifier(assembly, journey)
        rendered = body_of(assembly.root)
        folders = ("HTTPReplyHeader", "HTTPResponseHeader") if self.settings["generate_default_headers"] else ()
        headers = self.headers_of(assembly.root, rendered.ccsid, folders or ("HTTPReplyHeader",))
        reply = Reply(self._status(assembly), headers, rendered.body)
        whose = read_identifier(identifier)
        if whose.owner == owner():
            if not is_waiting(identifier) and not self.settings["ignore_transport_failures"]:
                raise HttpClientGone(self.plan.flow.name, self.name)
            journey.after_commit.append(partial(answer, identifier, reply))
        else:
            self._send_on(identifier, reply, journey)
        self.propagate("out", assembly, journey)

    def _send_on(self, identifier: bytes, reply: Reply, journey: Journey) -> None:
        """The client is another process's: it gets the reply by a queue."""
        whose = read_identifier(identifier)
        left_s = whose.deadline - time.time()
        if left_s <= 0:
            if not self.settings["ignore_transport_failures"]:
                raise HttpClientGone(self.plan.flow.name, self.name)
            return
        message = Message(
            reply.body,
            correlation_id=identifier,
            expiry_s=left_s,
            properties={
                _OWNER: whose.owner,
                "entrepot_http_head": msgspec.json.encode((reply.status, reply.headers)).decode(),
            },
        )
        journey.put(Output(reply_queue_of(whose.flow), message, self.name))

    def _identifier(self, assembly: Assembly, journey: Journey) -> bytes:
        value = assembly.local_environment.get("Destination", "HTTP", "RequestIdentifier")
        if value is None and journey.message.application == APPLICATION and not journey.source_queue:
            value = journey.message.message_id
        try:
            read_identifier(value if isinstance(value, bytes) else b"")
        except ValueError:
            raise DestinationMissing(
                self.plan.flow.name,
                self.name,
                "LocalEnvironment.Destination.HTTP.RequestIdentifier is no identifier of a request",
            ) from None
        identifier: bytes = value
        return identifier

    def _status(self, assembly: Assembly) -> int:
        element = child_of(assembly.root.first("HTTPReplyHeader"), "X-Original-HTTP-Status-Code")
        where = "HTTPReplyHeader.X-Original-HTTP-Status-Code"
        value = None if element is None else element.value
        if value is None:
            where = "LocalEnvironment.Destination.HTTP.ReplyStatusCode"
            value = assembly.local_environment.get("Destination", "HTTP", "ReplyStatusCode")
        if value is None:
            value = self.settings["status"]
        text = str(value).strip()
        if not text.isascii() or not text.isdigit() or not 200 <= int(text) <= 599:
            raise HttpHeaderInvalid(self.plan.flow.name, self.name, where, f"{text!r} is no status from 200 to 599")
        return int(text)
