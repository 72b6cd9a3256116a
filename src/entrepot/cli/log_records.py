# SPDX-License-Identifier: Apache-2.0
"""The recovery log as a series of plain descriptions: which record, where, when, of which queues.

Records name queues by number and messages by key. The names come from the
checkpoint and from DEFINE records; the queue of a key from the PUT that
introduced it, so a key whose PUT lies before the first record read has
none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from entrepot.cli.messages import preview, text_of
from entrepot.disk import Disk
from entrepot.engine.recovery_log.checkpoint import read_checkpoint
from entrepot.engine.recovery_log.group import Group
from entrepot.engine.recovery_log.reader import LogReader
from entrepot.engine.recovery_log.record import (
    CommitRecord,
    DecisionRecord,
    DefineRecord,
    DeleteRecord,
    ForgetRecord,
    HeuristicRecord,
    PrepareRecord,
    PutRecord,
    Record,
    RecordType,
    RemoveRecord,
    ResolveRecord,
    TakenRecord,
)
from entrepot.engine.recovery_log.segment import FOLDER
from entrepot.engine.settings import ManagerSettings
from entrepot.errors import CheckpointDamaged, LogDamaged, LogIncomplete

Description = dict[str, Any]

IN_LOG = tuple(kind.name for kind in RecordType if kind < RecordType.CHECKPOINT)
"""The record types that a log can hold."""


def _shown(transaction_id: bytes) -> str:
    """A global unit's id is a text; those of other coordinators are bytes."""
    return transaction_id.decode() if transaction_id.startswith(b"entrepot-") else transaction_id.hex()


class LogView:
    """Reads a log once, forward, and describes its records; afterwards `tail` tells how it ended."""

    def __init__(self, disk: Disk, settings: ManagerSettings) -> None:
        self._disk = disk
        self._settings = settings
        self._reader = LogReader(disk, settings.log, settings.manager_id)
        self._names: dict[int, str] = {}
        self._queue_of: dict[int, int] = {}
        self._unit_queues: dict[int, list[str]] = {}
        self._prepared_queues: dict[bytes, list[str]] = {}
        self._group_position = 0
        self._applied_position = 0
        self._start_position: int | None = None
        self.checkpoint_problem = ""
        """Why the checkpoint could not help with names."""
        self.tail: Description = {}
        self._incarnation = 0
        try:
            head, records = read_checkpoint(disk)
        except (CheckpointDamaged, FileNotFoundError) as error:
            self.checkpoint_problem = str(error)
            return
        self._applied_position = head.applied_position
        self._incarnation = head.incarnation
        self._start_position = head.start_position
        for record in records:
            if isinstance(record, DefineRecord):
                self._learn(record)
            elif isinstance(record, PutRecord):
                self._queue_of.update((key, queue) for queue, key, _ in record.arrivals())

    def descriptions(self, start: int | None = None, *, bodies: bool = False) -> Iterator[Description]:
        """Every record from the first group at or behind `start`, or from the oldest there is.

        Damage ends the iteration; `tail` has it then.

        Raises:
            LogIncomplete: The log does not reach back to `start`.
        """
        try:
            begin = self._begin(start)
            visible = begin is not None
            if begin is None:
                begin = self._begin(None)  # nothing to show, but the end is still to be judged
            if begin is None:
                self.tail = {"tail": "damaged", "end_position": 0, "problem": "no group of records can be found"}
                return
            written = self._reader.records(begin, boundary=self._applied_position or 0, incarnation=self._incarnation)
            for position, record in written:
                if visible:
                    yield self._describe(position, record, bodies)
        except LogDamaged as damage:
            self.tail = {
                "tail": "damaged",
                "end_position": self._reader.end_position,
                "segment": Path(damage.segment).name,
                "offset": damage.offset,
                "problem": damage.problem,
                "restart_needs_it": self._reader.end_position >= (self._start_position or 0),
            }
            return
        end = self._reader.end_position
        file, offset = self._reader.describe(end)
        problem = self._reader.torn
        self.tail = {
            "tail": "torn" if problem else "clean",
            "end_position": end,
            "segment": Path(file).name,
            "offset": offset,
            "problem": problem,
        }
        if end < self._applied_position:
            problem = f"the log ends here, but the checkpoint has seen it up to {self._applied_position}"
            self.tail.update(tail="damaged", problem=problem)

    def _begin(self, start: int | None) -> int | None:
        """Where to begin reading, or None when no group stands there or behind."""
        first = self._reader.first_position
        if start is not None:
            if first is not None and start < first:
                raise LogIncomplete(self._disk.describe(FOLDER), start)
            return self._first_group(start)
        if not first:
            return 0
        found = self._first_group(first)
        # Restart reads from the checkpoint's position, so what stands there must not be skipped when it is damaged.
        if self._start_position is not None and (found is None or found > self._start_position):
            return self._start_position
        return found

    def _first_group(self, position: int) -> int | None:
        """The position of the first group at or behind `position`, since only there can reading begin."""
        return next((found for found, _ in self._reader.groups(position)), None)

    def _learn(self, record: DefineRecord) -> None:
        if record.kind == "QLOCAL":
            self._names[record.number] = str(record.attributes.get("name", ""))

    def _queues(self, keys: list[int]) -> list[str]:
        """The queues of these keys, as far as they are known, each once."""
        numbers = dict.fromkeys(self._queue_of[key] for key in keys if key in self._queue_of)
        return [self._name(number) for number in numbers]

    def _name(self, number: int) -> str:
        return self._names.get(number, f"queue number {number}")

    def _describe(self, position: int, record: Record, bodies: bool) -> Description:
        if isinstance(record, Group):
            self._group_position = position
        file, offset = self._reader.describe(position)
        return {
            "position": position,
            "segment": Path(file).name,
            "offset": offset,
            "group": self._group_position,
            "time": self._reader.time,
            "start": self._reader.incarnation,
            "type": type(record).__name__.removesuffix("Record").upper(),
            **self._content(record, bodies),
        }

    def _content(self, record: Record, bodies: bool) -> Description:
        match record:
            case Group():
                return {"body_bytes": record.body_bytes, "forced_position": record.forced_position}
            case PutRecord():
                return self._put(record, bodies)
            case RemoveRecord():
                queues = self._in_unit(record.unit, self._queues(record.keys))
                for key in record.keys if not record.unit else ():
                    self._queue_of.pop(key, None)
                return {"unit": record.unit, "keys": record.keys, "queues": queues}
            case TakenRecord():
                forgiven = {"forgiven": record.forgiven} if record.forgiven else {}
                return {"keys": record.keys, **forgiven, "queues": self._queues(record.keys + record.forgiven)}
            case CommitRecord():
                return {"unit": record.unit, "queues": self._unit_queues.pop(record.unit, [])}
            case PrepareRecord():
                queues = self._unit_queues.pop(record.unit, [])
                self._prepared_queues[record.transaction_id] = queues
                return {"unit": record.unit, "transaction_id": record.transaction_id.hex(), "queues": queues}
            case ResolveRecord():
                outcome = "commit" if record.committed else "back out"
                queues = self._prepared_queues.pop(record.transaction_id, [])
                outcome += " by an operator" if record.heuristic else ""
                return {"transaction_id": record.transaction_id.hex(), "outcome": outcome, "queues": queues}
            case DecisionRecord():
                return {
                    "unit": record.unit,
                    "transaction_id": _shown(record.transaction_id),
                    "outcome": "commit",
                    "queues": self._unit_queues.pop(record.unit, []),
                    "branches": [f"{each.branch_id} at {each.resource}" for each in record.branches],
                }
            case ForgetRecord():
                return {"transaction_id": _shown(record.transaction_id), "branches": record.branches}
            case HeuristicRecord():
                return {
                    "transaction_id": _shown(record.transaction_id),
                    "outcome": record.outcome,
                    "branches": [f"{record.branch_id} at {record.resource}"] if record.branch_id else [],
                }
            case DefineRecord():
                self._learn(record)
                name = str(record.attributes.get("name", ""))
                rest = {key: value for key, value in record.attributes.items() if key != "name"}
                return {"kind": record.kind, "name": name, "number": record.number, "attributes": rest}
            case DeleteRecord():
                return {"kind": record.kind, "name": record.name}
        return {}

    def _in_unit(self, unit: int, queues: list[str]) -> list[str]:
        """Remember what a unit touches, so that its COMMIT can tell."""
        if unit:
            known = self._unit_queues.setdefault(unit, [])
            known += [queue for queue in queues if queue not in known]
        return queues

    def _put(self, record: PutRecord, bodies: bool) -> Description:
        message = record.message
        arrivals = list(record.arrivals())
        self._queue_of.update((key, queue) for queue, key, _ in arrivals)
        queues = self._in_unit(record.unit, [self._name(number) for number, _, _ in arrivals])
        content: Description = {
            "unit": record.unit,
            "keys": [key for _, key, _ in arrivals],
            "queues": queues,
            "message_id": message.message_id.hex(),
            "body_bytes": len(message.body),
            "preview": preview(message.body),
        }
        # Several messages with the same body are one record.
        message_ids = list(dict.fromkeys(each.message_id.hex() for _, _, each in arrivals))
        if len(message_ids) > 1:
            content["message_ids"] = message_ids
        if message.topic:
            content["topic"] = message.topic
        if message.correlation_id:
            content["correlation_id"] = message.correlation_id.hex()
        if bodies:
            text = text_of(message.body)
            content |= {"body": text} if text is not None else {"body_hex": message.body.hex()}
        return content
