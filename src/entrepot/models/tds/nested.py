# SPDX-License-Identifier: Apache-2.0
"""Members that are structures: the element around their elements, and regions of their own.

Also what the model alone tells about beginnings, before anything is compiled:
which tags and which names a member may begin with, and which elements others
refer to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from entrepot.models.logical import Composition, Structure, StructureMember, TdsField
from entrepot.models.tds.parts import Read, Write, Writing
from entrepot.models.tds.patterns import PATTERN_SPAN, compile_safe
from entrepot.models.tds.trouble import Reading, TextMismatch, Unwritten, found
from entrepot.models.tds.values import excerpt
from entrepot.models.tree import Element

# --- elements ---------------------------------------------------------------------------------------


def element_reader(key: str, read: Read, *, drop: bool) -> Read:
    """Reads a structure into an element of its own; `drop` leaves out one that has nothing in it."""

    def read_element(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
        children: list[Element] = []
        position = read(text, position, end, children, reading)
        if children or not drop:
            element = Element(key)
            element.fill(children)
            out.append(element)
        return position

    return read_element


def element_writer(key: str, write: Write, order: dict[str, int]) -> Write:
    """Writes all children of an element; `order` says where a name stands in the model."""

    def write_element(children: list[Element], index: int, pieces: list[str], writing: Writing) -> int:
        try:
            write_children(children[index], write, order, pieces, writing)
        except Unwritten as trouble:
            trouble.steps.append(key)
            raise
        return index + 1

    return write_element


def write_children(element: Element, write: Write, order: dict[str, int], pieces: list[str], writing: Writing) -> None:
    """
    Raises:
        Unwritten: A child has no place in the structure, or something is missing or wrong.
    """
    children = element.children
    if element.value is not None and not children:
        raise Unwritten(f"it is a structure, but has the value {excerpt(str(element.value))}")
    start = len(pieces)
    for child in children:
        if child.key not in order:
            known = ", ".join(name.rpartition("}")[2] for name in list(order)[:12])
            raise Unwritten(f"the model has no such element here; it has {known or 'none'}", child.key)
    trouble: Unwritten | None = None
    written = 0
    try:
        written = write(children, 0, pieces, writing)
    except Unwritten as caught:
        trouble = caught
    if trouble is None and written == len(children):
        return
    # The tree may have the right elements in another order than the model.
    sorted_children = sorted(children, key=lambda child: order[child.key])
    if sorted_children != children:
        del pieces[start:]
        written = write(sorted_children, 0, pieces, writing)
        if written == len(children):
            return
        children = sorted_children
    elif trouble is not None:
        raise trouble
    raise Unwritten("there is no place for it: it is one too many, or stands in the wrong place", children[written].key)


def write_nothing(write: Write, key: str, pieces: list[str], writing: Writing) -> None:
    """A structure of nothing but defaults and delimiters."""
    try:
        write([], 0, pieces, writing)
    except Unwritten as trouble:
        if key:
            trouble.steps.append(key)
        raise


# --- regions ----------------------------------------------------------------------------------------


def pattern_region(read: Read, pattern: str) -> Read:
    """A structure that is as long as what a pattern matches."""
    match_at = compile_safe(pattern).match

    def read_region(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
        match = match_at(text, position, min(end, position + PATTERN_SPAN))
        if match is None:
            raise TextMismatch(position, f"{found(text, position, end)} does not match {pattern}")
        at = read(text, position, match.end(), out, reading)
        if at != match.end():
            raise TextMismatch(at, f"{found(text, at, match.end())} is left over inside what {pattern} matches")
        return at

    return read_region


def length_region(read: Read, length: int, padding: str) -> Read:
    def read_region(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
        stop = position + length
        if stop > end:
            raise TextMismatch(position, f"it has {length} characters, but only {end - position} are left")
        at = read(text, position, stop, out, reading)
        if text[at:stop].strip(padding):
            raise TextMismatch(at, f"{found(text, at, stop)} is left over inside its {length} characters")
        return stop

    return read_region


def length_region_writer(write: Write, length: int, padding: str) -> Write:
    def write_region(children: list[Element], index: int, pieces: list[str], writing: Writing) -> int:
        inner: list[str] = []
        index = write(children, index, inner, writing)
        data = "".join(inner)
        if len(data) > length:
            raise Unwritten(f"it has {len(data)} characters, and there is room for {length}")
        pieces.append(data.ljust(length, padding))
        return index

    return write_region


# --- what the model alone tells -----------------------------------------------------------------------


def begins(members: Iterable[StructureMember], composition: Composition) -> Iterator[StructureMember]:
    """The members that a structure may begin with."""
    for member in members:
        yield member
        if composition is Composition.SEQUENCE and member.min_occurs and not _may_be_empty(member):
            return


def _may_be_empty(member: StructureMember) -> bool:
    content = member.content
    return not member.name and isinstance(content, Structure) and all(map(_optional, content.members))


def _optional(member: StructureMember) -> bool:
    return member.min_occurs == 0 or _may_be_empty(member)


class Beginnings:
    """Which tags and names members begin with; asked often, so that each structure is looked at once."""

    def __init__(self, format_name: str) -> None:
        self._format = format_name
        self._tags: dict[int, frozenset[str]] = {}
        self._names: dict[int, frozenset[str]] = {}

    def tags(self, member: StructureMember) -> frozenset[str]:
        """The tags that a member may begin with."""
        field = member.physical.get(self._format)
        if isinstance(field, TdsField) and field.tag:
            return frozenset({field.tag})
        content = member.content
        if not isinstance(content, Structure):
            return frozenset()
        known = self._tags.get(id(content))
        if known is None:
            firsts = begins(content.members, content.composition)
            known = self._tags[id(content)] = frozenset().union(*map(self.tags, firsts))
        return known

    def names(self, member: StructureMember) -> frozenset[str]:
        """The elements that a member may begin with in the tree."""
        content = member.content
        if member.name or not isinstance(content, Structure):
            return frozenset({member.name})
        known = self._names.get(id(content))
        if known is None:
            firsts = begins(content.members, content.composition)
            known = self._names[id(content)] = frozenset().union(*map(self.names, firsts))
        return known


def order_of(structure: Structure) -> dict[str, int]:
    """All names that the children of an element of this structure may have, with their place."""
    order: dict[str, int] = {}
    seen: set[int] = set()

    def collect(inner: Structure) -> None:
        if id(inner) in seen:
            return
        seen.add(id(inner))
        for member in inner.members:
            if member.name:
                order.setdefault(member.name, len(order))
            elif isinstance(member.content, Structure):
                collect(member.content)

    collect(structure)
    return order


def references(structure: Structure, format_name: str) -> set[str]:
    """Names of the elements that hold lengths and numbers of others."""
    names: set[str] = set()
    seen: set[int] = set()
    waiting = [structure]
    while waiting:
        inner = waiting.pop()
        if id(inner) in seen:
            continue
        seen.add(id(inner))
        for member in inner.members:
            field = member.physical.get(format_name)
            if isinstance(field, TdsField):
                names |= {field.length_from, field.count_from} - {""}
            if isinstance(member.content, Structure):
                waiting.append(member.content)
    return names
