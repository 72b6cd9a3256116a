# SPDX-License-Identifier: Apache-2.0
"""One look for every system: a colour, a marker and a dash, the same in every figure and legend.

Colours come in pairs, for light and dark paper; a drawing names the light
one and the page puts a CSS variable in its place, so that one drawing
serves both. Ours are blues, and no two systems share a marker, so a print
in black and white can still be read. The form of a system whose senders wait
for each answer has its colour and marker, and is hollow. Published figures are hollow and in
the colour of the ink: they were measured elsewhere, a long time ago.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from entrepot.workbench.systems import base_name, is_answered


@dataclass(frozen=True, slots=True)
class Look:
    light: str
    dark: str
    marker: str
    """As matplotlib names it."""
    variable: str
    dashed: bool = False
    hollow: bool = False

    @property
    def css(self) -> str:
        return f"var({self.variable})"


INK = Look("#1c2128", "#e4e7eb", "", "--ink")
FAINT = Look("#59626e", "#a3acb8", "", "--faint")
RULE = Look("#d5dae1", "#3a424d", "", "--rule")
PAPER = Look("#fffffe", "#14171b", "", "--paper")
"""Not quite white, so that it can be told from an intended white."""

_LOOKS = {
    "entrepot-unix": Look("#0b5cad", "#6cb2ff", "o", "--entrepot-unix"),
    "entrepot-embedded": Look("#0a2f66", "#a9c8ff", "s", "--entrepot-embedded"),
    "entrepot-tcp": Look("#2a86d6", "#3d95ea", "h", "--entrepot-tcp"),
    "entrepot-channels": Look("#4b57c4", "#9aa4ff", "p", "--entrepot-channels"),
    "entrepot-amqp": Look("#00798c", "#35bfd3", "8", "--entrepot-amqp"),
    "rabbitmq": Look("#c25e00", "#ff9d3c", "^", "--rabbitmq", dashed=True),
    "activemq": Look("#a8231c", "#ff7a70", "v", "--activemq", dashed=True),
    "nats": Look("#2b8a3e", "#62cf7a", "D", "--nats", dashed=True),
    "jetstream": Look("#12563a", "#9be3b4", "d", "--jetstream", dashed=True),
    "redis-lists": Look("#b03a8c", "#f08ad2", "<", "--redis-lists", dashed=True),
    "redis-streams": Look("#6f2c91", "#c79af0", ">", "--redis-streams", dashed=True),
    "postgresql": Look("#7a5530", "#d3a978", "P", "--postgresql", dashed=True),
}
_FURTHER = tuple(
    Look(light, dark, marker, f"--further-{place}", dashed=True)
    for place, (light, dark, marker) in enumerate(
        (("#5d6b00", "#c3d34a", "X"), ("#8a4f6d", "#e0a8c5", "*"), ("#3f6f75", "#8ccbd2", "H"))
    )
)
_PUBLISHED_MARKERS = ("o", "s", "^", "D", "v")
_ALL = (INK, FAINT, RULE, PAPER, *_LOOKS.values(), *_FURTHER)
SHORT_TITLES = {
    "entrepot-unix": "Entrepot, unix",
    "entrepot-embedded": "Entrepot, embedded",
    "entrepot-tcp": "Entrepot, TCP",
    "entrepot-channels": "Entrepot, channels",
    "entrepot-amqp": "Entrepot, AMQP",
    "rabbitmq": "RabbitMQ",
    "activemq": "ActiveMQ",
    "nats": "NATS",
    "jetstream": "JetStream",
    "redis-lists": "Redis lists",
    "redis-streams": "Redis streams",
    "postgresql": "PostgreSQL",
}
"""Without the client, which a table names once."""


def is_ours(system: str) -> bool:
    return system.startswith("entrepot-")


def short_title(system: str) -> str:
    """Empty for one that was added later."""
    title = SHORT_TITLES.get(base_name(system), "")
    return f"{title}, answered" if title and is_answered(system) else title


def look_of(system: str) -> Look:
    """A system that was added later gets one of a few more looks, always the same."""
    name = base_name(system)
    known = _LOOKS.get(name) or _FURTHER[sum(name.encode()) % len(_FURTHER)]
    return replace(known, hollow=is_answered(system))


def published_marker(place: int) -> str:
    return _PUBLISHED_MARKERS[place % len(_PUBLISHED_MARKERS)]


def variables() -> str:
    """The colours as CSS, for light paper, dark paper, and print, which is always light."""
    light = ";".join(f"{look.variable}:{look.light}" for look in _ALL)
    dark = ";".join(f"{look.variable}:{look.dark}" for look in _ALL)
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"


def variable_of_colour() -> dict[str, str]:
    """Light colour → the variable that a page puts in its place."""
    return {look.light: look.css for look in _ALL}
