# SPDX-License-Identifier: Apache-2.0
"""Which member a tag stands for: one dictionary, and the data behind the tag where that is not enough.

Several members may share a tag. Then those with a fixed value are told apart by
it (16R:GENL and 16R:LINK), others by their enumeration or pattern. All of this
is known when the model is compiled.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from entrepot.models.tds.mnemonics import spell
from entrepot.models.tds.parts import FirstTag, Peek, Search

Shared = tuple[Peek | None, dict[str, tuple[int, ...]], tuple[tuple[int, Callable[[str], object] | None], ...]]
"""How to look at the data, members by value, and members with the test that their data must pass."""


class TagTable:
    """The tags of a structure; a member is its place in the structure."""

    __slots__ = ("fixed", "longest", "separator", "shared", "shown", "tag_length", "unique")

    def __init__(self, entries: Iterable[tuple[FirstTag, int]], separator: str, tag_length: int) -> None:
        self.separator = separator
        self.tag_length = tag_length
        by_tag: dict[str, list[tuple[FirstTag, int]]] = {}
        for first, place in entries:
            by_tag.setdefault(first.tag, []).append((first, place))
        self.unique: dict[str, int] = {}
        """Tags that say all."""
        self.shared: dict[str, Shared] = {}
        for tag, rivals in by_tag.items():
            if len({place for _, place in rivals}) == 1 and any(not first.hard for first, _ in rivals):
                self.unique[tag] = rivals[0][1]
            else:
                self.shared[tag] = _shared(rivals)
        self.fixed: dict[str, tuple[Search, dict[str, int]]] = {}
        """Tags of which the data up to the next mark say all: the shared ones that are read quickly."""
        for tag, (_, by_value, tested) in self.shared.items():
            searches = {first.search for first, _ in by_tag[tag]}
            (search, *more) = searches
            if search is not None and not more and not tested and all(len(places) == 1 for places in by_value.values()):
                self.fixed[tag] = search, {value: places[0] for value, places in by_value.items()}
        self.longest = max(map(len, by_tag), default=0) + len(separator)
        self.shown = tuple(
            tag + (separator + min(first.values) if first.hard and first.values else "")
            for tag, rivals in by_tag.items()
            for first, _ in rivals
        )

    def tag_at(self, text: str, position: int, end: int) -> tuple[str | None, int]:
        """The tag that stands there, and where its data begin."""
        separator = self.separator
        if separator:
            at = text.find(separator, position, min(end, position + self.longest))
            return (None, position) if at < 0 else (text[position:at], at + len(separator))
        data = position + self.tag_length
        return (None, position) if data > end else (text[position:data], data)

    def rivals(self, tag: str | None, text: str, data: int, end: int) -> tuple[int, ...]:
        """The members that may stand there, in the order of the model."""
        if tag is None:
            return ()
        place = self.unique.get(tag)
        if place is not None:
            return (place,)
        shared = self.shared.get(tag)
        if shared is None:
            return ()
        peek, by_value, tested = shared
        value = peek(text, data, end) if peek is not None else ""
        places = by_value.get(value, ())
        if not tested:
            return places
        return tuple(sorted({*places, *(place for place, test in tested if test is None or test(value))}))

    def recognises(self, text: str, position: int, end: int) -> bool:
        tag, data = self.tag_at(text, position, end)
        return bool(self.rivals(tag, text, data, end))

    def expected(self, tag: str | None) -> str:
        """The tags that would be known there, the most similar ones when there are many."""
        tags = list(dict.fromkeys(self.shown))
        if len(tags) > 8:
            tags = difflib.get_close_matches(tag or "", tags, 4, 0.5) or tags[:8]
            return " or ".join(map(spell, tags)) + " or others"
        return " or ".join(map(spell, tags)) or "nothing"


def _shared(rivals: list[tuple[FirstTag, int]]) -> Shared:
    by_value: dict[str, list[int]] = {}
    tested: list[tuple[int, Callable[[str], object] | None]] = []
    for first, place in rivals:
        if first.values is not None and first.peek is not None:
            for value in first.values:
                places = by_value.setdefault(value, [])
                if place not in places:
                    places.append(place)
        elif first.matches is not None and first.peek is not None:
            tested.append((place, first.matches))
        else:
            tested.append((place, None))
    peek = next((first.peek for first, _ in rivals if first.peek is not None), None)
    return peek, {value: tuple(sorted(places)) for value, places in by_value.items()}, tuple(tested)
