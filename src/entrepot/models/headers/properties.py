# SPDX-License-Identifier: Apache-2.0
"""The Properties folder: what a flow knows about a message whatever it came by.

It has no bytes. Most of it says again what MQMD says; Encoding and
CodedCharSetId are those of the body, which a header before it may have
changed. `assembling` decides which one counts when both were changed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from entrepot.models.element_types import NAME_VALUE
from entrepot.models.headers.mqmd import NO_ID, moment_of
from entrepot.models.headers.origin import Origin
from entrepot.models.tree import Element, Folder


def _expiration(origin: Origin) -> int | datetime:
    message = origin.message
    created = moment_of(message.put_time)
    if message.expiry_s is None or created is None:
        return -1
    try:
        return created + timedelta(seconds=message.expiry_s)
    except OverflowError:
        return -1


FIELDS: dict[str, Callable[[Origin], Any]] = {
    "MessageSet": lambda origin: origin.message_set,
    "MessageType": lambda origin: origin.message_type,
    "MessageFormat": lambda origin: origin.message_format,
    "Encoding": lambda origin: origin.body_encoding,
    "CodedCharSetId": lambda origin: origin.body_ccsid,
    "Transactional": lambda origin: origin.transactional,
    "Persistence": lambda origin: origin.message.persistent,
    "CreationTime": lambda origin: moment_of(origin.message.put_time),
    "ExpirationTime": _expiration,
    "Priority": lambda origin: origin.message.priority,
    "ReplyIdentifier": lambda origin: origin.message.correlation_id or NO_ID,
    "ReplyProtocol": lambda _: "MQ",
    "Topic": lambda origin: origin.message.topic or None,
    "ContentType": lambda _: "",
    "IdentitySourceType": lambda _: "",
    "IdentitySourceToken": lambda _: "",
    "IdentitySourcePassword": lambda _: "",
    "IdentitySourceIssuedBy": lambda _: "",
    "IdentityMappedType": lambda _: "",
    "IdentityMappedToken": lambda _: "",
    "IdentityMappedPassword": lambda _: "",
    "IdentityMappedIssuedBy": lambda _: "",
}
"""The children of the folder, in their order, with what a message says for each."""


_NAMES = tuple(FIELDS)
_EMPTY = tuple(FIELDS)[13:]
assert _EMPTY[0] == "ContentType"


def _elements(origin: Origin) -> list[Element]:
    """All children at once, which takes half the time of asking for each."""
    message = origin.message
    values = (
        origin.message_set,
        origin.message_type,
        origin.message_format,
        origin.body_encoding,
        origin.body_ccsid,
        origin.transactional,
        message.persistent,
        moment_of(message.put_time),
        _expiration(origin),
        message.priority,
        message.correlation_id or NO_ID,
        "MQ",
        message.topic or None,
    )
    elements = [Element(name, value, NAME_VALUE) for name, value in zip(_NAMES, values, strict=False)]
    return elements + [Element(name, "", NAME_VALUE) for name in _EMPTY]


class _Properties:
    name = "Properties"

    def parse(self, folder: Folder) -> None:
        origin = folder.model
        if isinstance(origin, Origin):
            folder.fill(_elements(origin))

    def render(self, folder: Folder) -> bytes:
        del folder
        return b""

    def peek(self, folder: Folder, keys: tuple[str, ...]) -> tuple[bool, Any]:
        origin = folder.model
        if len(keys) == 1 and isinstance(origin, Origin):
            value = FIELDS.get(keys[0])
            if value is not None:
                return True, value(origin)
        return False, None


PROPERTIES = _Properties()
