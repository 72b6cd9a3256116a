# SPDX-License-Identifier: Apache-2.0
"""Headers of HTTP: as lines, and as the folders HTTPInputHeader, HTTPReplyHeader and their like.

Folders hold one child for each header, and some that no wire has: they begin
with `X-` and tell the request line, the status line and the client. Those
are made here and never sent.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from functools import lru_cache

from entrepot.models.code_pages import CODE_PAGES, codec_of
from entrepot.models.tree import Element, Folder, Root

Headers = list[tuple[str, str]]

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_CHARSET = re.compile(r"charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
_CHARSETS = {"latin-1": "iso-8859-1", "ascii": "us-ascii", "utf-16-be": "utf-16be", "utf-16-le": "utf-16le"}
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

OF_ONE_LINK = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "expect",
    }
)
"""What belongs to one connection, or to one body; set anew for each message sent."""

TOLD = frozenset(
    {
        "x-original-http-command",
        "x-original-http-url",
        "x-original-http-status-code",
        "x-original-http-status-line",
        "x-query-string",
        "x-remote-addr",
        "x-remote-host",
        "x-scheme",
        "x-server-name",
        "x-server-port",
    }
)
"""What folders tell beside headers. A client that sends one of these is not believed."""

_CONTENT_TYPES = {
    "XML": "text/xml",
    "XMLNS": "text/xml",
    "XMLNSC": "text/xml",
    "SOAP": "text/xml",
    "JSON": "application/json",
}
_MRM_AND_OTHERS = "application/octet-stream"


def problem_with(name: str, value: str) -> str:
    """Why a header cannot be sent; empty when it can."""
    if not TOKEN.fullmatch(name):
        return "that is no name of a header"
    if _CONTROLS.search(value):
        return "its value has a line end or another control character"
    try:
        value.encode("latin-1")
    except UnicodeEncodeError as error:
        return f"character {error.start + 1} of its value is not in ISO 8859-1"
    return ""


def said_by(folder: Element | None, *, without: Iterable[str] = ()) -> Headers:
    """The headers that a folder wants to be sent."""
    if folder is None:
        return []
    left_out = {*OF_ONE_LINK, *TOLD, *(name.lower() for name in without)}
    return [
        (child.name, text_of(child))
        for child in folder.children
        if child.value is not None and child.name.lower() not in left_out
    ]


def text_of(element: Element | None) -> str:
    """A value as a header has it."""
    value = None if element is None else element.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return str(value).strip()


def find(headers: Headers, name: str) -> str | None:
    """The first header of that name; case does not matter."""
    wanted = name.lower()
    return next((value for known, value in headers if known.lower() == wanted), None)


def child_of(folder: Element | None, name: str) -> Element | None:
    """The child of a folder by a name in whatever case."""
    if folder is None:
        return None
    wanted = name.lower()
    return next((child for child in folder.children if child.name.lower() == wanted), None)


def code_page_of(content_type: str) -> int:
    """What a Content-Type says about the code page; UTF-8 when it says nothing that is known."""
    match = _CHARSET.search(content_type)
    return 1208 if match is None else _code_page(match.group(1).lower())


@lru_cache(maxsize=100)
def _code_page(charset: str) -> int:
    try:
        wanted = codecs.lookup(charset).name
        return next(ccsid for ccsid, codec in CODE_PAGES.items() if ccsid and codecs.lookup(codec).name == wanted)
    except (LookupError, StopIteration):
        return 1208


def charset_of(ccsid: int) -> str:
    """What HTTP calls a code page."""
    name = codec_of(ccsid)
    if name in _CHARSETS:
        return _CHARSETS[name]
    return name.replace("iso8859-", "iso-8859-").replace("cp125", "windows-125")


def content_type_of(root: Root, ccsid: int) -> str:
    """What the body of a tree is, for its receiver."""
    body = next((child for child in reversed(root.children) if isinstance(child, Folder)), None)
    kind = _CONTENT_TYPES.get("" if body is None else body.domain.name, _MRM_AND_OTHERS)
    if kind == "text/xml":
        return f"text/xml; charset={charset_of(ccsid)}"
    return kind
