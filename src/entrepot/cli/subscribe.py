# SPDX-License-Identifier: Apache-2.0
"""`entrepot subscribe` and `entrepot unsubscribe`: receive publications, and end a subscription.

As with `entrepot get`, each publication is written out inside the unit of
work that takes it. So one that a durable subscription has collected stays
with it when its reader goes away.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from entrepot.cli import messages, opening, output
from entrepot.cli.arguments import Json, Reachable, Selector, Style
from entrepot.errors import EntrepotError

if TYPE_CHECKING:
    from entrepot.client.blocking import Connection

_INTERRUPTED = 130
"""What a shell says of a program that Ctrl-C has ended."""


def subscribe(
    path: Reachable,
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC",
            help="+ stands for one level and # for any number: prices/#. Not needed for one that exists.",
        ),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(min=0, metavar="S", help="End when none has come for so many seconds; otherwise Ctrl-C ends it."),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="End after so many publications.")] = None,
    durable: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="It goes on collecting under this name when the command has ended."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="A name for one that is not durable, to share it.")
    ] = None,
    shared: Annotated[
        bool, typer.Option("--shared", help="Others may read it, too; each publication goes to one of them.")
    ] = False,
    selector: Selector = None,
    content: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="Only bodies that meet it: 'xpath:/order\\[total > 100]'."),
    ] = None,
    new_only: Annotated[bool, typer.Option("--new-only", help="Leave out what was retained before.")] = False,
    style: Style = "mq",
    body_only: Annotated[
        bool, typer.Option("--body-only", help="Write nothing but the bodies, byte for byte; line ends between them.")
    ] = False,
    json: Json = False,
) -> None:
    """Have what is published on a topic as it comes, and what was retained; JSON lines with --json.

    Without --durable the subscription ends with the command. With it, publications wait for
    the next command that names it, until entrepot unsubscribe.

    \b
      entrepot subscribe ./qm1 "prices/#"
      entrepot subscribe ./qm1 "prices/+" --durable desk-7 -s "price > 100"
      entrepot subscribe ./qm1 --durable desk-7 --wait 0 --json
      entrepot subscribe ./qm1 "orders/#" --content "xpath:/order\\[total > 9]"
      entrepot subscribe ./qm1 "orders/#" --name pool --shared
    """
    from entrepot.engine.topics import from_style

    if json and body_only:
        raise typer.BadParameter("choose one of --json and --body-only")
    if topic is None and not (durable or name):
        raise typer.BadParameter("give TOPIC, or --durable NAME of a subscription that exists")
    if topic is not None:
        topic = from_style(topic, style)
    writer = messages.MessageWriter(json=json, body_only=body_only)
    try:
        with (
            opening.connected(path) as connection,
            connection.subscribe(
                topic, durable=durable, name=name, shared=shared, selector=selector, content=content, new_only=new_only
            ) as subscription,
        ):
            alone = connection.is_near
            if alone and not json:
                output.note(f"No server runs at {path}, so no program can publish meanwhile: entrepot qm start.")
            elif wait is None and not json:
                output.note(f"Subscribed to {topic or subscription.name}; Ctrl-C ends it.")
            # Where no program can publish, waiting for ever would be for nothing.
            wait_s = wait if wait is not None else 0.0 if alone else math.inf
            _read(connection, subscription.queue, writer, wait_s, math.inf if count is None else count)
    except EntrepotError as error:
        if not _is_from_interrupt(error):
            raise
        raise typer.Exit(_INTERRUPTED) from None
    finally:
        writer.close()
    if not writer.written and not json:
        output.note("Nothing was published.")


def _is_from_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C came first: it breaks the connection within a verb, and then closing the rest may fail as well."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _read(connection: Connection, queue: str, writer: messages.MessageWriter, wait_s: float, limit: float) -> None:
    while writer.written < limit:
        with connection.unit_of_work() as unit:
            message = unit.get(queue, wait_s=wait_s)
            if message is None:
                return
            writer.write(message)


def unsubscribe(
    path: Reachable,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What subscribe --durable called it.")],
    json: Json = False,
) -> None:
    """End a durable subscription, and discard what it has collected.

    \b
      entrepot unsubscribe ./qm1 desk-7
      entrepot mqsc ./qm1 -e "DISPLAY SUB(*)"
    """
    with opening.connected(path) as connection:
        connection.unsubscribe(name)
    if json:
        output.print_json({"unsubscribed": name})
    else:
        output.say(f"Subscription {name} has ended.")
