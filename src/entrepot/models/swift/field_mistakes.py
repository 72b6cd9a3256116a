# SPDX-License-Identifier: Apache-2.0
"""Where a text leaves its format, for people.

The format is walked along the text in all ways at once; the way that got
furthest says what was wanted where it stopped. Only texts that the format's
regular expression has refused come here, so speed does not matter, but the
work is bounded: parts times places times the length of a part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from entrepot.models.swift.field_formats import FormatMistake
from entrepot.models.swift.format_notation import (
    SETS,
    FormatLiteral,
    FormatPart,
    FormatUnit,
    Item,
    Line,
    Lines,
    Maybe,
    can_be_absent,
)

if TYPE_CHECKING:
    from entrepot.models.swift.field_formats import FieldFormat

_NOUNS = {
    "n": ("digit", "digits"),
    "a": ("capital letter", "capital letters"),
    "c": ("capital letter or digit", "capital letters or digits"),
    "h": ("hexadecimal digit", "hexadecimal digits"),
    "e": ("space", "spaces"),
    "d": ("digit or comma", "digits and a comma"),
    "x": ("character", "characters"),
    "y": ("character", "characters"),
    "z": ("character", "characters"),
}
_RUNS = {charset: re.compile(f"[{characters}]*") for charset, characters in SETS.items()}
_WHOLE_SAYS = {
    "date8": "is no day: YYYYMMDD",
    "date6": "is no day: YYMMDD",
    "date4": "is no day: MMDD",
    "time6": "is no time: HHMMSS",
    "time4": "is no time: HHMM",
}


def find_mistake(field: FieldFormat, text: str) -> FormatMistake:
    """The mistake of a text that `field.is_valid` refuses."""
    if not text:
        return FormatMistake("", 0, "it is empty")
    return _Walk(text).whole(field.lines)


class _Walk:
    def __init__(self, text: str) -> None:
        self.text = text
        self.reach = -1
        self.rank = -1
        self.mistake = FormatMistake("", 0, "it does not fit")
        self.maybe_at = -1
        """Where something begins that may be absent."""

    def fail(self, reach: int, rank: int, mistake: FormatMistake) -> None:
        """Remember what stopped a way, if it got further than others; at the same place the higher rank counts."""
        if reach == self.maybe_at:
            # It is not there at all, which is no mistake; what is wanted instead says more.
            rank = 0
        if (reach, rank) > (self.reach, self.rank):
            self.reach, self.rank, self.mistake = reach, rank, mistake

    def whole(self, lines: Sequence[Line]) -> FormatMistake:
        text = self.text
        here: set[int] = {0}
        """Ends of the lines so far; 0 while nothing is there yet."""
        for line in lines:
            after: set[int] = set(here) if can_be_absent(line) else set()
            for place in here:
                if not place:
                    begin = 0
                elif text.startswith("\r\n", place):
                    begin = place + 2
                    if not self.may_begin(begin):
                        continue
                else:
                    if not can_be_absent(line):
                        self.fail(place, 0, FormatMistake("", place, f"a line is missing: {_wanted(line)}"))
                    continue
                after |= {end for end in self.items(line, begin) if end > begin}
            here = after
        for place in here:
            if place < len(text):
                self.fail(place, 1, FormatMistake("", place, f"nothing more belongs here, found {_shown(text, place)}"))
        return self.mistake

    def items(self, items: Sequence[Item], begin: int) -> set[int]:
        here = {begin}
        for item in items:
            here = set().union(*(self.item(item, place) for place in here))
        return here

    def item(self, item: Item, at: int) -> set[int]:
        if isinstance(item, FormatLiteral):
            return self.literal(item.text, at)
        if isinstance(item, FormatUnit):
            return self.unit(item, at)
        if isinstance(item, Maybe):
            outside, self.maybe_at = self.maybe_at, at
            inside = self.items(item.items, at)
            self.maybe_at = outside
            return {at} | inside
        if isinstance(item, FormatPart):
            return self.items(item.items, at)
        return self.many(item, at)

    def many(self, lines: Lines, at: int) -> set[int]:
        ends: set[int] = set()
        here = {at}
        for number in range(lines.count):
            here = set().union(*(self.items(lines.items, place) for place in here))
            ends |= here
            here = {place + 2 for place in here if self.text.startswith("\r\n", place) and self.may_begin(place + 2)}
            if number == lines.count - 1:
                for place in here:
                    many = f"{lines.count} line{'s' if lines.count > 1 else ''} at most"
                    self.fail(place, 5, FormatMistake(lines.name, place, f"{lines.name} has {many}"))
        return ends

    def may_begin(self, at: int) -> bool:
        """Whether a line but the first may begin with what stands there."""
        sign = self.text[at : at + 1]
        if sign in ("-", ":"):
            self.fail(at, 6, FormatMistake("", at, f"a line must not begin with {sign!r}"))
            return False
        return True

    def literal(self, literal: str, at: int) -> set[int]:
        text = self.text
        if text.startswith(literal, at):
            return {at + len(literal)}
        matched = next((n for n in range(len(literal)) if text[at + n : at + n + 1] != literal[n]), 0)
        self.fail(at + matched, 2, FormatMistake("", at, f"{literal!r} is missing, found {_shown(text, at)}"))
        return set()

    def unit(self, unit: FormatUnit, at: int) -> set[int]:
        text = self.text
        name = unit.name
        run = _RUNS[unit.charset].match(text, at)
        stop = run.end() if run else at
        found = text[at:stop]
        if unit.codes and not unit.exact:
            return self.coded(unit, at)
        if unit.whole in ("bic", "lei"):
            return self.identifier(unit, at, found)
        if unit.charset == "d":
            return self.number(unit, at, found)
        wanted = f"{name} has {_count(unit)}"
        if not found:
            self.fail(at, 3, FormatMistake(name, at, f"{wanted}, found {_shown(text, at)}"))
            return set()
        if unit.exact and len(found) < unit.length:
            self.fail(stop, 3, FormatMistake(name, at, f"{wanted}, found {len(found)} ({found!r})"))
            return set()
        if len(found) > unit.length:
            self.fail(at + unit.length, 3, FormatMistake(name, at, f"{wanted}, found {len(found)} ({found!r})"))
        elif stop < len(text) and text[stop] != "\r":
            # What follows may still fit another way; if nothing does, this character is the trouble.
            bad = f"{name} has only {_NOUNS[unit.charset][1]}, found {text[stop]!r}"
            if unit.charset in "xyz":
                bad = f"{text[stop]!r} is not in SWIFT's character set {unit.charset}"
            self.fail(stop, 0 if unit.charset not in "xyz" else 3, FormatMistake(name, stop, bad))
        shortest = unit.length if unit.exact else 1
        return {
            at + length
            for length in range(shortest, min(unit.length, len(found)) + 1)
            if self.acceptable(unit, at, text[at : at + length])
        }

    def acceptable(self, unit: FormatUnit, at: int, value: str) -> bool:
        """Codes, days and slashes of a value whose characters are right."""
        name = unit.name
        if unit.codes and value not in unit.codes:
            codes = ", ".join(unit.codes)
            what = f"is none of {codes}" if len(unit.codes) > 1 else f"should be {codes}"
            self.fail(at + len(value), 4, FormatMistake(name, at, f"{name} {value!r} {what}"))
            return False
        if unit.whole and not re.fullmatch(unit.pattern(strict=True), value):
            self.fail(at + len(value), 4, FormatMistake(name, at, f"{name} {value!r} {_WHOLE_SAYS[unit.whole]}"))
            return False
        if unit.no_slashes and (value[0] == "/" or value[-1] == "/" or "//" in value):
            rule = f"{name} must not begin or end with '/' or have '//' inside, found {value!r}"
            self.fail(at + len(value), 4, FormatMistake(name, at, rule))
            return False
        return True

    def coded(self, unit: FormatUnit, at: int) -> set[int]:
        ends = {at + len(code) for code in unit.codes if self.text.startswith(code, at)}
        if not ends:
            wanted = f"{unit.name} is one of {', '.join(unit.codes)}" if len(unit.codes) > 1 else f"{unit.codes[0]!r}"
            self.fail(at, 3, FormatMistake(unit.name, at, f"{wanted}, found {_shown(self.text, at)}"))
        return ends

    def identifier(self, unit: FormatUnit, at: int, found: str) -> set[int]:
        if re.fullmatch(unit.pattern(strict=True), found):
            return {at + len(found)}
        reach = at + len(found)
        if unit.whole == "lei":
            problem = f"legal entity identifier has 18 letters or digits and 2 digits, found {len(found)} ({found!r})"
            self.fail(reach, 3, FormatMistake(unit.name, at, problem))
        elif len(found) not in (8, 11):
            shown = f"{len(found)} ({found!r})" if found else _shown(self.text, at)
            self.fail(reach, 3, FormatMistake(unit.name, at, f"BIC has 8 or 11 characters, found {shown}"))
        else:
            bad = next(n for n in range(6) if not found[n].isalpha())
            problem = f"BIC begins with 6 letters, found {found[bad]!r} in {found!r}"
            self.fail(reach, 3, FormatMistake(unit.name, at + bad, problem))
        return set()

    def number(self, unit: FormatUnit, at: int, found: str) -> set[int]:
        name, reach = unit.name, at + len(found)
        commas = found.count(",")
        if not found:
            problem = f"{name} has digits and a comma, found {_shown(self.text, at)}"
        elif commas != 1:
            problem = f"{name} has one comma, found {commas or 'none'} ({found!r})"
        elif found[0] == ",":
            problem = f"{name} has a digit before its comma, found {found!r}"
        elif len(found) > unit.length:
            problem = f"{name} has at most {unit.length} characters with its comma, found {len(found)} ({found!r})"
        else:
            return {reach}
        self.fail(reach, 3, FormatMistake(name, at, problem))
        return set()


def _count(unit: FormatUnit) -> str:
    one, many = _NOUNS[unit.charset]
    if unit.exact or unit.length == 1:
        return f"{unit.length} {many if unit.length > 1 else one}"
    return f"1 to {unit.length} {many}"


def _shown(text: str, at: int) -> str:
    """What stands there, for a message: to the end of the line, not too long."""
    rest = text[at:].partition("\r\n")[0]
    if not rest:
        return "the end of the line" if at < len(text) else "the end of the field"
    return repr(rest if len(rest) <= 20 else rest[:17] + "...")


def _wanted(line: Line) -> str:
    names = [item.name for item in line if not isinstance(item, FormatLiteral | Maybe)]
    return " and ".join(names) or "more"
