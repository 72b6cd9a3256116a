# SPDX-License-Identifier: Apache-2.0
"""Send: so many clients fill an empty queue as fast as they are answered (NSTL's send tests).

Closed loop: the next message is sent when the one before is as safe as the
quality promises. A queue that is filled without end would measure memory
and not sending, so each client stops at a number of messages too. The queue
is emptied and counted afterwards, outside of the figure.
"""

from __future__ import annotations

import time

from entrepot.workbench.generators.client import Client, header, padding
from entrepot.workbench.loads.load import Load
from entrepot.workbench.loads.receiving import drain
from entrepot.workbench.measuring.stage import Stage
from entrepot.workbench.scenario import Parameter
from entrepot.workbench.systems.system import System

QUEUE = "BENCH.SEND"


class Send(Load):
    name = "send"
    needs = frozenset({"queues"})
    pipelines = True
    parameters = {"message_bytes": 1000, "threads": 1, "batch": 1}

    @classmethod
    def unsuitable(cls, system: type[System], parameters: dict[str, Parameter]) -> str:  # type: ignore[override]
        kept = "" if system.keeps_messages else "it keeps no message without a waiting receiver"
        return super().unsuitable(system, parameters) or kept

    def run(self, stage: Stage) -> None:
        message_bytes, threads, batch = (stage.number(name) for name in ("message_bytes", "threads", "batch"))
        messages_max = stage.messages_max(message_bytes, threads)
        stage.system.create_queues([QUEUE])
        with stage.trial(queues=[QUEUE]) as trial:
            trial.start("sender", send, threads, QUEUE, message_bytes, batch, messages_max)
            trial.gather()
            trial.go(stage.seconds, until=lambda: trial.counted("sender") >= messages_max * threads)
            trial.applications.join("sender")
            stage.say("emptying the queue")
            drain(trial, QUEUE, trial.counted("sender"))


def send(client: Client, queue: str, message_bytes: int, batch: int, messages_max: int) -> None:
    """Send until the gate closes or so many messages are sent."""
    sender, tail, note, clock = client.system.sender(queue), padding(message_bytes), client.sent.add, time.monotonic_ns
    size, number, me = max(message_bytes, 8), 0, client.number
    client.gate.wait()
    gate = client.gate
    rows: list[tuple[int, ...]] = []
    while number < messages_max and clock() < gate.ended_ns:
        numbers = range(number, min(number + batch, messages_max))
        bodies = [header(me, each) + tail for each in numbers]
        before = clock()
        sender.send(bodies)
        after = clock()
        for row in rows:
            note(row)
        rows = [(me, each, size, before, before, after) for each in numbers]
        number = numbers.stop
        client.count(numbers.start)
    sender.flush()
    # What a client had still buffered is acknowledged only now, or buffering would look like speed. Nor is it counted
    # before: with the last of its messages the load is over.
    for row in rows:
        note((*row[:-1], clock()))
    client.count(number)
    sender.close()
