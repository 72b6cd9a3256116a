# SPDX-License-Identifier: Apache-2.0
"""`entrepot get`: take messages off a queue.

Each message is written out inside the unit of work that takes it, so a
reader that goes away, or a full disk behind `>`, puts it back on its queue.
"""

from __future__ import annotations

from typing import Annotated

import typer

from entrepot.cli import messages, opening, output
from entrepot.cli.arguments import Json, QueueName, Reachable, Selector, hex_identifier, identifier


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
    writer = messages.MessageWriter(json=json, body_only=body_only)
    with opening.connected(path) as connection:
        while everything or writer.written < count:
            with connection.unit_of_work() as unit:
                message = unit.get(
                    queue, wait_s=wait, selector=selector, correlation_id=correlation_id, message_id=message_id
                )
                if message is None:
                    break
                writer.write(message)
    writer.close()
    if not writer.written and not json:
        output.note(f"No message on {queue}{_asked(selector, correlation_id, message_id)}.")


def _asked(*criteria: object) -> str:
    return " meets what was asked for" if any(criterion is not None for criterion in criteria) else ""
