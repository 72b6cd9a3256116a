# SPDX-License-Identifier: Apache-2.0
"""The rules of a message as tables: what may come next is one look-up.

Within a sequence every tag has one place, so a field fits when its place is
not before that of the field ahead of it. Codec and validation walk the same
tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from entrepot.models.swift.field_formats import FieldFormat
from entrepot.models.swift.rules import FieldRule, SequenceRule, field_formats, message_rule

TOP = -1
"""The place before the first."""
_GOOD_MAX = 2000


@dataclass(frozen=True, slots=True, eq=False)
class SequenceEntry:
    """Where a tag, or a sequence, stands among its neighbours."""

    place: int
    key: str
    """Its name in the tree: F98A, GENL."""
    tag: str
    """98A; 16R:GENL for a sequence."""
    repeatable: bool
    form: FieldFormat | None = None
    """With the qualifiers that are allowed here."""
    table: SequenceTable | None = None
    """What is inside, for a sequence or group."""


Quick = tuple[int, bool, Callable[[str], Any], frozenset[str] | None, bool]
"""Place, whether it may be repeated, whether a text is valid, which qualifiers, whether those are counted."""


class QualifierCount:
    """How often the qualifiers of a field may be there."""

    __slots__ = ("good", "mandatory", "once", "one_of", "rule")

    def __init__(self, rule: FieldRule) -> None:
        self.rule = rule
        self.mandatory = [each.name for each in rule.qualifiers if each.mandatory]
        self.one_of = frozenset(each.name for each in rule.qualifiers if each.one_of)
        self.once = frozenset(each.name for each in rule.qualifiers if not each.repeatable)
        self.good: set[str] = set()
        """Combinations that were found to fit, written one after the other; messages have few different ones."""

    def fits(self, names: str) -> bool:
        """Whether the qualifiers of the fields that are there, four characters each, keep the rules."""
        each = [names[at : at + 4] for at in range(0, len(names), 4)]
        distinct = set(each)
        if len(distinct) != len(each) and any(name in self.once and each.count(name) > 1 for name in distinct):
            return False
        if self.one_of and len(distinct & self.one_of) != 1:
            return False
        if not distinct.issuperset(self.mandatory):
            return False
        if len(self.good) < _GOOD_MAX:
            self.good.add(names)
        return True


@dataclass(slots=True, eq=False)
class SequenceTable:
    """One sequence."""

    rule: SequenceRule
    fields: dict[str, SequenceEntry] = field(default_factory=dict)
    """By tag. A group is entered by its first field, so it stands under that field's tags."""
    opens: dict[str, SequenceEntry] = field(default_factory=dict)
    """By `16R:NAME`."""
    quick: dict[str, Quick] = field(default_factory=dict)
    """What the quick walk of validation needs of the fields that are no groups, by tag."""
    keys: dict[str, SequenceEntry] = field(default_factory=dict)
    """By the name in the tree."""
    end: str = ""
    """`16S:NAME`; nothing for the text itself and for groups."""
    required_before: list[int] = field(default_factory=list)
    """For each place, the last place before it that must not be left out; TOP when there is none."""
    counted: dict[int, QualifierCount] = field(default_factory=dict)
    """Places where it matters how often a qualifier is there."""

    def __post_init__(self) -> None:
        required = TOP
        for place, member in enumerate(self.rule.members):
            self.required_before.append(required)
            if member.occurs_min:
                required = place
            repeatable = member.occurs_max is None
            if isinstance(member, FieldRule):
                self._add_field(place, member, repeatable)
            else:
                self._add_sequence(place, member, repeatable)
        self.required_before.append(required)

    def _add_field(self, place: int, rule: FieldRule, repeatable: bool) -> None:
        assert rule.formats is not None
        for tag, form in rule.formats.items():
            assert tag not in self.fields or self.fields[tag].table is not None
            # To look a qualifier up is quicker than twenty alternatives in an expression.
            allowed = frozenset(form.codes["Qualifier"]) if rule.qualifiers else None
            quick = field_formats()[tag] if rule.qualifiers else form
            entry = SequenceEntry(place, f"F{tag}", tag, repeatable, form)
            self.keys[entry.key] = self.fields[tag] = entry
            self.quick[tag] = (place, repeatable, quick.is_valid, allowed, bool(rule.qualifiers) and repeatable)
        # A field that comes once has its one qualifier checked by its format.
        if rule.qualifiers and repeatable:
            self.counted[place] = QualifierCount(rule)

    def _add_sequence(self, place: int, rule: SequenceRule, repeatable: bool) -> None:
        inner = SequenceTable(rule)
        if rule.letter:
            inner.end = f"16S:{rule.name}"
            entry = SequenceEntry(place, rule.name, f"16R:{rule.name}", repeatable, table=inner)
            self.opens[entry.tag] = entry
        else:
            entry = SequenceEntry(place, rule.name, "", repeatable, table=inner)
            first = rule.members[0]
            assert isinstance(first, FieldRule)
            for tag in first.tags:
                self.fields[tag] = entry
        self.keys[entry.key] = entry

    def expected(self, place: int) -> list[str]:
        """What may come after a place, as people call it."""
        found: list[str] = []
        for at, member in enumerate(self.rule.members):
            if at > place or (at == place and member.occurs_max is None):
                if isinstance(member, FieldRule):
                    found.append(member.label)
                else:
                    found.append(f"16R:{member.name}" if member.letter else self._first(member))
                if member.occurs_min and at > place:
                    return found
        return [*found, self.end] if self.end else found

    @staticmethod
    def _first(group: SequenceRule) -> str:
        first = group.members[0]
        assert isinstance(first, FieldRule)
        return first.label


@cache
def message_table(name: str) -> SequenceTable:
    """The table of a message's block 4."""
    return SequenceTable(message_rule(name).text)
