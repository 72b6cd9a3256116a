# SPDX-License-Identifier: Apache-2.0
"""How messages look to people and to programs."""

from __future__ import annotations

import base64
import codecs
import sys
from datetime import datetime
from typing import Any

from entrepot.cli import output
from entrepot.message import Message, PropertyValue

PREVIEW_CHARACTERS = 48
_ALWAYS = ("persistent", "priority", "put_time")


def text_of(body: bytes) -> str | None:
    """The body as text a terminal can show, or None when it is something else."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if all(character.isprintable() or character in "\n\r\t" for character in text) else None


def preview(body: bytes, characters: int = PREVIEW_CHARACTERS) -> str:
    """The beginning of a body: quoted text, or hex digits."""
    # Four bytes are the longest character; one cut in half at the end is no reason to show hex.
    head = body[: characters * 4]
    try:
        text: str | None = codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) == len(body))
    except UnicodeDecodeError:
        text = None
    if text is None or not all(character.isprintable() or character in "\n\r\t" for character in text):
        digits = body[: characters // 2].hex()
        return f"0x{digits}{'…' if len(body) > characters // 2 else ''}"
    cut = text[:characters]
    more = "…" if len(cut) < len(text) or len(head) < len(body) else ""
    return f'"{output.safe(cut).replace(chr(10), chr(92) + "n")}{more}"'


def local_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="milliseconds")


def as_json(message: Message) -> dict[str, Any]:
    """Everything about a message that is not at its default; ids in hex, a body that is no text in Base64."""
    default = Message(b"")
    shown: dict[str, Any] = {"message_id": message.message_id.hex()}
    text = text_of(message.body)
    shown.update({"body": text} if text is not None else {"body_base64": base64.b64encode(message.body).decode()})
    for field in message.__struct_fields__:
        value = getattr(message, field)
        # Of a publication, subscribers always want to know whether it is news.
        always = field in _ALWAYS or (field == "retained" and message.topic)
        if field in ("body", "message_id", "properties") or (value == getattr(default, field) and not always):
            continue
        shown[field] = value.hex() if isinstance(value, bytes) else value
    if message.properties:
        shown["properties"] = {name: _property_as_json(value) for name, value in message.properties.items()}
    return shown


def _property_as_json(value: PropertyValue) -> object:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def properties_line(message: Message) -> str:
    return " ".join(f"{name}={_property_text(name, value)}" for name, value in message.properties.items())


def _property_text(name: str, value: Any) -> Any:
    if name == "dead_letter_time" and isinstance(value, int | float):
        return local_time(value)
    return preview(value) if isinstance(value, bytes) else value


def show(message: Message) -> None:
    """A message for a person: its descriptor, then its body."""
    kind = "persistent" if message.persistent else "nonpersistent"
    output.say(f"message {message.message_id.hex()}", "bold")
    facts: dict[str, Any] = {"put": f"{local_time(message.put_time)} by {message.user or '?'}, {kind}"}
    facts["priority"] = message.priority
    optional = {
        "topic": f"{message.topic}{', retained before' * message.retained}" if message.topic else "",
        "correlation id": message.correlation_id.hex(),
        "group": f"{message.group_id.hex()} number {message.sequence}{' (last)' * message.last_in_group}"
        if message.group_id
        else "",
        "reply to": message.reply_to,
        "expires": f"in {message.expiry_s:.3g} s" if message.expiry_s is not None else "",
        "backed out": f"{message.backout_count} times" if message.backout_count else "",
        "properties": properties_line(message),
    }
    facts.update((name, value) for name, value in optional.items() if value)
    text = text_of(message.body)
    facts["body"] = f"{len(message.body):,} bytes{'' if text is not None else ', not text'}"
    output.facts({f"  {name}": value for name, value in facts.items()})
    output.say(text if text is not None else preview(message.body, 200))


class MessageWriter:
    """Writes messages to standard output, one after another, each before the next is asked for."""

    def __init__(self, *, json: bool, body_only: bool) -> None:
        self._json = json
        self._body_only = body_only
        self.written = 0

    def write(self, message: Message) -> None:
        if self._json:
            output.print_json(as_json(message), lines=True)
        elif self._body_only:
            sys.stdout.flush()
            sys.stdout.buffer.write(b"\n" + message.body if self.written else message.body)
            sys.stdout.buffer.flush()
        else:
            show(message)
        sys.stdout.flush()
        self.written += 1

    def close(self) -> None:
        """End the last line where a person reads."""
        if self._body_only and self.written and sys.stdout.isatty():
            sys.stdout.write("\n")
