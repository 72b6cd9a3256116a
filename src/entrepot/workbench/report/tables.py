# SPDX-License-Identifier: Apache-2.0
"""A document's table drawn again: its parameters as rows; published, Entrepot, peers and ratios as columns.

A cell is a mean with its interval, or it says why there is none. Beside
each of our own figures stands the number of the durability contract under
which it was measured; letters explain what else has to be known of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from entrepot.workbench.analysis.findings import Comparison, Figure, Mark
from entrepot.workbench.report.appearance import is_ours
from entrepot.workbench.report.blocks import EMPTY, Cell, Column, Table
from entrepot.workbench.report.material import PUBLISHED, Material
from entrepot.workbench.report.notes import Notes
from entrepot.workbench.report.wording import (
    Scale,
    count,
    is_less_better,
    name_of,
    number,
    ratio,
    scale_for,
    span,
    value_of,
)

GENERATOR = "generator"


def metric_table(material: Material, host: str, scenario: str, metric: str) -> Table | None:
    """None when the metric has neither a published nor a measured value here."""
    systems = [system for system in material.systems(scenario, host) if _has(material, host, scenario, system, metric)]
    points = [point for point in material.points(scenario) if _is_row(material, host, scenario, point, metric, systems)]
    if not points:
        return None
    published = material.published_systems(scenario, metric)
    values = [row.value for row in material.published(scenario, metric)]
    values += [figure.value for figure in _figures(material, host, scenario, metric)]
    scale = scale_for(material.unit(scenario, metric), values)
    varying, constant = material.axes(scenario, points)
    ours = [system for system in systems if is_ours(system)]
    peers = [system for system in systems if not is_ours(system)]
    columns = [Column(name_of(name), numeric=False, heads_row=True) for name in varying or [""]]
    columns += [Column(system, group="Published") for system in published]
    columns += [_system_column(material, system, "Entrepot") for system in ours]
    columns += [_system_column(material, system, "Peers") for system in peers]
    columns += list(_ratio_columns(material, ours, bool(published), bool(peers)))
    notes = Notes(material)
    rows = []
    for point in points:
        row = _row_heads(material, scenario, point, varying)
        said = {item.system: item for item in material.published(scenario, metric) if item.point == point}
        row += [Cell(scale.write(said[system].value)) if system in said else EMPTY for system in published]
        best = _best_system(material, host, scenario, point, metric, systems)
        row += [
            _system_cell(material, host, scenario, point, metric, system, scale, notes, system == best)
            for system in (*ours, *peers)
        ]
        row += _ratio_cells(material, host, scenario, point, metric, ours, bool(published), bool(peers), notes)
        rows.append(row)
    caption = _caption(material, host, scenario, metric, scale, constant)
    return Table(caption, columns, rows, notes.all())


def _caption(
    material: Material, host: str, scenario: str, metric: str, scale: Scale, constant: dict[str, str]
) -> str:
    fixed = ", ".join(
        f"{name_of(name).lower() if name != 'quality' else 'quality'} {value_of(name, value)}"
        for name, value in constant.items()
        if value != ""
    )
    unit = f", {scale.unit}" if scale.unit else ""
    return f"{name_of(metric)}{unit}{f' — {fixed}' if fixed else ''}.{_repeated(_figures(material, host, scenario, metric))}"


def _repeated(figures: Sequence[Figure]) -> str:
    numbers = sorted({figure.repetitions for figure in figures})
    if not numbers:
        return ""
    if numbers[-1] == 1:
        return " One repetition each, so there are no intervals."
    many = str(numbers[0]) if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"
    return f" Means of {many} repetitions with 95 % intervals."


def _figures(material: Material, host: str, scenario: str, metric: str) -> list[Figure]:
    return [figure for figure in material.figures(scenario) if figure.host == host and figure.metric == metric]


def _has(material: Material, host: str, scenario: str, system: str, metric: str) -> bool:
    """Systems that gave nothing but marks have a column in the main table only: once is enough."""
    if any(figure.system == system for figure in _figures(material, host, scenario, metric)):
        return True
    return metric == material.main_metric(scenario) and bool(material.marks(scenario, system=system))


def _is_row(
    material: Material, host: str, scenario: str, point: str, metric: str, systems: Sequence[str]
) -> bool:
    if any(row.point == point for row in material.published(scenario, metric)):
        return True
    return any(
        material.figure(host, scenario, point, system, metric) or material.marks(scenario, point, system)
        for system in systems
    )


def _system_column(material: Material, system: str, group: str) -> Column:
    title = material.title_of(system)
    name, _, client = title.partition(", ")
    return Column(client or name, group=group) if is_ours(system) else Column(name, group=group, detail=client)


def _row_heads(material: Material, scenario: str, point: str, varying: Sequence[str]) -> list[Cell]:
    parameters = material.parameters(scenario, point)
    return [Cell(value_of(name, parameters.get(name, "")) or "–") for name in varying] or [Cell("as captioned")]


def _best_system(
    material: Material, host: str, scenario: str, point: str, metric: str, systems: Sequence[str]
) -> str:
    found = {
        system: figure.value
        for system in systems
        if (figure := material.figure(host, scenario, point, system, metric)) is not None
    }
    if len(found) < 2:
        return ""
    return min(found, key=lambda name: found[name]) if is_less_better(metric) else max(found, key=lambda name: found[name])


def _system_cell(
    material: Material,
    host: str,
    scenario: str,
    point: str,
    metric: str,
    system: str,
    scale: Scale,
    notes: Notes,
    is_best: bool,
) -> Cell:
    figure = material.figure(host, scenario, point, system, metric)
    marks = material.marks(scenario, point, system)
    if figure is None:
        if not marks:
            return EMPTY
        # Never a number: the trial was marked, and this is why.
        return Cell(marks[0].status, marks=[notes.letter(mark.reason) for mark in _distinct(marks)], kind="mark")
    signs = notes.contract(system, figure.quality)
    if figure.reduced:
        signs.append(notes.letter(f"Reduced: {figure.reduced}"))
    text = scale.write(figure.value)
    if figure.bottleneck == GENERATOR and not is_less_better(metric):
        text = f"≥ {text}"
        signs.append(notes.letter("The load generator was the limit; the system may be faster."))
    if marks:
        signs.append(notes.letter(_also_marked(marks)))
    detail = span(scale.of(figure.low), scale.of(figure.high)) if figure.high > figure.low else ""
    return Cell(text, detail, signs, kind="best" if is_best else "value")


def _distinct(marks: Sequence[Mark]) -> list[Mark]:
    return list({(mark.status, mark.reason): mark for mark in reversed(marks)}.values())[::-1]


def _also_marked(marks: Sequence[Mark]) -> str:
    """A figure that stands, though not all of its trials do."""
    reasons = "; ".join(f"{mark.status}: {mark.reason}" for mark in _distinct(marks))
    return f"Without {count(len(marks), 'trial')} that {'was' if len(marks) == 1 else 'were'} marked ({reasons})."


def _ratio_columns(material: Material, ours: Sequence[str], published: bool, peers: bool) -> Iterable[Column]:
    for system in ours:
        which = "" if len(ours) == 1 else f"{material.short_title_of(system).partition(', ')[2] or system} "
        if published:
            yield Column(f"{which}÷ published", group="Ratio of Entrepot")
        if peers:
            yield Column(f"{which}÷ best peer", group="Ratio of Entrepot")


def _ratio_cells(
    material: Material,
    host: str,
    scenario: str,
    point: str,
    metric: str,
    ours: Sequence[str],
    published: bool,
    peers: bool,
    notes: Notes,
) -> list[Cell]:
    cells = []
    for system in ours:
        for wanted, is_published in ((published, True), (peers, False)):
            if wanted:
                row = material.best(host, scenario, point, system, metric, is_published)
                cells.append(_ratio_cell(material, row, notes) if row else EMPTY)
    return cells


def _ratio_cell(material: Material, row: Comparison, notes: Notes) -> Cell:
    signs = [notes.letter(f"Reduced: {row.reduced}")] if row.reduced else []
    has_interval = row.high > row.low
    other = row.other.removeprefix(PUBLISHED) if row.other.startswith(PUBLISHED) else material.short_title_of(row.other)
    detail = f"{span(row.low, row.high)}, {other}" if has_interval else other
    return Cell(f"{'≈ ' if is_even(row) else ''}{ratio(row.ratio)}", detail, signs)


def is_even(row: Comparison) -> bool:
    """Whether the interval holds 1: neither is faster, as far as was measured."""
    return row.low < row.high and row.low <= 1.0 <= row.high


def own_table(material: Material, host: str, scenario: str) -> Table | None:
    """Latency, lateness, cost and accounts, a row for each point and system."""
    metrics = material.own_metrics(scenario)
    rows = []
    points = [point for point in material.points(scenario) if _measured(material, host, scenario, point)]
    varying, _ = material.axes(scenario, points)
    scales = {
        metric: scale_for(
            material.unit(scenario, metric), [figure.value for figure in _figures(material, host, scenario, metric)]
        )
        for metric in metrics
    }
    for point in points:
        for system in _measured(material, host, scenario, point):
            cells = []
            for metric in metrics:
                figure = material.figure(host, scenario, point, system, metric)
                cells.append(Cell(scales[metric].write(figure.value)) if figure else EMPTY)
            if any(cell is not EMPTY for cell in cells):
                heads = _row_heads(material, scenario, point, varying) if varying else []
                rows.append([*heads, Cell(material.short_title_of(system)), *cells])
    if not rows:
        return None
    columns = [Column(name_of(name), numeric=False, heads_row=True) for name in varying]
    columns.append(Column("System", numeric=False, heads_row=True))
    columns += [Column(name_of(metric), detail=scales[metric].unit) for metric in metrics]
    return Table("What else was measured: latency from the intended time, cost, and the account of every message.", columns, rows)


def verdict_table(material: Material, host: str, scenario: str) -> Table | None:
    """What held each figure back, with the evidence."""
    points = [point for point in material.points(scenario) if _measured(material, host, scenario, point)]
    varying, _ = material.axes(scenario, points)
    rows = []
    for point in points:
        for system in _measured(material, host, scenario, point):
            verdicts = dict.fromkeys(
                (figure.bottleneck, figure.evidence)
                for figure in material.figures(scenario)
                if (figure.host, figure.point, figure.system) == (host, point, system) and figure.bottleneck
            )
            for verdict, evidence in verdicts:
                heads = _row_heads(material, scenario, point, varying) if varying else []
                name = Cell(material.short_title_of(system))
                rows.append([*heads, name, Cell(verdict), Cell(evidence or "–")])
    if not rows:
        return None
    columns = [Column(name_of(name), numeric=False, heads_row=True) for name in varying]
    columns += [Column("System", numeric=False, heads_row=True)]
    columns += [Column("Held back by", numeric=False), Column("Evidence", numeric=False)]
    return Table("What held each figure back.", columns, rows)


def probe_table(material: Material, scenario: str) -> Table | None:
    """Every rate that a search tried."""
    probes = sorted(
        (probe for probe in material.findings.probes if probe.scenario == scenario),
        key=lambda probe: (
            material.points(scenario).index(probe.point),
            material.place_of_system(probe.system),
            probe.repetition,
            probe.probe,
        ),
    )
    if not probes:
        return None
    varying, _ = material.axes(scenario, list(dict.fromkeys(probe.point for probe in probes)))
    rows = []
    for probe in probes:
        slope = number(probe.depth_slope_per_s) if probe.depth_slope_per_s is not None else "–"
        rows.append(
            [
                *(_row_heads(material, scenario, probe.point, varying) if varying else []),
                Cell(material.short_title_of(probe.system)),
                Cell(str(probe.repetition)),
                Cell(str(probe.probe)),
                Cell(number(probe.offered_per_s)),
                Cell(number(probe.delivered_per_s)),
                Cell(slope),
                Cell(number(probe.latency_p99_s * 1e3)),
                Cell(f"{probe.lost:,}"),
                Cell("sustained" if probe.sustained else "not sustained"),
                Cell(probe.evidence or "–"),
            ]
        )
    columns = [Column(name_of(name), numeric=False, heads_row=True) for name in varying]
    columns += [Column("System", numeric=False, heads_row=True), Column("Repetition"), Column("Probe")]
    columns += [Column("Offered", detail="msg/s"), Column("Delivered", detail="msg/s")]
    columns += [Column("Depth slope", detail="msg/s"), Column("Latency, 99 %", detail="ms"), Column("Lost")]
    columns += [Column("Verdict", numeric=False), Column("Evidence", numeric=False)]
    return Table(f"The {count(len(probes), 'probe')} of the search.", columns, rows)


def _measured(material: Material, host: str, scenario: str, point: str) -> list[str]:
    seen = {
        figure.system for figure in material.figures(scenario) if figure.host == host and figure.point == point
    }
    return sorted(seen, key=lambda system: (material.place_of_system(system), system))
