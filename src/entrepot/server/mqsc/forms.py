# SPDX-License-Identifier: Apache-2.0
"""The forms that the value of an attribute can take: words, numbers, texts, names, lists, switches.

A form reads a value from a script (`parse`), gives it to people and programs
(`show`) and writes it back into a script (`write`). `expected` completes the
sentence "MAXDEPTH takes ...".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from entrepot import limits
from entrepot.engine.definitions import require_name
from entrepot.errors import InvalidName

RowValue = str | int | float | list[str]
"""A value as DISPLAY gives it."""

_PLAIN = re.compile(r"[A-Z0-9._/%]+", re.ASCII)
_PATTERN = re.compile(rf"[A-Za-z0-9._/%*?]{{1,{limits.NAME_CHARACTERS_MAX}}}", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})*", re.ASCII)


class InvalidValue(Exception):
    """A value that its form does not take, and perhaps why; the caller knows keyword and place."""


def quote(text: str) -> str:
    """The text as a script says it: bare when that reads back the same, else in quotes."""
    if _PLAIN.fullmatch(text):
        return text
    # MQ refuses a string without characters and takes a blank for it.
    return "'" + (text.replace("'", "''") or " ") + "'"


class Form:
    """A text on one line, of any length; the other forms narrow it."""

    many: ClassVar[bool] = False
    """Whether the parentheses hold a list; `parse` then reads one member."""

    @property
    def expected(self) -> str:
        return "a text"

    def parse(self, text: str) -> Any:
        """The field's value, from the text between the parentheses; Unfit when it is none."""
        return text

    def show(self, value: Any) -> RowValue:
        return str(value)

    def write(self, value: Any) -> str:
        return quote(str(self.show(value)))

    def fits(self, value: Any) -> bool:
        """Whether a script can say this value."""
        try:
            return bool(self.parse(str(self.show(value))) == value)
        except InvalidValue:
            return False


@dataclass(frozen=True, slots=True)
class Text(Form):
    """Blanks alone mean the empty text, as in MQ."""

    characters_max: int

    @property
    def expected(self) -> str:
        return f"a text of at most {self.characters_max} characters on one line"

    def parse(self, text: str) -> str:
        # A script cannot say a line break, but a definition made in Python may have one.
        if len(text) > self.characters_max or "\n" in text or "\r" in text:
            raise InvalidValue
        return text if text.strip(" ") else ""


@dataclass(frozen=True, slots=True)
class Name(Form):
    """The name of another object; blanks mean none."""

    @property
    def expected(self) -> str:
        return "a name of at most 48 characters out of A-Z a-z 0-9 . _ / %, or ' ' for none"

    def parse(self, text: str) -> str:
        if not text.strip(" "):
            return ""
        try:
            return require_name("object", text)
        except InvalidName:
            raise InvalidValue from None


@dataclass(frozen=True, slots=True)
class Names(Form):
    """A list of names."""

    many = True
    names_max: int

    @property
    def expected(self) -> str:
        return f"at most {self.names_max} names of at most 48 characters out of A-Z a-z 0-9 . _ / %"

    def parse(self, text: str) -> str:
        return Name().parse(text)

    def show(self, value: Any) -> RowValue:
        return list(value)

    def write(self, value: Any) -> str:
        return ",".join(quote(name) for name in value) or quote("")

    def fits(self, value: Any) -> bool:
        return len(value) <= self.names_max and all(name and Name().fits(name) for name in value)


@dataclass(frozen=True, slots=True)
class ProfileForm(Form):
    """A name in which `*` and `?` stand for others: a profile."""

    @property
    def expected(self) -> str:
        return "a name of at most 48 characters out of A-Z a-z 0-9 . _ / % * ?"

    def parse(self, text: str) -> str:
        if not _PATTERN.fullmatch(text):
            raise InvalidValue
        return text


@dataclass(frozen=True, slots=True)
class Texts(Form):
    """A list of texts, such as user names; none of them empty."""

    many = True
    texts_max: int
    characters_max: int

    @property
    def expected(self) -> str:
        return f"1 to {self.texts_max} texts of at most {self.characters_max} characters"

    def parse(self, text: str) -> str:
        return Text(self.characters_max).parse(text)

    def show(self, value: Any) -> RowValue:
        return list(value)

    def write(self, value: Any) -> str:
        return ",".join(quote(text) for text in value) or quote("")

    def fits(self, value: Any) -> bool:
        one = Text(self.characters_max)
        return len(value) <= self.texts_max and all(text and one.fits(text) for text in value)


@dataclass(frozen=True, slots=True)
class SeveralWords(Form):
    """A list of words out of a choice."""

    many = True
    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return f"some of {', '.join(self.words)}"

    def parse(self, text: str) -> str:
        if text.upper() not in self.words:
            raise InvalidValue
        return text.upper()

    def show(self, value: Any) -> RowValue:
        return list(value)

    def write(self, value: Any) -> str:
        return ",".join(value)

    def fits(self, value: Any) -> bool:
        return len(set(value)) == len(value) and set(self.words).issuperset(value)


@dataclass(frozen=True, slots=True)
class Integer(Form):
    lowest: int
    highest: int
    unit: int = 1
    """What one of the script's stands for: 1024 where MQ counts kilobytes and we count bytes."""

    @property
    def expected(self) -> str:
        return f"a whole number from {self.lowest} to {self.highest}"

    def parse(self, text: str) -> int:
        if not _INTEGER.fullmatch(text) or not self.lowest <= int(text) <= self.highest:
            raise InvalidValue
        return int(text) * self.unit

    def show(self, value: Any) -> RowValue:
        return int(value) // self.unit

    def fits(self, value: Any) -> bool:
        in_range = type(value) is int and self.lowest * self.unit <= value <= self.highest * self.unit
        return in_range and value % self.unit == 0


@dataclass(frozen=True, slots=True)
class NumberOrWord(Form):
    """A whole number, or a word where no number says it: DEFPRTY(5), DEFPRTY(ASPARENT)."""

    lowest: int
    highest: int
    meanings: Mapping[str, Any]
    parts: int = 1
    """How many of the script's make one of ours: 10 where MQ counts tenths of a second."""

    @property
    def expected(self) -> str:
        return f"{' or '.join(self.words)} or a whole number from {self.lowest} to {self.highest}"

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.meanings)

    def parse(self, text: str) -> Any:
        if text.upper() in self.meanings:
            return self.meanings[text.upper()]
        number = Integer(self.lowest, self.highest).parse(text)
        return number if self.parts == 1 else number / self.parts

    def show(self, value: Any) -> RowValue:
        words = (word for word, meaning in self.meanings.items() if meaning == value)
        return next(words, None) or max(self.lowest, round(value * self.parts))

    def fits(self, value: Any) -> bool:
        """Whether a script can say it, or nearly so: a fraction of its smallest part is rounded."""
        if value in self.meanings.values():
            return True
        if self.parts == 1:
            return Integer(self.lowest, self.highest).fits(value)
        return type(value) in (int, float) and 0 <= value * self.parts <= self.highest


@dataclass(frozen=True, slots=True)
class Hex(Form):
    """Bytes, in digits of either case; blanks mean none."""

    bytes_max: int

    @property
    def expected(self) -> str:
        return f"hex digits, two for each of at most {self.bytes_max} bytes"

    def parse(self, text: str) -> str:
        digits = text.strip(" ")
        if len(digits) > 2 * self.bytes_max or not _HEX.fullmatch(digits):
            raise InvalidValue
        return digits


@dataclass(frozen=True, slots=True)
class Words(Form):
    """A choice; each of MQ's words stands for a value of ours."""

    meanings: Mapping[str, Any]
    shown_only: frozenset[str] = frozenset()
    """Words that DISPLAY shows and a script cannot ask for."""

    @property
    def expected(self) -> str:
        return " or ".join(self.words)

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word for word in self.meanings if word not in self.shown_only)

    def parse(self, text: str) -> Any:
        if text.upper() not in self.words:
            raise InvalidValue
        return self.meanings[text.upper()]

    def show(self, value: Any) -> RowValue:
        return next((word for word, meaning in self.meanings.items() if meaning == value), str(value))

    def fits(self, value: Any) -> bool:
        return value in self.meanings.values()


@dataclass(frozen=True, slots=True)
class Switch(Form):
    """A keyword without parentheses, and another one for its opposite."""

    on: str
    off: str

    @property
    def expected(self) -> str:
        return f"{self.on} or {self.off}"

    def parse(self, text: str) -> bool:
        """In WHERE a switch has a value: its own words, or YES and NO."""
        meanings = {self.on: True, self.off: False, "YES": True, "NO": False}
        if text.upper() not in meanings:
            raise InvalidValue
        return meanings[text.upper()]

    def show(self, value: Any) -> RowValue:
        return "YES" if value else "NO"

    def fits(self, value: Any) -> bool:
        return isinstance(value, bool)


ENABLED = Words({"ENABLED": True, "DISABLED": False})
YES = Words({"YES": True, "NO": False})
