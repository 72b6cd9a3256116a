# SPDX-License-Identifier: Apache-2.0
"""Clients that put, move and get until they are stopped, and remember what they did and how it ended."""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable
from random import Random

from entrepot import Connection, Message, connect
from entrepot.client.blocking import UnitOfWork
from entrepot.errors import EntrepotError
from recovery.checker import Operation, Stamp, Standing, read_stamp, stamped

DEPTH_HIGH = 120
_WAIT_S = 0.02
_PAUSE_S = 0.01
Role = Callable[["Actor"], None]


class Actor:
    """One thread with a connection of its own."""

    def __init__(self, name: str, url: str, role: Role, random: Random) -> None:
        self.name = name
        self.random = random
        self.operations: list[Operation] = []
        self.ended_at: dict[int, float] = {}
        """When the end of an operation was known, by its place in `operations`."""
        self.damaged: list[str] = []
        self.failure = ""
        """What should never happen: an error that is not ours."""
        self._url = url
        self._role = role
        self._sequence = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def join(self) -> None:
        self._thread.join(120)
        if self._thread.is_alive():
            self.failure = f"{self.name} does not end"

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                with connect(self._url, application=self.name, reconnect_s=5.0) as self.connection:
                    self._repeat()
            except EntrepotError:
                time.sleep(_PAUSE_S)  # there is no server to connect to yet
            except Exception:
                self.failure = traceback.format_exc()
                return

    def _repeat(self) -> None:
        """Play the role on one connection, whatever breaks: it mends itself, and order is promised to it alone.

        Another connection of the same program might read before the server has noticed that this one is gone.
        """
        while not self._stopping.is_set():
            try:
                self._role(self)
            except EntrepotError:
                time.sleep(_PAUSE_S)  # what was under way has said how it ended

    connection: Connection

    # --- operations -------------------------------------------------------------------------------

    def begin(self) -> Operation:
        """An operation that has not done anything yet."""
        self.operations.append(Operation(self.name, outcome="fail"))
        return self.operations[-1]

    def ok(self, operation: Operation) -> None:
        operation.outcome = "ok"
        operation.takes_from = ""
        self.ended_at[len(self.operations) - 1] = time.monotonic()

    def put(self, operation: Operation, queue: str, unit: UnitOfWork | None = None, k: int = 1, n: int = 1) -> None:
        self._sequence += 1
        stamp = Stamp(self.name, self._sequence, f"{self.name}.{len(self.operations)}", k, n)
        operation.puts.append(Standing(queue, stamp))
        body = stamped(stamp, self.random.randbytes(self.random.choice((10, 300, 2_000, 9_000))))
        (unit or self.connection).put(queue, body, persistent=True)

    def got(self, operation: Operation, queue: str, message: Message) -> Stamp | None:
        stamp = read_stamp(message.body)
        if stamp is None:
            self.damaged.append(f"{self.name} from {queue}")
        else:
            operation.gets.append(Standing(queue, stamp))
        return stamp

    def end(self, operation: Operation, unit: UnitOfWork, *, commit: bool) -> None:
        """Commit, and note whether that is known to have happened."""
        if not commit:
            unit.back_out()
            return
        operation.outcome = "unknown"
        try:
            unit.commit()
        except EntrepotError as error:
            if error.outcome == "not_done":
                operation.outcome = "fail"
            if error.outcome == "done":
                self.ok(operation)
            raise
        self.ok(operation)

    @contextlib.contextmanager
    def unit(self) -> contextlib.AbstractContextManager[UnitOfWork]:  # type: ignore[misc]
        """A unit that is backed out if it is still open when an error leaves it."""
        unit = self.connection.unit_of_work()
        try:
            yield unit
        except EntrepotError:
            with contextlib.suppress(EntrepotError):
                unit.back_out()
            raise

    def wait_while_deep(self, queue: str) -> None:
        (answer,) = self.connection.mqsc(f"DISPLAY QSTATUS({queue}) CURDEPTH")
        if any(row.get("CURDEPTH", 0) > DEPTH_HIGH for row in answer.rows):  # type: ignore[operator]
            time.sleep(_PAUSE_S)


# --- roles ----------------------------------------------------------------------------------------


def produce(actor: Actor, queues: tuple[str, ...], *, back_outs: bool) -> None:
    """Put alone, or one to five messages in a unit; some units are backed out."""
    if actor.random.random() < 0.1:
        actor.wait_while_deep(queues[0])
    operation = actor.begin()
    if actor.random.random() < 0.5:
        operation.outcome = "unknown"
        try:
            actor.put(operation, queues[0])
        except EntrepotError as error:
            operation.outcome = {"not_done": "fail", "done": "ok", "unknown": "unknown"}[error.outcome]  # type: ignore[assignment]
            raise
        actor.ok(operation)
        return
    with actor.unit() as unit:
        count = actor.random.randint(1, 5)
        for k in range(1, count + 1):
            actor.put(operation, actor.random.choice(queues), unit, k, count)
        actor.end(operation, unit, commit=not back_outs or actor.random.random() > 0.25)


def move(actor: Actor) -> None:
    """From A to B in a unit of work; some moves are backed out."""
    operation = actor.begin()
    with actor.unit() as unit:
        message = unit.get("A", wait_s=_WAIT_S)
        if message is not None:
            stamp = actor.got(operation, "A", message)
            assert stamp is not None
            operation.puts.append(Standing("B", stamp))
            unit.put("B", message.body, persistent=True)
        actor.end(operation, unit, commit=actor.random.random() > 0.2)


def take(actor: Actor, queue: str) -> None:
    """Get one message outside of any unit, which is promised at least once: after a break it may come again."""
    operation = actor.begin()
    operation.outcome, operation.takes_from = "unknown", queue
    try:
        message = actor.connection.get(queue, wait_s=_WAIT_S)
    except EntrepotError as error:
        if error.outcome == "not_done":
            operation.outcome, operation.takes_from = "fail", ""
        raise
    operation.takes_from = ""
    if message is not None:
        actor.got(operation, queue, message)


def consume(actor: Actor, queue: str, *, back_outs: bool) -> None:
    """Get up to three messages in a unit."""
    operation = actor.begin()
    with actor.unit() as unit:
        for _ in range(actor.random.randint(1, 3)):
            message = unit.get(queue, wait_s=_WAIT_S)
            if message is not None:
                actor.got(operation, queue, message)
        actor.end(operation, unit, commit=not back_outs or actor.random.random() > 0.2)


def consume_many(actor: Actor, queue: str) -> None:
    """Get several messages in a unit with one call."""
    operation = actor.begin()
    with actor.unit() as unit:
        for message in unit.get_many(queue, 5, wait_s=_WAIT_S):
            actor.got(operation, queue, message)
        actor.end(operation, unit, commit=True)


ROLES: dict[str, Role] = {
    "producer-1": lambda actor: produce(actor, ("A", "B"), back_outs=True),
    "producer-2": lambda actor: produce(actor, ("B", "A"), back_outs=True),
    "mover": move,
    "taker": lambda actor: take(actor, "B"),
    "consumer-1": lambda actor: consume(actor, "B", back_outs=True),
    "consumer-2": lambda actor: consume_many(actor, "B"),
    # One producer and one consumer: whatever breaks, the order stays.
    "ordered-producer": lambda actor: produce(actor, ("ORDERED",), back_outs=False),
    "ordered-consumer": lambda actor: consume(actor, "ORDERED", back_outs=False),
}
