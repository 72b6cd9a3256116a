# SPDX-License-Identifier: Apache-2.0
"""`entrepot bench`: the documents' measurements, on us and on today's brokers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entrepot.cli import bench_loads, output
from entrepot.cli.arguments import Json

if TYPE_CHECKING:
    from entrepot.workbench.running.run import WorkbenchRun
    from entrepot.workbench.scenario import Scenario

app = typer.Typer(
    help="Measure: the tables and figures of five documents, on Entrepot and on other brokers.", no_args_is_help=True
)
peers = typer.Typer(help="The other brokers.", no_args_is_help=True)
app.add_typer(peers, name="peers")

Systems = Annotated[
    str,
    typer.Option(
        "--system",
        "-s",
        metavar="NAME,…",
        help="entrepot (the binding that the scenario names), all (and every peer that is installed), or names.",
    ),
]


@app.command("list")
def list_scenarios(
    patterns: Annotated[list[str] | None, typer.Argument(metavar="[PATTERN]...", help="Such as 'wmq/*'.")] = None,
    systems: Annotated[bool, typer.Option("--systems", help="Also which systems each fits.")] = False,
    json: Json = False,
) -> None:
    """Show the scenarios: what each draws again, what it needs, and what this machine cannot hold."""
    from entrepot.cli.bench_watching import require_extra

    require_extra()
    from entrepot.workbench.catalogue import find_scenarios

    found = find_scenarios(patterns or ["*"])
    if json:
        output.print_json([_as_data(scenario) for scenario in found])
        return
    columns: tuple[str, ...] = ("scenario", "shows", "load", "needs", "points", "title")
    rows: list[tuple[str, ...]] = [
        (
            scenario.name,
            ", ".join(scenario.shows),
            scenario.load,
            ", ".join(_needs(scenario)),
            _points(scenario),
            scenario.title,
        )
        for scenario in found
    ]
    if systems:
        columns = (*columns, "systems")
        rows = [(*row, ", ".join(_fitting(scenario))) for row, scenario in zip(rows, found, strict=True)]
    output.table(columns, rows)
    output.say(f"{len(found)} scenarios. entrepot bench run NAME… measures them; --scale full can be quoted.")


@app.command("systems")
def list_systems(json: Json = False) -> None:
    """Show the systems that can be measured, what each promises, and whether it can run here."""
    from entrepot.workbench.systems import NAMES, absent_reason, find_system

    found = []
    for name in NAMES:
        absent = absent_reason(name)
        try:
            kind = find_system(name)
        except ModuleNotFoundError:
            found.append({"system": name, "here": absent, "abilities": [], "contracts": {}})
            continue
        contracts = {str(quality): promise for quality, promise in kind.contracts.items()}
        found.append({"system": name, "here": absent, "abilities": sorted(kind.abilities), "contracts": contracts})
    if json:
        output.print_json(found)
        return
    rows = [
        (each["system"], each["here"] or "yes", ", ".join(each["contracts"]), ", ".join(each["abilities"]))
        for each in found
    ]
    output.table(("system", "can run here", "qualities", "abilities"), rows)


@app.command()
def run(
    scenarios: Annotated[
        list[str] | None, typer.Argument(metavar="[SCENARIO]...", help="Names or patterns; see `list`.")
    ] = None,
    scale: Annotated[
        str, typer.Option("--scale", help="thumbnail (shows that it works), quick, or full (can be quoted).")
    ] = "quick",
    system: Systems = "entrepot",
    out: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Where the run goes; bench-runs/DATE unless given."),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="RUN", help="Go on with a run that was interrupted.")
    ] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0.1, help="How long each load lasts.")] = None,
    repetitions: Annotated[int | None, typer.Option("--repetitions", min=1, help="Fresh runs of each.")] = None,
    repeat: Annotated[
        str,
        typer.Option(
            "--repeat", help="fixed; steady: until the interval is 1 %; alike: until two runs are, as SonicMQ did."
        ),
    ] = "fixed",
    refuse_busy: Annotated[
        bool,
        typer.Option("--refuse-busy", help="No figure for a trial that others disturbed; without this, a mark."),
    ] = False,
    json: Json = False,
) -> None:
    """Measure scenarios on systems, one visit after the other, into a folder that `entrepot report` reads.

    `representative` stands for a set that shows every load and document in under half an hour.
    """
    from entrepot.cli.bench_watching import require_extra

    require_extra()
    from entrepot.workbench.measuring.effort import EFFORTS
    from entrepot.workbench.running.repeating import RULES
    from entrepot.workbench.running.run import begin
    from entrepot.workbench.running.run import resume as resume_run

    if resume is not None:
        if scenarios:
            raise typer.BadParameter("a run that is resumed knows its scenarios", param_hint="--resume")
        found = resume_run(resume)
    else:
        _require_one_of("--scale", scale, EFFORTS)
        _require_one_of("--repeat", repeat, RULES)
        if not scenarios:
            raise typer.BadParameter(
                "name at least one scenario, or `representative`; `entrepot bench list` shows them"
            )
        named = system.split(",")
        found = begin(
            scenarios,
            named,
            scale,
            folder=out,
            seconds=seconds,
            repetitions=repetitions,
            repeat=repeat,
            refuse_busy=refuse_busy,
            strict="all" not in named,
        )
    _go(found, json=json)


@peers.command()
def install(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SYSTEM]...", help="All of them, if none is named.")
    ] = None,
) -> None:
    """Install the brokers that the workbench compares with, from Debian's packages; needs root."""
    from entrepot.workbench.systems import PEERS
    from entrepot.workbench.systems.installing import install as install_packages

    install_packages(names or PEERS, output.note)


for _name, _command in bench_loads.COMMANDS.items():
    app.command(_name)(_command)


def _go(run: WorkbenchRun, *, json: bool) -> None:
    from entrepot.cli.bench_watching import Watching, interruptible
    from entrepot.workbench.measuring.environment import busy_reason

    for name, reason in run.record.absent.items():
        output.note(f"without {name}: {reason}")
    if busy := busy_reason():
        output.note(f"{busy}. What other processes disturb is marked as busy, and is not to be quoted.")
    with interruptible(run), Watching(run.folder) as watching:
        run.go(watching)
    trials = run.trials()
    counts = {status: sum(trial.status == status for trial in trials) for status in ("measured", "invalid", "failed")}
    busy_trials = sum(bool(trial.busy) for trial in trials)
    if json:
        found = {"run": str(run.folder), "trials": counts, "without_figure": watching.without_figure}
        output.print_json({**found, "busy": busy_trials})
    else:
        for trial in watching.without_figure:
            output.say(f"No figure: {trial}, since no message arrived while its load ran.")
        counts_text = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        if busy_trials:
            output.say(f"Busy: {busy_trials} of {len(trials)} trials, beside other processes; do not quote them.")
        output.say(f"{run.folder}: {counts_text}. Now: entrepot report {run.folder} -o report/")
    if not counts["measured"]:
        raise typer.Exit(1)


def _require_one_of(option: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise typer.BadParameter(f"{value!r} is none of {', '.join(known)}", param_hint=option)


def _needs(scenario: Scenario) -> list[str]:
    from entrepot.workbench.loads import find_load

    return sorted(find_load(scenario.load).needs)


def _fitting(scenario: Scenario) -> list[str]:
    from entrepot.workbench.running.plan import systems_for, unsuitable
    from entrepot.workbench.systems import ALL, absent_reason

    return [
        system
        for system in systems_for(scenario, [ALL])
        if not absent_reason(system) and not all(unsuitable(scenario, point, system) for point in scenario.points)
    ]


def _points(scenario: Scenario) -> str:
    reduced = sum(bool(point.reduced) for point in scenario.points)
    return f"{len(scenario.points)}" + (f" ({reduced} reduced)" if reduced else "")


def _as_data(scenario: Scenario) -> dict[str, object]:
    return {
        "name": scenario.name,
        "title": scenario.title,
        "shows": scenario.shows,
        "load": scenario.load,
        "needs": _needs(scenario),
        "entrepot": scenario.entrepot,
        "systems": _fitting(scenario),
        "points": [{"point": point.key, "reduced": point.reduced} for point in scenario.points],
        "differs": scenario.differs,
    }
