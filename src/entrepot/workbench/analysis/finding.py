# SPDX-License-Identifier: Apache-2.0
"""From the runs' folders to `Findings`: two Spark jobs, over all trials and over all figures, and their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from entrepot.workbench.analysis.capacities import capacities
from entrepot.workbench.analysis.comparing import figures_and_ratios, ratios_to_published, require_one_host
from entrepot.workbench.analysis.findings import (
    Accounting,
    Figure,
    FigureComparison,
    Findings,
    ProbeFinding,
    Published,
    SystemSeen,
    TrialSecond,
    UnusableTrial,
)
from entrepot.workbench.analysis.metric import metric_of
from entrepot.workbench.analysis.published import placed_rows, published
from entrepot.workbench.analysis.reading import Tables, naming_broken_files, read
from entrepot.workbench.analysis.trial_result import JudgedProbe, TrialResult
from entrepot.workbench.analysis.trial_results import trial_results
from entrepot.workbench.measuring.record import TrialRecord
from entrepot.workbench.statistics.counting import TrialAccount

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

Records = Mapping[str, TrialRecord]
Results = Mapping[str, TrialResult]
Key = tuple[str, str, str, str]
"""Host, scenario, point, system."""


def find_all(spark: SparkSession, runs: Sequence[Path], *, apart: bool) -> Findings:
    tables = read(spark, runs)
    if not apart:
        require_one_host(tables.run_records)
    with naming_broken_files():
        results = trial_results(spark, tables)
        measured = figures_and_ratios(spark, results, tables.records).persist()
        compared = measured.union(ratios_to_published(measured, published(spark))).collect()
        measured.unpersist()
    return _findings(tables, results, compared)


def _findings(tables: Tables, results: Results, compared: list[Row]) -> Findings:
    records, run_records = tables.records, tables.run_records
    figures = _figures(records, compared, results)
    giving = [result for result in results.values() if result.metrics]
    return Findings(
        runs=tuple(run.run for run in run_records),
        environments={run.host: run.environment for run in run_records},
        scales={run.run: run.scale for run in run_records},
        begun={run.run: run.begun for run in run_records},
        figures=figures,
        comparisons=_comparisons(records, compared),
        moments=tuple(
            TrialSecond(**_place(records[result.trial]), **msgspec.structs.asdict(second))
            for result in results.values()
            for second in result.seconds
        ),
        probes=tuple(
            _probe(records[result.trial], result.probe) for result in results.values() if result.probe is not None
        ),
        capacities=capacities(figures, run_records),
        marks=tuple(_mark(records[result.trial], result) for result in results.values() if result.problem),
        published=tuple(
            Published(scenario, point, row.system, row.metric, row.value, row.unit)
            for row, (scenario, point) in placed_rows()
        ),
        absent={system: why for run in run_records for system, why in run.absent.items()},
        systems=_systems(records.values()),
        accounting=_accounting([result.account for result in giving if result.account is not None]),
        loads=Counter(records[result.trial].load for result in giving),
    )


def _figures(records: Records, rows: list[Row], results: Results) -> tuple[Figure, ...]:
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
        bottleneck, evidence = _common_verdict(of_figure, results)
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
                unit=metric_of(row["metric"]).unit,
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


def _common_verdict(records: list[TrialRecord], results: Results) -> tuple[str, str]:
    """What most repetitions say, with the evidence of the last that says so; and that they do not agree, if so."""
    judged = [results[record.trial] for record in records if record.trial in results]
    # Of a search, the probes that were too much for the system show what limits it.
    found = [
        one.verdict for one in judged if one.verdict and (one.probe is None or one.probe.answer == "not_sustained")
    ]
    if not found:
        return "unknown", "nothing was sampled"
    counted = Counter(name for name, _ in found)
    name = max(counted, key=lambda each: counted[each])
    evidence = [text for each, text in found if each == name][-1]
    others = ", ".join(each for each in counted if each != name)
    return name, f"{evidence} (in {counted[name]} of {len(found)} trials; others: {others})" if others else evidence


def _comparisons(records: Records, rows: list[Row]) -> tuple[FigureComparison, ...]:
    reduced = {
        (record.host, record.scenario, record.point, record.system): record.reduced for record in records.values()
    }
    found = [
        FigureComparison(
            host=row["host"],
            scenario=row["scenario"],
            point=row["point"],
            metric=row["metric"],
            unit=metric_of(row["metric"]).unit,
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


def _place(record: TrialRecord) -> dict[str, Any]:
    """Where a trial stands, for what is told of it alone."""
    return {name: getattr(record, name) for name in ("trial", "scenario", "point", "system", "repetition", "host")}


def _probe(record: TrialRecord, probe: JudgedProbe) -> ProbeFinding:
    fields = msgspec.structs.asdict(probe)
    return ProbeFinding(**_place(record), probe=record.probe, sustained=fields.pop("answer") == "sustained", **fields)


def _mark(record: TrialRecord, result: TrialResult) -> UnusableTrial:
    where = (record.trial, record.scenario, record.point, record.system)
    return UnusableTrial(*where, result.status, result.problem, host=record.host)


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


def _accounting(accounts: Sequence[TrialAccount]) -> Accounting:
    names = [field.name for field in fields(TrialAccount)]
    return Accounting(len(accounts), **{name: sum(getattr(one, name) for one in accounts) for name in names})
