# SPDX-License-Identifier: Apache-2.0
"""Whether a message keeps SWIFT's rules, and where it breaks them.

    sequence E1 SETPRTY (2nd), field 95P, line 61, position 13: BIC has 8 or 11 characters, found 7 ('BANKDEF')

Checked are blocks, the order and presence of fields and sequences, the format
of each field, days and times, slashes, and qualifiers: which ones, in which
options, how often. Lines and positions count from 1 and are those of the
message as text. Nearly all messages are right, so a quick walk over the tables
only says yes or no; a slow one, in mistakes.py, explains the no.
"""

from __future__ import annotations

from entrepot.errors import MessageUnreadable, MessageUnwritable, ValidationFailed
from entrepot.models.code_pages import codec_of, decode
from entrepot.models.swift.blocks import (
    TEXT_BEGINS,
    TEXT_ENDS,
    BlockMistake,
    read_head,
    read_tail,
)
from entrepot.models.swift.codec import SwiftCodec, check_type, find_text, located, missing_text
from entrepot.models.swift.mistakes import explain
from entrepot.models.swift.rules import MESSAGES
from entrepot.models.swift.tables import TOP, SequenceEntry, SequenceTable, message_table
from entrepot.models.tree import Element


def validate(source: bytes | Element, message: str = "", *, ccsid: int = 1208) -> tuple[str, ...]:
    """What is wrong with a message, in the order of its lines; nothing when it is valid.

    `source` is the message's bytes, or a tree: the MRM folder or any element whose
    children are the blocks. `message` is MT543 or another of MESSAGES; without it
    block 2 decides.
    """
    if isinstance(source, Element):
        return _validate_tree(source, message)
    try:
        text = decode(source, ccsid, "MRM", domain="MRM")
    except MessageUnreadable as error:
        return (f"offset {error.offset}: {error.problem}",)
    return _validate_text(text, message)


def require_valid(source: bytes | Element, message: str = "", *, ccsid: int = 1208) -> None:
    """
    Raises:
        ValidationFailed: The message is not valid; has every problem that was found.
    """
    problems = validate(source, message, ccsid=ccsid)
    if problems:
        raise ValidationFailed("SWIFT", problems)


def _validate_tree(source: Element, message: str) -> tuple[str, ...]:
    kind = message or f"MT{source.get('Block2', 'MessageType')}"
    if kind not in MESSAGES:
        return (_unknown(kind),)
    try:
        text = SwiftCodec(kind).render(source, 1208, 546).decode()
    except MessageUnwritable as error:
        return (f"{error.path}: {error.problem}",)
    return _validate_text(text, kind)


def _unknown(message: str) -> str:
    return f"{message} is not known; there is {', '.join(MESSAGES)}"


def _validate_text(text: str, message: str) -> tuple[str, ...]:
    begin, end = find_text(text)
    problems: list[str] = []
    try:
        if begin < 0 or end < 0:
            raise missing_text(text, begin)
        blocks = read_head(text, begin)
        message = message or f"MT{blocks[1].get('MessageType')}"
        if message not in MESSAGES:
            return (_unknown(message),)
        check_type(blocks, message)
    except BlockMistake as mistake:
        return (_located_text(mistake, text),)
    fields = text[begin + len(TEXT_BEGINS) : end].split("\r\n:")
    table = message_table(message)
    if not is_valid_text(table, fields):
        line = text.count("\n", 0, begin + len(TEXT_BEGINS)) + 1
        problems += explain(table, fields, line)
    try:
        read_tail(text, end + len(TEXT_ENDS))
    except BlockMistake as mistake:
        problems.append(_located_text(mistake, text))
    return tuple(problems)


def _located_text(mistake: BlockMistake, text: str) -> str:
    error = located(mistake, text, codec_of(1208))
    where, _, problem = error.problem.partition(": ")
    return f"{mistake.path.removeprefix('MRM.')}, {where}: {problem}"


def is_valid_text(table: SequenceTable, fields: list[str]) -> bool:
    """Whether the fields of block 4, without line ends and leading colons, keep all rules."""
    place = TOP
    quick, required = table.quick, table.required_before
    seen: dict[int, str] = {}
    """Qualifiers by place, where they are counted."""
    above: list[tuple[SequenceTable, int, dict[int, str]]] = []
    number = 0
    count = len(fields)
    while number < count:
        field = fields[number]
        tag, colon, value = field.partition(":")
        if tag in quick and colon:
            at, repeatable, fits, allowed, counted = quick[tag]
            if at > place or (repeatable and at == place):
                if required[at] > place or not fits(value):
                    return False
                if allowed is not None:
                    qualifier = value[1:5]
                    if qualifier not in allowed:
                        return False
                    if counted:
                        seen[at] = seen[at] + qualifier if at in seen else qualifier
                place = at
                number += 1
                continue
        entry: SequenceEntry | None = table.opens.get(field)
        if entry is not None:
            number += 1
        elif colon and tag not in quick:
            entry = table.fields.get(tag)
        if entry is None:
            # An end, or the first field that is none of its group's; everything else is wrong.
            if (not above or (table.end and field != table.end)) or not _is_whole(table, place, seen):
                return False
            number += bool(table.end)
            table, place, seen = above.pop()
        else:
            at = entry.place
            if required[at] > place or at < place or (at == place and not entry.repeatable):
                return False
            assert entry.table is not None
            above.append((table, at, seen))
            table, place, seen = entry.table, TOP, {}
        quick, required = table.quick, table.required_before
    while above and not table.end:
        if not _is_whole(table, place, seen):
            return False
        table, place, seen = above.pop()
    return not above and _is_whole(table, place, seen)


def _is_whole(table: SequenceTable, place: int, seen: dict[int, str]) -> bool:
    """Whether a sequence may end here."""
    if table.required_before[-1] > place:
        return False
    for at, names in seen.items():
        counted = table.counted[at]
        if names not in counted.good and not counted.fits(names):
            return False
    return True
