# SPDX-License-Identifier: Apache-2.0
"""The names of header fields, as JMS and as MQ write them."""

from __future__ import annotations

import pytest

from entrepot.message import Message, MessageType
from entrepot.selectors import compile_selector
from folding import for_each

FULL = Message(
    b"",
    message_id=b"\x0a\xff",
    correlation_id=b"\xc1\x00",
    persistent=True,
    priority=7,
    type=MessageType.REQUEST,
    put_time=1.001,
    reply_to="ANSWERS",
    group_id=b"batch-7",
    sequence=3,
    feedback=258,
    format="MQSTR",
    ccsid=1208,
    encoding=546,
    user="anna",
    application="shop",
    backout_count=2,
    properties={"JMSType": "order", "JMSPriority": 1, "Root.MQMD.Format": "MINE"},
)


@for_each(
    "text",
    [
        "JMSMessageID = 'ID:0aff'",
        "JMSCorrelationID = 'ID:c100'",
        "JMSPriority = 7",
        "JMSTimestamp = 1001",
        "JMSDeliveryMode = 'PERSISTENT'",
        "JMSType = 'order'",
        "JMSXDeliveryCount = 3",
        "JMSXGroupID = 'batch-7' AND JMSXGroupSeq = 3",
        "JMSXUserID = 'anna' AND JMSXAppID = 'shop'",
        "JMSReplyTo IS NULL AND JMSDestination IS NULL AND JMSExpiration IS NULL AND JMSRedelivered IS NULL",
        "Root.MQMD.Priority = 7 AND Root.MQMD.Persistence = 1 AND Root.MQMD.MsgType = 1",
        "Root.MQMD.CodedCharSetId = 1208 AND Root.MQMD.Encoding = 546",
        "Root.MQMD.UserIdentifier = 'anna' AND Root.MQMD.ReplyToQ = 'ANSWERS'",
        "Root.MQMD.BackoutCount = 2 AND Root.MQMD.MsgSeqNumber = 3 AND Root.MQMD.Feedback = 258",
        '"JMSPriority" = 7',
    ],
)
def test_header_field_is_known_by_its_name(text: str) -> None:
    assert compile_selector(text).matches(FULL)


def test_property_hides_a_descriptor_name_but_never_a_jms_name() -> None:
    assert compile_selector("Root.MQMD.Format = 'MINE' AND JMSPriority <> 1").matches(FULL)
    assert compile_selector("Root.MQMD.Format = 'MQSTR'").matches(Message(b"", format="MQSTR"))


def test_field_without_value_is_null_under_its_jms_name_only() -> None:
    bare = Message(b"")
    names = ("MessageID", "CorrelationID", "Type", "XGroupID", "XGroupSeq", "XUserID", "XAppID")
    for name in names:
        assert compile_selector(f"JMS{name} IS NULL").matches(bare), name
    assert compile_selector("Root.MQMD.Format = '' AND JMSDeliveryMode = 'NON_PERSISTENT'").matches(bare)


@pytest.mark.parametrize(
    "correlation_id, text",
    [
        (b"order 17", "order 17"),
        ("Größe".encode(), "Größe"),
        (b"ORDER\0\0", "ID:4f524445520000"),
        (b"\xff\xfe", "ID:fffe"),
        (b"a\nb", "ID:610a62"),
    ],
)
def test_correlation_id_reads_as_text_when_it_is_printable(correlation_id: bytes, text: str) -> None:
    message = Message(b"", correlation_id=correlation_id)
    assert compile_selector(f"JMSCorrelationID = '{text}'").matches(message)


def test_names_are_case_sensitive() -> None:
    assert compile_selector("jmspriority IS NULL AND root.mqmd.priority IS NULL").matches(FULL)
