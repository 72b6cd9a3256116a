# SPDX-License-Identifier: Apache-2.0
"""Stream: senders and receivers at work on one queue at the same time, as fast as they are answered.

SonicMQ's queue tests. With `queue_limit_bytes` the queue may hold no more,
and what a system does to its senders then (backpressure) is what the two
graphs of that document show. Without it, senders that are not held back
pause while WINDOW messages of theirs are under way, so that no system is
judged by how it bears a backlog; `window: 0` lets them run free.
"""

from __future__ import annotations

import time

from entrepot.errors import QueueFull
from entrepot.workbench.generators.client import Client, header, padding
from entrepot.workbench.loads.load import Load
from entrepot.workbench.loads.receiving import receive
from entrepot.workbench.loads.window import PAUSE_S, Window
from entrepot.workbench.measuring.stage import Stage

QUEUE = "BENCH.STREAM"
WINDOW = 10_000


class StreamLoad(Load):
    name = "stream"
    needs = frozenset({"queues"})
    pipelines = True
    parameters = {
        "message_bytes": 1000,
        "senders": 1,
        "receivers": 1,
        "batch": 1,
        "queue_limit_bytes": 0,
        "window": WINDOW,
        "seconds_factor": 1,
    }

    def run(self, stage: Stage) -> None:
        senders, receivers, batch = (stage.number(name) for name in ("senders", "receivers", "batch"))
        window = 0 if stage.number("queue_limit_bytes") else stage.number("window")
        stage.system.create_queues([QUEUE])
        with stage.trial(queues=[QUEUE]) as trial:
            trial.start("receiver", receive, receivers, QUEUE, batch)
            trial.start(
                "sender", stream, senders, QUEUE, stage.number("message_bytes"), batch, window, receivers, senders
            )
            trial.gather()
            trial.go(stage.seconds)
            trial.applications.join("sender")
            trial.drain(lambda: trial.counted("receiver") >= trial.counted("sender"))


def stream(
    client: Client, queue: str, message_bytes: int, batch: int, window: int, receivers: int, senders: int
) -> None:
    """Send until the gate closes; a sender that is told to hold on waits and tries the same message again."""
    sender, tail, note, clock = client.system.sender(queue), padding(message_bytes), client.sent.add, time.monotonic_ns
    size, me, gate, number = max(message_bytes, 8), client.number, client.gate, 0
    gate.wait()
    under_way = Window(gate, window, sending=range(receivers, receivers + senders), taking=range(receivers))
    while (ready := clock()) < gate.ended_ns:
        if under_way.is_full(number):
            time.sleep(PAUSE_S)
            continue
        numbers = range(number, number + batch)
        bodies = [header(me, each) + tail for each in numbers]
        before = clock()
        while True:
            try:
                sender.send(bodies)
                break
            except QueueFull:
                time.sleep(PAUSE_S)
                if clock() > gate.ended_ns:
                    sender.close()
                    return
        after = clock()
        for each in numbers:
            note((me, each, size, ready, before, after))
        number = numbers.stop
        client.count(number)
    sender.flush()
    sender.close()
