# SPDX-License-Identifier: Apache-2.0
"""`entrepot log show`: the recovery log, readably."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from entrepot.cli import opening, output
from entrepot.cli.arguments import Json, Manager
from entrepot.cli.messages import local_time

if TYPE_CHECKING:
    from entrepot.cli.log_records import Description

_KEYS_SHOWN = 8


def show(
    path: Manager,
    from_: Annotated[
        int | None, typer.Option("--from", min=0, metavar="POSITION", help="Begin with the first group behind it.")
    ] = None,
    types: Annotated[
        str | None, typer.Option("--type", metavar="TYPES", help="Only these record types: PUT,REMOVE,COMMIT.")
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Only what concerns this queue.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, metavar="N", help="Show at most so many records.")] = None,
    bodies: Annotated[bool, typer.Option("--bodies", help="Show whole bodies.")] = False,
    json: Json = False,
) -> None:
    """Print the records of a stopped queue manager's log, and whether its end is clean, torn or damaged.

    Nothing is changed. A torn end is what a crash leaves, and restart cuts it; a damaged log makes the exit code 1.
    With --json each line is a record, the last one the verdict.
    """
    from entrepot.cli.log_records import LogView
    from entrepot.engine.folder import read_settings

    wanted = _wanted(types)
    settings = read_settings(path)
    with opening.held_still(path):
        view = LogView(opening.ReadOnlyDisk(path), settings)
        if view.checkpoint_problem:
            output.note(f"Queue names may be missing: {view.checkpoint_problem}")
        shown, group = 0, -1
        # The whole log is read even when the limit is reached, because the verdict is about its end.
        for description in view.descriptions(from_, bodies=bodies):
            if limit is not None and shown >= limit:
                continue
            if not _is_wanted(description, wanted, queue):
                continue
            if json:
                output.print_json(description, lines=True)
            else:
                if description["group"] != group:
                    group = description["group"]
                    _print_group(description)
                if description["type"] == "GROUP" and wanted is None:
                    continue  # its heading says all
                _print(description)
            shown += 1
    tail = {**view.tail, "shown": shown}
    if json:
        output.print_json(tail, lines=True)
    else:
        _print_tail(tail)
    if tail["tail"] == "damaged":
        raise typer.Exit(1)


def _wanted(types: str | None) -> frozenset[str] | None:
    from entrepot.cli.log_records import IN_LOG

    if types is None:
        return None
    words = frozenset(word.strip().upper() for word in types.split(","))
    for word in words.difference(IN_LOG):
        raise typer.BadParameter(f"{word!r} is no record type of a log; there are {', '.join(IN_LOG)}")
    return words


def _is_wanted(description: Description, types: frozenset[str] | None, queue: str | None) -> bool:
    if types is not None and description["type"] not in types:
        return False
    if queue is None:
        return True
    return queue in description.get("queues", ()) or description.get("name") == queue


def _print_group(description: Description) -> None:
    when = local_time(description["time"])
    output.say(f"group at {description['group']} · {when} · start {description['start']}", "bold")


def _print(description: Description) -> None:
    place = f"{description['segment']}+{description['offset']}"
    output.say(f"{description['position']:>12}  {place:<31} {description['type']:<8} {_details(description)}".rstrip())
    if "body" in description:
        for line in description["body"].splitlines():
            output.say(f"{'':14}{line}")
    elif "body_hex" in description:
        digits = description["body_hex"]
        for begin in range(0, len(digits), 64):
            output.say(f"{'':14}{begin // 2:08x}  {digits[begin : begin + 64]}")


def _details(description: Description) -> str:
    words = []
    if description.get("unit"):
        words.append(f"unit {description['unit']}")
    if "transaction_id" in description:
        words.append(f"transaction {description['transaction_id']}")
    if "outcome" in description:
        words.append(description["outcome"])
    if "kind" in description:
        words.append(f"{description['kind']}({description['name']})")
        words += [f"{key}={value}" for key, value in description.get("attributes", {}).items()]
    words += dict.fromkeys(description.get("queues", ()))
    if "topic" in description:
        words.append(f"topic {description['topic']}")
    words += description.get("branches", ())
    if "keys" in description:
        words.append(_keys(description["keys"]))
    if "message_id" in description:
        words.append(f"id {description['message_id']}")
        words.append(f"{description['body_bytes']:,} bytes {description['preview']}")
    if description["type"] == "GROUP":
        words.append(f"{description['body_bytes']:,} bytes, forced before up to {description['forced_position']}")
    return "  ".join(words)


def _keys(keys: list[int]) -> str:
    listed = ",".join(map(str, keys[:_KEYS_SHOWN]))
    more = f" and {len(keys) - _KEYS_SHOWN} more" if len(keys) > _KEYS_SHOWN else ""
    return f"key{'s' * (len(keys) != 1)} {listed}{more}"


def _print_tail(tail: Description) -> None:
    place = f" ({tail['segment']}+{tail['offset']})" if "segment" in tail else ""
    end = f"{tail['shown']:,} records shown. The log ends at {tail['end_position']}{place}"
    if tail["tail"] == "clean":
        output.say(f"{end}: clean.", "green")
    elif tail["tail"] == "torn":
        output.say(f"{end}: torn, {tail['problem']}. A crash left this; restart cuts it. It was never acknowledged.")
    else:
        advice = (
            "Restore a backup with entrepot qm restore."
            if tail.get("restart_needs_it", True)
            else "A restart begins behind it; take a backup, since media recovery from this log would fail."
        )
        output.say(f"{end}: DAMAGED, {tail['problem']}. {advice}", "bold red")
