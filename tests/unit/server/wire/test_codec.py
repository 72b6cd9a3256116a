# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.msgpack import encode as pack
from msgspec.structs import replace

from entrepot.errors import FrameTooLong, FrameUnreadable, ProtocolError, UnknownVerb
from entrepot.limits import BODY_BYTES_MAX, DISTRIBUTION_MAX, FRAME_OVERHEAD_BYTES_MAX, PROPERTIES_BYTES_MAX
from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import LONG_BODY_BYTES, decode, decode_asked, encode, encode_parts
from entrepot.server.wire.frame import HEAD, HEAD_BYTES
from entrepot.server.wire.verbs import PAYLOADS, Verb
from folding import for_each

from .payloads import ANSWERED, ASKED, any_frame, payloads_of

WITH_MESSAGE = [verb for verb, kind in PAYLOADS.items() if kind.__struct_fields__[-1:] == ("message",)]


def head_and_payload(frame: bytes) -> tuple[int, int, bytes]:
    length, verb, number = HEAD.unpack_from(frame)
    assert length == len(frame) - 4
    return verb, number, frame[HEAD_BYTES:]


# --- there and back ------------------------------------------------------------------------------


def test_every_verb_has_a_payload() -> None:
    assert set(PAYLOADS) == set(Verb)


@given(any_frame(), st.integers(0, 2**32 - 1))
def test_decode_is_the_inverse_of_encode_for_every_verb(said: tuple[Verb, Any], number: int) -> None:
    verb, payload = said
    found_verb, found_number, content = head_and_payload(encode(verb, number, payload))
    assert (found_verb, found_number) == (verb, number)
    assert decode(verb, content) == payload
    assert decode(verb, memoryview(content)) == payload
    if verb in ASKED:
        assert decode_asked(verb, content) == payload


@pytest.mark.parametrize("verb", WITH_MESSAGE)
def test_a_frame_in_parts_has_the_bytes_of_the_whole_frame(verb: Verb) -> None:
    @given(payloads_of(PAYLOADS[verb]), st.sampled_from([0, 1, LONG_BODY_BYTES - 1, LONG_BODY_BYTES, 200_000]))
    def equal(payload: Any, body_bytes: int) -> None:
        if payload.message is not None:
            payload = replace(payload, message=replace(payload.message, body=bytes(body_bytes)))
        parts = encode_parts(verb, 5, payload)
        assert b"".join(parts) == encode(verb, 5, payload)

    equal()


@pytest.mark.parametrize("verb", WITH_MESSAGE)
def test_a_long_body_is_not_copied(verb: Verb) -> None:
    body = bytes(LONG_BODY_BYTES)
    fields = [Message(body) if name == "message" else 0 for name in PAYLOADS[verb].__struct_fields__]
    assert any(part is body for part in encode_parts(verb, 1, PAYLOADS[verb](*fields)))


def test_what_a_later_version_adds_at_the_end_is_ignored() -> None:
    assert decode(Verb.CANCEL, pack([7, "later", {"and": "more"}])) == verbs.NumberPayload(7)


# --- what is no frame ----------------------------------------------------------------------------


@for_each("verb", [verb for verb in range(256) if verb not in PAYLOADS])
def test_unknown_verbs_are_refused(verb: int) -> None:
    for understand in (decode, decode_asked):
        with pytest.raises(UnknownVerb) as refused:
            understand(verb, b"\x90")
        assert refused.value.verb == verb


@for_each("verb", ANSWERED)
def test_answers_mean_nothing_where_one_is_asked(verb: Verb) -> None:
    with pytest.raises(UnknownVerb):
        decode_asked(verb, pack([None] * 8))


@given(st.sampled_from(sorted(PAYLOADS)), st.binary(max_size=200))
@example(Verb.COMMIT, b"")
@example(Verb.COMMIT, b"\x91\x01\x01")  # bytes behind the end
@example(Verb.COMMIT, b"\x91\xa11")
@example(Verb.MQSC, b"\x91\xa2\xff\xfe")  # not UTF-8
@example(Verb.MQSC, b"\x91\xa3\xed\xa0\x80")  # half of a surrogate pair
@example(Verb.PUT, b"\x96\xdd\xff\xff\xff\xff")  # four billion names, announced
@example(Verb.PREPARE, b"\x92\x01\xc6\xff\xff\xff\xff")
@example(Verb.MANAGE, b"\x92\xa1a\xdf\xff\xff\xff\xff")
@example(Verb.DONE, b"\x91\xc7\x0c\xff\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff")  # a time that is none
@example(Verb.DONE, b"\x91\x81\x80\x01")  # a map as the key of a map
@example(Verb.DONE, b"\xc1")
def test_bytes_are_a_payload_or_a_protocol_error(verb: Verb, data: bytes) -> None:
    for understand in (decode, decode_asked):
        try:
            understand(verb, data)
        except ProtocolError as refused:
            assert refused.outcome == "not_done"


@given(any_frame(), st.data())
def test_a_frame_cut_short_is_a_protocol_error(said: tuple[Verb, Any], data: st.DataObject) -> None:
    verb, payload = said
    content = pack(payload)
    cut = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(FrameUnreadable):
        decode(verb, content[:cut])


@for_each("verb", [Verb.DONE, Verb.MANAGE, Verb.PUT, Verb.BROWSE])
@for_each("nest", [b"\x91", b"\x81\xa1a", b"\x81"])
def test_what_nests_without_end_is_refused(verb: Verb, nest: bytes) -> None:
    for depth in (100, 10_000, 30_000):
        with pytest.raises(FrameUnreadable):
            decode(verb, b"\x96" + nest * depth)


def test_the_error_says_which_verb_and_shows_no_content() -> None:
    with pytest.raises(FrameUnreadable, match="HELLO cannot be understood") as refused:
        decode(Verb.HELLO, pack(["ENTREPOT", 1, "", "ann", 12345, "canary-Kx7-bird"]))
    assert "canary" not in str(refused.value)
    assert refused.value.__cause__ is None


# --- no more memory than bytes -------------------------------------------------------------------


def put(**fields: Any) -> bytes:
    message = Message(fields.pop("body", b""), properties=fields.pop("properties", {}))
    return pack(verbs.Put(fields.pop("queue", "Q"), 0, None, None, 0.0, message))


def lists(count: int) -> list[Any]:
    """A byte each on the wire, and eighty in memory."""
    return [[]] * count


SWELLING: dict[str, tuple[Verb, Callable[[], bytes]]] = {
    "a property": (Verb.PUT, lambda: put(properties={"a": lists(8_000_000)})),
    "a property that is just too long": (Verb.PUT, lambda: put(properties={"a": lists(1_200_000)})),
    "names": (Verb.PUT, lambda: put(queue=[""] * 8_000_000)),
    "a body": (Verb.PUT, lambda: b"\x96\xa1Q\x00\xc0\xc0\x00\x91" + pack(lists(8_000_000))),
    "behind the end": (Verb.PUT, lambda: b"\x97" + put()[1:] + pack(lists(8_000_000))),
    "a request": (Verb.REQUEST, lambda: b"\x96\xa1Q\xa1R\x01\xc0\xc0" + pack([b"", *([lists(100_000)] * 30)])),
    "a channel's message": (Verb.CHANNEL_MESSAGE, lambda: b"\x92\x01" + pack([b"", *([lists(100_000)] * 30)])),
    "arguments": (Verb.MANAGE, lambda: pack(["status", {"a": lists(8_000_000)}])),
    "no message": (Verb.GET, lambda: pack(["Q", 0, 0.0, None, lists(8_000_000)])),
    "an answer": (Verb.ANSWERS, lambda: pack([lists(8_000_000)])),
}


@for_each("what", SWELLING)
def test_a_frame_that_would_swell_in_memory_is_refused_at_once(what: str) -> None:
    verb, make = SWELLING[what]
    content = make()
    tracemalloc.start()
    begun = time.process_time()
    try:
        with pytest.raises(ProtocolError):
            decode_asked(verb, content)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
        assert time.process_time() - begun < 2
    finally:
        tracemalloc.stop()


def test_what_applications_may_send_is_not_refused() -> None:
    names = [f"{number:048d}@{number:048d}" for number in range(DISTRIBUTION_MAX)]
    properties = {f"{number:0100d}": "x" * 940 for number in range(1000)}
    assert 0.99 < sum(len(name) + len(text) for name, text in properties.items()) / PROPERTIES_BYTES_MAX < 1
    found = decode_asked(Verb.PUT, put(queue=names, properties=properties, body=bytes(5_000_000)))
    assert (found.queue, dict(found.message.properties), len(found.message.body)) == (names, properties, 5_000_000)


def test_the_longest_body_is_not_refused() -> None:
    found = decode_asked(Verb.PUT, put(body=bytes(BODY_BYTES_MAX)))
    assert len(found.message.body) == BODY_BYTES_MAX


def test_a_script_may_be_long_and_other_texts_not() -> None:
    script = "* a comment\n" * 100_000
    assert decode_asked(Verb.MQSC, pack([script])).script == script
    with pytest.raises(FrameTooLong):
        decode_asked(Verb.MQSC, pack(["x" * FRAME_OVERHEAD_BYTES_MAX]))
    with pytest.raises(FrameTooLong):
        decode_asked(Verb.DYNAMIC, pack(["x" * 70_000, ""]))


def test_a_long_frame_that_is_none_is_refused_as_such() -> None:
    for content in (b"\x96" + bytes(100_000), b"\x96\xa1Q\x00\xc0\xc0\x00\x05" + bytes(100_000), bytes(100_000)):
        with pytest.raises(FrameUnreadable):
            decode_asked(Verb.PUT, content)
    with pytest.raises(FrameUnreadable):
        decode_asked(Verb.PUT, b"\x96\xa1Q\x00\xc0\xc0\x00\x91" + b"\x91" * 100_000)
