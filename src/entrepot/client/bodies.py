# SPDX-License-Identifier: Apache-2.0
"""Bodies as Python values: what a handler's annotation makes of bytes, and bytes of what it returns.

`bytes` and `str` (UTF-8) are taken as they are. pydantic models read and
write themselves. All else is JSON by msgspec: dicts and lists, dataclasses,
TypedDicts, `msgspec.Struct`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from entrepot.errors import BodyUnreadable, InvalidArgument

Reader = Callable[[bytes], Any]


def reader_for(annotation: Any) -> Reader:
    """What makes a value of a body; without an annotation the body itself.

    Raises:
        InvalidArgument: No body can become such a value.
    """
    if annotation in (bytes, Any, None):
        return lambda body: body
    if hasattr(annotation, "model_validate_json"):
        return _checked(annotation.model_validate_json, _name(annotation))
    if annotation is str:
        return _checked(lambda body: body.decode(), "str")
    try:
        decoder = msgspec.json.Decoder(annotation)
    except TypeError as error:
        raise InvalidArgument(
            "handler", f"{_name(annotation)}: {error}", "bytes, str, or what msgspec or pydantic can read from JSON"
        ) from error
    return _checked(decoder.decode, _name(annotation))


def written(value: Any) -> bytes:
    """The body that a handler's result becomes.

    Raises:
        InvalidArgument: It cannot be written as JSON.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    if hasattr(value, "model_dump_json"):
        return str(value.model_dump_json()).encode()
    try:
        return msgspec.json.encode(value)
    except TypeError as error:
        raise InvalidArgument(
            "result", str(error), "bytes, str, or what msgspec or pydantic can write as JSON"
        ) from error


def _checked(read: Reader, name: str) -> Reader:
    def checked(body: bytes) -> Any:
        try:
            return read(body)
        except (ValueError, msgspec.MsgspecError) as error:  # pydantic's and Unicode's errors are ValueErrors
            raise BodyUnreadable(name, str(error)) from error

    return checked


def _name(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation)
