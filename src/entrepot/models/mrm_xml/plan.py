# SPDX-License-Identifier: Apache-2.0
"""MRM XML, compiled: for each structure of a model what reads its tags and what writes its elements.

Where a structure has neither choices nor groups, each child costs one look
into a dictionary, and order and occurrences are checked in detail only when
they are not plainly right. Shared types are compiled once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from lxml import etree

from entrepot.errors import MessageUnwritable, ModelInvalid
from entrepot.models.element_types import NAME, NAME_VALUE, XML_URI
from entrepot.models.logical import (
    Composition,
    MessageSet,
    Simple,
    Structure,
    StructureMember,
    ValueType,
    XmlField,
    XmlFormat,
)
from entrepot.models.mrm_xml.content import Mismatch, assign, particle_of
from entrepot.models.mrm_xml.values import reader, writer
from entrepot.models.tree import Element

_XSI = "http://www.w3.org/2001/XMLSchema-instance"
_NIL = f"{{{_XSI}}}nil"
_NIL_VALUES = ("true", "1")

ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML does not allow at all."""

Node: TypeAlias = etree._Element
ReadChild = Callable[[Node], Element]
WriteChild = Callable[[Element], str]


class ElementMismatch(Exception):
    """Something in a message does not fit: the element of lxml's tree, and why."""

    def __init__(self, node: Node, problem: str, missing: str = "") -> None:
        super().__init__(problem)
        self.node = node
        self.problem = problem
        self.missing = missing


# --- names --------------------------------------------------------------------------------------------


class Tags:
    """How members are called in XML, with prefixes for the namespaces of the message."""

    def __init__(self, message_set: MessageSet, format_name: str, physical: XmlFormat) -> None:
        self.set = message_set
        self.format_name = format_name
        self.encode_null = physical.encode_null
        self.prefixes = {namespace: prefix for prefix, namespace in physical.namespaces.items()}
        self.plans: dict[int, XmlPlan] = {}
        self.structures: list[Structure] = []

    def field(self, member: StructureMember) -> XmlField:
        found = member.physical.get(self.format_name)
        return found if isinstance(found, XmlField) else XmlField()

    def tag(self, member: StructureMember) -> str:
        """The tag as lxml has it: {namespace}name."""
        name = self.field(member).name
        if not name:
            return member.name
        return name if name[:1] == "{" else member.name[: member.name.find("}") + 1] + name

    def written(self, tag: str, *, attribute: bool = False) -> str:
        """The tag with its prefix."""
        if tag[:1] != "{":
            if not attribute and "" in self.prefixes.values():
                self.refuse(0, f"{tag} is in no namespace, but the format gives one to names without a prefix")
            return tag
        namespace, _, name = tag[1:].partition("}")
        if not namespace:
            return name
        if namespace not in self.prefixes or (attribute and not self.prefixes[namespace]):
            self.prefixes[namespace] = self._new_prefix(namespace)
        prefix = self.prefixes[namespace]
        return f"{prefix}:{name}" if prefix else name

    def _new_prefix(self, namespace: str) -> str:
        if namespace == XML_URI:
            return "xml"
        used = set(self.prefixes.values()) | {"xsi", "xml"}
        candidates = [f"ns{number}" for number in range(1, len(used) + 2)]
        if namespace == self.set.namespace:
            candidates.insert(0, "tns")
        return next(prefix for prefix in candidates if prefix not in used)

    def declarations(self, *, nil: bool) -> str:
        declared = [
            f' xmlns{":" if prefix else ""}{prefix}="{_attribute_text(namespace)}"'
            for namespace, prefix in self.prefixes.items()
            if namespace not in (_XSI, XML_URI)
        ]
        if nil or _XSI in self.prefixes:
            declared.append(f' xmlns:xsi="{_XSI}"')
        return "".join(declared)

    def refuse(self, line: int, problem: str) -> None:
        raise ModelInvalid(self.set.file, line, 1, f"format {self.format_name}: {problem}")


# --- a structure, compiled ------------------------------------------------------------------------------


def plan_of(structure: Structure, tags: Tags) -> XmlPlan:
    """The plan of a structure, made once for each, so that shared types cost nothing."""
    known = tags.plans.get(id(structure))
    if known is None:
        known = XmlPlan(structure, tags)
        tags.plans[id(structure)] = known
        # Kept, so that its identity is not given to another one meanwhile.
        tags.structures.append(structure)
    return known


class XmlPlan:
    def __init__(self, structure: Structure, tags: Tags) -> None:
        attributes = [member for member in _named(structure) if tags.field(member).attribute]
        skipped = {id(member) for member in attributes}
        tag_names = {id(member): tags.tag(member) for member in _named(structure)}
        self.tag_particle, self.members = particle_of(structure, tag_names, skipped)
        self.key_particle, _ = particle_of(structure, {id(each): each.name for each in _named(structure)}, skipped)
        self.attributes = [_Attribute(member, tags) for member in attributes]
        self.by_attribute = {each.tag: each for each in self.attributes}
        self.attribute_keys = {each.key for each in self.attributes}
        parts = [_part(member, tags) for member in self.members]
        self.reads = [read_child for read_child, _ in parts]
        self.writes = [write_child for _, write_child in parts]
        self.defaults = [_default_text(member, write) for member, write in zip(self.members, self.writes, strict=True)]
        keys = [member.name for member in self.members]
        self.plain = len(set(keys)) == len(keys) and all(part.index >= 0 for part in self.tag_particle.parts)
        self.plain = self.plain and structure.composition is not Composition.CHOICE
        self.plain = self.plain and len({tag_names[id(member)] for member in self.members}) == len(keys)
        self.ordered = structure.composition is Composition.SEQUENCE
        self.exact = all((member.min_occurs, member.max_occurs) == (1, 1) for member in self.members)
        self.count = len(self.members)
        self.read_by_tag = {
            tag_names[id(member)]: (index, self.reads[index]) for index, member in enumerate(self.members)
        }
        self.write_by_key = {member.name: (index, self.writes[index]) for index, member in enumerate(self.members)}
        self.position = {member.name: index for index, member in reversed(list(enumerate(self.members)))}

    # --- reading -------------------------------------------------------------------------------------

    def read(self, node: Node) -> list[Element]:
        found = self._read_attributes(node) if self.attributes or node.keys() else []
        text = node.text
        if text is not None and text.strip(" \t\r\n"):
            raise ElementMismatch(node, f"text is not expected here: {text.strip()[:40]!r}")
        if not self.plain:
            return found + self._read_matched(node)
        before, last, regular = len(found), -1, True
        by_tag, append = self.read_by_tag, found.append
        for child in node:
            entry = by_tag.get(child.tag)
            if entry is None:
                raise ElementMismatch(child, "it is not expected here" + self._expected())
            index, read_child = entry
            if index <= last:
                regular = False
            last = index
            append(read_child(child))
            if child.tail is not None:
                _check_tail(child)
        if not (regular and self.exact and len(found) - before == self.count):
            self._check(node)
        return found

    def _check(self, node: Node) -> None:
        """Order and occurrences of a structure without groups, when they are not plainly right."""
        last, counts = 0, [0] * self.count
        for child in node:
            index = self.read_by_tag[child.tag][0]
            if self.ordered and index < last:
                before = self.members[last].name
                raise ElementMismatch(child, f"it comes after {before}, but must come before it")
            last = index
            counts[index] += 1
            most = self.members[index].max_occurs
            if most is not None and counts[index] > most:
                raise ElementMismatch(child, f"it is there more than {most} times" if most > 1 else "it is there twice")
        for member, count in zip(self.members, counts, strict=True):
            if count < member.min_occurs:
                problem = f"{member.name} is missing" if not count else f"{member.name} is there only {count} times"
                raise ElementMismatch(node, problem, member.name)

    def _read_matched(self, node: Node) -> list[Element]:
        children = list(node)
        try:
            indexes = assign(self.tag_particle, [child.tag for child in children])
        except Mismatch as mismatch:
            where = children[mismatch.position] if mismatch.position < len(children) else node
            raise ElementMismatch(where, mismatch.problem) from None
        for child in children:
            if child.tail is not None:
                _check_tail(child)
        return [self.reads[index](child) for index, child in zip(indexes, children, strict=True)]

    def _read_attributes(self, node: Node) -> list[Element]:
        values = dict(node.items())
        for tag in values:
            if tag not in self.by_attribute and not tag.startswith((f"{{{_XSI}}}", f"{{{XML_URI}}}")):
                raise ElementMismatch(node, f"the attribute {tag} is not expected here")
        found = []
        for attribute in self.attributes:
            text = values.get(attribute.tag, attribute.default)
            if text is not None:
                try:
                    value = attribute.read(text) if text or attribute.is_text else None
                except ValueError as error:
                    raise ElementMismatch(node, f"attribute {attribute.key}: {_shown(text)}: {error}") from None
                found.append(Element(attribute.key, value, NAME_VALUE))
            elif attribute.required:
                raise ElementMismatch(node, f"the attribute {attribute.key} is missing", attribute.key)
        return found

    def _expected(self) -> str:
        names = [member.name for member in self.members[:6]]
        return f"; here can be {', '.join(names)}{' ...' if self.count > 6 else ''}" if names else ""

    # --- writing -------------------------------------------------------------------------------------

    def write(self, element: Element) -> tuple[str, str]:
        """The attributes and the content of an element."""
        children = element.children
        attributes = ""
        if self.attributes:
            attributes = "".join([attribute.written(element) for attribute in self.attributes])
            children = [child for child in children if child.key not in self.attribute_keys]
        if not self.plain:
            return attributes, self._write_matched(element, children)
        by_key, last, regular = self.write_by_key, -1, True
        pieces: list[str] = []
        append = pieces.append
        for child in children:
            entry = by_key.get(child.key)
            if entry is None:
                raise MessageUnwritable("MRM", child.path(), "the model has no such element here" + self._expected())
            index, write_child = entry
            if index <= last:
                regular = False
            last = index
            append(write_child(child))
        if not (regular and self.exact and len(pieces) == self.count):
            pieces = self._arranged(element, children, pieces)
        return attributes, "".join(pieces)

    def _arranged(self, element: Element, children: list[Element], pieces: list[str]) -> list[str]:
        """The pieces in the model's order, with defaults for what is missing."""
        by_member: list[list[str]] = [[] for _ in self.members]
        for child, piece in zip(children, pieces, strict=True):
            index = self.position[child.key]
            most = self.members[index].max_occurs
            by_member[index].append(piece)
            if most is not None and len(by_member[index]) > most:
                raise MessageUnwritable("MRM", child.path(), f"the model allows it {most} times")
        for index, member in enumerate(self.members):
            missing = member.min_occurs - len(by_member[index])
            if missing > 0:
                by_member[index] += [self._default(element, index)] * missing
        return [piece for some in by_member for piece in some]

    def _default(self, element: Element, index: int) -> str:
        default = self.defaults[index]
        if default is None:
            problem = "it is missing, and the model has no default"
            raise MessageUnwritable("MRM", f"{element.path()}.{self.members[index].name}", problem)
        return default

    def _write_matched(self, element: Element, children: list[Element]) -> str:
        try:
            indexes = assign(self.key_particle, [child.key for child in children])
        except Mismatch as mismatch:
            # A program may have set the fields in another order; where that is the only trouble, the model's is taken.
            position = self.position
            arranged = sorted(children, key=lambda child: position.get(child.key, len(position)))
            try:
                indexes = assign(self.key_particle, [child.key for child in arranged])
            except Mismatch:
                raise _unfit(element, children, mismatch) from None
            children = arranged
        return "".join([self.writes[index](child) for index, child in zip(indexes, children, strict=True)])


def _unfit(element: Element, children: list[Element], mismatch: Mismatch) -> MessageUnwritable:
    where = children[mismatch.position] if mismatch.position < len(children) else element
    return MessageUnwritable("MRM", where.path(), mismatch.problem)


def _named(structure: Structure) -> list[StructureMember]:
    """The members with a name, those of groups among them."""
    found: list[StructureMember] = []
    for member in structure.members:
        if member.name:
            found.append(member)
        elif isinstance(member.content, Structure):
            found += _named(member.content)
    return found


# --- one element ------------------------------------------------------------------------------------------


def _part(member: StructureMember, tags: Tags) -> tuple[ReadChild, WriteChild]:
    if isinstance(member.content, Structure):
        return _branch(member, member.content, tags)
    return _leaf(member, member.content, tags)


def _branch(member: StructureMember, structure: Structure, tags: Tags) -> tuple[ReadChild, WriteChild]:
    plan, key, tag = plan_of(structure, tags), member.name, tags.written(tags.tag(member))
    opening, closing = f"<{tag}", f"</{tag}>"

    def read_branch(node: Node) -> Element:
        element = Element(key, None, NAME)
        if node.get(_NIL) in _NIL_VALUES:
            if len(node):
                raise ElementMismatch(node, "it is nil, but has elements")
            return element
        element.fill(plan.read(node))
        return element

    def write_branch(element: Element) -> str:
        attributes, inner = plan.write(element)
        return f"{opening}{attributes}>{inner}{closing}"

    return read_branch, write_branch


def _leaf(member: StructureMember, simple: Simple, tags: Tags) -> tuple[ReadChild, WriteChild]:
    key, tag = member.name, tags.written(tags.tag(member))
    read_value, write_value = _converters(member, simple, tags)
    # An empty element is a value for text and bytes, and nothing for a number or a date.
    empty: Any = {ValueType.STRING: "", ValueType.BINARY: b""}.get(simple.type)
    if empty is None and member.default is not None:
        empty = read_value(member.default)
    opening, closing = f"<{tag}>", f"</{tag}>"
    nothing = {"empty": f"<{tag}/>", "absent": "", "nil": f'<{tag} xsi:nil="true"/>'}[tags.encode_null]

    def read_leaf(node: Node) -> Element:
        text = node.text
        if len(node):
            raise ElementMismatch(node[0], f"{key} is a value and has no elements")
        if node.keys() and _is_nil(node):
            return Element(key, None, NAME_VALUE)
        if text is None:
            return Element(key, empty, NAME_VALUE)
        try:
            return Element(key, read_value(text), NAME_VALUE)
        except ValueError as error:
            raise ElementMismatch(node, f"{_shown(text)}: {error}") from None

    def write_leaf(element: Element) -> str:
        value = element.value
        if value is None:
            if element.children:
                raise MessageUnwritable("MRM", element.path(), "the model has a value here, not a structure")
            return nothing
        try:
            text = write_value(value)
        except (ValueError, TypeError) as error:
            raise MessageUnwritable("MRM", element.path(), str(error)) from None
        if "&" in text or "<" in text or ">" in text or "\r" in text:
            text = _escaped(text)
        return f"{opening}{text}{closing}"

    return read_leaf, write_leaf


def _is_nil(node: Node) -> bool:
    for tag, value in node.items():
        name = str(tag)
        if name == _NIL:
            if value in _NIL_VALUES:
                if node.text:
                    raise ElementMismatch(node, "it is nil, but has a value")
                return True
        elif not name.startswith((f"{{{_XSI}}}", f"{{{XML_URI}}}")):
            raise ElementMismatch(node, f"the attribute {name} is not expected here")
    return False


class _Attribute:
    def __init__(self, member: StructureMember, tags: Tags) -> None:
        if not isinstance(member.content, Simple) or member.max_occurs != 1:
            tags.refuse(member.line, f"{member.name} cannot be an attribute: it is a structure or repeats")
        assert isinstance(member.content, Simple)
        self.key = member.name
        self.tag = tags.tag(member)
        self.default = member.default
        self.required = member.min_occurs > 0
        self.is_text = member.content.type in (ValueType.STRING, ValueType.BINARY)
        self.read, self._write = _converters(member, member.content, tags)
        self._name = tags.written(self.tag, attribute=True)
        self._null = f' {self._name}=""' if tags.encode_null == "empty" else ""

    def written(self, element: Element) -> str:
        """The attribute as it stands in the tag of `element`."""
        child = element.first(self.key)
        if child is None:
            if not self.required:
                return ""
            if self.default is None:
                problem = "the attribute is missing, and the model has no default"
                raise MessageUnwritable("MRM", f"{element.path()}.{self.key}", problem)
            return f' {self._name}="{_attribute_text(self.default)}"'
        if child.value is None:
            return self._null
        try:
            return f' {self._name}="{_attribute_text(self._write(child.value))}"'
        except (ValueError, TypeError) as error:
            raise MessageUnwritable("MRM", child.path(), str(error)) from None


def _converters(
    member: StructureMember, simple: Simple, tags: Tags
) -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    pattern = tags.field(member).format or simple.format
    try:
        read_value = reader(simple.type, pattern)
        if member.default:
            read_value(member.default)
        return read_value, writer(simple.type, pattern)
    except ValueError as error:
        raise ModelInvalid(tags.set.file, member.line, 1, f"{member.name}: {error}") from None


def _default_text(member: StructureMember, write: WriteChild) -> str | None:
    if member.default is None or not isinstance(member.content, Simple):
        return None
    return write(Element(member.name, member.default))


# --- text ---------------------------------------------------------------------------------------------------


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#xD;")


def _attribute_text(text: str) -> str:
    return _escaped(text).replace('"', "&quot;").replace("\n", "&#xA;").replace("\t", "&#x9;")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


def _check_tail(child: Node) -> None:
    tail = child.tail
    if tail is not None and tail.strip(" \t\r\n"):
        raise ElementMismatch(child, f"text is not expected behind it: {_shown(tail.strip())}")


def unsayable(element: Element) -> MessageUnwritable:
    """The error for the first value with a character that XML has not."""
    waiting = [element]
    while waiting:
        here = waiting.pop()
        match = ILLEGAL.search(here.value) if isinstance(here.value, str) else None
        if match is not None:
            return MessageUnwritable("MRM", here.path(), f"XML has no character {ord(match[0]):#06x}")
        waiting += reversed(here.children)
    return MessageUnwritable("MRM", element.path(), "it has a character that XML has not")
