# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from entrepot.message import Feedback, Message, MessageType, Report


def test_message_is_frozen() -> None:
    message = Message(b"")
    with pytest.raises(AttributeError):
        message.body = b"other"  # type: ignore[misc]


def test_messages_do_not_share_their_default_properties() -> None:
    assert Message(b"").properties is not Message(b"").properties


def test_message_is_the_same_after_encoding() -> None:
    message = Message(
        b"\x00\xff",
        message_id=b"m",
        type=MessageType.REPORT,
        expiry_s=1.5,
        properties={"text": "é", "bytes": b"\xff", "whole": -(2**63), "real": 0.1, "yes": True},
    )
    encoded = msgspec.msgpack.encode(message)
    assert msgspec.msgpack.decode(encoded, type=Message) == message


def test_shorter_encoding_of_an_earlier_version_is_understood() -> None:
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(Message(b"body")))
    short = msgspec.msgpack.encode(fields[:1])
    assert msgspec.msgpack.decode(short, type=Message) == Message(b"body")


def test_order_of_fields_is_the_order_on_disk() -> None:
    """Adding at the end is allowed; docs/RECOVERY_LOG.md has the checklist for anything else."""
    assert Message.__struct_fields__[:25] == (
        "body",
        "message_id",
        "correlation_id",
        "persistent",
        "priority",
        "type",
        "put_time",
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
        "user",
        "application",
        "properties",
        "backout_count",
        "target_queue",
        "target_manager",
    )


def test_message_knows_when_it_expires() -> None:
    assert Message(b"").expires_at() is None
    assert Message(b"", put_time=100.0, expiry_s=5.0).expires_at() == 105.0


def test_numbers_are_those_of_mq() -> None:
    assert [int(kind) for kind in MessageType] == [1, 2, 4, 8]
    assert (Feedback.EXPIRATION, Feedback.ARRIVAL, Feedback.DELIVERY) == (258, 259, 260)
    assert int(Report.EXPIRATION | Report.EXCEPTION | Report.DISCARD) == 0x09200000
