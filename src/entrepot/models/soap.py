# SPDX-License-Identifier: Apache-2.0
"""SOAP 1.1 and 1.2: an Envelope as Context, Header and Body.

    SOAP ─┬ Context ─┬ SOAP_Version       '1.1' or '1.2'
          │          ├ operation          name of the first element of the Body
          │          ├ Namespace          what the Envelope declares: xmlns:soapenv ...
          │          ├ XmlDeclaration     where there is one
          │          └ Envelope           attributes of the Envelope, where there are any
          ├ Header                        children of soapenv:Header, where there is one
          └ Body                          children of soapenv:Body; a Fault is one of them

Header and Body are read as XMLNSC is, level by level, and an unchanged body is written as the bytes it came
from. Otherwise the Envelope is built again from Context. SOAP with attachments is MIME, and not read here.
"""

from __future__ import annotations

from typing import Any

from lxml import etree

from entrepot.errors.flows import MessageTooComplex, MessageUnreadable, MessageUnwritable
from entrepot.models.element_types import (
    ATTRIBUTES,
    NAME_VALUE,
    XMLNS_URI,
    XMLNSC_DECLARATION,
    XMLNSC_FOLDER,
    XMLNSC_NAMESPACE,
    XMLNSC_SINGLE_NAMESPACE,
)
from entrepot.models.tree import Element, Folder
from entrepot.models.value_text import xml_text
from entrepot.models.xml import CompactDomain
from entrepot.models.xml import peek as xml_peek
from entrepot.models.xml import writing as xml_writing
from entrepot.models.xml.declaration import Declaration
from entrepot.models.xml.elements import NAMESPACES_MAX, NamespaceElement, XmlElement, attributes_of
from entrepot.models.xml.reading import offset_of, recoded

SHOWN_MAX = 200
"""So much of a name is told in an error; XML's names can be 50,000 characters long."""

_NAMESPACES = (XMLNSC_NAMESPACE, XMLNSC_SINGLE_NAMESPACE)
_NOTHING: tuple[bool, Any] = (False, None)


class SoapVersion:
    """A version of SOAP by the names of its parts."""

    __slots__ = ("body", "envelope", "fault", "header", "uri", "version")

    def __init__(self, version: str, uri: str) -> None:
        self.version = version
        self.uri = uri
        self.envelope = f"{{{uri}}}Envelope"
        self.header = f"{{{uri}}}Header"
        self.body = f"{{{uri}}}Body"
        self.fault = f"{{{uri}}}Fault"


SOAP_1_1 = SoapVersion("1.1", "http://schemas.xmlsoap.org/soap/envelope/")
SOAP_1_2 = SoapVersion("1.2", "http://www.w3.org/2003/05/soap-envelope")
FORMS = (SOAP_1_1, SOAP_1_2)
_BY_ENVELOPE = {form.envelope: form for form in FORMS}
_BY_VERSION = {form.version: form for form in FORMS}


class Context(Element):
    """What the Envelope says beside Header and Body; made on first access."""

    __slots__ = ("body", "declaration", "envelope", "form")

    def __init__(
        self,
        form: SoapVersion,
        envelope: etree._Element,
        body: etree._Element,
        declaration: Declaration | None,
        parent: Folder,
    ) -> None:
        Element.__init__(self, "Context")
        self.form = form
        self.envelope = envelope
        self.body = body
        self.declaration = declaration
        self.parent = parent

    def is_leaf(self) -> bool:
        return not self.children

    def load(self) -> list[Element]:
        envelope = self.envelope
        declared = envelope.nsmap
        if len(declared) > NAMESPACES_MAX:
            raise MessageTooComplex("SOAP", self.path(), 0, f"more than {NAMESPACES_MAX} namespaces")
        children = [Element("SOAP_Version", self.form.version, NAME_VALUE)]
        if len(self.body):
            children.append(Element("operation", etree.QName(self.body[0]).localname, NAME_VALUE))
        namespaces = Element("Namespace")
        namespaces.fill(
            Element("xmlns" if prefix is None else f"{{{XMLNS_URI}}}{prefix}", uri or "", XMLNSC_NAMESPACE)
            for prefix, uri in declared.items()
        )
        children.append(namespaces)
        if self.declaration is not None:
            children.append(self.declaration)
        names = envelope.keys()
        if names:
            kind = XmlElement.attribute_kind
            attributes = Element("Envelope")
            attributes.fill(Element(key, value, kind) for key, value in attributes_of(envelope, names))
            children.append(attributes)
        return self.fill(children)


class SoapDomain(CompactDomain):
    """SOAP: XMLNSC below Header and Body."""

    def parse(self, folder: Folder) -> None:
        self.parse_by_lxml(folder)
        *before, document = folder.children
        assert isinstance(document, XmlElement)
        envelope = document.source
        form = _BY_ENVELOPE.get(envelope.tag)
        if form is None:
            raise _misplaced(folder, envelope, f"the document element is {_shown(envelope)}, and no SOAP Envelope")
        header = body = None
        for part in envelope:
            if part.tag == form.body and body is None:
                body = part
            elif part.tag == form.header and header is None and body is None:
                header = part
            else:
                raise _misplaced(folder, part, f"an Envelope has a Header and then a Body, and no {_shown(part)} here")
        if body is None:
            raise _misplaced(folder, envelope, "the Envelope has no Body")
        make = document.__class__ if isinstance(document, NamespaceElement) else NamespaceElement
        declaration = before[0] if before else None
        assert declaration is None or isinstance(declaration, Declaration)
        children: list[Element] = [Context(form, envelope, body, declaration, folder)]
        if header is not None:
            children.append(_part(make("Header", header, folder)))
        children.append(_part(make("Body", body, folder)))
        folder._children = children

    def render(self, folder: Folder) -> bytes:
        if not folder.restructured:
            written = _values_only(folder)
            if written is not None:
                return written
        for element in folder.touched or ():
            element.changed(structure=True)
        return xml_writing.render(_document(self, folder))

    def peek(self, folder: Folder, keys: tuple[str, ...]) -> tuple[bool, Any]:
        if len(keys) < 2 or keys[0] not in ("Header", "Body"):
            return _NOTHING
        for form in FORMS:
            found = xml_peek.peek(folder, (form.envelope, form.body if keys[0] == "Body" else form.header, *keys[1:]))
            if found[0]:
                return found
        return _NOTHING


# --- reading --------------------------------------------------------------------------------------


def _part(element: XmlElement) -> XmlElement:
    """Header or Body: a folder even where it is empty."""
    element.kind = XMLNSC_FOLDER
    if element.value is not None and not element.value.strip(" \t\r\n"):
        element.value = None
        # So that it is known to have no children.
        element.load()
    return element


def _misplaced(folder: Folder, source: etree._Element, problem: str) -> MessageUnreadable:
    """The offset is that of the line: lxml knows no more."""
    body = folder.body or b""
    offset = offset_of(recoded(folder), source.sourceline or 1, 1)
    return MessageUnreadable("SOAP", folder.path(), min(offset, len(body)), problem)


def _shown(source: etree._Element) -> str:
    name: str = source.tag
    return name if len(name) <= SHOWN_MAX else name[:SHOWN_MAX] + "..."


# --- writing --------------------------------------------------------------------------------------


def _values_only(folder: Folder) -> bytes | None:
    """The bytes by way of lxml's tree; None when that cannot express what changed."""
    children = folder._children
    if not children:
        return None
    context, body = children[0], children[-1]
    if not isinstance(context, Context) or not isinstance(body, XmlElement):
        return None
    return xml_writing.values_put_back(folder, context.envelope, context.declaration, xml_writing.encoding_of(folder))


def _document(domain: SoapDomain, folder: Folder) -> Folder:
    """The Envelope as a folder of its own; what lies below Header and Body stays where it is."""
    parts: dict[str, Element] = {}
    for part in folder.children:
        if part.key == "Attachment" and (part.children or part.value is not None):
            raise MessageUnwritable("SOAP", part.path(), "attachments are not supported; write a MIME message")
        if part.key not in ("Context", "Header", "Body", "Attachment"):
            raise MessageUnwritable("SOAP", part.path(), "a SOAP tree has Context, Header and Body, and nothing else")
        if part.key in parts:
            raise MessageUnwritable("SOAP", part.path(), "there is one already")
        parts[part.key] = part
    body = parts.get("Body")
    if body is None:
        raise MessageUnwritable("SOAP", folder.path(), "there is no Body")
    context = parts.get("Context") or Element("Context")
    declarations = _declarations(context)
    form = _form(context, declarations, body)
    if not any(declaration.value == form.uri for declaration in declarations) and not any(
        declaration.name == "soapenv" for declaration in declarations
    ):
        declarations.insert(0, Element(f"{{{XMLNS_URI}}}soapenv", form.uri, XMLNSC_NAMESPACE))
    content = declarations
    attributes = context.first("Envelope")
    if attributes is not None:
        content += [child for child in attributes.children if child.kind in ATTRIBUTES["SOAP"]]
    header = parts.get("Header")
    if header is not None:
        content.append(_pointing(form.header, header))
    content.append(_pointing(form.body, body))
    envelope = Element(form.envelope)
    envelope._children = content
    document = Folder(domain, None, ccsid=folder.ccsid, encoding=folder.encoding)
    document._children = [envelope]
    declaration = context.first("XmlDeclaration")
    if declaration is not None:
        if declaration.kind != XMLNSC_DECLARATION:
            declaration = _pointing("XmlDeclaration", declaration)
            declaration.kind = XMLNSC_DECLARATION
        document._children.insert(0, declaration)
    return document


def _pointing(key: str, element: Element) -> Element:
    """The same content under another name; its children keep their parent, so that errors tell the true path."""
    twin = Element(key, element.value)
    twin.parent = element.parent
    twin._children = element.children
    return twin


def _declarations(context: Element) -> list[Element]:
    """Context.Namespace as declarations, also where a program did not say the kind."""
    namespaces = context.first("Namespace")
    declarations = []
    for child in namespaces.children if namespaces is not None else ():
        if child.kind not in _NAMESPACES or (child.namespace != XMLNS_URI and child.key != "xmlns"):
            key = child.key if child.key == "xmlns" else f"{{{XMLNS_URI}}}{child.name}"
            child = Element(key, child.value, XMLNSC_NAMESPACE)
        declarations.append(child)
    return declarations


def _form(context: Element, declarations: list[Element], body: Element) -> SoapVersion:
    """The version that Context tells; else that of the namespaces it declares, or of the Fault; else 1.1."""
    version = context.first("SOAP_Version")
    if version is not None and version.value is not None:
        form = _BY_VERSION.get(xml_text(version.value))
        if form is None:
            raise MessageUnwritable("SOAP", version.path(), "the versions are '1.1' and '1.2'")
        return form
    uris = [declaration.value for declaration in declarations]
    for form in FORMS:
        if form.uri in uris:
            return form
    return SOAP_1_2 if body.first(SOAP_1_2.fault) is not None else SOAP_1_1


SOAP = SoapDomain("SOAP")
