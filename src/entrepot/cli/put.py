# SPDX-License-Identifier: Apache-2.0
"""`entrepot put`: leave messages on a queue."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from entrepot.cli import opening, output
from entrepot.cli.arguments import Json, QueueName, Reachable, identifier, property_pair

_UNIT_BYTES = 256 * 1024
"""Several messages share a unit of work, and so a force, but no more than the smallest log has room for."""
_DESCRIPTOR_BYTES = 1024


def put(
    path: Reachable,
    queue: QueueName,
    body: Annotated[
        str | None, typer.Argument(metavar="BODY", help="Text; otherwise --file or standard input.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, readable=True, help="Take the body from this file."),
    ] = None,
    persistent: Annotated[
        bool,
        typer.Option(
            "--persistent/--nonpersistent",
            help="Nonpersistent messages end with the queue manager; without a server, with this command.",
        ),
    ] = True,
    priority: Annotated[int | None, typer.Option(help="0 to 9; the queue's own unless given.")] = None,
    expiry: Annotated[float | None, typer.Option(metavar="S", help="Of use for so many seconds.")] = None,
    delay: Annotated[float, typer.Option(metavar="S", help="Readers may get it after so many seconds.")] = 0.0,
    correlation_id: Annotated[
        bytes | None, typer.Option(parser=identifier, metavar="ID", help="Hex digits, or text.")
    ] = None,
    group_id: Annotated[
        bytes | None, typer.Option(parser=identifier, metavar="ID", help="Its group; hex digits, or text.")
    ] = None,
    group_sequence: Annotated[int, typer.Option(metavar="N", help="Its place in the group, from 1.")] = 1,
    group_last: Annotated[bool, typer.Option("--group-last", help="It is the last of its group.")] = False,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", metavar="NAME=VALUE", help="A property; several are possible."),
    ] = None,
    reply_to: Annotated[str, typer.Option(metavar="QUEUE", help="Where replies go.")] = "",
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Put it so many times.")] = 1,
    json: Json = False,
) -> None:
    """Leave a message on a queue; it is on disk when this command ends."""
    from entrepot.embedded import EmbeddedHost

    content = _body(body, file)
    descriptor: dict[str, Any] = {
        "persistent": persistent,
        "priority": priority,
        "expiry_s": expiry,
        "delay_s": delay,
        "correlation_id": correlation_id or b"",
        "group_id": group_id or b"",
        "sequence": group_sequence,
        "last_in_group": group_last,
        "properties": dict(map(property_pair, properties or ())),
        "reply_to": reply_to,
    }
    message_ids: list[str] = []
    with opening.connected(path) as connection:
        embedded = isinstance(connection.host, EmbeddedHost)
        while len(message_ids) < count:
            with connection.unit_of_work() as unit:
                room = max(_UNIT_BYTES // (len(content) + _DESCRIPTOR_BYTES), 1)
                unit_messages = min(room, count - len(message_ids))
                message_ids += [unit.put(queue, content, **descriptor).hex() for _ in range(unit_messages)]
    if json:
        output.print_json({"queue": queue, "body_bytes": len(content), "message_ids": message_ids})
    else:
        several = f" and {count - 1:,} more" if count > 1 else ""
        output.say(f"{len(content):,} bytes put on {queue}: message {message_ids[0]}{several}")
    if not persistent and embedded:
        output.note("It was nonpersistent and ended with this command, as the queue manager ran inside of it.")


def _body(body: str | None, file: Path | None) -> bytes:
    if body is not None and file is not None:
        raise typer.BadParameter("give BODY or --file, not both")
    if file is not None:
        return file.read_bytes()
    if body is not None:
        return body.encode(errors="surrogateescape")
    if sys.stdin.isatty():
        raise typer.BadParameter("no message: give BODY, --file, or pipe it in")
    return sys.stdin.buffer.read()
