# SPDX-License-Identifier: Apache-2.0
"""Progress of a run: a bar with the time left, what is going on now, and a line for each visit that ended."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from entrepot.cli import output
from entrepot.errors import ExtraMissing

if TYPE_CHECKING:
    from entrepot.workbench.measuring.record import TrialRecord
    from entrepot.workbench.running.plan import PlannedVisit
    from entrepot.workbench.running.run import WorkbenchRun


class Watching:
    """Draws on standard error, so that an answer in JSON stays clean; for the main thread."""

    def __init__(self, folder: Path, *, quiet: bool = False) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

        self._folder = folder
        self._quiet = quiet
        self._console = output.console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._progress.add_task("")
        self._now = ""
        self._left = ""
        self.without_figure: list[str] = []
        """Trials that were carried out, and in which no message arrived."""
        self._interrupted = False
        self._interrupt_before: Any = None

    def __enter__(self) -> Watching:
        self._interrupt_before = signal.signal(signal.SIGINT, self._interrupt)
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        signal.signal(signal.SIGINT, self._interrupt_before)

    def _interrupt(self, *_: object) -> NoReturn:
        # A library may swallow the exception: pyarrow does, while it is imported.
        self._interrupted = True
        raise KeyboardInterrupt

    def visit_begins(self, number: int, total: int, visit: PlannedVisit, left_s: float) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._now = f"{visit.plan.scenario} {visit.plan.system} {visit.plan.point().key}"
        self._left = f"about {minutes(left_s)} left"
        self._progress.update(self._task, completed=number - 1, total=total)
        self.visit_says("")

    def visit_says(self, text: str) -> None:
        from rich.markup import escape

        suffix = f": {text}" if text else ""
        self._progress.update(self._task, description=escape(f"{self._left}; {self._now}{suffix}"))

    def visit_ended(self, trials: Sequence[TrialRecord]) -> None:
        from rich.text import Text

        # A search is told by what it found, not by its last probe.
        shown = [trial for trial in trials if not trial.probe][-1:] or trials[-1:]
        for trial in () if self._quiet else shown:
            line = self._line(trial)
            style = "" if trial.status == "measured" and "NO FIGURE" not in line else "red"
            self._console.print(Text(output.safe(line), style=style))

    def _line(self, trial: TrialRecord) -> str:
        from entrepot.workbench.measuring.glance import glance

        head = f"{trial.scenario} {trial.system} {trial.point} #{trial.repetition}: "
        if trial.status != "measured":
            return f"{head}{trial.status.upper()}: {trial.reason.strip().splitlines()[0] if trial.reason else ''}"
        busy = f"; BUSY: {trial.busy}" if trial.busy else ""
        if "mst" in trial.facts:
            sure = "can be sustained" if trial.facts.get("mst_confirmed") else "can perhaps be sustained"
            return f"{head}{trial.facts['mst']:,.0f} msg/s {sure}{busy}"
        found = glance(self._folder / "trials" / trial.trial, trial)
        if found is None:
            return f"{head}done"
        times = "" if found.latency_ms_median is None else f", {found.latency_ms_median:.2f} ms at the median"
        missing = f", {found.missing:,} MISSING" if found.missing else ""
        if not found.messages:
            self.without_figure.append(f"{trial.scenario} {trial.system} {trial.point} #{trial.repetition}")
            return f"{head}NO FIGURE: no message arrived while the load ran{missing}{busy}"
        return f"{head}{found.per_s:,.0f}/s{times}{missing}{busy}"


def require_extra() -> None:
    """
    Raises:
        ExtraMissing: What measuring needs beyond Entrepot itself is not installed.
    """
    from importlib.util import find_spec

    if find_spec("numpy") is None or find_spec("pyarrow") is None:
        raise ExtraMissing("the workbench", "bench")


@contextmanager
def interruptible(run: WorkbenchRun) -> Iterator[None]:
    """Ctrl-C leaves a run that can be resumed, and says how."""
    import typer

    try:
        yield
    except KeyboardInterrupt:
        output.note(f"interrupted; go on with: entrepot bench run --resume {_shown(run.folder)}")
        raise typer.Exit(130) from None


def _shown(folder: Path) -> str:
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)


def minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
