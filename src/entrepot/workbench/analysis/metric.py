# SPDX-License-Identifier: Apache-2.0
"""Everything that can be measured, in one table: what it is called, its unit, which way is better, where it is shown.

Names are those of the published figures where a document has the metric.
Facts that a load measures once are metrics like the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

Better = Literal["more", "less", "neither"]
Group = Literal["rates", "costs", "accounts", "internal"]


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    title: str
    unit: str = ""
    better: Better = "more"
    """A busy machine is neither better nor worse than an idle one."""
    group: Group = "rates"
    """The table of a report that shows it; what is internal stands in none."""
    is_compared: bool = False
    """Whether ours is divided by that of others."""


def _rate(name: str, title: str, unit: str = "msg/s", *, is_compared: bool = True) -> Metric:
    return Metric(name, title, unit, is_compared=is_compared)


def _time(name: str, title: str, *, is_compared: bool = True) -> Metric:
    return Metric(name, title, "s", "less", is_compared=is_compared)


def _cost(name: str, title: str, unit: str, better: Better = "less", *, is_compared: bool = False) -> Metric:
    return Metric(name, title, unit, better, "costs", is_compared)


def _account(name: str, title: str) -> Metric:
    return Metric(name, title, "messages", "less", "accounts")


METRICS = {
    metric.name: metric
    for metric in (
        _rate("throughput", "Throughput"),
        _rate("throughput_full_machine", "Throughput of the whole machine"),
        _rate("round_trips", "Round trips", "1/s"),
        _rate("short_sessions", "Short sessions", "1/s"),
        _time("response_time", "Response time"),
        _rate("mst", "Maximum sustainable throughput"),
        _rate("sent", "Sent"),
        _rate("acknowledged", "Acknowledged", is_compared=False),
        _rate("received", "Received"),
        _rate("mst_low", "MST, lower end", is_compared=False),
        _rate("mst_high", "MST, upper end", is_compared=False),
        _time("latency_mean", "Latency, mean"),
        _time("latency_p50", "Latency, median"),
        _time("latency_p90", "Latency, 90 %"),
        _time("latency_p99", "Latency, 99 %"),
        _time("latency_max", "Latency, longest", is_compared=False),
        _time("lateness_p99", "Generator lateness, 99 %", is_compared=False),
        _cost("cpu", "CPU of the machine", "%", "neither", is_compared=True),
        _cost("cpu_sender", "CPU of the sender", "%", "neither"),
        _cost("cpu_receiver", "CPU of the receiver", "%", "neither"),
        _cost("cpu_bridge", "CPU of the bridge", "%", "neither"),
        _cost("cpu_per_message", "CPU per message", "ms", is_compared=True),
        _cost("server_cores", "Server", "cores"),
        _cost("generator_cores", "Generators", "cores", "neither"),
        _cost("server_cpu_per_message", "Server CPU per message", "ms", is_compared=True),
        _cost("server_memory", "Server memory", "MiB"),
        _cost("memory_per_client", "Memory per client", "KB", is_compared=True),
        _cost("memory_per_open_queue", "Memory per open queue", "KB", is_compared=True),
        _account("lost", "Lost"),
        _account("duplicated", "Duplicated"),
        _account("reordered", "Overtaken"),
        _account("strays", "Strays"),
        Metric("drained", "Drained", group="accounts"),
        Metric("mst_confirmed", "MST confirmed", group="internal"),
        Metric("service_variation", "Variation of service", better="neither", group="internal"),
    )
}
"""In the order in which reports show them."""
CALL = "call_"
"""Response times of single calls: `call_put_p90`, with the bytes at the end where a trial calls with several sizes."""
ACCOUNTS = tuple(metric.name for metric in METRICS.values() if metric.unit == "messages")
_OF_LOADS = {
    "round-trip": ("round_trips", "response_time"),
    "sessions": ("short_sessions", "round_trips", "response_time"),
    "connected": ("round_trips", "response_time", "memory_per_client"),
    "sustained": ("mst",),
    "open-loop": ("sent", "received", "latency_p99"),
    "stream": ("sent", "received"),
    "publish": ("sent", "received"),
}


@cache
def metric_of(name: str) -> Metric:
    """Its definition; one that is in no table is shown under its own name, and more of it is better."""
    if name.startswith(CALL):
        call, _, percent = name.removeprefix(CALL).rpartition("_p")
        return _time(name, f"{call.replace('_', ' ').capitalize()}, {percent} %")
    return METRICS.get(name) or Metric(name, name.replace("_", " ").capitalize())


def in_order(names: Iterable[str]) -> list[str]:
    """As reports show them: those of the table first."""
    known = set(names)
    return [name for name in METRICS if name in known] + sorted(known - METRICS.keys())


def metrics_of_load(load: str, measured: Iterable[str]) -> list[str]:
    """What a load is about, of what was measured under it."""
    known = list(measured)
    if load == "calls":
        return sorted((name for name in known if name.startswith(CALL)), key=_place_of_call)
    return [name for name in _OF_LOADS.get(load, ("throughput",)) if name in known]


def _place_of_call(name: str) -> tuple[int, str]:
    """Put and get first: they are what the documents draw."""
    call = name.removeprefix(CALL).rpartition("_p")[0]
    return (("put", "get").index(call) if call in ("put", "get") else 2, name)
