# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from entrepot.errors import InvalidArgument
from entrepot.message import Message, MessageType, Report
from entrepot.server.amqp.codec import (
    Byte,
    Described,
    Malformed,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    decode,
    encode,
)
from entrepot.server.amqp.mapping import KEPT_PROPERTIES, decode_message, encode_message
from folding import for_each

NOW = 1_700_000_000.0
HEADER, ANNOTATIONS, PROPERTIES, APPLICATION, DATA, SEQUENCE, VALUE = 0x70, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77


def section(code: int, value: Any) -> bytes:
    return b"\x00\x53" + bytes((code,)) + encode(value)


def sections(data: bytes) -> dict[int, Any]:
    found, at = {}, 0
    while at < len(data):
        value, at = decode(data, at)
        found[value.descriptor] = value.value
    return found


# --- ours to AMQP and back ----------------------------------------------------------------------

IDS = st.one_of(st.binary(max_size=24), st.text(max_size=20).map(str.encode)).filter(
    lambda identifier: not identifier.startswith((b"AMQP_", b"ID:"))
)
NAMES = st.text("ABC.", min_size=1, max_size=10)
PROPERTY = st.one_of(
    st.text(max_size=50), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.booleans(), st.binary()
)
PROPERTIES_OF_OURS = st.dictionaries(
    st.text(min_size=1, max_size=20).filter(lambda name: name not in KEPT_PROPERTIES), PROPERTY, max_size=4
)


@st.composite
def our_messages(draw: Any) -> Message:
    group_id = draw(IDS)
    reply_to = draw(st.one_of(st.just(""), NAMES))
    return Message(
        draw(st.binary(max_size=400)),
        draw(IDS),
        draw(IDS),
        persistent=draw(st.booleans()),
        priority=draw(st.integers(0, 9)),
        type=draw(st.sampled_from(MessageType)),
        expiry_s=draw(st.one_of(st.none(), st.integers(1, 10**7).map(lambda ms: ms / 1000))),
        reply_to=reply_to,
        reply_to_manager=draw(st.one_of(st.just(""), NAMES)) if reply_to else "",
        group_id=group_id,
        sequence=draw(st.integers(1, 999_999_999)) if group_id else 1,
        last_in_group=draw(st.booleans()) if group_id else False,
        report=draw(st.sampled_from([0, int(Report.ARRIVAL | Report.WITH_DATA)])),
        feedback=draw(st.sampled_from([0, 259])),
        format=draw(st.sampled_from(["", "MQSTR", "AMQP", "MQHRF2"])),
        ccsid=draw(st.sampled_from([1208, 819])),
        properties=draw(PROPERTIES_OF_OURS),
    )


@given(our_messages())
def test_our_message_returns_from_amqp(message: Message) -> None:
    arrived, persistent, priority, to = decode_message(encode_message(message, "Q"), NOW)
    assert replace(arrived, persistent=persistent, priority=priority) == message
    assert to == "Q"


# --- AMQP to ours and back ----------------------------------------------------------------------

AMQP_ID = st.one_of(
    st.none(), st.text(max_size=20), st.binary(max_size=20), st.integers(0, 2**64 - 1).map(ULong), st.uuids()
)
TEXT = st.one_of(st.none(), st.text(max_size=20))
SYMBOL = st.one_of(st.none(), st.text("abc/", min_size=1, max_size=10).map(Symbol))
BODIES = st.one_of(
    st.binary(max_size=400).map(lambda body: (DATA, body)),
    st.text(max_size=400).map(lambda body: (VALUE, body)),
    st.binary(max_size=400).map(lambda body: (VALUE, body)),
    st.one_of(st.none(), st.booleans(), st.floats(allow_nan=False), st.uuids()).map(lambda body: (VALUE, body)),
    st.dictionaries(st.text(max_size=5), st.integers(0, 5).map(UInt), max_size=3).map(lambda body: (VALUE, body)),
    st.lists(st.text(max_size=5), max_size=3).map(lambda body: (SEQUENCE, body)),
)


@st.composite
def amqp_messages(draw: Any) -> dict[int, Any]:
    group_id = draw(TEXT)
    properties = [
        draw(AMQP_ID),
        None,
        None,
        draw(TEXT),
        draw(st.sampled_from([None, "ANSWERS", "ANSWERS@QM2", "topic://x", "not a queue", ""])),
        draw(AMQP_ID),
        draw(SYMBOL),
        draw(SYMBOL),
        None,
        None,
        group_id,
        draw(st.integers(1, 999_999_999).map(UInt)) if group_id is not None else None,
        draw(TEXT),
    ]
    code, body = draw(BODIES)
    return {
        HEADER: [draw(st.booleans()), draw(st.integers(0, 9).map(UByte)), draw(st.sampled_from([None, UInt(5000)]))],
        PROPERTIES: properties,
        APPLICATION: draw(PROPERTIES_OF_OURS),
        code: body,
    }


@given(amqp_messages())
def test_amqp_message_returns_from_us(sent: dict[int, Any]) -> None:
    data = b"".join(section(code, value) for code, value in sent.items())
    message, persistent, priority, _ = decode_message(data, NOW)
    returned = sections(encode_message(replace(message, persistent=persistent, priority=priority), "Q"))
    body = max(sent)
    assert returned[body] == sent[body]
    assert type(returned[body]) is type(sent[body])
    assert returned.get(APPLICATION, {}) == sent[APPLICATION]
    durable, wanted, ttl = (*returned[HEADER], None, None, None)[:3]
    assert [bool(durable), 4 if wanted is None else wanted, ttl] == sent[HEADER]
    fields = returned[PROPERTIES] + [None] * (13 - len(returned[PROPERTIES]))
    for index in (0, 3, 4, 5, 6, 7, 10, 11, 12):
        if index != 10 or sent[PROPERTIES][10]:
            assert _same(fields[index], sent[PROPERTIES][index], index), index


def _same(returned: Any, sent: Any, index: int) -> bool:
    # An empty group is no group.
    return returned == sent or (index == 11 and returned is None)


# --- rules of the table -------------------------------------------------------------------------


def arrived(*parts: bytes) -> Message:
    return decode_message(b"".join(parts), NOW)[0]


def test_message_of_one_section() -> None:
    message, persistent, priority, to = decode_message(section(DATA, b"x"), NOW)
    assert (message.body, persistent, priority, to) == (b"x", False, 4, None)


def test_pieces_of_data_are_one_body() -> None:
    assert arrived(section(DATA, b"a"), section(DATA, b""), section(DATA, b"b" * 300)).body == b"a" + b"b" * 300


def test_body_that_is_no_bytes_is_kept_encoded() -> None:
    value = section(VALUE, {"a": 1})
    message = arrived(value)
    assert (message.body, message.format) == (value, "AMQP")
    sequence = section(SEQUENCE, [1]) + section(SEQUENCE, [2])
    assert arrived(sequence).body == sequence


def test_text_is_text_for_everybody() -> None:
    message = arrived(section(VALUE, "Größe"))
    assert (message.body, message.format) == ("Größe".encode(), "MQSTR")


def test_text_that_is_none_leaves_as_data() -> None:
    assert sections(encode_message(Message(b"\xff", format="MQSTR"), "Q"))[DATA] == b"\xff"


def test_sections_that_are_none_leave_as_data() -> None:
    forged = section(DATA, b"x")
    assert sections(encode_message(Message(forged, format="AMQP"), "Q"))[DATA] == forged
    assert sections(encode_message(Message(b"garbage", format="AMQP"), "Q"))[DATA] == b"garbage"


def test_numeric_and_symbolic_descriptors_mean_the_same() -> None:
    assert arrived(b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x75" + encode(b"x")).body == b"x"
    assert arrived(b"\x00" + encode(Symbol("amqp:data:binary")) + encode(b"x")).body == b"x"


def test_expiry_is_the_time_to_live_or_else_the_time_of_death() -> None:
    late = [None] * 8 + [Timestamp(int(NOW * 1000) + 2000)]
    assert arrived(section(HEADER, [False, None, UInt(1500)]), section(PROPERTIES, late)).expiry_s == 1.5
    assert arrived(section(PROPERTIES, late)).expiry_s == pytest.approx(2.0)
    dead = [None] * 8 + [Timestamp(1)]
    assert arrived(section(PROPERTIES, dead)).expiry_s == 0.001
    assert arrived(section(HEADER, [None, None, UInt(0)])).expiry_s is None


def test_long_expiry_leaves_as_time_of_death() -> None:
    returned = sections(encode_message(Message(b"", put_time=NOW, expiry_s=10**8), "Q"))
    assert returned[PROPERTIES][8] == int((NOW + 10**8) * 1000)


def test_delay_is_an_annotation() -> None:
    assert arrived(section(ANNOTATIONS, {Symbol("x-opt-delivery-delay"): UInt(2500)})).delay_s == 2.5
    at = {Symbol("x-opt-delivery-time"): int((NOW + 3) * 1000)}
    assert arrived(section(ANNOTATIONS, at)).delay_s == pytest.approx(3.0)


@pytest.mark.parametrize(("said", "retained"), [(True, True), (False, False), (None, False)])
def test_retain_is_an_annotation(said: bool | None, retained: bool) -> None:
    assert arrived(section(ANNOTATIONS, {Symbol("x-opt-retain"): said})).retained is retained


@pytest.mark.parametrize("said", ["true", 1, []])
def test_retain_is_true_or_false(said: Any) -> None:
    with pytest.raises(InvalidArgument, match="true or false"):
        arrived(section(ANNOTATIONS, {Symbol("x-opt-retain"): said}))


@pytest.mark.parametrize("retained", [True, False])
def test_publication_says_its_topic(retained: bool) -> None:
    topic = "prices/" + "ä" * 300
    returned = sections(encode_message(Message(b"x", topic=topic, retained=retained), "SYSTEM.MANAGED"))
    assert returned[PROPERTIES][2] == f"topic://{topic}"
    kept = {"x-opt-retained": True} if retained else {}
    assert returned[ANNOTATIONS] == {"x-opt-topic": topic, **kept}


def test_what_only_we_may_say_of_a_publication_is_left_out() -> None:
    said = {Symbol("x-opt-topic"): "other", Symbol("x-opt-retained"): True}
    assert arrived(section(ANNOTATIONS, said), section(DATA, b"x")) == Message(b"x")


def test_annotations_of_others_are_left_out() -> None:
    message = arrived(section(ANNOTATIONS, {Symbol("x-opt-other"): 1}), section(DATA, b"x"))
    assert message == Message(b"x")


def test_type_of_a_jms_message_returns() -> None:
    kind = {Symbol("x-opt-jms-msg-type"): Byte(2)}
    message = arrived(section(ANNOTATIONS, kind), section(DATA, b"x"))
    assert sections(encode_message(message, "Q"))[ANNOTATIONS] == kind


def test_group_without_a_sequence_begins() -> None:
    assert arrived(section(PROPERTIES, [None] * 10 + ["g"])).sequence == 1
    assert arrived(section(PROPERTIES, [None] * 10 + ["g", UInt(0)])).sequence == 1


def test_tries_are_told() -> None:
    assert sections(encode_message(Message(b"", priority=4), "Q"))[HEADER] == [None, None, None, True]
    assert sections(encode_message(Message(b"", priority=4, backout_count=3), "Q"))[HEADER][3:] == [None, 3]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (UByte(5), 5),
        (ULong(5), 5),
        (Timestamp(12345), 12345),
        (Symbol("s"), "s"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (1.5, 1.5),
    ],
    ids=repr,
)
def test_properties_of_other_types(value: Any, kept: Any) -> None:
    found = arrived(section(APPLICATION, {"p": value})).properties["p"]
    assert found == kept
    assert type(found) is type(kept)


def test_null_properties_are_left_out() -> None:
    assert arrived(section(APPLICATION, {"p": None, "q": 1})).properties == {"q": 1}


@pytest.mark.parametrize("value", [[1], {"a": 1}, Described(ULong(1), 1)], ids=repr)
def test_properties_that_cannot_be_kept(value: Any) -> None:
    with pytest.raises(InvalidArgument):
        arrived(section(APPLICATION, {"p": value}))


def test_decimals_cannot_be_kept() -> None:
    with pytest.raises(InvalidArgument, match="decimal"):
        arrived(b"\x00\x53\x74\xc1\x09\x02\xa1\x01p\x74\x00\x00\x00\x01")


@pytest.mark.parametrize("name", sorted(KEPT_PROPERTIES))
def test_names_of_fields_cannot_be_properties(name: str) -> None:
    with pytest.raises(InvalidArgument):
        arrived(section(APPLICATION, {name: "x"}))


@for_each(
    "data",
    [
        b"x",
        b"\x00\x53\x79\x40",
        b"\x00\x53\x75",
        b"\x00\x53\x75\xa0\x05x",
        section(DATA, "text"),
        section(DATA, b"x") + section(VALUE, 1),
        section(VALUE, 1) + section(VALUE, 1),
        section(VALUE, 1) + section(DATA, b"x"),
        section(HEADER, {"a": 1}),
        section(HEADER, [True, "high"]),
        section(HEADER, [True, None, "long"]),
        section(PROPERTIES, [1.5]),
        section(PROPERTIES, [None] * 2 + [5]),
        section(PROPERTIES, [None] * 3 + [5]),
        section(PROPERTIES, [None] * 4 + [5]),
        section(PROPERTIES, [None] * 8 + ["soon"]),
        section(PROPERTIES, [None] * 10 + [5]),
        section(PROPERTIES, [None] * 14),
        b"\x00\x53\x73\xc0\x03\x02\x40\x40\x40",
        section(APPLICATION, [1]),
        section(ANNOTATIONS, [1]),
        section(ANNOTATIONS, {Symbol("x-opt-mq-type"): 99}),
        section(ANNOTATIONS, {Symbol("x-opt-delivery-delay"): "long"}),
    ],
    ids=bytes.hex,
)
def test_malformed_messages(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode_message(data, NOW)


@given(st.binary(max_size=100), st.integers(0, 200))
def test_any_bytes_are_a_message_or_not(noise: bytes, at: int) -> None:
    whole = section(HEADER, [True]) + section(PROPERTIES, ["id", b"u", "Q", "s"]) + section(DATA, b"body")
    for data in (noise, whole[:at] + noise + whole[at:]):
        try:
            decode_message(data, NOW)
        except (Malformed, InvalidArgument):
            continue
