# SPDX-License-Identifier: Apache-2.0
"""Test files: `pricing.test.yaml` beside `pricing.yaml` says what is fed and what should come of it.

    flow: pricing.yaml                     # without it, the file of the same name beside this one
    databases: {SHOP: "CREATE TABLE ..."}  # SQL for a new SQLite database in memory
    cases:
      an order is priced:
        feed: {to: ORDERS, body: <order/>, persistent: true}
        expect:
          DONE: {xml: <order><total>3</total></order>}

Everything that can be said is listed in the classes below; what is none of
it is a mistake with its place. examples/flows/pricing.test.yaml shows most.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from entrepot.errors import FlowTestInvalid
from entrepot.flows.loading import IBM_SUFFIXES, YAML_SUFFIXES
from entrepot.flows.nodes.node import FlowMistake
from entrepot.flows.property_values import meant, read_plain
from entrepot.message import Message, MessageType
from entrepot.yaml_places import Listing, Place, Scalar, Table, Written, read_yaml, words_for

SUFFIX = ".test.yaml"
BODIES = ("body", "json", "hex", "file")
CHECKS = ("body", "xml", "json", "hex", "file", "tree", "model", "properties")
_IDS = ("message_id", "correlation_id", "group_id")
_FIELDS = tuple(name for name in Message.__struct_fields__ if name not in ("body", "properties"))
_SETTINGS = ("databases", "now", "properties", "queues", "stubs", "put")
_RESULT = ("expect", "published", "failures", "path", "trace", "others")
_STEP = ("feed", "pass_time", "run_all", *_RESULT)


@dataclass(slots=True)
class Expected:
    """One message that should come out; what is not said may be anything."""

    where: str
    """Its place in the file."""
    checks: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TrialStep:
    """Something that is done, and what should come of it."""

    where: str
    action: str = "feed"
    """feed, pass_time or run_all."""
    to: str = ""
    body: bytes = b""
    descriptor: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    outputs: dict[str, list[Expected]] | None = None
    published: dict[str, list[Expected]] | None = None
    failures: list[str] | None = None
    path: list[str] | None = None
    trace: list[str] | None = None
    others: bool = False
    """Whether messages may come out that are not named."""


@dataclass(slots=True)
class Stubbed:
    """What stands in for a node."""

    to: str = ""
    body: bytes | None = None
    domain: str = ""
    error: str = ""
    number: int = 2951


@dataclass(slots=True)
class TrialSettings:
    """The world of a case; what a case says goes before what the file says."""

    databases: dict[str, str] = field(default_factory=dict)
    now: float | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    stubs: dict[str, Stubbed] = field(default_factory=dict)
    put: list[tuple[str, bytes, dict[str, Any]]] = field(default_factory=list)


@dataclass(slots=True)
class TrialCase:
    """One test."""

    name: str
    where: str
    settings: TrialSettings
    steps: list[TrialStep]


@dataclass(slots=True)
class CaseFile:
    """A file of cases for one flow."""

    path: Path
    flow: Path
    cases: list[TrialCase]


def read_test_file(path: str | Path) -> CaseFile:
    """
    Raises:
        FlowTestInvalid: Everything that is wrong with it.
    """
    path = Path(path)
    mistakes: list[FlowMistake] = []
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = f"the byte {content[error.start]:#04x} is no UTF-8"
        raise FlowTestInvalid(str(path), ((f"{path}:{line}", problem, "Save the file as UTF-8."),)) from None

    def wrong(place: Place, problem: str, advice: str) -> None:
        mistakes.append(FlowMistake(str(place), problem, advice))

    written = read_yaml(text, str(path), wrong)
    found = _CaseReader(path, mistakes).file(written) if written is not None else None
    if mistakes or found is None:
        lines = tuple((mistake.where, mistake.problem, mistake.advice) for mistake in mistakes)
        raise FlowTestInvalid(str(path), lines or ((str(path), "the file is empty", "Write cases."),))
    return found


def _flow_beside(folder: Path, name: str) -> str:
    """The flow that a test file is called after, in whichever notation it lies there; ours if it is missing."""
    suffixes = (*YAML_SUFFIXES, *IBM_SUFFIXES)
    return next((f"{name}{each}" for each in suffixes if (folder / f"{name}{each}").exists()), f"{name}.yaml")


class _CaseReader:
    def __init__(self, path: Path, mistakes: list[FlowMistake]) -> None:
        self._path = path
        self._mistakes = mistakes

    def _wrong(self, at: Written, problem: str, advice: str = "") -> None:
        self._mistakes.append(FlowMistake(str(at.place), problem, advice))

    # --- the file -------------------------------------------------------------------------------------

    def file(self, written: Written) -> CaseFile | None:
        table = self._table(written, "the file", ("flow", "cases", *_SETTINGS))
        if table is None:
            return None
        name = self._path.name.removesuffix(SUFFIX)
        flow = self._path.parent / (self._text(table.get("flow")) or _flow_beside(self._path.parent, name))
        cases = []
        listed = table.get("cases")
        if listed is None:
            self._wrong(table, "there are no cases", "Write `cases:` and below it a name for each.")
        elif (named := self._table(listed, "cases", None)) is not None:
            cases = [self._case(key, value, table) for key, value in named]
        return CaseFile(self._path, flow, cases)

    def _case(self, name: Scalar, written: Written, above: Table) -> TrialCase:
        settings = TrialSettings()
        self._settings(above, settings)
        case = TrialCase(name.text, str(name.place), settings, [])
        table = self._table(written, "a case", (*_SETTINGS, *_STEP, "steps"))
        if table is None:
            return case
        self._settings(table, settings)
        steps = table.get("steps")
        if steps is not None:
            for step in _items(steps):
                inner = self._table(step, "a step", _STEP)
                if inner is not None:
                    case.steps.append(self._step(inner))
        else:
            case.steps.append(self._step(table))
        return case

    def _settings(self, table: Table, settings: TrialSettings) -> None:
        readers: dict[str, Callable[[Written], None]] = {
            "databases": lambda value: settings.databases.update(self._databases(value)),
            "now": lambda value: setattr(settings, "now", self._time(value)),
            "properties": lambda value: settings.properties.update(self._plain_table(value)),
            "queues": lambda value: settings.queues.update(self._queues(value)),
            "stubs": lambda value: settings.stubs.update(self._stubs(value)),
            "put": lambda value: settings.put.extend(self._puts(value)),
        }
        for key, value in table:
            if key.text in readers:
                readers[key.text](value)

    def _databases(self, written: Written) -> dict[str, str]:
        if isinstance(written, Scalar):
            return {"": written.text}
        table = self._table(written, "databases", None)
        return {} if table is None else {key.text: self._text(value) for key, value in table}

    def _time(self, written: Written) -> float | None:
        text = self._text(written)
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            self._wrong(written, f"{text!r} is no time", "Write it as 2026-01-31T12:00:00Z.")
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()

    def _queues(self, written: Written) -> dict[str, dict[str, Any]]:
        known = ("threshold", "backout_queue", "dead_letter_queue")
        named = self._table(written, "queues", None)
        found: dict[str, dict[str, Any]] = {}
        for key, value in named or ():
            if self._table(value, "a queue", known) is not None:
                found[key.text] = self._plain_table(value)
        return found

    def _stubs(self, written: Written) -> dict[str, Stubbed]:
        found: dict[str, Stubbed] = {}
        for key, value in self._table(written, "stubs", None) or ():
            table = self._table(value, "a stub", ("to", "domain", "raise", "number", *BODIES))
            if table is not None:
                stub = found[key.text] = Stubbed(self._text(table.get("to")), domain=self._text(table.get("domain")))
                stub.body = self._body(table)
                stub.error = self._text(table.get("raise"))
                number = _plain(table.get("number"))
                stub.number = number if isinstance(number, int) else stub.number
        return found

    def _puts(self, written: Written) -> list[tuple[str, bytes, dict[str, Any]]]:
        found = []
        for key, value in self._table(written, "put", None) or ():
            for item in _items(value):
                table = self._table(item, "a message", (*BODIES, *_FIELDS, "properties"))
                if table is not None:
                    found.append((key.text, self._body(table) or b"", self._descriptor(table)))
        return found

    # --- steps ------------------------------------------------------------------------------------------

    def _step(self, table: Table) -> TrialStep:
        step = TrialStep(str(table.place))
        done = [name for name in ("feed", "pass_time", "run_all") if table.get(name) is not None]
        if len(done) != 1:
            problem = "nothing is done" if not done else f"{' and '.join(done)} are done at once"
            self._wrong(table, problem, "Say one of feed, pass_time and run_all; several are `steps:`.")
            return step
        step.action = done[0]
        value = table.get(step.action)
        assert value is not None
        if step.action == "feed":
            self._feed(value, step)
        elif step.action == "pass_time":
            seconds = _plain(value)
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
                self._wrong(value, f"{words_for(value)} are no seconds", "Write a number of seconds.")
            else:
                step.seconds = float(seconds)
        self._results(table, step)
        return step

    def _feed(self, written: Written, step: TrialStep) -> None:
        table = self._table(written, "feed", ("to", *BODIES, *_FIELDS, "properties"))
        if table is None:
            return
        step.to = self._text(table.get("to"))
        if not step.to:
            self._wrong(table, "it is not said where the message comes in", "Say `to:` and a queue or an input node.")
        step.body = self._body(table) or b""
        step.descriptor = self._descriptor(table)

    def _body(self, table: Table) -> bytes | None:
        given = [name for name in BODIES if table.get(name) is not None]
        if len(given) > 1:
            self._wrong(table, f"{' and '.join(given)} are both a body", "Say one.")
        if not given:
            return None
        value = table.get(given[0])
        assert value is not None
        return self._bytes(given[0], value)

    def _bytes(self, kind: str, written: Written) -> bytes:
        if kind == "json":
            from entrepot.flows.trials.recording import body_bytes

            value = _plain(written)
            return body_bytes(value) if isinstance(value, dict | list) else repr(value).encode()
        text = self._text(written)
        if kind == "hex":
            try:
                return bytes.fromhex(text)
            except ValueError:
                self._wrong(written, "these are no hexadecimal digits", "Write two digits for each byte.")
                return b""
        if kind == "file":
            try:
                return (self._path.parent / text).read_bytes()
            except OSError as error:
                self._wrong(written, f"{text}: {error.strerror}", "Files are looked for beside the test file.")
                return b""
        # A block in YAML ends with a line end that no message has.
        return (text.removesuffix("\n") if not (isinstance(written, Scalar) and written.is_plain) else text).encode()

    def _descriptor(self, table: Table) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in table:
            if key.text == "properties":
                found["properties"] = self._plain_table(item)
            elif key.text == "type":
                word = self._text(item).upper()
                if word in MessageType.__members__:
                    found["type"] = MessageType[word]
                else:
                    self._wrong(item, f"{word} is no type of messages", f"One of {', '.join(MessageType.__members__)}.")
            elif key.text in _IDS:
                found[key.text] = identifier(self._text(item))
            elif key.text in _FIELDS:
                found[key.text] = self._text(item) if _is_text(key.text) else _flag(_plain(item))
        return found

    def _results(self, table: Table, step: TrialStep) -> None:
        for key, value in table:
            match key.text:
                case "expect":
                    step.outputs = self._messages(value)
                case "published":
                    step.published = self._messages(value)
                case "failures":
                    step.failures = [self._text(item) for item in _items(value)]
                case "path":
                    step.path = [self._text(item) for item in _items(value)]
                case "trace":
                    step.trace = [self._text(item) for item in _items(value)]
                case "others":
                    step.others = _flag(_plain(value)) is True

    def _messages(self, written: Written) -> dict[str, list[Expected]]:
        if isinstance(written, Scalar) and (written.is_empty or written.text == "nothing"):
            return {}
        found: dict[str, list[Expected]] = {}
        for key, value in self._table(written, "expected messages", None) or ():
            found[key.text] = [self._expected(item) for item in _items(value)]
        return found

    def _expected(self, written: Written) -> Expected:
        expected = Expected(str(written.place))
        if isinstance(written, Scalar):
            if not written.is_empty:
                expected.checks["body"] = self._bytes("body", written)
            return expected
        table = self._table(written, "an expected message", (*CHECKS, *_FIELDS))
        for key, value in table or ():
            if key.text in ("tree", "model", "properties"):
                expected.checks[key.text] = self._plain_table(value)
            elif key.text == "json":
                expected.checks["json"] = _plain(value)
            elif key.text == "xml":
                expected.checks["xml"] = self._text(value)
            elif key.text in BODIES:
                expected.checks["body"] = self._bytes(key.text, value)
        if table is not None:
            fields = self._descriptor(Table(table.place, [pair for pair in table if pair[0].text in _FIELDS]))
            expected.checks |= fields
        return expected

    # --- what they share ----------------------------------------------------------------------------------

    def _table(self, written: Written, what: str, known: Iterable[str] | None) -> Table | None:
        if not isinstance(written, Table):
            self._wrong(written, f"{what} cannot be {words_for(written)}", "Write names with values below it.")
            return None
        if known is not None:
            listed = tuple(known)
            for key, _ in written:
                if key.text not in listed:
                    problem = f"{what} has no {key.text!r}{meant(key.text, listed)}"
                    self._wrong(key, problem, f"It may have {', '.join(listed[:14])}.")
        return written

    def _plain_table(self, written: Written) -> dict[str, Any]:
        table = self._table(written, "this", None)
        return {} if table is None else {key.text: _plain(value) for key, value in table}

    def _text(self, written: Written | None) -> str:
        if written is None:
            return ""
        if isinstance(written, Scalar):
            return written.text
        self._wrong(written, f"{words_for(written)} where a text is wanted")
        return ""


def identifier(text: str) -> bytes:
    """24 bytes of an id: 48 hexadecimal digits, or a text that is filled up."""
    try:
        id_bytes = bytes.fromhex(text) if len(text) == 48 else text.encode()
    except ValueError:
        id_bytes = text.encode()
    return id_bytes[:24].ljust(24, b"\0")


def _items(written: Written) -> list[Written]:
    return written.items if isinstance(written, Listing) else [written]


def _plain(written: Written | None) -> Any:
    if isinstance(written, Table):
        return {key.text: _plain(value) for key, value in written}
    if isinstance(written, Listing):
        return [_plain(value) for value in written.items]
    if written is None:
        return None
    return read_plain(written.text) if written.is_plain else written.text


def _is_text(name: str) -> bool:
    return isinstance(_DEFAULTS.get(name), str)


def _flag(value: Any) -> Any:
    return {"yes": True, "no": False}.get(value, value) if isinstance(value, str) else value


_DEFAULTS: Mapping[str, Any] = dict(
    zip(reversed(Message.__struct_fields__), reversed(Message.__struct_defaults__), strict=False)
)
