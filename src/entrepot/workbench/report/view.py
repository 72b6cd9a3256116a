# SPDX-License-Identifier: Apache-2.0
"""One scenario on one host: what its tables and drawings ask of the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from entrepot.workbench.analysis.findings import Figure, Published, UnusableTrial
from entrepot.workbench.report.findings_index import FindingsIndex
from entrepot.workbench.report.wording import Scale, scale_for


@dataclass
class View:
    index: FindingsIndex
    host: str
    scenario: str

    @property
    def load(self) -> str:
        found = self.index.find(self.scenario)
        return found.load if found else ""

    @property
    def points(self) -> list[str]:
        return self.index.points(self.scenario)

    @property
    def systems(self) -> list[str]:
        return self.index.systems(self.scenario, self.host)

    def figures(self, metric: str = "") -> list[Figure]:
        """Those of this host."""
        figures = self.index.figures(self.scenario)
        return [figure for figure in figures if figure.host == self.host and metric in ("", figure.metric)]

    def figure(self, point: str, system: str, metric: str) -> Figure | None:
        return self.index.figure(self.host, self.scenario, point, system, metric)

    def published(self, metric: str = "") -> list[Published]:
        return self.index.published(self.scenario, metric)

    def published_systems(self, metric: str = "") -> list[str]:
        return self.index.published_systems(self.scenario, metric)

    def marks(self, point: str = "", system: str = "") -> list[UnusableTrial]:
        return self.index.marks(self.scenario, point, system)

    def parameters(self, point: str) -> Mapping[str, str]:
        return self.index.parameters(self.scenario, point)

    def axes(self, points: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        return self.index.axes(self.scenario, points)

    def label(self, point: str) -> str:
        return self.index.label(self.scenario, point)

    def scale(self, metric: str) -> Scale:
        """One for all values of a metric, so that they compare."""
        values = [row.value for row in self.published(metric)] + [figure.value for figure in self.figures(metric)]
        return scale_for(self.index.unit(self.scenario, metric), values)
