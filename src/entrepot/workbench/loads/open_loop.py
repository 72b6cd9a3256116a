# SPDX-License-Identifier: Apache-2.0
"""Open loop: messages are sent at the moments of a schedule, whatever the system does (CSIRO).

Latency counts from the intended moment. Senders that are held up by the
system send what is due in one go as soon as they can, in one unit of work
where the quality has units, so a stall is not hidden by sending less.
`rate_per_s` is programmed; with `rate_factor` it is that multiple of what a
closed loop brings through, which is measured first. The load `sustained`
searches for the highest rate that can be sustained.
"""

from __future__ import annotations

import time
from pathlib import Path

from entrepot.errors import SystemFailed
from entrepot.workbench.generators.client import Client, header, padding
from entrepot.workbench.generators.gate import sleep_until
from entrepot.workbench.generators.schedule import offsets_ns, share
from entrepot.workbench.loads.load import Load
from entrepot.workbench.loads.receiving import receive
from entrepot.workbench.loads.streaming import stream
from entrepot.workbench.measuring.stage import Stage, Trial

QUEUE = "BENCH.OPEN"
AT_ONCE = 200
"""No more than so many messages in one call when the sender is behind."""
PILOT_WINDOW = 500
PILOT_UNIT = 20
"""As an open loop sends what is due in one unit, so does its pilot, or it would measure single forces."""
PILOT_MIN_PER_S = 10.0
SEED = 2002
RECEIVER_BATCH = 1


class OpenLoop(Load):
    name = "open-loop"
    needs = frozenset({"queues"})
    pipelines = True
    parameters = {
        "message_bytes": 64,
        "rate_per_s": 1000,
        "rate_factor": 0,
        "senders": 1,
        "receivers": 1,
        "arrivals": "constant",
        "trace": "",
        "binding": "",
        "batch": RECEIVER_BATCH,
        "seconds_factor": 1,
    }

    def run(self, stage: Stage) -> None:
        stage.system.create_queues([QUEUE])
        factor = float(stage.text("rate_factor"))
        rate_per_s = factor * pilot_per_s(stage) if factor else float(stage.number("rate_per_s"))
        with stage.trial(queues=[QUEUE], offered_per_s=rate_per_s) as trial:
            offer(trial, stage, rate_per_s, stage.seconds)


def pilot_per_s(stage: Stage) -> float:
    """What a closed loop with a bounded backlog brings through in about a second."""
    senders, receivers, batch = (stage.number(name) for name in ("senders", "receivers", "batch"))
    seconds = stage.effort.probe_s[0]
    with stage.trial(is_kept=False) as trial:
        trial.start("receiver", receive, receivers, QUEUE, batch)
        trial.gather()
        at_once = PILOT_UNIT if stage.system.quality.is_persistent else 1
        sizes = (stage.number("message_bytes"), at_once, PILOT_WINDOW, receivers, senders)
        trial.start("sender", stream, senders, QUEUE, *sizes)
        trial.gather()
        trial.go(seconds)
        through = trial.counted("receiver")
        trial.applications.join("sender")
        trial.drain(lambda: trial.counted("receiver") >= trial.counted("sender"))
    if stage.failure:
        raise SystemFailed(stage.system.name, f"in the pilot: {stage.failure}")
    return max(through / seconds, PILOT_MIN_PER_S)


def offer(trial: Trial, stage: Stage, rate_per_s: float, seconds: float) -> bool:
    """One programmed rate for so long, and then until everything has arrived; False when it never did."""
    senders = stage.number("senders")
    trial.start("receiver", receive, stage.number("receivers"), QUEUE, stage.number("batch"))
    trial.gather()
    arguments = (stage.number("message_bytes"), rate_per_s, senders, stage.text("arrivals"), stage.text("trace"))
    trial.start("sender", send_on_schedule, senders, QUEUE, *arguments)
    trial.gather()
    trial.go(seconds)
    trial.applications.join("sender", timeout_s=stage.effort.drain_s + 60)
    return trial.drain(lambda: trial.counted("receiver") >= trial.counted("sender"))


def send_on_schedule(
    client: Client,
    queue: str,
    message_bytes: int,
    rate_per_s: float,
    senders: int,
    arrivals: str,
    trace: str,
) -> None:
    """Each message has the intended moment of its own, however many are sent in one call."""
    sender, tail, note, clock = client.system.sender(queue), padding(message_bytes), client.sent.add, time.monotonic_ns
    offsets = offsets_ns(arrivals, rate_per_s, seed=SEED, trace=Path(trace) if trace else None)
    mine = share(offsets, client.number, senders)
    size, me, gate, number = max(message_bytes, 8), client.number, client.gate, 0
    intended = next(mine)
    begun = gate.wait()
    while begun + intended < gate.ended_ns:
        sleep_until(begun + intended)
        now, due = clock(), list[int]()
        if now >= gate.ended_ns + 1_000_000_000:
            # More than a second behind at the end: what is still due will never be sent, and counts as not delivered.
            break
        while begun + intended <= now and begun + intended < gate.ended_ns and len(due) < AT_ONCE:
            due.append(begun + intended)
            intended = next(mine)
        before = clock()
        sender.send([header(me, each) + tail for each in range(number, number + len(due))])
        after = clock()
        for moment in due:
            note((me, number, size, moment, before, after))
            number += 1
        client.count(number)
    sender.flush()
    sender.close()
