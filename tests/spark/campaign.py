# SPDX-License-Identifier: Apache-2.0
"""Numbered messages, a flow that works on them, somebody who kills, and the count at the end.

Messages are put by whoever kills, and so never while the queue manager dies:
nobody is in doubt about what there was. In the end each number is on the input
queue, or on the output queue, or set aside: one of these, and once.
"""

from __future__ import annotations

import collections
import contextlib
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator

from channels.processes import ServerProcess, until
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.live.supervision import SupervisedFlow

_NUMBER = re.compile(rb"<n>(\d+)</n>")
_WORK = "DECLARE i INTEGER 0; WHILE i < {turns} DO SET i = i + 1; END WHILE;"
SOURCE = "LEDGER"
AHEAD = 3_000
"""So many messages are put at a time: enough for what a flow does between two kills, and soon there after a restart."""
WORKED_ON_MIN = 100
"""So many messages have come out when a campaign ends: on a busy machine there may be few between two kills."""
_LOOK_S = 0.03


def numbered_flow(
    name: str, source: str, target: str, *, coordinated: bool = False, turns: int = 1_500
) -> FlowDefinition:
    """Messages from one queue to another, with a little work and, if coordinated, a row each."""
    flow = FlowDefinition(name, coordinated=coordinated)
    flow.node("MQInput", "In", queue=source, domain="XML")
    flow.node("Compute", "Work", statements=f"SET OutputRoot = InputRoot; {_WORK.format(turns=turns)}")
    flow.node("MQOutput", "Out", queue=target)
    flow.link("In", "Work")
    if coordinated:
        insert = "INSERT INTO Database.ledger (number) VALUES (CAST(Root.XML.order.n AS INTEGER));"
        flow.node("Database", "Row", statements=insert, data_source=SOURCE)
        flow.link("Work", "Row")
        flow.link("Row", "Out")
    else:
        flow.link("Work", "Out")
    return flow


class Campaign:
    """One load and the kills that it has to survive."""

    def __init__(self, server: ServerProcess, source: str, target: str, seed: int) -> None:
        self.server = server
        self.source = source
        self.target = target
        self.count = 0
        self.random = random.Random(seed)
        self.kills: collections.Counter[str] = collections.Counter()

    def put(self, count: int = AHEAD) -> None:
        with self.server.connect() as connection, connection.pipeline() as pipeline:
            for number in range(self.count, self.count + count):
                pipeline.put(self.source, b"<order><n>%d</n></order>" % number, persistent=True)
        self.count += count

    def depth(self, queue: str) -> int:
        with self.server.connect() as connection:
            row = connection.mqsc(f"DISPLAY QSTATUS({queue}) CURDEPTH")[0].rows[0]
        return int(row["CURDEPTH"])

    def numbers(self, queue: str) -> list[int]:
        """All numbers on a queue; taken, so that what nobody may see would be missed."""
        found = []
        with self.server.connect() as connection:
            while True:
                with connection.unit_of_work() as unit:
                    messages = unit.get_many(queue, 500)
                for message in messages:
                    number = _NUMBER.search(message.body)
                    assert number is not None
                    found.append(int(number[1]))
                if not messages:
                    return found

    def require_exactly_once(self) -> int:
        """Each number is in one place; how many were worked on."""
        with self.server.connect() as connection:
            until(
                lambda: not connection.mqsc(f"DISPLAY QSTATUS({self.source}) UNCOM")[0].rows[0]["UNCOM"],
                "nobody has messages of the input queue any more",
            )
        left, done = self.numbers(self.source), self.numbers(self.target)
        seen = collections.Counter(left) + collections.Counter(done)
        lost = [number for number in range(self.count) if not seen[number]]
        twice = [number for number, times in seen.items() if times > 1]
        assert not lost, f"lost after {dict(self.kills)}: {lost[:10]} of {len(lost)}"
        assert not twice, f"twice after {dict(self.kills)}: {twice[:10]} of {len(twice)}"
        return len(done)

    # --- who kills ----------------------------------------------------------------------------

    def kill_worker(self, live: SupervisedFlow) -> None:
        """The process of an instance."""
        pids = [row["pid"] for row in live.status() if row["connected"] and "pid" in row]
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.random.choice(pids), signal.SIGKILL)

    def kill_server(self, live: SupervisedFlow) -> None:
        self.server.restart()

    def cancel_job(self, live: SupervisedFlow) -> None:
        """Spark lets the tasks go on, and the queue manager does not."""
        live.cancel()
        live.wait()
        before = self.depth(self.target)
        live.start()
        assert self.depth(self.target) >= before

    def survive(self, live: SupervisedFlow, kinds: list[Callable[[SupervisedFlow], None]], times: int) -> None:
        """Kill while the flow works, with each kind in turn: a random while after it was seen to go on."""
        for number in range(times):
            kind = kinds[number % len(kinds)]
            self.wait_for_progress()
            time.sleep(self.random.uniform(0.0, 0.2))
            kind(live)
            self.kills[kind.__name__] += 1
        self.wait_for_progress()
        while self.depth(self.target) <= WORKED_ON_MIN:
            self.wait_for_progress()

    def wait_for_progress(self) -> None:
        if self.depth(self.source) < AHEAD // 2:
            self.put()
        done = self.depth(self.target)
        deadline = time.monotonic() + 200.0
        while self.depth(self.target) <= done:
            assert time.monotonic() < deadline, f"it goes on after {dict(self.kills)}"
            time.sleep(_LOOK_S)


@contextlib.contextmanager
def running(live: SupervisedFlow) -> Iterator[SupervisedFlow]:
    with live:
        live.wait_until_running()
        yield live
