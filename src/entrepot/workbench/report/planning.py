# SPDX-License-Identifier: Apache-2.0
"""Capacity planning: what a message costs, and what a rate would need, from the findings' capacity rows alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from entrepot.workbench.analysis.capacity import TARGET_UTILISATION, cores_needed, peak_clients, utilisation, waiting_ms
from entrepot.workbench.analysis.findings import Capacity
from entrepot.workbench.report.appearance import is_ours
from entrepot.workbench.report.blocks import (
    Block,
    Cell,
    Column,
    Hyperlink,
    Paragraph,
    Section,
    TableBlock,
    heads,
    table,
    words,
)
from entrepot.workbench.report.findings_index import FindingsIndex
from entrepot.workbench.report.notes import Letters
from entrepot.workbench.report.wording import count, number, percent, slug
from entrepot.workbench.systems import is_answered

RATES_PER_S = (200.0, 2_000.0, 20_000.0)
"""What the reader may want: a department, the question of the documents' readers, a large site."""

WAIT_MS_MIN = 0.001


@dataclass(frozen=True, slots=True)
class ResourceNeed:
    """What a rate needs of one system at one point."""

    rate_per_s: float
    cores: float
    """At the target utilisation, so with room to spare."""
    servers: int
    """How many like the measured one, each busy no more than the target allows."""
    wait_ms: float
    """Mean, for arrivals at random, when the load is divided evenly."""
    warnings: tuple[str, ...]


def need_of(capacity: Capacity, rate_per_s: float) -> ResourceNeed:
    """Utilisation law and M/G/1 (M/G/k where one server does not do)."""
    servers = max(1, math.ceil(utilisation(rate_per_s, capacity.service_ms) / TARGET_UTILISATION))
    cores = cores_needed(rate_per_s, capacity.cpu_ms_per_message)
    warnings = []
    if rate_per_s > capacity.rate_max_per_s:
        warnings.append("more than the highest rate that was measured")
    if servers > 1:
        warnings.append("the load would have to be divided, which was not measured")
    if cores > capacity.cores:
        warnings.append(f"more cores than the {capacity.cores} of this machine")
    if capacity.scalability is not None and servers > 1:
        _, contention, crosstalk = capacity.scalability
        peak = peak_clients(contention, crosstalk)
        if math.isfinite(peak):
            warnings.append(f"the scalability law sees no gain beyond {number(peak, 2)} clients")
    wait = waiting_ms(rate_per_s, capacity.service_ms, capacity.service_variation, servers)
    return ResourceNeed(rate_per_s, cores, servers, wait, tuple(warnings))


def planning_section(index: FindingsIndex) -> Section | None:
    """None when no trial told what a message costs."""
    capacities = index.findings.capacities
    rows = [row for row in capacities if row.cpu_ms_per_message > 0 and not is_answered(row.system)]
    if not rows:
        return None
    order = list(index.scenarios)
    rows.sort(
        key=lambda row: (
            order.index(row.scenario) if row.scenario in order else len(order),
            index.points(row.scenario).index(row.point),
            index.place_of_system(row.system),
        )
    )
    ours = [row for row in rows if is_ours(row.system)]
    blocks: list[Block] = [
        Paragraph(
            "Cores are the server's alone, by the utilisation law: rate × CPU per message ÷ "
            f"{percent(TARGET_UTILISATION)}. Waiting is the mean before service for arrivals at random: M/G/1 with the "
            "measured service time, and M/G/k by Erlang's formula where more than one server is needed. "
            "A message is what the scenario counts: a delivery, or a request with its reply. "
            "These are models: a rate above the measured one is a guess, and says so."
        )
    ]
    if ours:
        blocks.append(_needs_table(index, ours))
    peers = [row for row in rows if not is_ours(row.system)]
    if peers:
        blocks.append(
            Section(
                "planning-peers", "The same for the peers", [_needs_table(index, peers)], 3, "closed", contents="no"
            )
        )
    fits = list(dict.fromkeys((row.scenario, row.system, row.scalability, row.scalability_note) for row in rows))
    fits = [fit for fit in fits if fit[2] is not None or fit[3]]
    if fits:
        blocks.append(
            Section("planning-fits", "Scalability law", [_fits_table(index, fits)], 3, "closed", contents="no")
        )
    return Section("planning", "Capacity planning", blocks)


def _needs_table(index: FindingsIndex, rows: Sequence[Capacity]) -> TableBlock:
    columns = [heads("Scenario"), heads("System"), Column("CPU per message", detail="ms")]
    columns.append(Column("Highest rate", detail="measured, per s"))
    for rate in RATES_PER_S:
        group = f"{rate:,.0f} msg/s"
        columns += [Column("Cores", group), Column("Servers", group), Column("Wait", group, detail="ms")]
    letters = Letters()
    body = []
    for row in rows:
        found = index.find(row.scenario)
        title = found.title if found else row.scenario
        label = index.label(row.scenario, row.point)
        cells: list[Cell | str | None] = [
            Cell([Hyperlink(row.scenario, f"#{slug(row.scenario)}")], f"{title}: {label}" if label else title),
            index.short_title_of(row.system),
            number(row.cpu_ms_per_message),
            number(row.rate_max_per_s),
        ]
        for rate in RATES_PER_S:
            need = need_of(row, rate)
            signs = [letters.letter(f"{text[:1].upper()}{text[1:]}.") for text in need.warnings]
            cells.append(Cell(number(need.cores, 2), marks=signs))
            cells += [str(need.servers), _wait(need.wait_ms) if math.isfinite(need.wait_ms) else None]
        body.append(cells)
    caption = (
        f"What a rate needs: {count(len(rows), 'measured case')}, cores at {percent(TARGET_UTILISATION)} utilisation."
    )
    return table(caption, columns, body, letters.all())


def _wait(wait_ms: float) -> str:
    """A model that says nanoseconds says that nothing waits."""
    return number(wait_ms, 2) if wait_ms == 0 or wait_ms >= WAIT_MS_MIN else f"< {WAIT_MS_MIN:g}"


def _fits_table(
    index: FindingsIndex, fits: Sequence[tuple[str, str, tuple[float, float, float] | None, str]]
) -> TableBlock:
    columns = [heads("Scenario"), heads("System"), Column("λ", detail="msg/s per client")]
    columns += [Column("α", detail="contention"), Column("β", detail="crosstalk"), words("Note")]
    body = [
        [scenario, index.short_title_of(system), *(map(number, law) if law else [None] * 3), note or "–"]
        for scenario, system, law, note in fits
    ]
    return table("X(N) = λN / (1 + α(N − 1) + βN(N − 1)), fitted below hard caps only.", columns, body)
