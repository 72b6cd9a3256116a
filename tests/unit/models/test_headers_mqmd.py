# SPDX-License-Identifier: Apache-2.0
"""The known answers are written byte by byte after the layout in MQ's manual, not with the code under test."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors import CodePageUnknown, EntrepotError, MessageUnreadable, MessageUnwritable
from entrepot.message import Message, MessageType
from entrepot.models.domains import find_domain
from entrepot.models.headers.mqmd import FIELDS, MQMD, NAMES, values_of, write_mqmd
from entrepot.models.headers.origin import ELSEWHERE, Origin
from entrepot.models.tree import Folder
from folding import for_each


def blanks(text: str, size: int, codec: str = "ascii") -> bytes:
    return text.ljust(size).encode(codec)


def number(value: int, order: str) -> bytes:
    return value.to_bytes(4, order, signed=True)  # type: ignore[arg-type]


def mqmd_bytes(version: int, order: str, codec: str) -> bytes:
    """An MQMD as a queue manager would hand it out."""
    first = [
        blanks("MD", 4, codec),
        number(version, order),
        number(0x40, order),  # Report
        number(1, order),  # MsgType: request
        number(300, order),  # Expiry
        number(0, order),  # Feedback
        number(785, order),
        number(500, order),
        blanks("MQSTR", 8, codec),
        number(4, order),  # Priority
        number(1, order),  # Persistence
        bytes(range(24)),
        bytes(range(100, 124)),
        number(2, order),  # BackoutCount
        blanks("REPLY.TO", 48, codec),
        blanks("QM1", 48, codec),
        blanks("mueller", 12, codec),
        b"\x16\x01" + bytes(30),
        blanks("identity", 32, codec),
        number(6, order),
        blanks("amqsput", 28, codec),
        blanks("20080229", 8, codec),
        blanks("23595999", 8, codec),
        blanks("orig", 4, codec),
    ]
    second = [b"G" * 24, number(3, order), number(0, order), number(24, order), number(-1, order)]
    return b"".join(first + (second if version == 2 else []))


EXPECTED_1: dict[str, Any] = {
    "Encoding": 785,
    "CodedCharSetId": 500,
    "Format": "MQSTR   ",
    "Version": 1,
    "Report": 64,
    "MsgType": 1,
    "Expiry": 300,
    "Feedback": 0,
    "Priority": 4,
    "Persistence": 1,
    "MsgId": bytes(range(24)),
    "CorrelId": bytes(range(100, 124)),
    "BackoutCount": 2,
    "ReplyToQ": "REPLY.TO" + " " * 40,
    "ReplyToQMgr": "QM1" + " " * 45,
    "UserIdentifier": "mueller     ",
    "AccountingToken": b"\x16\x01" + bytes(30),
    "ApplIdentityData": "identity" + " " * 24,
    "PutApplType": 6,
    "PutApplName": "amqsput" + " " * 21,
    "PutDate": date(2008, 2, 29),
    "PutTime": time(23, 59, 59, 990_000, UTC),
    "ApplOriginData": "orig",
}
EXPECTED_2 = EXPECTED_1 | {
    "Version": 2,
    "GroupId": b"G" * 24,
    "MsgSeqNumber": 3,
    "Offset": 0,
    "MsgFlags": 24,
    "OriginalLength": -1,
}

LAYOUTS = [
    (1, "little", "ascii", 546, 1208),
    (2, "little", "ascii", 546, 819),
    (1, "big", "ascii", 273, 819),
    (2, "big", "ascii", 273, 1208),
    (1, "big", "cp500", 785, 500),
    (2, "big", "cp500", 785, 500),
    (2, "big", "cp037", 273, 37),
    (2, "big", "cp037", 785, 1047),
    (2, "little", "cp500", 546, 500),
]


def read_mqmd(data: bytes, encoding: int, ccsid: int) -> Folder:
    folder = Folder(MQMD, data, ccsid=ccsid, encoding=encoding)
    _ = folder.children
    return folder


@for_each(("version", "order", "codec", "encoding", "ccsid"), LAYOUTS)
def test_an_mqmd_of_each_machine_reads_alike(version: int, order: str, codec: str, encoding: int, ccsid: int) -> None:
    data = mqmd_bytes(version, order, codec)
    assert len(data) == (324 if version == 1 else 364)
    folder = read_mqmd(data, encoding, ccsid)
    expected = EXPECTED_1 if version == 1 else EXPECTED_2
    assert [(child.key, child.value) for child in folder] == list(expected.items())
    assert folder.render() == data


@for_each(("version", "order", "codec", "encoding", "ccsid"), LAYOUTS)
def test_an_mqmd_is_written_as_each_machine_wants_it(
    version: int, order: str, codec: str, encoding: int, ccsid: int
) -> None:
    values = EXPECTED_1 if version == 1 else EXPECTED_2
    assert write_mqmd(values, encoding, ccsid) == mqmd_bytes(version, order, codec)


@for_each(
    ("field", "offset", "size"),
    [
        ("Report", 8, 4),
        ("MsgType", 12, 4),
        ("Expiry", 16, 4),
        ("Encoding", 24, 4),
        ("CodedCharSetId", 28, 4),
        ("Persistence", 44, 4),
        ("BackoutCount", 96, 4),
        ("MsgSeqNumber", 348, 4),
        ("Offset", 352, 4),
        ("MsgFlags", 356, 4),
        ("OriginalLength", 360, 4),
    ],
)
def test_a_number_lies_where_the_manual_says(field: str, offset: int, size: int) -> None:
    data = write_mqmd({field: 0x01020304}, 273, 819)
    assert data[offset : offset + size] == b"\x01\x02\x03\x04"
    assert data.count(b"\x01\x02\x03\x04") == 1


@for_each(
    ("field", "offset", "value"),
    [
        ("Format", 32, "F" * 8),
        ("MsgId", 48, b"F" * 24),
        ("CorrelId", 72, b"F" * 24),
        ("ReplyToQ", 100, "F" * 48),
        ("ReplyToQMgr", 148, "F" * 48),
        ("UserIdentifier", 196, "F" * 12),
        ("AccountingToken", 208, b"F" * 32),
        ("ApplIdentityData", 240, "F" * 32),
        ("PutApplName", 276, "F" * 28),
        ("PutDate", 304, "F" * 8),
        ("PutTime", 312, "F" * 8),
        ("ApplOriginData", 320, "F" * 4),
        ("GroupId", 324, b"F" * 24),
    ],
)
def test_text_and_bytes_lie_where_the_manual_says(field: str, offset: int, value: str | bytes) -> None:
    data = write_mqmd({field: value}, 273, 819)
    assert data[offset : offset + len(value)] == b"F" * len(value)
    assert data.count(b"F") == len(value)


def test_what_is_not_said_has_mq_s_default() -> None:
    data = write_mqmd({}, 273, 819)
    assert data[:24] == b"MD  " + bytes.fromhex("00000002 00000000 00000008 FFFFFFFF 00000000")
    assert data[32:48] == b"        " + bytes.fromhex("FFFFFFFF 00000002")


def test_a_date_that_is_none_stays_text() -> None:
    values = dict(EXPECTED_2, PutDate="20081399", PutTime="        ")
    folder = read_mqmd(write_mqmd(values, 546, 819), 546, 819)
    assert folder.get("PutDate") == "20081399"
    assert folder.get("PutTime") == "        "


def test_what_follows_a_null_byte_counts_as_blanks() -> None:
    data = bytearray(mqmd_bytes(2, "little", "ascii"))
    data[100:148] = b"Q1\0rubbish".ljust(48, b"\xff")
    folder = read_mqmd(bytes(data), 546, 1208)
    assert folder.get("ReplyToQ") == "Q1" + " " * 46


@for_each("cut", [*range(0, 364, 7), 3, 4, 8, 323, 324, 363])
def test_a_descriptor_cut_short_is_told_with_its_end(cut: int) -> None:
    with pytest.raises(MessageUnreadable) as caught:
        read_mqmd(mqmd_bytes(2, "little", "ascii")[:cut], 546, 1208)
    assert caught.value.domain == "MQMD"
    assert caught.value.offset == cut


@pytest.mark.parametrize(
    ("data", "encoding", "ccsid", "path", "offset"),
    [
        (b"XX  " + bytes(360), 546, 1208, "StrucId", 0),
        (mqmd_bytes(2, "big", "cp500"), 273, 1208, "StrucId", 0),
        (mqmd_bytes(2, "little", "ascii"), 273, 1208, "Version", 4),
        (b"MD  " + number(3, "little") + bytes(360), 546, 1208, "Version", 4),
        (mqmd_bytes(2, "little", "ascii"), 0, 1208, "Encoding", 0),
        (b"MD  " + number(2, "little") + b"\xff" * 356, 546, 1208, "Format", 32),
        (mqmd_bytes(2, "little", "ascii"), 546, 1200, "StrucId", 0),
    ],
)
def test_what_is_no_descriptor_is_refused(data: bytes, encoding: int, ccsid: int, path: str, offset: int) -> None:
    with pytest.raises(MessageUnreadable) as caught:
        read_mqmd(data, encoding, ccsid)
    assert (caught.value.path, caught.value.offset) == (path, offset)


def test_an_unknown_code_page_is_told() -> None:
    with pytest.raises(CodePageUnknown):
        read_mqmd(mqmd_bytes(2, "little", "ascii"), 546, 99)
    with pytest.raises(CodePageUnknown):
        write_mqmd({}, 546, 99)


@for_each(
    ("values", "path"),
    [
        ({"Priority": "high"}, "MQMD.Priority"),
        ({"Priority": 1 << 31}, "MQMD.Priority"),
        ({"Priority": 10**5000}, "MQMD.Priority"),
        ({"Priority": "1_0"}, "MQMD.Priority"),
        ({"Priority": Decimal("1E+999999999")}, "MQMD.Priority"),
        ({"Priority": Decimal("NaN")}, "MQMD.Priority"),
        ({"Format": 10**5000}, "MQMD.Format"),
        ({"MsgId": 10**5000}, "MQMD.MsgId"),
        ({"Expiry": 1.5}, "MQMD.Expiry"),
        ({"Expiry": float("nan")}, "MQMD.Expiry"),
        ({"MsgId": bytes(25)}, "MQMD.MsgId"),
        ({"MsgId": "no hex"}, "MQMD.MsgId"),
        ({"ReplyToQ": "Q" * 49}, "MQMD.ReplyToQ"),
        ({"ReplyToQ": b"Q"}, "MQMD.ReplyToQ"),
        ({"UserIdentifier": "日本"}, "MQMD.UserIdentifier"),
        ({"Version": 3}, "MQMD.Version"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_path(values: dict[str, Any], path: str) -> None:
    with pytest.raises(MessageUnwritable) as caught:
        write_mqmd(values, 546, 819)
    assert caught.value.path == path


def test_a_header_cannot_be_written_in_two_byte_text_or_without_byte_order() -> None:
    with pytest.raises(MessageUnwritable):
        write_mqmd({}, 546, 1200)
    with pytest.raises(MessageUnwritable):
        write_mqmd({}, 0, 819)


MESSAGE = Message(
    b"body",
    message_id=bytes(range(24)),
    correlation_id=b"",
    persistent=True,
    priority=5,
    type=MessageType.REQUEST,
    put_time=datetime(2024, 2, 29, 12, 34, 56, 789_000, UTC).timestamp(),
    expiry_s=12.34,
    reply_to="REPLY",
    group_id=b"g" * 24,
    sequence=7,
    last_in_group=True,
    format="MQSTR",
    ccsid=819,
    user="anna",
    backout_count=1,
)


def folder_of(origin: Origin) -> Folder:
    return Folder(MQMD, ELSEWHERE, model=origin)


def test_the_folder_of_a_message_shows_its_descriptor() -> None:
    folder = folder_of(Origin(MESSAGE, "MQSTR", 546, 819, source_queue="IN", transactional=True))
    assert {child.key: child.value for child in folder} == {
        "SourceQueue": "IN",
        "Transactional": True,
        "Encoding": 546,
        "CodedCharSetId": 819,
        "Format": "MQSTR   ",
        "Version": 2,
        "Report": 0,
        "MsgType": 1,
        "Expiry": 124,
        "Feedback": 0,
        "Priority": 5,
        "Persistence": 1,
        "MsgId": bytes(range(24)),
        "CorrelId": bytes(24),
        "BackoutCount": 1,
        "ReplyToQ": "REPLY" + " " * 43,
        "ReplyToQMgr": " " * 48,
        "UserIdentifier": "anna        ",
        "AccountingToken": bytes(32),
        "ApplIdentityData": " " * 32,
        "PutApplType": 6,
        "PutApplName": " " * 28,
        "PutDate": date(2024, 2, 29),
        "PutTime": time(12, 34, 56, 780_000, UTC),
        "ApplOriginData": "    ",
        "GroupId": b"g" * 24,
        "MsgSeqNumber": 7,
        "Offset": 0,
        "MsgFlags": 24,
        "OriginalLength": -1,
    }
    assert not folder.dirty


def test_a_field_can_be_told_without_making_the_others() -> None:
    origin = Origin(MESSAGE, "MQSTR", 546, 819)
    for name in NAMES:
        folder = folder_of(origin)
        assert folder.peek((name,)) == (True, folder.get(name))
    assert folder_of(origin).peek(("Nothing",)) == (False, None)
    folder = folder_of(origin)
    folder.peek(("MsgId",))
    assert folder._children is None


@given(
    st.builds(
        Message,
        st.just(b""),
        message_id=st.binary(max_size=30),
        group_id=st.binary(max_size=24),
        put_time=st.floats(allow_nan=False),
        expiry_s=st.none() | st.floats(0, 1e12),
        reply_to=st.text(max_size=50),
    )
)
def test_all_values_at_once_are_the_values_one_by_one(message: Message) -> None:
    origin = Origin(message, "", 546, 1208)
    assert values_of(origin) == tuple(value(origin) for value in FIELDS.values())


def test_a_copy_of_an_unread_folder_shares_the_message_and_a_changed_one_does_not_show_in_the_first() -> None:
    folder = folder_of(Origin(MESSAGE, "MQSTR", 546, 819))
    twin = folder.copy()
    assert twin.model is folder.model
    changed = twin.first("Priority")
    assert changed is not None
    changed.set_value(9)
    assert twin.dirty
    assert twin.copy().get("Priority") == 9
    assert folder.get("Priority") == 5


def test_the_bytes_of_a_message_s_folder_are_those_of_its_descriptor() -> None:
    data = folder_of(Origin(MESSAGE, "MQSTR", 546, 819)).render()
    assert len(data) == 364
    assert data[:4] == b"MD  "
    assert data[48:72] == bytes(range(24))
    assert data[304:320] == b"2024022912345678"


def test_a_folder_that_takes_over_an_unread_one_stays_unread() -> None:
    target = Folder(MQMD)
    target.replace_content(folder_of(Origin(MESSAGE, "MQSTR", 546, 819)))
    assert target._children is None
    assert target.get("Priority") == 5
    assert len(target.render()) == 364


def test_the_domain_is_found_by_its_name() -> None:
    assert find_domain("MQMD") is MQMD


LONG = st.integers(-(1 << 31), (1 << 31) - 1)


def padded(size: int) -> st.SearchStrategy[str]:
    return st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=size).map(lambda text: text.ljust(size))


@given(
    st.fixed_dictionaries(
        {
            "Encoding": LONG,
            "CodedCharSetId": LONG,
            "Format": padded(8),
            "Version": st.just(2),
            "Report": LONG,
            "Expiry": LONG,
            "MsgId": st.binary(min_size=24, max_size=24),
            "ReplyToQ": padded(48),
            "PutDate": st.dates(),
            "PutTime": st.times(timezones=st.just(UTC)).map(
                lambda t: t.replace(microsecond=t.microsecond // 10000 * 10000)
            ),
            "GroupId": st.binary(min_size=24, max_size=24),
        }
    ),
    st.sampled_from([(546, 1208), (273, 819), (785, 500), (546, 1047)]),
)
@settings(max_examples=50)
def test_a_written_descriptor_reads_as_it_was(values: dict[str, Any], machine: tuple[int, int]) -> None:
    data = write_mqmd(values, *machine)
    folder = read_mqmd(data, *machine)
    assert len(data) == 364
    assert {name: folder.get(name) for name in values} == values
    folder.changed()
    assert folder.render() == data


@given(st.binary(max_size=400), st.sampled_from([546, 273, 785]), st.sampled_from([1208, 819, 500]))
@settings(max_examples=100)
def test_rubbish_is_read_or_refused_with_an_error_of_ours(rubbish: bytes, encoding: int, ccsid: int) -> None:
    head = "MD  ".encode("cp500" if ccsid == 500 else "ascii")
    for data in (rubbish, head + rubbish, head + (2).to_bytes(4, "little") + rubbish):
        try:
            read_mqmd(data, encoding, ccsid)
        except EntrepotError as error:
            assert isinstance(error, MessageUnreadable)
            assert 0 <= error.offset <= len(data)
