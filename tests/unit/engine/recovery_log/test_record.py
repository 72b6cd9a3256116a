# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.engine.recovery_log import record
from entrepot.engine.recovery_log.record import (
    FORMAT_VERSION,
    FRAME_HEAD_BYTES,
    PAYLOAD_BYTES_MAX,
    BadFrame,
    BodiesRecord,
    CheckpointRecord,
    CommitRecord,
    CountsRecord,
    DefineRecord,
    DeleteRecord,
    EndRecord,
    EntriesRecord,
    Entry,
    PrepareRecord,
    PutRecord,
    Record,
    RecordType,
    RemoveRecord,
    ResolveRecord,
    Run,
    RunHead,
    TakenRecord,
    check,
    decode,
    frame,
    frame_file,
    frame_head,
    parse,
    parse_head,
    require_format,
    type_name,
)
from entrepot.errors import FormatUnsupported
from entrepot.message import Message

U32 = st.integers(0, 2**32 - 1)
U63 = st.integers(0, 2**63 - 1)
POSITIONS = st.integers(0, 2**64 - 1)
IDS = st.binary(max_size=24)
TIMES = st.floats(allow_nan=False)
MESSAGES = st.builds(
    Message,
    body=st.binary(max_size=200),
    message_id=IDS,
    correlation_id=IDS,
    persistent=st.booleans(),
    priority=st.integers(0, 9),
    expiry_s=st.none() | st.floats(0, 1e9),
    group_id=IDS,
    user=st.text(max_size=10),
    properties=st.dictionaries(
        st.text(max_size=8), st.text(max_size=8) | U63 | st.booleans() | st.binary(max_size=8), max_size=3
    ),
)
ENTRIES = st.builds(Entry, U63, U63, U63, st.integers(-1, 2**63 - 1), MESSAGES)
KEYS = st.lists(U63, max_size=20)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(PutRecord, U63, st.lists(st.tuples(U63, U63), min_size=1, max_size=4), MESSAGES),
    st.builds(RemoveRecord, U63, KEYS),
    st.builds(TakenRecord, KEYS),
    st.builds(CommitRecord, U63),
    st.builds(PrepareRecord, U63, IDS),
    st.builds(ResolveRecord, IDS, st.booleans()),
    st.builds(DefineRecord, st.text(max_size=8), U63, st.dictionaries(st.text(max_size=8), U63, max_size=3)),
    st.builds(DeleteRecord, st.text(max_size=8), st.text(max_size=48)),
    st.builds(CheckpointRecord, U32, IDS, U63, U63, U63, U63, U63, U63, TIMES),
    st.builds(Run, U63, U63, st.binary(max_size=10)),
    st.builds(CountsRecord, st.dictionaries(U63, U63, max_size=5)),
    st.builds(EndRecord, U63),
    st.builds(RunHead, U32, IDS, U63),
    st.builds(EntriesRecord, st.lists(ENTRIES, max_size=3)),
)


def unframe(data: bytes, position: int) -> Record:
    head, payload = data[:FRAME_HEAD_BYTES], data[FRAME_HEAD_BYTES:]
    length, kind, crc = parse_head(head, position)
    assert length == len(payload)
    check(head, payload, crc)
    return decode(kind, payload)


@given(RECORDS, POSITIONS)
def test_what_is_framed_is_what_is_read(record: Record, position: int) -> None:
    assert unframe(b"".join(frame(record, position)), position) == record


@given(RECORDS, POSITIONS, st.data())
def test_a_frame_with_any_bit_flipped_is_no_frame(record: Record, position: int, data: st.DataObject) -> None:
    whole = b"".join(frame(record, position))
    flipped = bytearray(whole)
    flipped[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises((BadFrame, AssertionError)):
        unframe(bytes(flipped), position)


@given(RECORDS, POSITIONS, POSITIONS)
def test_a_frame_is_good_for_its_own_position_only(record: Record, position: int, other: int) -> None:
    if position != other:
        with pytest.raises(BadFrame, match=f"a record for position {position} stands here"):
            unframe(b"".join(frame(record, position)), other)


def test_the_bytes_of_a_frame_never_change() -> None:
    """If this fails the format has changed: docs/RECOVERY_LOG.md says what to do."""
    data = b"".join(frame(RemoveRecord(5, [1, 300, 70_000]), 0x0102030405060708))
    assert data.hex(" ", -4) == "0c000000 03000000 08070605 04030201 7cb67134 92059301 cd012cce 00011170"


def test_a_record_is_known_by_its_type_and_types_keep_their_numbers() -> None:
    numbers = {kind.name: int(kind) for kind in RecordType}
    assert numbers == {
        "GROUP": 1, "PUT": 2, "REMOVE": 3, "TAKEN": 4, "COMMIT": 5, "PREPARE": 6, "RESOLVE": 7, "DEFINE": 8,
        "DELETE": 9, "DECISION": 10, "FORGET": 11, "HEURISTIC": 12,
        "CHECKPOINT": 32, "RUN": 33, "COUNTS": 34, "END": 35, "RUN_HEAD": 36, "ENTRIES": 37,
        "BODIES": 38,
    }  # fmt: skip
    assert {type_name(kind) for kind in record._TYPES.values()} == set(numbers) - {"GROUP"}


def test_zeros_are_where_no_record_begins() -> None:
    with pytest.raises(BadFrame, match="no record begins here"):
        parse_head(bytes(FRAME_HEAD_BYTES), 17)


def test_zeros_at_position_zero_are_no_record_either() -> None:
    with pytest.raises(BadFrame):
        parse_head(bytes(FRAME_HEAD_BYTES), 0)


@pytest.mark.parametrize("size", [0, 1, FRAME_HEAD_BYTES - 1])
def test_a_head_that_ends_early_is_no_head(size: int) -> None:
    with pytest.raises(BadFrame, match="ends within a record's head"):
        parse_head(frame(CommitRecord(1), 0)[0][:size], 0)


def test_a_type_that_nobody_knows_is_refused() -> None:
    with pytest.raises(BadFrame, match="head is damaged"):
        parse_head(frame_head(31, b"", 0), 0)


def test_a_length_that_no_record_has_is_refused_before_anything_is_read() -> None:
    assert parse_head(frame_head(RecordType.PUT, b"", 0), 0)[:2] == (0, RecordType.PUT)
    longest, too_long = (
        length.to_bytes(4, "little") + frame_head(RecordType.PUT, b"", 0)[4:]
        for length in (PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX + 1)
    )
    assert parse_head(longest, 0)[0] == PAYLOAD_BYTES_MAX
    with pytest.raises(BadFrame, match="head is damaged"):
        parse_head(too_long, 0)


def test_old_records_are_read_when_a_message_has_gained_fields() -> None:
    """Fields go to the end and have defaults, so the arrays of an older version are shorter."""
    payload = bytes([0x93, 0x00, 0x91, 0x92, 0x05, 0x07, 0x91, 0xC4, 0x01]) + b"x"
    assert decode(RecordType.PUT, payload) == PutRecord(0, [(5, 7)], Message(b"x"))


def test_a_format_of_a_later_release_is_refused_and_those_of_earlier_ones_are_read() -> None:
    for version in range(1, FORMAT_VERSION + 1):
        require_format("a file", version)
    for version in (0, FORMAT_VERSION + 1):
        with pytest.raises(FormatUnsupported):
            require_format("a file", version)


# --- files ------------------------------------------------------------------------------------

HEAD = RunHead(FORMAT_VERSION, bytes(12), 5)


def whole_file(*chunks: Record) -> bytes:
    return b"".join(frame_file(HEAD, chunks))


def test_a_file_is_its_head_its_chunks_and_their_number() -> None:
    chunks = [BodiesRecord([b"a"]), BodiesRecord([b"b", b"c"])]
    content = memoryview(whole_file(*chunks))
    found: list[Record] = []
    position = 0
    while position < len(content):
        record, position = parse(content, position)
        found.append(record)
    assert found == [HEAD, *chunks, EndRecord(2)]
    assert position == len(content)


def test_a_file_that_ends_within_a_record_has_no_such_record() -> None:
    content = memoryview(b"".join(frame(CommitRecord(70_000), 0)))
    assert parse(content, 0) == (CommitRecord(70_000), len(content))
    for cut in range(FRAME_HEAD_BYTES, len(content)):
        with pytest.raises(BadFrame, match="the file ends within a record"):
            parse(content[:cut], 0)


def test_a_record_in_a_file_is_read_only_with_its_crc() -> None:
    content = bytearray(b"".join(frame(CommitRecord(1), 0)))
    content[-1] ^= 1
    with pytest.raises(BadFrame, match="CRC"):
        parse(memoryview(content), 0)


def test_a_group_stands_in_no_file() -> None:
    with pytest.raises(BadFrame, match="a GROUP record stands only in a log"):
        parse(memoryview(frame_head(RecordType.GROUP, b"", 0)), 0)


@pytest.mark.parametrize("payload", [b"\xc1", b"\x91\xa1x", b"\x91" * 5_000], ids=["no value", "text", "nested"])
def test_a_payload_that_is_no_record_is_a_bad_frame(payload: bytes) -> None:
    with pytest.raises(BadFrame, match="a whole COMMIT record cannot be understood"):
        parse(memoryview(frame_head(RecordType.COMMIT, payload, 0) + payload), 0)


# --- puts to several queues -------------------------------------------------------------------


def shared_put() -> PutRecord:
    put = PutRecord(0, [(1, 10), (2, 11)], Message(b"body", message_id=b"first"))
    put.add_alike([(3, 12), (4, 13)], Message(b"body", message_id=b"second"))
    put.add_alike([(5, 14)], Message(b"body", message_id=b"third"))
    return put


def test_a_put_brings_each_queue_its_own_message_with_the_shared_body() -> None:
    arrivals = [(queue, key, message.message_id, message.body) for queue, key, message in shared_put().arrivals()]
    ids = [b"first", b"first", b"second", b"second", b"third"]
    assert arrivals == [(queue, queue + 9, id_, b"body") for queue, id_ in enumerate(ids, 1)]


def test_a_put_stores_a_shared_body_once() -> None:
    assert frame(shared_put(), 0)[1].count(b"body") == 1


def test_the_last_key_of_a_put_is_that_of_its_last_target() -> None:
    put = shared_put()
    assert put.key_last == 14
    put.alike = put.alike[:1]
    assert put.key_last == 13
    put.alike = []
    assert put.key_last == 11


def test_the_size_that_further_targets_add_is_estimated_closely_and_never_too_low() -> None:
    put = shared_put()
    alone = PutRecord(0, put.targets[:1], put.message)
    assert alone.extra_bytes == 0
    added = len(frame(put, 0)[1]) - len(frame(alone, 0)[1])
    assert added <= put.extra_bytes <= added + 20 * 5
