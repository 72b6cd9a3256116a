# SPDX-License-Identifier: Apache-2.0
"""One visit: a fresh process that starts a system, puts it under load, stops it, and leaves its trials.

Run as `python -m entrepot.workbench.measuring.visit`, with a VisitPlan as
JSON on its input. It says on its output, line by line, what it is doing.
The system and the generators die with it, so its parent can end
everything by ending it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from entrepot.errors import MeasurementError, SystemFailed
from entrepot.workbench.catalogue import find_scenario
from entrepot.workbench.loads import find_load
from entrepot.workbench.measuring.effort import Effort
from entrepot.workbench.measuring.record import TrialRecord, write_record
from entrepot.workbench.measuring.stage import Say, Stage, unmeasured
from entrepot.workbench.scenario import Parameter, Point, Scenario
from entrepot.workbench.systems import find_system


class VisitPlan(msgspec.Struct, kw_only=True, frozen=True):
    run: str
    host: str
    scenario: str
    """Of the catalogue; or a name for an ad-hoc load, with `load` and its parameters."""
    load: str
    parameters: dict[str, Parameter]
    effective: dict[str, Parameter]
    reduced: str = ""
    system: str
    repetition: int
    effort: Effort
    results: str
    """RUN/trials."""
    scratch: str
    """Where the system keeps its files; on the disk that is to be measured."""

    def point(self) -> Point:
        return Point(self.parameters, self.effective, self.reduced)

    def subject(self) -> Scenario:
        """The scenario; an ad-hoc load has one of its own."""
        if self.scenario.startswith("ad-hoc/"):
            return Scenario(self.scenario, self.scenario, (), self.load, (self.point(),))
        return find_scenario(self.scenario)


def visit(plan: VisitPlan, say: Say = lambda _: None) -> list[TrialRecord]:
    """The trials that were made; one that is marked as failed when the system did not even start."""
    scenario, point = plan.subject(), plan.point()
    load, kind = find_load(plan.load), find_system(plan.system)
    with scratch_folder(Path(plan.scratch)) as folder:
        system = kind(folder, point.quality, {**load.parameters, **point.effective})
        stage = Stage(
            system,
            scenario,
            point,
            plan.effort,
            run=plan.run,
            host=plan.host,
            repetition=plan.repetition,
            results=Path(plan.results),
            scratch=folder,
            defaults=load.parameters,
            say=say,
        )
        try:
            say(f"starting {system.title}")
            with system:
                load().run(stage)
        except MeasurementError as error:
            return [*stage.trials, failed(plan, str(error))]
        except Exception as error:
            # A system whose client raises an error of its own has failed; ours is told apart by its type.
            return [*stage.trials, failed(plan, str(SystemFailed(plan.system, f"{type(error).__name__}: {error}")))]
        return stage.trials


def failed(plan: VisitPlan, reason: str) -> TrialRecord:
    """Leave a mark where a figure would have been."""
    identity = (plan.subject(), plan.point(), plan.effort, plan.run, plan.host, plan.repetition)
    record = msgspec.structs.replace(unmeasured(find_system(plan.system), *identity), reason=reason)
    target = Path(plan.results) / record.trial
    target.mkdir(parents=True, exist_ok=True)
    write_record(target / "trial.json", record)
    return record


@contextlib.contextmanager
def scratch_folder(above: Path) -> Iterator[Path]:
    """A fresh folder for a system, removed at the end."""
    # Short, because the path of a Unix socket must be below 108 bytes, and readable for servers of other users.
    folder = above / f"v{os.getpid()}"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=VisitPlan)
    visit(plan, say=lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
