# SPDX-License-Identifier: Apache-2.0
"""2 KB messages from one queue manager to another: put on a remote queue at A, got from a local queue at B.

Two servers run on this machine, joined by a sender channel over TCP. One
producer is connected to A and one consumer to B; the rate is counted at the
consumer, with at most 10,000 messages under way (see one_way.py).
Persistent messages are put and got in units of work of fifty. Every message
carries its number: the channel may lose none, double none and swap none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import neighbours
import trial
from figures import MEMORY_ONLY, Figure, Outcome
from load import Applications, Gate, sleep_until
from one_way import Tally, faults
from peers.entrepot_server import READ_AHEAD, USER, WAIT_S, QueueManager
from processes import LOOPBACK, CpuTimes

BODY_BYTES = 2048
AT_ONCE = 100
UNIT_MESSAGES = 50
QUEUE = "ARRIVALS"
REMOTE = "TO.ARRIVALS"
FORCED_AT_BOTH = "on disk at A before a commit of the producer, at B before A forgets it and before the consumer's"


def visit(persistent: bool, warm_up_s: float, window_s: float, folder: str) -> dict[str, Any]:
    """The rate from A to B, and the CPU time of both servers."""
    gate, tally = Gate(warm_up_s, window_s), Tally()
    with (
        QueueManager(Path(folder), "A") as sending,
        QueueManager(Path(folder), "B") as receiving,
        Applications(gate) as applications,
    ):
        join(sending, receiving)
        applications.start(_consume, receiving.unix_url, tally, persistent)
        applications.start(_produce, sending.unix_url, tally, persistent)
        applications.gather()
        gate.open()
        sleep_until(gate.begun)
        times, before = CpuTimes([sending.pid, receiving.pid], applications.pids), tally.seen
        rate_per_s = tally.measured(gate)
        used, counted = times.stop(), max(tally.seen - before, 1)
        applications.answers(_produce)
        return {
            "rate_per_s": rate_per_s,
            "server_cpu_us": used["server_cpu_s"] / counted * 1e6,
            "client_cpu_us": used["client_cpu_s"] / counted * 1e6,
            "others_cpu_percent": used["others_cpu_percent"],
            **tally.drain(),
        }


def join(sending: QueueManager, receiving: QueueManager) -> None:
    """A channel from one to the other, and a remote queue that leads through it."""
    channel = f"{sending.name}.{receiving.name}"
    receiving.define_queues(QUEUE)
    receiving.mqsc(f"DEFINE CHANNEL({channel}) CHLTYPE(RCVR) MCAUSER('{USER}')")
    sending.mqsc(
        f"DEFINE QLOCAL({receiving.name}) USAGE(XMITQ) MAXDEPTH(999999999)",
        f"DEFINE QREMOTE({REMOTE}) RNAME({QUEUE}) RQMNAME({receiving.name}) XMITQ({receiving.name})",
        f"DEFINE CHANNEL({channel}) CHLTYPE(SDR) CONNAME('{LOOPBACK}({receiving.port})') XMITQ({receiving.name})",
        f"START CHANNEL({channel})",
    )


def _produce(url: str, tally: Tally, persistent: bool, gate: Gate) -> None:
    import entrepot

    connection = entrepot.connect(url)

    def send(bodies: list[bytes]) -> None:
        with connection.pipeline() as pipeline:
            for body in bodies:
                pipeline.put(REMOTE, body, persistent=False)

    def send_persistent(bodies: list[bytes]) -> None:
        with connection.unit_of_work() as unit:
            for body in bodies:
                unit.put(REMOTE, body, persistent=True)

    gate.wait()
    tally.produce(send_persistent if persistent else send, BODY_BYTES, UNIT_MESSAGES if persistent else AT_ONCE)


def _consume(url: str, tally: Tally, persistent: bool, gate: Gate) -> None:
    import entrepot

    connection, see = entrepot.connect(url), tally.see()
    gate.arrive()
    if not persistent:
        for message in connection.consume(QUEUE, read_ahead=READ_AHEAD):
            see(message.body)
    while True:
        with connection.unit_of_work() as unit:
            bodies: list[bytes] = []
            got = unit.get(QUEUE, wait_s=WAIT_S)
            while got is not None:
                bodies.append(got.body)
                got = unit.get(QUEUE) if len(bodies) < UNIT_MESSAGES else None
        # Only what is committed has arrived.
        for body in bodies:
            see(body)


def measure(*, quick: bool) -> Outcome:
    repetitions, warm_up_s, window_s = (1, 0.5, 1.0) if quick else (5, 1.0, 4.0)
    trials: list[dict[str, Any]] = []
    for repetition in range(repetitions):
        for persistent in (False, True):
            with trial.scratch_folder() as folder:
                found = trial.run(
                    "distributed:visit",
                    persistent=persistent,
                    warm_up_s=warm_up_s,
                    window_s=window_s,
                    folder=str(folder),
                )
            trials.append({"repetition": repetition, "persistent": persistent} | found)
    figures = neighbours.figures(trials)
    for persistent, words in ((False, "nonpersistent"), (True, "persistent")):
        mine = [found for found in trials if found["persistent"] is persistent]
        note = f"CPU µs per message, both servers: {max(found['server_cpu_us'] for found in mine):.0f}"
        contract = FORCED_AT_BOTH if persistent else MEMORY_ONLY
        figures.append(Figure(f"{words}: rate_per_s", [found["rate_per_s"] for found in mine], contract, note=note))
    settings = {
        "repetitions": repetitions,
        "warm_up_s": warm_up_s,
        "window_s": window_s,
        "body_bytes": BODY_BYTES,
        "unit_messages": UNIT_MESSAGES,
    }
    return Outcome(
        "distributed", "2 KB through a channel between two servers", figures + faults(trials), settings, trials
    )
