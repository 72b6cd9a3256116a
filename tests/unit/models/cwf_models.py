# SPDX-License-Identifier: Apache-2.0
"""Small CWF models for tests, and trees to compare."""

from __future__ import annotations

from typing import Any

from entrepot.models.cwf import CwfCodec, compile_cwf
from entrepot.models.logical import (
    Composition,
    CwfField,
    CwfFormat,
    MessageModel,
    MessageSet,
    Simple,
    Structure,
    StructureMember,
    ValueType,
)
from entrepot.models.tree import Element

STRING = Simple(ValueType.STRING)
INTEGER = Simple(ValueType.INTEGER)
DECIMAL = Simple(ValueType.DECIMAL)
FLOAT = Simple(ValueType.FLOAT)
BOOLEAN = Simple(ValueType.BOOLEAN)
BINARY = Simple(ValueType.BINARY)
DATE = Simple(ValueType.DATE)
TIME = Simple(ValueType.TIME)
DATETIME = Simple(ValueType.DATETIME)

BIG, LITTLE, ZOS = 273, 546, 785
LATIN, UTF8, EBCDIC = 819, 1208, 500


def simple(name: str, content: Simple, storage: str, length: int = 0, **said: Any) -> StructureMember:
    """A simple element; what begins with occurs_ or is a default goes to the member, the rest to the format."""
    least, most = said.pop("occurs_least", None), said.pop("occurs_most", 1)
    default = said.pop("default", None)
    physical = CwfField(storage, length, **said)
    return StructureMember(name, content, (most or 0) if least is None else least, most, default, {"CWF1": physical}, 7)


def group(
    name: str,
    *members: StructureMember,
    composition: Composition = Composition.SEQUENCE,
    most: int | None = 1,
    **said: Any,
) -> StructureMember:
    physical = {"CWF1": CwfField("structure", **said)}
    return StructureMember(name, Structure(name, members, composition), 0, most, physical=physical, line=7)


def choice(*members: StructureMember, name: str = "", **said: Any) -> StructureMember:
    return group(name, *members, composition=Composition.CHOICE, **said)


def codec_of(*members: StructureMember, physical: CwfFormat | None = None) -> CwfCodec:
    message = MessageModel("M", Structure("M", members))
    return compile_cwf(MessageSet("S", {"M": message}, {"CWF1": physical or CwfFormat()}, "s.yaml"), "M", "CWF1")


def plain(elements: list[Element]) -> list[tuple[str, Any]]:
    """A tree as nested pairs of name and value."""
    return [(one.key, plain(one.children) if one.children else one.value) for one in elements]


def tree(*pairs: tuple[str, Any]) -> Element:
    """The other way round."""
    top = Element("M")
    top.fill([_element(name, value) for name, value in pairs])
    return top


def _element(name: str, value: Any) -> Element:
    if not isinstance(value, list):
        return Element(name, value)
    element = Element(name)
    element.fill([_element(*pair) for pair in value])
    return element
