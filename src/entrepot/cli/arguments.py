# SPDX-License-Identifier: Apache-2.0
"""Arguments parsed as paths, sizes, ids and times, or refused with what was expected."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from entrepot.errors import InvalidUrl
from entrepot.message import PropertyValue

_SCHEME = re.compile(r"([a-z]{2,}):")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")


def place(text: str) -> Path:
    """The folder of a queue manager, from a path or from an embedded: URL."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text)
    if scheme[1] != "embedded" or text == "embedded:":
        raise InvalidUrl(text)
    return Path(text.removeprefix("embedded:"))


def reachable(text: str) -> Path | str:
    """A queue manager that messages can go to: a folder, or a URL of one that runs as a server."""
    if text.startswith(("unix:", "mq:", "mqs:")):
        from entrepot.client.address import parse

        parse(text)  # refuses what is no URL before anything happens
        return text
    return place(text)


def size(text: str) -> int:
    """Bytes: 65536, 64k, 64KiB and 0.5M count in 1024s; 64kB and 1MB in 1000s."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no size; write 65536, 64KiB, 32k or 1.5MiB")
    number, unit, binary, byte = found.groups()
    base = 1000 if unit and byte and not binary else 1024
    size_bytes = float(number) * base ** _POWERS[unit.lower()]
    if size_bytes != int(size_bytes):
        raise typer.BadParameter(f"{text!r} is no whole number of bytes")
    return int(size_bytes)


def identifier(text: str) -> bytes:
    """An id: pairs of hex digits are bytes, anything else is text; `text:` before it makes it text."""
    if text.startswith("text:"):
        return text.removeprefix("text:").encode()
    return bytes.fromhex(text) if _HEX.fullmatch(text) else text.encode()


def hex_identifier(text: str) -> bytes:
    """An id as our lists show it."""
    if not _HEX.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is no id; copy the hex digits that the list shows")
    return bytes.fromhex(text)


def moment(text: str) -> float:
    """Seconds since 1970 of a time in ISO 8601; without an offset it is local time."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time; write 2026-05-01T12:30:00, with Z or +02:00 unless it is local time"
        ) from None


def property_pair(text: str) -> tuple[str, PropertyValue]:
    """name=value; numbers, true and false have their own types, `text:` before a value keeps it text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} is no property; write name=value")
    return name, _property_value(value)


def _property_value(text: str) -> PropertyValue:
    if text.startswith("text:"):
        return text.removeprefix("text:")
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        # Python would also read 1_000, inf and nan as numbers; people mean them as text.
        if re.fullmatch(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?", text):
            try:
                return kind(text)
            except ValueError:
                continue
    return text


Manager = Annotated[
    Path,
    typer.Argument(parser=place, metavar="PATH", help="Folder of the queue manager, or embedded:FOLDER."),
]
Reachable = Annotated[
    Path,
    typer.Argument(
        parser=reachable, metavar="PATH|URL", help="Folder of the queue manager, or mq://HOST:PORT/NAME of a server."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")]
Selector = Annotated[
    str | None,
    typer.Option("--selector", "-s", metavar="SQL", help="Only messages that meet it: \"region = 'EU' AND size > 3\"."),
]
Style = Annotated[
    Literal["mq", "jms", "tibco"],
    typer.Option(help="How topics are written: mq a/+/#; jms a.*.# as in SonicMQ and ActiveMQ; tibco a.*.>."),
]


def pair(text: str, what: str, example: str) -> tuple[str, str]:
    """NAME=VALUE as both."""
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not {what}; write {example}")
    return name, value
