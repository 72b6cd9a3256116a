# SPDX-License-Identifier: Apache-2.0
"""From the runs' folders to `Findings`: two Spark jobs over everything, and their few rows put into words.

The rows of trials are kept in memory between the two, as each of them is
the outcome of reading all of a trial's messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from entrepot.workbench.analysis.capacities import capacities
from entrepot.workbench.analysis.comparing import figures_and_ratios, ratios_to_published, require_one_host
from entrepot.workbench.analysis.findings import (
    Accounting,
    Comparison,
    Figure,
    Findings,
    Mark,
    Moment,
    Probe,
    Published,
    SystemSeen,
)
from entrepot.workbench.analysis.published import placed_rows, published
from entrepot.workbench.analysis.reading import Tables, naming_broken_files, read
from entrepot.workbench.analysis.trial_rows import trial_rows
from entrepot.workbench.measuring.record import TrialRecord

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

Records = Mapping[str, TrialRecord]
Key = tuple[str, str, str, str]
"""Host, scenario, point, system."""


def find_all(spark: SparkSession, runs: Sequence[Path], *, apart: bool) -> Findings:
    tables = read(spark, runs)
    if not apart:
        require_one_host(tables.run_records)
    rows = trial_rows(spark, tables).persist()
    try:
        with naming_broken_files():
            told = rows.collect()
            measured = figures_and_ratios(rows, tables).persist()
            compared = measured.union(ratios_to_published(measured, published(spark))).collect()
            measured.unpersist()
    finally:
        rows.unpersist()
    return _findings(tables, _by_kind(told), compared)


def _findings(tables: Tables, rows: Mapping[str, list[Row]], compared: list[Row]) -> Findings:
    records = tables.records
    # Of a search, the probes that were too much for the system show what limits it.
    borne = {row["trial"] for row in rows.get("probe", ()) if row["name"] != "not_sustained"}
    verdicts = {
        row["trial"]: (str(row["name"]), str(row["text"]))
        for row in rows.get("verdict", ())
        if row["trial"] not in borne
    }
    figures = _figures(records, compared, verdicts)
    giving = {row["trial"] for row in rows.get("metric", ())}
    return Findings(
        runs=tuple(run.run for run in tables.run_records),
        environments={run.host: run.environment for run in tables.run_records},
        scales={run.run: run.scale for run in tables.run_records},
        begun={run.run: run.begun for run in tables.run_records},
        figures=figures,
        comparisons=_comparisons(records, compared),
        moments=tuple(_moment(records[row["trial"]], row) for row in _in_order(rows.get("moment", ()))),
        probes=tuple(_probe(records[row["trial"]], row) for row in _in_order(rows.get("probe", ()))),
        capacities=capacities(figures, tables.run_records),
        marks=tuple(_mark(records[row["trial"]], row) for row in _in_order(rows.get("mark", ()))),
        published=tuple(
            Published(scenario, point, row.system, row.metric, row.value, row.unit)
            for row, (scenario, point) in placed_rows()
        ),
        absent={system: why for run in tables.run_records for system, why in run.absent.items()},
        systems=_systems(records.values()),
        accounting=_accounting([row for row in rows.get("account", ()) if row["trial"] in giving]),
        loads=_counted(records[trial].load for trial in sorted(giving)),
    )


def _by_kind(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["kind"], []).append(row)
    return found


def _in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["trial"], row["number"] or 0))


def _figures(records: Records, rows: list[Row], verdicts: Mapping[str, tuple[str, str]]) -> tuple[Figure, ...]:
    trials: dict[Key, list[TrialRecord]] = {}
    for record in records.values():
        if record.status == "measured":
            trials.setdefault((record.host, record.scenario, record.point, record.system), []).append(record)
    found = []
    for row in rows:
        if row["other"] is not None:
            continue
        of_figure = trials[row["host"], row["scenario"], row["point"], row["system"]]
        # The last trial speaks for the others; of a search, the record that tells what its probes found.
        last = max(of_figure, key=lambda record: (record.run, record.repetition, record.probe == 0))
        bottleneck, evidence = _common_verdict(of_figure, verdicts)
        found.append(
            Figure(
                host=last.host,
                scenario=last.scenario,
                point=last.point,
                parameters=last.parameters,
                system=last.system,
                title=last.title,
                quality=last.quality,
                contract=last.contract,
                metric=row["metric"],
                unit=row["unit"],
                value=row["value"],
                low=row["low"],
                high=row["high"],
                repetitions=len(row["samples"]),
                reduced=last.reduced,
                bottleneck=bottleneck,
                evidence=evidence,
                load=last.load,
                offered_per_s=last.offered_per_s,
                busy=_busy(of_figure),
                samples=tuple(row["samples"]),
            )
        )
    return tuple(
        sorted(found, key=lambda figure: (figure.host, figure.scenario, figure.point, figure.system, figure.metric))
    )


def _busy(records: Sequence[TrialRecord]) -> str:
    """The mark of the trial that was disturbed most, and how many were."""
    marked = [record for record in records if record.busy]
    if not marked:
        return ""
    worst = max(marked, key=lambda record: record.others_share or 0.0).busy
    return worst if len(records) == 1 else f"{worst}, in {len(marked)} of {len(records)} trials"


def _common_verdict(records: list[TrialRecord], verdicts: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """What most repetitions say, with the evidence of the last that says so; and that they do not agree, if so."""
    found = [verdicts[record.trial] for record in records if record.trial in verdicts]
    if not found:
        return "unknown", "nothing was sampled"
    counted = _counted(name for name, _ in found)
    name = max(counted, key=lambda each: counted[each])
    evidence = [text for each, text in found if each == name][-1]
    others = ", ".join(each for each in counted if each != name)
    return name, f"{evidence} (in {counted[name]} of {len(found)} trials; others: {others})" if others else evidence


def _comparisons(records: Records, rows: list[Row]) -> tuple[Comparison, ...]:
    reduced = {
        (record.host, record.scenario, record.point, record.system): record.reduced for record in records.values()
    }
    found = [
        Comparison(
            host=row["host"],
            scenario=row["scenario"],
            point=row["point"],
            metric=row["metric"],
            unit=row["unit"],
            system=row["system"],
            other=row["other"],
            value=row["value"],
            other_value=row["other_value"],
            ratio=row["value"] / row["other_value"],
            low=row["low"],
            high=row["high"],
            reduced=reduced[row["host"], row["scenario"], row["point"], row["system"]],
        )
        for row in rows
        if row["other"] is not None
    ]
    return tuple(sorted(found, key=lambda one: (one.host, one.scenario, one.point, one.system, one.metric, one.other)))


def _moment(record: TrialRecord, row: Row) -> Moment:
    sent, received, depth, latency, cpu = row["values"]
    return Moment(
        trial=record.trial,
        scenario=record.scenario,
        point=record.point,
        system=record.system,
        repetition=record.repetition,
        second=row["number"],
        sent_per_s=sent,
        received_per_s=received,
        depth=depth,
        latency_p50_s=latency,
        server_cpu_percent=cpu,
        host=record.host,
    )


def _probe(record: TrialRecord, row: Row) -> Probe:
    offered, delivered, slope, latency, lost, sustained = row["values"]
    return Probe(
        trial=record.trial,
        scenario=record.scenario,
        point=record.point,
        system=record.system,
        repetition=record.repetition,
        probe=record.probe,
        offered_per_s=offered,
        delivered_per_s=delivered,
        depth_slope_per_s=slope,
        latency_p99_s=latency,
        lost=int(lost),
        sustained=bool(sustained),
        evidence=row["text"],
        host=record.host,
    )


def _mark(record: TrialRecord, row: Row) -> Mark:
    where = (record.trial, record.scenario, record.point, record.system)
    return Mark(*where, row["name"], row["text"], host=record.host)


def _systems(records: Iterable[TrialRecord]) -> tuple[SystemSeen, ...]:
    seen = {
        (record.host, record.system, record.version, record.quality): SystemSeen(
            record.host,
            record.system,
            record.title,
            record.version,
            record.quality,
            record.contract,
            record.settings,
        )
        for record in records
        # One that never started has told neither its version nor its settings.
        if record.version
    }
    return tuple(seen[key] for key in sorted(seen))


def _accounting(rows: list[Row]) -> Accounting:
    totals = [int(sum(column)) for column in zip(*(row["values"] for row in rows), strict=True)] or [0] * 6
    return Accounting(len(rows), *totals)


def _counted(names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return found
