# SPDX-License-Identifier: Apache-2.0
"""What Spark costs a live flow, what a second instance brings, and how long a message takes at half load.

The same instances run on Spark and as plain processes, turn and turn about,
so that a slow minute is nobody's alone. Latency is taken from the moment at
which a message was to be sent, in an open loop at half of the rate that flow,
sender and receiver reach together when nothing holds them back.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import time
from typing import Any

from entrepot.workbench.broker.cases import FLOWS, BrokerCase, cases
from entrepot.workbench.loads.flows import IN, OUT
from entrepot.workbench.systems.processes import script
from figures import Figure, Outcome, at_least, at_most, percentile
from flow_stage import Stage
from trial import scratch_folder

BESIDE_PLAIN = ("trivial", "compute_simple", "compute_complex")
AT_HALF_LOAD = ("trivial", "compute_simple")
TWO_INSTANCES = "compute_very_complex"
CONTRACT = "nonpersistent, unit of work; dies with the queue manager"
COUNT_MIN, COUNT_MAX = 1_000, 60_000
BYTES_MAX = 120 * 1024 * 1024
TURNS = 3
SECONDS = 3.0
LATENCY_SECONDS = 15.0
WARM_UP_SECONDS = 3.0
CAPACITY_MESSAGES = 40_000
_SENDER = """
import sys, time, entrepot
url, queue, rate, seconds, size = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
from entrepot.workbench.broker.messages import flat
body = flat(int(size))
with entrepot.connect(url) as connection:
    begun = time.time()
    count = int(rate * seconds)
    late = 0.0
    number = 0
    while number < count:
        now = time.time()
        due = min(int((now - begun) * rate) + 1, count)
        if due > number:
            with connection.pipeline() as pipeline:
                for each in range(number, due):
                    intended = begun + each / rate
                    pipeline.put(queue, body, correlation_id=int(intended * 1e9).to_bytes(8, "big"))
            late = max(late, time.time() - (begun + number / rate))
            number = due
        else:
            time.sleep(max(begun + number / rate - now, 0.0))
    print(late)
"""


def measure(*, quick: bool = False) -> Outcome:
    figures: list[Figure] = []
    trials: list[dict[str, Any]] = []
    with scratch_folder() as folder, Stage(folder) as stage:
        for name in BESIDE_PLAIN:
            found, pairs = _beside_plain(stage, cases()[name], quick)
            trials += found
            figures += _spark_figures(name, pairs)
        found, pairs = _two_and_one(stage, cases()[TWO_INSTANCES], quick)
        trials += found
        ratios = [two["rate_per_s"] / one["rate_per_s"] for two, one in pairs]
        figures.append(Figure("two instances / one, very complex compute, 4 KB", ratios, CONTRACT, at_least(1.6)))
        for name in AT_HALF_LOAD:
            capacity = _capacity(stage, cases()[name], quick)
            latencies_ms, late_ms = _latencies(stage, cases()[name], capacity / 2, quick)
            trials.append({"case": name, "rate_per_s": capacity / 2, "latency_ms": latencies_ms, "late_ms": late_ms})
            note = (
                f"at {capacity / 2:,.0f}/s, half of what flow, sender and receiver reach together on these processors; "
                f"the sender was late by {late_ms:.1f} ms at most"
            )
            half = [percentile(latencies_ms, 50)]
            figures.append(Figure(f"{name}, half load, median ms", half, CONTRACT, at_most(5.0), note))
            figures.append(Figure(f"{name}, half load, 99 % ms", [percentile(latencies_ms, 99)], CONTRACT, None, note))
        seconds = [_first_message_s(stage) for _ in range(1 if quick else TURNS + 1)]
        figures.append(
            Figure(
                "entrepot flow run: seconds to the first message",
                seconds[1:] or seconds,
                CONTRACT,
                at_most(12.0),
                f"with the class archive; the run before these took {seconds[0]:.1f} s and may have had to make it",
            )
        )
    return Outcome("flow_cost", "what Spark costs a live flow, 1 KB unless said", figures, {"turns": TURNS}, trials)


def _first_message_s(stage: Stage) -> float:
    """From the command to the message that has waited for it."""
    case = cases()["compute_simple"]
    stage.fill(case, case.sizes[0], 1)
    command = [script("entrepot"), "flow", "run", stage.url, str(FLOWS / "compute_simple.yaml"), "--json"]
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if stage.connection.get(OUT, wait_s=120) is None:
            raise TimeoutError("no message came")
        return time.perf_counter() - began
    finally:
        child.send_signal(signal.SIGINT)
        child.wait()


def _beside_plain(
    stage: Stage, case: BrokerCase, quick: bool
) -> tuple[list[dict[str, Any]], list[tuple[dict[str, Any], dict[str, Any]]]]:
    size = case.sizes[0]
    count = _count(stage, case, size)
    pairs = []
    for turn in range(1 if quick else TURNS):
        # Who begins changes, so that neither always finds the other's warm caches.
        order = (False, True) if turn % 2 == 0 else (True, False)
        found = {plain: stage.run(case, size, count, plain=plain) for plain in order}
        pairs.append((found[False], found[True]))
    return [trial for pair in pairs for trial in pair], pairs


def _two_and_one(
    stage: Stage, case: BrokerCase, quick: bool
) -> tuple[list[dict[str, Any]], list[tuple[dict[str, Any], dict[str, Any]]]]:
    size = case.sizes[0]
    count = _count(stage, case, size)
    pairs = []
    for _ in range(1 if quick else TURNS):
        two = stage.run(case, size, count, instances=2)
        one = stage.run(case, size, count // 2, instances=1)
        pairs.append((two, one))
    return [trial for pair in pairs for trial in pair], pairs


def _count(stage: Stage, case: BrokerCase, size: int) -> int:
    first = stage.run(case, size, COUNT_MIN)
    return max(COUNT_MIN, min(int(first["rate_per_s"] * SECONDS), COUNT_MAX, BYTES_MAX // size))


def _spark_figures(name: str, pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[Figure]:
    ratios = [spark["rate_per_s"] / plain["rate_per_s"] for spark, plain in pairs]
    extra = [(spark["flow_cpu_ms"] - plain["flow_cpu_ms"]) * 1000 for spark, plain in pairs]
    rate, alone = (statistics.median(trial["rate_per_s"] for trial in each) for each in zip(*pairs, strict=True))
    note = f"{rate:,.0f}/s on Spark, {alone:,.0f}/s in plain processes"
    return [
        Figure(f"{name}: on Spark / plain processes", ratios, CONTRACT, at_least(0.85), note),
        Figure(f"{name}: Spark's CPU µs/message", extra, CONTRACT, None, "instances on Spark less plain ones"),
    ]


def _capacity(stage: Stage, case: BrokerCase, quick: bool) -> float:
    """Messages per second when a sender sends as fast as it can and somebody receives what comes out."""
    count = 5_000 if quick else CAPACITY_MESSAGES
    stage.fill(case, case.sizes[0], 0)
    with stage.on_spark(case, case.sizes[0], instances=2), stage.connection.consume(OUT, read_ahead=1000) as incoming:
        sender = _sender(stage, case, 1e6, count / 1e6)
        first = 0.0
        for number in range(count):
            if incoming.get(20.0) is None:
                raise TimeoutError(f"{number} of {count} messages came")
            if number == count // 10:
                first = time.perf_counter()
        elapsed = time.perf_counter() - first
        sender.communicate()
    return count * 0.9 / elapsed


def _sender(stage: Stage, case: BrokerCase, rate: float, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _SENDER, stage.url, IN, str(rate), str(seconds), str(case.sizes[0])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _latencies(stage: Stage, case: BrokerCase, rate: float, quick: bool) -> tuple[list[float], float]:
    """Milliseconds from the intended send of each message, the first ones left out; and how late the sender was."""
    seconds = 4.0 if quick else LATENCY_SECONDS
    stage.fill(case, case.sizes[0], 0)
    found: list[float] = []
    with stage.on_spark(case, case.sizes[0], instances=2), stage.connection.consume(OUT, read_ahead=1000) as incoming:
        sender = _sender(stage, case, rate, seconds)
        wanted = int(rate * seconds)
        while len(found) < wanted:
            message = incoming.get(10.0)
            if message is None:
                raise TimeoutError(f"{len(found)} of {wanted} messages came")
            found.append(time.time() - int.from_bytes(message.correlation_id, "big") / 1e9)
        output, _ = sender.communicate()
    skipped = int(rate * (1.0 if quick else WARM_UP_SECONDS))
    return [round(latency * 1000, 3) for latency in found[skipped:]], float(output) * 1000
