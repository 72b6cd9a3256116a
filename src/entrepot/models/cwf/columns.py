# SPDX-License-Identifier: Apache-2.0
"""Records of fixed length, read as columns: whole batches at once, the same values as trees have.

    record  │ ORDER_ID │ CUSTOMER │ LINE_ITEM[1] │ LINE_ITEM[2] │   n records, one behind the other
                 ▼           ▼              ▼
    columns    cells       cells     cells of all repeats of all records

A message has such columns when every record of it has the same length: nothing
occurs or is as long as another member says. Members that lie over each other
(REDEFINES) are read in every way, and each record says which of them counts,
by the rules of the tree. Records that the tree could not have, and those that
hold more than a column can, are named; they are to be read one by one.
Needs numpy (extra `spark`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from entrepot.errors import CodePageUnknown, ModelInvalid
from entrepot.models.cwf.cells import Array, Cells, Mask, ReadCells, cells_reader
from entrepot.models.cwf.codec import CwfCodec
from entrepot.models.cwf.fields import FieldCodec
from entrepot.models.cwf.layout import LayoutBuilder, enumerated
from entrepot.models.cwf.plan import FieldPlan, GroupPlan, repeats
from entrepot.models.cwf.steps import PROBLEMS
from entrepot.models.logical import Composition

# --- what was read -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class MemberColumn:
    """A member, in all records; where it is absent, the record has another member in its place."""

    content: Cells | StructColumns | RepeatedColumn
    absent: Mask | None = None


@dataclass(slots=True)
class StructColumns:
    """The members of a structure by their names."""

    members: dict[str, MemberColumn]


@dataclass(slots=True)
class RepeatedColumn:
    """So many of a member in each record, record after record."""

    count: int
    column: MemberColumn


@dataclass(slots=True)
class ColumnBatch:
    """Records as columns."""

    columns: StructColumns
    apart: Mask
    """Records that are to be read one by one: what the columns have of them means nothing."""


# --- where everything lies -----------------------------------------------------------------------------------


class _NotFixed(Exception):
    """The message has no columns."""


@dataclass(frozen=True, slots=True)
class _ItemPlaces:
    """Where a batch has the items of something that may repeat: as numpy's arrays say it."""

    data: bytes | Array
    start: int
    """The offset in the record at which `data` begins."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def items(self) -> int:
        return int(np.prod(self.shape))

    def raw(self, offset: int, kind: np.dtype[np.void]) -> Array:
        where: Array = np.ndarray(self.shape, kind, self.data, offset - self.start, self.strides)
        return np.ascontiguousarray(where).reshape(-1)


@dataclass(slots=True)
class _Doubts:
    """Items that cannot be read, and those whose values are not known here."""

    unreadable: Mask | None = None
    doubtful: Mask | None = None

    def add(self, unreadable: Mask | None, doubtful: Mask | None) -> None:
        self.unreadable = either(self.unreadable, unreadable)
        self.doubtful = either(self.doubtful, doubtful)


def either(one: Mask | None, other: Mask | None) -> Mask | None:
    """Where one of two holds; None is nowhere."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


@dataclass(frozen=True, slots=True)
class _FieldNode:
    name: str
    offset: int
    """In the record, of the first one where it repeats."""
    kind: np.dtype[np.void]
    """Its bytes, as numpy calls them."""
    codec: FieldCodec
    read_cells: ReadCells

    def read(self, place: _ItemPlaces, members: dict[str, MemberColumn], doubts: _Doubts) -> None:
        cells = self.read_cells(place.raw(self.offset, self.kind))
        doubts.add(cells.unreadable, cells.doubtful)
        members[self.name] = MemberColumn(cells)


@dataclass(frozen=True, slots=True)
class _GroupNode:
    name: str
    members: Sequence[_Node]

    def read(self, place: _ItemPlaces, members: dict[str, MemberColumn], doubts: _Doubts) -> None:
        found: dict[str, MemberColumn] = {}
        for member in self.members:
            member.read(place, found, doubts)
        members[self.name] = MemberColumn(StructColumns(found))


@dataclass(frozen=True, slots=True)
class _RepeatNode:
    """A member that repeats."""

    unit: _Node
    name: str
    count: int
    stride: int

    def read(self, place: _ItemPlaces, members: dict[str, MemberColumn], doubts: _Doubts) -> None:
        found: dict[str, MemberColumn] = {}
        inner = _Doubts()
        units = _ItemPlaces(place.data, place.start, (*place.shape, self.count), (*place.strides, self.stride))
        self.unit.read(units, found, inner)
        doubts.add(self._any(inner.unreadable), self._any(inner.doubtful))
        members[self.name] = MemberColumn(RepeatedColumn(self.count, found[self.name]))

    def _any(self, mask: Mask | None) -> Mask | None:
        if mask is None:
            return None
        return np.array(mask.reshape(-1, self.count).any(axis=1), np.bool_)


@dataclass(frozen=True, slots=True)
class _Enumeration:
    """A field that says by its values whether an alternative is meant."""

    offset: int
    kind: np.dtype[np.void]
    codec: FieldCodec
    values: frozenset[Any]

    def holds(self, place: _ItemPlaces) -> Mask:
        known: dict[bytes, bool] = {}
        found: list[bool] = []
        for content in place.raw(self.offset, self.kind).tolist():
            held = known.get(content)
            if held is None:
                try:
                    held = self.codec.read(content) in self.values
                except PROBLEMS:
                    held = False
                known[content] = held
            found.append(held)
        return np.array(found, np.bool_)


@dataclass(frozen=True, slots=True)
class _AlternativeNodes:
    members: Sequence[_Node]
    enumerations: Sequence[_Enumeration]


@dataclass(frozen=True, slots=True)
class _ChoiceNode:
    """Members that lie over each other. See `groups.choice_step`, which says which of them is meant."""

    alternatives: Sequence[_AlternativeNodes]

    def read(self, place: _ItemPlaces, members: dict[str, MemberColumn], doubts: _Doubts) -> None:
        nothing = -1
        chosen = np.full(place.items, nothing)
        second_best = chosen.copy()
        readings: list[dict[str, MemberColumn]] = []
        for number, alternative in enumerate(self.alternatives):
            found: dict[str, MemberColumn] = {}
            inner = _Doubts()
            for member in alternative.members:
                member.read(place, found, inner)
            readings.append(found)
            undecided = chosen == nothing
            if inner.doubtful is not None:
                doubts.add(None, inner.doubtful & undecided)
            readable = undecided if inner.unreadable is None else undecided & ~inner.unreadable
            fitting = readable
            for enumeration in alternative.enumerations:
                fitting = fitting & enumeration.holds(place)
            chosen[fitting] = number
            second_best[readable & ~fitting & (second_best == nothing)] = number
        chosen = np.where(chosen == nothing, second_best, chosen)
        doubts.add(chosen == nothing, None)
        for number, found in enumerate(readings):
            absent = chosen != number
            for name, column in found.items():
                members[name] = MemberColumn(column.content, either(column.absent, absent))


_Node = _FieldNode | _GroupNode | _RepeatNode | _ChoiceNode


# --- from the plan -------------------------------------------------------------------------------------------


class _Placer:
    """Finds where everything lies in a record, as `layout` does."""

    def __init__(self, builder: LayoutBuilder) -> None:
        self._builder = builder
        self._fields: dict[int, _FieldNode] = {}

    def top(self, message: GroupPlan) -> tuple[list[tuple[_Node, int]], int]:
        """The members of a message with their ends, and how long a record is."""
        placed: list[tuple[_Node, int]] = []
        if message.composition is Composition.CHOICE:
            nodes, end, _ = self.members(message, 0)
            return [(node, end) for node in nodes], end
        at = 0
        for plan in message.members:
            nodes = []
            at, _ = self._member(plan, at, nodes)
            placed += [(node, at) for node in nodes]
        return placed, at

    def members(self, group: GroupPlan, at: int) -> tuple[list[_Node], int, int]:
        """What lies in a structure from an offset on, where it ends, and the widest boundary that is kept in it."""
        nodes: list[_Node] = []
        widest = 1
        if group.composition is Composition.CHOICE:
            at, widest = self._choice(group, at, nodes)
        else:
            for plan in group.members:
                at, wide = self._member(plan, at, nodes)
                widest = max(widest, wide)
        return nodes, at, widest

    def _member(self, plan: FieldPlan | GroupPlan, at: int, nodes: list[_Node]) -> tuple[int, int]:
        if not plan.name and isinstance(plan, FieldPlan) and plan.count_slot is None and plan.most is not None:
            at, boundary = self._start(plan, at)
            return at + self._width(plan) * plan.most + plan.physical.skip_after, boundary
        return self._table(plan, at, nodes) if repeats(plan) else self._once(plan, at, nodes)

    def _start(self, plan: FieldPlan | GroupPlan, at: int) -> tuple[int, int]:
        boundary = self._builder.alignment(plan.physical)
        return _aligned(at + plan.physical.skip_before, boundary), boundary

    def _width(self, plan: FieldPlan) -> int:
        size = self._builder.codec(plan).size
        if size is None:
            raise _NotFixed
        return size

    def _once(self, plan: FieldPlan | GroupPlan, at: int, nodes: list[_Node]) -> tuple[int, int]:
        at, widest = self._start(plan, at)
        if isinstance(plan, FieldPlan):
            nodes.append(self._field(plan, at))
            at += self._width(plan)
        else:
            inner, at, wide = self.members(plan, at)
            widest = max(widest, wide)
            if plan.name:
                nodes.append(_GroupNode(plan.name, inner))
            else:
                nodes += inner
        return at + plan.physical.skip_after, widest

    def _field(self, plan: FieldPlan, at: int) -> _FieldNode:
        kind, codec = _bytes(self._width(plan)), self._builder.codec(plan)
        read = cells_reader(plan.simple, plan.physical, codec, self._builder.setting)
        found = self._fields[id(plan)] = _FieldNode(plan.name, at, kind, codec, read)
        return found

    def _table(self, plan: FieldPlan | GroupPlan, at: int, nodes: list[_Node]) -> tuple[int, int]:
        if plan.count_slot is not None or plan.most is None or not plan.name:
            raise _NotFixed
        physical = plan.physical
        boundary = self._builder.alignment(physical)
        if not physical.skip_before:
            at = _aligned(at, boundary)
        unit: list[_Node] = []
        end, widest = self._once(plan, at, unit)
        stride = end - at
        if widest > 1 and (stride % widest or (physical.skip_before and boundary > 1)):
            raise _NotFixed  # The second one begins at another distance from its boundaries than the first.
        nodes.append(_RepeatNode(unit[0], plan.name, plan.most, stride))
        return at + stride * plan.most, widest

    def _choice(self, group: GroupPlan, at: int, nodes: list[_Node]) -> tuple[int, int]:
        alternatives: list[_AlternativeNodes] = []
        ends, widest = [at], 1
        for plan in group.members:
            inner: list[_Node] = []
            end, wide = self._member(plan, at, inner)
            alternatives.append(_AlternativeNodes(inner, list(self._enumerations(plan))))
            ends.append(end)
            widest = max(widest, wide)
        nodes.append(_ChoiceNode(alternatives))
        return max(ends), widest

    def _enumerations(self, plan: FieldPlan | GroupPlan) -> Iterator[_Enumeration]:
        if isinstance(plan, GroupPlan):
            if not repeats(plan) and plan.composition is not Composition.CHOICE:
                for member in plan.members:
                    yield from self._enumerations(member)
        elif (values := enumerated(plan)) is not None:
            if not plan.name:
                raise _NotFixed  # What the bytes of filler decide is not to be had from a tree.
            field = self._fields[id(plan)]
            yield _Enumeration(field.offset, field.kind, field.codec, values)


def _bytes(width: int) -> np.dtype[np.void]:
    return np.dtype((np.void, width))


def _aligned(at: int, boundary: int) -> int:
    return at + -at % boundary


def _require_single_names(group: GroupPlan) -> None:
    """Of two members of one name the tree gives the first that is there, and a table has one column."""
    known: set[str] = set()

    def see(members: Sequence[FieldPlan | GroupPlan]) -> None:
        for plan in members:
            name = plan.name[plan.name.find("}") + 1 :].lower()
            if name in known:
                raise _NotFixed
            if name:
                known.add(name)
            if isinstance(plan, GroupPlan):
                if name:
                    _require_single_names(plan)
                else:
                    see(plan.members)

    see(group.members)


@dataclass(frozen=True, slots=True)
class _Segment:
    """Neighbours in a record."""

    start: int
    end: int
    nodes: Sequence[_Node]


SEGMENT_BYTES = 512
"""Neighbours up to here are copied out of long records together, so that their fields lie near each other for
the processor's cache; a segment is longer where one member is."""


def _segments(placed: Sequence[tuple[_Node, int]]) -> list[_Segment]:
    """Cut at ends of members; each comes with its end, behind which the next one begins."""
    found: list[_Segment] = []
    start = at = 0
    nodes: list[_Node] = []
    for node, end in placed:
        if nodes and end - start > SEGMENT_BYTES:
            found.append(_Segment(start, at, nodes))
            start, nodes = at, []
        nodes.append(node)
        at = end
    return [*found, _Segment(start, at, nodes)] if nodes else found


class RecordColumns:
    """One message in one code page and encoding, as columns."""

    def __init__(self, segments: Sequence[_Segment], size: int) -> None:
        self._segments = segments
        self.size = size
        """Of each record, in bytes."""

    def read(self, bodies: Sequence[bytes]) -> ColumnBatch:
        """The columns of some records, each of which has `size` bytes."""
        data, count = b"".join(bodies), len(bodies)
        members: dict[str, MemberColumn] = {}
        doubts = _Doubts()
        for segment in self._segments:
            place = _ItemPlaces(data, 0, (count,), (self.size,))
            if len(segment.nodes) > 1 and len(self._segments) > 1:
                width = segment.end - segment.start
                place = _ItemPlaces(place.raw(segment.start, _bytes(width)), segment.start, (count,), (width,))
            for node in segment.nodes:
                node.read(place, members, doubts)
        apart = either(doubts.unreadable, doubts.doubtful)
        return ColumnBatch(StructColumns(members), np.zeros(count, np.bool_) if apart is None else apart)


def record_columns(codec: CwfCodec, ccsid: int, encoding: int) -> RecordColumns | None:
    """The columns of a codec's message; None where there are none, and each record is to be read by itself."""
    try:
        builder = codec.builder(ccsid, encoding)
        _require_single_names(codec.plan)
        placed, size = _Placer(builder).top(codec.plan)
        laid_out = builder.content(codec.plan, 0).layout.size
    except (_NotFixed, ModelInvalid, CodePageUnknown):
        return None
    # Both must come to the same, or values would be read from the wrong places.
    return RecordColumns(_segments(placed), size) if size and size == laid_out else None
