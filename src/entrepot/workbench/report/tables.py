# SPDX-License-Identifier: Apache-2.0
"""A document's table drawn again: its parameters as rows; published, Entrepot, peers and ratios as columns.

A cell is a mean with its interval, or it says why there is none. Beside
each of our own figures stands the number of the durability contract under
which it was measured; letters explain what else has to be known of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from entrepot.workbench.analysis.findings import Figure, FigureComparison, UnusableTrial
from entrepot.workbench.analysis.metric import Group, metric_of
from entrepot.workbench.report.appearance import is_ours
from entrepot.workbench.report.blocks import EMPTY, Cell, CellKind, Column, TableBlock, heads, table, words
from entrepot.workbench.report.findings_index import FindingsIndex
from entrepot.workbench.report.notes import Notes
from entrepot.workbench.report.view import View
from entrepot.workbench.report.wording import (
    Scale,
    count,
    has_direction,
    is_less_better,
    name_of,
    number,
    ratio,
    sentence,
    span,
    spread,
    value_of,
)

GENERATOR = "generator"
_GROUPS: dict[Group, str] = {
    "rates": "Rates and times, latency counted from the intended moment.",
    "costs": "What it cost.",
    "accounts": "The account of every message.",
}


class MetricTable(View):
    """One metric of one scenario on one host."""

    def __init__(self, index: FindingsIndex, host: str, scenario: str, metric: str) -> None:
        super().__init__(index, host, scenario)
        self._metric = metric
        self._notes = Notes(index)
        self._figures = self.figures(metric)
        self._systems = [system for system in self.systems if self._has(system)]
        self._published = self.published_systems(metric)

    def table(self) -> TableBlock | None:
        """None when the metric has neither a published nor a measured value here."""
        points = [point for point in self.points if self._is_row(point)]
        if not points:
            return None
        varying, constant = self.axes(points)
        columns = [*_head_columns(varying), *self._columns()]
        rows = [
            [
                *row_heads(self.index, self.scenario, point, varying),
                *self._published_cells(point),
                *(self._system_cell(point, system) for system in self._ours),
                *self._ratio_cells(point),
                *(self._system_cell(point, system) for system in self._peers),
            ]
            for point in points
        ]
        return TableBlock(self._caption(constant), columns, rows, self._notes.all())

    @property
    def _ours(self) -> list[str]:
        return [system for system in self._systems if is_ours(system)]

    @property
    def _peers(self) -> list[str]:
        return [system for system in self._systems if not is_ours(system)]

    @cached_property
    def _scale(self) -> Scale:
        return self.scale(self._metric)

    def _figure(self, point: str, system: str) -> Figure | None:
        return self.figure(point, system, self._metric)

    def _has(self, system: str) -> bool:
        """Systems that gave nothing but marks have a column in the main table only: once is enough."""
        if any(figure.system == system for figure in self._figures):
            return True
        is_main = self._metric == self.index.main_metric(self.scenario)
        return is_main and bool(self.marks(system=system))

    def _is_row(self, point: str) -> bool:
        if any(row.point == point for row in self.published(self._metric)):
            return True
        return any(self._figure(point, system) or self.marks(point, system) for system in self._systems)

    def _caption(self, constant: dict[str, str]) -> str:
        unit = f", {self._scale.unit}" if self._scale.unit else ""
        fixed = ", ".join(
            f"{name_of(name).lower()} {value_of(name, value)}"
            for name, value in constant.items()
            if value not in ("", "0")
        )
        parts = [
            f"{name_of(self._metric)}{unit}.",
            f"{fixed[:1].upper()}{fixed[1:]}." if fixed else "",
            self._repeated(),
        ]
        return " ".join(part for part in parts if part)

    def _repeated(self) -> str:
        numbers = sorted({figure.repetitions for figure in self._figures})
        if not numbers:
            return ""
        if self._metric == "mst":
            return "Below each, the highest rate that its search saw borne and the lowest that it saw refuted."
        if numbers[-1] == 1:
            return "One repetition each, so there are no intervals."
        many = str(numbers[0]) if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"
        return f"Means of {many} repetitions with {spread(numbers[-1])}."

    # Columns

    def _columns(self) -> Iterator[Column]:
        yield from (Column(system, group="Published") for system in self._published)
        for system in self._ours:
            yield Column(self.index.short_title_of(system).partition(", ")[2] or system, group="Entrepot")
        # Before the peers, which may be many: a narrow screen shows what is asked most without scrolling.
        yield from self._ratio_columns()
        for system in self._peers:
            client = self.index.title_of(system).partition(", ")[2]
            yield Column(self.index.short_title_of(system), group="Peers", detail=client)

    def _ratio_columns(self) -> Iterator[Column]:
        for system, is_published in self._ratios():
            which = f"{self.index.short_title_of(system).partition(', ')[2]} " if len(self._ours) > 1 else ""
            yield Column(f"{which}÷ {'published' if is_published else 'best peer'}", group="Ratio of Entrepot")

    def _ratios(self) -> list[tuple[str, bool]]:
        """Ours, and whether against the published; nothing for what has no better and worse."""
        if not has_direction(self._metric):
            return []
        kinds = [is_published for is_published in (True, False) if (self._published if is_published else self._peers)]
        return [(system, kind) for system in self._ours for kind in kinds]

    # Cells

    def _published_cells(self, point: str) -> Iterator[Cell]:
        published = {row.system: row for row in self.published(self._metric) if row.point == point}
        for system in self._published:
            yield Cell(self._scale.write(published[system].value)) if system in published else EMPTY

    def _system_cell(self, point: str, system: str) -> Cell:
        figure = self._figure(point, system)
        marks = self.marks(point, system)
        if figure is None:
            if not marks:
                return EMPTY
            # Never a number: the trial was marked, and this is why.
            signs = [self._notes.letter(sentence(mark.reason)) for mark in _distinct(marks)]
            return Cell(marks[0].status, marks=signs, kind="mark")
        signs = self._notes.contract(system, figure.quality)
        if figure.reduced:
            signs.append(self._notes.letter(sentence(f"Reduced: {figure.reduced}")))
        text = self._scale.write(figure.value)
        if figure.bottleneck == GENERATOR and has_direction(self._metric) and not is_less_better(self._metric):
            text = f"≥ {text}"
            signs.append(self._notes.letter("The load generator was the limit; the system may be faster."))
        if self.index.is_estimate(self.host, self.scenario, point, system, self._metric):
            text = f"about {text}"
            signs.append(self._notes.letter("An estimate: the search had to end before long probes had confirmed it."))
        if figure.busy:
            signs.append(self._notes.letter(sentence(f"Busy machine: {figure.busy}")))
        if marks:
            signs.append(self._notes.letter(_also_marked(marks)))
        low, high = self._scale.of(figure.low), self._scale.of(figure.high)
        kind: CellKind = "best" if system == self._best(point) else "value"
        return Cell(text, span(low, high) if high > low else "", signs, kind=kind)

    def _best(self, point: str) -> str:
        """Of those that were measured here, if that means anything."""
        found = {
            system: figure.value for system in self._systems if (figure := self._figure(point, system)) is not None
        }
        if len(found) < 2 or not has_direction(self._metric):
            return ""
        choose = min if is_less_better(self._metric) else max
        return choose(found, key=lambda name: found[name])

    def _ratio_cells(self, point: str) -> Iterator[Cell]:
        for system, is_published in self._ratios():
            row = self.index.best(self.host, self.scenario, point, system, self._metric, is_published)
            yield self._ratio_cell(row) if row else EMPTY

    def _ratio_cell(self, row: FigureComparison) -> Cell:
        signs = [self._notes.letter(sentence(f"Reduced: {row.reduced}"))] if row.reduced else []
        if self.index.is_busy(row):
            signs.append(self._notes.letter("One of the two was measured on a busy machine."))
        other = self.index.name_of_other(row.other)
        detail = f"{span(row.low, row.high)}, {other}" if row.high > row.low else other
        return Cell(f"{'≈ ' if is_even(row) else ''}{ratio(row.ratio)}", detail, signs)


def metric_table(index: FindingsIndex, host: str, scenario: str, metric: str) -> TableBlock | None:
    return MetricTable(index, host, scenario, metric).table()


def is_even(row: FigureComparison) -> bool:
    """Whether the interval holds 1: neither is faster, as far as was measured."""
    return row.low < row.high and row.low <= 1.0 <= row.high


def _distinct(marks: Sequence[UnusableTrial]) -> list[UnusableTrial]:
    return list({(mark.status, mark.reason): mark for mark in reversed(marks)}.values())[::-1]


def _also_marked(marks: Sequence[UnusableTrial]) -> str:
    """A figure that stands, though not all of its trials do."""
    reasons = "; ".join(f"{mark.status}: {mark.reason}" for mark in _distinct(marks))
    return f"Without {count(len(marks), 'trial')} that {'was' if len(marks) == 1 else 'were'} marked ({reasons})."


def _head_columns(varying: Sequence[str]) -> list[Column]:
    return [heads(name_of(name)) for name in varying or ["point"]]


def row_heads(index: FindingsIndex, scenario: str, point: str, varying: Sequence[str]) -> list[Cell]:
    parameters = index.parameters(scenario, point)
    return [Cell(value_of(name, parameters.get(name, "")) or "–") for name in varying] or [Cell("the only one")]


class CaseTable(View):
    """A table with a row for each point and system that was measured."""

    def __init__(self, index: FindingsIndex, host: str, scenario: str) -> None:
        super().__init__(index, host, scenario)
        seen: dict[str, set[str]] = {}
        for figure in self.figures():
            seen.setdefault(figure.point, set()).add(figure.system)
        self._cases = [
            (point, system)
            for point in self.points
            for system in sorted(seen.get(point, ()), key=lambda name: (index.place_of_system(name), name))
        ]
        self._varying, _ = self.axes(list(dict.fromkeys(point for point, _ in self._cases)))

    def _heads(self, point: str, system: str) -> list[Cell]:
        heads = row_heads(self.index, self.scenario, point, self._varying) if self._varying else []
        return [*heads, Cell(self.index.short_title_of(system))]

    def _columns(self) -> list[Column]:
        return [*(_head_columns(self._varying) if self._varying else []), heads("System")]

    def own(self) -> Iterator[TableBlock]:
        """Rates and latency, cost, accounts: a table each, so that a laptop shows all of it."""
        metrics = self.index.own_metrics(self.scenario)
        for group, caption in _GROUPS.items():
            table = self._of_metrics(caption, [name for name in metrics if metric_of(name).group == group])
            if table:
                yield table

    def _of_metrics(self, caption: str, metrics: Sequence[str]) -> TableBlock | None:
        scales = {metric: self.scale(metric) for metric in metrics}
        rows = []
        for point, system in self._cases:
            found = [self.figure(point, system, metric) for metric in metrics]
            if any(found):
                cells = [Cell(scales[row.metric].write(row.value)) if row else EMPTY for row in found]
                rows.append([*self._heads(point, system), *cells])
        if not rows:
            return None
        columns = [Column(name_of(metric), detail=scales[metric].unit) for metric in metrics]
        return TableBlock(caption, [*self._columns(), *columns], rows)

    def verdicts(self) -> TableBlock | None:
        """What held each figure back, with the evidence."""
        rows = []
        for point, system in self._cases:
            found = dict.fromkeys(
                (figure.bottleneck, figure.evidence)
                for figure in self.figures()
                if (figure.point, figure.system) == (point, system) and figure.bottleneck
            )
            rows += [[*self._heads(point, system), Cell(verdict), Cell(reason or "–")] for verdict, reason in found]
        if not rows:
            return None
        columns = [words("Held back by"), words("Evidence")]
        return TableBlock("What held each figure back.", [*self._columns(), *columns], rows)


def probe_table(index: FindingsIndex, scenario: str) -> TableBlock | None:
    """Every rate that a search tried."""
    points = index.points(scenario)
    probes = sorted(
        (probe for probe in index.findings.probes if probe.scenario == scenario),
        key=lambda row: (points.index(row.point), index.place_of_system(row.system), row.repetition, row.probe),
    )
    if not probes:
        return None
    varying, _ = index.axes(scenario, list(dict.fromkeys(probe.point for probe in probes)))
    rows = [
        [
            *(row_heads(index, scenario, probe.point, varying) if varying else []),
            index.short_title_of(probe.system),
            str(probe.repetition),
            str(probe.probe),
            number(probe.offered_per_s),
            number(probe.delivered_per_s),
            None if probe.depth_slope_per_s is None else number(probe.depth_slope_per_s),
            number(probe.latency_p99_s * 1e3),
            f"{probe.lost:,}",
            "sustained" if probe.sustained else "not sustained",
            probe.evidence or "–",
        ]
        for probe in probes
    ]
    columns = [*(_head_columns(varying) if varying else []), heads("System"), Column("Repetition"), Column("Probe")]
    columns += [Column(title, detail="msg/s") for title in ("Offered", "Delivered", "Depth slope")]
    columns += [Column("Latency, 99 %", detail="ms"), Column("Lost"), words("Verdict"), words("Evidence")]
    return table(f"The {count(len(probes), 'probe')} of the search.", columns, rows)
