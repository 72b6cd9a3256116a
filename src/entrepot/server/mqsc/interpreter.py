# SPDX-License-Identifier: Apache-2.0
"""Scripts run against whatever can be administered, and every command gets its answer.

A command that fails stops no other one, as with runmqsc: the script goes
on, and `require_ok` afterwards raises what went wrong. END ends a script.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from entrepot.engine.definitions import Channel, Definition, SubscriptionDefinition
from entrepot.errors import (
    EntrepotError,
    InvalidSetting,
    MqscCommandFailed,
    MqscError,
    MqscScriptFailed,
    ObjectNotFound,
    QueueNotFound,
)
from entrepot.server.mqsc.administered import Administered
from entrepot.server.mqsc.checks import CheckedCommand, check
from entrepot.server.mqsc.commands import (
    AlterCommand,
    ClearCommand,
    DefineCommand,
    DeleteAuthority,
    DeleteCommand,
    DisplayCommand,
    EndCommand,
    OperateCommand,
    PingCommand,
    SetAuthority,
    SetRule,
)
from entrepot.server.mqsc.display import Row, lines_of, matches
from entrepot.server.mqsc.forms import InvalidValue
from entrepot.server.mqsc.keywords import OBJECT_KINDS, STATUS_KEYWORDS, require_valid
from entrepot.server.mqsc.object_kind import Attribute, ObjectKind
from entrepot.server.mqsc.parameters import not_of_this_type
from entrepot.server.mqsc.running import RUNNING, StatusNoun
from entrepot.server.mqsc.security import SecurityRun
from entrepot.server.mqsc.subscriptions import completed, why_not_altered
from entrepot.server.mqsc.syntax import Position, Script, Value
from entrepot.server.mqsc.topic_keywords import TOPIC
from entrepot.server.mqsc.wording import listed, shortened, suggestion


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one command."""

    command: str
    line: int
    output: tuple[str, ...] = ()
    """What the command has to say to people when all is well."""
    rows: tuple[Row, ...] = ()
    """What DISPLAY found, for programs."""
    errors: tuple[MqscError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """All that a person should read: output, warnings and errors."""
        warnings = [f"Warning: {warning}" for warning in self.warnings]
        return [*self.output, *warnings, *(str(error) for error in self.errors)]

    @property
    def ok(self) -> bool:
        return not self.errors

    @property
    def error(self) -> MqscError | None:
        """The first of the errors."""
        return self.errors[0] if self.errors else None


def run_script(text: str, administered: Administered, source: str = "-") -> list[Answer]:
    """Carry out a script and answer each of its commands; failures are in the answers, not raised."""
    script = Script(text, source)
    return [_Run(script, administered, checked).answer() for checked in _until_end(script)]


def check_script(text: str, source: str = "-") -> list[MqscError]:
    """All errors that can be found without a queue manager; nothing is carried out."""
    return [error for checked in _until_end(Script(text, source)) for error in checked.errors]


def require_ok(answers: Iterable[Answer]) -> None:
    """Return when all commands succeeded.

    Raises:
        MqscError: The error of the only command that failed.
        MqscScriptFailed: Several failed; it has the first error of each.
    """
    failures = tuple(answer.error for answer in answers if answer.error is not None)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise MqscScriptFailed(failures)


def _until_end(script: Script) -> Iterator[CheckedCommand]:
    for statement in script.statements():
        checked = check(script, statement)
        if isinstance(checked.command, EndCommand):
            return
        yield checked


class _Run:
    """One command on its way to its answer."""

    def __init__(self, script: Script, administered: Administered, checked: CheckedCommand) -> None:
        self._script = script
        self._administered = administered
        self._checked = checked
        self._at = checked.statement.at
        """Where a failure points to; it moves on to what the command is busy with."""
        self._rows: list[Row] = []

    def answer(self) -> Answer:
        output: list[str] = []
        errors = list(self._checked.errors)
        try:
            output = self._carry_out()
        except MqscError as error:
            errors.append(error)
        except EntrepotError as error:
            errors.append(self._failed(error))
        statement = self._checked.statement
        return Answer(
            statement.text,
            statement.at.line,
            tuple(output),
            tuple(self._rows) if not errors else (),
            tuple(errors),
            tuple(self._checked.warnings),
        )

    def _failed(self, error: EntrepotError) -> MqscCommandFailed:
        at = self._at
        failed = MqscCommandFailed(self._script.source, at.line, at.column, str(error).rstrip("."))
        failed.__cause__ = error
        return failed

    def _carry_out(self) -> list[str]:
        match self._checked.command:
            case DefineCommand() as command:
                return self._define(command)
            case AlterCommand() as command:
                return self._alter(command)
            case DeleteCommand(kind, name, purge):
                self._find(kind, name)
                self._administered.delete(kind.word, name.text, purge=purge)
                return [f"{_called(kind, name.text)} deleted."]
            case ClearCommand(name):
                kind = OBJECT_KINDS["QLOCAL"]
                self._find(kind, name)
                count = self._administered.clear(name.text)
                return [f"{_called(kind, name.text)} cleared of {count} message{'s' * (count != 1)}."]
            case DisplayCommand() as command if command.noun in RUNNING:
                return self._display_running(command, RUNNING[command.noun])
            case DisplayCommand() as command:
                return self._display(command)
            case SetAuthority() as command:
                return self._security(command.profile).set_authority(command)
            case DeleteAuthority() as command:
                return self._security(command.profile).delete_authority(command)
            case SetRule() as command:
                return self._security(command.profile).set_rule(command)
            case OperateCommand() as command:
                return self._operate(command)
            case PingCommand():
                return [f"Queue manager {self._administered.manager_attributes().name} answers."]
        return []

    def _find(self, kind: ObjectKind, name: Value) -> Definition:
        self._at = name.at
        found = self._administered.find(kind.word, name.text)
        if found is None:
            raise ObjectNotFound(kind.word, name.text)
        if found.kind != kind.word:
            raise self._refusal(name.at, f"{name.text} is a {found.kind}, not a {kind.word}")
        return found

    def _refusal(self, at: Position, problem: str) -> MqscCommandFailed:
        return MqscCommandFailed(self._script.source, at.line, at.column, problem)

    def _security(self, profile: Value) -> SecurityRun:
        self._at = profile.at
        return SecurityRun(self._administered, self._refusal)

    # --- DEFINE and ALTER ---------------------------------------------------------------------

    def _define(self, command: DefineCommand) -> list[str]:
        kind, name = command.kind, command.name.text
        if command.like is None:
            definition = kind.definition(name=name, **command.changes)
        else:
            like = self._find(kind, command.like)
            copied = msgspec.structs.asdict(like)
            inherited = {field: value for field, value in copied.items() if field not in kind.settled_fields}
            definition = kind.definition(**{**inherited, "name": name, **command.changes})
            self._require_same_type(kind, like, definition, command.like.at)
        if isinstance(definition, SubscriptionDefinition):
            self._require_alterable(definition, command)
            before = self._find(TOPIC, command.topic_object) if command.topic_object else None
            definition = completed(definition, command, before)
        self._require_valid(definition, command.places, command.name.at)
        for_life = kind.attributes_for_life
        existing = self._administered.find(kind.word, name) if command.replace and (kind.variant or for_life) else None
        if existing is not None:
            self._require_same_type(kind, existing, definition, command.name.at)
            self._require_alterable(existing, command)
            self._require_same_for_life(for_life, existing, definition, command)
            definition = kind.with_shown_of(existing, definition)
        self._administered.define(definition, replace=command.replace)
        return [f"{_called(kind, name)} defined."]

    def _alter(self, command: AlterCommand) -> list[str]:
        kind = command.kind
        old = self._administered.manager_attributes() if kind.only_one else self._find(kind, command.name)
        definition = msgspec.structs.replace(old, **command.changes)
        if kind.variant:
            self._require_same_type(kind, old, definition, command.places.get(kind.variant.keyword, command.name.at))
            self._require_belonging(command, old)
        self._require_alterable(old, command)
        self._require_valid(definition, command.places, command.name.at)
        self._administered.alter(definition)
        return [f"{_called(kind, definition.name)} altered."]

    def _require_valid(self, definition: Definition, places: Mapping[str, Position], otherwise: Position) -> None:
        self._at = otherwise
        try:
            require_valid(definition)
        except InvalidSetting as error:
            self._at = places.get(error.key.split(" ")[0], otherwise)
            raise

    def _require_alterable(self, old: Definition, command: DefineCommand | AlterCommand) -> None:
        if isinstance(old, SubscriptionDefinition) and (problem := why_not_altered(old, command)):
            raise self._refusal(*problem)

    def _require_same_for_life(
        self, attributes: Iterable[Attribute], old: Definition, new: Definition, command: DefineCommand
    ) -> None:
        for attribute in attributes:
            was, becomes = (getattr(definition, attribute.field) for definition in (old, new))
            if was != becomes:
                at = command.places.get(attribute.keyword, command.name.at)
                problem = f"{shortened(old.name)} has {attribute.keyword}({shortened(attribute.form.write(was))})"
                raise self._refusal(at, f"{problem}, which REPLACE cannot change (DELETE it first)")

    def _require_same_type(self, kind: ObjectKind, old: Definition, new: Definition, at: Position) -> None:
        """A channel keeps its type: what the two ends know of each other would be lost with it."""
        if kind.variant:
            was, becomes = (getattr(definition, kind.variant_field) for definition in (old, new))
            if was != becomes:
                keyword = kind.variant.keyword
                raise self._refusal(at, f"{old.name} is a {kind.label} of {keyword}({was}), not {keyword}({becomes})")

    def _require_belonging(self, command: AlterCommand, old: Definition) -> None:
        kind = command.kind
        belonging = kind.attributes_of(old)
        for attribute in kind.attributes:
            if attribute.field in command.changes and attribute not in belonging and kind.variant:
                type_said = f"{old.name}, whose {kind.variant.keyword} is {getattr(old, kind.variant_field)}"
                raise self._refusal(command.places[attribute.keyword], not_of_this_type(attribute, type_said))

    # --- what runs ----------------------------------------------------------------------------

    def _operate(self, command: OperateCommand) -> list[str]:
        operation, noun, name = command.operation, command.noun, command.name.text
        self._at = command.name.at
        if noun == "CONN":
            return self._stop_connection(name)
        if noun == "TOPICSTR":
            count = self._administered.clear_retained(name)
            return [f"Topic {name} cleared of {count} retained publication{'s' * (count != 1)}."]
        kind = OBJECT_KINDS[noun]
        found = self._find(kind, command.name)
        if isinstance(found, Channel) and found.channel_type not in operation.channel_types:
            types = listed(operation.channel_types)
            problem = f"{operation.verb} goes with CHLTYPE {types}, {name} has {found.channel_type}"
            raise self._refusal(command.name.at, problem)
        administered, options = self._administered, command.options
        match operation.verb:
            case "START":
                administered.start_object(noun, name)
            case "STOP":
                force, inactive = options.get("MODE", False), options.get("STATUS", False)
                administered.stop_object(noun, name, force=force, inactive=inactive)
            case "RESET":
                administered.reset_channel(name, options.get("SEQNUM", 1))
            case "RESOLVE":
                administered.resolve_channel(name, commit=options["ACTION"])
            case "PING":
                return [administered.ping_channel(name)]
        # A channel starts and stops in its own time; CHSTATUS shows how far it is.
        return [f"{_called(kind, name)}: {operation.verb} accepted."]

    def _stop_connection(self, said: str) -> list[str]:
        # Ids may have small letters, which a script folds unless they are quoted.
        ids = [str(row["CONN"]) for row in self._administered.running("CONN") if "CONN" in row]
        name = next((known for known in ids if known.upper() == said.upper()), said)
        self._administered.stop_object("CONN", name, force=False, inactive=False)
        return [f"Connection {name}: STOP accepted."]

    def _display_running(self, command: DisplayCommand, running: StatusNoun) -> list[str]:
        self._at = command.name.at
        rows = [Row(row) for row in self._administered.running(command.noun)]
        self._require_known(command, {keyword for row in rows for keyword in row}.union(running.keywords))
        key = running.name_keyword
        is_meant = running.selection(command.name.text)
        meant = sorted((name, place) for place, row in enumerate(rows) if is_meant(name := str(row.get(key, ""))))
        if not meant and running.kind and "*" not in command.name.text:
            self._find(OBJECT_KINDS[running.kind], command.name)
        lines = []
        for name, place in meant:
            if self._holds(command, rows[place]):
                row = _projected(command, [key], rows[place])
                self._rows.append(row)
                lines += lines_of(running.label, name, row)
        return lines or [f"No {command.noun} matches."]

    # --- DISPLAY ------------------------------------------------------------------------------

    def _display(self, command: DisplayCommand) -> list[str]:
        self._at = command.name.at
        found = [(OBJECT_KINDS[definition.kind], definition) for definition in self._selected(command)]
        if not found and not _is_generic(command):
            raise ObjectNotFound(command.noun, command.name.text)
        rows = [(kind, row) for kind, definition in found if (row := self._row(command, kind, definition))]
        if command.noun == "QSTATUS":
            self._require_known(command, {keyword for _, row in rows for keyword in row}.union(STATUS_KEYWORDS))
        lines = []
        for kind, whole in rows:
            if self._holds(command, whole):
                row = _projected(command, kind.always_shown, whole)
                self._rows.append(row)
                label = "status of queue" if command.noun == "QSTATUS" else kind.label
                lines += lines_of(label, row[kind.name_keyword], row, kind)
        return lines or [f"No {command.noun} matches."]

    def _selected(self, command: DisplayCommand) -> list[Definition]:
        if command.noun == "QMGR":
            return [self._administered.manager_attributes()]
        kinds = {kind.word: kind for kind in command.kinds}
        # Where no name stands in parentheses, everything is meant that the other words do not leave out.
        pattern = "*" if command.kinds and command.kinds[0].nameless else command.name.text
        chosen = [
            (str(getattr(definition, kind.name_field)), definition.kind, definition.name, definition)
            for definition in self._administered.definitions()
            if (kind := kinds.get(definition.kind)) and matches(pattern, getattr(definition, kind.name_field))
        ]
        return [definition for *_, definition in sorted(chosen, key=lambda found: found[:3])]

    def _row(self, command: DisplayCommand, kind: ObjectKind, definition: Definition) -> Row | None:
        """All there is to show about an object; None when it went away meanwhile."""
        try:
            if command.noun == "QSTATUS":
                status = self._administered.queue_status(definition.name)
                return {"QUEUE": definition.name, "TYPE": "QUEUE", **status}
            row = kind.row(definition)
            if kind.status and _wants_status(command, kind):
                status = self._administered.queue_status(definition.name)
                row.update((keyword, status[keyword]) for keyword in kind.status if keyword in status)
            return row
        except QueueNotFound:
            # Temporary queues come and go; that must not make DISPLAY QUEUE(*) fail now and then.
            return None

    def _require_known(self, command: DisplayCommand, known: set[str]) -> None:
        asked = [(keyword.text, keyword.at) for keyword in command.keywords]
        if command.condition:
            asked.append((command.condition.keyword, command.condition.keyword_at))
        for word, at in asked:
            if word not in known:
                raise self._script.error(
                    at, f"{shortened(word)} is no keyword of {command.noun}{suggestion(word, known)}"
                )

    def _holds(self, command: DisplayCommand, row: Row) -> bool:
        for keyword, pattern in command.selected:
            if not row.get(keyword) or not matches(pattern, str(row[keyword])):
                return False
        condition = command.condition
        if condition is None:
            return True
        try:
            return condition.holds(row)
        except InvalidValue:
            problem = f"{condition.keyword} is a number, {shortened(condition.operand)} is none"
            raise self._script.error(condition.operand_at, problem) from None


def _called(kind: ObjectKind, name: str) -> str:
    return f"{kind.label.capitalize()} {name}"


def _wants_status(command: DisplayCommand, kind: ObjectKind) -> bool:
    asked = {keyword.text for keyword in command.keywords}
    if command.condition:
        asked.add(command.condition.keyword)
    return _shows_all(command) or not asked.isdisjoint(kind.status)


def _is_generic(command: DisplayCommand) -> bool:
    """Whether finding nothing is an answer, and a name in it says little."""
    return "*" in command.name.text or any(kind.is_keyed for kind in command.kinds)


def _shows_all(command: DisplayCommand) -> bool:
    """As in MQ: ALL, or a full name and no keywords. A pattern alone gives the names."""
    # Of a status, a rule or a record the name alone would say nothing.
    names_suffice = bool(command.kinds) and command.noun != "QSTATUS" and not command.kinds[0].is_keyed
    generic = "*" in command.name.text and names_suffice
    return command.everything or not (command.keywords or generic)


def _projected(command: DisplayCommand, always: list[str], row: Row) -> Row:
    if _shows_all(command):
        return row
    asked = [*always, *(keyword.text for keyword in command.keywords)]
    return {keyword: row[keyword] for keyword in asked if keyword in row}
