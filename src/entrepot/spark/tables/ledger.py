# SPDX-License-Identifier: Apache-2.0
"""Exactly once: which batches have been written, remembered by the queue manager itself.

Tasks put rows into units of work and prepare them; nothing is visible yet.
The driver then decides: a record on SYSTEM.SPARK.LEDGER says which units make
up the batch, and from then on it has happened. The units are committed after
that, and a driver that restarts after a crash finishes what the record says:

    {"writer": "5f0c...", "sink": "", "batch": 17, "units": ["spark:5f0c...:17:0:9a1b"]}

    task:    put ... put, prepare ──┐
    task:    put ... put, prepare ──┤
    driver:  record on the ledger ──┴─> commit each unit;   no record: back out

A stream's batch that comes again is known by its number. What no record
names and belongs to the same writer is a failed attempt's, and is backed out.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from entrepot import checks
from entrepot.client.blocking import Connection
from entrepot.errors import LedgerBusy, LedgerUnreadable, MqscError, QueueNotFound, UnitNotInDoubt

LEDGER = "SYSTEM.SPARK.LEDGER"
_DEFINITION = (
    f"DEFINE QLOCAL({LEDGER}) DESCR('Batches that Spark has written') DEFPSIST(YES) MAXDEPTH(1000000) NOREPLACE"
)
_PREFIX = "spark"
_KEY_BYTES = 24
_FORMAT = "LEDGER"


class LedgerRecord(msgspec.Struct, frozen=True):
    """What has been decided."""

    writer: str
    """A streaming query's id, or one made up for a single write."""
    sink: str
    """Tells several sinks of one query apart."""
    batch: int
    """The last batch that was written; -1 for a single write."""
    units: list[str]
    """The transaction ids of its units of work."""


def unit_name(writer: str, sink: str, batch: int, partition: int) -> bytes:
    """A transaction id for a unit of work of a batch, never used before.

    Its head names its owner, so that what a crashed attempt has left is found.
    """
    name = f"{head(writer, sink)}{batch}:{partition}:{secrets.token_hex(6)}".encode()
    return checks.transaction_id(name)


def head(writer: str, sink: str) -> str:
    """How the transaction ids of a writer begin."""
    return f"{_PREFIX}:{writer}:{_short(sink)}:"


def _short(sink: str) -> str:
    return hashlib.sha256(sink.encode()).hexdigest()[:8] if sink else ""


class SinkLedger:
    """The ledger as one writer sees it."""

    def __init__(self, connection: Connection, writer: str, sink: str = "") -> None:
        self._connection = connection
        self.writer = writer
        self.sink = sink
        self._key = hashlib.sha256(f"{writer}\n{sink}".encode()).digest()[:_KEY_BYTES]

    def written(self) -> LedgerRecord | None:
        """What was decided last."""
        try:
            found = next(self._connection.browse(LEDGER, correlation_id=self._key), None)
        except QueueNotFound:
            return None
        return None if found is None else _record(found.body)

    def commit(self, batch: int, units: Sequence[str]) -> bool:
        """Let a batch have happened, once; whether it is these units that made it happen.

        May be done again after any failure: it goes on from where it was.

        Raises:
            LedgerBusy: Another driver writes the same batches just now. Nothing was decided.
            NotAuthorized: Deciding units needs the authority to set the queue manager. Nothing was decided.
        """
        last = self.written()
        if last is not None and last.batch >= batch >= 0:
            self._finish(last)
            self._back_out(name for name in units if name not in last.units)
            self._tidy(last)
            return set(units) <= set(last.units)
        if last is not None:
            self._finish(last)
        record = LedgerRecord(self.writer, self.sink, batch, list(units))
        self._decide(record, last)
        self._finish(record)
        self._tidy(record)
        return True

    def abort(self, batch: int, units: Sequence[str]) -> None:
        """A batch has failed: its units are backed out, unless it was decided before it failed."""
        last = self.written()
        decided = set(last.units) if last is not None else set()
        if last is not None:
            self._finish(last)
        self._back_out(name for name in units if name not in decided)
        if batch >= 0:
            self._tidy(last)

    def forget(self) -> None:
        """A single write is done, and will never come again."""
        self._connection.get(LEDGER, correlation_id=self._key)

    def _decide(self, record: LedgerRecord, last: LedgerRecord | None) -> None:
        _require_queue(self._connection)
        with self._connection.unit_of_work() as unit:
            if last is not None and unit.get(LEDGER, correlation_id=self._key) is None:
                raise LedgerBusy(self.writer, record.batch)
            body = msgspec.json.encode(record)
            unit.put(LEDGER, body, correlation_id=self._key, persistent=True, format=_FORMAT)

    def _finish(self, record: LedgerRecord) -> None:
        """Commit what was decided and is not committed yet."""
        open_units = set(self._connection.in_doubt()) if record.units else set()
        for name in record.units:
            if name.encode() in open_units:
                self._resolve(name, commit=True)

    def _back_out(self, names: Iterable[str]) -> None:
        for name in names:
            self._resolve(name, commit=False)

    def _tidy(self, record: LedgerRecord | None) -> None:
        """Back out what attempts of this writer have left that came to nothing."""
        kept = set(record.units) if record is not None else set()
        start = head(self.writer, self.sink)
        left = [name.decode() for name in self._connection.in_doubt() if name.startswith(start.encode())]
        self._back_out(name for name in left if name not in kept)

    def _resolve(self, name: str, *, commit: bool) -> None:
        with suppress(UnitNotInDoubt):  # it has been done before
            self._connection.resolve(name.encode(), commit=commit)


def finish_single_writes(connection: Connection) -> int:
    """Finish single writes that were decided and whose driver died before all was committed; how many."""
    done = 0
    for record in list(_records(connection)):
        if record.batch < 0:
            ledger = SinkLedger(connection, record.writer, record.sink)
            ledger._finish(record)
            ledger.forget()
            done += 1
    return done


def _records(connection: Connection) -> Iterator[LedgerRecord]:
    try:
        yield from (_record(message.body) for message in connection.browse(LEDGER))
    except QueueNotFound:
        return


def _record(body: bytes) -> LedgerRecord:
    try:
        return msgspec.json.decode(body, type=LedgerRecord)
    except msgspec.MsgspecError as error:
        raise LedgerUnreadable(LEDGER, str(error)) from error


def _require_queue(connection: Connection) -> None:
    """Make the ledger when it is missing."""
    try:
        connection.browse(LEDGER)
    except QueueNotFound:
        # Several drivers may find it missing at once; the second finds it made.
        with suppress(MqscError):
            connection.mqsc(_DEFINITION)
        connection.browse(LEDGER)
