# SPDX-License-Identifier: Apache-2.0
"""From a model to parts and bodies: each structure with what stands around it.

The compiler carries down what a structure has to know about its surroundings:
the marks at which data end, whether its end is known, and which tags may stand
behind it. Everything that a model can get wrong is said here, with the path
of the structure, and not when the first message comes.
"""

from __future__ import annotations

import re
from dataclasses import replace

from entrepot.models.logical import (
    Composition,
    MessageSet,
    Separation,
    Simple,
    Structure,
    StructureMember,
    TdsField,
    TdsFormat,
    TdsStructure,
)
from entrepot.models.tds.fields import Extent, SimpleField
from entrepot.models.tds.markup import Markup
from entrepot.models.tds.nested import (
    Beginnings,
    element_reader,
    element_writer,
    length_region,
    length_region_writer,
    order_of,
    pattern_region,
    references,
    write_nothing,
)
from entrepot.models.tds.parts import (
    TAGGED,
    UNBOUNDED,
    Body,
    FirstName,
    Part,
    Recognise,
    StructureContext,
    StructureSettings,
    settle,
)
from entrepot.models.tds.patterns import PATTERN_SPAN, compile_safe
from entrepot.models.tds.positional import PositionalPlan
from entrepot.models.tds.tagged import TaggedPlan
from entrepot.models.tds.trouble import invalid

NESTING_MAX = 100
"""How deep structures may lie in each other; reading a message takes a few calls of Python's for each of them."""


class Compiler:
    """Compiles the structures of one message in one format."""

    def __init__(self, message_set: MessageSet, tds: TdsFormat, format_name: str) -> None:
        self.file = message_set.file or message_set.name
        self.tds = tds
        self.format = format_name
        self._noted: frozenset[str] = frozenset()
        self._beginnings = Beginnings(format_name)
        self._bodies: dict[tuple[int, StructureSettings, StructureContext], Body] = {}
        self._markups: dict[frozenset[str], Markup] = {}

    def message(self, structure: Structure, name: str) -> Body:
        """
        Raises:
            ModelInvalid: Says which structure is wrong, and how.
        """
        self._noted = frozenset(references(structure, self.format))
        try:
            return self._body(structure, self._settings(structure, None, name, 0), StructureContext(), name, 0)
        except RecursionError:
            raise invalid(self.file, 0, f"{name}: structures are nested too deep") from None

    # --- structures ---------------------------------------------------------------------------------

    def _settings(
        self, structure: Structure, around: StructureSettings | None, path: str, line: int
    ) -> StructureSettings:
        physical = structure.physical.get(self.format)
        if physical is None and around is not None:
            # A group that the model says nothing about is written as what it stands in.
            return replace(around, indicator="", terminator="")
        try:
            return settle(physical or TdsStructure(), self.tds)
        except ValueError as error:
            raise invalid(self.file, line, f"{path}: {error}") from None

    def _body(
        self, structure: Structure, settings: StructureSettings, scope: StructureContext, path: str, line: int
    ) -> Body:
        """A structure that is used at several places with the same surroundings is compiled once."""
        known = (id(structure), settings, scope)
        body = self._bodies.get(known)
        if body is None:
            body = self._bodies[known] = self._new_body(structure, settings, scope, path, line)
        return body

    def _new_body(
        self, structure: Structure, settings: StructureSettings, scope: StructureContext, path: str, line: int
    ) -> Body:
        if scope.depth > NESTING_MAX:
            raise invalid(self.file, line, f"{path[:200]}: structures are nested more than {NESTING_MAX} deep")
        marks = scope.marks | {mark for mark in (settings.delimiter, settings.terminator) if mark}
        # Inside its own terminator or delimiters, a structure's end is known whatever stands around it.
        bounded = scope.bounded or bool(settings.terminator)
        inside = StructureContext(marks, bounded, scope.follow_tags, scope.follow_names, scope.depth + 1)
        name = structure.name or path.rpartition(".")[2]
        try:
            parts = [
                self._part(structure, place, settings, inside, f"{path}.{_shown(member)}")
                for place, member in enumerate(structure.members)
            ]
            if settings.separation in TAGGED:
                self._check_tags(structure, parts, settings, path)
                markup = self._markup(marks)
                return TaggedPlan(name, settings, structure.composition, parts, scope, markup).body()
            return PositionalPlan(
                name, settings, structure.composition, parts, replace(scope, bounded=bounded), marks
            ).body()
        except ValueError as error:
            raise invalid(self.file, line, f"{path}: {error}") from None

    def _check_tags(self, structure: Structure, parts: list[Part], settings: StructureSettings, path: str) -> None:
        for member, part in zip(structure.members, parts, strict=True):
            where = f"{path}.{_shown(member)}"
            if part.tag:
                if settings.tag_length and len(part.tag) != settings.tag_length:
                    problem = f"{where}: its tag {part.tag!r} has not the {settings.tag_length} characters of all tags"
                    raise invalid(self.file, member.line, problem)
                if settings.separator and settings.separator in part.tag:
                    raise invalid(self.file, member.line, f"{where}: its tag {part.tag!r} has the tag separator in it")
            elif part.body is None:
                raise invalid(
                    self.file, member.line, f"{where}: it has no tag, but {path} tells elements by their tags"
                )
            elif part.body.recognise is None:
                problem = f"{where}: it has neither a tag nor a group indicator nor begins with a tag"
                raise invalid(self.file, member.line, problem)

    # --- members --------------------------------------------------------------------------------------

    def _part(
        self, structure: Structure, place: int, settings: StructureSettings, inside: StructureContext, path: str
    ) -> Part:
        member = structure.members[place]
        field = member.physical.get(self.format, _NO_FIELD)
        if not isinstance(field, TdsField):
            raise invalid(self.file, member.line, f"{path}: its properties are not those of a TDS format")
        if field.repeat_delimiter:
            inside = replace(inside, marks=inside.marks | {field.repeat_delimiter})
        try:
            if isinstance(member.content, Simple):
                part = self._simple(member, field, settings, inside, path)
            else:
                part = self._complex(structure, place, field, settings, inside, path)
        except ValueError as error:
            raise invalid(self.file, member.line, f"{path}: {error}") from None
        part.least = member.min_occurs
        part.most = UNBOUNDED if member.max_occurs is None else member.max_occurs
        if part.most < 1 or part.least > part.most or part.least < 0:
            raise invalid(self.file, member.line, f"{path}: it cannot be there {part.least} to {part.most} times")
        part.nullable = part.nullable or part.least == 0
        part.keys = frozenset(first.key for first in part.names)
        return part

    def _markup(self, marks: frozenset[str]) -> Markup:
        markup = self._markups.get(marks)
        if markup is None:
            tds = self.tds
            markup = self._markups[marks] = Markup(marks, tds.escape, tds.quote, tds.reserved)
        return markup

    def _simple(
        self, member: StructureMember, field: TdsField, settings: StructureSettings, inside: StructureContext, path: str
    ) -> Part:
        if not member.name:
            raise invalid(self.file, member.line, f"{path}: only groups can be without a name")
        extent = self._extent(member, field, settings, path)
        marks = frozenset() if extent is Extent.REGION else inside.marks
        simple = SimpleField(member, field, self.tds, extent, self._markup(marks), noted=member.name in self._noted)
        if settings.separation in TAGGED:
            # What has its tag there is there.
            simple.absent_when_empty = False
        part = simple.part()
        if (
            extent is Extent.LENGTH
            or settings.separation in TAGGED
            or (extent in (Extent.MARKS, Extent.OBSERVED) and member.min_occurs and member.default is not None)
        ):
            part.fill = simple.fill()
        if simple.pattern is not None:
            part.recognise = _matcher(simple.pattern)
        elif part.values is not None and part.peek is not None:
            peek, values = part.peek, part.values
            part.recognise = lambda text, position, end: peek(text, position, end) in values
        return part

    def _extent(self, member: StructureMember, field: TdsField, settings: StructureSettings, path: str) -> Extent:
        separation = settings.separation
        if separation is Separation.DATA_PATTERN:
            if not field.pattern:
                raise invalid(self.file, member.line, f"{path}: it needs a data pattern")
            return Extent.PATTERN
        if separation is Separation.TAGGED_ENCODED_LENGTH:
            return Extent.REGION
        if field.length_from:
            return Extent.REFERENCE
        if separation in _OF_LENGTH:
            if field.length < 1:
                problem = f"{path}: it needs a length, for {separation.value}"
                raise invalid(self.file, member.line, problem)
            return Extent.LENGTH
        if field.length and separation is Separation.VARIABLE_DELIMITED:
            return Extent.LENGTH
        return Extent.OBSERVED if field.length and settings.observe_length else Extent.MARKS

    def _complex(
        self,
        structure: Structure,
        place: int,
        field: TdsField,
        around: StructureSettings,
        inside: StructureContext,
        path: str,
    ) -> Part:
        member = structure.members[place]
        content = member.content
        assert isinstance(content, Structure)
        settings = self._settings(content, None if member.name else around, path, member.line)
        by_pattern = around.separation is Separation.DATA_PATTERN and bool(field.pattern)
        by_length = bool(field.length) and around.separation in _OF_LENGTH
        region = by_pattern or by_length or around.separation is Separation.TAGGED_ENCODED_LENGTH
        scope = (
            StructureContext(depth=inside.depth) if region else self._scope_of(structure, place, field, around, inside)
        )
        body = self._body(content, settings, scope, path, member.line)
        read, write = body.read, body.write
        # Delimiters that the structure around it has, too, must stand even for what is absent.
        shared = settings.delimiter in inside.marks and settings.separation not in TAGGED and not settings.indicator
        if by_pattern:
            read = pattern_region(read, field.pattern)
        elif by_length:
            padding = field.padding[:1] or " "
            read, write = length_region(read, field.length, padding), length_region_writer(write, field.length, padding)
        inner_write = write
        if member.name:
            read = element_reader(member.name, read, drop=shared and member.min_occurs == 0)
            write = element_writer(member.name, write, order_of(content))
        part = Part(
            key=member.name,
            least=member.min_occurs,
            most=1,
            read=read,
            write=write,
            nullable=not member.name and body.nullable,
            sized=body.sized or by_length or by_pattern,
            names=[FirstName(member.name)] if member.name else body.names,
            tag=field.tag if around.separation in TAGGED else "",
            body=body,
            recognise=body.recognise,
            count_from=field.count_from,
            repeat=field.repeat_delimiter,
            pattern=by_pattern,
            shared=shared,
            line=member.line,
        )
        if by_pattern:
            part.recognise = _matcher(compile_safe(field.pattern))
        if shared or around.separation is Separation.FIXED_LENGTH:
            part.fill = lambda pieces, writing: write_nothing(inner_write, member.name, pieces, writing)
        return part

    def _scope_of(
        self, structure: Structure, place: int, field: TdsField, around: StructureSettings, inside: StructureContext
    ) -> StructureContext:
        """What stands around a nested structure."""
        member = structure.members[place]
        sequence = structure.composition is Composition.SEQUENCE
        last = place == len(structure.members) - 1 or not sequence
        bounded = (
            bool(around.delimiter)
            or bool(field.repeat_delimiter)
            or (around.separation in TAGGED and bool(inside.marks))
            or (inside.bounded and last and member.max_occurs == 1)
        )
        later = structure.members[place + 1 :] if sequence else structure.members
        if member.max_occurs != 1:
            later = (member, *later)
        tags = {tag for other in later for tag in self._beginnings.tags(other)}
        names: frozenset[str] = frozenset()
        if not member.name:
            names = inside.follow_names | {name for other in later for name in self._beginnings.names(other)}
        return StructureContext(inside.marks, bounded, inside.follow_tags | tags, names, inside.depth)


_NO_FIELD = TdsField()
_OF_LENGTH = (Separation.FIXED_LENGTH, Separation.TAGGED_FIXED_LENGTH)


def _matcher(pattern: re.Pattern[str]) -> Recognise:
    match = pattern.match
    return lambda text, position, end: match(text, position, min(end, position + PATTERN_SPAN)) is not None


def _shown(member: StructureMember) -> str:
    return member.name.rpartition("}")[2] or "(group)"
