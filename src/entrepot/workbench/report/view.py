# SPDX-License-Identifier: Apache-2.0
"""One scenario on one host: what its tables and drawings ask of the material."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from entrepot.workbench.analysis.findings import Figure, Mark, Published
from entrepot.workbench.report.material import Material
from entrepot.workbench.report.wording import Scale, scale_for


@dataclass
class View:
    material: Material
    host: str
    scenario: str

    @property
    def load(self) -> str:
        told = self.material.told(self.scenario)
        return told.load if told else ""

    @property
    def points(self) -> list[str]:
        return self.material.points(self.scenario)

    @property
    def systems(self) -> list[str]:
        return self.material.systems(self.scenario, self.host)

    def figures(self, metric: str = "") -> list[Figure]:
        """Those of this host."""
        figures = self.material.figures(self.scenario)
        return [figure for figure in figures if figure.host == self.host and metric in ("", figure.metric)]

    def figure(self, point: str, system: str, metric: str) -> Figure | None:
        return self.material.figure(self.host, self.scenario, point, system, metric)

    def published(self, metric: str = "") -> list[Published]:
        return self.material.published(self.scenario, metric)

    def published_systems(self, metric: str = "") -> list[str]:
        return self.material.published_systems(self.scenario, metric)

    def marks(self, point: str = "", system: str = "") -> list[Mark]:
        return self.material.marks(self.scenario, point, system)

    def parameters(self, point: str) -> Mapping[str, str]:
        return self.material.parameters(self.scenario, point)

    def axes(self, points: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        return self.material.axes(self.scenario, points)

    def label(self, point: str) -> str:
        return self.material.label(self.scenario, point)

    def scale(self, metric: str) -> Scale:
        """One for all values of a metric, so that they compare."""
        values = [row.value for row in self.published(metric)] + [figure.value for figure in self.figures(metric)]
        return scale_for(self.material.unit(self.scenario, metric), values)
