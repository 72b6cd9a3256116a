# SPDX-License-Identifier: Apache-2.0
"""XML without namespaces, for the old XML domain: prefixes stay in names, xmlns is an attribute.

lxml always resolves prefixes, so documents that have any are read with expat
instead, into plain elements. The tree is the one that MixedElement would give,
and CDATA sections are seen here.
"""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from entrepot.errors.flows import MessageTooComplex, MessageUnreadable
from entrepot.models.element_types import (
    NAME,
    XML_ATTRIBUTE,
    XML_COMMENT,
    XML_CONTENT,
    XML_PROCESSING_INSTRUCTION,
)
from entrepot.models.tree import Element, Folder
from entrepot.models.tree_state import DEPTH_MAX
from entrepot.models.xml.declaration import Declaration
from entrepot.models.xml.reading import in_body, is_ascii_like, recoded, refuse_document_type


def wanted(body: bytes) -> bool:
    """Only with expat would the names be right."""
    return not is_ascii_like(body) or (b":" in body and (b"xmlns" in body or b"xml:" in body))


def parse(folder: Folder) -> None:
    """Give the folder the elements of its body.

    Raises:
        MessageUnreadable: It is no well-formed XML, or has a document type.
        MessageTooComplex: It is too deep.
    """
    body = recoded(folder)
    refuse_document_type(folder, body)
    reader = _PlainNameReader(folder)
    parser = expat.ParserCreate(None if body is folder.body else "utf-8")
    parser.buffer_text = True
    parser.ordered_attributes = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.CommentHandler = reader.comment
    parser.ProcessingInstructionHandler = reader.instruction
    parser.StartDoctypeDeclHandler = reader.document_type
    reader.parser = parser
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        problem = expat.ErrorString(error.code) or "no XML"
        offset = in_body(folder, max(parser.ErrorByteIndex, 0))
        raise MessageUnreadable(folder.domain.name, folder.path(), offset, problem) from None
    finally:
        reader.parser = None
    declaration = Declaration.of(folder)
    children = reader.top
    folder.fill(children if declaration is None else [declaration, *children])


class _PlainNameReader:
    __slots__ = ("folder", "open", "parser", "top")

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.top: list[Element] = []
        self.open: list[tuple[Element, list[Element]]] = []
        self.parser: Any = None

    def add(self, element: Element) -> None:
        (self.open[-1][1] if self.open else self.top).append(element)

    def start(self, name: str, attributes: list[str]) -> None:
        if len(self.open) >= DEPTH_MAX:
            raise MessageTooComplex(
                self.folder.domain.name,
                self.folder.path(),
                self.parser.CurrentByteIndex,
                f"deeper than {DEPTH_MAX} levels",
            )
        element = Element(name)
        children = [Element(attributes[at], attributes[at + 1], XML_ATTRIBUTE) for at in range(0, len(attributes), 2)]
        self.add(element)
        self.open.append((element, children))

    def end(self, name: str) -> None:
        del name
        element, children = self.open.pop()
        content = [child for child in children if child.kind != XML_ATTRIBUTE]
        if all(child.kind == XML_CONTENT for child in content):
            element.value = "".join(child.value for child in content)
            children = [child for child in children if child.kind == XML_ATTRIBUTE]
        element.kind = NAME
        element.fill(children)

    def text(self, text: str) -> None:
        if self.open:
            self.add(Element("", text, XML_CONTENT))

    def comment(self, text: str) -> None:
        self.add(Element("", text, XML_COMMENT))

    def instruction(self, target: str, text: str) -> None:
        self.add(Element(target, text, XML_PROCESSING_INSTRUCTION))

    def document_type(self, *of_it: Any) -> None:
        del of_it
        raise MessageUnreadable(
            self.folder.domain.name,
            self.folder.path(),
            self.parser.CurrentByteIndex,
            "it has a DOCTYPE, which is never accepted: entities are no data",
        )
