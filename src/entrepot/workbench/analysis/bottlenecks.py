# SPDX-License-Identifier: Apache-2.0
"""What held a trial back: what was sampled in its steady window, as facts for search/bottleneck.py to judge."""

from __future__ import annotations

import numpy

from entrepot.workbench.analysis.observed import Observed
from entrepot.workbench.quality import Quality
from entrepot.workbench.search.bottleneck import Facts, verdict
from entrepot.workbench.statistics.trends import theil_sen
from entrepot.workbench.systems import base_name

EMBEDDED = "entrepot-embedded"
"""Lives in the generators' process, so their processor time cannot be told from its own."""
SERVER_THREADS = {
    "entrepot-unix": 1,
    "entrepot-tcp": 1,
    "entrepot-amqp": 1,
    "entrepot-channels": 2,
    "redis-lists": 1,
    "redis-streams": 1,
}
"""How many cores a server can use at a time: one event loop a queue manager, of which channels have two. The others use
as many as there are."""
_FILLING_LOADS = frozenset({"send", "calls"})
"""Nothing takes messages away, so depth grows by design."""
_DEPTHS_MIN = 4


def bottleneck(observed: Observed) -> tuple[str, str]:
    """Its name and the numbers that say so."""
    found = verdict(facts_of(observed))
    return found.name, found.evidence


def facts_of(observed: Observed) -> Facts:
    """What is known of the trial; what was not sampled stays None."""
    record, window = observed.record, observed.window
    rate = window.count(observed.completed_ns) / window.seconds if window.seconds > 0 else None
    busy = observed.per_second("cpu_busy_s", "machine")
    flushes_per_s, flush_ms = _flushes(observed)
    lateness = observed.lateness_ns if observed.is_programmed else observed.lateness_ns[:0]
    is_embedded = record.system == EMBEDDED
    return Facts(
        is_rated=observed.is_programmed,
        is_persistent=Quality(record.quality).is_persistent,
        rate_per_s=rate,
        delivered_share=rate / record.offered_per_s if rate is not None and record.offered_per_s else None,
        generator_lateness_p99_s=float(numpy.percentile(lateness, 99)) / 1e9 if len(lateness) else None,
        generator_cpu_share=None if is_embedded else observed.per_second("cpu_s", "busiest generator"),
        machine_busy_share=None if busy is None else busy / observed.cores,
        cores=observed.cores,
        run_queue=observed.mean("run_queue", "machine"),
        server_cpu_cores=observed.per_second("cpu_s", "generators" if is_embedded else "server"),
        # Spark's executors are part of the server under a flow, and they use all there is.
        server_threads=None if record.load == "flow" else SERVER_THREADS.get(base_name(record.system)),
        flushes_per_s=flushes_per_s,
        flush_ms=flush_ms,
        write_bytes_per_s=_written(observed),
        write_bandwidth_bytes_per_s=_number(observed.environment.get("write_bytes_per_s")),
        network_bytes_per_s=observed.per_second("network_bytes", "machine"),
        network_limit_bytes_per_s=_number(observed.environment.get("loopback_bytes_per_s")),
        depth_slope_per_s=_depth_slope(observed),
        getters=int(record.effective["receivers"]) if record.effective.get("receivers", "").isdigit() else None,
        getter_wait_share=_getter_wait(observed),
        getter_cpu_share=None if is_embedded else observed.per_second("cpu_s", "busiest getter"),
    )


def _flushes(observed: Observed) -> tuple[float | None, float | None]:
    """Of the device that the server writes to; a device that counts none has told nothing."""
    for device in observed.subjects("disk_flushes"):
        flushes, took_ms = (observed.grown(measure, device) for measure in ("disk_flushes", "disk_flush_ms"))
        if flushes and took_ms is not None:
            return flushes / observed.sampled.seconds, took_ms / flushes
    return None, None


def _written(observed: Observed) -> float | None:
    """What the device wrote; what the server did where the device is not known."""
    for device in observed.subjects("disk_write_bytes"):
        return observed.per_second("disk_write_bytes", device)
    return observed.per_second("write_bytes", "server")


def _getter_wait(observed: Observed) -> float | None:
    waited, getters = observed.per_second("getter_wait_s", "getters"), observed.mean("getters", "getters")
    return None if waited is None or not getters else waited / getters


def _depth_slope(observed: Observed) -> float | None:
    times, values = observed.depth
    inside = observed.window.holds(times)
    if observed.record.load in _FILLING_LOADS or numpy.count_nonzero(inside) < _DEPTHS_MIN:
        return None
    return theil_sen((times[inside] - times[0]) / 1e9, values[inside])


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
