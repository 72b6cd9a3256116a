# SPDX-License-Identifier: Apache-2.0
"""All scenarios, how to name them, and which of them a published figure belongs to.

A scenario is named by its file (`nstl/1`), by what it shows (`wmq/figure-21`,
`wmq/14`, `sonicmq/A`: all that draw it again), or by a shell pattern
(`csiro/*`). tests/unit/workbench/test_catalogue.py proves that every
published figure has one place, and that everything the documents show has a
scenario.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from entrepot.errors import ScenarioInvalid, ScenarioUnknown
from entrepot.workbench.published import PublishedRow, published_rows
from entrepot.workbench.scenario import DOCUMENTS, Point, Scenario, parse_scenario

__all__ = [
    "find_scenario",
    "find_scenarios",
    "place_among",
    "place_of",
    "published_rows",
    "read_scenarios",
    "scenarios",
]

FOLDER = Path(__file__).parent / "scenarios"
_NEAR_MAX = 4


@cache
def scenarios() -> Mapping[str, Scenario]:
    """Name → scenario, document by document, tables before figures, in the order of their numbers."""
    return read_scenarios(FOLDER)


def read_scenarios(folder: Path) -> dict[str, Scenario]:
    """
    Raises:
        ScenarioInvalid: A file, or a folder that belongs to no document.
    """
    for found in sorted(folder.iterdir()):
        if found.is_dir() and found.name not in DOCUMENTS:
            raise ScenarioInvalid(str(found), "", f"is named after no document; there are {', '.join(DOCUMENTS)}")
    return {
        (name := f"{document}/{path.stem}"): parse_scenario(path, name)
        for document in DOCUMENTS
        for path in sorted((folder / document).glob("*.yaml"), key=lambda path: _natural(path.stem))
    }


@cache
def find_scenario(name: str) -> Scenario:
    """The scenario of this file; a visit needs one, and no other is read for it.

    Raises:
        ScenarioUnknown: There is none; the error tells what is near it.
    """
    path = FOLDER / f"{name}.yaml"
    return parse_scenario(path, name) if path.is_file() else find_scenarios([name])[0]


def find_scenarios(patterns: Iterable[str]) -> list[Scenario]:
    """The scenarios that are meant, each once, in the order of the catalogue.

    Raises:
        ScenarioUnknown: One of the patterns means nothing; the error tells what is near it.
    """
    meant = {name for pattern in patterns for name in _meant(pattern)}
    return [scenario for name, scenario in scenarios().items() if name in meant]


def place_of(row: PublishedRow) -> tuple[str, str]:
    """The scenario and the Point.key under which the workbench measures what this row publishes."""
    return place_among(row, scenarios())


def place_among(row: PublishedRow, known: Mapping[str, Scenario]) -> tuple[str, str]:
    """As `place_of`, in other scenarios than ours.

    Raises:
        LookupError: No point is the row's, or several are.
    """
    places = [
        (scenario.name, point.key)
        for scenario in known.values()
        if _is_home(scenario, row)
        for point in scenario.points
        if _has_parameters(point, row)
    ]
    if len(places) != 1:
        raise LookupError(f"{row} has {len(places) or 'no'} places{': ' if places else ''}{places or ''}")
    return places[0]


def _is_home(scenario: Scenario, row: PublishedRow) -> bool:
    return (
        scenario.document == row.source
        and scenario.table == row.table
        # A file holds one axis of a table that has several, so what it says of a column may be a pattern.
        and all(fnmatchcase(str(getattr(row, name)), wanted) for name, wanted in scenario.rows.items())
    )


def _has_parameters(point: Point, row: PublishedRow) -> bool:
    if row.quality is not None and point.quality != row.quality:
        return False
    return all(str(point.parameters.get(name)) == value for name, value in row.parameters.items())


def _meant(pattern: str) -> list[str]:
    known = scenarios()
    if pattern in known:
        return [pattern]
    document, _, thing = pattern.partition("/")
    shown = {thing.replace("-", " ", 1), f"table {thing}"}
    drawn = [
        name
        for name, scenario in known.items()
        if name.startswith(f"{document}/") and (scenario.table == thing or not shown.isdisjoint(scenario.shows))
    ]
    found = drawn or [name for name in known if fnmatchcase(name, pattern)]
    if not found:
        raise ScenarioUnknown(pattern, tuple(get_close_matches(pattern, known, n=_NEAR_MAX)))
    return found


def _natural(text: str) -> list[str | int]:
    # Texts and numbers alternate, so two keys never compare one with the other.
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]
