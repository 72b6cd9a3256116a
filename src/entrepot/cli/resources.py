# SPDX-License-Identifier: Apache-2.0
"""`entrepot qm resource`: databases whose unfinished global units the queue manager ends itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entrepot.cli import output
from entrepot.cli.arguments import Json, Manager
from entrepot.cli.users import recorded

if TYPE_CHECKING:
    from entrepot.engine.databases.registered import RegisteredResources

app = typer.Typer(help="Add, remove and list databases of global units of work.", no_args_is_help=True)

ResourceName = Annotated[str, typer.Argument(metavar="NAME", help="A name for the database.")]


@app.command()
def add(
    path: Manager,
    name: ResourceName,
    url: Annotated[
        str, typer.Argument(metavar="URL", help="SQLAlchemy's, such as postgresql+psycopg://user@host/db; - is stdin.")
    ],
    json: Json = False,
) -> None:
    """Let the queue manager look after a database; a running one begins within seconds.

    A URL with a password belongs on standard input: others can see the arguments of a command.
    """
    resources = _resources(path)
    resources.add(name, sys.stdin.readline().strip() if url == "-" else url)
    with recorded(path, "resource add", name):
        resources.save()
    _tell(name, "added", json)


@app.command()
def remove(path: Manager, name: ResourceName, json: Json = False) -> None:
    """Stop looking after a database."""
    resources = _resources(path)
    resources.remove(name)
    with recorded(path, "resource remove", name):
        resources.save()
    _tell(name, "removed", json)


@app.command("list")
def list_(path: Manager, json: Json = False) -> None:
    """List the databases, without their passwords."""
    resources = _resources(path)
    found = [{"name": name, "url": resources.shown(name)} for name in resources.names()]
    if json:
        output.print_json(found)
        return
    if not found:
        output.note("No database is known.")
        return
    output.table(("name", "url"), ((each["name"], each["url"]) for each in found))


def _resources(path: Path) -> RegisteredResources:
    from entrepot.engine.databases.registered import RegisteredResources
    from entrepot.engine.folder import read_settings

    read_settings(path)
    return RegisteredResources.load(path)


def _tell(name: str, what: str, json: bool) -> None:
    if json:
        output.print_json({"resource": name, "state": what})
    else:
        output.say(f"Resource {name} {what}.")
