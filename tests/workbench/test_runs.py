# SPDX-License-Identifier: Apache-2.0
"""Runs that are interrupted, and systems that die: what is resumed, what is marked, and that no number is made up."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from entrepot.errors import DiskTooFull, RunChanged, RunNotFound, ScenarioUnknown, SystemAbsent, SystemUnknown
from entrepot.workbench.measuring.effort import EFFORTS
from entrepot.workbench.measuring.glance import glance
from entrepot.workbench.measuring.record import read_run, read_trials, write_record
from entrepot.workbench.running import repeating
from entrepot.workbench.running import run as running
from workbench.visiting import Silent, ad_hoc, measure

DIES = """
import os, signal, threading, time
from entrepot.workbench.systems.entrepot_server import EntrepotUnix
started = EntrepotUnix.start
def start(self):
    started(self)
    threading.Timer({after}, lambda: os.kill(self.pids[0], signal.SIGKILL)).start()
EntrepotUnix.start = start
from entrepot.workbench.measuring.visit import main
main()
"""


def test_a_system_that_dies_under_load_is_a_failure_and_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "dies.py"
    script.write_text(DIES.format(after=1.5))
    real = subprocess.Popen

    def dying(command: list[str], **arguments: object) -> object:
        changed = [str(script) if part == "entrepot.workbench.measuring.visit" else part for part in command]
        return real([part for part in changed if part != "-m"], **arguments)  # type: ignore[call-overload]

    monkeypatch.setattr(running.subprocess, "Popen", dying)
    run, trials = measure(tmp_path, ad_hoc("open-loop", rate_per_s=200, message_bytes=64), seconds=6.0)
    assert trials[-1].status == "failed"
    assert "entrepot-unix" in trials[-1].reason or "generator" in trials[-1].reason
    assert [trial.status for trial in run.trials()] == ["failed"]


def test_an_interrupted_run_is_resumed_where_it_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "entrepot.cli.main", "bench", "run", "nstl/1", "--scale", "quick"]
    command += ["--seconds", "0.3", "--repetitions", "3", "-o", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_for(lambda: len(list(folder.glob("visits/*"))) >= 1)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert f"entrepot bench run --resume {folder}" in said
    done = {path.name: path.stat().st_mtime_ns for path in folder.glob("visits/*")}
    run = running.resume(folder)
    assert 0 < len(run.open_visits) < len(run.visits)
    run.go(Silent())
    assert not run.open_visits
    trials = read_trials(folder)
    assert sorted(trial.visit for trial in trials.values()) == sorted(visit.name for visit in run.visits)
    assert all(trial.status == "measured" for trial in trials.values())
    again = {path.name: path.stat().st_mtime_ns for path in folder.glob("visits/*")}
    assert {name: again[name] for name in done} == done


class Interrupted(threading.Thread):
    def start(self) -> None:
        raise KeyboardInterrupt


def test_an_interrupt_while_a_visit_begins_leaves_nothing_to_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(tmp_path)
    known = set(threading.enumerate())
    threads = SimpleNamespace(Thread=Interrupted, Timer=threading.Timer, Event=threading.Event)
    monkeypatch.setattr(running, "threading", threads)
    with pytest.raises(KeyboardInterrupt):
        run.go(Silent())
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread not in known and not thread.daemon])
    assert len(run.open_visits) == 1


def test_half_a_visit_is_not_counted_twice(tmp_path: Path) -> None:
    run, [trial] = measure(tmp_path, ad_hoc("send", message_bytes=100), messages_max=20)
    left = run.folder / "trials" / f"{trial.trial}.p7"
    shutil.copytree(run.folder / "trials" / trial.trial, left)
    (run.folder / "visits" / trial.visit).unlink()
    run.go(Silent())
    assert not left.exists()


@pytest.mark.parametrize("refuses", [False, True])
def test_a_trial_beside_others_is_marked_or_refused(tmp_path: Path, refuses: bool) -> None:
    # More than a tenth of all processors, however many there are.
    burning = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(burning) for _ in range(1 + (os.cpu_count() or 1) // 4)]
    try:
        load = ad_hoc("open-loop", rate_per_s=200, message_bytes=64)
        _, [trial] = measure(tmp_path, load, seconds=1.0, refuse_busy=refuses)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert trial.others_share is not None
    assert trial.others_share > 0.1
    assert trial.busy.startswith("other processes used")
    assert (trial.status, trial.reason) == (("invalid", trial.busy) if refuses else ("measured", ""))


def test_whether_busy_trials_are_refused_is_known_when_a_run_is_resumed(tmp_path: Path) -> None:
    run = running.begin(["nstl/1"], ["entrepot"], "thumbnail", folder=tmp_path / "run", refuse_busy=True)
    assert all(visit.plan.effort.refuse_busy for visit in running.resume(run.folder).visits)


def begun(folder: Path) -> running.WorkbenchRun:
    """A run that is planned and described, and has measured nothing yet."""
    scenario = ad_hoc("send", message_bytes=100)
    return running.begin_with([scenario], ["entrepot-unix"], EFFORTS["thumbnail"], folder=folder / "run")


def test_a_run_of_another_machine_is_not_resumed(tmp_path: Path) -> None:
    run = begun(tmp_path)
    write_record(run.folder / "run.json", msgspec.structs.replace(read_run(run.folder), host="elsewhere-1"))
    with pytest.raises(RunChanged, match="elsewhere-1"):
        running.resume(run.folder)


def test_a_folder_without_a_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match=r"no run\.json"):
        running.resume(tmp_path)


def test_a_run_is_not_begun_on_top_of_another(tmp_path: Path) -> None:
    begun(tmp_path)
    with pytest.raises(RunChanged, match="--resume"):
        begun(tmp_path)


def test_names_that_do_not_exist_are_told_with_near_ones(tmp_path: Path) -> None:
    with pytest.raises(ScenarioUnknown, match="near it are nstl/"):
        running.begin(["nstl/l"], ["entrepot"], "quick", folder=tmp_path / "run")
    with pytest.raises(SystemUnknown, match="rabbitmq"):
        running.begin(["nstl/1"], ["rabbit"], "quick", folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_peer_that_is_not_installed_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemAbsent, match="entrepot bench peers install"):
        running.begin(["nstl/1"], ["rabbitmq"], "quick", folder=tmp_path / "run")


def test_a_disk_without_room_is_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 10**6))
    with pytest.raises(DiskTooFull, match="MiB free"):
        running.begin(["nstl/1"], ["entrepot"], "quick", folder=tmp_path / "run")


def test_a_visit_that_hangs_is_ended_and_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LIMIT_FACTOR", 0.0)
    monkeypatch.setattr(running, "LIMIT_EXTRA_S", 2.0)
    begun = time.monotonic()
    _, [trial] = measure(tmp_path, ad_hoc("open-loop", rate_per_s=10, message_bytes=64), seconds=300.0)
    assert time.monotonic() - begun < 200
    assert (trial.status, "hung" in trial.reason) == ("failed", True)


def test_sonicmq_repeats_until_two_runs_are_alike_or_the_budget_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeating, "RUNS_MAX", 3)
    run, _ = measure(tmp_path, ad_hoc("round-trip", apps=1, workers=1, message_bytes=64))
    run.record = msgspec.structs.replace(run.record, repeat="alike")
    run.go(Silent())
    trials = sorted(run.trials(), key=lambda trial: trial.repetition)
    rates = [glance(run.folder / "trials" / trial.trial, trial).per_s for trial in trials]  # type: ignore[union-attr]
    alike = [abs(a - b) < 0.01 * max(a, b) for a, b in itertools.pairwise(rates)]
    assert len(rates) == 3 or alike == [False] * (len(alike) - 1) + [True]


def test_scales_are_what_the_documents_ask_for() -> None:
    assert EFFORTS["full"].repetitions >= 5
    assert EFFORTS["full"].calls == 5000


def wait_for(is_so: object, at_most_s: float = 60.0) -> None:
    deadline = time.monotonic() + at_most_s
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)
