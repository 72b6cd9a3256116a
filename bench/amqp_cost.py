# SPDX-License-Identifier: Apache-2.0
"""What our AMQP side costs: processor time of the server for a message, in and out.

Server and client are the workbench's: proton's engine without its wrapper
objects on a blocking socket, because the stock Python client costs more than
any broker. Unlike in the workbench's loads, unsettled messages are not waited
for one by one, so that it is the message that costs and not the wait. The
server's processor time is read from /proc, so other load on the machine
disturbs rates more than costs.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import trial
from entrepot.message import Message
from entrepot.server.amqp.mapping import encode_message
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.entrepot_amqp import EntrepotAmqp
from entrepot.workbench.systems.entrepot_amqp_client import AmqpConnection
from entrepot.workbench.systems.processes import cpu_s
from figures import MEMORY_ONLY, Figure, Outcome

QUEUE = "Q"
BODY_BYTES = 1024
CREDIT = 1000
WAIT_S = 10.0
SETTLE_S = 0.3
CONTRACTS = {
    (False, True): MEMORY_ONLY,
    (False, False): f"{MEMORY_ONLY}; each is accepted",
    (True, True): "persistent, but sent and delivered settled: nobody waits for the disk",
    (True, False): "each is accepted, or settled, once it is on disk; not waited for one by one",
}


def passes(messages: int, folder: str) -> dict[str, Any]:
    """All ways, each in and then out again, on one server."""
    found = {}
    with EntrepotAmqp(Path(folder), Quality.EXPRESS) as system:
        system.create_queues([QUEUE])
        port = urlsplit(system.url).port or 0
        for persistent, settled in itertools.product((False, True), (True, False)):
            for name, work in (("in", _send), ("out", _receive)):
                connection = AmqpConnection(port, "bench")
                before_s, begun = cpu_s(system.pids), time.perf_counter()
                work(connection, messages, persistent, settled)
                elapsed_s = time.perf_counter() - begun
                connection.close()
                time.sleep(SETTLE_S)  # what the server still does for them
                cost_us = (cpu_s(system.pids) - before_s) / messages * 1e6
                found[_key(persistent, settled, name)] = {"rate_per_s": messages / elapsed_s, "server_cpu_us": cost_us}
        if left := system.depth(QUEUE):
            raise trial.TrialFailed(f"{left} messages more than were sent")
    return found


def _key(persistent: bool, settled: bool, name: str) -> str:
    return f"{'persistent' if persistent else 'nonpersistent'} {'settled' if settled else 'unsettled'} {name}"


def _send(connection: AmqpConnection, messages: int, persistent: bool, settled: bool) -> None:
    data = encode_message(Message(bytes(BODY_BYTES), persistent=persistent, priority=4), QUEUE)
    link = connection.sender(QUEUE, settled=settled)
    for _ in range(messages):
        link.send(data)
    link.await_answers()
    # Nobody answers for what is sent settled; but an answer to this comes behind all of it.
    connection.coordinator.discharge(connection.coordinator.declare(), commit=False)


def _receive(connection: AmqpConnection, messages: int, persistent: bool, settled: bool) -> None:
    del persistent  # the messages are what they are
    link, got = connection.receiver(QUEUE, CREDIT, settled=settled), 0
    while got < messages:
        taken = link.receive(WAIT_S, CREDIT // 2)
        if not taken:
            raise trial.TrialFailed(f"{got} of {messages} messages came")
        got += len(taken)
        if not settled:
            link.accept([delivery for delivery, _ in taken])


def measure(*, quick: bool) -> Outcome:
    repetitions, messages = (1, 5_000) if quick else (5, 50_000)
    trials = []
    for _ in range(repetitions):
        with trial.scratch_folder() as folder:
            trials.append(trial.run("amqp_cost:passes", messages=messages, folder=str(folder)))
    figures = []
    for persistent, settled in itertools.product((False, True), (True, False)):
        for name in ("in", "out"):
            key, contract = _key(persistent, settled, name), CONTRACTS[persistent, settled]
            rates = [found[key]["rate_per_s"] for found in trials]
            figures.append(Figure(f"{key}: server_cpu_us", [found[key]["server_cpu_us"] for found in trials], contract))
            figures.append(Figure(f"{key}: rate_per_s", rates, contract))
    settings = {"repetitions": repetitions, "messages": messages, "body_bytes": BODY_BYTES}
    return Outcome("amqp_cost", "1 KB through our AMQP listener", figures, settings, trials)
