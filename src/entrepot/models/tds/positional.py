# SPDX-License-Identifier: Apache-2.0
"""Structures without tags, whose elements are known by their place: delimited, of fixed length, or by pattern.

    data1*data2**data4      data1data200data30      DT31758934information

One reader serves all of them: what differs is in front of which members a
delimiter stands, and that is decided when the model is compiled. Choices take
the alternative whose beginning is recognised, or else the first one that can be
read; what failed attempts cost is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

from entrepot.models.logical import Composition, Separation
from entrepot.models.tds.markup import stands_at
from entrepot.models.tds.occurrences import missing, read_counted, read_row, read_trimmed, write_row
from entrepot.models.tds.parts import (
    UNBOUNDED,
    Body,
    FirstName,
    Part,
    Read,
    Recognise,
    StructureContext,
    StructureSettings,
    Write,
    Writing,
)
from entrepot.models.tds.trouble import Reading, TextMismatch, Unwritten, found, step
from entrepot.models.tds.values import excerpt
from entrepot.models.tree import Element


@dataclass(slots=True)
class PositionalPlan:
    name: str
    settings: StructureSettings
    composition: Composition
    parts: list[Part]
    scope: StructureContext
    marks: frozenset[str]
    """Marks in force inside: its own and those around it."""

    def body(self) -> Body:
        parts, composition = self.parts, self.composition
        readers: list[Read] = []
        writers: list[Write] = []
        for place in range(len(parts)):
            reader, writer = self._occurrences(place)
            readers.append(reader)
            writers.append(writer)
        if composition is Composition.CHOICE:
            read, write = self._choice_reader(readers), self._choice_writer(writers)
            nullable = not parts or any(part.nullable for part in parts)
            begin = [part.recognise for part in parts]
        elif composition is Composition.UNORDERED and len(parts) > 1:
            read, write = self._unordered_reader(), self._unordered_writer()
            nullable = all(part.nullable for part in parts)
            begin = [part.recognise for part in parts]
        else:
            read, write = self._sequence_reader(readers), self._sequence_writer(writers)
            nullable = all(part.nullable for part in parts)
            reach = next((place + 1 for place, part in enumerate(parts) if not part.nullable), len(parts))
            begin = [part.recognise for part in parts[:reach]]
            if self.settings.delimiter and reach > 1:
                # An absent first member leaves its delimiter, so that the second does not stand at the beginning.
                begin = [None]
        settings = self.settings
        names: list[FirstName] = []
        for part in parts:
            names += part.names
            if composition is Composition.SEQUENCE and not part.nullable and part.fill is None:
                break
        return Body(
            read=self._enclosed(read),
            write=self._enclosed_writer(write),
            nullable=nullable and not settings.indicator and not settings.terminator,
            sized=bool(settings.terminator) or self._is_sized(),
            names=names,
            recognise=self._recogniser(begin, nullable=nullable),
            indicator=settings.indicator,
        )

    def _is_sized(self) -> bool:
        separation = self.settings.separation
        if separation is Separation.ALL_DELIMITED or not self.parts:
            return False
        return all(part.sized and part.most != UNBOUNDED for part in self.parts)

    def _recogniser(self, begin: list[Recognise | None], *, nullable: bool) -> Recognise | None:
        indicator = self.settings.indicator
        known = [one for one in begin if one is not None]
        certain = bool(known) and len(known) == len(begin)
        if not indicator and not certain:
            return None

        def recognise(text: str, position: int, end: int) -> bool:
            if indicator:
                if not text.startswith(indicator, position, end):
                    return False
                if nullable or not certain:
                    return True
                position += len(indicator)
            return any(one(text, position, end) for one in known)

        return recognise

    # --- around the members -----------------------------------------------------------------------

    def _enclosed(self, read: Read) -> Read:
        indicator, terminator, name = self.settings.indicator, self.settings.terminator, self.name
        if not indicator and not terminator:
            return read

        def read_enclosed(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
            if indicator:
                if not text.startswith(indicator, position, end):
                    raise TextMismatch(
                        position, f"{excerpt(indicator)} should begin it, not {found(text, position, end)}"
                    )
                position += len(indicator)
            position = read(text, position, end, out, reading)
            if terminator:
                if not text.startswith(terminator, position, end):
                    at, problem = position, f"{excerpt(terminator)} should end {name}"
                    if reading.stopped >= position:
                        at, problem = reading.stopped, reading.expectation()
                    raise TextMismatch(at, f"{problem}, not {found(text, at, end)}")
                position += len(terminator)
            return position

        return read_enclosed

    def _enclosed_writer(self, write: Write) -> Write:
        indicator, terminator = self.settings.indicator, self.settings.terminator
        if not indicator and not terminator:
            return write

        def write_enclosed(children: list[Element], index: int, pieces: list[str], writing: Writing) -> int:
            pieces.append(indicator)
            index = write(children, index, pieces, writing)
            pieces.append(terminator)
            return index

        return write_enclosed

    # --- how often a member is there ----------------------------------------------------------------

    def _followed(self, part: Part) -> bool:
        """Whether the structure's delimiter stands behind it."""
        separation = self.settings.separation
        return separation is Separation.ALL_DELIMITED or (
            separation is Separation.VARIABLE_DELIMITED and not part.sized
        )

    def _occurrences(self, place: int) -> tuple[Read, Write]:
        part = self.parts[place]
        delimited = self._followed(part)
        last = place == len(self.parts) - 1 or self.composition is not Composition.SEQUENCE
        between = part.repeat or (self.settings.delimiter if delimited else "")
        if not part.repeat and not delimited:
            between = ""
        if part.count_from:
            return read_counted(part, between, 0), write_row(part, between, 0)
        if part.most == 1:
            return self._single(part, delimited=delimited, last=last)
        if part.least == part.most:
            return read_counted(part, between, part.most), write_row(part, between, part.most)
        return self._variable(part, between, delimited=delimited, last=last)

    def _single(self, part: Part, *, delimited: bool, last: bool) -> tuple[Read, Write]:
        at_end = stands_at(self.marks)
        write = write_row(part, "", 0)
        if part.least or part.body is None:
            if part.body is None and not delimited and not part.least and last and self.scope.bounded:
                # An optional element at the end of a known extent may be left out.
                return read_row(part, "", lambda text, position, end: not at_end(text, position, end)), write
            if part.least == 0 and not delimited and not part.pattern:
                write = write_row(part, "", 1)
            return part.read, write
        if part.recognise is not None:
            return read_row(part, "", part.recognise), write
        if part.shared:
            return part.read, write_row(part, "", 1)
        if delimited or (last and self.scope.bounded):
            return read_row(part, "", lambda text, position, end: not at_end(text, position, end)), write
        return part.read, write_row(part, "", 1)

    def _variable(self, part: Part, between: str, *, delimited: bool, last: bool) -> tuple[Read, Write]:
        at_end = stands_at(self.marks | ({part.repeat} if part.repeat and not part.least else frozenset()))
        at_mark = stands_at(self.marks)

        def there(text: str, position: int, end: int) -> bool:
            return not at_mark(text, position, end)

        write = write_row(part, between, 0)
        if part.repeat:
            present = (
                None if part.least else (part.recognise if part.body is not None else None) or _beginning(at_end, part)
            )
            read = read_row(part, between, present)
            return (read_trimmed(read, part) if part.body is None else read), write
        if part.recognise is not None and (part.body is not None or part.pattern or len(part.values or "  ") == 1):
            return read_row(part, between, part.recognise, each=True), write
        if delimited:
            if last and self.settings.delimiter not in self.scope.marks:
                read = read_row(part, between, None if part.least else there)
                return (read_trimmed(read, part) if part.body is None else read), write
        elif last and self.scope.bounded:
            return read_row(part, between, there, each=True), write
        if part.most == UNBOUNDED:
            raise ValueError(f"nothing says how many of {part.key or 'a group'} there are")
        read = read_counted(part, between, part.most)
        return (read_trimmed(read, part) if part.body is None and delimited else read), write_row(
            part, between, part.most
        )

    # --- sequences --------------------------------------------------------------------------------

    def _before(self) -> list[bool]:
        """In front of which members the delimiter stands."""
        return [False, *(self._followed(part) for part in self.parts[:-1])][: len(self.parts)]

    def _sequence_reader(self, readers: list[Read]) -> Read:
        parts, delimiter, width = self.parts, self.settings.delimiter, len(self.settings.delimiter)
        names = [_step(part, reader) for part, reader in zip(parts, readers, strict=True)]
        steps = list(zip(readers, self._before(), strict=True))
        at_end = stands_at(self.marks)

        def read(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
            place = 0
            for reader, delimited in steps:
                if delimited:
                    if not text.startswith(delimiter, position, end):
                        break
                    position += width
                try:
                    position = reader(text, position, end, out, reading)
                except TextMismatch as trouble:
                    if names[place]:
                        trouble.steps.append(names[place])
                    raise
                place += 1
            else:
                return position
            for part in parts[place:]:
                if not part.nullable:
                    if at_end(text, position, end):
                        raise missing(part, text, position, end, 0)
                    expected = f"{excerpt(delimiter)} and {part.key or 'a group'} should be here"
                    raise TextMismatch(position, f"{expected}, not {found(text, position, end)}")
            return position

        return read

    def _sequence_writer(self, writers: list[Write]) -> Write:
        steps = list(zip(writers, self._before(), strict=True))
        delimiter = self.settings.delimiter
        suppress = self.settings.suppress and delimiter not in self.scope.marks

        def write(children: list[Element], index: int, pieces: list[str], writing: Writing) -> int:
            pending = ""
            for writer, delimited in steps:
                if delimited:
                    pending += delimiter
                if not pending:
                    index = writer(children, index, pieces, writing)
                    continue
                pieces.append(pending)
                before = len(pieces)
                index = writer(children, index, pieces, writing)
                if len(pieces) == before:
                    pieces.pop()
                else:
                    pending = ""
            if pending and not suppress:
                pieces.append(pending)
            return index

        return write

    # --- choices ----------------------------------------------------------------------------------

    def _choice_reader(self, readers: list[Read]) -> Read:
        parts = self.parts
        at_end = stands_at(self.marks)
        nullable = not parts or any(part.nullable for part in parts)
        # The alternatives that nothing but an attempt can tell are tried last.
        sure = [(part.recognise, reader, part) for part, reader in zip(parts, readers, strict=True) if part.recognise]
        unsure = [(reader, part) for part, reader in zip(parts, readers, strict=True) if part.recognise is None]
        only = len(unsure) == 1

        def read(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
            for recognise, reader, part in sure:
                if recognise(text, position, end):
                    return _named(reader, part, text, position, end, out, reading)
            if nullable and at_end(text, position, end):
                return position
            if only:
                return _named(*unsure[0], text, position, end, out, reading)
            furthest: TextMismatch | None = None
            for reader, part in unsure:
                attempt: list[Element] = []
                try:
                    position_behind = _named(reader, part, text, position, end, attempt, reading)
                except TextMismatch as trouble:
                    if trouble.final:
                        raise
                    reading.work -= 200 + trouble.position - position
                    if reading.work < 0:
                        trouble.final = True
                        trouble.problem = "its alternatives failed so often that reading on would not pay"
                        raise
                    if furthest is None or trouble.position > furthest.position:
                        furthest = trouble
                else:
                    out += attempt
                    return position_behind
            if furthest is not None:
                raise furthest
            if nullable:
                return position
            names = " or ".join(sorted({name.key for part in parts for name in part.names}))
            raise TextMismatch(position, f"one of {names} should be here, not {found(text, position, end)}")

        return read

    def _choice_writer(self, writers: list[Write]) -> Write:
        parts = self.parts
        nullable = not parts or any(part.nullable for part in parts)
        by_key: dict[str, Write] = {}
        for part, writer in zip(parts, writers, strict=True):
            for key in part.keys:
                by_key.setdefault(key, writer)

        def write(children: list[Element], index: int, pieces: list[str], writing: Writing) -> int:
            writer = by_key.get(children[index].key) if index < len(children) else None
            if writer is not None:
                return writer(children, index, pieces, writing)
            if not nullable:
                raise Unwritten(f"none of its alternatives is there: {', '.join(sorted(by_key))}")
            return index

        return write

    # --- any order --------------------------------------------------------------------------------

    def _unordered_reader(self) -> Read:
        parts, delimiter, width = self.parts, self.settings.delimiter, len(self.settings.delimiter)
        for part in parts:
            if part.recognise is None:
                raise ValueError(f"{part.key or 'a group'} cannot be told from the others in any order without a tag")
        tests = [part.recognise for part in parts]

        def read(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
            counts = [0] * len(parts)
            started = False
            while True:
                at = position
                if started and delimiter:
                    if not text.startswith(delimiter, at, end):
                        break
                    at += width
                for place, test in enumerate(tests):
                    assert test is not None
                    if counts[place] < parts[place].most and test(text, at, end):
                        break
                else:
                    break
                counts[place] += 1
                started = True
                behind = _named(parts[place].read, parts[place], text, at, end, out, reading)
                if behind == at:
                    break
                position = behind
            for part, count in zip(parts, counts, strict=True):
                if count < part.least and not part.nullable:
                    raise missing(part, text, position, end, count)
            return position

        return read

    def _unordered_writer(self) -> Write:
        parts, delimiter = self.parts, self.settings.delimiter
        by_key = {key: place for place, part in reversed(list(enumerate(parts))) for key in part.keys}

        def write(children: list[Element], index: int, pieces: list[str], writing: Writing) -> int:
            counts = [0] * len(parts)
            started = False
            while index < len(children):
                place = by_key.get(children[index].key, -1)
                if place < 0 or counts[place] >= parts[place].most:
                    break
                counts[place] += 1
                if started and delimiter:
                    pieces.append(delimiter)
                started = True
                index = parts[place].write(children, index, pieces, writing)
            for part, count in zip(parts, counts, strict=True):
                if count < part.least and not part.nullable:
                    raise Unwritten("it is missing", part.key)
            return index

        return write


def _beginning(at_end: Recognise, part: Part) -> Recognise:
    """Whether a row begins; a row that begins with an empty element has its delimiter there."""
    repeat = part.repeat

    def begins(text: str, position: int, end: int) -> bool:
        return not at_end(text, position, end) or text.startswith(repeat, position, end)

    return begins


def _named(reader: Read, part: Part, text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
    try:
        return reader(text, position, end, out, reading)
    except TextMismatch as trouble:
        name = _step(part, reader)
        if name:
            trouble.steps.append(name)
        raise


def _step(part: Part, reader: Read) -> str:
    """How a path says this member; what reads rows of it says so itself, with its number."""
    return step(part.key, 1, 1) if part.key and reader is part.read else ""
