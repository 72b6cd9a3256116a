# SPDX-License-Identifier: Apache-2.0
"""Figures over repetitions, and ratios: ours to a peer's, ours to the published.

An interval is over repetitions, which were fresh processes, and never over
the messages of one. Two systems that were measured in turns are compared
repetition by repetition, so that what slowed the machine for both cancels
out. Nothing is ever divided by a figure of another host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from entrepot.errors import HostsDiffer
from entrepot.workbench.analysis.metric import metric_of
from entrepot.workbench.measuring.environment import HOST_KEYS
from entrepot.workbench.measuring.record import RunRecord, TrialRecord

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from entrepot.workbench.analysis.trial_result import TrialResult
    from entrepot.workbench.statistics.intervals import ConfidenceInterval

FIGURES_SCHEMA = """host string, scenario string, point string, metric string, system string, other string,
value double, other_value double, low double, high double, samples array<double>"""
"""A figure has no `other`; a ratio has, and its `value` and `other_value` are the means that it divides."""
_PLACE = ("host", "scenario", "point")
OURS = "entrepot"
PUBLISHED = "published: "


def require_one_host(runs: Iterable[RunRecord]) -> None:
    """
    Raises:
        HostsDiffer: The runs were made on different machines.
    """
    found = {run.run: run for run in runs}
    hosts = sorted({run.host for run in found.values()})
    if len(hosts) > 1:
        first, *others = found.values()
        differing = next(run for run in others if run.host != first.host)
        keys = sorted(set(first.environment) | set(differing.environment))
        lines = [
            f"{key} is {first.environment.get(key, 'unknown')} and {differing.environment.get(key, 'unknown')}"
            for key in keys
            if key in HOST_KEYS and first.environment.get(key) != differing.environment.get(key)
        ]
        raise HostsDiffer(tuple(found), "; ".join(lines) or f"their hosts are {', '.join(hosts)}")


def figures_and_ratios(
    spark: SparkSession, results: Mapping[str, TrialResult], records: Mapping[str, TrialRecord]
) -> DataFrame:
    """From what trials told, one row per figure, and one per pair of one of ours and a peer."""
    import pyarrow

    texts = (*_PLACE, "quality", "system", "run", "metric")
    schema = [*((name, pyarrow.string()) for name in texts), ("repetition", pyarrow.int64())]
    schema += [("probe", pyarrow.int64()), ("value", pyarrow.float64())]
    rows = [
        {**{name: getattr(records[trial], name, None) for name, _ in schema}, "metric": metric, "value": value}
        for trial, result in results.items()
        for metric, value in result.metrics.items()
    ]
    measured = spark.createDataFrame(pyarrow.Table.from_pylist(rows, schema=pyarrow.schema(schema)))
    return measured.groupBy(*_PLACE, "quality").applyInArrow(_figures_of_point, FIGURES_SCHEMA)


def ratios_to_published(figures: DataFrame, published: DataFrame) -> DataFrame:
    """Each figure that a document has, too: one row per figure and published system."""
    ours = figures.where("other IS NULL AND value IS NOT NULL").alias("ours")
    theirs = published.selectExpr("scenario", "point", "metric", "system AS named", "value AS told").alias("theirs")
    return (
        ours.join(theirs.hint("broadcast"), ["scenario", "point", "metric"])
        .where("told <> 0")
        .selectExpr(
            "host",
            "scenario",
            "point",
            "metric",
            "system",
            f"concat('{PUBLISHED}', named) AS other",
            "value",
            "told AS other_value",
            "low / told AS low",
            "high / told AS high",
            "samples",
        )
    )


def _figures_of_point(trials: pyarrow.Table) -> pyarrow.Table:
    import pyarrow

    rows = trials.to_pylist()
    series = _series(rows)
    point = {name: rows[0][name] for name in _PLACE}
    found = [{**point, **row} for row in (*_figures(series), *_ratios(series))]
    text, real = pyarrow.string(), pyarrow.float64()
    texts = (*_PLACE, "metric", "system", "other")
    schema = pyarrow.schema(
        [
            *((name, text) for name in texts),
            *((name, real) for name in ("value", "other_value", "low", "high")),
            ("samples", pyarrow.list_(real)),
        ]
    )
    return pyarrow.Table.from_pylist(found, schema=schema)


Series = dict[str, dict[str, dict[tuple[str, int], float]]]
"""Metric → system → (run, repetition) → value."""


def _series(rows: list[dict[str, Any]]) -> Series:
    series: Series = {}
    # Of the trials of one visit (a search has many) the last one that says something counts.
    for row in sorted(rows, key=lambda row: (row["run"], row["repetition"], row["probe"])):
        of_metric = series.setdefault(row["metric"], {})
        of_metric.setdefault(row["system"], {})[row["run"], row["repetition"]] = row["value"]
    return series


def _figures(series: Series) -> Iterator[dict[str, Any]]:
    from entrepot.workbench.statistics.intervals import interval

    for metric, systems in series.items():
        for system, values in systems.items():
            samples = list(values.values())
            found = interval(samples)
            row = {"metric": metric, "system": system, "value": found.value, "samples": samples}
            yield row | {"low": found.low, "high": found.high} | _bracket(series, metric, system, found)


def _bracket(series: Series, metric: str, system: str, found: ConfidenceInterval) -> dict[str, float]:
    """What a search found is known no better than from the rate that was borne to the one that was not."""
    if metric != "mst":
        return {}
    ends = {}
    for name in ("low", "high"):
        values = series.get(f"mst_{name}", {}).get(system)
        if values:
            ends[name] = sum(values.values()) / len(values)
    return {
        "low": min(found.low, ends.get("low", found.low)),
        "high": max(found.high, ends.get("high", found.high)),
    }


def _ratios(series: Series) -> Iterator[dict[str, Any]]:
    for metric, systems in series.items():
        if not metric_of(metric).is_compared:
            continue
        for system, values in systems.items():
            for other, others in systems.items():
                if not system.startswith(OURS) or other.startswith(OURS):
                    continue
                if (row := _ratio(values, others)) is not None:
                    found = {"metric": metric, "system": system, "other": other, **row}
                    yield found | (_ratio_of_brackets(series, found) if metric == "mst" else {})


def _ratio_of_brackets(series: Series, row: dict[str, Any]) -> dict[str, float]:
    """At least from the lowest that ours bears by the highest that theirs may, to the other way round."""
    from entrepot.workbench.statistics.intervals import ConfidenceInterval

    ours, theirs = (
        _bracket(series, "mst", row[name], ConfidenceInterval(row[value], row[value], row[value]))
        for name, value in (("system", "value"), ("other", "other_value"))
    )
    high = ours["high"] / theirs["low"] if theirs["low"] > 0 else row["high"]
    return {"low": min(row["low"], ours["low"] / theirs["high"]), "high": max(row["high"], high)}


def _ratio(values: dict[tuple[str, int], float], others: dict[tuple[str, int], float]) -> dict[str, Any] | None:
    import numpy

    from entrepot.workbench.statistics.intervals import ratio_interval

    common = sorted(values.keys() & others.keys())
    # Two pairs at least, or pairing would throw away what an unpaired interval can still use.
    paired = len(common) >= 2
    mine = [values[key] for key in common] if paired else list(values.values())
    theirs = [others[key] for key in common] if paired else list(others.values())
    if min(theirs) <= 0:
        return None
    found = ratio_interval(mine, theirs, paired=paired)
    return {
        "value": float(numpy.mean(mine)),
        "other_value": float(numpy.mean(theirs)),
        "low": found.low,
        "high": found.high,
        "samples": [],
    }
