# SPDX-License-Identifier: Apache-2.0
"""SWIFT messages between bytes and tree.

    MRM ─┬ Block1 ─ ApplicationId, ServiceId, LogicalTerminal, SessionNumber, SequenceNumber
         ├ Block2 ─ Direction, MessageType, ReceiverAddress, Priority …
         ├ Block3 ─ F108 …
         ├ Block4 ─┬ GENL ─ F20C, F23G, F98A, LINK[1], LINK[2]
         │         └ TRADDET …
         └ Block5 ─ CHK …

Reading checks the structure: blocks, known fields in their order, sequences
closed. It does not look into fields and misses none, so that a message with
mistakes can still be looked at; validation.py finds those. Writing puts fields
into the order of the model.
"""

from __future__ import annotations

from itertools import pairwise

from entrepot.errors import MessageUnreadable, MessageUnwritable
from entrepot.limits import BODY_BYTES_MAX
from entrepot.models.code_pages import codec_of, decode, encode
from entrepot.models.element_types import NAME
from entrepot.models.logical import MessageSet
from entrepot.models.swift.blocks import TEXT_BEGINS, TEXT_ENDS, BlockMistake, read_head, read_tail, write_block
from entrepot.models.swift.field_elements import FieldElement, TextBlock, field_text
from entrepot.models.swift.tables import TOP, SequenceEntry, SequenceTable, message_table
from entrepot.models.tree import Element

_BLOCKS = ("Block1", "Block2", "Block3", "Block4", "Block5", "BlockS")


def compile_swift(message_set: MessageSet, message: str, format_name: str) -> SwiftCodec:
    """The codec of one message; what the set says of it is in the YAML files already."""
    del message_set, format_name
    return SwiftCodec(message)


class SwiftCodec:
    """Reads and writes one message type."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.table = message_table(message)

    # --- reading ---------------------------------------------------------------------------------

    def parse(self, body: bytes, ccsid: int, encoding: int) -> list[Element]:
        """
        Raises:
            MessageUnreadable: Says path, offset and line.
        """
        text = decode(body, ccsid, "MRM", domain="MRM", encoding=encoding)
        begin, end = find_text(text)
        try:
            if begin < 0 or end < 0:
                raise missing_text(text, begin)
            blocks = read_head(text, begin)
            check_type(blocks, self.message)
            came = text[begin + len(TEXT_BEGINS) : end]
            block4 = TextBlock(came)
            self._read_text(came.split("\r\n:"), block4, begin)
            blocks.append(block4)
            blocks += read_tail(text, end + len(TEXT_ENDS))
        except BlockMistake as mistake:
            raise located(mistake, text, codec_of(ccsid, encoding)) from None
        return blocks

    def _read_text(self, fields: list[str], block4: Element, begin: int) -> None:
        table = self.table
        parent = block4
        children: list[Element] = []
        place = TOP
        known = table.fields
        above: list[tuple[SequenceTable, Element, list[Element], int]] = []
        number = 0
        count = len(fields)
        while number < count:
            field = fields[number]
            tag, colon, value = field.partition(":")
            entry = known.get(tag)
            if entry is not None and colon and (entry.place > place or (entry.repeatable and entry.place == place)):
                place = entry.place
                inner = entry.table
                if inner is None:
                    children.append(FieldElement(entry.key, value, parent))
                    number += 1
                    continue
            elif field and field == table.end:
                parent._children = children
                table, parent, children, place = above.pop()
                known = table.fields
                number += 1
                continue
            else:
                opened = table.opens.get(field)
                if opened is not None and (opened.place > place or (opened.repeatable and opened.place == place)):
                    entry, inner = opened, opened.table
                    place = opened.place
                    number += 1
                elif not table.end and above:
                    # A group has no end of its own: the first field that is none of its fields ends it.
                    parent._children = children
                    table, parent, children, place = above.pop()
                    known = table.fields
                    continue
                else:
                    raise _misplaced(table, place, parent, fields, number, begin)
            assert inner is not None
            element = Element(entry.key, None, NAME)
            element.parent = parent
            children.append(element)
            above.append((table, parent, children, place))
            table, parent, children, place = inner, element, [], TOP
            known = table.fields
        while above and not table.end:
            parent._children = children
            table, parent, children, place = above.pop()
        if above:
            at = begin + len(TEXT_BEGINS) + sum(map(len, fields)) + 3 * (len(fields) - 1)
            raise BlockMistake(_path(parent), at, f"{table.rule.label} has no end: {table.end} is missing")
        parent._children = children

    # --- writing ---------------------------------------------------------------------------------

    def render(self, message: Element, ccsid: int, encoding: int) -> bytes:
        """
        Raises:
            MessageUnwritable: Says the path.
        """
        blocks = {}
        for child in message.children:
            if child.key not in _BLOCKS or child.key in blocks:
                problem = "is there twice" if child.key in blocks else f"is none of {', '.join(_BLOCKS)}"
                raise MessageUnwritable("MRM", f"MRM.{child.key}", problem)
            blocks[child.key] = child
        for name in ("Block1", "Block2", "Block4"):
            if name not in blocks:
                raise MessageUnwritable("MRM", f"MRM.{name}", "it is missing")
        pieces: list[str] = []
        for name in _BLOCKS:
            block = blocks.get(name)
            if block is None:
                continue
            if name == "Block4":
                if type(block) is TextBlock and block.as_it_came(message):
                    pieces += (TEXT_BEGINS, block.text, TEXT_ENDS)
                    continue
                pieces.append("{4:")
                self._write_text(self.table, block, pieces)
                pieces.append(TEXT_ENDS)
                continue
            try:
                pieces.append(write_block(block))
            except ValueError as error:
                raise MessageUnwritable("MRM", f"MRM.{name}", str(error)) from None
        if sum(map(len, pieces)) > BODY_BYTES_MAX:
            raise MessageUnwritable("MRM", "MRM.Block4", f"the message is longer than {BODY_BYTES_MAX} bytes")
        return encode("".join(pieces), ccsid, "MRM", domain="MRM", encoding=encoding)

    def _write_text(self, table: SequenceTable, sequence: Element, pieces: list[str]) -> None:
        keys = table.keys
        place = TOP
        children = sequence.children
        entries: list[SequenceEntry] = []
        in_order = True
        for child in children:
            entry = keys.get(child.key)
            if entry is None:
                problem = f"{table.rule.label} has no such field; it has {', '.join(keys)}"
                raise MessageUnwritable("MRM", child.path(), problem)
            if entry.place <= place and not (entry.repeatable and entry.place == place):
                in_order = False
            place = entry.place
            entries.append(entry)
        pairs = list(zip(entries, children, strict=True))
        if not in_order:
            pairs.sort(key=lambda pair: pair[0].place)
            for (one, _), (next_one, child) in pairwise(pairs):
                if one.place == next_one.place and not one.repeatable:
                    raise MessageUnwritable("MRM", child.path(), f"{table.rule.label} has this at most once")
        for entry, child in pairs:
            inner = entry.table
            if inner is None:
                assert entry.form is not None
                try:
                    text = field_text(child, entry.form)
                except ValueError as error:
                    raise MessageUnwritable("MRM", child.path(), str(error)) from None
                if "\n" in text and ("\r\n:" in text or TEXT_ENDS in text):
                    raise MessageUnwritable("MRM", child.path(), "a line of it begins with ':' or '-}', which ends it")
                pieces.append(f"\r\n:{entry.tag}:{text}")
            elif inner.end:
                pieces.append(f"\r\n:{entry.tag}")
                self._write_text(inner, child, pieces)
                pieces.append(f"\r\n:{inner.end}")
            else:
                self._write_text(inner, child, pieces)


# --- where the text is, and what goes wrong ---------------------------------------------------------


def find_text(text: str) -> tuple[int, int]:
    """Where block 4 begins and where its text ends; negative when that is nowhere."""
    begin = text.find(TEXT_BEGINS)
    return begin, text.find(TEXT_ENDS, begin + len(TEXT_BEGINS) - 1) if begin >= 0 else -1


def missing_text(text: str, begin: int) -> BlockMistake:
    """Why there is no block 4."""
    if begin >= 0:
        return BlockMistake("MRM.Block4", len(text), "block 4 has no end: a line with -} is missing")
    at = text.find("{4:")
    if at < 0:
        return BlockMistake("MRM.Block4", len(text), "block 4, the text, is missing")
    if text.startswith("\n", at + 3):
        return BlockMistake("MRM.Block4", at + 3, "lines end with LF alone; SWIFT's lines end with CR LF")
    found = text[at + 3 : at + 15]
    return BlockMistake("MRM.Block4", at + 3, f"a line end and ':' should begin the text, found {found!r}")


def check_type(blocks: list[Element], message: str) -> None:
    """That block 2 names the type that the message is read as."""
    type_named = blocks[1].get("MessageType")
    if f"MT{type_named}" != message:
        raise BlockMistake("MRM.Block2.MessageType", 0, f"block 2 says MT{type_named}, but it is read as {message}")


def located(mistake: BlockMistake, text: str, codec: str) -> MessageUnreadable:
    """The error with line, position and the offset in bytes."""
    before = text[: mistake.offset]
    line = before.count("\n") + 1
    position = mistake.offset - (before.rfind("\n") + 1) + 1
    problem = f"line {line}, position {position}: {mistake.problem}"
    return MessageUnreadable("MRM", mistake.path, len(before.encode(codec, "replace")), problem)


def _path(parent: Element) -> str:
    return f"MRM.{parent.path()}"


def _misplaced(
    table: SequenceTable, place: int, parent: Element, fields: list[str], number: int, begin: int
) -> BlockMistake:
    field = fields[number]
    at = begin + len(TEXT_BEGINS) + sum(len(each) + 3 for each in fields[:number]) - 1
    tag, colon, _ = field.partition(":")
    expected = " or ".join(table.expected(place))
    where = table.rule.label if table.rule.letter else f"the text of {table.rule.name}"
    shown = field if tag in ("16R", "16S") else f"field {tag}" if colon and len(tag) <= 4 else f"{field[:20]!r}"
    entry = table.fields.get(tag) or table.opens.get(field)
    if entry is None or not colon:
        problem = f"{shown} does not belong here in {where}; expected {expected}"
    elif entry.place == place:
        problem = f"{shown} is there twice in {where}"
    else:
        problem = f"{shown} comes too late in {where}; expected {expected}"
    return BlockMistake(_path(parent), at, problem)
