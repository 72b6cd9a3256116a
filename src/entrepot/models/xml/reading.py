# SPDX-License-Identifier: Apache-2.0
"""From the bytes of an XML body to lxml's tree, or to an error that says where.

No document type is accepted, so there are no entities but XML's own five, and
nothing is read from outside the message. libxml2 stops at 256 levels and at
texts of ten million characters. A body that is not compatible with ASCII
(EBCDIC, UTF-16, UTF-32) is decoded first, by its byte order mark or by its code page.
"""

from __future__ import annotations

import codecs
import re

from lxml import etree

from entrepot.errors.flows import MessageTooComplex, MessageUnreadable
from entrepot.models.tree import Folder

_SAFE = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "huge_tree": False,
    # Only XPath's id() would need them.
    "collect_ids": False,
}
_COMPACT = {"remove_comments": True, "remove_pis": True, "remove_blank_text": True}

COMPACT = etree.XMLParser(**_SAFE, **_COMPACT)
COMPACT_CDATA = etree.XMLParser(**_SAFE, **_COMPACT, strip_cdata=False)
MIXED = etree.XMLParser(**_SAFE, strip_cdata=False)

# The same for bytes that were recoded here, whatever their declaration says.
_RECODED = {
    COMPACT: etree.XMLParser(**_SAFE, **_COMPACT, encoding="utf-8"),
    COMPACT_CDATA: etree.XMLParser(**_SAFE, **_COMPACT, strip_cdata=False, encoding="utf-8"),
    MIXED: etree.XMLParser(**_SAFE, strip_cdata=False, encoding="utf-8"),
}

_PROLOGUE_SIGNS = (b"?", b"!")
"""After a less-than sign: no name, so something stands before the document element. Nothing else can hide a DOCTYPE."""
_PROLOGUE = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t\r\n]+|<\?(?s:.*?)\?>|<!--(?s:.*?)-->)*")
ENCODING = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']""")
_AS_IT_IS = frozenset({b"UTF-8", b"UTF8", b"US-ASCII", b"ASCII", b"ISO-8859-1", b"ISO-8859-15", b"WINDOWS-1252"})
"""Encodings in which markup is ASCII, so that the bytes can be searched for it."""

_TOO_COMPLEX = frozenset({114, 111, 110, 89})
"""libxml2's errors for limits: XML_ERR_RESOURCE_LIMIT, HUGE and name or entity limits."""

_UNIVERSAL = (
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\xfe\xff", "utf-16"),
    (b"\xff\xfe", "utf-16"),
    (b"\x00\x00\x00<", "utf-32-be"),
    (b"<\x00\x00\x00", "utf-32-le"),
    (b"\x00<", "utf-16-be"),
    (b"<\x00", "utf-16-le"),
)
_EBCDIC_LESS_THAN = b"\x4c"
_ASCII_COMPATIBLE = frozenset({0, 1208, 367})


def read(folder: Folder, parser: etree.XMLParser) -> etree._Element:
    """The document element of the folder's body.

    Raises:
        MessageUnreadable: It is no well-formed XML, or has a document type.
        MessageTooComplex: It is deeper or longer than libxml2's limits.
    """
    body = recoded(folder)
    if body is not folder.body:
        parser = _RECODED[parser]
    if body[1:2] in _PROLOGUE_SIGNS or body[:1] != b"<":
        refuse_document_type(folder, body)
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError as error:
        raise unreadable(folder, body, error) from None
    except ValueError as error:
        raise MessageUnreadable(folder.domain.name, folder.path(), 0, str(error)) from None
    if body[:2] == b"<?" and root.getroottree().docinfo.internalDTD is not None:
        # An encoding can hide the sign from a search of the bytes; UTF-7 does.
        raise MessageUnreadable(folder.domain.name, folder.path(), 0, "it has a DOCTYPE, which is never accepted")
    return root


def is_ascii_like(body: bytes) -> bool:
    """The bytes can be searched for markup as they are."""
    return body[:1] == b"<" and body[1:2] != b"\x00"


def recoded(folder: Folder) -> bytes:
    """The body as lxml can read it: itself nearly always, otherwise in UTF-8."""
    body = folder.body
    assert body is not None
    if is_ascii_like(body):
        if body[:5] == b"<?xml":
            declared = ENCODING.match(body[:200])
            if declared is not None:
                if declared[1].upper() in _AS_IT_IS:
                    return body
                return _decode(folder, body, declared[1].decode())
        if folder.ccsid in _ASCII_COMPATIBLE or body.isascii():
            return body
        return _decode(folder, body, codec(folder))
    for mark, name in _UNIVERSAL:
        if body.startswith(mark):
            return _decode(folder, body, name)
    if body[:1] == _EBCDIC_LESS_THAN:
        name = codec(folder)
        return _decode(folder, body, name if "<".encode(name) == _EBCDIC_LESS_THAN else "cp500")
    if folder.ccsid not in _ASCII_COMPATIBLE:
        return _decode(folder, body, codec(folder))
    return body


def codec(folder: Folder) -> str:
    """Python's name of the folder's code page.

    Raises:
        CodePageUnknown: There is none.
    """
    if folder.ccsid in (1208, 0):
        return "utf-8"
    from entrepot.models.code_pages import codec_of

    return codec_of(folder.ccsid, folder.encoding)


_NO_CODE_PAGES = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
"""What Python calls text encodings, and no document is written in; the first two take time by the length squared."""


def _decode(folder: Folder, body: bytes, name: str) -> bytes:
    try:
        if codecs.lookup(name).name in _NO_CODE_PAGES:
            raise LookupError(name)
        text = body.decode(name)
    except LookupError:
        raise MessageUnreadable(
            folder.domain.name, folder.path(), 0, f"its declaration names the encoding {name}, which is not known"
        ) from None
    except UnicodeDecodeError as error:
        raise MessageUnreadable(
            folder.domain.name, folder.path(), error.start, f"not in {name}: {error.reason}"
        ) from None
    except UnicodeError as error:
        raise MessageUnreadable(folder.domain.name, folder.path(), 0, f"not in {name}: {error}") from None
    # EBCDIC's new line is U+0085 to Python, and no white space in XML 1.0.
    return text.lstrip("\ufeff").replace("\x85", "\n").encode("utf-8", "surrogatepass")


def refuse_document_type(folder: Folder, body: bytes) -> None:
    """A document type before the document element is refused; the same characters as text are not."""
    prologue = _PROLOGUE.match(body)
    offset = prologue.end() if prologue is not None else 0
    if body[offset : offset + 9] == b"<!DOCTYPE":
        problem = "it has a DOCTYPE, which is never accepted: entities are no data"
        raise MessageUnreadable(folder.domain.name, folder.path(), in_body(folder, offset), problem)


def unreadable(folder: Folder, body: bytes, error: etree.XMLSyntaxError) -> MessageUnreadable | MessageTooComplex:
    """lxml's error in our words, with the offset that its line and column mean."""
    line, column = error.position
    problem = (error.msg or "no XML").split(", line ")[0].strip()
    kind = MessageTooComplex if error.code in _TOO_COMPLEX else MessageUnreadable
    return kind(folder.domain.name, folder.path(), in_body(folder, offset_of(body, line or 1, column or 1)), problem)


def in_body(folder: Folder, offset: int) -> int:
    """An offset in what `recoded` gave, which may be longer than the body: never behind the body's end."""
    return min(offset, len(folder.body or b""))


def offset_of(body: bytes, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        end = body.find(b"\n", start)
        if end < 0:
            break
        start = end + 1
    return min(start + column - 1, len(body))
