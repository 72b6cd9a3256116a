# SPDX-License-Identifier: Apache-2.0
"""Bytes that mean harm: cut short, with huge counts, or with noise. Nothing but our errors, and at once."""

from __future__ import annotations

import random
import time
import tracemalloc

import pytest

from entrepot.errors import CodePageUnknown, MessageUnreadable, MessageUnwritable
from entrepot.limits import BODY_BYTES_MAX
from entrepot.models.cwf import CwfCodec
from entrepot.models.cwf.codec import SETTINGS_KEPT
from unit.models.cwf_models import (
    BIG,
    BINARY,
    DATE,
    DECIMAL,
    EBCDIC,
    FLOAT,
    INTEGER,
    LATIN,
    STRING,
    UTF8,
    ZOS,
    choice,
    codec_of,
    group,
    plain,
    simple,
    tree,
)


def everything() -> CwfCodec:
    item = group(
        "ITEM",
        simple("SKU", STRING, "string", 3),
        simple("PRICE", DECIMAL, "packed", 3, decimals=2),
        simple("N", INTEGER, "integer", 1),
        simple("TAG", INTEGER, "external", 2, occurs_most=9, occurs_least=0, count_from="N"),
        most=9,
        count_from="COUNT",
    )
    return codec_of(
        simple("ID", INTEGER, "external", 4),
        simple("WHEN", DATE, "packed", 4, format="yyyyDDD"),
        simple("COUNT", INTEGER, "integer", 2),
        item,
        simple("L", INTEGER, "integer", 1),
        simple("NOTE", STRING, "string", length_from="L"),
        choice(simple("SUM", DECIMAL, "packed", 4, decimals=2), simple("WHY", STRING, "string", 4)),
        simple("F", FLOAT, "float", 8, alignment=8),
    )


GOOD = tree(
    ("ID", 42),
    ("WHEN", "2004-02-29"),
    ("ITEM", [("SKU", "abc"), ("PRICE", "9.99"), ("TAG", 1), ("TAG", -2)]),
    ("ITEM", [("SKU", "x"), ("PRICE", "-0.01")]),
    ("NOTE", "hello"),
    ("WHY", "late"),
    ("F", 1.5),
)


@pytest.mark.parametrize(("ccsid", "encoding"), [(LATIN, BIG), (EBCDIC, ZOS), (UTF8, 546)])
def test_a_message_cut_at_every_byte_is_refused_within_its_bytes(ccsid: int, encoding: int) -> None:
    codec = everything()
    body = codec.render(GOOD, ccsid, encoding)
    assert len(plain(codec.parse(body, ccsid, encoding))) == 9
    for length in range(len(body)):
        with pytest.raises(MessageUnreadable) as refused:
            codec.parse(body[:length], ccsid, encoding)
        assert 0 <= refused.value.offset <= length
    with pytest.raises(MessageUnreadable, match="goes on for 1 bytes") as refused:
        codec.parse(body + b"\0", ccsid, encoding)
    assert refused.value.offset == len(body)


def test_noise_raises_nothing_but_our_errors() -> None:
    codec = everything()
    source = random.Random(5)
    body = codec.render(GOOD, LATIN, BIG)
    read = 0
    for _ in range(1500):
        noisy = bytearray(body)
        for _ in range(source.randint(1, 4)):
            noisy[source.randrange(len(noisy))] = source.randrange(256)
        try:
            codec.parse(
                bytes(noisy), source.choice((LATIN, EBCDIC, UTF8, 1200, 943)), source.choice((BIG, ZOS, 546, 0))
            )
            read += 1
        except MessageUnreadable as refused:
            assert 0 <= refused.offset <= len(noisy)
    assert read > 0


@pytest.mark.parametrize("count", [999_999_999, 2**31 - 1])
def test_a_huge_count_fails_at_once_without_taking_memory(count: int) -> None:
    item = group("T", simple("A", STRING, "string", 1), simple("B", INTEGER, "integer", 2), most=None, count_from="N")
    codec = codec_of(simple("N", INTEGER, "integer", 4), item)
    body = count.to_bytes(4, "big") + b"123456"
    codec.parse(b"\0\0\0\0", LATIN, BIG)
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(MessageUnreadable, match="and the message has 6 left"):
        codec.parse(body, LATIN, BIG)
    took = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert took < 2
    assert peak < 100_000


def test_a_huge_count_of_things_that_may_be_empty_fails_at_once() -> None:
    row = group(
        "R", simple("C", STRING, "string", 1, occurs_most=9, occurs_least=0, count_from="M"), most=None, count_from="N"
    )
    codec = codec_of(simple("N", INTEGER, "integer", 4), simple("M", INTEGER, "integer", 1), row)
    with pytest.raises(MessageUnreadable, match=r"M\.R"):
        codec.parse((10**9).to_bytes(4, "big") + b"\0", LATIN, BIG)


def test_a_fixed_table_larger_than_the_message_fails_at_once() -> None:
    codec = codec_of(simple("A", STRING, "string", 10, occurs_most=999_999_999))
    with pytest.raises(MessageUnreadable, match="it needs 9999999990 bytes"):
        codec.parse(b"0123456789", LATIN, BIG)


def test_a_fixed_table_is_not_filled_up_beyond_the_longest_message() -> None:
    codec = codec_of(simple("A", STRING, "string", 10, occurs_most=999_999_999, default=""))
    with pytest.raises(MessageUnwritable, match=f"longer than {BODY_BYTES_MAX}"):
        codec.render(tree(("A", "x")), LATIN, BIG)


def test_a_huge_length_in_characters_is_not_looked_for() -> None:
    codec = codec_of(
        simple("L", INTEGER, "integer", 8), simple("T", STRING, "string", length_from="L", length_unit="characters")
    )
    with pytest.raises(MessageUnreadable):
        codec.parse((2**62).to_bytes(8, "big") + b"abc", UTF8, BIG)


def test_unknown_code_pages_are_refused_and_made_up_encodings_do_not_fill_memory() -> None:
    codec = codec_of(simple("A", BINARY, "binary", 1))
    with pytest.raises(CodePageUnknown):
        codec.parse(b"x", 99999, BIG)
    for encoding in range(3 * SETTINGS_KEPT):
        codec.parse(b"x", LATIN, encoding)
    assert len(codec._contents) <= SETTINGS_KEPT


def test_a_surrogate_that_no_page_has_is_not_written() -> None:
    codec = codec_of(simple("A", STRING, "string", 4))
    with pytest.raises(MessageUnwritable, match="code page has no"):
        codec.render(tree(("A", "\ud800")), UTF8, BIG)
