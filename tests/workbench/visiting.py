# SPDX-License-Identifier: Apache-2.0
"""Visits in fresh processes, as a run makes them, and what they leave."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet

from entrepot.workbench.measuring.effort import EFFORTS, Effort
from entrepot.workbench.measuring.record import TrialRecord
from entrepot.workbench.running.run import WorkbenchRun, begin_with
from entrepot.workbench.scenario import Parameter, Point, Scenario

THUMBNAIL = EFFORTS["thumbnail"]


class Silent:
    """A watcher who shows nothing and remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def visit_begins(self, number: int, total: int, visit: object, left_s: float) -> None:
        self.said.append(f"{number}/{total}")

    def visit_says(self, text: str) -> None:
        self.said.append(text)

    def visit_ended(self, trials: object) -> None:
        pass


def ad_hoc(load: str, **parameters: Parameter) -> Scenario:
    parameters = {"quality": "express", **parameters}
    return Scenario(f"ad-hoc/{load}", load, (), load, (Point(parameters, parameters),))


def measure(
    folder: Path, scenario: Scenario, system: str = "entrepot-unix", **changes: object
) -> tuple[WorkbenchRun, list[TrialRecord]]:
    effort: Effort = msgspec.structs.replace(THUMBNAIL, **changes)
    run = begin_with([scenario], [system], effort, folder=folder / "run")
    return run, run.go(Silent())


def rows(run: WorkbenchRun, trial: TrialRecord, kind: str) -> list[dict[str, object]]:
    path = run.folder / "trials" / trial.trial / f"{kind}.parquet"
    found: list[dict[str, object]] = pyarrow.parquet.read_table(path).to_pylist()
    return found
