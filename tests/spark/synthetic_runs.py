# SPDX-License-Identifier: Apache-2.0
"""Runs of known answers, written as the workbench writes them: the same records, the same Parquet, no system.

run = SyntheticRun(tmp_path / "run1", cores=2)
run.trial(load="stream", system="entrepot-unix", sent=rows, received=rows, samples=cpu(...))
run.write()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from entrepot.workbench.measuring.observations import (
    CALLS,
    RECEIVED,
    SENT,
    ObservationRows,
    samples_to_parquet,
    to_parquet,
)
from entrepot.workbench.measuring.record import RunRecord, TrialRecord, write_record

SECOND = 1_000_000_000
BEGUN = 5_000 * SECOND
"""When gates open, on a clock that nobody reads."""
Sample = tuple[int, str, str, float]
Rows = Sequence[tuple[int, ...]]


@dataclass
class SyntheticRun:
    folder: Path
    host: str = "host-1"
    cores: int = 2
    environment: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.folder.name

    def write(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        told = {"cores": str(self.cores), "host": self.host, **self.environment}
        record = RunRecord(
            run=self.name,
            begun="2026-11-16T12:00:00Z",
            scale="quick",
            scenarios=[],
            systems=[],
            host=self.host,
            environment=told,
            absent=dict(self.absent),
        )
        write_record(self.folder / "run.json", record)
        return self.folder

    def trial(
        self,
        *,
        load: str = "stream",
        system: str = "entrepot-unix",
        scenario: str = "ad-hoc/test",
        parameters: Mapping[str, object] | None = None,
        effective: Mapping[str, object] | None = None,
        repetition: int = 1,
        probe: int = 0,
        seconds: float = 2.0,
        sent: Rows = (),
        received: Rows = (),
        calls: Rows = (),
        samples: Iterable[Sample] = (),
        ended: bool = True,
        **more: Any,
    ) -> Path:
        told = {"quality": "express", **(parameters or {})}
        point = ",".join(f"{name}={told[name]}" for name in sorted(told))
        trial = f"{self.name}.{scenario.replace('/', '-')}.{system}.{point}.r{repetition}.p{probe}"
        folder = self.folder / "trials" / trial
        folder.mkdir(parents=True)
        for kind, columns, rows in (("sent", SENT, sent), ("received", RECEIVED, received), ("calls", CALLS, calls)):
            if rows:
                _write(folder, trial, kind, columns, rows)
        samples_to_parquet(trial, list(samples), folder / "samples.parquet")
        record = TrialRecord(
            run=self.name,
            host=self.host,
            visit=trial,
            trial=trial,
            scenario=scenario,
            document=more.pop("document", "ad-hoc"),
            table=more.pop("table", "test"),
            load=load,
            system=system,
            title=system.title(),
            quality=str(told["quality"]),
            contract="in memory",
            version="1",
            settings={},
            point=point,
            parameters={name: str(value) for name, value in told.items()},
            effective={name: str(value) for name, value in {**told, **(effective or {})}.items()},
            scale="quick",
            repetition=repetition,
            probe=probe,
            begun_ns=BEGUN,
            ended_ns=BEGUN + int(seconds * SECOND),
            **more,
        )
        if ended:
            write_record(folder / "trial.json", record)
        return folder


def _write(folder: Path, trial: str, kind: str, columns: Sequence[str], rows: Rows) -> None:
    """In the way that generators do it: each client its own array, brought together afterwards."""
    raw = []
    for client in sorted({row[0] for row in rows}):
        notes = ObservationRows(columns)
        for row in rows:
            if row[0] == client:
                notes.add(row)
        raw.append(folder / f"client-{client:03d}.{kind}.raw")
        notes.write(raw[-1])
    to_parquet(trial, columns, raw, folder / f"{kind}.parquet")
    for path in raw:
        path.unlink()


def evenly(rate_per_s: float, seconds: float) -> list[int]:
    """Moments from the opening of the gate, at a constant rate, each in the middle of its interval."""
    return [BEGUN + int((index + 0.5) / rate_per_s * SECOND) for index in range(int(rate_per_s * seconds))]


def cpu(
    seconds: float,
    *,
    machine: float,
    server: float,
    generators: float,
    busiest: float | None = None,
    every: float = 0.5,
) -> list[Sample]:
    """Readings of processes that use so many cores all the time."""
    cores = {
        ("cpu_busy_s", "machine"): machine,
        ("cpu_s", "server"): server,
        ("cpu_s", "generators"): generators,
        ("cpu_s", "busiest generator"): generators if busiest is None else busiest,
    }
    return [
        (BEGUN + int(step * every * SECOND), measure, subject, 100 + step * every * used)
        for step in range(round(seconds / every) + 1)
        for (measure, subject), used in cores.items()
    ]


def cumulative(measure: str, subject: str, per_s: float, seconds: float, every: float = 0.5) -> list[Sample]:
    return [
        (BEGUN + int(step * every * SECOND), measure, subject, 7 + step * every * per_s)
        for step in range(round(seconds / every) + 1)
    ]


def depths(queue: str, values: Sequence[float], every: float = 0.5) -> list[Sample]:
    return [(BEGUN + int(step * every * SECOND), "depth", queue, value) for step, value in enumerate(values)]
