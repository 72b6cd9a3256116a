# SPDX-License-Identifier: Apache-2.0
"""Message sets in YAML, written by people: docs/MODELS.md has the notation.

    set: orders
    formats:
      CWF1: cwf
      TDS1: {kind: tds, separation: all elements delimited, delimiter: "|"}
    types:
      Line:
        - sku: string(12)
        - quantity: integer
          cwf: {storage: packed, length: 3}
    messages:
      Order:
        - id: string(10)
        - line[1..*]: Line
          tds: {repeat_delimiter: "~"}

Types share their structures, so a model takes the memory that its file
does; how large it would be written out in full is counted and limited,
because that is what a codec compiles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from entrepot.errors import ModelInvalid
from entrepot.models.logical import (
    DATE_FORMATS,
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
from entrepot.models.model_extent import MEMBERS_MAX, NESTING_MAX, extent
from entrepot.models.notation.mistakes import described, nearest, read_model, wrong
from entrepot.models.notation.physical import (
    FIELDS,
    FORMATS,
    Given,
    check_date_format,
    check_pattern,
    derive,
    read_flag,
    read_given,
    read_integer,
    structure_without,
    text_of,
)
from entrepot.models.notation.values import check_value
from entrepot.models.notation.writing import write_notation
from entrepot.yaml_places import BYTES_MAX, Listing, Scalar, Table, Written

__all__ = ["load_notation", "read_notation", "write_notation"]

_SET_KEYS = ("set", "namespace", "formats", "types", "messages")
_BODIES = {
    "elements": Composition.SEQUENCE,
    "sequence": Composition.SEQUENCE,
    "choice": Composition.CHOICE,
    "unordered": Composition.UNORDERED,
}
_VALUE_KEYS = ("format", "length_max", "values", "pattern", "default", "fixed")
_KINDS = {kind.value.lower(): kind for kind in Kind}
_NAME = re.compile(r"(?P<name>(?:\{[^{}]*\})?[^\s\[\]{}?*+]+)(?P<occurs>[?*+]|\[[^\[\]]*\])?")
_OCCURS = re.compile(r"\[(?:(\d{1,9})|(\d{1,9})\.\.(\d{1,9}|\*)|(\*))\]", re.ASCII)
_SHORT_OCCURS: dict[str | None, tuple[int, int | None]] = {None: (1, 1), "?": (0, 1), "*": (0, None), "+": (1, None)}
_TYPE = re.compile(r"([^\s()\[\]{}]+)(?:\(\s*(\d{1,9})\s*(?:,\s*(\d{1,4})\s*)?\))?", re.ASCII)


def load_notation(path: str | Path) -> MessageSet:
    """The message set of a file.

    Raises:
        ModelInvalid: Says line, column, what is wrong and what is allowed.
    """
    path = Path(path)
    with path.open("rb") as file:
        content = file.read(BYTES_MAX + 1)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ModelInvalid(str(path), line, 1, "the file is not UTF-8") from None
    return read_notation(text, str(path))


def read_notation(text: str, file: str = "model") -> MessageSet:
    """The message set that a text in the notation describes.

    Raises:
        ModelInvalid: Says line, column, what is wrong and what is allowed.
    """
    return _ModelReader(file).read(read_model(text, file))


@dataclass(slots=True)
class _Meaning:
    """What a definition says: a value or a structure, and what members of it take over."""

    content: Simple | Structure
    size: int | None = None
    scale: int = 0
    default: str | None = None
    fields: dict[str, Given] = field(default_factory=dict)
    """Properties of members, by format."""


@dataclass(slots=True)
class _Definition:
    """What was written about a type or a member, before it is understood."""

    where: Written
    keys: dict[str, tuple[Scalar, Written]] = field(default_factory=dict)
    type: Scalar | None = None
    body: tuple[Composition, Listing] | None = None


class _ModelReader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.namespace = ""
        self.formats: dict[str, Format] = {}
        self.structure_defaults: dict[str, Given] = {}
        self.types_written: dict[str, tuple[Scalar, Written]] = {}
        self.types: dict[str, _Meaning] = {}
        self.types_open: list[str] = []
        self.sizes: dict[int, tuple[Structure, int]] = {}
        self.depth = 0

    def read(self, root: Written) -> MessageSet:
        if not isinstance(root, Table):
            wrong(root, f"a model is a mapping with the keys {', '.join(_SET_KEYS)}, not {described(root)}")
        parts = _unique(root, _SET_KEYS, "a model")
        name = text_of(parts["set"], "set") if "set" in parts else Path(self.file).stem
        self.namespace = text_of(parts["namespace"], "namespace") if "namespace" in parts else ""
        if "formats" in parts:
            self._read_formats(parts["formats"])
        else:
            self.formats["XML1"] = XmlFormat()
        self._list_types(parts.get("types"))
        if "messages" not in parts:
            wrong(root, "a model needs `messages:`")
        messages = self._read_messages(parts["messages"])
        for type_name in self.types_written:
            self._type(type_name)
        return MessageSet(name, messages, self.formats, self.file, self.namespace)

    # --- formats, types, messages ---------------------------------------------------------------

    def _read_formats(self, node: Written) -> None:
        for key, value in _named(node, "formats", "CWF1: cwf"):
            if key.text in _KINDS or key.text in _member_keys(()):
                wrong(key, f"{key.text!r} means something in the notation already; call the format CWF1, TDS1, XML1")
            if isinstance(value, Scalar):
                kind, table = self._kind(value), Table(value.place)
            elif isinstance(value, Table):
                kind_node = next((each for name, each in value if name.text == "kind"), None)
                if kind_node is None:
                    wrong(value, f"the format {key.text} needs a kind: {', '.join(_KINDS)}")
                kind, table = self._kind(kind_node), value
            else:
                wrong(value, f"a format is written {key.text}: cwf, or {key.text}: {{kind: cwf, ...}}")
            owner = FORMATS[kind]
            more = (TdsStructure,) if kind is Kind.TDS else ()
            found = read_given((owner, *more), table, f"{kind.value} formats", ("kind",))
            structure = found.get(TdsStructure, {})
            self.formats[key.text] = owner(**found[owner])
            self.structure_defaults[key.text] = structure

    def _kind(self, node: Written) -> Kind:
        text = text_of(node, "kind").lower()
        if text not in _KINDS:
            wrong(node, f"there is no kind of format {text!r}{nearest(text, _KINDS)}")
        return _KINDS[text]

    def _list_types(self, node: Written | None) -> None:
        builtin = {each.value for each in ValueType}
        if node is None or (isinstance(node, Scalar) and node.is_empty):
            return
        for key, value in _named(node, "types", "Line: [...]"):
            if key.text in builtin:
                wrong(key, f"{key.text} is a type already; call this one something else")
            if not _TYPE.fullmatch(key.text) or "(" in key.text:
                wrong(key, f"a type cannot be called {key.text!r}; leave out blanks, brackets and braces")
            self.types_written[key.text] = (key, value)

    def _type(self, name: str) -> _Meaning:
        known = self.types.get(name)
        if known is not None:
            return known
        key, node = self.types_written[name]
        if name in self.types_open:
            around = " > ".join([*self.types_open[self.types_open.index(name) :], name])
            wrong(key, f"the type {name} contains itself: {around}")
        if len(self.types_open) >= NESTING_MAX:
            wrong(key, f"types nest deeper than {NESTING_MAX} levels")
        self.types_open.append(name)
        depth, self.depth = self.depth, 0
        definition = self._definition(node, f"the type {name}")
        meaning = self._meaning(definition, name, {})
        self.depth = depth
        self.types_open.pop()
        self.types[name] = meaning
        return meaning

    def _read_messages(self, node: Written) -> dict[str, MessageModel]:
        messages = {}
        for key, value in _named(node, "messages", "Order: [...]"):
            name = key.text
            definition = self._definition(value, f"the message {name}", ("identifier",))
            identifier = definition.keys.pop("identifier", None)
            meaning = self._meaning(definition, name, {})
            structure = meaning.content
            if not isinstance(structure, Structure):
                wrong(value, f"the message {name} must be a structure, not a value")
            for word in ("default", "fixed"):
                if word in definition.keys:
                    wrong(definition.keys[word][0], f"a message has no {word}")
            if extent(structure, self.sizes) > MEMBERS_MAX:
                wrong(key, f"written out, the message {name} has more than {MEMBERS_MAX} elements")
            text = text_of(identifier[1], "identifier") if identifier else ""
            messages[name] = MessageModel(name, structure, text)
        return messages

    # --- definitions -----------------------------------------------------------------------------

    def _definition(self, node: Written, what: str, also: tuple[str, ...] = ()) -> _Definition:
        """A type's or message's definition: a type's name, a list of members, or a mapping with more."""
        definition = _Definition(node)
        self._define(definition, node, what, also)
        if definition.type is None and definition.body is None:
            wrong(node, f"{what} needs a type or a list of elements")
        return definition

    def _define(self, definition: _Definition, node: Written, what: str, also: tuple[str, ...] = ()) -> None:
        if isinstance(node, Scalar):
            if node.is_empty:
                wrong(node, f"{what} needs a type or a list of elements")
            definition.type = node
        elif isinstance(node, Listing):
            definition.body = (Composition.SEQUENCE, node)
        else:
            for key, value in node:
                self._define_key(definition, key, value, what, also)

    def _define_key(
        self, definition: _Definition, key: Scalar, value: Written, what: str, also: tuple[str, ...] = ()
    ) -> None:
        word = key.text
        if word == "type" or word in _BODIES:
            if definition.type is not None or definition.body is not None:
                wrong(key, f"{what} has a type or elements already, so {word} is one too many")
            if word == "type":
                if not isinstance(value, Scalar) or value.is_empty:
                    wrong(value, f"type is the name of a type, not {described(value)}")
                definition.type = value
            elif isinstance(value, Listing):
                definition.body = (_BODIES[word], value)
            else:
                wrong(value, f"{word} is a list of elements, not {described(value)}")
            return
        if word not in _member_keys(self.formats) and word not in also:
            known = [*also, "type", *_BODIES, *_member_keys(self.formats)]
            wrong(key, f"{what} has no key {word!r}{nearest(word, known)}")
        if word in definition.keys:
            wrong(key, f"the key {word!r} is there twice")
        definition.keys[word] = (key, value)

    def _meaning(self, definition: _Definition, name: str, around: dict[str, TdsStructure]) -> _Meaning:
        fields, structures = self._physical(definition)
        if definition.body is not None:
            composition, listing = definition.body
            physical = self._structures(structures, around)
            if "name" in definition.keys:
                name = text_of(definition.keys["name"][1], "name")
            members = self._members(listing, physical)
            if composition is Composition.CHOICE and not members:
                wrong(listing, "a choice needs something to choose from")
            meaning = _Meaning(Structure(name, members, composition, physical))
        else:
            assert definition.type is not None
            meaning = self._reference(definition.type)
            if isinstance(meaning.content, Structure) and any(structures.values()):
                physical = {
                    fmt: replace(given, **structures.get(fmt, {})) for fmt, given in meaning.content.physical.items()
                }
                meaning = replace(meaning, content=replace(meaning.content, physical=physical))
            if "name" in definition.keys:
                wrong(definition.keys["name"][0], "name belongs to a list of elements; this is a type that has its own")
        return self._with_values(
            replace(meaning, fields={fmt: meaning.fields.get(fmt, {}) | fields.get(fmt, {}) for fmt in self.formats}),
            definition,
        )

    def _reference(self, node: Scalar) -> _Meaning:
        match = _TYPE.fullmatch(node.text)
        if match is None:
            wrong(node, f"{node.text[:60]!r} is no type; write string(12), decimal(9,2), or the name of a type")
        name, size, scale = match.groups()
        value_type = _VALUE_TYPES.get(name)
        if value_type is None:
            if name not in self.types_written:
                wrong(node, f"there is no type {name!r}{nearest(name, [*_VALUE_TYPES, *self.types_written])}")
            if size is not None:
                wrong(node, f"{name} has a size already; only {', '.join(_SIZED)} take one")
            return self._type(name)
        if size is not None and name not in _SIZED:
            wrong(node, f"{name} takes no size; only {', '.join(_SIZED)} do")
        if scale is not None and name != "decimal":
            wrong(node, "only decimal has digits behind the point: decimal(9,2)")
        if size is not None and (not int(size) or int(scale or 0) > int(size)):
            wrong(node, f"the size in {node.text!r} is impossible")
        length = int(size) if size is not None and name in ("string", "binary") else None
        return _Meaning(Simple(value_type, length_max=length), int(size) if size else None, int(scale or 0))

    def _with_values(self, meaning: _Meaning, definition: _Definition) -> _Meaning:
        """Add format, values, pattern, default and fixed."""
        written = [word for word in _VALUE_KEYS if word in definition.keys]
        if not written:
            return meaning
        simple, default = meaning.content, meaning.default
        if not isinstance(simple, Simple):
            wrong(definition.keys[written[0]][0], f"{written[0]} is for values, and this is a structure")
        for word in written:
            node = definition.keys[word][1]
            if word == "values":
                simple = replace(simple, values=_values(node, simple.type))
            elif word == "fixed":
                default = text_of(node, word)
                simple = replace(simple, values=(default,))
            elif word == "default":
                if not isinstance(node, Scalar):
                    wrong(node, f"default is a value, not {described(node)}")
                default = node.text
            elif word == "pattern":
                text = text_of(node, word)
                check_pattern(text, node)
                simple = replace(simple, pattern=text)
            elif word == "length_max":
                simple = replace(simple, length_max=read_integer(text_of(node, word), node, word, 1))
            else:
                simple = replace(simple, format=_date_format(node, simple.type))
        for word in ("default", "fixed"):
            if word in definition.keys and default is not None:
                check_value(default, simple, definition.keys[word][1])
        return replace(meaning, content=simple, default=default)

    # --- members ----------------------------------------------------------------------------------

    def _members(self, listing: Listing, around: dict[str, TdsStructure]) -> tuple[StructureMember, ...]:
        self.depth += 1
        if self.depth > NESTING_MAX:
            wrong(listing, f"elements nest deeper than {NESTING_MAX} levels")
        members = tuple([self._member(node, around) for node in listing.items])
        self.depth -= 1
        return members

    def _member(self, node: Written, around: dict[str, TdsStructure]) -> StructureMember:
        if not isinstance(node, Table) or not node.pairs:
            wrong(node, f"an element is written `name: type`, not {described(node)}")
        (key, value), *properties = node.pairs
        match = _NAME.fullmatch(key.text)
        if match is None:
            wrong(key, f"{key.text[:60]!r} is no name of an element; write name, name[2], name[0..*] or name?")
        name, (least, most) = match["name"], _occurs(match["occurs"], key)
        what = f"the element {name}"
        definition = _Definition(node)
        anonymous = name == "_"
        if name in _BODIES and name != "elements" and isinstance(value, Listing):
            definition.body, anonymous = (_BODIES[name], value), True
        else:
            self._define(definition, value, what)
        for word, said_there in properties:
            self._define_key(definition, word, said_there, what)
        if definition.type is None and definition.body is None:
            wrong(value, f"{what} needs a type or a list of elements")
        local = "" if anonymous else name[name.find("}") + 1 :]
        meaning = self._meaning(definition, local, around if anonymous else {})
        if anonymous and isinstance(meaning.content, Simple):
            wrong(value, "without a name there can be only a structure; a value needs a name")
        full_name = "" if anonymous else self._qualified(name, meaning)
        content = meaning.content
        simple = content if isinstance(content, Simple) else None
        physical = {
            fmt: derive(
                declared,
                simple.type if simple else None,
                meaning.size,
                meaning.scale,
                simple.format if simple else "",
                meaning.fields.get(fmt, {}),
            )
            for fmt, declared in self.formats.items()
        }
        return StructureMember(full_name, content, least, most, meaning.default, physical, key.start.line)

    def _qualified(self, name: str, meaning: _Meaning) -> str:
        if name.startswith("{}"):
            return name[2:]
        # Attributes are in no namespace unless the model says so, as in XML itself.
        attribute = any(given.get("attribute") for given in meaning.fields.values())
        return name if not self.namespace or name.startswith("{") or attribute else f"{{{self.namespace}}}{name}"

    # --- physical properties ------------------------------------------------------------------------

    def _physical(self, definition: _Definition) -> tuple[dict[str, Given], dict[str, Given]]:
        """What a definition says of each format: of the member, and of the structure."""
        fields: dict[str, Given] = {}
        structures: dict[str, Given] = {}
        # A format's own name says more than its kind, so it comes later.
        for word in (*_KINDS, *self.formats):
            if word not in definition.keys:
                continue
            key, table = definition.keys[word]
            kind = _KINDS[word] if word in _KINDS else self.formats[word].kind
            owners: tuple[type, ...] = (FIELDS[kind], TdsStructure) if kind is Kind.TDS else (FIELDS[kind],)
            found = read_given(owners, table, f"{kind.value} properties")
            names = [word] if word in self.formats else [fmt for fmt, each in self.formats.items() if each.kind is kind]
            if not names:
                wrong(key, f"there is no format of kind {word}; add one to `formats:`")
            structure_given = found.get(TdsStructure, {})
            if structure_given and definition.type is not None and definition.type.text.split("(")[0] in _VALUE_TYPES:
                wrong(key, f"{', '.join(structure_given)} is for structures, and this is a value")
            for fmt in names:
                fields[fmt] = fields.get(fmt, {}) | found[FIELDS[kind]]
                structures[fmt] = structures.get(fmt, {}) | structure_given
        self._shorthands(definition, fields)
        return fields, structures

    def _shorthands(self, definition: _Definition, fields: dict[str, Given]) -> None:
        """`tag:` and `attribute:` for all TDS and all XML formats."""
        for word, kind in (("tag", Kind.TDS), ("attribute", Kind.XML)):
            if word not in definition.keys:
                continue
            node = definition.keys[word][1]
            table = Table(node.place, [definition.keys[word]])
            for fmt, each in self.formats.items():
                if each.kind is kind:
                    given = read_given((FIELDS[kind],), table, word)[FIELDS[kind]]
                    fields[fmt] = given | fields.get(fmt, {})
            if word == "attribute":
                read_flag(text_of(node, word), node, word)

    def _structures(self, given: dict[str, Given], around: dict[str, TdsStructure]) -> dict[str, TdsStructure]:
        physical = {}
        for fmt, declared in self.formats.items():
            if declared.kind is Kind.TDS:
                without = structure_without(around.get(fmt), self.structure_defaults[fmt])
                physical[fmt] = replace(without, **given.get(fmt, {}))
        return physical


# --- small things -----------------------------------------------------------------------------------

_VALUE_TYPES = {each.value: each for each in ValueType}
_SIZED = ("string", "binary", "integer", "decimal")


def _member_keys(formats: dict[str, Format] | tuple[()]) -> tuple[str, ...]:
    return (*_VALUE_KEYS, "name", "tag", "attribute", *_KINDS, *formats)


def _unique(table: Table, known: tuple[str, ...], what: str) -> dict[str, Written]:
    for key, _ in table:
        if key.text not in known:
            wrong(key, f"{what} has no key {key.text!r}{nearest(key.text, known)}")
    return {key.text: node for key, node in table}


def _named(node: Written, what: str, example: str) -> list[tuple[Scalar, Written]]:
    """The pairs of a table of names, each name once."""
    if not isinstance(node, Table) or not node.pairs:
        wrong(node, f"{what} is a mapping such as {{{example}}}, not {described(node)}")
    seen = set()
    for key, _ in node:
        if key.text in seen:
            wrong(key, f"{key.text!r} is there twice in {what}")
        if not key.text.strip():
            wrong(key, f"a name is missing in {what}")
        seen.add(key.text)
    return node.pairs


def _occurs(text: str | None, key: Scalar) -> tuple[int, int | None]:
    if text in _SHORT_OCCURS:
        return _SHORT_OCCURS[text]
    match = _OCCURS.fullmatch(text or "")
    if match is None:
        wrong(key, f"{text!r} is no number of occurrences; write [3], [0..1], [1..5], [0..*] or ?")
    exact, least, most, _any = match.groups()
    if exact is not None:
        found: tuple[int, int | None] = (int(exact), int(exact))
    elif least is not None:
        found = (int(least), None if most == "*" else int(most))
    else:
        found = (0, None)
    if found[1] is not None and (found[1] < found[0] or not found[1]):
        wrong(key, f"{text!r} allows nothing; the second number must be at least the first, and 1")
    return found


def _date_format(node: Written, value_type: ValueType) -> str:
    text = text_of(node, "format")
    if value_type in DATE_FORMATS:
        check_date_format(text, node)
    return text


def _values(node: Written, value_type: ValueType) -> tuple[str, ...]:
    if not isinstance(node, Listing) or not node.items:
        wrong(node, f"values is a list such as [BUYI, SELL], not {described(node)}")
    for item in node.items:
        if not isinstance(item, Scalar):
            wrong(item, f"a value is a word, not {described(item)}")
        check_value(item.text, Simple(value_type), item)
    return tuple([item.text for item in node.items if isinstance(item, Scalar)])
