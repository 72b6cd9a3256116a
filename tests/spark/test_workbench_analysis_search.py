# SPDX-License-Identifier: Apache-2.0
"""The analysis of searches for the sustainable rate, of what limits a system, and of many trials at once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from entrepot.workbench.analysis import find
from entrepot.workbench.analysis.findings import Findings
from spark.synthetic_runs import SECOND, SyntheticRun, cpu, cumulative, evenly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MS = 1_000_000
SECONDS = 4.0
CAPACITY = 1000.0


def served(offered: float, lost: int = 0) -> tuple[list[Any], list[Any]]:
    """One server that needs a millisecond for each message, in the order of their coming."""
    moments = evenly(offered, SECONDS)
    free, received = 0, []
    for number, at in enumerate(moments):
        free = max(free, at) + int(SECOND / CAPACITY)
        if number >= lost:
            received.append((0, 0, number, free, 0))
    return [(0, number, 64, at, at + 5000, at + 20000) for number, at in enumerate(moments)], received


@pytest.fixture(scope="module")
def searched(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    run = SyntheticRun(tmp_path_factory.mktemp("search") / "search")
    probes = [(600.0, 0), (900.0, 0), (1200.0, 0), (800.0, 7)]
    for probe, (offered, lost) in enumerate(probes, start=1):
        sent, received = served(offered, lost)
        used = min(offered, CAPACITY) / CAPACITY
        run.trial(
            scenario="csiro/2",
            load="sustained",
            probe=probe,
            seconds=SECONDS,
            sent=sent,
            received=received,
            samples=cpu(SECONDS, machine=used + 0.2, server=used * 0.98, generators=0.2),
            offered_per_s=offered,
        )
    facts = {"mst": 950.0, "mst_low": 900.0, "mst_high": 990.0}
    run.trial(scenario="csiro/2", load="sustained", seconds=SECONDS, facts=facts)
    return find(spark, [run.write()])


def test_probes_are_judged_again_from_the_raw_data(searched: Findings):
    assert [(one.offered_per_s, one.sustained) for one in searched.probes] == [
        (600.0, True),
        (900.0, True),
        (1200.0, False),
        (800.0, False),
    ]
    assert {one.host for one in searched.probes} == {"host-1"}
    over, lossy = searched.probes[2:]
    assert over.delivered_per_s == pytest.approx(1000, rel=0.01)
    assert over.depth_slope_per_s == pytest.approx(200, rel=0.05)
    assert "depth grew" in over.evidence
    assert lossy.lost == 7
    assert "7 of" in lossy.evidence
    assert "lost" in lossy.evidence


def test_a_search_gives_what_it_found_and_its_bracket(searched: Findings):
    found = {one.metric: one for one in searched.figures}
    assert (found["mst"].value, found["mst"].low, found["mst"].high) == (950.0, 900.0, 990.0)
    assert found["mst"].offered_per_s is None
    assert "throughput" not in found
    assert searched.marks == ()


def test_a_search_tells_what_a_message_costs(searched: Findings):
    (capacity,) = searched.capacities
    assert capacity.rate_max_per_s == 950.0
    assert capacity.service_ms == pytest.approx(1000 / 950)
    assert capacity.cpu_ms_per_message == pytest.approx(0.98, rel=0.05)


def test_the_bottleneck_of_a_search_is_that_of_what_was_too_much(searched: Findings):
    (found,) = {(one.bottleneck, one.evidence) for one in searched.figures if one.metric == "mst"}
    assert found[0] == "cpu"


# --- bottlenecks --------------------------------------------------------------------------------------


def test_bottlenecks_are_named_with_their_evidence(spark: SparkSession, tmp_path: Path):
    run = SyntheticRun(tmp_path / "limits", cores=4, environment={"write_bytes_per_s": "300000000"})
    moments = evenly(1000, 2.0)
    sent = [(0, n, 64, at, at + 1000, at + 20000) for n, at in enumerate(moments)]
    received = [(0, 0, n, at + MS, at + MS) for n, at in enumerate(moments)]
    idle = cpu(2.0, machine=1.0, server=0.4, generators=0.3)
    forcing = [
        *cumulative("disk_flushes", "vda", 900, 2.0),
        *cumulative("disk_flush_ms", "vda", 930, 2.0),
        *cumulative("disk_write_bytes", "vda", 20e6, 2.0),
    ]
    writing = [
        *cumulative("disk_flushes", "vda", 100, 2.0),
        *cumulative("disk_flush_ms", "vda", 950, 2.0),
        *cumulative("disk_write_bytes", "vda", 280e6, 2.0),
    ]
    cases = {
        "one-thread": (cpu(2.0, machine=1.5, server=0.99, generators=0.3), "express", "entrepot-unix"),
        "generator": (cpu(2.0, machine=1.5, server=0.4, generators=0.98), "express", "entrepot-unix"),
        "full-machine": (cpu(2.0, machine=3.95, server=2.0, generators=1.9, busiest=0.5), "express", "rabbitmq"),
        "forces": ([*idle, *forcing], "transactional", "entrepot-unix"),
        "bytes": ([*idle, *writing], "transactional", "entrepot-unix"),
        "waiting": (idle, "express", "entrepot-unix"),
        "log-unknown": (idle, "transactional", "entrepot-unix"),
    }
    for name, (samples, quality, system) in cases.items():
        run.trial(
            scenario=f"ad-hoc/{name}",
            system=system,
            parameters={"quality": quality},
            sent=sent,
            received=received,
            samples=samples,
        )
    run.trial(
        scenario="ad-hoc/rated", load="open-loop", sent=sent, received=received, samples=idle, offered_per_s=1000.0
    )
    found = find(spark, [run.write()])
    assert found.marks == ()
    named = {one.scenario.removeprefix("ad-hoc/"): (one.bottleneck, one.evidence) for one in found.figures}
    assert {name: verdict for name, (verdict, _) in named.items()} == {
        "one-thread": "cpu",
        "generator": "generator",
        "full-machine": "cpu",
        "forces": "log latency",
        "bytes": "log bandwidth",
        "waiting": "lock or queue",
        "log-unknown": "unknown",
        "rated": "none",
    }
    assert "900 flushes/s of 1.03 ms" in named["forces"][1]
    assert "280 MB/s of 300 MB/s" in named["bytes"][1]
    assert "0.99 of the 1 cores" in named["one-thread"][1]


# --- many trials --------------------------------------------------------------------------------------


def test_a_hundred_trials_take_one_pass(spark: SparkSession, tmp_path: Path):
    """Twenty points, five repetitions: all of them have their figures, in seconds and not in minutes."""
    run = SyntheticRun(tmp_path / "many")
    sent = [(0, number, 64, at, at, at + 1000) for number, at in enumerate(evenly(500, 1.0))]
    received = [(0, 0, number, at + MS, 0) for _, number, _, at, _, _ in sent]
    samples = cpu(1.0, machine=1.0, server=0.5, generators=0.2)
    for point in range(20):
        for repetition in range(5):
            run.trial(
                parameters={"threads": point + 1},
                repetition=repetition,
                seconds=1.0,
                sent=sent,
                received=received,
                samples=samples,
            )
    folder = run.write()
    begun = time.process_time()
    found = find(spark, [folder])
    # Of this process: the machine may be busy with other tests, and waiting for Spark's is no work of ours.
    assert time.process_time() - begun < 10
    throughputs = [one for one in found.figures if one.metric == "throughput"]
    assert len(throughputs) == 20
    assert all(one.repetitions == 5 for one in throughputs)
    assert all(one.value == pytest.approx(500, rel=0.02) for one in throughputs)
    assert found.accounting.trials == 100
    assert found.accounting.sent == 100 * 500
    assert found.loads == {"stream": 100}
