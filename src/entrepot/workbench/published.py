# SPDX-License-Identifier: Apache-2.0
"""What the five documents published: their figures as rows, and a list of their tables and figures.

documents/published.csv has a row for each number; a column that does not
concern a number is empty. documents/documents.yaml lists what each document
shows, in our words: a `measurement` needs a scenario, a `diagram` does not.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from entrepot.errors import ScenarioInvalid
from entrepot.workbench.quality import Quality, published_quality
from entrepot.yaml_places import load_plain

FOLDER = Path(__file__).parent / "documents"
PARAMETER_COLUMNS = (
    "message_bytes",
    "threads",
    "senders",
    "receivers",
    "apps",
    "rate_per_app_hour",
    "channel_pairs",
    "subscribers",
    "destinations",
    "instances",
    "execution_groups",
    "input_format",
    "output_format",
    "binding",
)
"""Under which circumstances a number was measured; a point has parameters of the same names."""
Kind = Literal["measurement", "diagram"]


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One published number. None and empty texts: the document says nothing, or it does not apply."""

    source: str
    table: str
    system: str
    scenario: str
    """What the document, or we on its behalf, call the test."""
    qos: str
    transaction: str
    binding: str
    message_bytes: int | None
    threads: int | None
    senders: int | None
    receivers: int | None
    apps: int | None
    rate_per_app_hour: int | None
    channel_pairs: int | None
    subscribers: int | None
    destinations: int | None
    instances: int | None
    execution_groups: int | None
    input_format: str
    output_format: str
    metric: str
    value: float
    unit: str

    @property
    def quality(self) -> Quality | None:
        return published_quality(self.source, self.qos, self.transaction)

    @property
    def parameters(self) -> Mapping[str, str]:
        """What the row says about its circumstances, as text."""
        found = {name: getattr(self, name) for name in PARAMETER_COLUMNS}
        return {name: str(value) for name, value in found.items() if value not in (None, "")}


@dataclass(frozen=True, slots=True)
class Shown:
    """A table or figure of a document."""

    name: str
    """`table 1`, `figure 5`, as a scenario's `shows` names it."""
    caption: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class PublishedDocument:
    folder: str
    """Where its scenarios are: `nstl`."""
    source: str
    """What published.csv calls it."""
    title: str
    year: int
    shows: Mapping[str, Shown]


@cache
def published_rows() -> tuple[PublishedRow, ...]:
    """All published figures, in the order of the file."""
    with (FOLDER / "published.csv").open(newline="") as file:
        return tuple(_row(columns) for columns in csv.DictReader(file))


@cache
def documents() -> Mapping[str, PublishedDocument]:
    """Folder of scenarios → document, in the order in which reports show them."""
    return read_documents(FOLDER / "documents.yaml")


def read_documents(path: Path) -> dict[str, PublishedDocument]:
    """
    Raises:
        ScenarioInvalid: Something is shown that is neither a measurement nor a diagram.
    """
    tables: dict[str, dict[str, Any]] = load_plain(path.read_text())
    return {
        folder: PublishedDocument(
            folder=folder,
            source=facts["source"],
            title=facts["title"],
            year=facts["year"],
            shows={name: _shown(path, folder, name, about) for name, about in facts["shows"].items()},
        )
        for folder, facts in tables.items()
    }


def _row(columns: dict[str, str]) -> PublishedRow:
    whole: dict[str, Any] = dict(columns)
    for name, kind in PublishedRow.__annotations__.items():
        if kind == "int | None":
            whole[name] = int(columns[name]) if columns[name] else None
        elif kind == "float":
            whole[name] = float(columns[name])
    return PublishedRow(**whole)


def _shown(path: Path, folder: str, name: str, about: dict[str, str]) -> Shown:
    # One key a line keeps the list readable: `table 1: {measurement: caption}`.
    ((kind, caption),) = about.items()
    if kind not in get_args(Kind):
        raise ScenarioInvalid(str(path), f"{folder}: {name}", f"{kind!r} is neither measurement nor diagram")
    return Shown(name, caption, kind)  # type: ignore[arg-type]  # checked in the line above
