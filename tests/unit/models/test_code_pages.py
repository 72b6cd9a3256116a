# SPDX-License-Identifier: Apache-2.0
"""The known answers are written by hand, not taken from the tables under test."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors import CodePageUnknown, MessageUnreadable, MessageUnwritable
from entrepot.models.code_pages import CODE_PAGES, codec_of, decode, encode
from folding import for_each


@for_each(
    ("ccsid", "text", "data"),
    [
        (1208, "Zürich €", "5AC3BC7269636820E282AC"),
        (819, "Zürich", "5AFC72696368"),
        (1252, "€", "80"),
        (5348, "€", "80"),
        (923, "€", "A4"),
        (858, "€", "D5"),
        (850, "ü", "81"),
        (437, "é", "82"),
        (912, "Ł", "A3"),
        (1250, "Ł", "A3"),
        (1251, "Я", "DF"),
        (943, "日本", "93FA967B"),
        (932, "日本", "93FA967B"),
        (33722, "日本", "C6FCCBDC"),
        (1386, "中", "D6D0"),
        (950, "中", "A4A4"),
        (970, "한", "C7D1"),
        (1201, "A€", "004120AC"),
        (1202, "A€", "4100AC20"),
        (13488, "A", "0041"),
        (37, "HELLO 123!", "C8C5D3D3D640F1F2F35A"),
        (500, "HELLO 123!", "C8C5D3D3D640F1F2F34F"),
        (37, "[]", "BABB"),
        (500, "[]", "4A5A"),
        (1047, "[]^", "ADBD5F"),
        (1047, "¬", "B0"),
        (1047, "\x85\n", "1525"),
        (273, "ÄÖÜäöüß@", "4AE05AC06AD0A1B5"),
        (1141, "ÄÖÜäöüß@€", "4AE05AC06AD0A1B59F"),
        (1140, "€", "9F"),
        (1148, "€!", "9F4F"),
        (277, "ÆØÅ", "7B7C5B"),
        (1142, "€", "5A"),
        (278, "ÄÖÅäöå\\É", "7B7C5BC06AD071E0"),
        (280, "£$", "7B5B"),
        (284, "ñÑ", "6A7B"),
        (285, "£$", "5B4A"),
        (1146, "£$€", "5B4A9F"),
        (297, "àéèç", "7CC0D0E0"),
        (871, "ÞþÆæ", "4AC05AD0"),
        (870, "ŁłŚś", "BA9AAA8A"),
        (1025, "А", "B9"),
        (1154, "€", "E1"),
    ],
)
def test_text_in_a_code_page_has_the_bytes_of_its_chart(ccsid: int, text: str, data: str) -> None:
    assert encode(text, ccsid) == bytes.fromhex(data)
    assert decode(bytes.fromhex(data), ccsid) == text


def test_1200_takes_its_byte_order_from_the_encoding() -> None:
    assert encode("A", 1200, encoding=273) == b"\0A"
    assert encode("A", 1200, encoding=546) == b"A\0"
    assert decode(b"\0A", 1200, encoding=273) == "A"


def test_every_listed_code_page_has_a_codec_that_says_ascii_letters_and_digits() -> None:
    text = "ABCXYZabcxyz0123456789 <>&/.,:;()+-*=?_'\""
    for ccsid in CODE_PAGES:
        codecs.lookup(codec_of(ccsid))
        assert decode(encode(text, ccsid), ccsid).lstrip("\ufeff") == text, ccsid


EBCDIC = [ccsid for ccsid, codec in CODE_PAGES.items() if codec.startswith("ebcdic")]


@for_each("ccsid", EBCDIC)
def test_an_ebcdic_page_of_ours_has_256_different_characters(ccsid: int) -> None:
    every = bytes(range(256))
    text = decode(every, ccsid)
    assert len(set(text)) == 256
    assert encode(text, ccsid) == every


@pytest.mark.parametrize("ccsid", [1, 930, 99999, -1, -2, -4])
def test_an_unknown_code_page_is_refused_by_number(ccsid: int) -> None:
    with pytest.raises(CodePageUnknown) as caught:
        codec_of(ccsid)
    assert caught.value.ccsid == ccsid
    with pytest.raises(CodePageUnknown):
        decode(b"a", ccsid)
    with pytest.raises(CodePageUnknown):
        encode("a", ccsid)


def test_a_byte_that_the_page_lacks_is_told_with_its_offset_in_the_message() -> None:
    with pytest.raises(MessageUnreadable) as caught:
        decode(b"ab\xff", 1208, "Root.MRM.name", 100)
    assert caught.value.offset == 102
    assert caught.value.path == "Root.MRM.name"
    with pytest.raises(MessageUnreadable):
        decode(b"\0", 1201)


def test_a_character_that_the_page_lacks_is_told_with_its_place() -> None:
    with pytest.raises(MessageUnwritable) as caught:
        encode("12 €", 819, "Root.MRM.price")
    assert caught.value.path == "Root.MRM.price"
    assert "'€' (character 4)" in str(caught.value)
    with pytest.raises(MessageUnwritable):
        encode("€", 1047)
    with pytest.raises(MessageUnwritable):
        encode("\ud800", 1208)


@given(st.sampled_from(sorted(CODE_PAGES)), st.binary(max_size=40))
@settings(max_examples=300)
def test_any_bytes_are_text_or_an_error_of_ours(ccsid: int, data: bytes) -> None:
    try:
        text = decode(data, ccsid)
    except MessageUnreadable as error:
        assert 0 <= error.offset <= len(data)
        return
    try:
        encode(text, ccsid)
    except MessageUnwritable:
        # gb2312 and others read more sequences than they write.
        assert CODE_PAGES[ccsid].startswith(("utf-16", "utf-32", "cp9", "gb", "euc"))


@given(st.sampled_from(EBCDIC), st.text(max_size=30))
def test_text_comes_back_or_an_error_of_ours(ccsid: int, text: str) -> None:
    try:
        data = encode(text, ccsid)
    except MessageUnwritable:
        return
    assert decode(data, ccsid) == text
