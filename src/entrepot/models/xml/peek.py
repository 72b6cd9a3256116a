# SPDX-License-Identifier: Apache-2.0
"""One early field of a long XML body, without reading the rest.

Routing looks at a field near the beginning of the message. So the beginning is
cut behind an end tag, the elements that are open there are closed, and that is
parsed. Every field in it is complete, and is what the whole body would give;
anything unusual is left to the whole body. A body that is broken further on is
still refused when all of it is read.
"""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

from entrepot.models.tree import Folder
from entrepot.models.xml.elements import NIL
from entrepot.models.xml.reading import COMPACT, ENCODING, MIXED

BODY_BYTES_MIN = 16 * 1024
"""Shorter bodies are read as a whole; that costs about as much as this does."""
PREFIX_BYTES = (128, 1024)
"""How much is read at first, and how much when that was not enough."""

_TAG = re.compile(rb"<(/?)([^\s/>]+)[^>]*?(/?)>")
_FIRST_NAME = re.compile(rb"\s*<([^\s/>]+)").match
_UTF_8 = (b"UTF-8", b"UTF8", b"US-ASCII", b"ASCII")

_NOTHING: tuple[bool, Any] = (False, None)


def peek(folder: Folder, keys: tuple[str, ...]) -> tuple[bool, Any]:
    """(True, value) when the beginning of the body tells; otherwise (False, None)."""
    if len(folder.body or b"") < BODY_BYTES_MIN:
        return _NOTHING
    roots: list[Any] = folder.peeked or []
    folder.peeked = roots
    for number, prefix_bytes in enumerate(PREFIX_BYTES):
        if number == len(roots):
            roots.append(_beginning(folder, prefix_bytes))
        root = roots[number]
        if root is None:
            continue
        if not keys or keys[0] != root.tag:
            return _NOTHING
        found = _ask(root, keys)
        if found is not _NOTHING:
            return found
    return _NOTHING


def _ask(root: etree._Element, keys: tuple[str, ...]) -> tuple[bool, Any]:
    node = root
    for position, key in enumerate(keys[1:], 2):
        if key == "xmlns" or (not key.isalnum() and _is_no_name(key)):
            return _NOTHING
        attribute = node.get(key)
        if attribute is not None:
            return (True, attribute) if position == len(keys) else _NOTHING
        # A prefix has few elements, and the one that is wanted is near its beginning.
        for child in node:
            if child.tag == key:
                node = child
                break
        else:
            return _NOTHING
    if len(node):
        return True, None
    if node is root or node.get(NIL) is not None:
        return _NOTHING
    return True, node.text or ""


def _is_no_name(key: str) -> bool:
    """What lxml would read as a pattern, or as nonsense."""
    return not key or "*" in key or (key[0] == "{" and key.find("}") < 2)


def _beginning(folder: Folder, prefix_bytes: int) -> etree._Element | None:
    """The document element as far as the beginning of the body has it; None when that is not to be trusted."""
    body = folder.body
    if body is None or len(body) < BODY_BYTES_MIN or body[:1] != b"<":
        return None
    cut = body.rfind(b"</", 0, prefix_bytes)
    end = body.find(b">", cut, cut + prefix_bytes) + 1
    if cut < 0 or not end:
        return None
    start = 0
    if body[1:2] == b"?":
        start = body.find(b"?>", 0, end) + 2
        declared = ENCODING.match(body, 0, start)
        if declared is None or declared[1].upper() not in _UTF_8:
            return None
    prefix = body[start:end]
    if start == 0 and folder.ccsid not in (0, 1208, 367) and not prefix.isascii():
        return None
    # Single characters are found faster than pairs of them, and are rare.
    if b"&" in prefix or (b"!" in prefix and b"<!" in prefix) or (b"?" in prefix and b"<?" in prefix):
        return None
    name = folder.domain.name
    if name == "XML" and b":" in prefix and (b"xmlns" in prefix or b"xml:" in prefix):
        return None
    parser = COMPACT if name in ("XMLNSC", "SOAP") else MIXED
    try:
        root = etree.fromstring(prefix + _closing(prefix), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    return root


def _closing(prefix: bytes) -> bytes:
    """End tags for what is open at the end. Where this is deceived, the result is not well-formed and not used."""
    if prefix.count(b"<") - 2 * prefix.count(b"</") - prefix.count(b"/>") == 1:
        # Only the document element is open.
        first = _FIRST_NAME(prefix)
        return b"</" + first[1] + b">" if first is not None else b""
    opened: list[bytes] = []
    for end, name, empty in _TAG.findall(prefix):
        if end:
            if opened:
                opened.pop()
        elif not empty:
            opened.append(name)
    return b"".join(b"</" + name + b">" for name in reversed(opened))
