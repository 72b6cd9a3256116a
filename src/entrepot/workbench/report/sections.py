# SPDX-License-Identifier: Apache-2.0
"""A section for each document, and in it one for each scenario; those without measurements are folded away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from entrepot.workbench.report.blocks import (
    Block,
    BulletList,
    CodeBlock,
    CodeLines,
    Fold,
    Paragraph,
    Section,
    Strong,
    Text,
    with_code,
)
from entrepot.workbench.report.charts import Chooser
from entrepot.workbench.report.coverage import why
from entrepot.workbench.report.documents import ReportDocument
from entrepot.workbench.report.findings_index import FindingsIndex
from entrepot.workbench.report.tables import CaseTable, metric_table, probe_table
from entrepot.workbench.report.wording import count, listed, slug
from entrepot.workbench.scenario import Scenario

_ROWS_OPEN_MAX = 6
"""A longer table of verdicts is folded, or it would bury the figures."""
_OPENING = """\
from entrepot.spark import open_session

spark = open_session(app="report")  # or any SparkSession of yours
sent = spark.read.parquet("RUN/trials/*/sent.parquet")          # a row for each message sent
received = spark.read.parquet("RUN/trials/*/received.parquet")  # a row for each message received
waits = received.join(sent, ["trial", "sender", "number"])
waits.selectExpr("trial", "(received_ns - intended_ns) / 1e6 AS wait_ms") \\
     .groupBy("trial").agg({"wait_ms": "avg"}).show()"""


def document_sections(index: FindingsIndex, documents: Mapping[str, ReportDocument]) -> Iterator[Section]:
    for folder, document in documents.items():
        scenarios = [scenario for name, scenario in index.scenarios.items() if name.partition("/")[0] == folder]
        if not scenarios:
            continue
        measured = sum(bool(index.coverage(scenario.name).measured) for scenario in scenarios)
        lead = Paragraph(f"{measured} of {count(len(scenarios), 'scenario')} measured.", "aside")
        blocks = [_scenario(index, scenario) for scenario in scenarios]
        yield Section(
            folder, f"{document.title} ({document.year})", [lead, *blocks], short=f"{document.short}, {document.year}"
        )


def own_section(index: FindingsIndex) -> Section | None:
    """Loads that no document has; None without any."""
    if not index.own:
        return None
    lead = Paragraph(
        with_code(
            "Loads with parameters of one's own, of `entrepot bench send` and the like: nothing was published of them. "
            "Systems are compared where all parameters are the same."
        ),
        "aside",
    )
    return Section("own", "Loads of one's own", [lead, *(_scenario(index, each) for each in index.own.values())])


def _scenario(index: FindingsIndex, scenario: Scenario) -> Section:
    found = index.coverage(scenario.name)
    blocks: list[Block] = []
    if scenario.differs:
        blocks.append(Paragraph([Strong("How ours differs."), f" {scenario.differs}"], "aside"))
    hosts = index.hosts if found.measured or found.failures else index.hosts[:1] or [""]
    for host in hosts:
        inside = list(_on_host(index, host, scenario.name))
        if len(hosts) > 1 and inside:
            inside = [Section(f"{slug(scenario.name)}-{slug(host)}", f"On {host}", inside, 4, contents="no")]
        blocks += inside
    if found.failures:
        blocks.append(_marks(index, scenario.name))
    is_shown = bool(found.measured)
    return Section(
        slug(scenario.name),
        f"{scenario.name}: {scenario.title}",
        blocks,
        3,
        "open" if is_shown else "closed",
        aside="" if is_shown else why(index, scenario.name),
        contents="yes" if is_shown else "no",
        badge=found.badge,
        extra=[listed(scenario.shows)] if scenario.shows else [],
    )


def _on_host(index: FindingsIndex, host: str, scenario: str) -> Iterator[Block]:
    yield from Chooser(index, host, scenario).drawings()
    tables = [metric_table(index, host, scenario, metric) for metric in index.metrics(scenario)]
    known: set[tuple[str, str]] = set()
    for table in filter(None, tables):
        # The signs stay; what they mean is said once.
        yield replace(table, notes=[note for note in table.notes if note not in known or not note[0].isdigit()])
        known.update(table.notes)
    cases = CaseTable(index, host, scenario)
    verdicts = cases.verdicts()
    place = f"{slug(scenario)}-{slug(host)}"
    if verdicts and len(verdicts.rows) <= _ROWS_OPEN_MAX:
        yield verdicts
    elif verdicts:
        yield Section(f"{place}-verdicts", "What held it back", [verdicts], 4, "closed", contents="no")
    probes = probe_table(index, scenario)
    if probes and host == index.hosts[0]:
        yield Section(f"{place}-probes", "Every probe of the search", [probes], 4, "closed", contents="no")
    own = list(cases.own())
    if own:
        # Nothing of a load of one's own stands in a document's table, so all of it is what was asked for.
        fold: Fold = "open" if scenario in index.own else "closed"
        yield Section(f"{place}-more", "Latency, cost and accounts", own, 4, fold, contents="no")


def _marks(index: FindingsIndex, scenario: str) -> Section:
    items: list[Text] = [
        [
            Strong(mark.status),
            f" {index.short_title_of(mark.system)}, {index.label(scenario, mark.point) or 'the only point'}: "
            f"{mark.reason} (",
            CodeBlock(mark.trial),
            ")",
        ]
        for mark in index.marks(scenario)
    ]
    title = f"{count(len(items), 'trial')} without a figure"
    fold: Fold = "open" if len(items) <= _ROWS_OPEN_MAX else "closed"
    return Section(f"{slug(scenario)}-marks", title, [BulletList(items)], 4, fold, contents="no")


def raw_section(index: FindingsIndex) -> Section:
    runs = index.findings.runs
    named = ", ".join(f"`{run}`" for run in runs)
    blocks: list[Block] = [
        Paragraph(
            with_code(
                f"All figures were computed from the raw observations of {count(len(runs), 'run')}: {named}. "
                "A run is a folder with `run.json` and, for each trial, `trials/TRIAL/trial.json` beside "
                "`sent.parquet`, "
                "`received.parquet`, `samples.parquet` and, where calls were timed, `calls.parquet`. "
                "The schema is in `docs/WORKBENCH.md`. To look at them yourself:"
            )
        ),
        CodeLines(_OPENING, "python"),
        Paragraph(with_code("To make this report again: `entrepot report RUN… -o report/` with their folders.")),
    ]
    return Section("raw", "Raw observations", blocks)
