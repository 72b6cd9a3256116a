# SPDX-License-Identifier: Apache-2.0
"""`entrepot publish`: publish a message to all subscribers of a topic."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from entrepot.cli import opening, output, sending
from entrepot.cli.arguments import Json, Reachable, Style, property_pair


def publish(
    path: Reachable,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What it is about: prices/ibm.")],
    body: sending.Body = None,
    file: sending.File = None,
    retain: Annotated[
        bool, typer.Option("--retain", help="Keep it for subscribers to come, in place of what was kept before.")
    ] = False,
    style: Style = "mq",
    persistent: sending.Persistent = True,
    priority: Annotated[int | None, typer.Option(help="0 to 9; the topic's own unless given.")] = None,
    expiry: sending.Expiry = None,
    delay: sending.Delay = 0.0,
    correlation_id: sending.CorrelationId = None,
    group_id: sending.GroupId = None,
    group_sequence: sending.GroupSequence = 1,
    group_last: sending.GroupLast = False,
    properties: sending.Properties = None,
    reply_to: sending.ReplyTo = "",
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Publish it so many times.")] = 1,
    json: Json = False,
) -> None:
    """Let all subscribers of a topic have a message: all of them, or none.

    No subscriber is no error. A topic has levels, and wildcards are for subscribers only.

    \b
      entrepot publish ./qm1 prices/ibm "231.50" --retain
      entrepot publish ./qm1 orders/eu --file order.xml -p region=EU
      entrepot publish ./qm1 prices.ibm "231.50" --style jms
    """
    from entrepot.engine.topics import from_style, require_topic

    topic = require_topic(from_style(topic, style))
    content = sending.read_body(body, file)
    descriptor: dict[str, Any] = {
        "retain": retain,
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
        message_ids = sending.send(
            connection, count, len(content), lambda unit: unit.publish(topic, content, **descriptor)
        )
    if json:
        output.print_json({"topic": topic, "retained": retain, "body_bytes": len(content), "message_ids": message_ids})
    else:
        sending.tell(f"published on {topic}{' and retained' * retain}", len(content), message_ids)
    if not persistent and embedded:
        output.note("It was nonpersistent and ended with this command, as the queue manager ran inside of it.")
