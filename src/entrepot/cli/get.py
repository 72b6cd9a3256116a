# SPDX-License-Identifier: Apache-2.0
"""`entrepot get`: take messages off a queue.

Each message is written out inside the unit of work that takes it, so a
reader that goes away, or a full disk behind `>`, puts it back on its queue.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from entrepot.cli import messages, opening, output
from entrepot.cli.arguments import Json, QueueName, Reachable, Selector, hex_identifier, identifier
from entrepot.message import Message


def get(
    path: Reachable,
    queue: QueueName,
    wait: Annotated[float, typer.Option(min=0, metavar="S", help="Wait so many seconds for each message.")] = 0.0,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Take up to so many messages.")] = 1,
    everything: Annotated[bool, typer.Option("--all", help="Take all messages there are.")] = False,
    selector: Selector = None,
    correlation_id: Annotated[
        bytes | None, typer.Option(parser=identifier, metavar="ID", help="Hex digits, or text.")
    ] = None,
    message_id: Annotated[
        bytes | None, typer.Option(parser=hex_identifier, metavar="ID", help="Hex digits, as browse shows them.")
    ] = None,
    body_only: Annotated[
        bool, typer.Option("--body-only", help="Write nothing but the bodies, byte for byte; line ends between them.")
    ] = False,
    json: Json = False,
) -> None:
    """Take messages off a queue; JSON lines with --json. No message within the wait is no error."""
    if json and body_only:
        raise typer.BadParameter("choose one of --json and --body-only")
    taken = 0
    with opening.connected(path) as connection:
        while everything or taken < count:
            with connection.unit_of_work() as unit:
                message = unit.get(
                    queue, wait_s=wait, selector=selector, correlation_id=correlation_id, message_id=message_id
                )
                if message is None:
                    break
                _write(message, first=not taken, json=json, body_only=body_only)
            taken += 1
    if body_only and taken and sys.stdout.isatty():
        sys.stdout.write("\n")
    if not taken and not json:
        output.note(f"No message on {queue}{_asked(selector, correlation_id, message_id)}.")


def _write(message: Message, *, first: bool, json: bool, body_only: bool) -> None:
    if json:
        output.print_json(messages.as_json(message), lines=True)
    elif body_only:
        sys.stdout.flush()
        sys.stdout.buffer.write(message.body if first else b"\n" + message.body)
        sys.stdout.buffer.flush()
    else:
        messages.show(message)
    sys.stdout.flush()


def _asked(*criteria: object) -> str:
    return " meets what was asked for" if any(criterion is not None for criterion in criteria) else ""
