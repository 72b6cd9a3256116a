# SPDX-License-Identifier: Apache-2.0
"""`entrepot qm audit`: verify and show the audit log."""

from __future__ import annotations

from collections import deque
from typing import Annotated

import typer

from entrepot.cli import output
from entrepot.cli.arguments import Json, Manager

app = typer.Typer(help="Verify and show the audit log.", no_args_is_help=True)

_COLUMNS = ("n", "time", "event", "user", "address", "channel", "object", "verdict", "reason", "count")


@app.command()
def verify(path: Manager, json: Json = False) -> None:
    """Read the whole audit log; exit code 1 and the first bad line if it is not what was written."""
    from entrepot.engine.folder import read_settings
    from entrepot.server.security import audit

    read_settings(path)
    lines = audit.verify(path)
    if json:
        output.print_json({"lines": lines, "whole": True})
        return
    output.say(f"The audit log is what was written: {lines:,} lines.")


@app.command()
def show(
    path: Manager,
    limit: Annotated[int, typer.Option(min=1, help="At most so many lines, the last ones.")] = 50,
    json: Json = False,
) -> None:
    """Show the last lines of the audit log, unverified; JSON lines with --json."""
    from entrepot.engine.folder import read_settings
    from entrepot.server.security import audit

    read_settings(path)
    found = deque(audit.records(path), maxlen=limit)
    if json:
        for record in found:
            output.print_json(record, lines=True)
        return
    if not found:
        output.note("The audit log is empty.")
        return
    columns = [column for column in _COLUMNS if any(column in record for record in found)]
    output.table(columns, ([record.get(column, "") for column in columns] for record in found))
