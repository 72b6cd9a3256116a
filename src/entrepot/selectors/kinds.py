# SPDX-License-Identifier: Apache-2.0
"""The kinds of value a selector tells apart, at run time and, for literals, when it is compiled."""

from __future__ import annotations

import enum
from collections.abc import Callable

from entrepot.message import Message

Value = str | int | float | bool | bytes | None
"""What an expression gives for a message; None is NULL and, for a condition, UNKNOWN."""

Truth = bool | None
"""TRUE, FALSE or UNKNOWN."""

Reader = Callable[[Message], Value]
Condition = Callable[[Message], Truth]


class ValueKind(enum.Enum):
    """What a value is; the text is for error messages."""

    NULL = "null"
    TEXT = "text"
    NUMBER = "a number"
    BOOLEAN = "a condition"
    BYTES = "bytes"
    OTHER = "something else"


_BASES: tuple[tuple[type, ValueKind], ...] = (
    (bool, ValueKind.BOOLEAN),  # before int, whose subclass it is
    (int, ValueKind.NUMBER),
    (float, ValueKind.NUMBER),
    (str, ValueKind.TEXT),
    (bytes, ValueKind.BYTES),
    (bytearray, ValueKind.BYTES),
)


class _Kinds(dict[type, ValueKind]):
    def __missing__(self, value_class: type) -> ValueKind:
        # Enumerations and other subclasses come here. They are not remembered,
        # because classes made at run time would then never be freed.
        for base, kind in _BASES:
            if issubclass(value_class, base):
                return kind
        return ValueKind.OTHER


KINDS = _Kinds({type(None): ValueKind.NULL, **dict(_BASES)})
"""From a value's class to its kind. A look-up, because it is done for every value of every message."""
