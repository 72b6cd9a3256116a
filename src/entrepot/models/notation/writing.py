# SPDX-License-Identifier: Apache-2.0
"""A message set written in the notation, so that copybooks and MRM definitions can be converted into it.

Only what differs from what the reader would find by itself is written.
Structures with a name of their own become types; others stand where they
are used. Line numbers are the only thing that reading it back changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any

from entrepot.errors import InvalidArgument
from entrepot.models.logical import (
    Composition,
    Format,
    Kind,
    MessageSet,
    Separation,
    Simple,
    Structure,
    StructureMember,
    TdsStructure,
    ValueType,
    XmlField,
)
from entrepot.models.model_extent import NESTING_MAX
from entrepot.models.notation.physical import MNEMONICS, STRUCTURE_DEFAULTS, Given, derive, keys, structure_without
from entrepot.models.tds.mnemonics import spell

_BUILTIN = frozenset(each.value for each in ValueType)
_GROUPS = {
    Composition.SEQUENCE: "sequence",
    Composition.CHOICE: "choice",
    Composition.UNORDERED: "unordered",
}
_PLAIN = re.compile(r"[A-Za-z0-9_(][A-Za-z0-9_.()/+*?=@\[\]-]*( [A-Za-z0-9_.()/+*?=@\[\]-]+)*", re.ASCII)
_NAME = re.compile(r"(?:\{[^{}]*\})?[^\s\[\]{}?*+]+")


def write_notation(message_set: MessageSet) -> str:
    """The set as text that `read_notation` understands.

    Raises:
        InvalidArgument: A name has characters that the notation has no place for, or a structure contains itself.
    """
    return _ModelWriter(message_set).write()


class _ModelWriter:
    def __init__(self, message_set: MessageSet) -> None:
        self.set = message_set
        self.types: dict[str, Structure] = {}
        self.keys: dict[int, str] = {}
        self.uses: Counter[int] = Counter()
        self.defaults: dict[str, Given] = {}

    def write(self) -> str:
        for message in self.set.messages.values():
            self._count(message.structure, 0)
        self._choose_defaults()
        out = [f"set: {_scalar(self.set.name)}"]
        if self.set.namespace:
            out.append(f"namespace: {_scalar(self.set.namespace)}")
        out.append("formats:")
        out += [f"  {_scalar(name)}: {self._format(name, each)}" for name, each in self.set.formats.items()]
        messages = list(self._messages())
        types: list[str] = []
        written = 0
        while written < len(self.types):
            # Writing one may find more.
            for key, structure in list(self.types.items())[written:]:
                written += 1
                types += self._type(key, structure)
        if types:
            out += ["types:", *types]
        return "\n".join([*out, "messages:", *messages, ""])

    def _count(self, structure: Structure, depth: int) -> None:
        if depth > NESTING_MAX:
            raise InvalidArgument(
                "message set", f"{structure.name} nests deeper than {NESTING_MAX} levels", "less depth"
            )
        self.uses[id(structure)] += 1
        if self.uses[id(structure)] == 1:
            for member in structure.members:
                if isinstance(member.content, Structure):
                    self._count(member.content, depth + 1)

    def _choose_defaults(self) -> None:
        """What most structures say becomes the format's own, so that they need not."""
        structures = {id(each): each for message in self.set.messages.values() for each in _all(message.structure)}
        for name, declared in self.set.formats.items():
            if declared.kind is not Kind.TDS:
                continue
            self.defaults[name] = chosen = {}
            for key in STRUCTURE_DEFAULTS:
                counts = Counter(
                    getattr(each.physical[name], key) for each in structures.values() if name in each.physical
                )
                value = counts.most_common(1)[0][0] if counts else _default(TdsStructure, key)
                if value != _default(TdsStructure, key):
                    chosen[key] = value

    def _format(self, name: str, declared: Format) -> str:
        given = {
            key: getattr(declared, key)
            for key in keys(type(declared))
            if getattr(declared, key) != _default(type(declared), key)
        } | self.defaults.get(name, {})
        kind = declared.kind.value.lower()
        return kind if not given else "{kind: " + kind + ", " + _flow(given)[1:]

    # --- structures ---------------------------------------------------------------------------------

    def _messages(self) -> Iterator[str]:
        for message in self.set.messages.values():
            structure = message.structure
            key = f"  {_scalar(message.name)}:"
            own = [f"    identifier: {_scalar(message.identifier)}"] if message.identifier else []
            if structure.name != message.name:
                yield from [key, f"    type: {_scalar(self._type_key(structure))}", *own]
            else:
                yield from [key, *own, *self._body(structure, "    ", {})]

    def _type(self, key: str, structure: Structure) -> list[str]:
        name = [f"    name: {_scalar(structure.name)}"] if structure.name != key else []
        return [f"  {_scalar(key)}:", *name, *self._body(structure, "    ", {})]

    def _body(self, structure: Structure, indent: str, around: Mapping[str, TdsStructure]) -> list[str]:
        """A structure as a mapping: its elements, and what it says of its formats."""
        word = "elements" if structure.composition is Composition.SEQUENCE else _GROUPS[structure.composition]
        physical = self._merged({}, self._structure_given(structure, around))
        return [*self._listing(f"{indent}{word}:", structure, f"{indent}  "), *(f"{indent}{line}" for line in physical)]

    def _listing(self, head: str, structure: Structure, indent: str) -> list[str]:
        if not structure.members:
            return [f"{head} []"]
        physical = structure.physical
        return [head, *(line for member in structure.members for line in self._member(member, indent, physical))]

    def _structure_given(self, structure: Structure, around: Mapping[str, TdsStructure]) -> dict[str, Given]:
        found = {}
        for name in self.defaults:
            without = structure_without(around.get(name), self.defaults[name])
            here = structure.physical.get(name, without)
            found[name] = {
                key: getattr(here, key) for key in keys(TdsStructure) if getattr(here, key) != getattr(without, key)
            }
        return found

    def _type_key(self, structure: Structure) -> str:
        """The key in `types` of a structure, new when it has none yet."""
        known = self.keys.get(id(structure))
        if known is not None:
            return known
        stem = re.sub(r"[\s()\[\]{}]", "_", structure.name) or "Type"
        key, number = stem, 1
        while key in _BUILTIN or key in self.types:
            if key in self.types and self.types[key] == structure:
                break
            number += 1
            key = f"{stem}_{number}"
        self.types.setdefault(key, structure)
        self.keys[id(structure)] = key
        return key

    # --- members ----------------------------------------------------------------------------------

    def _member(self, member: StructureMember, indent: str, around: Mapping[str, TdsStructure]) -> list[str]:
        content = member.content
        lines: list[str] = []
        structure_given: dict[str, Given] = {}
        name = self._name(member)
        if isinstance(content, Simple):
            head = f"{name}: {_type_text(content)}"
            lines += self._value_lines(content, member)
        elif not self._stands_inline(member, content):
            head = f"{name}: {_scalar(self._type_key(content))}"
        else:
            head, below = self._inline(member, content, name, indent)
            lines += below
            structure_given = self._structure_given(content, around if not member.name else {})
            after = self._merged(self._field_given(member), structure_given)
            return [f"{indent}- {head}", *lines, *(f"{indent}  {line}" for line in after)]
        lines += self._merged(self._field_given(member), structure_given)
        return [f"{indent}- {head}", *(f"{indent}  {line}" for line in lines)]

    def _stands_inline(self, member: StructureMember, structure: Structure) -> bool:
        return structure.name == _local(member.name) and (not structure.name or self.uses[id(structure)] == 1)

    def _inline(self, member: StructureMember, structure: Structure, name: str, indent: str) -> tuple[str, list[str]]:
        word = _GROUPS[structure.composition]
        if not member.name:
            head = word + _occurs(member)
            listing = self._listing(f"{head}:", structure, f"{indent}    ")
            return listing[0], listing[1:]
        if structure.composition is Composition.SEQUENCE and _local(member.name) not in _GROUPS.values():
            listing = self._listing(f"{name}:", structure, f"{indent}    ")
            return listing[0], listing[1:]
        return f"{name}:", self._listing(f"{indent}    {word}:", structure, f"{indent}      ")

    def _name(self, member: StructureMember) -> str:
        name = member.name
        if not name:
            return "_" + _occurs(member)
        namespace = f"{{{self.set.namespace}}}"
        attribute = any(isinstance(each, XmlField) and each.attribute for each in member.physical.values())
        if self.set.namespace and not attribute:
            name = (
                name.removeprefix(namespace) if name.startswith(namespace) else "{}" + name if name[:1] != "{" else name
            )
        if not _NAME.fullmatch(name) or name == "_":
            raise InvalidArgument("name of an element", name, "a name without blanks, brackets, ?, * and +")
        return _scalar(name + _occurs(member))

    def _value_lines(self, simple: Simple, member: StructureMember) -> Iterator[str]:
        if simple.format:
            yield f"format: {_scalar(simple.format)}"
        if simple.length_max is not None and simple.type not in (ValueType.STRING, ValueType.BINARY):
            yield f"length_max: {simple.length_max}"
        if simple.pattern:
            yield f"pattern: {_scalar(simple.pattern)}"
        if simple.values and simple.values == (member.default,):
            yield f"fixed: {_scalar(simple.values[0])}"
            return
        if simple.values:
            yield f"values: [{', '.join(_flow_scalar(value) for value in simple.values)}]"
        if member.default is not None:
            yield f"default: {_scalar(member.default)}"

    def _field_given(self, member: StructureMember) -> dict[str, Given]:
        simple = member.content if isinstance(member.content, Simple) else None
        size = simple.length_max if simple and simple.type in (ValueType.STRING, ValueType.BINARY) else None
        found: dict[str, Given] = {}
        for name, declared in self.set.formats.items():
            here = member.physical.get(name)
            if here is None:
                found[name] = {}
                continue
            # Storage and format come first, because lengths follow from them.
            given: Given = {}
            for wanted in (("storage", "format"), tuple(keys(type(here)))):
                value_type, logical = (simple.type, simple.format) if simple else (None, "")
                without = derive(declared, value_type, size, 0, logical, dict(given))
                for key in wanted:
                    if key in keys(type(here)) and getattr(here, key) != getattr(without, key):
                        given[key] = getattr(here, key)
            found[name] = given
        return found

    def _merged(self, field_given: dict[str, Given], structure_given: dict[str, Given]) -> list[str]:
        """The physical properties as lines: by kind where all formats of a kind agree, else by format."""
        lines = []
        for kind in Kind:
            names = [name for name, each in self.set.formats.items() if each.kind is kind]
            given = [field_given.get(name, {}) | structure_given.get(name, {}) for name in names]
            if not any(given):
                continue
            if all(each == given[0] for each in given):
                lines.append(f"{kind.value.lower()}: {_flow(given[0])}")
            else:
                lines += [f"{_scalar(name)}: {_flow(each)}" for name, each in zip(names, given, strict=True) if each]
        return lines


# --- small things -------------------------------------------------------------------------------------


def _all(structure: Structure) -> Iterator[Structure]:
    """Every structure below and with this one, each once."""
    waiting, seen = [structure], {id(structure)}
    while waiting:
        here = waiting.pop()
        yield here
        for member in here.members:
            if isinstance(member.content, Structure) and id(member.content) not in seen:
                seen.add(id(member.content))
                waiting.append(member.content)


def _default(owner: type, key: str) -> Any:
    for each in fields(owner):
        if each.name == key:
            return each.default_factory() if each.default_factory is not MISSING else each.default
    raise AssertionError(key)


def _local(name: str) -> str:
    return name[name.find("}") + 1 :]


def _occurs(member: StructureMember) -> str:
    least, most = member.min_occurs, member.max_occurs
    if (least, most) == (1, 1):
        return ""
    if (least, most) == (0, 1):
        return "?"
    if least == most:
        return f"[{least}]"
    return f"[{least}..{'*' if most is None else most}]"


def _type_text(simple: Simple) -> str:
    sized = simple.length_max is not None and simple.type in (ValueType.STRING, ValueType.BINARY)
    return f"{simple.type.value}({simple.length_max})" if sized else simple.type.value


def _flow(given: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_property(key, value)}" for key, value in given.items()) + "}"


def _property(key: str, value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return f"0x{value.hex().upper()}"
    if isinstance(value, Separation):
        return value.value
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow_scalar(name)}: {_flow_scalar(each)}" for name, each in value.items()) + "}"
    return _flow_scalar(spell(value) if key in MNEMONICS else value)


def _flow_scalar(text: str) -> str:
    """A scalar among commas and brackets."""
    return _scalar(text) if "[" not in text and "]" not in text and "?" not in text else _quoted(text)


def _scalar(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and text != "null" else _quoted(text)


def _quoted(text: str) -> str:
    return '"' + "".join(_ESCAPED.get(c) or (c if c.isprintable() else _escape(ord(c))) for c in text) + '"'


_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(code: int) -> str:
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
