# SPDX-License-Identifier: Apache-2.0
"""Message, correlation and group ids: AMQP's are of four types, ours are bytes, and both come back as they were.

    "order-7"      <->  b"order-7"                 printable text is its UTF-8
    b"\\x01\\xff"    <->  b"\\x01\\xff"                binary is itself
    7              <->  b"AMQP_ULONG:7"
    UUID(...)      <->  b"AMQP_UUID:6e7a..."
    b"order-7"     <->  b"AMQP_BINARY:order-7"     binary that would look like text
    "tab\\there"    <->  b"AMQP_STRING:tab\\there"   text that would not look like text

So a program of ours that waits for the correlation id b"order-7" gets the
reply of an AMQP program that says "order-7". The words are those that JMS
over AMQP uses. An AMQP id always returns as it was sent; an id of ours
does unless it begins with one of these words itself.
"""

from __future__ import annotations

from uuid import UUID

from entrepot.server.amqp.codec import Malformed

Identifier = int | UUID | bytes | str

_WORDS = (b"AMQP_ULONG:", b"AMQP_UUID:", b"AMQP_BINARY:", b"AMQP_STRING:")
_ULONG, _UUID, _BINARY, _STRING = _WORDS
_HEXADECIMAL = "ID:"


def from_amqp(identifier: Identifier | None) -> bytes:
    """Our form of an id.

    Raises:
        Malformed: AMQP has no ids of this type.
    """
    if identifier is None:
        return b""
    if isinstance(identifier, str):
        data = identifier.encode()
        if data and identifier.isprintable() and not data.startswith(_WORDS):
            return data
        return _STRING + data
    if isinstance(identifier, bytes):
        return _BINARY + identifier if not identifier or _text(identifier) is not None else identifier
    if isinstance(identifier, UUID):
        return _UUID + str(identifier).encode()
    if isinstance(identifier, int) and not isinstance(identifier, bool) and 0 <= identifier < 2**64:
        return _ULONG + str(identifier).encode()
    raise Malformed(f"an id cannot be {type(identifier).__name__}")


def to_amqp(identifier: bytes) -> Identifier | None:
    """AMQP's form of one of our ids; none for an empty one."""
    if not identifier:
        return None
    if identifier.startswith(_WORDS):
        found = _marked(identifier)
        if found is not None and from_amqp(found) == identifier:
            return found
        return identifier.decode(errors="backslashreplace")
    if b"\0" in identifier:
        return identifier  # no text, and most ids that a queue manager makes have one
    text = _text(identifier)
    return identifier if text is None else text


def _text(identifier: bytes) -> str | None:
    """An id as the text that it looks like; those that begin with our words count as such."""
    try:
        text = identifier.decode()
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and text:
        return text
    return text if identifier.startswith(_WORDS) else None


def _marked(identifier: bytes) -> Identifier | None:
    word, _, rest = identifier.partition(b":")
    try:
        if word == b"AMQP_BINARY":
            return rest
        if word == b"AMQP_STRING":
            return rest.decode()
        return int(rest) if word == b"AMQP_ULONG" else UUID(rest.decode())
    except ValueError:
        return None


def group_from_amqp(group: str) -> bytes:
    """Our form of a group id, which AMQP has as text only."""
    if group.startswith(_HEXADECIMAL):
        try:
            raw = bytes.fromhex(group[len(_HEXADECIMAL) :])
        except ValueError:
            raw = b""
        # Only what `group_to_amqp` would write in this way is taken for it.
        if raw and group_to_amqp(raw) == group:
            return raw
    return group.encode()


def group_to_amqp(group: bytes) -> str:
    """A group id as text: itself if it is text, else `ID:` and hexadecimal."""
    try:
        text = group.decode()
    except UnicodeDecodeError:
        return _HEXADECIMAL + group.hex()
    return text
