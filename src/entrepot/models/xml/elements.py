# SPDX-License-Identifier: Apache-2.0
"""Elements that stand for a place in an lxml tree and load their children on first access.

Reading with lxml costs less than making elements of our own, so a level is made
when it is looked at, and a single named child can be found without its siblings.
An element keeps its identity: what was found alone is the same object when its
whole level is loaded. The classes differ by what a document may contain, so that
plain documents do not pay for namespaces, CDATA sections and mixed content.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lxml import etree

from entrepot.errors.flows import MessageTooComplex
from entrepot.models.element_types import (
    NAME,
    XML_ATTRIBUTE,
    XML_COMMENT,
    XML_CONTENT,
    XML_NAMESPACE,
    XML_PROCESSING_INSTRUCTION,
    XMLNS_URI,
    XMLNSC_ATTRIBUTE,
    XMLNSC_CDATA_FIELD,
    XMLNSC_FIELD,
    XMLNSC_FOLDER,
    XMLNSC_NAMESPACE,
)
from entrepot.models.tree import Element

NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"

FOUND_MAX = 6
"""After so many searches in a level it is loaded as a whole; the next ones are then found in a dictionary."""

NEAR = 10
"""So many children are looked at one by one before lxml is asked to search."""

SMALL = 6
"""A level of so few children is loaded at once: a search in lxml's tree costs as much as two or three elements."""

NAMESPACES_MAX = 256
"""How many prefixes may be known at one place; each element there is compared with all of them."""

_values_of_attributes = etree.XPath("@*", smart_strings=False)


def attributes_of(source: etree._Element, names: list[str]) -> Iterable[tuple[str, str]]:
    """Names and values of the attributes, in order."""
    if len(names) < 20:
        found: list[tuple[str, str]] = source.items()
        return found
    # For items(), lxml looks for each value from the first attribute on; thousands of them would take hours.
    return zip(names, _values_of_attributes(source), strict=True)


def _child_named(source: etree._Element, key: str) -> etree._Element | None:
    """The first child of a name. To look at a few children costs less than a search that lxml has to set up."""
    for looked_at, child in enumerate(source):
        if child.tag == key:
            return child
        if looked_at == NEAR:
            return next(source.iterchildren(key), None)
    return None


class XmlElement(Element):
    """XMLNSC without namespaces and CDATA: fields have a value, folders have children, other text is dropped."""

    __slots__ = ("_found", "source")

    field_kind = XMLNSC_FIELD
    folder_kind = XMLNSC_FOLDER
    attribute_kind = XMLNSC_ATTRIBUTE
    namespace_kind = XMLNSC_NAMESPACE
    attributed = True
    """There may be attributes, here or elsewhere in the document."""
    plain = True
    """lxml may write it as it is, wherever it stands: it needs no declaration from above."""
    uncertain: tuple[str, ...] = ("{", "")
    """How names begin that are not looked for in lxml's tree: here nothing but xml:lang has a namespace."""

    def __init__(self, key: str, source: etree._Element, parent: Element | None) -> None:
        # Not through Element.__init__: this runs for each element that is looked at.
        self.key = key
        self.source = source
        self.parent = parent
        self._children = None
        self._index = None
        self._has_changed = False
        self._found: dict[str, XmlElement | None] | None = None
        if len(source):
            self.value = None
            self.kind = self.folder_kind
        else:
            self.value = source.text or ""
            self.kind = self.field_kind

    def first(self, key: str) -> Element | None:
        if self._children is not None:
            return Element.first(self, key)
        source = self.source
        found = self._found
        if found is None:
            if len(source) <= SMALL:
                return self._first_of_few(key)
            found = self._found = {}
        elif key in found:
            return found[key]
        # What lxml reads as a pattern or as nonsense is only a name here. Attributes stand before elements.
        if (
            key[:1] in self.uncertain
            or "*" in key
            or len(found) >= FOUND_MAX
            or (self.attributed and source.get(key) is not None)
        ):
            self.load()
            return Element.first(self, key)
        child = _child_named(source, key)
        if child is None:
            found[key] = None
            return None
        element = found[key] = self.__class__(key, child, self)
        return element

    def _first_of_few(self, key: str) -> Element | None:
        for child in self.load():
            if child.key == key:
                return child
        return None

    def load(self) -> list[Element]:
        source = self.source
        children: list[Element] = []
        self._children = children
        names = source.keys()
        if names:
            for key, value in attributes_of(source, names):
                attribute = Element(key, value, self.attribute_kind)
                attribute.parent = self
                children.append(attribute)
        if not len(source):
            self._found = None
            return children
        make = self.__class__
        found = self._found
        if found:
            for child in source:
                key = child.tag
                children.append(found.pop(key, None) or make(key, child, self))
        else:
            for child in source:
                children.append(make(child.tag, child, self))  # noqa: PERF401 - a comprehension would copy the list
        self._found = None
        return children

    def is_leaf(self) -> bool:
        if self._children is None:
            if self.value is None or not self.plain or self._found:
                return False
            return not self.attributed or not self.source.keys()
        return not self._children

    def clear(self) -> None:
        for child in (self._found or {}).values():
            if child is not None:
                child.parent = None
                child._has_changed = True
        self._found = None
        Element.clear(self)


def _is_declaration(key: str) -> bool:
    """No element has such a name: it declares a prefix, or is no name at all."""
    return key.find("}") < 2 or key.startswith(f"{{{XMLNS_URI}}}")


class NamespaceElement(XmlElement):
    """XMLNSC with namespace declarations and xsi:nil."""

    __slots__ = ()

    plain = False
    uncertain: tuple[str, ...] = ("",)

    def __init__(self, key: str, source: etree._Element, parent: Element | None) -> None:
        XmlElement.__init__(self, key, source, parent)
        if self.value == "" and source.get(NIL, "").strip() in ("true", "1"):
            self.value = None

    def first(self, key: str) -> Element | None:
        if self._children is None and (key == "xmlns" or (key[:1] == "{" and _is_declaration(key))):
            self.load()
        return XmlElement.first(self, key)

    def load(self) -> list[Element]:
        declarations = self._declarations()
        children = XmlElement.load(self)
        children[:0] = declarations
        return children

    def _declarations(self) -> list[Element]:
        """The namespaces that this element declares and none above it does."""
        source = self.source
        own = source.nsmap
        if len(own) > NAMESPACES_MAX:
            raise MessageTooComplex(self.domain_name(), self.path(), 0, f"more than {NAMESPACES_MAX} namespaces")
        above = source.getparent()
        known: dict[Any, Any] = {} if above is None else above.nsmap
        declarations = []
        for prefix, uri in own.items():
            if prefix not in known or known[prefix] != uri:
                key = "xmlns" if prefix is None else f"{{{XMLNS_URI}}}{prefix}"
                declaration = Element(key, uri or "", self.namespace_kind)
                declaration.parent = self
                declarations.append(declaration)
        return declarations


class SectionElement(NamespaceElement):
    """XMLNSC with CDATA sections: a field that has one is written with one."""

    __slots__ = ()

    def __init__(self, key: str, source: etree._Element, parent: Element | None) -> None:
        NamespaceElement.__init__(self, key, source, parent)
        # A less-than sign is never written bare elsewhere in a field, so this finds a section and no text.
        if self.value and b"<![CDATA[" in etree.tostring(source, with_tail=False):
            self.kind = XMLNSC_CDATA_FIELD


class MixedElement(NamespaceElement):
    """XML and XMLNS: comments, processing instructions and all text stay in the tree.

    An element that has nothing but text holds it as its own value. IBM's tree
    has a content child there; a path that names the element finds the text in both.
    """

    __slots__ = ()

    field_kind = NAME
    folder_kind = NAME
    attribute_kind = XML_ATTRIBUTE
    namespace_kind = XML_NAMESPACE

    # NamespaceElement's looks for xsi:nil, which means nothing here.
    __init__ = XmlElement.__init__

    def load(self) -> list[Element]:
        source = self.source
        found = self._found or {}
        self._found = None
        children: list[Element] = []
        if self.attributed:
            children = self._declarations()
            for key, value in attributes_of(source, source.keys()):
                children.append(Element(key, value, self.attribute_kind))
        if len(source):
            make = self.__class__
            text = source.text
            if text:
                children.append(Element("", text, XML_CONTENT))
            for child in source:
                tag = child.tag
                if tag.__class__ is str:
                    children.append(found.pop(tag, None) or make(tag, child, self))
                else:
                    children.append(make_any(make, child, self))
                text = child.tail
                if text:
                    children.append(Element("", text, XML_CONTENT))
        for element in children:
            element.parent = self
        self._children = children
        return children


class PlainMixedElement(MixedElement):
    """XML and XMLNS where nothing declares a namespace."""

    __slots__ = ()

    plain = True

    def _declarations(self) -> list[Element]:
        return []


class BareElement(XmlElement):
    """XMLNSC where there is no attribute in the whole document."""

    __slots__ = ()

    attributed = False


class BareMixedElement(PlainMixedElement):
    """XML and XMLNS where there is no attribute in the whole document."""

    __slots__ = ()

    attributed = False
    uncertain: tuple[str, ...] = ("{", "")

    first = XmlElement.first


def make_any(kind_of_element: type[XmlElement], source: etree._Element, parent: Element | None) -> Element:
    tag: Any = source.tag
    if tag.__class__ is str:
        return kind_of_element(tag, source, parent)
    if tag is etree.Comment:
        return Element("", source.text or "", XML_COMMENT)
    return Element(source.target, source.text or "", XML_PROCESSING_INSTRUCTION)
