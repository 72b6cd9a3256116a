# SPDX-License-Identifier: Apache-2.0
"""From a tree to XML.

When only values changed, they are put into lxml's tree and lxml writes it.
Otherwise the elements are written one after the other; parts that were not read
at still come from lxml. Prefixes come from the namespace declarations in the
tree, and are NS1, NS2 ... where there is none. Attributes are written into the
start tag wherever they stand among the children.
"""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree

from entrepot.compiled import compiled
from entrepot.errors.flows import MessageUnwritable
from entrepot.limits import BODY_BYTES_MAX
from entrepot.models.element_types import (
    NAME,
    VALUE,
    XML_ATTRIBUTE,
    XML_CDATA,
    XML_COMMENT,
    XML_DECLARATION,
    XML_NAMESPACE,
    XML_PROCESSING_INSTRUCTION,
    XML_URI,
    XMLNS_URI,
    XMLNSC_ATTRIBUTE,
    XMLNSC_CDATA_FIELD,
    XMLNSC_COMMENT,
    XMLNSC_DECLARATION,
    XMLNSC_FIELD,
    XMLNSC_NAMESPACE,
    XMLNSC_PROCESSING_INSTRUCTION,
    XMLNSC_SINGLE_ATTRIBUTE,
    XMLNSC_SINGLE_NAMESPACE,
)
from entrepot.models.tree import Element, Folder
from entrepot.models.tree_state import DEPTH_MAX
from entrepot.models.value_text import xml_text
from entrepot.models.xml.characters import (
    LARGE,
    PREFIXED_NAME,
    UNPREFIXED_NAME,
    NotXml,
    attribute_text,
    cdata_text,
    content_text,
    is_plain,
    require_characters,
)
from entrepot.models.xml.declaration import Declaration, declaration_text
from entrepot.models.xml.elements import XmlElement
from entrepot.models.xml.reading import codec

_tape = compiled("tape")

ELEMENT, CDATA_ELEMENT, TEXT, CDATA, COMMENT, INSTRUCTION, ATTRIBUTE, NAMESPACE, DECLARATION, DOCUMENT_TYPE = range(10)

_SHARED = {
    XMLNSC_ATTRIBUTE: ATTRIBUTE,
    XMLNSC_SINGLE_ATTRIBUTE: ATTRIBUTE,
    XMLNSC_NAMESPACE: NAMESPACE,
    XML_CDATA: CDATA,
    XML_COMMENT: COMMENT,
    XMLNSC_COMMENT: COMMENT,
    XML_PROCESSING_INSTRUCTION: INSTRUCTION,
    XMLNSC_PROCESSING_INSTRUCTION: INSTRUCTION,
    XML_DECLARATION: DECLARATION,
    XMLNSC_DECLARATION: DECLARATION,
    0x01000020: DOCUMENT_TYPE,
    0x01000300: DOCUMENT_TYPE,
}
_XML_ROLES = {**_SHARED, XML_ATTRIBUTE: ATTRIBUTE, XML_NAMESPACE: NAMESPACE, NAME: ELEMENT}
_XMLNSC_ROLES = {
    **_SHARED,
    XMLNSC_FIELD: ELEMENT,
    XMLNSC_CDATA_FIELD: CDATA_ELEMENT,
    XMLNSC_SINGLE_NAMESPACE: NAMESPACE,
    NAME: ELEMENT,
}
ROLES = {"XML": _XML_ROLES, "XMLNS": _XML_ROLES, "XMLNSC": _XMLNSC_ROLES, "SOAP": _XMLNSC_ROLES}

_SIMPLE = (XMLNSC_FIELD, NAME)
_SINGLE = frozenset({XMLNSC_SINGLE_ATTRIBUTE, XMLNSC_SINGLE_NAMESPACE})

NAMES_MAX = 20_000
NAME_KEPT = 256
_names: dict[str, str] = {}
"""Names that were found to be XML's, each as its tag; bounded, because messages can make up names."""


def render(folder: Folder) -> bytes:
    """The folder's tree as XML in its code page.

    Raises:
        MessageUnwritable: Something in it has no place in XML: a name, a character, a second document element.
    """
    encoding = encoding_of(folder)
    if _tape is not None and encoding == "utf-8":
        written = _by_tape(folder)
        if written is not None:
            return written
    if not folder.restructured:
        written = _values_only(folder, encoding)
        if written is not None:
            return written
    writer = _XmlWriter(folder, encoding)
    return writer.document()


def encoding_of(folder: Folder) -> str:
    return "utf-8" if folder.ccsid == 1208 else codec(folder)


def _by_tape(folder: Folder) -> bytes | None:
    """The bytes as compiled code writes them, which are the same; None where something is unusual."""
    children = folder.children
    if folder.domain.name == "SOAP" or not 1 <= len(children) <= 2 or isinstance(children[-1], XmlElement):
        return None
    head = b""
    if len(children) == 2:
        if not isinstance(children[0], Declaration):
            return None
        head = declaration_text(children[0], "utf-8").encode()
    written: bytes | None = _tape.render(folder, folder.domain.name == "XMLNSC", head)
    return written


# --- only values changed --------------------------------------------------------------------------


def _values_only(folder: Folder, encoding: str) -> bytes | None:
    """The bytes by way of lxml's tree; None when that cannot express what changed."""
    children = folder._children
    if not children or len(children) > 2:
        return None
    document = children[-1]
    if not isinstance(document, XmlElement):
        return None
    declaration: Declaration | None = None
    if len(children) == 2:
        first = children[0]
        if not isinstance(first, Declaration):
            return None
        declaration = first
    return values_put_back(folder, document.source, declaration, encoding)


def values_put_back(
    folder: Folder, source: etree._Element, declaration: Declaration | None, encoding: str
) -> bytes | None:
    """The document `source` with the values that changed in the folder; None when it cannot hold them.

    Raises:
        MessageUnwritable: A value has something that XML has no place for.
    """
    for element in folder.touched or ():
        try:
            if not _put_back(element):
                return None
        except (ValueError, TypeError) as error:
            raise MessageUnwritable(folder.domain.name, element.path(), str(error)) from None
    head = "" if declaration is None else declaration_text(declaration, encoding)
    if encoding == "utf-8":
        written: bytes = etree.tostring(source, encoding="utf-8", with_tail=False)
        return head.encode() + written if head else written
    text: str = etree.tostring(source, encoding="unicode", with_tail=False)
    return _encoded(folder, head + text, encoding)


def _put_back(element: Element) -> bool:
    if isinstance(element, XmlElement):
        source = element.source
        if len(source) or element.kind not in _SIMPLE:
            return False
        source.text = xml_text(element.value) or None
        return True
    above = element.parent
    if isinstance(above, XmlElement) and element.kind == above.attribute_kind and element.key[:1] != "{":
        above.source.set(element.key, xml_text(element.value))
        return True
    return False


# --- the whole tree -------------------------------------------------------------------------------


class _PrefixScope:
    """Which prefixes mean what at one place of the document."""

    __slots__ = ("prefixes", "uris")

    def __init__(self, prefixes: dict[str, str]) -> None:
        self.prefixes = prefixes
        self.uris = {uri: prefix for prefix, uri in prefixes.items() if prefix}

    def extended(self, declared: dict[str, str]) -> _PrefixScope:
        return _PrefixScope({**self.prefixes, **declared})


_NOTHING = _PrefixScope({"xml": XML_URI})


class _XmlWriter:
    __slots__ = ("aware", "encoding", "folder", "generated", "large", "out", "roles")

    def __init__(self, folder: Folder, encoding: str) -> None:
        self.folder = folder
        self.encoding = encoding
        self.roles = ROLES[folder.domain.name]
        self.aware = folder.domain.name != "XML"
        self.generated = 0
        self.out: list[str] = []
        self.large = 0
        """Characters of large texts so far."""

    def document(self) -> bytes:
        documents = 0
        for element in self.folder.touched or ():
            element.changed(structure=True)
        for child in self.folder.children:
            role = self.role(child.kind)
            if role in (ELEMENT, CDATA_ELEMENT):
                documents += 1
                if documents > 1:
                    raise self.refusal(child, "a document has one document element, and this is the second")
                self.write(child, _NOTHING, 1)
            elif role == DECLARATION:
                if self.out:
                    raise self.refusal(child, "an XML declaration stands before everything else")
                self.out.append(declaration_text(child, self.encoding))
            elif role in (COMMENT, INSTRUCTION):
                self.content(child, role)
            elif role != TEXT or xml_text(child.value).strip(" \t\r\n"):
                raise self.refusal(child, "only the document element, comments and instructions stand here")
        if not documents:
            raise self.refusal(self.folder, "there is no document element")
        return _encoded(self.folder, "".join(self.out), self.encoding)

    def role(self, kind: int) -> int:
        role = self.roles.get(kind)
        if role is None:
            return TEXT if kind & 0xFF000000 == VALUE else ELEMENT
        return role

    def refusal(self, element: Element, problem: str) -> MessageUnwritable:
        return MessageUnwritable(self.folder.domain.name, element.path(), problem)

    # --- elements ---

    def write(self, element: Element, scope: _PrefixScope, depth: int) -> None:
        if not element._has_changed and isinstance(element, XmlElement) and self.dumped(element, scope):
            return
        children: Sequence[Element] | None = element._children
        if children is None:
            children = self.loaded(element, scope)
            if children is None:
                return
        value = element.value
        if value.__class__ is str and element.kind != XMLNSC_CDATA_FIELD and is_plain(value):
            text = value
        else:
            text = "" if value is None else self.text(element)
        if not children:
            tag = _names.get(element.key) if scope is _NOTHING else None
            start = ""
            if tag is None:
                tag, start, scope = self.started(element, (), (), scope)
            self.out.append(f"<{tag}{start}>{text}</{tag}>" if text else f"<{tag}{start}/>")
            return
        if depth >= DEPTH_MAX:
            raise self.refusal(element, f"the tree is deeper than {DEPTH_MAX} levels")
        if scope is _NOTHING and element.__class__ is Element and self.wrote_made(element, children, text, depth):
            return
        self.write_with_children(element, children, text, scope, depth)

    def wrote_made(self, element: Element, children: Sequence[Element], text: str, depth: int) -> bool:
        """Write what a program made and is simple: known names, attributes first. False leaves nothing written.

        The same as `write_with_children`, with nothing but dictionaries on the way.
        """
        names, roles, out = _names, self.roles, self.out
        tag = names.get(element.key)
        if tag is None:
            return False
        start, written = f"<{tag}", len(out)
        opened = False
        for child in children:
            role = roles.get(child.kind)
            name = names.get(child.key)
            if role == ELEMENT:
                if not opened:
                    opened = True
                    out.append(f"{start}>{text}")
                if name is not None and child.__class__ is Element and not child._children:
                    value = child.value
                    if value.__class__ is float or value.__class__ is int:
                        value = xml_text(value)
                    if value.__class__ is str and is_plain(value):
                        out.append(f"<{name}>{value}</{name}>" if value else f"<{name}/>")
                        continue
                self.write(child, _NOTHING, depth + 1)
            elif role == ATTRIBUTE and not opened and name is not None and child.kind not in _SINGLE:
                value = child.value
                if value.__class__ is not str or f" {name}=" in start or not is_plain(value):
                    return False
                start = f"{start} {name}={attribute_text(value)}"
            else:
                del out[written:]
                return False
        if not opened:
            out.append(f"{start}>{text}</{tag}>" if text else f"{start}/>")
        else:
            out.append(f"</{tag}>")
        return True

    def value_text(self, element: Element) -> str:
        """The text of a value. Elements may share a large one, so that a small tree can be a huge message."""
        text = xml_text(element.value)
        if len(text) > LARGE:
            self.large += len(text)
            if self.large > BODY_BYTES_MAX:
                raise NotXml(f"with it the message is longer than {BODY_BYTES_MAX} bytes")
        return text

    def text(self, element: Element) -> str:
        try:
            text = self.value_text(element)
            return cdata_text(text) if self.role(element.kind) == CDATA_ELEMENT else content_text(text)
        except (NotXml, TypeError) as error:
            raise self.refusal(element, str(error)) from None

    def dumped(self, element: XmlElement, scope: _PrefixScope) -> bool:
        """Let lxml write a folder that was read and is as it came, however much of it was looked at."""
        source = element.source
        if not element.plain or len(source) == 0 or (scope is not _NOTHING and scope.prefixes.get("")):
            return False
        self.out.append(etree.tostring(source, encoding="unicode", with_tail=False))
        return True

    def loaded(self, element: Element, scope: _PrefixScope) -> Sequence[Element] | None:
        """The children of an element that was not read; None if it could be written without them."""
        if isinstance(element, XmlElement) and element.plain and not element._found:
            source = element.source
            if len(source) == 0:
                return element.load() if source.keys() else ()
            if (
                element.value is None
                and element.key == source.tag
                and self.role(element.kind) == ELEMENT
                and (scope is _NOTHING or not scope.prefixes.get(""))
            ):
                self.out.append(etree.tostring(source, encoding="unicode", with_tail=False))
                return None
        return element.load()

    def write_with_children(
        self, element: Element, children: Sequence[Element], text: str, scope: _PrefixScope, depth: int
    ) -> None:
        roles = self.roles
        attributes: list[Element] = []
        declarations: list[Element] = []
        content: list[Element] = []
        mixed = False
        for child in children:
            role = roles.get(child.kind)
            if role is None:
                role = self.role(child.kind)
            if role == ATTRIBUTE:
                attributes.append(child)
            elif role == NAMESPACE:
                if self.aware:
                    declarations.append(child)
                else:
                    attributes.append(child)
            else:
                mixed = mixed or role > CDATA_ELEMENT
                content.append(child)
        tag, start, scope = self.started(element, declarations, attributes, scope)
        out = self.out
        if not content:
            out.append(f"<{tag}{start}>{text}</{tag}>" if text else f"<{tag}{start}/>")
            return
        out.append(f"<{tag}{start}>{text}")
        if mixed:
            for child in content:
                role = self.role(child.kind)
                if role <= CDATA_ELEMENT:
                    self.write(child, scope, depth + 1)
                else:
                    self.content(child, role)
        else:
            known = _names if scope is _NOTHING else {}
            for child in content:
                # Most children that a program makes are fields with a short text; this is `write` for them.
                if child.__class__ is Element and not child._children:
                    value = child.value
                    name = known.get(child.key)
                    if name and value.__class__ is str and child.kind != XMLNSC_CDATA_FIELD and is_plain(value):
                        out.append(f"<{name}>{value}</{name}>" if value else f"<{name}/>")
                        continue
                self.write(child, scope, depth + 1)
        out.append(f"</{tag}>")

    def content(self, element: Element, role: int) -> None:
        """Text, a CDATA section, a comment or a processing instruction."""
        try:
            text = self.value_text(element)
            if role == TEXT:
                self.out.append(content_text(text))
            elif role == CDATA:
                self.out.append(cdata_text(text))
            elif role == COMMENT:
                require_characters(text)
                if "--" in text or text.endswith("-"):
                    raise NotXml("a comment cannot have two hyphens or end with one")
                self.out.append(f"<!--{text}-->")
            elif role == INSTRUCTION:
                require_characters(text)
                if "?>" in text or element.key.lower() == "xml":
                    raise NotXml("no processing instruction looks like this")
                self.out.append(f"<?{self.checked(element, element.key)}{' ' + text if text else ''}?>")
            else:
                raise NotXml("this can only stand before the document element, and a DOCTYPE is never written")
        except (NotXml, TypeError) as error:
            raise self.refusal(element, str(error)) from None

    # --- start tags ---

    def started(
        self,
        element: Element,
        declarations: list[Element] | tuple[()],
        attributes: list[Element] | tuple[()],
        scope: _PrefixScope,
    ) -> tuple[str, str, _PrefixScope]:
        """Tag, the attributes behind it as text, and the scope inside."""
        start = ""
        if declarations:
            declared: dict[str, str] = {}
            for declaration in declarations:
                prefix, uri = self.declared(declaration)
                if prefix in declared:
                    raise self.refusal(declaration, "this prefix is declared twice")
                declared[prefix] = uri
                start += self.pair(declaration, f"xmlns:{prefix}" if prefix else "xmlns")
            scope = scope.extended(declared)
        tag, scope, made = self.qualified(element, scope, attribute=False)
        start += made
        pairs = ""
        written: set[str] = set()
        for attribute in attributes:
            name, scope, made = self.qualified(attribute, scope, attribute=True)
            if name in written:
                raise self.refusal(attribute, "an element has an attribute of this name only once")
            written.add(name)
            start += made
            pairs += self.pair(attribute, name)
        return tag, start + pairs, scope

    def declared(self, declaration: Element) -> tuple[str, str]:
        uri = xml_text(declaration.value)
        key = declaration.key
        if key == "xmlns":
            return "", uri
        prefix = self.checked(declaration, declaration.name)
        if prefix in ("xml", "xmlns") or not uri:
            raise self.refusal(declaration, "this prefix cannot be declared so")
        return prefix, uri

    def pair(self, element: Element, name: str) -> str:
        try:
            text = attribute_text(self.value_text(element), "'" if element.kind in _SINGLE else '"')
        except (NotXml, TypeError) as error:
            raise self.refusal(element, str(error)) from None
        return f" {name}={text}"

    def qualified(self, element: Element, scope: _PrefixScope, *, attribute: bool) -> tuple[str, _PrefixScope, str]:
        """The name with its prefix; with the declaration that had to be made for it, and the scope that has it."""
        key = element.key
        if key[:1] != "{":
            if not attribute and scope.prefixes.get(""):
                raise self.refusal(element, "it has no namespace, but stands where a default namespace is declared")
            return self.checked(element, key), scope, ""
        if "}" not in key:
            raise self.refusal(element, "this is no XML name")
        name, uri = self.checked(element, element.name), element.namespace
        if not self.aware:
            return name, scope, ""
        if not uri:
            raise self.refusal(element, "its namespace is empty")
        prefixes = scope.prefixes
        if isinstance(element, XmlElement):
            prefix = element.source.prefix or ""
            if prefixes.get(prefix) == uri:
                return f"{prefix}:{name}" if prefix else name, scope, ""
        if not attribute and prefixes.get("") == uri:
            return name, scope, ""
        known = scope.uris.get(uri)
        if known is not None:
            return f"{known}:{name}", scope, ""
        if uri == XMLNS_URI:
            raise self.refusal(element, "this namespace is for declarations; make it one")
        while True:
            self.generated += 1
            prefix = f"NS{self.generated}"
            if prefix not in prefixes:
                break
        made = self.pair(Element("", uri), f"xmlns:{prefix}")
        return f"{prefix}:{name}", scope.extended({prefix: uri}), made

    def checked(self, element: Element, name: str) -> str:
        """The name, if XML can have it."""
        known = _names.get(name)
        if known is not None:
            return known
        pattern = UNPREFIXED_NAME if self.aware else PREFIXED_NAME
        if not pattern.fullmatch(name):
            raise self.refusal(element, "this is no XML name")
        if self.encoding != "utf-8":
            try:
                name.encode(self.encoding)
            except UnicodeEncodeError:
                raise self.refusal(element, f"its name has characters that {self.encoding} lacks") from None
        elif (self.aware or ":" not in name) and len(_names) < NAMES_MAX and len(name) < NAME_KEPT:
            _names[name] = name
        return name


def _encoded(folder: Folder, text: str, encoding: str) -> bytes:
    try:
        # Characters that the code page lacks are written as references; names were looked at before.
        return text.encode(encoding, "strict" if encoding == "utf-8" else "xmlcharrefreplace")
    except UnicodeEncodeError as error:
        raise MessageUnwritable(folder.domain.name, folder.path(), f"{encoding}: {error.reason}") from None
