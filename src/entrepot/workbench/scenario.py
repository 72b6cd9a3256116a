# SPDX-License-Identifier: Apache-2.0
"""A scenario: what one table or figure of a document measures, as a declaration over a load shape.

A file of scenarios/DOCUMENT/NAME.yaml reads

    title: Messages sent, 1 thread, express mode
    shows: [table 1]
    load: send
    entrepot: unix
    points:
      - {quality: express, message_bytes: [10, 1000, 2000, 4000], threads: 1}
    quick: {message_bytes: [1000]}

A list in `points` is an axis; axes are multiplied out, and each combination
is a point. Parameters have the names of the published columns, so a row
belongs to the point that has its values.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from entrepot.errors import ScenarioInvalid
from entrepot.workbench.quality import Quality
from entrepot.yaml_places import load_plain

DOCUMENTS = {
    "nstl": "nstl-msmq-mqseries",
    "wbimb": "wbimb-hpux-v5",
    "wmq": "wmq-windows-v53",
    "csiro": "csiro-mst",
    "sonicmq": "sonicmq-mqseries-jms",
}
"""The folder of a document's scenarios → what the published figures call it."""
ENTREPOT_BINDINGS = ("embedded", "unix", "tcp", "amqp", "channels")
Parameter = str | int | float | bool
_KEYS = {"title", "shows", "load", "entrepot", "points", "quick", "rows", "too_large", "differs", "thumbnail"}
_REQUIRED = ("title", "shows", "load", "points")
# Ten times as fast, where libyaml is installed; each visit of a run reads what it measures.


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of parameters: `parameters` as published, `effective` as this machine can hold them."""

    parameters: Mapping[str, Parameter]
    effective: Mapping[str, Parameter]
    reduced: str = ""
    """Why `effective` is smaller; empty when it is the same."""

    @property
    def quality(self) -> Quality:
        return Quality(str(self.parameters["quality"]))

    @property
    def key(self) -> str:
        """Unique within a scenario, and the same in every run: `message_bytes=10,quality=express,threads=1`."""
        return ",".join(f"{name}={self.parameters[name]}" for name in sorted(self.parameters))


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    """`nstl/1`: the folder and the file."""
    title: str
    shows: tuple[str, ...]
    """The tables and figures of the document that it draws again: `table 1`, `figure 5`."""
    load: str
    points: tuple[Point, ...]
    entrepot: tuple[str, ...] = ("unix",)
    """The bindings of ours that stand for what the document measured."""
    quick: Mapping[str, tuple[Parameter, ...]] = field(default_factory=dict)
    rows: Mapping[str, str] = field(default_factory=dict)
    """What else a published row must say to belong here: {"table": …} unless the name is the table's."""
    differs: str = ""
    """In which way ours is not what the document did."""
    thumbnail: Mapping[str, Parameter] = field(default_factory=dict)
    """What to make smaller when it only has to show that it works."""

    @property
    def document(self) -> str:
        """As the published figures call it."""
        folder = self.name.partition("/")[0]
        return DOCUMENTS.get(folder, folder)

    @property
    def table(self) -> str:
        """The published table whose rows are here."""
        return self.rows.get("table", self.name.partition("/")[2])

    def quick_points(self) -> tuple[Point, ...]:
        """Those that a quick run keeps: all of them when the file says nothing."""
        return tuple(
            point
            for point in self.points
            if all(point.parameters.get(name) in values for name, values in self.quick.items())
        )

    def thumbnail_point(self) -> Point:
        """The first quick point, made as small as the file says."""
        point = (self.quick_points() or self.points)[0]
        small = {**point.effective, **self.thumbnail}
        return Point(point.parameters, small, point.reduced or ("thumbnail" if self.thumbnail else ""))


def parse_scenario(path: Path, name: str) -> Scenario:
    """Read one file.

    Raises:
        ScenarioInvalid: It is no YAML, a key is missing or unknown, or a value is not what it should be.
    """
    try:
        values = load_plain(path.read_text())
    except yaml.YAMLError as error:
        raise ScenarioInvalid(str(path), "", f"is not YAML: {error}") from error
    if not isinstance(values, dict):
        raise ScenarioInvalid(str(path), "", "has to be a mapping")
    for key in values:
        if key not in _KEYS:
            raise ScenarioInvalid(str(path), str(key), f"is unknown; there are {', '.join(sorted(_KEYS))}")
    for key in _REQUIRED:
        if key not in values:
            raise ScenarioInvalid(str(path), key, "is missing")
    _check_shapes(path, values)
    bindings = _listed(values.get("entrepot", "unix"))
    for binding in bindings:
        if binding not in ENTREPOT_BINDINGS:
            raise ScenarioInvalid(str(path), "entrepot", f"{binding!r} is none of {', '.join(ENTREPOT_BINDINGS)}")
    return Scenario(
        name=name,
        title=str(values["title"]),
        shows=tuple(str(shown) for shown in _listed(values["shows"])),
        load=str(values["load"]),
        points=tuple(_points(path, values["points"], values.get("too_large", []))),
        entrepot=tuple(str(binding) for binding in bindings),
        quick={str(key): tuple(_listed(value)) for key, value in values.get("quick", {}).items()},
        rows={str(key): str(value) for key, value in values.get("rows", {}).items()},
        differs=str(values.get("differs", "")).strip(),
        thumbnail=values.get("thumbnail", {}),
    )


def _check_shapes(path: Path, values: dict[str, Any]) -> None:
    for key in ("quick", "rows", "thumbnail"):
        if not isinstance(values.get(key, {}), dict):
            raise ScenarioInvalid(str(path), key, "has to be a mapping")
    limits = values.get("too_large", [])
    if not isinstance(limits, list) or not all(isinstance(limit, dict) for limit in limits):
        raise ScenarioInvalid(str(path), "too_large", "has to be a list of mappings")


def _points(path: Path, listed: Any, too_large: Any) -> Iterator[Point]:
    if not isinstance(listed, list) or not listed:
        raise ScenarioInvalid(str(path), "points", "has to be a list of mappings")
    for entry in listed:
        if not isinstance(entry, dict):
            raise ScenarioInvalid(str(path), "points", f"{entry!r} is no mapping")
        if entry.get("quality", None) is None:
            raise ScenarioInvalid(str(path), "points", f"{entry!r} has no quality")
        for value in _listed(entry["quality"]):
            if value not in list(Quality):
                raise ScenarioInvalid(str(path), "quality", f"{value!r} is none of {', '.join(Quality)}")
        axes = [[(name, value) for value in _listed(values)] for name, values in entry.items()]
        for combination in itertools.product(*axes):
            yield _reduced(path, dict(combination), too_large)


def _reduced(path: Path, parameters: dict[str, Parameter], too_large: Any) -> Point:
    for limit in too_large:
        if set(limit) != {"where", "reason", "instead"}:
            raise ScenarioInvalid(str(path), "too_large", "needs where, reason and instead")
        if all(parameters.get(name) in _listed(values) for name, values in limit["where"].items()):
            return Point(parameters, {**parameters, **limit["instead"]}, str(limit["reason"]))
    return Point(parameters, parameters)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]
