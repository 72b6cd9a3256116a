# SPDX-License-Identifier: Apache-2.0
"""`entrepot log`: look into the recovery log, and move what restart no longer needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entrepot.cli import log_show, output
from entrepot.cli.arguments import Json, Manager, place

app = typer.Typer(help="Look into the recovery log, or archive it.", no_args_is_help=True)
app.command("show")(log_show.show)


@app.command()
def archive(
    path: Manager,
    destination: Annotated[Path, typer.Argument(parser=place, metavar="DEST", help="Where the log files go.")],
    json: Json = False,
) -> None:
    """Move the log files of a linear log that a restart no longer needs.

    Keep them: media recovery and a restore to a time read them.
    """
    from entrepot.engine import media

    moved = media.archive(path, destination)
    if json:
        output.print_json(moved)
        return
    for name in moved:
        output.say(name)
    output.say(f"{len(moved)} log file{'s' * (len(moved) != 1)} moved to {destination}.")
