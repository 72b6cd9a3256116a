# SPDX-License-Identifier: Apache-2.0
"""FileOutput: messages become files, or records of files.

What it promises: a message whose unit of work is backed out leaves nothing in
any file; one whose unit is committed is in its file once, even when the
process or the machine dies right then (`file_spools` says how). It is there
after the commit, a moment later than on queues.

Names that messages bring lead nowhere but into the node's own folder.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from entrepot.errors import (
    FileExistsAlready,
    FileNameUnsafe,
    FileWriteFailed,
    FolderUnusable,
    NowhereToSetAside,
    RecordWrongLength,
)
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.file_spools import RESERVED, Spool, Spools, Task
from entrepot.flows.flow_world import QueueFacts
from entrepot.flows.journey import Journey
from entrepot.flows.nodes.arrivals import body_of, place_in
from entrepot.flows.nodes.input_node import EntryPoint, InputNode
from entrepot.flows.nodes.node import Enter, FlowMistake, NodeContext, Property
from entrepot.message import Message
from entrepot.models.tree import Assembly, Element

LEDGER = "SYSTEM.FLOW.FILES.WRITTEN"
_LEDGER_S = 30 * 86_400.0
_LEFTOVERS_S = 30.0
"""How often to look for what a crash has left."""
_UNDECIDED_S = 3_600.0
"""A unit of work that has not been committed for so long after it wrote something never will be."""
_LEFTOVERS_MAX = 100
_NAME_BYTES_MAX = 200
_LOGGER = logging.getLogger(__name__)
_HEXADECIMAL = re.compile(r"([0-9A-Fa-f]{2}){1,16}")


def problem_with_delimiter(given: Mapping[str, Any]) -> str:
    """What is wrong with the delimiter of a node; nothing if it is empty."""
    custom = given.get("custom_delimiter") or ""
    if given.get("delimiter", "newline") == "newline":
        return ""
    return "" if _HEXADECIMAL.fullmatch(_digits(custom)) else f"{custom!r} is no delimiter of 1 to 16 bytes"


def delimiter_of(settings: Mapping[str, Any]) -> bytes:
    """The bytes of a delimiter; none where it is the end of a line."""
    if settings["delimiter"] == "newline":
        return b""
    return bytes.fromhex(_digits(settings["custom_delimiter"]))


def _digits(text: Any) -> str:
    return re.sub(r"^[Xx]'(.*)'$", r"\1", str(text)).replace(" ", "")


class LeftoverSource:
    """What crashes have left in a folder, one file a message (input_node.Source); it never waits."""

    def __init__(self, spools: Spools) -> None:
        self._spools = spools
        self._look_at = 0.0
        self._found: list[Spool] = []
        self.handed_out: dict[str, Spool] = {}

    def next(self, wait_s: float) -> Message | None:
        del wait_s
        if not self._found and not self.handed_out and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LEFTOVERS_S
            for spool in self._spools.left_behind():
                self._found.append(spool)
                if len(self._found) == _LEFTOVERS_MAX:
                    break
        if not self._found:
            return None
        spool = self._found.pop(0)
        self.handed_out[spool.path.name] = spool
        return Message(b"", message_id=spool.key, persistent=True, properties={"spool": spool.path.name})

    def committed(self) -> None:
        self._let_go()

    def backed_out(self) -> None:
        self._let_go()
        self._look_at = min(self._look_at, time.monotonic() + 1.0)

    def left_in_doubt(self) -> None:
        self.backed_out()  # what has been dealt with is not there any more when it looks again

    def close(self) -> None:
        self._let_go()
        for spool in self._found:
            spool.close()
        self._found.clear()

    def _let_go(self) -> None:
        for spool in self.handed_out.values():
            spool.close()
        self.handed_out.clear()


class FileOutput(InputNode):
    type: ClassVar[str] = "FileOutput"
    about: ClassVar[str] = "Writes the message to a file, or as a record of one, when the unit of work commits."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmFileOutput",)
    inputs: ClassVar[tuple[str, ...]] = ("in", "finishFile")
    outputs: ClassVar[tuple[str, ...]] = ("out", "failure", "endOfData")
    properties: ClassVar[tuple[Property, ...]] = (
        Property("directory", "text", required=True, ibm="outputDirectory"),
        Property("name", "text", "", ibm="outputFilename", about="a * is what FileInput's * was"),
        Property(
            "records",
            "choice",
            "wholeFile",
            choices=("wholeFile", "unmodified", "delimited", "fixedLength"),
            ibm="recordDefinition",
            about="all but wholeFile collect records in mqsitransit until a message comes to finishFile",
        ),
        Property("record_length", "integer", 80, ibm="recordLength"),
        Property("padding", "text", "20", ibm="recordPaddingByte", about="what fills a record, in hexadecimal"),
        Property("delimiter", "choice", "newline", choices=("newline", "customDelimiter"), ibm="recordDelimiter"),
        Property("custom_delimiter", "text", "", ibm="customDelimiter", about="in hexadecimal, such as 0D0A"),
        Property("delimiter_type", "choice", "postfix", choices=("postfix", "infix"), ibm="delimiterType"),
        Property(
            "existing",
            "choice",
            "replace",
            choices=("replace", "append", "archive", "fail"),
            about="what becomes of a file that is there; archive: it moves to mqsiarchive",
        ),
        Property("forces", "flag", True, about="no: quicker, and a power cut may take the last files"),
    )

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        self._folder = Path(os.path.realpath(self.settings["directory"]))
        self._spools = Spools(self._folder, forces=self.settings["forces"])
        self._leftovers: LeftoverSource | None = None
        self._forget: set[bytes] = set()
        """Notes about spools that are in their places."""

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        del flow
        given = definition.properties
        found = []
        problem = _problem_with_name(str(given.get("name") or "x").replace("*", "x", 1))
        if problem:
            found.append(FlowMistake(definition.name, f"{given.get('name')!r} is no name for a file: {problem}"))
        problem = problem_with_delimiter(given)
        if problem:
            found.append(FlowMistake(definition.name, problem, "Write pairs of hexadecimal digits, such as 0D0A."))
        length = given.get("record_length", 80)
        if given.get("records") == "fixedLength" and not (isinstance(length, int) and length > 0):
            found.append(FlowMistake(definition.name, "records have at least one byte", "Say record_length."))
        if not re.fullmatch("[0-9A-Fa-f]{2}", _digits(given.get("padding", "20"))):
            found.append(
                FlowMistake(definition.name, f"{given.get('padding')!r} is no byte", "Write two hexadecimal digits.")
            )
        return found

    def entrance(self, terminal: str) -> Enter:
        return self._finish if terminal == "finishFile" else self.enter

    def points(self) -> list[EntryPoint]:
        return [EntryPoint(self, self._recover, transaction="yes", source=self._open)]

    def _open(self) -> LeftoverSource:
        self._leftovers = LeftoverSource(self._spools)
        return self._leftovers

    # --- writing ------------------------------------------------------------------------------

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        settings = self.settings
        target = self._target(assembly)
        collects = settings["records"] != "wholeFile"
        task = Task(target, settings["existing"], collects=collects, between=self._between())
        if settings["existing"] == "fail" and (self._folder / target).exists():
            raise FileExistsAlready(self.plan.flow.name, self.name, str(self._folder / target))
        self._write(task, self._record(body_of(assembly.root).body), journey)
        self._go_on("out", assembly, journey, target, "Append" if collects else settings["existing"].capitalize())

    def _finish(self, assembly: Assembly, journey: Journey) -> None:
        try:
            target = self._target(assembly)
            self._write(Task(target, self.settings["existing"], finishes=True), b"", journey)
            self._go_on("endOfData", assembly, journey, target, "Finish")
        except Exception as error:
            self._failed(error, assembly, journey)

    def _write(self, task: Task, body: bytes, journey: Journey) -> None:
        flow, node = self.plan.flow.name, self.name
        target = self._folder / task.target
        if not target.parent.is_dir():
            raise FolderUnusable(flow, node, str(target.parent), "there is no such folder")
        try:
            spool = self._spools.write(task, body)
        except OSError as error:
            raise FileWriteFailed(flow, node, str(target), error.strerror or str(error)) from error
        note = Message(msgspec.json.encode(task), persistent=True)
        journey.keep(LEDGER, spool.key, note, expires_s=_LEDGER_S)
        journey.after_commit.append(partial(self._place, spool, task))
        self._forget_some(journey)

    def _place(self, spool: Spool, task: Task) -> None:
        try:
            self._spools.place(spool, task)
        except OSError as error:
            # It is committed, and stays where it is; it is tried again with what crashes have left.
            _LOGGER.warning(
                "%s, %s: %s is not in its place yet: %s", self.plan.flow.name, self.name, task.target, error
            )
            spool.close()
        else:
            self._forget.add(spool.key)

    def _forget_some(self, journey: Journey) -> None:
        """Remove notes that are not needed any more, with the next message."""
        if not self._forget:
            return
        gone = tuple(self._forget)
        for key in gone:
            journey.take(LEDGER, key)
        journey.after_commit.append(partial(self._forget.difference_update, gone))

    def _record(self, body: bytes) -> bytes:
        settings = self.settings
        if settings["records"] == "fixedLength":
            length = settings["record_length"]
            if len(body) > length:
                raise RecordWrongLength(self.plan.flow.name, self.name, len(body), length)
            return body.ljust(length, bytes.fromhex(_digits(settings["padding"])))
        if settings["records"] == "delimited" and settings["delimiter_type"] == "postfix":
            return body + (delimiter_of(settings) or b"\n")
        return body

    def _between(self) -> str:
        settings = self.settings
        if settings["records"] == "delimited" and settings["delimiter_type"] == "infix":
            return (delimiter_of(settings) or b"\n").hex()
        return ""

    def _go_on(self, terminal: str, assembly: Assembly, journey: Journey, target: str, action: str) -> None:
        wire = self.wires.get(terminal)
        if wire is None:
            return
        local = assembly.local_environment.copy()
        written = place_in(local, "WrittenDestination")
        for before in written.all("File"):
            written.remove(before)
        file = written.add("File")
        path = self._folder / target
        file.add("Directory", str(path.parent))
        file.add("Name", path.name)
        file.add("Action", action)
        file.add("Timestamp", datetime.fromtimestamp(journey.world.now()))
        wire(Assembly(assembly.root, assembly.environment, local, assembly.exception_list), journey)

    # --- where to -----------------------------------------------------------------------------

    def _target(self, assembly: Assembly) -> str:
        """The path of the file below the node's folder."""
        destination = assembly.local_environment.first("Destination")
        wanted = None if destination is None else destination.first("File")
        name = _text(wanted, "Name") or self._named(assembly)
        problem = _problem_with_name(name)
        if problem:
            raise FileNameUnsafe(self.plan.flow.name, self.name, name, problem)
        folder = _text(wanted, "Directory")
        if not folder:
            return name
        if "\0" in folder:
            raise FileNameUnsafe(self.plan.flow.name, self.name, folder, "it has a zero byte")
        # Links are followed before anything is believed.
        place = Path(os.path.realpath(self._folder / folder))
        if place != self._folder and self._folder not in place.parents:
            raise FileNameUnsafe(self.plan.flow.name, self.name, folder, f"it is not below {self._folder}")
        below = place.relative_to(self._folder)
        if RESERVED.intersection(below.parts):
            raise FileNameUnsafe(self.plan.flow.name, self.name, folder, "that folder is for files on their way")
        return str(below / name)

    def _named(self, assembly: Assembly) -> str:
        name: str = self.settings["name"] or _text(assembly.local_environment.first("File"), "Name")
        if "*" in name:
            matched = assembly.local_environment.get("Wildcard", "WildcardMatch")
            if matched is not None:
                return name.replace("*", str(matched), 1)
        return name

    # --- after a crash ------------------------------------------------------------------------

    def _recover(self, message: Message, journey: Journey) -> None:
        """An abandoned file was found: put it in its place if its unit of work was committed."""
        spool = None if self._leftovers is None else self._leftovers.handed_out.get(str(message.properties["spool"]))
        if spool is None:
            return
        self._forget_some(journey)
        note = journey.take(LEDGER, spool.key)
        if note is not None:
            task = msgspec.json.decode(note.body, type=Task)
            try:
                # Before the commit: to do it again does no harm, and not to do it would.
                self._spools.place(spool, task, is_late=True)
            except OSError as error:
                problem = error.strerror or str(error)
                raise FileWriteFailed(self.plan.flow.name, self.name, task.target, problem) from error
        elif spool.has_begun or journey.world.is_kept(LEDGER, spool.key):
            return  # it is committed, and its note is in another unit of work at the moment
        elif time.time() - os.fstat(spool.file.fileno()).st_mtime > _UNDECIDED_S:
            spool.path.unlink(missing_ok=True)

    def set_aside(self, message: Message, journey: Journey, error: Exception, facts: QueueFacts) -> None:
        """What cannot be put in its place stays where it is, and is tried again."""
        del message, facts
        journey.noted(self, error)
        raise NowhereToSetAside(self.plan.flow.name, self.name, str(self._folder), str(error)) from error


def _text(element: Element | None, name: str) -> str:
    found = None if element is None else element.first(name)
    return "" if found is None or found.value is None else str(found.value)


def _problem_with_name(name: str) -> str:
    if not name:
        return "none is set"
    if "/" in name or "\0" in name or name in (".", ".."):
        return "it leads out of the folder"
    if any(character < " " for character in name):
        return "it has control characters"
    if name in RESERVED:
        return "that is a folder for files on their way"
    try:
        size = len(os.fsencode(name))
    except UnicodeEncodeError:
        return "it is no Unicode text"
    return f"it has more than {_NAME_BYTES_MAX} bytes" if size > _NAME_BYTES_MAX else ""
