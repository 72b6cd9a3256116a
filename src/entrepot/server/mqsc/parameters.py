# SPDX-License-Identifier: Apache-2.0
"""The parameters of one statement, read one after the other by the tables of commands and keywords.

What is wrong with one is kept, with its place, and the next one is read all
the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from entrepot import limits
from entrepot.engine.definitions import require_name, require_subscription_name
from entrepot.errors import InvalidName, MqscError
from entrepot.server.mqsc.commands import KEYWORDS, OPTIONS, VERBS
from entrepot.server.mqsc.forms import Form, InvalidValue, NumberOrWord, SeveralWords, Switch, Words
from entrepot.server.mqsc.keywords import OBJECT_KINDS, kinds_with
from entrepot.server.mqsc.object_kind import Attribute, ObjectKind
from entrepot.server.mqsc.syntax import ERRORS_PER_COMMAND_MAX, Parameter, Position, Script, Value
from entrepot.server.mqsc.wording import listed, no_keyword, shortened, suggestion

_SETTING_VERBS = ("DEFINE", "ALTER", "SET")
_SUBSCRIPTION_NOUNS = ("SUB", "SBSTATUS")
_SUBSCRIPTION_NAME = f"It has 1 to {limits.SUBSCRIPTION_NAME_CHARACTERS_MAX} characters, all of which can be printed"


@dataclass(slots=True)
class ParsedParameters:
    """What the parameters of a statement come to."""

    changes: dict[str, Any] = field(default_factory=dict)
    """Fields of the definition."""
    flags: dict[str, Parameter] = field(default_factory=dict)
    """Options of the verb that stand alone, and LIKE."""
    values: dict[str, Any] = field(default_factory=dict)
    """Options of the verb that have a value."""
    places: dict[str, Position] = field(default_factory=dict)
    """Where each keyword stands; synonyms stand for their keyword."""
    value_places: dict[str, Position] = field(default_factory=dict)
    """Where the value of each keyword stands, if it has one."""


class Parameters:
    """What follows the verb of a statement."""

    def __init__(self, script: Script, rest: list[Parameter], errors: list[MqscError], warnings: list[str]) -> None:
        self.rest = rest
        self.errors = errors
        self.warnings = warnings
        self._script = script

    def error(self, at: Position, problem: str) -> None:
        if len(self.errors) < ERRORS_PER_COMMAND_MAX:
            self.errors.append(self._script.error(at, problem))

    # --- all of them --------------------------------------------------------------------------

    def each(self, *kinds: ObjectKind) -> Iterator[Parameter]:
        """The parameters one after the other, without those that repeat or contradict an earlier one."""
        seen: dict[str, Parameter] = {}
        while self.rest and len(self.errors) < ERRORS_PER_COMMAND_MAX:
            parameter = self.rest.pop(0)
            word = parameter.keyword
            attribute = next(filter(None, (kind.attribute(word) for kind in kinds)), None)
            topic = (attribute.keyword if attribute else word).removeprefix("NO")
            before = seen.setdefault(topic, parameter)
            if before is parameter:
                yield parameter
            elif before.keyword == word:
                self.error(parameter.at, f"{word} is given twice")
            else:
                self.error(parameter.at, f"{word} contradicts {before.keyword}, which is given before it")

    def attributes(self, kind: ObjectKind, verb: str) -> ParsedParameters:
        """What DEFINE, ALTER, SET, DELETE and CLEAR say about an object."""
        said = ParsedParameters()
        forms = OPTIONS.get((verb, kind.word), {})
        # Where no name stands in parentheses, attributes say which object is meant, to DELETE too.
        settable = verb in _SETTING_VERBS or kind.nameless
        for parameter in self.each(kind):
            word = parameter.keyword
            attribute = kind.attribute(word) if settable else None
            keyword = attribute.keyword if attribute else word
            said.places[keyword] = parameter.at
            if parameter.values:
                said.value_places[keyword] = parameter.values[0].at
            if word in VERBS[verb].flags:
                if word == "LIKE":
                    self.values(parameter)
                elif parameter.values is not None:
                    self._stands_alone(parameter)
                said.flags[word] = parameter
            elif word in forms:
                said.values[word] = self.value(parameter, forms[word])
            elif word in kind.refused and settable:
                self.error(parameter.at, kind.refused[word])
            elif attribute and attribute.shown_only:
                self.error(parameter.at, f"{word} can be displayed and not set")
            elif attribute and not self._may_say(attribute, kind, verb):
                problem = "is given twice" if kind.is_keyed else "is settled by DEFINE and cannot be altered"
                self.error(parameter.at, f"{word} {problem}")
            elif attribute:
                said.changes[attribute.field] = self.value(parameter, attribute.form)
            elif word in kind.fixed and settable:
                self._require_fixed(parameter, kind.fixed[word])
            elif word in kind.without_effect and (settable or word in ("CMDSCOPE", "QSGDISP")):
                self.warnings.append(f"{word}: accepted without effect")
            else:
                self.error(parameter.at, self._unknown(word, kind, verb))
        self._require_belonging(kind, said)
        return said

    def _may_say(self, attribute: Attribute, kind: ObjectKind, verb: str) -> bool:
        if kind.is_keyed and not kind.nameless and attribute.field == kind.name_field:
            return False  # it stands in the noun's parentheses
        # MQ's ALTER repeats the type of a channel; that it is the same one is checked when the channel is at hand.
        return verb != "ALTER" or attribute.alterable or attribute.field == kind.variant_field

    def _require_fixed(self, parameter: Parameter, only: str) -> None:
        values = self.values(parameter)
        if values is None:
            return
        said = " ".join(value.text for value in values).strip(" ")
        if said.upper() != only:
            at = values[0].at if values else parameter.at
            blank = "' '"
            self.error(at, f"{parameter.keyword} takes only {only or blank}, not {shortened(said) or 'nothing'}")

    def _require_belonging(self, kind: ObjectKind, said: ParsedParameters) -> None:
        """Refuse what objects of the given type do not have."""
        variant = kind.variant
        given = said.changes.get(kind.variant_field)
        if variant is None or given is None:
            return
        for attribute in kind.attributes:
            if attribute.field in said.changes and given not in (attribute.variants or (given,)):
                self.error(said.places[attribute.keyword], not_of_this_type(attribute, f"{variant.keyword}({given})"))

    def _unknown(self, word: str, kind: ObjectKind, verb: str) -> str:
        options = VERBS[verb].options
        if verb not in _SETTING_VERBS:
            return f"{shortened(word)} does not go with {verb} {kind.word}" + suggestion(word, options)
        if any(word in owner.status for owner in OBJECT_KINDS.values()):
            return f"{word} can be displayed and not set"
        verbs = [name for name, entry in VERBS.items() if word in entry.options]
        if verb in verbs:
            return f"{word} does not go with {verb} {kind.word}"
        if verbs:
            return f"{word} goes with {listed(verbs)}, not with {verb}"
        owners = [owner.word for owner in kinds_with(word)]
        if owners:
            return f"{word} belongs to {listed(owners)}, not to {kind.word}"
        return no_keyword(word, kind.word, (*kind.words, *options))

    # --- one of them --------------------------------------------------------------------------

    def value(self, parameter: Parameter, form: Form) -> Any:
        """What stands in the parentheses, as its form has it; after an error nothing that counts."""
        if isinstance(form, Switch):
            if parameter.values is not None:
                self._stands_alone(parameter)
            return parameter.keyword == form.on
        values = self.values(parameter)
        if values is None:
            return None
        if form.many:
            members = tuple(filter(None, [self.fit(parameter.keyword, form, value) for value in values]))
            if isinstance(form, SeveralWords):
                members = tuple(dict.fromkeys(members))
            if not form.fits(members) and not self.errors:
                self.error(parameter.at, f"{parameter.keyword} takes {form.expected}")
            return members
        if len(values) > 1:
            advice = "with blanks or commas it belongs in quotes, and a quote in it is written twice"
            self.error(values[1].at, f"{parameter.keyword} takes one value ({advice})")
            return None
        return self.fit(parameter.keyword, form, values[0] if values else Value("", parameter.at))

    def values(self, parameter: Parameter) -> tuple[Value, ...] | None:
        if parameter.values is None:
            word = parameter.keyword
            example = self.bare_word_after() or "..."
            self.error(parameter.at, f"{word} needs a value in parentheses: {word}({example})")
        return parameter.values

    def bare_word_after(self) -> str:
        """The word that somebody forgot to put in parentheses; it is taken, so that it brings no second error."""
        if self.rest and self.rest[0].values is None:
            word = self.rest[0].keyword
            if word not in KEYWORDS:
                del self.rest[0]
                return shortened(word)
        return ""

    def fit(self, keyword: str, form: Form, value: Value) -> Any:
        try:
            return form.parse(value.text)
        except InvalidValue as unfit:
            if why := str(unfit):
                self.error(value.at, f"{keyword}, {why}")
                return None
            problem = f"{keyword} takes {form.expected}, not {shortened(value.text) or 'nothing'}"
            known = form.words if isinstance(form, Words | SeveralWords | NumberOrWord) else ()
            self.error(value.at, problem + suggestion(value.text.upper(), known))
            return None

    def require_name(self, noun: str, value: Value) -> None:
        of_subscription = noun in _SUBSCRIPTION_NOUNS
        try:
            if of_subscription:
                require_subscription_name(value.text)
            else:
                require_name(noun, value.text)
        except InvalidName as error:
            advice = _SUBSCRIPTION_NAME if of_subscription else error.advice.rstrip(".")
            self.error(value.at, f"{shortened(error.what)}. {advice}")

    def _stands_alone(self, parameter: Parameter) -> None:
        self.error(parameter.at, f"{parameter.keyword} stands alone, without parentheses")


def not_of_this_type(attribute: Attribute, type_said: str) -> str:
    return f"{attribute.keyword} does not go with {type_said}: it belongs to {listed(attribute.variants)}"
