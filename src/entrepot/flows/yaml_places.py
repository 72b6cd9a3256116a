# SPDX-License-Identifier: Apache-2.0
"""YAML as places in a file: every text, list and table knows where it stands.

Texts stay texts, whatever they look like: whoever reads one knows whether a
number or a name is wanted, so `true` can be a terminal and `no` a transaction
mode. Anchors, aliases and tags are refused, because aliases make small files
that mean enormous ones; size and depth are limited too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from entrepot.flows.definition import Place
from entrepot.flows.nodes.node import Mistake

BYTES_MAX = 16 * 1024 * 1024
"""How large a file may be."""
NESTING_MAX = 50
"""How deep lists and tables may lie in each other."""

_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Scalar:
    place: Place
    """Of the first character of the text; without a column where line breaks were folded away."""
    text: str
    is_plain: bool
    """Neither quoted nor a block."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written there at all."""
        return self.is_plain and self.text in ("", "~", "null")


@dataclass(slots=True)
class Listing:
    place: Place
    items: list[Written] = field(default_factory=list)


@dataclass(slots=True)
class Table:
    place: Place
    pairs: list[tuple[Scalar, Written]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    def __iter__(self) -> Iterator[tuple[Scalar, Written]]:
        return iter(self.pairs)

    def get(self, key: str) -> Written | None:
        return next((value for known, value in self.pairs if known.text == key), None)


Written = Scalar | Listing | Table


def words_for(written: Written) -> str:
    """What stands there, for a complaint."""
    if isinstance(written, Scalar):
        return repr(written.text[:60]) if written.text or not written.is_plain else "nothing"
    return "a list" if isinstance(written, Listing) else "a table"


def read_yaml(text: str, file: str, mistakes: list[Mistake]) -> Written | None:
    """The one document of a text, as far as it can be read; what is wrong is added to the mistakes."""
    if len(text) > BYTES_MAX:
        mistakes.append(Mistake(file, f"the file has more than {BYTES_MAX} characters", "Split it into subflows."))
        return None
    reading = _Reading(text, file, mistakes)
    try:
        return reading.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file, 1, 1)
        problem = f"this is no YAML: {error.problem or error.context}"
        mistakes.append(Mistake(str(place), problem, "Look at the indentation and the quotes of this line and before."))
    except yaml.YAMLError as error:
        position = getattr(error, "position", 0)
        before = text[: position if isinstance(position, int) else 0]
        place = Place(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
        mistakes.append(Mistake(str(place), f"this is no YAML: {getattr(error, 'reason', error)}"))
    return None


class _Reading:
    def __init__(self, text: str, file: str, mistakes: list[Mistake]) -> None:
        self._text = text
        self._lines = text.splitlines()
        self._file = file
        self._mistakes = mistakes
        self._open: list[Listing | Table] = []
        self._keys: list[Scalar | None] = []

    def _wrong(self, place: Place, problem: str, advice: str = "") -> None:
        self._mistakes.append(Mistake(str(place), problem, advice))

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
                self._wrong(place, "a second document begins", "A file holds one flow.")
                break
            written = self._written(event, place)
            if written is None:
                continue
            if self._open:
                self._attach(written)
            else:
                root = written
            if not isinstance(written, Scalar):
                if len(self._open) >= NESTING_MAX:
                    self._wrong(place, f"lists and tables lie deeper than {NESTING_MAX} in each other")
                    return None
                self._open.append(written)
                self._keys.append(None)
        return root

    def _written(self, event: yaml.Event, place: Place) -> Written | None:
        if isinstance(event, yaml.AliasEvent):
            self._wrong(place, f"*{event.anchor} is an alias", "Write out what it stands for, or make it a subflow.")
            return Scalar(place, "", True)
        if getattr(event, "anchor", None):
            self._wrong(place, f"&{getattr(event, 'anchor', '')} is an anchor", "Flows have none; take it away.")
        if getattr(event, "tag", None) not in (None, "!"):
            self._wrong(place, f"{getattr(event, 'tag', '')} is a tag", "Flows have none; take it away.")
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(self._text_place(event, place), event.value, not event.style)
        if isinstance(event, yaml.SequenceStartEvent):
            return Listing(place)
        return Table(place) if isinstance(event, yaml.MappingStartEvent) else None

    def _text_place(self, event: yaml.ScalarEvent, place: Place) -> Place:
        """Where the text of a scalar begins, so that a place in it is a place in the file."""
        if event.style == "|":
            first = next((line for line in event.value.split("\n") if line.strip()), "")
            raw = next((line for line in self._lines[place.line :] if line.strip()), "")
            indent = len(raw) - len(raw.lstrip(" ")) - (len(first) - len(first.lstrip(" ")))
            return Place(self._file, place.line + 1, max(indent, 0) + 1)
        if event.style == ">" or (event.end_mark is not None and event.end_mark.line >= place.line):
            return Place(self._file, place.line)
        return Place(self._file, place.line, place.column + (1 if event.style else 0))

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
                self._wrong(written.place, f"a key must be a word, not {words_for(written)}")
                self._keys[-1] = Scalar(written.place, "", True)
            return
        self._keys[-1] = None
        if key.text in above.keys:
            self._wrong(key.place, f"{key.text!r} is there twice", "The second one is not heard; take one away.")
            return
        above.keys.add(key.text)
        above.pairs.append((key, written))
