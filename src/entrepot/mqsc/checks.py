# SPDX-License-Identifier: Apache-2.0
"""A statement becomes a command whose every word is known and every value in range.

Nothing here needs a queue manager, so a script can be checked far from the
one it is meant for. A statement may have several errors; all are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from entrepot.errors import InvalidName, MqscCommandFailed, MqscError
from entrepot.mqsc.commands import (
    KEYWORDS,
    NOUN_WORDS,
    VERB_WORDS,
    VERBS,
    VERBS_ELSEWHERE,
    Alter,
    Clear,
    Command,
    Define,
    Delete,
    End,
    Ping,
)
from entrepot.mqsc.display_checks import DisplayChecker
from entrepot.mqsc.forms import Form, Switch, Unfit, Words
from entrepot.mqsc.keywords import LATER_KINDS, OBJECT_KINDS, Attribute, ObjectKind, kinds_with
from entrepot.mqsc.syntax import ERRORS_PER_COMMAND_MAX, Parameter, Position, Script, Statement, Value
from entrepot.mqsc.wording import listed, no_keyword, shortened, suggestion
from entrepot.queues.definitions import require_name


@dataclass(slots=True)
class Checked:
    """A command when all was well, else its errors."""

    statement: Statement
    command: Command | None = None
    errors: list[MqscError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check(script: Script, statement: Statement) -> Checked:
    """The command that a statement means."""
    checked = Checked(statement, errors=list(statement.errors))
    # A statement whose words are broken would only bring errors that follow from the first.
    if not checked.errors:
        command = _Checker(script, checked).command()
        checked.command = command if not checked.errors else None
    return checked


class _Checker:
    def __init__(self, script: Script, checked: Checked) -> None:
        self._script = script
        self._checked = checked
        self._verb, *self._rest = checked.statement.parameters

    def _error(self, at: Position, problem: str) -> None:
        if len(self._checked.errors) < ERRORS_PER_COMMAND_MAX:
            self._checked.errors.append(self._script.error(at, problem))

    def command(self) -> Command | None:
        word = VERB_WORDS.get(self._verb.keyword)
        if word is None:
            self._error(self._verb.at, _no_verb(self._verb.keyword))
            return None
        if word == "END":
            return End()
        noun = self._noun(word)
        if noun is None:
            return None
        if word in ("START", "STOP"):
            self._cannot_start(word, noun)
            return None
        name = self._name(noun, generic=word == "DISPLAY")
        if word == "DISPLAY":
            return DisplayChecker(noun, self._error, self._checked.warnings).command(name, self._each)
        kind = OBJECT_KINDS[noun]
        changes, options = self._attributes(kind, word)
        if word == "DEFINE":
            return Define(kind, name, changes, self._like(kind, options.get("LIKE")), "REPLACE" in options)
        if word == "ALTER":
            return Alter(kind, name, changes)
        if word == "DELETE":
            purge = options.get("PURGE")
            if purge and not kind.holds_messages:
                self._error(purge.at, f"PURGE goes with QLOCAL, a {kind.word} holds no messages")
            return Delete(kind, name, purge is not None)
        return Clear(name) if word == "CLEAR" else Ping()

    # --- verb, noun, name ---------------------------------------------------------------------

    def _noun(self, verb: str) -> str | None:
        nouns = VERBS[verb].nouns
        if self._verb.values is not None or not self._rest:
            self._error(self._verb.at, f"{verb} is followed by what it is about: {listed(nouns)}")
            return None
        written = self._rest[0]
        noun = NOUN_WORDS.get(written.keyword)
        if noun in nouns:
            return noun
        if noun in LATER_KINDS:
            problem = f"{noun} comes with a later release; {verb} goes with {listed(nouns)}"
        elif noun:
            problem = f"{verb} goes with {listed(nouns)}, not with {noun}"
        else:
            known = [word for word, noun in NOUN_WORDS.items() if noun in nouns]
            problem = f"{shortened(written.keyword)} is no kind of object" + (
                suggestion(written.keyword, known) or f"; {verb} goes with {listed(nouns)}"
            )
        self._error(written.at, problem)
        return None

    def _name(self, noun: str, *, generic: bool) -> Value:
        """The name in the noun's parentheses; some value in any case, so that the rest can be checked too."""
        written = self._rest.pop(0)
        values = written.values
        nothing = Value("", written.at)
        if noun in OBJECT_KINDS and OBJECT_KINDS[noun].only_one:
            if values is not None:
                self._error(written.at, f"{noun} takes no name: there is one")
            return nothing
        if values is None:
            example = self._bare_word_after() or "NAME"
            self._error(written.at, f"{noun} needs a name in parentheses: {noun}({example})")
            return nothing
        if len(values) != 1:
            self._error(values[1].at if values else written.at, f"{noun} takes one name")
            return nothing
        if not (generic and "*" in values[0].text):
            self._require_name(noun, values[0])
        return values[0]

    def _require_name(self, noun: str, value: Value) -> None:
        try:
            require_name(noun, value.text)
        except InvalidName as error:
            self._error(value.at, f"{shortened(error.what)}. {error.advice.rstrip('.')}")

    def _cannot_start(self, verb: str, noun: str) -> None:
        startable = listed(tuple(kind.word for kind in OBJECT_KINDS.values() if kind.startable))
        none_yet = "nothing can in this release, channels and listeners come later"
        which = f"what can: {startable}" if startable else none_yet
        at = self._rest[0].at
        problem = f"{verb} {noun}: a {noun} cannot be started or stopped ({which})"
        self._checked.errors.append(MqscCommandFailed(self._script.source, at.line, at.column, problem))

    # --- the parameters of DEFINE, ALTER, DELETE and CLEAR -------------------------------------

    def _attributes(self, kind: ObjectKind, verb: str) -> tuple[dict[str, Any], dict[str, Parameter]]:
        changes: dict[str, Any] = {}
        options: dict[str, Parameter] = {}
        settable = verb in ("DEFINE", "ALTER")
        for parameter in self._each(kind):
            word = parameter.keyword
            attribute = kind.attribute(word) if settable else None
            if word in VERBS[verb].options:
                if word == "LIKE":
                    self._values(parameter)
                elif parameter.values is not None:
                    self._error(parameter.at, f"{word} stands alone, without parentheses")
                options[word] = parameter
            elif attribute and verb == "ALTER" and not attribute.alterable:
                self._error(parameter.at, f"{word} is settled by DEFINE and cannot be altered")
            elif attribute:
                self._convert(attribute, parameter, changes)
            elif word in kind.without_effect and (settable or word in ("CMDSCOPE", "QSGDISP")):
                self._checked.warnings.append(f"{word}: accepted without effect")
            else:
                self._error(parameter.at, self._unknown(word, kind, verb))
        return changes, options

    def _each(self, *kinds: ObjectKind) -> Iterable[Parameter]:
        """The parameters one after the other, without those that repeat or contradict an earlier one."""
        seen: dict[str, Parameter] = {}
        while self._rest and len(self._checked.errors) < ERRORS_PER_COMMAND_MAX:
            parameter = self._rest.pop(0)
            word = parameter.keyword
            attribute = next(filter(None, (kind.attribute(word) for kind in kinds)), None)
            topic = (attribute.keyword if attribute else word).removeprefix("NO")
            before = seen.setdefault(topic, parameter)
            if before is parameter:
                yield parameter
            elif before.keyword == word:
                self._error(parameter.at, f"{word} is given twice")
            else:
                self._error(parameter.at, f"{word} contradicts {before.keyword}, which is given before it")

    def _convert(self, attribute: Attribute, parameter: Parameter, changes: dict[str, Any]) -> None:
        form = attribute.form
        if isinstance(form, Switch):
            if parameter.values is not None:
                self._error(parameter.at, f"{parameter.keyword} stands alone, without parentheses")
            changes[attribute.field] = parameter.keyword == form.on
            return
        values = self._values(parameter)
        if values is None:
            return
        if form.many:
            members = [self._fit(attribute.keyword, form, value) for value in values]
            changes[attribute.field] = tuple(member for member in members if member)
            if not form.fits(changes[attribute.field]) and not self._checked.errors:
                self._error(parameter.at, f"{parameter.keyword} takes {form.expected}")
        elif len(values) > 1:
            advice = "with blanks or commas it belongs in quotes, and a quote in it is written twice"
            self._error(values[1].at, f"{parameter.keyword} takes one value ({advice})")
        else:
            value = values[0] if values else Value("", parameter.at)
            changes[attribute.field] = self._fit(parameter.keyword, form, value)

    def _values(self, parameter: Parameter) -> tuple[Value, ...] | None:
        if parameter.values is None:
            word = parameter.keyword
            example = self._bare_word_after() or "..."
            self._error(parameter.at, f"{word} needs a value in parentheses: {word}({example})")
        return parameter.values

    def _bare_word_after(self) -> str:
        """The word that somebody forgot to put in parentheses; it is taken, so that it brings no second error."""
        if self._rest and self._rest[0].values is None:
            word = self._rest[0].keyword
            if word not in KEYWORDS:
                del self._rest[0]
                return shortened(word)
        return ""

    def _fit(self, keyword: str, form: Form, value: Value) -> Any:
        try:
            return form.parse(value.text)
        except Unfit:
            problem = f"{keyword} takes {form.expected}, not {shortened(value.text) or 'nothing'}"
            known = form.words if isinstance(form, Words) else ()
            self._error(value.at, problem + suggestion(value.text.upper(), known))
            return None

    def _like(self, kind: ObjectKind, parameter: Parameter | None) -> Value | None:
        if parameter is None or parameter.values is None:
            return None
        if len(parameter.values) != 1:
            self._error(parameter.at, "LIKE takes one name")
            return None
        self._require_name(kind.word, parameter.values[0])
        return parameter.values[0]

    def _unknown(self, word: str, kind: ObjectKind, verb: str) -> str:
        options = VERBS[verb].options
        if verb not in ("DEFINE", "ALTER"):
            return f"{shortened(word)} does not go with {verb} {kind.word}" + suggestion(word, options)
        if any(word in owner.status for owner in OBJECT_KINDS.values()):
            return f"{word} can be displayed and not set"
        verbs = [name for name, entry in VERBS.items() if word in entry.options]
        if verbs:
            return f"{word} goes with {listed(verbs)}, not with {verb}"
        owners = [owner.word for owner in kinds_with(word)]
        if owners:
            return f"{word} belongs to {listed(owners)}, not to {kind.word}"
        return no_keyword(word, kind.word, (*kind.words, *options))


def _no_verb(word: str) -> str:
    if word in VERBS_ELSEWHERE:
        return f"MQ's {word} is not part of Entrepot; there are {listed(VERBS)}"
    if word in KEYWORDS:
        return f"{word} begins no command (is a + missing at the end of the line before?)"
    return f"{shortened(word)} is no command" + (suggestion(word, VERB_WORDS) or f"; there are {listed(VERBS)}")
