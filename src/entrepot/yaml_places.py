# SPDX-License-Identifier: Apache-2.0
"""YAML as places in a file: every text, list and table knows where it stands.

Texts stay texts, whatever they look like: the reader of a notation knows
whether a number or a name is wanted, so `true` can be a terminal and `no` a
transaction mode. Anchors, aliases and tags are refused, because aliases make
small files that mean enormous ones; size and depth are limited too. Files that
we ship need no places; `load_plain` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

BYTES_MAX = 16 * 1024 * 1024
"""How large a file may be."""
NESTING_MAX = 50
"""How deep lists and tables may lie in each other, unless a notation allows more."""

_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written; nowhere when it was made in Python."""

    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file or "flow"
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


NOWHERE = Place()

Wrong = Callable[[Place, str, str], None]
"""Takes a mistake: its place, the problem and the advice. Reading goes on when it returns."""


@dataclass(slots=True)
class Scalar:
    place: Place
    """Of the first character of the text; without a column where line breaks were folded away."""
    text: str
    is_plain: bool
    """Neither quoted nor a block."""
    start: Place
    """Of the scalar itself: where it has a quote or the sign of a block, of that."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written there at all."""
        return self.is_plain and self.text in ("", "~", "null")


@dataclass(slots=True)
class Listing:
    place: Place
    items: list[Written] = field(default_factory=list)

    @property
    def start(self) -> Place:
        return self.place


@dataclass(slots=True)
class Table:
    place: Place
    pairs: list[tuple[Scalar, Written]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    @property
    def start(self) -> Place:
        return self.place

    def __iter__(self) -> Iterator[tuple[Scalar, Written]]:
        return iter(self.pairs)

    def get(self, key: str) -> Written | None:
        return next((value for known, value in self.pairs if known.text == key), None)


Written = Scalar | Listing | Table


def words_for(written: Written, table: str = "a table") -> str:
    """What stands there, for a complaint."""
    if isinstance(written, Scalar):
        return repr(written.text[:60]) if written.text or not written.is_plain else "nothing"
    return "a list" if isinstance(written, Listing) else table


def load_plain(text: str) -> Any:
    """The values of a file that we ship."""
    return yaml.load(text, _Loader)  # noqa: S506 - both loaders are safe ones


def read_yaml(text: str, file: str, wrong: Wrong, nesting_max: int = NESTING_MAX) -> Written | None:
    """The one document of a text, as far as it can be read; None when there is none."""
    if len(text) > BYTES_MAX:
        wrong(Place(file), f"the file has more than {BYTES_MAX} characters", "Split it.")
        return None
    try:
        return _Reading(text, file, wrong, nesting_max).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file, 1, 1)
        problem = f"this is no YAML: {error.problem or error.context}"
        wrong(place, problem, "Look at the indentation and the quotes of this line and before.")
    except yaml.YAMLError as error:
        position = getattr(error, "position", 0)
        before = text[: position if isinstance(position, int) else 0]
        place = Place(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
        wrong(place, f"this is no YAML: {getattr(error, 'reason', error)}", "")
    return None


class _Reading:
    def __init__(self, text: str, file: str, wrong: Wrong, nesting_max: int) -> None:
        self._text = text
        self._lines = text.splitlines()
        self._file = file
        self._wrong = wrong
        self._nesting_max = nesting_max
        self._open: list[Listing | Table] = []
        self._keys: list[Scalar | None] = []

    def document(self) -> Written | None:
        root: Written | None = None
        for event in yaml.parse(self._text, _Loader):
            if isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                self._open.pop()
                self._keys.pop()
                continue
            mark = event.start_mark
            assert mark is not None  # the parser gives every event its place
            place = Place(self._file, mark.line + 1, mark.column + 1)
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                self._wrong(place, "a second document begins", "A file holds one.")
                break
            written = self._written(event, place)
            if written is None:
                continue
            if self._open:
                self._attach(written)
            else:
                root = written
            if not isinstance(written, Scalar):
                if len(self._open) >= self._nesting_max:
                    self._wrong(place, f"lists and tables lie deeper than {self._nesting_max} in each other", "")
                    return None
                self._open.append(written)
                self._keys.append(None)
        return root

    def _written(self, event: yaml.Event, place: Place) -> Written | None:
        advice = "There are no anchors and aliases here; write out what they stand for."
        if isinstance(event, yaml.AliasEvent):
            self._wrong(place, f"*{event.anchor} is an alias", advice)
            return Scalar(place, "", True, place)
        if getattr(event, "anchor", None):
            self._wrong(place, f"&{getattr(event, 'anchor', '')} is an anchor", advice)
        if getattr(event, "tag", None) not in (None, "!"):
            self._wrong(place, f"{getattr(event, 'tag', '')} is a tag", "There are no tags here; take it away.")
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(self._text_place(event, place), event.value, not event.style, place)
        if isinstance(event, yaml.SequenceStartEvent):
            return Listing(place)
        return Table(place) if isinstance(event, yaml.MappingStartEvent) else None

    def _text_place(self, event: yaml.ScalarEvent, place: Place) -> Place:
        """Where the text of a scalar begins, so that a place in it is a place in the file."""
        if event.style == "|":
            first = next((line for line in event.value.split("\n") if line.strip()), "")
            below = (self._lines[number] for number in range(place.line, len(self._lines)))
            raw = next((line for line in below if line.strip()), "")
            indent = len(raw) - len(raw.lstrip(" ")) - (len(first) - len(first.lstrip(" ")))
            return Place(self._file, place.line + 1, max(indent, 0) + 1)
        if event.style == ">" or (event.end_mark is not None and event.end_mark.line >= place.line):
            return Place(self._file, place.line)
        return Place(self._file, place.line, place.column + 1) if event.style else place

    def _attach(self, written: Written) -> None:
        above = self._open[-1]
        if isinstance(above, Listing):
            above.items.append(written)
            return
        key = self._keys[-1]
        if key is None:
            if isinstance(written, Scalar):
                self._keys[-1] = written
            else:
                self._wrong(written.place, f"a key must be a word, not {words_for(written)}", "")
                self._keys[-1] = Scalar(written.place, "", True, written.place)
            return
        self._keys[-1] = None
        if key.text in above.keys:
            self._wrong(key.place, f"{key.text!r} is there twice", "The second one is not heard; take one away.")
            return
        above.keys.add(key.text)
        above.pairs.append((key, written))
