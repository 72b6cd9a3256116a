# SPDX-License-Identifier: Apache-2.0
"""What the YAML files beside this one say: fields, sequences and qualifiers of each message.

    - A1 LINK* Linkages:              sequence A1, written 16R:LINK … 16S:LINK, any number of times
        - 98ABCE+: {SETT!: ABC}       field 98 in option A, B, C or E, once or more; SETT must be among them
        - 20CUN: any                  field 20 exactly once; its qualifiers are not listed

Behind a field stand its qualifiers: with `!` one that has to be there, with `*`
one that may be repeated, `one of:` a group of which exactly one is there; after
the colon the options that it may have. A field without qualifiers has the codes
of its first part there. Lists are short for mappings that restrict no option.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from entrepot.errors import ModelInvalid
from entrepot.models.swift.field_formats import FieldFormat
from entrepot.yaml_places import load_plain

MESSAGES = ("MT103", "MT543", "MT940")

_HERE = Path(__file__).parent
_FIELD = re.compile(r"(\d\d)([_A-Z]*)([?*+]?)")
_SEQUENCE = re.compile(r"(?:([A-Z]\d?)|(group)) ([A-Za-z0-9]+)([?*+]?)(?: (.+))?")
_QUALIFIER = re.compile(r"([A-Z0-9]{3,4})(!?)(\*?)")
_OCCURS: dict[str, tuple[int, int | None]] = {"": (1, 1), "?": (0, 1), "*": (0, None), "+": (1, None)}
_ANY = "any"


@dataclass(frozen=True, slots=True)
class Qualifier:
    name: str
    options: frozenset[str]
    mandatory: bool = False
    repeatable: bool = False
    one_of: bool = False
    """One of a group of which exactly one is there."""


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A field of a sequence with all its options."""

    number: str
    options: tuple[str, ...]
    """Letters; nothing for the field without one."""
    occurs_min: int
    occurs_max: int | None
    qualifiers: tuple[Qualifier, ...] = ()
    """None listed: every one passes."""
    formats: Mapping[str, FieldFormat] | None = None
    """By tag, valid only with what is allowed here."""

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.number + option for option in self.options)

    @property
    def label(self) -> str:
        """98a, as SWIFT writes a field that has several options."""
        return self.tags[0] if len(self.options) == 1 else f"{self.number}a"


@dataclass(frozen=True, slots=True)
class SequenceRule:
    """A sequence, or a group of fields that only belong together; the message's text is one too."""

    letter: str
    """A, A1; nothing for a group."""
    name: str
    title: str
    occurs_min: int
    occurs_max: int | None
    members: tuple[FieldRule | SequenceRule, ...]

    @property
    def label(self) -> str:
        return f"sequence {self.letter} {self.name}" if self.letter else self.name

    def fields(self) -> Iterator[FieldRule]:
        """All fields in it, at any depth."""
        for member in self.members:
            if isinstance(member, FieldRule):
                yield member
            else:
                yield from member.fields()


@dataclass(frozen=True, slots=True)
class MessageRule:
    name: str
    title: str
    text: SequenceRule


@cache
def field_formats() -> Mapping[str, FieldFormat]:
    """The format of each field option, by its tag."""
    formats: dict[str, FieldFormat] = {}
    for tag, rule in _load("fields.yaml").items():
        codes = {part: values.split() for part, values in rule.get("codes", {}).items()}
        formats[str(tag)] = FieldFormat(rule["format"], rule["parts"].split(), codes, rule.get("plain", "").split())
    return formats


@cache
def message_rule(name: str) -> MessageRule:
    """The rules of a message such as MT543."""
    table = _load(f"{name.lower()}.yaml")
    return MessageRule(table["message"], table["title"], _sequence(name, "", name, table["title"], "", table["text"]))


@cache
def block_rules() -> Mapping[str, Any]:
    return _load("blocks.yaml")


def _load(name: str) -> dict[str, Any]:
    return dict(load_plain((_HERE / name).read_text("utf-8")))


def _sequence(file: str, letter: str, name: str, title: str, occurs: str, entries: list[Any]) -> SequenceRule:
    members = tuple(_member(file, entry) for entry in entries)
    low, high = _OCCURS[occurs]
    return SequenceRule(letter, name, title, low, high, members)


def _member(file: str, entry: Any) -> FieldRule | SequenceRule:
    key, value = next(iter(entry.items())) if isinstance(entry, dict) else (entry, None)
    key = str(key)
    if field := _FIELD.fullmatch(key):
        return _field(file, field, value)
    if sequence := _SEQUENCE.fullmatch(key):
        letter, _, name, occurs, title = sequence.groups()
        return _sequence(file, letter or "", name, title or "", occurs, value or [])
    raise ModelInvalid(f"{file.lower()}.yaml", 1, 1, f"{key!r} is neither a field nor a sequence")


def _field(file: str, match: re.Match[str], value: Any) -> FieldRule:
    number, letters, occurs = match.groups()
    options = tuple("" if letter == "_" else letter for letter in letters) or ("",)
    low, high = _OCCURS[occurs]
    known = field_formats()
    try:
        formats = {number + option: known[number + option] for option in options}
    except KeyError as error:
        raise ModelInvalid(f"{file.lower()}.yaml", 1, 1, f"field {error.args[0]} is not in fields.yaml") from None
    if value is None or value == _ANY:
        return FieldRule(number, options, low, high, (), formats)
    if "Qualifier" not in next(iter(formats.values())).parts:
        codes = {form.parts[0]: value.split() for form in formats.values()}
        formats = {
            tag: FieldFormat(form.notation, form.parts, {**form.codes, **codes}, form.no_slashes)
            for tag, form in formats.items()
        }
        return FieldRule(number, options, low, high, (), formats)
    qualifiers = tuple(_qualifiers(value, options))
    allowed = {option: [each.name for each in qualifiers if option in each.options] for option in options}
    formats = {number + option: formats[number + option].with_qualifiers(allowed[option]) for option in options}
    return FieldRule(number, options, low, high, qualifiers, formats)


def _qualifiers(value: Any, options: tuple[str, ...], one_of: bool = False) -> Iterator[Qualifier]:
    if isinstance(value, str):
        value = dict.fromkeys(value.split())
    for key, letters in value.items():
        if key == "one of":
            yield from _qualifiers(letters, options, one_of=True)
            continue
        match = _QUALIFIER.fullmatch(key)
        assert match is not None, key
        name, mandatory, repeatable = match.groups()
        yield Qualifier(name, frozenset(letters or options), bool(mandatory), bool(repeatable), one_of)
