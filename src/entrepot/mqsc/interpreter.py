# SPDX-License-Identifier: Apache-2.0
"""Scripts run against whatever can be administered, and every command gets its answer.

A command that fails stops no other one, as with runmqsc: the script goes
on, and `require_ok` afterwards raises what went wrong. END ends a script.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from entrepot.errors import (
    EntrepotError,
    MqscCommandFailed,
    MqscError,
    MqscScriptFailed,
    ObjectNotFound,
    QueueNotFound,
)
from entrepot.mqsc.checks import Checked, check
from entrepot.mqsc.commands import Alter, Clear, Define, Delete, Display, End, Ping
from entrepot.mqsc.display import Row, lines_of, matches
from entrepot.mqsc.forms import Unfit
from entrepot.mqsc.keywords import OBJECT_KINDS, STATUS_KEYWORDS, ObjectKind, require_valid
from entrepot.mqsc.syntax import Script, Value
from entrepot.mqsc.wording import shortened, suggestion
from entrepot.queues.definitions import Definition, ManagerAttributes


class Administered(Protocol):
    """What commands act on: a queue manager, in this process or at the end of a channel."""

    def manager_attributes(self) -> ManagerAttributes: ...

    def definitions(self) -> Iterable[Definition]:
        """Every object but the queue manager itself, in any order."""

    def find(self, kind: str, name: str) -> Definition | None:
        """The object of that kind and name; queues of all kinds share one name space."""

    def define(self, definition: Definition, *, replace: bool) -> None: ...

    def alter(self, definition: Definition) -> None:
        """Put the whole new definition, or ManagerAttributes, in the old one's place."""

    def delete(self, kind: str, name: str, *, purge: bool) -> None: ...

    def clear(self, name: str) -> int:
        """Remove all messages; how many there were."""

    def queue_status(self, name: str) -> Mapping[str, int | float | str]:
        """The state of a local queue under MQSC's keywords: CURDEPTH, IPPROCS, UNCOM, MSGAGE, ..."""


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


def _until_end(script: Script) -> Iterator[Checked]:
    for statement in script.statements():
        checked = check(script, statement)
        if isinstance(checked.command, End):
            return
        yield checked


class _Run:
    """One command on its way to its answer."""

    def __init__(self, script: Script, administered: Administered, checked: Checked) -> None:
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
            case Define() as command:
                return self._define(command)
            case Alter() as command:
                return self._alter(command)
            case Delete(kind, name, purge):
                self._find(kind, name)
                self._administered.delete(kind.word, name.text, purge=purge)
                return [f"{_called(kind, name.text)} deleted."]
            case Clear(name):
                kind = OBJECT_KINDS["QLOCAL"]
                self._find(kind, name)
                count = self._administered.clear(name.text)
                return [f"{_called(kind, name.text)} cleared of {count} message{'s' * (count != 1)}."]
            case Display() as command:
                return self._display(command)
            case Ping():
                return [f"Queue manager {self._administered.manager_attributes().name} answers."]
        return []

    def _find(self, kind: ObjectKind, name: Value) -> Definition:
        self._at = name.at
        found = self._administered.find(kind.word, name.text)
        if found is None:
            raise ObjectNotFound(kind.word, name.text)
        if found.kind != kind.word:
            problem = f"{name.text} is a {found.kind}, not a {kind.word}"
            raise MqscCommandFailed(self._script.source, name.at.line, name.at.column, problem)
        return found

    # --- DEFINE and ALTER ---------------------------------------------------------------------

    def _define(self, command: Define) -> list[str]:
        kind, name = command.kind, command.name.text
        if command.like is None:
            definition = kind.definition(name=name, **command.changes)
        else:
            # How the other one came to be is its own affair.
            settled = {attribute.field for attribute in kind.attributes if not attribute.alterable}
            copied = msgspec.structs.asdict(self._find(kind, command.like))
            inherited = {field: value for field, value in copied.items() if field not in settled}
            definition = kind.definition(**{**inherited, "name": name, **command.changes})
        self._at = command.name.at
        require_valid(definition)
        self._administered.define(definition, replace=command.replace)
        return [f"{_called(kind, name)} defined."]

    def _alter(self, command: Alter) -> list[str]:
        kind = command.kind
        old = self._administered.manager_attributes() if kind.only_one else self._find(kind, command.name)
        definition = msgspec.structs.replace(old, **command.changes)
        require_valid(definition)
        self._administered.alter(definition)
        return [f"{_called(kind, definition.name)} altered."]

    # --- DISPLAY ------------------------------------------------------------------------------

    def _display(self, command: Display) -> list[str]:
        self._at = command.name.at
        generic = "*" in command.name.text
        found = [(OBJECT_KINDS[definition.kind], definition) for definition in self._selected(command)]
        if not found and not generic:
            raise ObjectNotFound(command.noun, command.name.text)
        rows = [(kind, row) for kind, definition in found if (row := self._row(command, kind, definition))]
        if command.noun == "QSTATUS":
            self._require_known(command, {keyword for _, row in rows for keyword in row})
        lines = []
        for kind, whole in rows:
            if self._holds(command, whole):
                row = _projected(command, kind, whole)
                self._rows.append(row)
                lines += lines_of(kind, row, "status of queue" if command.noun == "QSTATUS" else kind.label)
        return lines or [f"No {command.noun} matches."]

    def _selected(self, command: Display) -> list[Definition]:
        if command.noun == "QMGR":
            return [self._administered.manager_attributes()]
        words = {kind.word for kind in command.kinds}
        chosen = (
            definition
            for definition in self._administered.definitions()
            if definition.kind in words and matches(command.name.text, definition.name)
        )
        return sorted(chosen, key=lambda definition: (definition.name, definition.kind))

    def _row(self, command: Display, kind: ObjectKind, definition: Definition) -> Row | None:
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

    def _require_known(self, command: Display, shown: set[str]) -> None:
        known = shown.union(STATUS_KEYWORDS)
        asked = [(keyword.text, keyword.at) for keyword in command.keywords]
        if command.condition:
            asked.append((command.condition.keyword, command.condition.keyword_at))
        for word, at in asked:
            if word not in known:
                raise self._script.error(at, f"{shortened(word)} is no keyword of QSTATUS{suggestion(word, known)}")

    def _holds(self, command: Display, row: Row) -> bool:
        condition = command.condition
        if condition is None:
            return True
        try:
            return condition.holds(row)
        except Unfit:
            problem = f"{condition.keyword} is a number, {shortened(condition.operand)} is none"
            raise self._script.error(condition.operand_at, problem) from None


def _called(kind: ObjectKind, name: str) -> str:
    return f"{kind.label.capitalize()} {name}"


def _wants_status(command: Display, kind: ObjectKind) -> bool:
    asked = {keyword.text for keyword in command.keywords}
    if command.condition:
        asked.add(command.condition.keyword)
    return _shows_all(command) or not asked.isdisjoint(kind.status)


def _shows_all(command: Display) -> bool:
    """As in MQ: ALL, or a full name and no keywords. A pattern alone gives the names."""
    generic = "*" in command.name.text and command.noun != "QSTATUS"
    return command.everything or not (command.keywords or generic)


def _projected(command: Display, kind: ObjectKind, row: Row) -> Row:
    if _shows_all(command):
        return row
    always = [kind.name_keyword, "TYPE"]
    asked = [*always, *(keyword.text for keyword in command.keywords)]
    return {keyword: row[keyword] for keyword in asked if keyword in row}
