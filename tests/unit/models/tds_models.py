# SPDX-License-Identifier: Apache-2.0
"""Small TDS models for tests, and trees in a notation that can be written by hand."""

from __future__ import annotations

from typing import Any

from entrepot.models.logical import (
    Composition,
    MessageModel,
    MessageSet,
    Separation,
    Simple,
    Structure,
    StructureMember,
    TdsField,
    TdsFormat,
    TdsStructure,
    ValueType,
)
from entrepot.models.mrm import Codec
from entrepot.models.tds import compile_tds
from entrepot.models.tree import Element

FIXED = Separation.FIXED_LENGTH
TAGGED = Separation.TAGGED_DELIMITED
TAGGED_FIXED = Separation.TAGGED_FIXED_LENGTH
ENCODED = Separation.TAGGED_ENCODED_LENGTH
ALL = Separation.ALL_DELIMITED
VARIABLE = Separation.VARIABLE_DELIMITED
PATTERN = Separation.DATA_PATTERN

SEQUENCE, CHOICE, UNORDERED = Composition.SEQUENCE, Composition.CHOICE, Composition.UNORDERED

_SIMPLE = ("values", "length_max")
_FIELD = (
    "tag",
    "length",
    "length_from",
    "pattern",
    "repeat_delimiter",
    "justify",
    "padding",
    "format",
    "decimals",
    "null_policy",
    "null_value",
    "count_from",
)


def _member(
    name: str, content: Simple | Structure, least: int, most: int | None, said: dict[str, Any]
) -> StructureMember:
    field = TdsField(**{key: said.pop(key) for key in _FIELD if key in said})
    return StructureMember(name, content, least, most, said.pop("default", None), {"T": field})


def simple(
    name: str,
    type: str = "string",  # noqa: A002
    *,
    least: int = 1,
    most: int | None = 1,
    valid: str = "",
    **said: Any,
) -> StructureMember:
    content = Simple(ValueType(type), pattern=valid, **{key: said.pop(key) for key in _SIMPLE if key in said})
    member = _member(name, content, least, most, said)
    assert not said, said
    return member


def structure(name: str, *members: StructureMember, composition: Composition = SEQUENCE, **said: Any) -> Structure:
    physical = {"T": TdsStructure(**said)} if said else {}
    return Structure(name, members, composition, physical)


def group(
    name: str,
    *members: StructureMember,
    least: int = 1,
    most: int | None = 1,
    composition: Composition = SEQUENCE,
    **said: Any,
) -> StructureMember:
    field = {key: said.pop(key) for key in _FIELD if key in said}
    return _member(name, structure(name, *members, composition=composition, **said), least, most, field)


def message_set(content: Structure, **tds: Any) -> MessageSet:
    return MessageSet("SET", {"M": MessageModel("M", content)}, {"T": TdsFormat(**tds)})


def codec(
    *members: StructureMember, composition: Composition = SEQUENCE, tds: dict[str, Any] | None = None, **said: Any
) -> Codec:
    return compile_tds(message_set(structure("M", *members, composition=composition, **said), **(tds or {})), "M", "T")


Tree = list[tuple[str, Any]]


def tree_of(elements: list[Element]) -> Tree:
    """[(name, value)], with a list for the value of what has children."""
    return [
        (element.key, tree_of(element.children) if element.kind == 0x01000000 else element.value)
        for element in elements
    ]


def element_of(name: str, value: Any) -> Element:
    if not isinstance(value, list):
        return Element(name, value, 0x03000000)
    element = Element(name)
    element.fill([element_of(key, inner) for key, inner in value])
    return element


def read(compiled: Codec, body: bytes | str, ccsid: int = 1208) -> Tree:
    return tree_of(compiled.parse(body.encode() if isinstance(body, str) else body, ccsid, 546))


def write(compiled: Codec, tree: Tree, ccsid: int = 1208) -> bytes:
    return compiled.render(element_of("MRM", list(tree)), ccsid, 546)


def agree(compiled: Codec, body: bytes | str, tree: Tree, ccsid: int = 1208) -> None:
    """The bytes mean the tree, and the tree is written as these bytes."""
    data = body.encode() if isinstance(body, str) else body
    found = read(compiled, data, ccsid)
    assert found == tree
    assert [_types(item) for item in found] == [_types(item) for item in tree]
    assert write(compiled, tree, ccsid) == data


def _types(item: tuple[str, Any]) -> Any:
    key, value = item
    return (key, [_types(inner) for inner in value]) if isinstance(value, list) else (key, type(value))
