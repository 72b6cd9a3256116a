# SPDX-License-Identifier: Apache-2.0
"""Which of all scenarios were measured, how far, and why not further."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from entrepot.workbench.report.blocks import Cell, Column, Fold, Hyperlink, Section, TableBlock, heads, table, words
from entrepot.workbench.report.documents import ReportDocument
from entrepot.workbench.report.findings_index import PUBLISHED, FindingsIndex
from entrepot.workbench.report.html import BADGES
from entrepot.workbench.report.wording import listed, slug

_ROWS_OPEN_MAX = 40
"""A longer table is folded: it is an index, and the summary stands above it."""


def coverage_section(index: FindingsIndex, documents: Mapping[str, ReportDocument]) -> Section:
    """All scenarios, whatever became of them."""
    rows: list[list[Cell | str]] = []
    for name, scenario in index.scenarios.items():
        found = index.coverage(name)
        rows.append(
            [
                Cell([Hyperlink(name, f"#{slug(name)}")]),
                Cell(scenario.title, listed(scenario.shows)),
                Cell(BADGES[found.badge], kind="mark" if found.badge == "failed" else "value"),
                f"{found.measured} of {found.points}",
                str(found.reduced or "–"),
                listed(index.short_title_of(system) for system in found.systems) or "–",
                why(index, name),
            ]
        )
    columns: list[Column | str] = [
        heads("Scenario"),
        words("Title", "redraws"),
        words("Status"),
        "Points",
        "Reduced",
        words("Systems"),
    ]
    columns.append(words("Why not more"))
    caption = f"All {len(rows)} scenarios of the {len(documents)} documents."
    fold: Fold = "open" if len(rows) <= _ROWS_OPEN_MAX else "closed"
    title = "Every scenario, and what became of it"
    every = Section("coverage-table", title, [table(caption, columns, rows)], 3, fold, contents="no")
    return Section("coverage", "Coverage", [_by_document(index, documents), every])


def _by_document(index: FindingsIndex, documents: Mapping[str, ReportDocument]) -> TableBlock:
    compared = {
        (row.scenario, row.point, row.metric, row.other.removeprefix(PUBLISHED))
        for row in index.findings.comparisons
        if row.other.startswith(PUBLISHED)
    }
    rows = []
    for folder, document in documents.items():
        names = [name for name in index.scenarios if name.partition("/")[0] == folder]
        found = Counter(index.coverage(name).badge for name in names)
        published = [row for name in names for row in index.published(name)]
        beside = sum((row.scenario, row.point, row.metric, row.system) in compared for row in published)
        rows.append(
            [
                Cell([Hyperlink(document.short, f"#{folder}")]),
                str(len(names)),
                *(str(found[badge]) if found[badge] else None for badge in BADGES),
                f"{beside:,} of {len(published):,}",
            ]
        )
    columns: list[Column | str] = [heads("Document"), "Scenarios", *(text.capitalize() for text in BADGES.values())]
    columns.append(Column("Published figures", detail="with ours beside them"))
    return table("Scenarios of each document by what became of them.", columns, rows)


def why(index: FindingsIndex, scenario: str) -> str:
    """Why a scenario was not measured, or not wholly."""
    found = index.coverage(scenario)
    reasons = [f"{mark.status}: {mark.reason}" for mark in found.failures]
    if not found.measured and not reasons:
        return "not among the scenarios of these runs"
    if 0 < found.measured < found.points:
        scales = sorted(set(index.findings.scales.values()))
        reasons.insert(
            0, f"the {listed(scales)} scale leaves points out" if "full" not in scales else "points left out"
        )
    distinct = list(dict.fromkeys(reasons))
    return "; ".join(distinct[:3]) + (f"; and {len(distinct) - 3} more reasons" if len(distinct) > 3 else "") or "–"
