# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.errors import InvalidArgument
from entrepot.message import Message, MessageType, Report
from entrepot.spark.tables.rows import QUEUE_SCHEMA, check_columns, cut, messages_of, property_value, queue_batch

FULL = Message(
    b"<order/>",
    message_id=b"\x01" * 24,
    correlation_id=b"\x02\x00\xff",
    persistent=True,
    priority=7,
    type=MessageType.REQUEST,
    put_time=1_700_000_000.123456,
    expiry_s=12.5,
    delay_s=0.25,
    reply_to="REPLIES",
    reply_to_manager="QM2",
    group_id=b"group",
    sequence=3,
    last_in_group=True,
    report=int(Report.EXCEPTION | Report.WITH_DATA),
    feedback=-5,
    format="MQSTR",
    ccsid=500,
    encoding=785,
    user="anna",
    application="till",
    properties={"text": "EU", "int": -3, "float": 0.1, "yes": True, "no": False, "bytes": b"\x00\xff", "empty": ""},
    backout_count=2,
    target_queue="THERE",
    target_manager="QM3",
    topic="prices/ibm",
    retained=True,
)


def test_a_message_with_everything_said_comes_back_as_it_was() -> None:
    batch = queue_batch("Q", [FULL, Message(b"")])
    assert batch.schema == QUEUE_SCHEMA
    assert messages_of(batch) == [FULL, Message(b"")]


def test_properties_are_text_that_a_person_would_write_and_types_beside() -> None:
    row = queue_batch("Q", [FULL]).to_pylist()[0]
    assert dict(row["properties"]) == {
        "text": "EU", "int": "-3", "float": "0.1", "yes": "true", "no": "false", "bytes": "00ff", "empty": "",
    }  # fmt: skip
    assert dict(row["property_types"]) == {
        "int": "int",
        "float": "float",
        "yes": "bool",
        "no": "bool",
        "bytes": "bytes",
    }
    assert row["put_time"].timestamp() == pytest.approx(1_700_000_000.123456, abs=1e-6)


VALUES = st.one_of(st.text(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.booleans(), st.binary())


@given(st.lists(st.dictionaries(st.text(min_size=1), VALUES, max_size=4), max_size=5))
def test_properties_of_all_types_survive_the_table(
    all_properties: list[dict[str, str | int | float | bool | bytes]],
) -> None:
    messages = [Message(b"", properties=each) for each in all_properties]
    back = messages_of(queue_batch("Q", messages))
    assert back == messages
    assert [{key: type(value) for key, value in each.properties.items()} for each in back] == [
        {key: type(value) for key, value in each.items()} for each in all_properties
    ]


def test_a_body_alone_makes_a_message_and_text_is_its_utf_8() -> None:
    assert messages_of(pa.record_batch({"body": pa.array(["é", None])})) == [Message("é".encode()), Message(b"")]


def test_null_means_as_a_new_message_has_it() -> None:
    batch = pa.record_batch(
        {
            "body": pa.array([b"x", b"y"]),
            "ccsid": pa.array([None, 37], pa.int64()),
            "type": pa.array([1, None], pa.int32()),
            "properties": pa.array([None, [("a", "1")]], pa.map_(pa.string(), pa.string())),
        }
    )
    first, second = messages_of(batch)
    assert (first.ccsid, first.type, first.properties) == (1208, MessageType.REQUEST, {})
    assert (second.ccsid, second.type, second.properties) == (37, MessageType.DATAGRAM, {"a": "1"})


def test_a_part_of_a_batch_is_read_as_that_part() -> None:
    batch = queue_batch("Q", [Message(b"0", properties={"n": 0}), Message(b"1"), Message(b"2", properties={"n": 2})])
    assert messages_of(batch.slice(1, 2)) == [Message(b"1"), Message(b"2", properties={"n": 2})]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (pa.schema([("text", pa.string())]), "no column body"),
        (pa.schema([("body", pa.int32())]), "column body: it is int32"),
        (pa.schema([("body", pa.binary()), ("priority", pa.string())]), "column priority: it is string"),
        (pa.schema([("body", pa.binary()), ("properties", pa.string())]), "column properties: it is string"),
    ],
)
def test_rows_that_are_no_messages_are_refused_by_column(schema: pa.Schema, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        check_columns(schema)


@pytest.mark.parametrize(
    ("text", "kind"), [("maybe", "bool"), ("1.5", "int"), ("x", "float"), ("0", "bytes"), ("1", "long")]
)
def test_a_property_that_is_none_of_its_type_is_refused(text: str, kind: str) -> None:
    with pytest.raises(InvalidArgument, match=f"'{text}' is no {kind}"):
        property_value(text, kind)


def test_pieces_end_at_bytes_or_rows() -> None:
    messages = [Message(b"12345") for _ in range(7)]
    assert [len(piece) for piece in cut(iter(messages), 10, 100)] == [2, 2, 2, 1]
    assert [len(piece) for piece in cut(iter(messages), 1000, 3)] == [3, 3, 1]
    assert list(cut(iter([]), 1, 1)) == []
