# SPDX-License-Identifier: Apache-2.0
"""Data description entries: level, name and clauses, up to the period."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from entrepot.errors import ModelInvalid
from entrepot.models.copybook.pictures import Picture, read_picture
from entrepot.models.copybook.text import Word
from entrepot.models.model_extent import PROBLEM_CHARACTERS_MAX

OCCURS_MAX = 999_999_999

_USAGES = {
    "DISPLAY": "display", "COMP": "binary", "COMP-4": "binary", "COMP-5": "binary", "BINARY": "binary",
    "COMP-1": "float", "COMP-2": "double", "COMP-3": "packed", "PACKED-DECIMAL": "packed", "INDEX": "index",
    "POINTER": "pointer", "FUNCTION-POINTER": "pointer", "PROCEDURE-POINTER": "wide pointer", "DISPLAY-1": "national",
    "NATIONAL": "national",
}  # fmt: skip
_USAGES |= {name.replace("COMP", "COMPUTATIONAL"): usage for name, usage in _USAGES.items() if name.startswith("COMP")}
_REFUSED_USAGES = ("COMP-X", "COMP-6", "COMP-9", "COMP-N", "COMPUTATIONAL-X", "COMPUTATIONAL-6", "OBJECT", "POINTER-32")

_ZEROS = ("ZERO", "ZEROS", "ZEROES")
_SPACES = ("SPACE", "SPACES")
_LOWS = ("LOW-VALUE", "LOW-VALUES", "NULL", "NULLS")
_FIGURATIVE = (*_ZEROS, *_SPACES, *_LOWS, "HIGH-VALUE", "HIGH-VALUES", "QUOTE", "QUOTES", "ALL")


@dataclass(frozen=True, slots=True)
class CopybookLiteral:
    """A value as it is written."""

    kind: str
    """text, number, zero, space, low, high, quote, all (repeated text) or hex."""
    text: str


@dataclass(slots=True, eq=False)
class DataItem:
    """One data item, with those below it."""

    level: int
    name: str
    """Nothing for FILLER."""
    word: Word
    """Where it stands."""
    redefines: Word | None = None
    picture: Picture | None = None
    usage: str = ""
    sign: str = ""
    occurs_least: int = 1
    occurs_most: int | None = 1
    depending: tuple[Word, ...] = ()
    """The counter's name, and the names of the groups it is in, from the inside out."""
    synchronized: bool = False
    justified: bool = False
    blank_when_zero: bool = False
    value: CopybookLiteral | None = None
    conditions: list[tuple[CopybookLiteral, CopybookLiteral | None]] = field(default_factory=list)
    """Values of the condition names (88) on it; the second is set for a range."""
    children: list[DataItem] = field(default_factory=list)

    @property
    def repeats(self) -> bool:
        return self.occurs_most != 1 or bool(self.depending)


class EntryReader:
    """Reads all entries of a copybook."""

    def __init__(self, words: list[Word], file: str) -> None:
        self._words = words
        self._file = file
        self._at = 0

    def read(self) -> list[DataItem]:
        """
        Raises:
            ModelInvalid: Says line, column and what is wrong there.
        """
        entries: list[DataItem] = []
        while self._at < len(self._words):
            entry = self._entry()
            if entry.level == 88:
                if not entries:
                    raise self._invalid(entry.word, "a condition name (88) needs an item before it")
                entries[-1].conditions += entry.conditions
            else:
                entries.append(entry)
        return entries

    # --- one entry -----------------------------------------------------------------------------------------

    def _entry(self) -> DataItem:
        level = self._next("a level number")
        self._check_level(level)
        entry = DataItem(int(level.text), "", level)
        word = self._peek()
        if word is not None and word.kind != "period" and not self._is_clause(word):
            entry.name = "" if word.upper == "FILLER" else self._name(word)
            entry.word = word
            self._at += 1
        while True:
            word = self._next(f"a period that closes {entry.name or 'FILLER'}")
            if word.kind == "period":
                break
            clause = _CLAUSES.get(word.upper) if word.kind == "word" else None
            if clause is None:
                raise self._unknown(word)
            clause(self, entry, word)
        return entry

    def _check_level(self, word: Word) -> None:
        if word.kind == "word" and word.upper in ("COPY", "EXEC", "REPLACE", "++INCLUDE", "-INC"):
            raise self._invalid(word, f"{word.upper} is not followed: put the text itself here")
        if word.kind == "word" and word.upper in ("FD", "SD", "IDENTIFICATION", "DATA", "WORKING-STORAGE", "LINKAGE"):
            raise self._invalid(word, f"{word.upper} belongs to a program: leave only the data descriptions")
        if word.kind != "number" or not word.text.isdigit():
            raise self._invalid(word, f"a level number is expected here, not {word.text}")
        level = int(word.text)
        if level == 66:
            raise self._invalid(word, "level 66 (RENAMES) is not supported: describe the area with REDEFINES")
        if level == 78:
            raise self._invalid(word, "level 78 (constants) is not supported: put the number where it is used")
        if not (1 <= level <= 49 or level in (77, 88)):
            raise self._invalid(word, f"level {level} is not from 1 to 49, 77 or 88")

    def _name(self, word: Word) -> str:
        if ":" in word.text:
            raise self._invalid(word, f"{word.text} waits for COPY REPLACING: put the name itself here")
        if word.kind != "word" or not any(character.isalpha() for character in word.text):
            raise self._invalid(word, f"{word.text} is no name")
        if len(word.text) > 128 or not word.text.replace("-", "").replace("_", "").isalnum():
            raise self._invalid(word, f"{word.text} is no name of COBOL")
        return word.text

    def _is_clause(self, word: Word) -> bool:
        # 05 PIC X(3). is filler; no item may be called by the name of a clause.
        return word.kind == "word" and word.upper in _CLAUSES

    def _redefines(self, entry: DataItem, word: Word) -> None:
        del word
        entry.redefines = self._next("the name of what is redefined")

    def _pic(self, entry: DataItem, word: Word) -> None:
        self._skip("IS")
        picture = self._next("a picture")
        if picture.kind != "picture":
            raise self._invalid(word, "a picture is expected behind this")
        try:
            entry.picture = read_picture(picture.text)
        except ValueError as error:
            raise self._invalid(picture, str(error)) from None

    def _usage(self, entry: DataItem, word: Word) -> None:
        self._skip("IS")
        usage = self._next("a usage")
        if usage.upper not in _USAGES:
            raise self._unknown(usage if usage.kind == "word" else word)
        self._bare_usage(entry, usage)

    def _bare_usage(self, entry: DataItem, word: Word) -> None:
        entry.usage = _USAGES[word.upper]
        self._skip("NATIVE")

    def _refused_usage(self, entry: DataItem, word: Word) -> None:
        del entry
        raise self._invalid(word, f"usage {word.upper} is not supported; DISPLAY, COMP, COMP-1 to COMP-5 and INDEX are")

    def _sign(self, entry: DataItem, word: Word) -> None:
        del word
        self._skip("IS")
        place = self._next("LEADING or TRAILING")
        if place.upper not in ("LEADING", "TRAILING"):
            raise self._invalid(place, "LEADING or TRAILING is expected here")
        self._bare_sign(entry, place)

    def _bare_sign(self, entry: DataItem, word: Word) -> None:
        entry.sign = word.upper.lower()
        if self._skip("SEPARATE"):
            entry.sign += " separate"
            self._skip("CHARACTER")

    def _occurs(self, entry: DataItem, word: Word) -> None:
        del word
        first = self._count()
        entry.occurs_least, entry.occurs_most = first, first
        ranged = self._skip("TO")
        if ranged:
            entry.occurs_most = None if self._skip("UNBOUNDED") else self._count()
        self._skip("TIMES")
        if self._skip("DEPENDING"):
            self._skip("ON")
            names = [self._next("the name of the counter")]
            while self._skip("OF", "IN"):
                names.append(self._next("the name of the counter's group"))
            entry.depending = tuple(names)
            entry.occurs_least = first if ranged else 0
        elif ranged:
            raise self._invalid(self._words[self._at - 1], "OCCURS n TO m needs DEPENDING ON")
        if entry.occurs_most is not None and (entry.occurs_most < entry.occurs_least or entry.occurs_most < 1):
            raise self._invalid(entry.word, f"OCCURS {first} TO {entry.occurs_most} cannot be")
        self._skip_keys()

    def _skip_keys(self) -> None:
        """ASCENDING KEY and INDEXED BY say how a program searches the table; the bytes do not show it."""
        while self._skip("ASCENDING", "DESCENDING", "INDEXED"):
            self._skip("KEY", "BY")
            self._skip("IS")
            word = self._peek()
            while word is not None and word.kind == "word" and word.upper not in _CLAUSES:
                if word.upper in ("ASCENDING", "DESCENDING", "INDEXED"):
                    break
                self._at += 1
                word = self._peek()

    def _count(self) -> int:
        word = self._next("a number of repeats")
        if word.kind != "number" or not word.text.isdigit() or int(word.text) > OCCURS_MAX:
            raise self._invalid(word, f"a number of repeats up to {OCCURS_MAX} is expected here, not {word.text}")
        return int(word.text)

    def _sync(self, entry: DataItem, word: Word) -> None:
        del word
        entry.synchronized = True
        self._skip("LEFT", "RIGHT")

    def _just(self, entry: DataItem, word: Word) -> None:
        del word
        entry.justified = True
        self._skip("RIGHT")

    def _blank(self, entry: DataItem, word: Word) -> None:
        self._skip("WHEN")
        if not self._skip(*_ZEROS):
            raise self._invalid(word, "BLANK WHEN ZERO is expected here")
        entry.blank_when_zero = True

    def _ignored(self, entry: DataItem, word: Word) -> None:
        """EXTERNAL and GLOBAL say where the item is visible, not what its bytes are."""

    def _value(self, entry: DataItem, word: Word) -> None:
        self._skip("IS", "ARE")
        first = self._literal()
        if entry.level != 88:
            entry.value = first
            return
        while True:
            last = self._literal() if self._skip("THRU", "THROUGH") else None
            entry.conditions.append((first, last))
            word_next = self._peek()
            if word_next is None or not self._starts_literal(word_next):
                break
            first = self._literal()
        if self._skip("WHEN"):
            self._skip("SET")
            self._skip("TO")
            self._skip("FALSE")
            self._skip("IS")
            self._literal()
        del word

    def _starts_literal(self, word: Word) -> bool:
        return word.kind in ("literal", "number") or (word.kind == "word" and word.upper in _FIGURATIVE)

    def _literal(self) -> CopybookLiteral:
        word = self._next("a value")
        if word.kind == "number":
            return CopybookLiteral("number", word.text)
        if word.kind == "literal":
            return self._quoted(word)
        upper = word.upper
        if upper in _ZEROS:
            return CopybookLiteral("zero", "")
        if upper in _SPACES:
            return CopybookLiteral("space", "")
        if upper in _LOWS:
            return CopybookLiteral("low", "")
        if upper in ("HIGH-VALUE", "HIGH-VALUES"):
            return CopybookLiteral("high", "")
        if upper in ("QUOTE", "QUOTES"):
            return CopybookLiteral("all", '"')
        if upper == "ALL":
            inner = self._literal()
            return CopybookLiteral("all", inner.text) if inner.kind == "text" else inner
        raise self._invalid(word, f"a value is expected here, not {word.text}")

    def _quoted(self, word: Word) -> CopybookLiteral:
        quote = word.text[-1]
        prefix, _, rest = word.text.partition(quote)
        text = rest[:-1].replace(quote * 2, quote)
        if "X" not in prefix.upper():
            return CopybookLiteral("text", text)
        try:
            return CopybookLiteral("hex", bytes.fromhex(text).hex())
        except ValueError:
            raise self._invalid(word, f"{word.text} is not hexadecimal") from None

    # --- words -----------------------------------------------------------------------------------------------

    def _peek(self) -> Word | None:
        return self._words[self._at] if self._at < len(self._words) else None

    def _next(self, wanted: str) -> Word:
        word = self._peek()
        if word is None:
            last = self._words[-1]
            raise ModelInvalid(
                self._file, last.line, last.column + len(last.text), f"the copybook ends where {wanted} is expected"
            )
        if word.kind == "period" and "period" not in wanted:
            raise self._invalid(word, f"{wanted} is expected here")
        self._at += 1
        return word

    def _skip(self, *wanted: str) -> bool:
        word = self._peek()
        if word is None or word.kind != "word" or word.upper not in wanted:
            return False
        self._at += 1
        return True

    def _unknown(self, word: Word) -> ModelInvalid:
        if word.kind == "number" and word.text.isdigit():
            return self._invalid(word, f"{word.text} is not expected here: is a period missing before it?")
        return self._invalid(word, f"{word.text} is no clause that data descriptions of messages have")

    def _invalid(self, word: Word, problem: str) -> ModelInvalid:
        return ModelInvalid(self._file, word.line, word.column, problem[:PROBLEM_CHARACTERS_MAX])


_Clause = Callable[[EntryReader, DataItem, Word], None]
_CLAUSES: dict[str, _Clause] = {
    "REDEFINES": EntryReader._redefines,
    "PIC": EntryReader._pic,
    "PICTURE": EntryReader._pic,
    "USAGE": EntryReader._usage,
    "SIGN": EntryReader._sign,
    "LEADING": EntryReader._bare_sign,
    "TRAILING": EntryReader._bare_sign,
    "OCCURS": EntryReader._occurs,
    "SYNC": EntryReader._sync,
    "SYNCHRONIZED": EntryReader._sync,
    "JUST": EntryReader._just,
    "JUSTIFIED": EntryReader._just,
    "BLANK": EntryReader._blank,
    "VALUE": EntryReader._value,
    "VALUES": EntryReader._value,
    "EXTERNAL": EntryReader._ignored,
    "GLOBAL": EntryReader._ignored,
    **dict.fromkeys(_USAGES, EntryReader._bare_usage),
    **dict.fromkeys(_REFUSED_USAGES, EntryReader._refused_usage),
}
