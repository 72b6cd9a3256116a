# SPDX-License-Identifier: Apache-2.0
"""MRM message definitions (.mxsd), and plain XML Schemas (.xsd), as message sets.

A definition is an XML Schema whose appinfo, source WMQI_APPINFO, says how the
physical formats write each element. Elements marked as MRMessage are the
messages; where none is marked, as in a plain schema, every global element
with a structure is one. What is not supported is refused with its name and line:
wildcards, substitution groups, mixed and simple content with attributes,
lists, unions, base64Binary and types that contain themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from lxml import etree

from entrepot.errors import ModelInvalid
from entrepot.models.logical import (
    Composition,
    Format,
    Kind,
    MessageModel,
    MessageSet,
    Simple,
    Structure,
    StructureMember,
    TdsStructure,
    ValueType,
    XmlFormat,
)
from entrepot.models.model_extent import MEMBERS_MAX, NESTING_MAX, PROBLEM_CHARACTERS_MAX, extent
from entrepot.models.mxsd.files import BYTES_MAX, SCHEMA, Library, Schema, find_message_set
from entrepot.models.mxsd.physical import field_given, reps_of, structure_given
from entrepot.models.mxsd.types import BUILTIN, SimpleType, with_facets
from entrepot.models.notation.physical import FORMATS, Given, derive

_COMPOSITIONS = {"sequence": Composition.SEQUENCE, "choice": Composition.CHOICE, "all": Composition.UNORDERED}
_MRM_COMPOSITIONS = {"choice": Composition.CHOICE, "unorderedset": Composition.UNORDERED, "all": Composition.UNORDERED}
_MODEL_GROUPS = ("sequence", "choice", "all", "group")


def load_mxsd(path: str | Path) -> MessageSet:
    """The message set of a definition; formats come from messageSet.mset when that lies beside it or above.

    Raises:
        ModelInvalid: The definition is wrong or has something that is not supported; says line and construct.
    """
    path = Path(path)
    with path.open("rb") as file:
        content = file.read(BYTES_MAX + 1)
    return read_mxsd(content, str(path))


def read_mxsd(content: bytes, file: str = "model.mxsd") -> MessageSet:
    """The message set of a definition's bytes; what it includes is looked for beside `file`.

    Raises:
        ModelInvalid: The definition is wrong or has something that is not supported; says line and construct.
    """
    if len(content) > BYTES_MAX:
        raise ModelInvalid(file, 1, 1, f"the file is larger than {BYTES_MAX} bytes")
    library = Library(content, file)
    found = find_message_set(file)
    name, formats = found or (Path(file).stem, {})
    formats = dict(formats) or _formats_seen(library)
    return _MxsdReader(library, formats).read(name)


def _formats_seen(library: Library) -> dict[str, Format]:
    """The formats that the representations name, where no definition says more about them."""
    formats: dict[str, Format] = {}
    for table in library.tables.values():
        for node, file, _ in table.values():
            for annotated in node.iter(etree.Element):
                for rep in reps_of(annotated, file):
                    if rep.kind is not None and rep.format_name not in formats:
                        formats[rep.format_name] = FORMATS[rep.kind]()
    return dict(sorted(formats.items())) or {"XML1": XmlFormat()}


class _MxsdReader:
    def __init__(self, library: Library, formats: dict[str, Format]) -> None:
        self.library = library
        self.formats = formats
        self.structures: dict[str, Structure] = {}
        self.simple_types: dict[str, SimpleType] = {}
        self.open: list[str] = []
        self.depth = 0

    def read(self, name: str) -> MessageSet:
        first = self.library.first
        elements = [(node, schema) for node, _, schema in self.library.tables["element"].values()]
        marked = [pair for pair in elements if pair[0].find("{*}annotation/{*}appinfo/{*}MRMessage") is not None]
        messages: dict[str, MessageModel] = {}
        sizes: dict[int, tuple[Structure, int]] = {}
        for node, schema in marked or elements:
            member = self._element(node, schema, top=True) if marked or self._is_complex(node, schema) else None
            if member is None:
                continue
            if not isinstance(member.content, Structure):
                self._wrong(node, schema, f"the message {node.get('name')} is a value, not a structure")
            if extent(member.content, sizes) > MEMBERS_MAX:
                self._wrong(node, schema, f"written out, the message has more than {MEMBERS_MAX} elements")
            message = str(node.get("name"))
            messages[message] = MessageModel(message, member.content)
        if not messages:
            raise ModelInvalid(first.file, 1, 1, "there is no message: no global element with a structure")
        return MessageSet(name, messages, self.formats, first.file, first.namespace)

    def _wrong(self, node: etree._Element, schema: Schema, problem: str) -> NoReturn:
        raise ModelInvalid(schema.file, node.sourceline or 1, 1, problem[:PROBLEM_CHARACTERS_MAX])

    def _unsupported(self, node: etree._Element, schema: Schema, more: str = "") -> NoReturn:
        self._wrong(node, schema, f"xsd:{etree.QName(node).localname}{more} is not supported")

    # --- names -------------------------------------------------------------------------------------

    def _find(self, kind: str, node: etree._Element, schema: Schema, text: str) -> tuple[etree._Element, Schema, str]:
        key = self._key(node, schema, text)
        found = self.library.tables[kind].get(key)
        if found is None:
            missing = f"; {', '.join(self.library.missing[:5])} could not be found" if self.library.missing else ""
            self._wrong(node, schema, f"there is no {kind} {text!r}{missing}")
        return found[0], found[2], key

    def _key(self, node: etree._Element, schema: Schema, text: str) -> str:
        prefix, colon, local = text.strip().rpartition(":")
        namespace = node.nsmap.get(prefix or None)
        if namespace is None:
            if colon:
                self._wrong(node, schema, f"the prefix of {text!r} means nothing")
            # What is included without a namespace of its own means the names of the including file.
            namespace = "" if schema.root.get("targetNamespace") else schema.namespace
        return f"{{{namespace}}}{local}"

    def _is_complex(self, node: etree._Element, schema: Schema) -> bool:
        text = node.get("type")
        if text is None:
            return node.find(f"{SCHEMA}complexType") is not None
        key = self._key(node, schema, str(text))
        found = self.library.tables["type"].get(key)
        return found is not None and found[0].tag == f"{SCHEMA}complexType"

    # --- elements and attributes ----------------------------------------------------------------------

    def _element(self, node: etree._Element, schema: Schema, *, top: bool = False) -> StructureMember:
        declared, home = node, schema
        if node.get("ref") is not None:
            declared, home, _ = self._find("element", node, schema, str(node.get("ref")))
            top = True
        if declared.get("abstract") == "true" or declared.get("substitutionGroup") is not None:
            self._wrong(declared, home, "substitution groups are not supported")
        name = str(declared.get("name") or "")
        if not name:
            self._wrong(declared, home, "an element has neither a name nor a reference")
        form = declared.get("form")
        qualified = top or form == "qualified" or (home.qualified_elements and form is None)
        given = self._given(declared, home)
        if declared is not node:
            for fmt, more in self._given(node, schema).items():
                given[fmt] = given.get(fmt, {}) | more
        content = self._content(declared, home, name)
        least, most = self._occurs(node, schema)
        full = f"{{{home.namespace}}}{name}" if qualified and home.namespace else name
        return self._member(full, content, (least, most), _value_of(node, declared), given, node)

    def _attribute(self, node: etree._Element, schema: Schema) -> StructureMember | None:
        if node.get("use") == "prohibited":
            return None
        declared, home, top = node, schema, False
        if node.get("ref") is not None:
            declared, home, _ = self._find("attribute", node, schema, str(node.get("ref")))
            top = True
        name = str(declared.get("name") or "")
        form = declared.get("form")
        qualified = top or form == "qualified" or (home.qualified_attributes and form is None)
        text, inner = declared.get("type"), declared.find(f"{SCHEMA}simpleType")
        if text is not None:
            content = self._simple(declared, home, str(text))
        elif inner is not None:
            content = self._simple_type(inner, home)
        else:
            content = BUILTIN["string"]
        full = f"{{{home.namespace}}}{name}" if qualified and home.namespace else name
        given = self._given(declared, home)
        for fmt, each in self.formats.items():
            if each.kind is Kind.XML:
                given[fmt] = given.get(fmt, {}) | {"attribute": True}
        least = 1 if node.get("use") == "required" else 0
        return self._member(full, content, (least, 1), _value_of(node, declared), given, node)

    def _member(
        self,
        name: str,
        content: SimpleType | Structure,
        occurs: tuple[int, int | None],
        value: tuple[str | None, str | None],
        given: dict[str, Given],
        node: etree._Element,
    ) -> StructureMember:
        default, fixed = value
        simple = content.simple if isinstance(content, SimpleType) else None
        if simple is not None and fixed is not None:
            simple, default = replace(simple, values=(fixed,)), fixed
        size, scale = (content.size, content.scale) if isinstance(content, SimpleType) else (None, 0)
        physical = {}
        for fmt, declared in self.formats.items():
            properties = dict(given.get(fmt, {}))
            if isinstance(content, SimpleType):
                _default_length(content, declared, properties)
            value_type, logical = (simple.type, simple.format) if simple else (None, "")
            physical[fmt] = derive(declared, value_type, size, scale, logical, properties)
        meaning = simple if simple is not None else content
        assert isinstance(meaning, Simple | Structure)
        return StructureMember(name, meaning, *occurs, default if simple else None, physical, node.sourceline or 0)

    def _given(self, node: etree._Element, schema: Schema) -> dict[str, Given]:
        found: dict[str, Given] = {}
        for rep in reps_of(node, schema.file):
            if rep.format_name in self.formats and not rep.tag.endswith("structrep") and "message" not in rep.tag:
                found[rep.format_name] = found.get(rep.format_name, {}) | field_given(rep)
        return found

    def _occurs(self, node: etree._Element, schema: Schema) -> tuple[int, int | None]:
        least, most = str(node.get("minOccurs", "1")), str(node.get("maxOccurs", "1"))
        if not (
            least.isdecimal() and len(least) < 10 and (most == "unbounded" or (most.isdecimal() and len(most) < 10))
        ):
            self._wrong(node, schema, f"minOccurs {least!r} and maxOccurs {most!r} are no numbers")
        top = None if most == "unbounded" else int(most)
        if top is not None and top < int(least):
            self._wrong(node, schema, f"maxOccurs {most} is less than minOccurs {least}")
        return int(least), top

    # --- types ------------------------------------------------------------------------------------------

    def _content(self, node: etree._Element, schema: Schema, name: str) -> SimpleType | Structure:
        text = node.get("type")
        if text is not None:
            key = self._key(node, schema, str(text))
            if key.startswith(SCHEMA):
                return self._builtin(node, schema, key)
            found, home, key = self._find("type", node, schema, str(text))
            if found.tag == f"{SCHEMA}simpleType":
                return self._simple(node, schema, str(text))
            return self._named_structure(key, found, home)
        for inner in node.iterchildren(f"{SCHEMA}complexType", f"{SCHEMA}simpleType"):
            if inner.tag == f"{SCHEMA}simpleType":
                return self._simple_type(inner, schema)
            return self._structure(inner, schema, name)
        return self._wrong(node, schema, f"the element {name} has no type; xsd:anyType is not supported")

    def _builtin(self, node: etree._Element, schema: Schema, key: str) -> SimpleType:
        name = key.removeprefix(SCHEMA)
        if name not in BUILTIN:
            self._wrong(node, schema, f"the type xsd:{name} is not supported")
        return BUILTIN[name]

    def _simple(self, node: etree._Element, schema: Schema, text: str) -> SimpleType:
        key = self._key(node, schema, text)
        if key.startswith(SCHEMA):
            return self._builtin(node, schema, key)
        known = self.simple_types.get(key)
        if known is None:
            found, home, key = self._find("type", node, schema, text)
            if found.tag != f"{SCHEMA}simpleType":
                self._wrong(node, schema, f"{text} is a structure, where only a value can be")
            with self._inside(key, node, schema):
                known = self.simple_types[key] = self._simple_type(found, home)
        return known

    def _simple_type(self, node: etree._Element, schema: Schema) -> SimpleType:
        restriction = node.find(f"{SCHEMA}restriction")
        if restriction is None:
            other = next((each for each in node.iterchildren(f"{SCHEMA}list", f"{SCHEMA}union")), node)
            self._unsupported(other, schema)
        text, inner = restriction.get("base"), restriction.find(f"{SCHEMA}simpleType")
        if text is not None:
            base = self._simple(restriction, schema, str(text))
        elif inner is not None:
            base = self._simple_type(inner, schema)
        else:
            self._wrong(restriction, schema, "the restriction has no base")
        facets = [
            (str(etree.QName(each).localname), str(each.get("value", "")))
            for each in restriction.iterchildren(etree.Element)
            if each is not inner
        ]
        try:
            return with_facets(base, facets)
        except ValueError as error:
            return self._wrong(restriction, schema, str(error))

    def _named_structure(self, key: str, node: etree._Element, schema: Schema) -> Structure:
        known = self.structures.get(key)
        if known is None:
            with self._inside(key, node, schema):
                known = self.structures[key] = self._structure(node, schema, str(node.get("name")))
        return known

    def _inside(self, key: str, node: etree._Element, schema: Schema) -> _Inside:
        if key in self.open:
            names = [each.rpartition("}")[2] for each in [*self.open[self.open.index(key) :], key]]
            self._wrong(node, schema, f"the type {names[0]} contains itself: {' > '.join(names)}")
        return _Inside(self.open, key)

    def _structure(self, node: etree._Element, schema: Schema, name: str) -> Structure:
        self.depth += 1
        if self.depth > NESTING_MAX:
            self._wrong(node, schema, f"structures nest deeper than {NESTING_MAX} levels")
        if node.get("mixed") == "true":
            self._unsupported(node, schema, " with mixed content")
        groups, attributes = self._parts(node, schema)
        composition = Composition.SEQUENCE
        if len(groups) == 1 and not attributes and (groups[0].min_occurs, groups[0].max_occurs) == (1, 1):
            inner = groups[0].content
            assert isinstance(inner, Structure)
            composition, members = inner.composition, inner.members
        else:
            members = (*attributes, *_flattened(groups))
        annotation = node.find("{*}annotation/{*}appinfo/{*}MRComplexType")
        if annotation is not None and not attributes:
            composition = _MRM_COMPOSITIONS.get(str(annotation.get("composition", "")).lower(), composition)
        physical = self._structure_physical(node, schema)
        self.depth -= 1
        return Structure(name, members, composition, physical)

    def _structure_physical(self, node: etree._Element, schema: Schema) -> dict[str, TdsStructure]:
        physical = {fmt: TdsStructure() for fmt, each in self.formats.items() if each.kind is Kind.TDS}
        for rep in reps_of(node, schema.file):
            if rep.tag == "tdsstructrep" and rep.format_name in physical:
                physical[rep.format_name] = replace(physical[rep.format_name], **structure_given(rep))
        return physical

    def _parts(self, node: etree._Element, schema: Schema) -> tuple[list[StructureMember], list[StructureMember]]:
        """The model groups of a complex type, as members without a name, and its attributes."""
        groups: list[StructureMember] = []
        attributes: list[StructureMember] = []
        for child in node.iterchildren(etree.Element):
            kind = str(etree.QName(child).localname)
            if kind in _MODEL_GROUPS:
                groups.append(self._group(child, schema, node))
            elif kind in ("attribute", "attributeGroup"):
                attributes += self._attributes(child, schema)
            elif kind == "complexContent":
                more = self._derived(child, schema)
                groups += more[0]
                attributes += more[1]
            elif kind != "annotation":
                self._unsupported(child, schema)
        return groups, attributes

    def _attributes(self, node: etree._Element, schema: Schema) -> Iterator[StructureMember]:
        if node.tag == f"{SCHEMA}attribute":
            attribute = self._attribute(node, schema)
            if attribute is not None:
                yield attribute
            return
        if node.tag != f"{SCHEMA}attributeGroup":
            if node.tag != f"{SCHEMA}annotation":
                self._unsupported(node, schema)
            return
        if node.get("ref") is None:
            self._wrong(node, schema, "an attribute group needs a reference here")
        found, home, key = self._find("attributeGroup", node, schema, str(node.get("ref")))
        with self._inside(f"attributeGroup {key}", node, schema):
            for child in found.iterchildren(etree.Element):
                yield from self._attributes(child, home)

    def _derived(self, node: etree._Element, schema: Schema) -> tuple[list[StructureMember], list[StructureMember]]:
        for child in node.iterchildren(f"{SCHEMA}extension", f"{SCHEMA}restriction"):
            groups, attributes = self._parts(child, schema)
            text = str(child.get("base") or "")
            if child.tag == f"{SCHEMA}extension" and self._key(child, schema, text) != f"{SCHEMA}anyType":
                found, home, key = self._find("type", child, schema, text)
                if found.tag != f"{SCHEMA}complexType":
                    self._wrong(child, schema, f"complexContent extends {text}, which is a value")
                with self._inside(key, child, schema):
                    before, more = self._parts(found, home)
                groups, attributes = before + groups, more + attributes
            return groups, attributes
        return self._wrong(node, schema, "complexContent has neither extension nor restriction")

    def _group(self, node: etree._Element, schema: Schema, owner: etree._Element) -> StructureMember:
        """A model group as a member without a name."""
        least, most = self._occurs(node, schema)
        given = self._given(node, schema)
        if node.tag == f"{SCHEMA}group":
            if node.get("ref") is None:
                self._wrong(node, schema, "a group needs a reference here")
            found, home, key = self._find("group", node, schema, str(node.get("ref")))
            inner = next(
                (each for each in found.iterchildren(etree.Element) if each.tag != f"{SCHEMA}annotation"), None
            )
            if inner is None:
                self._wrong(found, home, f"the group {node.get('ref')} is empty")
            with self._inside(f"group {key}", node, schema):
                content = self._group(inner, home, found).content
            return self._member("", _structured(content), (least, most), (None, None), given, node)
        self.depth += 1
        if self.depth > NESTING_MAX:
            self._wrong(node, schema, f"structures nest deeper than {NESTING_MAX} levels")
        members = []
        for child in node.iterchildren(etree.Element):
            kind = str(etree.QName(child).localname)
            if kind == "element":
                if str(child.get("maxOccurs")) != "0":
                    members.append(self._element(child, schema))
            elif kind in _MODEL_GROUPS:
                members.append(self._group(child, schema, owner))
            elif kind != "annotation":
                self._unsupported(child, schema)
        self.depth -= 1
        # A group separates its elements as the type around it does, unless it says something of its own.
        physical = self._structure_physical(owner, schema)
        for fmt, own in self._structure_physical(node, schema).items():
            if own != TdsStructure():
                physical[fmt] = own
            else:
                physical[fmt] = replace(physical[fmt], group_indicator="", group_terminator="")
        composition = _COMPOSITIONS[str(etree.QName(node).localname)]
        structure = Structure("", tuple(members), composition, physical)
        return self._member("", structure, (least, most), (None, None), given, node)


class _Inside:
    """While something is being read that must not come up again below itself."""

    def __init__(self, open_keys: list[str], key: str) -> None:
        self.open_keys = open_keys
        self.key = key

    def __enter__(self) -> None:
        self.open_keys.append(self.key)

    def __exit__(self, *_: object) -> None:
        self.open_keys.pop()


def _structured(content: Simple | Structure) -> Structure:
    assert isinstance(content, Structure)
    return content


def _flattened(groups: list[StructureMember]) -> Iterator[StructureMember]:
    """Groups as they stand in a sequence: a sequence that comes once needs no group of its own."""
    for group in groups:
        inner = group.content
        assert isinstance(inner, Structure)
        if inner.composition is Composition.SEQUENCE and (group.min_occurs, group.max_occurs) == (1, 1):
            yield from inner.members
        else:
            yield group


def _value_of(node: etree._Element, declared: etree._Element) -> tuple[str | None, str | None]:
    """The default and the fixed value of an element or attribute, or of what it refers to."""
    found: list[str | None] = []
    for name in ("default", "fixed"):
        value = node.get(name)
        value = declared.get(name) if value is None else value
        found.append(None if value is None else str(value))
    return found[0], found[1]


def _default_length(content: SimpleType, declared: Format, given: Given) -> None:
    """The length that the toolkit gives xsd:short, xsd:float and their like in CWF."""
    storage = given.get("storage")
    fits = content.simple.type is ValueType.FLOAT or (content.simple.type is ValueType.INTEGER and content.size is None)
    if declared.kind is Kind.CWF and content.cwf_bytes and fits and storage in (None, "integer", "float"):
        given.setdefault("length", content.cwf_bytes)
