# SPDX-License-Identifier: Apache-2.0
"""The MQMD folder: the message descriptor, from its bytes or from a message of our own.

A message got from a queue has descriptor fields and no MQMD bytes; its folder
holds an `Origin` and makes an element, or all thirty, on first access. The
bytes matter where a descriptor travels inside a body, and for ASBITSTREAM:
324 in version 1, 364 in version 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from math import ceil
from typing import Any

from entrepot.errors import MessageUnreadable, MessageUnwritable
from entrepot.models.element_types import NAME_VALUE
from entrepot.models.encodings import NATIVE
from entrepot.models.headers.layout import BYTES, DATE, INTEGER, TIME, Field, Layout, as_integer, text_field
from entrepot.models.headers.origin import Origin
from entrepot.models.tree import Element, Folder

ID_BYTES = 24
NO_ID = bytes(ID_BYTES)
NO_TOKEN = bytes(32)
UNLIMITED = -1
EXPIRY_S_MAX = 214_748_364
UNIX_APPLICATION = 6
IN_GROUP, LAST_IN_GROUP = 8, 16

_VERSION_1 = (
    Field("Version", INTEGER, default=2),
    Field("Report", INTEGER),
    Field("MsgType", INTEGER, default=8),
    Field("Expiry", INTEGER, default=UNLIMITED),
    Field("Feedback", INTEGER),
    Field("Encoding", INTEGER, default=NATIVE),
    Field("CodedCharSetId", INTEGER),
    text_field("Format", 8),
    Field("Priority", INTEGER, default=-1),
    Field("Persistence", INTEGER, default=2),
    Field("MsgId", BYTES, 24, b""),
    Field("CorrelId", BYTES, 24, b""),
    Field("BackoutCount", INTEGER),
    text_field("ReplyToQ", 48),
    text_field("ReplyToQMgr", 48),
    text_field("UserIdentifier", 12),
    Field("AccountingToken", BYTES, 32, b""),
    text_field("ApplIdentityData", 32),
    Field("PutApplType", INTEGER),
    text_field("PutApplName", 28),
    Field("PutDate", DATE, 8, ""),
    Field("PutTime", TIME, 8, ""),
    text_field("ApplOriginData", 4),
)
_VERSION_2 = (
    *_VERSION_1,
    Field("GroupId", BYTES, 24, b""),
    Field("MsgSeqNumber", INTEGER, default=1),
    Field("Offset", INTEGER),
    Field("MsgFlags", INTEGER),
    Field("OriginalLength", INTEGER, default=-1),
)

LAYOUTS = {1: Layout("MQMD", "MD  ", _VERSION_1), 2: Layout("MQMD", "MD  ", _VERSION_2)}


def put_date(seconds: float) -> date | str:
    moment = moment_of(seconds)
    return "        " if moment is None else moment.date()


def put_time(seconds: float) -> time | str:
    moment = moment_of(seconds)
    if moment is None:
        return "        "
    # MQ knows hundredths; a finer time would not survive a journey through its bytes.
    return moment.timetz().replace(microsecond=moment.microsecond // 10_000 * 10_000)


def moment_of(seconds: float) -> datetime | None:
    """A time in seconds since 1970 in UTC; None when the message was never put, or no calendar has the time."""
    if not seconds:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def expiry(expiry_s: float | None) -> int:
    """A life in tenths of a second. What is left of one is at least a tenth: 0 would mean nothing to MQ."""
    if expiry_s is None:
        return UNLIMITED
    return max(1, ceil(expiry_s * 10)) if expiry_s < EXPIRY_S_MAX else 0x7FFF_FFFF


def _flags(origin: Origin) -> int:
    message = origin.message
    if message.last_in_group:
        return IN_GROUP | LAST_IN_GROUP
    return IN_GROUP if message.group_id else 0


FIELDS: dict[str, Callable[[Origin], Any]] = {
    "SourceQueue": lambda origin: origin.source_queue,
    "Transactional": lambda origin: origin.transactional,
    "Encoding": lambda origin: origin.message.encoding,
    "CodedCharSetId": lambda origin: origin.message.ccsid,
    "Format": lambda origin: origin.message.format.ljust(8),
    "Version": lambda _: 2,
    "Report": lambda origin: int(origin.message.report),
    "MsgType": lambda origin: int(origin.message.type),
    "Expiry": lambda origin: expiry(origin.message.expiry_s),
    "Feedback": lambda origin: int(origin.message.feedback),
    "Priority": lambda origin: origin.message.priority,
    "Persistence": lambda origin: int(origin.message.persistent),
    # Ids of other lengths than MQ's 24 stay as they are: padded ones would not match what the sender waits for.
    "MsgId": lambda origin: origin.message.message_id or NO_ID,
    "CorrelId": lambda origin: origin.message.correlation_id or NO_ID,
    "BackoutCount": lambda origin: origin.message.backout_count,
    "ReplyToQ": lambda origin: origin.message.reply_to.ljust(48),
    "ReplyToQMgr": lambda origin: origin.message.reply_to_manager.ljust(48),
    "UserIdentifier": lambda origin: origin.message.user.ljust(12),
    "AccountingToken": lambda _: NO_TOKEN,
    "ApplIdentityData": lambda _: " " * 32,
    "PutApplType": lambda _: UNIX_APPLICATION,
    "PutApplName": lambda origin: origin.message.application.ljust(28),
    "PutDate": lambda origin: put_date(origin.message.put_time),
    "PutTime": lambda origin: put_time(origin.message.put_time),
    "ApplOriginData": lambda _: "    ",
    "GroupId": lambda origin: origin.message.group_id or NO_ID,
    "MsgSeqNumber": lambda origin: origin.message.sequence,
    "Offset": lambda _: 0,
    "MsgFlags": _flags,
    "OriginalLength": lambda _: -1,
}
"""The children of the folder, in their order, with what a message says for each."""

NAMES = tuple(FIELDS)


def values_of(origin: Origin) -> tuple[Any, ...]:
    """The same values for all names at once, which takes half the time of asking for each."""
    message = origin.message
    seconds = message.put_time
    return (
        origin.source_queue,
        origin.transactional,
        message.encoding,
        message.ccsid,
        message.format.ljust(8),
        2,
        int(message.report),
        int(message.type),
        expiry(message.expiry_s),
        int(message.feedback),
        message.priority,
        int(message.persistent),
        message.message_id or NO_ID,
        message.correlation_id or NO_ID,
        message.backout_count,
        message.reply_to.ljust(48),
        message.reply_to_manager.ljust(48),
        message.user.ljust(12),
        NO_TOKEN,
        " " * 32,
        UNIX_APPLICATION,
        message.application.ljust(28),
        put_date(seconds),
        put_time(seconds),
        "    ",
        message.group_id or NO_ID,
        message.sequence,
        0,
        _flags(origin),
        -1,
    )


class _Mqmd:
    name = "MQMD"

    def parse(self, folder: Folder) -> None:
        origin = folder.model
        if folder.body:
            values = _read(folder.body, folder.encoding, folder.ccsid)
            folder.fill(Element(name, values[name], NAME_VALUE) for name in FIELDS if name in values)
        elif isinstance(origin, Origin):
            folder.fill(
                [Element(name, value, NAME_VALUE) for name, value in zip(NAMES, values_of(origin), strict=True)]
            )
        elif folder.body is not None:
            raise MessageUnreadable("MQMD", "MQMD", 0, "0 bytes instead of 324 or 364")

    def render(self, folder: Folder) -> bytes:
        values: dict[str, Any] = {}
        for child in folder.children:
            values.setdefault(child.key, child.value)
        return write_mqmd(values, folder.encoding, folder.ccsid)

    def peek(self, folder: Folder, keys: tuple[str, ...]) -> tuple[bool, Any]:
        origin = folder.model
        if len(keys) == 1 and not folder.body and isinstance(origin, Origin):
            value = FIELDS.get(keys[0])
            if value is not None:
                return True, value(origin)
        return False, None


MQMD = _Mqmd()


def _read(data: bytes, encoding: int, ccsid: int) -> dict[str, Any]:
    version = LAYOUTS[1].unpack(data, 0, encoding, ccsid)[1]
    if version not in LAYOUTS:
        raise MessageUnreadable("MQMD", "Version", 4, f"{version} is neither 1 nor 2")
    return LAYOUTS[version].read(data, 0, encoding, ccsid)


def write_mqmd(values: Mapping[str, Any], encoding: int = NATIVE, ccsid: int = 1208) -> bytes:
    """The bytes of an MQMD, of version 1 when `values` say so; what they do not say has MQ's default.

    Raises:
        MessageUnwritable: A value that does not fit.
        CodePageUnknown
    """
    version = values.get("Version")
    version = 2 if version is None else as_integer(version, "MQMD", "MQMD.Version")
    if version not in LAYOUTS:
        raise MessageUnwritable("MQMD", "MQMD.Version", f"{version} is neither 1 nor 2")
    return LAYOUTS[version].write(values, encoding, ccsid)
