# SPDX-License-Identifier: Apache-2.0
"""Simple members: from the place in the text to an element with a typed value, and back.

There are four ways to find the end of the data: by marks, by a length (given,
or held by an earlier element), by the region (behind an encoded length), and
by a regular expression. Each is compiled to its own function, because this is
where nearly all of the time goes.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any

from entrepot.models.element_types import NAME_VALUE
from entrepot.models.logical import NUMBERS, Simple, StructureMember, TdsField, TdsFormat, ValueType
from entrepot.models.tds.markup import Markup, stands_at
from entrepot.models.tds.parts import FirstName, Part, Peek, Read, Write, Writing
from entrepot.models.tds.patterns import PATTERN_SPAN, compile_safe
from entrepot.models.tds.trouble import Reading, TextMismatch, Unwritten, found
from entrepot.models.tds.values import ValueText, excerpt, value_text
from entrepot.models.tree import Element

LENGTH_MAX = 0x7FFFFFFF


class Extent(enum.Enum):
    """How the end of an element's data is found."""

    MARKS = "marks"
    OBSERVED = "observed"
    LENGTH = "length"
    REFERENCE = "reference"
    REGION = "region"
    PATTERN = "pattern"


_SIZED = frozenset({Extent.OBSERVED, Extent.LENGTH, Extent.REFERENCE})


class SimpleField:
    """One simple member while it is compiled."""

    def __init__(
        self, member: StructureMember, field: TdsField, tds: TdsFormat, extent: Extent, markup: Markup, *, noted: bool
    ) -> None:
        assert isinstance(member.content, Simple)
        self.member = member
        self.simple = member.content
        self.field = field
        self.extent = extent
        self.markup = markup
        self.noted = noted
        self.fixed = extent in _SIZED
        self.texts: ValueText = value_text(self.simple, field, tds, fixed=self.fixed)
        self.absent_when_empty = member.min_occurs == 0 and member.max_occurs == 1
        self.pattern = compile_safe(field.pattern) if extent is Extent.PATTERN else None

    def part(self) -> Part:
        member, simple = self.member, self.simple
        key = member.name
        values = frozenset(simple.values) if simple.values else None
        return Part(
            key=key,
            least=member.min_occurs,
            most=1,
            read=self._reader(),
            write=self._writer(),
            nullable=member.min_occurs == 0,
            sized=self.fixed or self.extent is Extent.PATTERN,
            names=[FirstName(key, values if len(simple.values) == 1 else None)],
            tag=self.field.tag,
            values=values,
            matches=compile_safe(simple.pattern).fullmatch if simple.pattern else None,
            peek=self._peek(),
            search=self.markup.search if self.extent is Extent.MARKS and self.markup.plain else None,
            verbatim=self._is_verbatim() and not self.noted,
            count_from=self.field.count_from,
            repeat=self.field.repeat_delimiter,
            pattern=self.extent is Extent.PATTERN,
            line=member.line,
        )

    # --- reading ----------------------------------------------------------------------------------

    def _peek(self) -> Peek | None:
        length, padding = self.field.length, self.field.padding or " "
        if self.extent is Extent.LENGTH:
            return lambda text, position, end: text[position : min(end, position + length)].strip(padding)
        if self.extent in (Extent.MARKS, Extent.OBSERVED):
            seek = self.markup.seek
            return lambda text, position, end: text[position : seek(text, position, end)]
        if self.extent is Extent.REGION:
            return lambda text, position, end: text[position:end]
        return None

    def _reader(self) -> Read:
        extent = self.extent
        if extent is Extent.LENGTH:
            read = self._length_reader()
        elif extent is Extent.REFERENCE:
            read = self._reference_reader()
        elif extent is Extent.PATTERN:
            read = self._pattern_reader()
        elif extent is Extent.OBSERVED:
            read = self._observed_reader()
        elif extent is Extent.REGION:
            read = self._region_reader()
        else:
            read = self._marks_reader()
        return self._noting(read) if self.noted else read

    def _noting(self, read: Read) -> Read:
        key = self.member.name

        def read_noted(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
            position = read(text, position, end, out, reading)
            if out and out[-1].key == key:
                reading.noted[key] = out[-1].value
            return position

        return read_noted

    def _converter(self) -> Callable[[str, int], Any]:
        """Data that are not empty to a value; says where it stands if it is none."""
        read_value, literal = self.texts.read, self._null_literal()
        padding = self.field.padding or " "
        blank_is_null = self.fixed and self.simple.type is not ValueType.STRING
        policy = self.field.null_policy
        fixed = self.fixed

        def convert(data: str, position: int) -> Any:
            if literal is not None and (data.strip(padding) if fixed else data) == literal:
                return None
            try:
                return read_value(data)
            except ValueError as error:
                if blank_is_null and policy != "none" and not data.strip(" ").strip(padding):
                    return None
                raise TextMismatch(position, str(error)) from None

        return convert

    def _null_literal(self) -> str | None:
        if self.field.null_policy != "literal":
            return None
        value = self.field.null_value
        return value.strip(self.field.padding or " ") if self.fixed else value

    def _empty(self) -> Callable[[int], Any]:
        """What data of no characters mean, where the element has to be there."""
        policy, string = self.field.null_policy, self.simple.type is ValueType.STRING
        null = policy == "empty" or (policy == "literal" and self.field.null_value == "")
        name = self.simple.type.name

        def empty(position: int) -> Any:
            if null:
                return None
            if string:
                return ""
            raise TextMismatch(position, f"there is nothing where its {name} should be")

        return empty

    def _marks_reader(self) -> Read:
        key, seek, take = self.member.name, self.markup.seek, self.markup.take
        convert, empty, optional = self._converter(), self._empty(), self.absent_when_empty
        string = self.simple.type is ValueType.STRING
        if self.markup.plain:
            if self._is_verbatim():
                return self._plain_string_reader()
            read_value = self.texts.read
            direct = self._null_literal() is None

            def read(text: str, position: int, end: int, out: list[Element], _reading: Reading) -> int:
                at = seek(text, position, end)
                if at == position:
                    if not optional:
                        out.append(Element(key, empty(position), NAME_VALUE))
                elif direct:
                    try:
                        out.append(Element(key, read_value(text[position:at]), NAME_VALUE))
                    except ValueError as error:
                        raise TextMismatch(position, str(error)) from None
                else:
                    out.append(Element(key, convert(text[position:at], position), NAME_VALUE))
                return at

            return read

        def read_marked(text: str, position: int, end: int, out: list[Element], _reading: Reading) -> int:
            data, at, quoted = take(text, position, end)
            if data:
                value = convert(data, position)
            elif quoted and string:
                value = ""
            elif optional and not quoted:
                return at
            else:
                value = empty(position)
            out.append(Element(key, value, NAME_VALUE))
            return at

        return read_marked

    def _is_verbatim(self) -> bool:
        string = self.simple.type is ValueType.STRING and self._null_literal() is None
        return string and self.extent is Extent.MARKS and self.markup.plain

    def _plain_string_reader(self) -> Read:
        """The most frequent case: strings up to a mark, with nothing to take off or to convert."""
        key, optional, empty, marks = self.member.name, self.absent_when_empty, self._empty(), self.markup.marks
        if len(marks) == 1:
            (mark,) = marks

            def read_to_mark(text: str, position: int, end: int, out: list[Element], _reading: Reading) -> int:
                at = text.find(mark, position, end)
                if at < 0:
                    at = end
                if at > position:
                    out.append(Element(key, text[position:at], NAME_VALUE))
                elif not optional:
                    out.append(Element(key, empty(position), NAME_VALUE))
                return at

            return read_to_mark
        search = self.markup.search

        def read(text: str, position: int, end: int, out: list[Element], _reading: Reading) -> int:
            match = search(text, position, end)
            at = match.start() if match else end
            if at > position:
                out.append(Element(key, text[position:at], NAME_VALUE))
            elif not optional:
                out.append(Element(key, empty(position), NAME_VALUE))
            return at

        return read

    def _region_reader(self) -> Read:
        key, convert, empty = self.member.name, self._converter(), self._empty()

        def read(text: str, position: int, end: int, out: list[Element], _reading: Reading) -> int:
            value = convert(text[position:end], position) if end > position else empty(position)
            out.append(Element(key, value, NAME_VALUE))
            return end

        return read

    def _observed_reader(self) -> Read:
        key, length, convert, empty = self.member.name, self.field.length, self._converter(), self._empty()
        closed, take, optional = stands_at(self.markup.marks), self.markup.take, self.absent_when_empty

        def read(text: str, position: int, end: int, out: list[Element], _reading: Reading) -> int:
            at = position + length
            if at <= end and closed(text, at, end):
                out.append(Element(key, convert(text[position:at], position), NAME_VALUE))
                return at
            data, at, quoted = take(text, position, end)
            if data:
                out.append(Element(key, convert(data, position), NAME_VALUE))
            elif not optional or quoted:
                out.append(Element(key, empty(position), NAME_VALUE))
            return at

        return read

    def _length_reader(self) -> Read:
        key, length, convert = self.member.name, self.field.length, self._converter()
        read_value, plain = self.texts.read, self._null_literal() is None
        blank_is_absent = self.member.min_occurs == 0 and self.simple.type is not ValueType.STRING
        padding = self.field.padding or " "
        if padding.isdigit() and self.simple.type in NUMBERS:
            padding = " "

        def read(text: str, position: int, end: int, out: list[Element], _reading: Reading) -> int:
            at = position + length
            if at > end:
                problem = f"it has {length} characters, but only {end - position} are left"
                raise TextMismatch(position, problem)
            data = text[position:at]
            if plain:
                try:
                    out.append(Element(key, read_value(data), NAME_VALUE))
                    return at
                except ValueError:
                    pass
            if blank_is_absent and not data.strip(" ").strip(padding):
                return at
            out.append(Element(key, convert(data, position), NAME_VALUE))
            return at

        return read

    def _reference_reader(self) -> Read:
        key, source, convert = self.member.name, self.field.length_from, self._converter()
        string = self.simple.type is ValueType.STRING

        def read(text: str, position: int, end: int, out: list[Element], reading: Reading) -> int:
            at = position + referred(reading.noted, source, position)
            if at > end:
                problem = f"{source} says {at - position} characters, but only {end - position} are left"
                raise TextMismatch(position, problem)
            data = text[position:at]
            out.append(Element(key, data if string and not data else convert(data, position), NAME_VALUE))
            return at

        return read

    def _pattern_reader(self) -> Read:
        key, convert, empty = self.member.name, self._converter(), self._empty()
        assert self.pattern is not None
        match_at, pattern, optional = self.pattern.match, self.field.pattern, self.member.min_occurs == 0

        def read(text: str, position: int, end: int, out: list[Element], _reading: Reading) -> int:
            match = match_at(text, position, min(end, position + PATTERN_SPAN))
            if match is None:
                if optional:
                    return position
                raise TextMismatch(position, f"{found(text, position, end)} does not match {pattern}")
            at = match.end()
            if at > position:
                out.append(Element(key, convert(text[position:at], position), NAME_VALUE))
            elif not optional:
                out.append(Element(key, empty(position), NAME_VALUE))
            return at

        return read

    # --- writing ----------------------------------------------------------------------------------

    def _writer(self) -> Write:
        finish, key = self._finisher(), self.member.name
        # Quotes tell an empty string from NULL.
        quoted = self.extent is Extent.MARKS and self.simple.type is ValueType.STRING
        nothing = 2 * self.markup.quote if quoted else ""
        write_value, null = self.texts.write, self._null_writer()
        noted = self.noted
        # What a number is written with is checked once, here, if no mark could be part of it.
        safe = self.extent is Extent.REGION or (
            self.extent is Extent.MARKS
            and self.texts.digits_only
            and self.markup.plain
            and self._marks_beside_numbers()
        )

        def write(children: list[Element], index: int, pieces: list[str], writing: Writing) -> int:
            child = children[index]
            value = child.value
            if noted:
                writing[key] = value
            if value is None:
                if child._children:
                    raise Unwritten("it is a simple element, but has children", key)
                pieces.append(finish(null(), writing))
                return index + 1
            try:
                text = write_value(value)
                pieces.append(text if safe else finish(text, writing) or nothing)
            except ValueError as error:
                raise Unwritten(str(error), key) from None
            except Unwritten as trouble:
                trouble.steps.append(key)
                raise
            return index + 1

        return write

    def _marks_beside_numbers(self) -> bool:
        return self.markup.plain and not any(set(mark) & set("0123456789+-.,eE") for mark in self.markup.marks)

    def _null_writer(self) -> Callable[[], str]:
        policy, value, key = self.field.null_policy, self.field.null_value, self.member.name

        def null() -> str:
            if policy == "none":
                raise Unwritten("it is NULL, and the model has nothing to write for that", key)
            return value if policy == "literal" else ""

        return null

    def _finisher(self) -> Callable[[str, Writing], str]:
        """Text to what is written: padded, or with its marks hidden."""
        extent, protect = self.extent, self.markup.protect
        if extent is Extent.LENGTH or extent is Extent.OBSERVED:
            pad = self._padder()
            length = self.field.length
            return lambda text, _writing: pad(text, length)
        if extent is Extent.REFERENCE:
            pad = self._padder()
            source = self.field.length_from
            return lambda text, writing: pad(text, referred(writing, source, None))
        if extent is Extent.PATTERN:
            assert self.pattern is not None
            whole, pattern = self.pattern.fullmatch, self.field.pattern

            def check(text: str, _writing: Writing) -> str:
                if len(text) <= PATTERN_SPAN and whole(text):
                    return text
                raise Unwritten(f"{excerpt(text)} does not match {pattern}")

            return check
        if extent is Extent.REGION:
            return lambda text, _writing: text
        return lambda text, _writing: protect(text)

    def _padder(self) -> Callable[[str, int], str]:
        padding = self.field.padding[:1] or " "
        right = self.field.justify == "right"
        zeros = right and padding == "0" and self.simple.type in NUMBERS

        def pad(text: str, length: int) -> str:
            if len(text) > length:
                raise Unwritten(f"{excerpt(text)} has {len(text)} characters, and there is room for {length}")
            if zeros and text:
                return text.zfill(length)
            return text.rjust(length, padding) if right else text.ljust(length, padding)

        return pad

    def fill(self) -> Callable[[list[str], Writing], None] | None:
        """Writes the default, the only possible value, or padding where an absent element has a length."""
        member, simple = self.member, self.simple
        text = member.default
        if text is None and len(simple.values) == 1 and member.min_occurs:
            text = simple.values[0]
        if text is None:
            if self.extent is not Extent.LENGTH or member.min_occurs:
                return None
            text = ""
        finish, key, noted = self._finisher(), member.name, self.noted
        constant = text

        def fill(pieces: list[str], writing: Writing) -> None:
            try:
                pieces.append(finish(constant, writing))
            except Unwritten as trouble:
                trouble.steps.append(key)
                raise
            if noted:
                writing[key] = constant

        return fill


_COUNT = re.compile(r" *\+?[0-9]{1,10} *")


def referred(noted: dict[str, object], source: str, position: int | None) -> int:
    """The length or number that an earlier element holds.

    Raises:
        Unread: While reading, which is when there is a position.
        Unwritten: While writing.
    """
    value = noted.get(source)
    if isinstance(value, str) and _COUNT.fullmatch(value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LENGTH_MAX:
        return value
    shown = "is not there" if value is None else f"is {excerpt(str(value))}, which counts nothing"
    problem = f"it needs {source}, which {shown}"
    if position is None:
        raise Unwritten(problem)
    raise TextMismatch(position, problem)
