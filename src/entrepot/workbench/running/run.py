# SPDX-License-Identifier: Apache-2.0
"""A run: a folder with run.json, and the visits that are made into it one after the other.

    RUN/run.json            RunRecord: what was asked for, and where
    RUN/trials/…            measuring/observations.py
    RUN/visits/VISIT        empty; this visit came to its end, so a resumed run does not repeat it
    RUN/s/                  where systems keep their files while they are measured

A visit is a process of its own with a time limit. When it dies, its trial
is marked as failed and the run goes on with the next.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec

from entrepot.errors import DiskTooFull, RunChanged
from entrepot.workbench.measuring import environment
from entrepot.workbench.measuring.effort import EFFORTS, Effort
from entrepot.workbench.measuring.record import RunRecord, TrialRecord, read_run, read_trials, write_record
from entrepot.workbench.measuring.visit import VisitPlan, failed
from entrepot.workbench.running.plan import PlannedVisit, planned
from entrepot.workbench.running.repeating import Watcher, repeat
from entrepot.workbench.running.representative import chosen
from entrepot.workbench.scenario import Scenario

RUNS = Path("bench-runs")
"""Where runs go that are given no folder."""
ROOM_MIB = 512
"""For raw observations, beside what systems write."""
LIMIT_FACTOR, LIMIT_EXTRA_S = 6.0, 240.0
"""A visit that takes so much longer than estimated hangs."""
_MIB = 1024 * 1024


class WorkbenchRun:
    def __init__(self, folder: Path, record: RunRecord, visits: Sequence[PlannedVisit]) -> None:
        self.folder = folder
        self.record = record
        self.visits = visits

    @property
    def rule(self) -> str:
        """When a case was repeated often enough."""
        return self.record.repeat

    @property
    def open_visits(self) -> list[PlannedVisit]:
        """Those that have not come to their end."""
        return [visit for visit in self.visits if not self._mark(visit).exists()]

    def _mark(self, visit: PlannedVisit) -> Path:
        return self.folder / "visits" / visit.name

    def go(self, watcher: Watcher) -> list[TrialRecord]:
        """Make all open visits; what an interrupt leaves undone can be resumed."""
        (self.folder / "visits").mkdir(parents=True, exist_ok=True)
        waiting = self.open_visits
        found: list[TrialRecord] = []
        estimated_s, begun = 0.0, time.monotonic()
        for number, visit in enumerate(waiting):
            left_s = sum(later.estimate_s for later in waiting[number:])
            if estimated_s:
                left_s *= (time.monotonic() - begun) / estimated_s
            watcher.visit_begins(number + 1, len(waiting), visit, left_s)
            found += self.make(visit, watcher)
            estimated_s += visit.estimate_s
        if self.record.repeat != "fixed":
            found += repeat(self, watcher)
        if self.record.environment["source"] != environment.source_digest():
            changed = {**self.record.environment, "source changed during the run": "yes: do not quote it"}
            self.record = msgspec.structs.replace(self.record, environment=changed)
            write_record(self.folder / "run.json", self.record)
        return found

    def make(self, visit: PlannedVisit, watcher: Watcher) -> list[TrialRecord]:
        """One visit, and its mark; nothing when it was made before.

        Raises:
            DiskTooFull: There is no room for it; the run can be resumed.
        """
        if self._mark(visit).exists():
            return self._trials_of(visit)
        require_room(self.folder, visit.plan.effort)
        self._forget(visit)
        trials = self._visit(visit, watcher)
        self._mark(visit).touch()
        watcher.visit_ended(trials)
        return trials

    def trials(self) -> list[TrialRecord]:
        return list(read_trials(self.folder).values())

    def _forget(self, visit: PlannedVisit) -> None:
        """What an interrupted visit has left would be counted twice."""
        # The tenth repetition's name begins as the first one's does.
        for left in (visit.name, *(probe.name for probe in (self.folder / "trials").glob(f"{visit.name}.*"))):
            shutil.rmtree(self.folder / "trials" / left, ignore_errors=True)

    def _visit(self, visit: PlannedVisit, watcher: Watcher) -> list[TrialRecord]:
        problem = _in_a_process(visit, watcher)
        trials = self._trials_of(visit)
        if problem or not trials:
            failed(visit.plan, problem or "the visit ended without a trial")
            trials = self._trials_of(visit)
        return trials

    def _trials_of(self, visit: PlannedVisit) -> list[TrialRecord]:
        trials = read_trials(self.folder).items()
        return [trial for name, trial in trials if name == visit.name or name.startswith(f"{visit.name}.")]


def begin(
    names: Sequence[str],
    systems: Sequence[str],
    scale: str,
    *,
    folder: Path | None = None,
    seconds: float | None = None,
    repetitions: int | None = None,
    repeat: str = "fixed",
    refuse_busy: bool = False,
    strict: bool = True,
) -> WorkbenchRun:
    """Plan a run and write its run.json; nothing is measured yet.

    With `strict`, a system that was named has to be installed. `repeat` says when a case was repeated often enough
    (repeating.py); with `refuse_busy`, a trial that other processes disturbed gives no figure (quiet.py).

    Raises:
        ScenarioUnknown, SystemUnknown, SystemAbsent, LoadUnsuitable, DiskTooFull: Nothing was written.
    """
    wanted = _Wanted(names, systems, scale, seconds, repetitions, repeat, refuse_busy)
    return _begun(wanted, chosen(names, systems), wanted.effort(), folder, strict=strict)


def begin_with(scenarios: Sequence[Scenario], systems: Sequence[str], effort: Effort, *, folder: Path) -> WorkbenchRun:
    """The same for scenarios that are in no catalogue; such a run cannot be resumed by its folder alone."""
    wanted = _Wanted([scenario.name for scenario in scenarios], systems, effort.scale)
    return _begun(wanted, [(scenario, systems) for scenario in scenarios], effort, folder, strict=True)


def resume(folder: Path) -> WorkbenchRun:
    """A run that was interrupted, with the visits that are still to be made.

    Raises:
        RunNotFound: The folder holds no run.
        RunChanged: The machine or the software is not the one that the run began with.
    """
    folder = folder.resolve()
    record = read_run(folder)
    found = environment.describe(folder)
    host = environment.fingerprint(found)
    if host != record.host:
        raise RunChanged(str(folder), f"it was begun on {record.host}, and this is {host}")
    if found["source"] != record.environment.get("source"):
        raise RunChanged(str(folder), "the package has been edited since, and one figure would come from two versions")
    effort = (record.seconds, record.repetitions, record.repeat, record.refuse_busy)
    wanted = _Wanted(record.scenarios, record.systems, record.scale, *effort)
    cases = chosen(record.scenarios, record.systems)
    visits, _ = planned(cases, wanted.effort(), run=record.run, host=host, folder=folder, strict=False)
    return WorkbenchRun(folder, record, visits)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What was asked for, in the words in which it was."""

    names: Sequence[str]
    systems: Sequence[str]
    scale: str
    seconds: float | None = None
    repetitions: int | None = None
    repeat: str = "fixed"
    refuse_busy: bool = False

    def effort(self) -> Effort:
        given = (("seconds", self.seconds), ("repetitions", self.repetitions))
        changes = {name: value for name, value in given if value is not None}
        return msgspec.structs.replace(EFFORTS[self.scale], refuse_busy=self.refuse_busy, **changes)


def _begun(
    wanted: _Wanted,
    cases: Sequence[tuple[Scenario, Sequence[str]]],
    effort: Effort,
    folder: Path | None,
    *,
    strict: bool,
) -> WorkbenchRun:
    now = datetime.now(UTC)
    name = f"{now:%Y%m%dT%H%M%S}"
    folder = (folder or RUNS / name).resolve()
    if (folder / "run.json").exists():
        raise RunChanged(str(folder), "it holds a run already; --resume goes on with it")
    # Before anything is written, so that a wrong name leaves nothing behind.
    planned(cases, effort, run=name, host="", folder=folder, strict=strict)
    require_room(folder, effort)
    folder.mkdir(parents=True, exist_ok=True)
    found = environment.describe(folder)
    host = environment.fingerprint(found)
    visits, absent = planned(cases, effort, run=name, host=host, folder=folder, strict=strict)
    record = RunRecord(
        run=name,
        begun=now.isoformat(timespec="seconds"),
        scale=effort.scale,
        scenarios=list(wanted.names),
        systems=list(wanted.systems),
        host=host,
        environment=found,
        absent=absent,
        seconds=wanted.seconds,
        repetitions=wanted.repetitions,
        repeat=wanted.repeat,
        refuse_busy=wanted.refuse_busy,
    )
    write_record(folder / "run.json", record)
    return WorkbenchRun(folder, record, visits)


def require_room(folder: Path, effort: Effort) -> None:
    """
    Raises:
        DiskTooFull: There is less room than a visit may need.
    """
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free_mib = shutil.disk_usage(there).free // _MIB
    # A message is in the log, in the queue and in the observations.
    wanted_mib = ROOM_MIB + 4 * effort.bytes_max // _MIB
    if free_mib < wanted_mib:
        raise DiskTooFull(str(there), free_mib, wanted_mib)


def _in_a_process(visit: PlannedVisit, watcher: Watcher) -> str:
    """Make a visit in a fresh interpreter; what went wrong with it, if anything."""
    limit_s = visit.estimate_s * LIMIT_FACTOR + LIMIT_EXTRA_S
    command = [sys.executable, "-m", "entrepot.workbench.measuring.visit"]
    # A session of its own, so that everything it started can be ended with it; and it dies when we die.
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    hung = threading.Event()

    def end_it() -> None:
        hung.set()
        _end(process)

    timer = threading.Timer(limit_s, end_it)
    # Or an interrupt that comes before the `try` would let our own end wait for it.
    timer.daemon = True
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.append(_text(process.stderr)), daemon=True)
    try:
        timer.start()
        reader.start()
        _feed(process, visit.plan)
        assert process.stdout is not None
        for line in process.stdout:
            watcher.visit_says(line.rstrip())
        process.wait()
    except BaseException:
        _end(process)
        raise
    finally:
        timer.cancel()
    reader.join(5.0)
    if hung.is_set():
        return f"it hung and was ended after {limit_s:.0f} s"
    if process.returncode:
        return f"its process ended with {process.returncode}: {''.join(errors)[-1500:]}"
    return ""


def _feed(process: subprocess.Popen[str], plan: VisitPlan) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(msgspec.json.encode(plan).decode())
        process.stdin.close()


def _text(stream: IO[str] | None) -> str:
    return stream.read() if stream is not None else ""


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
