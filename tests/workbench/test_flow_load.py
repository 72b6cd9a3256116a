# SPDX-License-Identifier: Apache-2.0
"""The flow load with Spark in a process tree of its own, as a run has it; tests/spark has a thumbnail of every case."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import msgspec
import pytest

from entrepot.errors import SystemFailed
from entrepot.workbench.broker.engine import Engine
from entrepot.workbench.loads.flows import Flow, FlowLoadPlan, at_work, run_trial
from entrepot.workbench.measuring.effort import EFFORTS
from entrepot.workbench.measuring.stage import Stage
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.entrepot_server import EntrepotUnix
from entrepot.workbench.systems.processes import descendants
from workbench.visiting import ad_hoc, measure, rows


def test_a_visit_measures_a_flow_with_its_database_and_the_processes_that_run_them(folder: Path) -> None:
    run, [trial] = measure(folder, ad_hoc("flow", case="database_update", quality="transactional"), seconds=1.5)
    assert trial.status != "failed", trial.reason
    sent = sorted((row["sender"], row["number"]) for row in rows(run, trial, "sent"))
    received = sorted((row["sender"], row["number"]) for row in rows(run, trial, "received"))
    assert sent and sent == received
    assert trial.facts["cpu_per_message"] > 0


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    scenario = ad_hoc("flow", case="trivial")
    (point,) = scenario.points
    system = EntrepotUnix(tmp_path, Quality.EXPRESS, point.effective)
    return Stage(
        system,
        scenario,
        point,
        msgspec.structs.replace(EFFORTS["thumbnail"], drain_s=1.0),
        run="tests",
        host="tests",
        repetition=1,
        results=tmp_path / "results",
        scratch=tmp_path,
        defaults=Flow.parameters,
    )


def test_an_engine_that_dies_gives_no_figure_and_leaves_nobody_behind(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = FlowLoadPlan(stage)
    with stage.system, Engine(stage.scratch, tasks=plan.tasks) as engine:
        with monkeypatch.context() as without_queues:
            without_queues.setattr(type(stage.system), "create_queues", lambda *_: None)
            with pytest.raises(SystemFailed, match=r"there is no queue BROKER\.IN"), at_work(stage, plan, engine):
                pass
        with at_work(stage, plan, engine) as servers:
            family = engine.pids
            assert set(servers()) == set(family) and len(family) >= 4
            killer = threading.Timer(0.6, os.kill, (family[0], signal.SIGKILL))
            killer.start()
            run_trial(stage, plan, engine, servers)
            killer.join()
        assert [(trial.status, "has ended" in trial.reason) for trial in stage.trials] == [("failed", True)]
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in family) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in family if Path(f"/proc/{pid}").exists()] == []


def test_descendants_of_a_process_begin_with_itself() -> None:
    assert descendants(os.getpid())[0] == os.getpid()
