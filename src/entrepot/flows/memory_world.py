# SPDX-License-Identifier: Apache-2.0
"""The world in memory: a flow runs against dictionaries, in milliseconds.

    stage = MemoryWorld(now=0.0)
    journey = stage.feed(kernel, "ORDERS", message)
    stage.queues["DONE"]            what it has put
    stage.pass_time(30)             timers fire

For tests of flows, and for replaying archives. What is put on a queue that
the flow itself reads stays there until `run_all` brings it in. Each message
has a unit of work of its own, databases included: one that fails leaves
nothing behind but what was put outside of it.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakSet

from msgspec.structs import replace

from entrepot.errors import DatabaseFailed
from entrepot.esql import Database
from entrepot.flows.flow_world import TOPIC, Output, QueueFacts
from entrepot.flows.journey import NEVER, Journey, KeptState, NotAlone
from entrepot.flows.kernel import Kernel
from entrepot.flows.nodes.input_node import EntryPoint, InputNode
from entrepot.message import Message


class NoDatabase:
    """What a flow is told that has no data sources."""

    def query(self, source: str, text: str, values: Sequence[Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        raise _no_database(source)

    def execute(self, source: str, text: str, values: Sequence[Any]) -> int:
        raise _no_database(source)

    def call(self, source: str, name: str, values: Sequence[Any], directions: Sequence[str], returns: bool) -> Any:
        raise _no_database(source)

    def finish(self, source: str, commit: bool) -> None:
        raise _no_database(source)


def _no_database(source: str) -> DatabaseFailed:
    name = f"the data source {source!r}" if source else "a data source"
    return DatabaseFailed(f"{name} is not known here; name its database when the flow is started", sqlstate="IM002")


class _WatchedDatabase:
    """Remembers which data sources were asked since the message began, so that their work ends with it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.used: set[str] = set()

    def query(self, source: str, text: str, values: Sequence[Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        self.used.add(source)
        return self._database.query(source, text, values)

    def execute(self, source: str, text: str, values: Sequence[Any]) -> int:
        self.used.add(source)
        return self._database.execute(source, text, values)

    def call(self, source: str, name: str, values: Sequence[Any], directions: Sequence[str], returns: bool) -> Any:
        self.used.add(source)
        return self._database.call(source, name, values, directions, returns)

    def finish(self, source: str, commit: bool) -> None:
        self.used.discard(source)
        self._database.finish(source, commit)

    def finish_all(self, commit: bool) -> None:
        for source in sorted(self.used):
            # One that was never there has nothing to end; the caller was told so.
            with contextlib.suppress(DatabaseFailed):
                self.finish(source, commit)
        self.used.clear()


class MemoryWorld:
    """A `FlowWorld` in memory."""

    careful = False
    own_time = True

    def __init__(
        self,
        *,
        now: float | None = None,
        database: Database | None = None,
        facts: Mapping[str, QueueFacts] | None = None,
    ) -> None:
        self._now = time.time() if now is None else now
        self._facts = dict(facts or {})
        self._watched = _WatchedDatabase(database or NoDatabase())
        self.database: Database = self._watched
        self.queues: dict[str, list[Message]] = defaultdict(list)
        self.published: dict[str, list[Message]] = defaultdict(list)
        self.stores: dict[tuple[str, bytes], tuple[KeptState, float | None]] = {}
        """What is kept, and when it expires."""
        self.traces: list[tuple[str, str]] = []
        self._ids = itertools.count(1)
        self._begun: WeakSet[Kernel] = WeakSet()
        self._got: list[tuple[str, int, Message]] = []
        """What nodes have got in the unit of work, and from where."""

    # --- what nodes ask -----------------------------------------------------------------------

    def now(self) -> float:
        return self._now

    def steady_now(self) -> float:
        return self._now

    def new_message_id(self) -> bytes:
        return b"REHEARSAL" + next(self._ids).to_bytes(15, "big")

    def facts(self, queue: str) -> QueueFacts:
        return self._facts.get(queue, _USUAL)

    def put(self, output: Output) -> None:
        self.put_now(output)

    def put_now(self, output: Output) -> None:
        message = output.message
        if not message.message_id:
            message = replace(message, message_id=self.new_message_id())
        message = replace(message, put_time=self._now)
        if output.destination.startswith(TOPIC):
            self.published[output.destination[len(TOPIC) :]].append(message)
        else:
            self.queues[output.destination].append(message)

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
        """Nothing else puts messages here, so there is no waiting."""
        matches = _condition(selector)
        self._discard_expired(queue)
        for index, message in enumerate(self.queues[queue]):
            if message_id is not None and message.message_id != message_id:
                continue
            if correlation_id is not None and message.correlation_id != correlation_id:
                continue
            if matches(message):
                if not browse:
                    del self.queues[queue][index]
                    if transactional:
                        self._got.append((queue, index, message))
                return message
        return None

    def take(self, store: str, key: bytes) -> Message | None:
        # It goes when the message that takes it has succeeded (`settle`): until then nothing has happened.
        found = self.stores.get((store, key))
        return None if found is None else found[0].message

    def is_kept(self, store: str, key: bytes) -> bool:
        return (store, key) in self.stores

    def database_used(self) -> bool:
        return bool(self._watched.used)

    def finish_database(self, source: str) -> None:
        self.database.finish(source, True)

    def allow_time(self, seconds: float) -> None:
        """Nothing here has limits of time."""

    def trace(self, destination: str, text: str) -> None:
        self.traces.append((destination, text))

    # --- running ------------------------------------------------------------------------------

    def feed(self, kernel: Kernel, point: str | EntryPoint, message: Message) -> Journey:
        """Take a message through a flow, and let everything happen that it brings about.

        Raises:
            NowhereToSetAside: It failed, and no terminal or queue takes it. Nothing of it has happened.
        """
        if kernel not in self._begun:
            self.prime(kernel)
        entry = kernel.point(point) if isinstance(point, str) else point
        if not message.message_id:
            message = replace(message, message_id=self.new_message_id())
        if not message.put_time:
            message = replace(message, put_time=self._now)
        earlier = NEVER
        while True:
            try:
                journey = kernel.process(entry, message, self, earlier)
            except NotAlone as given_back:
                self._back_out()
                earlier = given_back.earlier
            except BaseException:
                self._back_out()
                raise
            else:
                self.settle(journey)
                return journey

    def _back_out(self) -> None:
        for queue, index, message in reversed(self._got):
            self.queues[queue].insert(index, message)
        self._got.clear()
        self._watched.finish_all(commit=False)

    def prime(self, kernel: Kernel) -> None:
        """Begin a flow, as its first instance does; `feed` does so when it first sees one."""
        self._begun.add(kernel)
        for node in kernel.nodes.values():
            if isinstance(node, InputNode):
                journey = Journey(Message(b""), self)
                node.prime(journey)
                self.settle(journey)

    def settle(self, journey: Journey) -> None:
        """Let everything happen that a message has brought about."""
        self._got.clear()
        self._watched.finish_all(commit=True)
        for output in journey.outputs:
            self.put_now(output)
        for place, kept in journey.states.items():
            if kept is None:
                self.stores.pop(place, None)
            else:
                expires_at = None if kept.expires_s is None else self._now + kept.expires_s
                self.stores[place] = (kept, expires_at)
        for action in journey.after_commit:
            action()

    def run_all(self, kernel: Kernel, *, rounds_max: int = 10_000) -> int:
        """Bring in what lies on the queues that the flow reads, until nothing does; how many messages."""
        done = 0
        while done < rounds_max:
            ready = next((point for point in kernel.points if self._is_waiting(point)), None)
            if ready is None:
                break
            self.feed(kernel, ready, self.queues[ready.queue].pop(0))
            done += 1
        return done

    def _is_waiting(self, point: EntryPoint) -> bool:
        if not point.queue:
            return False
        self._discard_expired(point.queue)
        return bool(self.queues[point.queue])

    def _discard_expired(self, queue: str) -> None:
        waiting = self.queues[queue]
        if any(message.expiry_s is not None for message in waiting):
            self.queues[queue] = [
                message for message in waiting if (at := message.expires_at()) is None or at > self._now
            ]

    def pass_time(self, seconds: float, kernel: Kernel | None = None) -> None:
        """Let time go by; what expires on the way goes where it should, and enters the flow if one is given."""
        end = self._now + seconds
        while True:
            due = [(at, place) for place, (_, at) in self.stores.items() if at is not None and at <= end]
            if not due:
                break
            at, place = min(due)
            self._now = max(self._now, at)
            kept, _ = self.stores.pop(place)
            if kept.then:
                expired = replace(kept.message, correlation_id=place[1], expiry_s=None)
                self.put_now(Output(kept.then, expired))
            if kernel is not None:
                self.run_all(kernel)
        self._now = end
        if kernel is not None:
            self.run_all(kernel)


DEAD_LETTERS = "DEAD.LETTERS"
"""Where unhandled messages go."""
_USUAL = QueueFacts(dead_letter_queue=DEAD_LETTERS)


def _condition(selector: str | None) -> Callable[[Message], bool]:
    if not selector:
        return lambda _: True
    from entrepot.selectors import compile_selector

    compiled = compile_selector(selector)
    return lambda message: bool(compiled.matches(message))
