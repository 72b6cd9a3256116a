# SPDX-License-Identifier: Apache-2.0
"""`entrepot report`: what runs of the workbench have found, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entrepot.cli import output


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of `entrepot bench run`.")],
    out: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the report goes.")] = Path("report"),
    master: Annotated[str, typer.Option("--master", help="Where Spark runs: local[N], or a cluster's URL.")] = "",
    hosts: Annotated[
        str,
        typer.Option("--hosts", help="together refuses runs of different machines; apart shows them without ratios."),
    ] = "together",
) -> None:
    """Compute every figure from the raw observations with Spark, and write index.html and report.md."""
    from entrepot.workbench.catalogue import scenarios
    from entrepot.workbench.measuring.record import read_run

    if hosts not in ("together", "apart"):
        raise typer.BadParameter("together or apart", param_hint="--hosts")
    # Before Spark starts, which takes a while.
    for run in runs:
        read_run(run)
    from entrepot.spark.starting.session import spark_session
    from entrepot.workbench.analysis import find
    from entrepot.workbench.report import write_report

    with spark_session(master or None, app="entrepot report", on_progress=output.note) as spark:
        findings = find(spark, runs, apart=hosts == "apart")
    page = write_report(findings, scenarios(), out)
    measured = len({each.scenario for each in findings.figures})
    output.say(f"{page}: {len(findings.figures)} figures of {measured} scenario{'' if measured == 1 else 's'}.")
