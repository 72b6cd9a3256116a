# SPDX-License-Identifier: Apache-2.0
"""`entrepot qm`: a queue manager as a whole; create, status and checkpoint stand here, the rest beside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from entrepot.cli import audit, credentials, indoubt, media, opening, output, resources, serving, users
from entrepot.cli.arguments import Json, Manager, size
from entrepot.cli.messages import local_time

app = typer.Typer(help="Create, start, stop, look at, back up and repair queue managers.", no_args_is_help=True)
app.add_typer(indoubt.app, name="indoubt")
app.add_typer(users.app, name="user")
app.add_typer(credentials.app, name="credential")
app.add_typer(resources.app, name="resource")
app.add_typer(audit.app, name="audit")
app.command("start")(serving.start)
app.command("stop")(serving.stop)
app.command("backup")(media.backup)
app.command("restore")(media.restore)
app.command("recover")(media.recover)


@app.command()
def create(
    path: Manager,
    name: Annotated[str | None, typer.Option(help="Its name; the folder's unless given.")] = None,
    log: Annotated[
        Literal["circular", "linear"],
        typer.Option(help="Circular reuses the log; linear keeps it, for media recovery and restore to a time."),
    ] = "circular",
    segment_bytes: Annotated[
        int | None, typer.Option(parser=size, metavar="SIZE", help="Size of a log file, such as 32MiB.")
    ] = None,
    primary: Annotated[int | None, typer.Option(help="Log files that are made now.")] = None,
    secondary: Annotated[int | None, typer.Option(help="Log files that may be made beyond these.")] = None,
    log_buffer_bytes: Annotated[
        int | None, typer.Option(parser=size, metavar="SIZE", help="Log records that may gather in memory.")
    ] = None,
    checkpoint_bytes: Annotated[
        int | None, typer.Option(parser=size, metavar="SIZE", help="Log between two checkpoints.")
    ] = None,
    json: Json = False,
) -> None:
    """Make a queue manager in a new or empty folder."""
    from entrepot.engine.folder import create as create_manager
    from entrepot.engine.recovery_log.settings import LogSettings

    chosen: dict[str, Any] = {
        "segment_bytes": segment_bytes,
        "primary": primary,
        "secondary": secondary,
        "buffer_bytes": log_buffer_bytes,
        "checkpoint_bytes": checkpoint_bytes,
    }
    given = {key: value for key, value in chosen.items() if value is not None}
    settings = create_manager(path, name=name, log=LogSettings(kind=log, **given))
    layout = settings.log
    if json:
        output.print_json({"path": str(path), "name": settings.name, "log": layout})
        return
    output.say(f"Queue manager {settings.name} created at {path}.")
    output.say(
        f"Its {layout.kind} log has {layout.primary} files of {layout.segment_bytes:,} bytes"
        + (f" and may grow by {layout.secondary}." if layout.kind == "circular" else " and grows as needed.")
    )
    output.say(f'Next: entrepot mqsc {path} -e "DEFINE QLOCAL(ORDERS)"', "dim")


@app.command()
def status(
    path: Manager,
    files_only: Annotated[
        bool, typer.Option("--files-only", help="Do not start it for a moment to count its messages.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the state of a queue manager, also when it runs in another process.

    A stopped one is started for a moment, which recovers it after a crash.
    The form is that of the process that has it: compiled, or pure Python.
    """
    found = _from_files(path)
    if found["state"] == "stopped" and not files_only:
        found.update(_from_inside(path))
    elif opening.serves(path) and not files_only:
        with opening.connected(path) as connection:
            found.update(connection.administration.status())
    if json:
        output.print_json(found)
        return
    output.facts({key: _for_people(key, value) for key, value in found.items()})


def _from_files(path: Path) -> dict[str, Any]:
    from entrepot.engine.folder import read_settings
    from entrepot.engine.recovery_log.checkpoint import read_checkpoint
    from entrepot.engine.recovery_log.record import DefineRecord
    from entrepot.engine.recovery_log.segment import FOLDER, segment_numbers

    settings = read_settings(path)
    running = opening.owner(path)
    disk = opening.ReadOnlyDisk(path)
    head, records = read_checkpoint(disk)
    found: dict[str, Any] = {"name": settings.name, "path": str(path), "state": "running" if running else "stopped"}
    if running:
        found["owner"] = running
    numbers = segment_numbers(disk)
    found |= {
        "created": settings.created,
        "log": settings.log.kind,
        "segment_bytes": settings.log.segment_bytes,
        "segments": len(numbers),
        "spare_segments": sum(name.startswith("spare-") for name in disk.names(FOLDER)),
        "starts": head.incarnation,
        "checkpoint_time": head.time,
        "checkpoint_position": head.applied_position,
        "queues": sum(isinstance(record, DefineRecord) and record.kind == "QLOCAL" for record in records),
    }
    return found


def _from_inside(path: Path) -> dict[str, Any]:
    with opening.connected(path) as connection:
        found: dict[str, Any] = connection.administration.status()
    # Running was only for this look.
    del found["state"], found["starts"]
    return found


def _for_people(key: str, value: Any) -> Any:
    if key in ("created", "checkpoint_time"):
        return local_time(value)
    return (value or "nothing") if key == "torn" else value


@app.command()
def checkpoint(path: Manager, json: Json = False) -> None:
    """Take a checkpoint, so that the next start has less log to read."""
    with opening.connected(path) as connection:
        connection.administration.checkpoint()
        found = connection.administration.status()
    if json:
        output.print_json(found)
        return
    output.say(f"Checkpoint taken; a start of {found['name']} reads {found['log_needed_bytes']:,} bytes of log.")
