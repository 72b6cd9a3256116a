# SPDX-License-Identifier: Apache-2.0
"""The domains whose bodies are XML: XMLNSC, XMLNS and the old XML.

XMLNSC (and SOAP below Header and Body, soap.py) drops comments,
processing instructions and text between elements; XMLNS and XML keep them.
XML knows no namespaces: `<a:b>` is an element named a:b there. A body is parsed
on first access, level by level: plain ones as a tape (compiled/tape.pyx), all others by lxml (elements.py). A body
that was not changed is written as the bytes it came from.
"""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

from entrepot.compiled import compiled
from entrepot.errors.flows import MessageUnreadable
from entrepot.models.tree import Element, Folder
from entrepot.models.xml import peek as xml_peek
from entrepot.models.xml import plain_names as xml_plain_names
from entrepot.models.xml import reading as xml_reading
from entrepot.models.xml import writing as xml_writing
from entrepot.models.xml.declaration import Declaration
from entrepot.models.xml.elements import (
    BareElement,
    BareMixedElement,
    MixedElement,
    NamespaceElement,
    PlainMixedElement,
    SectionElement,
    XmlElement,
    make_any,
)

_PLAIN_START = re.compile(rb"<[A-Za-z_]").match

_tape = compiled("tape")


def _taped(folder: Folder, *, compact: bool) -> bool:
    """Give the folder the elements of a tape, where there is a compiled form and the body is plain."""
    if _tape is None:
        return False
    document = _tape.document_of(folder, compact)
    if document is None:
        return False
    declaration = Declaration.of(folder)
    folder._children = [document] if declaration is None else [declaration, document]
    return True


class CompactDomain:
    """XMLNSC: the tree holds what business messages mean, and not how they were typed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def parse(self, folder: Folder) -> None:
        if not _taped(folder, compact=True):
            self.parse_by_lxml(folder)

    def parse_by_lxml(self, folder: Folder) -> None:
        body: Any = folder.body
        # One character is found many times faster than a word; neither sections nor attributes do without theirs.
        sections = b"[" in body and b"<![CDATA[" in body
        attributed = b"=" in body
        make: type[XmlElement] = XmlElement if attributed else BareElement
        if sections:
            make = SectionElement
        elif attributed and b"xmlns" in body:
            make = NamespaceElement
        parser = xml_reading.COMPACT_CDATA if sections else xml_reading.COMPACT
        if folder.ccsid == 1208 and _PLAIN_START(body) is not None:
            # Nearly every message: it is UTF-8, and nothing stands before the document element.
            try:
                root = etree.fromstring(body, parser)
            except etree.XMLSyntaxError as error:
                raise xml_reading.unreadable(folder, body, error) from None
            folder._children = [make(root.tag, root, folder)]
            return
        if not xml_reading.is_ascii_like(body):
            make, parser = SectionElement, xml_reading.COMPACT_CDATA
        root = xml_reading.read(folder, parser)
        declaration = Declaration.of(folder)
        document = make(root.tag, root, folder)
        folder._children = [document] if declaration is None else [declaration, document]

    def render(self, folder: Folder) -> bytes:
        return xml_writing.render(folder)

    def peek(self, folder: Folder, keys: tuple[str, ...]) -> tuple[bool, Any]:
        return xml_peek.peek(folder, keys)


class MixedDomain:
    """XMLNS: nothing of a document is dropped."""

    def __init__(self, name: str) -> None:
        self.name = name

    def parse(self, folder: Folder) -> None:
        if not _taped(folder, compact=False):
            self.parse_by_lxml(folder)

    def parse_by_lxml(self, folder: Folder) -> None:
        body: Any = folder.body
        if folder.ccsid == 1208 and body[-1:] == b">" and b"=" not in body and _PLAIN_START(body) is not None:
            # As above, and without attributes there are no namespaces.
            try:
                root = etree.fromstring(body, xml_reading.MIXED)
            except etree.XMLSyntaxError as error:
                raise xml_reading.unreadable(folder, body, error) from None
            if root.getnext() is None:
                folder._children = [BareMixedElement(root.tag, root, folder)]
                return
        root = xml_reading.read(folder, xml_reading.MIXED)
        plain = xml_reading.is_ascii_like(body) and not (b"=" in body and b"xmlns" in body)
        make = PlainMixedElement if plain else MixedElement
        children: list[Element] = []
        declaration = Declaration.of(folder)
        if declaration is not None:
            children.append(declaration)
        before = [make_any(make, sibling, folder) for sibling in root.itersiblings(preceding=True)]
        children += reversed(before)
        children.append(make(root.tag, root, folder))
        children += [make_any(make, sibling, folder) for sibling in root.itersiblings()]
        folder.fill(children)

    def render(self, folder: Folder) -> bytes:
        return xml_writing.render(folder)

    def peek(self, folder: Folder, keys: tuple[str, ...]) -> tuple[bool, Any]:
        return xml_peek.peek(folder, keys)


class PrefixedDomain(MixedDomain):
    """XML: as XMLNS, but prefixes are part of names and xmlns is an attribute like any other."""

    def parse_by_lxml(self, folder: Folder) -> None:
        body: Any = folder.body
        if xml_plain_names.wanted(body):
            xml_plain_names.parse(folder)
        else:
            try:
                MixedDomain.parse_by_lxml(self, folder)
            except MessageUnreadable:
                # An undeclared prefix is no fault in this domain. Whatever else is wrong, expat reports too.
                xml_plain_names.parse(folder)


XMLNSC = CompactDomain("XMLNSC")
XMLNS = MixedDomain("XMLNS")
XML = PrefixedDomain("XML")
