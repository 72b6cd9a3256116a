# SPDX-License-Identifier: Apache-2.0
"""The blocks around a message's text.

    {1:F01BANKBEBBAXXX2222123456}{2:I543BANKDEFFXXXXN}{3:{108:MUR1}}{4:
    :20:REFERENCE
    -}{5:{CHK:123456789ABC}}

Blocks 1 and 2 are parts in a row, blocks 3, 5 and S fields in braces; blocks.yaml
has their names. Blocks 3, 5 and S may be absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from entrepot.models.element_types import NAME, NAME_VALUE
from entrepot.models.swift.rules import block_rules
from entrepot.models.tree import Element

TEXT_BEGINS = "{4:\r\n:"
TEXT_ENDS = "\r\n-}"

_OUTER = re.compile(r"\{([1-5S]):((?:[^{}]|\{[^{}]*\})*)\}")
_FIELD = re.compile(r"\{([A-Z0-9]{3}):([^{}]*)\}")
_FIELDS = re.compile(r"(?:\{[A-Z0-9]{3}:[^{}]*\})*")


class BlockMistake(Exception):
    """What is wrong with a block, and where in the text."""

    def __init__(self, path: str, offset: int, problem: str) -> None:
        super().__init__(path, offset, problem)
        self.path = path
        self.offset = offset
        self.problem = problem


@dataclass(frozen=True, slots=True)
class RowForm:
    """Parts in a row."""

    name: str
    parts: tuple[tuple[str, str, bool], ...]
    """Name, regular expression, whether it may be absent."""
    whole: re.Pattern[str]


@cache
def row_forms(block: str) -> tuple[RowForm, ...]:
    """The forms that block 1 or 2 can have."""
    forms = []
    for name, rules in block_rules().items():
        if name.startswith(block) and isinstance(rules, dict):
            parts = tuple((key.rstrip("?"), pattern, key.endswith("?")) for key, pattern in rules.items())
            whole = ""
            for _, pattern, may_be_absent in reversed(parts):
                # What may be absent needs what stands before it: DeliveryMonitoring has no place without Priority.
                whole = f"(?:({pattern}){whole})?" if may_be_absent else f"({pattern}){whole}"
            forms.append(RowForm(block, parts, re.compile(whole)))
    return tuple(forms)


@cache
def field_names(block: str) -> dict[str, str]:
    """Tag to the name in the tree, in the order of writing: 108 is F108, CHK is CHK."""
    return {str(tag): f"F{tag}" if str(tag).isdigit() else str(tag) for tag in block_rules()[block]}


# --- reading ---------------------------------------------------------------------------------------


def read_head(text: str, end: int) -> list[Element]:
    """The blocks before the text."""
    return _read(text, 0, end, ("1", "2", "3"), required=("1", "2"))


def read_tail(text: str, begin: int) -> list[Element]:
    """The blocks behind the text."""
    return _read(text, begin, len(text), ("5", "S"), required=())


def _read(text: str, begin: int, end: int, numbers: tuple[str, ...], required: tuple[str, ...]) -> list[Element]:
    blocks: list[Element] = []
    seen: list[str] = []
    while begin < end:
        match = _OUTER.match(text, begin, end)
        allowed = [number for number in numbers if not seen or numbers.index(number) > numbers.index(seen[-1])]
        if match is None or match[1] not in allowed:
            wanted = " or ".join(f"{{{number}:" for number in [*allowed, *(["4"] if "1" in numbers else [])])
            found = text[begin : begin + 12]
            problem = f"a block should begin here with {wanted}" if wanted else "nothing more belongs here"
            raise BlockMistake("MRM", begin, f"{problem}, found {found!r}")
        seen.append(match[1])
        block = Element(f"Block{match[1]}", None, NAME)
        block.fill(_row(match, text) if match[1] in "12" else _fields(match, text))
        blocks.append(block)
        begin = match.end()
    for number in required:
        if number not in seen:
            raise BlockMistake(f"MRM.Block{number}", begin, f"block {number} is missing")
    return blocks


def _row(match: re.Match[str], text: str) -> Iterator[Element]:
    del text
    number, content = match.groups()
    forms = row_forms(f"Block{number}")
    for form in forms:
        if row := form.whole.fullmatch(content):
            for (name, _, _), value in zip(form.parts, row.groups(), strict=True):
                if value is not None:
                    yield Element(name, value, NAME_VALUE)
            return
    form = next((form for form in forms if re.match(form.parts[0][1], content)), forms[0])
    at, name, pattern = _where_wrong(form, content)
    path = f"MRM.Block{number}" + (f".{name}" if name else "")
    wanted = f"{name} should match {pattern}" if name else "nothing more belongs in this block"
    raise BlockMistake(path, match.start(2) + at, f"{wanted}, found {content[at:]!r}")


def _where_wrong(form: RowForm, content: str) -> tuple[int, str, str]:
    at = 0
    for name, pattern, may_be_absent in form.parts:
        part = re.compile(pattern).match(content, at)
        if part is None:
            return (at, "", "") if may_be_absent else (at, name, pattern)
        at = part.end()
    return at, "", ""


def _fields(match: re.Match[str], text: str) -> Iterator[Element]:
    number, content = match.groups()
    names = field_names(f"Block{number}")
    good = _FIELDS.match(content)
    end = good.end() if good else 0
    if end < len(content):
        problem = f"a field such as {{{next(iter(names))}:...}} should begin here, found {content[end : end + 12]!r}"
        raise BlockMistake(f"MRM.Block{number}", match.start(2) + end, problem)
    for field in _FIELD.finditer(text, match.start(2), match.end(2)):
        name = names.get(field[1])
        if name is None:
            problem = f"block {number} has no field {field[1]}; it has {', '.join(names)}"
            raise BlockMistake(f"MRM.Block{number}", field.start(1), problem)
        yield Element(name, field[2], NAME_VALUE)


# --- writing ---------------------------------------------------------------------------------------


def write_block(block: Element) -> str:
    """The text of any block but 4.

    Raises:
        ValueError: Something in it cannot be written; says what.
    """
    number = block.key[5:]
    if number in "12":
        return f"{{{number}:{_write_row(block)}}}"
    tags = {name: tag for tag, name in field_names(block.key).items()}
    texts = []
    for child in block.children:
        tag = tags.get(child.key)
        value = "" if child.value is None else child.value
        if tag is None:
            raise ValueError(f"block {number} has no field {child.key}; it has {', '.join(tags)}")
        if not isinstance(value, str) or "{" in value or "}" in value:
            raise ValueError(f"{child.key} has to be characters without braces")
        texts.append(f"{{{tag}:{value}}}")
    return f"{{{number}:{''.join(texts)}}}"


def _write_row(block: Element) -> str:
    forms = row_forms(block.key)
    direction = block.first("Direction")
    form = forms[0]
    if len(forms) > 1 and direction is not None:
        form = next((each for each in forms if each.parts[0][1] == direction.value), forms[0])
    known = [name for name, _, _ in form.parts]
    for child in block.children:
        if child.key not in known:
            raise ValueError(f"this block has no part {child.key}; it has {', '.join(known)}")
    text = ""
    for name, pattern, may_be_absent in form.parts:
        part = block.first(name)
        if part is None or part.value is None:
            if may_be_absent:
                continue
            raise ValueError(f"{name} is missing")
        if not isinstance(part.value, str) or not re.fullmatch(pattern, part.value):
            raise ValueError(f"{name} {part.value!r} does not match {pattern}")
        text += part.value
    if not form.whole.fullmatch(text):
        raise ValueError(f"{text!r} has parts without those that go before them")
    return text
