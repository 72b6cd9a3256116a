# SPDX-License-Identifier: Apache-2.0
"""The comparison in absolute numbers, a line for each scenario and quality, and what to keep in mind with it."""

from __future__ import annotations

from collections.abc import Iterator

from entrepot.workbench.analysis.findings import Figure
from entrepot.workbench.measuring.quiet import OTHERS_SHARE_MAX
from entrepot.workbench.report.appearance import is_ours
from entrepot.workbench.report.blocks import EMPTY, Cell, Column, Hyperlink, TableBlock, Text
from entrepot.workbench.report.findings_index import WEAKER, FindingsIndex
from entrepot.workbench.report.tables import GENERATOR, is_even
from entrepot.workbench.report.wording import (
    QUALITIES,
    Scale,
    count,
    described,
    has_direction,
    is_less_better,
    listed,
    name_of,
    percent,
    ratio,
    scale_for,
    slug,
    span,
)
from entrepot.workbench.systems import is_answered

_TIMES = ("response_time", "latency_p99")
_SCHEDULED = ("open-loop", "connected")


def caveats(index: FindingsIndex) -> Text:
    """What a reader of the first screen has to know, and would find at the end of the page only."""
    figures = index.findings.figures
    scales = set(index.findings.scales.values())
    sentences = [
        "Servers, load generators and Python clients share one machine: a figure is what they get out of it together."
    ]
    if scales and "full" not in scales:
        most = count(max(figure.repetitions for figure in figures), "repetition")
        sentences.append(f"At most {most} at scale {listed(sorted(scales))}: a picture, not to be quoted.")
    if any(row.other.startswith("published") for row in index.findings.comparisons):
        sentences.append("What was published is of machines of its time: a ratio to it compares whole installations.")
    disturbed = {_case(figure) for figure in figures if figure.busy}
    if disturbed:
        sentences.append(
            f"In {len(disturbed)} of {count(len({_case(figure) for figure in figures}), 'case')} other processes used "
            f"more than {percent(OTHERS_SHARE_MAX)} of the processors meanwhile (busy): do not quote these."
        )
    cases = {_case(figure): figure.bottleneck for figure in figures}
    limited = sum(verdict == GENERATOR for verdict in cases.values())
    if limited:
        sentences.append(f"In {limited} of {count(len(cases), 'case')} the load generator was the limit (≥).")
    return " ".join(sentences)


def _case(figure: Figure) -> tuple[str, str, str, str]:
    return (figure.host, figure.scenario, figure.point, figure.system)


def glance_table(index: FindingsIndex, host: str) -> TableBlock | None:
    """None when nothing was measured on this host."""
    rows = []
    names = [name for name in (*index.scenarios, *index.own) if index.figures(name)]
    for scenario in names:
        for point in _chosen(index, host, scenario):
            row = _row(index, host, scenario, point)
            if row:
                rows.append(row)
    if not rows:
        return None
    columns = [Column("Scenario", numeric=False, heads_row=True, detail="what was measured, at which point")]
    columns += [Column("Published", detail="the best"), Column("Entrepot", detail="the best"), Column("Best peer")]
    columns += [Column("÷ published", group="Entrepot"), Column("÷ best peer", group="Entrepot")]
    # Of loads of one's own nothing was published, and a run may have no peers.
    kept = [place for place in range(len(columns)) if any(row[place] is not EMPTY for row in rows)]
    return TableBlock(
        "At a glance: a point or two of each scenario and quality; all others, and all systems, stand below. Small "
        "numbers are the durability contracts, explained with the systems. Peers that promise less are left out.",
        [columns[place] for place in kept],
        [[row[place] for place in kept] for row in rows],
    )


def _chosen(index: FindingsIndex, host: str, scenario: str) -> Iterator[str]:
    """Of each quality a point that was published and one with peers, of those that quick runs keep, too."""
    measured = {figure.point for figure in index.figures(scenario) if figure.host == host}
    found = index.find(scenario)
    quick = {point.key for point in found.quick_points()} if found else set()
    published = {row.point for row in index.published(scenario)}
    points = [point for point in index.points(scenario) if point in measured]
    if scenario in index.own:
        yield from points
        return
    points.sort(key=lambda point: (point not in published, point not in quick))
    by_quality: dict[str, list[str]] = {}
    for point in points:
        by_quality.setdefault(index.parameters(scenario, point).get("quality", ""), []).append(point)
    with_peers = {figure.point for figure in index.figures(scenario) if not is_ours(figure.system)}
    for first, *others in by_quality.values():
        yield first
        # The documents' peak is not always where the peers were measured.
        if first not in with_peers:
            yield from [point for point in others if point in with_peers][:1]


def _metric(index: FindingsIndex, scenario: str, point: str) -> str:
    """What tells systems apart: where a schedule sets the rate, the time that it took."""
    found = index.find(scenario)
    if index.is_rated(scenario, point) or (found and found.load in _SCHEDULED):
        measured = {figure.metric for figure in index.figures(scenario)}
        return next((metric for metric in _TIMES if metric in measured), index.main_metric(scenario))
    return index.main_metric(scenario)


def _row(index: FindingsIndex, host: str, scenario: str, point: str) -> list[Cell] | None:
    metric = _metric(index, scenario, point)
    found = [
        row for system in index.systems(scenario, host) if (row := index.figure(host, scenario, point, system, metric))
    ]
    if not found:
        return None
    printed = [row for row in index.published(scenario, metric) if row.point == point]
    scale = scale_for(found[0].unit, [*(row.value for row in found), *(row.value for row in printed)])
    best = min if is_less_better(metric) else max
    ours = best((row for row in found if is_ours(row.system) and not is_answered(row.system)), key=_value, default=None)
    peers = [row for row in found if not is_ours(row.system) and not row.contract.startswith(WEAKER)]
    peer = best(peers, key=_value, default=None)
    published = best(printed, key=lambda row: row.value, default=None)
    definition = index.find(scenario)
    less = ", less is better" if is_less_better(metric) else ""
    quality, label = index.parameters(scenario, point).get("quality", ""), index.label(scenario, point)
    at = label if quality in label else f"{QUALITIES.get(quality, quality)}{', ' if label else ''}{label}"
    if scenario in index.own:
        at = described(list(index.parameters(scenario, point).items()))
    return [
        Cell(
            [Hyperlink(scenario, f"#{slug(scenario)}"), f" {definition.title}" if definition else ""],
            f"{name_of(metric)}, {scale.unit}{less}; {at}",
        ),
        Cell(scale.write(published.value), published.system) if published else EMPTY,
        _measured(index, host, ours, scale),
        _measured(index, host, peer, scale),
        *(_ratio(index, host, ours, is_published) for is_published in (True, False)),
    ]


def _value(figure: Figure) -> float:
    return figure.value


def _measured(index: FindingsIndex, host: str, figure: Figure | None, scale: Scale) -> Cell:
    if figure is None:
        return EMPTY
    is_least = figure.bottleneck == GENERATOR and has_direction(figure.metric) and not is_less_better(figure.metric)
    is_estimate = index.is_estimate(host, figure.scenario, figure.point, figure.system, figure.metric)
    signs = [*("≥" for _ in range(is_least)), *("about" for _ in range(is_estimate))]
    contract = index.contracts.get((figure.system, figure.quality))
    name = index.short_title_of(figure.system).removeprefix("Entrepot, ")
    marks = [*([str(contract)] if contract else []), *("busy" for _ in range(bool(figure.busy)))]
    return Cell(" ".join([*signs, scale.write(figure.value)]), name, marks)


def _ratio(index: FindingsIndex, host: str, figure: Figure | None, is_published: bool) -> Cell:
    if figure is None or not has_direction(figure.metric):
        return EMPTY
    row = index.best(host, figure.scenario, figure.point, figure.system, figure.metric, is_published)
    if row is None:
        return EMPTY
    signs = [*("reduced" for _ in range(bool(row.reduced))), *("busy" for _ in range(index.is_busy(row)))]
    return Cell(
        f"{'≈ ' if is_even(row) else ''}{ratio(row.ratio)}",
        span(row.low, row.high) if row.high > row.low else "",
        signs,
    )
