# SPDX-License-Identifier: Apache-2.0
"""FileInput: the records of files as messages, each of them once.

Every record is noted in a ledger in the queue manager, in the unit of work in
which it is dealt with. A file is archived or deleted after that was committed;
a file that is read again after a crash is read without what the ledger knows:

    SYSTEM.FLOW.FILES, by file   {"records": 17, "offset": 4711, "outcome": ""}

FileOutput is in `file_output`.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from entrepot.errors import NowhereToSetAside, RecordTooLong
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.file_source import ID_BYTES, FileInputSettings, FileSource
from entrepot.flows.flow_world import QueueFacts
from entrepot.flows.journey import Journey
from entrepot.flows.nodes.arrivals import AS_BYTES, arrived, place_in
from entrepot.flows.nodes.file_output import FileOutput, delimiter_of, problem_with_delimiter
from entrepot.flows.nodes.input_node import PARSING, EntryPoint, InputNode
from entrepot.flows.nodes.node import FlowMistake, NodeContext, Property
from entrepot.flows.records import Splitting
from entrepot.message import Message
from entrepot.models.tree import Assembly, Root

__all__ = ["FileInput", "FileOutput"]

LEDGER = "SYSTEM.FLOW.FILES"
LEDGER_S = 30 * 86_400.0
"""How long it is known that a file is done which was not moved yet."""


class Progress(msgspec.Struct, frozen=True):
    """What has become of a file."""

    records: int = 0
    offset: int = 0
    """Where the next record begins."""
    outcome: str = ""
    """`finished` or `failed`, when it is only to be moved."""


class _LedgerLocked(Exception):
    """A unit of work that has not ended yet holds what the ledger says."""


def ledger_key(identity: str) -> bytes:
    return hashlib.sha256(identity.encode()).digest()[:24]


class FileInput(InputNode):
    type: ClassVar[str] = "FileInput"
    about: ClassVar[str] = "The records of files in a folder, each in its turn and once."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmFileInput",)
    outputs: ClassVar[tuple[str, ...]] = ("out", "failure", "catch", "endOfData")
    properties: ClassVar[tuple[Property, ...]] = (
        Property("directory", "text", required=True, ibm="inputDirectory"),
        Property("pattern", "text", "*", ibm="filenamePattern", about="which files, with * and ?"),
        Property("exclude", "text", "", ibm="excludePattern", about="which of them not"),
        Property(
            "records",
            "choice",
            "wholeFile",
            choices=("wholeFile", "delimited", "fixedLength"),
            ibm="recordDetection",
            about="what is a message",
        ),
        Property(
            "record_length", "integer", 80, ibm="recordLength", about="bytes, for fixedLength; the last may be shorter"
        ),
        Property(
            "delimiter",
            "choice",
            "newline",
            choices=("newline", "customDelimiter"),
            ibm="recordDelimiter",
            about="newline: LF, or CR and LF",
        ),
        Property("custom_delimiter", "text", "", ibm="customDelimiter", about="in hexadecimal, such as 0D0A"),
        Property(
            "delimiter_type",
            "choice",
            "postfix",
            choices=("postfix", "infix"),
            ibm="delimiterType",
            about="infix: between records, so that a file may end with an empty one",
        ),
        Property(
            "action",
            "choice",
            "delete",
            choices=("delete", "archive", "archiveWithTimestamp"),
            about="what becomes of a file that was read; archives are in mqsiarchive",
        ),
        Property("replace_archived", "flag", False, ibm="replaceDuplicateArchives"),
        Property("polling_s", "number", 5.0, ibm="waitInterval", about="how often to look for new files"),
        Property("quiet_s", "number", 0.0, about="leave files alone that were changed within so many seconds"),
        *PARSING,
    )

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        self._source: FileSource | None = None

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        del flow
        given = definition.properties
        found = []
        if not str(given.get("pattern", "*")) or "/" in str(given.get("pattern", "*")):
            found.append(
                FlowMistake(definition.name, "pattern is the name of a file, with * and ?", "Write it without /.")
            )
        if given.get("records") == "fixedLength" and not _is_at_least(given.get("record_length", 80), 1):
            found.append(FlowMistake(definition.name, "records have at least one byte", "Say record_length."))
        problem = problem_with_delimiter(given)
        if problem:
            found.append(FlowMistake(definition.name, problem, "Write pairs of hexadecimal digits, such as 0D0A."))
        found += [
            FlowMistake(definition.name, f"{name} is no time", "Say a number of seconds from 0 on.")
            for name in ("polling_s", "quiet_s")
            if not _is_at_least(given.get(name, 0), 0)
        ]
        return found

    def points(self) -> list[EntryPoint]:
        return [EntryPoint(self, self.run, transaction="yes", source=self._open)]

    def _open(self) -> FileSource:
        settings = self.settings
        splitting = Splitting(
            settings["records"],
            delimiter_of(settings),
            settings["delimiter_type"] == "infix",
            settings["record_length"],
        )
        self._source = FileSource(
            FileInputSettings(
                self.plan.flow.name,
                self.name,
                settings["directory"],
                settings["pattern"],
                settings["exclude"],
                splitting,
                settings["action"],
                settings["replace_archived"],
                settings["polling_s"],
                settings["quiet_s"],
                has_end="endOfData" in self.wires,
            )
        )
        return self._source

    # --- a record -----------------------------------------------------------------------------

    def run(self, message: Message, journey: Journey) -> None:
        properties: Any = message.properties
        self._forget(message, journey)
        if "file" not in properties or not self._is_due(message, journey):
            return
        self._note(message, journey, "finished" if properties.get("is_final") else "")
        if "too_long" in properties:
            raise RecordTooLong(properties["name"], properties["record"], properties["offset"], properties["too_long"])
        assembly = self.parse(message, journey)
        if properties.get("is_end"):
            self.propagate("endOfData", assembly, journey)
        else:
            self.start(assembly, journey)

    def parse(self, message: Message, journey: Journey) -> Assembly:
        del journey
        is_end = message.properties.get("is_end")
        return Assembly(arrived(message, AS_BYTES if is_end else self.settings), None, self._local_environment(message))

    def _as_it_came(self, message: Message, journey: Journey) -> Assembly:
        try:
            return self.parse(message, journey)
        except Exception:
            return Assembly(arrived(message, AS_BYTES), None, self._local_environment(message))

    def _local_environment(self, message: Message) -> Root:
        properties: Any = message.properties
        local = Root("LocalEnvironment")
        file = place_in(local, "File")
        delimiter = properties.get("delimiter")
        for name, value in (
            ("Directory", properties["folder"]),
            ("Name", properties["name"]),
            ("LastModified", datetime.fromtimestamp(properties["modified"])),
            ("TimeStamp", properties["started"]),
            ("Size", properties["size"]),
            ("Offset", properties["offset"]),
            ("Record", properties["record"]),
            ("Delimiter", None if delimiter is None else delimiter.decode("latin-1")),
            ("IsEmpty", not message.body),
        ):
            file.add(name, value)
        wildcard = _matched(self.settings["pattern"], properties["name"])
        if wildcard is not None:
            place_in(local, "Wildcard").add("WildcardMatch", wildcard)
        return local

    # --- the ledger ---------------------------------------------------------------------------

    def _forget(self, message: Message, journey: Journey) -> None:
        """Files that have been moved are not read again, and need not be known."""
        gone: Any = message.properties.get("forget", b"")
        for at in range(0, len(gone), ID_BYTES):
            journey.take(LEDGER, ledger_key(gone[at : at + ID_BYTES].hex()))

    def _is_due(self, message: Message, journey: Journey) -> bool:
        """Whether a record has not been dealt with before, in a unit of work of which this process knows nothing."""
        properties: Any = message.properties
        key = ledger_key(properties["file"])
        kept = journey.take(LEDGER, key)
        if kept is None:
            if properties["attempts"] and journey.world.is_kept(LEDGER, key):
                raise _LedgerLocked(f"{properties['name']}: a unit of work that has not ended yet reads it too")
            return True
        progress = msgspec.json.decode(kept.body, type=Progress)
        if not progress.outcome and (properties.get("is_end") or properties["record"] > progress.records):
            return True
        self._keep(journey, key, progress)
        if self._source is not None:
            self._source.jump(properties["file"], progress.records, progress.offset, progress.outcome)
        return False

    def _note(self, message: Message, journey: Journey, outcome: str) -> None:
        properties: Any = message.properties
        self._keep(journey, ledger_key(properties["file"]), Progress(properties["record"], properties["end"], outcome))

    def _keep(self, journey: Journey, key: bytes, progress: Progress) -> None:
        # While records are missing it must be known for ever; after that, until the file is moved.
        state = Message(msgspec.json.encode(progress), persistent=True)
        journey.keep(LEDGER, key, state, expires_s=LEDGER_S if progress.outcome else None)

    # --- failure ------------------------------------------------------------------------------

    def set_aside(self, message: Message, journey: Journey, error: Exception, facts: QueueFacts) -> None:
        """The failure terminal takes the record, or the file goes to mqsibackout as it is."""
        if isinstance(error, _LedgerLocked):
            raise NowhereToSetAside(self.plan.flow.name, self.name, self.settings["directory"], str(error)) from error
        self._forget(message, journey)
        if not self._is_due(message, journey):
            return
        self._note(message, journey, "finished" if message.properties.get("is_final") else "")
        super().set_aside(message, journey, error, facts)
        if isinstance(error, RecordTooLong):
            self._give_up(message, journey)  # it is unknown where the next record begins

    def _put_aside(self, message: Message, journey: Journey, problem: str, facts: QueueFacts, error: Exception) -> None:
        del problem, facts, error
        self._forget(message, journey)  # what the failure terminal had done was taken back, and this with it
        self._give_up(message, journey)

    def _give_up(self, message: Message, journey: Journey) -> None:
        self._note(message, journey, "failed")
        if self._source is not None:
            self._source.fail(str(message.properties["file"]))


def _is_at_least(value: Any, least: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= least


def _matched(pattern: str, name: str) -> str | None:
    """What stands for the only * in a pattern."""
    if pattern.count("*") != 1:
        return None
    before, _, after = (re.escape(part).replace(r"\?", ".") for part in pattern.partition("*"))
    match = re.fullmatch(f"{before}(.*){after}", name, re.DOTALL)
    return None if match is None else match.group(1)
