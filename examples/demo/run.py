# SPDX-License-Identifier: Apache-2.0
"""The demo's load: three flows on Spark, somebody who sends, somebody who kills, and a watch on all of it.

Kills come at fixed parts of the work, so that they always hit a system that
is busy. Nothing here takes part in making it exact: that is for the queue
manager, and for units of work.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from demo.orders import OrderBook
from demo.sender import Sender
from demo.verdict import CONFIRMED, EMPTY, OUTCOMES, PRICED, REFUSED, expectations
from demo.world import FLOWS, World, flow_path, total
from entrepot.errors import ChannelError, FlowEnded
from entrepot.flows.live.deployment import ATTEMPTS_MAX

if TYPE_CHECKING:
    from pyspark import SparkContext

    from entrepot.client.blocking import Connection
    from entrepot.spark.live.live_flow import LiveFlow

Show = Callable[[Mapping[str, int]], None]
Event = Callable[[str], None]

_LOOK_S = 0.1
_PATIENCE_S = 60.0
_AGAIN_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class _Kill:
    """Somebody's end, when so much of the work is done."""

    part: float
    flow: str
    """Whose task; empty: the queue manager."""


KILLS = (_Kill(0.2, "orders"), _Kill(0.45, ""), _Kill(0.7, "confirm"))


class Run:
    """Flows at work on Spark; a context manager that stops them."""

    TASKS: ClassVar[int] = 4
    PRELOADED: ClassVar[tuple[str, ...]] = (
        "entrepot.flows.live.instance",
        "entrepot.flows.live.flow_databases",
        "entrepot.flows.nodes.aggregation",
        "entrepot.flows.nodes.compute",
        "entrepot.flows.nodes.contents",
        "entrepot.flows.nodes.python",
        "entrepot.flows.nodes.mapping",
        "entrepot.flows.nodes.mq",
        "entrepot.flows.nodes.publication",
        "entrepot.flows.nodes.routing",
        "entrepot.models.swift",
        "lxml.etree",
    )

    def __init__(self, world: World, book: OrderBook, context: SparkContext) -> None:
        self._world = world
        self._book = book
        self._context = context
        self._flows: dict[str, LiveFlow] = {}
        self._opened = contextlib.ExitStack()
        self._done = 0
        self._best = _BestSecond()
        self._kills = list(KILLS)
        self._sender = Sender(world.url, book, lambda: self._done)
        self.facts: dict[str, Any] = {"kills": []}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sender.is_alive():
            self._sender.stop()
        self._opened.close()

    @property
    def totals(self) -> dict[str, int]:
        """What `watch` counts, and how far."""
        expected = {place: len(orders) for place, orders in expectations(self._book).items()}
        return {"sent": self._book.count, **_counts(expected)}

    def start(self, tell: Callable[[str], None]) -> None:
        """Start all flows; returns when each of their tasks is at work."""
        from entrepot.flows import load_flow
        from entrepot.spark.live.live_flow import LiveFlow

        for name in FLOWS:
            tell(f"starting the flow {name}")
            definition = load_flow(flow_path(f"{name}.yaml"))
            databases = self._world.databases if definition.coordinated else {}
            live = LiveFlow(self._context, definition, self._world.url, databases=databases)
            self._flows[name] = self._opened.enter_context(live)
        for name, live in self._flows.items():
            tell(f"waiting for the tasks of {name}")
            live.wait_until_running()

    # --- watching -----------------------------------------------------------------------------

    def watch(self, show: Show, tell: Event) -> None:
        """Send all orders, kill on the way, and return when all are through and the flows have stopped."""
        with self._world.connected() as connection:
            begun = time.monotonic()
            self._sender.start()
            self._until_through(connection, show, tell)
            seconds = time.monotonic() - begun
        for live in self._flows.values():
            live.stop()
        self._sender.stop()
        if self._sender.error is not None:
            raise self._sender.error
        self.facts |= {
            "work_s": round(seconds, 1),
            "orders_per_s": round(self._done / seconds),
            "orders_per_s_best": round(self._best.rate_per_s),
            "sender_interruptions": self._sender.interruptions,
            "spark_restarts": sum(live.restarts for live in self._flows.values()),
        }

    def _until_through(self, connection: Connection, show: Show, tell: Event) -> None:
        moved_at = time.monotonic()
        moved_to: tuple[int, ...] = ()
        while True:
            depths = self._look(connection)
            self._done = total(depths, OUTCOMES)
            self._best.add(self._done)
            show({"sent": self._sender.sent, **_counts(depths)})
            self._require_alive()
            state = (self._sender.sent, self._done, total(depths, EMPTY))
            now = time.monotonic()
            if state != moved_to:
                moved_to, moved_at = state, now
            if self._kills and self._done >= self._kills[0].part * self._book.count:
                self._kill(self._kills.pop(0), tell)
                continue
            if self._is_through(depths) or now - moved_at > _PATIENCE_S:
                return
            time.sleep(_LOOK_S)

    def _is_through(self, depths: Mapping[str, int]) -> bool:
        """Whether nobody has anything to do any more, be it right or wrong what they did."""
        return self._done >= self._book.count and not total(depths, EMPTY)

    def _look(self, connection: Connection) -> dict[str, int]:
        deadline = time.monotonic() + _AGAIN_S_MAX
        while True:
            try:
                return self._world.depths(connection)
            except ChannelError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_LOOK_S)

    def _require_alive(self) -> None:
        if self._sender.error is not None:
            raise self._sender.error
        for live in self._flows.values():
            if not live.is_running:
                live.wait(0)
                raise FlowEnded(live.name, "it has ended by itself")

    # --- killing ------------------------------------------------------------------------------

    def _kill(self, kill: _Kill, tell: Event) -> None:
        begun = time.monotonic()
        if kill.flow:
            self._kill_task(kill.flow, tell)
        else:
            self._kill_manager(tell)
        seconds = round(time.monotonic() - begun, 2)
        what = f"a task of {kill.flow}" if kill.flow else "the queue manager"
        self.facts["kills"].append({"killed": what, "orders_done": self._done, "recovered_s": seconds})

    def _kill_task(self, flow: str, tell: Event) -> None:
        live = self._flows[flow]
        # After a kill of the queue manager a task may have reconnected and not said yet which process it is.
        row = self._wait_for(live, lambda _: True)
        tell(f"SIGKILL to the task {row['name']}, process {row['pid']}, after {self._done:,} orders")
        begun = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.kill(row["pid"], signal.SIGKILL)
        after = self._wait_for(live, lambda now: now["name"] == row["name"] and now["epoch"] > row["epoch"])
        tell(
            f"Spark has started it again as process {after['pid']}, attempt {after['epoch'] % ATTEMPTS_MAX + 1}, "
            f"in {time.monotonic() - begun:.2f} s; its epoch fences the one before"
        )

    def _kill_manager(self, tell: Event) -> None:
        tell(f"SIGKILL to the queue manager, process {self._world.pid}, after {self._done:,} orders")
        begun = time.monotonic()
        self._world.kill()
        self._world.start()
        tell(f"it is back as process {self._world.pid} in {time.monotonic() - begun:.2f} s, from its recovery log")
        for live in self._flows.values():
            live.wait_until_running()
        tell(f"all tasks have reconnected by themselves {time.monotonic() - begun:.2f} s after the kill")

    def _wait_for(self, live: LiveFlow, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + _AGAIN_S_MAX
        while time.monotonic() < deadline:
            self._require_alive()
            with contextlib.suppress(ChannelError):
                for row in live.status():
                    if row["connected"] and row.get("pid") and wanted(row):
                        return row
            time.sleep(_LOOK_S / 2)
        raise FlowEnded(live.name, f"no task of it has come back within {_AGAIN_S_MAX:g} s")


def _counts(depths: Mapping[str, int]) -> dict[str, int]:
    return {
        "priced": total(depths, PRICED),
        "confirmed": depths.get(CONFIRMED, 0),
        "refused": depths.get(REFUSED, 0),
    }


class _BestSecond:
    """The highest rate over a second or more."""

    def __init__(self) -> None:
        self._since: list[tuple[float, int]] = []
        self.rate_per_s = 0.0

    def add(self, count: int) -> None:
        now = time.monotonic()
        self._since.append((now, count))
        while len(self._since) > 1 and now - self._since[1][0] >= 1.0:
            self._since.pop(0)
        first_at, first = self._since[0]
        if now - first_at >= 1.0:
            self.rate_per_s = max(self.rate_per_s, (count - first) / (now - first_at))
