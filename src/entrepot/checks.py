# SPDX-License-Identifier: Apache-2.0
"""What an application hands us, checked before anything happens: a wrong argument gets a clear answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from entrepot import limits
from entrepot.errors import InvalidArgument
from entrepot.message import MessageType, PropertyValue

_TYPES = frozenset(MessageType)
_SECONDS_MAX = 100 * 366 * 86_400
_SHOWN_CHARACTERS_MAX = 60


def body(value: object) -> bytes:
    """The body as bytes that cannot change afterwards."""
    if type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        raise InvalidArgument("body", "text has no bytes of its own", "bytes, for instance text.encode()")
    raise InvalidArgument("body", f"{type(value).__name__} is no body", "bytes, bytearray or memoryview")


def identifier(name: str, value: object) -> bytes:
    if not isinstance(value, bytes) or len(value) > limits.ID_BYTES_MAX:
        problem = f"{len(value)} bytes" if isinstance(value, bytes) else f"{type(value).__name__} is no id"
        raise InvalidArgument(name, problem, f"bytes, at most {limits.ID_BYTES_MAX}")
    return value


def wanted_identifier(name: str, value: object) -> bytes:
    """An id by which a reader asks for a message; no message answers to an empty one."""
    if value == b"":
        raise InvalidArgument(name, "0 bytes", f"bytes, 1 to {limits.ID_BYTES_MAX}")
    return identifier(name, value)


def transaction_id(value: object) -> bytes:
    if not isinstance(value, bytes) or not 1 <= len(value) <= limits.TRANSACTION_ID_BYTES_MAX:
        problem = f"{len(value)} bytes" if isinstance(value, bytes) else f"{type(value).__name__} is no id"
        raise InvalidArgument("transaction_id", problem, f"bytes, 1 to {limits.TRANSACTION_ID_BYTES_MAX}")
    return value


def message_type(value: object) -> MessageType:
    if isinstance(value, int) and not isinstance(value, bool) and value in _TYPES:
        return MessageType(value)
    raise InvalidArgument("type", f"{value!r}", "one of MessageType")


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(name, f"{type(value).__name__} is no text", "str")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidArgument(name, f"character {error.start} is no Unicode text", "str without surrogates") from error
    if size > limits.TEXT_BYTES_MAX:
        raise InvalidArgument(name, f"{size} bytes", f"at most {limits.TEXT_BYTES_MAX} bytes in UTF-8")
    return value


def whole_number(name: str, value: object, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidArgument(name, shortened(value), f"a whole number from {low} to {high}")
    return int(value)


def seconds(name: str, value: object, *, positive: bool = False) -> float:
    # Written so that it is false for a number that is none.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _SECONDS_MAX:
        raise InvalidArgument(name, shortened(value), "seconds, not negative, at most a hundred years")
    if positive and value == 0:
        raise InvalidArgument(name, "0", "seconds, more than 0")
    return float(value)


def wait(name: str, value: object) -> float:
    """Seconds to wait; infinity waits for good."""
    return math.inf if value == math.inf else seconds(name, value)


def shortened(value: object) -> str:
    """A value as an error shows it, however long it is."""
    try:
        shown = repr(value)
    except Exception:  # its repr is the application's, and may do anything
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= _SHOWN_CHARACTERS_MAX else shown[:_SHOWN_CHARACTERS_MAX] + "..."


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(name, shortened(value), "True or False")
    return value


def properties(value: Mapping[str, PropertyValue]) -> dict[str, PropertyValue]:
    """A copy of its own, so that the caller's later changes do not reach the message."""
    if not isinstance(value, Mapping):
        raise InvalidArgument("properties", f"{type(value).__name__} is no mapping", "a dict of names and values")
    if len(value) > limits.PROPERTIES_MAX:
        raise InvalidArgument("properties", f"{len(value)} properties", f"at most {limits.PROPERTIES_MAX}")
    size = 0
    for name, item in value.items():
        size += _property_bytes(name, item)
    if size > limits.PROPERTIES_BYTES_MAX:
        raise InvalidArgument("properties", f"{size} bytes", f"at most {limits.PROPERTIES_BYTES_MAX} bytes together")
    return dict(value)


def _property_bytes(name: Any, value: Any) -> int:
    if not isinstance(name, str) or not 1 <= len(name) <= limits.PROPERTY_NAME_CHARACTERS_MAX:
        expected = f"a text of 1 to {limits.PROPERTY_NAME_CHARACTERS_MAX} characters"
        raise InvalidArgument("properties", f"{shortened(name)} is no name for a property", expected)
    kind = type(value)
    try:
        size = len(name.encode())
        if kind is str:
            return size + len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidArgument("properties", f"{name!a} is no Unicode text", "str without surrogates") from error
    if kind is bytes:
        return size + len(value)
    if kind is int and not -(2**63) <= value < 2**63:
        raise InvalidArgument("properties", f"{name} is {shortened(value)}", "a whole number of at most 64 bits")
    if kind not in (int, float, bool):
        raise InvalidArgument("properties", f"{name} is a {kind.__name__}", "str, int, float, bool or bytes")
    return size + 9
