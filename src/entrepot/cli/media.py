# SPDX-License-Identifier: Apache-2.0
"""`entrepot qm backup`, `restore` and `recover`: for a lost or damaged disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entrepot.cli import opening, output
from entrepot.cli.arguments import Json, Manager, moment, place

Backup = Annotated[Path, typer.Argument(parser=place, metavar="BACKUP", help="Folder of a backup.")]
Destination = Annotated[Path, typer.Argument(parser=place, metavar="DEST", help="A new or empty folder.")]

_NOT_EXACT = 3
"""Exit code: the queue manager was made, but not certainly as it was at the time asked for."""


def backup(path: Manager, destination: Destination, json: Json = False) -> None:
    """Copy a queue manager, with everything that was acknowledged, to another folder."""
    with opening.connected(path) as connection:
        report = connection.administration.back_up(destination.resolve())
    _show(f"Backed up to {destination}.", report, json)


def restore(
    backup: Backup,
    destination: Destination,
    log_from: Annotated[
        Path | None,
        typer.Option(parser=place, metavar="PATH", help="Queue manager or archive with later log to replay."),
    ] = None,
    until: Annotated[
        float | None,
        typer.Option(parser=moment, metavar="ISO-TIME", help="Replay up to this time, such as 2026-05-01T12:30:00Z."),
    ] = None,
    to_position: Annotated[
        int | None,
        typer.Option(metavar="POSITION", help="Replay up to this position of the log instead of a time."),
    ] = None,
    json: Json = False,
) -> None:
    """Make a queue manager out of a backup, as it was then or, with later log, until a time.

    Exit code 3 when it was made, but the time names more than one place in the log or one before the backup.
    """
    import msgspec

    from entrepot.engine import media
    from entrepot.engine.folder import as_recovery_error

    if until is not None and to_position is not None:
        raise typer.BadParameter("write --until or --to-position, not both")
    try:
        report = media.restore(backup, destination, log_from=log_from, until_time=until, until_position=to_position)
    except OSError as error:
        raise as_recovery_error(destination, error) from error
    facts = msgspec.to_builtins(report)
    if not json:
        for name in ("clock_went_back", "is_ambiguous", "warnings"):
            facts.pop(name)
    _show(f"Restored to {destination}.", facts, json)
    for warning in report.warnings:
        output.warn(warning)
    if report.is_ambiguous:
        raise typer.Exit(_NOT_EXACT)


def recover(
    path: Manager,
    queue: Annotated[str, typer.Option("--queue", metavar="NAME", help="The queue whose files are damaged.")],
    backup: Annotated[
        Path | None,
        typer.Option(parser=place, metavar="DIR", help="Start from this backup when the log does not go back further."),
    ] = None,
    json: Json = False,
) -> None:
    """Rebuild a queue of a stopped queue manager from its linear log."""
    from entrepot.engine import media

    messages = media.recover_queue(path, queue, backup=backup)
    _show(f"Recovered {queue}.", {"queue": queue, "messages": messages}, json)


def _show(sentence: str, report: dict[str, object], json: bool) -> None:
    if json:
        output.print_json(report)
        return
    output.say(sentence)
    output.facts(report)
