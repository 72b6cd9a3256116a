# SPDX-License-Identifier: Apache-2.0
"""The first screen: where and when, what was measured, how it compares, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from entrepot.workbench.analysis.findings import FigureComparison
from entrepot.workbench.report import drawing
from entrepot.workbench.report.appearance import INK, is_ours, look_of
from entrepot.workbench.report.blocks import (
    EMPTY,
    Block,
    BulletList,
    Cell,
    Column,
    Drawing,
    FactList,
    Hyperlink,
    Paragraph,
    Section,
    TableBlock,
    Text,
    Tile,
    Tiles,
    heads,
    words,
)
from entrepot.workbench.report.documents import ReportDocument
from entrepot.workbench.report.findings_index import PUBLISHED, FindingsIndex
from entrepot.workbench.report.glance import caveats, glance_table
from entrepot.workbench.report.promises import promises_section
from entrepot.workbench.report.wording import (
    QUALITIES,
    count,
    is_less_better,
    listed,
    number,
    ratio,
    slug,
    span,
    spread,
)
from entrepot.workbench.systems import base_name, is_answered

_MACHINE = {
    "cpu": "Processor",
    "cores": "Cores",
    "memory_gib": "Memory",
    "kernel": "Linux",
    "file_system": "File system",
    "force_ms_median": "Disk force, median",
    "force_ms_max": "Disk force, longest of 50",
    "write_bytes_per_s": "Disk bandwidth",
    "loopback_bytes_per_s": "Loopback, of a core at each end",
    "python": "Python",
    "java": "Java",
    "commit": "Entrepot's commit",
}
_FAILURES_SHOWN = 8
_SCHEDULED = ("open-loop", "connected", "calls")


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
    is_estimate: bool = False
    """A rate in it is what a search found before it was sure."""
    busy_points: int = 0
    """At how many points one of the two was measured on a busy machine."""


def mean_ratio(rows: Sequence[FigureComparison]) -> tuple[float, float, float]:
    """Geometric mean and its interval.

    The points are independent trials, so the squared half-widths of their
    logarithms add up, and the mean's is their root by the number of points.
    """
    logs = [math.log(row.ratio) for row in rows]
    below = math.sqrt(sum((log - math.log(row.low)) ** 2 for log, row in zip(logs, rows, strict=True))) / len(rows)
    above = math.sqrt(sum((math.log(row.high) - log) ** 2 for log, row in zip(logs, rows, strict=True))) / len(rows)
    middle = sum(logs) / len(logs)
    return math.exp(middle), math.exp(middle - below), math.exp(middle + above)


def ratios(index: FindingsIndex, host: str) -> list[Ratio]:
    """Of each scenario's throughput, the best of ours against the best of the others in any form, point by point.

    A rate that a schedule sets says nothing about speed, and a reduced case is not what was published: both are left
    out, as is whatever is no throughput.
    """
    found: dict[tuple[str, str, bool], list[FigureComparison]] = {}
    for scenario, definition in index.scenarios.items():
        metric = index.main_metric(scenario)
        if not metric or is_less_better(metric) or definition.load in _SCHEDULED:
            continue
        for point in index.points(scenario):
            if index.is_rated(scenario, point):
                continue
            for is_published in (True, False):
                rows = [
                    row
                    for system in index.systems(scenario, host)
                    if is_ours(system)
                    and not is_answered(system)
                    and (row := index.best(host, scenario, point, system, metric, is_published)) is not None
                    and not row.reduced
                ]
                if rows and min(row.low for row in rows) > 0:
                    best = max(rows, key=lambda row: row.value)
                    quality = index.parameters(scenario, point).get("quality", "")
                    found.setdefault((scenario.partition("/")[0], quality, is_published), []).append(best)
    answers = []
    for (document, quality, is_published), rows in found.items():
        value, low, high = mean_ratio(rows)
        single = [row.ratio for row in rows]
        others = dict.fromkeys(row.other for row in rows)
        ends = (value, low, high, min(single), max(single))
        unsure = any(index.is_estimate(host, row.scenario, row.point, row.system, row.metric) for row in rows)
        busy = sum(index.is_busy(row) for row in rows)
        answers.append(Ratio(document, quality, is_published, *ends, len(rows), tuple(others), unsure, busy))
    return answers


def summary_section(index: FindingsIndex, documents: Mapping[str, ReportDocument]) -> Section:
    blocks: list[Block] = [_tiles(index)]
    if index.findings.figures:
        blocks.append(Paragraph(caveats(index), "aside"))
    else:
        blocks.append(Paragraph("No trial gave a figure; what follows is what was published.", "warning"))
    for host in index.hosts:
        if len(index.hosts) > 1:
            blocks.append(Paragraph(f"On {host}:"))
        found = ratios(index, host)
        if found:
            blocks.append(_forest(index, found, documents))
        glance = glance_table(index, host)
        if glance:
            blocks.append(glance)
        if found:
            numbers = _ratio_table(index, found, documents)
            title = "The mean ratios in numbers"
            blocks.append(Section(f"ratios-{slug(host)}", title, [numbers], 4, "closed", contents="no"))
    missing = list(_missing(index))
    if missing:
        blocks.append(Section("missing", "What failed or is missing", [BulletList(missing)], 3, contents="no"))
    for host in index.hosts:
        environment = index.findings.environments.get(host, {})
        title = "The machine" if len(index.hosts) == 1 else f"The machine {host}"
        blocks.append(Section(f"machine-{slug(host)}", title, list(_machine(environment)), 3, contents="no"))
    promises = promises_section(index)
    if promises:
        blocks.append(promises)
    return Section("summary", "Summary", blocks)


def _tiles(index: FindingsIndex) -> Tiles:
    findings = index.findings
    measured = [name for name in index.scenarios if index.coverage(name).measured]
    points = {(figure.scenario, figure.point) for figure in findings.figures}
    systems = {base_name(figure.system) for figure in findings.figures}
    names = [index.short_title_of(system) for system in sorted(systems, key=index.place_of_system)]
    tiles = []
    if index.has_documents:
        own = f", {count(len(index.own), 'load')} of one's own" if index.own else ""
        scenarios = f"{len(measured)} of {len(index.scenarios)}"
        tiles.append(Tile(scenarios, "scenarios measured", count(len(points), "point") + own))
    else:
        tiles.append(Tile(str(len(points)), "point" if len(points) == 1 else "points", listed(index.own)))
    titles = listed(dict.fromkeys(name.partition(",")[0] for name in names))
    tiles.append(Tile(str(len(systems)), "system" if len(systems) == 1 else "systems", titles))
    sums = findings.accounting
    if sums.trials:
        faults = sums.lost + sums.duplicated
        detail = "none lost, none doubled" if not faults else f"{sums.lost:,} lost, {sums.duplicated:,} doubled"
        tiles.append(Tile(_large(sums.sent), "messages accounted for", detail))
    if findings.published and index.has_documents:
        compared = {
            (row.scenario, row.point, row.metric, row.other)
            for row in findings.comparisons
            if row.other.startswith(PUBLISHED)
        }
        share = f"{len(compared):,} of {len(findings.published):,}"
        tiles.append(Tile(share, "published figures compared", "why not more: coverage"))
    return Tiles(tiles)


def _large(amount: int) -> str:
    if amount >= 10_000_000:
        return f"{amount / 1e6:,.0f} million"
    return f"{amount / 1e6:,.1f} million" if amount >= 1_000_000 else f"{amount:,}"


def _forest(index: FindingsIndex, found: Sequence[Ratio], documents: Mapping[str, ReportDocument]) -> Drawing:
    panels = []
    years = sorted(document.year for document in documents.values())
    titles = ("Entrepot ÷ best peer on this machine", f"Entrepot ÷ published, {years[0]} to {years[-1]}")
    for is_published, title in zip((False, True), titles, strict=True):
        rows = [
            drawing.Range(
                f"{documents[row.document].short}, {QUALITIES.get(row.quality, row.quality)}"
                + (" (estimate)" if row.is_estimate else "")
                + (" (busy)" if row.busy_points else ""),
                ratio(row.value),
                row.value,
                row.low,
                row.high,
                row.least,
                row.most,
            )
            for row in sorted(found, key=lambda row: list(documents).index(row.document))
            if row.is_published == is_published
        ]
        if rows:
            look = INK if is_published else look_of("entrepot-unix")
            panels.append(drawing.forest(title, rows, look, "s" if is_published else "o", hollow=is_published))
    caption = (
        "How many times as fast Entrepot is: right of 1 it is faster. Markers are geometric means over points, thin "
        f"lines reach from the lowest to the highest point, thick ones are what {spread(_repetitions(index))} make "
        "of the mean."
    )
    return Drawing(caption, panels)


def _repetitions(index: FindingsIndex) -> int:
    return max(figure.repetitions for figure in index.findings.figures)


def _ratio_table(index: FindingsIndex, found: Sequence[Ratio], documents: Mapping[str, ReportDocument]) -> TableBlock:
    groups: dict[tuple[str, str], dict[bool, Ratio]] = {}
    for row in found:
        groups.setdefault((row.document, row.quality), {})[row.is_published] = row
    body = []
    for document, quality in sorted(groups, key=lambda key: list(documents).index(key[0])):
        cells = [Cell([Hyperlink(documents[document].short, f"#{document}")], QUALITIES.get(quality, quality))]
        for is_published in (False, True):
            one = groups[document, quality].get(is_published)
            cells += _ratio_cells(index, one) if one else [EMPTY] * 3
        body.append(cells)
    columns = [heads("Document", "quality")]
    for group in ("Entrepot ÷ best peer", "Entrepot ÷ published"):
        columns += [Column("Mean", group), Column("Points", group, detail="lowest to highest")]
        columns.append(words("Against", group=group))
    return TableBlock(
        f"Each scenario's throughput, geometric means over points with {spread(_repetitions(index))}. "
        "Rated, scheduled and reduced cases are left out, and peers that promise less than the quality asks for.",
        columns,
        body,
    )


def _ratio_cells(index: FindingsIndex, row: Ratio) -> list[Cell]:
    is_even = row.low < row.high and row.low <= 1 <= row.high
    return [
        Cell(
            f"{'≈ ' if is_even else ''}{'about ' if row.is_estimate else ''}{ratio(row.value)}",
            span(row.low, row.high) if row.high > row.low else "",
        ),
        Cell(
            str(row.points),
            span(row.least, row.most) if row.points > 1 else "",
            [f"{row.busy_points} busy"] if row.busy_points else [],
        ),
        Cell(listed(index.name_of_other(other) for other in row.others)),
    ]


def _missing(index: FindingsIndex) -> list[Text]:
    findings = index.findings
    texts: list[Text] = [f"{system} was asked for and is not here: {why}." for system, why in findings.absent.items()]
    by_reason: dict[tuple[str, str, str], list[str]] = {}
    for mark in findings.marks:
        # The numbers behind the colon differ from trial to trial; they stand with the scenario.
        kind = mark.reason.partition(": ")[0]
        by_reason.setdefault((mark.status, mark.system, kind), []).append(mark.scenario)
    for (status, system, reason), scenarios in list(by_reason.items())[:_FAILURES_SHOWN]:
        names = list(dict.fromkeys(scenarios))
        links = [part for name in names[:4] for part in (", ", Hyperlink(name, f"#{slug(name)}"))][1:]
        more = f" and {len(names) - 4} more scenarios" if len(names) > 4 else ""
        texts.append(
            [
                f"{count(len(scenarios), f'{status} trial')} of {index.short_title_of(system)} (",
                *links,
                f"{more}): {reason}",
            ]
        )
    if len(by_reason) > _FAILURES_SHOWN:
        texts.append(f"{len(by_reason) - _FAILURES_SHOWN} more kinds of failure are told with their scenarios.")
    missing = [name for name in index.scenarios if index.coverage(name).badge == "missing"]
    if missing and index.has_documents:
        texts.append(
            [
                f"{count(len(missing), 'scenario was', 'scenarios were')} not part of these runs: see ",
                Hyperlink("the coverage", "#coverage"),
                ".",
            ]
        )
    reduced = [name for name in index.scenarios if index.coverage(name).reduced]
    if reduced:
        texts.append(
            f"{count(len(reduced), 'scenario has', 'scenarios have')} points that this machine cannot hold as "
            "published; they are marked as reduced."
        )
    return texts


def _machine(environment: Mapping[str, str]) -> list[Block]:
    if not environment:
        return [Paragraph("Nothing was recorded of it.", "warning")]
    known = [(title, _with_unit(key, environment[key])) for key, title in _MACHINE.items() if environment.get(key)]
    rest = [(key.replace("_", " "), value) for key, value in environment.items() if key not in _MACHINE and value]
    blocks: list[Block] = [FactList(known)] if known else []
    if rest:
        anchor, title = f"more-{slug(environment.get('host', 'host'))}", "Everything that was recorded"
        blocks.append(Section(anchor, title, [FactList(rest)], 4, "closed", contents="no"))
    return blocks


def _with_unit(key: str, value: str) -> str:
    if key == "memory_gib":
        return f"{value} GiB"
    if key.startswith("force_ms"):
        return f"{value} ms"
    if key.endswith("_bytes_per_s"):
        try:
            return f"{number(float(value) / 1e6)} MB/s"
        except ValueError:
            return value
    return value
