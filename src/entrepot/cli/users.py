# SPDX-License-Identifier: Apache-2.0
"""`entrepot qm user`: users with a password, also while the queue manager runs; passwords are never in a command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entrepot.cli import opening, output
from entrepot.cli.arguments import Json, Manager

if TYPE_CHECKING:
    from entrepot.server.security.users import Users

app = typer.Typer(help="List, add and remove users with a password.", no_args_is_help=True)

UserName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]


@app.command()
def add(
    path: Manager,
    name: UserName,
    groups: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", metavar="GROUP", help="A group; several are possible, mqm is administrators'."),
    ] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Take the password from standard input, its first line.")
    ] = False,
    json: Json = False,
) -> None:
    """Add a user, or change a user's password; groups stay as they are unless some are given."""
    users = _users(path)
    known = name in users.names()
    wanted = users.groups_of(name) if groups is None else groups
    users.add(name, typed_password(password_stdin), wanted)
    with recorded(path, "user change" if known else "user add", name):
        users.save()
    listed = sorted(users.groups_of(name))
    if json:
        output.print_json({"user": name, "groups": listed, "new": not known})
        return
    belongs = f" in {', '.join(listed)}" if listed else " in no group"
    output.say(f"User {name}{belongs} {'has another password' if known else 'added'}.")


@app.command()
def remove(path: Manager, name: UserName, json: Json = False) -> None:
    """Remove a user; the user's connections stay until they are closed."""
    users = _users(path)
    users.remove(name)
    with recorded(path, "user remove", name):
        users.save()
    if json:
        output.print_json({"user": name, "removed": True})
        return
    output.say(f"User {name} removed.")


@app.command("list")
def list_(path: Manager, json: Json = False) -> None:
    """List the users and their groups."""
    users = _users(path)
    found = [{"user": name, "groups": sorted(users.groups_of(name))} for name in users.names()]
    if json:
        output.print_json(found)
        return
    if not found:
        output.note("No user has a password.")
        return
    output.table(("user", "groups"), ((each["user"], ", ".join(each["groups"])) for each in found))


def _users(path: Path) -> Users:
    from entrepot.engine.folder import read_settings
    from entrepot.server.security.users import Users

    read_settings(path)
    return Users.load(path)


def typed_password(from_stdin: bool) -> str:
    """A password from a prompt that shows nothing, or from the first line of standard input."""
    if not from_stdin:
        if not sys.stdin.isatty():
            raise typer.BadParameter("no terminal to ask for the password: give it with --password-stdin")
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    try:
        return sys.stdin.buffer.readline().decode().rstrip("\r\n")
    except UnicodeDecodeError:
        # Without its own words, which quote the bytes.
        raise typer.BadParameter("the password is no UTF-8 text") from None


@contextmanager
def recorded(path: Path, event: str, name: str) -> Iterator[None]:
    """Do something that the audit log tells; a queue manager that runs has the log and sees the change itself."""
    from entrepot.server.security.audit import AuditLog

    if opening.owner(path):
        yield
        return
    log = AuditLog.open(path)
    try:
        user = _system_user()
        log.write(event, user=user, object=name, verdict="allowed")
        log.force()
        try:
            yield
        except BaseException as error:
            log.write(event, user=user, object=name, verdict="failed", reason=type(error).__name__)
            raise
    finally:
        log.close()


def _system_user() -> str:
    import getpass
    import os

    try:
        return f"os:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"os:{os.geteuid()}"
