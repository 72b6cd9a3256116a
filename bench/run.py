# SPDX-License-Identifier: Apache-2.0
"""Measurements of parts: runs them and writes what they found. (Whole systems are the workbench's: `entrepot bench`.)

    python bench/run.py                          everything, about an hour; what a machine lacks (strace) is left out
    python bench/run.py persistent device        some
    python bench/run.py --quick                  everything at thumbnail scale, about five minutes

Results go to bench/results/ as JSON with every raw sample, and to the
terminal as a table. While others edit the source, measure a copy of it:

    git archive HEAD src | tar x -C /tmp/copy && PYTHONPATH=/tmp/copy/src python bench/run.py

A missed target does not fail the run; the table says so. Figures of a quick
run show that the suite works, nothing more.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import amqp_cost
import attacks
import backlog
import compute
import conditions
import conversions
import correlation
import device
import flow_cost
import flow_replay
import forces
import global_units
import matching
import nonpersistent
import persistent
import restart
import waiting_memory
from entrepot.workbench.measuring import environment
from figures import Outcome, readable
from trial import HERE

FORMAT_VERSION = 2
"""2: `machine` is the workbench's description of a host; 1 had another of its own."""
PACKAGES = ("crc32c", "msgspec", "litequeue", "persist-queue")
MEASUREMENTS: dict[str, Callable[..., Outcome]] = {
    "device": device.measure,
    "nonpersistent": nonpersistent.measure,
    "persistent": persistent.measure,
    "forces": forces.measure,
    "backlog": backlog.measure,
    "restart": restart.measure,
    "waiting_memory": waiting_memory.measure,
    "correlation": correlation.measure,
    "amqp_cost": amqp_cost.measure,
    "attacks": attacks.measure,
    "global_units": global_units.measure,
    "conditions": conditions.measure,
    "matching": matching.measure,
    "compute": compute.measure,
    "conversions": conversions.measure,
    "flow_cost": flow_cost.measure,
    "flow_replay": flow_replay.measure,
}


# Narrower than this the table would be all line breaks.
TABLE_WIDTH = 120


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure parts of Entrepot on this machine.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(MEASUREMENTS))
    parser.add_argument("--quick", action="store_true", help="thumbnail scale: shows that the suite works")
    parser.add_argument("--output", type=Path, help="where the JSON goes (default: bench/results/DATE.json)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"no measurement named {', '.join(unknown)}; there are {', '.join(MEASUREMENTS)}")
    names: list[str] = arguments.names or list(MEASUREMENTS)
    begun = datetime.now(UTC)
    output: Path = arguments.output or HERE / "results" / f"{begun:%Y-%m-%dT%H%M%S}.json"
    console = Console(width=max(Console().width, TABLE_WIDTH))
    where = _describe()
    _print_machine(console, where, quick=arguments.quick)
    outcomes = []
    for name in names:
        clock_begun, load = time.perf_counter(), os.getloadavg()[0]
        with console.status(f"{name} …"):
            outcome = MEASUREMENTS[name](quick=arguments.quick)
        elapsed_s = time.perf_counter() - clock_begun
        # Trials import the package anew, so an edit during the run would mix two versions in one ratio.
        changed = environment.source_digest() != where["source"]
        outcomes.append(
            outcome.as_json()
            | {
                "elapsed_s": elapsed_s,
                "load_average_1_min": load,
                "source_changed": changed,
            }
        )
        console.print(_table(outcome, elapsed_s, load))
        _print_notes(console, outcome)
        if changed:
            console.print("[bold red]The source was edited during this run: do not quote it.[/bold red]")
        # After each measurement, so that an interrupted run leaves what it has.
        _write(
            output,
            {
                "format_version": FORMAT_VERSION,
                "begun": begun.isoformat(timespec="seconds"),
                "quick": arguments.quick,
                "machine": where,
                "measurements": outcomes,
            },
        )
    console.print(f"Written to {output}")


def _describe() -> dict[str, str]:
    """This machine and this software, with what only these measurements depend on."""
    versions = {f"version of {name}": metadata.version(name) for name in PACKAGES}
    return environment.describe(HERE) | versions | {"sqlite": sqlite3.sqlite_version}


def _write(output: Path, result: dict[str, Any]) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")


def _print_machine(console: Console, where: dict[str, str], *, quick: bool) -> None:
    console.print(
        f"{where['host']}: {where['cores']} × {where['cpu']}, {where['memory_gib']} GiB, load {where['load_average']},"
        f" Linux {where['kernel']}, Python {where['python']}, SQLite {where['sqlite']}, {where['file_system']} on"
        f" {where['device']} ({where['force_ms_median']} ms a force), commit {where['commit']},"
        f" source {where['source']}"
    )
    if quick:
        console.print("[bold]Thumbnail scale: these figures are not to be quoted.[/bold]")


def _table(outcome: Outcome, elapsed_s: float, load: float) -> Table:
    table = Table(title=f"{outcome.title} ({elapsed_s:.0f} s, load before {load:.1f})", title_justify="left")
    for header in ("figure", "median", "range", "target", "verdict", "contract"):
        numeric = header in ("median", "range", "target", "contract")
        table.add_column(header, justify="right" if numeric else "left", no_wrap=numeric)
    contracts = _contracts(outcome)
    for figure in outcome.figures:
        missed = figure.verdict.startswith("MISSED")
        table.add_row(
            figure.name,
            readable(figure.median),
            f"{readable(min(figure.samples))} to {readable(max(figure.samples))}",
            "" if figure.target is None else str(figure.target),
            f"[red]{figure.verdict}[/red]" if missed else figure.verdict,
            f"({contracts.index(figure.contract) + 1})",
        )
    return table


def _contracts(outcome: Outcome) -> list[str]:
    return list(dict.fromkeys(figure.contract for figure in outcome.figures))


def _print_notes(console: Console, outcome: Outcome) -> None:
    """What would not fit into the table: the durability contracts and the notes."""
    for number, contract in enumerate(_contracts(outcome), start=1):
        console.print(f"  ({number}) {contract}", highlight=False)
    for figure in outcome.figures:
        if figure.note:
            console.print(f"  {figure.name}: {figure.note}", style="dim", highlight=False)


if __name__ == "__main__":
    main()
