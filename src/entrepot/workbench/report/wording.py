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
    "mst_low": "MST, lower end",
    "mst_high": "MST, upper end",
    "acknowledged": "Acknowledged",
    "server_cores": "Server",
    "generator_cores": "Generators",
    "server_memory": "Server memory",
    "service_variation": "Variation of service",
    "strays": "Strays",
    "seconds_factor": "Duration factor",
    "workers": "Server applications",
    "window": "Messages under way",
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
    "queue_limit_bytes": "Queue limit in bytes",
    "common_reply_queue": "Common reply queue",
}
QUALITIES = {
    "express": "express",
    "recoverable": "recoverable",
    "transactional": "transactional",
    "global_unit": "global unit of work",
}
OWN_METRICS = (
    "sent",
    "acknowledged",
    "received",
    "mst_low",
    "mst_high",
    "latency_mean",
    "latency_p50",
    "latency_p90",
    "latency_p99",
    "latency_max",
    "lateness_p99",
    "cpu",
    "server_cores",
    "generator_cores",
    "server_cpu_per_message",
    "server_memory",
    "lost",
    "duplicated",
    "reordered",
    "strays",
)
"""Beside those that a document publishes, in this order."""
SPANNED_MAX = 3
"""Up to so many repetitions, what the bootstrap gives is no interval of 95 % but the span of them all."""
_OF_LOADS = {
    "round-trip": ("round_trips", "response_time"),
    "sessions": ("short_sessions", "round_trips", "response_time"),
    "connected": ("round_trips", "response_time", "memory_per_client"),
    "sustained": ("mst",),
    "open-loop": ("sent", "received", "latency_p99"),
    "stream": ("sent", "received"),
    "publish": ("sent", "received"),
}
_LESS_IS_BETTER = ("response_time", "latency", "lateness", "cpu", "server_", "memory", "call_")
_LESS_IS_BETTER_TOO = ("generator_cores", "lost", "duplicated", "reordered", "strays")
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def is_less_better(metric: str) -> bool:
    return metric.startswith(_LESS_IS_BETTER) or metric in _LESS_IS_BETTER_TOO


def has_direction(metric: str) -> bool:
    """Whether one value of it can be better than another: a busy machine is neither."""
    return metric == "cpu_per_message" or not metric.startswith(("cpu", "generator_cores", "service_variation"))


def metrics_of_load(load: str, measured: Iterable[str]) -> list[str]:
    """What a load is about, of what was measured under it."""
    known = list(measured)
    if load == "calls":
        return sorted((metric for metric in known if metric.startswith("call_")), key=_place_of_call)
    return [metric for metric in _OF_LOADS.get(load, ("throughput",)) if metric in known]


def _place_of_call(metric: str) -> tuple[int, str]:
    """Put and get first: they are what the documents draw."""
    name = metric.removeprefix("call_").rpartition("_p")[0]
    return (("put", "get").index(name) if name in ("put", "get") else 2, metric)


def name_of(word: str) -> str:
    """`message_bytes` → Message bytes; `call_put_p90` → put, 90 %."""
    if word.startswith("call_"):
        call, _, percent = word.removeprefix("call_").rpartition("_p")
        return f"{call.replace('_', ' ').capitalize()}, {percent} %"
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


def described(parameters: Iterable[tuple[str, str]]) -> str:
    """`express, 1,000 message bytes`."""
    words = []
    for name, value in parameters:
        if value not in ("", "0"):
            shown = value_of(name, value)
            noun = name_of(name).lower()
            noun = noun.removesuffix("s") if value == "1" else noun
            words.append(f"{shown} {noun}" if is_number(value) else shown)
    return ", ".join(words)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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


def percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def spread(repetitions: int) -> str:
    """What low and high are: the bootstrap over so few runs that one draw in forty is all of the lowest spans them."""
    if repetitions <= SPANNED_MAX:
        return "the lowest and the highest repetition"
    return "95 % bootstrap intervals over repetitions"


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")


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
