# SPDX-License-Identifier: Apache-2.0
"""SWIFT's notation for the content of a field, read: `:4!c//[N]3!a15d`, `[/34x]$4*35x`.

    4!c        exactly four of the set c          16x    one to sixteen of the set x
    4*35x      one to four lines of up to 35      15d    a number with its comma, 15 characters at most
    [ ]        may be absent; `[N]` is a part     $      the next line; an absent line takes its break along
    (2!n[2!n]) one part though it has several     4*(1!n/33x)    one to four lines of that form

Anything else stands for itself: `//`, `ISIN `, `,`. The sets are n digits, a
capital letters, c both, h hexadecimal digits, e a space, x, y and z the three
character sets of FIN. `4!a2!a2!c[3!c]` is one part, a BIC, and `18!c2!n`
another, a legal entity identifier. Parts of digits whose name ends in Date or
Time are days and times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from entrepot.errors import ModelInvalid

SETS = {
    "n": "0-9",
    "a": "A-Z",
    "c": "A-Z0-9",
    "h": "0-9A-F",
    "e": " ",
    "d": "0-9,",
    "x": "A-Za-z0-9/\\-?:().,'+ ",
    "y": "A-Z0-9 .,\\-()/='+:?!\"%&*<>;",
    "z": "A-Za-z0-9.,\\-()/='+:?!\"%&*<>;@#_{ ",
}

_BIC = "4!a2!a2!c[3!c]"
_LEI = "18!c2!n"
_UNIT = re.compile(r"(\d+)(?:(!)|\*(\d+))?([nachedxyz])")
_LINES_OF = re.compile(r"(\d+)\*\(")

_DAY = "(?:0[13578]|1[02])(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)(?:0[1-9]|[12][0-9]|30)|02(?:0[1-9]|1[0-9]|2[0-8])"
_LEAP = "(?:[02468][048]|[13579][26])"
_LEAP_NOT_CENTURY = "(?:0[48]|[2468][048]|[13579][26])"
_CLOCK = "(?:[01][0-9]|2[0-3])[0-5][0-9]"

WHOLES = {
    "bic": "[A-Z]{6}[A-Z0-9]{2}(?:[A-Z0-9]{3})?",
    "lei": "[A-Z0-9]{18}[0-9]{2}",
    "date8": f"(?:[0-9]{{4}}(?:{_DAY})|(?:[0-9]{{2}}{_LEAP_NOT_CENTURY}|{_LEAP}00)0229)",
    "date6": f"(?:[0-9]{{2}}(?:{_DAY})|{_LEAP}0229)",
    "date4": f"(?:{_DAY}|0229)",
    "time6": f"{_CLOCK}[0-5][0-9]",
    "time4": _CLOCK,
}
"""What is valid beyond its characters: regular expressions, by kind."""


@dataclass(frozen=True, slots=True)
class FormatUnit:
    """A part, or a piece of one: how many characters of which set."""

    name: str
    charset: str
    length: int
    exact: bool = False
    whole: str = ""
    """Key of WHOLES."""
    codes: tuple[str, ...] = ()
    no_slashes: bool = False
    """Must not begin or end with a slash or have two in a row, so that it cannot be taken for a separator."""

    def pattern(self, *, strict: bool, lazy: bool = False) -> str:
        """The regular expression; without `strict` only the shape counts, not codes, days and slashes."""
        if self.codes and (strict or not self.exact):
            codes = sorted(self.codes, key=len, reverse=True)
            return codes[0] if len(codes) == 1 else f"(?:{'|'.join(re.escape(code) for code in codes)})"
        if self.whole and (strict or self.whole in ("bic", "lei")):
            return WHOLES[self.whole]
        characters = f"[{SETS[self.charset]}]"
        if self.charset == "d":
            # The comma counts: 15d is at most fifteen characters, at least one digit before the comma.
            return rf"(?={characters}{{2,{self.length}}}(?![0-9,]))[0-9]+,[0-9]*"
        many = f"{characters}{{{self.length}}}" if self.exact else f"{characters}{{1,{self.length}}}"
        if lazy and not self.exact:
            many += "?"
        if strict and self.no_slashes:
            return rf"(?!/|[^\r]*//){many}(?<!/)"
        return many


@dataclass(frozen=True, slots=True)
class FormatLiteral:
    text: str


@dataclass(frozen=True, slots=True)
class Maybe:
    """What may be absent as a whole."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class FormatPart:
    """One part that is written with several units."""

    name: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """One to `count` lines of the same form; each line is one occurrence of the part."""

    name: str
    count: int
    items: tuple[Item, ...]


Item = FormatUnit | FormatLiteral | Maybe | FormatPart | Lines
Line = tuple[Item, ...]


def can_be_absent(line: Line) -> bool:
    """Nothing in the line has to be there."""
    return all(isinstance(item, Maybe) for item in line)


class FormatReader:
    """Reads one format; `lines` and `names` are what it found.

    Raises:
        ModelInvalid: The notation cannot be read, or has more or fewer parts than names.
    """

    def __init__(
        self,
        notation: str,
        names: Sequence[str] = (),
        codes: Mapping[str, tuple[str, ...]] | None = None,
        no_slashes: Sequence[str] = (),
    ) -> None:
        self.notation = notation
        self._given = tuple(names)
        self._codes = codes or {}
        self._no_slashes = frozenset(no_slashes)
        self._place = 0
        self.names: tuple[str, ...] = ()
        self.lines: tuple[Line, ...] = ()
        self._read()

    def _read(self) -> None:
        while True:
            self.lines += (self._items("$"),)
            if not self.notation.startswith("$", self._place - 1) or not self._place:
                break
        if self._given and len(self.names) != len(self._given):
            raise self._wrong(f"has {len(self.names)} parts, but {len(self._given)} names are given")
        unknown = (set(self._codes) | self._no_slashes) - set(self.names)
        if unknown:
            raise self._wrong(f"has no part {', '.join(sorted(unknown))}")
        if not all(self.lines):
            raise self._wrong("has an empty line")

    def _wrong(self, problem: str) -> ModelInvalid:
        return ModelInvalid("SWIFT field format", 1, self._place + 1, f"{self.notation} {problem}")

    def _name(self) -> str:
        number = len(self.names)
        if self._given and number >= len(self._given):
            raise self._wrong(f"has more parts than the {len(self._given)} names given")
        name = self._given[number] if self._given else f"Part{number + 1}"
        self.names += (name,)
        return name

    def _items(self, until: str, inside: str = "") -> Line:
        """Items up to a closing sign or the end; `inside` names the part that these are pieces of."""
        items: list[Item] = []
        notation = self.notation
        while self._place < len(notation):
            at = self._place
            sign = notation[at]
            if sign == until:
                self._place += 1
                return tuple(items)
            if sign == "[":
                self._place += 1
                items.append(self._maybe(inside))
            elif sign == "(" and not inside:
                self._place += 1
                name = self._name()
                items.append(FormatPart(name, self._items(")", name)))
            elif sign in "])($":
                raise self._wrong(f"has {sign!r} where it has no counterpart")
            elif (many := _LINES_OF.match(notation, at)) and not inside:
                self._place = many.end()
                name = self._name()
                items.append(Lines(name, int(many[1]), self._items(")", name)))
            elif unit := self._unit(inside):
                items.append(unit)
            else:
                self._place += 1
                if items and isinstance(items[-1], FormatLiteral):
                    items[-1] = FormatLiteral(items[-1].text + sign)
                else:
                    items.append(FormatLiteral(sign))
        if until != "$":
            raise self._wrong(f"lacks {until!r} at the end")
        self._place += 1
        return tuple(items)

    def _maybe(self, inside: str) -> Maybe:
        items = self._items("]", inside)
        if not items:
            raise self._wrong("has brackets with nothing inside")
        if len(items) == 1 and isinstance(items[0], FormatLiteral) and not inside:
            # `[N]` says something by being there, so it is a part.
            text = items[0].text
            items = (FormatUnit(self._name(), "x", len(text), codes=(text,)),)
        return Maybe(items)

    def _unit(self, inside: str) -> Item | None:
        for text, charset, length, whole in ((_BIC, "c", 11, "bic"), (_LEI, "c", 20, "lei")):
            if self.notation.startswith(text, self._place):
                self._place += len(text)
                return FormatUnit(inside or self._name(), charset, length, whole == "lei", whole)
        match = _UNIT.match(self.notation, self._place)
        if match is None:
            return None
        number, exact, per_line, charset = match.groups()
        length = int(per_line or number)
        if not length or not int(number) or (per_line and (charset == "d" or inside)):
            raise self._wrong(f"has {match[0]} where that says nothing")
        self._place = match.end()
        name = inside or self._name()
        whole = ""
        if charset == "n" and exact and not inside:
            kind = "date" if name.endswith("Date") else "time" if name.endswith("Time") else ""
            whole = f"{kind}{length}" if f"{kind}{length}" in WHOLES else ""
        unit = FormatUnit(
            name, charset, length, bool(exact), whole, self._codes.get(name, ()), name in self._no_slashes
        )
        return Lines(name, int(number), (unit,)) if per_line else unit
