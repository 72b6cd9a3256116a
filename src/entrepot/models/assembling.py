# SPDX-License-Identifier: Apache-2.0
"""From a message to the trees of a flow, and back.

    message ── parse_message ──> Root: Properties, MQMD, headers, body
            <─ render_message ──

Nothing is read before it is needed: a message that no program looks into
costs a few objects, and leaves as the bytes it came in.

Rules on the way in. The domain of the body is what mcd in an MQRFH2 says, else
what the caller says, else BLOB; behind a header that cannot be read it is
BLOB. Message properties are MQRFH2.usr, unless the body has an MQRFH2 of its own.

Rules on the way out. `headers.descriptor` says whether MQMD or Properties is
believed. Headers are chained: each gets the format of the next, and the
encoding and code page in which the next is written. The body is written in
the code page that the last header tells, even if it came in another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from entrepot.errors import ModelNotFound
from entrepot.message import Message
from entrepot.models.domains import Domain, find_domain
from entrepot.models.headers.chain import FORMATS, KNOWN, UNSUPPORTED, read_headers
from entrepot.models.headers.mqmd import MQMD
from entrepot.models.headers.mqrfh2 import content_descriptor
from entrepot.models.headers.mqrfh2 import folder_of as properties_header_of
from entrepot.models.headers.origin import ELSEWHERE, Origin, Unopened
from entrepot.models.headers.properties import PROPERTIES
from entrepot.models.message_sets import find_format
from entrepot.models.outgoing import BODY_DOMAINS, DOMAINS, Rendering
from entrepot.models.tree import Assembly, Element, Folder, Root

# --- in ----------------------------------------------------------------------------------------


def parse_message(
    message: Message,
    *,
    domain: str = "",
    message_set: str = "",
    message_type: str = "",
    message_format: str = "",
    source_queue: str = "",
    transactional: bool = False,
) -> Assembly:
    """The trees that a flow starts with; headers are checked, the body is not looked at.

    Raises:
        MessageUnreadable: A header that the format announces is none. Says where.
        ModelNotFound: There is no such domain, or no such message set.
        CodePageUnknown
    """
    body_format = message.format
    body = message.body
    encoding = message.encoding
    ccsid = message.ccsid
    headers: list[Folder] = []
    offset = 0
    properties_shown = True
    if body_format:
        announced = body_format.rstrip(" \0")
        if announced in KNOWN:
            chain = read_headers(body, announced, encoding, ccsid or 1208)
            headers, offset, body_format, encoding, ccsid = chain
            announced = body_format
            for header in headers:
                if header.domain.name == "MQRFH2":
                    properties_shown = False
                    descriptor = content_descriptor(header)
                    domain = DOMAINS.get(descriptor.get("Msd", "").lower(), domain)
                    message_set = descriptor.get("Set") or message_set
                    message_type = descriptor.get("Type") or message_type
                    message_format = descriptor.get("Fmt") or message_format
        if announced in UNSUPPORTED:
            domain = "BLOB"
    shown = properties_shown and message.properties
    if shown:
        headers = [_NO_HEADER, *headers]
    origin = Origin(
        message,
        body_format,
        encoding,
        ccsid,
        message_set,
        message_type,
        message_format,
        source_queue,
        transactional,
        domain or "BLOB",
        tuple([cast(bytes, header.body) for header in headers]),
        offset,
        properties_shown,
    )
    model: Any = None
    if domain == "MRM" and message_set:
        model = find_format(message_set, message_type, message_format)
    parser = _parsers.get(domain) or _parser(domain)
    if shown:
        headers[0] = properties_header_of(origin)
    if len(headers) < 2 or len({header.key for header in headers}) == len(headers):
        return Assembly(Root("Root", Unopened(origin, parser, model, tuple(headers))))
    folders = [Folder(PROPERTIES, ELSEWHERE, model=origin), Folder(MQMD, ELSEWHERE, model=origin), *headers]
    folders.append(Folder(parser, body[offset:], ccsid=ccsid, encoding=encoding, model=model))
    root = Root()
    root.fill(folders)
    return Assembly(root)


def announces_header(message_format: str) -> bool:
    """A header stands before the body of a message of this format. Else the body has the message's own code page and
    encoding, and nothing in it says what it is."""
    announced = message_format.rstrip(" \0")
    return announced in KNOWN or announced in UNSUPPORTED


_NO_HEADER = Folder(PROPERTIES, ELSEWHERE)
"""Stands for the folder of the properties until that can be made."""

_parsers: dict[str, Domain] = {}


def _parser(name: str) -> Domain:
    domain = find_domain(name or "BLOB") if not name or name in BODY_DOMAINS else None
    if domain is None:
        raise ModelNotFound("domain", name, BODY_DOMAINS)
    _parsers[name] = domain
    return domain


# --- out ---------------------------------------------------------------------------------------


def render_message(root: Root, like: Message | None = None) -> Message:
    """The message that a tree says.

    What no folder tells comes from `like`, else from the message that MQMD
    came from. Without MQMD, `like` also gives the descriptor, and what
    Properties says is laid over it. The tree stays as it is.

    Raises:
        MessageUnwritable: The tree has something that a message cannot have. Says the path.
        ModelNotFound: An MRM body of an unknown message set.
        CodePageUnknown
    """
    if like is None:
        unread = root.unread
        if type(unread) is Unopened and unread.parser.name not in FORMATS:
            opened = root.opened or {}
            body = opened.get(unread.parser.name)
            if all(folder is body or not folder.dirty for folder in opened.values()):
                message, offset = unread.origin.message, unread.origin.offset
                if body is None or not body.dirty:
                    return message
                data = body.render()
                return replace(message, body=message.body[:offset] + data if offset else data)
        rendered = _with_new_body(root.children)
        if rendered is not None:
            return rendered
    return Rendering(root, like).message()


def _with_descriptor_alone(descriptor: Element, body: Element) -> Message | None:
    """As below, where a program took only MQMD along."""
    if (
        not isinstance(descriptor, Folder)
        or not isinstance(body, Folder)
        or descriptor.domain is not MQMD
        or descriptor.dirty
    ):
        return None
    origin = descriptor.model
    if (
        type(origin) is not Origin
        or origin.headers
        or origin.message.properties
        or body.ccsid != origin.body_ccsid
        or body.encoding != origin.body_encoding
        or body.domain.name in FORMATS
        or body.domain.name == "MRM"
    ):
        return None
    return replace(origin.message, body=body.render())


def _with_new_body(children: list[Element]) -> Message | None:
    """The way of most messages: all headers as they came, and a new body at most. None for all others.

    `Rendering` would come to the same result.
    """
    if len(children) == 2:
        return _with_descriptor_alone(*children)
    if len(children) < 3:
        return None
    properties, descriptor, body = children[0], children[1], children[-1]
    if (
        not isinstance(descriptor, Folder)
        or descriptor.domain is not MQMD
        or descriptor.dirty
        or not isinstance(properties, Folder)
        or properties.domain is not PROPERTIES
        or (properties.dirty and not _names_model_only(properties))
        or not isinstance(body, Folder)
    ):
        return None
    origin = descriptor.model
    if (
        type(origin) is not Origin
        or not _is_of(properties, origin)
        or body.ccsid != origin.body_ccsid
        or body.encoding != origin.body_encoding
        or body.domain.name in FORMATS
        or len(children) != len(origin.headers) + 3
    ):
        return None
    message = origin.message
    if not origin.headers:
        if body.model is None and body.domain.name == "MRM":
            names = _model_names(properties)
            if not all(type(name) is str and name for name in names):
                return None
            body.model = find_format(*names)
        data = body.render()
        return message if data is message.body else replace(message, body=data)
    if properties.dirty or (body.model is None and body.domain.name == "MRM") or body.domain.name != origin.domain:
        return None
    for header, came in zip(children[2:-1], origin.headers, strict=True):
        if not isinstance(header, Folder) or header.body is not came or header.dirty:
            return None
        if came is ELSEWHERE and (header.model is not origin or header.domain.name != "MQRFH2"):
            return None
    data = body.render()
    return replace(message, body=message.body[: origin.offset] + data if origin.offset else data)


def _is_of(properties: Folder, origin: Origin) -> bool:
    """Whether the folder is that of the message, whatever model it names."""
    model = properties.model
    return model is origin or (type(model) is Origin and model.message is origin.message)


def _model_names(properties: Folder) -> Sequence[Any]:
    model = properties.model
    if properties._children is None and type(model) is Origin:
        return model.message_set, model.message_type, model.message_format
    return [properties.get(name) for name in _MODEL_NAMES]


_MODEL_NAMES = ("MessageSet", "MessageType", "MessageFormat")


def _names_model_only(properties: Folder) -> bool:
    """Whether a program has set nothing there but which message of which set the body is."""
    return not properties.restructured and all(
        element.parent is properties and element.key in _MODEL_NAMES for element in properties.touched or ()
    )
