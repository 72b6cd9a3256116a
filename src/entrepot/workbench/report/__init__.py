# SPDX-License-Identifier: Apache-2.0
"""The report: the documents' tables and figures drawn again, as one HTML page and as Markdown.

`findings_index` finds findings by their keys, the builders (`summary`, `glance`,
`promises`, `sections`, `tables`, `charts`, `methods`, `planning`) turn them into `blocks`, and
`html` and `markdown` write those. The same findings give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from entrepot.errors import ReportImpossible
from entrepot.workbench.analysis.findings import Findings
from entrepot.workbench.scenario import Scenario

if TYPE_CHECKING:
    from entrepot.workbench.report.blocks import Block, Text
    from entrepot.workbench.report.findings_index import FindingsIndex

__all__ = ["write_report"]

TITLE = "Entrepot: the published measurements, made again"
TITLE_OWN = "Entrepot: loads of one's own"


def write_report(findings: Findings, scenarios: Mapping[str, Scenario], target: Path) -> Path:
    """Leave index.html and report.md in `target`; the page needs no other file and no network.

    Raises:
        ReportImpossible: There are no runs, matplotlib is missing, or `target` cannot be written. Nothing was
            written, or an earlier report is whole.
    """
    if not findings.runs:
        raise ReportImpossible(str(target), "there are no runs")
    try:
        from entrepot.workbench.report.findings_index import FindingsIndex
        from entrepot.workbench.report.html import render_page
        from entrepot.workbench.report.markdown import render_markdown

        index = FindingsIndex(findings, scenarios)
        intro, blocks = _intro(index), _blocks(index)
    except ModuleNotFoundError as error:
        raise ReportImpossible(
            str(target), f"Python module {error.name} is not installed: pip install 'entrepot[bench]'"
        ) from error
    page = target / "index.html"
    try:
        target.mkdir(parents=True, exist_ok=True)
        title = TITLE if index.has_documents else TITLE_OWN
        _write(target / "report.md", render_markdown(title, intro, blocks))
        _write(page, render_page(title, intro, blocks))
    except OSError as error:
        raise ReportImpossible(str(target), f"it cannot be written: {error.strerror}") from error
    return page


def _write(path: Path, text: str) -> None:
    """Whole or not at all, so that a full disk leaves the report that was there."""
    written = path.with_suffix(".new")
    try:
        written.write_text(text, "utf-8")
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)


def _blocks(index: FindingsIndex) -> list[Block]:
    from entrepot.workbench.report.coverage import coverage_section
    from entrepot.workbench.report.documents import documents
    from entrepot.workbench.report.methods import methods_section
    from entrepot.workbench.report.planning import planning_section
    from entrepot.workbench.report.sections import document_sections, own_section, raw_section
    from entrepot.workbench.report.summary import summary_section

    known = documents()
    has_documents = index.has_documents
    sections = [
        summary_section(index, known),
        own_section(index),
        coverage_section(index, known) if has_documents else None,
        *(document_sections(index, known) if has_documents else ()),
        planning_section(index),
        methods_section(index),
        raw_section(index),
    ]
    return [section for section in sections if section]


def _intro(index: FindingsIndex) -> list[Text]:
    """Where, when and how thoroughly."""
    findings = index.findings
    places = []
    for host in index.hosts:
        environment = findings.environments.get(host, {})
        parts = [environment.get("host") or host, environment.get("cpu", "")]
        parts += [f"{environment['cores']} cores"] if "cores" in environment else []
        parts += [f"{environment['memory_gib']} GiB"] if "memory_gib" in environment else []
        places.append(", ".join(part for part in parts if part))
    days = sorted({begun[:10] for begun in findings.begun.values()})
    when = [f"Measured {days[0]}" if len(days) == 1 else f"Measured {days[0]} to {days[-1]}"] if days else []
    scales = sorted(set(findings.scales.values()))
    how = [f"scale {', '.join(scales)}"] if scales else []
    return [" · ".join([*when, *how, *places])]
