# SPDX-License-Identifier: Apache-2.0
"""How numbers, units, parameters and metrics are written, the same in every table and on every axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

NAMES = {
    "throughput": "Throughput",
    "throughput_full_machine": "Throughput of the whole machine",
    "round_trips": "Round trips",
    "response_time": "Response time",
    "short_sessions": "Short sessions",
    "mst": "Maximum sustainable throughput",
    "sent": "Sent",
    "received": "Received",
    "cpu": "CPU of the machine",
    "cpu_sender": "CPU of the sender",
    "cpu_receiver": "CPU of the receiver",
    "cpu_bridge": "CPU of the bridge",
    "cpu_per_message": "CPU per message",
    "server_cpu_per_message": "Server CPU per message",
    "memory_per_client": "Memory per client",
    "memory_per_open_queue": "Memory per open queue",
    "latency_p50": "Latency, median",
    "latency_p90": "Latency, 90 %",
    "latency_p99": "Latency, 99 %",
    "latency_max": "Latency, longest",
    "latency_mean": "Latency, mean",
    "lateness_p99": "Generator lateness, 99 %",
    "lost": "Lost",
    "duplicated": "Duplicated",
    "reordered": "Overtaken",
    "message_bytes": "Message bytes",
    "apps": "Driving applications",
    "rate_per_app_hour": "Rate per application and hour",
    "rate_per_s": "Programmed rate, msg/s",
    "rate_factor": "Programmed rate ÷ capacity",
    "channel_pairs": "Channel pairs",
    "execution_groups": "Execution groups",
    "input_format": "Input format",
    "output_format": "Output format",
    "queue_limit_bytes": "Queue limit, bytes",
    "common_reply_queue": "Common reply queue",
}
QUALITIES = {
    "express": "express",
    "recoverable": "recoverable",
    "transactional": "transactional",
    "global_unit": "global unit of work",
}
OWN_METRICS = (
    "latency_mean",
    "latency_p50",
    "latency_p90",
    "latency_p99",
    "latency_max",
    "lateness_p99",
    "server_cpu_per_message",
    "lost",
    "duplicated",
    "reordered",
)
"""Ours, beside those that the documents publish."""
ACCOUNTS = ("lost", "duplicated", "reordered")
_LESS_IS_BETTER = ("response_time", "latency", "lateness", "cpu", "server_cpu", "memory", "lost", "duplicated", "call")
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def is_less_better(metric: str) -> bool:
    return metric.startswith(_LESS_IS_BETTER) or metric.endswith(("_time", "_p50", "_p90", "_p99"))


def name_of(word: str) -> str:
    """`message_bytes` → Message bytes."""
    return NAMES.get(word, word.replace("_", " ").capitalize())


def value_of(parameter: str, value: str) -> str:
    """A parameter's value for people: numbers in groups of three, truth as yes and no."""
    if parameter == "quality":
        return QUALITIES.get(value, value)
    if value in ("True", "False"):
        return "yes" if value == "True" else "no"
    try:
        return f"{int(value):,}"
    except ValueError:
        return value


def number(value: float, digits: int = 3) -> str:
    """At least `digits` significant digits, never an exponent: 14,130 · 650 · 3.42 · 0.0117."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    whole = math.floor(math.log10(abs(value))) + 1
    text = f"{value:,.{max(0, digits - whole)}f}"
    # 99.96 becomes 100.0 when rounded: one digit too many.
    if whole < digits and len(text.replace(",", "").replace(".", "").lstrip("-0")) > digits:
        text = f"{value:,.{max(0, digits - whole - 1)}f}"
    return text


def span(low: float, high: float, digits: int = 3) -> str:
    return f"{number(low, digits)}–{number(high, digits)}"


def ratio(value: float) -> str:
    return f"{number(value)}×"


def count(number_of: int, one: str, many: str = "") -> str:
    return f"{number_of:,} {one if number_of == 1 else many or one + 's'}"


def listed(words: Iterable[str]) -> str:
    """a, b and c."""
    *head, last = list(words) or [""]
    return f"{', '.join(head)} and {last}" if head else last


@dataclass(frozen=True, slots=True)
class Scale:
    """How a column of values of one unit is written: seconds become milliseconds when they are short."""

    factor: float
    unit: str

    def of(self, value: float) -> float:
        return value / self.factor

    def write(self, value: float) -> str:
        return number(self.of(value))


def scale_for(unit: str, values: Iterable[float]) -> Scale:
    found = sorted(abs(value) for value in values if value and math.isfinite(value))
    if unit != "s" or not found:
        return Scale(1.0, unit)
    middle = found[len(found) // 2]
    for factor, name in _SECONDS:
        if middle >= factor:
            return Scale(factor, name)
    return Scale(*_SECONDS[-1])


def slug(text: str) -> str:
    """An anchor: letters, digits and dashes."""
    cut = "".join(letter.lower() if letter.isalnum() and letter.isascii() else "-" for letter in text)
    return "-".join(part for part in cut.split("-") if part)
