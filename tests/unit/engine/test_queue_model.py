# SPDX-License-Identifier: Apache-2.0
"""One queue against a plain list: every step must give what the list gives, spilled to disk or not."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from conftest import host_of
from entrepot import UnitOfWork, limits
from entrepot.client.blocking.connecting import connected_to
from entrepot.client.embedded import EmbeddedHost
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings

LOG = LogSettings(segment_bytes=256 * 1024, primary=3, secondary=4)


@dataclass
class Item:
    number: int
    priority: int
    persistent: bool
    correlation: bytes
    place: int = 0
    backouts: int = 0
    holder: object = None


@dataclass
class Work:
    unit: UnitOfWork
    puts: list[Item] = field(default_factory=list)
    takes: list[Item] = field(default_factory=list)


class QueueModel(RuleBasedStateMachine):
    units = Bundle("units")

    def __init__(self) -> None:
        super().__init__()
        self._run_bytes = limits.RUN_BYTES
        limits.RUN_BYTES = 4_000
        self.folder = Path(tempfile.mkdtemp(prefix="entrepot-model-"))
        create(self.folder / "QM1", log=LOG)
        self.connection = connected_to(EmbeddedHost(self.folder / "QM1"))
        self.connection.mqsc("DEFINE QLOCAL(Q) BUFFER(4000)")
        self.items: list[Item] = []
        self.open: list[Work] = []
        self.prepared: dict[bytes, Work] = {}
        self.count = 0
        self.place = 0

    @initialize(fifo=st.booleans())
    def choose_delivery(self, fifo: bool) -> None:
        self.fifo = fifo
        self.connection.mqsc(f"ALTER QLOCAL(Q) MSGDLVSQ({'FIFO' if fifo else 'PRIORITY'})")

    # --- the model ----------------------------------------------------------------------------

    def in_order(self, correlation: bytes | None = None) -> list[Item]:
        there = [i for i in self.items if i.holder is None and correlation in (None, i.correlation)]
        return sorted(there, key=lambda item: (0 if self.fifo else -item.priority, item.place))

    def arrive(self, items: list[Item]) -> None:
        """Keep places for items, which are their order on the queue."""
        for item in items:
            self.place += 1
            item.place = self.place

    # --- steps --------------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 8),
        priority=st.sampled_from([0, 0, 5]),
        persistent=st.booleans(),
        correlation=st.sampled_from([b"", b"a", b"b"]),
        which=st.integers(0, 3),
    )
    def put(self, count: int, priority: int, persistent: bool, correlation: bytes, which: int) -> None:
        for _ in range(count):
            self.count += 1
            item = Item(self.count, priority, persistent, correlation)
            work = self.open[which] if which < len(self.open) else None
            (work.unit if work else self.connection).put(
                "Q",
                b"%06d" % item.number + b"x" * 300,
                priority=priority,
                persistent=persistent,
                correlation_id=correlation,
                message_id=b"%d" % item.number,
                properties={"n": item.number},
            )
            (work.puts if work else self.items).append(item)
            if work is None:
                self.arrive([item])

    @rule(
        count=st.integers(1, 12),
        how=st.sampled_from(["next", "next", "a", "b", "id", "selector"]),
        which=st.integers(0, 3),
        pick=st.integers(0, 1_000),
    )
    def get(self, count: int, how: str, which: int, pick: int) -> None:
        work = self.open[which] if which < len(self.open) else None
        for _ in range(count):
            verbs = work.unit if work else self.connection
            if how == "next":
                message = verbs.get("Q")
                expected = next(iter(self.in_order()), None)
            elif how in ("a", "b"):
                message = verbs.get("Q", correlation_id=how.encode())
                expected = next(iter(self.in_order(how.encode())), None)
            elif how == "id":
                wanted = pick % (self.count + 1)
                message = verbs.get("Q", message_id=b"%d" % wanted)
                expected = next((item for item in self.in_order() if item.number == wanted), None)
            else:
                least = pick % (self.count + 1)
                message = verbs.get("Q", selector=f"n >= {least}")
                expected = next((item for item in self.in_order() if item.number >= least), None)
            if expected is None:
                assert message is None
                return
            assert message is not None, f"nothing instead of {expected}"
            assert (int(message.body[:6]), message.backout_count) == (expected.number, expected.backouts)
            if work:
                expected.holder = work
                expected.backouts += 1
                work.takes.append(expected)
            else:
                self.items.remove(expected)

    @precondition(lambda self: self.open)
    @rule(limit=st.integers(1, 40), which=st.integers(0, 2))
    def get_many(self, limit: int, which: int) -> None:
        work = self.open[which % len(self.open)]
        expected = self.in_order()[:limit]
        found = [(int(message.body[:6]), message.backout_count) for message in work.unit.get_many("Q", limit)]
        assert found == [(item.number, item.backouts) for item in expected]
        for item in expected:
            item.holder = work
            item.backouts += 1
        work.takes += expected

    @precondition(lambda self: len(self.open) < 3)
    @rule(target=units)
    def begin(self) -> Work:
        work = Work(self.connection.unit_of_work())
        self.open.append(work)
        return work

    @rule(work=consumes(units), commit=st.booleans())
    def end(self, work: Work, commit: bool) -> None:
        if work not in self.open:
            return  # a restart has backed it out
        self.open.remove(work)
        if commit:
            work.unit.commit()
            self.arrive(work.puts)
            self._apply(work)
        else:
            work.unit.back_out()
            self._return(work)

    @rule(work=consumes(units))
    def prepare(self, work: Work) -> None:
        if work not in self.open:
            return
        self.open.remove(work)
        self.count += 1
        name = b"unit %d" % self.count
        work.unit.prepare(name)
        self.arrive(work.puts)
        self.prepared[name] = work

    @precondition(lambda self: self.prepared)
    @rule(pick=st.integers(0, 10), commit=st.booleans())
    def resolve(self, pick: int, commit: bool) -> None:
        name = sorted(self.prepared)[pick % len(self.prepared)]
        work = self.prepared.pop(name)
        self.connection.resolve(name, commit=commit)
        if commit:
            self._apply(work)
        else:
            self._return(work)

    def _apply(self, work: Work) -> None:
        self.items = [item for item in self.items if item.holder is not work] + work.puts

    def _return(self, work: Work) -> None:
        for item in work.takes:
            item.holder = None

    @rule()
    def checkpoint(self) -> None:
        self.connection.administration.checkpoint()

    @rule()
    def restart(self) -> None:
        self.connection.close()
        for work in self.open:
            self._return(work)
        self.open.clear()
        self.items = [item for item in self.items if item.persistent]
        for work in self.prepared.values():
            work.puts = [item for item in work.puts if item.persistent]
        self.connection = connected_to(EmbeddedHost(self.folder / "QM1"))

    @rule()
    def clear(self) -> None:
        if not self.open and not self.prepared:
            self.connection.mqsc("CLEAR QLOCAL(Q)")
            self.items.clear()

    # --- what always holds --------------------------------------------------------------------

    @invariant()
    def browse_shows_the_list(self) -> None:
        if not hasattr(self, "fifo"):
            return
        shown = [(int(m.body[:6]), m.backout_count) for m in self.connection.browse("Q")]
        assert shown == [(item.number, item.backouts) for item in self.in_order()]

    @invariant()
    def numbers_add_up(self) -> None:
        status = host_of(self.connection).queue_status("Q")
        assert status["CURDEPTH"] == len(self.items)
        held = sum(1 for item in self.items if item.holder is not None)
        pending = [*self.open, *self.prepared.values()]
        assert status["UNCOM"] == held + sum(len(work.puts) for work in pending)
        assert set(self.connection.in_doubt()) == set(self.prepared)
        assert int(status["MEMORY"]) >= 0

    def teardown(self) -> None:
        self.connection.close()
        limits.RUN_BYTES = self._run_bytes
        shutil.rmtree(self.folder)


TestQueueModel = QueueModel.TestCase
TestQueueModel.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
