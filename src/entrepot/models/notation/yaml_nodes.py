# SPDX-License-Identifier: Apache-2.0
"""YAML as places in a file: every scalar, list and mapping knows its line and column.

Scalars stay text, whatever they look like, so `no` and `20` can be names.
Anchors, aliases and tags are refused: a model needs none, and aliases make
small files that mean enormous ones. Depth and size are limited too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NoReturn

import yaml

from entrepot.errors import ModelInvalid
from entrepot.models.model_extent import PROBLEM_CHARACTERS_MAX

NESTING_MAX = 100
"""How deep a model may nest."""

BYTES_MAX = 16 * 1024 * 1024
"""How large a model file may be."""

_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Place:
    """Something in the file."""

    file: str
    line: int
    column: int

    def wrong(self, problem: str) -> NoReturn:
        raise ModelInvalid(self.file, self.line, self.column, problem[:PROBLEM_CHARACTERS_MAX])


@dataclass(slots=True)
class Scalar(Place):
    text: str
    quoted: bool

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written there at all."""
        return not self.quoted and self.text in ("", "~", "null")


@dataclass(slots=True)
class Listing(Place):
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Table(Place):
    pairs: list[tuple[Scalar, Node]] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[Scalar, Node]]:
        return iter(self.pairs)


Node = Scalar | Listing | Table


def said(node: Node) -> str:
    """What stands there, for a complaint."""
    if isinstance(node, Scalar):
        return repr(node.text[:60]) if node.text or node.quoted else "nothing"
    return "a list" if isinstance(node, Listing) else "a mapping"


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` and what is known, for the end of a complaint."""
    listed = list(known)
    close = get_close_matches(word.lower(), [name.lower() for name in listed], 1, 0.6)
    meant = next((name for name in listed if close and name.lower() == close[0]), "")
    shown = ", ".join(listed[:40]) + (", ..." if len(listed) > 40 else "")
    return (f"; did you mean {meant}?" if meant else ";") + f" Allowed: {shown or 'nothing'}"


def read_yaml(text: str, file: str) -> Node:
    """The one document of a text.

    Raises:
        ModelInvalid: It is no YAML, or more of it than a model may be.
    """
    if len(text) > BYTES_MAX:
        raise ModelInvalid(file, 1, 1, f"the model has more than {BYTES_MAX} characters")
    try:
        return _document(text, file)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise ModelInvalid(file, line, column, f"this is no YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        place = getattr(error, "position", 0)
        before = text[: place if isinstance(place, int) else 0]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise ModelInvalid(file, line, column, f"this is no YAML: {getattr(error, 'reason', error)}") from None


def _document(text: str, file: str) -> Node:
    open_nodes: list[Listing | Table] = []
    keys: list[Scalar | None] = []
    root: Node | None = None
    for event in yaml.parse(text, _Loader):
        mark = event.start_mark
        assert mark is not None  # the parser gives every event its place
        line, column = mark.line + 1, mark.column + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise ModelInvalid(
                file, line, column, "anchors and aliases are no part of the notation; name a type instead"
            )
        tag = getattr(event, "tag", None)
        if tag not in (None, "!"):
            raise ModelInvalid(file, line, column, f"tags such as {tag} are no part of the notation")
        if isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            open_nodes.pop()
            keys.pop()
            continue
        if isinstance(event, yaml.DocumentStartEvent) and root is not None:
            raise ModelInvalid(file, line, column, "a second document begins; a model is one")
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = Scalar(file, line, column, event.value, bool(event.style))
        elif isinstance(event, yaml.SequenceStartEvent):
            node = Listing(file, line, column)
        elif isinstance(event, yaml.MappingStartEvent):
            node = Table(file, line, column)
        else:
            continue
        if not open_nodes:
            root = node
        else:
            _attach(open_nodes[-1], keys, node)
        if not isinstance(node, Scalar):
            if len(open_nodes) >= NESTING_MAX * 3:
                node.wrong(f"the model nests deeper than {NESTING_MAX} levels")
            open_nodes.append(node)
            keys.append(None)
    if root is None:
        raise ModelInvalid(file, 1, 1, "the file is empty; a model begins with `messages:`")
    return root


def _attach(above: Listing | Table, keys: list[Scalar | None], node: Node) -> None:
    if isinstance(above, Listing):
        above.items.append(node)
        return
    key = keys[-1]
    if key is None:
        if not isinstance(node, Scalar):
            node.wrong(f"a key must be a word, not {said(node)}")
        if any(known.text == node.text for known, _ in above.pairs[-_DUPLICATES_SEEN:]):
            node.wrong(f"the key {node.text!r} is there twice")
        keys[-1] = node
        return
    above.pairs.append((key, node))
    keys[-1] = None


_DUPLICATES_SEEN = 64
"""Looking back further would make large tables slow; the tables of names look at all of theirs."""
