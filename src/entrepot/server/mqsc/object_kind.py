# SPDX-License-Identifier: Apache-2.0
"""What MQSC has to know about a kind of object, as one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from entrepot.engine.definitions import Definition
from entrepot.server.mqsc.forms import Form, RowValue, Switch, Text

COUNT_MAX = 999_999_999
"""MQ's highest value for counts and intervals."""


def words(text: str) -> frozenset[str]:
    """A set of keywords, written as a line of them."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Attribute:
    keyword: str
    field: str
    form: Form
    synonyms: tuple[str, ...] = ()
    alterable: bool = True
    """False for what is settled when the object comes to be: ALTER refuses it, LIKE does not copy it."""
    for_life: bool = False
    """Of what cannot be altered: LIKE copies it all the same, and REPLACE refuses another value."""
    shown_only: bool = False
    """Whether the queue manager alone decides it: no command sets it, and a dump leaves it out."""
    required: bool = False
    """Whether DEFINE or SET has to say it."""
    variants: tuple[str, ...] = ()
    """The types that have it, in a kind with types; nothing means all of them."""

    @property
    def words(self) -> tuple[str, ...]:
        """All words by which a script can call it."""
        off = (self.form.off,) if isinstance(self.form, Switch) else ()
        return (self.keyword, *self.synonyms, *off)

    def write(self, value: Any) -> str:
        """The attribute as a script says it."""
        if isinstance(self.form, Switch):
            return self.form.on if value else self.form.off
        return f"{self.keyword}({self.form.write(value)})"


Rule = Callable[[Any], tuple[str, str, str] | None]
"""What must hold between attributes; a broken rule returns keyword, value and what was expected."""


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """What MQSC needs to know about a kind of object."""

    definition: type[Definition]
    label: str
    """Its name in a sentence."""
    name_keyword: str
    """Before its name in what DISPLAY shows."""
    attributes: tuple[Attribute, ...]
    synonyms: tuple[str, ...] = ()
    without_effect: frozenset[str] = frozenset()
    """MQ's attributes that are accepted, with a warning, and mean nothing here."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """MQ's attributes that can have only one value here; that one is accepted and not shown."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Words that are understood and refused, and what to do instead."""
    status: tuple[str, ...] = ()
    """What DISPLAY can show beyond the definition, out of the object's status."""
    only_one: bool = False
    """The queue manager: no name in parentheses, no DEFINE and no DELETE."""
    name_field: str = "name"
    """What people call it by. If that is not its name, SET makes it and the name is a key made of its attributes."""
    nameless: bool = False
    """Whether no name stands in the noun's parentheses, because the attributes say which one is meant."""
    variant_field: str = ""
    """The field with its type, in a kind whose types differ in their attributes."""
    selectors: Mapping[str, str] = field(default_factory=dict)
    """Words that select in DISPLAY when they have a value, and the attribute that the value is compared with."""
    rules: tuple[Rule, ...] = ()

    @property
    def word(self) -> str:
        return self.definition.kind

    @property
    def is_queue(self) -> bool:
        return self.name_keyword == "QUEUE"

    @property
    def is_keyed(self) -> bool:
        """Whether SET makes it, and its name is nobody's affair."""
        return self.name_field != "name"

    @property
    def holds_messages(self) -> bool:
        return "CURDEPTH" in self.status

    @property
    def words(self) -> tuple[str, ...]:
        """All keywords that go with it."""
        own = (word for attribute in self.attributes for word in attribute.words)
        return (*own, *self.status, *self.without_effect, *self.fixed)

    @property
    def settled_fields(self) -> frozenset[str]:
        """How an object came to be, which is its own affair: LIKE does not copy it."""
        own = (each for each in self.attributes if each.shown_only or not (each.alterable or each.for_life))
        return frozenset(attribute.field for attribute in own)

    @property
    def attributes_for_life(self) -> list[Attribute]:
        return [attribute for attribute in self.attributes if attribute.for_life]

    def with_shown_of(self, old: Definition, new: Definition) -> Definition:
        """The new definition of an object, with what the queue manager alone has decided about the old one."""
        shown = {each.field: getattr(old, each.field) for each in self.attributes if each.shown_only}
        return msgspec.structs.replace(new, **shown)

    def attribute(self, word: str) -> Attribute | None:
        return next((attribute for attribute in self.attributes if word in attribute.words), None)

    @property
    def variant(self) -> Attribute | None:
        """The attribute that says of which type an object is."""
        return next((attribute for attribute in self.attributes if attribute.field == self.variant_field), None)

    @property
    def always_shown(self) -> list[str]:
        """Name and type, which DISPLAY shows whatever else it was asked for."""
        kind_of = [self.variant.keyword] if self.variant else []
        return [self.name_keyword, "TYPE", *kind_of]

    def attributes_of(self, definition: Definition) -> list[Attribute]:
        """The attributes that an object of this type has."""
        variant = getattr(definition, self.variant_field) if self.variant_field else ""
        return [attribute for attribute in self.attributes if variant in (attribute.variants or (variant,))]

    def row(self, definition: Definition) -> dict[str, RowValue]:
        """The whole definition under MQ's keywords."""
        row: dict[str, RowValue] = {self.name_keyword: getattr(definition, self.name_field)}
        if self.is_queue:
            row["TYPE"] = self.word
        for attribute in self.attributes_of(definition):
            row[attribute.keyword] = attribute.form.show(getattr(definition, attribute.field))
        return row


DESCR = Attribute("DESCR", "description", Text(64))
ANYWHERE_WITHOUT_EFFECT = words("CMDSCOPE QSGDISP CUSTOM FORCE")
