# SPDX-License-Identifier: Apache-2.0
"""The world beyond a flow: a queue manager and databases, in one unit of work for a batch of messages.

States that nodes keep lie as messages on queues of their own, found by their
correlation id. Within a batch they are answered from memory, so that four
replies of one aggregate cost one get; what is left at the end is put back
with the same commit that sends the outputs.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from entrepot.client.blocking import Connection, UnitOfWork
from entrepot.errors import (
    ConnectFailed,
    ConnectionLost,
    DatabaseFailed,
    DatabaseUnavailable,
    DiskFull,
    EntrepotError,
    GlobalUnitInDoubt,
    LogFull,
    MqscError,
    NotAuthorized,
    PrepareFailed,
    QueueManagerQuiescing,
    QueueManagerStopped,
    QueueNotFound,
    SpillFailed,
    UnitBackedOut,
    UnitFinished,
)
from entrepot.esql import Database
from entrepot.flows.flow_world import TOPIC, Output, QueueFacts
from entrepot.flows.journey import Journey, KeptState
from entrepot.flows.live.steady_clock import SteadyClock
from entrepot.flows.memory_world import NoDatabase
from entrepot.message import Message, PutInUnit, Report

if TYPE_CHECKING:
    from entrepot.client.blocking.global_unit import GlobalUnitOfWork
    from entrepot.flows.live.flow_databases import FlowDatabases

    Unit = UnitOfWork | GlobalUnitOfWork

_FACTS_FOR_S = 5.0
"""How long what a queue's definition says is believed."""
_TIMER_REPORT = Report.EXPIRATION | Report.WITH_DATA | Report.PASS_CORRELATION_ID | Report.PASS_MESSAGE_ID
_ROOM_S = 0.001
"""A put that may wait for room is answered; that is what a careful flow wants."""
_SHORTEST_S = 0.001
_WAIT_PART_S = 0.25
"""So long an MQGet waits before it looks whether the flow is to stop."""
_GATHER_BYTES = 1024 * 1024

_OUTAGES = (
    ConnectFailed,
    ConnectionLost,
    DatabaseUnavailable,
    DiskFull,
    GlobalUnitInDoubt,
    LogFull,
    QueueManagerQuiescing,
    QueueManagerStopped,
    SpillFailed,
    UnitBackedOut,
    UnitFinished,
)
"""What is no message's fault, and ends by itself or with help."""
_OUTAGE_STATES = ("08", "53", "57P", "58", "25P03")
"""How the SQLSTATE begins of a connection that failed, and of a database that lacks something or is shut down."""
_CONFLICT_STATES = ("40", "55P03")
"""The same for units of work that got into each other's way."""
_AFTERMATH = "25P02"
"""PostgreSQL's word for whatever follows an error in the same unit of work."""
_SQLITE_BUSY, _SQLITE_LOCKED = 5, 6


class LiveWorld:
    """A `FlowWorld` for one instance of a flow."""

    own_time = False

    def __init__(
        self,
        connection: Connection,
        databases: FlowDatabases | None,
        trace: Callable[[str, str], None],
        *,
        allow_time: Callable[[float], None] = lambda _: None,
        go_on_waiting: Callable[[], None] = lambda: None,
        know_before: Callable[[], None] = lambda: None,
    ) -> None:
        """`go_on_waiting` is called again and again while a get waits, and may raise to end that.

        `know_before` is called before the queue manager is asked for what the
        last unit of work may have put; it waits for its commit.
        """
        self._connection = connection
        self._steady = SteadyClock(connection)
        self.allow_time = allow_time
        self._go_on_waiting = go_on_waiting
        self._know_before = know_before
        self._databases = databases
        self.database: Database = databases if databases is not None else NoDatabase()
        self._write_trace = trace
        self.careful = False
        self._unit: Unit | None = None
        self._states: dict[tuple[str, bytes], KeptState | None] = {}
        """What this batch has taken from stores or will leave there."""
        self._got: Counter[str] = Counter()
        """How many states of each store this unit of work has."""
        self._puts: list[PutInUnit] = []
        self._put_bytes = 0
        self._facts: dict[str, tuple[float, QueueFacts]] = {}
        self._stores: set[str] = set()
        self._id_head = os.urandom(16)
        self._ids = 0

    # --- the batch ----------------------------------------------------------------------------

    def begin(self, unit: Unit) -> None:
        """Work from now on belongs to this unit."""
        self._unit = unit
        self._states = {}
        self._got.clear()
        self._puts, self._put_bytes = [], 0
        if self._databases is not None:
            self._databases.begin(None if isinstance(unit, UnitOfWork) else unit, careful=self.careful)

    def next_message(self) -> None:
        """What databases do from now on is another message's."""
        if self._databases is not None:
            self._databases.used = False

    def accept(self, journey: Journey) -> None:
        """Let what a message has brought about happen with the unit of work."""
        if not self.careful:
            for output in journey.outputs:
                message = output.message
                self._puts.append((output.destination, message.persistent, message.priority, message))
                self._put_bytes += len(message.body)
            if self._put_bytes > _GATHER_BYTES:
                self._send()
        if journey.states:
            self._states.update(journey.states)

    def _send(self, *, answered: bool = False) -> None:
        puts, self._puts, self._put_bytes = self._puts, [], 0
        if puts or answered:
            assert self._unit is not None
            self._unit.local.put_messages(puts, answered=answered)

    def settle(self) -> None:
        """Send what leaves with this unit, and put back what nodes keep; then all of it can be committed."""
        for (store, key), kept in self._states.items():
            if kept is not None:
                self._keep(store, key, kept)
        self._states = {}
        # A database that commits by itself must not do so before it is known that the messages are accepted.
        self._send(answered=self._databases is not None and self._databases.has_own_work)

    def _keep(self, store: str, key: bytes, kept: KeptState) -> None:
        self.require_queue(store)
        message = replace(
            kept.message,
            correlation_id=key,
            expiry_s=None if kept.expires_s is None else max(kept.expires_s, _SHORTEST_S),
            report=_TIMER_REPORT if kept.then else 0,
            reply_to=kept.then,
            reply_to_manager="",
            backout_count=0,
        )
        if kept.then:
            self.require_queue(kept.then)
        self._puts.append((store, message.persistent, message.priority, message))

    def require_queue(self, name: str) -> None:
        """Make a queue of the flow's own, unless it is there."""
        if name in self._stores:
            return
        try:
            self._connection.mqsc(f"DEFINE QLOCAL('{name}') DEFPSIST(YES) MAXDEPTH(999999999) NOREPLACE")
        except (MqscError, NotAuthorized):
            # Another instance may have been quicker, or this user may not define queues.
            self._connection.mqsc(f"DISPLAY QLOCAL('{name}')")
        self._stores.add(name)

    def require_queues(self, names: Iterable[str]) -> None:
        for name in names:
            self.require_queue(name)

    def require_sound(self) -> None:
        """
        Raises:
            DatabaseFailed: A database has met an error that the flow has dealt with, and has undone more than that.
        """
        if self._databases is not None:
            self._databases.require_sound()

    def forget(self) -> None:
        """Ask again what queues there are and what is said about them: something has just gone wrong."""
        self._facts.clear()
        self._stores.clear()

    def commit_databases(self) -> None:
        if self._databases is not None:
            self._databases.commit()

    def back_out_databases(self) -> None:
        if self._databases is not None:
            self._databases.back_out()

    # --- what nodes ask -----------------------------------------------------------------------

    def now(self) -> float:
        return time.time()

    def steady_now(self) -> float:
        return self._steady.now()

    def new_message_id(self) -> bytes:
        self._ids += 1
        return self._id_head + self._ids.to_bytes(8, "big")

    def facts(self, queue: str) -> QueueFacts:
        known = self._facts.get(queue)
        now = time.monotonic()
        if known is None or known[0] < now:
            known = (now + _FACTS_FOR_S, self._asked_facts(queue))
            self._facts[queue] = known
        return known[1]

    def _asked_facts(self, queue: str) -> QueueFacts:
        try:
            described = self._connection.mqsc(f"DISPLAY QUEUE('{queue}') BOTHRESH BOQNAME")[0].rows
            manager = self._connection.mqsc("DISPLAY QMGR DEADQ")[0].rows
        except (MqscError, NotAuthorized):
            return QueueFacts()  # without authority to look, a message is tried once
        row: dict[str, Any] = dict(described[0]) if described else {}
        dead: dict[str, Any] = dict(manager[0]) if manager else {}
        return QueueFacts(
            int(row.get("BOTHRESH") or 0), str(row.get("BOQNAME") or "").strip(), str(dead.get("DEADQ") or "").strip()
        )

    def put(self, output: Output) -> None:
        message = output.message
        within = self._connection if self._unit is None else self._unit.local
        within.put_message(
            output.destination,
            message,
            persistent=message.persistent,
            priority=message.priority,
            wait_s=0.0 if output.destination.startswith(TOPIC) else _ROOM_S,
        )

    def put_now(self, output: Output) -> None:
        message = output.message
        self._connection.put_message(
            output.destination, message, persistent=message.persistent, priority=message.priority
        )

    def get(
        self,
        queue: str,
        *,
        wait_s: float = 0.0,
        message_id: bytes | None = None,
        correlation_id: bytes | None = None,
        selector: str | None = None,
        browse: bool = False,
        transactional: bool = True,
    ) -> Message | None:
        wanted: dict[str, Any] = {
            "message_id": message_id,
            "correlation_id": correlation_id,
            "selector": selector,
        }
        self._know_before()
        deadline = time.monotonic() + wait_s
        while True:
            # A part of the wait at a time, so that an order to stop is heard.
            part_s = min(max(deadline - time.monotonic(), 0.0), _WAIT_PART_S)
            if browse:
                found = next(iter(self._connection.browse(queue, **wanted)), None)
                if found is None:
                    time.sleep(min(part_s, 0.01))  # a browser is not notified of arrivals
            elif transactional and self._unit is not None:
                found = self._unit.get(queue, wait_s=part_s, **wanted)
            else:
                found = self._connection.get(queue, wait_s=part_s, **wanted)
            if found is not None or time.monotonic() >= deadline:
                return found
            self._go_on_waiting()

    def take(self, store: str, key: bytes) -> Message | None:
        place = (store, key)
        if place in self._states:
            kept = self._states[place]
            return None if kept is None else kept.message
        self._know_before()
        try:
            found = (self._unit or self._connection).get(store, correlation_id=key)
        except QueueNotFound:
            return None
        if found is not None:
            self._got[store] += 1
            # Should the message fail, or not keep it itself, it is put back as it was.
            self._states[place] = KeptState(found, found.expiry_s, found.reply_to)
        return found

    def is_kept(self, store: str, key: bytes) -> bool:
        """Where nothing is found, it may be that another instance has it: then the answer is yes, to ask again."""
        place = (store, key)
        if place in self._states:
            return self._states[place] is not None
        return self._held_elsewhere(store)

    def _held_elsewhere(self, store: str) -> bool:
        """Whether another instance has taken something from a store and not yet committed: it may be this."""
        self._know_before()
        try:
            rows = self._connection.mqsc(f"DISPLAY QSTATUS('{store}') UNCOM")[0].rows
        except MqscError:
            return False
        return bool(rows) and int(str(rows[0].get("UNCOM") or 0)) > self._got[store]

    def database_used(self) -> bool:
        return self._databases is not None and self._databases.used

    def finish_database(self, source: str) -> None:
        if self._databases is not None:
            self._databases.finish_now(source)

    def trace(self, destination: str, text: str) -> None:
        self._write_trace(destination, text)


def reason_of(error: Exception) -> Exception:
    """Why a unit of work was backed out, where it is known."""
    while isinstance(error, UnitBackedOut) and isinstance(error.__cause__, EntrepotError):
        error = error.__cause__
    return error


def is_outage(error: BaseException | None) -> bool:
    """Whether a queue manager or a database was not there, rather than refused something."""
    return isinstance(error, _OUTAGES) or _state(error).startswith(_OUTAGE_STATES)


def is_conflict(error: BaseException | None) -> bool:
    """Whether two units of work were in each other's way at a database, so that trying again is all it needs."""
    if isinstance(error, DatabaseFailed) and error.native_error & 0xFF in (_SQLITE_BUSY, _SQLITE_LOCKED):
        return True
    return _state(error).startswith(_CONFLICT_STATES)


def is_aftermath(error: BaseException | None) -> bool:
    """Whether a database refused something only because of an error before it."""
    return _state(error) == _AFTERMATH


def _state(error: BaseException | None) -> str:
    """What a database said, as SQLSTATE; empty when it was none."""
    if isinstance(error, DatabaseFailed):
        return error.state
    if isinstance(error, PrepareFailed):
        driver = getattr(error.__cause__, "orig", None)
        if getattr(error.__cause__, "connection_invalidated", False):
            return "08006"
        return str(getattr(driver, "sqlstate", None) or "")
    return ""


class TraceFiles:
    """Where Trace nodes and LOG write: files that are opened when first needed."""

    def __init__(self, user_trace: str) -> None:
        self._user_trace = user_trace
        self._files: dict[str, Any] = {}

    def __call__(self, destination: str, text: str) -> None:
        path = destination or self._user_trace
        if not path:
            return
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 -- `close` does it
        file.write(text if destination else f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
        file.flush()

    def close(self) -> None:
        for file in self._files.values():
            file.close()
