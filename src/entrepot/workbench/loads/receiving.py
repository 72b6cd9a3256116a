# SPDX-License-Identifier: Apache-2.0
"""Receive: so many clients empty a queue that was filled before (NSTL's receive tests)."""

from __future__ import annotations

import time

from entrepot.workbench.generators.client import Client, header, padding, read_header
from entrepot.workbench.loads.load import Load
from entrepot.workbench.measuring.observations import NONE_NS
from entrepot.workbench.measuring.stage import Stage, Trial
from entrepot.workbench.scenario import Parameter
from entrepot.workbench.systems.system import System, SystemReceiver

QUEUE = "BENCH.RECEIVE"
FILL_AT_ONCE = 100
POLL_S = 0.2
"""How long a receiver waits for a message at most."""
LOOK_NS = 50_000_000
"""How often a receiver looks up: it tells how long it has waited, and asks whether all is over."""

OPEN_S = 0.01
"""How long a unit of work that is not full waits for more: at the end of a full queue there is none, and to wait there
would be taken for slowness."""


class Receive(Load):
    name = "receive"
    needs = frozenset({"queues"})
    parameters = {"message_bytes": 1000, "threads": 1, "batch": 1}

    @classmethod
    def unsuitable(cls, system: type[System], parameters: dict[str, Parameter]) -> str:  # type: ignore[override]
        kept = "" if system.keeps_messages else "it keeps no message without a waiting receiver"
        return super().unsuitable(system, parameters) or kept

    def run(self, stage: Stage) -> None:
        message_bytes, threads = stage.number("message_bytes"), stage.number("threads")
        messages = stage.messages_max(message_bytes, 1)
        stage.system.create_queues([QUEUE])
        with stage.trial(queues=[QUEUE]) as trial:
            stage.say(f"filling the queue with {messages:,} messages")
            trial.start("sender", fill, 1, QUEUE, message_bytes, messages)
            trial.gather()
            trial.applications.join("sender", timeout_s=300)
            trial.start("receiver", receive, threads, QUEUE, stage.number("batch"))
            trial.gather()
            # Over when the queue is empty; the limit is for a system that has lost some.
            trial.go(max(stage.seconds * 10, 60.0), until=lambda: trial.counted("receiver") >= messages)
            trial.drain(lambda: trial.counted("receiver") >= messages, at_most_s=1.0)


def drain(trial: Trial, queue: str, messages: int) -> None:
    """Take away and note what is on a queue, so that every message is accounted for."""
    trial.start("receiver", receive_at_once, 1, queue)
    trial.gather()
    trial.drain(lambda: trial.counted("receiver") >= messages)


def fill(client: Client, queue: str, message_bytes: int, messages: int) -> None:
    """Before the gate opens; arrives when the queue is full."""
    sender, tail, note, clock = client.system.sender(queue), padding(message_bytes), client.sent.add, time.monotonic_ns
    size, me = max(message_bytes, 8), client.number
    client.gate.arrive()
    for first in range(0, messages, FILL_AT_ONCE):
        numbers = range(first, min(first + FILL_AT_ONCE, messages))
        before = clock()
        sender.send([header(me, number) + tail for number in numbers])
        after = clock()
        for number in numbers:
            note((me, number, size, before, before, after))
        client.count(numbers.stop)
    sender.flush()
    sender.close()


def receive(client: Client, queue: str, batch: int = 1) -> None:
    """From the opening of the gate until all is finished; commits after each `batch` messages or when none come."""
    receiver = client.system.receiver(queue)
    client.gate.wait()
    take(client, receiver, batch)


def receive_at_once(client: Client, queue: str) -> None:
    """Without waiting for the gate, which is open or closed already."""
    receiver = client.system.receiver(queue)
    client.gate.arrive()
    take(client, receiver, 100)


def take(client: Client, source: SystemReceiver, batch: int) -> None:
    """Note what comes until the gate says that all is finished."""
    commits = client.system.quality.is_persistent
    note, clock, me, gate = client.received.add, time.monotonic_ns, client.number, client.gate
    seen, open_rows = 0, list[tuple[int, int, int, int]]()
    waited_ns, look_ns, is_over = 0, 0, gate.is_finished
    while not is_over:
        asked = clock()
        bodies = source.receive(OPEN_S if open_rows else POLL_S)
        now = clock()
        waited_ns += now - asked
        if now >= look_ns:
            client.waited(waited_ns)
            look_ns, is_over = now + LOOK_NS, gate.is_finished
        for body in bodies:
            sender, number = read_header(body)
            open_rows.append((me, sender, number, now))
        if open_rows and (not bodies or len(open_rows) >= batch or not commits):
            committed = NONE_NS
            if commits:
                source.commit()
                committed = clock()
            for row in open_rows:
                note((*row, committed))
            seen += len(open_rows)
            open_rows.clear()
            client.count(seen)
    source.close()
