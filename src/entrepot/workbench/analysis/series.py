# SPDX-License-Identifier: Apache-2.0
"""A trial second by second: what is drawn against time.

Seconds count from the opening of the gate; the last one reaches until
everything had arrived, so that a backlog is seen to drain. A rest of less
than REST_S is left out, as its rates would be noise.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from entrepot.workbench.analysis.observed import Observed, SteadyWindow
from entrepot.workbench.analysis.trial_result import Second
from entrepot.workbench.measuring.observations import NONE_NS

SECOND_NS = 1_000_000_000
REST_NS = 200_000_000
SECONDS_MAX = 3600
"""A clock that jumped, or a receiver that came an hour late, must not fill the memory with empty seconds."""


def seconds(observed: Observed) -> Iterator[Second]:
    begun, ended = observed.record.begun_ns, observed.record.ended_ns
    sent, received = numpy.sort(observed.sent.sent_ns), observed.received
    order = numpy.argsort(received.received_ns)
    arrived, intended = received.received_ns[order], received.intended_ns[order]
    if not len(sent) and not len(arrived):
        return
    last = max([ended, *arrived[-1:].tolist()])
    for second in range(min(SECONDS_MAX, -(-(last - begun) // SECOND_NS))):
        window = SteadyWindow(begun + second * SECOND_NS, min(begun + (second + 1) * SECOND_NS, last))
        if second and window.ended_ns - window.begun_ns < REST_NS:
            return
        first, end = numpy.searchsorted(arrived, [window.begun_ns, window.ended_ns])
        sent_first, sent_end = numpy.searchsorted(sent, [window.begun_ns, window.ended_ns])
        waits = (arrived - intended)[first:end][intended[first:end] != NONE_NS]
        yield Second(
            second=second,
            sent_per_s=float(sent_end - sent_first) / window.seconds,
            received_per_s=float(end - first) / window.seconds,
            depth=_depth(observed, window),
            latency_p50_s=float(numpy.median(waits)) / 1e9
            if len(waits) and observed.record.load != "receive"
            else None,
            server_cpu_percent=_server_cpu_percent(observed, window),
        )


def _depth(observed: Observed, window: SteadyWindow) -> float | None:
    times, values = observed.depth
    if not len(times) or window.begun_ns > times[-1]:
        return None
    return float(numpy.interp(window.ended_ns, times, values))


def _server_cpu_percent(observed: Observed, window: SteadyWindow) -> float | None:
    """Of one core, as `top` counts."""
    times, _ = observed.series("cpu_s", "server")
    if not len(times) or window.ended_ns > times[-1] + REST_NS:
        return None
    grown = observed.grown("cpu_s", "server", window)
    return None if grown is None else 100 * grown / window.seconds
