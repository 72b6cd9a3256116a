# SPDX-License-Identifier: Apache-2.0
"""How numbers, units, parameters and metrics are written, the same in every table and on every axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from entrepot.workbench.analysis.metric import metric_of

PARAMETERS = {
    "seconds_factor": "Duration factor",
    "workers": "Server applications",
    "window": "Messages under way",
    "message_bytes": "Message bytes",
    "apps": "Driving applications",
    "rate_per_app_hour": "Rate per application and hour",
    "rate_per_s": "Programmed rate, msg/s",
    "rate_factor": "Programmed rate ÷ capacity",
    "queue_limit_bytes": "Queue limit in bytes",
}
"""Of which the name itself would not do."""
QUALITIES = {
    "express": "express",
    "recoverable": "recoverable",
    "transactional": "transactional",
    "global_unit": "global unit of work",
}
SPANNED_MAX = 3
"""Up to so many repetitions, what the bootstrap gives is no interval of 95 % but the span of them all."""
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def is_less_better(metric: str) -> bool:
    """Also where neither is better: what a machine has to do is no achievement."""
    return metric_of(metric).better != "more"


def has_direction(metric: str) -> bool:
    """Whether one value of it can be better than another."""
    return metric_of(metric).better != "neither"


def name_of(word: str) -> str:
    """Of a metric or a parameter: `message_bytes` → Message bytes; `call_put_p90` → Put, 90 %."""
    return PARAMETERS.get(word) or metric_of(word).title


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
