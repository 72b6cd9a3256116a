# SPDX-License-Identifier: Apache-2.0
"""A thumbnail of every scenario but the flows', on the binding of ours that it names; tests/spark has the flows.

Each is a visit in a process of its own, three at a time, since most of a
visit is waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet
import pytest

from entrepot.workbench.catalogue import scenarios
from entrepot.workbench.measuring.effort import EFFORTS
from entrepot.workbench.measuring.record import TrialRecord
from entrepot.workbench.running.run import Run, begin_with
from entrepot.workbench.scenario import Scenario
from workbench.visiting import Silent

AT_ONCE = 3
NAMES = [
    (name, f"entrepot-{binding}")
    for name, scenario in scenarios().items()
    if scenario.load != "flow"
    for binding in scenario.entrepot
]


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Future[Run]]]:
    above = tmp_path_factory.mktemp("thumbnails")

    def measure(scenario: Scenario, system: str, folder: Path) -> Run:
        run = begin_with([scenario], [system], EFFORTS["thumbnail"], folder=folder)
        run.go(Silent())
        return run

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            (name, system): pool.submit(measure, scenarios()[name], system, above / str(number))
            for number, (name, system) in enumerate(NAMES)
        }
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(("name", "system"), NAMES)
def test_a_thumbnail_of_the_scenario_runs(visits: dict[tuple[str, str], Future[Run]], name: str, system: str) -> None:
    run = visits[name, system].result(timeout=170)
    trials = run.trials()
    assert trials
    assert [trial.reason for trial in trials if trial.status == "failed"] == []
    assert sum(seen(run, trial) for trial in trials) > 0


def seen(run: Run, trial: TrialRecord) -> int:
    """How many messages or calls were noted; a thumbnail that saw none shows nothing."""
    folder = run.folder / "trials" / trial.trial
    return sum(
        int(pyarrow.parquet.read_metadata(path).num_rows)
        for path in (folder / "received.parquet", folder / "calls.parquet")
        if path.exists()
    )
