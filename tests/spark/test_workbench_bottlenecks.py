# SPDX-License-Identifier: Apache-2.0
"""Every verdict from a real trial: generators, the sampler, Parquet, Spark, and what they say together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

import msgspec
import pytest

from entrepot.workbench.analysis.reading import read
from entrepot.workbench.analysis.trial_results import trial_results
from entrepot.workbench.measuring.effort import EFFORTS
from entrepot.workbench.measuring.record import RunRecord, write_record
from entrepot.workbench.measuring.visit import VisitPlan
from entrepot.workbench.scenario import Parameter
from entrepot.workbench.search.bottleneck import Name
from spark import limited_systems

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EFFORT = msgspec.structs.replace(EFFORTS["thumbnail"], seconds=0.8)
MANY_CORES = {"cores": "640"}
"""So many that whatever else runs here leaves most of them idle."""
STREAM: tuple[str, dict[str, Parameter]] = ("stream", {"message_bytes": 64, "senders": 1, "receivers": 1})
TOO_MUCH: tuple[str, dict[str, Parameter]] = ("open-loop", {"message_bytes": 64, "rate_per_s": 100, "receivers": 1})


class Case(NamedTuple):
    system: str
    load: tuple[str, dict[str, Parameter]]
    quality: str
    environment: dict[str, str]
    verdict: str
    evidence: str


CASES = [
    Case("busy-client", STREAM, "express", {}, "generator", "its busiest process used"),
    Case("busy-server", STREAM, "express", {"cores": "1"}, "cpu", "the machine was busy"),
    Case("slow-forces", STREAM, "recoverable", {"write_bytes_per_s": "1000000000"}, "log latency", "flushes/s of"),
    Case("large-writes", STREAM, "recoverable", {"write_bytes_per_s": "1000000"}, "log bandwidth", "of 1 MB/s"),
    Case("one-at-a-time", STREAM, "express", {}, "lock or queue", "nothing was busy"),
    Case("entrepot-tcp", STREAM, "express", {"loopback_bytes_per_s": "1000"}, "network", "of 0 MB/s"),
    Case("slow-getter", TOO_MUCH, "transactional", {}, "getter shortage", "getters waited for messages only"),
    Case("withholding", TOO_MUCH, "express", {}, "lock or queue", "and getters waited"),
]


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """System → its bottleneck and the evidence. One leader makes all trials; each is a run with its own machine."""
    folder = tmp_path_factory.mktemp("limited")
    plans = [_plan(folder / case.system, case) for case in CASES]
    program = [sys.executable, str(limited_systems.__file__)]
    subprocess.run(program, input=msgspec.json.encode(plans), check=True, timeout=240)
    tables = read(spark, [folder / case.system for case in CASES])
    assert {record.system: record.reason for record in tables.records.values()} == {case.system: "" for case in CASES}
    results = trial_results(spark, tables).values()
    return {tables.records[result.trial].system: result.verdict for result in results if result.verdict}


def _plan(folder: Path, case: Case) -> VisitPlan:
    (folder / "scratch").mkdir(parents=True)
    record = RunRecord(
        run=case.system,
        begun="2026-11-16T12:00:00Z",
        scale="thumbnail",
        scenarios=[],
        systems=[],
        host="host-1",
        environment={**MANY_CORES, **case.environment},
    )
    write_record(folder / "run.json", record)
    load, parameters = case.load
    return VisitPlan(
        run=case.system,
        host="host-1",
        scenario=f"ad-hoc/{load}",
        load=load,
        parameters={"quality": case.quality, **parameters},
        effective={"quality": case.quality, **parameters},
        system=case.system,
        repetition=1,
        effort=EFFORT,
        results=str(folder / "trials"),
        scratch=str(folder / "scratch"),
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.system)
def test_a_real_trial_names_what_held_it_back(verdicts: dict[str, tuple[str, str]], case: Case) -> None:
    name, evidence = verdicts[case.system]
    assert (name, case.evidence in evidence) == (case.verdict, True), evidence


def test_every_verdict_but_those_without_a_limit_has_a_real_trial() -> None:
    assert {case.verdict for case in CASES} == set(get_args(Name)) - {"none", "unknown"}
