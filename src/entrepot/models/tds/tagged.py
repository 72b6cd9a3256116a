# SPDX-License-Identifier: Apache-2.0
"""Structures whose elements have tags: delimited, of fixed length, or with their length in front.

    {tag1:data1*tag22:data2}      tag11data1tag22data2000      tag1005data1

Tagged elements may come in any order. Where a tag is known at several places,
the next place in the model's order is meant; where it may also begin what
follows a nested structure, that structure takes it only in order. A structure
without a tag of its own is there when one of the tags it begins with is there.
"""

from __future__ import annotations

from dataclasses import dataclass

from entrepot.models.element_types import NAME_VALUE
from entrepot.models.logical import Composition, Separation
from entrepot.models.tds.markup import Markup
from entrepot.models.tds.parts import (
    Body,
    FirstName,
    FirstTag,
    Part,
    Peek,
    Read,
    Recognise,
    Search,
    StructureContext,
    StructureSettings,
    Write,
    Writing,
)
from entrepot.models.tds.tag_table import TagTable
from entrepot.models.tds.trouble import Reading, TextMismatch, Unwritten, found, step
from entrepot.models.tds.values import excerpt
from entrepot.models.tree import Element

Step = tuple[Read, bool, str, Search | None]
"""How to read a member: its reader, whether its tag is already read, and what makes a string of it at once."""


@dataclass(slots=True)
class TaggedPlan:
    """What reading and writing of one tagged structure share."""

    name: str
    settings: StructureSettings
    composition: Composition
    parts: list[Part]
    scope: StructureContext
    markup: Markup
    """The marks in force inside."""

    def body(self) -> Body:
        settings, parts = self.settings, self.parts
        firsts = [first_tags(part, settings, self.markup) for part in parts]
        table = TagTable(
            ((first, place) for place, tags in enumerate(firsts) for first in tags or ()), *settings.tagging
        )
        others = [
            (part.recognise, place)
            for place, part in enumerate(parts)
            if firsts[place] is None and part.recognise is not None
        ]
        choice = self.composition is Composition.CHOICE
        some = any if choice and parts else all
        nullable = some(part.nullable for part in parts)
        # How many members a beginning may have to look at.
        reach = len(parts)
        if self.composition is Composition.SEQUENCE:
            reach = next((place + 1 for place, part in enumerate(parts) if not part.nullable), reach)
        begin = TagTable(
            ((first, place) for place, tags in enumerate(firsts[:reach]) for first in tags or ()), *settings.tagging
        )
        indicator, terminator = settings.indicator, settings.terminator
        plain = not indicator and all(tags is not None for tags in firsts[:reach])
        names: list[FirstName] = []
        for part in parts:
            names += part.names
            if self.composition is Composition.SEQUENCE and not part.nullable and part.fill is None:
                break
        return Body(
            read=self._reader(table, others),
            write=self._writer(),
            nullable=nullable and not indicator and not terminator,
            sized=bool(terminator) or settings.separation is not Separation.TAGGED_DELIMITED,
            names=names,
            tags=[first for tags in firsts[:reach] for first in tags or ()] if plain else None,
            tagging=settings.tagging,
            recognise=self._recogniser(begin, others, reach, nullable=nullable),
            indicator=indicator,
            options=self._options(table) if choice and plain and not terminator else None,
        )

    def _options(self, table: TagTable) -> dict[str, Part] | None:
        parts = self.parts
        if self.settings.separation is Separation.TAGGED_ENCODED_LENGTH or len(table.unique) != len(parts):
            return None
        if any(part.body is not None or part.most != 1 for part in parts):
            return None
        return {part.tag: part for part in parts}

    def _named_indicators(self, others: list[tuple[Recognise, int]]) -> list[tuple[str, Recognise | None, int]]:
        """Members that have no tag: what they begin with, and a closer look where that is not theirs alone."""
        begins: list[tuple[str, Recognise | None, int]] = []
        indicators = [part.body.indicator if part.body is not None else "" for part in self.parts]
        for recognise, place in others:
            mine = indicators[place]
            rivals = [other for at, other in enumerate(indicators) if at != place and other]
            alone = mine and not any(mine.startswith(other) or other.startswith(mine) for other in rivals)
            begins.append((mine, None if alone else recognise, place))
        return begins

    def _recogniser(
        self, begin: TagTable, others: list[tuple[Recognise, int]], reach: int, *, nullable: bool
    ) -> Recognise:
        indicator = self.settings.indicator
        early = [recognise for recognise, place in others if place < reach]

        def recognise(text: str, position: int, end: int) -> bool:
            if indicator:
                if not text.startswith(indicator, position, end):
                    return False
                if nullable:
                    return True
                position += len(indicator)
            return begin.recognises(text, position, end) or any(one(text, position, end) for one in early)

        return recognise

    # --- reading ----------------------------------------------------------------------------------

    def _reader(self, table: TagTable, others: list[tuple[Recognise, int]]) -> Read:
        settings, parts = self.settings, self.parts
        indicator, terminator, delimiter = settings.indicator, settings.terminator, settings.delimiter
        separator, tag_length, longest = settings.separator, settings.tag_length, table.longest
        delimiter_width, separator_width = len(delimiter), len(separator)
        size = len(parts)
        most = [part.most for part in parts]
        steps = [self._step(part) for part in parts]
        options = [self._steps_of(part) for part in parts]
        needed = [(place, part.least) for place, part in enumerate(parts) if part.least and not part.nullable]
        choice = self.composition is Composition.CHOICE
        ordered = self.composition is Composition.SEQUENCE
        follow = self.scope.follow_tags
        known, fixed = table.unique, table.fixed
        begins = self._named_indicators(others)
        slow = bool(others) or len(table.shared) > len(fixed)
        # Tags that may also stand behind this structure are its own only in order.
        strict = follow if ordered else frozenset()
        nullable = not needed if not choice else any(part.nullable for part in parts)

        def pick(text: str, at: int, data: int, end: int, tag: str | None, current: int, counts: list[int]) -> int:
            """The member that stands at `at`; -1 when none does."""
            behind = -1
            for place in table.rivals(tag, text, data, end):
                if counts[place] < most[place]:
                    if not ordered or place >= current:
                        return place
                    if behind < 0:
                        behind = place
            if behind >= 0 and tag not in follow:
                return behind
            behind = -1
            for indicator_of, recognise, place in begins:
                if counts[place] < most[place] and text.startswith(indicator_of, at, end):
                    if recognise is not None and not recognise(text, at, end):
                        continue
                    if not ordered or place >= current:
                        return place
                    if behind < 0:
                        behind = place
            return behind

        def option_key(place: int, tag: str | None) -> str:
            body = parts[place].body
            return body.options[tag].key if body and body.options and tag is not None else ""

        def read(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
            if indicator:
                if not text.startswith(indicator, position, end):
                    raise TextMismatch(
                        position, f"{excerpt(indicator)} should begin it, not {found(text, position, end)}"
                    )
                position += len(indicator)
            counts = [0] * size
            current = -1
            tag: str | None
            while True:
                at = position
                if current >= 0 and delimiter:
                    if not text.startswith(delimiter, at, end):
                        break
                    at += delimiter_width
                if separator:
                    stop = text.find(separator, at, at + longest)
                    data = stop + separator_width
                else:
                    stop = data = at + tag_length
                tag = text[at:stop] if data <= end and stop >= 0 else None
                place = known.get(tag, -1)  # type: ignore[arg-type]
                if place < 0:
                    values = fixed.get(tag)  # type: ignore[arg-type]
                    if values is not None:
                        match = values[0](text, data, end)
                        place = values[1].get(text[data : match.start() if match else end], -1)
                    elif slow:
                        place = pick(text, at, data, end, tag, current, counts)
                if (
                    place < 0
                    or counts[place] >= most[place]
                    or (place < current and (choice or tag in strict))
                    or (choice and -1 < current < place)
                ):
                    if at < end and (at > reading.stopped or not reading.full):
                        reading.stopped = at
                        reading.expected = (self._stopped, table, tag, counts)
                        reading.full = tag in table.unique
                    break
                counts[place] += 1
                current = place
                choices = options[place]
                reader, has_tag, verbatim, search = steps[place] if choices is None else choices[tag]  # type: ignore[index]
                if verbatim:
                    # Most elements are strings; a call for each of them would cost a fifth of the time.
                    match = search(text, data, end)  # type: ignore[misc]
                    position = match.start() if match else end
                    if position > data:
                        out.append(Element(verbatim, text[data:position], NAME_VALUE))
                        continue
                try:
                    position = reader(text, data if has_tag else at, end, out, reading)
                except TextMismatch as trouble:
                    key = parts[place].key if choices is None else option_key(place, tag)
                    if key:
                        trouble.steps.append(step(key, counts[place], most[place] if choices is None else 1))
                    raise
            if terminator:
                if not text.startswith(terminator, position, end):
                    raise self._unended(text, position, end, reading)
                position += len(terminator)
            if choice:
                if current < 0 and not nullable:
                    raise TextMismatch(position, f"one of {table.expected(None)} should be here")
                needed_now = [(current, parts[current].least)] if current >= 0 else []
            else:
                needed_now = needed
            for place, least in needed_now:
                if counts[place] < least:
                    raise self._missing(parts[place], counts[place], text, position, end, reading)
            return position

        return read

    def _step(self, part: Part) -> Step:
        if not part.tag:
            return part.read, False, "", None
        return self._data_reader(part), True, part.key if part.verbatim else "", part.search

    def _steps_of(self, part: Part) -> dict[str, Step] | None:
        """A choice between elements is read here, where their tag is known already."""
        body = part.body
        if body is None or body.options is None or part.tag or part.key or body.tagging != self.settings.tagging:
            return None
        return {tag: self._step(option) for tag, option in body.options.items()}

    def _data_reader(self, part: Part) -> Read:
        """What stands behind the tag of an element."""
        if self.settings.separation is not Separation.TAGGED_ENCODED_LENGTH:
            return part.read
        width, extra, read = self.settings.encoded_length, self.settings.encoded_extra, part.read

        def read_encoded(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
            start = position + width
            length = encoded_length(text, position, end, width, extra)
            stop = start + length
            if stop > end:
                raise TextMismatch(position, f"its length says {length} characters, but only {end - start} are left")
            at = read(text, start, stop, out, reading)
            if at != stop:
                raise TextMismatch(at, f"{found(text, at, stop)} is left over before the end that its length says")
            return stop

        return read_encoded

    def _stopped(self, table: TagTable, tag: str | None, counts: list[int]) -> str:
        known = table.unique.get(tag) if tag is not None else None
        if known is not None and counts[known] >= self.parts[known].most:
            part = self.parts[known]
            return f"{part.key or 'the group'} may be here {part.most} time{'s' if part.most > 1 else ''} at most"
        return f"{self.name} expects {table.expected(tag)}"

    def _unended(self, text: str, position: int, end: int, reading: Reading) -> TextMismatch:
        if reading.stopped >= position:
            return TextMismatch(reading.stopped, f"{reading.expectation()}, not {found(text, reading.stopped, end)}")
        terminator = excerpt(self.settings.terminator)
        return TextMismatch(position, f"{terminator} should end {self.name}, not {found(text, position, end)}")

    def _missing(self, part: Part, count: int, text: str, position: int, end: int, reading: Reading) -> TextMismatch:
        tag = f" (tag {excerpt(part.tag)})" if part.tag else ""
        name = part.key or " or ".join(sorted({first.key for first in part.names}))
        problem = f"{name}{tag} is missing"
        if count:
            problem = f"{count} of {name}{tag} are here, and there must be {part.least}"
        at = reading.stopped if reading.stopped >= position else position
        return TextMismatch(at, f"{problem}; here is {found(text, at, end)}")

    # --- writing ----------------------------------------------------------------------------------

    def _writer(self) -> Write:
        settings, parts = self.settings, self.parts
        indicator, terminator, delimiter = settings.indicator, settings.terminator, settings.delimiter
        size = len(parts)
        most = [part.most for part in parts]
        prefixes = [part.tag + settings.separator if part.tag else "" for part in parts]
        writers = [self._data_writer(part) for part in parts]
        fills = [(place, part) for place, part in enumerate(parts) if part.fill is not None and part.least]
        needed = [(place, part) for place, part in enumerate(parts) if part.least and not part.nullable]
        choice = self.composition is Composition.CHOICE
        ordered = self.composition is Composition.SEQUENCE
        follow = self.scope.follow_names
        rivals: dict[str, list[tuple[int, frozenset[str] | None]]] = {}
        for place, part in enumerate(parts):
            for first in part.names:
                rivals.setdefault(first.key, []).append((place, first.values))
        easy = {
            key: entries[0][0]
            for key, entries in rivals.items()
            if len(entries) == 1 and not (ordered and (key in follow or fills)) and not choice
        }

        def pick(child: Element, current: int, counts: list[int]) -> int:
            behind = -1
            for place, values in rivals.get(child.key, ()):
                if counts[place] >= most[place]:
                    continue
                if values is not None and child.value not in values and len(rivals[child.key]) > 1:
                    continue
                if choice and current >= 0 and place != current:
                    continue
                if not ordered or place >= current:
                    return place
                if behind < 0:
                    behind = place
            return behind if behind >= 0 and child.key not in follow else -1

        def fill(place: int, first: bool, pieces: list[str], writing: Writing) -> None:
            part = parts[place]
            assert part.fill is not None
            if delimiter and not first:
                pieces.append(delimiter)
            pieces.append(prefixes[place])
            data: list[str] = []
            part.fill(data, writing)
            pieces.append(self._with_length("".join(data), part))

        def write(children: list[Element], index: int, pieces: list[str], writing: Writing) -> int:
            if indicator:
                pieces.append(indicator)
            counts = [0] * size
            current = -1
            first = True
            count = len(children)
            # In a group that shares its list of elements with others, what comes later may not be its own.
            coming = {child.key for child in children} if fills and not index else ()
            while index < count:
                child = children[index]
                place = easy.get(child.key, -1)
                if place < 0 or counts[place] >= most[place]:
                    place = pick(child, current, counts)
                    if place < 0:
                        break
                if fills and ordered:
                    for earlier, _ in fills:
                        if earlier < place and not counts[earlier] and parts[earlier].key not in coming:
                            fill(earlier, first, pieces, writing)
                            counts[earlier] = 1
                            first = False
                if delimiter and not first:
                    pieces.append(delimiter)
                if prefixes[place]:
                    pieces.append(prefixes[place])
                counts[place] += 1
                current = place
                first = False
                start = index
                try:
                    index = writers[place](children, index, pieces, writing)
                except Unwritten as trouble:
                    key = parts[place].key
                    if key and most[place] > 1 and trouble.steps and trouble.steps[-1] == key:
                        trouble.steps[-1] = step(key, counts[place], most[place])
                    raise
                if index == start:
                    break
            if not choice:
                for place, _ in fills:
                    if not counts[place]:
                        fill(place, first, pieces, writing)
                        counts[place] = 1
                        first = False
                for place, part in needed:
                    if counts[place] < part.least:
                        here = counts[place]
                        raise Unwritten(
                            f"there must be {part.least} of it, and there are {here}" if here else "it is missing",
                            part.key or " or ".join(sorted({name.key for name in part.names})),
                        )
            elif current < 0 and not any(part.nullable for part in parts):
                raise Unwritten(f"none of its alternatives is there: {', '.join(sorted(rivals))}")
            if terminator:
                pieces.append(terminator)
            return index

        return write

    def _data_writer(self, part: Part) -> Write:
        if self.settings.separation is not Separation.TAGGED_ENCODED_LENGTH or not part.tag:
            return part.write
        write = part.write

        def write_encoded(children: list[Element], index: int, pieces: list[str], writing: Writing) -> int:
            data: list[str] = []
            index = write(children, index, data, writing)
            pieces.append(self._with_length("".join(data), part))
            return index

        return write_encoded

    def _with_length(self, data: str, part: Part) -> str:
        settings = self.settings
        if settings.separation is not Separation.TAGGED_ENCODED_LENGTH:
            return data
        length = str(len(data) + settings.encoded_extra)
        if len(length) > settings.encoded_length:
            problem = f"it has {len(data)} characters, which {settings.encoded_length} digits of length cannot say"
            raise Unwritten(problem, part.key)
        return length.zfill(settings.encoded_length) + data


def encoded_length(text: str, position: int, end: int, width: int, extra: int) -> int:
    """The length in front of data.

    Raises:
        Unread: It is no number, or less than what it counts beside the data.
    """
    digits = text[position : min(end, position + width)]
    if len(digits) == width and digits.strip(" ").isascii() and digits.strip(" ").isdigit() and width <= 10:
        length = int(digits) - extra
        if length >= 0:
            return length
    raise TextMismatch(position, f"{excerpt(digits)} should be its length in {width} digits")


def first_tags(part: Part, settings: StructureSettings, markup: Markup) -> list[FirstTag] | None:
    """The tags that a member of a tagged structure begins with; None if it does not begin with one."""
    if part.tag:
        if part.values is not None:
            return [
                FirstTag(part.tag, part.values, None, _encoded_peek(part, settings), len(part.values) == 1, part.search)
            ]
        return [FirstTag(part.tag, None, part.matches, _encoded_peek(part, settings))]
    body = part.body
    if body is None:
        return None
    if body.indicator and markup.plain:
        return _tag_in_indicator(body.indicator, settings, markup)
    return body.tags if body.tagging == settings.tagging else None


def _tag_in_indicator(indicator: str, settings: StructureSettings, markup: Markup) -> list[FirstTag] | None:
    """An indicator such as 16R:GENL<CR><LF>: is a tag and a fixed value, and found as quickly as they are."""
    tag, separator, rest = indicator.partition(settings.separator or "\0")
    delimiter = settings.delimiter
    if not tag or not separator or not delimiter or not rest.endswith(delimiter):
        return None
    value = rest[: -len(delimiter)]
    seek = markup.seek
    if seek(rest, 0, len(rest)) != len(value):
        return None
    peek: Peek = lambda text, position, end: text[position : seek(text, position, end)]  # noqa: E731
    return [FirstTag(tag, frozenset({value}), None, peek, True, markup.search)]


def _encoded_peek(part: Part, settings: StructureSettings) -> Peek | None:
    peek = part.peek
    if peek is None or settings.separation is not Separation.TAGGED_ENCODED_LENGTH:
        return peek
    width, extra = settings.encoded_length, settings.encoded_extra

    def peek_behind(text: str, position: int, end: int) -> str:
        try:
            stop = position + width + encoded_length(text, position, end, width, extra)
        except TextMismatch:
            return ""
        return peek(text, position + width, min(end, stop))

    return peek_behind
