# SPDX-License-Identifier: Apache-2.0
"""What a load works on: a running system, a point, and trials that keep what their clients note.

    with stage.trial(queues=["Q"]) as trial:
        trial.start("receiver", receive, receivers, "Q")   # receive(client, "Q") in processes of their own
        trial.gather()                                     # all are connected
        trial.start("sender", send, senders, "Q")
        trial.gather()
        trial.go(stage.seconds)                            # the load lasts so long, sampled
        trial.drain(lambda: trial.counted("receiver") >= trial.counted("sender"))

When the block ends, the clients are told to finish, what they noted becomes
Parquet, and trial.json says what became of it. A client that fails or a
system that dies makes the trial a failure, whatever had been counted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from entrepot.errors import MeasurementError, SystemFailed
from entrepot.workbench.generators.applications import Applications
from entrepot.workbench.generators.client import Client
from entrepot.workbench.generators.gate import StartGate, sleep_until
from entrepot.workbench.measuring.effort import Effort
from entrepot.workbench.measuring.observations import CALLS, RECEIVED, SENT, samples_to_parquet, to_parquet
from entrepot.workbench.measuring.quiet import busy_mark
from entrepot.workbench.measuring.record import Status, TrialRecord, as_texts, write_record
from entrepot.workbench.measuring.sampler import Sampler
from entrepot.workbench.scenario import Parameter, Point, Scenario
from entrepot.workbench.systems.system import System

_POLL_S = 0.01
_SHARE_MIN_NS = 300_000_000
"""CPU time comes in ticks of 10 ms, so a share of less than this would be a guess."""
_GETTERS = ("receiver", "subscriber")
_KINDS = {"sent": SENT, "received": RECEIVED, "calls": CALLS}
Say = Callable[[str], None]
Pids = Callable[[], Sequence[int]]
"""Which processes there are now."""


class Trial:
    """One load on one running system."""

    def __init__(self, stage: Stage, queues: Sequence[str], servers: Pids) -> None:
        self.stage = stage
        self.gate = StartGate()
        self.facts: dict[str, float] = {}
        self.evidence: dict[str, str] = {}
        self.reason = ""
        """Why the figures must not be used; a load may set it."""
        self.folder = stage.scratch / f"raw-{time.monotonic_ns()}"
        self.folder.mkdir(parents=True)
        self._slots: dict[str, range] = {}
        self._clients = 0
        self.applications = Applications(self.gate, one_process=stage.system.one_process)
        self._sampler = Sampler(
            stage.system,
            lambda: self.applications.pids(),
            servers=lambda: [*stage.system.pids, *servers()],
            getters=lambda: [pid for role in _GETTERS for pid in self.applications.pids(role)],
            waits_s=lambda: self.gate.waits_s(range(self._clients)),
            queues=queues,
            every_s=stage.effort.sample_s,
        )
        # From here to the end of the trial: a load may be too short for its CPU time to be told by ticks.
        self.read_others()

    def read_others(self) -> None:
        self._sampler.read_others()

    def start(self, role: str, function: Callable[..., None], count: int, *arguments: Any) -> None:
        """Run `function(client, *arguments)` for so many clients of a role, numbered from 0."""
        first = self._clients
        clients = [
            Client(role, number, first + number, self.stage.system, self.gate, self.folder) for number in range(count)
        ]
        self._clients += count
        self._slots[role] = range(first, self._clients)
        self.applications.start(clients, function, *arguments)

    def gather(self) -> None:
        self.applications.gather()

    def counted(self, role: str) -> int:
        """The sum of what the clients of a role have last told with `client.count`."""
        return self.gate.counted(self._slots[role])

    def go(self, seconds: float, until: Callable[[], bool] | None = None) -> None:
        """Open the gate and sample until the time is over, or `until` says that there is nothing left to do.

        Raises:
            GeneratorFailed, SystemFailed: A process has died; the trial gives no figure.
        """
        self.gate.open(seconds)
        sleep_until(self.gate.begun_ns)
        with self._sampler:
            while (left_s := (self.gate.ended_ns - time.monotonic_ns()) / 1e9) > 0:
                if until is not None and until():
                    self.gate.close_now()
                    break
                time.sleep(min(left_s, _POLL_S if until is not None else 0.1))
                self._check()

    def drain(self, is_empty: Callable[[], bool], at_most_s: float | None = None) -> bool:
        """Wait for what is under way; whether all of it came, which is the fact `drained` too."""
        deadline = time.monotonic() + (self.stage.effort.drain_s if at_most_s is None else at_most_s)
        self.facts["drained"] = 0.0
        while not is_empty():
            self._check()
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        self.facts["drained"] = 1.0
        return True

    def finish(self, *roles: str) -> None:
        """Tell the clients that it is over, and wait for those of these roles (all, if none is named)."""
        self.gate.finish()
        for role in roles or tuple(self._slots):
            self.applications.join(role)

    def samples(self, measure: str, subject: str | None = None) -> list[tuple[int, float]]:
        """What the sampler has read so far: (time in ns, value)."""
        return [
            (t_ns, value)
            for t_ns, name, about, value in self._sampler.samples
            if name == measure and subject in (None, about)
        ]

    def busiest_generator(self) -> float | None:
        """The share of a core that the busiest generator used while the load lasted; None when it was too short."""
        samples = self.samples("cpu_s", "busiest generator")
        return _cores([sample for sample in samples if sample[0] <= self.gate.ended_ns])

    def others_share(self) -> float | None:
        """The share of all processors that others used while the trial lasted; None when it was too short."""
        cores = _cores(self.samples("cpu_s", "others"))
        return None if cores is None else max(cores, 0.0) / len(os.sched_getaffinity(0))

    def raw(self, kind: str) -> list[Path]:
        """What clients of finished roles have noted."""
        return sorted(self.folder.glob(f"*.{kind}.raw"))

    def _check(self) -> None:
        self.applications.check()
        if not self.stage.system.is_alive():
            raise SystemFailed(self.stage.system.name, "died under load")

    def keep(self, target: Path, trial: str) -> None:
        for kind, columns in _KINDS.items():
            if raw := self.raw(kind):
                to_parquet(trial, columns, raw, target / f"{kind}.parquet")
        samples_to_parquet(trial, self._sampler.samples, target / "samples.parquet")


def _cores(samples: Sequence[tuple[int, float]]) -> float | None:
    """How many cores a CPU time stands for, from its first to its last reading."""
    if len(samples) < 2 or samples[-1][0] - samples[0][0] < _SHARE_MIN_NS:
        return None
    return (samples[-1][1] - samples[0][1]) / ((samples[-1][0] - samples[0][0]) / 1e9)


class Stage:
    """A running system and a point; made by the leader of a visit (visit.py)."""

    def __init__(
        self,
        system: System,
        scenario: Scenario,
        point: Point,
        effort: Effort,
        *,
        run: str,
        host: str,
        repetition: int,
        results: Path,
        scratch: Path,
        defaults: Mapping[str, Parameter],
        say: Say = lambda _: None,
    ) -> None:
        self.system = system
        self.scenario = scenario
        self.point = point
        self.effort = effort
        self.scratch = scratch
        self.say = say
        """Reports progress."""
        self._parameters = {**defaults, **point.effective}
        self._run, self._host, self._repetition, self._results = run, host, repetition, results
        self.trials: list[TrialRecord] = []
        self.failure = ""
        """Why the last trial failed; empty when it did not."""

    @property
    def seconds(self) -> float:
        """How long the load of one trial is to last."""
        factor = float(self._parameters.get("seconds_factor", 1))
        warm_up_s = self.system.warm_up_s if self.effort.system_warm_up else 0.0
        return self.effort.seconds * factor + warm_up_s

    def number(self, name: str) -> int:
        return int(self._parameters[name])

    def text(self, name: str) -> str:
        return str(self._parameters[name])

    def messages_max(self, message_bytes: int, senders: int) -> int:
        """How many messages each sender may put where nothing takes them away at the same time."""
        return max(
            10, min(self.effort.messages_max, self.effort.bytes_max // max(message_bytes, 64) // max(senders, 1))
        )

    @contextlib.contextmanager
    def trial(
        self,
        *,
        queues: Sequence[str] = (),
        servers: Pids = tuple,
        probe: int = 0,
        offered_per_s: float | None = None,
        is_kept: bool = True,
    ) -> Iterator[Trial]:
        """A trial on the running system; `servers` are processes that belong to it beside its own.

        What goes wrong inside as a MeasurementError marks the trial as failed
        and is not raised further; `stage.failure` tells.
        """
        trial = Trial(self, queues, servers)
        status: Status = "measured"
        reason = ""
        try:
            with trial.applications:
                yield trial
                trial.finish(*_WRITERS & set(trial._slots))
            if not self.system.is_alive():
                raise SystemFailed(self.system.name, "died under load")
        except MeasurementError as error:
            status, reason = "failed", str(error)
        self.failure = reason
        trial.read_others()
        refused = busy_mark(trial.others_share()) if self.effort.refuse_busy else ""
        if status == "measured" and (trial.reason or refused):
            status, reason = "invalid", trial.reason or refused
        if is_kept:
            record = self._record(trial, probe, offered_per_s, status, reason)
            target = self._results / record.trial
            target.mkdir(parents=True, exist_ok=True)
            trial.keep(target, record.trial)
            write_record(target / "trial.json", record)
            self.trials.append(record)
        shutil.rmtree(trial.folder, ignore_errors=True)

    def conclude(
        self, facts: dict[str, float], evidence: dict[str, str], status: Status = "measured", reason: str = ""
    ) -> None:
        """What several trials together have found, as a record without observations of its own."""
        last = self.trials[-1] if self.trials else None
        if last is None:
            return
        visit = last.visit
        others_share = max((trial.others_share or 0.0 for trial in self.trials), default=None)
        refused = busy_mark(others_share) if self.effort.refuse_busy else ""
        if status == "measured" and refused:
            status, reason = "invalid", refused
        record = msgspec.structs.replace(
            last,
            trial=visit,
            probe=0,
            offered_per_s=None,
            begun_ns=self.trials[0].begun_ns,
            status=status,
            reason=reason,
            facts=facts,
            evidence=evidence,
            others_share=others_share,
            busy=busy_mark(others_share),
        )
        target = self._results / visit
        target.mkdir(parents=True, exist_ok=True)
        write_record(target / "trial.json", record)
        self.trials.append(record)

    def _record(self, trial: Trial, probe: int, offered: float | None, status: Status, reason: str) -> TrialRecord:
        record = unmeasured(
            type(self.system), self.scenario, self.point, self.effort, self._run, self._host, self._repetition
        )
        others_share = trial.others_share()
        return msgspec.structs.replace(
            record,
            trial=f"{record.visit}.p{probe}" if probe else record.visit,
            version=self.system.version(),
            settings=self.system.settings(),
            effective=as_texts(self._parameters),
            probe=probe,
            offered_per_s=offered,
            begun_ns=trial.gate.begun_ns,
            ended_ns=trial.gate.ended_ns,
            status=status,
            reason=reason,
            others_share=others_share,
            busy=busy_mark(others_share),
            facts=trial.facts,
            evidence=trial.evidence,
        )


def unmeasured(
    kind: type[System], scenario: Scenario, point: Point, effort: Effort, run: str, host: str, repetition: int
) -> TrialRecord:
    """What is known of a trial before it: all that a mark needs where a figure would have been."""
    visit = visit_name(run, scenario, point, kind.name, repetition)
    return TrialRecord(
        run=run,
        host=host,
        visit=visit,
        trial=visit,
        scenario=scenario.name,
        document=scenario.document,
        table=scenario.table,
        load=scenario.load,
        system=kind.name,
        title=kind.title,
        quality=str(point.quality),
        contract=kind.contracts.get(point.quality, ""),
        version="",
        settings={},
        point=point.key,
        parameters=as_texts(point.parameters),
        effective=as_texts(point.effective),
        reduced=point.reduced,
        scale=effort.scale,
        repetition=repetition,
        begun_ns=0,
        ended_ns=0,
        status="failed",
    )


_WRITERS = {"sender", "receiver", "driver", "caller", "subscriber", "publisher"}
"""Roles whose clients end by themselves when they are told to; repliers serve until they are killed."""


def visit_name(run: str, scenario: Scenario, point: Point, system: str, repetition: int) -> str:
    """Unique over all runs, and safe as the name of a folder."""
    import zlib

    digest = zlib.crc32(point.key.encode())
    return f"{run}.{scenario.name.replace('/', '-')}.{system}.{digest:08x}.r{repetition}"
