# SPDX-License-Identifier: Apache-2.0
"""A statement becomes a command whose every word is known and every value in range.

Nothing here needs a queue manager, so a script can be checked far from the
one it is meant for. A statement may have several errors; all are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from entrepot.errors import MqscError
from entrepot.server.mqsc.commands import (
    KEYWORDS,
    NOUN_WORDS,
    VERB_WORDS,
    VERBS,
    VERBS_ELSEWHERE,
    AlterCommand,
    ClearCommand,
    Command,
    DefineCommand,
    DeleteCommand,
    EndCommand,
    OperateCommand,
    PingCommand,
)
from entrepot.server.mqsc.display_checks import DisplayChecker
from entrepot.server.mqsc.forms import ProfileForm
from entrepot.server.mqsc.keywords import OBJECT_KINDS
from entrepot.server.mqsc.object_kind import ObjectKind
from entrepot.server.mqsc.parameters import Parameters, ParsedParameters
from entrepot.server.mqsc.running import RUNNING, Operation, operation_of
from entrepot.server.mqsc.security_checks import SecurityChecker
from entrepot.server.mqsc.syntax import Parameter, Script, Statement, Value
from entrepot.server.mqsc.topic_checks import require_subscription, topic_object
from entrepot.server.mqsc.topic_keywords import SUBSCRIPTION, TopicNameForm, TopicPatternForm
from entrepot.server.mqsc.wording import listed, shortened, suggestion


@dataclass(slots=True)
class CheckedCommand:
    """A command when all was well, else its errors."""

    statement: Statement
    command: Command | None = None
    errors: list[MqscError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check(script: Script, statement: Statement) -> CheckedCommand:
    """The command that a statement means."""
    checked = CheckedCommand(statement, errors=list(statement.errors))
    # A statement whose words are broken would only bring errors that follow from the first.
    if not checked.errors:
        command = _Checker(script, checked).command()
        checked.command = command if not checked.errors else None
    return checked


def only_reads(text: str) -> bool:
    """Whether a script changes nothing, so that it may be run twice."""
    verbs = {VERB_WORDS.get(each.parameters[0].keyword) for each in Script(text).statements() if each.parameters}
    return verbs <= {"DISPLAY", "PING", "END"}


class _Checker:
    def __init__(self, script: Script, checked: CheckedCommand) -> None:
        self._verb, *rest = checked.statement.parameters
        self._parameters = Parameters(script, rest, checked.errors, checked.warnings)
        self._error = self._parameters.error

    def command(self) -> Command | None:
        word = VERB_WORDS.get(self._verb.keyword)
        if word is None:
            self._error(self._verb.at, _no_verb(self._verb.keyword))
            return None
        if word == "END":
            return EndCommand()
        noun = self._noun(word)
        if noun is None:
            return None
        written = self._parameters.rest.pop(0)
        name = self._name(word, noun, written)
        operation = operation_of(word, noun)
        if operation is not None:
            return self._operate(operation, noun, name)
        if word == "DISPLAY":
            checker = DisplayChecker(noun, self._error, self._parameters.warnings)
            return checker.command(name, self._parameters.each)
        if word == "SET" or noun == "AUTHREC":
            return self._secure(word, noun, name, SecurityChecker(self._parameters, written.at))
        return self._administer(word, OBJECT_KINDS[noun], name, written)

    def _administer(self, verb: str, kind: ObjectKind, name: Value, written: Parameter) -> Command:
        said = self._parameters.attributes(kind, verb)
        if verb == "DEFINE":
            self._require_all(kind, said, written)
            if kind is SUBSCRIPTION:
                require_subscription(said, self._error, written.at)
            like = self._like(kind, said.flags.get("LIKE"))
            return DefineCommand(
                kind, name, said.changes, like, "REPLACE" in said.flags, said.places, topic_object(said)
            )
        if verb == "ALTER":
            return AlterCommand(kind, name, said.changes, said.places)
        if verb == "DELETE":
            purge = said.flags.get("PURGE")
            if purge and not kind.holds_messages:
                self._error(purge.at, f"PURGE goes with QLOCAL, a {kind.word} holds no messages")
            return DeleteCommand(kind, name, purge is not None)
        return ClearCommand(name) if verb == "CLEAR" else PingCommand()

    def _secure(self, verb: str, noun: str, name: Value, checker: SecurityChecker) -> Command | None:
        if noun == "CHLAUTH":
            return checker.set_rule(name)
        return checker.set_authority() if verb == "SET" else checker.delete_authority()

    def _operate(self, operation: Operation, noun: str, name: Value) -> Command:
        options: dict[str, Any] = {}
        for parameter in self._parameters.each():
            word = parameter.keyword
            if word in operation.options:
                options[word] = self._parameters.value(parameter, operation.options[word])
            else:
                known = suggestion(word, operation.options)
                self._error(parameter.at, f"{shortened(word)} does not go with {operation.verb} {noun}{known}")
        for word in operation.required:
            if word not in options:
                expected = operation.options[word].expected
                self._error(self._verb.at, f"{operation.verb} {noun} needs {word}: {expected}")
        return OperateCommand(operation, noun, name, options)

    # --- verb, noun, name ---------------------------------------------------------------------

    def _noun(self, verb: str) -> str | None:
        nouns = VERBS[verb].nouns
        if self._verb.values is not None or not self._parameters.rest:
            self._error(self._verb.at, f"{verb} is followed by what it is about: {listed(nouns)}")
            return None
        written = self._parameters.rest[0]
        noun = NOUN_WORDS.get(written.keyword)
        if noun in nouns:
            return noun
        if noun:
            problem = f"{verb} goes with {listed(nouns)}, not with {noun}"
        else:
            known = [word for word, noun in NOUN_WORDS.items() if noun in nouns]
            problem = f"{shortened(written.keyword)} is no kind of object" + (
                suggestion(written.keyword, known) or f"; {verb} goes with {listed(nouns)}"
            )
        self._error(written.at, problem)
        return None

    def _name(self, verb: str, noun: str, written: Parameter) -> Value:
        """The name in the noun's parentheses; some value in any case, so that the rest can be checked too."""
        values = written.values
        nothing = Value("", written.at)
        kind = OBJECT_KINDS.get(noun)
        if kind is not None and (kind.only_one or kind.nameless):
            if values is not None:
                why = "there is one" if kind.only_one else "PROFILE and OBJTYPE say which one is meant"
                self._error(written.at, f"{noun} takes no name: {why}")
            return nothing
        running = RUNNING.get(noun)
        if running is not None and not running.selected_by:
            if values is not None:
                self._error(written.at, f"{noun} takes no name: it shows all queue managers")
            return nothing
        if values is None:
            example = self._parameters.bare_word_after() or "NAME"
            self._error(written.at, f"{noun} needs a name in parentheses: {noun}({example})")
            return nothing
        if len(values) != 1:
            self._error(values[1].at if values else written.at, f"{noun} takes one name")
            return nothing
        if noun == "TOPICSTR":
            self._topic(values[0])
        elif running is not None and running.selected_by == "topic":
            self._parameters.fit(noun, TopicPatternForm(), values[0])
        elif kind is not None and kind.is_keyed:
            self._parameters.fit(noun, ProfileForm(), values[0])
        # Connections are named by the queue manager, as it likes.
        elif noun != "CONN" and not (verb == "DISPLAY" and "*" in values[0].text):
            self._parameters.require_name(noun, values[0])
        return values[0]

    def _topic(self, value: Value) -> None:
        if self._parameters.fit("TOPICSTR", TopicNameForm(), value) == "":
            self._error(value.at, f"TOPICSTR takes {TopicNameForm().expected}, not nothing")

    # --- DEFINE -------------------------------------------------------------------------------

    def _require_all(self, kind: ObjectKind, said: ParsedParameters, written: Parameter) -> None:
        for attribute in kind.attributes:
            if attribute.required and attribute.field not in said.changes:
                expected = attribute.form.expected
                self._error(written.at, f"DEFINE {kind.word} needs {attribute.keyword}: {expected}")

    def _like(self, kind: ObjectKind, parameter: Parameter | None) -> Value | None:
        if parameter is None or parameter.values is None:
            return None
        if len(parameter.values) != 1:
            self._error(parameter.at, "LIKE takes one name")
            return None
        self._parameters.require_name(kind.word, parameter.values[0])
        return parameter.values[0]


def _no_verb(word: str) -> str:
    if word in VERBS_ELSEWHERE:
        return f"MQ's {word} is not part of Entrepot; there are {listed(VERBS)}"
    if word in KEYWORDS:
        return f"{word} begins no command (is a + missing at the end of the line before?)"
    return f"{shortened(word)} is no command" + (suggestion(word, VERB_WORDS) or f"; there are {listed(VERBS)}")
