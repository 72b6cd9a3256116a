# SPDX-License-Identifier: Apache-2.0
"""`entrepot qm credential`: the passwords that sender channels present to the other end, for the user in USERID."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entrepot.cli import output
from entrepot.cli.arguments import Json, Manager
from entrepot.cli.users import recorded, typed_password

if TYPE_CHECKING:
    from entrepot.server.security.credentials import Credentials

app = typer.Typer(help="Set, remove and list the passwords that sender channels present.", no_args_is_help=True)

ChannelName = Annotated[str, typer.Argument(metavar="CHANNEL", help="Name of the sender channel.")]


@app.command("set")
def set_(
    path: Manager,
    channel: ChannelName,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Take the password from standard input, its first line.")
    ] = False,
    json: Json = False,
) -> None:
    """Give a channel the password for its USERID; it counts from its next connection on."""
    credentials = _credentials(path)
    credentials.set_password(channel, typed_password(password_stdin))
    with recorded(path, "credential set", channel):
        credentials.save()
    _tell(channel, "set", json)


@app.command()
def remove(path: Manager, channel: ChannelName, json: Json = False) -> None:
    """Forget a channel's password."""
    credentials = _credentials(path)
    credentials.remove(channel)
    with recorded(path, "credential remove", channel):
        credentials.save()
    _tell(channel, "removed", json)


@app.command("list")
def list_(path: Manager, json: Json = False) -> None:
    """List the channels that have a password, not the passwords."""
    found = list(_credentials(path).channels())
    if json:
        output.print_json(found)
        return
    for channel in found:
        output.say(channel)
    if not found:
        output.note("No channel has a password.")


def _credentials(path: Path) -> Credentials:
    from entrepot.engine.folder import read_settings
    from entrepot.server.security.credentials import Credentials

    read_settings(path)
    return Credentials.load(path)


def _tell(channel: str, what: str, json: bool) -> None:
    if json:
        output.print_json({"channel": channel, "password": what})
    else:
        output.say(f"Password of channel {channel} {what}.")
