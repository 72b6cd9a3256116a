# SPDX-License-Identifier: Apache-2.0
"""The findings, found again by scenario, point, system and metric.

Nothing is computed here that the analysis has not computed, but for one
thing: which of several published systems, or of several peers, was the best
at a point.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from entrepot.workbench.analysis.findings import Figure, FigureComparison, Findings, Published, UnusableTrial
from entrepot.workbench.analysis.metric import in_order, metric_of, metrics_of_load
from entrepot.workbench.report.appearance import is_ours, short_title
from entrepot.workbench.report.blocks import Badge
from entrepot.workbench.report.wording import (
    described,
    is_less_better,
    is_number,
    listed,
)
from entrepot.workbench.scenario import Scenario
from entrepot.workbench.systems import NAMES, is_answered

WEAKER = "WEAKER:"
"""How a contract begins that promises less than the quality asks for: shown, and never the best peer."""
PUBLISHED = "published: "
DRAINED = "drained"
"""1 where all queues were emptied after the load, so that what had not come is lost; shown where it is not."""


_OWN_TITLES = {
    "send": "Filling a queue as fast as the system answers",
    "receive": "Emptying a queue that was filled before",
    "round-trip": "Requests and their replies",
    "open-loop": "Sending on a schedule",
    "publish": "Publishing to every subscriber",
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a scenario was measured."""

    points: int
    measured: int
    reduced: int
    systems: tuple[str, ...]
    failures: tuple[UnusableTrial, ...]

    @property
    def badge(self) -> Badge:
        if not self.measured:
            return "failed" if self.failures else "missing"
        if self.reduced:
            return "reduced"
        return "measured" if self.measured >= self.points else "partly"


class FindingsIndex:
    def __init__(self, findings: Findings, scenarios: Mapping[str, Scenario]) -> None:
        self.findings = findings
        self.scenarios = scenarios
        """Of the documents."""
        self.own = _own_scenarios(findings, scenarios)
        """Loads with parameters of one's own, and whatever else the catalogue does not have."""
        self._figures: dict[str, list[Figure]] = defaultdict(list)
        self._cells: dict[tuple[str, str, str, str, str], Figure] = {}
        for figure in findings.figures:
            self._figures[figure.scenario].append(figure)
            self._cells[figure.host, figure.scenario, figure.point, figure.system, figure.metric] = figure
        self._comparisons: dict[tuple[str, str, str, str, str], list[FigureComparison]] = defaultdict(list)
        for row in findings.comparisons:
            self._comparisons[row.host, row.scenario, row.point, row.system, row.metric].append(row)
        self._published: dict[str, list[Published]] = defaultdict(list)
        for published in findings.published:
            self._published[published.scenario].append(published)
        self._marks: dict[str, list[UnusableTrial]] = defaultdict(list)
        for mark in findings.marks:
            self._marks[mark.scenario].append(mark)
        self._parameters = {
            (name, point.key): {key: str(value) for key, value in point.parameters.items()}
            for name, scenario in scenarios.items()
            for point in scenario.points
        }
        for figure in findings.figures:
            self._parameters.setdefault((figure.scenario, figure.point), _without_free_port(figure.parameters))
        self.titles = {figure.system: figure.title for figure in findings.figures}
        self.contracts = self._number_contracts()

    def _number_contracts(self) -> dict[tuple[str, str], int]:
        """(system, quality) → the number of its contract in the whole report; equal sentences share one."""
        texts = sorted(
            {(figure.system, figure.quality, figure.contract) for figure in self.findings.figures if figure.contract},
            key=lambda row: (self.place_of_system(row[0]), row),
        )
        numbers: dict[tuple[str, str], int] = {}
        found: dict[str, int] = {}
        for system, quality, contract in texts:
            numbers.setdefault((system, quality), found.setdefault(contract, len(found) + 1))
        self._contract_texts = {place: contract for contract, place in found.items()}
        return numbers

    def contract_text(self, number: int) -> str:
        """Which systems promise it, and what."""
        systems = dict.fromkeys(
            self.short_title_of(system).partition(",")[0]
            for (system, _), place in self.contracts.items()
            if place == number
        )
        return f"{listed(systems)}: {self._contract_texts[number]}"

    @staticmethod
    def place_of_system(system: str) -> int:
        """Ours first, then peers as the registry lists them, then those that were added."""
        return NAMES.index(system) if system in NAMES else len(NAMES)

    @property
    def has_documents(self) -> bool:
        """Whether the documents are what this report is about: only runs of one's own loads say nothing of them."""
        return not self.own or any(self._figures[name] or self._marks[name] for name in self.scenarios)

    def find(self, scenario: str) -> Scenario | None:
        return self.scenarios.get(scenario) or self.own.get(scenario)

    @property
    def hosts(self) -> list[str]:
        return sorted({figure.host for figure in self.findings.figures}) or sorted(self.findings.environments)

    def title_of(self, system: str) -> str:
        """With the client: `RabbitMQ, pika`."""
        return self.titles.get(system) or system

    def short_title_of(self, system: str) -> str:
        return short_title(system) or self.title_of(system).partition(",")[0]

    def name_of_other(self, other: str) -> str:
        """Of the system that a comparison divides by."""
        return other.removeprefix(PUBLISHED) if other.startswith(PUBLISHED) else self.short_title_of(other)

    def systems(self, scenario: str, host: str) -> list[str]:
        seen = {figure.system for figure in self._figures[scenario] if figure.host == host}
        seen |= {mark.system for mark in self._marks[scenario]}
        return sorted(seen, key=lambda system: (self.place_of_system(system), system))

    def figures(self, scenario: str) -> Sequence[Figure]:
        return self._figures[scenario]

    def figure(self, host: str, scenario: str, point: str, system: str, metric: str) -> Figure | None:
        return self._cells.get((host, scenario, point, system, metric))

    def published(self, scenario: str, metric: str = "") -> list[Published]:
        return [row for row in self._published[scenario] if metric in ("", row.metric)]

    def published_systems(self, scenario: str, metric: str = "") -> list[str]:
        return list(dict.fromkeys(row.system for row in self.published(scenario, metric)))

    def marks(self, scenario: str, point: str = "", system: str = "") -> list[UnusableTrial]:
        return [mark for mark in self._marks[scenario] if point in ("", mark.point) and system in ("", mark.system)]

    def metrics(self, scenario: str) -> list[str]:
        """Those of the document, in its order; where it prints none, those that the load is about."""
        found = dict.fromkeys(row.metric for row in self._published[scenario])
        measured = dict.fromkeys(figure.metric for figure in self._figures[scenario])
        if not found:
            definition = self.find(scenario)
            wanted = metrics_of_load(definition.load if definition else "", measured)
            if scenario in self.own and "latency_p99" in measured:
                wanted.append("latency_p99")
            found = dict.fromkeys(wanted or list(measured)[:1])
        return list(found)

    def main_metric(self, scenario: str) -> str:
        metrics = self.metrics(scenario)
        return next((metric for metric in metrics if not is_less_better(metric)), metrics[0] if metrics else "")

    def own_metrics(self, scenario: str) -> list[str]:
        """Whatever else was measured, in one order everywhere."""
        figures = self._figures[scenario]
        seen = {figure.metric for figure in figures if metric_of(figure.metric).group != "internal"}
        seen -= set(self.metrics(scenario))
        if all(figure.value == 1 for figure in figures if figure.metric == DRAINED):
            seen.discard(DRAINED)
        return in_order(seen)

    def points(self, scenario: str) -> list[str]:
        """As the scenario lists them, then any that it no longer lists."""
        definition = self.find(scenario)
        found = dict.fromkeys(point.key for point in definition.points) if definition else {}
        found.update(dict.fromkeys(figure.point for figure in self._figures[scenario]))
        found.update(dict.fromkeys(row.point for row in self._published[scenario]))
        found.update(dict.fromkeys(mark.point for mark in self._marks[scenario]))
        if scenario in self.own:
            return sorted(found, key=lambda point: _by_size(self.parameters(scenario, point)))
        return list(found)

    def parameters(self, scenario: str, point: str) -> Mapping[str, str]:
        known = self._parameters.get((scenario, point))
        if known is not None:
            return known
        return _without_free_port(dict(part.split("=", 1) for part in point.split(",") if "=" in part))

    def axes(self, scenario: str, points: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """The parameters in which points differ, and those that all of them share."""
        found = [self.parameters(scenario, point) for point in points]
        names = list(dict.fromkeys(name for parameters in found for name in parameters))
        values = {name: {parameters.get(name, "") for parameters in found} for name in names}
        varying = [name for name in names if len(values[name]) > 1]
        return varying, {name: next(iter(values[name])) for name in names if len(values[name]) == 1}

    def is_rated(self, scenario: str, point: str) -> bool:
        """Whether a schedule says when each application sends, so that its rate says nothing about speed."""
        return self.parameters(scenario, point).get("rate_per_app_hour", "0") not in ("", "0")

    def label(self, scenario: str, point: str) -> str:
        """In what a point differs from the others of its scenario."""
        varying, _ = self.axes(scenario, self.points(scenario))
        parameters = self.parameters(scenario, point)
        return described([(name, parameters.get(name, "")) for name in varying])

    def unit(self, scenario: str, metric: str) -> str:
        rows: Iterable[Published | Figure] = (*self._published[scenario], *self._figures[scenario])
        return next((row.unit for row in rows if row.metric == metric), "")

    def coverage(self, scenario: str) -> Coverage:
        figures = self._figures[scenario]
        measured = {figure.point for figure in figures}
        reduced = {figure.point for figure in figures if figure.reduced}
        systems = sorted({figure.system for figure in figures}, key=lambda name: (self.place_of_system(name), name))
        points = len(self.points(scenario))
        return Coverage(points, len(measured), len(reduced), tuple(systems), tuple(self._marks[scenario]))

    def is_estimate(self, host: str, scenario: str, point: str, system: str, metric: str) -> bool:
        """Whether a search had to end before it was sure."""
        confirmed = self.figure(host, scenario, point, system, "mst_confirmed")
        return metric == "mst" and confirmed is not None and confirmed.value < 1

    def is_busy(self, row: FigureComparison) -> bool:
        """Whether one of the two that are compared was measured while others used the processors."""
        found = (
            self.figure(row.host, row.scenario, row.point, system, row.metric) for system in (row.system, row.other)
        )
        return any(figure is not None and figure.busy for figure in found)

    def best(
        self, host: str, scenario: str, point: str, system: str, metric: str, published: bool
    ) -> FigureComparison | None:
        """The comparison with the best other: of the published systems, or of the peers that promise as much.

        A peer counts in its better form; where our senders wait for each answer, so must those of the peer.
        """
        here = (figure for figure in self._figures[scenario] if figure.point == point)
        weaker = {figure.system for figure in here if figure.contract.startswith(WEAKER)}
        rows = [
            row
            for row in self._comparisons.get((host, scenario, point, system, metric), ())
            if row.other.startswith(PUBLISHED) == published
            and (published or not (is_ours(row.other) or row.other in weaker))
            and (published or is_answered(row.other) or not is_answered(system))
        ]
        choose = min if is_less_better(metric) else max
        return choose(rows, key=lambda row: row.other_value, default=None)


def _own_scenarios(findings: Findings, known: Mapping[str, Scenario]) -> dict[str, Scenario]:
    loads = {figure.scenario: figure.load for figure in findings.figures}
    for mark in findings.marks:
        loads.setdefault(mark.scenario, mark.scenario.rpartition("/")[2])
    return {
        name: Scenario(name, _OWN_TITLES.get(load, load), (), load, ())
        for name, load in sorted(loads.items())
        if name not in known
    }


def _without_free_port(parameters: Mapping[str, str]) -> dict[str, str]:
    """That a server chose its port says nothing of a measurement, nor does a trace that is not there."""
    return {name: value for name, value in parameters.items() if (name, value) not in (("port", "0"), ("trace", ""))}


def _by_size(parameters: Mapping[str, str]) -> list[tuple[str, float, str]]:
    return [(name, float(value) if is_number(value) else 0.0, value) for name, value in sorted(parameters.items())]
