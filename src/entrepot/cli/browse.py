# SPDX-License-Identifier: Apache-2.0
"""`entrepot browse`: look at messages and leave them where they are."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from entrepot.cli import messages, opening, output
from entrepot.cli.arguments import Json, QueueName, Reachable, Selector


def browse(
    path: Reachable,
    queue: QueueName,
    selector: Selector = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many messages.")] = 100,
    json: Json = False,
) -> None:
    """Look at a queue's messages in the order in which readers would get them; JSON lines with --json."""
    with opening.connected(path) as connection:
        cursor = connection.browse(queue, selector=selector)
        found = list(islice(cursor, limit))
        more = next(cursor, None) is not None
    if json:
        for message in found:
            output.print_json(messages.as_json(message), lines=True)
        return
    if not found:
        output.note(f"No message on {queue}{' meets the selector' * (selector is not None)}.")
        return
    output.table(
        ("message id", "put", "priority", "kept", "bytes", "backed out", "properties", "body"),
        (
            (
                message.message_id.hex(),
                messages.local_time(message.put_time),
                message.priority,
                "on disk" if message.persistent else "in memory",
                len(message.body),
                message.backout_count,
                messages.properties_line(message),
                messages.preview(message.body),
            )
            for message in found
        ),
    )
    if more:
        output.note(f"There are more; these are the first {limit}.")
