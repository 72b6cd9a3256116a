# SPDX-License-Identifier: Apache-2.0
"""The one pass over all raw observations: each trial becomes an `Observed`, and that a `TrialResult`.

A trial was made on one machine and lay in the memory of its generators, so
it fits into one task; there may be any number of trials.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from entrepot.workbench.analysis.trial_result import TrialResult
from entrepot.workbench.measuring.observations import NONE_NS
from entrepot.workbench.measuring.record import TrialRecord

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from entrepot.workbench.analysis.observed import Observed
    from entrepot.workbench.analysis.reading import Tables

_SENT, _RECEIVED = 0, 1


def trial_results(spark: SparkSession, tables: Tables) -> dict[str, TrialResult]:
    """Trial → what it tells; read and judged by Spark's workers, of whose answers none is large."""
    trials = _noted(tables).groupBy("id").cogroup(_trial_extras(spark, tables).groupBy("id"))
    rows = trials.applyInArrow(_encoded_result, "result binary").collect()
    results = [msgspec.msgpack.decode(row["result"], type=TrialResult) for row in rows]
    return {result.trial: result for result in sorted(results, key=lambda result: result.trial)}


def _noted(tables: Tables) -> DataFrame:
    """Both kinds of messages in the same few columns: what does not exist is not carried to Python."""
    # A hash instead of the trial's name, which would be the greater part of every row.
    sent = tables.sent.selectExpr(
        "xxhash64(trial) AS id",
        f"{_SENT} AS kind",
        "sender",
        "number",
        "bytes AS a",
        "intended_ns AS b",
        "sent_ns AS c",
        "acknowledged_ns AS d",
    )
    received = tables.received.selectExpr(
        "xxhash64(trial) AS id",
        f"{_RECEIVED} AS kind",
        "sender",
        "number",
        "receiver AS a",
        "received_ns AS b",
        "committed_ns AS c",
        "arrival AS d",
    )
    return sent.unionByName(received)


def _trial_extras(spark: SparkSession, tables: Tables) -> DataFrame:
    """Samples, calls, and one row with the trial's record and what its machine is like."""
    import pyarrow

    environments = {record.run: json.dumps(record.environment) for record in tables.run_records}
    trials = list(tables.records.values())
    columns = {
        "trial": [record.trial for record in trials],
        "record": [msgspec.json.encode(record).decode() for record in trials],
        "environment": [environments.get(record.run, "{}") for record in trials],
    }
    arrays = {name: pyarrow.array(values, type=pyarrow.string()) for name, values in columns.items()}
    records = spark.createDataFrame(pyarrow.table(arrays))
    everything = tables.samples.unionByName(tables.calls, allowMissingColumns=True)
    everything = everything.unionByName(records, allowMissingColumns=True)
    return everything.selectExpr("xxhash64(trial) AS id", "*").drop("trial")


def _encoded_result(noted: pyarrow.Table, extras: pyarrow.Table) -> pyarrow.Table:
    import pyarrow

    encoded = msgspec.msgpack.encode(result_of(observed_from(noted, extras)))
    return pyarrow.table({"result": pyarrow.array([encoded], type=pyarrow.binary())})


def result_of(observed: Observed) -> TrialResult:
    from entrepot.workbench.analysis import bottlenecks, metrics, saturation, series
    from entrepot.workbench.analysis.accounts import account_of

    record = observed.record
    if record.status == "failed":
        return TrialResult(trial=record.trial, status=record.status, problem=record.reason)
    problem = record.reason or "marked as invalid" if record.status == "invalid" else metrics.problem(observed)
    account = account_of(observed)
    return TrialResult(
        trial=record.trial,
        status="invalid" if problem else "measured",
        problem=problem,
        metrics={} if problem else metrics.metrics(observed, account),
        account=account,
        seconds=list(series.seconds(observed)),
        probe=saturation.judged_again(observed),
        verdict=bottlenecks.bottleneck(observed) if observed.samples else None,
    )


def observed_from(noted: pyarrow.Table, extras: pyarrow.Table) -> Observed:
    """Arrays of one trial from the two tables of a group."""
    import pyarrow.compute

    from entrepot.workbench.analysis.observed import Observed, ObservedCalls

    recorded = extras.filter(pyarrow.compute.is_valid(extras["record"]))
    assert recorded.num_rows == 1, f"a trial has one record, and here are {recorded.num_rows}"
    record = msgspec.json.decode(recorded["record"][0].as_py(), type=TrialRecord)
    environment: dict[str, str] = json.loads(recorded["environment"][0].as_py())
    calls = _columns(extras.filter(pyarrow.compute.is_valid(extras["call"])), ("call", "bytes", "begun_ns", "ended_ns"))
    sent, received = _messages(noted)
    return Observed(
        record=record,
        environment=environment,
        sent=sent,
        received=received,
        calls=ObservedCalls(**calls),
        samples=_samples(extras.filter(pyarrow.compute.is_valid(extras["measure"]))),
    )


def _messages(noted: pyarrow.Table) -> tuple[Any, Any]:
    import numpy

    from entrepot.workbench.analysis.observed import Received, Sent, message_keys

    columns = _columns(noted, ("kind", "sender", "number", "a", "b", "c", "d"))
    went = {name: values[columns["kind"] == _SENT] for name, values in columns.items()}
    order = numpy.lexsort((went["number"], went["sender"]))
    sent = Sent(*(went[name][order] for name in ("sender", "number", "a", "b", "c", "d")))
    came = {name: values[columns["kind"] == _RECEIVED] for name, values in columns.items()}
    order = numpy.argsort(came["d"], kind="stable")
    came = {name: values[order] for name, values in came.items()}
    keys, wanted = message_keys(sent.sender, sent.number), message_keys(came["sender"], came["number"])
    places = numpy.searchsorted(keys, wanted)
    known = places < len(keys)
    known[known] = keys[places[known]] == wanted[known]
    places[~known] = 0
    intended, began = (
        numpy.where(known, times[places], NONE_NS) if len(keys) else numpy.full(len(wanted), NONE_NS, numpy.int64)
        for times in (sent.intended_ns, sent.sent_ns)
    )
    received = Received(
        receiver=came["a"],
        sender=came["sender"],
        number=came["number"],
        received_ns=came["b"],
        committed_ns=came["c"],
        arrival=came["d"],
        intended_ns=intended,
        sent_ns=began,
    )
    return sent, received


def _samples(samples: pyarrow.Table) -> Mapping[tuple[str, str], Any]:
    import numpy

    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    names = ("measure", "subject", "t_ns", "value")
    for measure, subject, at, value in zip(*(samples[name].to_pylist() for name in names), strict=True):
        found.setdefault((measure, subject), []).append((at, value))
    series = {}
    for key, rows in found.items():
        rows.sort()
        series[key] = (
            numpy.array([at for at, _ in rows], dtype=numpy.int64),
            numpy.array([value for _, value in rows]),
        )
    return series


def _columns(table: pyarrow.Table, names: tuple[str, ...]) -> dict[str, Any]:
    """As 64-bit integers; a null would make NumPy turn nanoseconds into floating point, which cannot hold them."""
    import numpy
    import pyarrow.compute

    return {
        name: numpy.asarray(pyarrow.compute.fill_null(table[name], NONE_NS).to_numpy()).astype(numpy.int64)
        for name in names
    }
