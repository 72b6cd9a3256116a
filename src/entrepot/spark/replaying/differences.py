# SPDX-License-Identifier: Apache-2.0
"""What differs between two sets of messages, field by field.

Outputs of one message are paired by destination, in their order. A pair is
compared by descriptor, properties and body; a body by its tree where both
can be read as XML, JSON or a model, else by the first byte that differs:

    body.order.item[2].price        9.90 -> 9.95
    properties.region               EU -> (nothing)
    body                            offset 17: 4f4b20 -> 4e4f20
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from entrepot.errors import EntrepotError
from entrepot.message import Message
from entrepot.models import Element, MessageSet, parse_message, register_set
from entrepot.models.tree import Folder
from entrepot.models.tree_json import type_name
from entrepot.spark.tables.rows import property_text

NOTHING = "(nothing)"
_SHOWN_BYTES = 16
_SHOWN_CHARACTERS_MAX = 500
_PER_MESSAGE_MAX = 100

COMPARED = (
    "correlation_id",
    "persistent",
    "priority",
    "type",
    "expiry_s",
    "delay_s",
    "reply_to",
    "reply_to_manager",
    "group_id",
    "sequence",
    "last_in_group",
    "report",
    "feedback",
    "format",
    "ccsid",
    "encoding",
)
"""Fields of the descriptor that a flow decides. Others are the queue manager's: times, users, counts."""


NAMES_OF_FLOWS = frozenset({"entrepot_flow"})
"""Properties of messages that were set aside, in which two versions of a flow may well differ."""
EVERYTHING = frozenset({*COMPARED, "message_id", "properties"})


class Difference(NamedTuple):
    """One field that is not the same."""

    destination: str
    path: str
    before: str
    after: str


class SentMessage(NamedTuple):
    """A message and where it went."""

    destination: str
    message: Message


class Model(NamedTuple):
    """How bodies are read; without a domain it is guessed from the bytes."""

    domain: str = ""
    message_set: str = ""
    message_type: str = ""
    message_format: str = ""
    loaded: MessageSet | None = None
    """The set itself, for processes that do not know it."""


GUESS = Model()


def compare(
    before: Sequence[SentMessage],
    after: Sequence[SentMessage],
    *,
    source_id: bytes = b"",
    model: Model = GUESS,
    known: Container[str] = EVERYTHING,
) -> list[Difference]:
    """What differs between two sets of outputs of one message, at most a hundred differences."""
    found: list[Difference] = []
    sides: dict[str, tuple[list[Message], list[Message]]] = defaultdict(lambda: ([], []))
    for side, outputs in enumerate((before, after)):
        for output in outputs:
            sides[output.destination][side].append(output.message)
    for destination, (old, new) in sides.items():
        for index in range(max(len(old), len(new))):
            if index >= len(new):
                found.append(Difference(destination, "message", _body_text(old[index]), NOTHING))
            elif index >= len(old):
                found.append(Difference(destination, "message", NOTHING, _body_text(new[index])))
            else:
                differing = compare_messages(old[index], new[index], source_id=source_id, model=model, known=known)
                found += [Difference(destination, *each) for each in differing]
            if len(found) >= _PER_MESSAGE_MAX:
                return found[:_PER_MESSAGE_MAX]
    return found


def compare_messages(
    before: Message,
    after: Message,
    *,
    source_id: bytes = b"",
    model: Model = GUESS,
    known: Container[str] = EVERYTHING,
) -> Iterator[tuple[str, str, str]]:
    """Path, value before and value after of each field that differs; of the descriptor only those that are `known`."""
    if (
        "message_id" in known
        and before.message_id != after.message_id
        and source_id in (before.message_id, after.message_id)
    ):
        # Ids that were made anew on both sides say nothing; one that was kept on one side does.
        yield "message_id", before.message_id.hex(), after.message_id.hex()
    for name in COMPARED:
        old, new = getattr(before, name), getattr(after, name)
        if old != new and name in known:
            yield name, _text(old), _text(new)
    names = [*before.properties, *(each for each in after.properties if each not in before.properties)]
    for name in names if "properties" in known else ():
        if name in NAMES_OF_FLOWS:
            continue
        old, new = before.properties.get(name), after.properties.get(name)
        if old != new or type(old) is not type(new):
            yield f"properties.{name}", _property(old), _property(new)
    if before.body != after.body:
        yield from _bodies(before, after, model)


def _bodies(before: Message, after: Message, model: Model) -> Iterator[tuple[str, str, str]]:
    old, new = leaves(before, model), leaves(after, model)
    if old is None or new is None:
        yield _first_byte(before.body, after.body)
        return
    differing = False
    for path in [*old, *(each for each in new if each not in old)]:
        was, is_now = old.get(path, NOTHING), new.get(path, NOTHING)
        if was != is_now:
            differing = True
            yield path, _shortened(was), _shortened(is_now)
    if not differing:
        path, was, is_now = _first_byte(before.body, after.body)
        yield path, f"{was} (the same fields in other bytes)", is_now


def leaves(message: Message, model: Model = GUESS) -> dict[str, str] | None:
    """The values of a body by their paths, in its order; None where it is only bytes."""
    domain = model.domain or _guessed(message)
    if domain in ("", "BLOB"):
        return None
    if model.loaded is not None:
        register_set(model.loaded)
    try:
        assembly = parse_message(
            message,
            domain=domain,
            message_set=model.message_set,
            message_type=model.message_type,
            message_format=model.message_format,
        )
        found: dict[str, str] = {}
        for folder in assembly.root.children:
            if isinstance(folder, Folder) and folder.key not in ("Properties", "MQMD"):
                head = "body" if folder is assembly.root.children[-1] else folder.key
                _collect(folder, head, found)
        return found
    except (EntrepotError, ValueError):
        return None  # then its bytes are compared


def _guessed(message: Message) -> str:
    body = message.body
    if message.format.strip() in ("MQHRF2", "MQRFH2"):
        # The header may say what follows; where it does not, the bytes behind it are compared as they are.
        return "BLOB" if b"<Msd>" not in body else "XMLNSC"
    start = body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    return {b"<": "XMLNSC", b"{": "JSON", b"[": "JSON"}.get(start, "")


def _collect(element: Element, path: str, found: dict[str, str]) -> None:
    children = element.children
    if element.value is not None or not children:
        value = element.value
        found[path] = "" if value is None else f"{_text(value)}" if isinstance(value, str) else _typed(value)
    totals: dict[str, int] = defaultdict(int)
    for child in children:
        totals[child.key] += 1
    counts: dict[str, int] = defaultdict(int)
    for child in children:
        counts[child.key] += 1
        place = f"[{counts[child.key]}]" if totals[child.key] > 1 else ""
        _collect(child, f"{path}.{child.key}{place}", found)


def _typed(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else str(value)
    return f"{text} ({type_name(value)})"


def _first_byte(before: bytes, after: bytes) -> tuple[str, str, str]:
    shorter = min(len(before), len(after))
    # Halving with slices is far quicker than going through megabytes one by one.
    low, high = 0, shorter
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return "body", f"offset {low}: {_bytes_at(before, low)}", f"offset {low}: {_bytes_at(after, low)}"


def _bytes_at(body: bytes, offset: int) -> str:
    piece = body[offset : offset + _SHOWN_BYTES]
    if not piece:
        return f"ends after {len(body)} bytes"
    text = piece.decode("latin-1")
    return f"{piece.hex()} {text!r}" if text.isprintable() else piece.hex()


def _body_text(message: Message) -> str:
    return f"{len(message.body)} bytes: {_bytes_at(message.body, 0)}" if message.body else "an empty message"


def _property(value: object) -> str:
    if value is None:
        return NOTHING
    return f"{property_text(value)} ({type(value).__name__})"  # type: ignore[arg-type]


def _text(value: object) -> str:
    if value is None:
        return NOTHING
    return value.hex() if isinstance(value, bytes) else str(value)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "..."
