# SPDX-License-Identifier: Apache-2.0
"""`entrepot put`: leave messages on a queue."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from entrepot.cli import opening, output, sending
from entrepot.cli.arguments import Json, QueueName, Reachable, property_pair


def put(
    path: Reachable,
    queue: QueueName,
    body: sending.Body = None,
    file: sending.File = None,
    persistent: sending.Persistent = True,
    priority: Annotated[int | None, typer.Option(help="0 to 9; the queue's own unless given.")] = None,
    expiry: sending.Expiry = None,
    delay: sending.Delay = 0.0,
    correlation_id: sending.CorrelationId = None,
    group_id: sending.GroupId = None,
    group_sequence: sending.GroupSequence = 1,
    group_last: sending.GroupLast = False,
    properties: sending.Properties = None,
    reply_to: sending.ReplyTo = "",
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Put it so many times.")] = 1,
    json: Json = False,
) -> None:
    """Leave a message on a queue; it is on disk when this command ends."""

    content = sending.read_body(body, file)
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
    with opening.connected(path) as connection:
        embedded = connection.is_near
        message_ids = sending.send(connection, count, len(content), lambda unit: unit.put(queue, content, **descriptor))
    if json:
        output.print_json({"queue": queue, "body_bytes": len(content), "message_ids": message_ids})
    else:
        sending.tell(f"put on {queue}", len(content), message_ids)
    if not persistent and embedded:
        output.note("It was nonpersistent and ended with this command, as the queue manager ran inside of it.")
