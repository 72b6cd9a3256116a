# SPDX-License-Identifier: Apache-2.0
"""The message: an application's bytes, and the descriptor that tells what they are and where they go.

Messages are frozen structures of msgspec rather than dataclasses: making one
is on the hot path of every put, and they are encoded into the recovery log
as they stand (docs/decisions/0003-message-structure.md). The order of the
fields is the order on disk, so new fields go to the end and have a default.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    PropertyValue = str | int | float | bool | bytes
else:
    # msgspec cannot tell str from bytes in a typed union, though MessagePack itself can.
    PropertyValue = Any


class MessageType(enum.IntEnum):
    """What a message is for, with MQ's numbers."""

    REQUEST = 1
    REPLY = 2
    REPORT = 4
    DATAGRAM = 8


class Report(enum.IntFlag):
    """Which reports the sender wants on its reply-to queue, with MQ's numbers."""

    NONE = 0
    PASS_CORRELATION_ID = 0x00000040
    """The report carries the message's correlation id, not its message id, as correlation id."""
    PASS_MESSAGE_ID = 0x00000080
    """The report carries the message's own message id instead of a new one."""
    ARRIVAL = 0x00000100
    """Confirm that the message has arrived on its queue."""
    DELIVERY = 0x00000800
    """Confirm that a reader has got the message."""
    WITH_DATA = 0x00001000
    """Reports carry the message's body."""
    EXPIRATION = 0x00200000
    """Tell when the message was discarded because it had expired."""
    EXCEPTION = 0x01000000
    """Tell when the message could not be delivered."""
    DISCARD = 0x08000000
    """Discard an undeliverable message instead of keeping it on the dead-letter queue."""


class Feedback(enum.IntEnum):
    """Why a report was sent, with MQ's numbers; an exception carries the reason code itself."""

    NONE = 0
    EXPIRATION = 258
    ARRIVAL = 259
    DELIVERY = 260


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message as a reader gets it."""

    body: bytes
    message_id: bytes = b""
    correlation_id: bytes = b""
    persistent: bool = False
    priority: int = 0
    type: MessageType = MessageType.DATAGRAM
    put_time: float = 0.0
    """Seconds since 1970 when the message was put."""
    expiry_s: float | None = None
    """How long the message is of use: from the put for the sender, from the get for the reader."""
    delay_s: float = 0.0
    """How long after the put readers may get it."""
    reply_to: str = ""
    reply_to_manager: str = ""
    group_id: bytes = b""
    sequence: int = 1
    """Place in the group, from 1."""
    last_in_group: bool = False
    report: int = 0
    """What the sender wants to be told: a combination of `Report`."""
    feedback: int = 0
    format: str = ""
    ccsid: int = 1208
    encoding: int = 546
    user: str = ""
    application: str = ""
    properties: Mapping[str, PropertyValue] = {}
    backout_count: int = 0
    """How many units of work have got this message and were backed out."""
    target_queue: str = ""
    """On a transmission queue: the queue it is meant for at `target_manager`."""
    target_manager: str = ""
    topic: str = ""
    """Of a publication: what it was published on."""
    retained: bool = False
    """From a publisher: keep it for subscribers to come. To a subscriber: it was kept, and is no news."""
    authorized_as: str = ""
    """Of a message from another queue manager: the user whose authority counts here instead of `user`'s."""

    def about_bytes(self) -> int:
        """About what it takes in memory or in a frame."""
        size = len(self.body) + 256
        for name, value in self.properties.items():
            size += 4 * len(name) + (4 * len(value) if isinstance(value, str | bytes) else 9)
        return size

    def expires_at(self) -> float | None:
        """When a message on a queue stops being of use, in seconds since 1970."""
        return None if self.expiry_s is None else self.put_time + self.expiry_s


PutInUnit = tuple[str, bool | None, int | None, Message]
"""A put among many: queue, persistence and priority, and the message; None leaves it to the queue."""
