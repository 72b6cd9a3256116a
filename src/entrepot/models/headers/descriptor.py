# SPDX-License-Identifier: Apache-2.0
"""From the folders MQMD and Properties back to the fields of a message.

Where both folders have a field, MQMD's counts if a program set or changed it,
else that of Properties if a program set or changed that one, else what the
message came with, else the default. NULL, and a field that was deleted, mean
the default.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import Any

from entrepot.errors import MessageUnwritable
from entrepot.message import Message, MessageType
from entrepot.models.headers import mqmd, properties
from entrepot.models.headers.layout import as_bytes, as_integer, as_text
from entrepot.models.headers.origin import Origin
from entrepot.models.tree import Folder

_DEFAULTS = Message(b"")


def _integer(value: Any, path: str) -> int:
    return as_integer(value, "MQMD", path)


def _text(value: Any, path: str) -> str:
    return as_text(value, "MQMD", path).partition("\0")[0].rstrip(" ")


def _identifier(value: Any, path: str) -> bytes:
    given = as_bytes(value, "MQMD", path)
    return given if given.strip(b"\0") else b""


def _type(value: Any, path: str) -> MessageType:
    try:
        return MessageType(as_integer(value, "MQMD", path))
    except ValueError:
        raise MessageUnwritable("MQMD", path, f"{value!r} is none of 1, 2, 4 and 8") from None


def _expiry(value: Any, path: str) -> float | None:
    if isinstance(value, datetime):
        left = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() - clock.time()
        return max(0.1, left)
    tenths = as_integer(value, "MQMD", path)
    if tenths < -1 or tenths == 0:
        raise MessageUnwritable("MQMD", path, f"{tenths} is no number of tenths of a second, and not -1")
    return None if tenths == -1 else tenths / 10


def _at_least_zero(value: Any, path: str) -> int:
    # -1 asks for the queue's default, and so does a message that says nothing.
    return max(0, as_integer(value, "MQMD", path))


def _persistent(value: Any, path: str) -> bool:
    return as_integer(value, "MQMD", path) == 1


def _last_in_group(value: Any, path: str) -> bool:
    return bool(as_integer(value, "MQMD", path) & mqmd.LAST_IN_GROUP)


_MQMD: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "Encoding": ("encoding", _integer),
    "CodedCharSetId": ("ccsid", _integer),
    "Format": ("format", _text),
    "Report": ("report", _integer),
    "MsgType": ("type", _type),
    "Expiry": ("expiry_s", _expiry),
    "Feedback": ("feedback", _integer),
    "Priority": ("priority", _at_least_zero),
    "Persistence": ("persistent", _persistent),
    "MsgId": ("message_id", _identifier),
    "CorrelId": ("correlation_id", _identifier),
    "BackoutCount": ("backout_count", _at_least_zero),
    "ReplyToQ": ("reply_to", _text),
    "ReplyToQMgr": ("reply_to_manager", _text),
    "UserIdentifier": ("user", _text),
    "PutApplName": ("application", _text),
    "GroupId": ("group_id", _identifier),
    "MsgSeqNumber": ("sequence", _integer),
    "MsgFlags": ("last_in_group", _last_in_group),
}

_PROPERTIES: dict[str, tuple[str, str, Callable[[Any, str], Any]]] = {
    # field: (attribute, MQMD's field for the same, how to read it)
    "Encoding": ("encoding", "Encoding", _integer),
    "CodedCharSetId": ("ccsid", "CodedCharSetId", _integer),
    "Persistence": ("persistent", "Persistence", _persistent),
    "Priority": ("priority", "Priority", _at_least_zero),
    "ExpirationTime": ("expiry_s", "Expiry", _expiry),
    "ReplyIdentifier": ("correlation_id", "CorrelId", _identifier),
    "Topic": ("topic", "", _text),
}


def origin_of(folder: Folder | None) -> Origin | None:
    return folder.model if folder is not None and isinstance(folder.model, Origin) else None


def from_mqmd(folder: Folder) -> tuple[dict[str, Any], set[str]]:
    """The attributes of a message that the folder says, and the names of the fields that a program set or changed.

    Raises:
        MessageUnwritable: A value of another type.
    """
    origin = origin_of(folder)
    attributes: dict[str, Any] = {}
    changed: set[str] = set()
    if origin is not None and not folder.dirty:
        return attributes, changed
    came: dict[str, Any] = {}
    if origin is not None:
        came = dict(zip(mqmd.NAMES, mqmd.values_of(origin), strict=True))
    descriptor: dict[str, Any] = {}
    for child in folder.children:
        field = child.key
        if field in descriptor:
            continue
        descriptor[field] = value = child.value
        target = _MQMD.get(field)
        if target is None:
            continue
        attribute, convert = target
        if origin is not None and _same(value, came[field]):
            attributes[attribute] = getattr(origin.message, attribute)
            continue
        changed.add(field)
        if value is not None:
            attributes[attribute] = convert(value, f"MQMD.{field}")
    for attribute, _ in _MQMD.values():
        if attribute not in attributes:
            attributes[attribute] = getattr(_DEFAULTS, attribute)
    day, hour = descriptor.get("PutDate"), descriptor.get("PutTime")
    if origin is not None and _same(day, came["PutDate"]) and _same(hour, came["PutTime"]):
        attributes["put_time"] = origin.message.put_time
    elif isinstance(day, date) and not isinstance(day, datetime) and isinstance(hour, time):
        attributes["put_time"] = datetime.combine(day, hour.replace(tzinfo=UTC)).timestamp()
    return attributes, changed


def from_properties(folder: Folder, everything: bool, decided: set[str]) -> dict[str, Any]:
    """The attributes of a message that the folder says: all, or those that a program set or changed.

    Fields of MQMD in `decided` were decided there.

    Raises:
        MessageUnwritable: A value of another type.
    """
    origin = origin_of(folder)
    if origin is not None and not folder.dirty and not everything:
        return {}
    attributes: dict[str, Any] = {}
    for field, (attribute, twin, convert) in _PROPERTIES.items():
        if twin in decided:
            continue
        child = folder.first(field)
        if child is None or child.value is None:
            continue
        came = properties.FIELDS[field](origin) if origin is not None else None
        if origin is not None and _same(child.value, came):
            if everything:
                attributes[attribute] = _came(origin, field, attribute)
            continue
        attributes[attribute] = convert(child.value, f"Properties.{field}")
    return attributes


def _came(origin: Origin, field: str, attribute: str) -> Any:
    if field == "Encoding":
        return origin.body_encoding
    return origin.body_ccsid if field == "CodedCharSetId" else getattr(origin.message, attribute)


def _same(value: Any, came: Any) -> bool:
    return type(value) is type(came) and bool(value == came)
