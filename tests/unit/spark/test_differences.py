# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.message import Message
from entrepot.spark.replaying.differences import NOTHING, Difference, SentMessage, compare, compare_messages, leaves


def differing(before: bytes, after: bytes) -> list[tuple[str, str, str]]:
    return list(compare_messages(Message(before), Message(after)))


def test_xml_is_compared_by_its_fields() -> None:
    before = b"<order id='1'><item><price>1</price></item><item><price>2</price></item></order>"
    after = b"<order id='1'><item><price>1</price></item><item><price>3</price><note>x</note></item></order>"
    assert differing(before, after) == [
        ("body.order.item[2].price", "2", "3"),
        ("body.order.item[2].note", NOTHING, "x"),
    ]


def test_json_is_compared_by_its_fields_and_their_types() -> None:
    assert differing(b'{"a": 1, "b": [1, 2]}', b'{"a": "1", "b": [1, 5]}') == [
        ("body.Data.a", "1 (INTEGER)", "1"),
        ("body.Data.b.Item[2]", "2 (INTEGER)", "5 (INTEGER)"),
    ]


def test_bytes_are_compared_by_the_first_that_differs() -> None:
    ((path, before, after),) = differing(b"\x00abcdef", b"\x00abXdef")
    assert (path, before, after) == ("body", "offset 3: 63646566 'cdef'", "offset 3: 58646566 'Xdef'")
    ((_, before, after),) = differing(b"\x01" * 100_000, b"\x01" * 100_001)
    assert (before, after) == ("offset 100000: ends after 100000 bytes", "offset 100000: 01")


def test_other_bytes_with_the_same_fields_are_told_as_that() -> None:
    ((path, before, _),) = differing(b"<a><b>1</b></a>", b"<a><b  >1</b></a>")
    assert path == "body"
    assert "the same fields in other bytes" in before


def test_what_looks_like_xml_and_is_none_is_bytes() -> None:
    assert leaves(Message(b"<a><b>")) is None
    ((path, before, _),) = differing(b"<a><b>", b"<a><c>")
    assert (path, before) == ("body", "offset 4: 623e 'b>'")


def test_descriptor_and_properties_are_compared() -> None:
    before = Message(b"", format="MQSTR", priority=3, properties={"region": "EU", "n": 1})
    after = Message(b"", format="MQSTR", priority=4, properties={"region": "EU", "n": "1", "new": True})
    assert list(compare_messages(before, after)) == [
        ("priority", "3", "4"),
        ("properties.n", "1 (int)", "1 (str)"),
        ("properties.new", NOTHING, "true (bool)"),
    ]


def test_times_users_and_new_ids_say_nothing() -> None:
    before = Message(b"", message_id=b"new 1", put_time=1.0, user="a", application="x", backout_count=1)
    after = Message(b"", message_id=b"new 2", put_time=2.0, user="b", application="y")
    assert list(compare_messages(before, after, source_id=b"source")) == []


def test_an_id_that_was_kept_before_and_is_new_now_is_told() -> None:
    found = compare_messages(Message(b"", message_id=b"\x01"), Message(b"", message_id=b"\x02"), source_id=b"\x01")
    assert list(found) == [("message_id", "01", "02")]


def test_fields_that_were_not_recorded_are_not_compared() -> None:
    found = compare_messages(Message(b"x"), Message(b"x", ccsid=37, properties={"a": 1}), known={"priority"})
    assert list(found) == []


def test_outputs_are_paired_by_destination_in_their_order() -> None:
    before = [SentMessage("A", Message(b"1")), SentMessage("B", Message(b"2")), SentMessage("A", Message(b"3"))]
    after = [SentMessage("B", Message(b"2")), SentMessage("A", Message(b"1")), SentMessage("C", Message(b"\x00"))]
    assert compare(before, after) == [
        Difference("A", "message", "1 bytes: 33 '3'", NOTHING),
        Difference("C", "message", NOTHING, "1 bytes: 00"),
    ]
    assert compare(before, before) == []


@pytest.mark.parametrize("outputs", [500])
def test_a_message_has_a_hundred_differences_at_most(outputs: int) -> None:
    assert len(compare([], [SentMessage("A", Message(b""))] * outputs)) == 100


def test_two_versions_may_have_two_names() -> None:
    before, after = (Message(b"", properties={"entrepot_flow": name, "entrepot_error": "x"}) for name in ("old", "new"))
    assert list(compare_messages(before, after)) == []
