# SPDX-License-Identifier: Apache-2.0
"""The first screen: where and when, what was measured, how it compares, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from entrepot.workbench.analysis.findings import Comparison
from entrepot.workbench.report import drawing
from entrepot.workbench.report.appearance import INK, is_ours, look_of
from entrepot.workbench.report.blocks import (
    Block,
    Cell,
    Column,
    Drawing,
    Entry,
    Facts,
    Link,
    Listing,
    Paragraph,
    Section,
    Table,
    Text,
    Tile,
    Tiles,
)
from entrepot.workbench.report.documents import Document
from entrepot.workbench.report.html import BADGES
from entrepot.workbench.report.material import PUBLISHED, Material
from entrepot.workbench.report.wording import QUALITIES, count, listed, number, ratio, slug, span

_MACHINE = {
    "cpu": "Processor",
    "cores": "Cores",
    "memory_gib": "Memory",
    "kernel": "Linux",
    "file_system": "File system",
    "force_ms_median": "Disk force, median",
    "force_ms_p99": "Disk force, 99 %",
    "write_bytes_per_s": "Disk bandwidth",
    "python": "Python",
    "java": "Java",
    "commit": "Entrepot's commit",
}
_FAILURES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Ratio:
    """Geometric mean of the ratios of one document and quality, at all points where there is one."""

    document: str
    quality: str
    is_published: bool
    value: float
    low: float
    high: float
    least: float
    most: float
    points: int
    others: tuple[str, ...]


def mean_ratio(rows: Sequence[Comparison]) -> tuple[float, float, float]:
    """Geometric mean and its interval.

    The points are independent trials, so the squared half-widths of their
    logarithms add up, and the mean's is their root by the number of points.
    """
    logs = [math.log(row.ratio) for row in rows]
    below = math.sqrt(sum((log - math.log(row.low)) ** 2 for log, row in zip(logs, rows, strict=True))) / len(rows)
    above = math.sqrt(sum((math.log(row.high) - log) ** 2 for log, row in zip(logs, rows, strict=True))) / len(rows)
    middle = sum(logs) / len(logs)
    return math.exp(middle), math.exp(middle - below), math.exp(middle + above)


def ratios(material: Material, host: str) -> list[Ratio]:
    """Of each scenario's main metric, the best of ours against the best of the others, point by point."""
    found: dict[tuple[str, str, bool], list[Comparison]] = {}
    for scenario in material.scenarios:
        metric = material.main_metric(scenario)
        for point in material.points(scenario):
            for is_published in (True, False):
                rows = [
                    row
                    for system in material.systems(scenario, host)
                    if is_ours(system)
                    and (row := material.best(host, scenario, point, system, metric, is_published)) is not None
                ]
                if rows and min(row.low for row in rows) > 0:
                    best = max(rows, key=lambda row: row.value)
                    quality = material.parameters(scenario, point).get("quality", "")
                    found.setdefault((scenario.partition("/")[0], quality, is_published), []).append(best)
    answers = []
    for (document, quality, is_published), rows in found.items():
        value, low, high = mean_ratio(rows)
        single = [row.ratio for row in rows]
        others = dict.fromkeys(row.other for row in rows)
        answers.append(
            Ratio(
                document, quality, is_published, value, low, high, min(single), max(single), len(rows), tuple(others)
            )
        )
    return answers


def summary_section(material: Material, documents: Mapping[str, Document]) -> Section:
    blocks: list[Block] = [_tiles(material)]
    for host in material.hosts:
        found = ratios(material, host)
        if found:
            if len(material.hosts) > 1:
                blocks.append(Paragraph(f"On {host}:"))
            blocks += [_forest(found, documents), _ratio_table(material, found, documents)]
    if not material.findings.figures:
        blocks.append(Paragraph("No trial gave a figure; what follows is what was published.", "warning"))
    missing = list(_missing(material))
    if missing:
        blocks.append(Section("missing", "What failed or is missing", [Listing(missing)], 3, contents="no"))
    for host in material.hosts:
        environment = material.findings.environments.get(host, {})
        title = "The machine" if len(material.hosts) == 1 else f"The machine {host}"
        blocks.append(Section(f"machine-{slug(host)}", title, list(_machine(environment)), 3, contents="no"))
    systems = _systems_table(material)
    if systems:
        blocks.append(Section("systems", "Systems and their promises", [systems], 3))
    return Section("summary", "Summary", blocks)


def _tiles(material: Material) -> Tiles:
    findings = material.findings
    measured = [name for name in material.scenarios if material.coverage(name).measured]
    points = {(figure.scenario, figure.point) for figure in findings.figures}
    systems = sorted({figure.system for figure in findings.figures}, key=material.place_of_system)
    tiles = [
        Tile(f"{len(measured)} of {len(material.scenarios)}", "scenarios measured", f"{count(len(points), 'point')}"),
        Tile(
            str(len(systems)),
            "system" if len(systems) == 1 else "systems",
            listed(dict.fromkeys(material.short_title_of(system).partition(",")[0] for system in systems)),
        ),
    ]
    told = findings.accounting
    if told.trials:
        faults = told.lost + told.duplicated
        detail = "none lost, none doubled" if not faults else f"{told.lost:,} lost, {told.duplicated:,} doubled"
        tiles.append(Tile(_large(told.sent), "messages accounted for", detail))
    if findings.published:
        compared = {
            (row.scenario, row.point, row.metric, row.other)
            for row in findings.comparisons
            if row.other.startswith(PUBLISHED)
        }
        tiles.append(
            Tile(f"{len(compared):,} of {len(findings.published):,}", "published figures compared", "the rest: coverage")
        )
    return Tiles(tiles)


def _large(amount: int) -> str:
    if amount >= 10_000_000:
        return f"{amount / 1e6:,.0f} million"
    return f"{amount / 1e6:,.1f} million" if amount >= 1_000_000 else f"{amount:,}"


def _forest(found: Sequence[Ratio], documents: Mapping[str, Document]) -> Drawing:
    rows = [
        drawing.Range(
            f"{documents[row.document].short}, {QUALITIES.get(row.quality, row.quality)}",
            INK if row.is_published else look_of("entrepot-unix"),
            "s" if row.is_published else "o",
            row.value,
            row.low,
            row.high,
            row.least,
            row.most,
            row.is_published,
        )
        for row in sorted(found, key=lambda row: (row.is_published, list(documents).index(row.document)))
    ]
    legend = [
        Entry("Entrepot ÷ best peer", look_of("entrepot-unix").css, drawing.glyph("o"), line="solid"),
        Entry("Entrepot ÷ published", INK.css, drawing.glyph("s"), hollow=True, line="solid"),
    ]
    shown = [entry for entry, kind in zip(legend, (False, True), strict=True) if kind in {row.is_published for row in found}]
    caption = (
        "Throughput of Entrepot relative to the best peer on this machine and to what was published. Right of 1 "
        "Entrepot is faster. Markers: geometric means over points; thick: their 95 % intervals; thin: from the "
        "lowest to the highest point."
    )
    return Drawing(caption, [drawing.forest(rows, "times as fast")], shown)


def _ratio_table(material: Material, found: Sequence[Ratio], documents: Mapping[str, Document]) -> Table:
    groups: dict[tuple[str, str], dict[bool, Ratio]] = {}
    for row in found:
        groups.setdefault((row.document, row.quality), {})[row.is_published] = row
    body = []
    for document, quality in sorted(groups, key=lambda key: list(documents).index(key[0])):
        cells = [
            Cell([Link(documents[document].short, f"#{document}")]),
            Cell(QUALITIES.get(quality, quality)),
        ]
        for is_published in (False, True):
            row = groups[document, quality].get(is_published)
            cells += _ratio_cells(material, row) if row else [Cell("–", kind="empty")] * 3
        body.append(cells)
    columns = [Column("Document", numeric=False, heads_row=True), Column("Quality", numeric=False, heads_row=True)]
    for group, who in (("Entrepot ÷ best peer", "Best peers"), ("Entrepot ÷ published", "Published")):
        columns += [Column("Mean", group=group), Column("Points", group=group, detail="lowest to highest")]
        columns.append(Column(who, group=group, numeric=False))
    return Table(
        "The main ratios: each scenario's throughput, geometric means over points with 95 % intervals.", columns, body
    )


def _ratio_cells(material: Material, row: Ratio) -> list[Cell]:
    is_even = row.low < row.high and row.low <= 1 <= row.high
    names = [
        other.removeprefix(PUBLISHED) if other.startswith(PUBLISHED) else material.short_title_of(other)
        for other in row.others
    ]
    return [
        Cell(f"{'≈ ' if is_even else ''}{ratio(row.value)}", span(row.low, row.high) if row.high > row.low else ""),
        Cell(str(row.points), f"{ratio(row.least)} to {ratio(row.most)}" if row.points > 1 else ""),
        Cell(listed(names)),
    ]


def _missing(material: Material) -> list[Text]:
    findings = material.findings
    told: list[Text] = [f"{system} was asked for and is not here: {why}." for system, why in findings.absent.items()]
    by_reason: dict[tuple[str, str, str], list[str]] = {}
    for mark in findings.marks:
        by_reason.setdefault((mark.status, mark.system, mark.reason), []).append(mark.scenario)
    for (status, system, reason), scenarios in list(by_reason.items())[:_FAILURES_SHOWN]:
        names = list(dict.fromkeys(scenarios))
        links: list[str | Link] = []
        for name in names[:4]:
            links += [", " if links else "", Link(name, f"#{slug(name)}")]
        more = f" and {len(names) - 4} more scenarios" if len(names) > 4 else ""
        told.append(
            [
                f"{count(len(scenarios), f'{status} trial')} of {material.short_title_of(system)} (",
                *(link for link in links if link),
                f"{more}): {reason}",
            ]
        )
    if len(by_reason) > _FAILURES_SHOWN:
        told.append(f"{len(by_reason) - _FAILURES_SHOWN} more kinds of failure are told with their scenarios.")
    missing = [name for name in material.scenarios if material.coverage(name).badge == "missing"]
    if missing:
        told.append(
            [f"{count(len(missing), 'scenario was', 'scenarios were')} not part of these runs: see ", Link("the coverage", "#coverage"), "."]
        )
    reduced = [name for name in material.scenarios if material.coverage(name).reduced]
    if reduced:
        told.append(f"{count(len(reduced), 'scenario has', 'scenarios have')} points that this machine cannot hold as published; they are marked as reduced.")
    return told


def _machine(environment: Mapping[str, str]) -> list[Block]:
    if not environment:
        return [Paragraph("Nothing was recorded of it.", "warning")]
    known = [(title, _with_unit(key, environment[key])) for key, title in _MACHINE.items() if environment.get(key)]
    rest = [(key.replace("_", " "), value) for key, value in environment.items() if key not in _MACHINE and value]
    blocks: list[Block] = [Facts(known)] if known else []
    if rest:
        blocks.append(Section(f"more-{slug(environment.get('host', 'host'))}", "Everything that was recorded", [Facts(rest)], 4, "closed", contents="no"))
    return blocks


def _with_unit(key: str, value: str) -> str:
    if key == "memory_gib":
        return f"{value} GiB"
    if key.startswith("force_ms"):
        return f"{value} ms"
    if key == "write_bytes_per_s":
        try:
            return f"{number(float(value) / 1e6)} MB/s"
        except ValueError:
            return value
    return value


def _systems_table(material: Material) -> Table | None:
    """Versions, settings and contracts; the numbers are those that stand beside figures."""
    seen = {(row.system, row.contract): row for row in reversed(material.findings.systems)}
    contracts: dict[int, tuple[str, list[str]]] = {}
    for (system, quality), place in material.contracts.items():
        contracts.setdefault(place, (system, []))[1].append(quality)
    rows = []
    for place, (system, qualities) in sorted(contracts.items()):
        text = material.contract_text(place)
        told = seen.get((system, text))
        settings = ", ".join(f"{key}: {value}" for key, value in told.settings.items()) if told else ""
        rows.append(
            [
                Cell(str(place)),
                Cell(material.short_title_of(system)),
                Cell(told.version if told and told.version else "–"),
                Cell(listed(QUALITIES.get(quality, quality) for quality in qualities)),
                Cell(text),
                Cell(settings or "as it comes"),
            ]
        )
    if not rows:
        return None
    columns = [Column("Note"), Column("System", numeric=False, heads_row=True), Column("Version", numeric=False)]
    columns += [Column("Quality", numeric=False), Column("Durability contract", numeric=False)]
    columns.append(Column("Settings", numeric=False))
    return Table("The number of a contract stands beside every figure that was measured under it.", columns, rows)


def coverage_section(material: Material, documents: Mapping[str, Document]) -> Section:
    """All scenarios, whatever became of them."""
    rows = []
    for name, scenario in material.scenarios.items():
        found = material.coverage(name)
        rows.append(
            [
                Cell([Link(name, f"#{slug(name)}")]),
                Cell(scenario.title, listed(scenario.shows)),
                Cell(BADGES[found.badge], kind="mark" if found.badge == "failed" else "value"),
                Cell(f"{found.measured} of {found.points}"),
                Cell(str(found.reduced) if found.reduced else "–"),
                Cell(listed(material.short_title_of(system) for system in found.systems) if found.systems else "–"),
                Cell(why(material, name)),
            ]
        )
    columns = [
        Column("Scenario", numeric=False, heads_row=True),
        Column("Title", numeric=False, detail="redraws"),
        Column("Status", numeric=False),
        Column("Points"),
        Column("Reduced"),
        Column("Systems", numeric=False),
        Column("Why not more", numeric=False),
    ]
    caption = f"All {len(rows)} scenarios of the {len(documents)} documents."
    table = Table(caption, columns, rows)
    return Section("coverage", "Coverage", [Section("coverage-table", "Every scenario, and what became of it", [table], 3, "open" if len(rows) <= 40 else "closed", contents="no")])


def why(material: Material, scenario: str) -> str:
    """Why a scenario was not measured, or not wholly."""
    found = material.coverage(scenario)
    reasons = [f"{mark.status}: {mark.reason}" for mark in found.failures]
    if not found.measured and not reasons:
        return "not among the scenarios of these runs"
    if 0 < found.measured < found.points:
        scales = sorted(set(material.findings.scales.values()))
        reasons.insert(0, f"the {listed(scales)} scale leaves points out" if "full" not in scales else "points left out")
    distinct = list(dict.fromkeys(reasons))
    return "; ".join(distinct[:3]) + (f"; and {len(distinct) - 3} more reasons" if len(distinct) > 3 else "") or "–"
