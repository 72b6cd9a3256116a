# SPDX-License-Identifier: Apache-2.0
"""HTTPRequest: the message goes to a server, and what it answers goes on.

The request is made while the message is in the flow, before anything is
committed. When its unit of work is given back, it is made again: a server
that must not do things twice has to know requests by an id in them.
"""

from __future__ import annotations

import http.client
import time
from typing import ClassVar
from urllib.parse import quote, urlencode

from entrepot.errors import (
    DestinationMissing,
    HttpHeaderInvalid,
    HttpRequestFailed,
    HttpStatusUnexpected,
    HttpUrlInvalid,
)
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.http_client import HttpClient, Response, UrlInvalid, split_url
from entrepot.flows.http_headers import (
    OF_ONE_LINK,
    TOKEN,
    TOLD,
    Headers,
    child_of,
    code_page_of,
    content_type_of,
    find,
    problem_with,
    said_by,
    text_of,
)
from entrepot.flows.journey import Journey
from entrepot.flows.nodes.arrivals import arrived, body_of, place_in, set_in
from entrepot.flows.nodes.input_node import PARSING
from entrepot.flows.nodes.node import FlowMistake, Node, NodeContext, Property
from entrepot.message import Message
from entrepot.models.tree import Assembly, Element, Folder, Root

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")


class Speaker(Node):
    """What HTTPReply and HTTPRequest share: a tree becomes headers and a body."""

    def headers_of(self, root: Root, ccsid: int, folders: tuple[str, ...], without: tuple[str, ...] = ()) -> Headers:
        """What the first folder says, and what the others say beside it."""
        headers: Headers = []
        for name in folders:
            known = {header.lower() for header, _ in headers}
            found = said_by(root.first(name), without=without if name != folders[0] else ())
            headers += [each for each in found if each[0].lower() not in known]
        if find(headers, "Content-Type") is None:
            headers.append(("Content-Type", content_type_of(root, ccsid)))
        for name, value in headers:
            problem = problem_with(name, value)
            if problem:
                raise HttpHeaderInvalid(self.plan.flow.name, self.name, f"{folders[0]}.{name}", problem)
        return headers


class HTTPRequest(Speaker):
    type: ClassVar[str] = "HTTPRequest"
    about: ClassVar[str] = "Sends the message to an HTTP server, and goes on with what it answers."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmWSRequest",)
    outputs: ClassVar[tuple[str, ...]] = ("out", "failure", "error")
    properties: ClassVar[tuple[Property, ...]] = (
        Property(
            "url",
            "text",
            required=True,
            ibm="URLSpecifier",
            about="LocalEnvironment.Destination.HTTP.RequestURL counts more",
        ),
        Property("method", "choice", "POST", choices=METHODS, ibm="httpMethod"),
        Property("timeout_s", "number", 120.0, ibm="timeoutForServer", about="for the whole exchange"),
        Property("follow_redirects", "flag", False, ibm="followRedirection"),
        Property("authorities", "text", "", about="a PEM file of signers to trust, instead of the system's list"),
        Property("use_whole_message", "flag", True, ibm="useWholeInputMsgAsRequest"),
        Property("request_path", "text", "", ibm="requestMsgLocationInTree", about="the part that is sent otherwise"),
        Property("replace_message", "flag", True, ibm="replaceInputMsgWithWSResponse"),
        Property(
            "response_path", "text", "", ibm="responseMsgLocationInTree", about="where the response goes otherwise"
        ),
        Property("replace_message_with_error", "flag", True, ibm="replaceInputMsgWithHTTPError"),
        Property("error_path", "text", "", ibm="errorMsgLocationInTree"),
        Property("generate_default_headers", "flag", True, ibm="generateDefaultHttpHeaders"),
        *PARSING,
    )

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        self._client = HttpClient(self.settings["authorities"])

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        del flow
        given = definition.properties
        found = []
        try:
            split_url(str(given.get("url") or ""))
        except UrlInvalid as error:
            found.append(
                FlowMistake(definition.name, f"{given.get('url')!r} is no URL: {error}", "Write http://host/path.")
            )
        if given.get("use_whole_message") is False and not given.get("request_path"):
            found.append(FlowMistake(definition.name, "it does not say which part to send", "Say request_path."))
        if given.get("replace_message") is False and not given.get("response_path"):
            found.append(FlowMistake(definition.name, "it does not say where the response goes", "Say response_path."))
        for name in ("request_path", "response_path", "error_path"):
            if given.get(name) and _tree_of(str(given[name]))[0] is None:
                advice = "Begin with InputRoot, OutputRoot, Environment or LocalEnvironment."
                found.append(FlowMistake(definition.name, f"{name}: there is no tree {given[name]!r}", advice))
        timeout_s = given.get("timeout_s", 120.0)
        if isinstance(timeout_s, int | float) and not 0 < timeout_s <= 86_400:
            found.append(FlowMistake(definition.name, f"it cannot wait {timeout_s} s", "Say 0.1 to 86400."))
        return found

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        wanted = assembly.local_environment.first("Destination")
        wanted = None if wanted is None else wanted.first("HTTP")
        url = self._url(assembly, wanted)
        method = text_of(None if wanted is None else place(wanted, "RequestLine", "Method")) or self.settings["method"]
        if not TOKEN.fullmatch(method):
            raise HttpHeaderInvalid(self.plan.flow.name, self.name, "RequestLine.Method", f"{method!r} is no method")
        body, headers = self._request(assembly, method)
        timeout_s = self._timeout_s(wanted)
        journey.world.allow_time(timeout_s)
        try:
            answered = self._client.send(
                method,
                url,
                headers,
                body,
                timeout_s=timeout_s,
                follow=self.settings["follow_redirects"],
            )
        except UrlInvalid as error:
            raise HttpUrlInvalid(self.plan.flow.name, self.name, url, str(error)) from error
        except (OSError, http.client.HTTPException) as error:
            problem = str(error) or type(error).__name__
            raise HttpRequestFailed(self.plan.flow.name, self.name, url, problem) from error
        self._go_on(answered, assembly, journey)

    # --- what is sent -------------------------------------------------------------------------

    def _url(self, assembly: Assembly, wanted: Element | None) -> str:
        url = text_of(child_of(assembly.root.first("HTTPRequestHeader"), "X-Original-HTTP-URL"))
        url = url or text_of(None if wanted is None else wanted.first("RequestURL")) or self.settings["url"]
        try:
            parts = split_url(url)
        except UrlInvalid as error:
            raise HttpUrlInvalid(self.plan.flow.name, self.name, url, str(error)) from error
        path = text_of(None if wanted is None else place(wanted, "RequestLine", "RequestURI"))
        query_tree = None if wanted is None else wanted.first("QueryString")
        if path:
            parts = parts._replace(
                path=quote(path.partition("?")[0], safe="/%:@!$&'()*+,;=~-._"), query=path.partition("?")[2]
            )
        if query_tree is not None:
            added = urlencode([(child.name, text_of(child)) for child in query_tree.children])
            parts = parts._replace(query="&".join(each for each in (parts.query, added) if each))
        return parts.geturl()

    def _timeout_s(self, wanted: Element | None) -> float:
        value = None if wanted is None else wanted.get("Timeout")
        if value is None:
            return float(self.settings["timeout_s"])
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            seconds = 0.0
        if not 0 < seconds <= 86_400:
            where = "LocalEnvironment.Destination.HTTP.Timeout"
            raise HttpHeaderInvalid(self.plan.flow.name, self.name, where, f"{value!r} is no number of seconds")
        return seconds

    def _request(self, assembly: Assembly, method: str) -> tuple[bytes, Headers]:
        settings = self.settings
        root = assembly.root
        folders: tuple[str, ...] = ("HTTPRequestHeader",)
        if settings["generate_default_headers"]:
            folders += ("HTTPInputHeader",)
        if method in ("GET", "HEAD", "DELETE") and settings["use_whole_message"]:
            headers = self.headers_of(root, 1208, folders, without=("Host",))
            content_type = find(said_by(root.first("HTTPRequestHeader")), "Content-Type")
            return b"", [each for each in headers if each[0].lower() != "content-type" or content_type is not None]
        if settings["use_whole_message"]:
            rendered = body_of(root)
            return rendered.body, self.headers_of(root, rendered.ccsid, folders, without=("Host",))
        part = _found(assembly, settings["request_path"])
        if part is None:
            problem = f"there is nothing at {settings['request_path']} to be sent"
            raise DestinationMissing(self.plan.flow.name, self.name, problem)
        return _part_bytes(part), self.headers_of(root, 1208, folders, without=("Host",))

    # --- what is answered ---------------------------------------------------------------------

    def _go_on(self, answered: Response, assembly: Assembly, journey: Journey) -> None:
        is_error = not 200 <= answered.status <= 299
        if is_error and "error" not in self.wires:
            raise HttpStatusUnexpected(
                self.plan.flow.name, self.name, answered.url, answered.status, answered.phrase or ""
            )
        came = self._tree(answered)
        settings = self.settings
        replaces = settings["replace_message_with_error"] if is_error else settings["replace_message"]
        path = settings["error_path"] if is_error else settings["response_path"]
        local = assembly.local_environment.copy()
        written = place_in(local, "WrittenDestination")
        for before in written.all("HTTP"):
            written.remove(before)
        written.add("HTTP").add("RequestURL", answered.url)
        if replaces or not path:
            result = Assembly(came, assembly.environment, local)
        else:
            root = assembly.root.copy()
            result = Assembly(root, assembly.environment, local)
            _put_at(result, path, came.children[-1])
            for before in root.all("HTTPResponseHeader"):
                root.remove(before)
            root.insert(min(1, len(root.children)), came.children[1].copy())
        self.propagate("error" if is_error else "out", result, journey)

    def _tree(self, answered: Response) -> Root:
        header = Element("HTTPResponseHeader")
        header.add("X-Original-HTTP-Status-Line", f"{answered.version} {answered.status} {answered.phrase}".strip())
        header.add("X-Original-HTTP-Status-Code", answered.status)
        for name, value in answered.headers:
            if name.lower() not in TOLD and name.lower() not in OF_ONE_LINK - {"content-length"}:
                header.add(name, value)
        content_type = find(answered.headers, "Content-Type") or ""
        message = Message(answered.body, ccsid=code_page_of(content_type), put_time=time.time())
        root = arrived(message, self.settings, header)
        set_in(root.children[0], "ContentType", content_type)
        return root


def place(element: Element, *names: str) -> Element | None:
    """The element below a path of names, if it is there."""
    found: Element | None = element
    for name in names:
        found = None if found is None else found.first(name)
    return found


_TREES = {
    "InputRoot": "root",
    "OutputRoot": "root",
    "Root": "root",
    "InputLocalEnvironment": "local_environment",
    "OutputLocalEnvironment": "local_environment",
    "LocalEnvironment": "local_environment",
    "Environment": "environment",
}


def _tree_of(path: str) -> tuple[str | None, list[str]]:
    """Which tree a path begins in, and its further steps."""
    first, *steps = path.lstrip("$").replace("/", ".").split(".")
    return _TREES.get(first), [step for step in steps if step]


def _found(assembly: Assembly, path: str) -> Element | None:
    tree, steps = _tree_of(path)
    return None if tree is None else place(getattr(assembly, tree), *steps)


def _put_at(assembly: Assembly, path: str, body: Element) -> None:
    tree, steps = _tree_of(path)
    assert tree is not None  # checked when the flow was deployed
    place_in(getattr(assembly, tree), *steps).replace_content(body)


def _part_bytes(part: Element) -> bytes:
    """A part of a tree as the body of a request."""
    if isinstance(part, Folder):
        return part.render()
    above = part.folder()
    if above is None or above.domain.name == "BLOB":
        if part.children:
            return _part_bytes(part.children[0])
        return part.value if isinstance(part.value, bytes) else text_of(part).encode()
    whole = Folder(above.domain, None, ccsid=above.ccsid, encoding=above.encoding, model=above.model)
    own = whole.append(part.copy())
    if above.domain.name == "JSON":
        own.rename("Data")  # what a JSON document's outermost value is called
    return whole.render()
