# SPDX-License-Identifier: Apache-2.0
"""What `entrepot put` and `entrepot publish` have in common: the options of a message, its body, and its way out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entrepot.cli import output
from entrepot.cli.arguments import identifier

if TYPE_CHECKING:
    from entrepot.client.blocking import Connection, UnitOfWork

_UNIT_BYTES = 256 * 1024
"""Several messages share a unit of work, and so a force, but no more than the smallest log has room for."""
_DESCRIPTOR_BYTES = 1024

Body = Annotated[
    str | None,
    typer.Argument(metavar="BODY|-", help="Text; otherwise --file or standard input, which - is, too."),
]
File = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, readable=True, help="Take the body from this file."),
]
Persistent = Annotated[
    bool,
    typer.Option(
        "--persistent/--nonpersistent",
        help="Nonpersistent messages end with the queue manager; without a server, with this command.",
    ),
]
Expiry = Annotated[float | None, typer.Option(metavar="S", help="Discard after this many seconds.")]
Delay = Annotated[float, typer.Option(metavar="S", help="Seconds before the message can be got.")]
CorrelationId = Annotated[bytes | None, typer.Option(parser=identifier, metavar="ID", help="Hex digits, or text.")]
GroupId = Annotated[bytes | None, typer.Option(parser=identifier, metavar="ID", help="Its group; hex digits, or text.")]
GroupSequence = Annotated[int, typer.Option(metavar="N", help="Its place in the group, from 1.")]
GroupLast = Annotated[bool, typer.Option("--group-last", help="It is the last of its group.")]
Properties = Annotated[
    list[str] | None,
    typer.Option("--property", "-p", metavar="NAME=VALUE", help="A property; several are possible."),
]
ReplyTo = Annotated[str, typer.Option(metavar="QUEUE", help="Where replies go.")]


def read_body(body: str | None, file: Path | None) -> bytes:
    """The bytes that the command line means."""
    if body is not None and file is not None:
        raise typer.BadParameter("give BODY or --file, not both")
    if file is not None:
        return file.read_bytes()
    if body is not None and body != "-":
        return body.encode(errors="surrogateescape")
    if body is None and sys.stdin.isatty():
        raise typer.BadParameter("no message: give BODY, --file, or pipe it in")
    return sys.stdin.buffer.read()


def send(connection: Connection, count: int, body_bytes: int, verb: Callable[[UnitOfWork], bytes]) -> list[str]:
    """Do it so many times, several in a unit of work; the message ids."""
    message_ids: list[str] = []
    room = max(_UNIT_BYTES // (body_bytes + _DESCRIPTOR_BYTES), 1)
    while len(message_ids) < count:
        with connection.unit_of_work() as unit:
            message_ids += [verb(unit).hex() for _ in range(min(room, count - len(message_ids)))]
    return message_ids


def tell(done: str, body_bytes: int, message_ids: list[str]) -> None:
    """Say to a person what has been done, such as "put on Q"."""
    several = f" and {len(message_ids) - 1:,} more" if len(message_ids) > 1 else ""
    output.say(f"{body_bytes:,} bytes {done}: message {message_ids[0]}{several}")
