# SPDX-License-Identifier: Apache-2.0
"""Thumbnails of scenarios, on bindings of ours that they name; tests/spark has the flows.

Each load is tried on each binding that a scenario has for it; `make torture`
tries every scenario on all of its bindings.

All of them are one run, which describes the machine once. Each visit is a
process of its own, as in any run, but one that has its modules already:
loading them would cost as much as what most visits do. Three are made at a
time, since most of a visit is waiting.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import wait

import pyarrow.parquet
import pytest

from entrepot.workbench.catalogue import scenarios
from entrepot.workbench.measuring.effort import EFFORTS
from entrepot.workbench.measuring.record import TrialRecord
from entrepot.workbench.measuring.visit import VisitPlan, visit
from entrepot.workbench.running.run import WorkbenchRun, begin_with

AT_ONCE = 3
LIMIT_S = 300.0
MEASURED = [scenario for scenario in scenarios().values() if scenario.load != "flow"]
ALL_CASES = [(scenario, binding) for scenario in MEASURED for binding in scenario.entrepot]
# The last of equal keys stays: a scenario for each load on each binding.
IN_EVERY_TEST_RUN = {(scenario.load, binding): scenario.name for scenario, binding in ALL_CASES}
CASES = [
    pytest.param(scenario.name, f"entrepot-{binding}", marks=marks)
    for scenario, binding in ALL_CASES
    for marks in [() if IN_EVERY_TEST_RUN[scenario.load, binding] == scenario.name else pytest.mark.torture]
]
Visits = dict[tuple[str, str], Future[int | None]]

CONTEXT = multiprocessing.get_context("forkserver")
# pyarrow looks for pandas when it makes its first array.
CONTEXT.set_forkserver_preload(
    ["entrepot.workbench.measuring.visit", "entrepot.client.blocking", "entrepot.aio", "pandas", "pyarrow.parquet"]
)


STATUS = threading.Lock()
"""multiprocessing asks for the status of all children when it starts one; a status that two ask for is 255 for one."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> WorkbenchRun:
    return begin_with(MEASURED, ["entrepot"], EFFORTS["thumbnail"], folder=tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def visits(request: pytest.FixtureRequest, run: WorkbenchRun) -> Iterator[Visits]:
    asked = [
        (item.callspec.params["name"], item.callspec.params["system"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    ]
    plans = {(planned.plan.scenario, planned.plan.system): planned.plan for planned in run.visits}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        # In the order of the tests, so that none of them waits for all.
        yield {case: pool.submit(visited, plans[case]) for case in asked}
        pool.shutdown(cancel_futures=True)


def visited(plan: VisitPlan) -> int | None:
    process = CONTEXT.Process(target=visit, args=(plan,))
    with STATUS:
        process.start()
    ended = wait([process.sentinel], LIMIT_S)
    with STATUS:
        if not ended:
            process.kill()
        process.join()
    return process.exitcode


@pytest.mark.parametrize(("name", "system"), CASES)
def test_a_thumbnail_of_the_scenario_runs(run: WorkbenchRun, visits: Visits, name: str, system: str) -> None:
    assert visits[name, system].result() == 0
    trials = [trial for trial in run.trials() if (trial.scenario, trial.system) == (name, system)]
    assert trials
    assert [trial.reason for trial in trials if trial.status == "failed"] == []
    assert sum(seen(run, trial) for trial in trials) > 0


def seen(run: WorkbenchRun, trial: TrialRecord) -> int:
    """How many messages or calls were noted; a thumbnail that saw none shows nothing."""
    folder = run.folder / "trials" / trial.trial
    return sum(
        int(pyarrow.parquet.read_metadata(path).num_rows)
        for path in (folder / "received.parquet", folder / "calls.parquet")
        if path.exists()
    )
