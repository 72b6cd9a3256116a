# SPDX-License-Identifier: Apache-2.0
"""What one trial measured, under the names that the published figures have.

Rates are of completions in the steady window; latencies are of all messages
that were meant to be sent in it, however late they came, from the moment at
which they were meant to be sent. CPU is of the same window. Percentiles are
those of NumPy (linear between neighbours).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from entrepot.workbench.analysis.metric import ACCOUNTS
from entrepot.workbench.analysis.observed import REPLY_LOADS, Numbers, Observed, Reals
from entrepot.workbench.measuring.observations import CALL_NAMES, NONE_NS
from entrepot.workbench.statistics.counting import TrialAccount

SEARCH = "sustained"
PERCENTILES = (50, 90, 99)
LATENESS_S_MIN = 0.005
"""Several time slices of a busy machine: less lateness than this is the kernel's doing and no reason for a verdict."""
LATENESS_SHARE = 0.1
"""Of the mean interval of one sender: what is late by less still arrives in its own tenth of the schedule. Or of the
99th percentile of the latency, which lateness is a part of: past saturation a tenth more changes nothing."""
GENERATOR_BUSY_CORES = 0.9
"""A client runs in one thread of Python, so a process that uses this much of a core has no time left to be on time."""
_FULL_MACHINE_TABLES = ("wbimb-hpux-v5", "2.")
"""The document's section 2 runs a flow on as many instances as fill the machine."""
_ONE_WAY = frozenset({"stream", "open-loop", "publish", "forward", "flow", "receive"})


def metrics(observed: Observed, account: TrialAccount) -> dict[str, float]:
    """Everything that this trial gives a figure for, by the names of metric.py.

    A search gives what it found and what that cost: the rate of a probe is no figure.
    """
    record, found = observed.record, dict[str, float]()
    if observed.window.seconds > 0:
        measured = _processors(observed) if record.load == SEARCH else _measured(observed)
        found = {name: float(value) for name, value in measured if numpy.isfinite(value)}
    found |= record.facts
    # What became of the messages that did not come once and in order; of probes, saturation.py tells.
    if account.sent and record.load != SEARCH:
        found |= {name: float(getattr(account, name)) for name in ACCOUNTS}
    return found


def problem(observed: Observed) -> str:
    """Why this trial gives no figure; empty when it does. Probes are judged elsewhere, by saturation.py."""
    if observed.record.load == SEARCH:
        return ""
    if observed.window.problem:
        return observed.window.problem
    if observed.window.seconds <= 0:
        return "it has no duration"
    return _too_late(observed) if observed.is_programmed else ""


def latency_s(observed: Observed) -> Reals:
    """Of every message that was meant to be sent in the window: until it was received, or acknowledged where nothing
    is received; strays have none."""
    if observed.record.load == "send":
        sent = observed.sent
        chosen = observed.window.holds(sent.intended_ns) & (sent.acknowledged_ns != NONE_NS)
        return _seconds(sent.intended_ns[chosen], sent.acknowledged_ns[chosen])
    if observed.record.load in ("receive", "calls"):
        # It lay in the queue before a receiver was there.
        return numpy.empty(0)
    received = observed.received
    chosen = observed.window.holds(received.intended_ns) & (received.intended_ns != NONE_NS)
    return _seconds(received.intended_ns[chosen], received.received_ns[chosen])


def _seconds(begun_ns: Numbers, ended_ns: Numbers) -> Reals:
    return (ended_ns - begun_ns).astype(numpy.float64) / 1e9


def _too_late(observed: Observed) -> str:
    """wrk2's rule: a schedule that the generator did not keep is not the load that the figure claims."""
    if not len(observed.lateness_ns):
        return ""
    late_s = float(numpy.percentile(observed.lateness_ns, 99)) / 1e9
    own_s = float(numpy.percentile(observed.own_lateness_ns, 99)) / 1e9
    bound_s = lateness_bound_s(observed)
    busiest = observed.per_second("cpu_s", "busiest generator")
    reason = (
        f"the generator was too late: 99 % of its messages within {{:.1f}} ms, and {bound_s * 1e3:.1f} ms are allowed"
    )
    if own_s > bound_s:
        return reason.format(own_s * 1e3)
    if late_s > bound_s and busiest is not None and busiest >= GENERATOR_BUSY_CORES:
        return reason.format(late_s * 1e3) + f"; a process of it used {busiest:.2f} cores"
    return ""


def lateness_bound_s(observed: Observed) -> float:
    senders = max(1, len(numpy.unique(observed.sent.sender)))
    interval_s = senders / observed.record.offered_per_s if observed.record.offered_per_s else 0.0
    latencies = latency_s(observed)
    latency_p99_s = float(numpy.percentile(latencies, 99)) if len(latencies) else 0.0
    return max(LATENESS_S_MIN, LATENESS_SHARE * interval_s, LATENESS_SHARE * latency_p99_s)


def _measured(observed: Observed) -> Iterator[tuple[str, float]]:
    load, window, sent = observed.record.load, observed.window, observed.sent
    rate = window.count(observed.completed_ns) / window.seconds
    if load == "calls":
        yield from _calls(observed)
    elif load in REPLY_LOADS:
        yield "round_trips", rate
    elif load in _ONE_WAY or load == "send":
        yield "throughput", rate
        document, table = _FULL_MACHINE_TABLES
        if observed.record.document == document and observed.record.table.startswith(table):
            yield "throughput_full_machine", rate
    if load == "sessions":
        sessions = observed.calls.ended_ns[observed.calls.call == CALL_NAMES.index("session")]
        yield "short_sessions", window.count(sessions) / window.seconds
    if load not in ("calls", "receive", *REPLY_LOADS):
        yield "sent", window.count(sent.sent_ns) / window.seconds
        acknowledged = sent.acknowledged_ns[sent.acknowledged_ns != NONE_NS]
        yield "acknowledged", window.count(acknowledged) / window.seconds
        if load != "send":
            yield "received", rate
    yield from _latencies(observed)
    yield from _processors(observed)
    if load not in REPLY_LOADS and not observed.is_programmed:
        yield "service_variation", dispersion(observed.completed_ns, window.begun_ns, window.ended_ns)


def _latencies(observed: Observed) -> Iterator[tuple[str, float]]:
    seconds = latency_s(observed)
    if len(seconds):
        yield ("response_time" if observed.record.load in REPLY_LOADS else "latency_mean"), float(seconds.mean())
        for percent, value in zip(PERCENTILES, numpy.percentile(seconds, PERCENTILES), strict=True):
            yield f"latency_p{percent}", value
        yield "latency_max", float(seconds.max())
    if observed.is_programmed and len(observed.lateness_ns):
        yield "lateness_p99", float(numpy.percentile(observed.lateness_ns, 99)) / 1e9


def _processors(observed: Observed) -> Iterator[tuple[str, float]]:
    busy = observed.per_second("cpu_busy_s", "machine")
    if busy is not None:
        yield "cpu", 100 * busy / observed.cores
    server, generators = (observed.per_second("cpu_s", subject) for subject in ("server", "generators"))
    if server is not None:
        yield "server_cores", server
        completed = observed.sampled.count(observed.completed_ns)
        if completed and server > 0 and observed.record.load != "calls":
            per_message = 1000 * server * observed.sampled.seconds / completed
            yield "server_cpu_per_message", per_message
            if observed.record.load == "flow":
                yield "cpu_per_message", per_message
    if generators is not None:
        yield "generator_cores", generators
    _, resident = observed.series("resident_bytes", "server")
    if len(resident):
        yield "server_memory", float(resident.max()) / 2**20


def _calls(observed: Observed) -> Iterator[tuple[str, float]]:
    """`call_put_p90`; with the bytes at its end when one trial calls it with several sizes."""
    calls = observed.calls
    for index in numpy.unique(calls.call):
        of_call = calls.call == index
        sizes = numpy.unique(calls.bytes[of_call])
        for size in sizes:
            chosen = of_call & (calls.bytes == size)
            seconds = (calls.ended_ns - calls.begun_ns)[chosen] / 1e9
            suffix = f"_{size}" if len(sizes) > 1 else ""
            yield f"call_{CALL_NAMES[index]}_p90{suffix}", float(numpy.percentile(seconds, 90))


def dispersion(times_ns: Numbers, begun_ns: int, ended_ns: int) -> float:
    """Index of dispersion of the completions while the server is never idle: the squared variation of its service.

    Variance over mean of counts in bins of at least 20 completions; for a
    renewal process that is the squared coefficient of variation, and unlike
    it not fooled by messages that come in batches. NaN with fewer than 20 bins.
    """
    inside = times_ns[(times_ns >= begun_ns) & (times_ns < ended_ns)]
    bins = min(200, len(inside) // 20)
    if bins < 20:
        return float("nan")
    counts, _ = numpy.histogram(inside, bins=bins, range=(begun_ns, ended_ns))
    return float(counts.var(ddof=1) / counts.mean())
