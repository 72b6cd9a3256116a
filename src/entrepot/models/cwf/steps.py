# SPDX-License-Identifier: Apache-2.0
"""What is done with a message, one step after the other, forwards over its bytes.

A step reads from an offset, adds elements to a list and gives the offset behind
it; or writes, taking elements from `Children` and adding bytes to a list. Most
of a message is in runs: fields side by side, unpacked by one `struct`. Only when
something is wrong is a run gone through field by field, to say where.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from entrepot.compiled import compiled
from entrepot.models.cwf.fields import FieldCodec
from entrepot.models.cwf.logical_values import as_whole, shown
from entrepot.models.cwf.sources import MISSING, Children
from entrepot.models.element_types import NAME_VALUE
from entrepot.models.tree import Element

_cwf = compiled("cwf")

Slots = list[Any]
Parse = Callable[[bytes, int, Slots, list[Element]], int]
Render = Callable[[Children, int, Slots, list[bytes]], int]

PROBLEMS = (ValueError, TypeError, ArithmeticError, struct.error)
"""What goes wrong in a reader or writer; it is told with the field's path."""


class Unreadable(Exception):
    """What is wrong with the bytes, until the path is known."""

    def __init__(self, problem: str, offset: int, name: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.offset = offset
        self.names = [name] if name else []
        """The path, from the innermost outwards."""


class Unwritable(Exception):
    """What is wrong with the tree, until the path is known."""

    def __init__(self, problem: str, name: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.names = [name] if name else []


@dataclass(frozen=True, slots=True)
class CodecStep:
    parse: Parse
    render: Render
    run: FixedFields | None = None
    """The run that it is, if it is one."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are ignored: filler, skipped bytes and those that alignment leaves."""

    size: int
    content: bytes
    """What is written."""


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """A field in a run."""

    name: str
    codec: FieldCodec
    default: Any = MISSING
    slot: int | None = None


def ends_early(offset: int, needed: int, body: bytes, name: str = "") -> Unreadable:
    left = max(len(body) - offset, 0)
    return Unreadable(f"it needs {needed} bytes, and the message has {left} left", min(offset, len(body)), name)


def read_field(codec: FieldCodec, raw: bytes, offset: int, name: str) -> Any:
    """A value, or an error that says where."""
    try:
        return codec.read(raw)
    except UnicodeDecodeError as error:
        found = raw[error.start : error.start + 4].hex().upper()
        raise Unreadable(f"X'{found}' is nothing in the code page", offset + error.start, name) from None
    except PROBLEMS as error:
        raise Unreadable(str(error), offset, name) from None


def write_field(codec: FieldCodec, value: Any, default: Any, derived: Any, name: str) -> bytes:
    """The bytes of a value, of what it must be if it is missing, or an error that says where."""
    if value is MISSING:
        value = default if derived is None else derived
        if value is MISSING:
            raise Unwritable("it is missing, and the model has no default for it", name)
    try:
        return codec.write(value)
    except UnicodeEncodeError as error:
        problem = f"the code page has no {error.object[error.start]!r} (character {error.start + 1})"
        raise Unwritable(problem, name) from None
    except PROBLEMS as error:
        raise Unwritable(str(error), name) from None


class FixedFields:
    """Fields and gaps of fixed sizes, side by side."""

    __slots__ = ("compiled", "distinct", "names", "pack", "places", "prefixes", "readers", "size", "slotted", "starts",
                 "suffix", "unpacker", "writers")  # fmt: skip

    def __init__(self, parts: list[FieldPlace | Gap], endian: str) -> None:
        self.places = [part for part in parts if isinstance(part, FieldPlace)]
        self.names = [place.name for place in self.places]
        self.distinct = len(set(self.names)) == len(self.names)
        self.slotted = [(index, place.slot) for index, place in enumerate(self.places) if place.slot is not None]
        self._lay_out(parts)
        order = ">" if endian == "big" else "<"
        self.unpacker = struct.Struct(order + self._unpacked(parts, endian))
        self.size = self.unpacker.size
        self.readers = [None if _native(place, endian) else place.codec.read for place in self.places]
        # Gaps go with the field behind them: its writer puts both down.
        codes: list[str] = []
        self.writers: list[Callable[[Any], bytes] | None] = []
        for index, place in enumerate(self.places):
            before = self.prefixes[index]
            after = self.suffix if index == len(self.places) - 1 else b""
            if not before and not after:
                native = _native(place, endian)
                codes.append(place.codec.code if native else f"{place.codec.size}s")
                self.writers.append(None if native else place.codec.write)
            else:
                codes.append(f"{len(before) + (place.codec.size or 0) + len(after)}s")
                self.writers.append(_between(before, place.codec.write, after))
        self.pack = struct.Struct(order + "".join(codes)).pack
        self.compiled = None if _cwf is None else _cwf.Run(self.names, self._fields(), self._template())

    def _fields(self) -> list[tuple[Any, ...]]:
        """The fields as the compiled form takes them."""
        fields = []
        for start, place in zip(self.starts, self.places, strict=True):
            codec = place.codec
            big = codec.endian == "big"
            fields.append((start, codec.size or 0, codec.read, codec.write, codec.code, big, codec.text))
        return fields

    def _template(self) -> bytes:
        """What lies between the fields."""
        pieces = [
            before + bytes(place.codec.size or 0) for before, place in zip(self.prefixes, self.places, strict=True)
        ]
        return b"".join(pieces) + self.suffix

    def _lay_out(self, parts: list[FieldPlace | Gap]) -> None:
        self.starts: list[int] = []
        self.prefixes: list[bytes] = []
        offset, gap = 0, b""
        for part in parts:
            if isinstance(part, Gap):
                gap += part.content
                offset += part.size
            else:
                self.prefixes.append(gap)
                self.starts.append(offset)
                gap = b""
                offset += part.codec.size or 0
        self.suffix = gap

    @staticmethod
    def _unpacked(parts: list[FieldPlace | Gap], endian: str) -> str:
        codes = [
            f"{part.size}x"
            if isinstance(part, Gap)
            else part.codec.code
            if _native(part, endian)
            else f"{part.codec.size}s"
            for part in parts
        ]
        return "".join(codes)

    def elements(self, values: tuple[Any, ...]) -> list[Element]:
        return [
            Element(name, value if read is None else read(value), NAME_VALUE)
            for name, read, value in zip(self.names, self.readers, values, strict=True)
        ]

    def values(self, body: bytes, offset: int) -> Sequence[Any]:
        """The values of all fields; raises one of PROBLEMS where something is wrong."""
        if self.compiled is not None:
            found: list[Any] | None = self.compiled.read(body, offset)
            if found is not None:
                return found
        values = self.unpacker.unpack_from(body, offset)
        return [value if read is None else read(value) for read, value in zip(self.readers, values, strict=True)]

    def named_values(self, body: bytes) -> dict[str, Any]:
        """The same by name; the names have to be distinct."""
        if self.compiled is not None:
            found: dict[str, Any] | None = self.compiled.read_named(body, 0)
            if found is not None:
                return found
        return dict(zip(self.names, self.values(body, 0), strict=True))

    def step(self) -> CodecStep:
        return CodecStep(self._parser(), self._renderer(), self)

    def _parser(self) -> Parse:
        size, slotted = self.size, self.slotted
        names, values = self.names, self.values

        def parse(body: bytes, offset: int, slots: Slots, out: list[Element]) -> int:
            try:
                made = [
                    Element(name, value, NAME_VALUE) for name, value in zip(names, values(body, offset), strict=True)
                ]
            except PROBLEMS:
                self.explain(body, offset)
                raise
            for index, slot in slotted:
                slots[slot] = made[index].value
            out += made
            return offset + size

        return parse

    def explain(self, body: bytes, offset: int) -> None:
        """Say which field is wrong.

        Raises:
            Unreadable
        """
        for start, place in zip(self.starts, self.places, strict=True):
            size = place.codec.size or 0
            if offset + start + size > len(body):
                raise ends_early(offset + start, size, body, place.name)
            read_field(place.codec, body[offset + start : offset + start + size], offset + start, place.name)
        if offset + self.size > len(body):
            raise ends_early(offset, self.size, body)

    def _renderer(self) -> Render:
        names, put = self.names, self.put

        def render(source: Children, position: int, slots: Slots, out: list[bytes]) -> int:
            return put(source.values(names), position, slots, out)

        return render

    def put(self, values: list[Any], position: int, slots: Slots, out: list[bytes]) -> int:
        """Write the values of all fields, in order."""
        for index, slot in self.slotted:
            if values[index] is not MISSING:
                slots[slot] = values[index]
        if not values:
            out.append(self.suffix)
            return position + self.size
        try:
            raw = None if self.compiled is None else self.compiled.write(values)
            if raw is not None:
                out.append(raw)
                return position + self.size
            raw = self.pack(
                *[value if write is None else write(value) for write, value in zip(self.writers, values, strict=True)]
            )
        except PROBLEMS:
            raw = self._each(values, slots)
        out.append(raw)
        return position + self.size

    def _each(self, values: list[Any], slots: Slots) -> bytes:
        raw = b""
        for place, before, value in zip(self.places, self.prefixes, values, strict=True):
            derived = None if place.slot is None else slots[place.slot]
            raw += before + write_field(place.codec, value, place.default, derived, place.name)
        return raw + self.suffix


def _native(place: FieldPlace, endian: str) -> bool:
    return bool(place.codec.code) and (place.codec.endian == endian or place.codec.size == 1)


def _between(before: bytes, write: Callable[[Any], bytes], after: bytes) -> Callable[[Any], bytes]:
    return lambda value: before + write(value) + after


# --- steps that depend on the message ----------------------------------------------------------------------------


def align_step(boundary: int) -> CodecStep:
    """Go on at the next multiple, where that cannot be known before."""

    def parse(body: bytes, offset: int, slots: Slots, out: list[Element]) -> int:
        del slots, out
        slack = -offset % boundary
        if offset + slack > len(body):
            raise ends_early(offset, slack, body)
        return offset + slack

    def render(source: Children, position: int, slots: Slots, out: list[bytes]) -> int:
        del source, slots
        slack = -position % boundary
        out.append(bytes(slack))
        return position + slack

    return CodecStep(parse, render)


@dataclass(frozen=True, slots=True)
class VaryingLength:
    """How long a field of varying length is, and how it is padded to that."""

    length_of: Callable[[bytes, int, Slots], int]
    pad_to: Callable[[bytes, Any, Slots], bytes]


def varying_step(place: FieldPlace, extent: VaryingLength) -> CodecStep:
    """A field whose length the message says."""
    name, codec = place.name, place.codec

    def parse(body: bytes, offset: int, slots: Slots, out: list[Element]) -> int:
        try:
            length = extent.length_of(body, offset, slots)
        except UnicodeDecodeError as error:
            found = body[offset + error.start : offset + error.start + 4].hex().upper()
            raise Unreadable(f"X'{found}' is nothing in the code page", offset + error.start, name) from None
        except PROBLEMS as error:
            raise Unreadable(str(error), offset, name) from None
        if offset + length > len(body):
            raise ends_early(offset, length, body, name)
        value = read_field(codec, body[offset : offset + length], offset, name)
        out.append(Element(name, value, NAME_VALUE))
        return offset + length

    def render(source: Children, position: int, slots: Slots, out: list[bytes]) -> int:
        value = source.values([name])[0]
        raw = write_field(codec, value, place.default, None, name)
        try:
            raw = extent.pad_to(raw, value, slots)
        except PROBLEMS as error:
            raise Unwritable(str(error), name) from None
        out.append(raw)
        return position + len(raw)

    return CodecStep(parse, render)


def whole_count(value: Any, what: str) -> int:
    """A count or length that some member holds.

    Raises:
        ValueError: It is none.
    """
    if value is None:
        raise ValueError(f"{what} has no value")
    count = as_whole(value)
    if count < 0:
        raise ValueError(f"{what} says {shown(value)}, which is less than none")
    return count
