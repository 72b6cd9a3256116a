# SPDX-License-Identifier: Apache-2.0
"""COBOL copybooks as message sets: each record (level 01) is a message in the format CWF1.

    01 ORDER.
       05 ORDER-ID  PIC 9(6).
       05 LINES     PIC S9(4) COMP.
       05 LINE      OCCURS 0 TO 50 DEPENDING ON LINES.
          10 PRICE  PIC S9(5)V99 COMP-3.

Names have _ for -, as in the broker's importer, so that ESQL need not quote
them. What REDEFINES lays over each other is a choice; FILLER is not seen in the
tree; VALUE is the default of what a tree leaves out. The format XML1 has no
properties and shows the same messages as XML. A copybook without level 01 is
one record, named after the file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from entrepot.errors import ModelInvalid
from entrepot.models.copybook.entries import DataItem, EntryReader
from entrepot.models.copybook.fields import CobolField, cobol_field, filler_value
from entrepot.models.copybook.text import Word, read_words
from entrepot.models.logical import (
    Composition,
    CwfField,
    CwfFormat,
    MessageModel,
    MessageSet,
    Structure,
    StructureMember,
    XmlFormat,
)

FORMAT = "CWF1"


def load_copybook(path: str | Path) -> MessageSet:
    """The messages of a copybook; the set is named after the file.

    Raises:
        ModelInvalid: The file cannot be read, or says something wrong; says where.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ModelInvalid(str(path), 0, 0, f"it cannot be read: {error.strerror}") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Comments of old copybooks have accents in whatever page their editor had; names and clauses are ASCII.
        text = raw.decode("latin-1")
    return read_copybook(text, str(path))


def read_copybook(text: str, file: str) -> MessageSet:
    """The messages of a copybook's text.

    Raises:
        ModelInvalid: It says something wrong; says where.
    """
    entries = EntryReader(read_words(text, file), file).read()
    name = Path(file).stem
    if not entries:
        raise ModelInvalid(file, 1, 1, "there is no data description in it")
    messages: dict[str, MessageModel] = {}
    for record in _records(entries, name, file):
        message = _RecordBuilder(record, file).message()
        if message.name in messages:
            raise ModelInvalid(file, record.word.line, record.word.column, f"there are two records {message.name}")
        messages[message.name] = message
    return MessageSet(name, messages, {FORMAT: CwfFormat(), "XML1": XmlFormat()}, file)


def tree_name(name: str) -> str:
    """A COBOL name as elements of the tree have it."""
    name = name.replace("-", "_")
    return f"_{name}" if name[:1].isdigit() else name


def _records(entries: list[DataItem], name: str, file: str) -> list[DataItem]:
    """Put each entry below the one it belongs to."""
    records: list[DataItem] = []
    above: list[DataItem] = []
    if entries[0].level not in (1, 77):
        word = Word("word", name, entries[0].word.line, 1)
        above = [DataItem(0, name, word)]
        records.append(above[0])
    for entry in entries:
        if entry.level in (1, 77):
            records.append(entry)
            above = [entry]
            continue
        while above and above[-1].level >= entry.level:
            above.pop()
        if not above or above[-1].level == 77:
            problem = f"level {entry.level:02} has no group above it"
            raise ModelInvalid(file, entry.word.line, entry.word.column, problem)
        siblings = above[-1].children
        if siblings and siblings[-1].level != entry.level and siblings[0].level != entry.level:
            problem = (
                f"level {entry.level:02} is beside level {siblings[0].level:02}; members of a group have one level"
            )
            raise ModelInvalid(file, entry.word.line, entry.word.column, problem)
        siblings.append(entry)
        above.append(entry)
    return records


class _RecordBuilder:
    """Makes the message of one record."""

    def __init__(self, record: DataItem, file: str) -> None:
        self._record = record
        self._file = file
        self._above: list[DataItem] = []
        self._seen: list[tuple[DataItem, tuple[DataItem, ...]]] = []
        """Elementary items so far with the groups they are in, for DEPENDING ON."""

    def message(self) -> MessageModel:
        record = self._record
        if not record.name:
            raise self._invalid(record, "a record needs a name")
        name = tree_name(record.name)
        if record.children:
            self._check_group(record)
            members, _, _ = self._members(record, record.usage, record.sign, 0)
            structure = Structure(name, tuple(members))
        else:
            # A record that is an item itself: a message with that one element.
            member, _, _ = self._elementary(record, record.usage, record.sign, 0)
            structure = Structure(name, (member,))
        return MessageModel(name, structure)

    def _members(self, group: DataItem, usage: str, sign: str, offset: int) -> tuple[list[StructureMember], int, int]:
        """The members of a group, the offset behind them as COBOL counts it, and their widest alignment."""
        members: list[StructureMember] = []
        alignment = 1
        children = group.children
        position = 0
        while position < len(children):
            first = children[position]
            overlays = _overlays(children, position)
            position += len(overlays)
            if first.redefines is not None:
                raise self._invalid(
                    first, f"{first.redefines.text} is not the item right before {first.name or 'this'}"
                )
            self._check_overlays(overlays)
            if len(overlays) == 1:
                member, offset, widest = self._member(first, usage, sign, offset)
            else:
                member, offset, widest = self._choice(overlays, usage, sign, offset)
            alignment = max(alignment, widest)
            members.append(member)
        return members, offset, alignment

    def _choice(self, overlays: list[DataItem], usage: str, sign: str, offset: int) -> tuple[StructureMember, int, int]:
        alternatives: list[StructureMember] = []
        end, alignment = offset, 1
        for entry in overlays:
            member, behind, widest = self._member(entry, usage, sign, offset)
            alternatives.append(member)
            end, alignment = max(end, behind), max(alignment, widest)
        structure = Structure("", tuple(alternatives), Composition.CHOICE)
        member = StructureMember("", structure, physical={FORMAT: CwfField("structure")}, line=overlays[0].word.line)
        return member, end, alignment

    def _member(self, entry: DataItem, usage: str, sign: str, offset: int) -> tuple[StructureMember, int, int]:
        usage, sign = entry.usage or usage, entry.sign or sign
        if not entry.children:
            return self._elementary(entry, usage, sign, offset)
        self._check_group(entry)
        count_from = self._counter(entry)
        self._above.append(entry)
        members, end, alignment = self._members(entry, usage, sign, offset)
        self._above.pop()
        size = end - offset
        # COBOL fills each occurrence up, so that the next one is synchronized like the first.
        slack = -size % alignment if entry.repeats else 0
        physical = CwfField("structure", skip_after=slack, skip_value="0x00" if slack else "", count_from=count_from)
        name = tree_name(entry.name) if entry.name else ""
        member = StructureMember(
            name,
            Structure(name, tuple(members)),
            entry.occurs_least if entry.depending else entry.occurs_most or 0,
            entry.occurs_most,
            physical={FORMAT: physical},
            line=entry.word.line,
        )
        return member, offset + (size + slack) * (entry.occurs_most or 1), alignment

    def _elementary(self, entry: DataItem, usage: str, sign: str, offset: int) -> tuple[StructureMember, int, int]:
        try:
            field: CobolField = cobol_field(entry, usage, sign)
        except ValueError as error:
            raise self._invalid(entry, str(error)) from None
        physical = replace(field.physical, count_from=self._counter(entry))
        offset += -offset % max(field.physical.alignment, 1)
        if not entry.name:
            return self._filler(entry, field, physical, offset)
        member = StructureMember(
            tree_name(entry.name),
            field.simple,
            entry.occurs_least if entry.depending else entry.occurs_most or 0,
            entry.occurs_most,
            field.default,
            {FORMAT: physical},
            entry.word.line,
        )
        self._seen.append((entry, tuple(self._above)))
        return member, offset + field.bytes * (entry.occurs_most or 1), max(field.physical.alignment, 1)

    def _filler(
        self, entry: DataItem, field: CobolField, physical: CwfField, offset: int
    ) -> tuple[StructureMember, int, int]:
        """A group that is not seen and has nothing in it but bytes to skip."""
        times = 1 if entry.depending else entry.occurs_most or 1
        value = filler_value(field)
        skipped = CwfField(
            "structure",
            alignment=physical.alignment,
            skip_after=field.bytes * times,
            skip_value=value if value.startswith("0x") else value * times,
            count_from=physical.count_from,
        )
        member = StructureMember(
            "",
            Structure("", ()),
            entry.occurs_least if entry.depending else 1,
            entry.occurs_most if entry.depending else 1,
            physical={FORMAT: skipped},
            line=entry.word.line,
        )
        return member, offset + field.bytes * (entry.occurs_most or 1), max(physical.alignment, 1)

    def _counter(self, entry: DataItem) -> str:
        if not entry.depending:
            return ""
        word, *groups = entry.depending
        wanted = [group.upper for group in reversed(groups)]
        found = [seen for seen in self._seen if seen[0].name.upper() == word.upper and _lies_in(seen[1], wanted)]
        if not found:
            problem = f"{word.text} is no item that comes before {entry.name or 'FILLER'} in the record"
            raise ModelInvalid(self._file, word.line, word.column, problem)
        counter, above = found[-1]
        if counter.picture is None or counter.picture.kind != "number" or counter.picture.decimals:
            raise ModelInvalid(self._file, word.line, word.column, f"{word.text} is no whole number")
        outer = [tree_name(group.name) for group in above if group.name and group.name.upper() in wanted]
        return ".".join((*outer, tree_name(counter.name)))

    def _check_group(self, entry: DataItem) -> None:
        if entry.picture is not None:
            raise self._invalid(
                entry, f"{entry.name or 'FILLER'} has a PICTURE and items below it: it can have only one"
            )

    def _check_overlays(self, overlays: list[DataItem]) -> None:
        for entry in overlays[1:]:
            if entry.depending:
                raise self._invalid(
                    entry, f"{entry.name or 'FILLER'} has REDEFINES and DEPENDING ON, which COBOL forbids"
                )

    def _invalid(self, entry: DataItem, problem: str) -> ModelInvalid:
        return ModelInvalid(self._file, entry.word.line, entry.word.column, problem)


def _lies_in(above: tuple[DataItem, ...], wanted: list[str]) -> bool:
    """Whether the groups named with OF are above an item, in that order."""
    names = iter([group.name.upper() for group in above])
    return all(name in names for name in wanted)


def _overlays(children: list[DataItem], position: int) -> list[DataItem]:
    """An item and those behind it that redefine it."""
    found = [children[position]]
    for entry in children[position + 1 :]:
        names = {item.name.upper() for item in found if item.name}
        if entry.redefines is None or entry.redefines.upper not in names:
            break
        found.append(entry)
    return found
