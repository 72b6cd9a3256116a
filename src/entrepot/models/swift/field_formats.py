# SPDX-License-Identifier: Apache-2.0
"""The format of a SWIFT field, compiled from SWIFT's own notation.

    >>> amount = FieldFormat(":4!c//[N]3!a15d", ["Qualifier", "Sign", "Currency", "Amount"])
    >>> amount.split(":SETT//NEUR1250,5")
    [('Qualifier', 'SETT'), ('Sign', 'N'), ('Currency', 'EUR'), ('Amount', '1250,5')]

A format answers four questions: has a text the shape (one regular expression),
is it valid (a second one, which knows codes, days and slashes too), what are its
parts, and where exactly does it go wrong. format_notation.py says how formats
are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from entrepot.models.swift.format_notation import (
    FormatLiteral,
    FormatPart,
    FormatReader,
    FormatUnit,
    Item,
    Line,
    Lines,
    Maybe,
    can_be_absent,
)


@dataclass(frozen=True, slots=True)
class FormatMistake:
    """Where a text leaves its format."""

    part: str
    """Name of the part; nothing for what stands between parts."""
    offset: int
    """From the beginning of the field's content."""
    problem: str


class FieldFormat:
    """The format of one field option, such as 98A."""

    __slots__ = ("codes", "has_shape", "is_valid", "lines", "no_slashes", "notation", "parts", "pattern", "units")

    def __init__(
        self,
        notation: str,
        parts: Sequence[str] = (),
        codes: Mapping[str, Sequence[str]] | None = None,
        no_slashes: Sequence[str] = (),
    ) -> None:
        """
        Raises:
            ModelInvalid: The notation cannot be read, or its parts are not those that the names are for.
        """
        self.notation = notation
        self.codes = {name: tuple(values) for name, values in (codes or {}).items()}
        self.no_slashes = tuple(no_slashes)
        reader = FormatReader(notation, parts, self.codes, self.no_slashes)
        self.lines = reader.lines
        self.parts = reader.names
        """Names of the parts, in order."""
        self.units = {unit.name: unit for line in self.lines for unit in _units(line)}
        """The parts that are one unit, or lines of one."""
        self.has_shape = re.compile(_pattern(self.lines, strict=False)).fullmatch
        self.pattern = _pattern(self.lines, strict=True)
        self.is_valid = re.compile(self.pattern).fullmatch

    def __reduce__(self) -> tuple[object, ...]:
        return FieldFormat, (self.notation, self.parts, self.codes, self.no_slashes)

    def with_qualifiers(self, qualifiers: Iterable[str]) -> FieldFormat:
        """The same format, valid only with one of these in the part Qualifier."""
        codes = {**self.codes, "Qualifier": tuple(qualifiers)}
        return FieldFormat(self.notation, self.parts, codes, self.no_slashes)

    def split(self, text: str) -> list[tuple[str, str]] | None:
        """Names and texts of the parts that are there, in order; None when the text has another shape.

        A part of several lines comes once for each line.
        """
        match = self.has_shape(text)
        if match is None:
            return None
        found: list[tuple[str, str]] = []
        for name, value in zip(self.parts, match.groups(), strict=True):
            if value is None:
                continue
            if "\r\n" in value:
                found.extend((name, line) for line in value.split("\r\n"))
            else:
                found.append((name, value))
        return found

    def join(self, values: Iterable[tuple[str, str]]) -> str:
        """The text of these parts: what `split` takes apart.

        Raises:
            ValueError: A part is missing, unknown or there too often; says which.
        """
        given: dict[str, list[str]] = {}
        for name, value in values:
            given.setdefault(name, []).append(value)
        texts = [_join(line, given) for line in self.lines]
        if given:
            name = next(iter(given))
            problem = "is there too often" if name in self.parts else f"is no part of {self.notation}"
            raise ValueError(f"{name} {problem}")
        return "\r\n".join(text for text in texts if text)

    def explain(self, text: str) -> FormatMistake | None:
        """Where the text goes wrong; None when it is valid."""
        if self.is_valid(text) is not None:
            return None
        from entrepot.models.swift.field_mistakes import find_mistake

        return find_mistake(self, text)

    def __repr__(self) -> str:
        return f"FieldFormat({self.notation!r})"


# --- the regular expression ------------------------------------------------------------------------


_NEXT_LINE = {False: r"\r\n", True: r"\r\n(?![-:])"}
"""By strictness: FIN takes a line that begins with one of these for the end of the text or the next field."""


def _pattern(lines: tuple[Line, ...], *, strict: bool) -> str:
    """One group for each part, in order; lines that may be absent have named look-aheads instead of groups."""
    text = ""
    certain = False
    before: list[str] = []
    next_line = _NEXT_LINE[strict]
    for line in lines:
        opening = line[0].items[0] if isinstance(line[0], Maybe) else line[0]
        first = re.escape(opening.text) if isinstance(opening, FormatLiteral) else ""
        items = line[0].items if len(line) == 1 and isinstance(line[0], Maybe) else line
        body = _items(items, strict=strict)
        if certain:
            lead = next_line
        elif before:
            # Nothing certain precedes: either the text begins here, and then not with what an absent
            # line would begin with, or a line is there and its break follows.
            lead = rf"(?:\A{''.join(f'(?!{start})' for start in before if start)}|(?!\A){next_line})"
        else:
            lead = ""
        if can_be_absent(line):
            text += f"(?:{lead}(?!\\r|\\Z){body})?"
            before.append(first)
        else:
            text += lead + body
            certain = True
    return text if certain else rf"(?!\Z){text}"


def _items(items: Sequence[Item], *, strict: bool, grouped: bool = True) -> str:
    text = ""
    for number, item in enumerate(items):
        if isinstance(item, FormatLiteral):
            text += re.escape(item.text)
        elif isinstance(item, FormatUnit):
            # A part of any length before something that may be absent takes as little as it can:
            # in 16x[//16x] the first two slashes end it.
            unit = item.pattern(strict=strict, lazy=grouped and number < len(items) - 1)
            text += f"({unit})" if grouped else unit
        elif isinstance(item, Maybe):
            text += f"(?:{_items(item.items, strict=strict, grouped=grouped)})?"
        elif isinstance(item, FormatPart):
            text += f"({_items(item.items, strict=strict, grouped=False)})"
        else:
            one = _items(item.items, strict=strict, grouped=False)
            text += rf"({one}(?:{_NEXT_LINE[strict]}{one}){{0,{item.count - 1}}})"
    return text


# --- writing ---------------------------------------------------------------------------------------


def _join(items: Sequence[Item], given: dict[str, list[str]]) -> str:
    text = ""
    for item in items:
        if isinstance(item, FormatLiteral):
            text += item.text
        elif isinstance(item, Maybe):
            if any(name in given for name in _names(item.items)):
                text += _join(item.items, given)
        elif isinstance(item, Lines):
            text += "\r\n".join(_take(given, item.name, item.count))
        else:
            text += _take(given, item.name, 1)[0]
    return text


def _names(items: Sequence[Item]) -> Iterable[str]:
    for item in items:
        if isinstance(item, Maybe):
            yield from _names(item.items)
        elif not isinstance(item, FormatLiteral):
            yield item.name


def _units(items: Sequence[Item]) -> Iterable[FormatUnit]:
    for item in items:
        if isinstance(item, Maybe | Lines):
            yield from _units(item.items)
        elif isinstance(item, FormatUnit):
            yield item


def _take(given: dict[str, list[str]], name: str, count: int) -> list[str]:
    values = given.pop(name, None)
    if not values:
        raise ValueError(f"{name} is missing")
    if len(values) > count:
        raise ValueError(f"{name} is there {len(values)} times, {count} at most")
    return values
