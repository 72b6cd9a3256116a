# SPDX-License-Identifier: Apache-2.0
"""What an application hands us, checked before anything happens: a wrong argument gets a clear answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from entrepot import limits
from entrepot.errors import InvalidArgument
from entrepot.message import PropertyValue


def body(value: object) -> bytes:
    """The body as bytes that nobody can change afterwards."""
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
        raise InvalidArgument(name, f"{value!r}", f"a whole number from {low} to {high}")
    return int(value)


def seconds(name: str, value: object, *, positive: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value < 0:
        raise InvalidArgument(name, f"{value!r}", "seconds, not negative")
    if positive and value == 0:
        raise InvalidArgument(name, "0", "seconds, more than 0")
    return float(value)


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(name, f"{value!r}", "True or False")
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
        raise InvalidArgument("properties", f"{name!r} is no name for a property", "a text that is not empty")
    kind = type(value)
    if kind is str:
        try:
            return len(name) + len(value.encode())
        except UnicodeEncodeError as error:
            raise InvalidArgument("properties", f"{name} is no Unicode text", "str without surrogates") from error
    if kind is bytes:
        return len(name) + len(value)
    if kind is int and not -(2**63) <= value < 2**63:
        raise InvalidArgument("properties", f"{name} is {value}", "a whole number of at most 64 bits")
    if kind not in (int, float, bool):
        raise InvalidArgument("properties", f"{name} is a {kind.__name__}", "str, int, float, bool or bytes")
    return len(name) + 9
