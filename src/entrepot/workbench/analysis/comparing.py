# SPDX-License-Identifier: Apache-2.0
"""Figures over repetitions, and ratios: ours to a peer's, ours to the published.

An interval is over repetitions, which were fresh processes, and never over
the messages of one. Two systems that were measured in turns are compared
repetition by repetition, so that what slowed the machine for both cancels
out. Nothing is ever divided by a figure of another host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from entrepot.errors import HostsDiffer
from entrepot.workbench.analysis.metrics import UNITS
from entrepot.workbench.measuring.record import RunRecord

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

    from entrepot.workbench.analysis.reading import Tables
    from entrepot.workbench.statistics.intervals import Interval

FIGURES_SCHEMA = """host string, scenario string, point string, quality string, metric string, unit string,
system string, other string, value double, other_value double, low double, high double, samples array<double>,
paired boolean"""
"""A figure has no `other`; a ratio has, and its `value` and `other_value` are the means that it divides."""
COMPARABLE = frozenset(
    {
        "throughput",
        "throughput_full_machine",
        "sent",
        "received",
        "mst",
        "round_trips",
        "short_sessions",
        "response_time",
        "latency_mean",
        "latency_p50",
        "latency_p90",
        "latency_p99",
        "cpu",
        "cpu_per_message",
        "server_cpu_per_message",
        "memory_per_client",
        "memory_per_open_queue",
    }
)
"""And the response times of calls."""
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
        told = [
            f"{key} is {first.environment.get(key, 'unknown')} and {differing.environment.get(key, 'unknown')}"
            for key in keys
            if key in _HOST_KEYS and first.environment.get(key) != differing.environment.get(key)
        ]
        raise HostsDiffer(tuple(found), "; ".join(told) or f"their hosts are {', '.join(hosts)}")


_HOST_KEYS = ("host", "machine", "cpu", "cores", "memory_gib", "kernel", "file_system")


def figures_and_ratios(rows: DataFrame, tables: Tables) -> DataFrame:
    """From the rows of trials, one row per figure, and one per pair of one of ours and a peer."""
    metrics = rows.where("kind = 'metric'").selectExpr("trial", "name AS metric", "text AS unit", "value")
    about = tables.trials.select(
        "trial", "host", "run", "scenario", "point", "quality", "system", "repetition", "probe"
    )
    joined = metrics.join(about.hint("broadcast"), "trial")
    return joined.groupBy("host", "scenario", "point", "quality").applyInArrow(_figures_of_point, FIGURES_SCHEMA)


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
            "quality",
            "metric",
            "unit",
            "system",
            f"concat('{PUBLISHED}', named) AS other",
            "value",
            "told AS other_value",
            "low / told AS low",
            "high / told AS high",
            "samples",
            "false AS paired",
        )
    )


def is_comparable(metric: str) -> bool:
    return metric in COMPARABLE or metric.startswith("call_")


def _figures_of_point(trials: pyarrow.Table) -> pyarrow.Table:
    import pyarrow

    rows = trials.to_pylist()
    series = _series(rows)
    point = {name: rows[0][name] for name in ("host", "scenario", "point", "quality")}
    found = [{**point, **row} for row in (*_figures(series), *_ratios(series))]
    text, real = pyarrow.string(), pyarrow.float64()
    texts = ("host", "scenario", "point", "quality", "metric", "unit", "system", "other")
    schema = pyarrow.schema(
        [
            *((name, text) for name in texts),
            *((name, real) for name in ("value", "other_value", "low", "high")),
            ("samples", pyarrow.list_(real)),
            ("paired", pyarrow.bool_()),
        ]
    )
    return pyarrow.Table.from_pylist(found, schema=schema)


Series = dict[tuple[str, str], dict[str, dict[tuple[str, int], float]]]
"""(metric, unit) → system → (run, repetition) → value."""


def _series(rows: list[dict[str, Any]]) -> Series:
    series: Series = {}
    # Of the trials of one visit (a search has many) the last one that says something counts.
    for row in sorted(rows, key=lambda row: (row["run"], row["repetition"], row["probe"])):
        of_metric = series.setdefault((row["metric"], row["unit"]), {})
        of_metric.setdefault(row["system"], {})[row["run"], row["repetition"]] = row["value"]
    return series


def _figures(series: Series) -> Iterator[dict[str, Any]]:
    from entrepot.workbench.statistics.intervals import interval

    for (metric, unit), systems in series.items():
        for system, values in systems.items():
            samples = list(values.values())
            found = interval(samples)
            row = {"metric": metric, "unit": unit, "system": system, "value": found.value, "samples": samples}
            yield row | {"low": found.low, "high": found.high} | _bracket(series, metric, system, found)


def _bracket(series: Series, metric: str, system: str, found: Interval) -> dict[str, float]:
    """What a search found is known no better than from the rate that was borne to the one that was not."""
    if metric != "mst":
        return {}
    ends = {}
    for name in ("low", "high"):
        values = series.get((f"mst_{name}", UNITS["mst"]), {}).get(system)
        if values:
            ends[name] = sum(values.values()) / len(values)
    return {
        "low": min(found.low, ends.get("low", found.low)),
        "high": max(found.high, ends.get("high", found.high)),
    }


def _ratios(series: Series) -> Iterator[dict[str, Any]]:
    for (metric, unit), systems in series.items():
        if not is_comparable(metric):
            continue
        for system, values in systems.items():
            for other, others in systems.items():
                if not system.startswith(OURS) or other.startswith(OURS):
                    continue
                if (row := _ratio(values, others)) is not None:
                    found = {"metric": metric, "unit": unit, "system": system, "other": other, **row}
                    yield found | (_ratio_of_brackets(series, found) if metric == "mst" else {})


def _ratio_of_brackets(series: Series, row: dict[str, Any]) -> dict[str, float]:
    """At least from the lowest that ours bears by the highest that theirs may, to the other way round."""
    from entrepot.workbench.statistics.intervals import Interval

    ours, theirs = (
        _bracket(series, "mst", row[name], Interval(row[value], row[value], row[value]))
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
        "paired": paired,
    }
